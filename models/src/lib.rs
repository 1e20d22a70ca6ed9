//! Models of what threads do to one another, for loom, which goes through all interleavings of a few steps and through
//! what the memory model lets each load see.
//!
//! The modules under test are the files of the server: they are compiled here with the types of [`sync`] in the place of
//! the usual ones. What stands around them in the server and is too large for a model has a small stand-in here.

pub mod sync;

/// The lock of a shard.
pub mod keyspace {
    pub use onrush_store::schedule;

    #[path = "../../../crates/onrush-store/src/keyspace/lock/byte.rs"]
    mod byte;

    pub mod model;
}

#[path = "../../crates/onrush-engine/src/gate.rs"]
mod gate;
pub mod gate_model;

/// How a worker sleeps until others post something to it.
pub mod workers {
    #[path = "../../../crates/onrush-server/src/workers/inbox.rs"]
    mod inbox;

    pub mod model;
}

/// Clients that wait for keys.
pub mod blocking {
    #[path = "../../../crates/onrush-engine/src/blocking/state.rs"]
    mod state;
    #[path = "../../../crates/onrush-engine/src/blocking/waiters.rs"]
    pub mod waiters;

    pub mod model;
    mod waiter;
}

mod clients {
    pub mod client;
}
