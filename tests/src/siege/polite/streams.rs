//! A stream: ids increase, and every reader gets every acknowledged entry once and in order.
//!
//! Hostile clients read in a group of their own (`foes`), never acknowledge and vanish while they wait. Entries that
//! they got must be pending in the end: every entry is delivered, or will be delivered.

use std::sync::Mutex;
use std::time::Duration;

use crate::argv;
use crate::resp::Value;
use crate::rng::Rng;
use crate::siege::report::Checked;
use crate::siege::scene::{Scenario, Scene};
use crate::siege::talk::Talk;

const NAME: &str = "streams";
/// Entries read back at a time.
const PAGE: usize = 5000;

/// The ids of acknowledged entries; entry `i` holds the number `i`.
#[derive(Default)]
pub struct Streams {
    ids: Mutex<Vec<String>>,
}

impl Scenario for Streams {
    fn name(&self) -> &'static str {
        NAME
    }

    fn parts(&self) -> usize {
        3
    }

    fn play(&self, scene: &Scene<'_>, part: usize, rng: &mut Rng) -> Checked<()> {
        let mut talk = Talk::open(scene, NAME)?;
        match part {
            0 => self.produce(scene, &mut talk, rng),
            1 => consume(scene, &mut talk, true),
            _ => consume(scene, &mut talk, false),
        }
    }

    fn settle(&self, scene: &Scene<'_>) -> Checked<()> {
        let mut talk = Talk::open(scene, NAME)?;
        let ids = self.ids.lock().expect("nobody panics with it");
        talk.expect(&argv!["XLEN", "stream"], &Value::Int(ids.len() as i64))?;
        let mut from = "-".to_owned();
        for page in ids.chunks(PAGE) {
            let found = talk.linger(&argv!["XRANGE", "stream", from, "+", "COUNT", PAGE.to_string()])?;
            let found = entries(&found);
            let found: Vec<&str> = found.iter().map(|(id, _)| id.as_str()).collect();
            talk.check(
                found == page,
                || "all acknowledged entries by XRANGE".into(),
                || format!("{} of {} entries, from {from}", found.len(), page.len()),
            )?;
            from = format!("({}", page.last().expect("pages are not empty"));
        }
        talk.expect(&argv!["XREADGROUP", "GROUP", "polite", "c", "STREAMS", "stream", ">"], &Value::Null(b'*'))?;
        let pending = pending(&mut talk, "polite")?;
        talk.check(pending == 0, || "nothing pending where all is acknowledged".into(), || pending.to_string())?;
        self.settle_foes(&mut talk, ids.len() as i64)
    }
}

impl Streams {
    fn produce(&self, scene: &Scene<'_>, talk: &mut Talk<'_, '_>, rng: &mut Rng) -> Checked<()> {
        for group in ["polite", "foes"] {
            talk.expect(&argv!["XGROUP", "CREATE", "stream", group, "0", "MKSTREAM"], &Value::Status(b"OK".to_vec()))?;
        }
        let mut last = (0, 0);
        while scene.polite_stay() {
            let mut ids = self.ids.lock().expect("nobody panics with it");
            let count = 1 + rng.below(3);
            let add = |i: usize| argv!["XADD", "stream", "*", "number", (ids.len() + i).to_string()];
            let commands: Vec<_> = (0..count).map(add).collect();
            for value in talk.batch(&commands)? {
                let id = value.text();
                let parsed = id_of(&id);
                talk.check(parsed > Some(last), || "ids that increase".into(), || format!("{value} after {last:?}"))?;
                last = parsed.unwrap_or_default();
                ids.push(id);
            }
            drop(ids);
            scene.report.count("stream entries", count as u64);
            std::thread::sleep(Duration::from_micros(rng.below(4000) as u64));
        }
        Ok(())
    }

    /// What hostile consumers were given is pending, the rest is still to be had.
    fn settle_foes(&self, talk: &mut Talk<'_, '_>, total: i64) -> Checked<()> {
        let pending = pending(talk, "foes")?;
        let rest = talk.linger(&argv!["XREADGROUP", "GROUP", "foes", "last", "NOACK", "STREAMS", "stream", ">"])?;
        let rest = entries(&rest).len() as i64;
        talk.check(
            pending + rest == total,
            || "entries given to vanished consumers are pending".into(),
            || format!("{pending} pending and {rest} not delivered of {total}"),
        )
    }
}

fn consume(scene: &Scene<'_>, talk: &mut Talk<'_, '_>, in_group: bool) -> Checked<()> {
    // The producer makes stream and group first.
    while talk.call(&argv!["EXISTS", "stream"])? == Value::Int(0) {}
    while in_group && talk.call(&argv!["XINFO", "GROUPS", "stream"])?.items().is_none_or(|all| all.len() < 2) {}
    let (mut number, mut last) = (0, "0".to_owned());
    loop {
        let command = if in_group {
            argv!["XREADGROUP", "GROUP", "polite", "c", "COUNT", "50", "BLOCK", "300", "STREAMS", "stream", ">"]
        } else {
            argv!["XREAD", "COUNT", "50", "BLOCK", "300", "STREAMS", "stream", last]
        };
        let value = talk.linger(&command)?;
        talk.check(!value.is_error(), || "entries".into(), || value.to_string())?;
        let entries = entries(&value);
        if entries.is_empty() {
            if scene.polite_stay() { continue } else { return Ok(()) }
        }
        for (id, value) in &entries {
            let wanted = || "every entry once and in order".to_owned();
            talk.check(*value == number.to_string(), wanted, || format!("{id} with {value}, not {number}"))?;
            number += 1;
        }
        last = entries.last().map(|(id, _)| id.clone()).unwrap_or_default();
        if in_group {
            let ids = entries.iter().map(|(id, _)| id.as_bytes().to_vec());
            let mut ack = argv!["XACK", "stream", "polite"];
            ack.0.extend(ids);
            talk.expect(&ack, &Value::Int(entries.len() as i64))?;
        }
    }
}

/// Ids and numbers of the entries in a reply of XRANGE, or of XREAD with one stream.
fn entries(value: &Value) -> Vec<(String, String)> {
    let list = value.items().unwrap_or_default();
    let list = match list {
        [Value::Array(stream)] if matches!(stream.get(1), Some(Value::Array(_))) && stream[0].text() == "stream" => {
            stream[1].items().unwrap_or_default()
        }
        list => list,
    };
    let field = |entry: &Value| Some(entry.items()?.get(1)?.items()?.get(1)?.text());
    list.iter().filter_map(|entry| Some((entry.items()?.first()?.text(), field(entry)?))).collect()
}

fn id_of(text: &str) -> Option<(u64, u64)> {
    let (ms, seq) = text.split_once('-')?;
    Some((ms.parse().ok()?, seq.parse().ok()?))
}

fn pending(talk: &mut Talk<'_, '_>, group: &str) -> Checked<i64> {
    let summary = talk.linger(&argv!["XPENDING", "stream", group])?;
    match summary.items().and_then(|items| items.first()) {
        Some(Value::Int(count)) => Ok(*count),
        _ => Err(talk.fault("a summary from XPENDING".into(), summary.to_string())),
    }
}
