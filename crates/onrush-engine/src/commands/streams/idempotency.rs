//! A message that its producer sends again is not added again: IDMP and IDMPAUTO of XADD, XCFGSET, XIDMPRECORD.

use onrush_resp::Reply;
use onrush_store::{Idempotency, Stream, StreamId, Tracked};

use crate::command::RestOfArgs;
use crate::commands::reply::Fields;
use crate::commands::streams::parse_id;
use crate::commit::Key;
use crate::ctx::{CommandResult, Ctx};
use crate::error::{self, CommandError};
use crate::formats::sha256;

const NO_PRODUCER: CommandError = CommandError::fixed("ERR producer ID must not be empty");
const NO_MESSAGE: CommandError = CommandError::fixed("ERR idempotent ID must not be empty");
const INVALID_DURATION: CommandError = CommandError::fixed("ERR invalid duration");
const INVALID_MAXSIZE: CommandError = CommandError::fixed("ERR invalid maxsize");
const GIVEN_ID: CommandError = CommandError::fixed("ERR IDMP and IDMPAUTO need * as the ID");
const OTHER_ENTRY: CommandError = CommandError::fixed("ERR idempotent ID already belongs to another entry");
const NO_ENTRY: CommandError = CommandError::fixed("ERR no such entry");

/// The message's identity, as XADD's options give it.
#[derive(Clone, Copy)]
pub(crate) struct Message<'a> {
    producer: &'a [u8],
    /// `None` if its content identifies it.
    id: Option<&'a [u8]>,
}

impl<'a> Message<'a> {
    /// Takes `IDMP producer-id idempotent-id` or `IDMPAUTO producer-id`, if it comes next.
    ///
    /// # Errors
    /// A value is missing or empty.
    pub(crate) fn take(rest: &mut RestOfArgs<'a>) -> Result<Option<Self>, CommandError> {
        let Some(values) = rest.take_one_of([("IDMP", 2), ("IDMPAUTO", 1)]) else { return Ok(None) };
        if rest.len() < values {
            return Err(error::SYNTAX);
        }
        let message = Self { producer: rest.next_arg(), id: (values == 2).then(|| rest.next_arg()) };
        match message {
            Message { producer: [], .. } => Err(NO_PRODUCER),
            Message { id: Some([]), .. } => Err(NO_MESSAGE),
            _ => Ok(Some(message)),
        }
    }

    /// The message's identity, with fields and values from argument `fields` on, if the server chooses the entry's
    /// identifier.
    pub(crate) fn named(self, ctx: &Ctx<'a>, fields: usize, is_any_id: bool) -> Result<Named<'a>, CommandError> {
        if !is_any_id {
            return Err(GIVEN_ID);
        }
        let name = match self.id {
            Some(id) => id.to_vec(),
            None => digest(ctx.argv.iter().skip(fields)),
        };
        Ok(Named { producer: self.producer, name })
    }
}

/// The digest that identifies a message by its content, in whatever order its fields come: logs contain it, so it must
/// stay the same in every run and version. O(length + fields × log fields).
fn digest<'a>(mut parts: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut pairs = Vec::new();
    while let (Some(field), Some(value)) = (parts.next(), parts.next()) {
        let len = (field.len() as u64).to_le_bytes();
        pairs.push(sha256::digest(&[&len, field, value].concat()));
    }
    pairs.sort_unstable();
    sha256::digest(pairs.as_flattened())[..16].to_vec()
}

/// A producer's message.
pub(crate) struct Named<'a> {
    producer: &'a [u8],
    name: Vec<u8>,
}

