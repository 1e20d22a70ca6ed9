//! Commands as they go out: encoded once, with places for random numbers.

/// What stands for a random number below the key space, of 12 digits.
pub const RANDOM_WORD: &[u8] = b"__rand_int__";
/// What stands for the payload of `-d` bytes.
pub const DATA_WORD: &[u8] = b"__data__";

/// Copies of the command that are kept side by side, to be copied at once.
const COPIES: usize = 128;

/// One command, encoded.
#[derive(Clone, Debug)]
pub struct Request {
    /// `COPIES` of the command.
    copies: Vec<u8>,
    /// Bytes of one.
    len: usize,
    /// Where in a command random numbers go.
    places: Vec<usize>,
    /// Random numbers are below this; 0 if they are not asked for.
    keyspace: u64,
}

impl Request {
    /// Encodes a command. Random numbers are put in only if there is a key space.
    pub fn new(args: &[Vec<u8>], keyspace: Option<u64>, data: &[u8]) -> Request {
        let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
        for arg in args {
            let arg = replace(arg, DATA_WORD, data);
            bytes.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
            bytes.extend_from_slice(&arg);
            bytes.extend_from_slice(b"\r\n");
        }
        Request::encoded(bytes, keyspace)
    }

    /// A command that is already encoded: an inline one.
    pub fn encoded(bytes: Vec<u8>, keyspace: Option<u64>) -> Request {
        let mut places = Vec::new();
        if keyspace.is_some() {
            let mut from = 0;
            while let Some(at) = memchr::memmem::find(&bytes[from..], RANDOM_WORD) {
                places.push(from + at);
                from += at + RANDOM_WORD.len();
            }
        }
        let copies = bytes.repeat(COPIES.min((1 << 20) / bytes.len().max(1) + 1));
        Request { len: bytes.len(), copies, places, keyspace: keyspace.unwrap_or(0).max(1) }
    }

    /// The same with another word wherever one stands in the command. They are of one length.
    pub fn with_tag(&self, word: &[u8], tag: &[u8]) -> Request {
        debug_assert_eq!(word.len(), tag.len());
        Request { copies: replace(&self.copies, word, tag), ..self.clone() }
    }

    /// Bytes of one command.
    pub fn command_len(&self) -> usize {
        self.len
    }

    /// Appends the command so many times, each with random numbers of its own.
    pub fn append(&self, count: usize, random: &mut Random, out: &mut Vec<u8>) {
        let start = out.len();
        let mut left = count * self.len;
        out.reserve(left);
        while left > 0 {
            let some = left.min(self.copies.len());
            out.extend_from_slice(&self.copies[..some]);
            left -= some;
        }
        if !self.places.is_empty() {
            for command in out[start..].chunks_exact_mut(self.len) {
                for &place in &self.places {
                    write_digits(random.below(self.keyspace), &mut command[place..place + RANDOM_WORD.len()]);
                }
            }
        }
    }
}

fn replace(arg: &[u8], word: &[u8], by: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(arg.len());
    let mut rest = arg;
    while let Some(at) = memchr::memmem::find(rest, word) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(by);
        rest = &rest[at + word.len()..];
    }
    out.extend_from_slice(rest);
    out
}

/// Two digits at a time.
fn write_digits(mut number: u64, out: &mut [u8]) {
    const PAIRS: [[u8; 2]; 100] = {
        let mut pairs = [[0; 2]; 100];
        let mut n = 0;
        while n < 100 {
            pairs[n] = [b'0' + (n / 10) as u8, b'0' + (n % 10) as u8];
            n += 1;
        }
        pairs
    };
    for pair in out.rchunks_exact_mut(2) {
        pair.copy_from_slice(&PAIRS[(number % 100) as usize]);
        number /= 100;
    }
}

/// A small generator of random numbers (xorshift64*).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// From a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `bound`.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let number = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d);
        ((u128::from(number) * u128::from(bound)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(words: &[&str]) -> Vec<Vec<u8>> {
        words.iter().map(|word| word.as_bytes().to_vec()).collect()
    }

    #[test]
    fn commands_are_encoded_with_their_payload() {
        let request = Request::new(&args(&["SET", "k:__rand_int__", "__data__"]), None, b"xyz");
        let mut out = Vec::new();
        request.append(1, &mut Random::new(1), &mut out);
        assert_eq!(out, b"*3\r\n$3\r\nSET\r\n$14\r\nk:__rand_int__\r\n$3\r\nxyz\r\n");
    }

    #[test]
    fn every_copy_has_random_numbers_of_its_own() {
        let request = Request::new(&args(&["MSET", "__rand_int__", "__rand_int__"]), Some(1_000_000), b"");
        let mut out = Vec::new();
        request.append(1_000, &mut Random::new(7), &mut out);
        let text = String::from_utf8(out).unwrap();
        let numbers: std::collections::HashSet<&str> =
            text.split("\r\n").filter(|line| line.len() == 12 && line.starts_with("000000")).collect();
        assert!(numbers.len() > 1_900, "{}", numbers.len());
    }

    #[test]
    fn digits_fill_their_places() {
        let mut out = *b"____________";
        write_digits(1_234_567, &mut out);
        assert_eq!(&out, b"000001234567");
    }
}
