//! Scripts without end, in every wrapping: others get BUSY, SCRIPT KILL ends the script, and if it has written,
//! SHUTDOWN NOSAVE ends the server.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use crate::argv;
use crate::argv::Argv;
use crate::chaos::host::threads;
use crate::chaos::judge::is_answer;
use crate::chaos::options::Options;
use crate::chaos::round::{PATIENCE, Round};
use crate::chaos::scene::{ask, ask_all};
use crate::client::Conn;
use crate::resp::Value;

/// How the script is called.
const CALLS: [&str; 6] = ["eval", "eval-ro", "evalsha", "evalsha-ro", "fcall", "fcall-ro"];
/// Where the call stands.
const PLACES: [&str; 5] = ["bare", "multi", "multi-dbsize", "multi-setname", "multi-watch"];
/// Which keys it has.
const KEYS: [&str; 3] = ["zero-keys", "keys", "many-keys"];
/// Who looks on.
const BESIDE: [&str; 3] = ["alone", "monitor", "tracking"];
/// What runs for ever, or for very long.
const BODIES: [(&str, &str); 16] = [
    ("plain", "while true do end"),
    ("pcall", "while true do pcall(function() while true do end end) end"),
    ("coroutine", "local c = coroutine.wrap(function() while true do end end) while true do pcall(c) end"),
    ("calls", "while true do redis.pcall('GET', KEYS[1] or 'probe') end"),
    ("undeclared", "while true do redis.pcall('STRLEN', 'looped:undeclared') end"),
    ("after-write", "redis.call('SET', KEYS[1] or 'looped:1', 'x') while true do end"),
    ("after-undeclared-write", "redis.call('SET', 'looped:undeclared', 'x') while true do end"),
    (
        "after-short",
        "if ARGV[1] == '1' then redis.call('RPUSH', KEYS[1] or 'looped:1', 'x') while true do end end return 1",
    ),
    ("native-find", "return string.find(string.rep('a', 100000), '.-b')"),
    ("native-gsub", "return string.gsub(string.rep('a', 100000), '.-b', '')"),
    ("native-convert", "local t = {} for i = 1, 40 do t = {t, t} end return t"),
    ("native-cjson", "local t = {} for i = 1, 40 do t = {t, t} end return cjson.encode(t)"),
    ("native-cmsgpack", "local t = {} for i = 1, 14 do t = {t, t, t, t, t, t, t, t} end return cmsgpack.pack(t)"),
    ("native-insert", "local t = {} table.insert(t, -2^30, 1) return 1"),
    ("native-unpack", "return pcall(unpack, {1, 2, 3}, -2, 2147483647)"),
    ("native-rep", "local s = 'x' for i = 1, 60 do s = string.rep(s, 2) end return #s"),
];

/// The names of all wrappings.
pub fn wrappings() -> impl Iterator<Item = &'static str> {
    [&CALLS[..], &PLACES, &KEYS, &BESIDE].into_iter().flatten().copied().chain(BODIES.iter().map(|body| body.0))
}

/// A script as it is sent.
struct Wrapped {
    /// What comes before, on the same connection.
    before: Vec<Argv>,
    /// Calls that end, to be made before.
    short: Vec<Argv>,
    /// What does not end.
    endless: Vec<Argv>,
    /// The command that ends it.
    kill: Argv,
    /// Whether it has written, so that nobody may end it.
    writes: bool,
    /// All names.
    name: String,
}

