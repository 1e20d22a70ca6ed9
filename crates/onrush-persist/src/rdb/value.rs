//! Decoding of one value, whatever its type and encoding.

use super::cursor::{Cursor, NO_SCORE, Result, parse_double};
use super::kind;
use super::listpack::{Listpack, Piece};
use super::module;
use super::stream;
use super::text::{Stored, Text};
use super::visitor::{CollectionKind, Refused, Told, Visitor};
use super::ziplist::{Intset, Ziplist, Zipmap};
use super::{RdbError, lzf};

/// Latest expiry of a field, as Unix time in milliseconds.
const FIELD_EXPIRY_MS_MAX: u64 = (1 << 48) - 2;

const EXPIRY_OUT_OF_RANGE: &str = "an expiry of a field that is out of range";

/// Reusable memory for strings that were compressed.
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

/// Turns a complaint of a visitor or a packed collection into an error about the string or collection at `at`.
pub(super) trait AtPlace<T> {
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
            kind::LIST => self.each(CollectionKind::List, 1, Self::element),
            kind::LIST_ZIPLIST => self.packed((Ziplist::new, Ziplist::len_hint), &ELEMENT, visit_element),
            kind::LIST_QUICKLIST | kind::LIST_QUICKLIST_2 => self.quicklist(kind),
            kind::SET => self.each(CollectionKind::Set, 1, |decoder, at| {
                decoder.visitor.member(decoder.cursor.text(&mut decoder.scratch.first)?).at(at)
            }),
            kind::SET_INTSET => self.packed((Intset::new, Intset::len), &MEMBER, visit_member),
            kind::SET_LISTPACK => self.packed((Listpack::new, Listpack::len_hint), &MEMBER, visit_member),
            kind::SORTED_SET | kind::SORTED_SET_2 => self.plain_sorted_set(kind),
            kind::SORTED_SET_ZIPLIST => self.packed((Ziplist::new, Ziplist::len_hint), &SCORED, visit_scored),
            kind::SORTED_SET_LISTPACK => self.packed((Listpack::new, Listpack::len_hint), &SCORED, visit_scored),
            kind::HASH => self.each(CollectionKind::Hash, 2, |decoder, _| decoder.plain_field(None)),
            kind::HASH_ZIPMAP => self.packed((Zipmap::new, |_| 0), &FIELD, visit_field),
            kind::HASH_ZIPLIST => self.packed((Ziplist::new, Ziplist::len_hint), &FIELD, visit_field),
            kind::HASH_LISTPACK => self.packed((Listpack::new, Listpack::len_hint), &FIELD, visit_field),
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

    /// A collection: the number of its elements, which must not be 0, and the elements, each of at least `bytes_min` bytes.
    /// `read` gets the place of an element.
    #[inline]
    fn each(
        &mut self,
        kind: CollectionKind,
        bytes_min: usize,
        mut read: impl FnMut(&mut Self, u64) -> Result<()>,
    ) -> Result<()> {
        let count = match self.cursor.number()? {
            0 => return Err(RdbError::Empty { at: self.start }),
            count => count,
        };
        let hint = self.cursor.hint(count.saturating_mul(bytes_min as u64)) / bytes_min;
        self.visitor.collection(kind, hint).at(self.start)?;
        for _ in 0..count {
            let at = self.cursor.offset();
            read(self, at)?;
        }
        Ok(())
    }

    #[inline]
    fn element(&mut self, at: u64) -> Result<()> {
        self.visitor.element(self.cursor.text(&mut self.scratch.first)?).at(at)
    }

    fn plain_sorted_set(&mut self, kind: u8) -> Result<()> {
        self.each(CollectionKind::SortedSet, 2, |decoder, at| {
            let Self { cursor, scratch, .. } = decoder;
            let member = cursor.text(&mut scratch.first)?;
            let score = if kind == kind::SORTED_SET_2 { cursor.double()? } else { cursor.text_double()? };
            if score.is_nan() {
                return Err(RdbError::Malformed { at, what: NO_SCORE });
            }
            decoder.visitor.scored(member, score).at(at)
        })
    }

    #[inline]
    fn plain_field(&mut self, expires_at_ms: Option<i64>) -> Result<()> {
        let at = self.cursor.offset();
        let name = self.cursor.text(&mut self.scratch.first)?;
        let value = self.cursor.text(&mut self.scratch.second)?;
        self.visitor.field(name, value, expires_at_ms).at(at)
    }

    /// A hash whose fields expire. Each field comes after a number: 0, or its time in milliseconds, counted from one
    /// less than the earliest time, which comes first. Files of 7.4 before its release have no earliest time, and times
    /// are absolute.
    fn expiring_hash(&mut self, kind: u8) -> Result<()> {
        let base = if kind == kind::HASH_METADATA { Some(self.cursor.millis()?) } else { None };
        self.each(CollectionKind::Hash, 3, |decoder, at| {
            let time = decoder.cursor.number()?;
            let absolute = match base {
                _ if time == 0 => Some(0),
                None => Some(time),
                Some(base) => u64::try_from(base).ok().and_then(|base| base.checked_add(time - 1)),
            };
            let expiry = absolute.filter(|time| *time <= FIELD_EXPIRY_MS_MAX);
            let expiry = expiry.ok_or(RdbError::Malformed { at, what: EXPIRY_OUT_OF_RANGE })?;
            decoder.plain_field((time > 0).then_some(expiry as i64))
        })
    }

