//! DEBUG: for tests of the server and of clients, behind `enable-debug-command`.

mod bus;
mod command_log;
mod data_digest;
mod not_done;
mod protocol;
mod state_digest;

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use onrush_store::{Encoding, Entry, NewValue, Type, clock};

use self::data_digest::Digest;
use crate::blocking::waiter::OnTimeout;
use crate::commands::keys::dump::with_payload;
use crate::commands::keys::lock_keys;
use crate::commands::keys::work_on;
use crate::commands::server::persistence::{load_log, reload};
use crate::ctx::{CommandResult, Ctx};
use crate::error::{self, CommandError};
use crate::formats::units::parse_memory;
use crate::types::digest::Digest as StateDigest;

const NO_CLIENT_EVICTION: CommandError = CommandError::fixed("ERR maxmemory-clients is disabled.");
const NOT_SDS: CommandError = CommandError::fixed("ERR Not an sds encoded string.");
const BAD_PACKED_THRESHOLD: CommandError =
    CommandError::fixed("ERR argument must be a memory value bigger than 1 and smaller than 4gb");
const HELP: &[&str] = &[
    "DEBUG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "ASSERT",
    "    Ends the process at once, as a fault does.",
    "CHANGE-REPL-ID",
    "    Changes the identifier of the history of the data, INFO's `master_replid`.",
    "CLIENT-EVICTION",
    "    Shows what clients hold, by size. An error without `maxmemory-clients`.",
    "CLUSTERLINK KILL <to|from|all> <node-id>",
    "    Ends links of the bus to or from a node, or both.",
    "COMMAND-LOG START <path> | STOP",
    "    Writes a file of commands: first those that make all data as it is, then what is done from here on, in order.",
    "DIGEST",
    "    Returns a digest of all data, the same as a redis-server with equal data.",
    "DIGEST-VALUE <key> [<key> ...]",
    "    Returns a digest of each key's value.",
    "DROP-CLUSTER-PACKET-FILTER <packet-type>",
    "    Loses messages of the bus that come, of a type by its number. -1: none.",
    "ERROR <string>",
    "    Returns the string as an error.",
    "LOADAOF",
    "    Deletes all data and loads the append-only file.",
    "LOG <message>",
    "    Writes the message to the server's log.",
    "OBJECT <key>",
    "    Tells how a key's value is kept.",
    "OOM",
    "    Ends the process at once, as a fault does.",
    "PANIC [<key>]",
    "    Fails in the middle of the command, as if it had the key to change it. Closes this connection and no other.",
    "POPULATE <count> [<prefix>] [<size>]",
    "    Makes string keys <prefix>:<number> where there are none. The prefix is `key` by default; a size cuts",
    "    values off or fills them up with zero bytes.",
    "PROTOCOL <type>",
    "    Returns a reply of a type: string, integer, double, bignum, null, array, set, map, attrib, push, verbatim,",
    "    true, false.",
    "QUICKLIST-PACKED-THRESHOLD <size>",
    "    Accepted and without effect: lists have no such nodes.",
    "RELOAD [NOSAVE] [NOFLUSH] [MERGE]",
    "    Saves all data, deletes it and loads it again. NOSAVE loads what was saved before. NOFLUSH deletes nothing:",
    "    a key that the file has, too, is an error. With MERGE such a key gets its value from the file.",
    "REPLAY <0|1>",
    "    Tells that this connection sends the commands of a log: nothing expires before them.",
    "SDSLEN <key>",
    "    Tells lengths of a key and of its string.",
    "SEGFAULT",
    "    Ends the process at once, as a fault does.",
    "SET-ACTIVE-EXPIRE <0|1>",
    "    Turns expiry in the background off and on.",
    "SLEEP <seconds>",
    "    Makes this connection wait, and no other one. Decimals allowed.",
    "STALL <seconds>",
    "    Keeps the thread busy that serves this connection, as a fault would. Decimals allowed.",
    "STATE-DIGEST",
    "    Returns a digest of all data with all times at which keys and fields expire and with all consumer groups.",
    "HELP",
    "    Returns this text.",
];

