//! DUMP and RESTORE: a value as bytes that other servers read, and back.

use std::cell::RefCell;
use std::sync::atomic::Ordering::Relaxed;

use onrush_persist::rdb::{Encoder, Scratch, decode_payload, open_payload};
use onrush_resp::parse_i64;
use onrush_store::{Entry, NewValue, clock};

use crate::batch::kept::KEPT_BYTES_MAX;
use crate::command::Flags;
use crate::commands::keys::{is_lfu, work_on};
use crate::ctx::{CommandResult, Ctx, EventClass};
use crate::error::{self, CommandError};
use crate::types::rdb::{Restorer, encode};

const SENDER_GONE: CommandError = CommandError::fixed("ERR the node that moves the key has given that up");
const BUSY_KEY: CommandError = CommandError::fixed("BUSYKEY Target key name already exists.");
const INVALID_TTL: CommandError = CommandError::fixed("ERR Invalid TTL value, must be >= 0");
const INVALID_IDLETIME: CommandError = CommandError::fixed("ERR Invalid IDLETIME value, must be >= 0");
const INVALID_FREQ: CommandError = CommandError::fixed("ERR Invalid FREQ value, must be >= 0 and <= 255");
const BAD_FOOTER: CommandError = CommandError::fixed("ERR DUMP payload version or checksum are wrong");
const BAD_CONTENT: CommandError = CommandError::fixed("ERR Bad data format");

/// Bytes of a payload that take about as long as an element of a collection.
const BYTES_PER_ELEMENT: usize = 8;
const BYTES_PER_ELEMENT_OF_STRING: usize = 256;

thread_local! {
    /// What a thread uses again for each payload: otherwise each DUMP clears the 32 KB of a compressor.
    static OWN: RefCell<(Encoder, Scratch)> = RefCell::default();
}

/// `DUMP key`
pub(crate) fn dump(ctx: &mut Ctx<'_>) -> CommandResult {
    let key = ctx.key(1);
    let work = ctx.commit.peek(&key).map_or(0, work_on);
    ctx.expect_work(work)?;
    let compresses = ctx.engine.settings.rdb_compression.load(Relaxed);
    let Some(entry) = ctx.commit.read(&key) else { return ctx.reply_null() };
    with_payload(entry, compresses, |payload| ctx.out.bulk(payload));
    Ok(())
}

/// Calls `take` with the payload that DUMP returns for an entry. O(bytes).
pub(crate) fn with_payload(entry: &Entry, compresses: bool, take: impl FnOnce(&[u8])) {
    OWN.with_borrow_mut(|(encoder, _)| {
        encoder.clear();
        encoder.set_compress(compresses);
        encode(entry.value(), encoder.payload());
        take(encoder.seal());
        encoder.shrink_to(KEPT_BYTES_MAX);
    });
}

/// The options of RESTORE.
#[derive(Default)]
struct Options {
    replace: bool,
    absolute: bool,
    idle_s: Option<u32>,
    freq: Option<u8>,
}

impl Options {
    fn parse(ctx: &Ctx<'_>) -> Result<Self, CommandError> {
        let mut options = Self::default();
        let mut rest = ctx.rest(4);
        while !rest.is_empty() {
            if rest.take("REPLACE") {
                options.replace = true;
            } else if rest.take("ABSTTL") {
                options.absolute = true;
            } else if options.freq.is_none() && rest.take_with("IDLETIME", 1) {
                let idle_s = u64::try_from(rest.next_int()?).map_err(|_| INVALID_IDLETIME)?;
                options.idle_s = Some(u32::try_from(idle_s).unwrap_or(u32::MAX));
            } else if options.idle_s.is_none() && rest.take_with("FREQ", 1) {
                options.freq = Some(u8::try_from(rest.next_int()?).map_err(|_| INVALID_FREQ)?);
            } else {
                return Err(error::SYNTAX);
            }
        }
        Ok(options)
    }

    /// The access clock of the key, as the policy of eviction wants it.
    fn clock(&self, ctx: &Ctx<'_>) -> u32 {
        let clock = if is_lfu(ctx) {
            self.freq.map(|freq| clock::lfu(freq, ctx.now_ms()))
        } else {
            self.idle_s.map(|idle_s| clock::lru_from_idle(idle_s, ctx.now_ms()))
        };
        clock.unwrap_or_else(|| ctx.commit.fresh_clock())
    }
}

/// `RESTORE key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]`
pub(crate) fn restore(ctx: &mut Ctx<'_>) -> CommandResult {
    let options = Options::parse(ctx)?;
    let is_moving = ctx.command.flags.contains(Flags::ASKING) && !ctx.session.is_replay;
    if is_moving && ctx.engine.process.has_hung_up(ctx.session.handle.fd) {
        // It has been on its way for too long: the sender goes on with the key, and may have sent it again.
        return Err(SENDER_GONE.into());
    }
    let (key, payload) = (ctx.key(1), ctx.arg(3));
    let is_string = payload.first() == Some(&0);
    ctx.expect_work(payload.len() / if is_string { BYTES_PER_ELEMENT_OF_STRING } else { BYTES_PER_ELEMENT })?;
    if !options.replace && ctx.commit.write(&key).is_some() {
        return Err(BUSY_KEY.into());
    }
    let ttl_ms = parse_i64(ctx.arg(2)).ok_or(error::NOT_INTEGER)?;
    if ttl_ms < 0 {
        return Err(INVALID_TTL.into());
    }
    let value = value_of(ctx, payload)?;
    let removed = ctx.commit.write(&key).map(|slot| slot.remove());
    let is_replaced = removed.is_some();
    ctx.commit.discard(removed);
    // A time out of range counts as passed, as in Redis, where it wraps around.
    let base_ms = if options.absolute { 0 } else { ctx.now_ms() };
    let expire = (ttl_ms > 0).then(|| ttl_ms.wrapping_add(base_ms));
    if expire.is_some_and(|at| at <= ctx.due_ms()) {
        if is_replaced {
            ctx.changed(EventClass::Generic, "del", key.bytes);
            ctx.log_instead(&[b"DEL", key.bytes]);
        }
        return ctx.reply_ok();
    }
    let clock = options.clock(ctx);
    ctx.commit.insert_in(ctx.commit.db(), &key, value, expire, clock);
    ctx.changed(EventClass::Generic, "restore", key.bytes);
    if let Some(at) = expire
        && !options.absolute
        && ctx.is_logged()
    {
        let mut text = itoa::Buffer::new();
        ctx.log_instead(&[b"RESTORE", key.bytes, text.format(at).as_bytes(), payload, b"REPLACE", b"ABSTTL"]);
    }
    ctx.reply_ok()
}

/// The value of a payload, checked in full.
fn value_of(ctx: &Ctx<'_>, payload: &[u8]) -> Result<NewValue<'static>, CommandError> {
    let body = open_payload(payload).ok_or(BAD_FOOTER)?;
    let mut restorer = Restorer::new(&ctx.engine.settings.encodings);
    let decoded = OWN.with_borrow_mut(|(_, scratch)| decode_payload(body, &mut restorer, scratch));
    decoded.map_err(|_| BAD_CONTENT)?;
    restorer.into_value().ok_or(BAD_CONTENT)
}
