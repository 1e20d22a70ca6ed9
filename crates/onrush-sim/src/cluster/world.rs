//! Time, events and actions.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use onrush_cluster::cluster::told::Told;
use onrush_cluster::cluster::{Action, Cluster, Host, LinkId, Now};
use onrush_cluster::message::Body;
use onrush_cluster::nodes_conf::NodesConf;
use onrush_store::Random;

use super::Outcome;
use super::checks::Checks;
use super::network::{ConnId, Item, Network};
use super::node::Node;
use super::operator::Operator;
use super::plan::{Plan, Plant, Settings, node_at};

/// Time between two looks at replication, and at what an operator has to do.
const REPLICATE_EVERY_MS: u64 = 50;
const OPERATE_EVERY_MS: u64 = 500;

/// Of so many votes one ends in a crash between two actions, at least.
const VOTERS_CRASH_ONE_IN: usize = 3;

/// They start again within so many milliseconds, while others still ask for votes.
const RESTART_SOON_MS: usize = 40;

/// Lines of the history that are kept.
const HISTORY_MAX: usize = 4_000;

/// Something that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// A replica is told to take over.
    Force,
    /// A node's tick is due.
    Tick { node: usize, run: u32 },
    /// A connection arrives at the node that is asked.
    Connect { conn: ConnId },
    /// The node that asked learns that it is connected.
    Connected { conn: ConnId },
    /// What goes first to an end of a connection is there.
    Deliver { conn: ConnId, end: usize },
    /// A node starts.
    Start { node: usize },
    /// Something goes wrong.
    Fault,
    /// Data goes to replicas.
    Replicate,
    /// The operator looks.
    Operate,
    /// A hand-over of slots goes on.
    HandOver,
}

/// All of it.
pub struct World {
    seed: u64,
    /// What was drawn.
    pub plan: Plan,
    /// Random numbers.
    pub random: Random,
    /// Simulated milliseconds.
    pub now_ms: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    order: u64,
    /// The nodes.
    pub nodes: Vec<Node>,
    /// What is between them.
    pub network: Network,
    /// What is checked.
    pub checks: Checks,
    /// Who gives commands.
    pub operator: Operator,
    /// Whether nothing goes wrong any more.
    pub is_quiet: bool,
    history: VecDeque<String>,
    /// What it has shown so far.
    pub shown: Outcome,
}

/// A rule that was broken.
pub type Broken = String;

impl World {
    /// A cluster before its first event.
    pub fn new(seed: u64, settings: &Settings) -> Self {
        let mut random = Random::new(seed);
        let plan = Plan::new(&mut random, settings);
        let network = Network::new(plan.nodes, plan.latency_ms);
        let mut world = Self {
            seed,
            random,
            now_ms: 0,
            events: BinaryHeap::new(),
            order: 0,
            nodes: (0..plan.nodes).map(|_| Node::default()).collect(),
            network,
            checks: Checks::default(),
            operator: Operator::new(&plan),
            is_quiet: false,
            history: VecDeque::new(),
            shown: Outcome::default(),
            plan,
        };
        world.begin();
        world
    }

    fn begin(&mut self) {
        if !self.plan.meets {
            let ids: Vec<_> = (0..self.plan.nodes).map(|nth| fresh_id(self.seed, nth)).collect();
            for nth in 0..self.plan.nodes {
                self.nodes[nth].disk.synced = Some(self.plan.conf(&ids, nth));
            }
        }
        for node in 0..self.plan.nodes {
            let at_ms = self.random.below(100) as u64;
            self.at(at_ms, Event::Start { node });
        }
        self.at(0, Event::Replicate);
        self.at(OPERATE_EVERY_MS, Event::Operate);
        if self.plan.faults_ms > 0 {
            self.at(3_000 + self.plan.node_timeout_ms, Event::Fault);
            self.at(3_000 + self.plan.node_timeout_ms, Event::Force);
        }
    }

    /// Has something happen.
    pub fn at(&mut self, at_ms: u64, event: Event) {
        self.order += 1;
        self.events.push(Reverse((at_ms.max(self.now_ms), self.order, event)));
    }

