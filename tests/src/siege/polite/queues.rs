//! Queues: elements that a producer pushed come out once and in order, whatever happens to other consumers.
//!
//! `queue:taken` is emptied by two polite consumers with BRPOP. `queue:moved` is emptied with BLMOVE by a polite consumer
//! and by hostile ones that vanish and are killed in the middle of it (`queue:foe`): since a move is atomic, every item is in one of the
//! three lists in the end.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::argv;
use crate::argv::Argv;
use crate::resp::Value;
use crate::rng::Rng;
use crate::siege::report::Checked;
use crate::siege::scene::{Scenario, Scene};
use crate::siege::talk::Talk;

/// Items that were acknowledged and that came out.
#[derive(Default)]
pub struct Queues {
    pushed: AtomicU64,
    taken: Mutex<Vec<u64>>,
}

const NAME: &str = "queues";

impl Scenario for Queues {
    fn name(&self) -> &'static str {
        NAME
    }

    fn parts(&self) -> usize {
        4
    }

    fn play(&self, scene: &Scene<'_>, part: usize, rng: &mut Rng) -> Checked<()> {
        let mut talk = Talk::open(scene, NAME)?;
        match part {
            0 => self.produce(scene, &mut talk, rng),
            1 | 2 => self.consume(scene, &mut talk),
            _ => moving(scene, &mut talk),
        }
    }

    fn settle(&self, scene: &Scene<'_>) -> Checked<()> {
        let mut talk = Talk::open(scene, NAME)?;
        let mut taken = self.taken.lock().expect("nobody panics with it").clone();
        taken.extend(self.items(&mut talk, "queue:taken")?);
        self.complete(&talk, "queue:taken", taken)?;
        let mut moved = Vec::new();
        for list in ["queue:moved", "queue:done", "queue:foe"] {
            moved.extend(self.items(&mut talk, list)?);
        }
        self.complete(&talk, "queue:moved", moved)
    }
}

impl Queues {
    fn produce(&self, scene: &Scene<'_>, talk: &mut Talk<'_, '_>, rng: &mut Rng) -> Checked<()> {
        while scene.polite_stay() {
            let first = self.pushed.load(Relaxed);
            let count = 1 + rng.below(4) as u64;
            let push = |item: u64, queue: &str| argv!["LPUSH", queue, item.to_string()];
            let both = |item| [push(item, "queue:taken"), push(item, "queue:moved")];
            let commands: Vec<Argv> = (first..first + count).flat_map(both).collect();
            for value in talk.batch(&commands)? {
                talk.check(matches!(value, Value::Int(1..)), || "a length from LPUSH".into(), || value.to_string())?;
            }
            self.pushed.store(first + count, Relaxed);
            scene.report.count("items queued", 2 * count);
            std::thread::sleep(Duration::from_micros(rng.below(3000) as u64));
        }
        Ok(())
    }

    fn consume(&self, scene: &Scene<'_>, talk: &mut Talk<'_, '_>) -> Checked<()> {
        let mut last = None;
        loop {
            let popped = talk.linger(&argv!["BRPOP", "queue:taken", "0.3"])?;
            let Some([_, item]) = popped.items() else {
                let is_null = matches!(popped, Value::Null(_));
                talk.check(is_null, || "an item or null from BRPOP".into(), || popped.to_string())?;
                if scene.polite_stay() { continue } else { return Ok(()) }
            };
            let item = number(talk, item)?;
            talk.check(
                Some(item) > last,
                || "items in the order of pushing".into(),
                || format!("{item} after {last:?}"),
            )?;
            last = Some(item);
            self.taken.lock().expect("nobody panics with it").push(item);
        }
    }

    fn items(&self, talk: &mut Talk<'_, '_>, list: &str) -> Checked<Vec<u64>> {
        let all = talk.linger(&argv!["LRANGE", list, "0", "-1"])?;
        let items = all.items().ok_or_else(|| talk.fault("a list".into(), all.to_string()))?;
        items.iter().map(|item| number(talk, item)).collect()
    }

    fn complete(&self, talk: &Talk<'_, '_>, queue: &str, mut found: Vec<u64>) -> Checked<()> {
        found.sort_unstable();
        let pushed = self.pushed.load(Relaxed);
        let twice = found.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0]);
        talk.check(twice.is_none(), || format!("no item of {queue} twice"), || format!("{twice:?}"))?;
        let lost: Vec<u64> = (0..pushed).filter(|item| found.binary_search(item).is_err()).collect();
        let some = &lost[..lost.len().min(20)];
        talk.check(
            lost.is_empty(),
            || format!("no item of {queue} lost"),
            || format!("{} of {pushed} lost: {some:?}", lost.len()),
        )?;
        talk.check(
            found.len() as u64 == pushed,
            || format!("no item of {queue} from nowhere"),
            || format!("{} for {pushed}", found.len()),
        )
    }
}

fn moving(scene: &Scene<'_>, talk: &mut Talk<'_, '_>) -> Checked<()> {
    loop {
        let moved = talk.linger(&argv!["BLMOVE", "queue:moved", "queue:done", "RIGHT", "LEFT", "0.3"])?;
        match moved {
            Value::Null(_) if !scene.polite_stay() => return Ok(()),
            Value::Null(_) => {}
            item => drop(number(talk, &item)?),
        }
    }
}

fn number(talk: &Talk<'_, '_>, item: &Value) -> Checked<u64> {
    item.text().parse().map_err(|_| talk.fault("an item that was pushed".into(), item.to_string()))
}
