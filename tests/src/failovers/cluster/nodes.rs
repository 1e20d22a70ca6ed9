//! Three primaries with a replica each.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use onrush_cluster::slots::SLOTS;

use super::Options;
use super::facts::{Facts, NODES, SHARDS};
use crate::failovers::group::Kind;
use crate::failovers::network::Network;
use crate::failovers::node::{Login, Node, wait};

/// How long a reply waits for the replica.
const HELD_FOR_MS: u32 = 1_500;

/// Lines of each log that are told when something is wrong.
const LOG_LINES: usize = 300;

/// Letters of a node's name.
const NAME_LEN: usize = 40;

/// How long a new primary may lack slots of the old one before the round goes on without them.
const LEFT_BEHIND_AFTER: Duration = Duration::from_secs(5);

/// See the module's text.
pub struct Nodes {
    nodes: Vec<Node>,
    facts: Arc<Facts>,
    network: Option<Network>,
}

/// What a node says of the cluster.
pub struct View {
    /// Each slot's primary.
    pub owners: Vec<Option<usize>>,
    /// Slots that it gives to or takes from another: `[slot->-id]` and `[slot-<-id]`, without the brackets.
    pub under_way: Vec<String>,
    /// Which nodes are primaries that have not failed, as it says.
    pub primaries: Vec<usize>,
}

impl View {
    /// The slots of a node.
    pub fn slots_of(&self, nth: usize) -> Vec<u16> {
        (0..SLOTS).filter(|slot| self.owners[usize::from(*slot)] == Some(nth)).collect()
    }

    /// Whether the node takes a slot from another.
    pub fn is_taking(&self, slot: u16) -> bool {
        self.under_way.iter().any(|word| word.starts_with(&format!("{slot}-<-")))
    }

    /// Reads the reply to CLUSTER NODES.
    pub fn read(text: &str, facts: &Facts) -> Self {
        let mut view = Self { owners: vec![None; usize::from(SLOTS)], under_way: Vec::new(), primaries: Vec::new() };
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let (Some(id), Some(flags)) = (words.first(), words.get(2)) else { continue };
            let Some(nth) = facts.by_id(id) else { continue };
            let flags: Vec<&str> = flags.split(',').collect();
            if flags.contains(&"master") && !flags.contains(&"fail") {
                view.primaries.push(nth);
            }
            for word in words.iter().skip(8) {
                if let Some(moving) = word.strip_prefix('[') {
                    view.under_way.push(moving.trim_end_matches(']').to_owned());
                    continue;
                }
                let (first, last) = word.split_once('-').unwrap_or((word, word));
                let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>()) else { continue };
                view.owners[first..=last].fill(Some(nth));
            }
        }
        view
    }
}

impl Nodes {
    /// Starts all and makes them a cluster.
    ///
    /// # Errors
    /// One does not start, or they do not agree.
    pub fn start(options: &Options) -> Result<Self, String> {
        let mut network = if options.network { Some(Network::new()?) } else { None };
        let (mut nodes, mut buses) = (Vec::new(), Vec::new());
        for kind in options.kinds {
            let bin = match kind {
                Kind::Onrush => options.onrush_bin.clone(),
                Kind::Other(oracle) => oracle.bin(),
            };
            let host = match &mut network {
                Some(network) => {
                    let address = network.add_host()?;
                    (address, Some(network.space(address)))
                }
                None => (Ipv4Addr::LOCALHOST, None),
            };
            let mut node = Node::new((bin, &[]), host, Login::None, |place, dir, bus| {
                buses.push(bus);
                let (address, port, socket, dir) = (place.address, place.port, place.socket.display(), dir.display());
                let mut text = format!(
                    "port {port}\nbind {address}\nunixsocket {socket}\ndir {dir}\nsave \"\"\nappendonly yes\n\
                     protected-mode no\nenable-debug-command yes\nrepl-diskless-sync-delay 0\ncluster-enabled yes\n\
                     cluster-port {bus}\ncluster-node-timeout {}\ncluster-migration-barrier {NODES}\n",
                    options.node_timeout_ms
                );
                if kind == Kind::Onrush {
                    text.push_str(&format!(
                        "durability-replicas {}\ndurability-replicas-timeout {HELD_FOR_MS}\n",
                        options.replicas
                    ));
                    options.directives.iter().for_each(|line| text.push_str(&format!("{line}\n")));
                }
                text
            });
            node.start()?;
            nodes.push(node);
        }
        let mut ids = Vec::new();
        for node in &nodes {
            // It may be loading.
            ids.push(wait("a node tells its name", Duration::from_secs(20), || {
                match node.ask("CLUSTER MYID")?.text() {
                    name if name.len() == NAME_LEN => Ok(name),
                    said => Err(said),
                }
            })?);
        }
        let places = nodes.iter().map(|node| node.place().clone()).collect();
        let facts = Arc::new(Facts { places, kinds: options.kinds, ids });
        let cluster = Self { nodes, facts, network };
        cluster.form(&buses)?;
        Ok(cluster)
    }

