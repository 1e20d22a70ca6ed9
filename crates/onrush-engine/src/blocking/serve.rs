//! Serving clients that wait: their commands are executed on their behalf.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use onrush_cluster::slots::slot;
use onrush_resp::Reply;
use onrush_store::Type;

use super::state::State;
use super::waiter::{End, Outcome, Waiter, WaitsFor};
use super::waiters::Wanted;
use crate::batch::admission::abort_session;
use crate::batch::execute::{Waited, execute_offloaded, execute_waiting};
use crate::batch::paused::is_held_back;
use crate::clients::session::Session;
use crate::cluster::refusals::after_a_key;
use crate::commit::Key;
use crate::ctx::{Ctx, Engine};
use crate::error::CommandError;
use crate::long::offload::Task;
use crate::settings::Pause;

impl Waiter {
    /// Whether a pause holds back its command, which waits for the thread for long commands.
    pub(crate) fn is_held_back(&self, engine: &'static Engine, pause: Pause) -> bool {
        let Ok(command) = engine.commands.resolve(&self.command.argv()) else { return false };
        // An earlier pause does not hold back another CLIENT PAUSE, and none the end of the server.
        if self.is_urgent() || &*command.full_name == "client|pause" {
            return false;
        }
        let lent = self.turn().map(|turn| turn.lent.lock());
        let session = lent.as_ref().and_then(|lent| lent.as_ref());
        let transaction = session.and_then(|session| session.transaction.as_ref());
        let is_import = session.is_some_and(|session| session.is_importing());
        let pause = if is_import { engine.holds_back_imports(engine.clock.unix_ms()) } else { pause };
        is_held_back(engine, pause, command, &self.command.argv(), transaction.map(|transaction| &**transaction))
    }

    /// Executes the command of a client on the thread for long commands, even if the client is gone. If it was told to go, by
    /// CLIENT KILL or as its user was deleted, only an urgent one is executed, such as SHUTDOWN. A panic ends the client.
    /// `full`: memory is not within its limit.
    pub(crate) fn execute(&self, outer: &mut Ctx<'_>, full: bool) {
        self.leave_queue(outer.engine);
        let Some(mut lent) = self.take_lent() else { return };
        if self.client.is_killed() && !self.is_urgent() {
            return self.give_back(outer.engine, lent, |lent| End::reply(Vec::new(), Some(lent)));
        }
        let mut out = Reply::with_buffer(Vec::new(), self.proto);
        let executed = catch_unwind(AssertUnwindSafe(|| {
            execute_offloaded(outer, &mut lent, self.command.argv(), &mut out, full);
        }));
        if let Err(panic) = executed {
            lent.end(outer.engine);
            self.client.kill();
            resume_unwind(panic);
        }
        // Others are told of the changes, and the log has them, before the reply goes out.
        outer.commit.release();
        outer.commit.broadcast();
        outer.commit.submit();
        self.give_back(outer.engine, lent, |mut lent| match lent.waiter.take() {
            Some(waiter) => State::Ended(End { outcome: Outcome::Waits(waiter), lent: Some(lent) }),
            None => End::reply(out.take_bytes(), Some(lent)),
        });
    }
}

/// Replies to all clients whose commands wait for the thread for long commands that a script takes too long there.
#[cold]
pub(crate) fn refuse_waiting(engine: &'static Engine) {
    let error = engine.scripts.running.refusal();
    for waiter in engine.offload.take_commands() {
        waiter.refuse(engine, &error);
        engine.offload.done();
    }
}

impl Waiter {
    fn take_lent(&self) -> Option<Box<Session>> {
        self.turn().and_then(|turn| turn.lent.lock().take())
    }

    /// The thread for long commands has come to its command.
    fn leave_queue(&self, engine: &Engine) {
        if self.is_urgent() {
            // See `offload`.
            engine.process.refuse_peers(false);
        }
    }

    /// Replies with an error in place of the command, which is for the thread for long commands and has not begun.
    fn refuse(&self, engine: &'static Engine, error: &CommandError) {
        self.leave_queue(engine);
        let Some(mut lent) = self.take_lent() else { return };
        let mut out = Reply::with_buffer(Vec::new(), self.proto);
        match lent.transaction.is_some() {
            true => out.error_bytes(abort_session(&mut lent, engine, error).as_bytes()),
            false => out.error_bytes(error.as_bytes()),
        }
        engine.stats.count_error(error.code());
        let reply = if lent.leaves_out() { Vec::new() } else { out.take_bytes() };
        self.give_back(engine, lent, |lent| End::reply(reply, Some(lent)));
    }

    /// Gives the connection its state back, in the end that `end` makes with it.
    fn give_back(&self, engine: &'static Engine, mut lent: Box<Session>, end: impl FnOnce(Box<Session>) -> State<End>) {
        let mut state = self.state.lock();
        if state.is_gone() {
            drop(state);
            lent.end(engine);
            return;
        }
        *state = end(lent);
        drop(state);
        self.client.wake();
    }
}

