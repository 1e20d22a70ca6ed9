//! Replication: the role of the server, and waiting for replicas. Also WAITAOF.

use std::sync::{Arc, Weak};

use onrush_resp::Reply;

use crate::blocking::waiter::OnTimeout;
use crate::clients::durability::Level;
use crate::ctx::{CommandResult, Ctx};
use crate::error::{self, CommandError};
use crate::replication::role::{LinkState, Primary};

const BAD_PRIMARY_PORT: CommandError = CommandError::fixed("ERR Invalid master port");
const NOT_A_FLAG: CommandError = CommandError::fixed("ERR value is out of range, value must between 0 and 1");
const NOTHING_LOCAL: CommandError =
    CommandError::fixed("ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.");
const NO_FAILOVER: CommandError = CommandError::fixed("ERR No failover in progress.");
const NO_REPLICAS: CommandError = CommandError::fixed("ERR FAILOVER requires connected replicas.");
const BAD_FAILOVER_TIMEOUT: CommandError = CommandError::fixed("ERR FAILOVER timeout must be greater than 0");

/// `ROLE`
pub(crate) fn role(ctx: &mut Ctx<'_>) -> CommandResult {
    let replication = &ctx.engine.replication;
    if let Some(primary) = replication.role.primary() {
        let state = replication.role.link().state;
        ctx.out.array(5);
        ctx.out.bulk(b"slave");
        ctx.out.bulk(primary.host.as_bytes());
        ctx.out.int(primary.port.into());
        ctx.out.bulk(state.name().as_bytes());
        let offset = replication.history.position().offset as i64;
        ctx.out.int(if state == LinkState::Connected { offset } else { -1 });
        return Ok(());
    }
    ctx.out.array(3);
    ctx.out.bulk(b"master");
    ctx.out.int(0);
    ctx.out.array(0);
    Ok(())
}

/// `REPLICAOF host port | NO ONE`, also as SLAVEOF. The reply comes when the server has its new role. Inside of a
/// transaction or a script, which cannot wait, the role changes when that is over.
pub(crate) fn replicaof(ctx: &mut Ctx<'_>) -> CommandResult {
    let engine = ctx.engine;
    let primary = if ctx.is(1, "NO") && ctx.is(2, "ONE") {
        None
    } else {
        let port = u16::try_from(ctx.int_or(2, BAD_PRIMARY_PORT)?).map_err(|_| BAD_PRIMARY_PORT)?;
        Some(Primary { host: String::from_utf8_lossy(ctx.arg(1)).into_owned(), port })
    };
    if primary == engine.replication.role.primary() {
        match primary {
            Some(_) => ctx.out.simple("OK Already connected to specified master"),
            None => ctx.out.ok(),
        }
        return Ok(());
    }
    if ctx.commit.is_nested() || ctx.session.deny_blocking {
        engine.process.follow(primary, Box::new(|_| {}));
        ctx.out.ok();
        return Ok(());
    }
    let Some(waiter) = ctx.block_without_keys(None, OnTimeout::Never)? else { return Ok(()) };
    let done = move |result: Result<(), CommandError>| {
        waiter.finish(engine, |out| match result {
            Ok(()) => out.ok(),
            Err(error) => out.error_bytes(error.as_bytes()),
        });
    };
    engine.process.follow(primary, Box::new(done));
    Ok(())
}

const NOT_ON_A_REPLICA: CommandError = CommandError::fixed(
    "ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a replica is configured to \
     be writable (which is not the default) writes to replicas are just local and are not propagated.",
);
const NO_AOF_WAIT_ON_A_REPLICA: CommandError = CommandError::fixed(
    "ERR WAITAOF cannot be used with replica instances. Please also note that writes to replicas are just local and are \
     not propagated.",
);

/// `WAIT numreplicas timeout`: no replica ever acknowledges a write, so the client waits until the timeout
pub(crate) fn wait(ctx: &mut Ctx<'_>) -> CommandResult {
    if ctx.engine.replication.role.is_replica() {
        return Err(NOT_ON_A_REPLICA.into());
    }
    let wanted = ctx.int(1)?;
    let deadline_ms = ctx.deadline_from_ms(2)?;
    wait_for_replicas(ctx, wanted, deadline_ms, OnTimeout::Zero)
}

