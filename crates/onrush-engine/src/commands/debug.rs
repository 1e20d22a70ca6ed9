//! DEBUG: for tests of the server and of clients, behind `enable-debug-command`.

mod command_log;
mod data_digest;
mod state_digest;

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use onrush_store::{Encoding, Entry, NewValue, Type, ValueRef, clock};

use self::data_digest::Digest;
use super::keys::work_on;
use super::persistence::{load_log, reload};
use crate::ctx::{CommandResult, Ctx};
use crate::error::{self, CommandError};
use crate::types::digest::Digest as StateDigest;
use crate::units::parse_memory;

const REFUSED: CommandError = CommandError::fixed(
    "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it from a \
     local connection, otherwise you need to set this option in the configuration file, and then restart the server.",
);
const NO_REPLICATION: CommandError =
    CommandError::fixed("ERR DEBUG CHANGE-REPL-ID is not supported yet: there is no replication");
const NOT_SDS: CommandError = CommandError::fixed("ERR Not an sds encoded string.");
const NO_RESP2: CommandError = CommandError::fixed("ERR RESP2 is not supported by this command");
const BAD_PACKED_THRESHOLD: CommandError =
    CommandError::fixed("ERR argument must be a memory value bigger than 1 and smaller than 4gb");
const BAD_PROTOCOL: CommandError = CommandError::fixed(
    "ERR Wrong protocol type name. Please use one of the following: \
     string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false",
);

const HELP: &[&str] = &[
    "DEBUG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CHANGE-REPL-ID",
    "    Changes the replication ids. Not supported yet.",
    "COMMAND-LOG START <path> | STOP",
    "    Writes a file of commands: first those that make all data as it is, then what is done from here on, in order.",
    "DIGEST",
    "    Returns a digest of all data, the same as a redis-server with equal data.",
    "DIGEST-VALUE <key> [<key> ...]",
    "    Returns a digest of each key's value.",
    "ERROR <string>",
    "    Returns the string as an error.",
    "LOADAOF",
    "    Deletes all data and loads the append-only file.",
    "LOG <message>",
    "    Writes the message to the server's log.",
    "OBJECT <key>",
    "    Tells how a key's value is kept.",
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
    "SET-ACTIVE-EXPIRE <0|1>",
    "    Turns expiry in the background off and on.",
    "SLEEP <seconds>",
    "    Stops all work on the data for a time. Decimals allowed.",
    "STATE-DIGEST",
    "    Returns a digest of all data with all times at which keys and fields expire and with all consumer groups.",
    "HELP",
    "    Returns this text.",
];

/// `DEBUG subcommand [arg ...]`
pub fn debug(ctx: &mut Ctx<'_>) -> CommandResult {
    if !ctx.engine.process.allows_debug(ctx.session.handle.is_local()) {
        return Err(REFUSED);
    }
    match (ctx.arg(1).to_ascii_lowercase().as_slice(), ctx.argc()) {
        (b"change-repl-id", 2) => Err(NO_REPLICATION),
        (b"command-log", 4) if ctx.is(2, "START") => command_log::start(ctx),
        (b"command-log", 3) if ctx.is(2, "STOP") => command_log::stop(ctx),
        (b"state-digest", 2) => state_digest(ctx),
        (b"digest", 2) => digest(ctx),
        (b"digest-value", 2..) => digest_value(ctx),
        (b"error", 3) => Err(CommandError::bytes(ctx.arg(2).to_vec())),
        (b"help", 2) => help(ctx),
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
        (b"protocol", 3) => protocol(ctx),
        (b"quicklist-packed-threshold", 3) => packed_threshold(ctx),
        (b"replay", 3) => replay(ctx),
        (b"reload", 2..) => reload(ctx),
        (b"loadaof", 2) => load_log(ctx),
        (b"sdslen", 3) => sds_len(ctx),
        (b"set-active-expire", 3) => set_active_expire(ctx),
        (b"sleep", 3) => sleep(ctx),
        _ => Err(CommandError::bytes(
            [
                b"ERR unknown subcommand or wrong number of arguments for '",
                error::quoted(&ctx.arg(1)[..ctx.arg(1).len().min(128)]),
                b"'. Try DEBUG HELP.",
            ]
            .concat(),
        )),
    }
}

fn help(ctx: &mut Ctx<'_>) -> CommandResult {
    ctx.out.array(HELP.len());
    HELP.iter().for_each(|line| ctx.out.simple(line));
    Ok(())
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
    ctx.expect_work(usize::MAX)?;
    ctx.commit.lock_keyspace()?;
    let (mut digest, mut last_db) = (Digest::default(), None);
    for_each_entry(ctx, |db, entry| {
        if last_db.replace(db) != Some(db) {
            digest.begin_database(db as u32);
        }
        digest.add_entry(entry);
    });
    ctx.out.simple(&digest.to_string());
    Ok(())
}

fn state_digest(ctx: &mut Ctx<'_>) -> CommandResult {
    ctx.commit.lock_keyspace()?;
    let mut digest = StateDigest::default();
    for_each_entry(ctx, |db, entry| digest.add(&state_digest::of_entry(db, entry)));
    ctx.out.simple(&digest.to_string());
    Ok(())
}

fn digest_value(ctx: &mut Ctx<'_>) -> CommandResult {
    let keys: Vec<_> = (2..ctx.argc()).map(|index| ctx.key(index)).collect();
    let db = ctx.commit.db();
    ctx.commit.lock_all(keys.iter().map(|key| (db, key.hash)))?;
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
    ctx.out.ok();
    Ok(())
}

