//! Clients that wait for keys: BLPOP and its like.
//!
//! A handler that finds nothing to reply with registers its client on its keys, while it holds their locks, and its
//! connection stops executing. A command that changes such a key runs to its end, gives its locks back and then
//! executes the waiters' commands on their behalf, who waited longest first ([`serve`]). So a waiter has its elements
//! before the reply of the command that brought them is sent.
//!
//! Lock order: a waiter's state is locked outside of all shards, the table of waiters inside.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use onrush_resp::{Proto, Reply};
use parking_lot::Mutex;

use crate::client::ClientHandle;
use crate::ctx::Ctx;
use crate::error::CommandError;
use crate::execute::execute_waiting;

const UNBLOCKED: CommandError = CommandError::fixed("UNBLOCKED client unblocked via CLIENT UNBLOCK");

/// What a client gets whose time is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnTimeout {
    /// A null array (`*-1` in RESP2).
    NullArray,
    /// Null (`$-1` in RESP2).
    Null,
}

impl OnTimeout {
    /// Appends it to a reply.
    pub fn append_to(self, out: &mut Reply) {
        match self {
            Self::NullArray => out.null_array(),
            Self::Null => out.null(),
        }
    }
}

/// How a command waits.
pub struct Block<'k> {
    /// The keys it waits for, in the present database. Their locks are held.
    pub keys: &'k [&'k [u8]],
    /// Unix time in milliseconds when it stops; `None` if never.
    pub deadline_ms: Option<i64>,
    /// What it replies then.
    pub on_timeout: OnTimeout,
    /// The command to execute when a key has changed, if not the one that was sent (XREAD's `$` is an id by then).
    pub instead: Option<Vec<Vec<u8>>>,
    /// Whether an error ends the waiting (XREADGROUP when its key is gone); otherwise it goes on.
    pub error_ends: bool,
}

/// A client that waits.
pub struct Waiter {
    client: Arc<ClientHandle>,
    db: u32,
    argv: Vec<Vec<u8>>,
    proto: Proto,
    keys: Vec<Vec<u8>>,
    on_timeout: OnTimeout,
    error_ends: bool,
    /// When it stops, in Unix milliseconds.
    pub deadline_ms: Option<i64>,
    state: Mutex<State>,
}

enum State {
    Waiting,
    /// What its connection is to send.
    Done(Vec<u8>),
    /// Its connection knows, or is gone.
    Gone,
}

type Queues = HashMap<(u32, Vec<u8>), VecDeque<Arc<Waiter>>>;

/// All clients that wait, by key, in order of arrival.
#[derive(Default)]
pub struct Waiters {
    waiting: AtomicUsize,
    queues: Mutex<Queues>,
}

impl Waiters {
    /// How many clients wait.
    #[inline]
    pub fn len(&self) -> usize {
        self.waiting.load(Relaxed)
    }

    /// Whether no client waits. A thread that holds a key's lock sees every waiter on it.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of keys that clients wait for.
    pub fn keys_len(&self) -> usize {
        self.queues.lock().len()
    }

    fn has(&self, db: u32, key: &[u8]) -> bool {
        self.queues.lock().contains_key(&(db, key.to_vec()))
    }

    fn add(&self, waiter: &Arc<Waiter>) {
        self.waiting.fetch_add(1, Relaxed);
        let mut queues = self.queues.lock();
        for key in &waiter.keys {
            queues.entry((waiter.db, key.clone())).or_default().push_back(Arc::clone(waiter));
        }
    }

    fn remove(&self, waiter: &Waiter) {
        self.waiting.fetch_sub(1, Relaxed);
        let mut queues = self.queues.lock();
        for key in &waiter.keys {
            let place = (waiter.db, key.clone());
            let Some(queue) = queues.get_mut(&place) else { continue };
            queue.retain(|other| !std::ptr::eq(&**other, waiter));
            if queue.is_empty() {
                queues.remove(&place);
            }
        }
    }

    fn of_key(&self, db: u32, key: &[u8]) -> Vec<Arc<Waiter>> {
        self.queues.lock().get(&(db, key.to_vec())).map(|queue| queue.iter().cloned().collect()).unwrap_or_default()
    }

    /// Every key that is waited for, with its database: after a change of whole databases.
    pub fn all_keys(&self) -> Vec<(u32, Vec<u8>)> {
        self.queues.lock().keys().cloned().collect()
    }
}

