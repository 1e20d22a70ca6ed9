//! CLIENT: what connections say about themselves, and how an operator lists, pauses and closes them.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use onrush_resp::parse_i64;

use crate::blocking::kill;
use crate::clients::client::ClientHandle;
use crate::clients::durability::Wish;
use crate::clients::session::{Owed, ReplyMode, States};
use crate::ctx::{CommandResult, Ctx};
use crate::error::{self, CommandError};
use crate::settings::Pause as Mode;

const NOTHING_DURABLE: CommandError =
    CommandError::fixed("ERR CLIENT DURABILITY ALWAYS needs the append-only file (appendonly yes)");
const NO_SUCH_CLIENT: CommandError = CommandError::fixed("ERR No such client");
const BAD_CLIENT_ID: CommandError = CommandError::fixed("ERR client-id should be greater than 0");
const INVALID_CLIENT_ID: CommandError = CommandError::fixed("ERR Invalid client ID");
const MAX_AGE_NOT_INTEGER: CommandError = CommandError::fixed("ERR maxage is not an integer or out of range");
const BAD_MAX_AGE: CommandError = CommandError::fixed("ERR maxage should be greater than 0");
const TIMEOUT_NOT_INTEGER: CommandError = CommandError::fixed("ERR timeout is not an integer or out of range");
const TIMEOUT_NEGATIVE: CommandError = CommandError::fixed("ERR timeout is negative");
const TIMEOUT_OUT_OF_RANGE: CommandError = CommandError::fixed("ERR timeout is out of range");
const NO_STREAM: CommandError = CommandError::fixed("ERR the system has no thread for the stream of replicas");
const BAD_PAUSE_MODE: CommandError = CommandError::fixed("ERR CLIENT PAUSE mode must be WRITE or ALL");
const BAD_UNBLOCK_REASON: CommandError = CommandError::fixed("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR");

/// `CLIENT ID`
pub(crate) fn client_id(ctx: &mut Ctx<'_>) -> CommandResult {
    ctx.reply_int(ctx.session.handle.id as i64)
}

/// `CLIENT INFO`
pub(crate) fn client_info(ctx: &mut Ctx<'_>) -> CommandResult {
    let line = info_line(ctx);
    ctx.reply_text(&line)
}

/// The line of this connection in CLIENT LIST.
pub(crate) fn info_line(ctx: &Ctx<'_>) -> Vec<u8> {
    publish_self(ctx);
    ctx.session.handle.info_line(|id| name_of(ctx, id), ctx.engine.clock.unix_ms())
}

/// `CLIENT LIST [TYPE type | ID id [id ...]]`
pub(crate) fn client_list(ctx: &mut Ctx<'_>) -> CommandResult {
    publish_self(ctx);
    let clients = &ctx.engine.clients;
    let listed: Vec<Arc<ClientHandle>> = match ctx.argc() {
        2 => clients.all(),
        4 if ctx.is(2, "TYPE") => {
            let kind = ClientType::parse(ctx.arg(3))?;
            clients.all().into_iter().filter(|client| kind == ClientType::of(client)).collect()
        }
        4.. if ctx.is(2, "ID") => {
            let ids = (3..ctx.argc()).map(|index| ctx.int_or(index, INVALID_CLIENT_ID));
            let ids = ids.collect::<Result<Vec<i64>, _>>()?;
            ids.into_iter().filter_map(|id| clients.get(u64::try_from(id).ok()?)).collect()
        }
        _ => return Err(error::SYNTAX.into()),
    };
    let now_ms = ctx.engine.clock.unix_ms();
    let mut lines = Vec::new();
    for client in listed.iter().filter(|client| !client.is_killed()) {
        lines.extend_from_slice(&client.info_line(|id| name_of(ctx, id), now_ms));
    }
    ctx.reply_text(&lines)
}

/// The full name of a command by its number.
fn name_of<'c>(ctx: &Ctx<'c>, id: usize) -> Option<&'c str> {
    ctx.engine.commands.all().nth(id).map(|command| &*command.full_name)
}

