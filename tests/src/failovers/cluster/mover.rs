//! Moves slots from primary to primary all the while, as the tools do: SETSLOT, MIGRATE, SETSLOT. What a fault breaks off is
//! finished later.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::facts::{Conns, Facts, NODES, SHARDS};
use super::nodes::View;
use crate::failovers::node::wait;
use crate::resp::Value;
use crate::rng::Rng;

/// The time between two moves.
const REST: Duration = Duration::from_millis(10);

/// When a move that was broken off is looked at again.
const AGAIN_AFTER: Duration = Duration::from_millis(700);

/// How long a reply may take, and one to MIGRATE for the node that sends it.
const REPLY_TIMEOUT: Duration = Duration::from_millis(2_500);
const MIGRATE_TIMEOUT_MS: u32 = 1_000;

/// A move as it went.
#[derive(Clone, Debug)]
pub struct Move {
    /// The slot.
    pub slot: u16,
    /// The nodes that it went from and to.
    pub between: (usize, usize),
    /// When it began and ended.
    pub time: (Instant, Instant),
    /// The replies, one after the other.
    pub steps: String,
}

impl Move {
    /// As it is told; times are those since `fault`.
    pub fn text(&self, fault: Instant) -> String {
        let Self { slot, between: (from, to), time, steps } = self;
        let after = |at: Instant| {
            let (after, before) = (at.saturating_duration_since(fault), fault.saturating_duration_since(at));
            after.as_millis() as i64 - before.as_millis() as i64
        };
        format!("  slot {slot} {from} -> {to}, {} to {} ms after the fault: {steps}", after(time.0), after(time.1))
    }
}

struct Shared {
    rests: AtomicBool,
    ends: AtomicBool,
    facts: Arc<Facts>,
    moves: Mutex<Vec<Move>>,
    moved: AtomicU64,
    /// The mover is at it.
    works: Mutex<()>,
    /// Slots whose move was broken off, and when to look at them.
    broken: Mutex<Vec<(u16, Instant)>>,
}

/// See the module's text.
pub struct Mover {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Mover {
    /// Starts it; it rests until [`Mover::go_on`].
    pub fn start(facts: &Arc<Facts>, slots: Vec<u16>, seed: u64) -> Self {
        let shared = Arc::new(Shared {
            rests: AtomicBool::new(true),
            ends: AtomicBool::new(false),
            facts: Arc::clone(facts),
            moves: Mutex::default(),
            moved: AtomicU64::new(0),
            works: Mutex::default(),
            broken: Mutex::default(),
        });
        let mine = Arc::clone(&shared);
        let thread = std::thread::spawn(move || run(&mine, &slots, &mut Rng::new(seed)));
        Self { shared, thread: Some(thread) }
    }

    /// It moves slots.
    pub fn go_on(&self) {
        self.shared.rests.store(false, Relaxed);
    }

    /// It stops to move slots, and finishes what is half done.
    ///
    /// # Errors
    /// It cannot.
    pub fn rest(&self, at_most: Duration) -> Result<(), String> {
        self.shared.rests.store(true, Relaxed);
        let _still =
            wait("the mover rests", at_most, || self.shared.works.try_lock().ok_or_else(|| "it moves".to_owned()))?;
        let mut conns = Conns::new(REPLY_TIMEOUT);
        let facts = &self.shared.facts;
        wait("half-done moves are finished", at_most, || {
            let mut open: Vec<u16> = self.shared.broken.lock().iter().map(|(slot, _)| *slot).collect();
            for nth in 0..NODES {
                let view = view(&mut conns, facts, nth)?;
                open.extend(view.under_way.iter().filter_map(|word| word.split('-').next()?.parse::<u16>().ok()));
            }
            open.sort_unstable();
            open.dedup();
            let mut result = Ok(());
            for slot in open {
                match finish(&self.shared, &mut conns, slot) {
                    Ok(()) => self.shared.broken.lock().retain(|(other, _)| *other != slot),
                    Err(why) => result = Err(why),
                }
            }
            result
        })
    }

    /// Moves slots now.
    ///
    /// # Errors
    /// One cannot be moved.
    pub fn gather(&self, slots: &[u16], between: (usize, usize)) -> Result<(), String> {
        let _works = self.shared.works.lock();
        let mut conns = Conns::new(REPLY_TIMEOUT);
        slots.iter().try_for_each(|slot| move_slot(&self.shared, &mut conns, *slot, between))
    }

    /// How many slots it has moved.
    pub fn moved(&self) -> u64 {
        self.shared.moved.load(Relaxed)
    }

    /// The moves since this was asked last.
    pub fn take_moves(&self) -> Vec<Move> {
        std::mem::take(&mut self.shared.moves.lock())
    }
}

impl Drop for Mover {
    fn drop(&mut self) {
        self.shared.ends.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            // It has panicked, which is told already.
            let _ = thread.join();
        }
    }
}

fn run(shared: &Shared, slots: &[u16], rng: &mut Rng) {
    let mut conns = Conns::new(REPLY_TIMEOUT);
    while !shared.ends.load(Relaxed) {
        std::thread::sleep(REST);
        let _works = shared.works.lock();
        if shared.rests.load(Relaxed) {
            continue;
        }
        let due = {
            let mut broken = shared.broken.lock();
            let at = broken.iter().position(|(_, when)| *when <= Instant::now());
            at.map(|at| broken.swap_remove(at).0)
        };
        let slot = due.unwrap_or_else(|| slots[rng.below(slots.len())]);
        if due.is_none() && shared.broken.lock().iter().any(|(other, _)| *other == slot) {
            continue;
        }
        let result = match due {
            Some(slot) => finish(shared, &mut conns, slot),
            None => begin(shared, &mut conns, slot, rng),
        };
        if result.is_err() {
            shared.broken.lock().push((slot, Instant::now() + AGAIN_AFTER));
        }
    }
}