/// `DEBUG subcommand [arg ...]`
pub(crate) fn debug(ctx: &mut Ctx<'_>) -> CommandResult {
    match (ctx.arg(1).to_ascii_lowercase().as_slice(), ctx.argc()) {
        (b"change-repl-id", 2) => change_replid(ctx),
        (b"client-eviction", 2) => client_eviction(ctx),
        (b"clusterlink", 5) if ctx.is(2, "KILL") => bus::kill_links(ctx),
        (b"command-log", 4) if ctx.is(2, "START") => command_log::start(ctx),
        (b"command-log", 3) if ctx.is(2, "STOP") => command_log::stop(ctx),
        (b"state-digest", 2) => state_digest(ctx),
        (b"digest", 2) => digest(ctx),
        (b"digest-value", 2..) => digest_value(ctx),
        (b"drop-cluster-packet-filter", 3) => bus::lose_messages(ctx),
        (b"error", 3) => Err(CommandError::bytes(ctx.arg(2).to_vec()).into()),
        (b"help", 2) => ctx.reply_lines(HELP),
        (b"log", 3) => log(ctx),
        (b"object", 3) => object(ctx),
        (b"panic", 2) => panic!("DEBUG PANIC was called"),
        (b"panic", 3) => {
            // Acts like a command that panics while it changes a key.
            let key = ctx.commit.key(ctx.argv.get(2));
            let _ = ctx.commit.write(&key);
            panic!("DEBUG PANIC was called with a key");
        }
        (b"populate", 3..=5) => populate(ctx),
        (b"protocol", 3) => protocol::protocol(ctx),
        (b"quicklist-packed-threshold", 3) => packed_threshold(ctx),
        (b"replay", 3) => replay(ctx),
        (b"reload", 2..) => reload(ctx),
        (b"loadaof", 2..) => load_log(ctx),
        (b"segfault" | b"assert" | b"oom", 2..) => crash(ctx),
        (b"sdslen", 3) => sds_len(ctx),
        (b"set-active-expire", 3) => set_active_expire(ctx),
        (b"sleep", 3) => sleep(ctx),
        (b"stall", 3) => stall(ctx),
        _ if let Some(switch) = not_done::find(ctx) => not_done::reply(ctx, switch),
        (name, _) => Err(CommandError::quoting(
            "ERR unknown subcommand or wrong number of arguments for '",
            &ctx.arg(1)[..name.len().min(128)],
            "'. Try DEBUG HELP.",
        )
        .into()),
    }
}

/// Calls `look` with all keys that have not expired, and their databases in ascending order. The whole keyspace is locked. O(keys).
fn for_each_entry(ctx: &Ctx<'_>, mut look: impl FnMut(usize, &Entry)) {
    let now_ms = ctx.now_ms();
    for index in 0..ctx.engine.keyspace.databases() {
        let Some(db) = ctx.engine.keyspace.db(index) else { continue };
        for (_, shard) in db.shards().filter(|(_, shard)| !shard.is_empty()) {
            shard.lock().for_each(&mut |entry| {
                if !entry.is_expired(now_ms) {
                    look(index, entry);
                }
            });
        }
    }
}

fn digest(ctx: &mut Ctx<'_>) -> CommandResult {
    ctx.leave_worker()?;
    ctx.commit.lock_keyspace()?;
    let (mut digest, mut last_db) = (Digest::default(), None);
    for_each_entry(ctx, |db, entry| {
        if last_db.replace(db) != Some(db) {
            digest.begin_database(db as u32);
        }
        digest.add_entry(entry);
    });
    ctx.reply_simple(&digest.to_string())
}

fn state_digest(ctx: &mut Ctx<'_>) -> CommandResult {
    ctx.leave_worker()?;
    ctx.commit.lock_keyspace()?;
    let mut digest = StateDigest::default();
    for_each_entry(ctx, |db, entry| digest.add(&state_digest::of_entry(db, entry)));
    ctx.reply_simple(&digest.to_string())
}

fn digest_value(ctx: &mut Ctx<'_>) -> CommandResult {
    let keys = lock_keys(ctx, 2..ctx.argc())?;
    let work = keys.iter().map(|key| ctx.commit.held_entry(key).map_or(0, work_on)).sum();
    ctx.expect_work(work)?;
    ctx.out.array(keys.len());
    for key in &keys {
        let digest = ctx.commit.held_entry(key).map_or_else(Digest::default, Digest::of_value);
        ctx.out.simple(&digest.to_string());
    }
    Ok(())
}

