//! Counters: each client has one, and knows which of its INCRs were acknowledged, and when.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use super::super::report::lock;
use super::super::scene::{Scene, Talk};
use super::{Step, is_refusal};
use crate::argv;
use crate::resp::Value;
use crate::rng::Rng;

/// Counters, and clients for them.
pub const COUNT: usize = 4;
/// The one whose client asks for durability with each INCR, in the same packet.
const DURABLE: usize = COUNT - 1;
/// Acknowledgements that are remembered with their time.
const REMEMBERED_MAX: usize = 100_000;

#[derive(Default)]
struct Counter {
    /// The greatest value that may be there.
    sent: i64,
    /// The greatest one that was acknowledged.
    acknowledged: i64,
    /// When which value was acknowledged, of late.
    times: VecDeque<(Instant, i64)>,
    /// The value, if all replies have come.
    known: Option<i64>,
}

/// All counters.
pub struct Counters {
    all: Vec<Mutex<Counter>>,
    /// Whether one client asks for durability.
    has_durable: AtomicBool,
}

/// How much of what was acknowledged has to be there.
#[derive(Clone, Copy, Debug)]
pub enum Kept {
    /// All.
    All,
    /// All but what was acknowledged in so long a time up to the last acknowledgement: a server that cannot write its log
    /// holds its replies back. Where durability was asked for, all.
    ButLast(Duration),
    /// Nothing.
    Nothing,
}

impl Counters {
    /// Counters at zero.
    pub(super) fn new() -> Counters {
        Counters { all: (0..COUNT).map(|_| Mutex::default()).collect(), has_durable: AtomicBool::new(false) }
    }

    /// Says whether one client asks for durability.
    pub(super) fn set_durable(&self, has_durable: bool) {
        self.has_durable.store(has_durable, SeqCst);
    }

    fn is_durable(&self, index: usize) -> bool {
        index == DURABLE && self.has_durable.load(SeqCst)
    }

    /// The client of a counter.
    pub(super) fn client<'a>(&'a self, scene: &'a Scene<'a>, index: usize, mut rng: Rng) -> Step<'a> {
        Box::new(move |talk| {
            let len = if rng.percent(20) { 1 + rng.below(300) } else { 1 + rng.below(16) };
            match self.is_durable(index) {
                true => self.durably(scene, talk),
                false => self.pipelined(scene, talk, index, len),
            }
        })
    }

    fn pipelined(&self, scene: &Scene<'_>, talk: &mut Talk<'_, '_>, index: usize, len: usize) -> bool {
        let commands = vec![argv!["INCR", format!("counter:{index}")]; len];
        lock(&self.all[index]).sent += len as i64;
        let values = talk.exchange(&commands);
        let mut counter = lock(&self.all[index]);
        values.iter().for_each(|value| counter.take(scene, value));
        if values.len() < len {
            counter.known = None;
        }
        scene.report.count("acknowledged INCRs", values.len() as u64);
        values.len() == len
    }

    fn durably(&self, scene: &Scene<'_>, talk: &mut Talk<'_, '_>) -> bool {
        let key = format!("counter:{DURABLE}");
        let commands =
            [argv!["CLIENT", "DURABILITY", "always"], argv!["INCR", key], argv!["CLIENT", "DURABILITY", "no"]];
        lock(&self.all[DURABLE]).sent += 1;
        let values = talk.exchange(&commands);
        let mut counter = lock(&self.all[DURABLE]);
        match values.get(1) {
            // Refused while there is no log; then nothing is promised either.
            Some(_) if values[0].is_error() && !is_refusal(&values[0]) => counter.known = None,
            Some(value) => counter.take(scene, value),
            None => counter.known = None,
        }
        values.len() == commands.len()
    }

    /// Compares the counters with what was acknowledged, and goes on from there.
    pub fn settle(&self, scene: &Scene<'_>, found: &[Value], kept: Kept) {
        for (index, (counter, value)) in self.all.iter().zip(found).enumerate() {
            let mut counter = lock(counter);
            let value = value.text().parse().unwrap_or(0);
            let least = match kept {
                Kept::Nothing => 0,
                Kept::All => counter.acknowledged,
                Kept::ButLast(_) if self.is_durable(index) => counter.acknowledged,
                Kept::ButLast(time) => counter.acknowledged_but_last(time),
            };
            let got = || {
                format!(
                    "counter {index} is {value}; acknowledged {} (to be kept: {least}), sent {}; {kept:?}",
                    counter.acknowledged, counter.sent
                )
            };
            if value < least {
                scene.fail("acknowledged writes are there after a start", got());
            }
            if value > counter.sent {
                scene.fail("nothing is done twice", got());
            }
            *counter = Counter { sent: value, acknowledged: value, times: VecDeque::new(), known: None };
        }
    }

    /// Forgets what was acknowledged: somebody has removed it.
    pub fn forget(&self) {
        for counter in &self.all {
            let mut counter = lock(counter);
            counter.acknowledged = 0;
            counter.times.clear();
            counter.known = None;
        }
    }
}

impl Counter {
    fn take(&mut self, scene: &Scene<'_>, value: &Value) {
        let life = scene.life.load(SeqCst);
        match value {
            Value::Int(value) => {
                let fits = match self.known {
                    Some(known) => *value == known + 1,
                    None => *value > self.acknowledged && *value <= self.sent,
                };
                // Who gives a frozen server up leaves commands behind that are done later.
                if !fits && !scene.settings.evicts_all && !scene.lost.load(SeqCst) {
                    let (known, acknowledged, sent) = (self.known, self.acknowledged, self.sent);
                    let got =
                        format!("INCR gives {value} in life {life}; before {known:?}, {acknowledged}, sent {sent}");
                    scene.fail("the replies of a counter follow each other", got);
                }
                self.known = Some(*value);
                self.acknowledged = *value;
                self.times.push_back((Instant::now(), *value));
                if self.times.len() > REMEMBERED_MAX {
                    self.times.pop_front();
                }
            }
            refused if is_refusal(refused) => self.sent -= 1,
            other => scene.fail("a counter is counted or refused for a reason", format!("INCR: {other}")),
        }
    }

    /// The value acknowledged last but for so long a time.
    fn acknowledged_but_last(&self, time: Duration) -> i64 {
        let Some((end, _)) = self.times.back() else { return 0 };
        let before = self.times.iter().rev().find(|(at, _)| *at + time < *end);
        before.map_or(0, |(_, value)| *value)
    }
}
