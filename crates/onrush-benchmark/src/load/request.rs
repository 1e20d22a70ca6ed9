//! Commands as they go out: encoded once, with places for random numbers and values.

use std::io::Write;
use std::sync::Arc;

use crate::load::items::Items;
use crate::load::random::{Keys, Random};

/// The word for a random number below the key space, of 12 digits.
pub const RANDOM_WORD: &[u8] = b"__rand_int__";
/// The word for a value.
pub const DATA_WORD: &[u8] = b"__data__";
/// The word for a time to live in milliseconds.
pub const TTL_WORD: &[u8] = b"__ttl__";

/// Number of copies of a command that are kept side by side, to be copied at once.
const COPIES: usize = 128;
/// Most bytes of the copies of one command, unless the command itself is longer.
const COPIES_LEN_MAX: usize = 1 << 20;

/// The replacements for the words in a command.
#[derive(Clone, Debug)]
pub struct Fillings {
    /// Without a key space, [`RANDOM_WORD`] stays as it is.
    pub keys: Option<Keys>,
    /// The least and the greatest length of a value.
    pub data_len: (usize, usize),
    /// Whether values are random bytes, different each time, instead of one repeated letter.
    pub is_data_random: bool,
    /// The least and the greatest time to live in milliseconds.
    pub ttl_ms: Option<(u64, u64)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(Vec<u8>),
    Number,
    Data,
    Ttl,
}

/// How a command is written.
#[derive(Clone, Debug)]
enum Form {
    /// All copies have one length: many are copied at once, then filled in.
    Fixed {
        copies: Vec<u8>,
        len: usize,
        /// Where in a command random numbers go, and random values.
        numbers: Vec<usize>,
        datas: Vec<usize>,
    },
    /// Lengths differ: commands are written argument by argument.
    Varying(Vec<Vec<Piece>>),
    /// SET or GET of an imported item.
    Item { items: Arc<Items>, keys: Keys, sets: bool },
}

/// One command, ready to be written many times.
#[derive(Clone, Debug)]
pub struct Request {
    form: Form,
    fillings: Fillings,
}

impl Request {
    /// Encodes a command.
    pub fn new(args: &[Vec<u8>], fillings: &Fillings) -> Request {
        let args: Vec<Vec<Piece>> = args.iter().map(|arg| pieces(arg, fillings)).collect();
        let has = |piece: Piece| args.iter().flatten().any(|one| *one == piece);
        let (least, most) = fillings.data_len;
        let varies = least != most && has(Piece::Data)
            || fillings.ttl_ms.is_some_and(|(least, most)| least != most) && has(Piece::Ttl);
        let form = if varies { Form::Varying(args) } else { fixed(&args, fillings) };
        Request { form, fillings: fillings.clone() }
    }

    /// A command that is already encoded: an inline one.
    pub fn encoded(bytes: &[u8], fillings: &Fillings) -> Request {
        let form = Form::Fixed { copies: repeat(bytes), len: bytes.len(), numbers: Vec::new(), datas: Vec::new() };
        Request { form, fillings: fillings.clone() }
    }

    /// SET of imported items, with their values, or GET of them. The keys are drawn from the numbers of the items.
    pub fn of_items(items: Arc<Items>, keys: Keys, sets: bool, fillings: &Fillings) -> Request {
        Request { form: Form::Item { items, keys, sets }, fillings: fillings.clone() }
    }

    /// The same command with `tag` in place of each `word`. Both must have the same length.
    pub fn with_tag(&self, word: &[u8], tag: &[u8]) -> Request {
        debug_assert_eq!(word.len(), tag.len());
        let mut request = self.clone();
        match &mut request.form {
            Form::Fixed { copies, .. } => *copies = replace(copies, word, tag),
            Form::Varying(args) => {
                for piece in args.iter_mut().flatten() {
                    if let Piece::Text(text) = piece {
                        *text = replace(text, word, tag);
                    }
                }
            }
            Form::Item { .. } => {}
        }
        request
    }

    /// Bytes of one command; of the shortest one if they differ.
    pub fn command_len(&self) -> usize {
        match &self.form {
            Form::Fixed { len, .. } => *len,
            Form::Varying(args) => {
                let len = |arg: &Vec<Piece>| {
                    let len = arg.iter().map(|piece| self.least_len(piece)).sum::<usize>();
                    len + len.to_string().len() + 5
                };
                args.len().to_string().len() + 3 + args.iter().map(len).sum::<usize>()
            }
            Form::Item { .. } => 0,
        }
    }