    /// Runs it to its end.
    pub fn run(&mut self) -> Result<(), Broken> {
        while let Some(Reverse((at_ms, _, event))) = self.events.pop() {
            self.now_ms = at_ms;
            if !self.is_quiet && at_ms >= self.plan.quiet_at_ms() {
                self.heal();
            }
            self.happen(event)?;
            if self.is_quiet && event == Event::Operate && self.is_over()? {
                return Ok(());
            }
        }
        Err("nothing happens any more".to_owned())
    }

    /// What it has shown.
    pub fn outcome(&mut self) -> Outcome {
        self.shown.simulated_ms = self.now_ms;
        self.shown.clone()
    }

    /// What happened last.
    pub fn history(&self) -> String {
        let lines: Vec<&str> = self.history.iter().map(String::as_str).collect();
        format!("{:?}\n{}", self.plan, lines.join("\n"))
    }

    /// Adds a line to the history.
    pub fn note(&mut self, text: &str) {
        if self.history.len() >= HISTORY_MAX {
            self.history.pop_front();
        }
        self.history.push_back(format!("{:>8} {text}", self.now_ms));
    }

    fn happen(&mut self, event: Event) -> Result<(), Broken> {
        match event {
            Event::Tick { node, run } => self.tick(node, run),
            Event::Connect { conn } => self.connect(conn),
            Event::Connected { conn } => self.connected(conn),
            Event::Deliver { conn, end } => self.deliver(conn, end),
            Event::Start { node } => self.start(node),
            Event::Fault => self.fault(),
            Event::Force => self.force(),
            Event::Replicate => self.replicate(),
            Event::HandOver => self.hand_over(),
            Event::Operate => {
                self.at(self.now_ms + OPERATE_EVERY_MS, Event::Operate);
                self.operate()
            }
        }
    }

    fn tick(&mut self, node: usize, run: u32) -> Result<(), Broken> {
        let at = &self.nodes[node];
        if at.run != run || at.cluster.is_none() {
            return Ok(());
        }
        if let Some(until_ms) = self.stalled(node) {
            self.at(until_ms, Event::Tick { node, run });
            return Ok(());
        }
        // A pause that was asked for is there by now.
        let until_ms = self.nodes[node].data.paused_until_ms;
        if until_ms > 0 {
            self.act(node, |cluster, now, host| cluster.held(until_ms, now, host))?;
        }
        self.act(node, |cluster, now, host| cluster.tick(now, host))?;
        if let Some(cluster) = &self.nodes[node].cluster {
            let next_ms = cluster.next_tick_ms().max(self.now_ms + 1);
            self.at(next_ms, Event::Tick { node, run });
        }
        Ok(())
    }

    /// Until when a node does not run, if that is so.
    pub fn stalled(&self, node: usize) -> Option<u64> {
        let until_ms = self.nodes[node].stalled_until_ms;
        (until_ms > self.now_ms).then_some(until_ms)
    }

    /// Gives an event to a node that runs, and does what it asks for.
    pub fn act<T>(
        &mut self,
        node: usize,
        event: impl FnOnce(&mut Cluster, Now, &dyn Host) -> T,
    ) -> Result<Option<T>, Broken> {
        let at = &mut self.nodes[node];
        let (now, asked) = (at.now(self.now_ms), at.asked(self.now_ms));
        let Some(cluster) = &mut at.cluster else { return Ok(None) };
        let result = event(cluster, now, &asked);
        let actions = cluster.take_actions();
        self.shown.events += 1;
        self.execute(node, actions)?;
        self.check_role(node);
        Ok(Some(result))
    }

