//! Tasks of every kind over connections that are cut and held up at random, to a server that is killed and started
//! again: what each was told is compared with what the server has done. `CHECKER_SECONDS` is how long for each server,
//! a few if it is not set.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use onrush::{
    AsyncCommands, Attempt, Backoff, CacheConfig, Client, Connection, ConnectionConfig, Fate, Lease, Pipeline, PubSub,
    PubSubEvent, RedisError, RedisResult, Value, cmd, pipe,
};
use onrush_tests::rng::Rng;
use onrush_tests::server::{Launch, Oracle, Server};
use tokio::task::JoinHandle;

use crate::faults::{CurrentPort, Line, Mortal, proxy};

/// How long a step may take before it counts as endless.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often a task's key was certainly counted up, and how often perhaps.
#[derive(Debug, Default)]
struct Told {
    done: u64,
    unknown: u64,
}

impl Told {
    fn note<T>(&mut self, count: u64, result: &RedisResult<T>) {
        match result {
            Ok(_) => self.done += count,
            Err(error) => self.note_error(count, error),
        }
    }

    fn note_error(&mut self, count: u64, error: &RedisError) {
        assert_ne!(error.fate(), Fate::Replied, "{error}");
        self.unknown += if error.fate() == Fate::Unknown { count } else { 0 };
    }

    fn check(&self, what: &str, value: u64) {
        let most = self.done + self.unknown;
        assert!((self.done..=most).contains(&value), "{what}: {value}, but {self:?}");
    }
}

struct Worker {
    con: Connection,
    key: String,
    list: String,
    rng: Rng,
    counted: Told,
    pushed: Told,
    popped: Told,
}

impl Worker {
    fn incr(&self) -> onrush::Cmd {
        cmd("INCR").arg(&self.key).to_owned()
    }

    /// Does one thing of that kind; the kind's name.
    async fn step(&mut self, kind: usize) -> &'static str {
        let (con, key) = (self.con.clone(), self.key.clone());
        match kind {
            0 => {
                self.counted.note(1, &self.incr().exec_async(&con).await);
                "command"
            }
            1 => {
                let each: Vec<RedisResult<i64>> =
                    pipe().incr(&key, 1).incr(&key, 1).incr(&key, 1).query_each(&con).await.expect("results");
                each.iter().for_each(|result| self.counted.note(1, result));
                "pipeline"
            }
            2 => {
                let result = pipe().atomic().incr(&key, 1).incr(&key, 1).exec_async(&con).await;
                self.counted.note(2, &result);
                "atomic pipeline"
            }
            3 => {
                let own = key.clone();
                let attempt = async move |lease: &Lease, pipeline: &mut Pipeline| {
                    let old: Option<u64> = cmd("GET").arg(&own).query_async(lease).await?;
                    pipeline.set(&own, old.unwrap_or(0) + 1).query_async::<Option<((),)>>(lease).await
                };
                self.counted.note(1, &con.transaction(&key, attempt).await);
                "transaction"
            }
            4 => {
                let key = &key;
                let attempt = |lease: Attempt| async move {
                    let old: Option<u64> = cmd("GET").arg(key).query_async(&lease).await?;
                    pipe().atomic().set(key, old.unwrap_or(0) + 1).query_async::<Option<((),)>>(&lease).await
                };
                self.counted.note(1, &con.transact(key, attempt).await);
                "transact"
            }
            5 => {
                let count = 1 + self.rng.below(200);
                let summary = con.stream((0..count).map(|_| self.incr())).count().await;
                let unknown: u64 = summary.unknown.iter().map(|range| range.end - range.start).sum();
                let not_sent: u64 = summary.not_sent.iter().map(|range| range.end - range.start).sum();
                assert_eq!(summary.errors, unknown + not_sent, "{summary:?}");
                self.counted.done += summary.replies - summary.errors;
                self.counted.unknown += unknown;
                "stream"
            }
            6 => {
                if let Ok(lease) = con.lease().await {
                    self.counted.note(1, &self.incr().exec_async(&lease).await);
                }
                "lease"
            }
            7 => {
                let incr = self.incr();
                let wait = Duration::from_micros(self.rng.below(2_000) as u64);
                match tokio::time::timeout(wait, incr.exec_async(&con)).await {
                    Ok(result) => self.counted.note(1, &result),
                    Err(_) => self.counted.unknown += 1,
                }
                "dropped"
            }
            _ => {
                self.pushed.note(1, &con.rpush::<_, _, ()>(&self.list, 1).await);
                match con.blpop::<_, _, Option<(String, u64)>>(&self.list, 0.005).await {
                    Ok(popped) => self.popped.done += u64::from(popped.is_some()),
                    Err(error) => self.popped.note_error(1, &error),
                }
                "blpop"
            }
        }
    }

    /// Whether the cache shows all that this task has been told.
    async fn check_cached(&self, what: &str) {
        if let Ok(value) = self.con.get::<_, Option<u64>>(&self.key).await {
            self.counted.check(what, value.unwrap_or(0));
        }
    }

    /// Whether the server has done what this task has been told.
    async fn check_all(&self, server: &Connection) {
        let value: Option<u64> = server.get(&self.key).await.expect("a value");
        self.counted.check("at last", value.unwrap_or(0));
        let left: u64 = server.llen(&self.list).await.expect("a length");
        let (least, most) = (self.popped.done, self.popped.done + self.popped.unknown);
        assert!(left + least <= self.pushed.done + self.pushed.unknown, "{left} {:?} {:?}", self.pushed, self.popped);
        assert!(left + most >= self.pushed.done, "{left} {:?} {:?}", self.pushed, self.popped);
    }
}

