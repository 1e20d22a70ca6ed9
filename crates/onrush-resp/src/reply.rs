//! The reply buffer.

use std::hint::cold_path;
use std::sync::Arc;

/// Version of the protocol a connection speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Proto {
    /// RESP2, which every connection starts with.
    #[default]
    Resp2,
    /// RESP3, after `HELLO 3`.
    Resp3,
}

/// A shared value of at least this length in bytes is sent by reference instead of being copied.
const BY_REFERENCE_LEN_MIN: usize = 16 * 1024;

/// Encoded replies on their way to a client.
///
/// All methods append one element and take time linear in what they append. Values from [`Reply::bulk_shared`] are kept
/// by reference; [`Reply::slices`] returns everything in order for a vectored write.
#[derive(Debug, Default)]
pub struct Reply {
    bytes: Vec<u8>,
    /// Values by reference, each with the position in `bytes` before which it belongs; ascending.
    shared: Vec<(usize, Arc<Vec<u8>>)>,
    /// Sum of the lengths of `shared`.
    shared_bytes: usize,
    /// Bytes at the front that were written already.
    written: usize,
    proto: Proto,
}

/// The four decimal digits of a number below 10,000, one in each byte, the most significant one in the lowest byte. The
/// number is split into halves of two digits in one word; then both halves are split into tens and ones at the same
/// time.
#[inline]
fn pairs(number: u32) -> u64 {
    let halves = u64::from(number / 100) | u64::from(number % 100) << 16;
    let tens = ((halves * 103) >> 10) & 0x000f_000f;
    tens | (halves - tens * 10) << 8
}

impl Reply {
    /// An empty buffer that speaks RESP2.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty buffer over the allocation of `bytes`, whose contents are dropped.
    pub fn with_buffer(mut bytes: Vec<u8>, proto: Proto) -> Self {
        bytes.clear();
        Self { bytes, proto, ..Self::default() }
    }

    /// Takes the allocation out for reuse and leaves the buffer empty.
    #[inline]
    pub fn take_buffer(&mut self) -> Vec<u8> {
        if !self.shared.is_empty() {
            cold_path();
            self.shared.clear();
            self.shared_bytes = 0;
        }
        self.written = 0;
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        bytes
    }

    /// Gives an empty buffer the allocation of `bytes`.
    #[inline]
    pub fn put_buffer(&mut self, bytes: Vec<u8>) {
        debug_assert!(self.is_empty());
        if self.bytes.capacity() == 0 {
            self.bytes = bytes;
        }
    }

    /// The protocol replies are encoded in.
    #[inline]
    pub fn proto(&self) -> Proto {
        self.proto
    }

    /// Whether replies are encoded in RESP3.
    #[inline]
    pub fn is_resp3(&self) -> bool {
        self.proto == Proto::Resp3
    }

    /// Changes the protocol of what is appended from now on.
    pub fn set_proto(&mut self, proto: Proto) {
        self.proto = proto;
    }

