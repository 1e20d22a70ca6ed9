//! The thread that drives the state of the node.

use std::collections::HashMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use onrush_cluster::cluster::{Action, Level, LinkId, Now};
use onrush_engine::cluster::clustering::Clustering;
use onrush_engine::cluster::facts::Facts;
use onrush_engine::cluster::routes::Routes;
use onrush_engine::replication::role::Primary;
use tokio::sync::Notify;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::{LocalSet, spawn_local};

use super::file::NodesFile;
use super::link_timeout;
use super::links::{Destination, EVENTS_MAX, Event, Link};
use super::slots::{Change, Holding, Slots, Telling};
use crate::process::server::Server;
use crate::replica::Request;

/// How often the state is told that time passes.
const TICK: Duration = Duration::from_millis(100);

/// How often the thread looks whether the data is loaded.
const LOADING_LOOK: Duration = Duration::from_millis(20);

/// How soon the file of nodes is written again after a failure.
const SAVE_AGAIN: Duration = Duration::from_millis(500);

/// How soon a listener goes on after an error, mostly because file descriptors have run out.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// How long replicas may take to say that they know which slots have come, and how often that is looked at.
const ACK_WAIT: Duration = Duration::from_millis(100);
const ACK_LOOK: Duration = Duration::from_millis(1);

/// They most often have it as soon as this, and are looked at that often until then.
const ACK_SOON: Duration = Duration::from_millis(2);
const ACK_LOOK_SOON: Duration = Duration::from_micros(100);

/// Events that are handled at once.
const EVENTS_AT_ONCE: usize = 64;

/// Bytes that may wait for a node that does not read, if `cluster-link-sendbuf-limit` says nothing.
const QUEUE_MAX: usize = 256 << 20;

/// Bytes of messages after which links may write some.
const SENT_AT_ONCE: usize = 1 << 20;

/// A new primary tells others at the latest after this time, though it does not serve yet.
const SERVES_WITHIN: Duration = Duration::from_millis(200);

/// Runs the bus. Ends with the process.
pub(super) fn run(
    server: &'static Server,
    clustering: &'static Clustering,
    listeners: Vec<TcpListener>,
    file: Arc<NodesFile>,
    bell: Arc<Notify>,
    slots: Slots,
) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!("Can't start the bus of the cluster: {error}");
            std::process::exit(1);
        }
    };
    let (events, incoming) = channel(EVENTS_MAX);
    let facts = Facts(server.engine());
    let bus = Bus { server, clustering, facts, file, slots, links: HashMap::new(), events, pause_until_mono_ms: None };
    LocalSet::new().block_on(&runtime, bus.run(listeners, incoming, bell));
}

/// How long a link may be silent, and whether it is encrypted.
fn link_settings(server: &Server) -> (Duration, bool) {
    let config = server.host.config.read();
    (link_timeout(&config), config.tls_cluster)
}

struct Bus {
    server: &'static Server,
    clustering: &'static Clustering,
    facts: Facts,
    file: Arc<NodesFile>,
    slots: Slots,
    links: HashMap<LinkId, Link>,
    events: Sender<Event>,
    /// Clients are to be held back until then for a replica that takes over, as soon as no slots are handed over: whose these are
    /// must be clear before the replica says that it has them. A hand-over that begins later finds the fail-over.
    pause_until_mono_ms: Option<u64>,
}

