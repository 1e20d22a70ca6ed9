//! What a command handler gets to work with.

use std::hint::cold_path;
use std::sync::Arc;

use onrush_resp::{ArgRange, Reply, parse_i64};
use onrush_store::{KeyHash, Shard};

use crate::command::Command;
use crate::commit::{Commit, Key};
use crate::error::{self, CommandError};
use crate::server::Server;
use crate::session::Session;
use crate::stats::Executing;

/// How a handler ends. An error becomes the command's reply; whatever it appended before is dropped.
pub type CommandResult = Result<(), CommandError>;

/// The arguments of one command: ranges over the query buffer.
#[derive(Clone, Copy)]
pub struct Argv<'a> {
    bytes: &'a [u8],
    ranges: &'a [ArgRange],
    owned: &'a [Arc<Vec<u8>>],
}

impl<'a> Argv<'a> {
    /// Arguments `ranges` over `bytes`, which starts at the first byte of the command.
    #[inline]
    pub fn new(bytes: &'a [u8], ranges: &'a [ArgRange], owned: &'a [Arc<Vec<u8>>]) -> Self {
        Self { bytes, ranges, owned }
    }

    /// How many there are, the command's name included.
    #[inline]
    #[allow(clippy::len_without_is_empty, reason = "a command has at least its name")]
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Argument `index`; 0 is the command's name.
    #[inline(always)]
    pub fn get(&self, index: usize) -> &'a [u8] {
        self.ranges[index].of(self.bytes, self.owned)
    }

    /// Argument `index` when it was read into a buffer of its own, which may then become a value as it is.
    #[inline]
    pub fn owned(&self, index: usize) -> Option<&'a Arc<Vec<u8>>> {
        self.ranges[index].owned_index().map(|at| &self.owned[at])
    }

    /// The command as a multibulk, if it was sent as one and stands in one piece.
    #[inline]
    pub(crate) fn multibulk(&self) -> Option<&'a [u8]> {
        const LINE_END_LEN: usize = 2;
        let last = self.ranges.last()?;
        if self.bytes.first() != Some(&b'*') || self.ranges.iter().any(|range| range.owned_index().is_some()) {
            return None;
        }
        self.bytes.get(..last.end() + LINE_END_LEN)
    }

    /// All of them.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + Clone + use<'a> {
        let argv = *self;
        (0..argv.len()).map(move |index| argv.get(index))
    }
}

/// Classes of keyspace events, as `notify-keyspace-events` names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventClass {
    /// `g`: commands that are not about one type.
    Generic,
    /// `$`: strings.
    String,
    /// `l`: lists.
    List,
    /// `s`: sets.
    Set,
    /// `h`: hashes.
    Hash,
    /// `z`: sorted sets.
    SortedSet,
    /// `t`: streams.
    Stream,
    /// `x`: expiry.
    Expired,
    /// `e`: eviction.
    Evicted,
}

/// Keys of the present command whose hashes the planner made.
#[derive(Clone, Copy, Default)]
pub struct PlannedKeys<'a> {
    /// Index of the first key.
    pub first: u32,
    /// Distance between keys.
    pub step: u32,
    /// Their hashes.
    pub hashes: &'a [KeyHash],
    /// The shard of the only one.
    pub(crate) shard: Option<&'static Shard>,
}

/// Everything a handler may use: arguments, reply, keys, session, server.
pub struct Ctx<'a> {
    /// The server.
    pub server: &'static Server,
    /// The connection's state.
    pub session: &'a mut Session,
    /// Where the reply goes.
    pub out: &'a mut Reply,
    /// The way to keys.
    pub keys: &'a mut Commit,
    /// The arguments.
    pub argv: Argv<'a>,
    /// The row of the command table; of the subcommand, if there is one.
    pub command: &'static Command,
    /// The connection's worker.
    pub thread: usize,
    /// Where it is noted which command runs.
    pub(crate) executing: &'static Executing,
    pub(crate) planned: PlannedKeys<'a>,
    pub(crate) changes: u64,
    /// Whether the command is executed for a client that waits.
    pub(crate) serving: bool,
    /// Set when such a command has to go on waiting.
    pub(crate) still_waits: bool,
    /// Set when the command was refused: such a one does not count as executed.
    pub(crate) refused: bool,
    /// Set when the command is to be tried again, as somebody holds its keys for long.
    pub(crate) is_held_back: bool,
}

impl<'a> Ctx<'a> {
    /// For commands of a session on one thread. Which command it is, and its arguments, come later.
    #[inline(always)]
    pub(crate) fn new(
        server: &'static Server,
        thread: usize,
        session: &'a mut Session,
        out: &'a mut Reply,
        keys: &'a mut Commit,
    ) -> Self {
        Self {
            server,
            session,
            out,
            keys,
            argv: Argv::new(&[], &[], &[]),
            command: server.commands.command(0),
            thread,
            executing: &server.stats.threads[thread].executing,
            planned: PlannedKeys::default(),
            changes: 0,
            serving: false,
            still_waits: false,
            refused: false,
            is_held_back: false,
        }
    }

    /// Number of arguments, the command's name included.
    #[inline]
    pub fn argc(&self) -> usize {
        self.argv.len()
    }

