//! Clients that wait for keys: BLPOP and its like.
//!
//! A handler that finds nothing to reply with registers its client on its keys, while it holds their locks, and its
//! connection stops executing. A command that changes such a key runs to its end, gives its locks back and then
//! executes the waiters' commands on their behalf, who waited longest first ([`serve`]). So a waiter has its elements
//! before the reply of the command that brought them is sent.
//!
//! Nothing is executed for a client that cannot get the reply any more: CLIENT KILL ends the waiting before it replies, and a
//! socket whose peer has closed it is noticed before its client is served.
//!
//! Lock order: a waiter's state is locked outside of all shards, the table of waiters inside.

mod waiters;

use std::ops::Range;
use std::sync::Arc;

use onrush_resp::{ArgRange, Proto, Reply};
use onrush_store::{KeyHash, Type};
use parking_lot::Mutex;

use crate::client::ClientHandle;
use crate::commit::Key;
use crate::ctx::{Argv, Ctx};
use crate::error::CommandError;
use crate::execute::{Waited, execute_offloaded, execute_waiting};
use crate::offload::Task;
use crate::server::Server;
use crate::session::Session;

pub use waiters::Waiters;
use waiters::Wanted;

const UNBLOCKED: CommandError = CommandError::fixed("UNBLOCKED client unblocked via CLIENT UNBLOCK");

/// Keys of a waiter that leaves its queues at once when it has ended; of more it does so in the background, and is passed over
/// until then.
const LEAVE_AT_ONCE_MAX: usize = 1_000;

/// Arguments from this length on may be owned, and are not copied then.
const OWNED_LEN_MIN: usize = 32 * 1024;

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

/// What a client waits for a key to become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitsFor {
    /// A list.
    List,
    /// A sorted set.
    SortedSet,
    /// A stream, with entries behind some identifier.
    Stream,
    /// A stream with entries for a group; or that the stream or the group is gone, which is an error.
    Group,
}

impl WaitsFor {
    /// Who is to be served when a key has become a value of this type, or is gone.
    fn served_by(ty: Option<Type>) -> &'static [Self] {
        match ty {
            Some(Type::List) => &[Self::List],
            Some(Type::SortedSet) => &[Self::SortedSet],
            Some(Type::Stream) => &[Self::Stream, Self::Group],
            _ => &[Self::Group],
        }
    }
}

/// How a command waits.
pub struct Block {
    /// Arguments that are the keys it waits for, in the present database. Their locks are held.
    pub keys: Range<usize>,
    /// What it waits for them to become.
    pub waits_for: WaitsFor,
    /// Unix time in milliseconds when it stops; `None` if never.
    pub deadline_ms: Option<i64>,
    /// What it replies then.
    pub on_timeout: OnTimeout,
    /// Arguments to be executed instead of those sent when a key has changed (XREAD's `$` is an identifier by then), by
    /// their indexes, ascending.
    pub instead: Vec<(usize, Vec<u8>)>,
}

/// The command of a client that waits.
struct Command {
    bytes: Vec<u8>,
    ranges: Vec<ArgRange>,
    owned: Vec<Arc<Vec<u8>>>,
}

impl Command {
    /// Copies the arguments, some of them replaced.
    fn copy(argv: &Argv<'_>, instead: &[(usize, Vec<u8>)]) -> Self {
        let mut command = Self {
            bytes: Vec::with_capacity(argv.iter().map(<[u8]>::len).filter(|len| *len < OWNED_LEN_MIN).sum()),
            ranges: Vec::with_capacity(argv.len()),
            owned: Vec::new(),
        };
        let mut instead = instead.iter().peekable();
        for (index, arg) in argv.iter().enumerate() {
            if let Some(arg) = argv.owned(index) {
                command.ranges.push(ArgRange::owned(command.owned.len()));
                command.owned.push(Arc::clone(arg));
                continue;
            }
            let arg = instead.next_if(|(replaced, _)| *replaced == index).map_or(arg, |(_, arg)| arg);
            command.ranges.push(ArgRange::new(command.bytes.len(), arg.len()));
            command.bytes.extend_from_slice(arg);
        }
        command
    }

