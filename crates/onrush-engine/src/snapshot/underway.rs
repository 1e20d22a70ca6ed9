//! A snapshot that is under way.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use onrush_persist::rdb::{Encoder, KeyRecord, Text, VERSION_DEFAULT, VERSION_FIELD_EXPIRY};
use onrush_persist::{Buffer as Block, Held, push_command};
use onrush_store::{Cleared, CollectionRef, CutFacts, Entry, Frozen, ValueRef, clock};
use parking_lot::{Mutex, MutexGuard};

use super::backlog::Backlog;
use super::output::{NoResult, Output, Purpose};
use crate::commit::rebuild_value;
use crate::types::producers;
use crate::types::rdb::encode;

/// A thread hands over what it has encoded in blocks of about this many bytes.
const BLOCK_LEN: usize = 64 << 10;

/// Strings from this length on are encoded after their shard is unlocked: writers copy a string that is shared.
const STRING_LEN_LATER_MIN: usize = 64 << 10;

/// Which access clock saved keys have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Usage {
    Untold,
    Idle,
    Frequency,
}

/// How a snapshot begins.
pub(crate) struct Beginning {
    /// What it is for.
    pub purpose: Purpose,
    /// Where it goes.
    pub output: Box<dyn Output>,
    /// Whether the snapshot's own thread compresses what it encodes. Writers never compress: it would delay them.
    pub compresses: bool,
    /// Facts about the server, with their names in the format.
    pub aux: Vec<(&'static str, String)>,
    /// The texts of the libraries of functions.
    pub libraries: Vec<Vec<u8>>,
    /// The slots that it is about, if not about all data.
    pub slots: Option<Vec<u16>>,
}

/// Encoded items of one thread, or commands.
struct Buffer {
    encoder: Encoder,
    /// Commands, if it takes those.
    commands: Option<Vec<u8>>,
    /// The database of the last key.
    number: Option<u32>,
}

impl Buffer {
    fn len(&self) -> usize {
        self.commands.as_ref().map_or(self.encoder.bytes().len(), Vec::len)
    }

    /// What there is; it begins anew with a database.
    fn take(&mut self) -> Block {
        self.number = None;
        match &mut self.commands {
            Some(commands) => Block::from(std::mem::take(commands)),
            None => self.encoder.take_buffer(),
        }
    }
}

/// Tables that were taken out of their database, and its number at the cut.
type Taken = (u32, Vec<Cleared>);

/// What is saved of a key beside its value.
struct Record<'a> {
    key: &'a [u8],
    expires_at_ms: Option<i64>,
    clock: u32,
}

impl<'a> Record<'a> {
    fn of(entry: &'a Entry) -> Self {
        Self { key: entry.key(), expires_at_ms: entry.expire_at(), clock: entry.clock() }
    }
}

/// A frozen large value, which writers do not change.
enum Later {
    Collection(Frozen),
    String(Arc<Vec<u8>>),
}

/// A key with such a value, and the number of its database at the cut.
struct Waiting {
    number: u32,
    key: Vec<u8>,
    expires_at_ms: Option<i64>,
    clock: u32,
    value: Later,
    /// Bytes of a string that a writer replaces.
    replaced_bytes: usize,
}

/// See the module's text.
pub struct Underway {
    /// What it is for.
    pub purpose: Purpose,
    /// The slots that it is about, if not about all data.
    slots: Option<Vec<u16>>,
    /// When it began.
    pub started: Instant,
    pub(super) cut: Cut,
    /// Keys that there were.
    pub keys: u64,
    saved: AtomicU64,
    /// By thread. The last one compresses.
    buffers: Box<[Mutex<Buffer>]>,
    output: Mutex<Option<Box<dyn Output>>>,
    pub(super) backlog: Backlog,
    written_bytes: AtomicU64,
    /// For each database, the number that its present content had at the cut.
    numbers: Box<[AtomicU32]>,
    /// How often databases were exchanged.
    swaps: AtomicU64,
    taken: Mutex<Vec<Taken>>,
    /// Large values that are still to be encoded.
    later: Mutex<Vec<Waiting>>,
    is_over: AtomicBool,
    why: Mutex<Option<NoResult>>,
}

