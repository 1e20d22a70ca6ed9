//! What streams remember of their producers' messages (IDMP), in RDB files.
//!
//! No type of the format that redis-server 8.2 reads has room for it. So it stands behind the key as auxiliary
//! information, which other readers skip: a field [`NAME`] for every [`MESSAGES_MAX`] messages, and at least one for each
//! such stream. The value is a multibulk: the database, the key, the duration in seconds and the most messages of a
//! producer, in digits; then for each message its producer, its name, and its entry (two numbers of eight bytes, the
//! lowest byte first), in the order in which they are forgotten.

use onrush_persist::push_command;
use onrush_resp::{Decoded, Decoder, Limits, parse_i64};
use onrush_store::{Idempotency, Stream, StreamId};

use super::stream::recorded_in_order;
use crate::batch::argv::Argv;
use crate::ctx::Engine;

/// The name of the field.
pub(crate) const NAME: &[u8] = b"onrush-producers";

/// Most messages of one field.
const MESSAGES_MAX: usize = 1000;

/// Arguments before the messages, and those of a message.
const HEAD_LEN: usize = 4;
const MESSAGE_LEN: usize = 3;

/// Calls `emit` with the value of each field for a stream.
pub(crate) fn encode(db: u32, key: &[u8], stream: &Stream, mut emit: impl FnMut(&[u8])) {
    let Some(table) = stream.idempotency() else { return };
    let numbers = [db.to_string(), table.duration_s().to_string(), table.messages_max().to_string()];
    let [db, duration, max] = numbers.each_ref().map(|number| number.as_bytes());
    let recorded = recorded_in_order(stream);
    let ids: Vec<[u8; 16]> = recorded.iter().map(|recorded| to_bytes(recorded.entry)).collect();
    let mut start = 0;
    loop {
        let end = (start + MESSAGES_MAX).min(recorded.len());
        let messages = recorded[start..end].iter().zip(&ids[start..end]);
        let messages = messages.flat_map(|(recorded, id)| [recorded.producer, recorded.message, id]);
        let args: Vec<&[u8]> = [db, key, duration, max].into_iter().chain(messages).collect();
        let mut value = Vec::new();
        push_command(&mut value, args.into_iter());
        emit(&value);
        start = end;
        if start == recorded.len() {
            return;
        }
    }
}

/// Puts a field's value into its stream, which is loaded; `None` if the value is malformed. A stream that was not loaded,
/// because it has expired, is passed over.
pub(crate) fn apply(engine: &Engine, value: &[u8]) -> Option<()> {
    let mut ranges = Vec::new();
    let decoded = Decoder::new().decode(value, &mut ranges, &Limits::default());
    if decoded != Ok(Decoded::Command { len: value.len() }) || ranges.len() < HEAD_LEN {
        return None;
    }
    let args = Argv::new(value, &ranges, &[]);
    let db = usize::try_from(parse_i64(args.get(0))?).ok()?;
    let key = args.get(1);
    let within = |index: usize, range: std::ops::RangeInclusive<i64>| {
        parse_i64(args.get(index)).filter(|number| range.contains(number))
    };
    let duration_s = u32::try_from(within(2, Idempotency::DURATIONS_S)?).ok()?;
    let messages_max = u16::try_from(within(3, Idempotency::MESSAGES_MAXES)?).ok()?;
    if !(args.len() - HEAD_LEN).is_multiple_of(MESSAGE_LEN) {
        return None;
    }
    let Some(db) = engine.keyspace.db(db) else { return Some(()) };
    let hash = engine.keyspace.hash(key);
    let mut table = db.shard_of(hash).lock();
    let Some(mut slot) = table.find(key, hash) else { return Some(()) };
    let Some(stream) = slot.collection_mut::<Stream>() else { return Some(()) };
    let now_ms = engine.clock.unix_ms();
    let remembered = stream.idempotency_mut();
    remembered.configure(duration_s, messages_max);
    for at in (HEAD_LEN..args.len()).step_by(MESSAGE_LEN) {
        let (producer, message) = (args.get(at), args.get(at + 1));
        if producer.is_empty() || message.is_empty() {
            return None;
        }
        remembered.record(producer, message, from_bytes(args.get(at + 2))?, now_ms);
    }
    Some(())
}

fn to_bytes(id: StreamId) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&id.ms.to_le_bytes());
    bytes[8..].copy_from_slice(&id.seq.to_le_bytes());
    bytes
}

fn from_bytes(bytes: &[u8]) -> Option<StreamId> {
    let (ms, seq) = bytes.split_at_checked(8)?;
    Some(StreamId { ms: u64::from_le_bytes(ms.try_into().ok()?), seq: u64::from_le_bytes(seq.try_into().ok()?) })
}
