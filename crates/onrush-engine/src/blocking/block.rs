//! What a handler calls to make its client wait, and to note changed keys that a client may wait for.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use onrush_store::KeyHash;
use parking_lot::Mutex;

use super::state::StateLock;
use super::waiter::{Awaited, Command, OnTimeout, ReplacedArg, Turn, Until, Waiter, Waits, WaitsFor};
use crate::command::Flags;
use crate::ctx::{CommandResult, Ctx};
use crate::error::{CommandError, Stop};
use crate::long::offload::Task;

/// How a command waits.
pub(crate) struct Block {
    /// Arguments that are the keys it waits for, in the present database. Their locks are held.
    pub keys: Range<usize>,
    /// The kind of value it waits for.
    pub waits_for: WaitsFor,
    /// Unix time in milliseconds when it stops; `None` if never.
    pub deadline_ms: Option<i64>,
    /// The reply then.
    pub on_timeout: OnTimeout,
    /// Arguments that replace those sent when the command is executed again, by ascending index. (XREAD's `$` is an identifier
    /// by then.)
    pub instead: Vec<ReplacedArg>,
}

impl Ctx<'_> {
    /// Makes the client wait for keys. The handler has found nothing to reply with, holds the locks of the keys, and
    /// returns without a reply after this. Where blocking is not allowed, the reply of a timeout comes at once. O(keys).
    ///
    /// # Errors
    /// [`Stop::Waits`] if the command is executed for a client that waits: it keeps waiting.
    pub(crate) fn block(&mut self, block: Block) -> CommandResult {
        let Block { keys, waits_for, deadline_ms, on_timeout, instead } = block;
        let until = Until { deadline_ms, on_timeout };
        if !self.may_wait(until)? {
            return Ok(());
        }
        let as_sent = |index| ReplacedArg { index, arg: self.arg(index).to_vec() };
        let sent = instead.iter().map(|replaced| as_sent(replaced.index)).collect();
        let (db, ticket) = (self.commit.db(), self.engine.waiters.ticket());
        let awaited = Awaited { db, range: keys, what: waits_for, ticket, sent };
        self.wait(Waits::Keys(awaited, until), &instead);
        Ok(())
    }

    /// Makes the client wait until another thread finishes its waiter, which is returned, or its time is over. Where
    /// blocking is not allowed, the reply of a timeout comes at once.
    ///
    /// # Errors
    /// As of [`Ctx::block`].
    pub fn block_without_keys(
        &mut self,
        deadline_ms: Option<i64>,
        on_timeout: OnTimeout,
    ) -> Result<Option<Arc<Waiter>>, Stop> {
        let until = Until { deadline_ms, on_timeout };
        Ok(if self.may_wait(until)? { Some(self.wait(Waits::Finish(until), &[])) } else { None })
    }

    /// Whether the client may begin to wait; if not, it has its reply.
    fn may_wait(&mut self, until: Until) -> Result<bool, Stop> {
        if self.serving {
            return Err(Stop::Waits);
        }
        if self.session.deny_blocking {
            until.on_timeout.append_to(self.out, self.engine);
            return Ok(false);
        }
        Ok(true)
    }

    fn wait(&mut self, waits: Waits, instead: &[ReplacedArg]) -> Arc<Waiter> {
        let waiters = &self.engine.waiters;
        let waiter = new_waiter(self, waits, Command::copy(&self.argv, instead), 0);
        waiters.add(&waiter, |key| self.engine.keyspace.hash(key));
        waiters.begin(&waiter);
        self.session.waiter = Some(Arc::clone(&waiter));
        waiter
    }

    /// A timeout in seconds, with fractions, as the Unix time in milliseconds when it ends; 0 is none.
    ///
    /// # Errors
    /// `ERR timeout is not a float or out of range`, `ERR timeout is negative`, `ERR timeout is out of range`
    pub(crate) fn deadline_from_seconds(&self, index: usize) -> Result<Option<i64>, CommandError> {
        let seconds = onrush_resp::parse_f64(self.arg(index))
            .ok_or(CommandError::fixed("ERR timeout is not a float or out of range"))?;
        let ms = (seconds * 1000.0).ceil();
        if ms > i64::MAX as f64 {
            return Err(CommandError::fixed("ERR timeout is out of range"));
        }
        self.deadline(ms as i64)
    }

    /// A timeout in whole milliseconds, likewise.
    ///
    /// # Errors
    /// `ERR timeout is not an integer or out of range`, `ERR timeout is negative`, `ERR timeout is out of range`
    pub(crate) fn deadline_from_ms(&self, index: usize) -> Result<Option<i64>, CommandError> {
        let ms = self.int_or(index, CommandError::fixed("ERR timeout is not an integer or out of range"))?;
        self.deadline(ms)
    }

    fn deadline(&self, ms: i64) -> Result<Option<i64>, CommandError> {
        match ms {
            ..0 => Err(CommandError::fixed("ERR timeout is negative")),
            0 => Ok(None),
            ms => {
                let out_of_range = CommandError::fixed("ERR timeout is out of range");
                self.now_ms().checked_add(ms).map(Some).ok_or(out_of_range)
            }
        }
    }

    /// Notes that a key has changed, if a client may wait for it.
    #[inline(never)]
    pub(crate) fn note_ready(&mut self, db: u32, key: &[u8]) {
        if self.engine.waiters.may_have(self.hash_of(key)) {
            self.commit.note_ready(db, key.to_vec());
        }
    }

    /// The hash of a key; mostly the planner has made it.
    pub(crate) fn hash_of(&self, key: &[u8]) -> KeyHash {
        match self.planned.hashes.first() {
            Some(&hash) if std::ptr::eq(self.argv.get(self.planned.first as usize), key) => hash,
            _ => self.engine.keyspace.hash(key),
        }
    }
}

/// Hands the present command, which has changed nothing, over to the thread for long commands; its client is blocked
/// meanwhile.
pub(crate) fn offload(ctx: &mut Ctx<'_>) {
    let lent = ctx.session.lend();
    let queued_bytes = lent.transaction.as_ref().map_or(0, |transaction| transaction.args_bytes());
    let is_urgent = ctx.command.flags.contains(Flags::URGENT);
    let turn = Turn { is_urgent, lent: Mutex::new(Some(lent)) };
    let waiter = new_waiter(ctx, Waits::Turn(turn), Command::copy(&ctx.argv, &[]), queued_bytes);
    ctx.session.handle.set_aside(true);
    ctx.session.waiter = Some(Arc::clone(&waiter));
    if is_urgent {
        ctx.engine.process.refuse_peers(true);
    }
    ctx.engine.offload.post(Task::Execute(waiter));
}

/// A waiter for the present command. `queued_bytes`: see [`Waiter::held_bytes`].
fn new_waiter(ctx: &Ctx<'_>, waits: Waits, command: Command, queued_bytes: usize) -> Arc<Waiter> {
    Arc::new(Waiter {
        client: Arc::clone(&ctx.session.handle),
        held_bytes: command.bytes_len() + queued_bytes,
        command,
        entry: ctx.command,
        waits,
        proto: ctx.out.proto(),
        began_ns: AtomicU64::new(0),
        state: StateLock::waiting(),
    })
}