/// `WAITAOF numlocal numreplicas timeout`: waits until what was written so far is on the disk; no replica ever acknowledges anything
pub(crate) fn waitaof(ctx: &mut Ctx<'_>) -> CommandResult {
    let of_this_server = ctx.int(1)?;
    if ctx.engine.replication.role.is_replica() {
        return Err(NO_AOF_WAIT_ON_A_REPLICA.into());
    }
    if !(0..=1).contains(&of_this_server) {
        return Err(NOT_A_FLAG.into());
    }
    let wanted = ctx.int_or(2, error::NOT_POSITIVE)?;
    if wanted < 0 {
        return Err(error::NOT_POSITIVE.into());
    }
    let deadline_ms = ctx.deadline_from_ms(3)?;
    if of_this_server == 0 {
        return wait_for_replicas(ctx, wanted, deadline_ms, OnTimeout::Zeros);
    }
    let durability = &ctx.engine.durability;
    if !durability.is_on() {
        return Err(NOTHING_LOCAL.into());
    }
    // What this client has written, and what others have written so far.
    let lsn = ctx.engine.log.last_lsn();
    let on_timeout = if durability.has(Level::Durable, lsn) { OnTimeout::OneAndZero } else { OnTimeout::Zeros };
    if wanted == 0 && on_timeout == OnTimeout::OneAndZero {
        on_timeout.append_to(ctx.out);
        return Ok(());
    }
    let waiter = ctx.block_without_keys(deadline_ms, on_timeout)?;
    if wanted == 0
        && let Some(waiter) = waiter
    {
        let (engine, late) = (ctx.engine, Arc::downgrade(&waiter));
        let waits = Weak::clone(&late);
        // The log may end without it.
        let answer = move |out: &mut Reply| match engine.durability.has_given_up(lsn) {
            true => out.error_bytes(NOTHING_LOCAL.as_bytes()),
            false => OnTimeout::OneAndZero.append_to(out),
        };
        let wake = move || {
            if let Some(late) = late.upgrade() {
                late.finish(engine, answer);
            }
        };
        // The session has its waiter as long as it waits.
        if !durability.call_at(lsn, Box::new(wake), Box::new(move || waits.strong_count() > 0)) {
            waiter.finish(engine, answer);
        }
    }
    Ok(())
}

fn wait_for_replicas(ctx: &mut Ctx<'_>, wanted: i64, deadline_ms: Option<i64>, on_timeout: OnTimeout) -> CommandResult {
    if wanted > 0 {
        // Only the timeout or CLIENT UNBLOCK ends this.
        ctx.block_without_keys(deadline_ms, on_timeout)?;
    } else {
        on_timeout.append_to(ctx.out);
    }
    Ok(())
}

/// `FAILOVER [TO host port [FORCE]] [ABORT] [TIMEOUT milliseconds]`: refused, as there is no replica to take over
pub(crate) fn failover(ctx: &mut Ctx<'_>) -> CommandResult {
    let (mut has_host, mut has_timeout, mut is_forced, mut aborts) = (false, false, false, false);
    let mut rest = ctx.rest(1);
    while !rest.is_empty() {
        if !has_timeout && rest.take_with("TIMEOUT", 1) {
            if rest.next_int()? <= 0 {
                return Err(BAD_FAILOVER_TIMEOUT.into());
            }
            has_timeout = true;
        } else if !has_host && rest.take_with("TO", 2) {
            let _host = rest.next_arg();
            let _port = rest.next_int()?;
            has_host = true;
        } else if ctx.argc() == 2 && rest.take("ABORT") {
            aborts = true;
        } else if !is_forced && rest.take("FORCE") {
            is_forced = true;
        } else {
            return Err(error::SYNTAX.into());
        }
    }
    Err(if aborts { NO_FAILOVER.into() } else { NO_REPLICAS.into() })
}