    /// Argument `index`; 0 is the command's name.
    #[inline]
    pub fn arg(&self, index: usize) -> &'a [u8] {
        self.argv.get(index)
    }

    /// Argument `index` as a key, with the hash the planner made if it made one.
    #[inline(always)]
    pub fn key(&self, index: usize) -> Key<'a> {
        let bytes = self.argv.get(index);
        if index == self.planned.first as usize
            && let Some(&hash) = self.planned.hashes.first()
        {
            return Key { bytes, hash, shard: self.planned.shard };
        }
        cold_path();
        self.later_key(bytes, index)
    }

    fn later_key(&self, bytes: &'a [u8], index: usize) -> Key<'a> {
        let PlannedKeys { first, step, hashes, .. } = self.planned;
        let distance = (index as u32).wrapping_sub(first);
        match hashes.get((distance / step.max(1)) as usize) {
            Some(&hash) if distance.is_multiple_of(step) => Key { bytes, hash, shard: None },
            _ => self.keys.key(bytes),
        }
    }

    /// Argument `index` as an integer.
    ///
    /// # Errors
    /// `ERR value is not an integer or out of range`
    #[inline]
    pub fn int(&self, index: usize) -> Result<i64, CommandError> {
        parse_i64(self.argv.get(index)).ok_or(error::NOT_INTEGER)
    }

    /// Argument `index` as an integer, with another text when it is none.
    ///
    /// # Errors
    /// The one given.
    #[inline]
    pub fn int_or(&self, index: usize, error: CommandError) -> Result<i64, CommandError> {
        parse_i64(self.argv.get(index)).ok_or(error)
    }

    /// Whether argument `index` is this word, in any case.
    #[inline]
    pub fn is(&self, index: usize, word: &str) -> bool {
        self.argv.get(index).eq_ignore_ascii_case(word.as_bytes())
    }

    /// The time of this command in Unix milliseconds.
    #[inline]
    pub fn now_ms(&self) -> i64 {
        self.keys.now_ms()
    }

    /// What is due at this time, in Unix milliseconds, has expired: now, or never while a log is replayed.
    #[inline]
    pub fn due_ms(&self) -> i64 {
        self.keys.due_ms()
    }

    /// Notes a change of `key` in the present database: every write passes here, once per key it changed, while it
    /// still holds the key's lock. The command is logged as it was sent unless [`Ctx::log_instead`] is called too.
    #[inline]
    pub fn changed(&mut self, class: EventClass, event: &'static str, key: &[u8]) {
        let db = self.keys.db();
        self.changed_in(db, class, event, key);
    }

    /// As [`Ctx::changed`], of a change that gives nobody what he waits for.
    #[inline]
    pub fn changed_quietly(&mut self, _class: EventClass, _event: &'static str, _key: &[u8]) {
        self.changes += 1;
    }

    /// As [`Ctx::changed`] for a key in database `db`.
    #[inline]
    pub fn changed_in(&mut self, db: u32, _class: EventClass, _event: &'static str, key: &[u8]) {
        self.changes += 1;
        if !self.server.waiters.is_empty() {
            cold_path();
            self.note_ready(db, key);
        }
    }

    /// Notes a change that belongs to no key (FLUSHALL, SWAPDB).
    #[inline]
    pub fn changed_keyspace(&mut self, changes: u64) {
        self.changes += changes.max(1);
        if !self.server.waiters.is_empty() {
            for (db, key) in self.server.waiters.all_keys() {
                self.keys.note_ready(db, key);
            }
        }
    }

    /// Whether anybody follows the command log: only then is it worth to make the arguments of
    /// [`Ctx::log_instead`].
    #[inline]
    pub fn is_logged(&self) -> bool {
        self.keys.is_logged()
    }

    /// Logs this command in place of the one sent: what was done, with no dependence on time or chance. Several
    /// calls log several commands.
    pub fn log_instead(&mut self, args: &[&[u8]]) {
        self.keys.logs_itself();
        self.keys.log_also(args);
    }

    /// Logs something that happened before what this command does, which is logged as well.
    pub fn log_also(&mut self, args: &[&[u8]]) {
        self.keys.log_also(args);
    }

    /// This command is not logged as it was sent, even if it calls [`Ctx::log_instead`] for nothing it did.
    pub fn logs_itself(&mut self) {
        self.keys.logs_itself();
    }

    /// Says that this command, which has changed nothing yet, goes through so many elements. O(1).
    ///
    /// # Errors
    /// They are too many for a worker: the handler returns, and the command is executed elsewhere from its beginning.
    pub fn expect_work(&mut self, elements: usize) -> CommandResult {
        Ok(self.keys.expect_work(elements)?)
    }

    /// As [`Ctx::expect_work`], of a command that looks into the shards of the present database one after the other.
    ///
    /// # Errors
    /// As of [`Ctx::expect_work`]; also when somebody holds shards for long.
    pub fn expect_shards(&mut self, elements: usize) -> CommandResult {
        Ok(self.keys.expect_shards(elements)?)
    }

    /// A random number.
    pub fn random(&mut self) -> u64 {
        self.keys.random().next()
    }

    /// Changes the selected database.
    pub fn select(&mut self, db: u32) {
        self.session.db = db;
        self.keys.set_db(db);
    }
}

impl crate::command::Argv for Argv<'_> {
    fn len(&self) -> usize {
        Argv::len(self)
    }

    fn get(&self, index: usize) -> &[u8] {
        Argv::get(self, index)
    }
}
