//! Slots that are handed over as a whole, as a server does it: the data is there, and it is about whose the slots are.

use onrush_cluster::cluster::Cluster;
use onrush_cluster::cluster::view::Routes;
use onrush_cluster::node::NodeId;

use super::checks::own_slots;
use super::world::{Broken, Event, World};

/// Time between two looks at a hand-over.
pub const STEP_MS: u64 = 10;

/// Nobody tries for longer to have a majority hear of it.
const RESERVE_MAX_MS: u64 = 10_000;

/// A target may take over for so long at least.
const TAKE_MIN_MS: u64 = 1_000;

/// A replica of the target may take that long to have its place.
const ELECTION_MAX_MS: u64 = 5_000;

/// Some answers come so late.
const LATE_MS: usize = 20_000;

/// Words get lost one in so many times.
const LOST_ONE_IN: usize = 4;

/// A hand-over on its way.
pub struct HandOver {
    slots: Vec<u16>,
    from: End,
    to: End,
    begun_ms: u64,
    stage: Stage,
}

#[derive(Clone, Copy)]
struct End {
    node: usize,
    id: NodeId,
    run: u32,
}

#[derive(Clone, Copy)]
enum Stage {
    /// A majority is to hear of it.
    Reserves,
    /// The target is told; `None`: it is not, or has been.
    Asks {
        epoch: u64,
        asked_ms: u64,
        arrives_ms: Option<u64>,
        answered_ms: Option<u64>,
    },
    Over,
}

impl World {
    /// Slots of a node go to another one, if both are there.
    pub fn begin_hand_over(&mut self) {
        let primaries: Vec<usize> = (0..self.nodes.len()).filter(|node| self.is_primary(*node)).collect();
        if primaries.len() < 2 || self.operator.hand_over.is_some() {
            return;
        }
        let [from, to] = [0, 1].map(|_| primaries[self.random.below(primaries.len())]);
        let (Some(from), Some(to)) = (self.end(from), self.end(to)) else { return };
        let Some(cluster) = &self.nodes[from.node].cluster else { return };
        let own: Vec<u16> = own_slots(cluster).iter().collect();
        if from.node == to.node || own.is_empty() {
            return;
        }
        let (at, len) = (self.random.below(own.len()), 1 + self.random.below(200));
        let slots: Vec<u16> = own.into_iter().skip(at).take(len).collect();
        if cluster_refuses(cluster, &slots, to.id) {
            return;
        }
        self.note(&format!("{} slots are handed over from {} to {}", slots.len(), from.node, to.node));
        self.operator.hand_over = Some(HandOver { slots, from, to, begun_ms: self.now_ms, stage: Stage::Reserves });
        self.at(self.now_ms, Event::HandOver);
    }

    fn end(&self, node: usize) -> Option<End> {
        let at = &self.nodes[node];
        at.cluster.as_ref().map(|cluster| End { node, id: cluster.my_id(), run: at.run })
    }

    fn is_same(&self, end: End) -> bool {
        self.nodes[end.node].run == end.run && self.nodes[end.node].cluster.is_some()
    }

    /// The next step of the hand-over.
    pub fn hand_over(&mut self) -> Result<(), Broken> {
        let Some(mut hand_over) = self.operator.hand_over.take() else { return Ok(()) };
        if !self.is_same(hand_over.from) {
            // Whoever starts again knows nothing of it.
            return Ok(());
        }
        if self.nodes[hand_over.from.node].is_awake(self.now_ms) {
            hand_over.stage = match hand_over.stage {
                Stage::Reserves => self.reserve(&hand_over)?,
                Stage::Asks { .. } => self.take(&hand_over)?,
                Stage::Over => Stage::Over,
            };
        }
        if matches!(hand_over.stage, Stage::Over) {
            self.act(hand_over.from.node, |cluster, _, _| cluster.end_hand_over())?;
            return Ok(());
        }
        self.operator.hand_over = Some(hand_over);
        self.at(self.now_ms + STEP_MS, Event::HandOver);
        Ok(())
    }

    fn reserve(&mut self, hand_over: &HandOver) -> Result<Stage, Broken> {
        let HandOver { slots, from, to, begun_ms, .. } = hand_over;
        if self.now_ms - begun_ms > RESERVE_MAX_MS {
            return Ok(Stage::Over);
        }
        let refuses = |cluster: &Cluster| cluster_refuses(cluster, slots, to.id);
        if self.nodes[from.node].cluster.as_ref().is_none_or(refuses) {
            return Ok(Stage::Over);
        }
        let begun =
            self.act(from.node, |cluster, now, host| cluster.begin_hand_over(slots, to.id.as_str(), now, host))?;
        Ok(match begun {
            Some(Ok(Some(epoch))) => {
                let arrives_ms = self.word_arrives_ms(from.node, to.node);
                Stage::Asks { epoch, asked_ms: self.now_ms, arrives_ms, answered_ms: None }
            }
            Some(Ok(None)) => Stage::Reserves,
            Some(Err(_)) | None => Stage::Over,
        })
    }

