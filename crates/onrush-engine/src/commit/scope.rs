//! The keys that a commit has locked.

use onrush_store::{Db, KeyHash};

use super::{Commit, Refused};

impl Commit {
    /// Whether commands run inside of another commit.
    pub(crate) fn is_nested(&self) -> bool {
        self.locks.is_lent()
    }

    /// Locks the shards of several keys at once, in order; they stay locked until the command ends. The keys may come in any
    /// order and repeat.
    ///
    /// # Errors
    /// The command runs inside of another commit, which has not declared one of the keys.
    pub fn lock_all(&mut self, keys: impl IntoIterator<Item = (u32, KeyHash)>) -> Result<(), Refused> {
        self.release();
        self.locks.lock_all(keys.into_iter())
    }

    /// Takes the whole keyspace for this command. References into tables must end before.
    ///
    /// # Errors
    /// The command runs inside of another commit, which has declared only keys; or it would have to wait for a long
    /// command.
    pub(crate) fn lock_keyspace(&mut self) -> Result<(), Refused> {
        self.release();
        // A thread that has the keyspace must not miss one of our records.
        self.record.journal.submit();
        let locked = self.locks.lock_keyspace();
        // Another thread may have had it in between and begun a snapshot, or begun to follow the log.
        self.look_for_log();
        locked
    }

    /// Whether the whole keyspace is locked.
    pub(crate) fn has_keyspace(&self) -> bool {
        self.locks.has_keyspace()
    }

    /// Announces that the present command, which has changed nothing yet, will go through this many elements.
    ///
    /// # Errors
    /// They are too many for a worker: the command is executed again from its beginning on the thread for long
    /// commands.
    #[inline]
    pub fn expect_work(&self, elements: usize) -> Result<(), Refused> {
        if elements <= self.shared.offload.elements_max || !self.may_defer() {
            return Ok(());
        }
        Err(Refused::TakesLong)
    }

    /// A command may go through this many elements to find out whether there are too many for a worker.
    #[inline]
    pub(crate) fn work_max(&self) -> usize {
        if self.may_defer() { self.shared.offload.elements_max } else { usize::MAX }
    }

    /// Announces that the present command, which has changed nothing yet, may take long whatever it finds.
    ///
    /// # Errors
    /// As of [`Commit::expect_work`].
    #[inline]
    pub fn leave_worker(&self) -> Result<(), Refused> {
        if self.may_defer() { Err(Refused::TakesLong) } else { Ok(()) }
    }

    /// Announces that the present command, which has changed nothing yet, will look into shards one after the other.
    ///
    /// # Errors
    /// As of [`Commit::expect_work`]; also if another thread holds shards for long.
    pub(crate) fn expect_shards(&self, elements: usize) -> Result<(), Refused> {
        if self.shared.offload.is_busy() { self.leave_worker() } else { self.expect_work(elements) }
    }

    /// Whether commands may be postponed, or go to the thread for long commands. Inside of a script, that means the
    /// whole script, which must have undo.
    #[inline]
    pub(crate) fn may_defer(&self) -> bool {
        self.locks.defers && self.shared.offload.is_there() && (!self.locks.is_lent() || self.record.undo.is_on())
    }

    /// Whether the outer command, which runs others inside of its commit, could also be executed on the thread for long
    /// commands.
    pub(crate) fn may_go_elsewhere(&self) -> bool {
        self.locks.defers && self.shared.offload.is_there()
    }

    /// Whether another thread holds the shard of a key in the present database for long.
    pub(crate) fn is_held_long(&self, key: &[u8]) -> bool {
        let hash = self.shared.keyspace.hash(key);
        self.shared.keyspace.db(self.db as usize).is_some_and(|db| db.shard_of(hash).is_held_long())
    }

    /// Begins running commands inside of this commit, with its locks: several keys' or the whole keyspace. Until
    /// [`Commit::end_nested`] they can neither take other locks nor give locks back.
    pub fn begin_nested(&mut self) {
        self.locks.lend();
        self.record.hold(true);
    }

    /// Ends what [`Commit::begin_nested`] began; the locks are still held.
    ///
    /// # Errors
    /// A command asked for a key that was not declared. It found no key, and its changes to it are dropped.
    pub fn end_nested(&mut self) -> Result<(), Refused> {
        self.record.hold(false);
        self.locks.take_back()
    }

    /// A database, made if necessary. The caller locks its shards by itself, and only reads.
    pub fn database(&self, db: u32) -> &'static Db {
        self.locks.database(db)
    }
}
