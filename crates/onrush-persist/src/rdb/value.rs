//! Decoding of one value, whatever its type and encoding.

use super::cursor::{Cursor, NO_SCORE, Result, parse_double};
use super::kind;
use super::listpack::{Listpack, Piece};
use super::module;
use super::stream;
use super::text::{Stored, Text};
use super::visitor::{CollectionKind, Refused, Visitor};
use super::ziplist::{Intset, Ziplist, Zipmap};
use super::{RdbError, lzf};

/// Fields expire before this Unix time in milliseconds.
const FIELD_EXPIRY_MS_MAX: u64 = (1 << 48) - 2;

const EXPIRY_OUT_OF_RANGE: &str = "an expiry of a field that is out of range";

/// Memory for strings that were compressed, to be used again.
#[derive(Debug, Default)]
pub struct Scratch {
    pub(crate) first: Vec<u8>,
    pub(crate) second: Vec<u8>,
}

/// How many bytes stay allocated for the next value.
const SCRATCH_KEPT_MAX: usize = 1 << 20;

impl Scratch {
    fn forget_much(&mut self) {
        self.first.clear();
        self.first.shrink_to(SCRATCH_KEPT_MAX);
        self.second.clear();
        self.second.shrink_to(SCRATCH_KEPT_MAX);
    }
}

/// Decodes the value of type `kind` at the cursor. O(bytes of the value).
pub(crate) fn decode(
    kind: u8,
    cursor: &mut Cursor<'_>,
    visitor: &mut impl Visitor,
    scratch: &mut Scratch,
) -> Result<()> {
    let decoded = Decoder { start: cursor.offset(), cursor, visitor, scratch }.value(kind);
    scratch.forget_much();
    decoded
}

struct Decoder<'c, 'a, 's, V> {
    start: u64,
    cursor: &'c mut Cursor<'a>,
    visitor: &'c mut V,
    scratch: &'s mut Scratch,
}

/// What a visitor or a packed collection does not like, found in a string or a collection at `at`.
trait AtPlace<T> {
    fn at(self, at: u64) -> Result<T>;
}

impl<T> AtPlace<T> for std::result::Result<T, Refused> {
    #[inline]
    fn at(self, at: u64) -> Result<T> {
        self.map_err(|Refused(what)| RdbError::Malformed { at, what })
    }
}

impl<T> AtPlace<T> for std::result::Result<T, &'static str> {
    #[inline]
    fn at(self, at: u64) -> Result<T> {
        self.map_err(|what| RdbError::Malformed { at, what })
    }
}

