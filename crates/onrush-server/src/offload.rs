//! Commands that take long, on a thread of their own.
//!
//! A worker that executed a command for a second would let all its connections wait, and others that want the same shards. So
//! a handler that finds out, before it changes anything, that it has much to do is stopped and its command goes to this
//! thread ([`Ctx::expect_work`](crate::ctx::Ctx::expect_work)), while its connection is blocked as by BLPOP. The locks that
//! the thread holds are marked. A worker that meets a marked shard sets its connection aside until the thread is through with
//! the command, and goes on with others: no worker sleeps because of a long command.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

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

/// What the thread has to do.
pub(crate) enum Task {
    /// Execute a client's command.
    Execute(Arc<Waiter>),
    /// Serve who waits for a key of a database.
    Serve(u32, Vec<u8>),
}

/// The way to the thread.
#[derive(Default)]
pub struct Offload {
    tasks: OnceLock<Sender<Task>>,
    /// Tasks that are not done.
    pending: AtomicUsize,
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
        if let Some(tasks) = self.tasks.get() {
            // The thread ends with the process.
            let _ = tasks.send(task);
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

/// Gives memory back that long commands have freed, as workers do, for a while after each.
#[derive(Default)]
struct Tending {
    /// Looks that are left.
    left: u32,
    /// Ebbs of the heap that are dealt with.
    seen: u32,
}

enum Next {
    Task(Task),
    Nothing,
    End,
}

impl Tending {
    const PERIOD: Duration = Duration::from_millis(200);

    /// Looks after a task: until the server counts as calm, and a little longer.
    const LOOKS: u32 = 50;

    /// The next task, or nothing for a moment.
    fn next(&mut self, tasks: &Receiver<Task>) -> Next {
        if self.left == 0 {
            self.left = Self::LOOKS;
            return tasks.recv().map_or(Next::End, Next::Task);
        }
        match tasks.recv_timeout(Self::PERIOD) {
            Ok(task) => {
                self.left = Self::LOOKS;
                return Next::Task(task);
            }
            Err(RecvTimeoutError::Timeout) => self.left -= 1,
            Err(RecvTimeoutError::Disconnected) => return Next::End,
        }
        let ebbs = alloc::ebbs();
        if ebbs != self.seen {
            self.seen = ebbs;
            alloc::give_back();
        }
        Next::Nothing
    }
}

fn run(server: &'static Server, tasks: &Receiver<Task>) {
    let mut commit = Commit::new(server, server.long_thread());
    let mut tending = Tending::default();
    loop {
        let task = match tending.next(tasks) {
            Next::Task(task) => task,
            Next::Nothing => {
                commit.shrink();
                continue;
            }
            Next::End => return,
        };
        commit.enter();
        let now_ms = server.clock.unix_ms(std::time::Instant::now());
        commit.begin_chunk(now_ms);
        let mut bystander = Bystander::new(server, server.long_thread());
        let finished = catch_unwind(AssertUnwindSafe(|| match &task {
            Task::Execute(waiter) => waiter.execute(&mut bystander.ctx(&mut commit)),
            Task::Serve(db, key) => serve_later(&mut bystander.ctx(&mut commit), *db, key),
        }));
        if finished.is_err() {
            commit = Commit::new(server, server.long_thread());
            if let Task::Execute(waiter) = &task {
                waiter.kill_client();
            }
        } else {
            commit.leave();
        }
        server.offload.done();
    }
}
