//! Consumer groups of streams: XGROUP and XINFO.

use onrush_resp::Reply;
use onrush_store::{Group, Stream, StreamId};

use crate::commands::reply::Fields;
use crate::commands::streams::idempotency::{self, INFO_FIELDS};
use crate::commands::streams::{parse_id, reply_entry, reply_id};
use crate::ctx::{CommandResult, Ctx, EventClass};
use crate::error::{self, CommandError, quoted};

/// Entries and pending entries that XINFO STREAM FULL shows by default.
const FULL_COUNT_DEFAULT: usize = 10;

/// The most arguments: each option once.
const CREATE_ARGS_MAX: usize = 8;
const SETID_ARGS_MAX: usize = 7;

const KEY_MISSING: CommandError = CommandError::fixed(
    "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to \
     create an empty stream automatically.",
);

fn no_group(key: &[u8], group: &[u8]) -> CommandError {
    CommandError::bytes(
        [&b"NOGROUP No such consumer group '"[..], quoted(group), b"' for key name '", quoted(key), b"'"].concat(),
    )
}

/// Options of XGROUP CREATE and SETID.
#[derive(Default)]
struct Options {
    mkstream: bool,
    /// `Some(None)` if the option says that it is unknown.
    entries_read: Option<Option<u64>>,
}

impl Options {
    fn parse(ctx: &Ctx<'_>, may_make: bool) -> Result<Self, CommandError> {
        let mut options = Self::default();
        let mut rest = ctx.rest(5);
        while !rest.is_empty() {
            if may_make && rest.take("MKSTREAM") {
                options.mkstream = true;
            } else if rest.take_with("ENTRIESREAD", 1) {
                options.entries_read = Some(match rest.next_int()? {
                    -1 => None,
                    read @ 0.. => Some(read as u64),
                    _ => return Err(CommandError::fixed("ERR value for ENTRIESREAD must be positive or -1")),
                });
            } else {
                return Err(ctx.wrong_subcommand());
            }
        }
        Ok(options)
    }

    /// How many entries a group has read of a stream that ever got `added`.
    fn entries_read_of(&self, added: u64) -> Option<u64> {
        self.entries_read.flatten().map(|read| read.min(added))
    }
}

/// Where a group starts: `$` is the stream's last identifier. Only SETID takes `-` and `+`.
fn start_id(argument: &[u8], last: StreamId, may_be_bound: bool) -> Result<StreamId, CommandError> {
    match argument {
        b"$" => Ok(last),
        b"-" if may_be_bound => Ok(StreamId::MIN),
        b"+" if may_be_bound => Ok(StreamId::MAX),
        text => parse_id(text, 0),
    }
}

/// `XGROUP CREATE key group <id | $> [MKSTREAM] [ENTRIESREAD entries-read]`
pub(crate) fn create(ctx: &mut Ctx<'_>) -> CommandResult {
    let options = Options::parse(ctx, true)?;
    let (key, name) = (ctx.key(2), ctx.arg(3));
    let last = ctx.commit.read_as::<Stream>(&key)?.map(Stream::last_id);
    if last.is_none() && !options.mkstream {
        return Err(KEY_MISSING.into());
    }
    if ctx.argc() > CREATE_ARGS_MAX {
        return Err(ctx.wrong_subcommand().into());
    }
    let last_id = start_id(ctx.arg(4), last.unwrap_or(StreamId::MIN), false)?;
    let stream = ctx.commit.write_or_create::<Stream>(&key)?;
    if stream.groups().contains_key(name) {
        return Err(CommandError::fixed("BUSYGROUP Consumer Group name already exists").into());
    }
    let entries_read = options.entries_read_of(stream.entries_added());
    stream.groups_mut().insert(name.to_vec(), Group { last_id, entries_read, ..Group::default() });
    if last.is_some() {
        ctx.changed_groups("xgroup-create", key.bytes);
    } else {
        ctx.changed(EventClass::Stream, "xgroup-create", key.bytes);
    }
    ctx.reply_ok()
}

/// Calls `change` with a group, the last identifier of its stream, and how many entries that ever got.
fn with_group<R>(
    ctx: &mut Ctx<'_>,
    change: impl FnOnce(&mut Group, StreamId, u64) -> Result<R, CommandError>,
) -> Result<R, CommandError> {
    let (key, name) = (ctx.key(2), ctx.arg(3));
    let stream = ctx.commit.write_as::<Stream>(&key)?.ok_or(KEY_MISSING)?;
    let (last_id, added) = (stream.last_id(), stream.entries_added());
    let group = stream.groups_mut().get_mut(name).ok_or_else(|| no_group(key.bytes, name))?;
    change(group, last_id, added)
}

