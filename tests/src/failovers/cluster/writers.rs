//! Clients that write pipelines to keys of many slots, go where they are sent, and know what was acknowledged.
//!
//! A write is sent again, in its order, if its reply says that it was not executed. One without a reply is of unknown fate
//! and is not sent again. So every list has each number once, and those that were acknowledged in their order.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::facts::{Conns, Facts, NODES, Said};
use super::key::{Fate, Found, Key, Shape};
use super::nodes::View;
use crate::argv;
use crate::argv::Argv;
use crate::client::Conn;
use crate::failovers::node::wait;
use crate::resp::Value;
use crate::rng::Rng;

const WRITERS: usize = 3;

/// Hash tags of one writer, each a slot with three keys.
const TAGS: usize = 12;

/// Keys of one hash tag in a pipeline, and writes to one of them.
const TAGS_AT_ONCE: usize = 6;
const WRITES_AT_ONCE: i64 = 3;

/// The time between pipelines: the load is bounded.
const REST: Duration = Duration::from_millis(8);

/// How long a reply may take: longer than one waits for a replica.
const REPLY_TIMEOUT: Duration = Duration::from_millis(2_000);

/// How long WAIT waits where a node does not wait itself.
const WAIT_MS: u32 = 1_500;

/// How often a write is sent that was not executed, and the time between.
const TRIES: usize = 8;
const RETRY_AFTER: Duration = Duration::from_millis(20);

/// Texts of unexpected errors that are kept.
const STRANGE_MAX: usize = 5;

/// What one writer knows.
struct Known {
    keys: Vec<Key>,
    /// Writes to a key that were executed before one that had been sent before them, and was refused.
    overtaken: Vec<(String, u16)>,
    strange: Vec<String>,
}

struct Shared {
    rests: AtomicBool,
    ends: AtomicBool,
    facts: Arc<Facts>,
    replicas: u32,
    seed: u64,
    /// When each node acknowledged a write first and last, in milliseconds since the start, and one more; 0: never.
    first_at: [AtomicU64; NODES],
    last_at: [AtomicU64; NODES],
    started: Instant,
}

/// See the module's text.
pub struct Writers {
    shared: Arc<Shared>,
    known: Vec<Arc<Mutex<Known>>>,
    stranded: Arc<Mutex<Known>>,
    threads: Vec<JoinHandle<()>>,
}

/// What reading back has shown.
#[derive(Default)]
pub struct Verdict {
    /// Acknowledged writes.
    pub acknowledged: u64,
    /// Writes of unknown fate.
    pub unknown: u64,
    /// Keys of which acknowledged writes are lost, with their numbers.
    pub lost: Vec<(String, u16, Vec<usize>)>,
    /// What was reordered, or is there though it was refused, with the slot.
    pub wrong: Vec<(String, u16)>,
    /// Writes of unknown fate behind later ones.
    pub late: usize,
    /// Errors that nobody expects.
    pub strange: Vec<String>,
}

impl Writers {
    /// Starts them; they rest until [`Writers::go_on`].
    pub fn start(facts: &Arc<Facts>, replicas: u32, seed: u64) -> Self {
        let shared = Arc::new(Shared {
            rests: AtomicBool::new(true),
            ends: AtomicBool::new(false),
            facts: Arc::clone(facts),
            replicas,
            seed,
            first_at: std::array::from_fn(|_| AtomicU64::new(0)),
            last_at: std::array::from_fn(|_| AtomicU64::new(0)),
            started: Instant::now(),
        });
        let none = |keys: Vec<Key>| Arc::new(Mutex::new(Known { keys, overtaken: Vec::new(), strange: Vec::new() }));
        let known: Vec<_> = (0..WRITERS).map(|writer| none(keys_of(writer))).collect();
        let start = |(writer, known): (usize, &Arc<Mutex<Known>>)| {
            let (shared, known) = (Arc::clone(&shared), Arc::clone(known));
            std::thread::spawn(move || Writer::new(&shared, writer).run(&known))
        };
        let threads = known.iter().enumerate().map(start).collect();
        Self { shared, known, stranded: none(Vec::new()), threads }
    }

