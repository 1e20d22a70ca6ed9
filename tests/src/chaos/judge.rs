//! The judge of liveness: whatever happens to the server, a new connection gets its replies in time.

use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use super::host::threads;
use super::scene::{Scene, ask_all};
use super::settings::Fsync;
use crate::argv;
use crate::argv::Argv;
use crate::resp::Value;

/// Time between two new connections.
const EVERY: Duration = Duration::from_millis(100);
/// How many times the bound the judge waits, to tell late replies from none.
const PATIENCE: u32 = 4;
/// Beginnings of errors that say why the server does not do more now.
const REFUSALS: [&str; 7] =
    ["BUSY ", "LOADING ", "MISCONF ", "OOM ", "NOAUTH ", "ERR max number of clients", "NOREPLICAS"];

/// Whether a reply to PING is one that a living server gives.
pub fn is_answer(reply: &Value) -> bool {
    match reply {
        Value::Error(text) => {
            let text = String::from_utf8_lossy(text);
            REFUSALS.iter().any(|refusal| text.starts_with(refusal))
        }
        other => other.text() == "PONG",
    }
}

/// Judges until the round is over.
pub fn judge(scene: &Scene<'_>) {
    let mut turn = 0u64;
    while !scene.over.load(SeqCst) {
        if scene.up.load(SeqCst) && !scene.lost.load(SeqCst) {
            turn += 1;
            probe(scene, turn);
        }
        std::thread::sleep(EVERY);
    }
}

/// What is asked in turn, and its name. `always`: replies wait for the disk, also the one to CLIENT DURABILITY.
fn question(turn: u64, always: bool) -> (&'static str, Vec<Argv>) {
    match turn % 4 {
        0 => ("a new connection gets INFO in time", vec![argv!["INFO", "everything"]]),
        // Reads say nothing of the disk on such a connection.
        1 if !always => {
            let commands = vec![argv!["CLIENT", "DURABILITY", "no"], argv!["GET", "probe"]];
            ("a new connection that does not wait for the disk reads in time", commands)
        }
        _ => ("a new connection gets PONG, or an error that says why not, in time", vec![argv!["PING"]]),
    }
}

fn probe(scene: &Scene<'_>, turn: u64) {
    let (life, before, began) = (scene.life.load(SeqCst), scene.load(), Instant::now());
    let (expected, commands) = question(turn, scene.settings.log == Some(Fsync::Always));
    let answer = ask_all(scene.port, &commands, scene.bounds.answer_max * PATIENCE);
    let took = began.elapsed();
    // The one who ends the server says so before.
    if !scene.is_in(life) || scene.lost.load(SeqCst) {
        return;
    }
    scene.report.count("questions of the judge", 1);
    let bound = scene.stretched(scene.bounds.answer_max, before);
    match answer {
        Ok(replies) if commands[0].upper(0) == "PING" && !is_answer(&replies[0]) => {
            scene.fail(expected, format!("PING: {}", replies[0]));
        }
        Ok(_) if took > bound => {
            let threads = threads(scene.pid.load(SeqCst));
            scene.fail(expected, format!("{took:.1?} for {}; the bound is {bound:.1?}\n{threads}", commands[0]));
        }
        Ok(_) => {}
        // Nobody has had a processor; the next one asks again.
        Err(reason) if reason.starts_with("no reply") && took < bound => {}
        Err(reason) if reason.starts_with("no reply") => {
            scene.lose(expected, format!("{reason} to {}\n{}", commands[0], threads(scene.pid.load(SeqCst))));
        }
        // The process may have died, which others find.
        Err(reason) => {
            std::thread::sleep(Duration::from_millis(300));
            if scene.is_in(life) && !scene.rough.load(SeqCst) && crate::process::is_alive(scene.pid.load(SeqCst)) {
                scene.fail(expected, format!("{reason} for {}", commands[0]));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pong_and_reasons_are_answers() {
        for (reply, answers) in [
            (Value::Status(b"PONG".to_vec()), true),
            (Value::Error(b"BUSY Redis is busy running a script.".to_vec()), true),
            (Value::Error(b"MISCONF Errors writing to the AOF file: x".to_vec()), true),
            (Value::Error(b"ERR unknown command".to_vec()), false),
            (Value::Status(b"OK".to_vec()), false),
        ] {
            assert_eq!(is_answer(&reply), answers, "{reply}");
        }
    }
}
