//! Encodes keys and values in forms that Redis 7.0 loads (version 10 of the format). Only hashes with expiring fields
//! need version 12.

use super::cursor::{ENCODED, INT_8, INT_16, INT_32, LEN_14_BITS, LEN_32_BITS, LEN_64_BITS, LZF};
use super::encode_stream::{StreamEncoder, StreamParts};
use super::kind;
use super::listpack::ListpackBuilder;
use super::lzf::Compressor;
use super::text::Text;
use crate::buffer::{Buffer, Held};

/// Strings of at most this many bytes are not compressed.
const COMPRESS_ABOVE: usize = 20;

/// Memory for longer strings counts as memory on the way to a file.
const LONG_BYTES: usize = 64 << 10;

/// The longest text that may be kept as an integer of at most four bytes.
const INT_TEXT_LEN_MAX: usize = 11;

/// Most bytes of elements in a node of a list. A longer element has a node of its own.
const LIST_NODE_LEN_MAX: usize = 8 << 10;

/// The version that all data needs, except hashes with expiring fields.
pub const VERSION_DEFAULT: u16 = 10;
/// The version that hashes with expiring fields need.
pub const VERSION_FIELD_EXPIRY: u16 = 12;

/// What is written before a value.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeyRecord<'a> {
    /// The key.
    pub name: &'a [u8],
    /// When it expires, in Unix milliseconds.
    pub expires_at_ms: Option<i64>,
    /// How long the key has been unused, in seconds.
    pub idle_s: Option<u64>,
    /// How often it was used, as a logarithm (OBJECT FREQ).
    pub freq: Option<u8>,
}

/// Encodes items into memory. The bytes can be written to a [`FileWriter`](super::FileWriter) in any portions. Each
/// thread has its own encoder.
#[derive(Default)]
pub struct Encoder {
    pub(super) out: Vec<u8>,
    compresses: bool,
    /// Made on first use.
    compressor: Option<Compressor>,
    compressed: Vec<u8>,
    /// Counts the memory for long strings, which are no data.
    held: Held,
    pub(super) listpack: ListpackBuilder,
    /// An intset in the making.
    packed: Vec<u8>,
    pub(super) stream: StreamParts,
    has_field_expiry: bool,
}

impl Encoder {
    /// An encoder; `compress` says whether it compresses strings of more than 20 bytes where that makes them shorter.
    pub fn new(compress: bool) -> Self {
        Encoder { compresses: compress, ..Encoder::default() }
    }

    /// Sets whether it compresses from here on.
    pub fn set_compress(&mut self, compress: bool) {
        self.compresses = compress;
    }

    /// Drops the encoded bytes; no buffer keeps more than `kept_bytes_max` bytes.
    pub fn shrink_to(&mut self, kept_bytes_max: usize) {
        self.clear();
        self.out.shrink_to(kept_bytes_max);
        self.compressed.clear();
        self.compressed.shrink_to(kept_bytes_max);
        self.packed.clear();
        self.packed.shrink_to(kept_bytes_max);
        self.listpack.shrink_to(kept_bytes_max);
        self.stream.shrink_to(kept_bytes_max);
    }

    /// Appends the footer of a payload and returns the payload. O(bytes).
    pub fn seal(&mut self) -> &[u8] {
        let version = self.version();
        super::seal_payload(&mut self.out, version);
        &self.out
    }