    /// The slots that they write to.
    pub fn slots(&self) -> Vec<u16> {
        let slots: HashSet<u16> = self
            .known
            .iter()
            .flat_map(|known| known.lock().keys.iter().map(|key| key.slot).collect::<Vec<_>>())
            .collect();
        let mut slots: Vec<u16> = slots.into_iter().collect();
        slots.sort_unstable();
        slots
    }

    /// They write.
    pub fn go_on(&self) {
        self.shared.rests.store(false, Relaxed);
    }

    /// They stop to write; returns when the last reply has come or is given up.
    ///
    /// # Errors
    /// One hangs.
    pub fn rest(&self, at_most: Duration) -> Result<(), String> {
        self.shared.rests.store(true, Relaxed);
        // A writer holds what it knows during a pipeline.
        wait("a writer rests", at_most, || {
            let all = self.known.iter().chain([&self.stranded]);
            let hanging = all.filter(|known| known.try_lock().is_none()).count();
            if hanging == 0 { Ok(()) } else { Err(format!("{hanging} write")) }
        })?;
        std::thread::sleep(2 * REST);
        Ok(())
    }

    /// Waits until a node acknowledges a write after `since`.
    ///
    /// # Errors
    /// It does not.
    pub fn wait_for_ack(&self, nth: usize, since: Instant, at_most: Duration) -> Result<(), String> {
        let since = since.saturating_duration_since(self.shared.started);
        wait("a write is acknowledged", at_most, || {
            let last = Duration::from_millis(self.shared.last_at[nth].load(Relaxed));
            if last > since { Ok(()) } else { Err(format!("node {nth}: the last {:?} before", since - last)) }
        })
    }

    /// What [`Writers::first_ack`] tells begins anew.
    pub fn forget_first_ack(&self, nth: usize) {
        self.shared.first_at[nth].store(0, Relaxed);
    }

    /// How long after `since` a node acknowledged a write first.
    pub fn first_ack(&self, nth: usize, since: Instant) -> Duration {
        let first = Duration::from_millis(self.shared.first_at[nth].load(Relaxed));
        first.saturating_sub(since.saturating_duration_since(self.shared.started))
    }

    /// Begins to write to one node, whatever becomes of it, over what no network cuts. [`Writers::rest`] ends that.
    ///
    /// # Errors
    /// The node does not say which slots it has, or has none that moves.
    pub fn strand(&mut self, nth: usize, view: &View) -> Result<(), String> {
        let moving = self.slots();
        let is_here = |key: &Key| view.owners[usize::from(key.slot)] == Some(nth) && !moving.contains(&key.slot);
        let names = (0..1_000).map(|number| Key::new(format!("stranded:{number}"), Shape::List));
        let keys: Vec<Key> = names.filter(is_here).take(4).collect();
        if keys.is_empty() {
            return Err(format!("node {nth} has no slot that stays"));
        }
        self.stranded.lock().keys = keys;
        let (shared, known) = (Arc::clone(&self.shared), Arc::clone(&self.stranded));
        self.threads.push(std::thread::spawn(move || write_stranded(&shared, nth, &known)));
        Ok(())
    }

