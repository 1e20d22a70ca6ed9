//! The thread that changes what this server serves: it may have to wait for commands under way.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Release};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use onrush_cluster::slots::SlotSet;
use onrush_engine::batch::runner::Runner;
use onrush_engine::clients::local::LocalClient;
use onrush_engine::cluster::change::{Deletion, change_routes, delete_slots, try_change_routes};
use onrush_engine::cluster::clustering::Clustering;
use onrush_engine::cluster::facts::Facts;
use onrush_engine::cluster::hearing::tell_of_slots;
use onrush_engine::cluster::moves::import::write_marks;
use onrush_engine::cluster::routes::Routes;
use onrush_engine::process::Done;
use onrush_engine::settings::Hold;
use onrush_persist::threads;
use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

use crate::process::server::Server;
use crate::replica::Request;
use crate::replicas::GETACK;

/// What replicas are to be told of slots, and whom to tell then where that ends in the stream.
pub(super) struct Telling {
    pub(super) text: String,
    pub(super) tell: Vec<oneshot::Sender<u64>>,
}

/// Writes and a manual fail-over.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Holding {
    /// They are held back; the state knows the hold by its time.
    Until(u64),
    /// They go on.
    Over,
}

/// What has changed at once.
#[derive(Default)]
pub(super) struct Change {
    /// The new role: its primary, if there is one.
    pub(super) role: Option<Request>,
    /// What replicas are to be told of slots.
    pub(super) telling: Option<Telling>,
    pub(super) routes: Option<Arc<Routes>>,
    /// Whether writes are held back from now on, or not any more.
    pub(super) holds: Option<Holding>,
    /// All data is to be deleted.
    pub(super) flushes: bool,
    /// Slots whose keys are to be deleted.
    pub(super) lost: Vec<u16>,
    /// Whom to tell then.
    pub(super) done: Vec<Done>,
}

impl Change {
    /// Whether there is nothing to do.
    pub(super) fn is_empty(&self) -> bool {
        self.is_simple() && self.routes.is_none() && self.done.is_empty()
    }

    /// Whether it is about routes alone.
    fn is_simple(&self) -> bool {
        self.is_joined() && self.telling.is_none()
    }

    /// Whether it is about routes alone, and what replicas are told of them.
    fn is_joined(&self) -> bool {
        self.role.is_none() && self.holds.is_none() && !self.flushes && self.lost.is_empty()
    }

    /// Makes one of two such changes that come right behind each other. Returns the routes that the later ones take the place of.
    fn join(&mut self, mut later: Self) -> Option<Arc<Routes>> {
        self.done.append(&mut later.done);
        if let Some(mut telling) = later.telling {
            // All of them tell all slots.
            if let Some(before) = self.telling.take() {
                telling.tell.extend(before.tell);
            }
            self.telling = Some(telling);
        }
        later.routes.and_then(|routes| self.routes.replace(routes))
    }
}

/// Changes on their way to the thread. New routes take the place of those that still wait, so there are never more than roles,
/// holds and lost slots in between.
#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    is_there: Condvar,
}

#[derive(Default)]
struct Waiting {
    changes: VecDeque<Change>,
    /// Whether the thread makes one.
    is_busy: bool,
}

impl Queue {
    fn is_idle(&self) -> bool {
        let waiting = self.waiting.lock();
        !waiting.is_busy && waiting.changes.is_empty()
    }

    /// Returns routes that are not to be made any more.
    fn push(&self, change: Change) -> Option<Arc<Routes>> {
        let mut waiting = self.waiting.lock();
        let replaced = match waiting.changes.back_mut() {
            Some(last) if last.is_joined() && change.is_joined() => last.join(change),
            _ => {
                waiting.changes.push_back(change);
                None
            }
        };
        self.is_there.notify_one();
        replaced
    }

    /// The next one; the one before is made.
    fn next(&self) -> Change {
        let mut waiting = self.waiting.lock();
        waiting.is_busy = false;
        loop {
            if let Some(change) = waiting.changes.pop_front() {
                waiting.is_busy = true;
                return change;
            }
            self.is_there.wait(&mut waiting);
        }
    }
}

/// How long commands under way may take until a replica that takes over is told no more how far it has to come.
const HOLD_WAIT: Duration = Duration::from_secs(4);

/// For so long the thread of the bus tries itself to change routes: mostly no command is under way that takes long.
const TRY_FOR: Duration = Duration::from_millis(1);

/// The way to the thread.
pub(super) struct Slots {
    server: &'static Server,
    cluster: &'static Clustering,
    queue: Arc<Queue>,
    sweep: Arc<Sweep>,
}

/// Slots that have gone, and whose keys a thread of its own deletes: other changes need not wait for that.
#[derive(Default)]
struct Sweep {
    slots: Mutex<SlotSet>,
    done: Condvar,
    /// Whether the thread of changes waits for the end.
    hurries: AtomicBool,
}

