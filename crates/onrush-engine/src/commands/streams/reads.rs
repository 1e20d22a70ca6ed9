//! XREAD and XREADGROUP: reading from several streams, and waiting for entries.

use onrush_resp::Reply;
use onrush_store::{Pending, Stream, StreamEntry, StreamId};
use smallvec::SmallVec;

use crate::blocking::Block;
use crate::blocking::waiter::{OnTimeout, ReplacedArg, WaitsFor};
use crate::commands::streams::pending::no_group;
use crate::commands::streams::{parse_id, reply_entry, reply_id};
use crate::commit::Key;
use crate::ctx::{CommandResult, Ctx};
use crate::error::{self, CommandError, Stop};

const NO_GROUP_OPTION: CommandError =
    CommandError::fixed("ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead.");
const NO_NOACK_OPTION: CommandError =
    CommandError::fixed("ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead.");

/// Where reading a stream starts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum From {
    /// After an identifier.
    Behind(StreamId),
    /// After the present last entry.
    Last,
    /// The last entry itself.
    LastEntry,
    /// Entries that no member of the group has got.
    New,
}

/// The arguments of both commands.
#[derive(Default)]
struct Query<'a> {
    group: Option<(&'a [u8], &'a [u8])>,
    count: usize,
    deadline_ms: Option<Option<i64>>,
    no_ack: bool,
    keys: SmallVec<[Key<'a>; 2]>,
    ids: usize,
    from: SmallVec<[From; 2]>,
}

impl<'a> Query<'a> {
    fn parse(ctx: &mut Ctx<'a>, in_group: bool) -> Result<Self, Stop> {
        let mut query = Self::default();
        let mut rest = ctx.rest(1);
        while !rest.take_with("STREAMS", 1) {
            if rest.take_with("BLOCK", 1) {
                query.deadline_ms = Some(ctx.deadline_from_ms(rest.next_index())?);
            } else if rest.take_with("COUNT", 1) {
                query.count = usize::try_from(rest.next_int()?).unwrap_or(0);
            } else if rest.take_with("GROUP", 2) {
                if !in_group {
                    return Err(NO_GROUP_OPTION.into());
                }
                query.group = Some((rest.next_arg(), rest.next_arg()));
            } else if rest.take("NOACK") {
                if !in_group {
                    return Err(NO_NOACK_OPTION.into());
                }
                query.no_ack = true;
            } else {
                return Err(error::SYNTAX.into());
            }
        }
        if !rest.len().is_multiple_of(2) {
            let (name, kinds) = if in_group { ("xreadgroup", "an ID or '>'") } else { ("xread", "an ID, '+', or '$'") };
            return Err(CommandError::text(format!(
                "ERR Unbalanced '{name}' list of streams: for each stream key {kinds} must be specified."
            ))
            .into());
        }
        if in_group && query.group.is_none() {
            return Err(CommandError::fixed("ERR Missing GROUP option for XREADGROUP").into());
        }
        let keys = rest.next_range(rest.len() / 2);
        query.ids = keys.end;
        let db = ctx.commit.db();
        query.keys = keys.map(|index| ctx.key(index)).collect();
        ctx.commit.lock_all(query.keys.iter().map(|key| (db, key.hash)))?;
        for (offset, key) in query.keys.iter().enumerate() {
            let stream = ctx.commit.read_as::<Stream>(key)?;
            if let Some((group, _)) = query.group
                && !stream.is_some_and(|stream| stream.groups().contains_key(group))
            {
                return Err(no_group(key, group, "' in XREADGROUP with GROUP option").into());
            }
            query.from.push(from_argument(ctx, query.ids + offset, in_group)?);
        }
        Ok(query)
    }
}

