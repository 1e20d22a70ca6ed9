//! This node of the cluster: its state, which commands and the thread of the bus share.
//!
//! The state decides what is to be done, and the thread of the bus does it. A command that changes the state gets its
//! reply when all of that is done: the file of nodes is written, and the routes hold.

use std::sync::OnceLock;

use onrush_cluster::cluster::Cluster;
use parking_lot::{Mutex, MutexGuard};

use crate::error::CommandError;
use crate::process::Done;

/// See the module's text.
#[derive(Default)]
pub struct Node {
    state: OnceLock<Mutex<State>>,
    wake: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

/// The state, and whom to tell when what it wants done is done.
pub struct State {
    /// The state.
    pub cluster: Cluster,
    /// Commands that wait.
    pub waiting: Vec<Done>,
}

/// The error of a command that comes before the node has begun.
const NOT_YET: CommandError = CommandError::fixed("LOADING Redis is loading the dataset in memory");

impl Node {
    /// The node begins. `wake` has the thread of the bus look what is to be done.
    pub fn begin(&self, cluster: Cluster, wake: Box<dyn Fn() + Send + Sync>) {
        // It begins once.
        let _ = self.wake.set(wake);
        let _ = self.state.set(Mutex::new(State { cluster, waiting: Vec::new() }));
    }

    /// The state. Nobody who has it waits for anything.
    ///
    /// # Errors
    /// The server has just started.
    pub fn lock(&self) -> Result<MutexGuard<'_, State>, CommandError> {
        self.state.get().map(Mutex::lock).ok_or(NOT_YET)
    }

    /// Has the thread of the bus do what the state wants.
    pub fn wake(&self) {
        if let Some(wake) = self.wake.get() {
            wake();
        }
    }
}
