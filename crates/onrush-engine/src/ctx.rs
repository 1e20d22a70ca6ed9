//! The context that a command handler works with.

use std::hint::cold_path;
use std::ops::Deref;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use onrush_resp::{Reply, parse_i64};

use crate::batch::argv::{Arguments, Argv};
use crate::batch::planned_keys::PlannedKeys;
use crate::clients::session::Session;
use crate::command::RestOfArgs;
use crate::command::table::{Command, CommandTable};
use crate::commit::{Commit, Key};
use crate::error::{self, CommandError, Stop};
use crate::observe::stats::Executing;
use crate::shared::{Parts, Shared};

pub(crate) use crate::messages::events::EventClass;

/// Bytes of a string that a worker copies, or adds to it, at once.
const EDITED_BYTES_MAX: usize = 1 << 20;

/// The result of a handler.
pub(crate) type CommandResult = Result<(), Stop>;

/// Runs a command. Its arity and permission have been checked.
pub(crate) type Handler = fn(&mut Ctx<'_>) -> CommandResult;

/// Executes up to this many equal commands in a row and appends their replies; returns how many it has executed. The
/// command's [`Handler`] executes the rest, which fail or are not as simple. No client can wait for changes of such
/// commands.
pub(crate) type RunHandler = fn(&mut Ctx<'_>, times: u32) -> u32;

/// Everything the threads share: the data, the commands, the state of all clients.
pub struct Engine {
    /// The command table.
    pub commands: CommandTable,
    shared: Shared,
}

impl Engine {
    /// An engine without data and without clients, which executes these commands.
    pub fn new(parts: &Parts, commands: CommandTable) -> Self {
        Self { shared: Shared::new(parts, commands.len()), commands }
    }

    /// The table in which a session's commands are looked up first: the log has them under their original names.
    #[inline]
    pub(crate) fn table_of(&self, session: &Session) -> &CommandTable {
        if session.is_replay { self.commands.original() } else { &self.commands }
    }

    /// The command that `argv` calls for a session. A log may also have a name that `rename-command` gives.
    ///
    /// # Errors
    /// As for [`CommandTable::resolve`].
    pub(crate) fn resolve<A: Arguments + ?Sized>(&self, session: &Session, argv: &A) -> Result<&Command, CommandError> {
        let first = self.table_of(session).resolve(argv);
        if first.is_err() && session.is_replay { self.commands.resolve(argv) } else { first }
    }
}

impl Deref for Engine {
    type Target = Shared;

    #[inline]
    fn deref(&self) -> &Shared {
        &self.shared
    }
}

/// Everything a handler may use: arguments, reply, keys, session, engine.
pub struct Ctx<'a> {
    /// The engine.
    pub engine: &'static Engine,
    /// The connection's state.
    pub session: &'a mut Session,
    /// Where the reply goes.
    pub out: &'a mut Reply,
    /// The way to keys.
    pub commit: &'a mut Commit,
    /// The arguments.
    pub argv: Argv<'a>,
    /// The command; the subcommand, if there is one.
    pub command: &'static Command,
    /// The connection's worker.
    pub thread: usize,
    /// Notes which command runs.
    pub(crate) executing: &'static Executing,
    pub(crate) planned: PlannedKeys<'a>,
    /// When the command began, if it is not short.
    pub(crate) started: Instant,
    pub(crate) changes: u64,
    /// Whether the command is executed for a client that waits.
    pub(crate) serving: bool,
    /// Whether a script calls the command.
    pub(crate) in_script: bool,
    /// Whether scripts may write even if writes are refused by now: their transaction was admitted before.
    pub(crate) admits_writes: bool,
    /// Set when the command was refused: it does not count as executed then.
    pub(crate) refused: bool,
}

impl<'a> Ctx<'a> {
    /// For commands of a session on one thread. The command and its arguments are set later.
    #[inline(always)]
    pub(crate) fn new(
        engine: &'static Engine,
        thread: usize,
        session: &'a mut Session,
        out: &'a mut Reply,
        commit: &'a mut Commit,
    ) -> Self {
        Self {
            engine,
            session,
            out,
            commit,
            argv: Argv::new(&[], &[], &[]),
            command: engine.commands.command(0),
            thread,
            executing: &engine.stats.threads[thread].executing,
            planned: PlannedKeys::default(),
            started: engine.started,
            changes: 0,
            serving: false,
            in_script: false,
            admits_writes: false,
            refused: false,
        }
    }

    /// Number of arguments, the command's name included.
    #[inline]
    pub(crate) fn argc(&self) -> usize {
        self.argv.len()
    }

    /// Argument `index`; 0 is the command's name.
    #[inline]
    pub fn arg(&self, index: usize) -> &'a [u8] {
        self.argv.get(index)
    }

    /// Argument `index` as a key, with the planner's hash if there is one.
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
            _ => self.commit.key(bytes),
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

    /// Argument `index` as an integer, with another error text.
    ///
    /// # Errors
    /// The one given.
    #[inline]
    pub(crate) fn int_or(&self, index: usize, error: CommandError) -> Result<i64, CommandError> {
        parse_i64(self.argv.get(index)).ok_or(error)
    }

    /// Whether argument `index` is this word, in any case.
    #[inline]
    pub fn is(&self, index: usize, word: &str) -> bool {
        self.argv.get(index).eq_ignore_ascii_case(word.as_bytes())
    }

    /// Argument `index` as a number of at least 1.
    ///
    /// # Errors
    /// It is none: `error`
    pub(crate) fn positive(&self, index: usize, error: CommandError) -> Result<usize, CommandError> {
        let number = usize::try_from(self.int_or(index, error.clone())?).ok();
        number.filter(|&number| number > 0).ok_or(error)
    }

    /// Whether argument `index` is the first or the second of two words.
    ///
    /// # Errors
    /// It is neither: `ERR syntax error`
    pub(crate) fn is_first(&self, index: usize, first: &str, second: &str) -> Result<bool, CommandError> {
        let is_first = self.is(index, first);
        if is_first || self.is(index, second) { Ok(is_first) } else { Err(error::SYNTAX) }
    }

    /// The arguments from `index` on, to be taken one after the other.
    #[inline]
    pub(crate) fn rest(&self, index: usize) -> RestOfArgs<'a> {
        RestOfArgs::new(self.argv, index)
    }

    /// The time of this command in Unix milliseconds.
    #[inline]
    pub fn now_ms(&self) -> i64 {
        self.commit.now_ms()
    }

    /// Keys due at this time, in Unix milliseconds, have expired: the present time, or the beginning of time while a
    /// log is replayed.
    #[inline]
    pub(crate) fn due_ms(&self) -> i64 {
        self.commit.due_ms()
    }

    /// Notes a change of `key` in the present database: every write calls this once per changed key, while it still
    /// holds the key's lock. The command is logged as it was sent unless [`Ctx::log_instead`] is called too.
    #[inline]
    pub(crate) fn changed(&mut self, class: EventClass, event: &'static str, key: &[u8]) {
        self.changes += 1;
        if self.is_change_of_interest() {
            cold_path();
            self.tell_change_and_waiters(self.commit.db(), class, event, key);
        }
    }

    /// As [`Ctx::changed`], for a further key of a change that counts once: where an element went, or a key that has
    /// become empty.
    #[inline]
    pub(crate) fn changed_too(&mut self, class: EventClass, event: &'static str, key: &[u8]) {
        self.changed(class, event, key);
        self.changes -= 1;
    }

    /// As [`Ctx::changed`], for a change that no waiting client waits for.
    #[inline]
    pub(crate) fn changed_quietly(&mut self, class: EventClass, event: &'static str, key: &[u8]) {
        self.changes += 1;
        if !self.engine.watched.is_unobserved() | self.commit.tells_events() {
            cold_path();
            self.tell_change(self.commit.db(), class, event, key);
        }
    }

    /// Notes a change of a stream's consumer groups. Clients that watch the stream are not notified; clients that wait
    /// for it may be served.
    #[inline]
    pub(crate) fn changed_groups(&mut self, event: &'static str, key: &[u8]) {
        self.changes += 1;
        if !self.engine.waiters.is_empty() {
            cold_path();
            self.note_ready(self.commit.db(), key);
        }
        self.notify(EventClass::Stream, event, key);
    }

    /// As [`Ctx::changed_groups`], for a change that no waiting client waits for.
    #[inline]
    pub(crate) fn changed_groups_quietly(&mut self, event: &'static str, key: &[u8]) {
        self.changes += 1;
        self.notify(EventClass::Stream, event, key);
    }

    /// As [`Ctx::changed`], for a change that the present command did not make but found to be due. It does not count
    /// as the command's own: a command that changes nothing else is not logged.
    pub(crate) fn changed_before(&mut self, class: EventClass, event: &'static str, key: &[u8]) {
        let own = self.changes;
        self.changed(class, event, key);
        self.changes = own;
        self.engine.stats.threads[self.thread].changes.add(1);
    }

    /// As [`Ctx::changed_quietly`], for `times` equal commands at once.
    #[inline]
    pub(crate) fn changed_by_run(&mut self, times: u32, class: EventClass, event: &'static str, key: &[u8]) {
        self.changed_quietly(class, event, key);
        self.changes += u64::from(times) - 1;
    }

    /// As [`Ctx::changed`] for a key in database `db`.
    pub(crate) fn changed_in(&mut self, db: u32, class: EventClass, event: &'static str, key: &[u8]) {
        self.changes += 1;
        if self.is_change_of_interest() {
            self.tell_change_and_waiters(db, class, event, key);
        }
    }

    /// Whether anybody waits, watches or listens.
    #[inline(always)]
    fn is_change_of_interest(&self) -> bool {
        !self.engine.waiters.is_empty() | !self.engine.watched.is_unobserved() | self.commit.tells_events()
    }

    #[inline(never)]
    fn tell_change_and_waiters(&mut self, db: u32, class: EventClass, event: &'static str, key: &[u8]) {
        if !self.engine.waiters.is_empty() {
            self.note_ready(db, key);
        }
        self.tell_change(db, class, event, key);
    }

    #[inline(never)]
    fn tell_change(&mut self, db: u32, class: EventClass, event: &'static str, key: &[u8]) {
        self.tell_observers(db, key);
        self.commit.notify(db, class, event, key);
    }

    /// Notifies clients that watch a key, or have read it and track keys, that it has changed.
    fn tell_observers(&mut self, db: u32, key: &[u8]) {
        if !self.engine.watched.is_unobserved() {
            let hash = self.hash_of(key);
            self.engine.watched.changed(db, key, hash);
            if self.engine.tracking.is_on() {
                self.commit.outdate(key, hash, self.session.handle.id);
            }
        }
    }

    /// As [`Ctx::changed_quietly`], for a change without an event.
    pub(crate) fn changed_without_event(&mut self, key: &[u8]) {
        self.changes += 1;
        self.tell_observers(self.commit.db(), key);
    }

    /// Counts a change that no client watches or waits for and that has no event, unless a key is new.
    #[inline]
    pub(crate) fn changed_untold(&mut self) {
        self.changes += 1;
        if self.commit.tells_events() {
            cold_path();
            self.commit.notify_new();
        }
    }

    /// Publishes another event for a change of `key` in the present database, which is noted separately.
    #[inline]
    pub(crate) fn notify(&mut self, class: EventClass, event: &'static str, key: &[u8]) {
        if self.commit.tells_events() {
            cold_path();
            self.commit.notify(self.commit.db(), class, event, key);
        }
    }

    /// Notes a change that belongs to no key (FLUSHALL, SWAPDB).
    #[inline]
    pub(crate) fn changed_keyspace(&mut self, changes: u64) {
        self.changes += changes.max(1);
        self.all_are_ready();
    }

    /// Has the clients served, at the end of the command, that wait for whatever key.
    pub(crate) fn all_are_ready(&mut self) {
        if !self.engine.waiters.is_empty() {
            for (db, key) in self.engine.waiters.all_keys() {
                self.commit.note_ready(db, key);
            }
        }
    }

    /// Whether there is a follower of the command log: only then make the arguments of [`Ctx::log_instead`].
    #[inline]
    pub fn is_logged(&self) -> bool {
        self.commit.is_logged()
    }

    /// Logs this command in place of the one sent: what was done, with no dependence on time or chance. Several
    /// calls log several commands.
    pub fn log_instead(&mut self, args: &[&[u8]]) {
        self.commit.logs_itself();
        self.commit.log_also(args);
    }

    /// Logs, in place of this command, that `command` has removed members of a key.
    pub(crate) fn log_removed<M: AsRef<[u8]>>(&mut self, command: &'static [u8], key: &[u8], members: &[M]) {
        self.commit.logs_itself();
        self.commit.log_removed(command, key, members);
    }

    /// Logs something that happened before this command's effects, which are logged as well.
    pub(crate) fn log_also(&mut self, args: &[&[u8]]) {
        self.commit.log_also(args);
    }

    /// The most bytes that a string may have: `proto-max-bulk-len`, but what is in a log was allowed before.
    pub(crate) fn string_len_max(&self) -> i64 {
        if self.session.is_replay { i64::MAX } else { self.engine.settings.bulk_len_max.load(Relaxed) }
    }

    /// Logs this command as it was sent, but under its original name, unless it logs itself.
    #[cold]
    pub(crate) fn log_by_original_name(&mut self) {
        // A subcommand's first argument is its container's name, which may be a new one.
        let container = self.command.parent.map_or(self.command, |id| self.engine.commands.command(id));
        self.commit.log_sent_as(container.spec.name.as_bytes(), &self.argv);
    }

    /// This command is not logged as it was sent, even if it does not call [`Ctx::log_instead`].
    pub(crate) fn logs_itself(&mut self) {
        self.commit.logs_itself();
    }

    /// Announces that this command, which has changed nothing yet, will go through this many elements. O(1).
    ///
    /// # Errors
    /// They are too many for a worker: the handler returns, and the command is executed elsewhere from its beginning.
    pub fn expect_work(&self, elements: usize) -> CommandResult {
        Ok(self.commit.expect_work(elements)?)
    }

    /// Announces that this command, which has changed no value yet, will copy so many bytes of a string
    /// ([`onrush_store::ValueRef::copied_bytes`]), and make it longer by so many. O(1).
    ///
    /// # Errors
    /// These are too many bytes for a worker, as of [`Ctx::expect_work`].
    #[inline]
    pub fn expect_edit(&self, copied: usize, grows: usize) -> CommandResult {
        if copied.max(grows) <= EDITED_BYTES_MAX { Ok(()) } else { self.leave_worker() }
    }

    /// Announces that this command, which has changed nothing yet, may take long whatever it finds: a worker does not
    /// execute it. O(1).
    ///
    /// # Errors
    /// This is a worker: the handler returns, and the command is executed elsewhere from its beginning.
    pub fn leave_worker(&self) -> CommandResult {
        Ok(self.commit.leave_worker()?)
    }

    /// Calls `work`, which may wait for a disk, while this thread holds nothing that another one waits for; only inside of
    /// another command's commit it keeps what that one holds. Nothing has been changed yet.
    pub(crate) fn outside_of_gate<R>(&mut self, work: impl FnOnce(&'static Engine) -> R) -> R {
        let leaves = !self.commit.is_nested();
        if leaves {
            self.commit.leave();
        }
        let result = work(self.engine);
        if leaves {
            self.commit.enter();
        }
        result
    }

    /// As [`Ctx::expect_work`], for a command that looks into the shards of the present database one after the other.
    ///
    /// # Errors
    /// As of [`Ctx::expect_work`]; also if another thread holds shards for long.
    pub(crate) fn expect_shards(&self, elements: usize) -> CommandResult {
        Ok(self.commit.expect_shards(elements)?)
    }

    /// A random number.
    pub fn random(&mut self) -> u64 {
        self.commit.random().next()
    }

    /// The error of a subcommand that takes fewer arguments than it got.
    #[cold]
    pub(crate) fn wrong_subcommand(&self) -> CommandError {
        let container = self.command.parent.map_or(self.command, |id| self.engine.commands.command(id));
        let try_help = format!("'. Try {} HELP.", container.spec.name.to_ascii_uppercase());
        CommandError::quoting("ERR unknown subcommand or wrong number of arguments for '", self.arg(1), &try_help)
    }

    /// Changes the selected database.
    pub fn select(&mut self, db: u32) {
        self.session.db = db;
        self.commit.set_db(db);
    }
}