fn from_argument(ctx: &Ctx<'_>, index: usize, in_group: bool) -> Result<From, CommandError> {
    match ctx.arg(index) {
        b"$" if in_group => Err(CommandError::fixed(
            "ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by \
             specifying a proper ID, or use the > ID to get new messages. The $ ID would just return an empty result set.",
        )),
        b"$" => Ok(From::Last),
        b"+" if in_group => Err(CommandError::fixed(
            "ERR The + ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by \
             specifying a proper ID, or use the > ID to get new messages. The + ID would just return an empty result set.",
        )),
        b"+" => Ok(From::LastEntry),
        b">" if in_group => Ok(From::New),
        b">" => Err(CommandError::fixed(
            "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.",
        )),
        text => parse_id(text, 0).map(From::Behind),
    }
}

/// `XREAD [COUNT count] [BLOCK milliseconds] STREAMS key [key …] id [id …]`
pub(crate) fn xread(ctx: &mut Ctx<'_>) -> CommandResult {
    let query = Query::parse(ctx, false)?;
    let count = if query.count == 0 { usize::MAX } else { query.count };
    let mut found: Vec<(Key<'_>, Vec<StreamEntry<'_>>)> = Vec::new();
    let mut resolved: SmallVec<[StreamId; 2]> = SmallVec::new();
    for (key, &from) in query.keys.iter().zip(&query.from) {
        let stream = ctx.commit.held::<Stream>(key);
        let last = stream.map_or(StreamId::MIN, Stream::last_id);
        let behind = match from {
            From::Behind(id) => id,
            From::LastEntry => {
                let entry = stream.and_then(|stream| stream.iter_back_from(StreamId::MAX).next());
                if let Some(entry) = entry {
                    found.push((*key, vec![entry]));
                }
                last
            }
            From::Last | From::New => last,
        };
        resolved.push(behind);
        let start = behind.next().filter(|_| from != From::LastEntry && behind < last);
        if let (Some(stream), Some(start)) = (stream, start) {
            let mut entries = Vec::with_capacity(count.min(stream.len()).min(100));
            entries.extend(stream.iter_from(start).take(count));
            if !entries.is_empty() {
                found.push((*key, entries));
            }
        }
    }
    if found.is_empty() {
        let ids: Vec<String> = resolved.iter().map(StreamId::to_string).collect();
        return wait(ctx, &query, &ids, WaitsFor::Stream);
    }
    let len = found.len();
    let is_resp3 = ctx.out.is_resp3();
    let out = &mut *ctx.out;
    if is_resp3 {
        out.map(len)
    } else {
        out.array(len)
    }
    for (key, entries) in found {
        if !is_resp3 {
            out.array(2);
        }
        out.bulk(key.bytes);
        out.array(entries.len());
        entries.into_iter().for_each(|entry| reply_entry(out, entry));
    }
    Ok(())
}

/// Waits if the command has BLOCK; otherwise replies that there is nothing.
fn wait(ctx: &mut Ctx<'_>, query: &Query<'_>, ids: &[String], waits_for: WaitsFor) -> CommandResult {
    let Some(deadline_ms) = query.deadline_ms else { return ctx.reply_null_array() };
    let replaced =
        |(offset, id): (usize, &String)| ReplacedArg { index: query.ids + offset, arg: id.clone().into_bytes() };
    let instead = ids.iter().enumerate().map(replaced).collect();
    let keys = query.ids - query.keys.len()..query.ids;
    ctx.block(Block { keys, waits_for, deadline_ms, on_timeout: OnTimeout::NullArray, instead })
}