    /// The encoded bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.out
    }

    /// Drops the encoded bytes, but keeps the memory.
    pub fn clear(&mut self) {
        self.out.clear();
        self.held.set(0);
        self.has_field_expiry = false;
    }

    /// Returns the encoded bytes and becomes empty.
    pub fn take(&mut self) -> Vec<u8> {
        let taken = std::mem::take(&mut self.out);
        self.clear();
        taken
    }

    /// As [`Encoder::take`], for bytes on their way to a file.
    pub fn take_buffer(&mut self) -> Buffer {
        let taken = Buffer::from(std::mem::take(&mut self.out));
        self.clear();
        taken
    }

    /// The least version of the format for everything encoded since the last clear.
    pub fn version(&self) -> u16 {
        if self.has_field_expiry { VERSION_FIELD_EXPIRY } else { VERSION_DEFAULT }
    }

    /// Something about the file or the server.
    pub fn aux(&mut self, name: &[u8], value: Text<'_>) {
        self.out.push(kind::AUX);
        self.push_text(Text::Bytes(name));
        self.push_text(value);
    }

    /// The text of a library of functions.
    pub fn function(&mut self, text: &[u8]) {
        self.out.push(kind::FUNCTION);
        self.push_text(Text::Bytes(text));
    }

    /// The database of the keys that follow.
    pub fn select_db(&mut self, db: u64) {
        self.out.push(kind::SELECT_DB);
        self.push_number(db);
    }

    /// How many keys the database has, and how many of them expire.
    pub fn sizes(&mut self, keys: u64, expiring: u64) {
        self.out.push(kind::RESIZE_DB);
        self.push_number(keys);
        self.push_number(expiring);
    }

    /// A key; its value must follow.
    pub fn key(&mut self, key: &KeyRecord<'_>) -> ValueEncoder<'_> {
        if let Some(expires_at_ms) = key.expires_at_ms {
            self.out.push(kind::EXPIRE_TIME_MS);
            self.out.extend_from_slice(&expires_at_ms.to_le_bytes());
        }
        if let Some(idle_s) = key.idle_s {
            self.out.push(kind::IDLE);
            self.push_number(idle_s);
        }
        if let Some(freq) = key.freq {
            self.out.extend_from_slice(&[kind::FREQ, freq]);
        }
        let kind_at = self.out.len();
        self.out.push(0);
        self.push_text(Text::Bytes(key.name));
        ValueEncoder { encoder: self, kind_at }
    }

    /// A value without a key: what DUMP returns, without the [footer](super::seal_payload).
    pub fn payload(&mut self) -> ValueEncoder<'_> {
        let kind_at = self.out.len();
        self.out.push(0);
        ValueEncoder { encoder: self, kind_at }
    }

    /// A length or a number.
    pub(super) fn push_number(&mut self, number: u64) {
        match number {
            0..64 => self.out.push(number as u8),
            64..0x4000 => self.out.extend_from_slice(&[LEN_14_BITS | (number >> 8) as u8, number as u8]),
            0x4000..=0xffff_ffff => {
                self.out.push(LEN_32_BITS);
                self.out.extend_from_slice(&(number as u32).to_be_bytes());
            }
            _ => {
                self.out.push(LEN_64_BITS);
                self.out.extend_from_slice(&number.to_be_bytes());
            }
        }
    }

    /// So many items behind their number.
    #[inline]
    fn push_each<T>(&mut self, len: u64, items: impl Iterator<Item = T>, push: impl Fn(&mut Self, T)) {
        self.push_number(len);
        let mut count = 0;
        for item in items {
            push(self, item);
            count += 1;
        }
        debug_assert_eq!(count, len);
    }

    /// A string in its shortest form.
    pub(super) fn push_text(&mut self, text: Text<'_>) {
        let is_short = !matches!(text, Text::Bytes(bytes) if bytes.len() > INT_TEXT_LEN_MAX);
        if is_short
            && let Some(int) = text.as_int()
            && self.push_int(int)
        {
            return;
        }
        self.push_bytes(text.as_bytes(&mut itoa::Buffer::new()));
    }

    /// An integer if it fits into four bytes.
    fn push_int(&mut self, int: i64) -> bool {
        let Ok(int) = i32::try_from(int) else { return false };
        let (encoding, len) = match int {
            -0x80..0x80 => (INT_8, 1),
            -0x8000..0x8000 => (INT_16, 2),
            _ => (INT_32, 4),
        };
        self.out.push(ENCODED | encoding);
        self.out.extend_from_slice(&int.to_le_bytes()[..len]);
        true
    }

    /// A string, compressed if that makes it shorter.
    fn push_bytes(&mut self, bytes: &[u8]) {
        if bytes.len() <= LONG_BYTES {
            return self.push_counted(bytes);
        }
        let capacity = self.out.capacity();
        let missing = bytes.len().saturating_sub(capacity - self.out.len());
        // The buffer at least doubles if it has to grow.
        let room = if missing > 0 { missing.max(capacity) } else { 0 };
        let scratch = if self.compresses { bytes.len() } else { 0 };
        self.held.set(capacity + room + self.compressed.capacity() + scratch);
        self.push_counted(bytes);
        self.compressed.shrink_to(LONG_BYTES);
        self.held.set(self.out.capacity());
    }

    fn push_counted(&mut self, bytes: &[u8]) {
        if bytes.len() > COMPRESS_ABOVE && self.compresses {
            self.compressed.clear();
            if self.compressor.get_or_insert_default().compress(bytes, &mut self.compressed) {
                let compressed = std::mem::take(&mut self.compressed);
                self.out.push(ENCODED | LZF);
                self.push_number(compressed.len() as u64);
                self.push_number(bytes.len() as u64);
                self.out.extend_from_slice(&compressed);
                self.compressed = compressed;
                return;
            }
        }
        self.push_number(bytes.len() as u64);
        self.out.extend_from_slice(bytes);
    }

    /// The listpack that has been built, as a string.
    pub(super) fn push_listpack(&mut self) {
        let mut listpack = std::mem::take(&mut self.listpack);
        self.push_bytes(listpack.finish());
        self.listpack = listpack;
    }

    /// Room for a number that is known later.
    pub(super) fn reserve_number(&mut self) -> ReservedNumber {
        let at = self.out.len();
        self.out.extend_from_slice(&[LEN_32_BITS, 0, 0, 0, 0]);
        ReservedNumber { at }
    }

    /// Puts a number into its room.
    ///
    /// # Panics
    /// When it is 2^32 or more.
    pub(super) fn set_number(&mut self, reserved: &ReservedNumber, number: u64) {
        let number = u32::try_from(number).expect("what has fewer than 2^32 nodes");
        self.out[reserved.at + 1..reserved.at + 5].copy_from_slice(&number.to_be_bytes());
    }
}

