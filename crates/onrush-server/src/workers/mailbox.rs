//! How other threads reach a worker: new connections, and connections that have to be looked at.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::task::{Wake, Waker};
use std::thread::sleep;
use std::time::{Duration, Instant};

use onrush_engine::clients::client::ClientHandle;

use crate::net::connection::Connection;
use crate::net::socket::Socket;
use crate::workers::inbox::{Bell, Inbox};

/// What other threads have posted to a worker. `maxclients` bounds new connections; each connection has at most one
/// wake for each cause.
#[derive(Default)]
pub struct Post {
    /// Connections just accepted.
    pub accepted: Vec<(Socket, Arc<ClientHandle>)>,
    /// Connections to look at, by their place with the worker.
    pub woken: Vec<usize>,
    /// Connections that another worker has handed over.
    pub moved: Vec<Connection>,
    /// Connections to give away.
    pub orders: Vec<Order>,
}

/// Has a worker give connections away.
pub struct Order {
    /// Who gets them.
    pub to: Arc<Mailbox>,
    /// One of this many moves; 1 is all.
    pub share: usize,
}

/// How long to wait for workers that have memory to take back: one may be busy for long.
const TAKING_BACK_MAX: Duration = Duration::from_millis(50);

/// Between two looks whether they have.
const TAKING_BACK_LOOK: Duration = Duration::from_micros(200);

/// Has all workers take back memory that the calling thread has freed; waits until they have, for a while. Nobody waits for one
/// that has not come to it since the last time.
pub fn have_all_take_back(workers: &[Arc<Mailbox>]) {
    let began = Instant::now();
    let asked: Vec<_> = workers.iter().filter(|worker| !worker.takes_back.swap(true, Relaxed)).collect();
    loop {
        let left = asked.iter().filter(|worker| worker.takes_back());
        // One that was just falling asleep has to be woken again.
        let left = left.inspect(|worker| worker.nudge()).count();
        if left == 0 || began.elapsed() > TAKING_BACK_MAX {
            return;
        }
        sleep(TAKING_BACK_LOOK);
    }
}

/// A worker's mailbox. The worker sleeps in the system's poll.
pub struct Mailbox {
    inbox: Inbox<Post, mio::Waker>,
    polled_nanos: AtomicU64,
    /// Whether the worker is to take back memory that others have freed.
    takes_back: AtomicBool,
}

impl Bell for mio::Waker {
    fn ring(&self) -> io::Result<()> {
        self.wake()
    }
}

impl Mailbox {
    /// The mailbox of a worker that polls with `poll`, which ends with an event of `token` when something comes.
    ///
    /// # Errors
    /// The system cannot create another event queue.
    pub fn new(poll: &mio::Poll, token: mio::Token) -> io::Result<Self> {
        let bell = mio::Waker::new(poll.registry(), token)?;
        Ok(Self { inbox: Inbox::new(bell), polled_nanos: AtomicU64::new(0), takes_back: AtomicBool::new(false) })
    }

    /// How long the worker has polled while it had nothing to do, in nanoseconds.
    pub fn polled_nanos(&self) -> u64 {
        self.polled_nanos.load(Relaxed)
    }

    /// Notes that the worker has polled while it had nothing to do. Only the worker calls this.
    #[inline]
    pub fn note_polled(&self, time: Duration) {
        self.polled_nanos.store(self.polled_nanos.load(Relaxed) + time.as_nanos() as u64, Relaxed);
    }

    /// Hands a connection over.
    pub fn hand_over(&self, socket: Socket, handle: Arc<ClientHandle>) {
        self.add(|post| post.accepted.push((socket, handle)));
    }

    /// Takes back connections that the worker has not taken yet.
    pub fn take_accepted(&self) -> Vec<(Socket, Arc<ClientHandle>)> {
        self.inbox.take_part(|post| std::mem::take(&mut post.accepted))
    }

    /// Hands over a connection that another worker had.
    pub fn give(&self, connection: Connection) {
        self.add(|post| post.moved.push(connection));
    }

    /// Makes the worker hand connections over to another worker.
    pub fn order(&self, order: Order) {
        self.add(|post| post.orders.push(order));
    }

    /// A waker for the connection at `place`.
    pub fn waker(self: &Arc<Self>, place: usize) -> Waker {
        Waker::from(Arc::new(ConnectionWaker { mailbox: Arc::clone(self), place }))
    }

    fn add(&self, add: impl FnOnce(&mut Post)) {
        self.inbox.add(add);
    }

    /// Makes the worker start a round if it is asleep.
    pub fn nudge(&self) {
        self.inbox.nudge();
    }

    /// Whether the worker is to take back memory that others have freed.
    #[inline]
    pub fn takes_back(&self) -> bool {
        self.takes_back.load(Relaxed)
    }

    /// The worker has taken back memory.
    pub fn note_taken_back(&self) {
        self.takes_back.store(false, Relaxed);
    }

    /// Whether the worker sleeps, or is about to.
    pub fn is_asleep(&self) -> bool {
        self.inbox.is_asleep()
    }

    /// Notes that the worker is about to sleep; returns false if it must not sleep.
    #[inline]
    pub fn may_sleep(&self) -> bool {
        self.inbox.may_sleep()
    }

    /// Notes that the worker is awake; returns what was posted meanwhile, if anything.
    #[inline]
    pub fn take(&self) -> Option<Post> {
        self.inbox.take()
    }
}

struct ConnectionWaker {
    mailbox: Arc<Mailbox>,
    place: usize,
}

impl Wake for ConnectionWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.mailbox.add(|post| post.woken.push(self.place));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BELL: mio::Token = mio::Token(usize::MAX);

    #[test]
    fn a_nudge_is_for_who_sleeps() {
        let mut poll = mio::Poll::new().unwrap();
        let mailbox = Mailbox::new(&poll, BELL).unwrap();
        let mut events = mio::Events::with_capacity(4);
        for asleep in [false, true, false] {
            if asleep {
                assert!(mailbox.may_sleep());
            }
            mailbox.nudge();
            mailbox.nudge();
            poll.poll(&mut events, Some(Duration::ZERO)).unwrap();
            assert_eq!(events.iter().count(), usize::from(asleep));
            assert!(mailbox.take().is_none());
        }
    }

    #[test]
    fn a_sleeping_worker_is_woken_and_no_post_is_lost() {
        const WAKES: usize = 20_000;
        let mut poll = mio::Poll::new().unwrap();
        let mailbox = Arc::new(Mailbox::new(&poll, BELL).unwrap());
        let waker = mailbox.waker(7);
        let posting = std::thread::spawn(move || (0..WAKES).for_each(|_| waker.wake_by_ref()));
        let mut events = mio::Events::with_capacity(4);
        let mut got = 0;
        while got < WAKES {
            let timeout = if mailbox.may_sleep() { Duration::from_secs(10) } else { Duration::ZERO };
            poll.poll(&mut events, Some(timeout)).unwrap();
            let slept_in_vain = events.is_empty() && timeout > Duration::ZERO;
            assert!(!slept_in_vain, "{got} of {WAKES} came");
            got += mailbox.take().map_or(0, |post| post.woken.len());
        }
        posting.join().unwrap();
        assert_eq!(got, WAKES);
    }
}