    fn argv(&self) -> Argv<'_> {
        Argv::new(&self.bytes, &self.ranges, &self.owned)
    }
}

/// A client that waits.
pub struct Waiter {
    client: Arc<ClientHandle>,
    db: u32,
    command: Command,
    keys: Range<usize>,
    waits_for: WaitsFor,
    /// The order of arrival.
    ticket: u64,
    proto: Proto,
    on_timeout: OnTimeout,
    /// When it stops, in Unix milliseconds.
    pub deadline_ms: Option<i64>,
    /// Whether it does not wait for keys but for its command to be executed on the thread for long ones.
    pub is_offloaded: bool,
    /// CLIENT NO-TOUCH is on; commands that would block reply at once instead.
    no_touch: bool,
    deny_blocking: bool,
    state: Mutex<State>,
}

enum State {
    Waiting,
    /// What its connection is to send.
    Done(Vec<u8>),
    /// Its command was executed, and waits for keys now.
    Handed(Arc<Waiter>),
    /// Its connection knows, or is gone.
    Gone,
}

impl Waiter {
    /// The keys, with the indexes of their arguments.
    fn keys(&self) -> impl Iterator<Item = (u32, &[u8])> {
        self.keys.clone().map(|index| (index as u32, self.key(index)))
    }

    fn key(&self, index: usize) -> &[u8] {
        self.command.argv().get(index)
    }

    /// The group of a command that waits for entries of one, XREADGROUP.
    fn group(&self) -> Option<&[u8]> {
        let argv = self.command.argv();
        let mut index = 1;
        while self.waits_for == WaitsFor::Group && index + 1 < argv.len() {
            let word = argv.get(index);
            if word.eq_ignore_ascii_case(b"GROUP") {
                return Some(argv.get(index + 1));
            }
            // NOACK stands alone, the other options before the keys have a value.
            index += if word.eq_ignore_ascii_case(b"NOACK") { 1 } else { 2 };
        }
        None
    }

    fn wanted<'k>(&self, key: &'k [u8], hash: KeyHash) -> Wanted<'k> {
        Wanted { db: self.db, key, hash, what: self.waits_for }
    }

    /// What has become of it, once.
    pub fn take_outcome(&self) -> Option<Outcome> {
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, State::Gone) {
            State::Done(reply) => Some(Outcome::Reply(reply)),
            State::Handed(waiter) => Some(Outcome::Waits(waiter)),
            before => {
                *state = before;
                None
            }
        }
    }

    /// Ends the waiting: it has its reply, or gets none. `state` is that of this waiter, who waited until now.
    fn end(self: &Arc<Self>, server: &'static Server, state: &mut State, now: State) {
        *state = now;
        server.waiters.count_end();
        let leaving = Leaving { server, waiter: Arc::clone(self) };
        if self.keys.len() > LEAVE_AT_ONCE_MAX {
            server.lazyfree.free_later(Box::new(leaving), 0);
        }
        // Before the connection can see the reply: then it may wait anew.
        self.client.waiter.lock().take_if(|waiter| Arc::ptr_eq(waiter, self));
    }

    /// Ends the waiting with a reply made by `reply`; says whether the client still waited.
    fn finish(self: &Arc<Self>, server: &'static Server, reply: impl FnOnce(&mut Reply)) -> bool {
        let mut state = self.state.lock();
        if !matches!(*state, State::Waiting) {
            return false;
        }
        let mut out = Reply::with_buffer(Vec::new(), self.proto);
        reply(&mut out);
        self.end(server, &mut state, State::Done(flatten(&mut out)));
        drop(state);
        self.client.wake();
        true
    }

    /// The time is over.
    pub fn time_out(self: &Arc<Self>, server: &'static Server) -> bool {
        self.finish(server, |out| self.on_timeout.append_to(out))
    }

    /// CLIENT UNBLOCK with ERROR.
    pub fn unblock_with_error(self: &Arc<Self>, server: &'static Server) -> bool {
        self.finish(server, |out| out.error_bytes(UNBLOCKED.as_bytes()))
    }

    /// The client is gone, or is to go: nothing is executed for it any more when this returns. No shard is locked.
    pub fn forget(self: &Arc<Self>, server: &'static Server) {
        if self.is_offloaded {
            // It is executed, or will be, whatever becomes of the client; but it waits for no keys then.
            let before = std::mem::replace(&mut *self.state.lock(), State::Gone);
            if let State::Handed(waiter) = before {
                waiter.forget(server);
            }
            return;
        }
        let mut state = self.state.lock();
        if matches!(*state, State::Waiting) {
            self.end(server, &mut state, State::Gone);
        }
    }
}

