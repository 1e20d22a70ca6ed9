//! The slow log: commands that took long.

/// Arguments of a command that are kept; the last one says how many more there were.
const ARGS_MAX: usize = 32;

/// Bytes of an argument that are kept.
const ARG_LEN_MAX: usize = 128;

/// A command that took long.
pub struct Entry {
    /// Ascending, never used twice.
    pub id: u64,
    /// Unix time in seconds.
    pub at_s: i64,
    /// What it took, in microseconds.
    pub took_us: u64,
    /// Its arguments, cut.
    pub args: Vec<Vec<u8>>,
    /// The client's address.
    pub addr: String,
    /// The client's name.
    pub name: Vec<u8>,
}

/// The kept arguments: the first ones, each cut. `args` yields all arguments.
pub fn cut<'a>(len: usize, args: impl Iterator<Item = &'a [u8]>) -> Vec<Vec<u8>> {
    let kept = if len > ARGS_MAX { ARGS_MAX - 1 } else { len };
    let mut cut: Vec<Vec<u8>> = args.take(kept).map(cut_argument).collect();
    if len > ARGS_MAX {
        cut.push(format!("... ({} more arguments)", len - kept).into_bytes());
    }
    cut
}

fn cut_argument(arg: &[u8]) -> Vec<u8> {
    if arg.len() <= ARG_LEN_MAX {
        return arg.to_vec();
    }
    let (kept, rest) = arg.split_at(ARG_LEN_MAX);
    [kept, format!("... ({} more bytes)", rest.len()).as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_arguments_and_long_ones_are_cut() {
        let args = |len: usize| cut(len, std::iter::repeat_n(&b"x"[..], len));
        assert_eq!(args(32), vec![b"x".to_vec(); 32]);
        assert_eq!((args(33).len(), args(33)[31].as_slice()), (32, &b"... (2 more arguments)"[..]));
        let long = [b'y'; 130];
        assert_eq!(cut(1, [&long[..128]].into_iter())[0], [b'y'; 128]);
        assert_eq!(cut(1, [&long[..]].into_iter())[0], [&[b'y'; 128][..], b"... (2 more bytes)"].concat());
    }
}
