//! Replication: the role of the server, and waiting for replicas. Also WAITAOF.

use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::blocking::waiter::{OnTimeout, Waiter};
use crate::ctx::{CommandResult, Ctx, Engine};
use crate::error::{self, CommandError, Stop};
use crate::replication::attached::Phase;
use crate::replication::failover::Plan;
use crate::replication::goal::Goal;
use crate::replication::reached::end_waits;
use crate::replication::role::{LinkState, Primary};

const BAD_PRIMARY_PORT: CommandError = CommandError::fixed("ERR Invalid master port");
const BAD_PRIMARY_HOST: CommandError = CommandError::fixed("ERR Invalid master host");
const NOT_A_FLAG: CommandError = CommandError::fixed("ERR value is out of range, value must between 0 and 1");
const NOTHING_LOCAL: CommandError =
    CommandError::fixed("ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.");
const NO_FAILOVER: CommandError = CommandError::fixed("ERR No failover in progress.");
const NO_REPLICAS: CommandError = CommandError::fixed("ERR FAILOVER requires connected replicas.");
const SECOND_FAILOVER: CommandError = CommandError::fixed("ERR FAILOVER already in progress.");
const FAILOVER_ON_A_REPLICA: CommandError = CommandError::fixed("ERR FAILOVER is not valid when server is a replica.");
const FORCED_WITHOUT_TARGET: CommandError =
    CommandError::fixed("ERR FAILOVER with force option requires both a timeout and target HOST and IP.");
const UNKNOWN_TARGET: CommandError = CommandError::fixed("ERR FAILOVER target HOST and PORT is not a replica.");
const TARGET_NOT_ONLINE: CommandError = CommandError::fixed("ERR FAILOVER target replica is not online.");
const FAILING_OVER: CommandError = CommandError::fixed("ERR REPLICAOF not allowed while failing over.");
const BAD_FAILOVER_TIMEOUT: CommandError = CommandError::fixed("ERR FAILOVER timeout must be greater than 0");

/// `ROLE`
pub(crate) fn role(ctx: &mut Ctx<'_>) -> CommandResult {
    let replication = &ctx.engine.replication;
    let offset = replication.history.position().offset as i64;
    if let Some(primary) = replication.role.primary() {
        let state = replication.role.link().state;
        ctx.out.array(5);
        ctx.out.bulk(b"slave");
        ctx.out.bulk(primary.host.as_bytes());
        ctx.out.int(primary.port.into());
        ctx.out.bulk(state.name().as_bytes());
        ctx.out.int(if state == LinkState::Connected { offset } else { -1 });
        return Ok(());
    }
    let replicas = replication.attached.all();
    let online: Vec<_> = replicas.iter().filter(|replica| replica.phase() == Phase::Online).collect();
    ctx.out.array(3);
    ctx.out.bulk(b"master");
    ctx.out.int(offset);
    ctx.out.array(online.len());
    for replica in online {
        ctx.out.array(3);
        ctx.out.bulk(replica.ip().as_bytes());
        ctx.out.bulk(replica.introduction.port.to_string().as_bytes());
        ctx.out.bulk(replica.acknowledged().to_string().as_bytes());
    }
    Ok(())
}

/// The name or address of a host. One with spaces or control characters would be another directive in a configuration file.
fn host(argument: &[u8]) -> Result<String, CommandError> {
    let text = std::str::from_utf8(argument).ok().filter(|text| !text.is_empty());
    let text = text.filter(|text| !text.contains(|char: char| char.is_whitespace() || char.is_control()));
    text.map(str::to_owned).ok_or(BAD_PRIMARY_HOST)
}