/// Facts at the moment of the cut.
pub(super) struct Cut {
    pub(super) facts: CutFacts,
    pub(super) started: Instant,
    pub(super) cut_ms: i64,
    pub(super) changes: u64,
    pub(super) usage: Usage,
    pub(super) lfu_decay_minutes: u32,
    pub(super) threads: usize,
    /// Of each database its keys and those that expire.
    pub(super) sizes: Vec<(u64, u64)>,
}

impl Underway {
    pub(super) fn new(beginning: Beginning, cut: Cut, is_behind: Arc<AtomicBool>) -> Self {
        let Beginning { purpose, output, compresses, aux, libraries, slots } = beginning;
        let takes_commands = output.takes_commands();
        let buffer = |compresses| {
            let commands = takes_commands.then(Vec::new);
            Mutex::new(Buffer { encoder: Encoder::new(compresses), commands, number: None })
        };
        let underway = Self {
            purpose,
            slots,
            started: cut.started,
            keys: cut.facts.entries as u64,
            saved: AtomicU64::new(0),
            buffers: (0..=cut.threads).map(|thread| buffer(compresses && thread == cut.threads)).collect(),
            output: Mutex::new(Some(output)),
            backlog: Backlog::new(is_behind),
            written_bytes: AtomicU64::new(0),
            numbers: (0..cut.sizes.len() as u32).map(AtomicU32::new).collect(),
            swaps: AtomicU64::new(0),
            taken: Mutex::default(),
            later: Mutex::default(),
            is_over: AtomicBool::new(false),
            why: Mutex::default(),
            cut,
        };
        underway.write_head(&aux, &libraries);
        underway
    }