    /// Reads all back.
    ///
    /// # Errors
    /// A node does not answer.
    pub fn judge(&self, view: &View) -> Result<Verdict, String> {
        let mut verdict = Verdict::default();
        let (facts, mut conns) = (&self.shared.facts, Conns::new(Duration::from_secs(20)));
        for known in self.known.iter().chain([&self.stranded]) {
            let mut known = known.lock();
            for key in &known.keys {
                let owner = view.owners[usize::from(key.slot)].ok_or("a slot without a primary")?;
                let conn = conns.to(owner, facts).ok_or_else(|| format!("node {owner} takes no connection"))?;
                let command = match key.shape {
                    Shape::List => argv!["LRANGE", &key.name, "0", "-1"],
                    Shape::Counter => argv!["GET", &key.name],
                };
                let raw = conn.try_call(&command).map_err(|error| format!("{command}: {error}"))?;
                verdict.add(key, &Value::parse(&raw)?, owner)?;
            }
            verdict.wrong.append(&mut known.overtaken);
            verdict.strange.append(&mut known.strange);
        }
        Ok(verdict)
    }

    /// Forgets all writes.
    pub fn forget(&self) {
        self.stranded.lock().keys.clear();
        self.known.iter().for_each(|known| known.lock().keys.iter_mut().for_each(Key::forget));
    }
}

impl Verdict {
    fn add(&mut self, key: &Key, reply: &Value, owner: usize) -> Result<(), String> {
        let (acknowledged, unknown) = key.counts();
        self.acknowledged += acknowledged;
        self.unknown += unknown;
        let found = match (key.shape, reply) {
            (Shape::List, Value::Array(items)) => {
                let numbers: Option<Vec<usize>> = items.iter().map(|item| item.text().parse().ok()).collect();
                key.judge_list(&numbers.ok_or_else(|| format!("{}: {reply:?}", key.name))?)
            }
            (Shape::Counter, Value::Null(_)) => key.judge_counter(0),
            (Shape::Counter, Value::Bulk(_)) => key.judge_counter(reply.text().parse().unwrap_or(-1)),
            _ => return Err(format!("{}: {reply:?}", key.name)),
        };
        let Found { lost, wrong, late } = found;
        self.late += late;
        let step = key.first_step_back().map_or_else(String::new, |(number, reply, before)| {
            format!("; the reply to write {number} was {reply}, after {before}")
        });
        if !lost.is_empty() {
            self.lost.push((format!("{} (slot {}, at node {owner}{step})", key.name, key.slot), key.slot, lost));
        }
        if !wrong.is_empty() {
            let some = &wrong[..wrong.len().min(3)];
            let found = format!(
                "{} (slot {}, at node {owner}{step}): {} writes, {some:?} …; {}",
                key.name,
                key.slot,
                wrong.len(),
                some.iter().map(|(number, _)| key.story(*number)).collect::<Vec<_>>().join("; ")
            );
            self.wrong.push((found, key.slot));
        }
        Ok(())
    }
}

impl Drop for Writers {
    fn drop(&mut self) {
        self.shared.ends.store(true, Relaxed);
        self.shared.rests.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            // It has panicked, which is told already.
            let _ = thread.join();
        }
    }
}

fn keys_of(writer: usize) -> Vec<Key> {
    let of_tag = |tag: usize| {
        let name = move |rest: &str| format!("{{w{writer}:{tag}}}:{rest}");
        [("one", Shape::List), ("two", Shape::List), ("count", Shape::Counter)]
            .map(|(rest, shape)| Key::new(name(rest), shape))
    };
    (0..TAGS).flat_map(of_tag).collect()
}

fn command(key: &Key, number: usize) -> Argv {
    match key.shape {
        Shape::List => argv!["RPUSH", &key.name, number.to_string()],
        Shape::Counter => argv!["INCR", &key.name],
    }
}

/// A write that has not been executed.
#[derive(Clone, Copy)]
struct Pending {
    key: usize,
    number: usize,
    /// The node that its client was told to ask.
    ask: Option<usize>,
}

/// What became of a write that was to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    NotSent,
    Unknown,
    Acknowledged(i64),
    Moved(usize),
    Ask(usize),
    Later,
    /// Refused, and not to be sent again: a later one was executed.
    Overtaken,
}

impl Outcome {
    fn is_refused(self) -> bool {
        matches!(self, Self::Moved(_) | Self::Ask(_) | Self::Later)
    }