/// `XGROUP SETID key group <id | $> [ENTRIESREAD entries-read]`
pub(crate) fn setid(ctx: &mut Ctx<'_>) -> CommandResult {
    let options = Options::parse(ctx, false)?;
    let argument = ctx.arg(4);
    let too_many = (ctx.argc() > SETID_ARGS_MAX).then(|| ctx.wrong_subcommand());
    with_group(ctx, |group, last_id, added| {
        if let Some(error) = too_many {
            return Err(error);
        }
        group.last_id = start_id(argument, last_id, true)?;
        group.entries_read = options.entries_read_of(added);
        Ok(())
    })?;
    let key = ctx.key(2);
    ctx.changed_groups("xgroup-setid", key.bytes);
    ctx.reply_ok()
}

/// `XGROUP DESTROY key group`
pub(crate) fn destroy(ctx: &mut Ctx<'_>) -> CommandResult {
    let key = ctx.key(2);
    let stream = ctx.commit.write_as::<Stream>(&key)?.ok_or(KEY_MISSING)?;
    let destroyed = stream.groups_mut().remove(ctx.argv.get(3)).is_some();
    if destroyed {
        ctx.changed_groups("xgroup-destroy", key.bytes);
    }
    ctx.reply_int(i64::from(destroyed))
}

/// `XGROUP CREATECONSUMER key group consumer`
pub(crate) fn createconsumer(ctx: &mut Ctx<'_>) -> CommandResult {
    let (now_ms, name) = (ctx.now_ms(), ctx.arg(4));
    let created = with_group(ctx, |group, _, _| Ok(group.consumer(name, now_ms)))?;
    let key = ctx.key(2);
    if created {
        ctx.changed_groups_quietly("xgroup-createconsumer", key.bytes);
    }
    ctx.reply_int(i64::from(created))
}

/// `XGROUP DELCONSUMER key group consumer`
pub(crate) fn delconsumer(ctx: &mut Ctx<'_>) -> CommandResult {
    let name = ctx.arg(4);
    let had = with_group(ctx, |group, _, _| Ok(group.remove_consumer(name)))?;
    let key = ctx.key(2);
    if had.is_some() {
        ctx.changed_groups_quietly("xgroup-delconsumer", key.bytes);
    }
    ctx.reply_int(had.unwrap_or(0) as i64)
}

fn reply_number(out: &mut Reply, number: Option<i64>) {
    match number {
        Some(number) => out.int(number),
        None => out.null(),
    }
}

/// How many entries a group still has to deliver, if that is known. Negative after an XSETID with too few entries added.
fn lag(stream: &Stream, group: &Group) -> Option<i64> {
    let (added, first) = (stream.entries_added(), stream.first_id());
    if added == 0 || stream.is_empty() {
        return Some(0);
    }
    if group.last_id < first && stream.max_deleted_id() < first {
        return Some(stream.len() as i64);
    }
    let read = match group.entries_read {
        Some(read) if !stream.may_have_gaps_from(group.last_id) => Some(read),
        _ => stream.entries_before(group.last_id),
    };
    read.map(|read| added.wrapping_sub(read) as i64)
}

/// `XINFO STREAM key [FULL [COUNT count]]`
pub(crate) fn info_stream(ctx: &mut Ctx<'_>) -> CommandResult {
    let key = ctx.key(2);
    ctx.commit.read_as::<Stream>(&key)?.ok_or(error::NO_SUCH_KEY)?;
    let full = ctx.argc() > 3;
    let mut count = FULL_COUNT_DEFAULT;
    if full {
        let has_count = ctx.argc() == 6 && ctx.is(4, "COUNT");
        if !ctx.is(3, "FULL") || ctx.argc() > 4 && !has_count {
            return Err(ctx.wrong_subcommand().into());
        }
        if has_count {
            count = usize::try_from(ctx.int(5)?).unwrap_or(FULL_COUNT_DEFAULT);
        }
    }
    let count = if count == 0 { usize::MAX } else { count };
    let now_ms = ctx.now_ms();
    let stream = ctx.commit.read_as::<Stream>(&key)?.ok_or(error::NO_SUCH_KEY)?;
    let out = &mut *ctx.out;
    let idempotency = stream.idempotency();
    let more = if idempotency.is_some() { INFO_FIELDS } else { 0 };
    out.map(more + if full { 9 } else { 10 });
    let nodes = stream.nodes_len() as i64;
    out.int_field("length", stream.len() as i64);
    out.int_field("radix-tree-keys", nodes);
    out.int_field("radix-tree-nodes", nodes + 1);
    id_field(out, "last-generated-id", stream.last_id());
    id_field(out, "max-deleted-entry-id", stream.max_deleted_id());
    out.int_field("entries-added", stream.entries_added() as i64);
    id_field(out, "recorded-first-entry-id", stream.first_id());
    if let Some(table) = idempotency {
        idempotency::reply_info(out, table, now_ms);
    }
    if full {
        reply_full(out, stream, count);
        return Ok(());
    }
    out.int_field("groups", stream.groups().len() as i64);
    let first = stream.iter_from(StreamId::MIN).next();
    let last = stream.iter_back_from(StreamId::MAX).next();
    for (name, entry) in [("first-entry", first), ("last-entry", last)] {
        out.bulk(name.as_bytes());
        match entry {
            Some(entry) => reply_entry(out, entry),
            None => out.null(),
        }
    }
    Ok(())
}