/// `XREADGROUP GROUP group consumer [COUNT count] [BLOCK milliseconds] [NOACK] STREAMS key [key …] id [id …]`
pub(crate) fn xreadgroup(ctx: &mut Ctx<'_>) -> CommandResult {
    let query = Query::parse(ctx, true)?;
    let Some((group_name, consumer_name)) = query.group else { return Err(error::SYNTAX.into()) };
    let now_ms = ctx.now_ms();
    let count = if query.count == 0 { usize::MAX } else { query.count };
    // The number of streams with a reply is known only at the end.
    let proto = ctx.out.proto();
    let before = std::mem::replace(ctx.out, Reply::with_buffer(Vec::new(), proto));
    let mut created = Vec::new();
    let mut streams = 0;
    for (key, &from) in query.keys.iter().zip(&query.from) {
        if let Some(stream) = ctx.commit.write_as::<Stream>(key)?
            && let Some(group) = stream.groups_mut().get_mut(group_name)
        {
            if group.consumer(consumer_name, now_ms) {
                created.push(*key);
            }
            if let Some(consumer) = group.consumers.get_mut(consumer_name) {
                consumer.seen_ms = now_ms;
            }
        }
        let reader = Reader { group: group_name, consumer: consumer_name };
        if from == From::New && !has_news(ctx, key, group_name) {
            continue;
        }
        streams += 1;
        if !ctx.out.is_resp3() {
            ctx.out.array(2);
        }
        ctx.out.bulk(key.bytes);
        match from {
            From::Behind(id) => reply_history(ctx, key, reader, id, count)?,
            _ => deliver(ctx, key, reader, count, query.no_ack)?,
        }
    }
    let mut body = std::mem::replace(ctx.out, before);
    for key in created {
        ctx.changed_groups_quietly("xgroup-createconsumer", key.bytes);
        ctx.log_instead(&[b"XGROUP", b"CREATECONSUMER", key.bytes, group_name, consumer_name]);
    }
    if streams == 0 {
        return wait(ctx, &query, &[], WaitsFor::Group);
    }
    if ctx.out.is_resp3() {
        ctx.out.map(streams);
    } else {
        ctx.out.array(streams);
    }
    ctx.out.raw(&body.take_bytes());
    Ok(())
}

/// Whether a stream has entries that no member of a group has got.
fn has_news(ctx: &Ctx<'_>, key: &Key<'_>, group: &[u8]) -> bool {
    let stream = ctx.commit.held::<Stream>(key);
    stream.and_then(|stream| Some((stream, stream.groups().get(group)?))).is_some_and(|(stream, group)| {
        group.last_id < stream.last_id()
            && group.last_id.next().is_some_and(|next| stream.iter_from(next).next().is_some())
    })
}

/// Who reads: a consumer of a group.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    pub(super) group: &'a [u8],
    pub(super) consumer: &'a [u8],
}

/// Replies with a consumer's pending entries after an identifier; deleted entries have null for fields. The others count
/// as delivered once more.
fn reply_history(
    ctx: &mut Ctx<'_>,
    key: &Key<'_>,
    reader: Reader<'_>,
    behind: StreamId,
    count: usize,
) -> CommandResult {
    let stream = ctx.commit.read_as::<Stream>(key)?;
    let group = stream.and_then(|stream| stream.groups().get(reader.group));
    let pending = group.and_then(|group| group.consumers.get(reader.consumer)).map(|consumer| &consumer.pending);
    let ids: Vec<StreamId> = match (pending, behind.next()) {
        (Some(pending), Some(start)) => pending.range(start..).take(count).copied().collect(),
        _ => Vec::new(),
    };
    ctx.out.array(ids.len());
    let mut delivered = Vec::new();
    for id in ids {
        match stream.and_then(|stream| stream.get(id)) {
            Some(entry) => {
                reply_entry(ctx.out, entry);
                delivered.push(id);
            }
            None => {
                ctx.out.array(2);
                reply_id(ctx.out, id);
                ctx.out.null_array();
            }
        }
    }
    if delivered.is_empty() { Ok(()) } else { count_deliveries(ctx, key, reader, &delivered) }
}

/// Notes that a consumer gets pending entries of its own again, now.
fn count_deliveries(ctx: &mut Ctx<'_>, key: &Key<'_>, reader: Reader<'_>, ids: &[StreamId]) -> CommandResult {
    let now_ms = ctx.now_ms();
    let Some(stream) = ctx.commit.write_as::<Stream>(key)? else { return Ok(()) };
    let Some(group) = stream.groups_mut().get_mut(reader.group) else { return Ok(()) };
    let again = |&id| Some((id, group.deliver_again(id, now_ms)?));
    let counts: Vec<(StreamId, u64)> = ids.iter().filter_map(again).collect();
    let last = group.last_id.to_string();
    ctx.changed_untold();
    if ctx.is_logged() {
        for (id, count) in counts {
            log_claim(ctx, key, reader, id, (now_ms, count), &last);
        }
    }
    Ok(())
}