/// What becomes of a client that waited.
pub enum Outcome {
    /// Its connection is to send this.
    Reply(Vec<u8>),
    /// It waits for keys now.
    Waits(Arc<Waiter>),
}

impl Waiter {
    /// Executes the command of a client on the thread for long ones. What the client waits for is executed also when it is gone.
    pub(crate) fn execute(&self, outer: &mut Ctx<'_>) {
        let mut out = Reply::with_buffer(Vec::new(), self.proto);
        let mut session = Session::new(Arc::clone(&self.client), true);
        (session.db, session.no_touch, session.deny_blocking) = (self.db, self.no_touch, self.deny_blocking);
        execute_offloaded(outer, &mut session, self.command.argv(), &mut out);
        let mut state = self.state.lock();
        let is_gone = matches!(*state, State::Gone);
        match session.waiter.take() {
            Some(waiter) if is_gone => {
                drop(state);
                outer.keys.release();
                waiter.forget(outer.server);
            }
            Some(waiter) => *state = State::Handed(waiter),
            None if is_gone => {}
            None => *state = State::Done(flatten(&mut out)),
        }
        self.client.wake();
    }

    /// Its command has panicked.
    pub(crate) fn kill_client(&self) {
        self.client.kill();
    }
}

/// Gives the present command, which has changed nothing, to the thread for long ones; its client is blocked meanwhile.
pub(crate) fn offload(ctx: &mut Ctx<'_>) {
    let waiter = Arc::new(Waiter {
        client: Arc::clone(&ctx.session.handle),
        db: ctx.keys.db(),
        command: Command::copy(&ctx.argv, &[]),
        keys: 0..0,
        waits_for: WaitsFor::List,
        ticket: 0,
        proto: ctx.out.proto(),
        on_timeout: OnTimeout::Null,
        deadline_ms: None,
        is_offloaded: true,
        no_touch: ctx.session.no_touch,
        deny_blocking: ctx.session.deny_blocking,
        state: Mutex::new(State::Waiting),
    });
    ctx.session.handle.set_aside(true);
    ctx.session.waiter = Some(Arc::clone(&waiter));
    ctx.server.offload.post(Task::Execute(waiter));
}