    fn least_len(&self, piece: &Piece) -> usize {
        match piece {
            Piece::Text(text) => text.len(),
            Piece::Number => RANDOM_WORD.len(),
            Piece::Data => self.fillings.data_len.0,
            Piece::Ttl => self.fillings.ttl_ms.map_or(0, |(least, _)| least.to_string().len()),
        }
    }

    /// Appends the command `count` times, each with random numbers and values of its own.
    pub fn append(&self, count: usize, random: &mut Random, out: &mut Vec<u8>) {
        match &self.form {
            Form::Fixed { copies, len, numbers, datas } => {
                let start = out.len();
                let mut left = count * len;
                out.reserve(left);
                while left > 0 {
                    let some = left.min(copies.len());
                    out.extend_from_slice(&copies[..some]);
                    left -= some;
                }
                if !numbers.is_empty() || !datas.is_empty() {
                    self.fill(&mut out[start..], *len, numbers, datas, random);
                }
            }
            Form::Varying(args) => (0..count).for_each(|_| self.write(args, random, out)),
            Form::Item { .. } => (0..count).for_each(|_| _ = self.append_item(random, out)),
        }
    }

    /// Appends the command once; the number of the item whose value is the reply, if there is one.
    pub fn append_item(&self, random: &mut Random, out: &mut Vec<u8>) -> Option<u32> {
        let Form::Item { items, keys, sets } = &self.form else {
            self.append(1, random, out);
            return None;
        };
        let index = keys.draw(random) as usize;
        let (key, data) = items.row(index);
        let words: &[&[u8]] = if *sets { &[b"SET", key, data] } else { &[b"GET", key] };
        // Writing to a vector does not fail.
        _ = write!(out, "*{}\r\n", words.len());
        for word in words {
            _ = write!(out, "${}\r\n", word.len());
            out.extend_from_slice(word);
            out.extend_from_slice(b"\r\n");
        }
        (!sets).then_some(index as u32)
    }

    fn fill(&self, commands: &mut [u8], len: usize, numbers: &[usize], datas: &[usize], random: &mut Random) {
        let (_, data_len) = self.fillings.data_len;
        let keys = self.fillings.keys.as_ref();
        if let (Some(keys), []) = (keys.and_then(Keys::uniform_len), datas) {
            // The usual load.
            for command in commands.chunks_exact_mut(len) {
                for &place in numbers {
                    write_digits(random.below(keys), &mut command[place..place + RANDOM_WORD.len()]);
                }
            }
            return;
        }
        for command in commands.chunks_exact_mut(len) {
            if let Some(keys) = keys {
                for &place in numbers {
                    write_digits(keys.draw(random), &mut command[place..place + RANDOM_WORD.len()]);
                }
            }
            for &place in datas {
                random.fill(&mut command[place..place + data_len]);
            }
        }
    }

    fn write(&self, args: &[Vec<Piece>], random: &mut Random, out: &mut Vec<u8>) {
        let mut arg_bytes = Vec::new();
        // Writing to a vector does not fail.
        _ = write!(out, "*{}\r\n", args.len());
        for arg in args {
            arg_bytes.clear();
            for piece in arg {
                self.write_piece(piece, random, &mut arg_bytes);
            }
            _ = write!(out, "${}\r\n", arg_bytes.len());
            out.extend_from_slice(&arg_bytes);
            out.extend_from_slice(b"\r\n");
        }
    }

    fn write_piece(&self, piece: &Piece, random: &mut Random, out: &mut Vec<u8>) {
        let at = out.len();
        match piece {
            Piece::Text(text) => out.extend_from_slice(text),
            Piece::Number => {
                out.extend_from_slice(RANDOM_WORD);
                if let Some(keys) = &self.fillings.keys {
                    write_digits(keys.draw(random), &mut out[at..]);
                }
            }
            Piece::Data => {
                let (least, most) = self.fillings.data_len;
                out.resize(at + random.within(least as u64, most as u64) as usize, b'x');
                if self.fillings.is_data_random {
                    random.fill(&mut out[at..]);
                }
            }
            Piece::Ttl => {
                let (least, most) = self.fillings.ttl_ms.unwrap_or((1, 1));
                out.extend_from_slice(random.within(least, most).to_string().as_bytes());
            }
        }
    }
}

