//! What a primary tells its replicas in their stream, so that one that takes over goes on with slots that are on their way.
//!
//! The bus tells slots too, but later or sooner than the data comes. In the stream a mark of a slot comes before the keys that
//! leave for it, and the slots that have come before the writes that clients make there. Nodes of other makes take it for a
//! PING with a message.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::Cluster;
use super::actions::{Action, Host, Now};
use super::nodes::MYSELF;
use super::receive::EPOCH_TAKEN_MAX;
use crate::node::NodeId;
use crate::slots::{self, SlotSet, ranges_text};

/// What a message of slots begins with.
pub const PREFIX: &str = "onrush-slots ";

/// A primary's slots, and those on their way from or to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    primary: NodeId,
    epoch: u64,
    slots: SlotSet,
    migrating: BTreeMap<u16, NodeId>,
    importing: BTreeMap<u16, NodeId>,
}

impl Told {
    /// As text. O(slots).
    pub fn text(&self) -> String {
        let mut text = format!("{PREFIX}{} {} ", self.primary, self.epoch);
        push_ranges(&mut text, &self.slots);
        for moves in [&self.migrating, &self.importing] {
            text.push(' ');
            push_moves(&mut text, moves);
        }
        text
    }

    /// Reads it; `None`: it is something else. O(slots).
    pub fn parse(text: &str) -> Option<Self> {
        let words: Vec<&str> = text.strip_prefix(PREFIX)?.split(' ').collect();
        let [primary, epoch, slots, migrating, importing] = words[..] else { return None };
        Some(Self {
            primary: primary.parse().ok()?,
            epoch: epoch.parse().ok()?,
            slots: parse_ranges(slots)?,
            migrating: parse_moves(migrating)?,
            importing: parse_moves(importing)?,
        })
    }
}

const NONE: &str = "-";

fn push_ranges(text: &mut String, slots: &SlotSet) {
    match slots.is_empty() {
        true => text.push_str(NONE),
        false => text.push_str(&ranges_text(slots).replace(' ', ",")),
    }
}

fn parse_ranges(word: &str) -> Option<SlotSet> {
    slots::parse_ranges(&if word == NONE { String::new() } else { word.replace(',', " ") })
}

fn push_moves(text: &mut String, moves: &BTreeMap<u16, NodeId>) {
    let mut by_node: BTreeMap<NodeId, SlotSet> = BTreeMap::new();
    for (slot, node) in moves {
        by_node.entry(*node).or_default().add(*slot);
    }
    if by_node.is_empty() {
        text.push_str(NONE);
    }
    for (nth, (node, slots)) in by_node.into_iter().enumerate() {
        let bar = if nth > 0 { "/" } else { "" };
        // Writing to a string does not fail.
        let _ = write!(text, "{bar}{node}:");
        push_ranges(text, &slots);
    }
}

fn parse_moves(word: &str) -> Option<BTreeMap<u16, NodeId>> {
    let mut moves = BTreeMap::new();
    for part in word.split('/').filter(|part| *part != NONE) {
        let (node, slots) = part.split_once(':')?;
        let node: NodeId = node.parse().ok()?;
        moves.extend(parse_ranges(slots)?.iter().map(|slot| (slot, node)));
    }
    Some(moves)
}

impl Cluster {
    /// Has a primary tell its replicas its slots again: one of them may not have heard it.
    pub fn tell_replicas_again(&mut self) {
        self.telling = None;
        self.routes_changed();
    }

    /// Tells replicas what has changed. When one that takes over knows how far it has to come, the stream stands still.
    pub(super) fn tell_action(&mut self) -> Option<Action> {
        let myself = &self.nodes[MYSELF];
        if !myself.is_primary() {
            self.telling = None;
            return None;
        }
        if self.manual.is_paused {
            return None;
        }
        let telling = Told {
            primary: myself.id,
            epoch: myself.config_epoch,
            slots: myself.slots.clone(),
            migrating: self.slots.migrating.clone(),
            importing: self.slots.importing.clone(),
        };
        if self.telling.as_ref() == Some(&telling) {
            return None;
        }
        let before = self.telling.as_ref();
        let has_gained = before.is_some_and(|before| telling.slots.difference(&before.slots).next().is_some());
        let text = telling.text();
        self.telling = Some(telling);
        Some(Action::TellReplicas { text, has_gained })
    }

