//! Commands that take long, on a thread of their own.
//!
//! A worker that executed a command for a second would delay all its connections, and others that want the same shards.
//! So a handler that finds out, before it changes anything, that it has much to do stops, and its command goes to this
//! thread ([`Ctx::expect_work`](crate::ctx::Ctx::expect_work)), while its connection is blocked as by BLPOP. The thread
//! marks the locks that it holds. A worker that meets a marked shard sets its connection aside until the thread is done
//! with the command, and goes on with others: no worker sleeps because of a long command.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use onrush_alloc as alloc;
use onrush_store::schedule;

use crate::blocking::waiter::Waiter;
use crate::clients::client::ClientHandle;

/// By default, a command that goes through more elements than this is executed on the thread for long commands.
pub(crate) const ELEMENTS_MAX: usize = 20_000;

/// A command on keys with more arguments than this is executed on the thread for long commands.
pub(crate) const ARGS_MAX: usize = 10_000;

/// Looks after which the thread gives memory back: by then other threads have freed their parts of it.
const TEND_LOOKS: u32 = 5;

/// What the thread has to do.
pub(crate) enum Task {
    /// Execute a client's command.
    Execute(Arc<Waiter>),
    /// Serve the clients that wait for a key of a database.
    Serve(u32, Vec<u8>),
    /// Work of the process that may wait for the keyspace.
    Run(Box<dyn Fn() + Send>),
    /// Give memory back.
    Tend,
}

/// The way to the thread.
#[derive(Default)]
pub struct Offload {
    /// A command that goes through more elements than this comes here.
    pub(crate) elements_max: usize,
    /// Whether there is such a thread.
    is_open: AtomicBool,
    /// What waits for it: at most one command of each client, and work of the process.
    tasks: Mutex<VecDeque<Task>>,
    has_come: Condvar,
    /// Tasks that are not done.
    pending: AtomicUsize,
    /// Whether there has ever been a task: only then can the thread give anything back.
    is_known: AtomicBool,
    /// Looks until it gives memory back; 0 if there is no reason.
    tend_in: AtomicU32,
    /// Times that the heap has shrunk, as far as they are dealt with.
    seen_ebbs: AtomicU32,
    /// Clients whose next command wants a shard that is held for long.
    aside: Mutex<Vec<Arc<ClientHandle>>>,
}

impl Task {
    /// Whether it goes before all others.
    fn is_urgent(&self) -> bool {
        matches!(self, Self::Execute(waiter) if waiter.is_urgent())
    }
}

impl Offload {
    /// Sets from how many elements on commands come here.
    pub(crate) fn new(elements_max: usize) -> Self {
        Self { elements_max, ..Self::default() }
    }

    /// From now on there is such a thread; returns false the second time.
    pub(crate) fn open(&self) -> bool {
        !self.is_open.swap(true, Relaxed)
    }

    /// Whether there is such a thread.
    pub(crate) fn is_there(&self) -> bool {
        self.is_open.load(Relaxed)
    }

    /// The next task, if there is one.
    pub(crate) fn next(&self) -> Option<Task> {
        self.tasks.lock().pop_front()
    }

    /// The next task; waits for it, for at most `time`, or without end.
    pub(crate) fn wait(&self, time: Option<Duration>) -> Option<Task> {
        let mut tasks = self.tasks.lock();
        match time {
            Some(time) if tasks.is_empty() => _ = self.has_come.wait_for(&mut tasks, time),
            Some(_) => {}
            None => self.has_come.wait_while(&mut tasks, |tasks| tasks.is_empty()),
        }
        tasks.pop_front()
    }

    /// Takes out all commands of clients that wait for the thread. Each must be given to [`Offload::done`].
    pub(crate) fn take_commands(&self) -> Vec<Arc<Waiter>> {
        let mut commands = Vec::new();
        self.tasks.lock().retain(|task| match task {
            Task::Execute(waiter) => {
                commands.push(Arc::clone(waiter));
                false
            }
            Task::Serve(..) | Task::Run(_) | Task::Tend => true,
        });
        commands
    }

    /// Whether a long command runs, or is to run.
    #[inline]
    pub fn is_busy(&self) -> bool {
        self.pending.load(Relaxed) > 0
    }

    /// Gives the thread something to do.
    pub(crate) fn post(&self, task: Task) {
        schedule::point();
        self.pending.fetch_add(1, Relaxed);
        self.is_known.store(true, Relaxed);
        self.tend_in.store(TEND_LOOKS, Relaxed);
        self.push(task);
    }

    fn push(&self, task: Task) {
        if self.is_there() {
            let mut tasks = self.tasks.lock();
            match task.is_urgent() {
                true => tasks.push_front(task),
                false => tasks.push_back(task),
            }
            self.has_come.notify_one();
        }
    }

    /// Whether the next task is one that goes before all others.
    pub(crate) fn is_urgent(&self) -> bool {
        self.tasks.lock().front().is_some_and(Task::is_urgent)
    }

    /// Calls `work` on the thread, between two commands and outside of the gate.
    pub fn run(&self, work: impl Fn() + Send + 'static) {
        self.post(Task::Run(Box::new(work)));
    }

    /// Call this regularly, by one thread: some time after the last command, and after much was freed by whatever
    /// thread, has this thread give memory back. What it has allocated only it can give back.
    pub fn tend(&self) {
        let ebbs = alloc::ebbs();
        if self.seen_ebbs.swap(ebbs, Relaxed) != ebbs && self.is_known.load(Relaxed) {
            self.tend_in.store(TEND_LOOKS, Relaxed);
        }
        let left = self.tend_in.load(Relaxed);
        if left > 0 {
            self.tend_in.store(left - 1, Relaxed);
        }
        if left == 1 {
            self.push(Task::Tend);
        }
    }

    /// Sets a client aside until the long command is done, which wakes it. Returns false if there is no long command
    /// any more.
    pub fn set_aside(&self, client: &Arc<ClientHandle>) -> bool {
        schedule::point();
        let mut aside = self.aside.lock();
        if !self.is_busy() {
            return false;
        }
        client.set_aside(true);
        aside.push(Arc::clone(client));
        true
    }

    /// Notes that a task is done and has given its locks back.
    pub(crate) fn done(&self) {
        schedule::point();
        let clients = {
            let mut aside = self.aside.lock();
            self.pending.fetch_sub(1, Relaxed);
            std::mem::take(&mut *aside)
        };
        for client in clients {
            client.set_aside(false);
            client.wake();
        }
    }
}
