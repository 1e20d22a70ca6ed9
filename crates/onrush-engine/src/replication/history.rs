//! The history of the data: its identifier, and the stream of commands that it comes from, of which the newest bytes are
//! kept (the *backlog*).
//!
//! A place in the stream is the number of bytes before it. Bytes exist only while they are kept: a server that never had a
//! replica keeps none and its offset stays. A primary's stream is made from its command log ([`super::stream`]); a
//! replica's is its primary's, byte for byte. Whoever gives the history another identifier has the whole keyspace.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

/// The identifier that no history has.
pub const NO_ID: &str = "0000000000000000000000000000000000000000";

/// About the bytes of a piece of the backlog.
const PIECE_LEN: usize = 256 << 10;

/// Bytes beyond `repl-backlog-size` that stay in memory for replicas that are behind. With more, the oldest go to a file.
pub const BEHIND_BYTES_MAX: u64 = 8 << 20;

/// With so many bytes more, commands that write are held back, while the file takes some.
const HOLD_BYTES_MIN: u64 = 2 * BEHIND_BYTES_MAX;

/// Milliseconds after which a file that takes nothing holds nobody back any more.
const HOLD_MS_MAX: i64 = 1000;

/// Bytes beyond `repl-backlog-size` at which the oldest are dropped, though a replica lacks them: the file takes none.
const DROP_BYTES_MIN: u64 = 256 << 20;

/// Most marks of records. With more, every second one is left out, so that waiting for one waits for the next.
const MARKS_MAX: usize = 4096;

/// A place in a history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// The history: 40 hexadecimal digits.
    pub id: String,
    /// Bytes of its stream up to this place.
    pub offset: u64,
}

/// What changes whenever what was sent to replicas is not the beginning of what comes next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch {
    count: u64,
    /// Changes with the bytes: within one of these, a place has the same bytes, if it has any.
    pub lineage: u64,
}

impl Epoch {
    /// The epoch behind this one, if nothing but [`History::rename`] has happened.
    pub fn after_rename(self) -> Self {
        Self { count: self.count + 1, ..self }
    }
}

/// What is known of a place that a replica asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The epoch of the history. If it changes, the rest is not true any more.
    pub epoch: Epoch,
    /// The first byte that the replica lacks.
    pub next: u64,
    /// Where the history is now.
    pub end: u64,
    /// Whether the replica has the beginning of this history. Its bytes from `next` on need not be kept.
    pub is_known: bool,
}

/// A part of the stream that memory had no room for.
#[derive(Debug)]
pub struct Taken {
    /// The [`Epoch::lineage`] of the history that it is of.
    pub lineage: u64,
    /// Where it begins.
    pub start: u64,
    /// What it is.
    pub bytes: Vec<u8>,
}

/// Bytes of the stream that are not kept any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

/// The history of the data, and the one that it comes from.
#[derive(Debug)]
pub struct History {
    parts: Mutex<Parts>,
    /// Kept bytes beyond `repl-backlog-size`.
    surplus_bytes: AtomicU64,
    /// When bytes were last taken from memory, in Unix milliseconds.
    taken_ms: AtomicI64,
}

#[derive(Debug, Default)]
struct Parts {
    now: Position,
    /// The history before, and up to which byte it is this one's; `None`: there is none.
    before: Option<Position>,
    epoch: Epoch,
    /// Whether bytes are kept.
    is_kept: bool,
    /// The kept bytes, the oldest first. They end at the offset.
    pieces: VecDeque<Vec<u8>>,
    kept_bytes: u64,
    /// The memory of a piece that was dropped, for the next one: new memory has to be cleared.
    spare: Vec<u8>,
    /// `repl-backlog-size`.
    kept_bytes_max: u64,
    /// The first byte that a replica lacks.
    lacked: Option<u64>,
    /// The same of replicas that are about to get data which has just been cut.
    pinned: Option<u64>,
    /// Twice the largest part of the stream that came at once, since too much waits: a replica may lack so much of it.
    large_bytes: u64,
    /// LSNs of records, and where they end in the stream.
    marks: VecDeque<(u64, u64)>,
    /// The database of the stream, for whoever reads it from here on; `None`: what comes next says it.
    db: Option<u32>,
}

impl Parts {
    fn first(&self) -> u64 {
        self.now.offset - self.kept_bytes
    }