impl<V: Visitor> Decoder<'_, '_, '_, V> {
    fn value(&mut self, kind: u8) -> Result<()> {
        match kind {
            kind::STRING => self.string(),
            kind::LIST => self.plain_list(),
            kind::LIST_ZIPLIST => self.packed_list(Ziplist::new, Ziplist::len_max),
            kind::LIST_QUICKLIST | kind::LIST_QUICKLIST_2 => self.quicklist(kind),
            kind::SET => self.plain_set(),
            kind::SET_INTSET => self.packed_set(Intset::new, Intset::len),
            kind::SET_LISTPACK => self.packed_set(Listpack::new, Listpack::len_max),
            kind::SORTED_SET | kind::SORTED_SET_2 => self.plain_sorted_set(kind),
            kind::SORTED_SET_ZIPLIST => self.packed_sorted_set(Ziplist::new, Ziplist::len_max),
            kind::SORTED_SET_LISTPACK => self.packed_sorted_set(Listpack::new, Listpack::len_max),
            kind::HASH => self.plain_hash(),
            kind::HASH_ZIPMAP => self.packed_hash(Zipmap::new, |_| 0),
            kind::HASH_ZIPLIST => self.packed_hash(Ziplist::new, Ziplist::len_max),
            kind::HASH_LISTPACK => self.packed_hash(Listpack::new, Listpack::len_max),
            kind::HASH_METADATA | kind::HASH_METADATA_PRE_GA => self.expiring_hash(kind),
            kind::HASH_LISTPACK_EX | kind::HASH_LISTPACK_EX_PRE_GA => self.expiring_packed_hash(kind),
            kind::STREAM | kind::STREAM_2 | kind::STREAM_3 => {
                stream::decode(kind, self.cursor, self.visitor, self.scratch)
            }
            kind::MODULE_2 => Err(RdbError::Module { at: self.start, id: module::skip_value(self.cursor)? }),
            _ => Err(RdbError::Malformed { at: self.start, what: kind::UNKNOWN }),
        }
    }

    fn string(&mut self) -> Result<()> {
        let told = match self.cursor.stored()? {
            Stored::Plain(text) => self.visitor.string(text),
            Stored::Compressed { bytes, len } => match lzf::expand(bytes, len) {
                Some(value) => self.visitor.string_owned(value),
                None => Err(Refused(super::cursor::NOT_LZF)),
            },
        };
        told.at(self.start)
    }

    /// How many elements a collection is to have. It has some.
    fn count(&mut self) -> Result<u64> {
        match self.cursor.number()? {
            0 => Err(RdbError::Empty { at: self.start }),
            count => Ok(count),
        }
    }

    /// Announces a collection of `count` elements of at least `bytes_min` bytes.
    fn begin(&mut self, kind: CollectionKind, count: u64, bytes_min: usize) -> Result<()> {
        let hint = self.cursor.hint(count.saturating_mul(bytes_min as u64)) / bytes_min;
        self.visitor.collection(kind, hint).at(self.start)
    }

    fn plain_list(&mut self) -> Result<()> {
        let count = self.count()?;
        self.begin(CollectionKind::List, count, 1)?;
        for _ in 0..count {
            let at = self.cursor.offset();
            self.visitor.element(self.cursor.text(&mut self.scratch.first)?).at(at)?;
        }
        Ok(())
    }

    fn plain_set(&mut self) -> Result<()> {
        let count = self.count()?;
        self.begin(CollectionKind::Set, count, 1)?;
        for _ in 0..count {
            let at = self.cursor.offset();
            self.visitor.member(self.cursor.text(&mut self.scratch.first)?).at(at)?;
        }
        Ok(())
    }

    fn plain_sorted_set(&mut self, kind: u8) -> Result<()> {
        let count = self.count()?;
        self.begin(CollectionKind::SortedSet, count, 2)?;
        for _ in 0..count {
            let at = self.cursor.offset();
            let member = self.cursor.text(&mut self.scratch.first)?;
            let score = if kind == kind::SORTED_SET_2 { self.cursor.double()? } else { self.cursor.text_double()? };
            if score.is_nan() {
                return Err(RdbError::Malformed { at, what: NO_SCORE });
            }
            self.visitor.scored(member, score).at(at)?;
        }
        Ok(())
    }

    fn plain_hash(&mut self) -> Result<()> {
        let count = self.count()?;
        self.begin(CollectionKind::Hash, count, 2)?;
        for _ in 0..count {
            self.plain_field(None)?;
        }
        Ok(())
    }

    #[inline]
    fn plain_field(&mut self, expires_at_ms: Option<i64>) -> Result<()> {
        let at = self.cursor.offset();
        let name = self.cursor.text(&mut self.scratch.first)?;
        let value = self.cursor.text(&mut self.scratch.second)?;
        self.visitor.field(name, value, expires_at_ms).at(at)
    }

    /// A hash whose fields expire: each has a number before it, 0 or the time in milliseconds. That counts from one less than
    /// the earliest, which is in front, but in files of 7.4 before its release.
    fn expiring_hash(&mut self, kind: u8) -> Result<()> {
        let base = if kind == kind::HASH_METADATA { Some(self.cursor.millis()?) } else { None };
        let count = self.count()?;
        self.begin(CollectionKind::Hash, count, 3)?;
        for _ in 0..count {
            let at = self.cursor.offset();
            let time = self.cursor.number()?;
            let absolute = match base {
                _ if time == 0 => Some(0),
                None => Some(time),
                Some(base) => u64::try_from(base).ok().and_then(|base| base.checked_add(time - 1)),
            };
            let expiry = absolute.filter(|time| *time <= FIELD_EXPIRY_MS_MAX);
            let expiry = expiry.ok_or(RdbError::Malformed { at, what: EXPIRY_OUT_OF_RANGE })?;
            self.plain_field((time > 0).then_some(expiry as i64))?;
        }
        Ok(())
    }

    /// The bytes of a packed collection, the visitor, and the place of the bytes.
    fn packed(&mut self) -> Result<(&[u8], &mut V, u64)> {
        let at = self.cursor.offset();
        Ok((self.cursor.blob(&mut self.scratch.first)?, self.visitor, at))
    }

    fn packed_list<'b, P: Iterator<Item = Piece<'b>>>(
        &'b mut self,
        open: fn(&'b [u8]) -> std::result::Result<P, &'static str>,
        len_hint: fn(&P) -> usize,
    ) -> Result<()> {
        let start = self.start;
        let (bytes, visitor, at) = self.packed()?;
        let elements = open(bytes).at(at)?;
        visitor.collection(CollectionKind::List, len_hint(&elements)).at(at)?;
        match visit_elements(elements, visitor, at)? {
            0 => Err(RdbError::Empty { at: start }),
            _ => Ok(()),
        }
    }

    fn quicklist(&mut self, kind: u8) -> Result<()> {
        const PLAIN: u64 = 1;
        const PACKED: u64 = 2;
        let count = self.count()?;
        self.begin(CollectionKind::List, count, 2)?;
        let mut len = 0;
        for _ in 0..count {
            let at = self.cursor.offset();
            let container = if kind == kind::LIST_QUICKLIST_2 { self.cursor.number()? } else { PACKED };
            len += match container {
                PLAIN => {
                    self.visitor.element(self.cursor.text(&mut self.scratch.first)?).at(at)?;
                    1
                }
                PACKED => {
                    let bytes = self.cursor.blob(&mut self.scratch.first)?;
                    if kind == kind::LIST_QUICKLIST_2 {
                        visit_elements(Listpack::new(bytes).at(at)?, self.visitor, at)?
                    } else {
                        visit_elements(Ziplist::new(bytes).at(at)?, self.visitor, at)?
                    }
                }
                _ => return Err(RdbError::Malformed { at, what: "a node of a list of unknown form" }),
            };
        }
        if len == 0 { Err(RdbError::Empty { at: self.start }) } else { Ok(()) }
    }

    fn packed_set<'b, P: Iterator<Item = Piece<'b>>>(
        &'b mut self,
        open: fn(&'b [u8]) -> std::result::Result<P, &'static str>,
        len_hint: fn(&P) -> usize,
    ) -> Result<()> {
        let start = self.start;
        let (bytes, visitor, at) = self.packed()?;
        let members = open(bytes).at(at)?;
        visitor.collection(CollectionKind::Set, len_hint(&members)).at(at)?;
        let mut count = 0;
        for member in members {
            visitor.member(member.at(at)?).at(at)?;
            count += 1;
        }
        if count == 0 { Err(RdbError::Empty { at: start }) } else { Ok(()) }
    }

    fn packed_sorted_set<'b, P: Iterator<Item = Piece<'b>>>(
        &'b mut self,
        open: fn(&'b [u8]) -> std::result::Result<P, &'static str>,
        len_hint: fn(&P) -> usize,
    ) -> Result<()> {
        let start = self.start;
        let (bytes, visitor, at) = self.packed()?;
        let mut pieces = open(bytes).at(at)?;
        visitor.collection(CollectionKind::SortedSet, len_hint(&pieces) / 2).at(at)?;
        let mut count = 0;
        while let Some(member) = pieces.next() {
            let member = member.at(at)?;
            let score = match pieces.next().ok_or("a member without a score").at(at)?.at(at)? {
                Text::Int(int) => Some(int as f64),
                Text::Bytes(text) => parse_double(text).filter(|score| !score.is_nan()),
            };
            visitor.scored(member, score.ok_or(NO_SCORE).at(at)?).at(at)?;
            count += 1;
        }
        if count == 0 { Err(RdbError::Empty { at: start }) } else { Ok(()) }
    }

    fn packed_hash<'b, P: Iterator<Item = Piece<'b>>>(
        &'b mut self,
        open: fn(&'b [u8]) -> std::result::Result<P, &'static str>,
        len_hint: fn(&P) -> usize,
    ) -> Result<()> {
        let start = self.start;
        let (bytes, visitor, at) = self.packed()?;
        let mut pieces = open(bytes).at(at)?;
        visitor.collection(CollectionKind::Hash, len_hint(&pieces) / 2).at(at)?;
        let mut count = 0;
        while let Some(name) = pieces.next() {
            let value = pieces.next().ok_or("a field without a value").at(at)?;
            visitor.field(name.at(at)?, value.at(at)?, None).at(at)?;
            count += 1;
        }
        if count == 0 { Err(RdbError::Empty { at: start }) } else { Ok(()) }
    }

    /// A listpack of fields, values and Unix times in milliseconds, 0 for none; the earliest time is in front, but in files of 7.4
    /// before its release.
    fn expiring_packed_hash(&mut self, kind: u8) -> Result<()> {
        let start = self.start;
        if kind == kind::HASH_LISTPACK_EX {
            self.cursor.millis()?;
        }
        let (bytes, visitor, at) = self.packed()?;
        let mut pieces = Listpack::new(bytes).at(at)?;
        visitor.collection(CollectionKind::Hash, pieces.len_max() / 3).at(at)?;
        let mut count = 0;
        while let Some(name) = pieces.next() {
            let value = pieces.next().ok_or("a field without a value").at(at)?;
            let time = pieces.next().ok_or("a field without an expiry").at(at)?.at(at)?;
            let expiry = match time {
                Text::Int(0) => None,
                Text::Int(time) if (1..=FIELD_EXPIRY_MS_MAX as i64).contains(&time) => Some(time),
                _ => return Err(RdbError::Malformed { at, what: EXPIRY_OUT_OF_RANGE }),
            };
            visitor.field(name.at(at)?, value.at(at)?, expiry).at(at)?;
            count += 1;
        }
        if count == 0 { Err(RdbError::Empty { at: start }) } else { Ok(()) }
    }
}

/// Hands the elements of a packed list on, and says how many they are.
fn visit_elements<'b>(elements: impl Iterator<Item = Piece<'b>>, visitor: &mut impl Visitor, at: u64) -> Result<u64> {
    let mut count = 0;
    for element in elements {
        visitor.element(element.at(at)?).at(at)?;
        count += 1;
    }
    Ok(count)
}