/// Updates the shared numbers of this connection in the middle of its batch.
fn publish_self(ctx: &Ctx<'_>) {
    let handle = &ctx.session.handle;
    handle.activity.db.store(ctx.session.db, Relaxed);
    handle.activity.last_interaction_ms.store(ctx.engine.clock.unix_ms(), Relaxed);
}

/// The type of a client, for filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClientType {
    /// Without subscriptions.
    Normal,
    /// With subscriptions.
    Pubsub,
    /// A replica.
    Replica,
    /// `master`: the link to the primary.
    Primary,
}

impl ClientType {
    fn parse(word: &[u8]) -> Result<Self, CommandError> {
        match word.to_ascii_lowercase().as_slice() {
            b"normal" => Ok(Self::Normal),
            b"pubsub" => Ok(Self::Pubsub),
            b"replica" | b"slave" => Ok(Self::Replica),
            b"master" => Ok(Self::Primary),
            _ => Err(CommandError::quoting("ERR Unknown client type '", word, "'")),
        }
    }

    fn of(client: &ClientHandle) -> Self {
        match client.has_subscriptions() {
            _ if client.is_primary.load(Relaxed) => Self::Primary,
            _ if client.is_replica.load(Relaxed) => Self::Replica,
            true => Self::Pubsub,
            false => Self::Normal,
        }
    }
}

/// Which clients CLIENT KILL closes; a field that is `None` matches all.
#[derive(Default)]
struct KillFilter<'a> {
    id: Option<u64>,
    kind: Option<ClientType>,
    addr: Option<&'a [u8]>,
    laddr: Option<&'a [u8]>,
    user: Option<&'a [u8]>,
    /// Connected for at least this many seconds.
    age_min_seconds: Option<i64>,
    skip_me: bool,
}

impl<'a> KillFilter<'a> {
    fn read(ctx: &Ctx<'a>) -> Result<Self, CommandError> {
        let mut filter = Self { skip_me: true, ..Self::default() };
        let mut rest = ctx.rest(2);
        while !rest.is_empty() {
            if rest.take_with("ID", 1) {
                let id = parse_i64(rest.next_arg()).filter(|&id| id > 0).ok_or(BAD_CLIENT_ID)?;
                filter.id = Some(id as u64);
            } else if rest.take_with("TYPE", 1) {
                filter.kind = Some(ClientType::parse(rest.next_arg())?);
            } else if rest.take_with("ADDR", 1) {
                filter.addr = Some(rest.next_arg());
            } else if rest.take_with("LADDR", 1) {
                filter.laddr = Some(rest.next_arg());
            } else if rest.take_with("USER", 1) {
                let user = rest.next_arg();
                if ctx.engine.users.get(user).is_none() {
                    return Err(CommandError::quoting("ERR No such user '", user, "'"));
                }
                filter.user = Some(user);
            } else if rest.take_with("MAXAGE", 1) {
                let seconds = rest.next_int_or(MAX_AGE_NOT_INTEGER)?;
                filter.age_min_seconds = Some(seconds).filter(|&seconds| seconds > 0);
                filter.age_min_seconds.ok_or(BAD_MAX_AGE)?;
            } else if rest.take_with("SKIPME", 1) {
                filter.skip_me = ctx.is_first(rest.next_index(), "YES", "NO")?;
            } else {
                return Err(error::SYNTAX);
            }
        }
        Ok(filter)
    }

    fn matches(&self, client: &ClientHandle, me: u64, now_ms: i64) -> bool {
        self.id.is_none_or(|id| id == client.id)
            && self.kind.is_none_or(|kind| kind == ClientType::of(client))
            && self.addr.is_none_or(|addr| addr == client.addr.as_bytes())
            && self.laddr.is_none_or(|laddr| laddr == client.laddr.as_bytes())
            && self.user.is_none_or(|user| user == client.user().name())
            && self.age_min_seconds.is_none_or(|seconds| (now_ms - client.created_ms) / 1000 >= seconds)
            && !(self.skip_me && client.id == me)
    }
}

