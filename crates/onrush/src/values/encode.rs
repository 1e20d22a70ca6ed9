//! Writing commands as RESP arrays of bulk strings, straight into the bytes that go out.

use crate::values::args::RedisWrite;

/// From this number on, [`Encoder::number`] cannot write it.
pub(crate) const NUMBER_END: u32 = 100_000_000;

/// Commands encoded one after the other. The last one is open: further arguments go to it.
///
/// On the wire, the number of arguments comes before them, but it is not known when a command begins. So each argument
/// updates it: one digit in place, and one byte more of room at 10, 100, 1,000 …
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Encoder {
    bytes: Vec<u8>,
    start: usize,
    argc: usize,
}

impl Encoder {
    #[cfg(test)]
    pub(crate) const fn new() -> Encoder {
        Encoder { bytes: Vec::new(), start: 0, argc: 0 }
    }

    pub(crate) fn with_capacity(bytes: usize) -> Encoder {
        Encoder { bytes: Vec::with_capacity(bytes), start: 0, argc: 0 }
    }

    /// Commands that were encoded elsewhere, and where each of them starts; `None` if the bytes are anything else.
    #[cfg(any(test, feature = "redis-compat"))]
    pub(crate) fn foreign(bytes: Vec<u8>) -> Option<(Encoder, Vec<usize>)> {
        let (mut rest, mut starts) = (bytes.as_slice(), Vec::new());
        while !rest.is_empty() {
            starts.push(bytes.len() - rest.len());
            rest = split_first(rest)?.1;
        }
        let start = starts.last().copied().unwrap_or(0);
        let argc = number_at(&bytes, start).map_or(0, |(count, _)| count);
        Some((Encoder { bytes, start, argc }, starts))
    }

    /// Begins the next command.
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.start = self.bytes.len();
        self.argc = 0;
        self.bytes.extend_from_slice(b"*0\r\n");
    }

    /// Begins the next command, which has this name.
    #[inline]
    pub(crate) fn begin_named(&mut self, name: &[u8]) {
        if name.len() >= 10 {
            self.begin();
            return self.arg(name);
        }
        self.start = self.bytes.len();
        self.argc = 1;
        // Of a literal name, this is a constant that is written at once.
        let mut command = *b"*1\r\n$0\r\n___________\r\n";
        command[5] += name.len() as u8;
        command[8..8 + name.len()].copy_from_slice(name);
        command[8 + name.len()..10 + name.len()].copy_from_slice(b"\r\n");
        self.bytes.extend_from_slice(&command);
        self.bytes.truncate(self.start + 10 + name.len());
    }

    /// Adds a number below [`NUMBER_END`] to the arguments of the last command.
    #[inline]
    pub(crate) fn number(&mut self, number: u32) {
        self.count_arg();
        let (digits, count) = digits(number);
        let head = u32::from_le_bytes([b'$', b'0' + count as u8, b'\r', b'\n']);
        let line_end = u128::from(u16::from_le_bytes(*b"\r\n"));
        let arg = u128::from(head) | u128::from(digits) << 32 | line_end << (32 + 8 * count);
        let at = self.bytes.len();
        self.bytes.extend_from_slice(&arg.to_le_bytes());
        self.bytes.truncate(at + 6 + count);
    }

    #[inline]
    fn count_arg(&mut self) {
        self.argc += 1;
        if self.argc < 10 {
            self.bytes[self.start + 1] = b'0' + self.argc as u8;
        } else {
            self.write_count();
        }
    }

    /// Adds an argument to the last command.
    #[inline]
    pub(crate) fn arg(&mut self, arg: &[u8]) {
        self.count_arg();
        if arg.len() < 10 {
            self.bytes.reserve(arg.len() + 6);
            self.bytes.extend_from_slice(&[b'$', b'0' + arg.len() as u8, b'\r', b'\n']);
        } else {
            let mut digits = itoa::Buffer::new();
            let digits = digits.format(arg.len()).as_bytes();
            self.bytes.reserve(arg.len() + digits.len() + 5);
            self.bytes.push(b'$');
            self.bytes.extend_from_slice(digits);
            self.bytes.extend_from_slice(b"\r\n");
        }
        self.bytes.extend_from_slice(arg);
        self.bytes.extend_from_slice(b"\r\n");
    }

    #[cold]
    fn write_count(&mut self) {
        let mut digits = itoa::Buffer::new();
        let digits = digits.format(self.argc).as_bytes();
        let at = self.start + 1;
        if self.bytes[at + digits.len() - 1] == b'\r' {
            self.bytes.insert(at, b'0');
        }
        self.bytes[at..at + digits.len()].copy_from_slice(digits);
    }

    /// Adds another encoder's last command, which becomes the last one here.
    pub(crate) fn append_last(&mut self, other: &Encoder) {
        self.start = self.bytes.len();
        self.argc = other.argc;
        self.bytes.extend_from_slice(&other.bytes[other.start..]);
    }

    /// Adds a command that was encoded before, to which no arguments are added.
    pub(crate) fn append(&mut self, encoded: &[u8]) {
        self.start = self.bytes.len();
        self.argc = number_at(encoded, 0).map_or(0, |(count, _)| count);
        self.bytes.extend_from_slice(encoded);
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn argc(&self) -> usize {
        self.argc
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        (self.start, self.argc) = (0, 0);
    }
}

