//! The command log: numbers commits, merges the records of all threads, and passes them to sinks.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::effects::{Effects, Next, Plain, Record};
use crate::threads;

/// How long the log's thread waits for more records before it merges them.
const GATHER_TIME: Duration = Duration::from_micros(500);

/// Most bytes that wait to be merged; a thread that submits more must merge first.
const WAITING_BYTES_MAX: usize = 2 << 20;

/// Bytes of memory that a buffer kept for reuse has at most, and all of them together: more than waits to be merged, so that
/// records need no new memory.
const SPARE_BYTES_MAX: usize = 256 << 10;
const SPARE_BYTES_TOTAL: usize = 2 * WAITING_BYTES_MAX;

/// How long the log's thread sleeps if it is not woken.
const SLEEP_MAX: Duration = Duration::from_secs(1);

/// How long records may wait for the end of the slow work ([`CommandLog::is_late`]). A usual sync, during which some file
/// systems let no other thread write to the file, takes less.
pub const LATE_AFTER: Duration = Duration::from_millis(50);

/// A follower of the effects of commits: an append-only file, a replica's stream, a test.
pub trait Sink: Send {
    /// Takes the next record. Called by one thread at a time, in the order of LSNs.
    fn record(&mut self, record: Record<'_>);

    /// Takes the next records, which are many and simple: as [`Sink::record`] for each.
    fn plain(&mut self, plain: Plain<'_>) {
        plain.records().for_each(|record| self.record(record));
    }

    /// Called after a group of records: a good moment to write them out. Every flush of the log waits for it; slow work
    /// belongs into [`Sink::slow_work`].
    fn settle(&mut self) {}

    /// The slow work of this sink, done by the log's thread. Called once, by [`CommandLog::attach`].
    fn slow_work(&self) -> Option<Arc<dyn SlowWork>> {
        None
    }

    /// Ends it: no more records come.
    ///
    /// # Errors
    /// Earlier records are lost.
    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The work of a sink that may take long, such as writing and syncing files. The log's thread does it after each merge.
/// No other thread waits meanwhile: records can be merged, and sinks can be attached and detached.
pub trait SlowWork: Send + Sync {
    /// Does the present work. Returns when to call it again even if nothing happens; the thread itself calls it at
    /// least once a second.
    fn work(&self) -> Option<Duration>;

    /// Whether a client or thread waits for this work. Then records are merged at once; only those that come during the
    /// work gather.
    fn hurries(&self) -> bool {
        false
    }

    /// Called by the log's thread after the work: whether records that came before it are still left.
    fn is_behind(&self) -> bool {
        false
    }

    /// Called by the log's thread after each round: whether records have waited for longer than half of [`LATE_AFTER`].
    fn note_late(&self, _is_late: bool) {}
}

/// Names an attached sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SinkId(u64);

/// The stream of effects.
///
/// A thread collects records in its own [`Effects`] and closes each with [`CommandLog::close`] while the commit holds
/// its locks. Locks are two-phase, so the numbers are a serial order of the commits. From time to time, and before it
/// leaves the keyspace, the thread submits its records; the log's thread puts the records of all threads into the order
/// of their numbers, which have no gaps.
pub struct CommandLog {
    listening: AtomicBool,
    /// The LSN drawn last.
    last: AtomicU64,
    queue: Mutex<Queue>,
    /// Signalled when there is something in the queue.
    filled: Condvar,
    /// When the oldest record came whose slow work is not over, in nanoseconds after `born`; 0: there is none.
    oldest_ns: AtomicU64,
    born: Instant,
    merge: Mutex<Merge>,
    slow_works: Mutex<Vec<(SinkId, Arc<dyn SlowWork>)>>,
}

#[derive(Default)]
struct Queue {
    submitted: Vec<Effects>,
    bytes: usize,
    /// When the oldest records came that no slow work has begun with, and those of the present slow work.
    waiting_since: Option<Instant>,
    in_work_since: Option<Instant>,
    spare: Vec<Effects>,
    spare_bytes: usize,
    /// Whether the log's thread sleeps until it is signalled.
    is_asleep: bool,
    /// Whether [`CommandLog::wake`] has been called.
    is_woken: bool,
    has_thread: bool,
    /// How often the log's thread has begun and ended its work.
    begun: u64,
    ended: u64,
}

#[derive(Default)]
struct Merge {
    /// The LSN merged last.
    last: u64,
    /// Buffers with records that are not merged yet, by their next LSN.
    waiting: BTreeMap<u64, Waiting>,
    sinks: Vec<(SinkId, Box<dyn Sink>)>,
    sinks_attached: u64,
}

struct Waiting {
    next: usize,
    effects: Effects,
}

impl CommandLog {
    /// A log without sinks.
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            listening: AtomicBool::new(false),
            last: AtomicU64::new(0),
            queue: Mutex::default(),
            filled: Condvar::new(),
            oldest_ns: AtomicU64::new(0),
            born: Instant::now(),
            merge: Mutex::default(),
            slow_works: Mutex::default(),
        })
    }

    /// Whether effects must be recorded at all. It changes only while no thread is in the keyspace.
    #[inline]
    pub fn is_listening(&self) -> bool {
        self.listening.load(Ordering::Relaxed)
    }

    /// Adds a sink, which gets the records from here on. The caller must keep all other threads out of the keyspace,
    /// and all threads must have submitted their records.
    ///
    /// # Errors
    /// The system has no thread to give.
    pub fn attach(self: &Arc<Self>, sink: Box<dyn Sink>) -> io::Result<SinkId> {
        self.start_thread()?;
        Ok(self.follow(sink))
    }

    /// As [`CommandLog::attach`], for callers that flush the log themselves: it starts no thread.
    pub fn follow(&self, sink: Box<dyn Sink>) -> SinkId {
        self.flush();
        let mut merge = self.merge.lock();
        merge.sinks_attached += 1;
        let id = SinkId(merge.sinks_attached);
        self.slow_works.lock().extend(sink.slow_work().map(|work| (id, work)));
        merge.sinks.push((id, sink));
        self.listening.store(true, Ordering::Relaxed);
        id
    }

    /// Removes a sink and returns it; it has every record up to here. The caller must keep all other threads out of the
    /// keyspace, as in [`CommandLog::attach`].
    pub fn detach(&self, id: SinkId) -> Option<Box<dyn Sink>> {
        self.flush();
        let mut merge = self.merge.lock();
        let at = merge.sinks.iter().position(|(other, _)| *other == id)?;
        let (_, sink) = merge.sinks.remove(at);
        self.slow_works.lock().retain(|(other, _)| *other != id);
        self.listening.store(!merge.sinks.is_empty(), Ordering::Relaxed);
        Some(sink)
    }

    /// Closes the open record of a thread; returns its LSN. The commit must still hold its locks.
    #[inline]
    pub fn close(&self, effects: &mut Effects) -> u64 {
        let lsn = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        effects.close(lsn);
        lsn
    }

    /// The LSN of the newest record.
    pub fn last_lsn(&self) -> u64 {
        self.last.load(Ordering::Relaxed)
    }

    /// Takes the records of a thread and gives it an empty buffer. No record may be open.
    pub fn submit(&self, effects: &mut Effects) {
        if self.push(effects) {
            self.flush();
        }
    }

    /// Closes the open record of a thread that is not inside of the gate, and takes it. Whoever has the whole keyspace and flushes
    /// relies on it that no record is closed and not submitted: all later ones would wait for that, and come behind the cut
    /// though they are part of it.
    pub fn append(&self, effects: &mut Effects) {
        let merge = self.merge.lock();
        self.close(effects);
        let is_over = self.push(effects);
        drop(merge);
        if is_over {
            self.flush();
        }
    }

    /// Returns whether too much waits.
    fn push(&self, effects: &mut Effects) -> bool {
        debug_assert_eq!(effects.open_len(), 0);
        if effects.is_empty() {
            return false;
        }
        let mut queue = self.queue.lock();
        let spare = queue.spare.pop().unwrap_or_default();
        queue.spare_bytes -= spare.capacity_bytes();
        let full = std::mem::replace(effects, spare);
        queue.bytes += full.len_bytes();
        queue.submitted.push(full);
        if queue.waiting_since.is_none() && queue.has_thread {
            queue.waiting_since = Some(Instant::now());
            self.tell_oldest(&queue);
        }
        if std::mem::take(&mut queue.is_asleep) {
            self.filled.notify_one();
        }
        queue.bytes > WAITING_BYTES_MAX
    }

    /// Notes since when records wait, for [`CommandLog::is_late`].
    fn tell_oldest(&self, queue: &Queue) {
        let oldest = queue.in_work_since.or(queue.waiting_since);
        let oldest_ns = oldest.map_or(0, |since| (since - self.born).as_nanos().max(1) as u64);
        self.oldest_ns.store(oldest_ns, Ordering::Relaxed);
    }

    /// Whether records wait for longer than [`LATE_AFTER`]: what a reply reports now may come into a file much later. O(1).
    #[inline]
    pub fn is_late(&self, now: Instant) -> bool {
        match self.oldest_ns.load(Ordering::Relaxed) {
            0 => false,
            since_ns => {
                now.saturating_duration_since(self.born).as_nanos() as u64 > since_ns + LATE_AFTER.as_nanos() as u64
            }
        }
    }

    /// Wakes the log's thread: there is slow work even if no record comes.
    pub fn wake(&self) {
        let mut queue = self.queue.lock();
        queue.is_woken = true;
        self.filled.notify_one();
    }

    /// Waits, at most this long, until the log's thread has left the work that it is at now; returns whether it has. A
    /// thread that does not is at a disk that does not answer, and would do nothing for another sink either.
    pub fn answers_within(&self, at_most: Duration) -> bool {
        const LOOK_PERIOD: Duration = Duration::from_millis(1);
        let deadline = Instant::now() + at_most;
        let begun = self.queue.lock().begun;
        loop {
            if self.queue.lock().ended >= begun {
                return true;
            }
            if Instant::now() > deadline {
                return false;
            }
            std::thread::sleep(LOOK_PERIOD);
        }
    }

    /// Merges the submitted records. When this returns, the sinks have all of them before the first missing one, but
    /// may not have done their slow work.
    pub fn flush(&self) {
        let mut merge = self.merge.lock();
        let mut queue = self.queue.lock();
        let submitted = std::mem::take(&mut queue.submitted);
        queue.bytes = 0;
        drop(queue);
        if submitted.is_empty() {
            return;
        }
        for mut effects in submitted {
            let Some(lsn) = effects.lsn(0) else { continue };
            effects.share();
            merge.waiting.insert(lsn, Waiting { next: 0, effects });
        }
        for effects in merge.run() {
            self.recycle(effects);
        }
    }

    fn recycle(&self, mut effects: Effects) {
        effects.clear(SPARE_BYTES_MAX);
        let bytes = effects.capacity_bytes();
        let mut queue = self.queue.lock();
        if bytes > 0 && queue.spare_bytes + bytes <= SPARE_BYTES_TOTAL {
            queue.spare_bytes += bytes;
            queue.spare.push(effects);
        }
    }

    fn start_thread(self: &Arc<Self>) -> io::Result<()> {
        let mut queue = self.queue.lock();
        if !queue.has_thread {
            let log = Arc::downgrade(self);
            threads::start("log", move || run(&log))?;
            queue.has_thread = true;
        }
        Ok(())
    }

    /// Waits until records are submitted or the thread is woken, but not longer than `at_most`.
    fn wait(&self, at_most: Duration) {
        let mut queue = self.queue.lock();
        if queue.submitted.is_empty() && !queue.is_woken {
            queue.is_asleep = true;
            self.filled.wait_for(&mut queue, at_most);
            queue.is_asleep = false;
        }
        queue.is_woken = false;
    }

    /// Lets records gather for [`GATHER_TIME`], or until somebody waits for them: records that come do not end it, as
    /// [`CommandLog::wake`] does then.
    fn gather(&self) {
        let until = Instant::now() + GATHER_TIME;
        while !self.hurries() {
            let mut queue = self.queue.lock();
            if !queue.is_woken && self.filled.wait_until(&mut queue, until).timed_out() {
                return;
            }
            queue.is_woken = false;
        }
    }

    /// Merges what there is and does the sinks' slow work; returns when there may be more.
    fn work(&self) -> Duration {
        let works: Vec<Arc<dyn SlowWork>> = self.slow_works.lock().iter().map(|(_, work)| Arc::clone(work)).collect();
        {
            let mut queue = self.queue.lock();
            queue.begun += 1;
            let waiting = queue.waiting_since.take();
            queue.in_work_since = queue.in_work_since.or(waiting);
        }
        self.flush();
        let pause = works.iter().filter_map(|work| work.work()).min().unwrap_or(SLEEP_MAX).min(SLEEP_MAX);
        let is_late = {
            let mut queue = self.queue.lock();
            queue.ended += 1;
            if !works.iter().any(|work| work.is_behind()) {
                queue.in_work_since = None;
            }
            self.tell_oldest(&queue);
            let oldest = queue.in_work_since.or(queue.waiting_since);
            oldest.is_some_and(|since| since.elapsed() > LATE_AFTER / 2)
        };
        works.iter().for_each(|work| work.note_late(is_late));
        pause
    }

    fn hurries(&self) -> bool {
        self.slow_works.lock().iter().any(|(_, work)| work.hurries())
    }
}