/// `REPLICAOF host port | NO ONE`, also as SLAVEOF. The reply comes when the server has its new role. Inside of a
/// transaction or a script, which cannot wait, the role changes when that is over.
pub(crate) fn replicaof(ctx: &mut Ctx<'_>) -> CommandResult {
    let engine = ctx.engine;
    if engine.cluster.is_some() {
        return Err(NOT_IN_A_CLUSTER.into());
    }
    if engine.replication.failover.is_on() {
        return Err(FAILING_OVER.into());
    }
    let primary = if ctx.is(1, "NO") && ctx.is(2, "ONE") {
        None
    } else {
        let port = u16::try_from(ctx.int_or(2, BAD_PRIMARY_PORT)?).map_err(|_| BAD_PRIMARY_PORT)?;
        Some(Primary { host: host(ctx.arg(1))?, port })
    };
    // A role that is still to come is not compared with: this one comes behind it.
    if engine.process.wanted_role().is_none() && primary == engine.replication.role.primary() {
        match primary {
            Some(_) => ctx.out.simple("OK Already connected to specified master"),
            None => ctx.out.ok(),
        }
        return Ok(());
    }
    if ctx.commit.is_nested() || ctx.session.deny_blocking {
        engine.process.follow(primary, Box::new(|_| {}));
        return ctx.reply_ok();
    }
    if let Some(done) = ctx.reply_later()? {
        engine.process.follow(primary, done);
    }
    Ok(())
}

const NO_FAILOVER_IN_A_CLUSTER: CommandError =
    CommandError::fixed("ERR FAILOVER not allowed in cluster mode. Use CLUSTER FAILOVER command instead.");
const NOT_IN_A_CLUSTER: CommandError = CommandError::fixed("ERR REPLICAOF not allowed in cluster mode.");
const NOT_ON_A_REPLICA: CommandError = CommandError::fixed(
    "ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a replica is configured to \
     be writable (which is not the default) writes to replicas are just local and are not propagated.",
);
const NO_AOF_WAIT_ON_A_REPLICA: CommandError = CommandError::fixed(
    "ERR WAITAOF cannot be used with replica instances. Please also note that writes to replicas are just local and are \
     not propagated.",
);

/// `WAIT numreplicas timeout`: what has been written so far, by this client and others
pub(crate) fn wait(ctx: &mut Ctx<'_>) -> CommandResult {
    if ctx.engine.replication.role.is_replica() {
        return Err(NOT_ON_A_REPLICA.into());
    }
    let wanted = ctx.int(1)?;
    let deadline_ms = ctx.deadline_from_ms(2)?;
    let replicas = usize::try_from(wanted).unwrap_or(0);
    wait_for(ctx, Goal { lsn: ctx.engine.log.last_lsn(), replicas, disks: None }, deadline_ms)?;
    Ok(())
}

/// `WAITAOF numlocal numreplicas timeout`: waits until what was written so far is on disks
pub(crate) fn waitaof(ctx: &mut Ctx<'_>) -> CommandResult {
    let of_this_server = ctx.int(1)?;
    if ctx.engine.replication.role.is_replica() {
        return Err(NO_AOF_WAIT_ON_A_REPLICA.into());
    }
    if !(0..=1).contains(&of_this_server) {
        return Err(NOT_A_FLAG.into());
    }
    let wanted = ctx.int_or(2, error::NOT_POSITIVE)?;
    let replicas = usize::try_from(wanted).map_err(|_| error::NOT_POSITIVE)?;
    let deadline_ms = ctx.deadline_from_ms(3)?;
    let (engine, own) = (ctx.engine, of_this_server == 1);
    if own && !engine.durability.is_on() {
        return Err(NOTHING_LOCAL.into());
    }
    let lsn = engine.log.last_lsn();
    let Some(waiter) = wait_for(ctx, Goal { lsn, replicas, disks: Some(own) }, deadline_ms)? else { return Ok(()) };
    if own {
        let late = Arc::downgrade(&waiter);
        let waits = Weak::clone(&late);
        let wake = move || match late.upgrade() {
            // The log has ended without it.
            Some(late) if engine.durability.has_given_up(lsn) => {
                late.finish(engine, |out| out.error_bytes(NOTHING_LOCAL.as_bytes()));
            }
            _ => end_waits(engine),
        };
        // The session has its waiter as long as it waits.
        if !engine.durability.call_at(lsn, Box::new(wake), Box::new(move || waits.strong_count() > 0)) {
            end_waits(engine);
        }
    }
    Ok(())
}

