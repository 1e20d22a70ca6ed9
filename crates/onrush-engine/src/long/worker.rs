//! Executing long commands, on a thread of their own.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crate::batch::execute::Bystander;
use crate::batch::runner::new_commit;
use crate::blocking::serve::serve_later;
use crate::commit::Commit;
use crate::ctx::{Ctx, Engine};
use crate::eviction::state::Memory;
use crate::long::offload::Task;
use crate::settings::Pause;

/// The way of commands to the thread for long commands.
pub struct LongTasks {
    engine: &'static Engine,
}

impl LongTasks {
    /// Opens the way; `None` if it was opened before. From now on workers pass commands to the thread, so open it before
    /// there are clients: until then, workers execute everything to its end.
    pub fn open(engine: &'static Engine) -> Option<Self> {
        engine.offload.open().then_some(Self { engine })
    }
}

/// Executes long commands for the workers.
pub struct LongWorker {
    engine: &'static Engine,
    commit: Commit,
    /// Tasks that a pause holds back: they came before it began.
    held: VecDeque<Task>,
    /// The pause that holds all of them back.
    held_by: Pause,
}

/// How often the thread checks whether a pause is over.
const PAUSE_LOOK: Duration = Duration::from_millis(5);

impl LongWorker {
    /// For the calling thread.
    pub fn new(LongTasks { engine }: LongTasks) -> Self {
        let commit = new_commit(engine, engine.long_thread());
        Self { engine, commit, held: VecDeque::new(), held_by: Pause::None }
    }

    /// Executes one command after the other for as long as the process lives.
    pub fn run(mut self) {
        loop {
            // Tasks that were held back come first: others may never end.
            if self.execute_held() {
                continue;
            }
            let time = (!self.held.is_empty()).then_some(PAUSE_LOOK);
            if let Some(task) = self.engine.offload.wait(time) {
                self.execute_or_hold(task);
            }
        }
    }

    /// Executes the next command, if one waits; returns whether it did.
    pub fn step(&mut self) -> bool {
        if self.execute_held() {
            return true;
        }
        let task = self.engine.offload.next();
        let is_there = task.is_some();
        if let Some(task) = task {
            self.execute_or_hold(task);
        }
        is_there
    }

    fn execute_or_hold(&mut self, task: Task) {
        let pause = self.pause();
        if self.is_held_back(&task, pause) {
            self.held.push_back(task);
            if self.held.len() == 1 || pause == Pause::All {
                self.held_by = pause;
            }
        } else {
            self.execute(&task);
        }
    }

    /// Executes the first task that is no longer held back; returns whether there was one. O(1) while a pause goes on.
    fn execute_held(&mut self) -> bool {
        if self.held.is_empty() || self.engine.offload.is_urgent() {
            return false;
        }
        let pause = self.pause();
        if pause != Pause::None && (pause == self.held_by || pause == Pause::All) {
            return false;
        }
        let at = self.held.iter().position(|task| !self.is_held_back(task, pause));
        let Some(task) = at.and_then(|at| self.held.remove(at)) else {
            self.held_by = pause;
            return false;
        };
        self.execute(&task);
        true
    }

    fn pause(&self) -> Pause {
        self.engine.holds_back(self.engine.clock.unix_ms())
    }

    /// Whether a pause holds a task back.
    fn is_held_back(&self, task: &Task, pause: Pause) -> bool {
        match task {
            _ if pause == Pause::None => false,
            Task::Execute(waiter) => waiter.is_held_back(self.engine, pause),
            Task::Serve(..) => true,
            Task::Run(_) | Task::Tend => false,
        }
    }

    fn execute(&mut self, task: &Task) {
        match task {
            Task::Execute(waiter) => self.enter(|ctx, is_full| waiter.execute(ctx, is_full)),
            Task::Serve(db, key) => self.enter(|ctx, _| serve_later(ctx, *db, key)),
            Task::Run(work) => {
                // What it did is logged.
                let _ = catch_unwind(AssertUnwindSafe(work));
                self.engine.offload.done();
            }
            Task::Tend => {
                self.commit.shrink();
                onrush_alloc::give_back();
            }
        }
    }

    /// Does work inside of the gate; it is told whether memory is full.
    fn enter(&mut self, work: impl FnOnce(&mut Ctx<'_>, bool)) {
        let Self { engine, commit, .. } = self;
        let engine = *engine;
        commit.enter();
        commit.begin_chunk(engine.clock.unix_ms_at(engine.clock.now()));
        let is_full = commit.keep_within_memory() == Memory::Stuck;
        let mut bystander = Bystander::new(engine, engine.long_thread());
        let finished = catch_unwind(AssertUnwindSafe(|| work(&mut bystander.ctx(commit), is_full)));
        if finished.is_err() {
            *commit = new_commit(engine, engine.long_thread());
        } else {
            commit.leave();
        }
        engine.scripts.running.answer(engine);
        engine.offload.done();
    }
}