fn log(ctx: &mut Ctx<'_>) -> CommandResult {
    tracing::warn!("DEBUG LOG: {}", String::from_utf8_lossy(ctx.arg(2)).escape_debug());
    ctx.reply_ok()
}

fn object(ctx: &mut Ctx<'_>) -> CommandResult {
    let key = ctx.key(2);
    let now_ms = ctx.now_ms();
    let work = ctx.commit.peek(&key).map_or(0, work_on);
    ctx.expect_work(work)?;
    let compresses = ctx.engine.settings.rdb_compression.load(Relaxed);
    let entry = ctx.commit.peek(&key).ok_or(error::NO_SUCH_KEY)?;
    let line = format!(
        "Value at:{:p} refcount:1 encoding:{} serializedlength:{} lru:{} lru_seconds_idle:{}",
        std::ptr::from_ref(entry).cast::<u8>(),
        entry.encoding().name(),
        serialized_len(entry, compresses),
        entry.clock(),
        clock::lru_idle_seconds(entry.clock(), now_ms)
    );
    ctx.reply_simple(&line)
}

/// Bytes that the value takes in an RDB file. O(bytes).
fn serialized_len(entry: &Entry, compresses: bool) -> usize {
    /// A payload also has the type, a version and a checksum.
    const BESIDE_VALUE: usize = 1 + 2 + 8;
    let mut len = 0;
    with_payload(entry, compresses, |payload| len = payload.len() - BESIDE_VALUE);
    len
}

/// Keys that POPULATE makes before it lets a thread go first that wants the whole keyspace.
const POPULATED_AT_ONCE: u64 = 1_000;

fn populate(ctx: &mut Ctx<'_>) -> CommandResult {
    let positive = |index: usize| {
        let number = ctx.int_or(index, error::NOT_POSITIVE)?;
        u64::try_from(number).map_err(|_| error::NOT_POSITIVE)
    };
    let count = positive(2)?;
    let prefix = if ctx.argc() > 3 { ctx.arg(3).to_vec() } else { b"key".to_vec() };
    let size = if ctx.argc() > 4 { Some(positive(4)? as usize) } else { None };
    if size.is_some_and(|size| size as u64 > ctx.string_len_max() as u64) {
        return Err(error::STRING_TOO_LONG.into());
    }
    ctx.expect_work(usize::try_from(count).unwrap_or(usize::MAX))?;
    for number in 0..count {
        let name = [&prefix, format!(":{number}").as_bytes()].concat();
        let key = ctx.commit.key(&name);
        let mut value = format!("value:{number}").into_bytes();
        if let Some(size) = size {
            value.resize(size, 0);
        }
        if ctx.commit.write(&key).is_none() {
            ctx.commit.insert(&key, NewValue::Bytes(&value));
        }
        let may_pause = ctx.thread == ctx.engine.long_thread() && !ctx.commit.is_nested();
        if may_pause && (number + 1).is_multiple_of(POPULATED_AT_ONCE) {
            ctx.commit.leave();
            ctx.commit.enter();
        }
    }
    ctx.reply_ok()
}

fn packed_threshold(ctx: &mut Ctx<'_>) -> CommandResult {
    parse_memory(ctx.arg(2)).filter(|&bytes| bytes < 4 << 30).ok_or(BAD_PACKED_THRESHOLD)?;
    ctx.reply_ok()
}

fn sds_len(ctx: &mut Ctx<'_>) -> CommandResult {
    let key = ctx.key(2);
    let entry = ctx.commit.peek(&key).ok_or(error::NO_SUCH_KEY)?;
    if entry.ty() != Type::String || entry.encoding() == Encoding::Int {
        return Err(NOT_SDS.into());
    }
    let (key_len, value_len) = (key.bytes.len(), entry.value().len());
    // Key and value share the entry's allocation: its size is reported as the value's.
    let line = format!(
        "key_sds_len:{key_len}, key_sds_avail:0, key_zmalloc: {key_len}, val_sds_len:{value_len}, val_sds_avail:0, \
         val_zmalloc: {}",
        entry.size_bytes()
    );
    ctx.reply_simple(&line)
}