    /// Bytes not yet written.
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes.len() + self.shared_bytes - self.written
    }

    /// Whether everything was written.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory this buffer holds by itself, in bytes; values by reference belong to the store.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// A position to go back to with [`Reply::rewind`].
    #[inline]
    pub fn mark(&self) -> Mark {
        Mark { bytes: self.bytes.len(), shared: self.shared.len() }
    }

    /// Drops everything appended since `mark`, none of which may have been written.
    pub fn rewind(&mut self, mark: Mark) {
        self.bytes.truncate(mark.bytes);
        for (_, value) in self.shared.drain(mark.shared..) {
            self.shared_bytes -= value.len();
        }
    }

    /// The unwritten bytes in order, at most `out.len()` slices of them; returns how many were filled in.
    pub fn slices<'a>(&'a self, out: &mut [std::io::IoSlice<'a>]) -> usize {
        self.slices_up_to(usize::MAX, out)
    }

    /// As [`Reply::slices`], of the first `len_max` bytes.
    pub fn slices_up_to<'a>(&'a self, len_max: usize, out: &mut [std::io::IoSlice<'a>]) -> usize {
        let (mut skip, mut left) = (self.written, len_max);
        let mut count = 0;
        let mut push = |part: &'a [u8]| {
            let skipped = skip.min(part.len());
            skip -= skipped;
            let part = &part[skipped..];
            if part.is_empty() {
                return true;
            }
            let part = &part[..part.len().min(left)];
            left -= part.len();
            if count == out.len() || part.is_empty() {
                return false;
            }
            out[count] = std::io::IoSlice::new(part);
            count += 1;
            true
        };
        let mut from = 0;
        for (at, value) in &self.shared {
            if !push(&self.bytes[from..*at]) || !push(value) {
                return count;
            }
            from = *at;
        }
        push(&self.bytes[from..]);
        count
    }

    /// The unwritten bytes if all of them are in one piece.
    #[inline]
    pub fn as_single_slice(&self) -> Option<&[u8]> {
        if self.shared.is_empty() { Some(&self.bytes[self.written..]) } else { None }
    }

    /// Takes the unwritten bytes out, in one piece. O(bytes).
    pub fn take_bytes(&mut self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len());
        while !self.is_empty() {
            let mut slices = [std::io::IoSlice::new(&[]); 16];
            let count = self.slices(&mut slices);
            slices[..count].iter().for_each(|slice| bytes.extend_from_slice(slice));
            let len = slices[..count].iter().map(|slice| slice.len()).sum();
            self.advance(len);
        }
        bytes
    }

    /// Notes that `len` more bytes were written.
    pub fn advance(&mut self, len: usize) {
        self.written += len;
        debug_assert!(self.written <= self.bytes.len() + self.shared_bytes);
        if self.is_empty() {
            self.bytes.clear();
            self.shared.clear();
            self.shared_bytes = 0;
            self.written = 0;
        } else if self.written > COMPACT_BYTES_MIN {
            self.compact();
        }
    }

    /// Frees the written bytes at the front, in steps that keep the copying linear overall.
    fn compact(&mut self) {
        let (mut shared_count, mut shared_len) = (0, 0);
        let mut whole = 0;
        for (at, value) in &self.shared {
            if at + shared_len + value.len() > self.written {
                break;
            }
            shared_len += value.len();
            shared_count += 1;
            whole = *at;
        }
        // `written` may lie inside the next shared value: only the bytes before that value can be removed.
        let next_at = self.shared.get(shared_count).map_or(self.bytes.len(), |(at, _)| *at);
        let done = (self.written - shared_len).min(next_at).max(whole);
        if done < self.bytes.len() / 2 {
            return;
        }
        self.bytes.drain(..done);
        self.shared.drain(..shared_count);
        for (at, _) in &mut self.shared {
            *at -= done;
        }
        self.shared_bytes -= shared_len;
        self.written -= shared_len + done;
    }

    /// `+text`
    #[inline]
    pub fn simple(&mut self, text: &str) {
        self.bytes.push(b'+');
        self.bytes.extend_from_slice(text.as_bytes());
        self.crlf();
    }

    /// `+OK`
    #[inline]
    pub fn ok(&mut self) {
        self.bytes.extend_from_slice(b"+OK\r\n");
    }

    /// `-text`, without line ends at its end; others become spaces. `text` includes the error code (`ERR …`).
    pub fn error(&mut self, text: &str) {
        self.error_bytes(text.as_bytes());
    }

    /// As [`Reply::error`], for texts that quote what a client sent.
    pub fn error_bytes(&mut self, text: &[u8]) {
        let is_line_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
        let len = text.iter().rposition(|byte| !is_line_end(byte)).map_or(0, |last| last + 1);
        self.bytes.push(b'-');
        self.bytes.extend(text[..len].iter().map(|byte| if is_line_end(byte) { b' ' } else { *byte }));
        self.crlf();
    }

    /// `:value`
    #[inline]
    pub fn int(&mut self, value: i64) {
        if (0..10).contains(&value) {
            self.bytes.extend_from_slice(&[b':', b'0' + value as u8, b'\r', b'\n']);
        } else if (10..100).contains(&value) {
            let value = value as u8;
            self.bytes.extend_from_slice(&[b':', b'0' + value / 10, b'0' + value % 10, b'\r', b'\n']);
        } else if (100..100_000_000).contains(&value) {
            self.short_int(value as u32);
        } else {
            self.header(b':', value);
        }
    }

    /// `count` integers, `first` and each by `step` more than the one before; none of them may overflow.
    pub fn ints(&mut self, first: i64, step: i64, count: u32) {
        /// A text is copied with this length, which is faster than a copy of its own length.
        const TEXT_LEN_MAX: usize = 16;
        /// So many numbers differ in their last digit only.
        const TEN: u32 = 10;
        self.bytes.reserve(count as usize * TEXT_LEN_MAX);
        let (mut text, mut len) = ([0; TEXT_LEN_MAX], 0);
        // The beginning of the present ten in the output, and that of the ten before if the next number begins a new
        // one.
        let (mut ten, mut ten_before) = (None, None);
        let mut nth = 0;
        while nth < count {
            if let Some(start) = ten_before.take()
                && count - nth >= TEN
            {
                let tens_digit = self.bytes[start + len - 4];
                if tens_digit < b'9' {
                    let new = self.bytes.len();
                    self.bytes.extend_from_within(start..new);
                    self.bytes[new..].chunks_exact_mut(len).for_each(|text| text[len - 4] = tens_digit + 1);
                    ten_before = Some(new);
                    nth += TEN;
                    continue;
                }
            }
            // Usually only the last digit changes.
            let digit = if len > 0 && (1..10).contains(&step) { text[len - 3] + step as u8 } else { u8::MAX };
            if digit <= b'9' {
                text[len - 3] = digit;
                let end = self.bytes.len() + len;
                self.bytes.extend_from_slice(&text);
                self.bytes.truncate(end);
                if digit == b'9' {
                    ten_before = ten.take();
                }
            } else {
                let start = self.bytes.len();
                // No value overflows, but `step * nth` alone may.
                let value = first.wrapping_add(step.wrapping_mul(i64::from(nth)));
                self.int(value);
                let new = &self.bytes[start..];
                len = 0;
                if value > 0 && new.len() <= TEXT_LEN_MAX {
                    len = new.len();
                    text[..len].copy_from_slice(new);
                }
                ten = (step == 1 && len > 0 && value % i64::from(TEN) == 0).then_some(start);
            }
            nth += 1;
        }
    }

    /// `:value` of at most eight digits, not 0.
    #[inline]
    fn short_int(&mut self, value: u32) {
        let (high, low) = (value / 10_000, value % 10_000);
        // Eight digits, the most significant one first, and the number of leading zeros.
        let digits = (pairs(high) | pairs(low) << 32) | u64::from_le_bytes([b'0'; 8]);
        let zeros = (digits ^ u64::from_le_bytes([b'0'; 8])).trailing_zeros() as usize / 8;
        let len = 8 - zeros;
        let mut text = [b':', 0, 0, 0, 0, 0, 0, 0, 0, b'\r', b'\n', 0, 0, 0, 0, 0];
        text[1..9].copy_from_slice(&(digits >> (8 * zeros)).to_le_bytes());
        text[1 + len] = b'\r';
        text[2 + len] = b'\n';
        let end = self.bytes.len() + len + 3;
        self.bytes.extend_from_slice(&text);
        self.bytes.truncate(end);
    }

    /// A bulk string.
    #[inline]
    pub fn bulk(&mut self, value: &[u8]) {
        if value.len() < 10 {
            self.bytes.reserve(16);
            self.bytes.extend_from_slice(&[b'$', b'0' + value.len() as u8, b'\r', b'\n']);
        } else {
            self.bytes.reserve(value.len() + 16);
            self.header(b'$', value.len() as i64);
        }
        self.bytes.extend_from_slice(value);
        self.crlf();
    }

    /// A bulk string that holds a decimal integer.
    #[inline]
    pub fn bulk_int(&mut self, value: i64) {
        let mut buffer = itoa::Buffer::new();
        self.bulk(buffer.format(value).as_bytes());
    }

    /// A bulk string; from 16 KB on it is sent by reference.
    pub fn bulk_shared(&mut self, value: &Arc<Vec<u8>>) {
        if value.len() < BY_REFERENCE_LEN_MIN {
            return self.bulk(value);
        }
        self.header(b'$', value.len() as i64);
        self.shared.push((self.bytes.len(), Arc::clone(value)));
        self.shared_bytes += value.len();
        self.crlf();
    }

    /// The null of the protocol in use: `$-1` or `_`.
    #[inline]
    pub fn null(&mut self) {
        self.bytes.extend_from_slice(if self.is_resp3() { b"_\r\n" } else { b"$-1\r\n" });
    }

    /// The null array: `*-1` or `_`.
    pub fn null_array(&mut self) {
        self.bytes.extend_from_slice(if self.is_resp3() { b"_\r\n" } else { b"*-1\r\n" });
    }

    /// Starts an array of `len` elements.
    #[inline]
    pub fn array(&mut self, len: usize) {
        self.header(b'*', len as i64);
    }

    /// Starts a map of `len` pairs; RESP2 sees an array of twice as many elements.
    pub fn map(&mut self, len: usize) {
        if self.is_resp3() { self.header(b'%', len as i64) } else { self.header(b'*', len as i64 * 2) }
    }

    /// Starts a set of `len` elements; RESP2 sees an array.
    pub fn set(&mut self, len: usize) {
        self.header(if self.is_resp3() { b'~' } else { b'*' }, len as i64);
    }

    /// Starts a push message of `len` elements; RESP2 sees an array.
    pub fn push(&mut self, len: usize) {
        self.header(if self.is_resp3() { b'>' } else { b'*' }, len as i64);
    }

    /// A double; RESP2 sees a bulk string.
    pub fn double(&mut self, value: f64) {
        if self.is_resp3() {
            self.bytes.push(b',');
            crate::push_double(&mut self.bytes, value);
        } else {
            let at = self.bytes.len();
            crate::push_double(&mut self.bytes, value);
            let end = self.bytes.len();
            self.header(b'$', (end - at) as i64);
            self.bytes[at..].rotate_left(end - at);
        }
        self.crlf();
    }

    /// A boolean; RESP2 sees 1 or 0.
    pub fn bool(&mut self, value: bool) {
        if self.is_resp3() {
            self.bytes.extend_from_slice(if value { b"#t\r\n" } else { b"#f\r\n" });
        } else {
            self.int(i64::from(value));
        }
    }

    /// A verbatim string of a three-letter format (`txt`, `mkd`); RESP2 sees a bulk string.
    pub fn verbatim(&mut self, format: &str, value: &[u8]) {
        debug_assert_eq!(format.len(), 3);
        if !self.is_resp3() {
            return self.bulk(value);
        }
        self.header(b'=', value.len() as i64 + 4);
        self.bytes.extend_from_slice(format.as_bytes());
        self.bytes.push(b':');
        self.bytes.extend_from_slice(value);
        self.crlf();
    }

    /// Bytes that are encoded already.
    pub fn raw(&mut self, encoded: &[u8]) {
        self.bytes.extend_from_slice(encoded);
    }

    /// Bytes that are encoded already; from 16 KB on they are sent by reference.
    pub fn raw_shared(&mut self, encoded: &Arc<Vec<u8>>) {
        if encoded.len() < BY_REFERENCE_LEN_MIN {
            return self.raw(encoded);
        }
        self.shared.push((self.bytes.len(), Arc::clone(encoded)));
        self.shared_bytes += encoded.len();
    }

    #[inline]
    fn crlf(&mut self) {
        self.bytes.extend_from_slice(b"\r\n");
    }

    #[inline]
    fn header(&mut self, kind: u8, value: i64) {
        let mut buffer = itoa::Buffer::new();
        let digits = buffer.format(value).as_bytes();
        self.bytes.reserve(digits.len() + 3);
        self.bytes.push(kind);
        self.bytes.extend_from_slice(digits);
        self.bytes.extend_from_slice(b"\r\n");
    }
}

