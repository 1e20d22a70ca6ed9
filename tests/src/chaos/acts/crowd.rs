//! Clients that die at the worst moment, and clients that all wait.

use std::time::Duration;

use crate::argv;
use crate::argv::Argv;
use crate::chaos::round::Round;
use crate::client::Conn;

/// Connections that end in the middle of what they do: half a command, half a transaction, replies unread, while they
/// wait, while a script of theirs runs.
pub fn dying(round: &mut Round<'_>) -> bool {
    for _ in 0..60 {
        let Ok(mut conn) = Conn::tcp(round.scene.port) else { return round.lives_on() };
        conn.set_write_timeout(Duration::from_millis(50));
        let bytes = encoded(&last_words(round));
        let len = if round.rng.percent(50) { bytes.len() } else { round.rng.below(bytes.len()) };
        let _ = conn.send(&bytes[..len]);
        if round.rng.percent(50) {
            conn.reset_on_drop();
        }
        if round.rng.percent(30) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    round.scene.report.count("clients that died", 60);
    round.recover()
}

fn encoded(commands: &[Argv]) -> Vec<u8> {
    let mut bytes = Vec::new();
    commands.iter().for_each(|command| command.encode(&mut bytes));
    bytes
}

fn last_words(round: &mut Round<'_>) -> Vec<Argv> {
    match round.rng.below(8) {
        0 => vec![argv!["MULTI"], argv!["SET", "dying", "1"], argv!["EXEC"], argv!["GET", "dying"]],
        1 => vec![argv!["BLPOP", "dying:queue", "0"]],
        2 => vec![argv!["SET", "dying:large", vec![b'x'; 200_000]]],
        3 => vec![argv!["MGET", "a", "b", "c"]; 3000],
        4 => vec![argv!["SUBSCRIBE", "channel"], argv!["PSUBSCRIBE", "*"]],
        5 => vec![argv!["MONITOR"], argv!["PING"]],
        6 => vec![argv!["EVAL", "for i = 1, 300000 do end return redis.call('INCR', 'dying:script')", "0"]],
        _ => vec![argv!["WATCH", "a"], argv!["HELLO", "3"], argv!["CLIENT", "TRACKING", "ON", "BCAST"]],
    }
}

/// CLIENT PAUSE: what waits goes on when it is over.
pub fn pause(round: &mut Round<'_>) -> bool {
    let mode = if round.rng.percent(50) { "WRITE" } else { "ALL" };
    if let Err(reason) = round.ask(&argv!["CLIENT", "PAUSE", "300", mode])
        && round.lives_on()
    {
        round.scene.lose("commands of administration are answered", reason);
        return false;
    }
    round.pass(Duration::from_millis(350)) && round.recover()
}
