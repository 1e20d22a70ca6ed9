//! A disk that is full, fails, is slow, and comes back. Then everything goes on without help.

use std::time::{Duration, Instant};

use crate::argv;
use crate::argv::Argv;
use crate::chaos::disk::{EIO, Word};
use crate::chaos::round::{PATIENCE, Round};
use crate::chaos::scene::ask_all;
use crate::chaos::settings::Fsync;
use crate::client::Conn;

/// How long a fault lasts: longer than a second, so that a sync of `everysec` falls into it, or so long that the judge
/// finds whoever waits for its end.
fn fault_time(round: &mut Round<'_>) -> Duration {
    match round.rng.percent(60) {
        true => round.scene.bounds.answer_max * 2,
        false => Duration::from_millis(1200 + round.rng.below(800) as u64),
    }
}

/// Lets a fault last, ends it and waits until writes are done again. Returns whether the server is there.
fn last_and_heal(round: &mut Round<'_>) -> bool {
    let time = fault_time(round);
    let mut alive = true;
    if round.rng.percent(40) {
        alive = save(round);
    }
    alive = alive && round.pass(time);
    round.scene.report.count("calls of files that failed", round.host.disk.get(Word::Failures).max(0) as u64);
    round.host.disk.set(Word::Failures, 0);
    round.host.disk.heal();
    alive && round.recover() && reaches_the_disk(round) && round.join_helpers()
}

/// Asks for files to be written. What it answers depends on the disk; under `always` the reply may wait for it.
fn save(round: &mut Round<'_>) -> bool {
    let command = argv![if round.rng.percent(50) { "BGSAVE" } else { "BGREWRITEAOF" }];
    if round.scene.settings.log == Some(Fsync::Always) {
        push_in(round, std::iter::once(command));
        return round.lives_on();
    }
    match round.ask(&command) {
        Ok(_) => true,
        Err(reason) => {
            if round.lives_on() {
                round.scene.lose("commands that begin to save are answered at once", reason);
            }
            false
        }
    }
}

/// After a fault the log reaches the disk again.
fn reaches_the_disk(round: &mut Round<'_>) -> bool {
    if !round.scene.settings.logs() {
        return true;
    }
    let commands = [argv!["SET", "probe", "on disk"], argv!["WAITAOF", "1", "0", "6000"]];
    match round.ask_all(&commands) {
        Ok(replies) if replies[1].to_string().contains("(integer) 1") => true,
        Ok(replies) => {
            round.scene.fail("the log reaches the disk again when it works", format!("{} {}", replies[0], replies[1]));
            true
        }
        Err(reason) => {
            if round.lives_on() {
                round.scene.lose("the log reaches the disk again when it works", reason);
            }
            false
        }
    }
}

/// Commands from a connection whose replies nobody waits for.
fn push_in(round: &mut Round<'_>, commands: impl Iterator<Item = Argv> + Send + 'static) {
    let Ok(mut conn) = Conn::tcp(round.scene.port) else { return };
    round.helpers.push(std::thread::spawn(move || {
        conn.set_write_timeout(Duration::from_secs(3));
        for command in commands {
            if conn.send_command(&command).is_err() {
                return;
            }
            conn.set_nonblocking(true);
            drop_replies(&mut conn);
            conn.set_nonblocking(false);
        }
        // The replies may come when the disk is back.
        conn.set_timeout(Duration::from_secs(3));
        conn.half_close();
        drop_replies(&mut conn);
    }));
}

fn drop_replies(conn: &mut Conn) {
    while conn.fill().is_ok_and(|len| len > 0) {
        conn.forget();
    }
}

/// No room, and pipelines of values of 20 KB.
pub fn full(round: &mut Round<'_>) -> bool {
    let room = round.rng.below(200_000) as i64;
    round.host.disk.set(Word::Room, room);
    push_in(round, (0..400).map(|n| argv!["SET", format!("filler:{}", n % 50), vec![b'f'; 20_000]]));
    last_and_heal(round)
}

/// Some room, and a value that has none: it is larger than all that waits for the disk may be.
pub fn full_with_a_big_value(round: &mut Round<'_>) -> bool {
    round.host.disk.set(Word::Room, 20 << 20);
    // A file that is not trusted any more takes nothing until it is rewritten.
    round.host.disk.set(Word::SyncsToFail, i64::from(round.rng.percent(40)));
    push_in(round, std::iter::once(argv!["SET", "filler:big", vec![b'f'; 100 << 20]]));
    last_and_heal(round) && round.ask(&argv!["DEL", "filler:big"]).is_ok()
}

/// No room, and nothing but keys whose time is over: what their end adds to the log is more than may wait for the disk.
pub fn full_with_expiring_keys(round: &mut Round<'_>) -> bool {
    const COUNT: usize = 140_000;
    const TIME: Duration = Duration::from_secs(4);
    let end = std::time::UNIX_EPOCH.elapsed().map_or(0, |now| (now + TIME).as_millis()).to_string();
    let began = Instant::now();
    let numbers: Vec<usize> = (0..COUNT).collect();
    for part in numbers.chunks(2_000) {
        let set = |n: &usize| argv!["SET", format!("expiring:{n}:{}", "k".repeat(500)), "v", "PXAT", end];
        if ask_all(round.scene.port, &part.iter().map(set).collect::<Vec<_>>(), PATIENCE).is_err() {
            return round.lives_on();
        }
    }
    round.host.disk.set(Word::Room, 100_000);
    round.pass(TIME.saturating_sub(began.elapsed())) && last_and_heal(round)
}

