//! Streams: nodes of packed entries, and consumer groups.
//!
//! A node is an identifier in 16 bytes and a listpack. The listpack has the number of live and of deleted entries, the
//! fields of the first entry (their number and names) and a 0; then the entries. An entry has its flags, the difference
//! of its identifier to the node's, its fields (their number and names, unless the flags say that they are those of the
//! first entry) and values, and the number of its elements in the listpack. After the nodes come counts and
//! identifiers, and the groups with their pending entries.

use super::RdbError;
use super::cursor::{Cursor, Result};
use super::kind;
use super::listpack::Listpack;
use super::text::Text;
use super::value::{AtPlace, Scratch};
use super::visitor::{Refused, Visitor};

/// The identifier of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId {
    /// Milliseconds, usually since the Unix epoch.
    pub ms: u64,
    /// The number within the millisecond.
    pub seq: u64,
}

impl StreamId {
    /// Reads it as stored before a node and in lists of pending entries: the highest byte first.
    pub(crate) fn from_bytes(bytes: [u8; 16]) -> Self {
        let both = u128::from_be_bytes(bytes);
        StreamId { ms: (both >> 64) as u64, seq: both as u64 }
    }

    pub(crate) const fn to_bytes(self) -> [u8; 16] {
        ((self.ms as u128) << 64 | self.seq as u128).to_be_bytes()
    }
}

/// An entry.
#[derive(Clone, Copy, Debug)]
pub struct StreamEntry<'a> {
    /// Its identifier.
    pub id: StreamId,
    /// The names of its fields.
    pub names: &'a [Text<'a>],
    /// The values, one for each name.
    pub values: &'a [Text<'a>],
    /// Whether the names are those of its node's first entry. Then they are the same piece of memory.
    pub shares_names: bool,
}

/// A stream's state beside its entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamState {
    /// Number of entries.
    pub len: u64,
    /// The greatest identifier that was ever given.
    pub last_id: StreamId,
    /// The history, which files before Redis 7 do not have.
    pub history: Option<StreamHistory>,
}

/// What a stream remembers of earlier entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamHistory {
    /// The identifier of the first entry; the least one if there is none.
    pub first_id: StreamId,
    /// The greatest identifier that was deleted.
    pub max_deleted_id: StreamId,
    /// Entries ever added.
    pub entries_added: u64,
}

/// A consumer group.
#[derive(Clone, Copy, Debug)]
pub struct StreamGroup<'a> {
    /// Its name.
    pub name: Text<'a>,
    /// The last entry that was delivered.
    pub last_id: StreamId,
    /// Entries delivered since the first of the stream; `None` if that is not known.
    pub entries_read: Option<u64>,
}

/// An entry that was delivered but not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamPending {
    /// The entry.
    pub id: StreamId,
    /// When it was delivered last, in Unix milliseconds.
    pub delivered_ms: i64,
    /// How often it was delivered.
    pub count: u64,
}

/// A consumer.
#[derive(Clone, Copy, Debug)]
pub struct StreamConsumer<'a> {
    /// Its name.
    pub name: Text<'a>,
    /// When it last sent a command, in Unix milliseconds.
    pub seen_ms: i64,
    /// When it last got entries, in Unix milliseconds, -1 if never; `None` in files before Redis 7.2, which do not have
    /// it.
    pub active_ms: Option<i64>,
}

pub(crate) const DELETED: i64 = 1;
pub(crate) const SAME_FIELDS: i64 = 2;

/// The number that stands for an unknown count of entries read.
pub(crate) const NOT_KNOWN: u64 = u64::MAX;

pub(crate) fn decode(
    kind: u8,
    cursor: &mut Cursor<'_>,
    visitor: &mut impl Visitor,
    scratch: &mut Scratch,
) -> Result<()> {
    let mut place = cursor.offset();
    visitor.stream().at(place)?;
    let mut progress = Progress::default();
    for _ in 0..cursor.number()? {
        place = cursor.offset();
        let Ok(id) = <[u8; 16]>::try_from(cursor.blob(&mut scratch.second)?) else {
            return Err(RdbError::Malformed { at: place, what: "a node of a stream without an identifier" });
        };
        let bytes = cursor.blob(&mut scratch.first)?;
        let node = Node::new(StreamId::from_bytes(id), bytes);
        node.and_then(|node| node.visit(&mut progress, visitor)).at(place)?;
    }
    place = cursor.offset();
    let mut state = StreamState { len: cursor.number()?, last_id: id(cursor)?, history: None };
    if kind != kind::STREAM {
        let (first_id, max_deleted_id) = (id(cursor)?, id(cursor)?);
        state.history = Some(StreamHistory { first_id, max_deleted_id, entries_added: cursor.number()? });
    }
    if state.len != progress.live {
        return Err(RdbError::Malformed { at: place, what: "a stream with another number of entries than it says" });
    }
    if progress.last.is_some_and(|last| last > state.last_id) {
        return Err(RdbError::Malformed { at: place, what: "a stream with an entry behind its last identifier" });
    }
    visitor.stream_state(&state).at(place)?;
    for _ in 0..cursor.number()? {
        group(kind, cursor, visitor, scratch)?;
    }
    Ok(())
}

/// An identifier as two numbers.
fn id(cursor: &mut Cursor<'_>) -> Result<StreamId> {
    Ok(StreamId { ms: cursor.number()?, seq: cursor.number()? })
}