    fn write_head(&self, aux: &[(&'static str, String)], libraries: &[Vec<u8>]) {
        let version = if self.cut.facts.has_timed_fields { VERSION_FIELD_EXPIRY } else { VERSION_DEFAULT };
        if let Some(output) = &mut *self.output.lock()
            && let Err(error) = output.begin(version)
        {
            self.give_up(&error.to_string());
        }
        let mut buffer = self.buffers[self.own()].lock();
        let Buffer { encoder, commands, .. } = &mut *buffer;
        if let Some(commands) = commands {
            for text in libraries {
                push_command(commands, [&b"FUNCTION"[..], b"LOAD", b"REPLACE", text].into_iter());
            }
            return;
        }
        for (name, value) in aux {
            encoder.aux(name.as_bytes(), Text::Bytes(value.as_bytes()));
        }
        libraries.iter().for_each(|text| encoder.function(text));
        for (number, (keys, expiring)) in (0..).zip(&self.cut.sizes) {
            if *keys > 0 {
                encoder.select_db(number);
                encoder.sizes(*keys, *expiring);
            }
        }
    }

    /// The slots that it is about, if not about all data.
    pub(super) fn slots(&self) -> Option<&[u16]> {
        self.slots.as_deref()
    }

    /// The buffer of the thread that goes through all entries.
    pub(super) fn own(&self) -> usize {
        self.buffers.len() - 1
    }

    /// Encodes an entry of a database for a thread; its shard is locked. Large values are encoded later. O(size of the
    /// value).
    pub(crate) fn save(&self, thread: usize, db: u32, entry: &Entry, frozen: Option<Frozen>) {
        let number = self.numbers[db as usize].load(Relaxed);
        match frozen {
            Some(value) => self.save_later(number, entry, Later::Collection(value), 0),
            None => match entry.value() {
                ValueRef::Shared(bytes) if bytes.len() >= STRING_LEN_LATER_MIN => {
                    let replaced_bytes = if thread == self.own() { 0 } else { bytes.len() };
                    self.save_later(number, entry, Later::String(Arc::clone(bytes)), replaced_bytes);
                }
                value => self.save_as(thread, number, &Record::of(entry), value),
            },
        }
    }

    fn save_later(&self, number: u32, entry: &Entry, value: Later, replaced_bytes: usize) {
        if self.is_over.load(Relaxed) {
            self.saved.fetch_add(1, Relaxed);
            return;
        }
        self.backlog.add_replaced(replaced_bytes);
        let (key, expires_at_ms, clock) = (entry.key().to_vec(), entry.expire_at(), entry.clock());
        self.later.lock().push(Waiting { number, key, expires_at_ms, clock, value, replaced_bytes });
    }

    /// Encodes frozen large values, and calls `done` for each finished collection, with the number of its database at
    /// the cut and its key. No shard may be locked.
    pub(super) fn save_late(&self, mut done: impl FnMut(u32, &[u8])) {
        loop {
            let next = self.later.lock().pop();
            let Some(Waiting { number, key, expires_at_ms, clock, value, replaced_bytes }) = next else { return };
            let record = Record { key: &key, expires_at_ms, clock };
            // About what it takes when encoded, which counts as memory of a snapshot before it is there.
            let held = Held::new(match &value {
                Later::Collection(frozen) => frozen.as_ref().size_bytes() / 2,
                Later::String(bytes) => bytes.len(),
            });
            let read = match &value {
                Later::Collection(frozen) => ValueRef::Collection(frozen.as_ref()),
                Later::String(bytes) => ValueRef::Shared(bytes),
            };
            self.save_as(self.own(), number, &record, read);
            drop(held);
            let is_collection = matches!(value, Later::Collection(_));
            drop(value);
            self.backlog.remove_replaced(replaced_bytes);
            if is_collection {
                done(number, &key);
            }
            self.write_waiting();
            self.sync_due();
        }
    }

    fn save_as(&self, thread: usize, number: u32, record: &Record<'_>, value: ValueRef<'_>) {
        self.saved.fetch_add(1, Relaxed);
        if self.is_over.load(Relaxed) {
            return;
        }
        let mut buffer = self.buffers[thread].lock();
        let Buffer { encoder, commands, number: last } = &mut *buffer;
        let is_elsewhere = last.replace(number) != Some(number);
        if let Some(commands) = commands {
            if is_elsewhere && self.purpose != Purpose::Slots {
                push_command(commands, [&b"SELECT"[..], itoa::Buffer::new().format(number).as_bytes()].into_iter());
            }
            rebuild_value(record.key, value, record.expires_at_ms, &mut |args| {
                push_command(commands, args.iter().copied())
            });
            return self.hand_over_if_full(buffer);
        }
        if is_elsewhere {
            encoder.select_db(u64::from(number));
        }
        let (mut idle_s, mut freq) = (None, None);
        match self.cut.usage {
            Usage::Untold => {}
            Usage::Idle => idle_s = Some(u64::from(clock::lru_idle_seconds(record.clock, self.cut.cut_ms))),
            Usage::Frequency => {
                freq = Some(clock::lfu_counter(record.clock, self.cut.cut_ms, self.cut.lfu_decay_minutes))
            }
        }
        let key = KeyRecord { name: record.key, expires_at_ms: record.expires_at_ms, idle_s, freq };
        encode(value, encoder.key(&key));
        if let ValueRef::Collection(CollectionRef::Stream(stream)) = value {
            let text = |value: &[u8]| encoder.aux(producers::NAME, Text::Bytes(value));
            producers::encode(number, record.key, stream, text);
        }
        self.hand_over_if_full(buffer);
    }

    fn hand_over_if_full(&self, mut buffer: MutexGuard<'_, Buffer>) {
        if buffer.len() >= BLOCK_LEN {
            let block = buffer.take();
            drop(buffer);
            self.hand_over(block);
        }
    }

    /// Bytes that a thread has encoded and not handed over.
    pub(super) fn open_bytes(&self, thread: usize) -> usize {
        self.buffers[thread].lock().len()
    }

    fn hand_over(&self, block: Block) {
        if !self.is_over.load(Relaxed) {
            self.backlog.push(block);
        }
    }

    /// Writes the waiting bytes. Only the thread that takes the snapshot does this; no shard may be locked.
    pub(super) fn write_waiting(&self) {
        if self.backlog.bytes() == 0 {
            return;
        }
        let mut output = self.output.lock();
        self.backlog.write(|bytes| {
            if self.is_over.load(Relaxed) {
                return;
            }
            let Some(output) = &mut *output else { return };
            match output.write(bytes) {
                Ok(()) => _ = self.written_bytes.fetch_add(bytes.len() as u64, Relaxed),
                Err(error) => self.give_up(&error.to_string()),
            }
        });
    }

    /// Syncs written bytes if there are many by now. This may take long: no lock is held meanwhile, so that others can
    /// write.
    pub(super) fn sync_due(&self) {
        let due = self.output.lock().as_mut().and_then(|output| output.take_due_sync());
        if let Some(file) = due
            && !self.is_over.load(Relaxed)
            && let Err(error) = file.sync()
        {
            self.give_up(&error.to_string());
        }
    }

    /// Hands over and writes all that threads have encoded.
    pub(super) fn write_all(&self) {
        for buffer in &self.buffers {
            let block = buffer.lock().take();
            if !block.is_empty() {
                self.hand_over(block);
            }
        }
        self.write_waiting();
    }

    /// Ends it without a result. The scan still goes through all entries, so that the next snapshot can begin.
    pub fn abort(&self, reason: &str) {
        self.stop(NoResult::Unwanted(reason.to_owned()));
    }

    /// As [`Underway::abort`], as a failure. What waits is dropped at once, also while a write does not return.
    pub(super) fn give_up(&self, reason: &str) {
        self.stop(NoResult::Failed(reason.to_owned()));
    }

    fn stop(&self, why: NoResult) {
        self.why.lock().get_or_insert(why);
        self.is_over.store(true, Relaxed);
        self.backlog.clear();
    }

    /// Whether it has failed, or is no longer wanted.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Relaxed)
    }

    /// Takes the output, and the reason if there is no result.
    pub(super) fn take_output(&self) -> (Option<Box<dyn Output>>, Option<NoResult>) {
        (self.output.lock().take(), self.why.lock().clone())
    }

    /// Notes that two databases are exchanged. No other thread is in the keyspace.
    pub(crate) fn swap(&self, a: u32, b: u32) {
        let [a, b] = [a, b].map(|db| &self.numbers[db as usize]);
        let number = a.swap(b.load(Relaxed), Relaxed);
        b.store(number, Relaxed);
        self.swaps.fetch_add(1, Relaxed);
    }

    /// The database that now has the content of a number at the cut.
    pub(super) fn database_of(&self, number: u32) -> Option<u32> {
        (0..).zip(&self.numbers).find_map(|(db, now)| (now.load(Relaxed) == number).then_some(db))
    }

    /// How often databases were exchanged.
    pub(super) fn swaps(&self) -> u64 {
        self.swaps.load(Relaxed)
    }

    /// Takes over tables of an emptied database until they are saved. No other thread is in the keyspace.
    pub(crate) fn take_over(&self, db: u32, cleared: Vec<Cleared>) {
        if !cleared.is_empty() {
            self.taken.lock().push((self.numbers[db as usize].load(Relaxed), cleared));
        }
    }

    /// Whether what leaves the keyspace is still wanted.
    pub(crate) fn wants_taken(&self) -> bool {
        !self.is_over.load(Relaxed)
    }

    /// Saves tables that were taken out.
    pub(super) fn save_taken(&self) {
        loop {
            let Some((number, cleared)) = self.taken.lock().pop() else { return };
            for table in cleared {
                table.save(&mut |entry| self.save_as(self.own(), number, &Record::of(entry), entry.value()));
                self.write_waiting();
                self.sync_due();
            }
        }
    }

    /// Keys that were saved so far.
    pub fn saved(&self) -> u64 {
        self.saved.load(Relaxed)
    }

    /// Bytes that were written so far.
    pub fn written_bytes(&self) -> u64 {
        self.written_bytes.load(Relaxed)
    }

    /// Bytes that are encoded and not written.
    pub fn held_bytes(&self) -> usize {
        self.backlog.bytes()
    }

    /// The most of them so far.
    pub(crate) fn held_bytes_max(&self) -> usize {
        self.backlog.bytes_max()
    }
}
