//! The rules of Redis Cluster's bus as a state machine.
//!
//! A [`Cluster`] is what one node knows. Events go in as method calls with their time; what is to be done comes out of
//! [`Cluster::take_actions`]. Nothing waits, opens a socket or reads a clock. Random numbers come from a seed, so the same
//! calls have the same effects.
//!
//! What the server has to keep to:
//! - It calls `take_actions` after each event, and has done them all, in their order, before the next event. A vote that is
//!   sent before it is saved may elect two primaries. An offset that is told before clients are held may lose writes.
//! - It gives the messages that have come to `received` before it calls `tick`.

pub mod actions;
pub mod commands;
mod conf;
mod extensions;
mod gossip;
mod handshake;
mod header;
mod links;
mod nodes;
pub mod options;
mod ownership;
mod publish;
mod random;
mod receive;
mod rounds;
mod sending;
mod slot_commands;
mod state;
mod stats;
mod takeover;
#[cfg(test)]
mod tests;
mod text;
mod tick;
pub mod told;
pub mod view;
mod whole_slots;

pub use actions::{Action, Host, Level, LinkId, Now, PrimaryLink};
pub use conf::RestoreError;
pub use nodes::NODES_MAX;
pub use options::{Endpoint, Options};
pub use whole_slots::epoch_in;

use crate::node::{Address, Flags, NodeId};
use nodes::{MYSELF, Node, Nodes};
use takeover::{election, failover, roles, vote};
use view::Role;

/// What one node knows of its cluster.
pub struct Cluster {
    options: Options,
    random: random::Random,
    nodes: Nodes,
    slots: ownership::Slots,
    links: links::Links,
    /// The time of the event.
    now: Now,
    /// This node's replication offset at the event, or at the last one that told it.
    offset: u64,
    current_epoch: u64,
    last_vote_epoch: u64,
    /// The highest one in which a replica has asked for votes.
    asked_epoch: u64,
    predecessor: vote::Predecessor,
    state: state::State,
    election: election::Election,
    manual: failover::Manual,
    /// Slots of this node may be another one's already. Until that is clear, this node takes no new epoch: with that it would claim
    /// them again.
    hands_over: Option<whole_slots::HandOver>,
    /// The epoch of the next hand-over.
    reserved: Option<whole_slots::Reserved>,
    /// The last round of pings.
    round: u64,
    /// Nodes that are kept out, the oldest ban first.
    bans: Vec<extensions::Ban>,
    stats: stats::Stats,
    ticking: tick::Ticking,
    gossip_round: u64,
    queue: Vec<Action>,
    /// Messages of channels in the queue.
    published: publish::Published,
    /// Slots that this node lost at this event.
    lost: Vec<u16>,
    due: Due,
    /// What the server was told to follow.
    followed: Option<roles::Followed>,
    /// At a primary: what its replicas were told last.
    telling: Option<told::Told>,
    /// At a replica: what its primary has told in its stream.
    told: Option<told::Told>,
    /// Messages of this type are lost as they come, for tests.
    loses: Option<u16>,
}

/// What is to be done once, before what is in the queue.
#[derive(Default)]
struct Due {
    /// Save, and whether it must be on the disk.
    save: Option<bool>,
    routes: bool,
    /// Routes have changed since that was last asked for.
    has_new_routes: bool,
    /// This node has become a replica, or one of another primary. Who does not know that yet would not vote for it.
    tells_role: bool,
}

impl Cluster {
    /// A new node, alone, with a name of its own. `seed` must differ between nodes.
    pub fn new(options: Options, seed: u64) -> Self {
        let mut random = random::Random::new(seed);
        let (id, shard) = (random.id(), random.id());
        let address = own_address(&options, "");
        let myself = Node::new(id, Flags::MYSELF | Flags::PRIMARY, address, shard, 0);
        let mut cluster = Self::with(options, random, Nodes::new(myself));
        cluster.apply_options();
        cluster.notice(format!("No cluster configuration found, I'm {id}"));
        cluster.save(true);
        cluster.routes_changed();
        cluster
    }

