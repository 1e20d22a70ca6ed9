//! The scheduler: of many threads only one runs at a time, and a seed decides which.
//!
//! The thread that has the *turn* runs until it reaches a point ([`onrush_store::schedule`]). There the scheduler
//! decides whether another thread gets the turn. A thread that finds a lock taken, or has nothing to do, is *blocked*
//! until some thread has reached a point: before that nothing it waits for can have changed. One thread may *sleep*: it
//! runs now and then, and when no other thread can.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering::Acquire, Ordering::Release};
use std::sync::mpsc::Sender;
use std::sync::{Arc, OnceLock};
use std::thread::{JoinHandle, Thread};

use onrush_store::{Random, schedule};
use parking_lot::Mutex;

/// Steps without progress after which the threads count as stuck.
const STEPS_MAX: u64 = 200_000;

/// Steps of all threads for which one may wait for a lock, a shard or a turn at the gate that others have in between.
/// The longest wait of 200 seeds was 1,766.
const WAIT_STEPS_MAX: u64 = 20_000;

/// What threads wait for that have nothing to do.
const RESTS: [&str; 7] = [
    "something to do",
    "the others",
    "the next round",
    "a long command",
    "a moment for a snapshot",
    "the stream",
    "something to read",
];

/// One of this many choices may go to the thread that sleeps.
const SLEEPER_RARITY: usize = 24;

/// The turn before the first thread has it.
const NOBODY: usize = usize::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Ready,
    /// It waits for this.
    Blocked(&'static str),
    Sleeps,
    Ended,
}

struct Inner {
    random: Random,
    threads: Vec<Status>,
    names: Vec<&'static str>,
    /// Since which step each thread waits for something that it needs to go on.
    waits_since: Vec<Option<u64>>,
    /// The longest of these waits.
    longest_wait: u64,
    any_blocked: bool,
    /// Points until the next choice.
    until_choice: usize,
    /// Points between choices, on average.
    choice_every: usize,
    /// Whether the thread that has the turn keeps it.
    is_alone: bool,
    steps: u64,
    steps_of_progress: u64,
}

/// See the module's text.
pub struct Scheduler {
    turn: AtomicUsize,
    handles: OnceLock<Vec<Thread>>,
    inner: Mutex<Inner>,
    results: Mutex<Sender<Result<(), String>>>,
}

impl Scheduler {
    /// For threads with these names. `results` gets how it ends. If one panics, or none can go on, no thread goes on.
    pub fn new(seed: u64, names: &[&'static str], results: Sender<Result<(), String>>) -> Arc<Self> {
        let inner = Inner {
            random: Random::new(seed),
            threads: vec![Status::Ready; names.len()],
            names: names.to_vec(),
            waits_since: vec![None; names.len()],
            longest_wait: 0,
            any_blocked: false,
            until_choice: 0,
            choice_every: 1,
            is_alone: false,
            steps: 0,
            steps_of_progress: 0,
        };
        Arc::new(Self {
            turn: AtomicUsize::new(NOBODY),
            handles: OnceLock::new(),
            inner: Mutex::new(inner),
            results: Mutex::new(results),
        })
    }

    /// Makes thread `index`, which runs `body` as soon as it gets the turn.
    pub fn spawn(self: &Arc<Self>, index: usize, body: impl FnOnce(&VirtualThread) + Send + 'static) -> JoinHandle<()> {
        let scheduler = Arc::clone(self);
        std::thread::spawn(move || {
            let thread = VirtualThread { scheduler, index };
            thread.wait_for_turn();
            schedule::set(Some(Rc::new(thread.clone())));
            let ended = catch_unwind(AssertUnwindSafe(|| body(&thread)));
            schedule::set(None);
            if ended.is_err() {
                thread.scheduler.fail("a thread panicked".to_owned());
            }
            thread.end();
        })
    }

    /// Lets the first thread go on. Returns at once.
    pub fn start(&self, threads: &[JoinHandle<()>]) {
        let handles: Vec<Thread> = threads.iter().map(|thread| thread.thread().clone()).collect();
        let first = handles.first().cloned();
        assert!(self.handles.set(handles).is_ok(), "it was started before");
        self.turn.store(0, Release);
        first.iter().for_each(Thread::unpark);
    }
}

/// A thread as it sees the scheduler.
#[derive(Clone)]
pub struct VirtualThread {
    scheduler: Arc<Scheduler>,
    index: usize,
}

impl VirtualThread {
    /// Sleeps until it is chosen; true if no other thread could go on.
    pub fn sleep(&self) -> bool {
        self.go_on_with(|inner| {
            inner.threads[self.index] = Status::Sleeps;
            inner.choose()
        });
        let inner = &mut *self.scheduler.inner.lock();
        // No other thread has run since this one was chosen.
        let is_forced = !inner.threads.contains(&Status::Ready);
        inner.threads[self.index] = Status::Ready;
        is_forced
    }