    fn execute(&mut self, node: usize, mut actions: Vec<Action>) -> Result<(), Broken> {
        let must_save = matches!(actions.first(), Some(Action::Save { sync: true }));
        let votes = actions.iter().any(is_vote);
        if self.plan.plant == Some(Plant::VoteBeforeSave) {
            actions.sort_by_key(|action| !is_vote(action));
            if votes {
                // The next event that saves anything saves the vote as well.
                actions.retain(|action| !matches!(action, Action::Save { .. }));
            }
        }
        let crashes = must_save && !self.is_quiet && self.nodes[node].run > 0 && self.may_crash(votes);
        // Before or behind the first action of a vote, which is to save it.
        let most = if votes { 1 } else { actions.len() };
        let done = if crashes { self.random.below(most + 1) } else { actions.len() };
        for action in actions.into_iter().take(done) {
            self.execute_one(node, action)?;
        }
        if crashes {
            self.crash(node, "between two actions");
            if votes {
                self.show_to_rivals(node);
                let soon_ms = self.now_ms + 1 + self.random.below(RESTART_SOON_MS) as u64;
                self.at(soon_ms, Event::Start { node });
            }
        }
        Ok(())
    }

    /// Whether a node crashes between two actions. Who votes does so more often.
    fn may_crash(&mut self, votes: bool) -> bool {
        let one_in = if votes { self.plan.crash_one_in.min(VOTERS_CRASH_ONE_IN) } else { self.plan.crash_one_in };
        self.now_ms > 3_000 && self.plan.faults_ms > 0 && self.random.below(one_in) == 0
    }

    fn execute_one(&mut self, node: usize, action: Action) -> Result<(), Broken> {
        match action {
            Action::Connect { link, ip, .. } => self.open(node, link, &ip),
            Action::Close(link) => self.close(node, link),
            Action::Send { links, message } => {
                self.check_sent(node, &links, &message)?;
                for link in links {
                    self.push(node, link, Item::Message(message.clone()));
                }
            }
            Action::Save { sync } => self.save(node, sync),
            Action::Primary => self.nodes[node].data.primary = None,
            Action::ReplicaOf { ip, .. } => {
                self.nodes[node].data.primary = node_at(&ip);
                self.nodes[node].data.paused_until_ms = 0;
            }
            Action::Pause { until_mono_ms } => self.nodes[node].data.paused_until_ms = until_mono_ms,
            Action::Unpause => self.nodes[node].data.paused_until_ms = 0,
            Action::Log(_, text) => {
                self.note(&format!("{node:>3} {text}"));
                self.check_log(node, &text)?;
            }
            Action::TellReplicas { text, .. } => {
                let (times, telling) = &mut self.nodes[node].data.telling;
                *times += 1;
                *telling = text;
            }
            Action::Flush | Action::Publish { .. } | Action::Routes | Action::SlotsLost(_) => {}
        }
        Ok(())
    }

    fn save(&mut self, node: usize, sync: bool) {
        if !sync && self.plan.faults_ms == 0 {
            // Nothing crashes, and what is measured is not the disk.
            return;
        }
        let at = &mut self.nodes[node];
        let conf = at.cluster.as_ref().map(Cluster::nodes_conf);
        if sync {
            (at.disk.synced, at.disk.written) = (conf, None);
        } else {
            at.disk.written = conf;
        }
    }