    /// When a word is there, unless it gets lost.
    fn word_arrives_ms(&mut self, from: usize, to: usize) -> Option<u64> {
        let is_lost = self.random.below(LOST_ONE_IN) == 0 || self.network.blocked(from, to, self.now_ms).is_some();
        (!is_lost).then(|| self.network.arrival_ms(from, to, self.now_ms, &mut self.random))
    }

    fn take(&mut self, hand_over: &HandOver) -> Result<Stage, Broken> {
        let HandOver { slots, from, to, stage, .. } = hand_over;
        let Stage::Asks { epoch, asked_ms, mut arrives_ms, mut answered_ms } = *stage else { return Ok(*stage) };
        let (now_ms, time_ms) = (self.now_ms, self.plan.node_timeout_ms.max(TAKE_MIN_MS));
        if arrives_ms.is_some_and(|at_ms| at_ms <= now_ms) && self.nodes[to.node].is_awake(now_ms) {
            arrives_ms = None;
            if self.is_same(*to) && now_ms - asked_ms <= time_ms {
                let source = from.id.as_str();
                let took =
                    self.act(to.node, |cluster, now, host| cluster.take_slots(slots, source, epoch, now, host))?;
                if took == Some(Ok(())) {
                    self.shown.hand_overs += 1;
                    // It answers when that is saved, which may take long.
                    if self.is_same(*to) {
                        let slow_ms =
                            if self.random.below(LOST_ONE_IN) == 0 { self.random.below(LATE_MS) as u64 } else { 0 };
                        answered_ms = self.word_arrives_ms(to.node, from.node).map(|at_ms| at_ms + slow_ms);
                    }
                } else {
                    return Ok(Stage::Over);
                }
            }
        }
        if !self.is_same(*from) {
            return Ok(Stage::Over);
        }
        let is_told = answered_ms.is_some_and(|at_ms| at_ms <= now_ms);
        let known = self.nodes[from.node].cluster.as_ref().map(|cluster| {
            let id = to.id.as_str();
            let counts = (cluster.own_among(slots), cluster.count_of(slots, id));
            (counts, cluster.usable_replicas(id) > 0, cluster.has_claimed_back())
        });
        let Some(((own, theirs), has_replicas, is_late)) = known else { return Ok(Stage::Over) };
        let at_most_ms = 2 * time_ms + if has_replicas { ELECTION_MAX_MS } else { 0 };
        if is_told && !is_late || theirs == slots.len() {
            self.act(from.node, |cluster, now, host| cluster.give_slots(slots, to.id.as_str(), now, host))?;
            return Ok(Stage::Over);
        }
        let is_kept = now_ms - asked_ms >= at_most_ms && own > 0 && self.keep(*from, slots)?;
        if own == 0 || is_kept {
            self.shown.kept += u64::from(is_kept);
            return Ok(Stage::Over);
        }
        Ok(Stage::Asks { epoch, asked_ms, arrives_ms, answered_ms })
    }
}

impl World {
    /// The source keeps what it has, if it may.
    fn keep(&mut self, source: End, slots: &[u16]) -> Result<bool, Broken> {
        let epoch = |world: &Self| world.nodes[source.node].cluster.as_ref().map(Cluster::my_config_epoch);
        let (before, others) = (epoch(self), self.majority_has_others(source, slots));
        let is_kept = self.act(source.node, |cluster, now, host| cluster.keep_slots(now, host))? == Some(true);
        match others.filter(|_| epoch(self).is_some_and(|now| Some(now) != before)) {
            Some(slot) => {
                Err(format!("node {} claims slot {slot}, which a majority knows another owner of", source.node))
            }
            None => Ok(is_kept),
        }
    }

    /// One of the slots that a node has that most of those with a vote take for another one's.
    fn majority_has_others(&self, source: End, slots: &[u16]) -> Option<u16> {
        let own = |slot: &u16| {
            self.nodes[source.node].cluster.as_ref().is_some_and(|cluster| cluster.own_among(&[*slot]) > 0)
        };
        let views: Vec<_> = self.nodes.iter().filter_map(|node| node.cluster.as_ref()).map(Cluster::routes).collect();
        let voters: Vec<_> = views.iter().filter(|routes| routes.owners.contains(&routes.myself)).collect();
        let knows_other = |slot: u16| {
            let owner =
                |routes: &&&Routes| routes.nodes.get(usize::from(routes.owners[usize::from(slot)])).map(|node| node.id);
            voters.iter().filter(|routes| owner(routes).is_some_and(|id| id != source.id)).count() > voters.len() / 2
        };
        slots.iter().copied().filter(own).find(|slot| knows_other(*slot))
    }
}

fn cluster_refuses(cluster: &Cluster, slots: &[u16], target: NodeId) -> bool {
    cluster.check_export(slots, target.as_str()).is_err()
}