/// Ends all tasks, and counts their steps.
#[derive(Clone, Default)]
struct Course {
    is_over: Arc<AtomicBool>,
    steps: Arc<AtomicU64>,
}

impl Course {
    fn goes_on(&self) -> bool {
        !self.is_over.load(Relaxed)
    }

    /// Starts tasks that do random things over a connection and check what they are told.
    fn work(&self, con: &Connection, tasks: u64) -> Vec<JoinHandle<Worker>> {
        let work = |task: u64| {
            let course = self.clone();
            let (key, list) = (format!("count:{task}"), format!("list:{task}"));
            let (counted, pushed, popped) = Default::default();
            let mut worker = Worker { con: con.clone(), key, list, rng: Rng::new(task), counted, pushed, popped };
            tokio::spawn(async move {
                while course.goes_on() {
                    let kind = worker.rng.below(9);
                    let step = tokio::time::timeout(PATIENCE, worker.step(kind)).await;
                    let what = step.unwrap_or_else(|_| panic!("kind {kind} has no end"));
                    let check = tokio::time::timeout(PATIENCE, worker.check_cached(what)).await;
                    check.unwrap_or_else(|_| panic!("the check after {what} has no end"));
                    course.steps.fetch_add(1, Relaxed);
                }
                worker
            })
        };
        (0..tasks).map(work).collect()
    }
}

/// Waits for the end of tasks that have been told to end.
async fn all<T>(tasks: Vec<JoinHandle<T>>) -> Vec<T> {
    let mut ended = Vec::new();
    for task in tasks {
        ended.push(task.await.expect("no panic"));
    }
    ended
}

