//! Fields and keys that expire exist before their time, not after it, and leave nothing behind.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::argv;
use crate::argv::Argv;
use crate::resp::Value;
use crate::rng::Rng;
use crate::siege::report::Checked;
use crate::siege::scene::{Scenario, Scene};
use crate::siege::talk::Talk;

const NAME: &str = "fields";
const TTL: Duration = Duration::from_millis(150);
/// For clocks that are read in whole milliseconds.
const GRACE: Duration = Duration::from_millis(3);
/// Keys in use at a time.
const KEYS: u64 = 500;

/// Hashes with fields that expire, and strings that do.
pub struct Fields;

/// Fields that were given a time.
struct Made {
    number: u64,
    sent: Instant,
    answered: Instant,
}

impl Scenario for Fields {
    fn name(&self) -> &'static str {
        NAME
    }

    fn play(&self, scene: &Scene<'_>, _part: usize, rng: &mut Rng) -> Checked<()> {
        let mut talk = Talk::open(scene, NAME)?;
        let mut alive: VecDeque<Made> = VecDeque::new();
        let mut number = 0;
        while scene.polite_stay() {
            alive.push_back(make(scene, &mut talk, number)?);
            number += 1;
            let index = rng.below(alive.len());
            look(scene, &mut talk, &alive[index])?;
            if alive.front().is_some_and(|made| made.answered.elapsed() > TTL * 2) {
                alive.pop_front();
            }
            scene.report.count("looks at expiring fields", 1);
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    fn settle(&self, scene: &Scene<'_>) -> Checked<()> {
        let mut talk = Talk::open(scene, NAME)?;
        let deadline = Instant::now() + Duration::from_secs(5);
        loop {
            let all = |prefix: &str| (0..KEYS).map(move |i| format!("{prefix}:{i}").into_bytes()).collect::<Vec<_>>();
            let mut exists = argv!["EXISTS"];
            exists.0.extend(all("gone").into_iter().chain(all("goes")));
            let left = talk.call(&exists)?;
            if left == Value::Int(0) {
                return Ok(());
            }
            let in_time = Instant::now() < deadline;
            talk.check(in_time, || "no key left whose time is over".into(), || left.to_string())?;
        }
    }
}

fn make(scene: &Scene<'_>, talk: &mut Talk<'_, '_>, number: u64) -> Checked<Made> {
    let (key, value) = (number % KEYS, number.to_string());
    let (hash, mixed, string) = (format!("gone:{key}"), format!("kept:{key}"), format!("goes:{key}"));
    let ttl = TTL.as_millis().to_string();
    let mut batch = vec![
        argv!["SET", string, value, "PX", ttl],
        argv!["DEL", hash],
        argv!["HSET", hash, "brief", value],
        argv!["HSET", mixed, "brief", value, "lasting", value],
    ];
    if scene.has_field_ttl {
        batch.push(argv!["HPEXPIRE", hash, ttl, "FIELDS", "1", "brief"]);
        batch.push(argv!["HPEXPIRE", mixed, ttl, "FIELDS", "1", "brief"]);
    } else {
        batch.push(argv!["PEXPIRE", hash, ttl]);
    }
    let sent = Instant::now();
    let values = talk.batch(&batch)?;
    let one = |value: &Value| *value == Value::Int(1) || *value == Value::Array(vec![Value::Int(1)]);
    talk.check(values[4..].iter().all(one), || "a time for a field".into(), || values[4].to_string())?;
    Ok(Made { number, sent, answered: Instant::now() })
}

fn look(scene: &Scene<'_>, talk: &mut Talk<'_, '_>, made: &Made) -> Checked<()> {
    let (key, value) = (made.number % KEYS, Value::Bulk(made.number.to_string().into_bytes()));
    let get = |prefix: &str, field: &str| argv!["HGET", format!("{prefix}:{key}"), field];
    let batch: [Argv; 4] =
        [argv!["GET", format!("goes:{key}")], get("gone", "brief"), get("kept", "brief"), get("kept", "lasting")];
    let asked = Instant::now();
    let values = talk.batch(&batch)?;
    let alive_for_sure = made.sent.elapsed() + GRACE < TTL;
    let gone_for_sure = asked.duration_since(made.answered) > TTL + GRACE;
    for (index, found) in values.iter().enumerate() {
        let may_go = index < 2 || index == 2 && scene.has_field_ttl;
        let holds = match found {
            Value::Null(_) => may_go && !alive_for_sure,
            found => *found == value && !(may_go && gone_for_sure),
        };
        talk.check(
            holds,
            || "fields alive before and gone after their time".into(),
            || {
                let (since, asked) = (made.sent.elapsed(), asked.duration_since(made.answered));
                format!("{found} to {} at most {since:?} and at least {asked:?} after", batch[index])
            },
        )?;
    }
    Ok(())
}