    fn with(options: Options, random: random::Random, nodes: Nodes) -> Self {
        Self {
            options,
            random,
            nodes,
            slots: ownership::Slots::new(),
            links: links::Links::new(),
            now: Now::default(),
            offset: 0,
            current_epoch: 0,
            last_vote_epoch: 0,
            asked_epoch: 0,
            predecessor: vote::Predecessor::default(),
            state: state::State::new(),
            election: election::Election::default(),
            manual: failover::Manual::default(),
            hands_over: None,
            reserved: None,
            round: 0,
            bans: Vec::new(),
            stats: stats::Stats::default(),
            ticking: tick::Ticking::default(),
            gossip_round: 0,
            queue: Vec::new(),
            published: publish::Published::default(),
            lost: Vec::new(),
            due: Due::default(),
            followed: None,
            telling: None,
            told: None,
            loses: None,
        }
    }

    /// Takes other options; the next messages tell them to the others. Returns whether they are others.
    pub fn set_options(&mut self, options: Options, now: Now) -> bool {
        if options == self.options {
            return false;
        }
        self.begin(now);
        let was_announced = !self.options.announce_ip.is_empty();
        self.options = options;
        if was_announced && self.options.announce_ip.is_empty() {
            // The next node that asks shows it.
            self.nodes[MYSELF].address.ip.clear();
        }
        self.apply_options();
        self.changed_for_clients();
        self.end(None);
        true
    }

    fn apply_options(&mut self) {
        let Options { announce_hostname, announce_human_nodename, replica_no_failover, .. } = &self.options;
        let myself = &mut self.nodes[MYSELF];
        myself.hostname.clone_from(announce_hostname);
        myself.nodename.clone_from(announce_human_nodename);
        myself.flags.set(Flags::NO_FAILOVER, *replica_no_failover);
        myself.address = own_address(&self.options, &myself.address.ip);
    }

    /// Its options.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The time of the last [`Action::Pause`], as long as its manual fail-over goes on.
    pub fn wants_pause(&self) -> Option<u64> {
        self.manual.pause_until_ms
    }

    /// Clients are held, as the [`Action::Pause`] with this time wanted: the offset of this moment is the last one, and the
    /// replica that takes over may be told. Without effect if that fail-over is over.
    pub fn held(&mut self, until_mono_ms: u64, now: Now, host: &dyn Host) {
        self.begin_with(now, host);
        if self.manual.pause_until_ms == Some(until_mono_ms) {
            self.manual.is_paused = true;
            self.tell_paused_offset();
        }
        self.end(Some(host));
    }

    /// Writes the file of nodes again (CLUSTER SAVECONFIG).
    pub fn save_config(&mut self) {
        self.save(true);
    }

    /// Takes slots of which there are keys here although they are nobody's, as after a loss of the file of nodes; those of
    /// other nodes are on their way from them. Returns how many of both.
    pub fn claim_slots_with_keys(&mut self, now: Now, host: &dyn Host) -> (usize, usize) {
        self.begin_with(now, host);
        let (mut claimed, mut imported) = (0, 0);
        if !self.nodes[MYSELF].is_primary() {
            return (0, 0);
        }
        for slot in (0..crate::slots::SLOTS).filter(|slot| host.keys_in_slot(*slot) > 0) {
            match self.slots.owner(slot) {
                Some(MYSELF) => {}
                None => {
                    self.assign(slot, Some(MYSELF));
                    claimed += 1;
                }
                Some(other) => {
                    let id = self.nodes[other].id;
                    imported += usize::from(self.slots.importing.insert(slot, id).is_none());
                }
            }
        }
        if claimed + imported > 0 {
            self.changed_for_clients();
        }
        self.end(Some(host));
        (claimed, imported)
    }

    /// Takes what is to be done, in order. To be called after every event.
    pub fn take_actions(&mut self) -> Vec<Action> {
        let Due { save, routes, .. } = std::mem::take(&mut self.due);
        let mut actions: Vec<Action> = save.map(|sync| Action::Save { sync }).into_iter().collect();
        actions.extend(self.role_action());
        if routes {
            actions.extend(self.tell_action());
            actions.push(Action::Routes);
        }
        if !self.lost.is_empty() {
            actions.push(Action::SlotsLost(std::mem::take(&mut self.lost)));
        }
        actions.append(&mut self.queue);
        self.published = publish::Published::default();
        actions
    }