/// The place of a number that is known later.
pub(super) struct ReservedNumber {
    at: usize,
}

/// Encodes the value of one key. Only a stream may be empty: Redis refuses keys with other empty collections.
///
/// The caller says which form a collection gets. Small forms (`…_listpack`, `intset`) are built in memory as a whole;
/// the others are written element by element.
#[must_use = "a key without a value breaks the file"]
pub struct ValueEncoder<'e> {
    encoder: &'e mut Encoder,
    kind_at: usize,
}

impl<'e> ValueEncoder<'e> {
    fn of_kind(self, kind: u8) -> &'e mut Encoder {
        self.encoder.out[self.kind_at] = kind;
        self.encoder
    }

    /// A string. O(length).
    pub fn string(self, value: Text<'_>) {
        self.of_kind(kind::STRING).push_text(value);
    }

    /// A list, as nodes of up to 8 KB; a longer element has a node of its own. O(bytes).
    pub fn list<'a>(self, elements: impl Iterator<Item = Text<'a>>) {
        const PLAIN: u64 = 1;
        const PACKED: u64 = 2;
        let out = self.of_kind(kind::LIST_QUICKLIST_2);
        let count = out.reserve_number();
        let mut nodes = 0;
        out.listpack.clear();
        let flush = |out: &mut Encoder, nodes: &mut u64| {
            if out.listpack.count() > 0 {
                out.push_number(PACKED);
                out.push_listpack();
                out.listpack.clear();
                *nodes += 1;
            }
        };
        for element in elements {
            let len = if let Text::Bytes(bytes) = element { bytes.len() } else { 0 };
            if out.listpack.len_bytes() + len > LIST_NODE_LEN_MAX {
                flush(out, &mut nodes);
            }
            if len > LIST_NODE_LEN_MAX {
                out.push_number(PLAIN);
                out.push_bytes(element.as_bytes(&mut itoa::Buffer::new()));
                nodes += 1;
            } else {
                out.listpack.push(element);
            }
        }
        flush(out, &mut nodes);
        out.set_number(&count, nodes);
    }

    /// A set of integers in ascending order, each of `width` (2, 4 or 8) bytes, the lowest first. O(bytes).
    ///
    /// # Panics
    /// When there are 2^32 or more.
    pub fn intset(self, width: usize, ints: &[u8]) {
        let out = self.of_kind(kind::SET_INTSET);
        let mut packed = std::mem::take(&mut out.packed);
        packed.clear();
        packed.extend_from_slice(&(width as u32).to_le_bytes());
        packed.extend_from_slice(&u32::try_from(ints.len() / width).expect("an intset is small").to_le_bytes());
        packed.extend_from_slice(ints);
        out.push_bytes(&packed);
        out.packed = packed;
    }

    /// A set of `len` members. O(bytes).
    pub fn set<'a>(self, len: u64, members: impl Iterator<Item = Text<'a>>) {
        self.of_kind(kind::SET).push_each(len, members, Encoder::push_text);
    }

    /// A small sorted set, in ascending order of scores, and of members where scores are equal. O(bytes).
    pub fn sorted_set_listpack<'a>(self, members: impl Iterator<Item = (Text<'a>, f64)>) {
        let out = self.of_kind(kind::SORTED_SET_LISTPACK);
        out.listpack.clear();
        for (member, score) in members {
            out.listpack.push(member);
            match as_int(score) {
                Some(int) => out.listpack.push(Text::Int(int)),
                None => out.listpack.push(Text::Bytes(format_double(score).as_bytes())),
            }
        }
        out.push_listpack();
    }

    /// A sorted set of `len` members, in any order. Redis writes the greatest first: it reads this order fastest.
    /// O(bytes).
    pub fn sorted_set<'a>(self, len: u64, members: impl Iterator<Item = (Text<'a>, f64)>) {
        self.of_kind(kind::SORTED_SET_2).push_each(len, members, |out, (member, score)| {
            out.push_text(member);
            out.out.extend_from_slice(&score.to_le_bytes());
        });
    }

    /// A small hash. O(bytes).
    pub fn hash_listpack<'a>(self, fields: impl Iterator<Item = (Text<'a>, Text<'a>)>) {
        let out = self.of_kind(kind::HASH_LISTPACK);
        out.listpack.clear();
        for (name, value) in fields {
            out.listpack.push(name);
            out.listpack.push(value);
        }
        out.push_listpack();
    }

    /// A hash of `len` fields. O(bytes).
    pub fn hash<'a>(self, len: u64, fields: impl Iterator<Item = (Text<'a>, Text<'a>)>) {
        self.of_kind(kind::HASH).push_each(len, fields, |out, (name, value)| {
            out.push_text(name);
            out.push_text(value);
        });
    }

    /// A hash of `len` fields, of which some expire, none before `first_ms`; each comes with its Unix time in
    /// milliseconds. O(bytes).
    ///
    /// Needs version 12 of the format.
    pub fn expiring_hash<'a>(
        self,
        len: u64,
        first_ms: i64,
        fields: impl Iterator<Item = (Text<'a>, Text<'a>, Option<i64>)>,
    ) {
        let out = self.of_kind(kind::HASH_METADATA);
        out.has_field_expiry = true;
        out.out.extend_from_slice(&first_ms.to_le_bytes());
        out.push_each(len, fields, |out, (name, value, expires_at_ms)| {
            debug_assert!(expires_at_ms.is_none_or(|time| time >= first_ms));
            out.push_number(expires_at_ms.map_or(0, |time| time.saturating_sub(first_ms).max(0) as u64 + 1));
            out.push_text(name);
            out.push_text(value);
        });
    }

    /// A stream, piece by piece.
    pub fn stream(self) -> StreamEncoder<'e> {
        StreamEncoder::new(self.of_kind(kind::STREAM_2))
    }
}

