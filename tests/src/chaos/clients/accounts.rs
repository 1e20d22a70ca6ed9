//! Accounts: amounts move between them in three ways, and the sum stays.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use super::super::scene::{Scene, Talk};
use super::{Step, is_refusal};
use crate::argv;
use crate::argv::Argv;
use crate::resp::Value;
use crate::rng::Rng;

const COUNT: usize = 16;
const EACH: i64 = 1000;
const MOVE: &str = "redis.call('DECRBY', KEYS[1], ARGV[1]) return redis.call('INCRBY', KEYS[2], ARGV[1])";

/// The accounts.
pub struct Accounts {
    ready: AtomicBool,
}

impl Accounts {
    pub(super) fn new() -> Accounts {
        Accounts { ready: AtomicBool::new(false) }
    }

    /// The command that opens all accounts.
    pub fn opening() -> Argv {
        let mut command = argv!["MSET"];
        for index in 0..COUNT {
            command.0.extend([key(index), EACH.to_string().into_bytes()]);
        }
        command
    }

    /// The command that reads all accounts.
    pub fn reading() -> Argv {
        let mut command = argv!["MGET"];
        command.0.extend((0..COUNT).map(key));
        command
    }

    /// Whether the accounts are open.
    pub fn set_ready(&self, ready: bool) {
        self.ready.store(ready, SeqCst);
    }

    /// The sum of a reply to [`Accounts::reading`]; `None` if there are no accounts at all.
    ///
    /// # Errors
    /// The reply has other things than amounts.
    pub fn sum(reply: &Value) -> Result<Option<i64>, String> {
        let items = reply.items().ok_or_else(|| reply.to_string())?;
        if items.iter().all(|item| matches!(item, Value::Null(_))) {
            return Ok(None);
        }
        items
            .iter()
            .map(|item| item.text().parse::<i64>().map_err(|_| reply.to_string()))
            .sum::<Result<_, _>>()
            .map(Some)
    }

    /// Compares a reply to [`Accounts::reading`] with what it should be.
    pub fn check(scene: &Scene<'_>, reply: &Value) {
        let want = COUNT as i64 * EACH;
        match Self::sum(reply) {
            Ok(Some(sum)) if sum == want => scene.report.count("sums checked", 1),
            Ok(sum) => scene.fail("the sum of all accounts stays", format!("{sum:?} instead of {want}: {reply}")),
            Err(got) => scene.fail("the sum of all accounts stays", got),
        }
    }

    /// A client that moves amounts: by MULTI, by a script, by WATCH.
    pub(super) fn mover<'a>(&'a self, scene: &'a Scene<'a>, way: usize, mut rng: Rng) -> Step<'a> {
        Box::new(move |talk| {
            if !self.ready.load(SeqCst) || scene.settings.evicts_all {
                std::thread::sleep(std::time::Duration::from_millis(20));
                return true;
            }
            let from = rng.below(COUNT);
            let to = (from + 1 + rng.below(COUNT - 1)) % COUNT;
            let (from, to, amount) = (key(from), key(to), rng.between(1, 9));
            let serves = match way {
                0 => by_multi(talk, &from, &to, amount),
                1 => talk.exchange(&[argv!["EVAL", MOVE, "2", from, to, amount.to_string()]]).len() == 1,
                _ => by_watch(scene, talk, &from, &to, amount),
            };
            scene.report.count("transfers", 1);
            serves
        })
    }

    /// A client that reads the sum.
    pub(super) fn auditor<'a>(&'a self, scene: &'a Scene<'a>) -> Step<'a> {
        Box::new(move |talk| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            if !self.ready.load(SeqCst) || scene.settings.evicts_all {
                return true;
            }
            match &talk.exchange(&[Self::reading()])[..] {
                [] => return false,
                [reply] if is_refusal(reply) => {}
                [reply, ..] => Self::check(scene, reply),
            }
            true
        })
    }
}

fn key(index: usize) -> Vec<u8> {
    format!("account:{index}").into_bytes()
}

fn by_multi(talk: &mut Talk<'_, '_>, from: &[u8], to: &[u8], amount: i64) -> bool {
    let amount = amount.to_string();
    let commands = [argv!["MULTI"], argv!["DECRBY", from, amount], argv!["INCRBY", to, amount], argv!["EXEC"]];
    talk.exchange(&commands).len() == commands.len()
}

fn by_watch(scene: &Scene<'_>, talk: &mut Talk<'_, '_>, from: &[u8], to: &[u8], amount: i64) -> bool {
    let read = talk.exchange(&[argv!["WATCH", from, to], argv!["MGET", from, to]]);
    let [_, amounts] = &read[..] else { return false };
    let amounts: Vec<i64> =
        amounts.items().unwrap_or_default().iter().filter_map(|item| item.text().parse().ok()).collect();
    let [had, has] = amounts[..] else {
        return talk.exchange(&[argv!["UNWATCH"]]).len() == 1;
    };
    let set = |key: &[u8], amount: i64| argv!["SET", key, amount.to_string()];
    // A WATCH that was refused watches nothing.
    if read[0].is_error() {
        return talk.exchange(&[argv!["UNWATCH"]]).len() == 1;
    }
    let commands = [argv!["MULTI"], set(from, had - amount), set(to, has + amount), argv!["EXEC"]];
    let replies = talk.exchange(&commands);
    if replies.len() == commands.len() && replies[0].is_error() {
        // Without MULTI the two SETs were commands of their own, which are half a transfer each.
        let done = replies[1..3].iter().any(|reply| !reply.is_error());
        if done {
            scene.fail("MULTI is refused only together with what follows", format!("{}", replies[0]));
        }
    }
    replies.len() == commands.len()
}