impl Waiter {
    /// Whether it still waits or has something to send that its connection has not taken.
    pub fn take_reply(&self) -> Option<Vec<u8>> {
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, State::Gone) {
            State::Done(reply) => Some(reply),
            before => {
                *state = before;
                None
            }
        }
    }

    /// Ends the waiting with a reply made by `reply`; says whether the client still waited.
    fn finish(&self, waiters: &Waiters, reply: impl FnOnce(&mut Reply)) -> bool {
        let mut state = self.state.lock();
        if !matches!(*state, State::Waiting) {
            return false;
        }
        let mut out = Reply::with_buffer(Vec::new(), self.proto);
        reply(&mut out);
        *state = State::Done(flatten(&mut out));
        waiters.remove(self);
        drop(state);
        *self.client.waiter.lock() = None;
        self.client.wake();
        true
    }

    /// The time is over.
    pub fn time_out(&self, waiters: &Waiters) -> bool {
        self.finish(waiters, |out| self.on_timeout.append_to(out))
    }

    /// CLIENT UNBLOCK with ERROR.
    pub fn unblock_with_error(&self, waiters: &Waiters) -> bool {
        self.finish(waiters, |out| out.error_bytes(UNBLOCKED.as_bytes()))
    }

    /// The connection is gone.
    pub fn forget(&self, waiters: &Waiters) {
        let mut state = self.state.lock();
        if matches!(std::mem::replace(&mut *state, State::Gone), State::Waiting) {
            waiters.remove(self);
        }
    }
}

/// All bytes of a reply, one behind the other.
pub(crate) fn flatten(out: &mut Reply) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(out.len());
    while !out.is_empty() {
        let mut slices = [std::io::IoSlice::new(&[]); 16];
        let count = out.slices(&mut slices);
        let len = slices[..count].iter().map(|slice| slice.len()).sum();
        slices[..count].iter().for_each(|slice| bytes.extend_from_slice(slice));
        out.advance(len);
    }
    bytes
}

impl Ctx<'_> {
    /// Lets the client wait for keys. The handler has found nothing to reply with, holds the locks of the keys, and
    /// returns without a reply after this. Where blocking is not allowed the reply of a timeout comes at once; a
    /// command that is executed for a client that waits goes on waiting.
    pub fn block(&mut self, block: Block<'_>) {
        if self.serving {
            self.still_waits = true;
            return;
        }
        if self.session.deny_blocking {
            block.on_timeout.append_to(self.out);
            return;
        }
        let mut keys: Vec<Vec<u8>> = Vec::with_capacity(block.keys.len());
        for key in block.keys {
            if !keys.iter().any(|other| other == key) {
                keys.push(key.to_vec());
            }
        }
        let waiter = Arc::new(Waiter {
            client: Arc::clone(&self.session.handle),
            db: self.keys.db(),
            argv: block.instead.unwrap_or_else(|| self.argv.iter().map(<[u8]>::to_vec).collect()),
            proto: self.out.proto(),
            keys,
            on_timeout: block.on_timeout,
            error_ends: block.error_ends,
            deadline_ms: block.deadline_ms,
            state: Mutex::new(State::Waiting),
        });
        self.server.waiters.add(&waiter);
        *self.session.handle.waiter.lock() = Some(Arc::clone(&waiter));
        self.session.waiter = Some(waiter);
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

    /// Notes that a key changed which somebody waits for.
    #[cold]
    pub(crate) fn note_ready(&mut self, db: u32, key: &[u8]) {
        if self.server.waiters.has(db, key) {
            self.keys.ready.push((db, key.to_vec()));
        }
    }
}

/// Executes the commands of clients that wait for the keys that just changed. No locks are held.
#[cold]
pub(crate) fn serve(ctx: &mut Ctx<'_>) {
    let waiters = &ctx.server.waiters;
    let db_before = ctx.keys.db();
    while !ctx.keys.ready.is_empty() {
        for (db, key) in std::mem::take(&mut ctx.keys.ready) {
            for waiter in waiters.of_key(db, &key) {
                let exists = {
                    let key = ctx.keys.key(&key);
                    ctx.keys.peek_in(db, &key).is_some()
                };
                ctx.keys.release();
                if exists || waiter.error_ends {
                    serve_one(ctx, &waiter);
                }
            }
        }
    }
    ctx.keys.set_db(db_before);
}

fn serve_one(ctx: &mut Ctx<'_>, waiter: &Waiter) {
    let mut state = waiter.state.lock();
    if !matches!(*state, State::Waiting) {
        return;
    }
    let mut out = Reply::with_buffer(Vec::new(), waiter.proto);
    if !execute_waiting(ctx, &waiter.client, waiter.db, &waiter.argv, waiter.error_ends, &mut out) {
        return;
    }
    *state = State::Done(flatten(&mut out));
    ctx.server.waiters.remove(waiter);
    drop(state);
    *waiter.client.waiter.lock() = None;
    waiter.client.wake();
}