/// The log's thread: ends when the log is dropped.
fn run(log: &Weak<CommandLog>) {
    let mut pause = SLEEP_MAX;
    while let Some(log) = log.upgrade() {
        log.wait(pause);
        // More records usually come soon: one merge of all costs less than a wake-up for each.
        log.gather();
        pause = log.work();
    }
}

impl Merge {
    /// Passes records to the sinks up to the first missing one; returns the buffers that are used up.
    fn run(&mut self) -> Vec<Effects> {
        let mut used_up = Vec::new();
        let before = self.last;
        while let Some(mut waiting) = self.waiting.remove(&(self.last + 1)) {
            // As long as this thread's records have consecutive numbers.
            while let Some(next) = waiting.effects.next(waiting.next, self.last + 1) {
                let sinks = self.sinks.iter_mut();
                let count = match next {
                    Next::Plain(plain) => {
                        sinks.for_each(|(_, sink)| sink.plain(plain));
                        plain.len()
                    }
                    Next::Record(record) => {
                        sinks.for_each(|(_, sink)| sink.record(record));
                        1
                    }
                };
                self.last += count as u64;
                waiting.next += count;
            }
            match waiting.effects.lsn(waiting.next) {
                Some(lsn) => _ = self.waiting.insert(lsn, waiting),
                None => used_up.push(waiting.effects),
            }
        }
        if self.last != before {
            self.sinks.iter_mut().for_each(|(_, sink)| sink.settle());
        }
        used_up
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// LSNs and the bytes of commands.
    type Seen = Vec<(u64, Vec<u8>)>;

    #[derive(Clone, Default)]
    struct Collect(Arc<Mutex<Seen>>);

    impl Sink for Collect {
        fn record(&mut self, record: Record<'_>) {
            let commands: Vec<u8> = record.commands().flat_map(|(_, bytes)| bytes.to_vec()).collect();
            self.0.lock().push((record.lsn, commands));
        }
    }

    fn word(effects: &mut Effects, word: &[u8]) {
        effects.command(0, [word].into_iter());
    }

    #[test]
    fn records_of_several_threads_come_in_the_order_of_their_numbers() {
        let log = CommandLog::new();
        assert!(!log.is_listening());
        let seen = Collect::default();
        let id = log.attach(Box::new(seen.clone())).unwrap();
        assert!(log.is_listening());
        let (mut a, mut b) = (Effects::default(), Effects::default());
        for (effects, text) in [(&mut a, b"1"), (&mut b, b"2")] {
            word(effects, text);
            log.close(effects);
        }
        word(&mut a, b"3");
        log.close(&mut a);
        log.submit(&mut b);
        log.flush();
        assert_eq!(seen.0.lock().len(), 0, "record 1 is missing");
        log.submit(&mut a);
        log.flush();
        let lsns: Vec<u64> = seen.0.lock().iter().map(|(lsn, _)| *lsn).collect();
        assert_eq!(lsns, [1, 2, 3]);
        assert!(log.detach(id).is_some());
        assert!(!log.is_listening() && log.detach(id).is_none());
    }

    #[test]
    fn nothing_is_lost_or_out_of_order_when_threads_write_at_full_speed() {
        const THREADS: u64 = 4;
        const RECORDS: u64 = 20_000;
        let (log, seen) = (CommandLog::new(), Collect::default());
        log.attach(Box::new(seen.clone())).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let log = &log;
                scope.spawn(move || {
                    let mut effects = Effects::default();
                    for n in 0..RECORDS {
                        word(&mut effects, b"x");
                        log.close(&mut effects);
                        if (n + thread) % 37 == 0 {
                            log.submit(&mut effects);
                        }
                    }
                    log.submit(&mut effects);
                });
            }
        });
        log.flush();
        let seen = seen.0.lock();
        assert_eq!(seen.len() as u64, THREADS * RECORDS);
        assert!(seen.iter().zip(1..).all(|((lsn, _), n)| *lsn == n));
    }

    #[test]
    fn what_is_appended_is_there_when_it_has_a_number() {
        const RECORDS: u64 = 20_000;
        let (log, seen) = (CommandLog::new(), Collect::default());
        log.follow(Box::new(seen.clone()));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut effects = Effects::default();
                for _ in 0..RECORDS {
                    word(&mut effects, b"x");
                    log.append(&mut effects);
                }
            });
            let mut cut = 0;
            while cut < RECORDS {
                cut = log.last_lsn();
                log.flush();
                let came = seen.0.lock().len() as u64;
                assert!(came >= cut, "{came} of {cut}");
            }
        });
    }

    /// Slow work that reports its beginning and waits until it is released.
    struct Slow {
        begun: std::sync::mpsc::SyncSender<()>,
        go: Mutex<std::sync::mpsc::Receiver<()>>,
    }

    impl SlowWork for Slow {
        fn work(&self) -> Option<Duration> {
            let _ = self.begun.send(());
            let _ = self.go.lock().recv();
            None
        }
    }

    struct WithSlowWork(Collect, Arc<Slow>);

    impl Sink for WithSlowWork {
        fn record(&mut self, record: Record<'_>) {
            self.0.record(record);
        }

        fn slow_work(&self) -> Option<Arc<dyn SlowWork>> {
            Some(Arc::clone(&self.1) as Arc<dyn SlowWork>)
        }
    }

    #[test]
    fn nobody_waits_for_slow_work_and_a_call_wakes_it() {
        let (log, seen) = (CommandLog::new(), Collect::default());
        let (begun, has_begun) = std::sync::mpsc::sync_channel(0);
        let (go, gone) = std::sync::mpsc::sync_channel(0);
        let slow = Arc::new(Slow { begun, go: Mutex::new(gone) });
        let id = log.attach(Box::new(WithSlowWork(seen.clone(), slow))).unwrap();
        log.wake();
        has_begun.recv().unwrap();
        let mut effects = Effects::default();
        word(&mut effects, b"x");
        log.close(&mut effects);
        log.submit(&mut effects);
        log.flush();
        assert_eq!(seen.0.lock().len(), 1, "the work is under way");
        go.send(()).unwrap();
        has_begun.recv().unwrap();
        assert!(log.detach(id).is_some());
        drop(go);
    }

    #[test]
    fn the_logs_thread_merges_by_itself() {
        let (log, seen) = (CommandLog::new(), Collect::default());
        log.attach(Box::new(seen.clone())).unwrap();
        let mut effects = Effects::default();
        word(&mut effects, b"x");
        log.close(&mut effects);
        log.submit(&mut effects);
        while seen.0.lock().is_empty() {
            std::thread::yield_now();
        }
    }
}