    fn forget(&mut self) {
        self.pieces.clear();
        self.spare = Vec::new();
        self.kept_bytes = 0;
        self.marks.clear();
        self.epoch = Epoch { count: self.epoch.count + 1, lineage: self.epoch.lineage + 1 };
    }

    fn push(&mut self, mut bytes: &[u8]) {
        self.now.offset += bytes.len() as u64;
        if !self.is_kept {
            return;
        }
        self.kept_bytes += bytes.len() as u64;
        self.large_bytes = self.large_bytes.max(2 * bytes.len() as u64);
        while !bytes.is_empty() {
            let room = self.pieces.back().map_or(0, |piece| piece.capacity() - piece.len());
            if room == 0 {
                let mut piece = std::mem::take(&mut self.spare);
                piece.reserve_exact(PIECE_LEN);
                self.pieces.push_back(piece);
                continue;
            }
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            if let Some(piece) = self.pieces.back_mut() {
                piece.extend_from_slice(now);
            }
            bytes = later;
        }
        self.drop_oldest();
    }

    /// Drops bytes that are too many, unless a replica lacks them.
    fn drop_oldest(&mut self) {
        while let Some(piece) = self.pieces.front()
            && self.kept_bytes - piece.len() as u64 >= self.kept_bytes_max
        {
            let end = self.first() + piece.len() as u64;
            let is_lacked = [self.lacked, self.pinned].into_iter().flatten().any(|lacked| lacked < end);
            if is_lacked && self.kept_bytes < self.kept_bytes_max + DROP_BYTES_MIN.max(self.large_bytes) {
                return;
            }
            self.kept_bytes -= piece.len() as u64;
            self.spare = self.pieces.pop_front().unwrap_or_default();
            self.spare.clear();
        }
        self.large_bytes = 0;
    }

    fn mark(&mut self, lsn: u64) {
        if self.marks.len() >= MARKS_MAX {
            let mut nth = 0;
            self.marks.retain(|_| {
                nth += 1;
                nth % 2 == 0
            });
        }
        self.marks.push_back((lsn, self.now.offset));
    }

    /// The last of the marks at the front that are within something.
    fn last_mark(&self, is_within: impl FnMut(&(u64, u64)) -> bool) -> Option<&(u64, u64)> {
        self.marks.partition_point(is_within).checked_sub(1).and_then(|at| self.marks.get(at))
    }
}

impl History {
    /// One that begins.
    pub(crate) fn new(id: String) -> Self {
        let parts = Parts { now: Position { id, offset: 0 }, kept_bytes_max: 1 << 20, ..Parts::default() };
        Self { parts: Mutex::new(parts), surplus_bytes: AtomicU64::new(0), taken_ms: AtomicI64::new(0) }
    }

    /// Kept bytes beyond `repl-backlog-size`, which replicas lack.
    pub(crate) fn surplus_bytes(&self) -> u64 {
        self.surplus_bytes.load(Relaxed)
    }

    /// Whether there is more in memory than replicas that are behind may take of it ([`History::take_oldest`]).
    pub fn is_too_long(&self) -> bool {
        self.surplus_bytes() > BEHIND_BYTES_MAX
    }

    /// Whether commands that write are held back, since bytes that replicas lack come faster than the file takes them.
    #[inline]
    pub(crate) fn is_behind(&self, now_ms: i64) -> bool {
        // A clock that was set back holds nobody.
        let takes = || (0..HOLD_MS_MAX).contains(&(now_ms - self.taken_ms.load(Relaxed)));
        self.surplus_bytes() > HOLD_BYTES_MIN && takes()
    }

    fn note_surplus(&self, parts: &Parts) {
        self.surplus_bytes.store(parts.kept_bytes.saturating_sub(parts.kept_bytes_max), Relaxed);
    }

    /// Where it is now.
    pub fn position(&self) -> Position {
        self.parts.lock().now.clone()
    }

    /// The offset where it is now.
    pub fn offset(&self) -> u64 {
        self.parts.lock().now.offset
    }

    /// Where it is now: the identifier, the offset, and the database of the stream.
    pub(crate) fn place(&self) -> (String, u64, Option<u32>) {
        let parts = self.parts.lock();
        (parts.now.id.clone(), parts.now.offset, parts.db)
    }

