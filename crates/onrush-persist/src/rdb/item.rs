//! The sequence of items in a file: keys with their values, and the items between them.

use std::ops::Deref;

use super::cursor::{Cursor, NOT_LZF, Result};
use super::text::{Stored, Text};
use super::value::{self, Scratch};
use super::visitor::Visitor;
use super::{ModuleId, RdbError, kind, lzf, module, skip};

/// A string of a file: borrowed from the file's bytes, or in memory of its own if it was compressed or a number.
#[derive(Clone, Debug)]
pub struct FileBytes<'a>(Place<'a>);

#[derive(Clone, Debug)]
enum Place<'a> {
    There(&'a [u8]),
    Number { digits: [u8; 20], len: u8 },
    Owned(Vec<u8>),
}

impl Deref for FileBytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Place::There(bytes) => bytes,
            Place::Number { digits, len } => &digits[..usize::from(*len)],
            Place::Owned(bytes) => bytes,
        }
    }
}

impl<'a> FileBytes<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self> {
        let at = cursor.offset();
        Ok(FileBytes(match cursor.stored()? {
            Stored::Plain(Text::Bytes(bytes)) => Place::There(bytes),
            Stored::Plain(Text::Int(number)) => {
                let mut buffer = itoa::Buffer::new();
                let text = buffer.format(number).as_bytes();
                let mut digits = [0; 20];
                digits[..text.len()].copy_from_slice(text);
                Place::Number { digits, len: text.len() as u8 }
            }
            Stored::Compressed { bytes, len } => {
                Place::Owned(lzf::expand(bytes, len).ok_or(RdbError::Malformed { at, what: NOT_LZF })?)
            }
        }))
    }
}

/// A key, without its value.
#[derive(Clone, Debug)]
pub struct Key<'a> {
    /// The number of its database.
    pub db: u64,
    /// The key.
    pub name: FileBytes<'a>,
    /// When it expires, in Unix milliseconds.
    pub expires_at_ms: Option<i64>,
    /// How long it had been unused, in seconds, if the file says so.
    pub idle_s: Option<u64>,
    /// How often it was used, as a logarithm (OBJECT FREQ), if the file says so.
    pub freq: Option<u8>,
}

/// An item of a file.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Item<'a> {
    /// Something about the file or the server that wrote it.
    Aux {
        /// The name of the information.
        name: FileBytes<'a>,
        /// The information.
        value: FileBytes<'a>,
    },
    /// About how many keys a database has; its keys follow.
    Sizes {
        /// The number of the database.
        db: u64,
        /// Its keys.
        keys: u64,
        /// Those that expire.
        expiring: u64,
    },
    /// The text of a library of functions.
    Function(FileBytes<'a>),
    /// Data that a module wrote beside its keys. The data is skipped.
    ModuleAux(ModuleId),
    /// A key; [`Items::value`] decodes its value.
    Key(Key<'a>),
}

/// The meaning of an opcode. Strings after it have not been read.
enum Opcode {
    ExpiresAtMs(i64),
    IdleS(u64),
    Freq(u8),
    SelectDb(u64),
    Sizes(u64, u64),
    Slot,
    Aux,
    Function,
    ModuleAux(ModuleId),
    End,
    Value(u8),
}

impl Opcode {
    fn read(cursor: &mut Cursor<'_>) -> Result<Opcode> {
        let at = cursor.offset();
        Ok(match cursor.byte()? {
            kind::EXPIRE_TIME => Opcode::ExpiresAtMs(i64::from(i32::from_le_bytes(cursor.array()?)) * 1000),
            kind::EXPIRE_TIME_MS => Opcode::ExpiresAtMs(cursor.millis()?),
            kind::IDLE => Opcode::IdleS(cursor.number()?),
            kind::FREQ => Opcode::Freq(cursor.byte()?),
            kind::SELECT_DB => Opcode::SelectDb(cursor.number()?),
            kind::RESIZE_DB => Opcode::Sizes(cursor.number()?, cursor.number()?),
            kind::SLOT_INFO => {
                // The slot, its keys and its expiring keys: useful only to servers with one table for each slot.
                for _ in 0..3 {
                    cursor.number()?;
                }
                Opcode::Slot
            }
            kind::AUX => Opcode::Aux,
            kind::FUNCTION => Opcode::Function,
            kind::MODULE_AUX => Opcode::ModuleAux(module::skip_aux(cursor)?),
            kind::END => Opcode::End,
            kind::FUNCTION_PRE_GA => {
                return Err(RdbError::Malformed { at, what: "functions from before the release of Redis 7" });
            }
            value => Opcode::Value(value),
        })
    }
}

/// What is at a place of a file, found without reading its content.
pub(crate) enum Framed {
    /// A complete item.
    Item,
    /// A complete item that selects this database for the following keys.
    Db(u64),
    /// The end of the file.
    End,
}

const LONELY: &str = "an expiry or an access time without a key";

/// Skips one item. An incomplete item is an error too.
pub(crate) fn frame(cursor: &mut Cursor<'_>) -> Result<Framed> {
    let start = cursor.offset();
    let mut has_attributes = false;
    loop {
        let framed = match Opcode::read(cursor)? {
            Opcode::ExpiresAtMs(_) | Opcode::IdleS(_) | Opcode::Freq(_) => {
                has_attributes = true;
                continue;
            }
            Opcode::Value(kind) => {
                // Checks the type first: an unknown type is not followed by a key.
                if !kind::is_value(kind) {
                    return Err(RdbError::Malformed { at: cursor.offset() - 1, what: kind::UNKNOWN });
                }
                cursor.skip_string()?;
                skip::skip_value(kind, cursor)?;
                return Ok(Framed::Item);
            }
            Opcode::SelectDb(db) => Framed::Db(db),
            Opcode::End => Framed::End,
            Opcode::Aux => {
                cursor.skip_string()?;
                cursor.skip_string()?;
                Framed::Item
            }
            Opcode::Function => {
                cursor.skip_string()?;
                Framed::Item
            }
            Opcode::Sizes(..) | Opcode::Slot | Opcode::ModuleAux(_) => Framed::Item,
        };
        return if has_attributes { Err(RdbError::Malformed { at: start, what: LONELY }) } else { Ok(framed) };
    }
}

/// The items of a part of a file, one after the other.
pub struct Items<'a> {
    cursor: Cursor<'a>,
    db: u64,
    /// The type of the value that follows, if it has not been decoded.
    value_kind: Option<u8>,
    scratch: Scratch,
}

