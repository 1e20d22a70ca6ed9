//! Clients that wait for others: at a queue, for messages, for everything that is done.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use super::super::scene::Scene;
use super::{Step, is_refusal};
use crate::argv;
use crate::resp::Value;

/// Pushes numbers to a queue, and the one who waits for them: in order, none twice in the life of a server.
pub(super) fn queue<'a>(scene: &'a Scene<'a>) -> [Step<'a>; 2] {
    let mut pushed = 0u64;
    let pusher = Box::new(move |talk: &mut super::Talk<'_, '_>| {
        let batch: Vec<_> = (0..5).map(|n| argv!["RPUSH", "queue", (pushed + n).to_string()]).collect();
        pushed += 5;
        std::thread::sleep(Duration::from_millis(5));
        talk.exchange(&batch).len() == batch.len()
    });
    let mut last = (0, -1);
    let popper = Box::new(move |talk: &mut super::Talk<'_, '_>| {
        let life = scene.life.load(SeqCst);
        let Some(reply) = talk.exchange(&[argv!["BLPOP", "queue", "0.5"]]).pop() else { return false };
        let number: Option<i64> =
            reply.items().and_then(|items| items.get(1)).and_then(|item| item.text().parse().ok());
        match number {
            Some(number) => {
                if last.0 == life && number <= last.1 {
                    scene.fail("a queue gives each element once, in order", format!("{number} behind {}", last.1));
                }
                last = (life, number);
                scene.report.count("elements popped", 1);
            }
            None if matches!(reply, Value::Null(_)) || is_refusal(&reply) => {}
            // A transaction of others was killed, or the client was told to go on.
            None => scene.fail("a queue gives each element once, in order", reply.to_string()),
        }
        true
    });
    [pusher, popper]
}

/// Publishes numbers, and the one who hears them: each, in order, as long as its connection lasts.
pub(super) fn channel<'a>(scene: &'a Scene<'a>) -> [Step<'a>; 2] {
    let published = Arc::new(AtomicU64::new(0));
    let publisher = Box::new(move |talk: &mut super::Talk<'_, '_>| {
        let first = published.fetch_add(8, SeqCst);
        let batch: Vec<_> = (0..8).map(|n| argv!["PUBLISH", "channel", (first + n).to_string()]).collect();
        std::thread::sleep(Duration::from_millis(5));
        talk.exchange(&batch).len() == batch.len()
    });
    let mut last: Option<i64> = None;
    let mut subscribed = false;
    let subscriber = Box::new(move |talk: &mut super::Talk<'_, '_>| {
        if !subscribed {
            last = None;
            match talk.exchange(&[argv!["SUBSCRIBE", "channel"]]).pop() {
                Some(Value::Array(_)) => subscribed = true,
                _ => return false,
            }
        }
        match talk.look() {
            Ok(None) => {}
            Ok(Some(message)) => {
                let number = message.items().and_then(|items| items.get(2)).and_then(|item| item.text().parse().ok());
                let follows = number.zip(last).is_none_or(|(number, last): (i64, i64)| number > last);
                if number.is_none() || !follows {
                    scene.fail("messages come in order", format!("{message} behind {last:?}"));
                }
                last = number.or(last);
                scene.report.count("messages heard", 1);
            }
            Err(_) => {
                subscribed = false;
                return false;
            }
        }
        true
    });
    [publisher, subscriber]
}

/// Watches all commands for a while, again and again.
pub(super) fn monitor<'a>() -> Step<'a> {
    let mut seen = None;
    Box::new(move |talk| {
        if seen.is_none() && talk.exchange(&[argv!["MONITOR"]]).len() != 1 {
            return false;
        }
        // A command of 100 MB is one line.
        seen = talk.drop_lines().ok().map(|lines| seen.unwrap_or(0) + lines).filter(|seen| *seen < 20_000);
        seen.is_some()
    })
}
