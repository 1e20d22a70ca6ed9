//! Every directive to its ends and back.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use crate::argv;
use crate::chaos::round::Round;

/// Directives without which clients are not served, nothing is kept, or the run has its own acts.
const LEFT_OUT: [&str; 14] = [
    "port",
    "bind",
    "unixsocket",
    "requirepass",
    "maxclients",
    "maxmemory-policy",
    "appendonly",
    "appendfsync",
    "save",
    "dir",
    "dbfilename",
    "protected-mode",
    "logfile",
    "stop-writes-on-bgsave-error",
];
/// Ends of numbers, and values that are none.
const VALUES: [&str; 14] = [
    "0",
    "1",
    "-1",
    "100",
    "65536",
    "1048576",
    "2147483647",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
    "99999999999999999999",
    "",
    "nonsense",
    "1gb",
];
/// Directives that Redis sets to the nearest value that it takes.
const CLAMPED: [&str; 2] = ["hz", "repl-backlog-size"];
/// Directives of one act.
const DIRECTIVES: usize = 30;

/// Sets directives to their ends for a moment each.
pub fn ends(round: &mut Round<'_>) -> bool {
    let Ok(all) = round.ask(&argv!["CONFIG", "GET", "*"]) else { return lost(round, "CONFIG GET *") };
    let pairs: Vec<(String, String)> =
        all.pairs().unwrap_or_default().iter().map(|(name, value)| (name.text(), value.text())).collect();
    if pairs.is_empty() {
        return lost(round, &format!("CONFIG GET *: {all}"));
    }
    round.scene.rough.store(true, SeqCst);
    let mut alive = true;
    for _ in 0..DIRECTIVES {
        let (name, old) = pairs[round.rng.below(pairs.len())].clone();
        // With a limit of one byte, these policies would evict what the judge counts.
        let is_kept = |(name, value): &(String, String)| name != "maxmemory-policy" || !value.starts_with("allkeys");
        let keeps_keys = round.scene.settings.directives.iter().all(is_kept);
        if LEFT_OUT.contains(&name.as_str()) || name == "maxmemory" && !keeps_keys {
            continue;
        }
        alive = end_of(round, &name, &old);
        if !alive {
            break;
        }
    }
    // Connections that were closed come again.
    round.pass(Duration::from_millis(100));
    round.scene.rough.store(false, SeqCst);
    alive && round.recover()
}

fn end_of(round: &mut Round<'_>, name: &str, old: &str) -> bool {
    let value = match old {
        "yes" => "no".to_owned(),
        "no" => "yes".to_owned(),
        _ => match round.rng.percent(3) {
            true => "x".repeat(100_000),
            false => round.rng.pick(&VALUES).to_owned(),
        },
    };
    round.scene.enter(&format!("config-ends {name} {}", &value[..value.len().min(40)]));
    let Ok(reply) = round.ask(&argv!["CONFIG", "SET", name, value]) else { return lost(round, "CONFIG SET") };
    round.scene.report.count("directives set", 1);
    if reply.is_error() {
        return true;
    }
    let Ok(found) = round.ask(&argv!["CONFIG", "GET", name]) else { return lost(round, "CONFIG GET") };
    let found = found.pairs().and_then(|pairs| Some(pairs.first()?.1.text())).unwrap_or_default();
    // Units are shown as bytes, and no digits are 0.
    let is_told_otherwise = ["1gb", ""].contains(&value.as_str()) || CLAMPED.contains(&name);
    if found != value && !is_told_otherwise && found.parse::<f64>().ok() != value.parse::<f64>().ok() {
        round.scene.fail("CONFIG GET tells what CONFIG SET has set", format!("{name}: {value:?}, then {found:?}"));
    }
    let alive = round.pass(Duration::from_millis(30));
    let Ok(back) = round.ask(&argv!["CONFIG", "SET", name, old]) else { return lost(round, "CONFIG SET") };
    if back.is_error() {
        round.scene.fail("a directive takes the value it had", format!("{name} {old:?}: {back}"));
    }
    alive
}

fn lost(round: &mut Round<'_>, command: &str) -> bool {
    if round.lives_on() {
        round.scene.lose("commands of administration are answered", command.to_owned());
    }
    false
}