impl Bus {
    async fn run(mut self, listeners: Vec<TcpListener>, mut incoming: Receiver<Event>, bell: Arc<Notify>) {
        while self.server.loading.is_on() {
            // Clients may ask for the state meanwhile.
            self.perform().await;
            tokio::time::sleep(LOADING_LOOK).await;
        }
        super::moves::recover(self.server, self.clustering);
        self.claim_slots();
        for listener in listeners {
            self.listen(listener);
        }
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = tick.tick() => self.with(|state, now, facts| state.tick(now, facts)),
                () = bell.notified() => {}
                Some(event) = incoming.recv() => {
                    self.handle(event);
                    for _ in 1..EVENTS_AT_ONCE {
                        let Ok(event) = incoming.try_recv() else { break };
                        self.handle(event);
                    }
                }
            }
            self.perform().await;
            self.clustering.bus_rounds.fetch_add(1, Relaxed);
            self.come_back();
        }
    }

    /// Commands are executed again, if they were not because this thread stood still: when others have had time to say whose
    /// its slots are now.
    fn come_back(&self) {
        let is_current = self.clustering.is_stopped() && self.slots.is_idle();
        if is_current && self.with(|state, now, _| state.may_execute(now)) {
            self.clustering.go_on();
        }
    }

    /// Has something happen to the state. What new routes refuse is refused before anybody sees the new state.
    fn with<R>(&self, change: impl FnOnce(&mut onrush_cluster::cluster::Cluster, Now, &Facts) -> R) -> R {
        match self.clustering.node.lock() {
            Ok(mut state) => {
                let result = change(&mut state.cluster, self.facts.now(), &self.facts);
                if state.cluster.take_new_routes() {
                    self.clustering.foretell(Arc::new(Routes::of(&state.cluster)));
                }
                result
            }
            Err(_) => unreachable!("the node has begun"),
        }
    }

    /// Data that is here although its slots are nobody's, as after a loss of the file of nodes, is taken over.
    fn claim_slots(&self) {
        let (claimed, imported) = self.with(|state, now, facts| state.claim_slots_with_keys(now, facts));
        if claimed > 0 {
            tracing::warn!("I have keys for {claimed} unassigned slots. Taking responsibility for them.");
        }
        if imported > 0 {
            tracing::warn!("I have keys for {imported} slots that are other nodes'. Setting them to importing state.");
        }
    }

    fn listen(&self, listener: TcpListener) {
        let (server, events, clustering) = (self.server, self.events.clone(), self.clustering);
        spawn_local(async move {
            let listener =
                match listener.set_nonblocking(true).and_then(|()| tokio::net::TcpListener::from_std(listener)) {
                    Ok(listener) => listener,
                    Err(error) => {
                        tracing::error!("Can't listen for other nodes: {error}");
                        return;
                    }
                };
            loop {
                let accepted = listener.accept().await;
                let Ok((stream, peer)) = accepted else {
                    tokio::time::sleep(ACCEPT_AGAIN).await;
                    continue;
                };
                let Ok(local) = stream.local_addr() else { continue };
                let (timeout, is_encrypted) = link_settings(server);
                let tls = match (is_encrypted, server.host.tls.bus()) {
                    (false, _) => None,
                    (true, Some(tls)) => Some(tls),
                    (true, None) => continue,
                };
                let (peer, local) = (peer.ip().to_canonical().to_string(), local.ip().to_canonical().to_string());
                let now = Facts(server.engine()).now();
                let id = clustering.node.lock().ok().and_then(|mut state| state.cluster.accepted(&peer, &local, now));
                let Some(id) = id else { continue };
                let link = Link::accept(id, stream, tls, timeout, events.clone());
                if events.send(Event::Accepted { link, id }).await.is_err() {
                    return;
                }
            }
        });
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Connected(id) => self.with(|state, now, facts| state.connected(id, now, facts)),
            Event::Accepted { link, id } => self.keep(id, link),
            Event::Message(id, message) => {
                if let Some(link) = self.links.get(&id) {
                    let knows = self.with(|state, now, facts| {
                        state.received(id, &message, now, facts);
                        state.knows_other_end(id)
                    });
                    link.is_known.store(knows, Relaxed);
                }
            }
            Event::Closed(id, why) => {
                if self.forget(id) {
                    tracing::debug!("A link of the cluster has ended: {why}");
                    self.with(|state, now, _| state.closed(id, now));
                }
            }
        }
    }

    fn keep(&mut self, id: LinkId, link: Link) {
        self.clustering.queues.lock().insert(id, Arc::clone(&link.queued));
        self.links.insert(id, link);
    }

    fn forget(&mut self, id: LinkId) -> bool {
        self.clustering.queues.lock().remove(&id);
        self.links.remove(&id).is_some()
    }

    /// Does what the state wants, in order.
    async fn perform(&mut self) {
        let (mut actions, waiting, conf, syncs, routes, is_handing_over) = {
            let Ok(mut state) = self.clustering.node.lock() else { return };
            let actions = state.cluster.take_actions();
            let is_due = self.file.is_due();
            let saves = is_due || actions.iter().any(|action| matches!(action, Action::Save { .. }));
            let reroutes = actions.iter().any(|action| matches!(action, Action::Routes));
            let syncs = is_due || actions.iter().any(|action| matches!(action, Action::Save { sync: true }));
            let conf = saves.then(|| state.cluster.nodes_conf().to_string());
            let routes = reroutes.then(|| Arc::new(Routes::of(&state.cluster)));
            if let Some(routes) = &routes {
                self.clustering.announce(Arc::clone(routes));
            }
            let is_handing_over = state.cluster.is_handing_over();
            (actions, std::mem::take(&mut state.waiting), conf, syncs, routes, is_handing_over)
        };
        let mut change = Change { routes, ..Change::default() };
        // Whoever loses slots, or sees no majority, says so at once, whatever the disk does: another node may execute commands
        // already.
        let before = self.clustering.routes();
        let only_loses = |routes: &mut Arc<Routes>| {
            let gains = routes.own.difference(&before.own).next().is_some();
            let loses = routes.own != before.own || !routes.is_up;
            routes.is_replica == before.is_replica && !gains && loses
        };
        if let Some(routes) = change.routes.take_if(only_loses) {
            self.slots.make(Change { routes: Some(routes), ..Change::default() });
        }
        // The state is that of all actions: it is written once, before any of them.
        if let Some(text) = conf {
            self.save(text, syncs).await;
        }
        for action in &mut actions {
            if let Action::TellReplicas { text, has_gained } = action {
                self.tell_replicas(std::mem::take(text), *has_gained).await;
            }
        }
        // Whoever gets slots serves them before others send clients here.
        let is_more = |action: &Action| {
            matches!(action, Action::Primary | Action::ReplicaOf { .. } | Action::Flush | Action::Unpause)
        };
        if change.routes.is_some() && !actions.iter().any(is_more) {
            self.slots.make(Change { routes: change.routes.take(), ..Change::default() });
        }
        // A new primary serves before it says that it does: the one before sends clients here as soon as it has heard, and this node
        // would send them back.
        let takes_over = actions.iter().any(|action| matches!(action, Action::Primary));
        let mut kept = Vec::new();
        let mut sent = 0;
        for action in actions {
            if sent > SENT_AT_ONCE {
                // The links have the same thread.
                tokio::task::yield_now().await;
                sent = 0;
            }
            match action {
                Action::Connect { link, ip, bus_port, .. } => self.connect(link, &ip, bus_port),
                Action::Close(id) => drop(self.forget(id)),
                Action::Send { links, message } => {
                    let mut bytes = Vec::new();
                    message.encode(&mut bytes);
                    let bytes = Arc::new(bytes);
                    if takes_over {
                        kept.push((links, bytes));
                        continue;
                    }
                    sent += bytes.len();
                    links.into_iter().for_each(|id| self.send(id, &bytes));
                }
                Action::Save { .. } | Action::Routes | Action::TellReplicas { .. } => {}
                Action::Primary => change.role = Some(Request::default()),
                Action::ReplicaOf { ip, port, tls_port, is_same, .. } => {
                    let port = if self.server.host.config.read().tls_replication { tls_port } else { port };
                    // Of several changes the first says whether it is the primary of now.
                    let is_same = is_same && change.role.as_ref().is_none_or(|role| role.is_same);
                    let primary = Some(Primary { host: ip, port });
                    change.role = Some(Request { primary, takes_over: false, is_same });
                }
                Action::SlotsLost(slots) => change.lost.extend(slots),
                Action::Pause { until_mono_ms } => self.pause_until_mono_ms = Some(until_mono_ms),
                Action::Unpause => {
                    self.pause_until_mono_ms = None;
                    change.holds = Some(Holding::Over);
                }
                Action::Publish { channel, message, is_sharded } => {
                    onrush_engine::cluster::change::publish_here(self.server.engine(), &channel, &message, is_sharded);
                }
                Action::Flush => change.flushes = true,
                Action::Log(Level::Debug, text) => tracing::trace!("{text}"),
                Action::Log(Level::Verbose, text) => tracing::debug!("{text}"),
                Action::Log(Level::Notice, text) => tracing::info!("{text}"),
                Action::Log(Level::Warning, text) => tracing::warn!("{text}"),
            }
        }
        if self.pause_until_mono_ms.is_some() && !is_handing_over {
            change.holds = self.pause_until_mono_ms.take().map(Holding::Until);
        }
        change.done = waiting;
        if takes_over {
            let (tell, told) = tokio::sync::oneshot::channel();
            // Who waits may have given up.
            change.done.push(Box::new(move |_| {
                let _ = tell.send(());
            }));
            self.slots.make(change);
            let _ = tokio::time::timeout(SERVES_WITHIN, told).await;
            kept.into_iter().for_each(|(links, bytes)| links.into_iter().for_each(|id| self.send(id, &bytes)));
        } else if !change.is_empty() {
            self.slots.make(change);
        }
    }

    /// Writes the file of nodes; goes on when it is written, however long that takes: this node must not promise what it may
    /// forget.
    async fn save(&self, text: String, sync: bool) {
        let mut is_told = false;
        // Nothing may be sent before it is written: the thread waits for the disk.
        while let Err(error) = self.file.write(&text, sync) {
            if self.server.host.is_ending.load(Relaxed) {
                // Nothing is sent any more either.
                std::future::pending::<()>().await;
            }
            self.clustering.is_file_failing.store(true, Relaxed);
            if !std::mem::replace(&mut is_told, true) {
                tracing::error!(
                    "Can't write the file of nodes: {error}. This node sends nothing to others until it can."
                );
            }
            tokio::time::sleep(SAVE_AGAIN).await;
        }
        if is_told {
            self.clustering.is_file_failing.store(false, Relaxed);
            tracing::warn!("The file of nodes is written again");
        }
    }

    /// Tells replicas this node's slots. What it has got is told to nobody else before those that answer have it.
    async fn tell_replicas(&self, text: String, has_gained: bool) {
        let replication = &self.server.replication;
        if !replication.is_streaming() {
            return;
        }
        let (tell, told) = tokio::sync::oneshot::channel();
        self.slots.make(Change { telling: Some(Telling { text, tell: vec![tell] }), ..Change::default() });
        if !has_gained {
            return;
        }
        let have_it = async {
            let Ok(offset) = told.await else { return };
            let asked = Instant::now();
            while replication.attached.is_any_awake_behind(offset, self.server.clock.unix_ms()) {
                match asked.elapsed() < ACK_SOON {
                    // The runtime sleeps for at least twice as long, and the disk has taken longer.
                    true => std::thread::sleep(ACK_LOOK_SOON),
                    false => tokio::time::sleep(ACK_LOOK).await,
                }
            }
        };
        if tokio::time::timeout(ACK_WAIT, have_it).await.is_err() {
            tracing::debug!("Replicas have not heard in time of slots that have come");
        }
    }

    fn connect(&mut self, id: LinkId, ip: &str, port: u16) {
        match self.destination(ip, port) {
            Some(to) => self.keep(id, Link::connect(id, to, self.events.clone())),
            None => self.with(|state, now, _| state.closed(id, now)),
        }
    }

    /// Where a node is; `None`: there is no way to it.
    fn destination(&self, ip: &str, port: u16) -> Option<Destination> {
        let address = SocketAddr::new(ip.parse().ok()?, port);
        let (timeout, is_encrypted) = link_settings(self.server);
        let tls = if is_encrypted { Some(self.server.host.tls.links()?) } else { None };
        Some(Destination { address, tls, timeout })
    }

    fn send(&mut self, id: LinkId, bytes: &Arc<Vec<u8>>) {
        let limit = match self.server.host.config.read().cluster_link_sendbuf_limit {
            0 => QUEUE_MAX,
            limit => limit as usize,
        };
        let Some(link) = self.links.get(&id) else { return };
        link.send(bytes);
        if link.queued.load(Relaxed) > limit {
            self.clustering.links_over_limit.fetch_add(1, Relaxed);
            tracing::warn!("A link of the cluster is closed: more than {limit} bytes wait for its node");
            self.forget(id);
            self.with(|state, now, _| state.closed(id, now));
        }
    }
}
