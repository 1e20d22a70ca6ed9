//! Failed logins and denied commands, and ACL LOG, which shows them.

use onrush_resp::Reply;

use crate::batch::argv::Argv;
use crate::command::Command;
use crate::commands::connection::client::info_line;
use crate::commands::reply::Fields;
use crate::ctx::{CommandResult, Ctx};
use crate::observe::acl_log::{Context, Denial, Reason};
use crate::users::check::Denied;

/// Bytes of a user's name, a key or a channel that are kept.
const TEXT_LEN_MAX: usize = 1024;

/// Bytes of a user's name that the server's log shows.
const SHOWN_LEN_MAX: usize = 64;

/// Bytes of the client's line that are kept: its name may have any length.
const CLIENT_LEN_MAX: usize = 4096;

/// Entries that ACL LOG returns by default.
const TOLD: i64 = 10;

fn denial(ctx: &Ctx<'_>, reason: Reason, context: Context, username: &[u8], object: &[u8]) -> Denial {
    let kept = |text: &[u8]| text[..text.len().min(TEXT_LEN_MAX)].to_vec();
    let client = info_line(ctx);
    let client = client.trim_ascii_end();
    let now_ms = ctx.now_ms();
    Denial {
        id: 0,
        count: 1,
        reason,
        context,
        username: kept(username),
        object: kept(object),
        client: client[..client.len().min(CLIENT_LEN_MAX)].to_vec(),
        created_ms: now_ms,
        updated_ms: now_ms,
    }
}

/// Notes that the client failed to log in as `username`.
pub(crate) fn note_failed_login(ctx: &Ctx<'_>, username: &[u8]) {
    if let Some(times) = ctx.engine.acl_log.tells(ctx.now_ms()) {
        let (user, addr) = (username[..username.len().min(SHOWN_LEN_MAX)].escape_ascii(), &ctx.session.handle.addr);
        let since = if times > 1 { format!(", {times} times since the last such line") } else { String::new() };
        tracing::warn!("A client failed to log in{since}: last from {addr} as user '{user}'");
    }
    ctx.engine.note_denial(denial(ctx, Reason::Login, Context::TopLevel, username, ctx.arg(0)));
}

/// What is to be noted if a command with these arguments is denied to the client.
pub(crate) fn denial_of(ctx: &Ctx<'_>, command: &Command, argv: &Argv<'_>, denied: Denied, context: Context) -> Denial {
    let (reason, object) = match denied {
        Denied::Command => (Reason::Command, command.full_name.as_bytes()),
        Denied::Key(at) => (Reason::Key, argv.get(at)),
        Denied::Channel(at) => (Reason::Channel, argv.get(at)),
    };
    denial(ctx, reason, context, ctx.session.handle.user().name(), object)
}

/// `ACL LOG [count | RESET]`
pub(crate) fn acl_log(ctx: &mut Ctx<'_>) -> CommandResult {
    if ctx.argc() == 3 && ctx.is(2, "RESET") {
        ctx.engine.acl_log.reset();
        return ctx.reply_ok();
    }
    let count = match ctx.argc() {
        2 => TOLD,
        3 => ctx.int(2)?,
        _ => return Err(ctx.wrong_subcommand().into()),
    };
    let now_ms = ctx.now_ms();
    ctx.engine.acl_log.latest(usize::try_from(count).unwrap_or(0), |len, denials| {
        ctx.out.array(len);
        denials.for_each(|denial| tell(denial, now_ms, ctx.out));
    });
    Ok(())
}

fn tell(denial: &Denial, now_ms: i64, out: &mut Reply) {
    out.map(10);
    out.int_field("count", denial.count);
    out.bulk_field("reason", denial.reason.word());
    out.bulk_field("context", denial.context.word());
    out.bulk_field("object", &denial.object);
    out.bulk_field("username", &denial.username);
    out.bulk(b"age-seconds");
    out.double((now_ms - denial.updated_ms) as f64 / 1000.0);
    out.bulk_field("client-info", &denial.client);
    out.int_field("entry-id", denial.id);
    out.int_field("timestamp-created", denial.created_ms);
    out.int_field("timestamp-last-updated", denial.updated_ms);
}