    /// The history before, and the first offset that it does not have any more.
    pub fn before(&self) -> Option<Position> {
        self.parts.lock().before.clone()
    }

    /// The data is that of another history now, at this place.
    pub fn take_over(&self, position: Position) {
        let mut parts = self.parts.lock();
        parts.forget();
        self.note_surplus(&parts);
        (parts.now, parts.before, parts.db) = (position, None, None);
    }

    /// What is known of the place behind which a replica wants to go on: the history that it has, and the byte that it wants
    /// first, counted from 1.
    pub fn ask(&self, id: &str, from: u64) -> Asked {
        let parts = self.parts.lock();
        let is_before = |before: &Position| id.eq_ignore_ascii_case(&before.id) && from <= before.offset;
        let has_beginning = id.eq_ignore_ascii_case(&parts.now.id) || parts.before.as_ref().is_some_and(is_before);
        let next = from.saturating_sub(1);
        let is_known = has_beginning && from > 0 && next <= parts.now.offset && parts.is_kept;
        Asked { epoch: parts.epoch, next, end: parts.now.offset, is_known }
    }

    /// It goes on under another identifier: the present one stays good for what there is by now.
    pub fn rename(&self, id: String) {
        let mut parts = self.parts.lock();
        let offset = parts.now.offset;
        let before = std::mem::replace(&mut parts.now.id, id);
        parts.before = Some(Position { id: before, offset: offset + 1 });
        parts.epoch = parts.epoch.after_rename();
    }

    /// Changes whenever what was sent to replicas is not the beginning of what comes next.
    pub fn epoch(&self) -> Epoch {
        self.parts.lock().epoch
    }

    /// Replicas have to ask again where they are.
    pub fn begin_epoch(&self) {
        let mut parts = self.parts.lock();
        parts.epoch = parts.epoch.after_rename();
    }

    /// `repl-backlog-size`.
    pub fn set_kept_bytes_max(&self, bytes: u64) {
        let mut parts = self.parts.lock();
        parts.kept_bytes_max = bytes;
        parts.drop_oldest();
        self.note_surplus(&parts);
    }

    /// Whether bytes are kept.
    pub fn is_kept(&self) -> bool {
        self.parts.lock().is_kept
    }

    /// Begins or ends keeping bytes.
    pub fn keep(&self, is_kept: bool) {
        let mut parts = self.parts.lock();
        if std::mem::replace(&mut parts.is_kept, is_kept) != is_kept {
            parts.forget();
            self.note_surplus(&parts);
        }
    }

    /// Appends bytes of the stream, which end with the record of this LSN.
    pub fn append(&self, bytes: &[u8], lsn: Option<u64>) {
        let mut parts = self.parts.lock();
        parts.push(bytes);
        self.note_surplus(&parts);
        if let Some(lsn) = lsn {
            parts.mark(lsn);
        }
    }

    /// The database of the stream where it is now, if a replica that begins here has to be told.
    pub fn db(&self) -> Option<u32> {
        self.parts.lock().db
    }

    /// Notes the database of a primary's stream, which does not tell it again.
    pub fn set_db(&self, db: Option<u32>) {
        self.parts.lock().db = db;
    }

    /// Where the kept bytes begin, and how many there are.
    pub fn kept(&self) -> (u64, u64) {
        let parts = self.parts.lock();
        (parts.first(), parts.kept_bytes)
    }

    /// From here on bytes are kept, until [`History::set_lacked`] says that the data is known which is cut here.
    pub fn pin(&self) {
        let mut parts = self.parts.lock();
        parts.pinned = Some(parts.now.offset);
    }

    /// The first byte that a replica lacks: from there on bytes are kept. `awaits_cut`: data is about to be cut, and the place
    /// of that is not among those told here.
    pub fn set_lacked(&self, lacked: Option<u64>, awaits_cut: bool) {
        let mut parts = self.parts.lock();
        parts.lacked = lacked;
        if !awaits_cut {
            parts.pinned = None;
        }
        parts.drop_oldest();
        self.note_surplus(&parts);
    }