fn view(conns: &mut Conns, facts: &Facts, nth: usize) -> Result<View, String> {
    Ok(View::read(&conns.call(nth, facts, "CLUSTER NODES")?.text(), facts))
}

/// Moves a slot from where it is, by the word of any node, to another primary.
fn begin(shared: &Shared, conns: &mut Conns, slot: u16, rng: &mut Rng) -> Result<(), String> {
    let facts = &shared.facts;
    let Ok(view) = view(conns, facts, rng.below(NODES)) else { return Ok(()) };
    let Some(from) = view.owners[usize::from(slot)] else { return Ok(()) };
    let others: Vec<usize> = view.primaries.iter().copied().filter(|nth| *nth != from).collect();
    if others.is_empty() {
        return Ok(());
    }
    move_slot(shared, conns, slot, (from, others[rng.below(others.len())]))
}

fn move_slot(shared: &Shared, conns: &mut Conns, slot: u16, between: (usize, usize)) -> Result<(), String> {
    let (began, mut steps) = (Instant::now(), String::new());
    let result = try_move(shared, conns, slot, between, &mut steps);
    match &result {
        Ok(()) => _ = shared.moved.fetch_add(1, Relaxed),
        Err(why) => _ = write!(steps, "broken off: {why}"),
    }
    shared.moves.lock().push(Move { slot, between, time: (began, Instant::now()), steps });
    result
}

fn try_move(
    shared: &Shared,
    conns: &mut Conns,
    slot: u16,
    (from, to): (usize, usize),
    steps: &mut String,
) -> Result<(), String> {
    let facts = &shared.facts;
    conns.ok(to, facts, &format!("CLUSTER SETSLOT {slot} IMPORTING {}", facts.ids[from]))?;
    steps.push_str("importing, ");
    conns.ok(from, facts, &format!("CLUSTER SETSLOT {slot} MIGRATING {}", facts.ids[to]))?;
    steps.push_str("migrating, ");
    loop {
        let keys = conns.call(from, facts, &format!("CLUSTER GETKEYSINSLOT {slot} 10"))?;
        let keys = keys.items().ok_or_else(|| keys.text())?;
        if keys.is_empty() {
            break;
        }
        let (keys, place) = (keys.iter().map(Value::text).collect::<Vec<_>>(), &facts.places[to]);
        let target = format!("{} {} \"\" 0 {MIGRATE_TIMEOUT_MS}", place.address, place.port);
        let said = conns.call(from, facts, &format!("MIGRATE {target} REPLACE KEYS {}", keys.join(" ")))?.text();
        if said != "OK" && said != "NOKEY" {
            return Err(format!("MIGRATE: {said}"));
        }
        let _ = write!(steps, "{} keys, ", keys.len());
    }
    // The new owner before the old one, so that there is always one.
    conns.ok(to, facts, &format!("CLUSTER SETSLOT {slot} NODE {}", facts.ids[to]))?;
    steps.push_str("at its target, ");
    conns.ok(from, facts, &format!("CLUSTER SETSLOT {slot} NODE {}", facts.ids[to]))?;
    steps.push_str("gone");
    Ok(())
}

/// Finishes a move: if another primary than the owner has keys of the slot, or is to get them, it gets the rest.
fn finish(shared: &Shared, conns: &mut Conns, slot: u16) -> Result<(), String> {
    let facts = &shared.facts;
    let mut primaries = Vec::new();
    for nth in 0..NODES {
        // Who is away has no say.
        let role = conns.call(nth, facts, "ROLE");
        if role.is_ok_and(|role| role.items().is_some_and(|role| role[0].text() == "master")) {
            primaries.push(nth);
        }
    }
    let mut views = Vec::new();
    for nth in &primaries {
        views.push((*nth, view(conns, facts, *nth)?));
    }
    if views.len() < SHARDS {
        return Err(format!("primaries {primaries:?}"));
    }
    let owners: Vec<Option<usize>> = views.iter().map(|(_, view)| view.owners[usize::from(slot)]).collect();
    let owner = owners[0].filter(|owner| primaries.contains(owner) && owners.iter().all(|other| *other == owners[0]));
    let Some(owner) = owner else {
        // A redis-server that takes a slot does not hear of another owner.
        for (nth, _) in views.iter().filter(|(_, view)| view.is_taking(slot)) {
            conns.ok(*nth, facts, &format!("CLUSTER SETSLOT {slot} STABLE"))?;
        }
        return Err(format!("slot {slot}: owners {owners:?}, primaries {primaries:?}"));
    };
    let gives_to = views.iter().filter(|(nth, _)| *nth == owner).find_map(|(_, view)| {
        view.under_way.iter().find_map(|word| facts.by_id(word.strip_prefix(&format!("{slot}->-"))?))
    });
    // The owner may be to give it to a node that has become its replica since.
    let target =
        gives_to.map(|nth| if primaries.contains(&nth) { nth } else { Facts::twin(nth) }).filter(|nth| *nth != owner);
    let mut holder = None;
    for nth in primaries.iter().filter(|nth| **nth != owner) {
        if matches!(conns.call(*nth, facts, &format!("CLUSTER COUNTKEYSINSLOT {slot}"))?, Value::Int(count) if count > 0)
        {
            holder = Some(*nth);
        }
    }
    match holder.or(target) {
        Some(target) => move_slot(shared, conns, slot, (owner, target)),
        None => primaries.iter().try_for_each(|nth| conns.ok(*nth, facts, &format!("CLUSTER SETSLOT {slot} STABLE"))),
    }
}
