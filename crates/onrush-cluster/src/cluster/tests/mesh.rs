//! Nodes whose messages arrive at once.

use std::collections::{HashMap, VecDeque};

use super::super::actions::{Action, LinkId, Now};
use super::super::options::Options;
use super::super::{Cluster, Level};
use super::Asked;
use crate::message::{Body, Message};
use crate::node::NodeId;
use crate::slots::SLOTS;

/// The timeout of these nodes.
pub(crate) const TIMEOUT_MS: u64 = 1_000;

/// A node and its server.
pub(crate) struct Member {
    pub(crate) cluster: Cluster,
    pub(crate) asked: Asked,
    /// All that it was asked to do, but for connections and messages.
    pub(crate) done: Vec<Action>,
    pub(crate) is_up: bool,
}

/// All of them.
pub(crate) struct Mesh {
    pub(crate) members: Vec<Member>,
    pub(crate) now_ms: u64,
    /// The other end of each link.
    ends: HashMap<(usize, LinkId), (usize, LinkId)>,
    queue: VecDeque<(usize, LinkId, std::sync::Arc<Message>)>,
    /// Types of messages that went, with sender and receiver.
    pub(crate) sent: Vec<(usize, usize, u16)>,
}

pub(crate) fn options(nth: usize) -> Options {
    Options {
        node_timeout_ms: TIMEOUT_MS,
        port: 7_000 + nth as u16,
        bus_port: 17_000 + nth as u16,
        ..Options::default()
    }
}

impl Mesh {
    /// Nodes that know only themselves.
    pub(crate) fn new(count: usize) -> Self {
        let member = |nth| Member {
            cluster: Cluster::new(options(nth), nth as u64 + 1),
            asked: Asked::default(),
            done: Vec::new(),
            is_up: true,
        };
        let members = (0..count).map(member).collect();
        Self { members, now_ms: 10_000, ends: HashMap::new(), queue: VecDeque::new(), sent: Vec::new() }
    }

    /// A cluster of so many primaries, each with so many replicas: node n + primaries follows node n, and so on.
    pub(crate) fn formed(primaries: usize, replicas: usize) -> Self {
        let mut mesh = Self::new(primaries * (replicas + 1));
        for nth in 0..primaries {
            let first = usize::from(SLOTS) * nth / primaries;
            let slots: Vec<u16> = (first..usize::from(SLOTS) * (nth + 1) / primaries).map(|slot| slot as u16).collect();
            let now = mesh.now();
            mesh.at(nth).set_config_epoch(nth as i64 + 1, now).unwrap();
            mesh.at(nth).add_slots(&slots, now).unwrap();
        }
        for other in 1..mesh.members.len() {
            mesh.meet(0, other);
        }
        mesh.pass(3_000);
        for nth in primaries..mesh.members.len() {
            let (id, now, asked) = (mesh.id(nth % primaries), mesh.now(), mesh.members[nth].asked);
            mesh.at(nth).replicate(id.as_str(), now, &asked).unwrap();
        }
        mesh.pass(3 * TIMEOUT_MS);
        mesh.members.iter_mut().for_each(|member| member.done.clear());
        mesh.sent.clear();
        mesh
    }

    pub(crate) fn now(&self) -> Now {
        Now { mono_ms: self.now_ms, wall_ms: 1_700_000_000_000 + self.now_ms }
    }

    pub(crate) fn at(&mut self, nth: usize) -> &mut Cluster {
        &mut self.members[nth].cluster
    }

    pub(crate) fn id(&self, nth: usize) -> NodeId {
        self.members[nth].cluster.my_id()
    }

    pub(crate) fn meet(&mut self, nth: usize, other: usize) {
        let now = self.now();
        self.at(nth).meet("127.0.0.1", 7_000 + other as i64, None, now).unwrap();
        self.settle();
    }

    /// Lets time pass, tick by tick.
    pub(crate) fn pass(&mut self, time_ms: u64) {
        for _ in 0..time_ms / 100 {
            self.now_ms += 100;
            for nth in 0..self.members.len() {
                let now = self.now();
                let Member { cluster, asked, is_up, .. } = &mut self.members[nth];
                if *is_up {
                    // A pause that was asked for is there by now.
                    if let Some(until_mono_ms) = cluster.wants_pause() {
                        cluster.held(until_mono_ms, now, asked);
                    }
                    cluster.tick(now, asked);
                }
                self.settle();
            }
        }
        self.members.iter().for_each(|member| member.cluster.check_consistency());
    }

    /// Lets time pass until something is so.
    pub(crate) fn wait(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) {
        for _ in 0..300 {
            if is_so(self) {
                return;
            }
            self.pass(100);
        }
        panic!("not so after 30 s: {what}");
    }