    /// Appends up to `max` bytes of the stream from a place on to `out`; returns how many.
    ///
    /// # Errors
    /// They are not kept any more, or it is another stream now.
    pub fn read(&self, lineage: u64, from: u64, max: usize, out: &mut Vec<u8>) -> Result<usize, Gone> {
        let parts = self.parts.lock();
        if lineage != parts.epoch.lineage || from < parts.first() || from > parts.now.offset {
            return Err(Gone);
        }
        let (mut skip, mut left) = ((from - parts.first()) as usize, max);
        for piece in &parts.pieces {
            if skip >= piece.len() {
                skip -= piece.len();
                continue;
            }
            let bytes = &piece[skip..];
            let len = bytes.len().min(left);
            out.extend_from_slice(&bytes[..len]);
            (skip, left) = (0, left - len);
            if left == 0 {
                break;
            }
        }
        Ok(max - left)
    }

    /// Takes the oldest piece that a replica lacks, if there is too much in memory for replicas that are behind.
    pub fn take_oldest(&self) -> Option<Taken> {
        let mut parts = self.parts.lock();
        if parts.kept_bytes <= parts.kept_bytes_max + BEHIND_BYTES_MAX || parts.pieces.len() < 2 {
            return None;
        }
        let first = parts.first();
        let piece = parts.pieces.pop_front()?;
        parts.kept_bytes -= piece.len() as u64;
        self.note_surplus(&parts);
        Some(Taken { lineage: parts.epoch.lineage, start: first, bytes: piece })
    }

    /// What was taken is in its place. `now_ms`: Unix time.
    pub fn note_taken(&self, now_ms: i64) {
        self.taken_ms.store(now_ms, Relaxed);
    }

    /// Takes a piece back that found no other place, if it is still the one before the oldest.
    pub fn give_back(&self, taken: Taken) {
        let mut parts = self.parts.lock();
        let end = taken.start + taken.bytes.len() as u64;
        if taken.lineage == parts.epoch.lineage && end == parts.first() {
            parts.kept_bytes += taken.bytes.len() as u64;
            parts.pieces.push_front(taken.bytes);
            parts.drop_oldest();
            self.note_surplus(&parts);
        }
    }

    /// Where in the stream a record ends: there or somewhat later. `None`: it is not in the stream.
    pub fn end_of(&self, lsn: u64) -> Option<u64> {
        let parts = self.parts.lock();
        let at = parts.marks.partition_point(|(marked, _)| *marked < lsn);
        parts.marks.get(at).map(|(_, offset)| *offset)
    }

    /// The LSN up to which all records end before a place in the stream; it may be less.
    pub fn lsn_at(&self, offset: u64) -> u64 {
        let parts = self.parts.lock();
        parts.last_mark(|(_, end)| *end <= offset).map_or(0, |(lsn, _)| *lsn)
    }

    /// Where the record of this LSN ends in the stream, or one before it: everything up to there has no greater LSN.
    pub fn end_before(&self, lsn: u64) -> u64 {
        let parts = self.parts.lock();
        parts.last_mark(|(marked, _)| *marked <= lsn).map_or(0, |(_, offset)| *offset)
    }

