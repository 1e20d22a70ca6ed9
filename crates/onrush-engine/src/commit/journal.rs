//! What a thread's commits leave in the command log.

use std::sync::Arc;

use onrush_persist::{CommandLog, Effects, FOR_REPLICAS};
use onrush_store::{KeyHash, Table, schedule};

use super::rebuild::rebuild;
use crate::batch::argv::Argv;
use crate::batch::kept::KEPT_BYTES_MAX;

/// Most members, and about the most bytes, of a recorded command that names what another command has chosen: a reader
/// needs memory for one of them at a time.
const PIECE_MEMBERS_MAX: usize = 64 << 10;
const PIECE_BYTES_MAX: usize = 16 << 20;

/// Parts of `members` for one command each. O(members).
fn pieces<M: AsRef<[u8]>>(members: &[M]) -> impl Iterator<Item = &[M]> {
    let mut rest = members;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let is_within = |member: &&M| {
            bytes += member.as_ref().len();
            bytes <= PIECE_BYTES_MAX
        };
        let len = rest.iter().take(PIECE_MEMBERS_MAX).take_while(is_within).count();
        let (piece, left) = rest.split_at(len.max(1).min(rest.len()));
        rest = left;
        (!piece.is_empty()).then_some(piece)
    })
}

/// Keys that the present command has accessed for changing them.
#[derive(Default)]
struct Touched {
    /// Their bytes, one after the other.
    bytes: Vec<u8>,
    /// Their databases, and where they end.
    keys: Vec<(u32, usize)>,
}

impl Touched {
    #[inline]
    fn push(&mut self, db: u32, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.keys.push((db, self.bytes.len()));
    }

    #[inline]
    fn clear(&mut self) {
        self.bytes.clear();
        self.keys.clear();
        if self.bytes.capacity() > KEPT_BYTES_MAX {
            self.shrink();
        }
    }

    #[cold]
    fn shrink(&mut self) {
        *self = Self::default();
    }

    fn iter(&self) -> impl Iterator<Item = (u32, &[u8])> {
        let starts = [0].into_iter().chain(self.keys.iter().map(|(_, end)| *end));
        self.keys.iter().zip(starts).map(|((db, end), start)| (*db, &self.bytes[start..*end]))
    }
}

/// The open record of a thread's commits; while the log has no follower, nothing is recorded.
pub(super) struct Journal {
    log: Arc<CommandLog>,
    /// Whether the log has a follower.
    is_on: bool,
    /// Whether the present command has recorded its effects by itself.
    is_rewritten: bool,
    /// Whether the open record has effects.
    has_effects: bool,
    /// Whether one of them changes data.
    changes_data: bool,
    effects: Effects,
    /// The LSN of the record that was closed last and changes data.
    last_lsn: u64,
    /// Bytes of the records that were handed to the log.
    submitted_bytes: u64,
    touched: Touched,
}

impl Journal {
    pub(super) fn new(log: Arc<CommandLog>) -> Self {
        Self {
            is_on: log.is_listening(),
            log,
            is_rewritten: false,
            has_effects: false,
            changes_data: false,
            effects: Effects::default(),
            last_lsn: 0,
            submitted_bytes: 0,
            touched: Touched::default(),
        }
    }

    /// Updates whether the log has a follower.
    #[inline]
    pub(super) fn look(&mut self) {
        self.is_on = self.log.is_listening();
    }

    /// Notes that a key is about to be changed.
    #[inline(always)]
    pub(super) fn touch(&mut self, db: u32, key: &[u8]) {
        if self.is_on {
            self.touched.push(db, key);
        }
    }

    /// Whether the open record has effects.
    #[inline(always)]
    pub(super) fn has_effects(&self) -> bool {
        self.has_effects
    }

    /// Gives the open record its number. Its locks are still held.
    pub(super) fn close(&mut self) {
        if std::mem::take(&mut self.has_effects) {
            schedule::point();
            let lsn = self.log.close(&mut self.effects);
            if std::mem::take(&mut self.changes_data) {
                self.last_lsn = lsn;
            }
            schedule::point();
        }
    }

    /// Drops the open record.
    pub(super) fn abandon(&mut self) {
        self.effects.truncate_open(0);
        self.touched.clear();
        (self.has_effects, self.changes_data, self.is_rewritten) = (false, false, false);
    }