    /// A node ends. Its connections are closed.
    pub(crate) fn stop(&mut self, nth: usize) {
        self.members[nth].is_up = false;
        let links: Vec<_> = self.ends.keys().copied().filter(|(node, _)| *node == nth).collect();
        links.into_iter().for_each(|(_, link)| self.close(nth, link));
        self.settle();
    }

    /// It starts with what its file has.
    pub(crate) fn start(&mut self, nth: usize) {
        let conf = self.members[nth].cluster.nodes_conf();
        self.members[nth].cluster = Cluster::restore(options(nth), nth as u64 + 100, &conf, self.now()).unwrap();
        self.members[nth].is_up = true;
        self.settle();
    }

    /// A node hands slots over to another one, which may take them with the returned epoch.
    pub(crate) fn hand_over(&mut self, nth: usize, slots: &[u16], target: usize) -> u64 {
        let target = self.id(target).to_string();
        for turn in 0..100 {
            let (now, asked) = (self.now(), self.members[nth].asked);
            if let Some(epoch) = self.at(nth).begin_hand_over(slots, &target, now, &asked).unwrap() {
                return epoch;
            }
            self.settle();
            // Those that have just started connect first.
            self.pass(if turn > 1 { 100 } else { 0 });
        }
        panic!("no majority hears of it");
    }

    /// Does what nodes ask for, until nobody asks for anything.
    pub(crate) fn settle(&mut self) {
        loop {
            for nth in 0..self.members.len() {
                let actions = self.members[nth].cluster.take_actions();
                actions.into_iter().for_each(|action| self.execute(nth, action));
            }
            let Some((nth, link, message)) = self.queue.pop_front() else { break };
            let now = self.now();
            let Member { cluster, asked, is_up, .. } = &mut self.members[nth];
            if *is_up {
                cluster.received(link, &message, now, asked);
            }
        }
    }

    fn execute(&mut self, nth: usize, action: Action) {
        match action {
            Action::Connect { link, bus_port, .. } => self.connect(nth, link, usize::from(bus_port) - 17_000),
            Action::Close(link) => self.close(nth, link),
            Action::Send { links, message } => {
                for link in links {
                    if let Some((other, far)) = self.ends.get(&(nth, link)).copied() {
                        self.sent.push((nth, other, message.body.kind()));
                        self.queue.push_back((other, far, message.clone()));
                    }
                }
            }
            action => self.members[nth].done.push(action),
        }
    }

    fn connect(&mut self, nth: usize, link: LinkId, other: usize) {
        let now = self.now();
        let both_up = self.members[nth].is_up && self.members.get(other).is_some_and(|other| other.is_up);
        let far = both_up.then(|| self.members[other].cluster.accepted("127.0.0.1", "127.0.0.1", now)).flatten();
        let Some(far) = far else { return self.members[nth].cluster.closed(link, now) };
        self.ends.insert((nth, link), (other, far));
        self.ends.insert((other, far), (nth, link));
        let Member { cluster, asked, .. } = &mut self.members[nth];
        cluster.connected(link, now, asked);
    }

    fn close(&mut self, nth: usize, link: LinkId) {
        if let Some((other, far)) = self.ends.remove(&(nth, link)) {
            self.ends.remove(&(other, far));
            let now = self.now();
            self.members[other].cluster.closed(far, now);
        }
    }

    /// Whether a node was asked to do something, and forgets it.
    pub(crate) fn took(&mut self, nth: usize, is_it: impl Fn(&Action) -> bool) -> bool {
        let done = &mut self.members[nth].done;
        let at = done.iter().position(is_it);
        at.map(|at| done.remove(at)).is_some()
    }

    pub(crate) fn logged(&self, nth: usize, part: &str) -> bool {
        self.members[nth]
            .done
            .iter()
            .any(|action| matches!(action, Action::Log(Level::Notice, text) if text.contains(part)))
    }

    /// What a node says of another one: the fields of its line.
    pub(crate) fn line(&self, nth: usize, other: usize) -> Option<String> {
        let id = self.id(other);
        let text = self.members[nth].cluster.nodes_text();
        text.lines().find(|line| line.starts_with(id.as_str())).map(str::to_owned)
    }

    pub(crate) fn owner(&self, nth: usize, slot: u16) -> Option<NodeId> {
        let routes = self.members[nth].cluster.routes();
        routes.nodes.get(usize::from(routes.owners[usize::from(slot)])).map(|node| node.id)
    }

    pub(crate) fn count_sent(&self, body: &Body) -> usize {
        self.sent.iter().filter(|(_, _, kind)| *kind == body.kind()).count()
    }
}