/// `CLIENT KILL ip:port` or `CLIENT KILL filter value [filter value ...]`
pub(crate) fn client_kill(ctx: &mut Ctx<'_>) -> CommandResult {
    let by_addr = ctx.argc() == 3;
    let filter =
        if by_addr { KillFilter { addr: Some(ctx.arg(2)), ..KillFilter::default() } } else { KillFilter::read(ctx)? };
    let (me, now_ms) = (ctx.session.handle.id, ctx.engine.clock.unix_ms());
    let mut killed = 0;
    for client in ctx.engine.clients.all() {
        if client.is_killed() || !filter.matches(&client, me, now_ms) {
            continue;
        }
        killed += 1;
        if client.id == me {
            ctx.session.states.insert(States::CLOSES);
        } else {
            kill(ctx.engine, &client);
        }
    }
    match (by_addr, killed) {
        (true, 0) => return Err(NO_SUCH_CLIENT.into()),
        (true, _) => ctx.out.ok(),
        (false, killed) => ctx.out.int(killed),
    }
    Ok(())
}

/// `CLIENT GETNAME`
pub(crate) fn client_getname(ctx: &mut Ctx<'_>) -> CommandResult {
    let names = ctx.session.handle.names.lock();
    if names.name.is_empty() {
        ctx.out.null();
    } else {
        ctx.out.bulk(&names.name);
    }
    Ok(())
}

/// `CLIENT SETNAME name`
pub(crate) fn client_setname(ctx: &mut Ctx<'_>) -> CommandResult {
    set_name(ctx, ctx.arg(2))?;
    ctx.reply_ok()
}

/// Names the connection; an empty name removes the name.
///
/// # Errors
/// The name is not printable ASCII without spaces.
pub(crate) fn set_name(ctx: &mut Ctx<'_>, name: &[u8]) -> CommandResult {
    check_name(name)?;
    ctx.session.handle.set_names(|names| names.name = name.to_vec());
    Ok(())
}

/// Checks what is to be a client's name.
///
/// # Errors
/// It is not printable ASCII without spaces.
pub(crate) fn check_name(name: &[u8]) -> CommandResult {
    check_attribute(b"Client names", name)
}

/// Such texts stand in CLIENT LIST, where spaces and line ends separate fields and clients.
fn check_attribute(what: &[u8], text: &[u8]) -> CommandResult {
    if text.iter().all(u8::is_ascii_graphic) {
        return Ok(());
    }
    Err(CommandError::bytes([b"ERR ", what, b" cannot contain spaces, newlines or special characters."].concat())
        .into())
}

/// `CLIENT SETINFO LIB-NAME libname | LIB-VER libver`
pub(crate) fn client_setinfo(ctx: &mut Ctx<'_>) -> CommandResult {
    let (attribute, text) = (ctx.arg(2), ctx.arg(3));
    let is_name = ctx.is(2, "LIB-NAME");
    if !is_name && !ctx.is(2, "LIB-VER") {
        return Err(CommandError::quoting("ERR Unrecognized option '", attribute, "'").into());
    }
    check_attribute(attribute, text)?;
    ctx.session.handle.set_names(|names| {
        let field = if is_name { &mut names.lib_name } else { &mut names.lib_ver };
        *field = text.to_vec();
    });
    ctx.reply_ok()
}

/// `CLIENT REPLY ON | OFF | SKIP`
pub(crate) fn client_reply(ctx: &mut Ctx<'_>) -> CommandResult {
    let mode = &mut ctx.session.reply_mode;
    match ctx.argv.get(2).to_ascii_lowercase().as_slice() {
        b"on" => {
            *mode = ReplyMode::On;
            ctx.out.ok();
        }
        b"off" => *mode = ReplyMode::Off,
        b"skip" if *mode != ReplyMode::Off => *mode = ReplyMode::SkipNext,
        b"skip" => {}
        _ => return Err(error::SYNTAX.into()),
    }
    Ok(())
}