    fn form(&self, buses: &[u16]) -> Result<(), String> {
        let shards = SHARDS as u16;
        for (nth, node) in (0..).zip(&self.nodes[..SHARDS]) {
            let (first, last) = (nth * (SLOTS / shards), (nth + 1) * (SLOTS / shards) - 1);
            let last = if nth + 1 == shards { SLOTS - 1 } else { last };
            expect_ok(node, &format!("CLUSTER ADDSLOTSRANGE {first} {last}"))?;
            expect_ok(node, &format!("CLUSTER SET-CONFIG-EPOCH {}", nth + 1))?;
        }
        let first = self.nodes[0].place();
        for node in &self.nodes[1..] {
            expect_ok(node, &format!("CLUSTER MEET {} {} {}", first.address, first.port, buses[0]))?;
        }
        wait("all nodes know each other", Duration::from_secs(30), || {
            self.nodes.iter().enumerate().try_for_each(|(nth, node)| {
                let text = node.ask("CLUSTER NODES")?.text();
                let is_complete = text.lines().count() == NODES && !text.contains("handshake");
                if is_complete { Ok(()) } else { Err(format!("node {nth}: {text}")) }
            })
        })?;
        for nth in SHARDS..NODES {
            let command = format!("CLUSTER REPLICATE {}", self.facts.ids[nth - SHARDS]);
            wait("a node becomes a replica", Duration::from_secs(20), || expect_ok(&self.nodes[nth], &command))?;
        }
        self.settle(Duration::from_secs(60))
    }

    /// What never changes.
    pub fn facts(&self) -> &Arc<Facts> {
        &self.facts
    }

    /// The primary of each shard, by their own words.
    ///
    /// # Errors
    /// A shard has none, or two.
    pub fn primaries(&self) -> Result<Vec<usize>, String> {
        let is_primary = |nth: &usize| self.field(*nth, "role").is_ok_and(|role| role == "master");
        let of_shard = |shard: usize| {
            let found: Vec<usize> = [shard, shard + SHARDS].into_iter().filter(is_primary).collect();
            if found.len() == 1 { Ok(found[0]) } else { Err(format!("primaries of shard {shard}: {found:?}")) }
        };
        (0..SHARDS).map(of_shard).collect()
    }

    /// What a node says of the cluster.
    ///
    /// # Errors
    /// It does not answer.
    pub fn view(&self, nth: usize) -> Result<View, String> {
        Ok(View::read(&self.nodes[nth].ask("CLUSTER NODES")?.text(), &self.facts))
    }