    /// Reports that the threads make no progress, and what they wait for; no thread goes on.
    pub fn fail_as_stuck(&self, what: &str) -> ! {
        let text = self.scheduler.inner.lock().describe(what);
        self.scheduler.fail(text)
    }

    /// Begins or ends a time in which only this thread goes on.
    pub fn set_alone(&self, is_alone: bool) {
        self.scheduler.inner.lock().is_alone = is_alone;
    }

    /// Makes the scheduler choose a thread at one of this many points, on average.
    pub fn set_choice_every(&self, points: usize) {
        self.scheduler.inner.lock().choice_every = points;
    }

    /// Points and tries so far.
    pub fn steps(&self) -> u64 {
        self.scheduler.inner.lock().steps
    }

    /// The longest time for which a thread waited for something that others had, in steps of all threads.
    pub fn longest_wait(&self) -> u64 {
        self.scheduler.inner.lock().longest_wait
    }

    fn end(&self) {
        let next = {
            let inner = &mut *self.scheduler.inner.lock();
            inner.unblock();
            inner.threads[self.index] = Status::Ended;
            inner.choose()
        };
        if let Some(next) = next {
            self.scheduler.give_turn(next);
        }
    }

    fn wait_for_turn(&self) {
        while self.scheduler.turn.load(Acquire) != self.index {
            std::thread::park();
        }
    }

    /// Gives the turn to the thread that `choose` names; returns when this thread has the turn again.
    fn go_on_with(&self, choose: impl FnOnce(&mut Inner) -> Option<usize>) {
        let next = {
            let inner = &mut *self.scheduler.inner.lock();
            inner.steps += 1;
            if inner.steps - inner.steps_of_progress > STEPS_MAX {
                Err(inner.describe("nothing comes of what the threads do"))
            } else {
                choose(inner).ok_or_else(|| inner.describe("deadlock: no thread can go on"))
            }
        };
        match next {
            Ok(next) if next == self.index => {}
            Ok(next) => {
                self.scheduler.give_turn(next);
                self.wait_for_turn();
            }
            Err(what) => self.scheduler.fail(what),
        }
    }
}

impl Scheduler {
    /// Reports how it ends. The first report is enough.
    pub fn report(&self, result: Result<(), String>) {
        // A thread waits for this.
        let _ = self.results.lock().send(result);
    }

    /// Reports a failure; no thread goes on.
    pub fn fail(&self, what: String) -> ! {
        self.report(Err(what));
        loop {
            std::thread::park();
        }
    }

    /// The threads have made progress.
    pub fn note_progress(&self) {
        let inner = &mut *self.inner.lock();
        inner.steps_of_progress = inner.steps;
    }

    fn give_turn(&self, next: usize) {
        self.turn.store(next, Release);
        if let Some(handles) = self.handles.get() {
            handles[next].unpark();
        }
    }
}

impl schedule::Scheduler for VirtualThread {
    fn point(&self) {
        self.go_on_with(|inner| {
            inner.unblock();
            inner.waits_since[self.index] = None;
            if inner.is_alone {
                return Some(self.index);
            }
            if inner.until_choice > 0 {
                inner.until_choice -= 1;
                return Some(self.index);
            }
            inner.until_choice = inner.random.below(2 * inner.choice_every);
            inner.choose()
        });
    }

    fn blocked(&self, what: &'static str) {
        if let Some(told) = self.scheduler.inner.lock().judge_wait(self.index, what) {
            self.scheduler.fail(told);
        }
        self.go_on_with(|inner| {
            inner.threads[self.index] = Status::Blocked(what);
            inner.any_blocked = true;
            inner.choose()
        });
        self.scheduler.inner.lock().threads[self.index] = Status::Ready;
    }
}

impl Inner {
    /// Blocked threads may try again.
    fn unblock(&mut self) {
        if std::mem::take(&mut self.any_blocked) {
            for status in &mut self.threads {
                if matches!(status, Status::Blocked(_)) {
                    *status = Status::Ready;
                }
            }
        }
    }

