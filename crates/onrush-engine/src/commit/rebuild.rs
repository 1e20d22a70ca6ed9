//! Entries as commands: what has to be executed so that a key that is not there becomes what it is.

use std::collections::BTreeSet;

use onrush_resp::format_double;
use onrush_store::{CollectionRef, Entry, Hash, Stream, StreamId, ValueRef};

/// Elements in one command, as in Redis's rewritten append-only files.
const ELEMENTS_MAX: usize = 64;

/// Takes a command.
type Emit<'e> = &'e mut dyn FnMut(&[&[u8]]);

/// Emits the commands that make an entry: its value, then its expiry. O(size of the value).
///
/// Not told are what no command can set: access clocks, and when consumers of a stream were last heard of.
pub fn rebuild(entry: &Entry, emit: Emit<'_>) {
    let key = entry.key();
    match entry.value() {
        ValueRef::Collection(collection) => rebuild_collection(key, collection, emit),
        value => emit(&[b"SET", key, value.to_bytes(&mut itoa::Buffer::new())]),
    }
    if let Some(at) = entry.expire_at() {
        emit(&[b"PEXPIREAT", key, itoa::Buffer::new().format(at).as_bytes()]);
    }
}

fn rebuild_collection(key: &[u8], collection: CollectionRef<'_>, emit: Emit<'_>) {
    let mut batch = Batch::new(key, emit);
    match collection {
        CollectionRef::List(list) => list.iter().for_each(|element| batch.add(b"RPUSH", &[element.as_bytes()])),
        CollectionRef::Set(set) => {
            set.iter().for_each(|member| batch.add(b"SADD", &[member.to_bytes(&mut itoa::Buffer::new())]));
        }
        CollectionRef::SortedSet(set) => {
            set.iter().for_each(|(member, score)| batch.add(b"ZADD", &[format_double(score).as_bytes(), member]));
        }
        CollectionRef::Hash(hash) => {
            hash.iter().for_each(|field| batch.add(b"HSET", &[field.name, field.value]));
            batch.flush();
            expire_fields(key, hash, batch.emit);
        }
        CollectionRef::Stream(stream) => rebuild_stream(key, stream, batch.emit),
    }
    batch.flush();
}

/// Gathers elements into commands of up to [`ELEMENTS_MAX`].
struct Batch<'a, 'e> {
    key: &'a [u8],
    emit: Emit<'e>,
    name: &'static [u8],
    args: Vec<Vec<u8>>,
    elements: usize,
}

impl<'a, 'e> Batch<'a, 'e> {
    fn new(key: &'a [u8], emit: Emit<'e>) -> Self {
        Self { key, emit, name: b"", args: Vec::new(), elements: 0 }
    }

    fn add(&mut self, name: &'static [u8], parts: &[&[u8]]) {
        self.name = name;
        self.args.extend(parts.iter().map(|part| part.to_vec()));
        self.elements += 1;
        if self.elements == ELEMENTS_MAX {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if self.elements > 0 {
            let args: Vec<&[u8]> =
                [self.name, self.key].into_iter().chain(self.args.iter().map(Vec::as_slice)).collect();
            (self.emit)(&args);
            self.args.clear();
            self.elements = 0;
        }
    }
}

fn expire_fields(key: &[u8], hash: &Hash, emit: Emit<'_>) {
    if !hash.is_volatile() {
        return;
    }
    for field in hash.iter() {
        if let Some(at) = field.expiry {
            let mut at_text = itoa::Buffer::new();
            emit(&[b"HPEXPIREAT", key, at_text.format(at).as_bytes(), b"FIELDS", b"1", field.name]);
        }
    }
}

fn rebuild_stream(key: &[u8], stream: &Stream, emit: Emit<'_>) {
    // Entries that are gone and still pending: they have to be there when they are claimed.
    let pending = stream.groups().values().flat_map(|group| group.pending.keys().copied());
    let ghosts: BTreeSet<StreamId> = pending.filter(|id| stream.get(*id).is_none()).collect();
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
        // The only way to an empty stream that has a history.
        let id = stream.last_id().max(StreamId { ms: 0, seq: 1 }).to_string();
        emit(&[b"XADD", key, b"MAXLEN", b"0", id.as_bytes(), b"x", b"y"]);
    }
    rebuild_groups(key, stream, emit);
    for ghost in ghosts {
        emit(&[b"XDEL", key, ghost.to_string().as_bytes()]);
    }
    let (last, deleted) = (stream.last_id().to_string(), stream.max_deleted_id().to_string());
    let added = stream.entries_added().to_string();
    let ends: [&[u8]; 7] =
        [b"XSETID", key, last.as_bytes(), b"ENTRIESADDED", added.as_bytes(), b"MAXDELETEDID", deleted.as_bytes()];
    emit(&ends);
}

fn rebuild_groups(key: &[u8], stream: &Stream, emit: Emit<'_>) {
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
            let claim: [&[u8]; 12] = [
                b"XCLAIM",
                key,
                name,
                &pending.consumer,
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