fn set_active_expire(ctx: &mut Ctx<'_>) -> CommandResult {
    ctx.engine.settings.expiry_is_off.store(leading_number(ctx.arg(2)) as i64 == 0, Relaxed);
    ctx.reply_ok()
}

fn replay(ctx: &mut Ctx<'_>) -> CommandResult {
    ctx.session.is_replay = leading_number(ctx.arg(2)) as i64 != 0;
    ctx.commit.set_replay(ctx.session.is_replay);
    ctx.reply_ok()
}

/// The time that an argument tells in seconds; `None` if it is none, or below 0.
fn time_from(ctx: &Ctx<'_>, index: usize) -> Option<Duration> {
    Duration::try_from_secs_f64(leading_number(ctx.arg(index))).ok()
}

/// The client waits as one of BLPOP does, so no thread and no other client waits for it.
fn sleep(ctx: &mut Ctx<'_>) -> CommandResult {
    let Some(time) = time_from(ctx, 2).filter(|time| !time.is_zero()) else { return ctx.reply_ok() };
    // By one clock and from one moment, so the command is never told to have taken less.
    let began = ctx.engine.clock.now();
    let us = i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
    let deadline_us = ctx.engine.clock.unix_us_at(began).saturating_add(us);
    let deadline_ms = Some(deadline_us / 1000 + 1);
    ctx.block_without_keys(deadline_ms, OnTimeout::Awake(began))?;
    Ok(())
}

fn stall(ctx: &mut Ctx<'_>) -> CommandResult {
    if let Some(time) = time_from(ctx, 2) {
        ctx.engine.process.stall(time);
        ctx.commit.set_time(ctx.engine.clock.unix_ms());
    }
    ctx.reply_ok()
}

/// Clients by the power of two that their memory has reached, the largest first.
fn client_eviction(ctx: &mut Ctx<'_>) -> CommandResult {
    if ctx.engine.clients_limit() == 0 {
        return Err(NO_CLIENT_EVICTION.into());
    }
    let mut sizes: BTreeMap<u32, (usize, u64)> = BTreeMap::new();
    for client in ctx.engine.clients.all() {
        let bytes = client.total_bytes();
        let (clients, sum) = sizes.entry(bytes.ilog2()).or_default();
        (*clients, *sum) = (*clients + 1, *sum + bytes);
    }
    let line = |(power, (clients, bytes)): (u32, (usize, u64))| {
        format!("at least {} bytes: {clients} clients, {bytes} bytes\n", 1_u64 << power)
    };
    let text: String = sizes.into_iter().rev().map(line).collect();
    ctx.reply_bulk(text.as_bytes())
}

fn change_replid(ctx: &mut Ctx<'_>) -> CommandResult {
    ctx.engine.replication.history.rename(ctx.engine.new_replid());
    ctx.reply_ok()
}

fn crash(ctx: &mut Ctx<'_>) -> CommandResult {
    let name = String::from_utf8_lossy(ctx.arg(1)).to_ascii_uppercase();
    Ok(ctx.engine.process.crash(&format!("DEBUG {name} was called"))?)
}

/// The number that `text` starts with, 0 if there is none, as C's `strtod` reads it.
fn leading_number(text: &[u8]) -> f64 {
    let text = text.trim_ascii_start();
    let end = text.iter().position(|byte| !b"+-.eE0123456789".contains(byte)).unwrap_or(text.len());
    let digits = std::str::from_utf8(&text[..end]).unwrap_or("");
    (1..=digits.len()).rev().find_map(|len| digits[..len].parse().ok()).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_may_be_followed_by_anything() {
        for (text, value) in [
            ("0.5", 0.5),
            (" 1.5s", 1.5),
            ("-1", -1.0),
            ("1e", 1.0),
            ("1e-2x", 0.01),
            ("abc", 0.0),
            ("", 0.0),
            ("e", 0.0),
        ] {
            assert_eq!(leading_number(text.as_bytes()), value, "{text}");
        }
    }

    #[test]
    fn help_lists_every_subcommand_in_order() {
        let names: Vec<_> = HELP[1..].iter().filter(|line| !line.starts_with(' ')).collect();
        let sorted = names[..names.len() - 1].is_sorted();
        assert!(sorted, "{names:?}");
        assert_eq!(names.last(), Some(&&"HELP"));
    }
}
