//! Showing commands to clients that monitor.
//!
//! While there are any, commands are executed one by one: each is shown after its execution, before its locks go back.

use std::hint::cold_path;
use std::io::Write;

use onrush_resp::push_quoted;

use super::outbox::Parcel;
use crate::command::Flags;
use crate::ctx::Ctx;
use crate::observe::slow::is_secret;
use crate::shared::Shared;

/// Shows the present command, which was executed, to all who monitor. O(arguments + monitors).
#[cold]
pub(crate) fn show(ctx: &mut Ctx<'_>) {
    if !ctx.command.flags.intersects(Flags::ADMIN | Flags::SKIP_MONITOR) {
        let line = line(ctx, None);
        ctx.commit.show(line);
    }
}

/// As [`show`], for a command that is about to run a script, whose commands come after it. If the command begins anew,
/// perhaps on another thread, it is not shown again.
pub(crate) fn show_script(ctx: &mut Ctx<'_>) {
    if !ctx.engine.messages.has_monitors() {
        return;
    }
    cold_path();
    // In a transaction, the line is undone with the command.
    if ctx.commit.is_nested() || !std::mem::replace(&mut ctx.session.is_script_shown, true) {
        let line = line(ctx, None);
        ctx.commit.show(line);
    }
}

/// As [`show`], for a command that a script calls.
#[cold]
pub(crate) fn show_of_script(ctx: &mut Ctx<'_>) {
    if !ctx.command.flags.intersects(Flags::ADMIN | Flags::SKIP_MONITOR) {
        let line = line(ctx, Some("lua"));
        ctx.commit.show(line);
    }
}

/// Sends a line to all who monitor, from thread `thread`.
pub(crate) fn show_line(shared: &'static Shared, thread: usize, line: Vec<u8>) {
    let parcel = Parcel::new(line, &shared.messages.parcel_bytes);
    let limits = shared.settings.output_limits();
    for client in &*shared.messages.monitors.clients.read() {
        client.send(&parcel, &limits, shared, thread);
    }
}

/// The line for the present command; `source` is its source, if that is not the client.
fn line(ctx: &Ctx<'_>, source: Option<&str>) -> Vec<u8> {
    let (client, us) = (&ctx.session.handle, ctx.engine.clock.unix_us());
    let (seconds, us) = (us / 1_000_000, us % 1_000_000);
    let mut line = format!("+{seconds}.{us:06} [{} ", ctx.commit.db()).into_bytes();
    // Writing to memory does not fail.
    _ = match (source, client.addr.strip_suffix(":0")) {
        (Some(source), _) => write!(line, "{source}]"),
        (None, Some(path)) if client.unix => write!(line, "unix:{path}]"),
        _ => write!(line, "{}]", client.addr),
    };
    for index in 0..ctx.argc() {
        match is_secret(ctx.command, &ctx.argv, index) {
            true => line.extend_from_slice(b" \"(redacted)\""),
            false => {
                line.push(b' ');
                push_quoted(&mut line, ctx.arg(index));
            }
        }
    }
    line.extend_from_slice(b"\r\n");
    line
}