    fn quicklist(&mut self, kind: u8) -> Result<()> {
        const PLAIN: u64 = 1;
        const PACKED: u64 = 2;
        let mut len = 0;
        self.each(CollectionKind::List, 2, |decoder, at| {
            let container = if kind == kind::LIST_QUICKLIST_2 { decoder.cursor.number()? } else { PACKED };
            len += match container {
                PLAIN => decoder.element(at).map(|()| 1)?,
                PACKED => {
                    let bytes = decoder.cursor.blob(&mut decoder.scratch.first)?;
                    if kind == kind::LIST_QUICKLIST_2 {
                        visit_elements(Listpack::new(bytes).at(at)?, decoder.visitor, at)?
                    } else {
                        visit_elements(Ziplist::new(bytes).at(at)?, decoder.visitor, at)?
                    }
                }
                _ => return Err(RdbError::Malformed { at, what: "a node of a list of unknown form" }),
            };
            Ok(())
        })?;
        if len == 0 { Err(RdbError::Empty { at: self.start }) } else { Ok(()) }
    }

    /// Decodes a packed collection. `visit` passes one item to the visitor: it gets the item's first piece and reads
    /// the others.
    fn packed<'b, P: Iterator<Item = Piece<'b>>>(
        &'b mut self,
        (open, len_hint): Form<'b, P>,
        item: &Item,
        visit: impl Fn(Text<'b>, &mut P, &mut V) -> Told,
    ) -> Result<()> {
        let at = self.cursor.offset();
        let bytes = self.cursor.blob(&mut self.scratch.first)?;
        let mut pieces = open(bytes).at(at)?;
        self.visitor.collection(item.of, len_hint(&pieces) / item.pieces).at(at)?;
        let mut is_empty = true;
        while let Some(first) = pieces.next() {
            visit(first.at(at)?, &mut pieces, self.visitor).at(at)?;
            is_empty = false;
        }
        if is_empty { Err(RdbError::Empty { at: self.start }) } else { Ok(()) }
    }

    /// A listpack of fields, values and Unix times in milliseconds, 0 for none. The earliest time comes first, except
    /// in files of 7.4 before its release.
    fn expiring_packed_hash(&mut self, kind: u8) -> Result<()> {
        if kind == kind::HASH_LISTPACK_EX {
            self.cursor.millis()?;
        }
        self.packed((Listpack::new, Listpack::len_hint), &EXPIRING_FIELD, |name, pieces, visitor| {
            let value = required(pieces.next(), "a field without a value")?;
            let expiry = match required(pieces.next(), "a field without an expiry")? {
                Text::Int(0) => None,
                Text::Int(time) if (1..=FIELD_EXPIRY_MS_MAX as i64).contains(&time) => Some(time),
                _ => return Err(Refused(EXPIRY_OUT_OF_RANGE)),
            };
            visitor.field(name, value, expiry)
        })
    }
}

/// Opens a packed form, and returns the number of its pieces, 0 if unknown.
type Form<'b, P> = (fn(&'b [u8]) -> std::result::Result<P, &'static str>, fn(&P) -> usize);

/// An item of a packed collection: its type, and how many pieces it has.
struct Item {
    of: CollectionKind,
    pieces: usize,
}

const ELEMENT: Item = Item { of: CollectionKind::List, pieces: 1 };
const MEMBER: Item = Item { of: CollectionKind::Set, pieces: 1 };
const SCORED: Item = Item { of: CollectionKind::SortedSet, pieces: 2 };
const FIELD: Item = Item { of: CollectionKind::Hash, pieces: 2 };
const EXPIRING_FIELD: Item = Item { of: CollectionKind::Hash, pieces: 3 };

#[inline]
fn required<'b>(piece: Option<Piece<'b>>, missing: &'static str) -> std::result::Result<Text<'b>, Refused> {
    piece.unwrap_or(Err(missing)).map_err(Refused)
}

#[inline]
fn visit_element<'b, P, V: Visitor>(element: Text<'b>, _: &mut P, visitor: &mut V) -> Told {
    visitor.element(element)
}

#[inline]
fn visit_member<'b, P, V: Visitor>(member: Text<'b>, _: &mut P, visitor: &mut V) -> Told {
    visitor.member(member)
}

#[inline]
fn visit_scored<'b, P: Iterator<Item = Piece<'b>>, V: Visitor>(
    member: Text<'b>,
    pieces: &mut P,
    visitor: &mut V,
) -> Told {
    let score = match required(pieces.next(), "a member without a score")? {
        Text::Int(int) => Some(int as f64),
        Text::Bytes(text) => parse_double(text).filter(|score| !score.is_nan()),
    };
    visitor.scored(member, score.ok_or(Refused(NO_SCORE))?)
}

#[inline]
fn visit_field<'b, P: Iterator<Item = Piece<'b>>, V: Visitor>(name: Text<'b>, pieces: &mut P, visitor: &mut V) -> Told {
    visitor.field(name, required(pieces.next(), "a field without a value")?, None)
}

/// Passes the elements of a packed list to the visitor, and returns their number.
fn visit_elements<'b>(elements: impl Iterator<Item = Piece<'b>>, visitor: &mut impl Visitor, at: u64) -> Result<u64> {
    let mut count = 0;
    for element in elements {
        visitor.element(element.at(at)?).at(at)?;
        count += 1;
    }
    Ok(count)
}