/// Draws one.
fn draw(round: &mut Round<'_>) -> Option<Wrapped> {
    let has = |options: &Options, name: &str| options.has_wrapping(name);
    let call = round.draw(&CALLS, has)?;
    let place = round.draw(&PLACES, has)?;
    let keys = round.draw(&KEYS, has)?;
    let beside = round.draw(&BESIDE, has)?;
    let body = round.draw(&BODIES.map(|body| body.0), has)?;
    let source = BODIES.iter().find(|(name, _)| *name == body).expect("drawn from them").1;
    let (mut before, name) = prepare(round, call, source);
    let keys = match keys {
        "zero-keys" => 0,
        "keys" => 1,
        _ => 200,
    };
    let with = |argument: &str| {
        let mut command = argv![call.to_ascii_uppercase().replace('-', "_"), name, keys.to_string()];
        command.0.extend((1..=keys).map(|n| format!("looped:{n}").into_bytes()));
        command.0.push(argument.into());
        command
    };
    let endless = match place {
        "bare" => vec![with("1")],
        "multi" => vec![argv!["MULTI"], with("1"), argv!["EXEC"]],
        "multi-dbsize" => vec![argv!["MULTI"], argv!["DBSIZE"], with("1"), argv!["EXEC"]],
        "multi-setname" => vec![argv!["MULTI"], with("1"), argv!["CLIENT", "SETNAME", "x"], argv!["EXEC"]],
        _ => vec![argv!["WATCH", "looped:1"], argv!["MULTI"], with("1"), argv!["GET", "probe"], argv!["EXEC"]],
    };
    before.push(match beside {
        "monitor" => argv!["MONITOR"],
        "tracking" => argv!["CLIENT", "TRACKING", "ON", "BCAST"],
        _ => argv!["PING"],
    });
    let is_function = call.starts_with("fcall");
    let short = if body == "after-short" { vec![with("0"); 20] } else { Vec::new() };
    Some(Wrapped {
        before,
        short,
        endless,
        kill: argv![if is_function { "FUNCTION" } else { "SCRIPT" }, "KILL"],
        writes: body.starts_with("after"),
        name: format!("{call},{place},{keys} keys,{beside},{body}"),
    })
}

/// The commands that make a script known, and the name or source to call it by.
fn prepare(round: &Round<'_>, call: &str, source: &str) -> (Vec<Argv>, String) {
    let fill: Vec<Argv> = std::iter::once({
        let mut push = argv!["RPUSH", "looped:1"];
        push.0.resize(20_000, b"element".to_vec());
        push
    })
    .collect();
    let mut before = vec![argv!["DEL", "looped:1", "looped:undeclared"]];
    if source.contains("RPUSH") {
        before.extend(fill);
    }
    match call {
        "eval" | "eval-ro" => (before, source.to_owned()),
        "evalsha" | "evalsha-ro" => {
            let sha = round.ask(&argv!["SCRIPT", "LOAD", source]).map(|reply| reply.text()).unwrap_or_default();
            (before, sha)
        }
        _ => {
            let flags = if call == "fcall-ro" { "'no-writes'" } else { "" };
            let library = format!(
                "#!lua name=chaos\nredis.register_function{{function_name='endless', flags={{{flags}}}, \
                 callback=function(KEYS, ARGV) {source} end}}"
            );
            before.push(argv!["FUNCTION", "LOAD", "REPLACE", library]);
            (before, "endless".to_owned())
        }
    }
}

/// What became of a script.
enum Outcome {
    /// It ended by itself.
    Ended,
    /// It is ended.
    Killed,
    /// It has written.
    Unkillable,
    /// It runs on, or nobody answers.
    Lost,
}

/// A script without end.
pub fn endless(round: &mut Round<'_>) -> bool {
    let Some(wrapped) = draw(round) else { return true };
    round.told(&format!("script {}", wrapped.name));
    let Some(mut conn) = begin(round, &wrapped) else { return round.lives_on() };
    let outcome = watch(round, &wrapped, &mut conn);
    round.scene.report.count(
        match outcome {
            Outcome::Ended => "scripts that ended",
            Outcome::Killed => "scripts killed",
            Outcome::Unkillable => "scripts that had written",
            Outcome::Lost => "scripts lost",
        },
        1,
    );
    match outcome {
        Outcome::Ended | Outcome::Killed => round.recover(),
        Outcome::Unkillable => end_without_saving(round),
        Outcome::Lost => false,
    }
}