    /// What was executed may be lost.
    fn forget(&mut self) {
        if matches!(self, Self::Acknowledged(_)) {
            *self = Self::Unknown;
        }
    }
}

/// One client.
struct Writer<'a> {
    shared: &'a Shared,
    conns: Conns,
    routes: HashMap<u16, usize>,
    rng: Rng,
}

impl<'a> Writer<'a> {
    fn new(shared: &'a Shared, writer: usize) -> Self {
        let rng = Rng::new(shared.seed.wrapping_mul(31).wrapping_add(writer as u64));
        Self { shared, conns: Conns::new(REPLY_TIMEOUT), routes: HashMap::new(), rng }
    }

    fn run(mut self, known: &Mutex<Known>) {
        while !self.shared.ends.load(Relaxed) {
            std::thread::sleep(REST);
            if !self.shared.rests.load(Relaxed) {
                self.pipeline(&mut known.lock());
            }
        }
    }

    /// Writes some to some keys, until all are executed, given up, or of unknown fate.
    fn pipeline(&mut self, known: &mut Known) {
        let mut pending = Vec::new();
        for _ in 0..TAGS_AT_ONCE {
            let tag = self.rng.below(TAGS);
            for key in 3 * tag..3 * tag + 3 {
                for _ in 0..self.rng.between(1, WRITES_AT_ONCE) {
                    pending.push(Pending { key, number: known.keys[key].issue(), ask: None });
                }
            }
        }
        for nth in 0..TRIES {
            if nth > 0 {
                std::thread::sleep(if nth == 1 { Duration::ZERO } else { RETRY_AFTER });
            }
            pending = self.send(known, pending);
            if pending.is_empty() {
                return;
            }
        }
        pending.iter().for_each(|write| known.keys[write.key].note(write.number, Fate::Refused));
    }

    /// Sends writes, those to one node at once; returns those that were not executed, in their order.
    fn send(&mut self, known: &mut Known, writes: Vec<Pending>) -> Vec<Pending> {
        let mut by_node: Vec<Vec<usize>> = vec![Vec::new(); NODES];
        for (at, write) in writes.iter().enumerate() {
            let slot = known.keys[write.key].slot;
            let node = write.ask.unwrap_or_else(|| *self.routes.entry(slot).or_insert_with(|| self.rng.below(NODES)));
            by_node[node].push(at);
        }
        let mut outcomes: Vec<Outcome> = vec![Outcome::NotSent; writes.len()];
        let mut sent = Vec::new();
        for (node, mine) in by_node.iter().enumerate().filter(|(_, mine)| !mine.is_empty()) {
            let bytes = self.bytes(known, node, mine.iter().map(|at| &writes[*at]));
            let result = self.conns.to(node, &self.shared.facts).map(|conn| conn.send(&bytes));
            if result.is_some() {
                mine.iter().for_each(|at| outcomes[*at] = Outcome::Unknown);
            }
            match result {
                Some(Ok(())) => sent.push(node),
                _ => self.give_up(node),
            }
        }
        for node in sent {
            let mine = &by_node[node];
            let asks: Vec<bool> = mine.iter().map(|at| writes[*at].ask.is_some()).collect();
            let read = self.read(known, node, &asks);
            if read.is_err() {
                self.give_up(node);
            }
            let (Ok(read) | Err(read)) = read;
            mine.iter().zip(read).for_each(|(at, outcome)| outcomes[*at] = outcome);
            for at in mine {
                if outcomes[*at].is_refused() {
                    let (key, text) = (&mut known.keys[writes[*at].key], format!("{:?} by {node}", outcomes[*at]));
                    key.note_refusal(writes[*at].number, text);
                }
                if let Outcome::Moved(to) = outcomes[*at] {
                    self.routes.insert(known.keys[writes[*at].key].slot, to);
                }
            }
            self.find_overtaken(known, node, &writes, mine, &mut outcomes);
        }
        again(known, writes, &outcomes)
    }