/// Logs that a consumer has a pending entry, delivered last at this time, for the `count`th time. `last`: the identifier
/// that the group has got last.
pub(super) fn log_claim(
    ctx: &mut Ctx<'_>,
    key: &Key<'_>,
    reader: Reader<'_>,
    id: StreamId,
    (ms, count): (i64, u64),
    last: &str,
) {
    let (id, ms, count) = (id.to_string(), ms.to_string(), count.to_string());
    let head: [&[u8]; 6] = [b"XCLAIM", key.bytes, reader.group, reader.consumer, b"0", id.as_bytes()];
    let times: [&[u8]; 4] = [b"TIME", ms.as_bytes(), b"RETRYCOUNT", count.as_bytes()];
    let tail: [&[u8]; 4] = [b"FORCE", b"JUSTID", b"LASTID", last.as_bytes()];
    ctx.log_instead(&[&head[..], &times, &tail].concat());
}

/// Logs which entry a group has got last, and how many it has read.
pub(super) fn log_progress(ctx: &mut Ctx<'_>, key: &Key<'_>, group: &[u8], last: &str, read: Option<u64>) {
    let read = read.map_or(-1, |read| i64::try_from(read).unwrap_or(i64::MAX)).to_string();
    ctx.log_instead(&[b"XGROUP", b"SETID", key.bytes, group, last.as_bytes(), b"ENTRIESREAD", read.as_bytes()]);
}

/// Gives a consumer entries that no member of its group has got, and replies with them.
fn deliver(ctx: &mut Ctx<'_>, key: &Key<'_>, reader: Reader<'_>, count: usize, no_ack: bool) -> CommandResult {
    let Reader { group: group_name, consumer: consumer_name } = reader;
    let now_ms = ctx.now_ms();
    let Some(stream) = ctx.commit.write_as::<Stream>(key)? else { return Ok(()) };
    let last_id = stream.groups().get(group_name).map_or(StreamId::MIN, |group| group.last_id);
    let start = last_id.next().unwrap_or(StreamId::MAX);
    let entries: Vec<StreamEntry<'_>> = stream.iter_from(start).take(count).collect();
    let ids: Vec<StreamId> = entries.iter().map(|entry| entry.id).collect();
    ctx.out.array(entries.len());
    entries.into_iter().for_each(|entry| reply_entry(ctx.out, entry));
    let mut entries_read = stream.groups().get(group_name).and_then(|group| group.entries_read);
    let (first_id, mut before) = (stream.first_id(), last_id);
    for &id in &ids {
        entries_read = match entries_read {
            Some(read) if before >= first_id && !stream.may_have_gaps_from(before) => Some(read + 1),
            _ if stream.entries_added() > 0 => stream.entries_before(id),
            read => read,
        };
        before = id;
    }
    let Some(group) = stream.groups_mut().get_mut(group_name) else { return Ok(()) };
    group.entries_read = entries_read;
    let consumer = group.name_of(consumer_name);
    for &id in &ids {
        group.last_id = group.last_id.max(id);
        if !no_ack {
            group.assign(id, Pending { consumer: consumer.clone(), delivered_ms: now_ms, count: 1 });
        }
    }
    // As in Redis, who acknowledges nothing is not active.
    if let Some(consumer) = group.consumers.get_mut(consumer_name).filter(|_| !no_ack) {
        consumer.active_ms = now_ms;
    }
    let last = group.last_id.to_string();
    ctx.changed_untold();
    if ctx.is_logged() {
        for id in ids.iter().filter(|_| !no_ack) {
            log_claim(ctx, key, reader, *id, (now_ms, 1), &last);
        }
        log_progress(ctx, key, group_name, &last, entries_read);
    }
    Ok(())
}
