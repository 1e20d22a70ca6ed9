//! Commands that change users, and what follows for clients: a user who is gone loses its connections, one who may hear
//! less loses those that hear what is denied now.

use crate::blocking::kill;
use crate::clients::client::ClientHandle;
use crate::clients::session::States;
use crate::ctx::{CommandResult, Ctx};
use crate::error::CommandError;
use crate::messages::kind::Kind;
use crate::users::directory::Changed;
use crate::users::file::{self, unreadable};
use crate::users::rules::{is_name, merge_selectors};
use crate::users::user::DEFAULT_USER;

const BAD_NAME: CommandError = CommandError::fixed("ERR Usernames can't contain spaces or null characters");
const DEFAULT_STAYS: CommandError = CommandError::fixed("ERR The 'default' user cannot be removed");
const NO_ACL_FILE: CommandError = CommandError::fixed(
    "ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER \
     command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in order to store users \
     in the Redis configuration.",
);
const NOT_SAVED: CommandError = CommandError::fixed(
    "ERR There was an error trying to save the ACLs. Please check the server logs for more information",
);

/// `ACL SETUSER username [rule [rule ...]]`: all rules or none
pub(crate) fn acl_setuser(ctx: &mut Ctx<'_>) -> CommandResult {
    let (engine, name) = (ctx.engine, ctx.arg(2));
    if !is_name(name) {
        return Err(BAD_NAME.into());
    }
    let rules = merge_selectors(ctx.argv.iter().skip(3))
        .map_err(|word| CommandError::quoting("ERR Unmatched parenthesis in acl selector starting at '", word, "'."))?;
    let changed = engine.users.set(&engine.commands, name, &rules).map_err(|(at, error)| {
        CommandError::quoting("ERR Error in ACL SETUSER modifier '", &rules[at], &format!("': {error}"))
    })?;
    end_denied(ctx, &[changed]);
    ctx.reply_ok()
}

/// `ACL DELUSER username [username ...]`
pub(crate) fn acl_deluser(ctx: &mut Ctx<'_>) -> CommandResult {
    let names = ctx.argv.iter().skip(2);
    if names.clone().any(|name| name == DEFAULT_USER) {
        return Err(DEFAULT_STAYS.into());
    }
    let gone: Vec<Changed> = names.filter_map(|name| ctx.engine.users.remove(name)).collect();
    end_denied(ctx, &gone);
    ctx.reply_int(gone.len() as i64)
}

/// `ACL LOAD`: all of the file or nothing
pub(crate) fn acl_load(ctx: &mut Ctx<'_>) -> CommandResult {
    let path = ctx.engine.process.acl_file().ok_or(NO_ACL_FILE)?;
    // It waits for the disk, so no worker must execute it.
    ctx.leave_worker()?;
    let text = ctx.outside_of_gate(|engine| engine.process.read_file(&path));
    let engine = ctx.engine;
    let shown = path.to_string_lossy();
    let text = text.map_err(|error| CommandError::text(format!("ERR {}", unreadable(&shown, &error))))?;
    let users = file::parse(&engine.users, &engine.commands, &shown, &text)
        .map_err(|problems| CommandError::text(format!("ERR {problems}")))?;
    let changed = engine.users.replace_all(&engine.commands, users);
    end_denied(ctx, &changed);
    ctx.reply_ok()
}

/// `ACL SAVE`
pub(crate) fn acl_save(ctx: &mut Ctx<'_>) -> CommandResult {
    let path = ctx.engine.process.acl_file().ok_or(NO_ACL_FILE)?;
    ctx.leave_worker()?;
    let saved = ctx.outside_of_gate(|engine| engine.process.replace_file(&path, &file::text(&engine.users)));
    if let Err(error) = saved {
        tracing::warn!("The ACL file {} cannot be written: {error}", path.display());
        return Err(NOT_SAVED.into());
    }
    ctx.reply_ok()
}

/// Ends the connections of users that are gone, and those that hear what their user may not hear any more.
fn end_denied(ctx: &mut Ctx<'_>, changed: &[Changed]) {
    let is_gone = |client: &ClientHandle| {
        let user = client.user();
        changed.iter().any(|changed| changed.after.is_none() && std::ptr::eq(&*changed.user, &*user))
    };
    if changed.iter().any(|changed| changed.after.is_none()) {
        for client in ctx.engine.clients.all().iter().filter(|client| is_gone(client)) {
            end(ctx, client);
        }
    }
    let less: Vec<_> = changed.iter().filter(|changed| changed.hears_less()).collect();
    if less.is_empty() {
        return;
    }
    for kind in [Kind::Channel, Kind::Pattern, Kind::Shard] {
        let may_hear = |client: &ClientHandle, name: &[u8]| {
            let user = client.user();
            !less.iter().any(|changed| std::ptr::eq(&*changed.user, &*user))
                || user.may_hear(name, kind == Kind::Pattern)
        };
        for client in ctx.engine.messages.denied(kind, may_hear) {
            end(ctx, &client);
        }
    }
}

fn end(ctx: &mut Ctx<'_>, client: &ClientHandle) {
    if client.id == ctx.session.handle.id {
        ctx.session.states.insert(States::CLOSES);
    } else if !client.is_killed() {
        kill(ctx.engine, client);
    }
}