/// Written bytes are freed once they are this many.
const COMPACT_BYTES_MIN: usize = 64 * 1024;

/// A position in a [`Reply`].
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    bytes: usize,
    shared: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::IoSlice;

    fn all(reply: &Reply) -> Vec<u8> {
        let mut slices = [IoSlice::new(&[]); 64];
        let count = reply.slices(&mut slices);
        slices[..count].iter().flat_map(|slice| slice.to_vec()).collect()
    }

    #[test]
    fn types_fall_back_in_resp2() {
        let encode = |proto| {
            let mut reply = Reply::with_buffer(Vec::new(), proto);
            reply.null();
            reply.null_array();
            reply.map(1);
            reply.bulk(b"k");
            reply.double(1.5);
            reply.bool(true);
            reply.verbatim("txt", b"hi");
            String::from_utf8(all(&reply)).unwrap()
        };
        assert_eq!(encode(Proto::Resp2), "$-1\r\n*-1\r\n*2\r\n$1\r\nk\r\n$3\r\n1.5\r\n:1\r\n$2\r\nhi\r\n");
        assert_eq!(encode(Proto::Resp3), "_\r\n_\r\n%1\r\n$1\r\nk\r\n,1.5\r\n#t\r\n=6\r\ntxt:hi\r\n");
    }

    #[test]
    fn rows_of_integers_go_from_one_end_to_the_other() {
        let mut row = Reply::new();
        row.ints(i64::MIN, 1 << 61, 8);
        let values = (0..8).map(|nth| i64::MIN.wrapping_add((1_i64 << 61).wrapping_mul(nth)));
        assert_eq!(all(&row), values.map(|value| format!(":{value}\r\n")).collect::<String>().into_bytes());
    }

    proptest! {
        #[test]
        fn integers_are_decimal(digits in 0_u32..=19, mantissa: i64) {
            let value = mantissa % 10_i64.checked_pow(digits).unwrap_or(i64::MAX);
            for value in [value, i64::MAX, i64::MIN, 9, 10, 99_999_999, 100_000_000] {
                let mut reply = Reply::new();
                reply.int(value);
                prop_assert_eq!(all(&reply), format!(":{value}\r\n").into_bytes());
            }
        }

        #[test]
        fn rows_of_integers_are_as_one_by_one(digits in 0_u32..=18, mantissa: i64, step in -1200_i64..1200, count in 0_u32..300) {
            let first = mantissa % 10_i64.pow(digits);
            for step in [step, step % 12, 1] {
                let (mut row, mut single) = (Reply::new(), Reply::new());
                row.ints(first, step, count);
                (0..i64::from(count)).for_each(|nth| single.int(first + nth * step));
                prop_assert_eq!(all(&row), all(&single));
            }
        }
    }

    #[test]
    fn errors_stay_on_one_line() {
        let mut reply = Reply::new();
        reply.error("ERR a\r\nb\n\r");
        assert_eq!(all(&reply), b"-ERR a  b\r\n");
    }

    #[test]
    fn rewinding_drops_what_came_after_the_mark() {
        let mut reply = Reply::new();
        reply.ok();
        let mark = reply.mark();
        reply.bulk_shared(&Arc::new(vec![b'x'; 20_000]));
        reply.int(7);
        reply.rewind(mark);
        assert_eq!(all(&reply), b"+OK\r\n");
        assert_eq!(reply.len(), 5);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn partial_writes_yield_every_byte_once_in_order(
            sizes in prop::collection::vec(0usize..60_000, 1..30),
            writes in prop::collection::vec(1usize..100_000, 1..30),
        ) {
            let mut reply = Reply::new();
            let (mut expected, mut got) = (Vec::new(), Vec::new());
            let mut writes = writes.iter().cycle();
            let mut take = |reply: &mut Reply, got: &mut Vec<u8>| {
                let bytes = all(reply);
                let len = (*writes.next().unwrap()).min(bytes.len());
                got.extend_from_slice(&bytes[..len]);
                reply.advance(len);
            };
            for (index, size) in sizes.iter().enumerate() {
                let value = Arc::new(vec![b'a' + (index % 26) as u8; *size]);
                reply.bulk_shared(&value);
                expected.extend_from_slice(format!("${size}\r\n").as_bytes());
                expected.extend_from_slice(&value);
                expected.extend_from_slice(b"\r\n");
                if index % 3 == 0 {
                    take(&mut reply, &mut got);
                }
                prop_assert_eq!(reply.len(), expected.len() - got.len());
            }
            while !reply.is_empty() {
                take(&mut reply, &mut got);
            }
            prop_assert_eq!(got, expected);
        }
    }
}
