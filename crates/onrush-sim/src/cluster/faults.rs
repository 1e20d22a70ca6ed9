//! What goes wrong.

use onrush_cluster::cluster::commands::Failover;
use onrush_cluster::cluster::view::Role;

use super::network::ConnId;
use super::node::{Disk, Node};
use super::plan::node_at;
use super::world::{Broken, Event, World};

/// Nodes that a fault makes crash at the same time, at most.
const CRASHES_MAX: usize = 3;

impl World {
    /// Something goes wrong, and has the next thing go wrong.
    pub fn fault(&mut self) -> Result<(), Broken> {
        if self.is_quiet {
            return Ok(());
        }
        let every_ms = self.plan.fault_every_ms as usize;
        let next_ms = self.now_ms + 1 + self.random.below(every_ms) as u64;
        self.at(next_ms, Event::Fault);
        match self.random.below(20) {
            0 => self.partition(),
            1 | 2 => self.block_pair(),
            3 => self.slow_pair(),
            4 => self.slow_node(),
            5 => self.break_some(),
            6 => self.stall(),
            7 | 8 => self.crash_some(),
            9 => self.jump_clock(),
            10 => self.lose_disk(),
            11 => self.move_node(),
            12 => return self.fail_over(),
            13..=15 => self.contest(),
            16..=18 => self.begin_hand_over(),
            _ => self.operator.begin_move(&mut self.random),
        }
        Ok(())
    }

    fn some_node(&mut self) -> usize {
        self.random.below(self.nodes.len())
    }

    /// A time that matters to a node timeout.
    fn some_time_ms(&mut self) -> u64 {
        let timeout_ms = self.plan.node_timeout_ms as usize;
        let longest_ms = timeout_ms * [1, 3, 8][self.random.below(3)];
        1 + self.random.below(longest_ms) as u64
    }

    fn partition(&mut self) {
        let until_ms = self.now_ms + self.some_time_ms();
        let is_inside: Vec<bool> = self.nodes.iter().map(|_| self.random.below(2) == 0).collect();
        let is_one_way = self.random.below(3) == 0;
        self.note(&format!("partition {is_inside:?} until {until_ms}, one way: {is_one_way}"));
        for from in 0..self.nodes.len() {
            for to in 0..self.nodes.len() {
                let is_cut = is_inside[from] != is_inside[to] && (is_inside[from] || !is_one_way);
                if is_cut {
                    self.network.block(from, to, until_ms);
                }
            }
        }
    }

    fn block_pair(&mut self) {
        let (from, to) = (self.some_node(), self.some_node());
        let until_ms = self.now_ms + self.some_time_ms();
        self.note(&format!("nothing from {from} to {to} until {until_ms}"));
        self.network.block(from, to, until_ms);
        if self.random.below(2) == 0 {
            self.network.block(to, from, until_ms);
        }
    }

    fn slow_pair(&mut self) {
        let (from, to) = (self.some_node(), self.some_node());
        let (slower_ms, until_ms) = (self.slower_ms(), self.now_ms + self.some_time_ms());
        self.note(&format!("slow from {from} to {to}: {slower_ms} ms until {until_ms}"));
        self.network.slow(from, to, slower_ms, until_ms);
    }

    fn slow_node(&mut self) {
        let node = self.some_node();
        let (slower_ms, until_ms) = (self.slower_ms(), self.now_ms + self.some_time_ms());
        self.note(&format!("slow at {node}: {slower_ms} ms until {until_ms}"));
        for other in 0..self.nodes.len() {
            self.network.slow(node, other, slower_ms, until_ms);
            self.network.slow(other, node, slower_ms, until_ms);
        }
    }

    fn slower_ms(&mut self) -> u64 {
        let timeout_ms = self.plan.node_timeout_ms as usize;
        self.random.below(timeout_ms * 2) as u64
    }

    fn break_some(&mut self) {
        let mut conns: Vec<ConnId> = self.network.conns.keys().copied().collect();
        conns.sort_unstable();
        let one_in = 1 + self.random.below(8);
        self.note(&format!("one connection in {one_in} breaks"));
        for conn in conns {
            if self.random.below(one_in) == 0 {
                self.break_conn(conn);
            }
        }
    }

    fn stall(&mut self) {
        let node = self.some_node();
        let until_ms = self.now_ms + self.some_time_ms();
        self.note(&format!("{node:>3} stalls until {until_ms}"));
        self.nodes[node].stalled_until_ms = until_ms;
    }

    fn crash_some(&mut self) {
        for _ in 0..=self.random.below(CRASHES_MAX) {
            let node = self.some_primary();
            self.crash_running(node, "");
        }
    }