/// Waits until a goal is reached; returns the waiter if it is not by now.
fn wait_for(ctx: &mut Ctx<'_>, goal: Goal, deadline_ms: Option<i64>) -> Result<Option<Arc<Waiter>>, Stop> {
    let engine = ctx.engine;
    if goal.replicas > 0 && !ctx.commit.is_nested() {
        // What this client has written is in the stream, so that its place there is known.
        ctx.commit.submit();
        engine.log.flush();
    }
    if goal.is_reached(engine) {
        goal.reply(engine, ctx.out);
        return Ok(None);
    }
    let Some(waiter) = ctx.block_without_keys(deadline_ms, OnTimeout::Counts(goal))? else { return Ok(None) };
    engine.replication.waits.add(goal, &waiter);
    if goal.replicas > 0 {
        engine.replication.wake();
    }
    Ok(Some(waiter))
}

/// `FAILOVER [TO host port [FORCE]] [ABORT] [TIMEOUT milliseconds]`: the reply comes when it has begun
pub(crate) fn failover(ctx: &mut Ctx<'_>) -> CommandResult {
    if ctx.engine.cluster.is_some() {
        return Err(NO_FAILOVER_IN_A_CLUSTER.into());
    }
    let (mut target, mut timeout_ms, mut is_forced, mut aborts) = (None, None, false, false);
    let mut rest = ctx.rest(1);
    while !rest.is_empty() {
        if timeout_ms.is_none() && rest.take_with("TIMEOUT", 1) {
            timeout_ms = Some(u64::try_from(rest.next_int()?).ok().filter(|ms| *ms > 0).ok_or(BAD_FAILOVER_TIMEOUT)?);
        } else if target.is_none() && rest.take_with("TO", 2) {
            let host = String::from_utf8_lossy(rest.next_arg()).into_owned();
            target = Some((host, rest.next_int()?));
        } else if ctx.argc() == 2 && rest.take("ABORT") {
            aborts = true;
        } else if !is_forced && rest.take("FORCE") {
            is_forced = true;
        } else {
            return Err(error::SYNTAX.into());
        }
    }
    if aborts {
        abort_failover(ctx.engine)?;
        return ctx.reply_ok();
    }
    let replication = &ctx.engine.replication;
    let replicas = replication.attached.all();
    if replication.failover.is_on() {
        return Err(SECOND_FAILOVER.into());
    } else if replication.role.is_replica() {
        return Err(FAILOVER_ON_A_REPLICA.into());
    } else if replicas.is_empty() {
        return Err(NO_REPLICAS.into());
    } else if is_forced && (timeout_ms.is_none() || target.is_none()) {
        return Err(FORCED_WITHOUT_TARGET.into());
    }
    let is_target = |address: &Primary| {
        target.as_ref().is_none_or(|(host, port)| address.host == *host && i64::from(address.port) == *port)
    };
    let chosen = replicas.iter().find(|replica| is_target(&replica.address()));
    let target = match (target.is_some(), chosen) {
        (false, _) => None,
        (true, None) => return Err(UNKNOWN_TARGET.into()),
        (true, Some(replica)) if replica.phase() != Phase::Online => return Err(TARGET_NOT_ONLINE.into()),
        (true, Some(replica)) => Some(replica.address()),
    };
    let until = timeout_ms.and_then(|ms| ctx.engine.clock.now().checked_add(Duration::from_millis(ms)));
    if !ctx.engine.begin_failover(Plan { target, until, is_forced }) {
        return Err(SECOND_FAILOVER.into());
    }
    replication.wake();
    ctx.reply_ok()
}

/// Ends a fail-over; this server is a primary again if it has ceased to be one.
fn abort_failover(engine: &'static Engine) -> Result<(), CommandError> {
    let failover = &engine.replication.failover;
    match failover.target() {
        // Writes go on when the role is there.
        Some(_) => engine.process.follow(None, Box::new(|_| {})),
        None if engine.end_failover() => {}
        None => return Err(NO_FAILOVER),
    }
    tracing::warn!("The planned fail-over was aborted by FAILOVER ABORT");
    Ok(())
}
