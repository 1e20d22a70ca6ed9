//! The slow log: commands that took long, the latest first.

use std::collections::VecDeque;

use parking_lot::Mutex;

use crate::clients::client::ClientHandle;

/// Arguments of a command that are kept; the last one says how many more there were.
const ARGS_MAX: usize = 32;

/// Bytes of an argument that are kept.
const ARG_LEN_MAX: usize = 128;

/// Memory for more than this many times the maximum of entries is given back.
const SPARE_MAX: usize = 4;

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

#[derive(Default)]
struct Entries {
    list: VecDeque<Entry>,
    next_id: u64,
}

impl Entries {
    fn trim(&mut self, len_max: usize) {
        if self.list.len() > len_max {
            self.list.truncate(len_max);
            if self.list.capacity() / SPARE_MAX > len_max {
                self.list.shrink_to_fit();
            }
        }
    }
}

/// See the module's text.
#[derive(Default)]
pub(crate) struct SlowLog(Mutex<Entries>);

impl SlowLog {
    /// Adds a command of `client`; of more than `len_max` entries the oldest go.
    pub(crate) fn add(&self, client: &ClientHandle, args: Vec<Vec<u8>>, at_s: i64, took_us: u64, len_max: usize) {
        let name = client.short_name();
        let mut entries = self.0.lock();
        let id = entries.next_id;
        entries.next_id += 1;
        entries.list.push_front(Entry { id, at_s, took_us, args, addr: client.addr.clone(), name });
        entries.trim(len_max);
    }

    /// Of more than `len_max` entries the oldest go.
    pub(crate) fn trim(&self, len_max: usize) {
        self.0.lock().trim(len_max);
    }

    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        self.0.lock().list.len()
    }

    /// Forgets all entries.
    pub(crate) fn reset(&self) {
        self.0.lock().list = VecDeque::new();
    }

    /// Calls `tell` with how many there are of the latest `count` entries, and with each of them.
    pub(crate) fn latest(&self, count: usize, tell: impl FnOnce(usize, &mut dyn Iterator<Item = &Entry>)) {
        let entries = self.0.lock();
        let len = entries.list.len().min(count);
        tell(len, &mut entries.list.iter().take(len));
    }
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

    #[test]
    fn the_oldest_entries_go_and_identifiers_go_on() {
        let log = SlowLog::default();
        let client =
            ClientHandle::new(1, "127.0.0.1:5".into(), String::new(), -1, false, 0, crate::users::user::User::server());
        let ids = |log: &SlowLog| {
            let mut ids = Vec::new();
            log.latest(9, |_, entries| ids.extend(entries.map(|entry| entry.id)));
            ids
        };
        (0..5).for_each(|at| log.add(&client, Vec::new(), at, 1, 3));
        assert_eq!(ids(&log), [4, 3, 2]);
        log.reset();
        assert!(log.len() == 0);
        log.add(&client, Vec::new(), 5, 1, 3);
        assert_eq!(ids(&log), [5]);
        log.add(&client, Vec::new(), 6, 1, 0);
        assert_eq!(ids(&log), [0; 0]);
    }
}