    /// Whether the log has a follower.
    #[inline(always)]
    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }

    /// The LSN of the record that was closed last and changes data.
    #[inline(always)]
    pub(super) fn last_lsn(&self) -> u64 {
        self.last_lsn
    }

    /// Bytes of all records so far, the open one included.
    pub(super) fn recorded_bytes(&self) -> u64 {
        self.submitted_bytes + self.effects.len_bytes() as u64
    }

    /// Records a part of the present command's effects.
    pub(super) fn also<'a>(&mut self, db: u32, args: impl ExactSizeIterator<Item = &'a [u8]>) {
        if self.is_on {
            self.command(db, args);
        }
    }

    /// Records a command that replicas execute, too, though it changes no data.
    pub(super) fn for_replicas(&mut self, args: &[&[u8]]) {
        self.command(FOR_REPLICAS, args.iter().copied());
    }

    /// Records that members of a key were removed: by one command, or by several if they are many.
    pub(super) fn removed<M: AsRef<[u8]>>(&mut self, db: u32, command: &'static [u8], key: &[u8], members: &[M]) {
        if !self.is_on {
            return;
        }
        for piece in pieces(members) {
            let members = piece.iter().map(AsRef::as_ref);
            let args: Vec<&[u8]> = [command, key].into_iter().chain(members).collect();
            self.command(db, args.into_iter());
        }
    }

    /// The present command is not recorded as it was sent: it records its effects, if any, in parts.
    #[inline]
    pub(super) fn logs_itself(&mut self) {
        self.is_rewritten = self.is_on;
    }

    /// Ends a command that changed something: it is recorded as it was sent, unless it has recorded its effects by
    /// itself.
    pub(super) fn sent(&mut self, db: u32, argv: &Argv<'_>) {
        if self.is_rewritten {
            return;
        }
        match argv.multibulk() {
            Some(multibulk) => {
                (self.has_effects, self.changes_data) = (true, true);
                self.effects.encoded(db, multibulk);
            }
            None => self.command(db, argv.iter()),
        }
    }

    /// As [`Journal::sent`], under another name.
    pub(super) fn sent_as(&mut self, db: u32, name: &[u8], argv: &Argv<'_>) {
        if self.is_on && !self.is_rewritten {
            let args: Vec<&[u8]> = [name].into_iter().chain(argv.iter().skip(1)).collect();
            self.command(db, args.into_iter());
            self.is_rewritten = true;
        }
    }

    fn command<'a>(&mut self, db: u32, args: impl ExactSizeIterator<Item = &'a [u8]>) {
        self.has_effects = true;
        self.changes_data |= db != FOR_REPLICAS;
        self.effects.command(db, args);
    }

    /// Clears what is remembered of the present command.
    pub(super) fn end_command(&mut self) {
        self.is_rewritten = false;
        self.touched.clear();
    }

    /// Hands closed records to the log.
    #[inline]
    pub(super) fn submit(&mut self) {
        if !self.effects.is_empty() {
            self.submitted_bytes += self.effects.len_bytes() as u64;
            self.log.submit(&mut self.effects);
        }
    }

    /// Records the keys that a command has touched as they are now: it panicked and could not record its effects.
    /// `table` finds a key's locked table.
    #[cold]
    pub(super) fn record_as_is<'t>(
        &mut self,
        now_ms: i64,
        table: impl Fn(u32, KeyHash) -> Option<&'t Table>,
        hash: impl Fn(&[u8]) -> KeyHash,
    ) {
        let touched = std::mem::take(&mut self.touched);
        for (db, key) in touched.iter() {
            let hash = hash(key);
            // A key whose lock has gone back was recorded before.
            let Some(table) = table(db, hash) else { continue };
            self.command(db, [&b"DEL"[..], key].into_iter());
            if let Some(entry) = table.get(key, hash).filter(|entry| !entry.is_expired(now_ms)) {
                rebuild(entry, &mut |args| self.command(db, args.iter().copied()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_members_and_large_ones_are_recorded_in_pieces() {
        let lens = |members: &[Vec<u8>]| pieces(members).map(<[_]>::len).collect::<Vec<_>>();
        let most = PIECE_MEMBERS_MAX;
        assert_eq!(lens(&[]), [0; 0]);
        assert_eq!(lens(&vec![vec![1]; most]), [most]);
        assert_eq!(lens(&vec![vec![1]; 2 * most + 1]), [most, most, 1]);
        let (half, large) = (vec![0; PIECE_BYTES_MAX / 2], vec![0; PIECE_BYTES_MAX + 1]);
        assert_eq!(lens(&[half.clone(), half.clone(), half.clone()]), [2, 1]);
        assert_eq!(lens(&[large.clone(), half, large]), [1, 1, 1]);
    }
}