/// `CLIENT PAUSE timeout [WRITE | ALL]`, the timeout in milliseconds
pub(crate) fn client_pause(ctx: &mut Ctx<'_>) -> CommandResult {
    let mode = match ctx.argc() {
        3 => Mode::All,
        4 if ctx.is(3, "WRITE") => Mode::Writes,
        4 if ctx.is(3, "ALL") => Mode::All,
        4 => return Err(BAD_PAUSE_MODE.into()),
        _ => return Err(ctx.wrong_subcommand().into()),
    };
    let timeout_ms = ctx.int_or(2, TIMEOUT_NOT_INTEGER)?;
    if timeout_ms < 0 {
        return Err(TIMEOUT_NEGATIVE.into());
    }
    let now_ms = ctx.engine.clock.unix_ms();
    // The end must be finite: a pause holds back CLIENT UNPAUSE too.
    let until_ms = now_ms.checked_add(timeout_ms).ok_or(TIMEOUT_OUT_OF_RANGE)?;
    let hot = &ctx.engine.settings;
    // This also puts two concurrent pauses in order.
    ctx.commit.lock_keyspace()?;
    let old = Pause { mode: hot.command_pause(now_ms), until_ms: hot.client_pause_until_ms() };
    let pause = merge(now_ms, old, Pause { mode, until_ms });
    hot.pause_clients(pause.mode, pause.until_ms);
    // Commands that began before the pause are over when this returns. Commands that were admitted and still wait for
    // the whole keyspace come first.
    ctx.commit.lock_keyspace()?;
    ctx.reply_ok()
}

/// A pause of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pause {
    mode: Mode,
    /// Its end, in Unix milliseconds.
    until_ms: i64,
}

/// What two pauses are together: the stricter mode until the later end, unless the old one is over.
fn merge(now_ms: i64, old: Pause, new: Pause) -> Pause {
    if old.until_ms <= now_ms {
        return new;
    }
    Pause { mode: new.mode.max(old.mode), until_ms: new.until_ms.max(old.until_ms) }
}

/// `CLIENT UNPAUSE`
pub(crate) fn client_unpause(ctx: &mut Ctx<'_>) -> CommandResult {
    ctx.engine.settings.pause_clients(Mode::None, 0);
    ctx.engine.wake_clients();
    ctx.reply_ok()
}

/// `CLIENT NO-EVICT ON | OFF`
pub(crate) fn client_no_evict(ctx: &mut Ctx<'_>) -> CommandResult {
    let on = ctx.is_first(2, "ON", "OFF")?;
    ctx.session.handle.no_evict.store(on, Relaxed);
    ctx.reply_ok()
}

/// `CLIENT NO-TOUCH ON | OFF`
pub(crate) fn client_no_touch(ctx: &mut Ctx<'_>) -> CommandResult {
    let on = ctx.is_first(2, "ON", "OFF")?;
    ctx.session.no_touch = on;
    ctx.session.handle.no_touch.store(on, Relaxed);
    ctx.commit.set_no_touch(on);
    ctx.reply_ok()
}

/// `CLIENT DURABILITY <ALWAYS | EVERYSEC | NO | DEFAULT> [REPLICAS number | DEFAULT]`: how this connection's writes are made
/// durable from here on
pub(crate) fn client_durability(ctx: &mut Ctx<'_>) -> CommandResult {
    let wish = match ctx.arg(2).to_ascii_lowercase().as_slice() {
        b"always" => Wish::Always,
        b"everysec" => Wish::EverySecond,
        b"no" => Wish::No,
        b"default" => Wish::Default,
        _ => return Err(error::SYNTAX.into()),
    };
    let replicas = match ctx.argc() {
        3 => ctx.session.durability_replicas,
        5 if ctx.is(3, "REPLICAS") && ctx.is(4, "DEFAULT") => None,
        5 if ctx.is(3, "REPLICAS") => Some(u32::try_from(ctx.int(4)?).map_err(|_| error::NOT_POSITIVE)?),
        _ => return Err(error::SYNTAX.into()),
    };
    if wish == Wish::Always && !ctx.engine.durability.is_on() {
        return Err(NOTHING_DURABLE.into());
    }
    if wish == Wish::Always {
        ctx.engine.durability.want();
    }
    if replicas.is_some_and(|replicas| replicas > 0) {
        ctx.engine.durability.note_replicas();
        if !ctx.engine.replication.history.is_kept() {
            // From here on each write has a place in the stream, though there is no replica yet: also what this connection
            // has sent behind this command, so another thread executes it.
            ctx.leave_worker()?;
            ctx.commit.lock_keyspace()?;
            // What is loaded is no part of it: it begins behind that.
            if !ctx.engine.loading.is_on() {
                ctx.engine.replication.begin_stream(ctx.engine).map_err(|_| NO_STREAM)?;
            }
        }
    }
    ctx.session.durability = wish;
    ctx.session.durability_replicas = replicas;
    // The replies to the commands before this one may still have to wait.
    ctx.session.owed.add(Owed::by(wish, replicas));
    ctx.reply_ok()
}

