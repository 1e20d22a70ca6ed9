//! What was denied lately: failed logins, which ACL LOG tells.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;

use onrush_resp::Reply;
use parking_lot::Mutex;

use crate::commands::client::info_line;
use crate::ctx::{CommandResult, Ctx};

/// Milliseconds in which the same denials count as one entry.
const SAME_MS_MAX: i64 = 60_000;

/// Bytes of a user's name that are kept.
const USERNAME_LEN_MAX: usize = 1024;

/// Entries that ACL LOG tells unless said otherwise.
const TOLD: i64 = 10;

/// The denials, the latest first.
#[derive(Default)]
pub struct AclLog(Mutex<Entries>);

#[derive(Default)]
struct Entries {
    list: VecDeque<Denial>,
    next_id: i64,
}

struct Denial {
    id: i64,
    count: i64,
    username: Vec<u8>,
    /// The command by which the client wanted to come in.
    object: Vec<u8>,
    client: Vec<u8>,
    created_ms: i64,
    updated_ms: i64,
}

impl AclLog {
    fn add(&self, denial: Denial, len_max: usize) {
        let mut entries = self.0.lock();
        let is_same = |known: &Denial| {
            known.username == denial.username
                && known.object == denial.object
                && denial.updated_ms - known.updated_ms <= SAME_MS_MAX
        };
        let place = entries.list.iter().position(is_same);
        let first = match place.and_then(|place| entries.list.remove(place)) {
            Some(known) => {
                let Denial { client, updated_ms, .. } = denial;
                Denial { count: known.count + 1, client, updated_ms, ..known }
            }
            None => {
                let id = entries.next_id;
                entries.next_id += 1;
                Denial { id, ..denial }
            }
        };
        entries.list.push_front(first);
        entries.list.truncate(len_max);
    }
}

/// Notes that the client could not come in as `username`.
pub fn note_failed_login(ctx: &Ctx<'_>, username: &[u8]) {
    let now_ms = ctx.now_ms();
    let denial = Denial {
        id: 0,
        count: 1,
        username: username[..username.len().min(USERNAME_LEN_MAX)].to_vec(),
        object: ctx.arg(0).to_vec(),
        client: info_line(ctx).trim_ascii_end().to_vec(),
        created_ms: now_ms,
        updated_ms: now_ms,
    };
    ctx.engine.acl_log.add(denial, ctx.engine.settings.acl_log_len_max.load(Relaxed));
}

/// `ACL LOG [count | RESET]`
pub fn acl_log(ctx: &mut Ctx<'_>) -> CommandResult {
    if ctx.argc() == 3 && ctx.is(2, "RESET") {
        ctx.engine.acl_log.0.lock().list.clear();
        ctx.out.ok();
        return Ok(());
    }
    let count = match ctx.argc() {
        2 => TOLD,
        3 => ctx.int(2)?,
        _ => return Err(ctx.wrong_subcommand()),
    };
    let now_ms = ctx.now_ms();
    let entries = ctx.engine.acl_log.0.lock();
    let len = entries.list.len().min(usize::try_from(count).unwrap_or(0));
    ctx.out.array(len);
    for denial in entries.list.iter().take(len) {
        tell(denial, now_ms, ctx.out);
    }
    Ok(())
}

fn tell(denial: &Denial, now_ms: i64, out: &mut Reply) {
    let numbers = [
        ("entry-id", denial.id),
        ("timestamp-created", denial.created_ms),
        ("timestamp-last-updated", denial.updated_ms),
    ];
    let texts: [(&str, &[u8]); 4] =
        [("reason", b"auth"), ("context", b"toplevel"), ("object", &denial.object), ("username", &denial.username)];
    out.map(3 + texts.len() + numbers.len());
    out.bulk(b"count");
    out.int(denial.count);
    for (field, text) in texts {
        out.bulk(field.as_bytes());
        out.bulk(text);
    }
    out.bulk(b"age-seconds");
    out.double((now_ms - denial.updated_ms) as f64 / 1000.0);
    out.bulk(b"client-info");
    out.bulk(&denial.client);
    for (field, number) in numbers {
        out.bulk(field.as_bytes());
        out.int(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denial(username: &str, at_ms: i64) -> Denial {
        let (username, object, client) = (username.as_bytes().to_vec(), b"AUTH".to_vec(), b"id=1".to_vec());
        Denial { id: 0, count: 1, username, object, client, created_ms: at_ms, updated_ms: at_ms }
    }

    fn told(log: &AclLog) -> Vec<(i64, i64, i64)> {
        log.0.lock().list.iter().map(|denial| (denial.id, denial.count, denial.created_ms)).collect()
    }

    #[test]
    fn the_same_denials_within_a_minute_are_one_entry() {
        let log = AclLog::default();
        for (username, at_ms) in [("a", 0), ("b", 1), ("a", 60_000), ("a", 120_000), ("a", 180_001)] {
            log.add(denial(username, at_ms), 10);
        }
        assert_eq!(told(&log), [(2, 1, 180_001), (0, 3, 0), (1, 1, 1)]);
    }

    #[test]
    fn the_oldest_entries_go_when_there_are_too_many() {
        let log = AclLog::default();
        for at in 0..5 {
            log.add(denial(&format!("user{at}"), at), 2);
        }
        assert_eq!(told(&log), [(4, 1, 4), (3, 1, 3)]);
        log.add(denial("last", 9), 0);
        assert_eq!(told(&log), []);
    }
}
