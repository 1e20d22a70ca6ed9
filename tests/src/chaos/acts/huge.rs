//! Keys, values and counts of arguments that are larger than what is usual by orders of magnitude.

use std::time::Duration;

use crate::argv;
use crate::argv::Argv;
use crate::chaos::round::Round;
use crate::chaos::scene::ask_all;

/// How long all of it may take. What it costs others is the judge's to say.
const TIME: Duration = Duration::from_secs(40);

fn send(round: &mut Round<'_>, commands: &[Argv]) -> bool {
    match ask_all(round.scene.port, commands, TIME) {
        Ok(_) => round.lives_on(),
        Err(reason) => {
            if round.lives_on() && reason.starts_with("no reply") {
                let names: Vec<String> = commands.iter().map(|command| command.upper(0)).collect();
                round.scene.fail("huge commands are answered", format!("{}: {reason}", names.join(" ")));
            }
            round.lives_on()
        }
    }
}

/// Keys of 9 MB, values of 30 MB.
pub fn values(round: &mut Round<'_>) -> bool {
    let rounds = 1 + round.rng.below(6);
    for n in 0..rounds {
        let key = || [format!("huge:{n}:").into_bytes(), vec![b'k'; 9 << 20]].concat();
        let commands = match round.rng.below(5) {
            0 => vec![argv!["SET", key(), "v"], argv!["GET", key()], argv!["DEL", key()]],
            1 => vec![argv!["SET", key(), "v"]],
            2 => vec![
                argv!["SET", "huge:value", vec![b'v'; 30 << 20]],
                argv!["APPEND", "huge:value", vec![b'v'; 3 << 20]],
            ],
            3 => vec![argv!["HSET", "huge:hash", key(), key()], argv!["HGETALL", "huge:hash"]],
            _ => vec![argv!["SETRANGE", "huge:range", "40000000", "x"], argv!["BITCOUNT", "huge:range"]],
        };
        let small: Vec<Argv> = (0..40).map(|n| argv!["SET", format!("small:{n}"), vec![b's'; 500]]).collect();
        if !send(round, &commands) || !send(round, &small) {
            return round.lives_on();
        }
    }
    let mut del = argv!["DEL", "huge:value", "huge:hash", "huge:range"];
    del.0.extend((0..rounds).map(|n| [format!("huge:{n}:").into_bytes(), vec![b'k'; 9 << 20]].concat()));
    send(round, &[del]) && round.recover()
}

/// More arguments than any limit that readers of the log may have.
pub fn counts(round: &mut Round<'_>) -> bool {
    const COUNT: usize = 1_048_600;
    let many = |name: &str, key: &str, each: fn(usize) -> Vec<Vec<u8>>| {
        let mut command = argv![name, key];
        command.0.extend((0..COUNT).flat_map(each));
        command
    };
    let one = |n: usize| vec![format!("{n}").into_bytes()];
    let two = |n: usize| vec![format!("{n}").into_bytes(), b"1".to_vec()];
    let commands = match round.rng.below(4) {
        0 => vec![many("RPUSH", "huge:list", one)],
        1 => vec![many("SADD", "huge:set", one), argv!["SPOP", "huge:set", COUNT.to_string()]],
        2 => vec![many("HSET", "huge:hash", two), many("HDEL", "huge:hash", one)],
        _ => vec![many("ZADD", "huge:sorted", |n| vec![format!("{n}").into_bytes(), format!("m{n}").into_bytes()])],
    };
    if !send(round, &commands) || !round.pass(Duration::from_millis(200)) {
        return round.lives_on();
    }
    // What the log has stays to be read at the next start; the memory is wanted back.
    send(round, &[argv!["UNLINK", "huge:list", "huge:set", "huge:hash", "huge:sorted"]]) && round.recover()
}