/// Sends the script; `None` when that fails.
fn begin(round: &mut Round<'_>, wrapped: &Wrapped) -> Option<Conn> {
    let mut conn = Conn::tcp(round.scene.port).ok()?;
    conn.set_timeout(PATIENCE);
    let (watcher, before) = wrapped.before.split_last()?;
    for command in before.iter().chain(&wrapped.short) {
        conn.try_call(command).ok()?;
    }
    // It stays open until the script has ended.
    let mut beside = Conn::tcp(round.scene.port).ok()?;
    beside.send_command(&argv!["HELLO", "3"]).ok()?;
    beside.send_command(watcher).ok()?;
    std::thread::spawn(move || {
        beside.set_timeout(Duration::from_secs(3));
        while beside.fill().is_ok_and(|len| len > 0) {
            beside.forget();
        }
    });
    let mut bytes = Vec::new();
    wrapped.endless.iter().for_each(|command| command.encode(&mut bytes));
    conn.send(&bytes).ok()?;
    conn.set_timeout(Duration::from_millis(10));
    Some(conn)
}

/// Whether all replies of the script have come.
fn has_ended(conn: &mut Conn, left: &mut usize) -> bool {
    while *left > 0 {
        match conn.read_reply() {
            Ok(_) => *left -= 1,
            Err(error) => {
                let waits = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
                return !waits;
            }
        }
    }
    true
}

fn watch(round: &mut Round<'_>, wrapped: &Wrapped, conn: &mut Conn) -> Outcome {
    let (scene, port) = (round.scene, round.scene.port);
    let bounds = scene.bounds;
    let mut left = wrapped.endless.len();
    let (began, load) = (Instant::now(), scene.load());
    let busy_by = Duration::from_millis(scene.settings.busy_ms) + bounds.answer_max;
    loop {
        if has_ended(conn, &mut left) {
            return Outcome::Ended;
        }
        if !round.lives_on() {
            return Outcome::Lost;
        }
        match ask(port, &argv!["GET", "probe"], PATIENCE) {
            Ok(reply) if reply.text().starts_with("BUSY") => break,
            Ok(_) => {}
            Err(reason) => return lose(round, format!("GET: {reason}")),
        }
        if began.elapsed() > scene.stretched(busy_by, load) {
            let threads = threads(round.host.pid());
            scene.fail("a script that takes too long makes others BUSY", format!("it does not\n{threads}"));
            break;
        }
    }
    kill(round, wrapped, conn, &mut left)
}

fn kill(round: &mut Round<'_>, wrapped: &Wrapped, conn: &mut Conn, left: &mut usize) -> Outcome {
    let (scene, port) = (round.scene, round.scene.port);
    let (began, load) = (Instant::now(), scene.load());
    loop {
        let replies = match ask_all(port, &[wrapped.kill.clone(), argv!["PING"]], PATIENCE) {
            Ok(replies) => replies,
            Err(reason) => return lose(round, format!("{}: {reason}", wrapped.kill)),
        };
        let text = replies[0].text();
        match text.split(' ').next().unwrap_or_default() {
            "OK" => {
                if replies[1].text().starts_with("BUSY") {
                    scene
                        .fail("a script has ended when SCRIPT KILL says OK", format!("PING behind it: {}", replies[1]));
                }
                return wait_for_end(round, conn, left);
            }
            "UNKILLABLE" => {
                if !wrapped.writes {
                    scene.fail("a script that has not written can be killed", text);
                }
                return Outcome::Unkillable;
            }
            _ if has_ended(conn, left) => return Outcome::Ended,
            _ => {}
        }
        if began.elapsed() > scene.stretched(scene.bounds.kill_max, load) {
            let got = format!("{}: {text}, PING: {}\n{}", wrapped.kill, replies[1], threads(round.host.pid()));
            scene.lose("a script can be ended, or has written", got);
            return Outcome::Lost;
        }
    }
}

fn wait_for_end(round: &mut Round<'_>, conn: &mut Conn, left: &mut usize) -> Outcome {
    let (began, load) = (Instant::now(), round.scene.load());
    while !has_ended(conn, left) {
        if began.elapsed() > round.scene.stretched(round.scene.bounds.kill_max, load) {
            round.scene.lose("a killed script ends", threads(round.host.pid()));
            return Outcome::Lost;
        }
    }
    let reply = ask(round.scene.port, &argv!["PING"], PATIENCE);
    if let Ok(reply) = &reply
        && !is_answer(reply)
    {
        round.scene.fail("a killed script ends", reply.to_string());
    }
    Outcome::Killed
}