impl Sweep {
    /// Whether a slot comes back whose keys are still being deleted.
    fn is_touched(&self, routes: &Routes) -> bool {
        let slots = self.slots.lock();
        slots.iter().any(|slot| routes.own.has(slot) || routes.importing.contains_key(&slot))
    }

    fn wait(&self) {
        self.hurries.store(true, Release);
        self.done.wait_while(&mut self.slots.lock(), |slots| !slots.is_empty());
        self.hurries.store(false, Release);
    }

    /// Deletes the keys of slots that are another node's; goes on with that when the node starts again.
    fn run(&self, server: &'static Server, cluster: &Clustering, lost: &Receiver<Vec<u16>>) {
        for slots in lost {
            note_marks(server);
            let hurries = || self.hurries.load(Acquire);
            delete_slots(server.engine(), &Deletion { slots: &slots, are_hidden: false, hurries: &hurries });
            cluster.moves.leave(&slots, false);
            note_marks(server);
            let mut left = self.slots.lock();
            slots.iter().for_each(|slot| left.remove(*slot));
            drop(left);
            self.done.notify_all();
        }
    }
}

impl Slots {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system cannot create it.
    pub(super) fn start(server: &'static Server, cluster: &'static Clustering) -> io::Result<Self> {
        let (queue, sweep) = (Arc::new(Queue::default()), Arc::new(Sweep::default()));
        let (sweeper, lost) = channel();
        let swept = Arc::clone(&sweep);
        threads::start("cluster-sweep", move || swept.run(server, cluster, &lost))?;
        let (changes, swept) = (Arc::clone(&queue), Arc::clone(&sweep));
        threads::start("cluster-slots", move || {
            loop {
                apply(server, cluster, changes.next(), &swept, &sweeper);
            }
        })?;
        Ok(Self { server, cluster, queue, sweep })
    }

    /// Whether there is nothing to do.
    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_idle()
    }

    /// Makes a change, now if that is possible without waiting.
    pub(super) fn make(&self, mut change: Change) {
        let is_simple =
            change.is_simple() && !change.routes.as_ref().is_some_and(|routes| self.sweep.is_touched(routes));
        if is_simple && self.is_idle() {
            let tried = change.routes.take().map(|routes| try_change_routes(self.server.engine(), routes, TRY_FOR));
            match tried {
                Some(Err(routes)) => change.routes = Some(routes),
                _ => {
                    change.done.into_iter().for_each(|done| done(Ok(())));
                    return;
                }
            }
        }
        if let Some(replaced) = self.queue.push(change) {
            self.cluster.withdraw(&replaced);
        }
    }
}

/// The order matters: a new primary takes writes before it is asked for them, and whoever has lost slots executes no command
/// for them before their keys go or clients go on.
fn apply(server: &'static Server, cluster: &Clustering, change: Change, sweep: &Sweep, sweeper: &Sender<Vec<u16>>) {
    // Keys that come must not be taken for those that went, and a replica's are its primary's.
    if change.role.is_some() || change.routes.as_ref().is_some_and(|routes| sweep.is_touched(routes)) {
        sweep.wait();
    }
    if let Some(Holding::Until(until_mono_ms)) = change.holds {
        hold(server, cluster, until_mono_ms);
    }
    if let Some(role) = change.role {
        change_role(server, role);
    }
    // Before the commands that the new routes let in, and before keys leave.
    if let Some(Telling { text, tell }) = change.telling {
        tell_of_slots(server.engine(), &text);
        let offset = server.replication.history.offset();
        for tell in tell {
            // Nobody may wait for it.
            let _ = tell.send(offset);
        }
        if !server.replication.attached.all_tell() {
            // Some do not say by themselves how far they are.
            server.replication.tell_replicas(server.engine(), GETACK);
        }
    }
    // New routes may have to wait for a command that is under way for long. Clients go on before that if this node has what it
    // had, as after a fail-over that has not come about.
    let is_over = change.holds == Some(Holding::Over);
    let goes_on = is_over && change.routes.as_ref().is_none_or(|routes| serves_as_before(cluster, routes));
    if goes_on {
        server.release_writes(Hold::Handover);
    }
    if let Some(routes) = change.routes {
        change_routes(server.engine(), routes);
    }
    if change.flushes {
        let mut client = LocalClient::new(server.engine());
        client.replay();
        let mut runner = Runner::new(server.engine(), server.cluster_thread());
        client.run(&mut runner, "FLUSHALL\nFUNCTION FLUSH\n");
    }
    if is_over && !goes_on {
        server.release_writes(Hold::Handover);
    }
    change.done.into_iter().for_each(|done| done(Ok(())));
    // By the new routes no keys come any more.
    let has_keys = |slot: &u16| server.keyspace.db(0).is_some_and(|db| !db.shard(usize::from(*slot)).is_empty());
    let is_wanted = |slot: &u16| has_keys(slot) || cluster.moves.is_leaving(*slot);
    let lost: Vec<u16> = change.lost.into_iter().filter(is_wanted).collect();
    if lost.is_empty() {
        return;
    }
    // Also those that wait for others are deleted if this node ends before.
    cluster.moves.leave(&lost, true);
    let mut slots = sweep.slots.lock();
    lost.iter().for_each(|slot| slots.add(*slot));
    drop(slots);
    if sweeper.send(lost).is_err() {
        tracing::error!("The thread that deletes keys of slots that have gone is gone");
    }
}