    /// Bytes of memory for the kept bytes.
    pub fn memory_bytes(&self) -> u64 {
        let parts = self.parts.lock();
        parts.pieces.iter().chain([&parts.spare]).map(|piece| piece.capacity() as u64).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(max: u64) -> History {
        let history = History::new("a".repeat(40));
        history.keep(true);
        history.set_kept_bytes_max(max);
        history
    }

    fn bytes(range: std::ops::Range<u64>) -> Vec<u8> {
        range.map(|at| (at % 251) as u8).collect()
    }

    #[test]
    fn the_newest_bytes_are_kept_and_read_from_any_place() {
        let (history, max) = (kept(1 << 20), 1 << 20);
        let end = 5_000_000;
        for start in (0..end).step_by(10_000) {
            history.append(&bytes(start..start + 10_000), None);
        }
        let (first, len) = history.kept();
        assert_eq!((first + len, history.position().offset), (end, end));
        assert!(len >= max && len <= max + PIECE_LEN as u64 + 10_000, "{len}");
        for from in [first, first + 1, end - 300_000, end - 1] {
            let mut out = Vec::new();
            while out.len() < (end - from) as usize {
                assert!(history.read(history.epoch().lineage, from + out.len() as u64, 65_537, &mut out).unwrap() > 0);
            }
            assert_eq!(out, bytes(from..end));
        }
        assert_eq!(history.read(history.epoch().lineage, end, 10, &mut Vec::new()), Ok(0));
        assert_eq!(history.read(history.epoch().lineage, end + 1, 10, &mut Vec::new()), Err(Gone));
        assert_eq!(history.read(history.epoch().lineage, first - 1, 10, &mut Vec::new()), Err(Gone));
    }

    #[test]
    fn what_a_replica_lacks_stays_up_to_a_limit_and_can_be_taken_elsewhere() {
        let history = kept(1 << 20);
        history.set_lacked(Some(0), false);
        let all = 2 * BEHIND_BYTES_MAX + (3 << 20);
        for start in (0..all).step_by(100_000) {
            history.append(&bytes(start..start + 100_000), None);
        }
        assert_eq!(history.surplus_bytes(), history.kept().1 - (1 << 20));
        let mut taken = Vec::new();
        assert!(!history.is_behind(1_000), "nothing was taken yet");
        let first = history.take_oldest().unwrap();
        let (start, len) = (first.start, first.bytes.len() as u64);
        assert_eq!((start, history.kept().0), (0, len));
        history.give_back(first);
        assert_eq!(history.kept().0, 0, "it is there again");
        while let Some(Taken { start, bytes: piece, .. }) = history.take_oldest() {
            history.note_taken(1_000);
            assert!(!history.is_behind(999), "the clock was set back");
            let is_much = history.surplus_bytes() > HOLD_BYTES_MIN;
            assert_eq!((history.is_behind(1_999), history.is_behind(2_000)), (is_much, false));
            assert_eq!(start, taken.len() as u64);
            taken.extend_from_slice(&piece);
        }
        assert!(!taken.is_empty() && taken == bytes(0..taken.len() as u64));
        assert_eq!(history.kept().0, taken.len() as u64);
        history.set_lacked(None, false);
        assert!(history.kept().1 <= (1 << 20) + PIECE_LEN as u64 && history.surplus_bytes() <= PIECE_LEN as u64);
        history.pin();
        let pinned = history.position().offset;
        history.set_lacked(None, true);
        history.append(&vec![0; 3 << 20], None);
        assert!(history.kept().0 <= pinned);
        history.set_lacked(None, false);
        assert!(history.kept().0 > pinned);
        history.set_lacked(Some(0), false);
        let first = history.kept().0;
        history.append(&vec![0; DROP_BYTES_MIN as usize + (9 << 20)], None);
        assert_eq!(history.kept().0, first, "what comes at once is not dropped at once");
        history.set_lacked(None, false);
        history.set_lacked(Some(0), false);
        for _ in 0..(DROP_BYTES_MIN >> 20) + 8 {
            history.append(&[0; 1 << 20], None);
        }
        assert!(history.kept().1 <= DROP_BYTES_MIN + (2 << 20), "{:?}", history.kept());
    }

    #[test]
    fn marks_tell_where_records_end_or_a_later_place() {
        let history = kept(1000);
        for lsn in 1..=10_000 {
            history.append(b"12345", (lsn % 3 == 0).then_some(lsn));
        }
        for lsn in [1, 2, 3, 5_000, 9_999] {
            let end = history.end_of(lsn).unwrap();
            assert!(end >= 5 * lsn && end.is_multiple_of(15), "{lsn}: {end}");
        }
        assert_eq!(history.end_of(9_999), Some(5 * 9_999));
        assert_eq!(history.end_of(10_000), None);
        for offset in [15, 100, 25_000, 49_995, 60_000] {
            let lsn = history.lsn_at(offset);
            assert!(5 * lsn <= offset, "{offset}: {lsn}");
        }
        assert_eq!((history.lsn_at(49_995), history.lsn_at(3)), (9_999, 0));
    }

    #[test]
    fn names_change_with_the_history() {
        let history = kept(1000);
        history.append(b"0123456789", None);
        history.rename("b".repeat(40));
        assert_eq!(history.position(), Position { id: "b".repeat(40), offset: 10 });
        assert_eq!(history.before(), Some(Position { id: "a".repeat(40), offset: 11 }));
        assert_eq!(history.kept(), (0, 10));
        let there = Position { id: "c".repeat(40), offset: 77 };
        history.take_over(there.clone());
        assert_eq!((history.position(), history.before(), history.kept()), (there, None, (77, 0)));
    }
}