    /// Notes that a thread waits for `what`. Returns what is wrong if it has done so for too long while others went on.
    fn judge_wait(&mut self, index: usize, what: &'static str) -> Option<String> {
        if RESTS.contains(&what) {
            self.waits_since[index] = None;
            return None;
        }
        let waited = self.steps - *self.waits_since[index].get_or_insert(self.steps);
        self.longest_wait = self.longest_wait.max(waited);
        let name = self.names[index];
        (waited > WAIT_STEPS_MAX)
            .then(|| self.describe(&format!("{name} waits for {what} while others go on for ever")))
    }

    /// The thread that runs next: one that can, or the one that sleeps.
    fn choose(&mut self) -> Option<usize> {
        let wanted = if self.random.below(SLEEPER_RARITY) == 0 { Status::Sleeps } else { Status::Ready };
        [wanted, Status::Ready, Status::Sleeps].into_iter().find_map(|wanted| self.one_of(wanted))
    }

    fn one_of(&mut self, wanted: Status) -> Option<usize> {
        let count = self.threads.iter().filter(|status| **status == wanted).count();
        let nth = if count > 0 { self.random.below(count) } else { return None };
        let mut those = self.threads.iter().enumerate().filter(|(_, status)| **status == wanted);
        those.nth(nth).map(|(index, _)| index)
    }

    fn describe(&self, what: &str) -> String {
        let threads = self.names.iter().zip(&self.threads).map(|(name, status)| match status {
            Status::Ready => format!("\n  {name} could go on"),
            Status::Blocked(what) => format!("\n  {name} waits for {what}"),
            Status::Sleeps => format!("\n  {name} sleeps"),
            Status::Ended => format!("\n  {name} has ended"),
        });
        what.to_owned() + &threads.collect::<String>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn the_same_seed_makes_the_same_choices() {
        let run = |seed| {
            let (failures, _failed) = channel();
            let scheduler = Scheduler::new(seed, &["a", "b", "c"], failures);
            let seen = Arc::new(Mutex::new(Vec::new()));
            let body = |index: usize| {
                let seen = Arc::clone(&seen);
                move |_: &VirtualThread| {
                    for _ in 0..50 {
                        seen.lock().push(index);
                        schedule::point();
                    }
                }
            };
            let threads: Vec<_> = (0..3).map(|index| scheduler.spawn(index, body(index))).collect();
            scheduler.start(&threads);
            threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
            Arc::try_unwrap(seen).expect("the threads have ended").into_inner()
        };
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
    }

    #[test]
    fn a_thread_that_others_pass_by_for_ever_is_told() {
        let (failures, failed) = channel();
        let scheduler = Scheduler::new(1, &["greedy", "patient"], failures);
        let lock = Arc::new(Mutex::new(()));
        let (taken, wanted) = (Arc::clone(&lock), lock);
        // It gives the lock back for no step of another thread.
        let greedy = move |thread: &VirtualThread| {
            let _taken = taken.lock();
            loop {
                thread.scheduler.note_progress();
                schedule::point();
            }
        };
        let patient = move |_: &VirtualThread| {
            schedule::point();
            drop(schedule::lock(&wanted, "a lock"));
        };
        let threads = [scheduler.spawn(0, greedy), scheduler.spawn(1, patient)];
        scheduler.start(&threads);
        let told = failed.recv().expect("a failure").expect_err("a failure");
        assert!(told.starts_with("patient waits for a lock while others go on for ever"), "{told}");
    }

    #[test]
    fn a_deadlock_is_told_with_what_each_thread_waits_for() {
        let told: Vec<String> = (0..20)
            .filter_map(|seed| {
                let (failures, failed) = channel();
                let scheduler = Scheduler::new(seed, &["one", "other"], failures.clone());
                let locks = Arc::new([Mutex::new(()), Mutex::new(())]);
                let body = |first: usize| {
                    let (locks, done) = (Arc::clone(&locks), failures.clone());
                    move |_: &VirtualThread| {
                        let _first = schedule::lock(&locks[first], "a lock");
                        let _second = schedule::lock(&locks[1 - first], "another lock");
                        let _ = done.send(Ok(()));
                    }
                };
                let threads: Vec<_> = (0..2).map(|index| scheduler.spawn(index, body(index))).collect();
                scheduler.start(&threads);
                failed.recv().ok()?.err()
            })
            .collect();
        let expected = "deadlock: no thread can go on\n  one waits for another lock\n  other waits for another lock";
        assert!(!told.is_empty() && told.iter().all(|what| what == expected), "{told:?}");
    }
}
