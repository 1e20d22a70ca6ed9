//! Executing long commands, on a thread that has nothing else to do.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, TryRecvError};

use crate::blocking::serve::serve_later;
use crate::commit::Commit;
use crate::ctx::Engine;
use crate::execute::Bystander;
use crate::offload::Task;

/// Executes what workers hand over because it takes long. As long as there is none, workers execute everything.
pub struct LongWorker {
    engine: &'static Engine,
    tasks: Receiver<Task>,
    commit: Commit,
}

impl LongWorker {
    /// The one that there is; `None` if there is one already.
    pub fn new(engine: &'static Engine) -> Option<Self> {
        let tasks = engine.offload.open()?;
        Some(Self { engine, tasks, commit: Commit::new(engine, engine.long_thread()) })
    }

    /// Executes one command after the other for as long as the process lives.
    pub fn run(mut self) {
        while let Ok(task) = self.tasks.recv() {
            self.execute(&task);
        }
    }

    /// Executes the next command, if one waits; says whether it did.
    pub fn step(&mut self) -> bool {
        match self.tasks.try_recv() {
            Ok(task) => self.execute(&task),
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => return false,
        }
        true
    }

    fn execute(&mut self, task: &Task) {
        let Self { engine, commit, .. } = self;
        let engine = *engine;
        let client = match task {
            Task::Execute(waiter) => Some(waiter),
            Task::Serve(..) => None,
            Task::Tend => {
                commit.shrink();
                onrush_alloc::give_back();
                return;
            }
        };
        commit.enter();
        commit.begin_chunk(engine.clock.unix_ms_at(engine.clock.now()));
        let mut bystander = Bystander::new(engine, engine.long_thread());
        let finished = catch_unwind(AssertUnwindSafe(|| match task {
            Task::Execute(waiter) => waiter.execute(&mut bystander.ctx(commit)),
            Task::Serve(db, key) => serve_later(&mut bystander.ctx(commit), *db, key),
            Task::Tend => {}
        }));
        if finished.is_err() {
            *commit = Commit::new(engine, engine.long_thread());
            client.into_iter().for_each(|waiter| waiter.kill_client());
        } else {
            commit.leave();
        }
        engine.offload.done();
    }
}