    /// A primary, if a few draws find one.
    fn some_primary(&mut self) -> usize {
        let first = self.some_node();
        let second = self.some_node();
        if self.is_primary(first) { first } else { second }
    }

    fn crash_running(&mut self, node: usize, how: &str) {
        if self.nodes[node].cluster.is_some() {
            self.crash(node, how);
        }
    }

    /// Two primaries crash, and stay away until their replicas have asked for votes.
    fn contest(&mut self) {
        let until_ms = self.now_ms + 2 * self.plan.node_timeout_ms + 3_000;
        for _ in 0..2 {
            let node = self.some_primary();
            self.nodes[node].down_until_ms = until_ms;
            self.crash_running(node, "for longer");
            self.at(until_ms, Event::Start { node });
        }
    }

    /// A replica asks for votes: others that are about to ask hear nobody for a while, so that they may ask in the same epoch.
    pub fn isolate_rivals(&mut self, asking: usize) {
        self.checks.about_to_ask.retain(|node| *node != asking);
        if self.is_quiet || self.random.below(4) == 0 {
            return;
        }
        let until_ms = self.now_ms + 500 + self.random.below(1_500) as u64;
        for rival in self.checks.about_to_ask.clone() {
            self.note(&format!("{rival:>3} hears nobody until {until_ms}"));
            for other in 0..self.nodes.len() {
                self.network.block(other, rival, until_ms);
            }
        }
    }

    /// Replicas that are about to ask for votes hear a node that has crashed while it voted.
    pub fn show_to_rivals(&mut self, voter: usize) {
        for rival in self.checks.about_to_ask.clone() {
            self.network.unblock(voter, rival);
            self.network.unblock(rival, voter);
        }
    }

    fn jump_clock(&mut self) {
        let node = self.some_node();
        let jump_ms = [1_000, 60_000, 86_400_000][self.random.below(3)] * (self.random.below(3) as i64 - 1);
        self.note(&format!("{node:>3} has its clock {jump_ms} ms ahead"));
        self.nodes[node].skew_ms = jump_ms;
    }

    /// A replica loses what it had on its disk: it is another node from then on. An operator repairs one such loss after the
    /// other. All must know all: if only the one that is lost knew another node, nobody would know that one.
    fn lose_disk(&mut self) {
        let node = self.some_node();
        let Some(cluster) = &self.nodes[node].cluster else { return };
        let all_know_all = self.nodes.iter().all(|node| self.knows_addresses(node));
        if self.operator.is_busy() || cluster.role() == Role::Primary || !all_know_all {
            return;
        }
        let id = cluster.my_id();
        self.crash(node, "and loses its disk");
        self.nodes[node].disk = Disk::default();
        self.nodes[node].data.offset = 0;
        self.operator.replace(node, id);
    }

    /// A node crashes, and comes back under another address. All must know where the others are: two halves that do not know
    /// each other's addresses any more could not find each other again.
    fn move_node(&mut self) {
        let node = self.some_node();
        if self.nodes.iter().all(|node| self.knows_addresses(node)) {
            self.crash(node, "and gets another address");
            self.nodes[node].moves += 1;
        }
    }

    fn knows_addresses(&self, node: &Node) -> bool {
        let is_current = |ip: &str| node_at(ip).is_some_and(|nth| ip == super::plan::ip(nth, self.nodes[nth].moves));
        node.cluster.as_ref().is_some_and(|cluster| {
            let routes = cluster.routes();
            routes.nodes.len() == self.nodes.len() && routes.nodes.iter().all(|node| is_current(&node.ip))
        })
    }

    /// A replica is told to ask for votes.
    pub fn force(&mut self) -> Result<(), Broken> {
        let Some(every_ms) = self.plan.forced_every_ms.filter(|_| !self.is_quiet) else { return Ok(()) };
        let next_ms = self.now_ms + 1 + self.random.below(every_ms as usize) as u64;
        self.at(next_ms, Event::Force);
        let node = self.some_node();
        if self.stalled(node).is_none() {
            let result = self.act(node, |cluster, now, host| cluster.failover(Failover::Force, now, host))?;
            self.note(&format!("{node:>3} is told to take over: {result:?}"));
        }
        Ok(())
    }

    fn fail_over(&mut self) -> Result<(), Broken> {
        let node = self.some_node();
        if self.stalled(node).is_some() {
            return Ok(());
        }
        let how = [Failover::Default, Failover::Default, Failover::Force, Failover::Takeover][self.random.below(4)];
        let result = self.act(node, |cluster, now, host| cluster.failover(how, now, host))?;
        self.note(&format!("{node:>3} is asked to take over, {how:?}: {result:?}"));
        Ok(())
    }
}
