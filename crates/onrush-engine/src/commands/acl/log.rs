//! Failed logins, and ACL LOG, which shows them.

use std::sync::atomic::Ordering::Relaxed;

use onrush_resp::Reply;

use crate::commands::connection::client::info_line;
use crate::ctx::{CommandResult, Ctx};
use crate::observe::acl_log::Denial;

/// Bytes of a user's name that are kept.
const USERNAME_LEN_MAX: usize = 1024;

/// Entries that ACL LOG returns by default.
const TOLD: i64 = 10;

/// Notes that the client failed to log in as `username`.
pub(crate) fn note_failed_login(ctx: &Ctx<'_>, username: &[u8]) {
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
pub(crate) fn acl_log(ctx: &mut Ctx<'_>) -> CommandResult {
    if ctx.argc() == 3 && ctx.is(2, "RESET") {
        ctx.engine.acl_log.reset();
        ctx.out.ok();
        return Ok(());
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
