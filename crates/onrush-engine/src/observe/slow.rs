//! Noting what took long, in the slow logs and for the latency monitor, and what makes keys hot.

use std::hint::cold_path;
use std::time::Duration;

use crate::batch::argv::Argv;
use crate::clients::client::ClientHandle;
use crate::command::find_keys::keys_of;
use crate::command::{Command, Flags};
use crate::ctx::Ctx;
use crate::observe::latency::Event;
use crate::observe::slow_batch::{BatchTimes, SlowBatch};
use crate::observe::slowlog::{Entry, cut};
use crate::shared::Shared;

/// Text in place of a password.
const SECRET: &[u8] = b"(redacted)";

/// Takes note of the command that `ctx` has just executed, if it took long.
#[inline]
pub(crate) fn note_command(ctx: &Ctx<'_>, nanos: u64) {
    if ctx.engine.settings.timing.is_long(nanos) {
        cold_path();
        if let Some(waiter) = ctx.session.waiter.as_ref().filter(|waiter| !waiter.is_offloaded()) {
            // It goes into the slow log once it has its reply.
            waiter.note_begin(nanos);
        } else if !ctx.command.flags.contains(Flags::SKIP_SLOWLOG) {
            note_slow(ctx.engine, &ctx.session.handle, nanos, || arguments(ctx.command, &ctx.argv, |_| None));
        }
        ctx.engine.note_event(event_of(ctx.command), Duration::from_nanos(nanos));
    }
}

/// Takes note of equal commands in a row, the last of which `ctx` has just executed, if they took long together.
pub(crate) fn note_together(ctx: &Ctx<'_>, command: &Command, calls: u64, nanos: u64) {
    if ctx.engine.settings.timing.is_long(nanos) {
        cold_path();
        note_slow(ctx.engine, &ctx.session.handle, nanos, || {
            vec![command.full_name.as_bytes().to_ascii_uppercase(), one_of(calls).into_bytes()]
        });
        ctx.engine.note_event(event_of(command), Duration::from_nanos(nanos));
    }
}

/// What the slow log says of commands that were timed together.
pub(crate) fn one_of(commands: u64) -> String {
    format!("(one of {commands} commands, or all together)")
}

/// The event that a slow command is.
pub(crate) fn event_of(command: &Command) -> Event {
    if command.flags.contains(Flags::FAST) { Event::FastCommand } else { Event::Command }
}

/// Adds an entry to the slow log, if this time counts as slow.
pub(crate) fn note_slow(shared: &Shared, client: &ClientHandle, nanos: u64, args: impl FnOnce() -> Vec<Vec<u8>>) {
    let timing = &shared.settings.timing;
    if timing.is_slow(nanos) {
        let (at_s, took_us, args) = (shared.clock.unix_us() / 1_000_000, nanos / 1000, args());
        let (addr, name) = (client.addr.clone(), client.short_name());
        shared.slowlog.add(timing.slowlog_len_max(), |id| Entry { id, at_s, took_us, args, addr, name });
    }
}

/// A command's arguments as the slow log keeps them: cut, and without passwords. `instead`: what was sent in the place of some.
pub(crate) fn arguments<'a>(
    command: &Command,
    argv: &Argv<'a>,
    instead: impl Fn(usize) -> Option<&'a [u8]>,
) -> Vec<Vec<u8>> {
    let shown = |(index, arg)| if is_secret(command, argv, index) { SECRET } else { instead(index).unwrap_or(arg) };
    cut(argv.len(), argv.iter().enumerate().map(shown))
}

/// Whether an argument must not be shown to others.
pub fn is_secret(command: &Command, argv: &Argv<'_>, index: usize) -> bool {
    let is = |at: usize, word: &[u8]| argv.get(at).eq_ignore_ascii_case(word);
    match &*command.full_name {
        "auth" => index > 0,
        "hello" => (index.saturating_sub(2)..index).any(|at| at > 1 && is(at, b"AUTH")),
        "acl|setuser" => index > 2,
        "migrate" => is_migrate_secret(argv, index),
        "config|set" if index > 2 && index % 2 == 1 => {
            let name = argv.get(index - 1).to_ascii_lowercase();
            [&b"pass"[..], b"auth", b"masteruser"].iter().any(|part| memchr::memmem::find(&name, part).is_some())
        }
        _ => false,
    }
}