fn seconds(default: u64) -> Duration {
    let set = std::env::var("CHECKER_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(set.unwrap_or(default))
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(test);
}

fn config() -> ConnectionConfig {
    let backoff = Backoff::new().set_first(Duration::from_millis(1)).set_max(Duration::from_millis(5));
    ConnectionConfig::new().set_cache(CacheConfig::new()).set_backoff(Some(backoff))
}

#[test]
fn everything_that_callers_are_told_is_so() {
    const TASKS: u64 = 60;
    run(async {
        for server in [Server::start_onrush(&["--workers", "2"]), Server::start_redis(&[])] {
            let direct = Client::open(format!("redis://127.0.0.1:{}/", server.port())).expect("a URL");
            let direct = direct.connect().await.expect("a connection");
            let near = proxy(CurrentPort::new(server.port().into()), Line::SHORT).await;
            let client = Client::open(format!("redis://127.0.0.1:{near}/")).expect("a URL");
            let con = client.connect_with(config()).await.expect("a connection");
            let course = Course::default();
            let workers = course.work(&con, TASKS);
            let started = Instant::now();
            while started.elapsed() < seconds(3) && !workers.iter().any(|worker| worker.is_finished()) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            course.is_over.store(true, Relaxed);
            let ended = all(workers).await;
            let counters = con.counters();
            drop(con);
            // What may still be on its way to the server was told to be unknown, so it changes no verdict.
            for worker in &ended {
                worker.check_all(&direct).await;
            }
            let steps = course.steps.load(Relaxed);
            println!("{steps} steps, {counters:?}");
            assert!(counters.reconnects > 0 && steps > TASKS, "{counters:?}");
        }
    });
}

/// Numbers that are published one after the other, and those of which the publisher does not know whether they were.
#[derive(Clone, Default)]
struct Numbers {
    doubtful: Arc<Mutex<HashSet<u64>>>,
}

impl Numbers {
    async fn publish(self, course: Course, con: Connection, channel: String) {
        for number in 1.. {
            if !course.goes_on() {
                return;
            }
            let mut publish = cmd("PUBLISH");
            publish.arg((&channel, number)).retries_max(0);
            if publish.exec_async(&con).await.is_err() {
                self.doubtful.lock().expect("no panic").insert(number);
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Reads until `course` is over, and then one more; how many gaps there were. No number is missing but in a gap.
    async fn read(self, course: Course, mut pubsub: PubSub) -> u64 {
        let (mut last, mut is_gap, mut gaps) = (0, true, 0);
        loop {
            let event = tokio::time::timeout(PATIENCE, pubsub.next_event()).await.expect("the subscription goes on");
            match event.expect("the connection goes on") {
                PubSubEvent::Message(message) => {
                    let number: u64 = message.get_payload().expect("a number");
                    assert!(number > last, "{number} after {last}");
                    let doubtful = self.doubtful.lock().expect("no panic");
                    let missing = (last + 1..number).find(|number| !doubtful.contains(number));
                    assert!(is_gap || missing.is_none(), "{missing:?} is missing before {number}, without a gap");
                    assert_eq!(message.is_after_gap(), is_gap && gaps > 0);
                    (last, is_gap) = (number, false);
                    course.steps.fetch_add(1, Relaxed);
                    if !course.goes_on() {
                        return gaps;
                    }
                }
                PubSubEvent::Gap => (is_gap, gaps) = (true, gaps + 1),
                PubSubEvent::Resubscribed => {}
                event => panic!("{event:?}"),
            }
        }
    }
}

/// The oldest reply that a reader takes.
const AGE_MAX: Duration = Duration::from_millis(20);

/// A number that is written again and again, and when each was acknowledged, for the last while.
#[derive(Clone, Default)]
struct Clock {
    written: Arc<Mutex<VecDeque<(Instant, u64)>>>,
}

impl Clock {
    async fn write(self, course: Course, con: Connection) {
        for number in 1u64.. {
            if !course.goes_on() {
                return;
            }
            if con.set::<_, _, ()>("clock", number).await.is_ok() {
                let mut written = self.written.lock().expect("no panic");
                written.push_back((Instant::now(), number));
                while written.front().is_some_and(|(at, _)| at.elapsed() > 2 * PATIENCE) {
                    written.pop_front();
                }
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// What had been acknowledged so long before.
    fn acknowledged_before(&self, moment: Instant, age: Duration) -> u64 {
        let written = self.written.lock().expect("no panic");
        let known = written.iter().rev().find(|(at, _)| moment.duration_since(*at) > age);
        known.map_or(0, |(_, number)| *number)
    }

    /// Reads it through the cache: never anything that was outdated for longer than a reader allows.
    async fn read(self, course: Course, con: Connection) {
        while course.goes_on() {
            // Kept for longer than the readers below allow.
            let _ = tokio::time::timeout(PATIENCE, con.get::<_, Value>("clock")).await.expect("a read ends");
            let began = Instant::now();
            let cached = con.cached(AGE_MAX);
            let read = cached.get::<_, Option<u64>>("clock");
            let read = tokio::time::timeout(PATIENCE, read).await.expect("a read ends");
            let Ok(value) = read else { continue };
            let least = self.acknowledged_before(began, AGE_MAX);
            assert!(value.unwrap_or(0) >= least, "{value:?} was read, {least} was acknowledged before");
            course.steps.fetch_add(1, Relaxed);
            tokio::task::yield_now().await;
        }
    }
}

/// The memory of this process, in bytes.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0");
    line.split_whitespace().next().and_then(|kb| kb.parse::<u64>().ok()).unwrap_or(0) << 10
}

async fn live_and_die(launch: fn() -> Launch, time: Duration) {
    const TASKS: u64 = 200;
    const CHANNELS: usize = 4;
    let mut mortal = Mortal::start(launch);
    let (direct, by_port) = mortal.client();
    let direct = direct.connect_with(by_port).await.expect("a connection");
    let near = proxy(mortal.port.clone(), Line::STALLING).await;
    let client = Client::open(format!("redis://127.0.0.1:{near}/")).expect("a URL");
    let config = config().set_response_timeout(Some(Duration::from_millis(500)));
    let con = client.connect_with(config.clone()).await.expect("a connection");
    let course = Course::default();
    let workers = course.work(&con, TASKS);
    let clock = Clock::default();
    let mut others = vec![tokio::spawn(clock.clone().write(course.clone(), direct.clone()))];
    others.extend((0..8).map(|_| tokio::spawn(clock.clone().read(course.clone(), con.clone()))));
    // Publishers go on when all else has ended, for the readers' last messages.
    let (published, mut readers) = (Course::default(), Vec::new());
    for channel in (0..CHANNELS).map(|n| format!("channel:{n}")) {
        let mut pubsub = client.pubsub_with(config.clone()).await.expect("a connection");
        pubsub.subscribe(&channel).await.expect("a subscription");
        let numbers = Numbers::default();
        tokio::spawn(numbers.clone().publish(published.clone(), direct.clone(), channel));
        readers.push(tokio::spawn(numbers.read(course.clone(), pubsub)));
    }
    let (started, mut settled) = (Instant::now(), None);
    let mut rng = Rng::new(7);
    while started.elapsed() < time && !workers.iter().any(|worker| worker.is_finished()) {
        tokio::time::sleep(Duration::from_millis(500 + rng.below(2_000) as u64)).await;
        let dead = Duration::from_millis(rng.below(300) as u64);
        mortal = tokio::task::spawn_blocking(move || mortal.kill(dead)).await.expect("it starts again");
        if started.elapsed() > time / 4 {
            settled.get_or_insert_with(memory);
        }
    }
    course.is_over.store(true, Relaxed);
    let ended = all(workers).await;
    all(others).await;
    let gaps: u64 = all(readers).await.into_iter().sum();
    published.is_over.store(true, Relaxed);
    for worker in &ended {
        worker.check_all(&direct).await;
    }
    let (counters, steps, deaths) = (con.counters(), course.steps.load(Relaxed), mortal.deaths);
    let (now, settled) = (memory() >> 20, settled.unwrap_or(0) >> 20);
    println!("{steps} steps, {deaths} deaths, {gaps} gaps, {settled} MB and later {now} MB, {counters:?}");
    assert!(counters.reconnects > 0 && gaps > 0 && steps > TASKS, "{gaps} {counters:?}");
    // In a short run other tests of this process run beside.
    assert!(time < Duration::from_secs(60) || now < settled + settled / 2 + 32, "{settled} MB and later {now} MB");
}

#[test]
fn everything_is_so_though_the_server_is_killed_and_started_again() {
    run(async {
        live_and_die(|| Launch::onrush().args(&["--workers", "2"]), seconds(10)).await;
        live_and_die(|| Launch::redis_of(Oracle::Newer.bin()), seconds(5)).await;
    });
}
