//! Clients that know each reply before it comes.

use super::super::scene::Scene;
use super::{Step, is_refusal};
use crate::argv;
use crate::resp::Value;
use crate::rng::Rng;

/// A client that sends pipelines in which each command has a reply of its own: echoes, errors that name their command,
/// transactions, scripts.
pub(super) fn client<'a>(scene: &'a Scene<'a>, mut rng: Rng) -> Step<'a> {
    let mut number = 0u64;
    Box::new(move |talk| {
        let (mut commands, mut wanted) = (Vec::new(), Vec::new());
        for _ in 0..1 + rng.below(40) {
            number += 1;
            let token = format!("token-{number}");
            match rng.below(4) {
                0 => commands.push(argv![format!("NOSUCH{token}")]),
                1 => commands.push(argv!["EVAL_RO", "return ARGV[1]", "0", token]),
                2 => {
                    let other = format!("{token}-inside");
                    commands.extend([argv!["MULTI"], argv!["ECHO", other], argv!["EXEC"]]);
                    wanted.extend(["OK".to_owned(), "QUEUED".to_owned(), other]);
                    continue;
                }
                _ => commands.push(argv!["ECHO", token]),
            }
            wanted.push(token);
        }
        let values = talk.exchange(&commands);
        for ((value, wanted), command) in values.iter().zip(&wanted).zip(&commands) {
            let has_it = match value {
                Value::Array(items) => items.len() == 1 && items[0].text() == *wanted,
                // A transaction whose MULTI was refused has replies of other kinds.
                other => other.text().contains(wanted.as_str()) || is_refusal(other),
            };
            let without_multi = wanted == "QUEUED" || command.upper(0) == "EXEC";
            if !(has_it || without_multi && values.iter().any(is_refusal)) {
                scene.fail("each reply belongs to its command", format!("{command}: {value}"));
                return false;
            }
        }
        scene.report.count("replies paired", values.len() as u64);
        values.len() == commands.len()
    })
}

/// A client that tracks keys which others change.
pub(super) fn tracker<'a>() -> Step<'a> {
    let mut turn = 0u64;
    Box::new(move |talk| {
        if turn.is_multiple_of(200) {
            let replies = talk.exchange(&[argv!["HELLO", "3"]]);
            let on = talk.exchange(&[argv!["CLIENT", "TRACKING", "ON"]]);
            if !matches!(replies[..], [Value::Map(_)]) || on.len() != 1 {
                return false;
            }
        }
        turn += 1;
        let mut bytes = Vec::new();
        argv!["MGET", "account:1", "counter:1", "a", "b"].encode(&mut bytes);
        if talk.conn().send(&bytes).is_err() {
            turn = 0;
            return false;
        }
        loop {
            match talk.receive() {
                Some(Value::Push(_)) => {}
                Some(_) => break,
                None => {
                    turn = 0;
                    return false;
                }
            }
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
        // A new connection now and then.
        !turn.is_multiple_of(200)
    })
}