/// The integer that a double equals, if its magnitude is below 2^53; `None` for -0.
#[inline]
fn as_int(value: f64) -> Option<i64> {
    let int = value as i64;
    let is_exact = int.unsigned_abs() < 1 << 53 && (int as f64).to_bits() == value.to_bits();
    is_exact.then_some(int)
}

/// A double as text that reads back as the same double, in at most 24 bytes. Integers have neither point nor exponent below 10^17.
pub(crate) fn format_double(value: f64) -> String {
    let is_plain = value == 0.0 || (1e-5..1e17).contains(&value.abs()) || !value.is_finite();
    if is_plain { format!("{value}") } else { format!("{value:e}") }
}

#[cfg(test)]
mod tests {
    use super::super::cursor::parse_double;
    use super::*;

    #[test]
    fn doubles_are_short_and_read_back() {
        let edges =
            [0.0, -0.0, 1.0, 3.25, -1e17, 1e300, 5e-324, f64::MAX, 0.1, 1.0 / 3.0, f64::INFINITY, -f64::INFINITY];
        for value in edges {
            let text = format_double(value);
            assert!(text.len() <= 24, "{text}");
            assert_eq!(parse_double(text.as_bytes()).map(f64::to_bits), Some(value.to_bits()));
        }
        assert_eq!(format_double(1e16), "10000000000000000");
        assert_eq!(format_double(f64::NEG_INFINITY), "-inf");
    }

    #[test]
    fn strings_have_their_shortest_form() {
        let encoded = |text: &[u8]| {
            let mut encoder = Encoder::new(true);
            encoder.push_text(Text::Bytes(text));
            encoder.take()
        };
        assert_eq!(encoded(b"12"), b"\xc0\x0c");
        assert_eq!(encoded(b"-300"), b"\xc1\xd4\xfe");
        assert_eq!(encoded(b"2147483647"), b"\xc2\xff\xff\xff\x7f");
        assert_eq!(encoded(b"2147483648"), b"\x0a2147483648");
        assert_eq!(encoded(b"012"), b"\x03012");
        assert_eq!(encoded(&[b'a'; 20]).len(), 21);
        assert_eq!(encoded(&[b'a'; 21])[0], 0xc3);
        assert_eq!(encoded(&[b'a'; 100])[0], 0xc3);
    }
}