    /// Whether routes have changed since actions were last taken or this was last asked.
    pub fn take_new_routes(&mut self) -> bool {
        std::mem::take(&mut self.due.has_new_routes)
    }

    /// This node's name.
    pub fn my_id(&self) -> NodeId {
        self.nodes[MYSELF].id
    }

    /// The name of this node's shard.
    pub fn my_shard_id(&self) -> NodeId {
        self.nodes[MYSELF].shard
    }

    /// What this node is.
    pub fn role(&self) -> Role {
        if self.nodes[MYSELF].is_primary() { Role::Primary } else { Role::Replica }
    }

    /// This node's primary, if it is a replica.
    pub fn primary(&self) -> Option<NodeId> {
        self.nodes[MYSELF].primary
    }

    /// Whether the cluster is up, as this node sees it.
    pub fn is_up(&self) -> bool {
        self.state.is_up
    }

    /// The highest epoch that this node has seen.
    pub fn current_epoch(&self) -> u64 {
        self.current_epoch
    }

    /// The epoch of this node's slots, or of its primary's.
    pub fn my_config_epoch(&self) -> u64 {
        self.shown_epoch(&self.nodes[MYSELF])
    }

    /// Whether this is a known node.
    pub fn has_node(&self, id: NodeId) -> bool {
        self.nodes.find(id).is_some()
    }

    /// What an event begins with. Its time never goes back.
    fn begin(&mut self, now: Now) {
        self.now = Now { mono_ms: now.mono_ms.max(self.now.mono_ms), wall_ms: now.wall_ms };
        self.check_manual_timeout();
    }

    /// The same for one in which the server is at hand.
    fn begin_with(&mut self, now: Now, host: &dyn Host) {
        self.begin(now);
        self.offset = host.replication_offset();
    }

    /// What an event ends with.
    fn end(&mut self, host: Option<&dyn Host>) {
        self.leave_chain();
        // Votes are counted by the owners that are known now.
        if self.state.must_update {
            self.update_state();
        }
        if let Some(host) = host {
            self.advance_failover(host);
        }
        if self.state.must_update {
            self.update_state();
        }
        if std::mem::take(&mut self.due.tells_role) {
            self.broadcast_pong();
        }
    }

    /// The file is to be written before what this event sends.
    fn save(&mut self, sync: bool) {
        self.due.save = Some(sync || self.due.save == Some(true));
    }

    fn routes_changed(&mut self) {
        (self.due.routes, self.due.has_new_routes) = (true, true);
    }

    /// Something that decides whether the cluster is up has changed, and is to be saved.
    fn changed(&mut self) {
        self.save(false);
        self.state.must_update = true;
    }

    /// The same for something that clients are told as well.
    fn changed_for_clients(&mut self) {
        self.changed();
        self.routes_changed();
    }

    fn log(&mut self, level: Level, text: impl Into<String>) {
        self.queue.push(Action::Log(level, text.into()));
    }

    fn debug(&mut self, text: impl Into<String>) {
        self.log(Level::Debug, text);
    }

    fn verbose(&mut self, text: impl Into<String>) {
        self.log(Level::Verbose, text);
    }

    fn notice(&mut self, text: impl Into<String>) {
        self.log(Level::Notice, text);
    }

    fn warning(&mut self, text: impl Into<String>) {
        self.log(Level::Warning, text);
    }
}

/// Where this node is reached; `ip`: what it has learned of itself.
fn own_address(options: &Options, ip: &str) -> Address {
    let Options { announce_ip, port, tls_port, bus_port, tls_cluster, .. } = options;
    let ip = if announce_ip.is_empty() { ip } else { announce_ip };
    let (port, other_port) = if *tls_cluster { (*tls_port, *port) } else { (*port, *tls_port) };
    Address { ip: ip.to_owned(), port, other_port, bus_port: *bus_port }
}