/// Cuts an argument at its words.
fn pieces(arg: &[u8], fillings: &Fillings) -> Vec<Piece> {
    let words: &[(&[u8], Piece, bool)] = &[
        (RANDOM_WORD, Piece::Number, fillings.keys.is_some()),
        (DATA_WORD, Piece::Data, true),
        (TTL_WORD, Piece::Ttl, fillings.ttl_ms.is_some()),
    ];
    let (mut pieces, mut rest) = (Vec::new(), arg);
    loop {
        let found = words
            .iter()
            .filter(|(_, _, is_word)| *is_word)
            .filter_map(|(word, piece, _)| Some((memchr::memmem::find(rest, word)?, word.len(), piece)))
            .min_by_key(|(at, ..)| *at);
        let Some((at, len, piece)) = found else { break };
        if at > 0 {
            pieces.push(Piece::Text(rest[..at].to_vec()));
        }
        pieces.push(piece.clone());
        rest = &rest[at + len..];
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest.to_vec()));
    }
    pieces
}

/// The form of a command whose values and times to live have one length.
fn fixed(args: &[Vec<Piece>], fillings: &Fillings) -> Form {
    let (mut numbers, mut datas) = (Vec::new(), Vec::new());
    let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        // Places count from the start of the argument, whose length comes before it.
        let (mut text, mut own_numbers, mut own_datas) = (Vec::new(), Vec::new(), Vec::new());
        for piece in arg {
            match piece {
                Piece::Text(some) => text.extend_from_slice(some),
                Piece::Number => {
                    own_numbers.push(text.len());
                    text.extend_from_slice(RANDOM_WORD);
                }
                Piece::Data => {
                    own_datas.push(text.len());
                    text.resize(text.len() + fillings.data_len.0, b'x');
                }
                Piece::Ttl => {
                    text.extend_from_slice(fillings.ttl_ms.map_or(0, |(least, _)| least).to_string().as_bytes());
                }
            }
        }
        bytes.extend_from_slice(format!("${}\r\n", text.len()).as_bytes());
        numbers.extend(own_numbers.iter().map(|at| at + bytes.len()));
        if fillings.is_data_random {
            datas.extend(own_datas.iter().map(|at| at + bytes.len()));
        }
        bytes.extend_from_slice(&text);
        bytes.extend_from_slice(b"\r\n");
    }
    Form::Fixed { copies: repeat(&bytes), len: bytes.len(), numbers, datas }
}