/// Whether an argument of MIGRATE is a user or a password for the other server. Options are read from the left, as a
/// password may look like one; behind more of them than anybody sends, everything counts as secret. O(1).
fn is_migrate_secret(argv: &Argv<'_>, index: usize) -> bool {
    const OPTIONS: usize = 6;
    const READ_TO: usize = OPTIONS + 64;
    let mut at = OPTIONS;
    while at < index.min(READ_TO) {
        let word = argv.get(at);
        let values = match () {
            () if word.eq_ignore_ascii_case(b"KEYS") => return false,
            () if word.eq_ignore_ascii_case(b"AUTH") => 1,
            () if word.eq_ignore_ascii_case(b"AUTH2") => 2,
            () => 0,
        };
        if index <= at + values {
            return true;
        }
        at += 1 + values;
    }
    index >= READ_TO
}

/// Counts the command that `ctx` has just executed, with the bytes of its reply, for the hot keys.
#[cold]
pub(crate) fn note_hot_keys(ctx: &Ctx<'_>, nanos: u64, reply_bytes: usize) {
    let keys: Vec<&[u8]> = keys_of(ctx.command, ctx.argv).collect();
    let bytes = ctx.argv.iter().map(<[u8]>::len).sum::<usize>() + reply_bytes;
    if !ctx.engine.hotkeys.add(&keys, nanos, bytes as u64, ctx.now_ms()) {
        // The session's time is over.
        ctx.engine.settings.timing.sample_hot_keys(0);
    }
}

/// Takes note of a batch of `client`, if it took as long as `slowlog-log-slower-than` says.
#[cold]
pub fn note_batch(shared: &Shared, client: &ClientHandle, times: BatchTimes) {
    let timing = &shared.settings.timing;
    if timing.is_slow(times.total().as_nanos() as u64) {
        let (at_s, addr, name) = (shared.clock.unix_us() / 1_000_000, client.addr.clone(), client.short_name());
        shared.slow_batches.add(timing.slowlog_len_max(), |id| SlowBatch { id, at_s, times, addr, name });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::CommandTable;
    use crate::commands::FAMILIES;
    use onrush_resp::ArgRange;

    fn shown(line: &str) -> String {
        let mut ranges = Vec::new();
        let mut at = 0;
        for word in line.split(' ') {
            ranges.push(ArgRange::new(at, word.len()));
            at += word.len() + 1;
        }
        let table = CommandTable::new(FAMILIES);
        let argv = Argv::new(line.as_bytes(), &ranges, &[]);
        let args = arguments(table.resolve(&argv).expect("a command"), &argv, |_| None);
        String::from_utf8(args.join(&b' ')).expect("text")
    }

    #[test]
    fn passwords_are_not_shown() {
        for (line, expected) in [
            ("AUTH secret", "AUTH (redacted)"),
            ("AUTH default secret", "AUTH (redacted) (redacted)"),
            ("HELLO 3 AUTH default secret SETNAME me", "HELLO 3 AUTH (redacted) (redacted) SETNAME me"),
            ("HELLO 3 SETNAME me", "HELLO 3 SETNAME me"),
            ("CONFIG SET requirepass secret hz 10", "CONFIG SET requirepass (redacted) hz 10"),
            ("CONFIG SET hz 10 MasterAuth secret", "CONFIG SET hz 10 MasterAuth (redacted)"),
            ("MIGRATE h 1 k 0 10 COPY AUTH secret", "MIGRATE h 1 k 0 10 COPY AUTH (redacted)"),
            ("MIGRATE h 1 k 0 10 auth2 me secret KEYS a", "MIGRATE h 1 k 0 10 auth2 (redacted) (redacted) KEYS a"),
            ("MIGRATE h 1 k 0 10 KEYS AUTH b", "MIGRATE h 1 k 0 10 KEYS AUTH b"),
            ("MIGRATE AUTH 1 k 0 10 AUTH", "MIGRATE AUTH 1 k 0 10 AUTH"),
            ("MIGRATE h 1 k 0 10 AUTH KEYS AUTH KEYS", "MIGRATE h 1 k 0 10 AUTH (redacted) AUTH (redacted)"),
            ("ACL SETUSER me >secret on", "ACL SETUSER me (redacted) (redacted)"),
            ("SET auth secret", "SET auth secret"),
        ] {
            assert_eq!(shown(line), expected);
        }
    }
}
