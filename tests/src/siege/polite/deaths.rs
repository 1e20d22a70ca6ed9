//! Deaths step by step: a client waits and dies, and then an element is pushed. A dead client must not get it.
//!
//! A client is dead when CLIENT KILL has answered that it is, in a pipeline too, or when CLIENT LIST no longer shows it. Only what was pushed
//! before that may be lost with it. Nothing here touches keys of other scenarios.

use std::time::{Duration, Instant};

use crate::argv;
use crate::argv::Argv;
use crate::resp::Value;
use crate::rng::Rng;
use crate::siege::report::Checked;
use crate::siege::scene::{Scenario, Scene};
use crate::siege::talk::Talk;

const NAME: &str = "deaths";
/// How long the server may take to notice that a client has gone.
const NOTICE_MAX: Duration = Duration::from_secs(10);

/// One killer with one victim at a time.
pub struct Deaths;

/// How a victim waits, how an element comes, and how to find that it is still there.
struct Way {
    wait: Argv,
    push: Argv,
    look: Argv,
    found: Value,
}

impl Scenario for Deaths {
    fn name(&self) -> &'static str {
        NAME
    }

    fn play(&self, scene: &Scene<'_>, _part: usize, rng: &mut Rng) -> Checked<()> {
        let mut killer = Talk::open(scene, NAME)?;
        let mut number = 0;
        while scene.polite_stay() {
            number += 1;
            let way = way(rng.below(8), number);
            let outcome = match rng.below(5) {
                0 => killed(scene, &mut killer, &way, false),
                1 => killed(scene, &mut killer, &way, true),
                2 => vanished(scene, &mut killer, &way, rng.percent(50)),
                3 => unblocked(scene, &mut killer, &way, rng.percent(50)),
                _ => killed_at_work(scene, &mut killer, number),
            };
            scene.report.conclude(outcome);
            killer.call(&argv!["DEL", format!("from:{number}"), format!("to:{number}")])?;
            scene.report.count("deaths", 1);
            std::thread::sleep(Duration::from_millis(3));
        }
        Ok(())
    }
}

fn way(kind: usize, number: u64) -> Way {
    let (from, to) = (format!("from:{number}"), format!("to:{number}"));
    let item = || Value::Bulk(b"item".to_vec());
    let list = |wait| Way { wait, push: argv!["LPUSH", from, "item"], look: argv!["LPOP", from], found: item() };
    let zset = |wait| Way {
        wait,
        push: argv!["ZADD", from, "1", "item"],
        look: argv!["ZPOPMIN", from],
        found: Value::Array(vec![item(), Value::Bulk(b"1".to_vec())]),
    };
    match kind {
        0 => list(argv!["BLPOP", from, "0"]),
        1 => list(argv!["BRPOP", "from:none", from, "0"]),
        2 => list(argv!["BLMOVE", from, to, "LEFT", "RIGHT", "0"]),
        3 => list(argv!["BRPOPLPUSH", from, to, "0"]),
        4 => list(argv!["BLMPOP", "0", "2", "from:none", from, "LEFT", "COUNT", "3"]),
        5 => zset(argv!["BZPOPMIN", from, "0"]),
        6 => zset(argv!["BZMPOP", "0", "1", from, "MAX"]),
        // Nothing is pending, so the whole stream is still to be delivered.
        _ => Way {
            wait: argv!["XREADGROUP", "GROUP", "g", "c", "BLOCK", "0", "STREAMS", from, ">"],
            push: argv!["XADD", from, "1-1", "f", "item"],
            look: argv!["XREADGROUP", "GROUP", "g", "d", "STREAMS", from, ">"],
            found: Value::Array(vec![Value::Array(vec![
                Value::Bulk(from.clone().into_bytes()),
                Value::Array(vec![Value::Array(vec![
                    Value::Bulk(b"1-1".to_vec()),
                    Value::Array(vec![Value::Bulk(b"f".to_vec()), item()]),
                ])]),
            ])]),
        },
    }
}