    /// Takes a message into the hash of the run.
    pub fn mix(&mut self, node: usize, kind: u16) {
        let more = self.now_ms << 16 ^ (node as u64) << 4 ^ u64::from(kind);
        self.shown.hash = (self.shown.hash.rotate_left(5) ^ more).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    /// A node ends at once. Its connections are closed by the system, unless the power failed as well.
    pub fn crash(&mut self, node: usize, how: &str) {
        let is_power = self.random.below(3) == 0;
        let keeps_written = !is_power || self.random.below(2) == 0;
        self.note(&format!("{node:>3} crashes {how}{}", if is_power { ", without power" } else { "" }));
        let at = &mut self.nodes[node];
        at.cluster = None;
        at.settle_disk(keeps_written);
        at.data.primary = None;
        at.data.paused_until_ms = 0;
        at.stalled_until_ms = 0;
        let mut conns: Vec<LinkId> = at.conns.keys().copied().collect();
        conns.sort_unstable();
        for link in conns {
            if is_power {
                self.nodes[node].conns.remove(&link);
            } else {
                self.close(node, link);
            }
        }
        if self.nodes[node].down_until_ms <= self.now_ms {
            let down_ms = self.down_ms();
            self.at(self.now_ms + down_ms, Event::Start { node });
        }
    }

    fn down_ms(&mut self) -> u64 {
        let timeout_ms = self.plan.node_timeout_ms as usize;
        let longest_ms = [100, timeout_ms, timeout_ms * 8][self.random.below(3)];
        1 + self.random.below(longest_ms) as u64
    }

    fn start(&mut self, node: usize) -> Result<(), Broken> {
        let until_ms = self.nodes[node].down_until_ms;
        if until_ms > self.now_ms && !self.is_quiet {
            self.at(until_ms, Event::Start { node });
            return Ok(());
        }
        if self.nodes[node].cluster.is_some() {
            return Ok(());
        }
        let seed = self.random.next();
        let options = self.plan.options(node);
        let at = &mut self.nodes[node];
        let now = at.now(self.now_ms);
        let cluster = match &at.disk.synced {
            None => Cluster::new(options, seed),
            Some(conf) => {
                // As the file would be read.
                let conf = NodesConf::parse(&conf.to_string()).map_err(|wrong| format!("{node}: {wrong}"))?;
                Cluster::restore(options, seed, &conf, now).map_err(|wrong| format!("{node}: {wrong}"))?
            }
        };
        at.was_primary = cluster.role() == onrush_cluster::cluster::view::Role::Primary;
        at.cluster = Some(cluster);
        at.run += 1;
        at.data.heard_ms = self.now_ms;
        self.shown.restarts += u64::from(at.run > 1);
        let run = at.run;
        self.note(&format!("{node:>3} starts"));
        self.act(node, |_, _, _| ())?;
        self.at(self.now_ms + 1, Event::Tick { node, run });
        Ok(())
    }

    /// Data goes from primaries to their replicas.
    fn replicate(&mut self) -> Result<(), Broken> {
        self.at(self.now_ms + REPLICATE_EVERY_MS, Event::Replicate);
        for nth in 0..self.nodes.len() {
            if !self.nodes[nth].is_awake(self.now_ms) {
                continue;
            }
            match self.nodes[nth].data.primary {
                None => self.write(nth),
                Some(primary) => self.follow(nth, primary)?,
            }
        }
        Ok(())
    }

    fn write(&mut self, nth: usize) {
        let more = self.random.below(100) as u64;
        let node = &mut self.nodes[nth];
        if node.data.paused_until_ms <= self.now_ms && node.cluster.as_ref().is_some_and(Cluster::is_up) {
            node.data.offset += more;
        }
    }

    fn follow(&mut self, nth: usize, primary: usize) -> Result<(), Broken> {
        let reaches = self.nodes[primary].is_awake(self.now_ms) && self.network.reach(nth, primary, self.now_ms);
        if !reaches || nth == primary || self.random.below(4) == 0 {
            return Ok(());
        }
        let (times, text) = &self.nodes[primary].data.telling;
        let heard = Some((primary, *times));
        let told = if self.nodes[nth].data.heard == heard { None } else { Told::parse(text) };
        let offset = self.nodes[primary].data.offset;
        let data = &mut self.nodes[nth].data;
        data.offset = offset;
        data.heard_ms = self.now_ms;
        data.heard = heard;
        if let Some(told) = told {
            self.act(nth, |cluster, now, host| cluster.hear_told(told, now, host))?;
        }
        Ok(())
    }

    /// Nothing goes wrong from now on, and everybody runs.
    fn heal(&mut self) {
        self.note("healed");
        self.is_quiet = true;
        self.network.heal();
        for node in 0..self.nodes.len() {
            self.nodes[node].stalled_until_ms = 0;
            self.at(self.now_ms, Event::Start { node });
        }
    }
}

/// The name of a node of a cluster that exists already.
fn fresh_id(seed: u64, nth: usize) -> onrush_cluster::node::NodeId {
    Cluster::new(onrush_cluster::cluster::Options::default(), seed.wrapping_mul(1_000).wrapping_add(nth as u64)).my_id()
}

fn is_vote(action: &Action) -> bool {
    matches!(action, Action::Send { message, .. } if message.body == Body::AuthAck)
}
