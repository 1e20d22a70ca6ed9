//! What a handler calls to make its client wait, and to note changed keys that a client may wait for.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use onrush_store::KeyHash;
use parking_lot::Mutex;

use super::waiter::{Command, OnTimeout, ReplacedArg, State, Waiter, WaitsFor};
use crate::command::Flags;
use crate::ctx::{CommandResult, Ctx};
use crate::error::{CommandError, Stop};
use crate::long::offload::Task;

/// How a command waits.
pub struct Block {
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
    /// returns without a reply after this. Where blocking is not allowed, the reply of a timeout comes at once. A
    /// command executed for a waiting client keeps waiting. O(keys).
    ///
    /// # Errors
    /// [`Stop::Waits`] in that case.
    pub fn block(&mut self, block: Block) -> CommandResult {
        if self.serving {
            return Err(Stop::Waits);
        }
        if self.session.deny_blocking {
            block.on_timeout.append_to(self.out);
            return Ok(());
        }
        let waiters = &self.engine.waiters;
        let command = Command::copy(&self.argv, &block.instead);
        let waiter = Arc::new(Waiter {
            client: Arc::clone(&self.session.handle),
            db: self.commit.db(),
            held_bytes: command.bytes_len(),
            command,
            sent: block.instead.iter().map(|replaced| self.as_sent(replaced.index)).collect(),
            began_ns: AtomicU64::new(0),
            keys: block.keys,
            waits_for: block.waits_for,
            ticket: waiters.ticket(),
            proto: self.out.proto(),
            on_timeout: block.on_timeout,
            deadline_ms: block.deadline_ms,
            is_offloaded: false,
            is_urgent: false,
            may_report_data: self.command.may_report_data(),
            lent: Mutex::new(None),
            state: Mutex::new(State::Waiting),
        });
        waiters.add(&waiter, |key| self.engine.keyspace.hash(key));
        let mut known = self.session.handle.waiter.lock();
        *known = Some(Arc::clone(&waiter));
        // It is in the handle before it is counted, so a thread that sees it counted finds it.
        waiters.count_begin();
        drop(known);
        self.session.waiter = Some(waiter);
        Ok(())
    }

    /// Makes the client wait for no key: until another thread finishes its waiter, which is returned, or the time is over.
    /// Where blocking is not allowed, the reply of a timeout comes at once.
    ///
    /// # Errors
    /// As of [`Ctx::block`].
    pub fn set_aside(&mut self, deadline_ms: Option<i64>, on_timeout: OnTimeout) -> Result<Option<Arc<Waiter>>, Stop> {
        self.block(Block { keys: 0..0, waits_for: WaitsFor::List, deadline_ms, on_timeout, instead: Vec::new() })?;
        Ok(self.session.waiter.clone())
    }

    fn as_sent(&self, index: usize) -> ReplacedArg {
        ReplacedArg { index, arg: self.arg(index).to_vec() }
    }

    /// A timeout in seconds, with fractions, as the Unix time in milliseconds when it ends; 0 is none.
    ///
    /// # Errors
    /// `ERR timeout is not a float or out of range`, `ERR timeout is negative`, `ERR timeout is out of range`
    pub fn deadline_from_seconds(&self, index: usize) -> Result<Option<i64>, CommandError> {
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
    pub fn deadline_from_ms(&self, index: usize) -> Result<Option<i64>, CommandError> {
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
    let command = Command::copy(&ctx.argv, &[]);
    let queued_bytes = lent.transaction.as_ref().map_or(0, |transaction| transaction.args_bytes());
    let is_urgent = ctx.command.flags.contains(Flags::URGENT);
    let waiter = Arc::new(Waiter {
        client: Arc::clone(&ctx.session.handle),
        db: ctx.commit.db(),
        held_bytes: command.bytes_len() + queued_bytes,
        command,
        sent: Vec::new(),
        began_ns: AtomicU64::new(0),
        keys: 0..0,
        waits_for: WaitsFor::List,
        ticket: 0,
        proto: ctx.out.proto(),
        on_timeout: OnTimeout::Null,
        deadline_ms: None,
        is_offloaded: true,
        is_urgent,
        may_report_data: ctx.command.may_report_data(),
        lent: Mutex::new(Some(lent)),
        state: Mutex::new(State::Waiting),
    });
    ctx.session.handle.set_aside(true);
    ctx.session.waiter = Some(Arc::clone(&waiter));
    if is_urgent {
        ctx.engine.process.refuse_peers(true);
    }
    ctx.engine.offload.post(Task::Execute(waiter));
}
