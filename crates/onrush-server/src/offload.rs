//! Commands that take long, on a thread of their own.
//!
//! A worker that executed a command for a second would let all its connections wait, and others that want the same shards. So
//! a handler that finds out, before it changes anything, that it has much to do is stopped and its command goes to this
//! thread ([`Ctx::expect_work`](crate::ctx::Ctx::expect_work)), while its connection is blocked as by BLPOP. The locks that
//! the thread holds are marked. A worker that meets a marked shard sets its connection aside until the thread is through with
//! the command, and goes on with others: no worker sleeps because of a long command.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use parking_lot::Mutex;

use crate::alloc;
use crate::blocking::{Waiter, serve_later};
use crate::client::ClientHandle;
use crate::commit::Commit;
use crate::execute::Bystander;
use crate::server::Server;

/// Elements that a command goes through; one with more is executed on the thread for long commands.
pub const ELEMENTS_MAX: usize = 20_000;

/// Arguments of a command on keys; one with more is executed on the thread for long commands.
pub const ARGS_MAX: usize = 10_000;

/// Looks after which the thread gives memory back: by then others have freed what they had of it.
const TEND_LOOKS: u32 = 5;

/// What the thread has to do.
pub(crate) enum Task {
    /// Execute a client's command.
    Execute(Arc<Waiter>),
    /// Serve who waits for a key of a database.
    Serve(u32, Vec<u8>),
    /// Give memory back.
    Tend,
}

/// The way to the thread.
#[derive(Default)]
pub struct Offload {
    tasks: OnceLock<Sender<Task>>,
    /// Tasks that are not done.
    pending: AtomicUsize,
    /// Whether there has ever been a task: only then has the thread anything to give back.
    is_known: AtomicBool,
    /// Looks until it does so; 0 when there is no reason to.
    tend_in: AtomicU32,
    /// Ebbs of the heap that are dealt with.
    seen_ebbs: AtomicU32,
    /// Clients whose next command wants a shard that is held for long.
    aside: Mutex<Vec<Arc<ClientHandle>>>,
}

impl Offload {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system has no thread to give.
    pub fn start(server: &'static Server) -> std::io::Result<()> {
        let (sender, tasks) = channel();
        std::thread::Builder::new().name("long".into()).spawn(move || run(server, &tasks))?;
        // There is one such call.
        let _ = server.offload.tasks.set(sender);
        Ok(())
    }

    /// Whether there is such a thread.
    pub(crate) fn is_there(&self) -> bool {
        self.tasks.get().is_some()
    }

    /// Whether a long command runs, or is to run.
    #[inline]
    pub fn is_busy(&self) -> bool {
        self.pending.load(Relaxed) > 0
    }

    /// Gives the thread something to do.
    pub(crate) fn post(&self, task: Task) {
        self.pending.fetch_add(1, Relaxed);
        self.is_known.store(true, Relaxed);
        self.tend_in.store(TEND_LOOKS, Relaxed);
        if let Some(tasks) = self.tasks.get() {
            // The thread ends with the process.
            let _ = tasks.send(task);
        }
    }

    /// To be called regularly, by one thread: some time after the last command, and after much was freed by whatever thread, has
    /// this thread give memory back. What it has allocated only it can give back.
    pub(crate) fn tend(&self) {
        let ebbs = alloc::ebbs();
        if self.seen_ebbs.swap(ebbs, Relaxed) != ebbs && self.is_known.load(Relaxed) {
            self.tend_in.store(TEND_LOOKS, Relaxed);
        }
        let left = self.tend_in.load(Relaxed);
        if left > 0 {
            self.tend_in.store(left - 1, Relaxed);
        }
        if left == 1
            && let Some(tasks) = self.tasks.get()
        {
            let _ = tasks.send(Task::Tend);
        }
    }

    /// Sets a client aside until a long command is done; it is woken then. Returns false if there is none any more.
    pub(crate) fn set_aside(&self, client: &Arc<ClientHandle>) -> bool {
        let mut aside = self.aside.lock();
        if !self.is_busy() {
            return false;
        }
        client.set_aside(true);
        aside.push(Arc::clone(client));
        true
    }

    /// A task is done, and its locks are back.
    fn done(&self) {
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

fn run(server: &'static Server, tasks: &Receiver<Task>) {
    let mut commit = Commit::new(server, server.long_thread());
    while let Ok(task) = tasks.recv() {
        let client = match &task {
            Task::Execute(waiter) => Some(waiter),
            Task::Serve(..) => None,
            Task::Tend => {
                commit.shrink();
                alloc::give_back();
                continue;
            }
        };
        commit.enter();
        commit.begin_chunk(server.clock.unix_ms(Instant::now()));
        let mut bystander = Bystander::new(server, server.long_thread());
        let finished = catch_unwind(AssertUnwindSafe(|| match &task {
            Task::Execute(waiter) => waiter.execute(&mut bystander.ctx(&mut commit)),
            Task::Serve(db, key) => serve_later(&mut bystander.ctx(&mut commit), *db, key),
            Task::Tend => {}
        }));
        if finished.is_err() {
            commit = Commit::new(server, server.long_thread());
            client.into_iter().for_each(|waiter| waiter.kill_client());
        } else {
            commit.leave();
        }
        server.offload.done();
    }
}