fn repeat(bytes: &[u8]) -> Vec<u8> {
    bytes.repeat(COPIES.min(COPIES_LEN_MAX / bytes.len().max(1) + 1))
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

/// What a connection sends: one command, or several by weight.
#[derive(Clone, Debug)]
pub struct Commands {
    kinds: Vec<Request>,
    /// For each kind, the sum of the weights up to and including it.
    sums: Vec<u64>,
}

impl Commands {
    /// One command only.
    pub fn one(request: Request) -> Commands {
        Commands::mix([(request, 1)])
    }

    /// At least one command with a weight above 0.
    pub fn mix(weighted: impl IntoIterator<Item = (Request, u32)>) -> Commands {
        let (mut kinds, mut sums, mut sum) = (Vec::new(), Vec::new(), 0);
        for (request, weight) in weighted {
            sum += u64::from(weight);
            kinds.push(request);
            sums.push(sum);
        }
        Commands { kinds, sums }
    }

    /// Number of kinds of commands.
    pub fn len(&self) -> usize {
        self.kinds.len()
    }

    /// The commands, each changed by `change`.
    pub fn map(&self, change: impl FnMut(&Request) -> Request) -> Commands {
        Commands { kinds: self.kinds.iter().map(change).collect(), sums: self.sums.clone() }
    }

    /// The first command only.
    pub fn into_first(mut self) -> Request {
        self.kinds.swap_remove(0)
    }

    /// Bytes of the first.
    pub fn command_len(&self) -> usize {
        self.kinds[0].command_len()
    }

    /// Appends `count` commands, and reports the kind and the length of each run of one kind.
    #[inline]
    pub fn append(&self, count: usize, random: &mut Random, out: &mut Vec<u8>, mut tell: impl FnMut(usize, usize)) {
        if let [only] = self.kinds.as_slice() {
            only.append(count, random, out);
            return tell(0, count);
        }
        for _ in 0..count {
            let kind = self.draw(random);
            self.kinds[kind].append(1, random, out);
            tell(kind, 1);
        }
    }

    /// Appends one command; its kind, and the number of the item whose value is the reply, if there is one.
    pub fn append_one(&self, random: &mut Random, out: &mut Vec<u8>) -> (usize, Option<u32>) {
        let kind = self.draw(random);
        (kind, self.kinds[kind].append_item(random, out))
    }

    fn draw(&self, random: &mut Random) -> usize {
        let drawn = random.below(self.sums.last().copied().unwrap_or(1));
        self.sums.iter().position(|&sum| drawn < sum).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::random::KeyPattern;

    fn args(words: &[&str]) -> Vec<Vec<u8>> {
        words.iter().map(|word| word.as_bytes().to_vec()).collect()
    }

    fn fillings(keyspace: Option<u64>) -> Fillings {
        let keys = keyspace.map(|len| Keys::new(KeyPattern::Uniform, len));
        Fillings { keys, data_len: (3, 3), is_data_random: false, ttl_ms: None }
    }

    fn written(words: &[&str], fillings: &Fillings, count: usize) -> Vec<u8> {
        let mut out = Vec::new();
        Request::new(&args(words), fillings).append(count, &mut Random::new(7), &mut out);
        out
    }

    #[test]
    fn commands_are_encoded_with_their_payload() {
        let out = written(&["SET", "k:__rand_int__", "__data__"], &fillings(None), 1);
        assert_eq!(out, b"*3\r\n$3\r\nSET\r\n$14\r\nk:__rand_int__\r\n$3\r\nxxx\r\n");
    }

    #[test]
    fn every_copy_has_random_numbers_of_its_own() {
        let out = written(&["MSET", "__rand_int__", "__rand_int__"], &fillings(Some(1_000_000)), 1_000);
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

    #[test]
    fn random_values_are_other_bytes_each_time() {
        let fillings = Fillings { data_len: (64, 64), is_data_random: true, ..fillings(None) };
        let out = written(&["SET", "k", "__data__"], &fillings, 2);
        let head = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$64\r\n".len();
        let (one, other) = out.split_at(out.len() / 2);
        assert_ne!(one[head..], other[head..]);
        // 64 random bytes have about 57 different ones; a letter repeated has one.
        assert!(one[head..head + 64].iter().collect::<std::collections::HashSet<_>>().len() > 40);
    }

    #[test]
    fn lengths_and_times_to_live_stay_in_their_ranges() {
        let fillings = Fillings { data_len: (5, 20), ttl_ms: Some((900, 1_100)), ..fillings(Some(10)) };
        let out = written(&["SET", "key:__rand_int__", "__data__", "PX", "__ttl__"], &fillings, 500);
        let text = String::from_utf8(out).unwrap();
        let mut lines = text.split("\r\n");
        let (mut lens, mut ttls) = (Vec::new(), Vec::new());
        for _ in 0..500 {
            let command: Vec<&str> = lines.by_ref().take(11).collect();
            assert_eq!((command[0], command[2], command[8]), ("*5", "SET", "PX"));
            assert_eq!(command[5], format!("${}", command[6].len()));
            lens.push(command[6].len());
            ttls.push(command[10].parse::<u64>().unwrap());
        }
        assert_eq!((lens.iter().min(), lens.iter().max()), (Some(&5), Some(&20)));
        assert!(ttls.iter().all(|ttl| (900..=1_100).contains(ttl)) && ttls.iter().min() != ttls.iter().max());
    }

    #[test]
    fn a_mix_keeps_its_weights() {
        let one = |name: &str| Request::new(&args(&[name]), &fillings(None));
        let mix = Commands::mix([(one("SET"), 1), (one("GET"), 3)]);
        let (mut out, mut counts) = (Vec::new(), [0, 0]);
        mix.append(10_000, &mut Random::new(1), &mut out, |kind, count| counts[kind] += count);
        assert_eq!(counts[0] + counts[1], 10_000);
        assert!((2_300..2_700).contains(&counts[0]), "{counts:?}");
        let sets = memchr::memmem::find_iter(&out, b"SET").count();
        assert_eq!(sets, counts[0]);
    }
}