/// A waiter that has ended, until it has left its queues.
struct Leaving {
    server: &'static Server,
    waiter: Arc<Waiter>,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.server.waiters.remove(&self.waiter, |key| self.server.keyspace.hash(key));
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
    /// command that is executed for a client that waits goes on waiting. O(keys).
    pub fn block(&mut self, block: Block) {
        if self.serving {
            self.still_waits = true;
            return;
        }
        if self.session.deny_blocking {
            block.on_timeout.append_to(self.out);
            return;
        }
        let waiters = &self.server.waiters;
        let waiter = Arc::new(Waiter {
            client: Arc::clone(&self.session.handle),
            db: self.keys.db(),
            command: Command::copy(&self.argv, &block.instead),
            keys: block.keys,
            waits_for: block.waits_for,
            ticket: waiters.ticket(),
            proto: self.out.proto(),
            on_timeout: block.on_timeout,
            deadline_ms: block.deadline_ms,
            is_offloaded: false,
            no_touch: false,
            deny_blocking: false,
            state: Mutex::new(State::Waiting),
        });
        waiters.add(&waiter, |key| self.server.keyspace.hash(key));
        let mut known = self.session.handle.waiter.lock();
        *known = Some(Arc::clone(&waiter));
        // Who counts it finds it.
        waiters.count_begin();
        drop(known);
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

    /// Notes that a key has changed, if somebody may wait for it.
    #[inline(never)]
    pub(crate) fn note_ready(&mut self, db: u32, key: &[u8]) {
        if self.server.waiters.may_have(self.hash_of(key)) {
            self.keys.note_ready(db, key.to_vec());
        }
    }

    /// The hash of a key; the planner has mostly made it.
    fn hash_of(&self, key: &[u8]) -> KeyHash {
        match self.planned.hashes.first() {
            Some(&hash) if std::ptr::eq(self.argv.get(self.planned.first as usize), key) => hash,
            _ => self.server.keyspace.hash(key),
        }
    }
}

/// Executes the commands of clients that wait for the keys that just changed. No locks are held.
#[cold]
pub(crate) fn serve(ctx: &mut Ctx<'_>) {
    let db_before = ctx.keys.db();
    while ctx.keys.has_ready() {
        for (db, key) in ctx.keys.take_ready() {
            if ctx.server.offload.is_busy() && ctx.keys.may_defer() {
                ctx.keys.set_db(db);
                if ctx.keys.is_held_long(&key) {
                    // Who holds it serves them afterwards.
                    ctx.server.offload.post(Task::Serve(db, key));
                    continue;
                }
            }
            serve_key(ctx, db, &key);
        }
    }
    ctx.keys.set_db(db_before);
}

/// As [`serve`], for one key that could not be served when it changed.
pub(crate) fn serve_later(ctx: &mut Ctx<'_>, db: u32, key: &[u8]) {
    serve_key(ctx, db, key);
    serve(ctx);
}

/// Serves who waits for a key as it is now, as long as it stays what they wait for. O(served).
fn serve_key(ctx: &mut Ctx<'_>, db: u32, key: &[u8]) {
    let hash = ctx.server.keyspace.hash(key);
    let ty = type_of(ctx, db, Key { bytes: key, hash, shard: None });
    for &what in WaitsFor::served_by(ty) {
        let wanted = Wanted { db, key, hash, what };
        let mut last = None;
        // Groups that have nothing for the next either.
        let mut exhausted: Vec<Vec<u8>> = Vec::new();
        while let Some((place, waiter)) = ctx.server.waiters.next(&wanted, last) {
            last = Some(place);
            let group = waiter.group();
            if group.is_some_and(|group| exhausted.iter().any(|other| other == group)) {
                continue;
            }
            match serve_one(ctx, &waiter) {
                Served::Done => {}
                Served::WaitsOn => exhausted.extend(group.map(<[u8]>::to_vec)),
                Served::PutOff => {
                    ctx.server.offload.post(Task::Serve(db, key.to_vec()));
                    return;
                }
            }
            if type_of(ctx, db, Key { bytes: key, hash, shard: None }) != ty {
                // Whoever is behind waits on; what the key is now is a change of its own.
                break;
            }
        }
    }
}

fn type_of(ctx: &mut Ctx<'_>, db: u32, key: Key<'_>) -> Option<Type> {
    let ty = ctx.keys.peek_in(db, &key).map(onrush_store::Entry::ty);
    ctx.keys.release();
    ty
}

/// What became of a waiter that was to be served.
#[derive(PartialEq, Eq)]
enum Served {
    /// It waits no more, or did not before.
    Done,
    /// There was nothing for it.
    WaitsOn,
    /// Its keys are held for long: whoever waits is served afterwards.
    PutOff,
}

fn serve_one(ctx: &mut Ctx<'_>, waiter: &Arc<Waiter>) -> Served {
    let mut state = waiter.state.lock();
    if !matches!(*state, State::Waiting) {
        return Served::Done;
    }
    // Its connection is there as long as it waits: it ends the waiting before it closes its socket.
    if waiter.client.is_killed() || crate::os::is_hung_up(waiter.client.fd) {
        waiter.end(ctx.server, &mut state, State::Gone);
        drop(state);
        waiter.client.kill();
        return Served::Done;
    }
    let mut out = Reply::with_buffer(Vec::new(), waiter.proto);
    match execute_waiting(ctx, &waiter.client, waiter.db, waiter.command.argv(), &mut out) {
        Waited::Enough => {}
        Waited::On => return Served::WaitsOn,
        Waited::Longer => return Served::PutOff,
    }
    waiter.end(ctx.server, &mut state, State::Done(flatten(&mut out)));
    drop(state);
    waiter.client.wake();
    Served::Done
}
