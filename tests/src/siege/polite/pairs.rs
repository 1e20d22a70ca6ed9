//! Commands on several keys are atomic for all readers: MSETNX and MSET with MGET, RENAME, SMOVE, COPY.

use std::time::Duration;

use crate::argv;
use crate::argv::Argv;
use crate::resp::Value;
use crate::rng::Rng;
use crate::siege::report::Checked;
use crate::siege::scene::{Scenario, Scene};
use crate::siege::talk::Talk;

const NAME: &str = "pairs";
const KEYS: usize = 8;

/// One writer, two readers.
pub struct Pairs;

impl Scenario for Pairs {
    fn name(&self) -> &'static str {
        NAME
    }

    fn parts(&self) -> usize {
        3
    }

    fn play(&self, scene: &Scene<'_>, part: usize, rng: &mut Rng) -> Checked<()> {
        let mut talk = Talk::open(scene, NAME)?;
        if part == 0 { write(scene, &mut talk, rng) } else { read(scene, &mut talk, rng) }
    }
}

fn keys(prefix: &str) -> impl Iterator<Item = Vec<u8>> {
    (0..KEYS).map(move |i| format!("{prefix}:{i}").into_bytes())
}

/// `name` with `value` for each of the keys.
fn for_all(name: &str, prefix: &str, value: &str) -> Argv {
    let pairs = keys(prefix).flat_map(|key| [key, value.as_bytes().to_vec()]);
    Argv(std::iter::once(name.as_bytes().to_vec()).chain(pairs).collect())
}

fn of_all(name: &str, prefix: &str) -> Argv {
    Argv(std::iter::once(name.as_bytes().to_vec()).chain(keys(prefix)).collect())
}

fn write(scene: &Scene<'_>, talk: &mut Talk<'_, '_>, rng: &mut Rng) -> Checked<()> {
    talk.expect(&argv!["SET", "name:here", "x"], &Value::Status(b"OK".to_vec()))?;
    talk.expect(&argv!["SADD", "side:here", "member"], &Value::Int(1))?;
    let mut number = 0u64;
    while scene.polite_stay() {
        number += 1;
        let value = format!("{number}:{}", "v".repeat(rng.below(100)));
        let batch = [
            for_all("MSETNX", "all", &value),
            for_all("MSETNX", "all", "never"),
            argv!["RENAME", "name:here", "name:there"],
            argv!["SMOVE", "side:here", "side:there", "member"],
            for_all("MSET", "same", &value),
            of_all("DEL", "all"),
            argv!["RENAMENX", "name:there", "name:here"],
            argv!["SMOVE", "side:there", "side:here", "member"],
        ];
        let expected = [1, 0, -1, 1, -1, KEYS as i64, 1, 1];
        for ((value, expected), command) in talk.batch(&batch)?.into_iter().zip(expected).zip(&batch) {
            let expected = if expected < 0 { Value::Status(b"OK".to_vec()) } else { Value::Int(expected) };
            let wanted = || format!("{} answers {expected}", command.upper(0));
            talk.check(value == expected, wanted, || format!("{value}, to {command}"))?;
        }
        scene.report.count("atomic changes", batch.len() as u64);
        std::thread::sleep(Duration::from_micros(rng.below(1500) as u64));
    }
    Ok(())
}

fn read(scene: &Scene<'_>, talk: &mut Talk<'_, '_>, rng: &mut Rng) -> Checked<()> {
    // The writer makes its keys with its first batch.
    while scene.polite_stay() && talk.call(&argv!["EXISTS", "same:0"])? == Value::Int(0) {}
    while scene.polite_stay() {
        let batch = [
            of_all("MGET", "all"),
            argv!["EXISTS", "name:here", "name:there"],
            argv!["SUNION", "side:here", "side:there"],
            argv!["SINTER", "side:here", "side:there"],
            of_all("MGET", "same"),
            of_all("EXISTS", "all"),
        ];
        let values = talk.batch(&batch)?;
        let equal = |value: &Value| value.items().is_some_and(|items| items.iter().all(|item| *item == items[0]));
        let member = Value::Array(vec![Value::Bulk(b"member".to_vec())]);
        let holds = [
            equal(&values[0]),
            values[1] == Value::Int(1),
            values[2] == member,
            values[3] == Value::Array(Vec::new()),
            equal(&values[4]) && !values[4].items().is_some_and(|items| matches!(items[0], Value::Null(_))),
            values[5] == Value::Int(0) || values[5] == Value::Int(KEYS as i64),
        ];
        for ((holds, value), command) in holds.into_iter().zip(values).zip(&batch) {
            let wanted = || format!("all or nothing seen by {} {}", command.upper(0), command.upper(1));
            talk.check(holds, wanted, || value.to_string())?;
        }
        scene.report.count("looks at atomic changes", batch.len() as u64);
        std::thread::sleep(Duration::from_micros(rng.below(1500) as u64));
    }
    Ok(())
}