/// Executes the commands of clients that wait for the keys that just changed. No locks may be held.
#[cold]
pub(crate) fn serve(ctx: &mut Ctx<'_>) {
    let db_before = ctx.commit.db();
    while ctx.commit.has_ready() {
        for (db, key) in ctx.commit.take_ready() {
            if ctx.engine.offload.is_busy() && ctx.commit.may_defer() {
                ctx.commit.set_db(db);
                if ctx.commit.is_held_long(&key) {
                    // The thread that holds it serves them afterwards.
                    ctx.engine.offload.post(Task::Serve(db, key));
                    continue;
                }
            }
            serve_key(ctx, db, &key);
        }
    }
    ctx.commit.set_db(db_before);
}

/// As [`serve`], for one key that could not be served when it changed.
pub(crate) fn serve_later(ctx: &mut Ctx<'_>, db: u32, key: &[u8]) {
    serve_key(ctx, db, key);
    serve(ctx);
}

/// Serves the clients that wait for the key's present kind of value, as long as the key keeps it. O(served).
fn serve_key(ctx: &mut Ctx<'_>, db: u32, key: &[u8]) {
    if ctx.engine.loading.is_on() {
        // What is loaded was not pushed for them; what they take would be missing for the commands to come.
        return;
    }
    let hash = ctx.engine.keyspace.hash(key);
    let ty = type_of(ctx, db, Key { bytes: key, hash, shard: None });
    let leaving = ctx.engine.cluster.as_ref().filter(|cluster| ty.is_none() && cluster.has_moving());
    let routes = leaving.map(|cluster| cluster.routes());
    for &what in WaitsFor::served_by(ty) {
        let wanted = Wanted { db, key, hash, what };
        let mut last = None;
        // Groups without anything for the next client either.
        let mut exhausted: Vec<Vec<u8>> = Vec::new();
        while let Some((place, waiter)) = ctx.engine.waiters.next(&wanted, last) {
            last = Some(place);
            let group = waiter.group();
            if group.is_some_and(|group| exhausted.iter().any(|other| other == group)) {
                continue;
            }
            let is_encrypted = waiter.client.is_encrypted();
            if let Some(error) = routes.as_ref().and_then(|routes| after_a_key(is_encrypted, routes, slot(key))) {
                waiter.finish(ctx.engine, |out| out.error_bytes(error.as_bytes()));
                continue;
            }
            match serve_one(ctx, &waiter) {
                Served::Done => {}
                Served::WaitsOn => exhausted.extend(group.map(<[u8]>::to_vec)),
                Served::PutOff => {
                    ctx.engine.offload.post(Task::Serve(db, key.to_vec()));
                    return;
                }
            }
            if type_of(ctx, db, Key { bytes: key, hash, shard: None }) != ty {
                // The clients behind keep waiting; the key's new value counts as another change.
                break;
            }
        }
    }
}

fn type_of(ctx: &mut Ctx<'_>, db: u32, key: Key<'_>) -> Option<Type> {
    let ty = ctx.commit.peek_in(db, &key).map(onrush_store::Entry::ty);
    ctx.commit.release();
    ty
}

/// The result of serving a waiter.
#[derive(PartialEq, Eq)]
enum Served {
    /// It no longer waits, or has not waited.
    Done,
    /// There was nothing for it.
    WaitsOn,
    /// Its keys are held for long: the waiters are served afterwards.
    PutOff,
}

fn serve_one(ctx: &mut Ctx<'_>, waiter: &Arc<Waiter>) -> Served {
    let mut state = waiter.state.lock();
    if !state.is_waiting() {
        return Served::Done;
    }
    // The connection exists as long as the client waits: it ends the waiting before it closes its socket.
    if waiter.client.is_killed() || ctx.engine.process.has_hung_up(waiter.client.fd) {
        waiter.end(ctx.engine, &mut state, State::Gone);
        drop(state);
        waiter.client.kill();
        return Served::Done;
    }
    let started = ctx.engine.clock.now();
    let mut out = Reply::with_buffer(Vec::new(), waiter.proto);
    let Some(awaited) = waiter.awaited() else { return Served::Done };
    match execute_waiting(ctx, &waiter.client, awaited.db, waiter.command.argv(), &mut out) {
        Waited::Enough => {}
        Waited::On => return Served::WaitsOn,
        Waited::Longer => return Served::PutOff,
    }
    waiter.note_slow(ctx.engine, (ctx.engine.clock.now() - started).as_nanos() as u64);
    waiter.end(ctx.engine, &mut state, End::reply(out.take_bytes(), None));
    drop(state);
    waiter.client.wake();
    Served::Done
}