    fn bytes<'w>(&self, known: &Known, node: usize, writes: impl Iterator<Item = &'w Pending>) -> Vec<u8> {
        let mut bytes = Vec::new();
        for write in writes {
            if write.ask.is_some() {
                argv!["ASKING"].encode(&mut bytes);
            }
            command(&known.keys[write.key], write.number).encode(&mut bytes);
        }
        if self.uses_wait(node) {
            argv!["WAIT", self.shared.replicas.to_string(), WAIT_MS.to_string()].encode(&mut bytes);
        }
        bytes
    }

    /// Reads the replies to writes; `Err`: so many as came, and the connection is of no use any more.
    fn read(&mut self, known: &mut Known, node: usize, asks: &[bool]) -> Result<Vec<Outcome>, Vec<Outcome>> {
        let (uses_wait, facts) = (self.uses_wait(node), &*self.shared.facts);
        let mut outcomes = Vec::new();
        let Some(conn) = self.conns.to(node, facts) else { return Err(outcomes) };
        for asks in asks {
            if *asks && conn.read_reply().is_err() {
                return Err(outcomes);
            }
            let Ok(reply) = conn.read_reply() else { break };
            outcomes.push(match Said::read(&reply, facts) {
                Said::Done(number) => Outcome::Acknowledged(number),
                Said::Moved(to) => Outcome::Moved(to),
                Said::Ask(whom) => Outcome::Ask(whom),
                Said::Later => Outcome::Later,
                Said::Unknown => Outcome::Unknown,
                Said::Strange(text) => {
                    known.note_strange(format!("node {node}: {text}"));
                    Outcome::Unknown
                }
            });
            if !uses_wait && matches!(outcomes.last(), Some(Outcome::Acknowledged(_))) {
                self.shared.acknowledged(node);
            }
        }
        let mut is_whole = outcomes.len() == asks.len();
        if uses_wait {
            let waited = is_whole.then(|| conn.read_reply().ok()).flatten();
            is_whole = waited.is_some();
            let has = waited.map(|reply| Said::read(&reply, facts));
            if matches!(has, Some(Said::Done(replicas)) if replicas >= i64::from(self.shared.replicas)) {
                self.shared.acknowledged(node);
            } else {
                outcomes.iter_mut().for_each(Outcome::forget);
            }
        }
        if is_whole { Ok(outcomes) } else { Err(outcomes) }
    }

    /// Looks for writes that were executed though one to the same key that had been sent before them was not. A client that
    /// sends in order again what was not executed must be able to keep the order, and so Onrush refuses both.
    fn find_overtaken(
        &self,
        known: &mut Known,
        node: usize,
        writes: &[Pending],
        mine: &[usize],
        outcomes: &mut [Outcome],
    ) {
        let mut executed = HashSet::new();
        for at in mine.iter().rev() {
            let key = writes[*at].key;
            if matches!(outcomes[*at], Outcome::Acknowledged(_)) {
                executed.insert(key);
            }
            if !outcomes[*at].is_refused() || !executed.contains(&key) {
                continue;
            }
            if self.shared.facts.waits_itself(node) {
                let Key { name, slot, .. } = &known.keys[key];
                let (number, said) = (writes[*at].number, outcomes[*at]);
                let text = format!("{name}: node {node} said {said:?} to write {number}, executed one behind");
                known.overtaken.push((text, *slot));
            }
            outcomes[*at] = Outcome::Overtaken;
        }
    }

    fn uses_wait(&self, node: usize) -> bool {
        self.shared.replicas > 0 && !self.shared.facts.waits_itself(node)
    }

    fn give_up(&mut self, node: usize) {
        self.conns.close(node);
        self.routes.retain(|_, at| *at != node);
    }
}