impl RedisWrite for Encoder {
    #[inline]
    fn write_arg(&mut self, arg: &[u8]) {
        self.arg(arg);
    }

    #[inline]
    fn write_number(&mut self, number: u32) {
        self.number(number);
    }
}

/// The digits of a number below [`NUMBER_END`], the first one in the lowest byte, and how many they are. They are made
/// two, four and eight at a time, without a table or a loop.
#[inline]
fn digits(number: u32) -> (u64, usize) {
    let number = u64::from(number);
    // Four digits in each half, two in each quarter, one in each byte; a division by a constant is a multiplication.
    let halves = (number / 10_000) | ((number % 10_000) << 32);
    let hundreds = ((halves * 10_486) >> 20) & 0x0000_007f_0000_007f;
    let quarters = hundreds | (halves - hundreds * 100) << 16;
    let tens = ((quarters * 103) >> 10) & 0x000f_000f_000f_000f;
    let bytes = tens | (quarters - tens * 10) << 8;
    // The last digit stays, also that of 0.
    let leading = (bytes | 1 << 56).trailing_zeros() / 8;
    ((bytes + 0x3030_3030_3030_3030) >> (8 * leading), 8 - leading as usize)
}

/// Encodes one command from its arguments, for commands that the library itself sends.
pub(crate) fn command(args: &[&[u8]], out: &mut Vec<u8>) {
    let mut encoder = Encoder { bytes: std::mem::take(out), start: 0, argc: 0 };
    encoder.begin();
    args.iter().for_each(|arg| encoder.arg(arg));
    *out = encoder.bytes;
}

/// The same as bytes of their own.
pub(crate) fn encoded(args: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    command(args, &mut out);
    out
}

/// The arguments of the first command in encoded bytes.
pub(crate) fn args_of(encoded: &[u8]) -> impl Iterator<Item = &[u8]> {
    let (mut left, mut at) = number_at(encoded, 0).unwrap_or((0, 0));
    std::iter::from_fn(move || {
        left = left.checked_sub(1)?;
        let (len, start) = number_at(encoded, at)?;
        at = start + len + 2;
        encoded.get(start..start + len)
    })
}

/// Splits the first command off encoded bytes; `None` if they do not begin with a whole one. Linear in its arguments.
pub(crate) fn split_first(encoded: &[u8]) -> Option<(&[u8], &[u8])> {
    let (count, mut at) = number_at(encoded, 0).filter(|_| encoded[0] == b'*')?;
    for _ in 0..count {
        let (len, start) = number_at(encoded, at).filter(|_| encoded[at] == b'$')?;
        at = start.checked_add(len)?.checked_add(2)?;
    }
    encoded.split_at_checked(at)
}

/// The number after the byte at `at`, and where its line ends.
fn number_at(bytes: &[u8], at: usize) -> Option<(usize, usize)> {
    let rest = bytes.get(at + 1..)?;
    let end = memchr::memchr(b'\r', rest)?;
    Some((std::str::from_utf8(&rest[..end]).ok()?.parse().ok()?, at + 1 + end + 2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_count_is_right_past_each_power_of_ten() {
        for count in [1, 9, 10, 11, 99, 100, 101, 999, 1000, 1001] {
            let mut encoder = Encoder::new();
            encoder.begin();
            encoder.arg(b"first");
            encoder.begin();
            (0..count).for_each(|_| encoder.arg(b"x"));
            let want = format!("*1\r\n$5\r\nfirst\r\n*{count}\r\n{}", "$1\r\nx\r\n".repeat(count));
            assert_eq!(encoder.bytes(), want.as_bytes());
        }
    }

    #[test]
    fn names_and_numbers_are_encoded_as_any_argument() {
        for len in 0..12 {
            let name = "x".repeat(len);
            let (mut quick, mut slow) = (Encoder::new(), Encoder::new());
            slow.begin();
            slow.arg(name.as_bytes());
            quick.begin_named(name.as_bytes());
            (0..12).for_each(|_| (slow.arg(b"7"), quick.number(7)).1);
            assert_eq!(quick, slow);
        }
        let numbers = (0..20_000).chain((0..NUMBER_END).step_by(4_999)).chain([NUMBER_END - 1]);
        let powers = (0..8).flat_map(|power| [10u32.pow(power) - 1, 10u32.pow(power)]);
        let (mut quick, mut slow) = (Encoder::new(), Encoder::new());
        quick.begin();
        slow.begin();
        for number in numbers.chain(powers) {
            quick.number(number);
            slow.arg(number.to_string().as_bytes());
        }
        assert!(quick == slow);
    }

    proptest! {
        #[test]
        fn the_arguments_come_back(args in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..30), 1..15)) {
            let mut encoder = Encoder::new();
            encoder.begin();
            args.iter().for_each(|arg| encoder.arg(arg));
            let back: Vec<Vec<u8>> = args_of(encoder.bytes()).map(<[u8]>::to_vec).collect();
            prop_assert_eq!(back, args);
            let two = [encoder.bytes(), b"*1\r\n$4\r\nPING\r\n"].concat();
            prop_assert_eq!(split_first(&two), Some(two.split_at(encoder.len())));
            prop_assert_eq!(split_first(&two[..encoder.len() - 1]), None);
        }
    }
}