fn group(kind: u8, cursor: &mut Cursor<'_>, visitor: &mut impl Visitor, scratch: &mut Scratch) -> Result<()> {
    let start = cursor.offset();
    let name = cursor.text(&mut scratch.first)?;
    let last_id = id(cursor)?;
    let entries_read = if kind == kind::STREAM { NOT_KNOWN } else { cursor.number()? };
    let entries_read = (entries_read != NOT_KNOWN).then_some(entries_read);
    visitor.group(StreamGroup { name, last_id, entries_read }).at(start)?;
    for _ in 0..cursor.number()? {
        let at = cursor.offset();
        let id = StreamId::from_bytes(cursor.array()?);
        let pending = StreamPending { id, delivered_ms: cursor.millis()?, count: cursor.number()? };
        visitor.pending(pending).at(at)?;
    }
    for _ in 0..cursor.number()? {
        let at = cursor.offset();
        let name = cursor.text(&mut scratch.first)?;
        let seen_ms = cursor.millis()?;
        let active_ms = if kind == kind::STREAM_3 { Some(cursor.millis()?) } else { None };
        visitor.consumer(StreamConsumer { name, seen_ms, active_ms }).at(at)?;
        for _ in 0..cursor.number()? {
            let at = cursor.offset();
            let id = StreamId::from_bytes(cursor.array()?);
            visitor.consumer_pending(id).at(at)?;
        }
    }
    visitor.group_end().at(start)
}

/// What earlier nodes have had.
#[derive(Default)]
struct Progress {
    live: u64,
    last: Option<StreamId>,
}

/// A node whose header has been read.
struct Node<'a> {
    id: StreamId,
    live: u64,
    deleted: u64,
    names: Vec<Text<'a>>,
    pieces: Pieces<'a>,
}

type Checked<T> = std::result::Result<T, &'static str>;

/// The elements of a node's listpack.
struct Pieces<'a> {
    listpack: Listpack<'a>,
    taken: u64,
}

impl<'a> Pieces<'a> {
    #[inline]
    fn text(&mut self) -> Checked<Text<'a>> {
        self.taken += 1;
        self.listpack.next().unwrap_or(Err("a node of a stream that ends within an entry"))
    }

    #[inline]
    fn int(&mut self) -> Checked<i64> {
        match self.text()? {
            Text::Int(int) => Ok(int),
            Text::Bytes(_) => Err("a string in the place of a number, in a node of a stream"),
        }
    }

    fn count(&mut self) -> Checked<u64> {
        u64::try_from(self.int()?).map_err(|_| "a negative count in a node of a stream")
    }

    fn texts(&mut self, count: u64, texts: &mut Vec<Text<'a>>) -> Checked<()> {
        texts.clear();
        for _ in 0..count {
            texts.push(self.text()?);
        }
        Ok(())
    }
}

impl<'a> Node<'a> {
    fn new(id: StreamId, bytes: &'a [u8]) -> Checked<Self> {
        let mut pieces = Pieces { listpack: Listpack::new(bytes)?, taken: 0 };
        let (live, deleted, names_len) = (pieces.count()?, pieces.count()?, pieces.count()?);
        let mut names = Vec::new();
        pieces.texts(names_len, &mut names)?;
        if pieces.int()? != 0 {
            return Err("a node of a stream without the mark behind its fields");
        }
        Ok(Node { id, live, deleted, names, pieces })
    }

    /// Passes its entries to the visitor.
    fn visit(mut self, progress: &mut Progress, visitor: &mut impl Visitor) -> Checked<()> {
        let (mut own_names, mut values) = (Vec::new(), Vec::new());
        let entries = self.live.checked_add(self.deleted).ok_or("a node of a stream with too many entries")?;
        let (mut live, mut last) = (0, progress.last);
        for _ in 0..entries {
            let before = self.pieces.taken;
            let flags = self.pieces.int()?;
            let id = self.entry_id()?;
            if id < self.id || last.is_some_and(|last| last >= id) {
                return Err("entries of a stream that are not in ascending order");
            }
            last = Some(id);
            let names = if flags & SAME_FIELDS == 0 {
                let count = self.pieces.count()?;
                own_names.clear();
                values.clear();
                for _ in 0..count {
                    own_names.push(self.pieces.text()?);
                    values.push(self.pieces.text()?);
                }
                &own_names
            } else {
                self.pieces.texts(self.names.len() as u64, &mut values)?;
                &self.names
            };
            let len = self.pieces.taken - before;
            if self.pieces.count()? != len {
                return Err("an entry of a stream with a wrong length behind it");
            }
            if flags & DELETED == 0 {
                if names.is_empty() {
                    return Err("an entry of a stream without fields");
                }
                live += 1;
                let entry = StreamEntry { id, names, values: &values, shares_names: flags & SAME_FIELDS != 0 };
                visitor.stream_entry(entry).map_err(|Refused(what)| what)?;
            }
        }
        if live != self.live {
            return Err("a node of a stream with another number of deleted entries than it says");
        }
        match self.pieces.listpack.next() {
            None => {}
            Some(piece) => return piece.and(Err("a node of a stream with more entries than it says")),
        }
        progress.live += live;
        progress.last = last.max(Some(self.id));
        Ok(())
    }

    fn entry_id(&mut self) -> Checked<StreamId> {
        let (ms, seq) = (self.pieces.int()?, self.pieces.int()?);
        Ok(StreamId { ms: self.id.ms.wrapping_add_signed(ms), seq: self.id.seq.wrapping_add_signed(seq) })
    }
}