/// Notes what became of writes; returns those that are sent again, in their order. Those to one key go the same way, which is
/// that of the last one: its reply is the newest.
fn again(known: &mut Known, writes: Vec<Pending>, outcomes: &[Outcome]) -> Vec<Pending> {
    let (mut pending, mut ways) = (Vec::new(), HashMap::new());
    for (write, outcome) in writes.into_iter().zip(outcomes) {
        let fate = match *outcome {
            Outcome::Acknowledged(reply) => Fate::Acknowledged(reply),
            Outcome::Unknown => Fate::Unknown,
            _ => Fate::Refused,
        };
        known.keys[write.key].note(write.number, fate);
        let ask = if let Outcome::Ask(whom) = *outcome { Some(whom) } else { None };
        if *outcome == Outcome::NotSent || outcome.is_refused() {
            ways.insert(write.key, ask);
            pending.push(write);
        }
    }
    pending.iter_mut().for_each(|write| write.ask = ways[&write.key]);
    pending
}

/// Writes to one node over its Unix socket: what it acknowledges while it is cut off must not be lost.
fn write_stranded(shared: &Shared, nth: usize, known: &Mutex<Known>) {
    let goes_on = || !shared.ends.load(Relaxed) && !shared.rests.load(Relaxed);
    let mut conn: Option<Conn> = None;
    while goes_on() {
        std::thread::sleep(REST);
        let Some(open) = conn.as_mut() else {
            conn = shared.facts.places[nth].connect_beside().ok();
            if let Some(open) = &mut conn {
                open.set_timeout(REPLY_TIMEOUT);
            }
            continue;
        };
        let mut known = known.lock();
        if !goes_on() {
            return;
        }
        let (mut bytes, mut sent) = (Vec::new(), Vec::new());
        for key in 0..known.keys.len() {
            for _ in 0..WRITES_AT_ONCE {
                let number = known.keys[key].issue();
                command(&known.keys[key], number).encode(&mut bytes);
                sent.push((key, number));
            }
        }
        let uses_wait = shared.replicas > 0 && !shared.facts.waits_itself(nth);
        if uses_wait {
            argv!["WAIT", shared.replicas.to_string(), WAIT_MS.to_string()].encode(&mut bytes);
        }
        let mut replies = Vec::new();
        if open.send(&bytes).is_ok() {
            let wanted = sent.len() + usize::from(uses_wait);
            replies
                .extend((0..wanted).map_while(|_| open.read_reply().ok()).map(|raw| Said::read(&raw, &shared.facts)));
        }
        let is_broken = replies.len() < sent.len() + usize::from(uses_wait);
        let has_replicas = |said: &Said| matches!(said, Said::Done(has) if *has >= i64::from(shared.replicas));
        let is_acknowledged = !uses_wait || !is_broken && replies.last().is_some_and(has_replicas);
        for ((key, number), said) in sent.into_iter().zip(replies) {
            match said {
                Said::Done(reply) if is_acknowledged => known.keys[key].note(number, Fate::Acknowledged(reply)),
                Said::Done(_) | Said::Unknown => {}
                Said::Moved(_) | Said::Ask(_) | Said::Later => known.keys[key].note(number, Fate::Refused),
                Said::Strange(text) => known.note_strange(format!("node {nth}, cut off: {text}")),
            }
        }
        if is_broken {
            conn = None;
        }
    }
}

impl Known {
    fn note_strange(&mut self, text: String) {
        if self.strange.len() < STRANGE_MAX {
            self.strange.push(text);
        }
    }
}

impl Shared {
    fn acknowledged(&self, node: usize) {
        // A write of the first millisecond has an age, too.
        let now = self.started.elapsed().as_millis() as u64 + 1;
        self.last_at[node].store(now, Relaxed);
        // It is another's if it is set.
        let _ = self.first_at[node].compare_exchange(0, now, Relaxed, Relaxed);
    }
}