    /// The primary of this node has told its slots, at this place of its stream. O(slots).
    pub fn hear_told(&mut self, told: Told, now: Now, host: &dyn Host) {
        let Some(primary) = self.primary_ix().filter(|ix| self.nodes[*ix].id == told.primary) else { return };
        if told.epoch > self.current_epoch.max(EPOCH_TAKEN_MAX) {
            return;
        }
        self.begin_with(now, host);
        self.current_epoch = self.current_epoch.max(told.epoch);
        if told.epoch > self.nodes[primary].config_epoch {
            self.nodes[primary].config_epoch = told.epoch;
            self.save(true);
        }
        // What the bus has told with a higher epoch is newer.
        if told.epoch >= self.nodes[primary].config_epoch {
            self.claim(primary, told.epoch, &told.slots);
        }
        self.told = Some(told);
        self.end(Some(host));
    }

    /// What was told belongs to data that is not this node's any more.
    pub fn forget_told(&mut self) {
        self.told = None;
    }

    /// What this node's primary has told.
    pub(super) fn told(&self) -> Option<&Told> {
        self.told.as_ref().filter(|told| Some(told.primary) == self.nodes[MYSELF].primary)
    }

    /// The slots of this node's shard: those of its primary, without those that it has told it gave away. What it says on the bus
    /// with a higher epoch is newer than what it has told: its data may be here as far as it has come, and nobody else has it.
    pub(super) fn slots_of_shard(&self) -> SlotSet {
        let owner = self.primary_ix().unwrap_or(MYSELF);
        let slots = &self.nodes[owner].slots;
        let Some(told) = self.told() else { return slots.clone() };
        // With the same epoch the bus may tell it sooner or later than the stream, and with the data comes the stream.
        let is_newest = told.epoch >= self.nodes[owner].config_epoch;
        let has_gone = |slot| if is_newest { !told.slots.has(slot) } else { self.slots.unclaimed.has(slot) };
        slots.iter().filter(|slot| !has_gone(*slot)).collect()
    }

    /// Whether a message of this node's primary is older than what it has told in its stream.
    pub(super) fn is_older_than_told(&self, sender: NodeId, epoch: u64) -> bool {
        self.told().is_some_and(|told| told.primary == sender && epoch < told.epoch)
    }

    /// This node has taken the place of its primary: slots that were on their way still are.
    pub(super) fn go_on_with_moves(&mut self, told: Told) {
        let is_mine = |cluster: &Self, slot: u16| cluster.slots.owner(slot) == Some(MYSELF);
        for (slot, id) in told.migrating {
            if let Some(ix) = self.primary_of_shard(id).filter(|ix| *ix != MYSELF && is_mine(self, slot)) {
                self.slots.migrating.insert(slot, self.nodes[ix].id);
            }
        }
        for (slot, id) in told.importing {
            if let Some(ix) = self.primary_of_shard(id).filter(|ix| *ix != MYSELF && !is_mine(self, slot)) {
                self.slots.importing.insert(slot, self.nodes[ix].id);
            }
        }
    }

    /// The node, or the one that has taken its place.
    fn primary_of_shard(&self, id: NodeId) -> Option<usize> {
        let ix = self.find(id)?;
        self.nodes[ix].primary.map_or(Some(ix), |primary| self.find(primary))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_comes_back_as_it_was() {
        let id = |digit: char| digit.to_string().repeat(40).parse::<NodeId>().unwrap();
        let full = Told {
            primary: id('1'),
            epoch: 7,
            slots: (0..10).chain([12, 16_383]).collect(),
            migrating: [(3, id('a')), (4, id('a')), (9, id('b'))].into(),
            importing: [(100, id('b'))].into(),
        };
        let empty =
            Told { slots: SlotSet::new(), migrating: BTreeMap::new(), importing: BTreeMap::new(), ..full.clone() };
        for told in [full, empty] {
            assert_eq!(Told::parse(&told.text()), Some(told.clone()), "{}", told.text());
            let text = told.text();
            for end in 0..text.len() {
                // A part of it is something else, or less.
                assert_ne!(Told::parse(&text[..end]), Some(told.clone()));
            }
        }
    }

    #[test]
    fn anything_else_is_none() {
        let id = "1".repeat(40);
        for text in ["", "onrush-slots", "onrush-slots 1 2 3 4 5", "ping"] {
            assert_eq!(Told::parse(text), None, "{text}");
        }
        for rest in ["7 0-16384 - -", "7 0 - -", "x - - -", "7 - - - -", "7 - 1-2 -", "7 - zz:1-2 -", "7 9-70000 - -"] {
            assert_eq!(Told::parse(&format!("{PREFIX}{id} {rest}")), None, "{rest}");
        }
    }
}
