//! Streams.

use std::collections::BTreeSet;

use onrush_store::{Recorded, Stream, StreamId};

use super::DataType;
use super::batch::Emit;
use super::digest::Mixer;

impl DataType for Stream {
    fn rebuild(&self, key: &[u8], emit: Emit<'_>) {
        rebuild_stream(self, key, emit);
    }

    fn digest(&self, mixer: &mut Mixer) {
        for entry in self.iter_from(StreamId::MIN) {
            mixer.id(entry.id);
            for (name, value) in entry.iter() {
                mixer.part(name);
                mixer.part(value);
            }
        }
        mixer.unordered(|_| {});
    }

    fn digest_state(&self, mixer: &mut Mixer) {
        mixer.id(self.last_id());
        mixer.id(self.max_deleted_id());
        mixer.word(self.entries_added());
        for (name, group) in self.groups() {
            mixer.part(name);
            mixer.id(group.last_id);
            mixer.number(group.entries_read.map(|read| i64::try_from(read).unwrap_or(i64::MAX)));
            group.consumers.keys().for_each(|name| mixer.part(name));
            for (id, pending) in &group.pending {
                mixer.id(*id);
                mixer.word(u64::from(pending.consumer.is_some()));
                mixer.part(pending.consumer.as_deref().unwrap_or_default());
                mixer.word(pending.delivered_ms as u64);
                mixer.word(pending.count);
            }
        }
        if let Some(table) = self.idempotency() {
            mixer.word(table.duration_s().into());
            mixer.word(table.messages_max().into());
            for recorded in recorded(self) {
                mixer.part(recorded.producer);
                mixer.part(recorded.message);
                mixer.id(recorded.entry);
            }
        }
    }
}

fn rebuild_stream(stream: &Stream, key: &[u8], emit: Emit<'_>) {
    // Entries that are deleted but still named, as pending or as a producer's message: to be named, they must exist
    // first.
    let pending = stream.groups().values().flat_map(|group| group.pending.keys().copied());
    let recorded = recorded(stream).map(|recorded| recorded.entry);
    let ghosts: BTreeSet<StreamId> = pending.chain(recorded).filter(|id| stream.get(*id).is_none()).collect();
    let mut ghosts_left = ghosts.iter().copied().peekable();
    let add = |id: StreamId, pairs: &[&[u8]], emit: Emit<'_>| {
        let id = id.to_string();
        let args: Vec<&[u8]> = [&b"XADD"[..], key, id.as_bytes()].into_iter().chain(pairs.iter().copied()).collect();
        emit(&args);
    };
    let no_pairs: [&[u8]; 2] = [b"x", b"y"];
    for entry in stream.iter_from(StreamId::MIN) {
        while let Some(ghost) = ghosts_left.next_if(|ghost| *ghost < entry.id) {
            add(ghost, &no_pairs, emit);
        }
        let pairs: Vec<&[u8]> = entry.iter().flat_map(|(name, value)| [name, value]).collect();
        add(entry.id, &pairs, emit);
    }
    ghosts_left.for_each(|ghost| add(ghost, &no_pairs, emit));
    if stream.is_empty() && ghosts.is_empty() {
        // No other command makes an empty stream that has had entries.
        let id = stream.last_id().max(StreamId { ms: 0, seq: 1 }).to_string();
        emit(&[b"XADD", key, b"MAXLEN", b"0", id.as_bytes(), b"x", b"y"]);
    }
    rebuild_groups(stream, key, emit);
    rebuild_idempotency(stream, key, emit);
    for ghost in ghosts {
        emit(&[b"XDEL", key, ghost.to_string().as_bytes()]);
    }
    let (last, deleted) = (stream.last_id().to_string(), stream.max_deleted_id().to_string());
    let added = stream.entries_added().to_string();
    let ends: [&[u8]; 7] =
        [b"XSETID", key, last.as_bytes(), b"ENTRIESADDED", added.as_bytes(), b"MAXDELETEDID", deleted.as_bytes()];
    emit(&ends);
}

fn rebuild_groups(stream: &Stream, key: &[u8], emit: Emit<'_>) {
    for (name, group) in stream.groups() {
        let (last, read) = (
            group.last_id.to_string(),
            group.entries_read.map(|read| i64::try_from(read).unwrap_or(i64::MAX).to_string()),
        );
        let create: [&[u8]; 5] = [b"XGROUP", b"CREATE", key, name, last.as_bytes()];
        match &read {
            Some(read) => emit(&[&create[..], &[&b"ENTRIESREAD"[..], read.as_bytes()]].concat()),
            None => emit(&create),
        }
        for consumer in group.consumers.keys() {
            emit(&[b"XGROUP", b"CREATECONSUMER", key, name, consumer]);
        }
        for (id, pending) in &group.pending {
            let (id, time, count) = (id.to_string(), pending.delivered_ms.to_string(), pending.count.to_string());
            let Some(consumer) = &pending.consumer else {
                let args = [&b"XNACK"[..], key, name, b"FAIL", b"IDS", b"1", id.as_bytes()];
                emit(&[&args[..], &[&b"RETRYCOUNT"[..], count.as_bytes(), b"FORCE"]].concat());
                continue;
            };
            let claim: [&[u8]; 12] = [
                b"XCLAIM",
                key,
                name,
                consumer,
                b"0",
                id.as_bytes(),
                b"TIME",
                time.as_bytes(),
                b"RETRYCOUNT",
                count.as_bytes(),
                b"JUSTID",
                b"FORCE",
            ];
            emit(&claim);
        }
    }
}

/// The entries that producers' messages became, except entries that XSETID has put past the end.
fn recorded(stream: &Stream) -> impl Iterator<Item = Recorded<'_>> {
    let all = stream.idempotency().into_iter().flat_map(|table| table.iter());
    all.filter(|recorded| recorded.entry <= stream.last_id())
}

/// The same in the order in which they become outdated.
pub(super) fn recorded_in_order(stream: &Stream) -> Vec<Recorded<'_>> {
    let mut recorded: Vec<Recorded<'_>> = recorded(stream).collect();
    recorded.sort_by_key(|recorded| recorded.at_ms);
    recorded
}

fn rebuild_idempotency(stream: &Stream, key: &[u8], emit: Emit<'_>) {
    let Some(table) = stream.idempotency() else { return };
    let (duration, max) = (table.duration_s().to_string(), table.messages_max().to_string());
    emit(&[b"XCFGSET", key, b"IDMP-DURATION", duration.as_bytes(), b"IDMP-MAXSIZE", max.as_bytes()]);
    for recorded in recorded_in_order(stream) {
        emit(&[b"XIDMPRECORD", key, recorded.producer, recorded.message, recorded.entry.to_string().as_bytes()]);
    }
}