impl Named<'_> {
    /// The entry that the message became earlier, if that is remembered; counts the duplicate then.
    pub(crate) fn find(&self, ctx: &mut Ctx<'_>, key: &Key<'_>) -> Result<Option<StreamId>, CommandError> {
        let now_ms = ctx.now_ms();
        let Some(stream) = ctx.commit.read_as::<Stream>(key)? else { return Ok(None) };
        let found = stream.idempotency().and_then(|table| table.find(self.producer, &self.name, now_ms));
        if found.is_some()
            && let Some(stream) = ctx.commit.write_as::<Stream>(key)?
        {
            stream.idempotency_mut().count_duplicate();
        }
        Ok(found)
    }

    /// Remembers the entry that the message became.
    pub(crate) fn record(&self, stream: &mut Stream, id: StreamId, now_ms: i64) {
        stream.idempotency_mut().record(self.producer, &self.name, id, now_ms);
    }

    /// Logs what [`Named::record`] did.
    pub(crate) fn log(&self, ctx: &mut Ctx<'_>, key: &Key<'_>, id: StreamId) {
        ctx.log_instead(&[b"XIDMPRECORD", key.bytes, self.producer, &self.name, id.to_string().as_bytes()]);
    }
}

/// `XCFGSET key [IDMP-DURATION seconds] [IDMP-MAXSIZE messages]`: forgets all messages if it changes anything.
pub(crate) fn xcfgset(ctx: &mut Ctx<'_>) -> CommandResult {
    let (mut duration_s, mut messages_max) = (None, None);
    let mut rest = ctx.rest(2);
    while !rest.is_empty() {
        let options = [
            ("IDMP-DURATION", (&mut duration_s, Idempotency::DURATIONS_S, INVALID_DURATION)),
            ("IDMP-MAXSIZE", (&mut messages_max, Idempotency::MESSAGES_MAXES, INVALID_MAXSIZE)),
        ];
        let (number, range, invalid) = rest.take_one_of_with(options, 1).ok_or(error::SYNTAX)?;
        if number.is_some() {
            return Err(error::SYNTAX.into());
        }
        let given = rest.next_int_or(invalid.clone())?;
        *number = Some(if range.contains(&given) { given } else { return Err(invalid.into()) });
    }
    if duration_s.is_none() && messages_max.is_none() {
        return Err(error::SYNTAX.into());
    }
    let key = ctx.key(1);
    let stream = ctx.commit.write_as::<Stream>(&key)?.ok_or(error::NO_SUCH_KEY)?;
    let table = stream.idempotency_mut();
    let duration_s = duration_s.and_then(|given| u32::try_from(given).ok()).unwrap_or(table.duration_s());
    let messages_max = messages_max.and_then(|given| u16::try_from(given).ok()).unwrap_or(table.messages_max());
    table.configure(duration_s, messages_max);
    ctx.changed_untold();
    ctx.reply_ok()
}

/// `XIDMPRECORD key producer-id idempotent-id id`: the command log has this for each added message.
pub(crate) fn xidmprecord(ctx: &mut Ctx<'_>) -> CommandResult {
    let (key, producer, name) = (ctx.key(1), ctx.arg(2), ctx.arg(3));
    if producer.is_empty() {
        return Err(NO_PRODUCER.into());
    }
    if name.is_empty() {
        return Err(NO_MESSAGE.into());
    }
    let id = parse_id(ctx.arg(4), 0)?;
    let now_ms = ctx.now_ms();
    let stream = ctx.commit.write_as::<Stream>(&key)?.ok_or(error::NO_SUCH_KEY)?;
    if stream.get(id).is_none() {
        return Err(NO_ENTRY.into());
    }
    match stream.idempotency().and_then(|table| table.find(producer, name, now_ms)) {
        Some(found) if found == id => {}
        Some(_) => return Err(OTHER_ENTRY.into()),
        None => {
            stream.idempotency_mut().record(producer, name, id, now_ms);
            ctx.changed_untold();
        }
    }
    ctx.reply_ok()
}

/// The number of fields in XINFO STREAM about producers.
pub(crate) const INFO_FIELDS: usize = 6;

/// Appends them.
pub(crate) fn reply_info(out: &mut Reply, table: &Idempotency, now_ms: i64) {
    let Tracked { producers, messages } = table.tracked(now_ms);
    out.int_field("idmp-duration", table.duration_s().into());
    out.int_field("idmp-maxsize", table.messages_max().into());
    out.int_field("pids-tracked", producers as i64);
    out.int_field("iids-tracked", messages as i64);
    out.int_field("iids-added", table.added() as i64);
    out.int_field("iids-duplicates", table.duplicates() as i64);
}
