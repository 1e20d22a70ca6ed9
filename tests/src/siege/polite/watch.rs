//! Clients that do little but need quick replies: single commands with a pause between them, and fresh connections.
//! Hostile clients must not lengthen their waits.

use std::time::Duration;

use crate::argv;
use crate::argv::Argv;
use crate::resp::Value;
use crate::rng::Rng;
use crate::siege::report::Checked;
use crate::siege::scene::{Scenario, Scene};
use crate::siege::talk::Talk;

const NAME: &str = "watch";
/// Commands after which a connection is given up for a fresh one; a new one may land on another worker.
const LIFE: usize = 500;

/// Three clients, so that most of the time every worker has one.
pub struct Watch;

impl Scenario for Watch {
    fn name(&self) -> &'static str {
        NAME
    }

    fn parts(&self) -> usize {
        3
    }

    fn play(&self, scene: &Scene<'_>, part: usize, rng: &mut Rng) -> Checked<()> {
        while scene.polite_stay() {
            let mut talk = Talk::open(scene, NAME)?;
            let key = format!("watch:{part}");
            let mut last = count(&mut talk, &argv!["INCRBY", key, "0"])?;
            for _ in 0..LIFE {
                match rng.below(3) {
                    0 => talk.expect(&argv!["PING"], &Value::Status(b"PONG".to_vec()))?,
                    1 => {
                        let found = talk.call(&argv!["GET", key])?.text();
                        talk.check(
                            found == last.to_string(),
                            || "GET of what INCR said".into(),
                            || format!("{found}, not {last}"),
                        )?;
                    }
                    _ => {
                        last += 1;
                        let found = count(&mut talk, &argv!["INCR", key])?;
                        talk.check(found == last, || "one more by INCR".into(), || format!("{found}, not {last}"))?;
                    }
                }
                std::thread::sleep(Duration::from_millis(1));
                if !scene.polite_stay() {
                    break;
                }
            }
            scene.report.count("single commands", LIFE as u64);
        }
        Ok(())
    }
}

fn count(talk: &mut Talk<'_, '_>, command: &Argv) -> Checked<i64> {
    match talk.call(command)? {
        Value::Int(count) => Ok(count),
        other => Err(talk.fault("a number".into(), other.to_string())),
    }
}
