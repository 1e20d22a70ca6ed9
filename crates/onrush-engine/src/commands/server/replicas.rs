//! What replicas send: PSYNC, SYNC, REPLCONF.

use std::sync::atomic::Ordering::Relaxed;

use onrush_resp::parse_i64;

use crate::clients::session::States;
use crate::ctx::{CommandResult, Ctx};
use crate::error::{self, CommandError};
use crate::replication::introduction::{Only, SyncRequest};
use crate::replication::role::LinkState;

const NO_PRIMARY_LINK: CommandError = CommandError::fixed("NOMASTERLINK Can't SYNC while not connected with my master");
const NO_REPLICA: CommandError = CommandError::fixed("ERR PSYNC FAILOVER can't be sent to a master.");
const OTHER_HISTORY: CommandError = CommandError::fixed("ERR PSYNC FAILOVER replid must match my replid.");
const IN_CLUSTER: CommandError = CommandError::fixed("ERR PSYNC FAILOVER not allowed in cluster mode.");
const BAD_OFFSET: CommandError = CommandError::fixed("ERR value is not an integer or out of range");

/// Bytes of an address that a replica may want to be known by.
const IP_LEN_MAX: usize = 45;

const BAD_ADDRESS: CommandError =
    CommandError::fixed("ERR REPLCONF ip-address provided by replica instance is no address");

/// `PSYNC replicationid offset [FAILOVER]`
pub(crate) fn psync(ctx: &mut Ctx<'_>) -> CommandResult {
    let hands_over = ctx.argc() > 3 && ctx.is(3, "FAILOVER");
    let offset = ctx.int_or(2, BAD_OFFSET)?;
    let id = ctx.arg(1);
    let from = match u64::try_from(offset) {
        Ok(offset) if id != b"?" => Some((String::from_utf8_lossy(id).into_owned(), offset)),
        _ => None,
    };
    if hands_over {
        let replication = &ctx.engine.replication;
        // There the cluster says who is a primary.
        if ctx.engine.cluster.is_some() {
            return Err(IN_CLUSTER.into());
        }
        if !replication.role.is_replica() {
            return Err(NO_REPLICA.into());
        }
        if !id.eq_ignore_ascii_case(replication.history.position().id.as_bytes()) {
            return Err(OTHER_HISTORY.into());
        }
    }
    become_replica(ctx, SyncRequest { from, is_psync: true, hands_over })
}

/// `SYNC`
pub(crate) fn sync(ctx: &mut Ctx<'_>) -> CommandResult {
    become_replica(ctx, SyncRequest { from: None, is_psync: false, hands_over: false })
}

/// Ends the connection as that of a client: the thread for replicas replies.
fn become_replica(ctx: &mut Ctx<'_>, request: SyncRequest) -> CommandResult {
    let role = &ctx.engine.replication.role;
    if !request.hands_over && role.is_replica() && role.link().state != LinkState::Connected {
        return Err(NO_PRIMARY_LINK.into());
    }
    ctx.session.handle.is_replica.store(true, Relaxed);
    ctx.session.sync_request = Some(Box::new(request));
    ctx.session.states.insert(States::CLOSES);
    Ok(())
}

/// `REPLCONF option value [option value ...]`: what a replica tells about itself
pub(crate) fn replconf(ctx: &mut Ctx<'_>) -> CommandResult {
    if ctx.argc().is_multiple_of(2) {
        return Err(error::SYNTAX.into());
    }
    let mut introduction = ctx.session.handle.introduction.lock().as_deref().cloned().unwrap_or_default();
    for index in (1..ctx.argc()).step_by(2) {
        let value = ctx.arg(index + 1);
        if ctx.is(index, "listening-port") {
            let port = ctx.int_or(index + 1, error::NOT_INTEGER)?;
            introduction.port = u16::try_from(port).map_err(|_| error::NOT_INTEGER)?;
        } else if ctx.is(index, "ip-address") {
            introduction.ip = address(value)?;
        } else if ctx.is(index, "capa") {
            introduction.takes_mark |= value.eq_ignore_ascii_case(b"eof");
            introduction.tells |= value.eq_ignore_ascii_case(b"onrush-acks");
            introduction.knows_names |= value.eq_ignore_ascii_case(b"psync2");
        } else if ctx.is(index, "rdb-only") {
            introduction.wants_data_only = parse_i64(value).is_some_and(|wants| wants != 0);
        } else if ctx.is(index, "rdb-filter-only") {
            introduction.only = Some(only(value)?);
        } else if ctx.is(index, "ack") || ctx.is(index, "getack") || ctx.is(index, "fack") {
            // Only a replica says the first one, and only a primary asks the second; there is no reply to either.
            return Ok(());
        } else if !ctx.is(index, "version") {
            let option = String::from_utf8_lossy(ctx.arg(index)).into_owned();
            return Err(CommandError::text(format!("ERR Unrecognized REPLCONF option: {option}")).into());
        }
    }
    *ctx.session.handle.introduction.lock() = Some(Box::new(introduction));
    ctx.reply_ok()
}

/// The parts of the data that a replica names, between blanks.
fn only(value: &[u8]) -> Result<Only, CommandError> {
    let mut words = value.split(|byte| *byte == b' ').filter(|word| !word.is_empty()).peekable();
    let only = if words.peek().is_none() { Only::Nothing } else { Only::Functions };
    match words.find(|word| !word.eq_ignore_ascii_case(b"functions")) {
        None => Ok(only),
        Some(word) => {
            let word = String::from_utf8_lossy(word);
            Err(CommandError::text(format!("ERR Unsupported rdb-filter-only option: {word}")))
        }
    }
}

fn address(value: &[u8]) -> Result<String, CommandError> {
    if value.len() > IP_LEN_MAX {
        return Err(CommandError::text(format!(
            "ERR REPLCONF ip-address provided by replica instance is too long: {} bytes",
            value.len()
        )));
    }
    let text = std::str::from_utf8(value).ok().filter(|text| text.chars().all(|char| char.is_ascii_graphic()));
    text.map(str::to_owned).ok_or(BAD_ADDRESS)
}
