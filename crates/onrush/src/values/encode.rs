//! Writing commands as RESP arrays of bulk strings, straight into the bytes that go out.

use crate::values::args::RedisWrite;

/// Commands encoded one after the other. The last one is open: further arguments go to it.
///
/// On the wire, the number of arguments comes before them, but it is not known when a command begins. So each argument
/// updates it: one digit in place, and one byte more of room at 10, 100, 1,000 …
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Encoder {
    bytes: Vec<u8>,
    start: usize,
    argc: usize,
}

impl Encoder {
    #[cfg(test)]
    pub(crate) const fn new() -> Encoder {
        Encoder { bytes: Vec::new(), start: 0, argc: 0 }
    }

    pub(crate) fn with_capacity(bytes: usize) -> Encoder {
        Encoder { bytes: Vec::with_capacity(bytes), start: 0, argc: 0 }
    }

    /// Begins the next command.
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.start = self.bytes.len();
        self.argc = 0;
        self.bytes.extend_from_slice(b"*0\r\n");
    }

    /// Adds an argument to the last command.
    #[inline]
    pub(crate) fn arg(&mut self, arg: &[u8]) {
        self.argc += 1;
        if self.argc < 10 {
            self.bytes[self.start + 1] = b'0' + self.argc as u8;
        } else {
            self.write_count();
        }
        if arg.len() < 10 {
            self.bytes.reserve(arg.len() + 6);
            self.bytes.extend_from_slice(&[b'$', b'0' + arg.len() as u8, b'\r', b'\n']);
        } else {
            let mut digits = itoa::Buffer::new();
            let digits = digits.format(arg.len()).as_bytes();
            self.bytes.reserve(arg.len() + digits.len() + 5);
            self.bytes.push(b'$');
            self.bytes.extend_from_slice(digits);
            self.bytes.extend_from_slice(b"\r\n");
        }
        self.bytes.extend_from_slice(arg);
        self.bytes.extend_from_slice(b"\r\n");
    }

    #[cold]
    fn write_count(&mut self) {
        let mut digits = itoa::Buffer::new();
        let digits = digits.format(self.argc).as_bytes();
        let at = self.start + 1;
        if self.bytes[at + digits.len() - 1] == b'\r' {
            self.bytes.insert(at, b'0');
        }
        self.bytes[at..at + digits.len()].copy_from_slice(digits);
    }

    /// Adds another encoder's last command, which becomes the last one here.
    pub(crate) fn append_last(&mut self, other: &Encoder) {
        self.start = self.bytes.len();
        self.argc = other.argc;
        self.bytes.extend_from_slice(&other.bytes[other.start..]);
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn argc(&self) -> usize {
        self.argc
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        (self.start, self.argc) = (0, 0);
    }
}

impl RedisWrite for Encoder {
    #[inline]
    fn write_arg(&mut self, arg: &[u8]) {
        self.arg(arg);
    }
}

/// Encodes one command from its arguments, for commands that the library itself sends.
pub(crate) fn command(args: &[&[u8]], out: &mut Vec<u8>) {
    let mut encoder = Encoder { bytes: std::mem::take(out), start: 0, argc: 0 };
    encoder.begin();
    args.iter().for_each(|arg| encoder.arg(arg));
    *out = encoder.bytes;
}

/// The arguments of the first command in encoded bytes.
pub(crate) fn args_of(encoded: &[u8]) -> impl Iterator<Item = &[u8]> {
    let (mut left, mut at) = number_at(encoded, 0).unwrap_or((0, 0));
    std::iter::from_fn(move || {
        left = left.checked_sub(1)?;
        let (len, start) = number_at(encoded, at)?;
        at = start + len + 2;
        encoded.get(start..start + len)
    })
}

/// Splits the first command off encoded bytes; `None` if they do not begin with a whole one. Linear in its arguments.
pub(crate) fn split_first(encoded: &[u8]) -> Option<(&[u8], &[u8])> {
    let (count, mut at) = number_at(encoded, 0).filter(|_| encoded[0] == b'*')?;
    for _ in 0..count {
        let (len, start) = number_at(encoded, at).filter(|_| encoded[at] == b'$')?;
        at = start.checked_add(len)?.checked_add(2)?;
    }
    encoded.split_at_checked(at)
}

/// The number after the byte at `at`, and where its line ends.
fn number_at(bytes: &[u8], at: usize) -> Option<(usize, usize)> {
    let rest = bytes.get(at + 1..)?;
    let end = memchr::memchr(b'\r', rest)?;
    Some((std::str::from_utf8(&rest[..end]).ok()?.parse().ok()?, at + 1 + end + 2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_count_is_right_past_each_power_of_ten() {
        for count in [1, 9, 10, 11, 99, 100, 101, 999, 1000, 1001] {
            let mut encoder = Encoder::new();
            encoder.begin();
            encoder.arg(b"first");
            encoder.begin();
            (0..count).for_each(|_| encoder.arg(b"x"));
            let want = format!("*1\r\n$5\r\nfirst\r\n*{count}\r\n{}", "$1\r\nx\r\n".repeat(count));
            assert_eq!(encoder.bytes(), want.as_bytes());
        }
    }

    proptest! {
        #[test]
        fn the_arguments_come_back(args in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..30), 1..15)) {
            let mut encoder = Encoder::new();
            encoder.begin();
            args.iter().for_each(|arg| encoder.arg(arg));
            let back: Vec<Vec<u8>> = args_of(encoder.bytes()).map(<[u8]>::to_vec).collect();
            prop_assert_eq!(back, args);
            let two = [encoder.bytes(), b"*1\r\n$4\r\nPING\r\n"].concat();
            prop_assert_eq!(split_first(&two), Some(two.split_at(encoder.len())));
            prop_assert_eq!(split_first(&two[..encoder.len() - 1]), None);
        }
    }
}
