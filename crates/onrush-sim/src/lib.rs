//! The simulator: the engine with virtual workers, clients and time, under one seeded scheduler.
//!
//! The engine's threads are real ones, but only one of them runs at a time ([`scheduler`]). Wherever a thread takes a
//! lock or gives it back, gives a commit its number, or waits, the scheduler may let another thread run. Clients send
//! random pipelines ([`workload`]), time passes when the simulation says so ([`time`]), connections are killed. What
//! clients sent and got is a [`history`]. The checker ([`check`]) compares it with a sequential [`model`]: every
//! command took effect at one moment between its sending and its reply, all its keys at once. The same seed makes the
//! same history, byte for byte.
//!
//! Meanwhile snapshots are taken. After a round a power failure is simulated ([`crash`]): another engine loads what a
//! disk would have. Other engines are replicas ([`replica`]): they follow over links that break, restart and take over.
//!
//! Another simulation is of [`cluster`]s: the rules of the bus, on a virtual network.

pub mod check;
mod client;
pub mod cluster;
pub mod command;
mod crash;
pub mod history;
pub mod model;
mod replica;
pub mod reply;
pub mod scheduler;
pub mod simulation;
mod snapshot;
mod time;
pub mod workload;
mod world;

pub use world::Outcome;

/// What a simulation shows that must not be.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed that shows it again.
    pub seed: u64,
    /// What is wrong, with the part of the history that shows it.
    pub what: String,
    /// What happened before, as far as it is kept.
    pub history: String,
}