fn serves_as_before(cluster: &Clustering, routes: &Routes) -> bool {
    let before = cluster.routes();
    routes.is_replica == before.is_replica && routes.is_up == before.is_up && routes.own == before.own
}

/// Writes which slots are on their way. If that fails, it is tried again by the thread of the moves.
pub(super) fn note_marks(server: &'static Server) {
    if let Err(error) = write_marks(server.engine()) {
        tracing::error!("Can't write which slots are on their way: {error}");
    }
}

/// Holds clients for a replica that takes over, and has it told how far it is to come. If a script goes on writing, it is not
/// told, and the fail-over ends when its time is over. One that is over by now holds nobody.
fn hold(server: &'static Server, cluster: &Clustering, until_mono_ms: u64) {
    let is_wanted = cluster.node.lock().is_ok_and(|state| state.cluster.wants_pause() == Some(until_mono_ms));
    if !is_wanted {
        return;
    }
    if !server.hold_writes(Hold::Handover, HOLD_WAIT) {
        tracing::warn!("A command takes too long: the replica can't take over");
        return;
    }
    if let Ok(mut state) = cluster.node.lock() {
        let facts = Facts(server.engine());
        state.cluster.held(until_mono_ms, facts.now(), &facts);
        drop(state);
        cluster.node.wake();
    }
}

/// Gives the server another role, and waits until it has it.
fn change_role(server: &'static Server, request: Request) {
    if server.host.replica.wanted().is_none() && server.replication.role.primary() == request.primary {
        return;
    }
    let (tell, told) = channel();
    server.host.replica.ask(request, Box::new(move |_| drop(tell)));
    // It ends when the other end is dropped.
    let _: Result<(), _> = told.recv();
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    fn routes(own: u16) -> Arc<Routes> {
        Arc::new(Routes { own: [own].into_iter().collect(), ..Routes::default() })
    }

    fn change(own: u16, told: &Arc<AtomicUsize>) -> Change {
        let told = Arc::clone(told);
        let done: Done = Box::new(move |_| {
            told.fetch_add(1, Relaxed);
        });
        Change { routes: Some(routes(own)), done: vec![done], ..Change::default() }
    }

    #[test]
    fn routes_that_wait_make_place_for_later_ones_and_all_are_told() {
        let (queue, told) = (Queue::default(), Arc::new(AtomicUsize::new(0)));
        for own in 0..1000 {
            let replaced = queue.push(change(own, &told));
            assert_eq!(replaced.map(|routes| routes.own.has(own.saturating_sub(1))), (own > 0).then_some(true));
        }
        // What replicas are told goes with them.
        let (tell, mut told_at) = oneshot::channel();
        queue.push(Change { telling: Some(Telling { text: "a".to_owned(), tell: vec![tell] }), ..Change::default() });
        queue.push(Change { telling: Some(Telling { text: "b".to_owned(), tell: Vec::new() }), ..change(1000, &told) });
        // Slots whose keys are to go stay where they are in the order.
        queue.push(Change { lost: vec![7], ..change(2000, &told) });
        queue.push(change(3000, &told));
        // Who only waits for what is there.
        queue.push(Change { routes: None, ..change(0, &told) });
        assert_eq!(queue.waiting.lock().changes.len(), 3);
        for (own, done, lost) in [(1000, 1001, 0), (2000, 1, 1), (3000, 2, 0)] {
            assert!(!queue.is_idle());
            let mut next = queue.next();
            if let Some(telling) = next.telling.take() {
                assert_eq!((own, telling.text.as_str()), (1000, "b"));
                telling.tell.into_iter().for_each(|tell| tell.send(7).expect("a waiter"));
                assert_eq!(told_at.try_recv(), Ok(7));
            }
            assert!(next.routes.is_some_and(|routes| routes.own.has(own)));
            assert_eq!((next.done.len(), next.lost.len()), (done, lost));
            next.done.into_iter().for_each(|done| done(Ok(())));
        }
        assert!(!queue.is_idle(), "the last one is being made");
        assert_eq!(told.load(Relaxed), 1004);
    }
}