fn reply_full(out: &mut Reply, stream: &Stream, count: usize) {
    out.bulk(b"entries");
    let entries: Vec<_> = stream.iter_from(StreamId::MIN).take(count).collect();
    out.array(entries.len());
    entries.into_iter().for_each(|entry| reply_entry(out, entry));
    out.bulk(b"groups");
    out.array(stream.groups().len());
    for (name, group) in stream.groups() {
        // Each pending entry of a consumer is in its set, too.
        let assigned: usize = group.consumers.values().map(|consumer| consumer.pending.len()).sum();
        let released = group.pending.len() - assigned;
        out.map(if released > 0 { 8 } else { 7 });
        out.bulk_field("name", name);
        reply_progress(out, stream, group);
        out.int_field("pel-count", group.pending.len() as i64);
        out.bulk(b"pending");
        out.array(group.pending.len().min(count));
        for (id, pending) in group.pending.iter().take(count) {
            out.array(4);
            reply_id(out, *id);
            out.bulk(pending.consumer.as_deref().unwrap_or_default());
            out.int(pending.delivered_ms);
            out.int(pending.count as i64);
        }
        out.bulk(b"consumers");
        out.array(group.consumers.len());
        for (name, consumer) in &group.consumers {
            out.map(5);
            out.bulk_field("name", name);
            out.int_field("seen-time", consumer.seen_ms);
            out.int_field("active-time", consumer.active_ms);
            out.int_field("pel-count", consumer.pending.len() as i64);
            out.bulk(b"pending");
            out.array(consumer.pending.len().min(count));
            for id in consumer.pending.iter().take(count) {
                let pending = group.pending.get(id);
                out.array(3);
                reply_id(out, *id);
                out.int(pending.map_or(0, |pending| pending.delivered_ms));
                out.int(pending.map_or(0, |pending| pending.count as i64));
            }
        }
        // Clients from before XNACK may refuse a field that they do not know.
        if released > 0 {
            out.int_field("nacked-count", released as i64);
        }
    }
}

fn id_field(out: &mut Reply, name: &str, id: StreamId) {
    out.bulk(name.as_bytes());
    reply_id(out, id);
}

fn reply_progress(out: &mut Reply, stream: &Stream, group: &Group) {
    id_field(out, "last-delivered-id", group.last_id);
    out.bulk(b"entries-read");
    reply_number(out, group.entries_read.map(|read| read as i64));
    out.bulk(b"lag");
    reply_number(out, lag(stream, group));
}

/// `XINFO GROUPS key`
pub(crate) fn info_groups(ctx: &mut Ctx<'_>) -> CommandResult {
    let key = ctx.key(2);
    let stream = ctx.commit.read_as::<Stream>(&key)?.ok_or(error::NO_SUCH_KEY)?;
    let out = &mut *ctx.out;
    out.array(stream.groups().len());
    for (name, group) in stream.groups() {
        out.map(6);
        out.bulk_field("name", name);
        out.int_field("consumers", group.consumers.len() as i64);
        out.int_field("pending", group.pending.len() as i64);
        reply_progress(out, stream, group);
    }
    Ok(())
}

/// `XINFO CONSUMERS key group`
pub(crate) fn info_consumers(ctx: &mut Ctx<'_>) -> CommandResult {
    let (key, name, now_ms) = (ctx.key(2), ctx.arg(3), ctx.now_ms());
    let stream = ctx.commit.read_as::<Stream>(&key)?.ok_or(error::NO_SUCH_KEY)?;
    let group = stream.groups().get(name).ok_or_else(|| no_group(key.bytes, name))?;
    let out = &mut *ctx.out;
    out.array(group.consumers.len());
    for (name, consumer) in &group.consumers {
        out.map(4);
        out.bulk_field("name", name);
        let inactive = if consumer.active_ms < 0 { -1 } else { (now_ms - consumer.active_ms).max(0) };
        out.int_field("pending", consumer.pending.len() as i64);
        out.int_field("idle", (now_ms - consumer.seen_ms).max(0));
        out.int_field("inactive", inactive);
    }
    Ok(())
}