/// Every write fails.
pub fn failing(round: &mut Round<'_>) -> bool {
    round.host.disk.set(Word::WriteErrno, EIO);
    last_and_heal(round)
}

/// One sync fails, and then the disk works.
pub fn sync_fails_once(round: &mut Round<'_>) -> bool {
    round.host.disk.set(Word::SyncsToFail, 1);
    last_and_heal(round)
}

/// Every sync fails.
pub fn sync_fails(round: &mut Round<'_>) -> bool {
    round.host.disk.set(Word::SyncErrno, EIO);
    last_and_heal(round)
}

/// No file can be made or renamed.
pub fn names_fail(round: &mut Round<'_>) -> bool {
    round.host.disk.set(Word::NameErrno, EIO);
    save(round) && last_and_heal(round)
}

/// All writes and syncs take long.
pub fn slow(round: &mut Round<'_>) -> bool {
    round.host.disk.set(Word::WriteDelayUs, 20_000 + round.rng.below(80_000) as i64);
    round.host.disk.set(Word::SyncDelayUs, round.rng.below(500_000) as i64);
    last_and_heal(round)
}

/// A snapshot that takes long while all its keys are overwritten.
pub fn snapshot_on_slow_disk(round: &mut Round<'_>) -> bool {
    if round.ask(&argv!["DEBUG", "POPULATE", "60000", "snapshot", "1000"]).is_err() {
        return round.lives_on();
    }
    round.host.disk.set(Word::WriteDelayUs, 100_000);
    if !save(round) {
        return false;
    }
    push_in(round, (0..60_000).map(|n| argv!["SET", format!("snapshot:{n}"), vec![b'o'; 1000]]));
    let alive = round.pass(Duration::from_secs(5));
    round.host.disk.heal();
    alive && round.recover() && round.join_helpers() && unlink(round, "snapshot", 60_000)
}

/// Removes keys with numbers.
fn unlink(round: &mut Round<'_>, prefix: &str, count: usize) -> bool {
    let numbers: Vec<usize> = (0..count).collect();
    let commands: Vec<Argv> = numbers
        .chunks(1000)
        .map(|part| {
            let mut command = argv!["UNLINK"];
            command.0.extend(part.iter().map(|n| format!("{prefix}:{n}").into_bytes()));
            command
        })
        .collect();
    ask_all(round.scene.port, &commands, PATIENCE).is_ok() || round.lives_on()
}

/// Snapshots and rewrites on a disk that works: they succeed.
pub fn rewrite(round: &mut Round<'_>) -> bool {
    for command in ["BGSAVE", "BGREWRITEAOF"] {
        if let Err(reason) = round.ask(&argv![command])
            && round.lives_on()
        {
            round.scene.lose("commands that begin to save are answered at once", reason);
        }
        if !round.pass(Duration::from_millis(200)) {
            return false;
        }
    }
    round.recover()
}

/// The log is ended and begun again: OK means that it is so.
pub fn toggle_log(round: &mut Round<'_>) -> bool {
    let logs = round.scene.settings.logs();
    for on in [!logs, logs] {
        let value = if on { "yes" } else { "no" };
        match round.ask(&argv!["CONFIG", "SET", "appendonly", value]) {
            Ok(reply) if reply.text() == "OK" => check_log(round, on),
            Ok(reply) => round.scene.fail("the log can be ended and begun", format!("{value}: {reply}")),
            Err(reason) => {
                if round.lives_on() {
                    round.scene.lose("CONFIG SET is answered", reason);
                }
                return false;
            }
        }
        if !round.pass(Duration::from_millis(200)) {
            return false;
        }
    }
    round.recover()
}

/// Compares what the server does with its OK to `appendonly`.
fn check_log(round: &mut Round<'_>, on: bool) {
    let commands = [argv!["INFO", "persistence"], argv!["SET", "probe", "toggled"], argv!["WAITAOF", "1", "0", "5000"]];
    let Ok(replies) = round.ask_all(&commands) else { return };
    let says = replies[0].text().contains("aof_enabled:1");
    let is_logged = replies[2].to_string().contains("(integer) 1");
    if says != on || is_logged != on {
        let got = format!("asked for {on}: aof_enabled {says}, WAITAOF {}", replies[2]);
        round.scene.fail("OK to CONFIG SET appendonly means that it is so", got);
    }
}

/// The log is begun where no file can be made: that is not answered OK.
pub fn toggle_log_fails(round: &mut Round<'_>) -> bool {
    if round.scene.settings.logs() {
        return toggle_log(round);
    }
    round.host.disk.set(Word::NameErrno, EIO);
    let reply = round.ask(&argv!["CONFIG", "SET", "appendonly", "yes"]);
    match &reply {
        Ok(reply) if reply.text() == "OK" => {
            round.scene.fail("OK to CONFIG SET appendonly means that it is so", "OK though no file can be made");
        }
        Ok(_) => {}
        Err(reason) => {
            if round.lives_on() {
                round.scene.lose("CONFIG SET is answered", reason.clone());
            }
            return false;
        }
    }
    let alive = round.pass(Duration::from_millis(500));
    round.host.disk.heal();
    alive && round.ask(&argv!["CONFIG", "SET", "appendonly", "no"]).is_ok() && round.recover()
}