/// A client that waits; returns it with its id once the server shows that it waits.
fn victim<'s, 'r>(scene: &'s Scene<'r>, killer: &mut Talk<'_, '_>, way: &Way) -> Checked<(Talk<'s, 'r>, String)> {
    if way.wait.upper(0) == "XREADGROUP" {
        let key = &way.push.0[1];
        killer.expect(&argv!["XGROUP", "CREATE", key, "g", "$", "MKSTREAM"], &Value::Status(b"OK".to_vec()))?;
    }
    let mut victim = Talk::open(scene, NAME)?;
    let id = victim.id()?.to_string();
    let taken = victim.conn().send_command(&way.wait);
    victim.check(taken.is_ok(), || "a command is taken".into(), || format!("{taken:?}"))?;
    let deadline = Instant::now() + NOTICE_MAX;
    loop {
        let line = killer.call(&argv!["CLIENT", "LIST", "ID", id])?.text();
        if line.contains(" flags=b ") {
            return Ok((victim, id));
        }
        let in_time = Instant::now() < deadline && !line.is_empty();
        killer.check(in_time, || "a client that waits is listed with flags=b".into(), || line)?;
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Killed while it waits; elements pushed after that stay. In one pipeline or one by one.
fn killed(scene: &Scene<'_>, killer: &mut Talk<'_, '_>, way: &Way, in_pipeline: bool) -> Checked<()> {
    let (_victim, id) = victim(scene, killer, way)?;
    let kill = argv!["CLIENT", "KILL", "ID", id];
    let batch = [kill, way.push.clone(), way.look.clone()];
    let values = if in_pipeline {
        killer.batch(&batch)?
    } else {
        batch.iter().map(|command| killer.call(command)).collect::<Checked<Vec<Value>>>()?
    };
    killer.check(values[0] == Value::Int(1), || "CLIENT KILL answers 1".into(), || values[0].to_string())?;
    let wanted = || format!("{} leaves alone what is pushed after its client was killed", way.wait.upper(0));
    killer.check(values[2] == way.found, wanted, || format!("{} (in a pipeline: {in_pipeline})", values[2]))
}

/// Closed by itself, and noticed by the server; elements pushed after that stay.
fn vanished(scene: &Scene<'_>, killer: &mut Talk<'_, '_>, way: &Way, by_reset: bool) -> Checked<()> {
    let (mut victim, id) = victim(scene, killer, way)?;
    if by_reset {
        victim.conn().reset_on_drop();
    }
    drop(victim);
    let deadline = Instant::now() + NOTICE_MAX;
    loop {
        let line = killer.call(&argv!["CLIENT", "LIST", "ID", id])?.text();
        if line.is_empty() {
            break;
        }
        let wanted = || "a client that went away while it waited is off the list within 10 seconds".to_owned();
        killer.check(Instant::now() < deadline, wanted, || line)?;
        std::thread::sleep(Duration::from_micros(200));
    }
    killer.call(&way.push)?;
    let found = killer.call(&way.look)?;
    let wanted = || format!("{} leaves alone what is pushed after its client has gone", way.wait.upper(0));
    killer.check(found == way.found, wanted, || format!("{found} (by reset: {by_reset})"))
}

/// Unblocked: it gets the reply, takes nothing afterwards, and can go on.
fn unblocked(scene: &Scene<'_>, killer: &mut Talk<'_, '_>, way: &Way, with_error: bool) -> Checked<()> {
    let (mut victim, id) = victim(scene, killer, way)?;
    let how = if with_error { "ERROR" } else { "TIMEOUT" };
    let values = killer.batch(&[argv!["CLIENT", "UNBLOCK", id, how], way.push.clone(), way.look.clone()])?;
    killer.check(values[0] == Value::Int(1), || "CLIENT UNBLOCK answers 1".into(), || values[0].to_string())?;
    let wanted = || format!("{} leaves alone what is pushed after its client was unblocked", way.wait.upper(0));
    killer.check(values[2] == way.found, wanted, || values[2].to_string())?;
    let reply = victim.conn().read_reply().unwrap_or_default();
    let holds = match Value::parse(&reply) {
        Ok(Value::Error(text)) => with_error && text.starts_with(b"UNBLOCKED "),
        Ok(Value::Null(_)) => !with_error,
        _ => false,
    };
    let wanted = || format!("a client is told that it was unblocked ({how})");
    victim.check(holds, wanted, || format!("{}, to {}", String::from_utf8_lossy(&reply), way.wait))?;
    victim.expect(&argv!["ECHO", "alive"], &Value::Bulk(b"alive".to_vec()))
}

/// Killed in the middle of a long pipeline that it does not read; once it is off the list, none of its commands is
/// executed.
fn killed_at_work(scene: &Scene<'_>, killer: &mut Talk<'_, '_>, number: u64) -> Checked<()> {
    const SENT: i64 = 5000;
    let key = format!("from:{number}");
    let mut victim = Talk::open(scene, NAME)?;
    let id = victim.id()?.to_string();
    let mut pipeline = Vec::new();
    argv!["INCR", key].encode(&mut pipeline);
    let taken = victim.conn().send(&pipeline.repeat(SENT as usize));
    victim.check(taken.is_ok(), || "a pipeline is taken".into(), || format!("{taken:?}"))?;
    killer.expect(&argv!["CLIENT", "KILL", "ID", id], &Value::Int(1))?;
    let deadline = Instant::now() + NOTICE_MAX;
    while !killer.call(&argv!["CLIENT", "LIST", "ID", id])?.text().is_empty() {
        let wanted = || "a killed client is off the list within 10 seconds".to_owned();
        killer.check(Instant::now() < deadline, wanted, || id.clone())?;
    }
    let before = killer.call(&argv!["GET", key])?;
    let count: i64 = before.text().parse().unwrap_or(0);
    killer.check(count <= SENT, || "no command twice".into(), || before.to_string())?;
    std::thread::sleep(Duration::from_millis(2));
    let after = killer.call(&argv!["GET", key])?;
    killer.check(before == after, || "nothing is executed for a dead client".into(), || format!("{before} {after}"))
}