    /// Waits until a node is a primary by its own word and that of all that `know`, which say that the cluster is up. Returns
    /// how many slots stay behind at the old primary: those that it got so shortly before that its replica was not told.
    ///
    /// # Errors
    /// It does not become one in time.
    pub fn wait_for_primary(&self, nth: usize, know: &[usize], at_most: Duration) -> Result<usize, String> {
        let mut taken_over_at: Option<Instant> = None;
        wait("the replica takes over", at_most, || {
            if self.field(nth, "role")? != "master" {
                return Err(format!("node {nth} is a replica"));
            }
            let mut left_behind = 0;
            for other in know {
                let view = self.view(*other)?;
                if !view.owners.contains(&Some(nth)) {
                    let (id, seen) = (&self.facts.ids[nth], &view.primaries);
                    return Err(format!(
                        "node {other} does not know that {nth} ({id}) has slots; primaries are {seen:?}"
                    ));
                }
                left_behind = left_behind.max(view.slots_of(Facts::twin(nth)).len());
                if left_behind == 0 && !self.nodes[*other].ask("CLUSTER INFO")?.text().contains("cluster_state:ok") {
                    return Err(format!("node {other} says that the cluster is down"));
                }
            }
            let since = *taken_over_at.get_or_insert_with(Instant::now);
            match left_behind {
                1.. if since.elapsed() < LEFT_BEHIND_AFTER => Err(format!("{left_behind} slots are left behind")),
                _ => Ok(left_behind),
            }
        })
    }

    /// The slots that the old primary of a shard still has beside the new one, as the new one says.
    ///
    /// # Errors
    /// It does not answer.
    pub fn left_behind(&self, old: usize) -> Result<Vec<u16>, String> {
        let view = self.view(Facts::twin(old))?;
        let is_primary = self.field(old, "role")? == "master" && view.owners.contains(&Some(Facts::twin(old)));
        Ok(if is_primary { view.slots_of(old) } else { Vec::new() })
    }

    /// Whether one node of a shard is a replica of the other and has a link; returns the replica.
    ///
    /// # Errors
    /// That is not so: the text says what is seen.
    pub fn follower(&self, nth: usize) -> Result<usize, String> {
        match self.field(nth, "role")?.as_str() {
            "master" if self.field(Facts::twin(nth), "role")? == "master" => {
                Err(format!("node {nth} is a primary, and so is the other one"))
            }
            "master" => self.follows(Facts::twin(nth), false).map(|()| Facts::twin(nth)),
            _ => self.follows(nth, false).map(|()| nth),
        }
    }

    fn follows(&self, nth: usize, has_all: bool) -> Result<(), String> {
        let primary = Facts::twin(nth);
        let place = self.nodes[primary].place();
        let follows = [self.field(nth, "master_host")?, self.field(nth, "master_port")?];
        if follows != [place.address.to_string(), place.port.to_string()] {
            return Err(format!("node {nth} follows {follows:?}"));
        }
        if self.field(nth, "master_link_status")? != "up" {
            return Err(format!("node {nth} has no link"));
        }
        let (has, of) = (self.field(nth, "slave_repl_offset")?, self.field(primary, "master_repl_offset")?);
        if has_all && has != of {
            return Err(format!("node {nth} is at {has}, not at {of}"));
        }
        Ok(())
    }

    /// Waits until all nodes agree, no slot is under way, and replicas have what their primaries have; nobody writes.
    ///
    /// # Errors
    /// That is not so in time.
    pub fn settle(&self, at_most: Duration) -> Result<(), String> {
        wait("all nodes agree", at_most, || {
            let primaries = self.primaries()?;
            let first = self.view(0)?;
            for (nth, node) in self.nodes.iter().enumerate() {
                let view = self.view(nth)?;
                if view.owners != first.owners || view.owners.contains(&None) {
                    return Err(format!("nodes 0 and {nth} do not agree about slots"));
                }
                if !view.under_way.is_empty() {
                    return Err(format!("node {nth} has {:?}", view.under_way));
                }
                if view.primaries.len() != SHARDS || !primaries.iter().all(|primary| view.primaries.contains(primary)) {
                    return Err(format!("node {nth} says {:?} are primaries, not {primaries:?}", view.primaries));
                }
                if !node.ask("CLUSTER INFO")?.text().contains("cluster_state:ok") {
                    return Err(format!("node {nth} says that the cluster is down"));
                }
            }
            for primary in primaries {
                let replica = Facts::twin(primary);
                self.follows(replica, true)?;
                let digest = |nth: usize| Ok::<_, String>(self.nodes[nth].ask("DEBUG DIGEST")?.text());
                if digest(primary)? != digest(replica)? {
                    return Err(format!("nodes {primary} and {replica} have not the same data"));
                }
            }
            Ok(())
        })
    }