fn lose(round: &mut Round<'_>, reason: String) -> Outcome {
    if round.lives_on() {
        let got = format!("{reason}\n{}", threads(round.host.pid()));
        round.scene.lose("beside a script without end every new connection is answered", got);
    }
    Outcome::Lost
}

/// A script that has written and does not end leaves nothing but this.
fn end_without_saving(round: &mut Round<'_>) -> bool {
    let (scene, kept) = (round.scene, round.kept_at_kill());
    round.leave();
    if let Ok(mut conn) = Conn::tcp(scene.port) {
        let _ = conn.send_command(&argv!["SHUTDOWN", "NOSAVE"]);
        let time = scene.stretched(scene.bounds.end_max, scene.load().at_start());
        if round.host.wait_exit(time).is_none() {
            scene.fail("SHUTDOWN NOSAVE ends the server beside a script", threads(round.host.pid()));
        }
    }
    round.host.kill();
    scene.report.count("ends by SHUTDOWN NOSAVE beside a script", 1);
    round.start(kept, None)
}

/// A script that writes more than `maxmemory` allows. As in Redis it may go on once it has begun, so what it keeps comes on
/// top; what it has overwritten, and what waits for the log, does not count.
pub fn fills(round: &mut Round<'_>) -> bool {
    const KEPT_BYTES: u64 = 100_000 * 4_200;
    const TIME: Duration = Duration::from_secs(30);
    let memory = round.scene.settings.directives.iter().find(|(name, _)| name == "maxmemory").map(|(_, value)| value);
    if memory.is_none_or(|value| value == "0") {
        return true;
    }
    let script = "for i = 1, 200000 do redis.call('SET', 'filled:' .. i % 100000, string.rep('x', 4000)) end return 1";
    let Ok(mut conn) = Conn::tcp(round.scene.port) else { return round.lives_on() };
    conn.set_timeout(Duration::from_millis(100));
    let _ = conn.send_command(&argv!["EVAL", script, "0"]);
    let (began, load, mut left) = (Instant::now(), round.scene.load(), 1);
    while !has_ended(&mut conn, &mut left) {
        if !round.lives_on() {
            return false;
        }
        if began.elapsed() > round.scene.stretched(TIME, load) {
            round.scene.lose("a script that writes 800 MB ends", threads(round.host.pid()));
            return false;
        }
    }
    // INFO is refused while the script runs.
    match round.ask(&argv!["INFO", "memory"]).map(|info| counted(&info.text())) {
        Ok(Some((used, limit))) if used > limit.saturating_add(limit / 4).saturating_add(KEPT_BYTES) => {
            let got = format!("{} MB count of {} MB", used >> 20, limit >> 20);
            round.scene.fail("a script keeps maxmemory but for what it has written", got);
        }
        Ok(Some(_)) => {}
        other => round.scene.fail("INFO is answered when a script has ended", format!("{other:?}")),
    }
    let keys: Vec<Argv> = (0..100u32)
        .map(|part| {
            let mut unlink = argv!["UNLINK"];
            unlink.0.extend((0..1000).map(|n| format!("filled:{}", part * 1000 + n).into_bytes()));
            unlink
        })
        .collect();
    let _: Result<Vec<Value>, String> = round.ask_all(&keys);
    round.recover()
}

/// What counts of the memory that INFO tells, and its limit.
fn counted(info: &str) -> Option<(u64, u64)> {
    let value = |name: &str| -> Option<u64> {
        info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?.trim().parse().ok()
    };
    Some((value("used_memory")?.saturating_sub(value("mem_not_counted_for_evict")?), value("maxmemory")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wrapping_has_a_name_of_its_own() {
        let names: Vec<&str> = wrappings().collect();
        let mut sorted = names.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), names.len());
    }
}
