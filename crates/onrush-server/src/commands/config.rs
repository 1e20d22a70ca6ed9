//! CONFIG: reading and changing the configuration of the running server.

use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

use crate::command::replies;
use crate::config::{Config, ConfigSetError, Directive, os_reason};
use crate::ctx::{CommandResult, Ctx};
use crate::error::{self, CommandError};
use crate::listener::listen_elsewhere;
use crate::os;
use crate::server::Server;

/// `CONFIG GET parameter [parameter ...]`
pub fn config_get(ctx: &mut Ctx<'_>) -> CommandResult {
    let patterns: Vec<&[u8]> = ctx.argv.iter().skip(2).collect();
    let found = ctx.server.config.read().get_matching(&patterns);
    ctx.out.map(found.len());
    for (name, value) in found {
        ctx.out.bulk(name.as_bytes());
        ctx.out.bulk(&value);
    }
    Ok(())
}

/// `CONFIG SET parameter value [parameter value ...]`: all of them or none
pub fn config_set(ctx: &mut Ctx<'_>) -> CommandResult {
    if !ctx.argc().is_multiple_of(2) {
        return Err(error::SYNTAX);
    }
    let pairs: Vec<_> = (2..ctx.argc()).step_by(2).map(|index| (ctx.arg(index), ctx.arg(index + 1))).collect();
    let local = ctx.session.handle.is_local();
    set(ctx.server, &pairs, local).map_err(|error| error_reply(&error, &pairs))?;
    ctx.out.ok();
    Ok(())
}

/// The error as a reply, which quotes an unknown name byte for byte even if it is no UTF-8.
fn error_reply(error: &ConfigSetError, pairs: &[(&[u8], &[u8])]) -> CommandError {
    let ConfigSetError::Unknown { name: unknown } = error else { return CommandError::text(error.to_string()) };
    let sent = pairs.iter().find(|(name, _)| String::from_utf8_lossy(name) == *unknown);
    let name = sent.map_or(unknown.as_bytes(), |(name, _)| name);
    CommandError::bytes(
        [b"ERR Unknown option or number of arguments for CONFIG SET - '", error::quoted(name), b"'"].concat(),
    )
}

fn set(server: &Server, pairs: &[(&[u8], &[u8])], local: bool) -> Result<(), ConfigSetError> {
    let _alone = server.config_changes.lock();
    // Nobody else changes it, but others read it meanwhile: the maintenance thread, which has to listen elsewhere.
    let before = server.config.read().clone();
    let change = before.set_many(pairs, local)?;
    for (done, directive) in change.changed.iter().enumerate() {
        if let Err(error) = apply(server, directive, &change.config) {
            for directive in &change.changed[..done] {
                // What was applied before worked with the old values until now.
                let _ = apply(server, directive, &before);
            }
            return Err(error);
        }
    }
    server.hot.refresh(&change.config);
    server.eviction.refresh(&change.config);
    *server.config.write() = change.config;
    Ok(())
}

/// Files the server needs open beside its clients' connections.
const RESERVED_FILES: u64 = 32;

/// Does what a changed directive wants beyond its new value.
fn apply(server: &Server, directive: &Directive, config: &Config) -> Result<(), ConfigSetError> {
    let failed = |reason: String| ConfigSetError::failed(directive.name, reason);
    match directive.name {
        "bind" | "port" => {
            let Some(changes) = server.listening.get() else { return Ok(()) };
            listen_elsewhere(changes, config).map_err(|error| {
                tracing::warn!("{error}. Nothing is changed.");
                let text = match directive.name {
                    "bind" => "Failed to bind to specified addresses.",
                    _ => "Unable to listen on this port. Check server logs.",
                };
                failed(text.to_owned())
            })
        }
        "dir" => std::env::set_current_dir(&config.dir).map_err(|error| failed(os_reason(&error))),
        "loglevel" => {
            crate::log::set_level(config.loglevel);
            Ok(())
        }
        "maxclients" => {
            let wanted = config.maxclients + RESERVED_FILES;
            let allowed = os::raise_open_files(wanted);
            if allowed >= wanted {
                return Ok(());
            }
            Err(failed(format!(
                "The operating system is not able to handle the specified number of clients, try with {}",
                allowed.saturating_sub(RESERVED_FILES)
            )))
        }
        _ => Ok(()),
    }
}

/// `CONFIG RESETSTAT`
pub fn config_resetstat(ctx: &mut Ctx<'_>) -> CommandResult {
    let server = ctx.server;
    server.stats.reset();
    server.lazyfree.reset_freed();
    server.eviction.reset();
    for counter in [
        &server.connections_received,
        &server.connections_rejected,
        &server.expire_time_capped,
        &server.expire_cycle_us,
    ] {
        counter.store(0, Relaxed);
    }
    ctx.out.ok();
    Ok(())
}

/// `CONFIG REWRITE`
pub fn config_rewrite(ctx: &mut Ctx<'_>) -> CommandResult {
    // A copy, so that nobody waits for the disk with the configuration locked.
    let config = ctx.server.config.read().clone();
    let file = ctx.server.config_file.as_deref().map(Path::new);
    config.rewrite(file, None).map_err(|error| {
        tracing::warn!("CONFIG REWRITE failed: {error}");
        CommandError::text(error.to_string())
    })?;
    tracing::info!("CONFIG REWRITE executed with success.");
    ctx.out.ok();
    Ok(())
}

/// `CONFIG HELP`
pub fn config_help(ctx: &mut Ctx<'_>) -> CommandResult {
    replies::help(&ctx.server.commands, ctx.command, ctx.out);
    Ok(())
}