    /// A field of INFO replication.
    fn field(&self, nth: usize, name: &str) -> Result<String, String> {
        let text = self.nodes[nth].ask("INFO replication")?.text();
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.map(|value| value.trim().to_owned()).ok_or_else(|| format!("node {nth} has no {name}"))
    }

    /// Makes a node a replica of the other one of its shard if it is another's: it follows whoever has got its last slot.
    ///
    /// # Errors
    /// It does not answer, or does not take it.
    pub fn bring_back(&self, nth: usize) -> Result<(), String> {
        let (twin, view) = (Facts::twin(nth), self.view(nth)?);
        let is_astray = self.field(nth, "role")? == "slave"
            && self.field(nth, "master_port")? != self.facts.places[twin].announced.to_string();
        match is_astray && view.primaries.contains(&twin) {
            true => expect_ok(&self.nodes[nth], &format!("CLUSTER REPLICATE {}", self.facts.ids[twin])),
            false => Ok(()),
        }
    }

    /// Changes for how many replicas a node that is Onrush holds replies.
    ///
    /// # Errors
    /// It does not take it.
    pub fn hold_replies_for(&self, nth: usize, replicas: u32) -> Result<(), String> {
        match self.facts.waits_itself(nth) {
            true => expect_ok(&self.nodes[nth], &format!("CONFIG SET durability-replicas {replicas}")),
            false => Ok(()),
        }
    }

    /// Deletes all data.
    ///
    /// # Errors
    /// A primary does not take it.
    pub fn flush(&self) -> Result<(), String> {
        self.primaries()?.into_iter().try_for_each(|nth| expect_ok(&self.nodes[nth], "FLUSHALL"))
    }

    /// Kills a node.
    pub fn kill(&mut self, nth: usize) {
        self.nodes[nth].signal("KILL");
        // It cannot refuse.
        let _ = self.nodes[nth].wait_exit();
    }

    /// Sends a signal to a node.
    pub fn signal(&self, nth: usize, name: &str) {
        self.nodes[nth].signal(name);
    }

    /// Starts a node that has ended.
    ///
    /// # Errors
    /// It does not answer.
    pub fn start_again(&mut self, nth: usize) -> Result<(), String> {
        self.nodes[nth].start()
    }

    /// Cuts a node off from all, or connects it again.
    ///
    /// # Errors
    /// It has no network of its own, or `ip` fails.
    pub fn set_connected(&self, nth: usize, is_connected: bool) -> Result<(), String> {
        self.network()?.connect(self.nodes[nth].place().address, is_connected)
    }

    /// Cuts a node off from the other shards, or connects it with them again: its replica and clients still reach it.
    ///
    /// # Errors
    /// It has no network of its own, or `ip` fails.
    pub fn set_connected_with_other_shards(&self, nth: usize, is_connected: bool) -> Result<(), String> {
        let here = self.nodes[nth].place().address;
        let others = (0..NODES).filter(|other| other % SHARDS != nth % SHARDS);
        others
            .into_iter()
            .try_for_each(|other| self.network()?.connect_pair(here, self.nodes[other].place().address, is_connected))
    }

    fn network(&self) -> Result<&Network, String> {
        self.network.as_ref().ok_or_else(|| "the nodes are not on hosts of their own".to_owned())
    }

    /// What each node says of the cluster, and the ends of all logs.
    pub fn logs(&self) -> String {
        let said = self.nodes.iter().enumerate().map(|(nth, node)| {
            let said = node.ask("CLUSTER NODES").map_or_else(|why| why, |said| said.text());
            // There are as many of these as clients that wait in vain.
            format!("--- node {nth} ---\n{said}\n{}", node.log_without(LOG_LINES, "Closing client"))
        });
        said.collect::<Vec<_>>().join("\n")
    }
}

fn expect_ok(node: &Node, line: &str) -> Result<(), String> {
    match node.ask(line)?.text() {
        said if said == "OK" => Ok(()),
        said => Err(format!("{line}: {said}")),
    }
}