impl<'a> Items<'a> {
    pub(crate) fn new(cursor: Cursor<'a>, db: u64) -> Self {
        Items { cursor, db, value_kind: None, scratch: Scratch::default() }
    }

    /// The place in the file. O(1).
    pub fn offset(&self) -> u64 {
        self.cursor.offset()
    }

    /// The next item; `None` at the end. Skips the value of the key before if it was not taken.
    ///
    /// # Errors
    /// The bytes are not valid.
    #[allow(clippy::should_implement_trait, reason = "it fails")]
    pub fn next(&mut self) -> Result<Option<Item<'a>>> {
        if let Some(kind) = self.value_kind.take() {
            skip::skip_value(kind, &mut self.cursor)?;
        }
        let (mut expires_at_ms, mut idle_s, mut freq) = (None, None, None);
        while !self.cursor.is_at_end() {
            match Opcode::read(&mut self.cursor)? {
                Opcode::ExpiresAtMs(time) => expires_at_ms = Some(time),
                Opcode::IdleS(time) => idle_s = Some(time),
                Opcode::Freq(value) => freq = Some(value),
                Opcode::SelectDb(db) => self.db = db,
                Opcode::Slot => {}
                Opcode::Sizes(keys, expiring) => return Ok(Some(Item::Sizes { db: self.db, keys, expiring })),
                Opcode::ModuleAux(id) => return Ok(Some(Item::ModuleAux(id))),
                Opcode::Function => return Ok(Some(Item::Function(FileBytes::read(&mut self.cursor)?))),
                Opcode::Aux => {
                    let (name, value) = (FileBytes::read(&mut self.cursor)?, FileBytes::read(&mut self.cursor)?);
                    return Ok(Some(Item::Aux { name, value }));
                }
                Opcode::End => return Err(self.cursor.malformed("the end of a file in front of its end")),
                Opcode::Value(kind) => {
                    let name = FileBytes::read(&mut self.cursor)?;
                    self.value_kind = Some(kind);
                    return Ok(Some(Item::Key(Key { db: self.db, name, expires_at_ms, idle_s, freq })));
                }
            }
        }
        if expires_at_ms.is_some() || idle_s.is_some() || freq.is_some() {
            return Err(self.cursor.malformed(LONELY));
        }
        Ok(None)
    }

    /// Decodes the value of the key that [`Items::next`] gave. O(bytes of the value).
    ///
    /// # Errors
    /// The value is not valid. After [`RdbError::Empty`] the next items can still be read.
    ///
    /// # Panics
    /// If there is no key, or its value has been taken.
    pub fn value(&mut self, visitor: &mut impl Visitor) -> Result<()> {
        let kind = self.value_kind.take().expect("a value is taken once, behind its key");
        let start = self.cursor.clone();
        let decoded = value::decode(kind, &mut self.cursor, visitor, &mut self.scratch);
        if let Err(RdbError::Empty { .. }) = decoded {
            self.cursor = start;
            self.value_kind = Some(kind);
        }
        decoded
    }

    /// The value of the key that [`Items::next`] gave, as its bytes, for decoding later. O(elements).
    ///
    /// # Errors
    /// The value has no end.
    ///
    /// # Panics
    /// If there is no key, or its value has been taken.
    pub fn raw_value(&mut self) -> Result<RawValue<'a>> {
        let kind = self.value_kind.take().expect("a value is taken once, behind its key");
        let (rest, at) = (self.cursor.rest(), self.cursor.offset());
        skip::skip_value(kind, &mut self.cursor)?;
        let len = (self.cursor.offset() - at) as usize;
        Ok(RawValue { kind, bytes: &rest[..len], at })
    }
}

/// A value as its bytes.
#[derive(Clone, Copy, Debug)]
pub struct RawValue<'a> {
    kind: u8,
    bytes: &'a [u8],
    at: u64,
}

impl<'a> RawValue<'a> {
    /// The value in a payload of DUMP: its type and its bytes, without the footer.
    pub(crate) fn of_payload(body: &'a [u8]) -> Result<Self> {
        let (&kind, bytes) = body.split_first().ok_or(RdbError::Truncated { at: 0 })?;
        Ok(RawValue { kind, bytes, at: 1 })
    }

    /// Its length in bytes.
    pub fn len_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Decodes it. O(bytes).
    ///
    /// # Errors
    /// The value is not valid.
    pub fn decode(&self, visitor: &mut impl Visitor, scratch: &mut Scratch) -> Result<()> {
        let mut cursor = Cursor::new(self.bytes, self.at);
        value::decode(self.kind, &mut cursor, visitor, scratch)?;
        if cursor.is_at_end() { Ok(()) } else { Err(cursor.malformed("bytes behind the value")) }
    }
}
