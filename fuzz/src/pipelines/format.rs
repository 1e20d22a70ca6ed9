//! What the bytes of an input mean: steps on a few connections.
//!
//! A step begins with one byte: its lowest two bits are the connection, the next three the kind of step, and one more
//! says whether what this connection has collected is sent afterwards, as one pipeline.
//!
//! | kind | what follows |
//! |---|---|
//! | 0 to 3, a command of the table | two bytes for which one, then choices for its arguments |
//! | 4, a command as it stands | number of arguments, then each with its length |
//! | 5, bytes as they stand | their length, then they themselves |
//! | 6, time passes | how much |
//! | 7, everything is sent | |

use super::vocabulary::Vocabulary;

/// Connections of an input.
pub const CONNECTIONS: usize = 3;

/// Longer inputs are cut off, and so are more commands.
const INPUT_LEN_MAX: usize = 4096;
const COMMANDS_MAX: usize = 200;

/// Most arguments of a command as it stands.
const ARGUMENTS_MAX: usize = 255;

/// Stands before a length of two bytes.
const LONG: u8 = 255;

const CONNECTION_BITS: u8 = 0b11;
const KIND_SHIFT: u8 = 2;
const KIND_BITS: u8 = 0b111;
const SENDS: u8 = 1 << 5;

const CALL: u8 = 4;
const BYTES: u8 = 5;
const TIME: u8 = 6;
const SEND_ALL: u8 = 7;

/// Milliseconds that may pass at once.
const TIMES_MS: [i64; 8] = [1, 2, 10, 100, 1_000, 10_000, 100_000, 100_000_000];

/// One step of an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A connection adds a command to its pipeline.
    Call {
        /// Which connection.
        connection: usize,
        /// The name and the arguments.
        argv: Vec<Vec<u8>>,
    },
    /// A connection adds bytes to its pipeline.
    Bytes {
        /// Which connection.
        connection: usize,
        /// Any bytes.
        bytes: Vec<u8>,
    },
    /// A connection sends what it has collected.
    Send {
        /// Which connection.
        connection: usize,
    },
    /// All connections do, in their order.
    SendAll,
    /// Time passes, in milliseconds.
    Pass {
        /// How much.
        ms: i64,
    },
}

/// Reads choices from an input. At its end each choice is the first one.
pub struct Choices<'d> {
    data: &'d [u8],
}

impl<'d> Choices<'d> {
    /// The choices in these bytes.
    pub fn new(data: &'d [u8]) -> Self {
        Self { data: &data[..data.len().min(INPUT_LEN_MAX)] }
    }

    /// Whether all of the input was read.
    pub fn are_over(&self) -> bool {
        self.data.is_empty()
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.data.split_first() else { return 0 };
        self.data = rest;
        first
    }

    /// A number below `bound`, which is 65,536 at most.
    pub fn below(&mut self, bound: usize) -> usize {
        let number = if bound > 256 { self.number() } else { self.byte().into() };
        number % bound.max(1)
    }

    /// A number of two bytes.
    fn number(&mut self) -> usize {
        u16::from_le_bytes([self.byte(), self.byte()]).into()
    }

    /// The next bytes, fewer at the end.
    pub fn bytes(&mut self, len: usize) -> &'d [u8] {
        let (bytes, rest) = self.data.split_at(len.min(self.data.len()));
        self.data = rest;
        bytes
    }

    /// Bytes with their length before them.
    fn string(&mut self) -> Vec<u8> {
        let len = match self.byte() {
            LONG => self.number(),
            len => len.into(),
        };
        self.bytes(len).to_vec()
    }
}

/// The steps of an input: any bytes are some.
pub fn decode(data: &[u8], vocabulary: &Vocabulary) -> Vec<Step> {
    let mut choices = Choices::new(data);
    let (mut steps, mut commands) = (Vec::new(), 0);
    while !choices.are_over() && commands < COMMANDS_MAX {
        let head = choices.byte();
        let connection = usize::from(head & CONNECTION_BITS) % CONNECTIONS;
        commands += 1;
        steps.push(match head >> KIND_SHIFT & KIND_BITS {
            CALL => {
                let count = usize::from(choices.byte()).max(1);
                Step::Call { connection, argv: (0..count).map(|_| choices.string()).collect() }
            }
            BYTES => Step::Bytes { connection, bytes: choices.string() },
            TIME => Step::Pass { ms: TIMES_MS[choices.below(TIMES_MS.len())] },
            SEND_ALL => Step::SendAll,
            _ => Step::Call { connection, argv: vocabulary.call(&mut choices) },
        });
        if head & SENDS != 0 {
            steps.push(Step::Send { connection });
        }
    }
    steps
}

/// An input with these steps, as far as they fit into one: later steps are left out. A command has 255 arguments at
/// most, and an argument 64 KB.
pub fn encode(steps: &[Step]) -> Vec<u8> {
    let mut input = Vec::new();
    let mut steps = steps.iter().peekable();
    while let Some(step) = steps.next() {
        let before = input.len();
        let (kind, connection) = match step {
            Step::Call { connection, .. } => (CALL, *connection),
            Step::Bytes { connection, .. } => (BYTES, *connection),
            Step::Pass { .. } => (TIME, 0),
            Step::SendAll => (SEND_ALL, 0),
            // A step that does nothing but that.
            Step::Send { connection } => (BYTES, *connection),
        };
        let is_followed = steps.next_if_eq(&&Step::Send { connection }).is_some();
        let sends = if is_followed || matches!(step, Step::Send { .. }) { SENDS } else { 0 };
        input.push(connection as u8 | kind << KIND_SHIFT | sends);
        match step {
            Step::Call { argv, .. } => {
                input.push(argv.len().min(ARGUMENTS_MAX) as u8);
                argv.iter().take(ARGUMENTS_MAX).for_each(|argument| push_string(&mut input, argument));
            }
            Step::Bytes { bytes, .. } => push_string(&mut input, bytes),
            Step::Pass { ms } => input.push(TIMES_MS.iter().position(|time| time >= ms).unwrap_or(0) as u8),
            Step::Send { .. } => push_string(&mut input, b""),
            Step::SendAll => {}
        }
        if input.len() > INPUT_LEN_MAX {
            input.truncate(before);
            break;
        }
    }
    input
}

fn push_string(input: &mut Vec<u8>, string: &[u8]) {
    let string = &string[..string.len().min(u16::MAX.into())];
    match u8::try_from(string.len()) {
        Ok(len) if len < LONG => input.push(len),
        _ => {
            input.push(LONG);
            input.extend_from_slice(&(string.len() as u16).to_le_bytes());
        }
    }
    input.extend_from_slice(string);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded() {
        let call = |connection, words: &[&str]| {
            let argv = words.iter().map(|word| word.as_bytes().to_vec()).collect();
            Step::Call { connection, argv }
        };
        let steps = [
            call(0, &["SET", "k", &"x".repeat(300)]),
            Step::Send { connection: 0 },
            call(1, &["GET", ""]),
            Step::Pass { ms: 100 },
            Step::Bytes { connection: 2, bytes: b"PING\r\n".to_vec() },
            Step::SendAll,
            Step::Pass { ms: 1 },
        ];
        let input = encode(&steps);
        assert_eq!(decode(&input, &Vocabulary::new()), steps);
    }

    #[test]
    fn steps_that_have_no_room_are_left_out() {
        let step = Step::Call { connection: 0, argv: vec![vec![b'x'; 1000]] };
        let steps = vec![step; 10];
        assert_eq!(decode(&encode(&steps), &Vocabulary::new()), steps[..4]);
    }
}
