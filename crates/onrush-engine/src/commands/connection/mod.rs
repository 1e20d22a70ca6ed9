//! The connection itself: protocol, database, authentication, its end.

pub(crate) mod client;
pub(crate) mod specs;
pub(crate) mod tracking;

use std::sync::atomic::Ordering::Relaxed;

use onrush_resp::{Proto, REDIS_VERSION};

use crate::clients::session::States;
use crate::cluster::hearing::hear_primary;
use crate::commands::acl::log::note_failed_login;
use crate::commands::connection::client::{check_name, set_name};
use crate::commands::keys::db_argument;
use crate::commands::reply::Fields;
use crate::ctx::{CommandResult, Ctx};
use crate::error::{self, CommandError};
use crate::users::user::DEFAULT_USER;

const WRONG_PASSWORD: CommandError =
    CommandError::fixed("WRONGPASS invalid username-password pair or user is disabled.");
const NO_PASSWORD: CommandError = CommandError::fixed(
    "ERR AUTH <password> called without any password configured for the default user. Are you sure your \
     configuration is correct?",
);
const HELLO_NO_AUTH: CommandError = CommandError::fixed(
    "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> \
     option can be used to authenticate the client and select the RESP protocol version at the same time",
);
const NO_PROTO: CommandError = CommandError::fixed("NOPROTO unsupported protocol version");
const PROTO_NOT_INTEGER: CommandError = CommandError::fixed("ERR Protocol version is not an integer or out of range");

const NO_SELECT: CommandError = CommandError::fixed("ERR SELECT is not allowed in cluster mode");

/// `AUTH [username] password`
pub(crate) fn auth(ctx: &mut Ctx<'_>) -> CommandResult {
    match ctx.argc() {
        2 if ctx.engine.users.is_open() => return Err(NO_PASSWORD.into()),
        2 => authenticate(ctx, DEFAULT_USER, ctx.arg(1))?,
        3 => authenticate(ctx, ctx.arg(1), ctx.arg(2))?,
        _ => return Err(error::SYNTAX.into()),
    }
    ctx.reply_ok()
}

/// Authenticates the connection if the password is right; otherwise its state stays.
fn authenticate(ctx: &mut Ctx<'_>, user: &[u8], password: &[u8]) -> CommandResult {
    let (users, session) = (&ctx.engine.users, &mut *ctx.session);
    if !users.log_in(user, password, |user| session.log_in(user, users)) {
        note_failed_login(ctx, user);
        return Err(WRONG_PASSWORD.into());
    }
    Ok(())
}

/// `HELLO [protover [AUTH username password] [SETNAME clientname]]`: nothing takes effect before all options are read
pub(crate) fn hello(ctx: &mut Ctx<'_>) -> CommandResult {
    let proto = match ctx.argc() {
        1 => None,
        _ => match ctx.int_or(1, PROTO_NOT_INTEGER)? {
            2 => Some(Proto::Resp2),
            3 => Some(Proto::Resp3),
            _ => return Err(NO_PROTO.into()),
        },
    };
    let (mut login, mut name) = (None, None);
    let mut rest = ctx.rest(2);
    while let Some(option) = rest.peek() {
        if rest.take_with("AUTH", 2) {
            login = Some((rest.next_arg(), rest.next_arg()));
        } else if rest.take_with("SETNAME", 1) {
            let text = rest.next_arg();
            check_name(text)?;
            name = Some(text);
        } else {
            return Err(CommandError::quoting("ERR Syntax error in HELLO option '", option, "'").into());
        }
    }
    if let Some((user, password)) = login {
        authenticate(ctx, user, password)?;
    }
    if !ctx.session.is_authenticated() {
        return Err(HELLO_NO_AUTH.into());
    }
    if let Some(name) = name {
        set_name(ctx, name)?;
    }
    if let Some(proto) = proto {
        set_proto(ctx, proto);
    }
    greet(ctx);
    Ok(())
}

/// Replies with facts about the server.
fn greet(ctx: &mut Ctx<'_>) {
    let proto = if ctx.out.is_resp3() { 3 } else { 2 };
    let out = &mut *ctx.out;
    out.map(7);
    out.bulk_field("server", "redis");
    out.bulk_field("version", REDIS_VERSION);
    out.int_field("proto", proto);
    out.int_field("id", ctx.session.handle.id as i64);
    out.bulk_field("mode", ctx.engine.mode());
    out.bulk_field("role", ctx.engine.replication.role.name());
    out.bulk(b"modules");
    out.array(0);
}

fn set_proto(ctx: &mut Ctx<'_>, proto: Proto) {
    let handle = &ctx.session.handle;
    let version = if proto == Proto::Resp3 { 3 } else { 2 };
    if handle.resp.swap(version, Relaxed) != version && !ctx.commit.is_nested() {
        // Messages in the old protocol must come before the reply in the new one.
        ctx.engine.tracking.settle();
        handle.take_mail(ctx.out, usize::MAX);
    }
    ctx.out.set_proto(proto);
    ctx.session.note_subscriptions();
}

/// `PING [message]`
pub(crate) fn ping(ctx: &mut Ctx<'_>) -> CommandResult {
    match ctx.argc() {
        1 | 2 if ctx.session.states.contains(States::SUBSCRIBED) => {
            ctx.out.array(2);
            ctx.out.bulk(b"pong");
            ctx.out.bulk(if ctx.argc() == 2 { ctx.arg(1) } else { b"" });
        }
        1 => ctx.out.simple("PONG"),
        2 => {
            if ctx.session.is_replay {
                hear_primary(ctx.engine, ctx.arg(1));
            }
            ctx.out.bulk(ctx.arg(1));
        }
        _ => return Err(ctx.command.wrong_arity().into()),
    }
    Ok(())
}

/// `ECHO message`
pub(crate) fn echo(ctx: &mut Ctx<'_>) -> CommandResult {
    match ctx.argv.owned(1) {
        Some(message) => ctx.out.bulk_shared(message),
        None => ctx.out.bulk(ctx.arg(1)),
    }
    Ok(())
}

/// `SELECT index`
pub(crate) fn select(ctx: &mut Ctx<'_>) -> CommandResult {
    if ctx.session.is_replay
        && let Some(refusal) = refusal_of_replay(ctx)
    {
        return Err(refusal.into());
    }
    let db = match db_argument(ctx, 1) {
        Err(error) if ctx.engine.cluster.is_some() && error == error::DB_INDEX => return Err(NO_SELECT.into()),
        parsed => parsed?,
    };
    ctx.select(db);
    ctx.reply_ok()
}

/// Ends a log or a stream that selects no database of this server: what follows would change another one.
#[cold]
pub(crate) fn refusal_of_replay(ctx: &mut Ctx<'_>) -> Option<CommandError> {
    let refusal = db_argument(ctx, 1).err();
    if refusal.is_some() {
        ctx.session.states.insert(States::CLOSES);
    }
    refusal
}

/// `QUIT`
pub(crate) fn quit(ctx: &mut Ctx<'_>) -> CommandResult {
    ctx.session.states.insert(States::CLOSES);
    ctx.reply_ok()
}

/// `RESET`
pub(crate) fn reset(ctx: &mut Ctx<'_>) -> CommandResult {
    ctx.session.reset(&ctx.engine.watched, &ctx.engine.users);
    ctx.commit.distrust_routes();
    ctx.select(0);
    ctx.commit.set_no_touch(false);
    set_proto(ctx, Proto::Resp2);
    ctx.reply_simple("RESET")
}
