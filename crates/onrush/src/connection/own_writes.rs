//! Writes over a leased connection, which the cache of the shared connection beside it must not outlast.
//!
//! The server reports such a change on the shared connection, and its report may come after the reply on the lease. So
//! the lease tells the cache itself, before its holder gets the reply: then a read that the holder sends finds the key
//! neither kept nor under way.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::cache::{Cache, is_without_effect};
use crate::values::encode::{args_of, split_first};

/// Most bytes of commands that are kept for it, and as many of an open transaction. Beyond that, everything is dropped
/// from the cache instead of what they name.
const KEPT_BYTES_MAX: usize = 16 << 20;

/// A command that drops everything from the cache.
const EVERYTHING: &[u8] = b"*1\r\n$8\r\nFLUSHALL\r\n";

/// The commands of a leased connection that may change keys and have no reply yet.
#[derive(Debug)]
pub(crate) struct OwnWrites {
    /// The cache that it tells.
    pub cache: Arc<Cache>,
    unanswered: Mutex<Unanswered>,
}

#[derive(Debug, Default)]
struct Unanswered {
    /// Commands, each with the number of the reply by which it has been executed.
    sent: VecDeque<(u64, Box<[u8]>)>,
    bytes: usize,
    /// The number of the last reply to a command that is not kept; 0 if there is none.
    flush_until: u64,
    /// Those of a transaction that is open: EXEC executes them.
    queued: Option<Vec<u8>>,
}

impl OwnWrites {
    pub(crate) fn new(cache: Arc<Cache>) -> OwnWrites {
        OwnWrites { cache, unanswered: Mutex::default() }
    }

    /// Notes commands that are about to be queued; `replies` come before theirs. Linear in their length.
    pub(crate) fn note_sent(&self, mut encoded: &[u8], mut replies: u64) {
        let mut unanswered = self.unanswered.lock();
        while let Some((one, rest)) = split_first(encoded) {
            encoded = rest;
            replies += 1;
            unanswered.add(one, replies);
        }
    }

    /// Tells the cache what has been executed when so many replies have come.
    pub(crate) fn note_replies(&self, replies: u64) {
        let mut unanswered = self.unanswered.lock();
        if unanswered.flush_until > 0 {
            self.cache.flush();
            if replies >= unanswered.flush_until {
                unanswered.flush_until = 0;
            }
        }
        while unanswered.sent.front().is_some_and(|(last, _)| *last <= replies) {
            if let Some((_, encoded)) = unanswered.sent.pop_front() {
                unanswered.bytes -= encoded.len();
                self.cache.note_sent(&encoded);
            }
        }
    }

    /// Tells the cache what may have been executed, when no more replies come.
    pub(crate) fn note_loss(&self) {
        let unanswered = std::mem::take(&mut *self.unanswered.lock());
        if unanswered.flush_until > 0 {
            self.cache.flush();
        }
        unanswered.sent.iter().for_each(|(_, encoded)| self.cache.note_sent(encoded));
        unanswered.queued.iter().for_each(|encoded| self.cache.note_sent(encoded));
    }
}

impl Unanswered {
    fn add(&mut self, encoded: &[u8], reply: u64) {
        let name = args_of(encoded).next().unwrap_or_default();
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        if is("MULTI") {
            self.queued.get_or_insert_default();
        } else if is("DISCARD") || is("RESET") {
            self.queued = None;
        } else if is("EXEC") {
            let queued = self.queued.take().unwrap_or_default();
            if !queued.is_empty() {
                self.keep(reply, &queued);
            }
        } else if !is_without_effect(name) {
            match &mut self.queued {
                Some(queued) if queued.len() + encoded.len() > KEPT_BYTES_MAX => *queued = EVERYTHING.to_vec(),
                Some(queued) => queued.extend_from_slice(encoded),
                None => self.keep(reply, encoded),
            }
        }
    }

    fn keep(&mut self, reply: u64, encoded: &[u8]) {
        if self.bytes + encoded.len() > KEPT_BYTES_MAX {
            self.flush_until = reply;
        } else {
            self.bytes += encoded.len();
            self.sent.push_back((reply, encoded.into()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::encode::command;

    fn encoded(args: &[&[u8]]) -> Vec<u8> {
        let mut out = Vec::new();
        command(args, &mut out);
        out
    }

    #[test]
    fn what_is_kept_is_limited() {
        let mut unanswered = Unanswered::default();
        let set = encoded(&[b"SET", b"k", &vec![b'x'; 1 << 20]]);
        (1..=20).for_each(|reply| unanswered.add(&set, reply));
        assert!(unanswered.bytes <= KEPT_BYTES_MAX && unanswered.sent.len() == 15);
        assert_eq!(unanswered.flush_until, 20);
        let mut unanswered = Unanswered::default();
        unanswered.add(&encoded(&[b"MULTI"]), 1);
        (2..=20).for_each(|reply| unanswered.add(&set, reply));
        unanswered.add(&encoded(&[b"EXEC"]), 21);
        let (reply, kept) = &unanswered.sent[0];
        assert_eq!(*reply, 21);
        assert!(kept.starts_with(EVERYTHING) && kept.len() <= KEPT_BYTES_MAX);
    }
}
