//! Clusters: many state machines of the bus on a virtual network, under one seed.
//!
//! Nodes, connections, disks and clocks are virtual ([`node`], [`network`]), and time jumps from event to event
//! ([`world`]). Partitions, slow and broken links, stalls, crashes between two actions, lost disks, and an operator's
//! commands come at random ([`faults`], [`operator`]). While that goes on no node may vote twice in an epoch, and no epoch
//! may have two winners; once everything is healed, all nodes must agree within a bound ([`checks`]).

mod checks;
mod faults;
mod hand_overs;
mod network;
mod node;
mod operator;
mod plan;
mod traffic;
mod world;

pub use plan::{Plant, Settings};

use crate::Failure;

/// What a run showed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Events of all nodes.
    pub events: u64,
    /// Messages that arrived.
    pub messages: u64,
    /// Simulated milliseconds.
    pub simulated_ms: u64,
    /// Elections that were begun.
    pub elections: u64,
    /// Elections that were won.
    pub wins: u64,
    /// Nodes that were restarted.
    pub restarts: u64,
    /// Hand-overs of slots that a target has taken.
    pub hand_overs: u64,
    /// Those after which a source that had heard nothing has kept them.
    pub kept: u64,
    /// Simulated milliseconds from the healing until all agreed.
    pub healed_ms: u64,
    /// The same for the same course of events.
    pub hash: u64,
}

/// Simulates one cluster. O(events).
///
/// # Errors
/// It broke a rule.
pub fn run(seed: u64, settings: &Settings) -> Result<Outcome, Box<Failure>> {
    let mut world = world::World::new(seed, settings);
    match world.run() {
        Ok(()) => Ok(world.outcome()),
        Err(what) => Err(Box::new(Failure { seed, what, history: world.history() })),
    }
}