/// `CLIENT UNBLOCK client-id [TIMEOUT | ERROR]`
pub(crate) fn client_unblock(ctx: &mut Ctx<'_>) -> CommandResult {
    match ctx.argc() {
        3 => {}
        4 if ctx.is(3, "TIMEOUT") || ctx.is(3, "ERROR") => {}
        4 => return Err(BAD_UNBLOCK_REASON.into()),
        _ => return Err(ctx.wrong_subcommand().into()),
    }
    let id = ctx.int(2)?;
    let client = u64::try_from(id).ok().and_then(|id| ctx.engine.clients.get(id));
    // A waiter is locked before any shard.
    ctx.commit.release();
    let waiter = client.and_then(|client| ctx.engine.waiters.of(&client));
    let unblocked = waiter.is_some_and(|waiter| match ctx.argc() == 4 && ctx.is(3, "ERROR") {
        true => waiter.unblock_with_error(ctx.engine),
        false => waiter.time_out(ctx.engine),
    });
    ctx.reply_int(i64::from(unblocked))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_pauses_the_stricter_mode_and_the_later_end_count() {
        let pause = |mode, until_ms| Pause { mode, until_ms };
        assert_eq!(merge(100, pause(Mode::None, 0), pause(Mode::Writes, 200)), pause(Mode::Writes, 200));
        assert_eq!(merge(100, pause(Mode::Writes, 200), pause(Mode::All, 150)), pause(Mode::All, 200));
        assert_eq!(merge(100, pause(Mode::All, 200), pause(Mode::Writes, 300)), pause(Mode::All, 300));
        assert_eq!(merge(300, pause(Mode::All, 300), pause(Mode::Writes, 500)), pause(Mode::Writes, 500));
    }

    #[test]
    fn names_are_printable_ascii_without_spaces() {
        assert_eq!(check_attribute(b"Client names", b"!a~"), Ok(()));
        assert_eq!(check_attribute(b"Client names", b""), Ok(()));
        for name in [&b"a b"[..], b"a\n", b"\x7f", b"\xff", b"\0"] {
            assert!(check_attribute(b"Client names", name).is_err());
        }
    }

    #[test]
    fn a_filter_closes_who_passes_all_of_it() {
        let client = ClientHandle::new(
            7,
            "127.0.0.1:5".into(),
            "127.0.0.1:6379".into(),
            9,
            false,
            0,
            crate::users::user::User::server(),
        );
        let all = || KillFilter { skip_me: true, ..KillFilter::default() };
        assert!(all().matches(&client, 1, 0));
        assert!(!all().matches(&client, 7, 0));
        assert!(KillFilter { skip_me: false, ..all() }.matches(&client, 7, 0));
        assert!(KillFilter { id: Some(7), user: Some(b"default"), ..all() }.matches(&client, 1, 0));
        assert!(!KillFilter { id: Some(7), addr: Some(b"127.0.0.1:6"), ..all() }.matches(&client, 1, 0));
        assert!(!KillFilter { kind: Some(ClientType::Replica), ..all() }.matches(&client, 1, 0));
        assert!(!KillFilter { age_min_seconds: Some(2), ..all() }.matches(&client, 1, 1_999));
        assert!(KillFilter { age_min_seconds: Some(2), ..all() }.matches(&client, 1, 2_000));
    }
}