fn object(ctx: &mut Ctx<'_>) -> CommandResult {
    let key = ctx.key(2);
    let now_ms = ctx.now_ms();
    let entry = ctx.commit.peek(&key).ok_or(error::NO_SUCH_KEY)?;
    let line = format!(
        "Value at:{:p} refcount:1 encoding:{} serializedlength:{} lru:{} lru_seconds_idle:{}",
        std::ptr::from_ref(entry).cast::<u8>(),
        entry.encoding().name(),
        serialized_len(entry),
        entry.clock(),
        clock::lru_idle_seconds(entry.clock(), now_ms)
    );
    ctx.out.simple(&line);
    Ok(())
}

/// Bytes the value takes in an RDB file, uncompressed.
fn serialized_len(entry: &Entry) -> usize {
    match entry.value() {
        ValueRef::Int(n) if i8::try_from(n).is_ok() => 2,
        ValueRef::Int(n) if i16::try_from(n).is_ok() => 3,
        ValueRef::Int(n) if i32::try_from(n).is_ok() => 5,
        value => match value.len() {
            len @ ..64 => len + 1,
            len @ ..16_384 => len + 2,
            len => len + 5,
        },
    }
}

fn populate(ctx: &mut Ctx<'_>) -> CommandResult {
    let positive = |index: usize| {
        let number = ctx.int_or(index, error::NOT_POSITIVE)?;
        u64::try_from(number).map_err(|_| error::NOT_POSITIVE)
    };
    let count = positive(2)?;
    let prefix = if ctx.argc() > 3 { ctx.arg(3) } else { b"key" };
    let size = if ctx.argc() > 4 { Some(positive(4)? as usize) } else { None };
    for number in 0..count {
        let name = [prefix, format!(":{number}").as_bytes()].concat();
        let key = ctx.commit.key(&name);
        let mut value = format!("value:{number}").into_bytes();
        if let Some(size) = size {
            value.resize(size, 0);
        }
        if ctx.commit.write(&key).is_none() {
            ctx.commit.insert(&key, NewValue::Bytes(&value));
        }
    }
    ctx.out.ok();
    Ok(())
}

#[expect(clippy::approx_constant, reason = "the double that Redis answers")]
fn protocol(ctx: &mut Ctx<'_>) -> CommandResult {
    let out = &mut *ctx.out;
    match ctx.argv.get(2).to_ascii_lowercase().as_slice() {
        b"string" => out.bulk(b"Hello World"),
        b"integer" => out.int(12345),
        b"double" => out.double(3.141),
        b"null" => out.null(),
        b"array" | b"set" => {
            if ctx.argv.get(2).eq_ignore_ascii_case(b"set") {
                out.set(3)
            } else {
                out.array(3)
            }
            (0..3).for_each(|n| out.int(n));
        }
        b"map" => {
            out.map(3);
            for n in 0..3 {
                out.int(n);
                out.bool(n == 1);
            }
        }
        b"attrib" => {
            if out.is_resp3() {
                out.raw(b"|1\r\n$14\r\nkey-popularity\r\n*2\r\n$7\r\nkey:123\r\n:90\r\n");
            }
            out.bulk(b"Some real reply following the attribute");
        }
        b"push" if !out.is_resp3() => return Err(NO_RESP2),
        b"push" => {
            out.push(2);
            out.bulk(b"server-cpu-usage");
            out.int(42);
            out.bulk(b"Some real reply following the push reply");
        }
        b"verbatim" => out.verbatim("txt", b"This is a verbatim\nstring"),
        b"true" => out.bool(true),
        b"false" => out.bool(false),
        b"bignum" if out.is_resp3() => out.raw(b"(1234567999999999999999999999999999999\r\n"),
        b"bignum" => out.bulk(b"1234567999999999999999999999999999999"),
        _ => return Err(BAD_PROTOCOL),
    }
    Ok(())
}

fn packed_threshold(ctx: &mut Ctx<'_>) -> CommandResult {
    parse_memory(ctx.arg(2)).filter(|&bytes| bytes < 4 << 30).ok_or(BAD_PACKED_THRESHOLD)?;
    ctx.out.ok();
    Ok(())
}

fn sds_len(ctx: &mut Ctx<'_>) -> CommandResult {
    let key = ctx.key(2);
    let entry = ctx.commit.peek(&key).ok_or(error::NO_SUCH_KEY)?;
    if entry.ty() != Type::String || entry.encoding() == Encoding::Int {
        return Err(NOT_SDS);
    }
    let (key_len, value_len) = (key.bytes.len(), entry.value().len());
    // Key and value share the entry's allocation: its size is reported as the value's.
    let line = format!(
        "key_sds_len:{key_len}, key_sds_avail:0, key_zmalloc: {key_len}, val_sds_len:{value_len}, val_sds_avail:0, \
         val_zmalloc: {}",
        entry.size_bytes()
    );
    ctx.out.simple(&line);
    Ok(())
}

fn set_active_expire(ctx: &mut Ctx<'_>) -> CommandResult {
    ctx.engine.settings.expiry_is_off.store(leading_number(ctx.arg(2)) as i64 == 0, Relaxed);
    ctx.out.ok();
    Ok(())
}

fn replay(ctx: &mut Ctx<'_>) -> CommandResult {
    ctx.session.is_replay = leading_number(ctx.arg(2)) as i64 != 0;
    ctx.commit.set_replay(ctx.session.is_replay);
    ctx.out.ok();
    Ok(())
}

fn sleep(ctx: &mut Ctx<'_>) -> CommandResult {
    if let Ok(time) = Duration::try_from_secs_f64(leading_number(ctx.arg(2))) {
        ctx.commit.lock_keyspace()?;
        ctx.engine.process.sleep(time);
        ctx.commit.set_time(ctx.engine.clock.unix_ms());
    }
    ctx.out.ok();
    Ok(())
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
