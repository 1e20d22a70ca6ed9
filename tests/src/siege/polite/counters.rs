//! Counters: all acknowledged INCRs are executed, and no INCR is executed that was not sent.
//!
//! `count:*` belong to polite clients alone and must be exact. `counter:*` are also increased by hostile clients that never see
//! their replies, so their sum lies between what was acknowledged and what was sent.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::Duration;

use crate::argv;
use crate::argv::Argv;
use crate::resp::Value;
use crate::rng::Rng;
use crate::siege::report::Checked;
use crate::siege::scene::{Scenario, Scene};
use crate::siege::talk::Talk;

/// Keys of each kind.
pub const KEYS: usize = 8;
const NAME: &str = "counters";

/// Acknowledged increments.
#[derive(Default)]
pub struct Counters {
    own: [AtomicI64; KEYS],
    shared: AtomicI64,
}

impl Scenario for Counters {
    fn name(&self) -> &'static str {
        NAME
    }

    fn parts(&self) -> usize {
        2
    }

    fn play(&self, scene: &Scene<'_>, _part: usize, rng: &mut Rng) -> Checked<()> {
        let mut talk = Talk::open(scene, NAME)?;
        while scene.polite_stay() {
            let key = rng.below(KEYS);
            let own = argv!["INCR", format!("count:{key}")];
            let shared = argv!["INCR", format!("counter:{key}")];
            // Equal commands in a row, and mixed ones.
            let in_rows = rng.percent(50);
            let depth = 1 + rng.below(40);
            let choose = |i: usize| {
                if in_rows && i < depth || !in_rows && i.is_multiple_of(2) { own.clone() } else { shared.clone() }
            };
            let commands: Vec<Argv> = (0..2 * depth).map(choose).collect();
            for value in talk.batch(&commands)? {
                talk.check(matches!(value, Value::Int(1..)), || "a count from INCR".into(), || value.to_string())?;
            }
            self.own[key].fetch_add(depth as i64, Relaxed);
            self.shared.fetch_add(depth as i64, Relaxed);
            scene.report.count("increments", 2 * depth as u64);
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn settle(&self, scene: &Scene<'_>) -> Checked<()> {
        let mut talk = Talk::open(scene, NAME)?;
        let mut sum = 0;
        for (key, own) in self.own.iter().enumerate() {
            let (own, found) = (own.load(Relaxed), get(&mut talk, &format!("count:{key}"))?);
            talk.check(found == own, || "every acknowledged INCR once".into(), || format!("{found} for {own}"))?;
            sum += get(&mut talk, &format!("counter:{key}"))?;
        }
        let least = self.shared.load(Relaxed);
        let most = least + scene.foe_increments.load(Relaxed) as i64;
        talk.check(
            (least..=most).contains(&sum),
            || "a sum between acknowledged and sent INCRs".into(),
            || format!("{sum}, acknowledged {least}, sent {most}"),
        )
    }
}

fn get(talk: &mut Talk<'_, '_>, key: &str) -> Checked<i64> {
    match talk.call(&argv!["GET", key])? {
        Value::Null(_) => Ok(0),
        value => value.text().parse().map_err(|_| talk.fault("a number".into(), value.to_string())),
    }
}
