//! The library `struct`: numbers and strings in the layouts of C, as Roberto Ierusalimschy's version 0.2 documents them.

use crate::number::to_integer;
use crate::sandbox::add;
use crate::stack::{BYTES_PER_STEP, Outcome, Raised, Stack, TOP};

/// Most bytes of an integer.
const INTEGER_LEN_MAX: usize = 32;

/// The alignment of `!`: that of the strictest C type.
const ALIGN_DEFAULT: usize = 8;

/// Adds `struct` to the table on top.
pub(crate) fn open(stack: &Stack<'_>) {
    stack.push_table(0, 4);
    add(stack, "pack", pack);
    add(stack, "unpack", unpack);
    add(stack, "size", size);
    stack.set_field(-2, "struct");
}

/// A format, read letter by letter.
struct Format<'a, 's> {
    stack: &'a Stack<'s>,
    rest: &'a [u8],
    is_big: bool,
    align: usize,
}

/// A letter of a format.
struct Letter {
    letter: u8,
    /// Bytes; 0 if the value determines them.
    len: usize,
}

impl<'a, 's> Format<'a, 's> {
    fn new(stack: &'a Stack<'s>, format: &'a [u8]) -> Self {
        let rest = &format[..memchr::memchr(0, format).unwrap_or(format.len())];
        Self { stack, rest, is_big: false, align: 1 }
    }

    fn next(&mut self) -> Result<Option<Letter>, Raised> {
        let Some((&letter, rest)) = self.rest.split_first() else { return Ok(None) };
        self.rest = rest;
        let len = match letter {
            b'b' | b'B' | b'x' => 1,
            b'h' | b'H' => 2,
            b'l' | b'L' | b'T' | b'd' => 8,
            b'f' => 4,
            b'c' => self.number(1)?,
            b'i' | b'I' => {
                let len = self.number(4)?;
                if len > INTEGER_LEN_MAX {
                    let problem = format!("integral size {len} is larger than limit of {INTEGER_LEN_MAX}");
                    return Err(self.stack.raise(problem));
                }
                len
            }
            _ => 0,
        };
        Ok(Some(Letter { letter, len }))
    }

    fn number(&mut self, default: usize) -> Result<usize, Raised> {
        let (mut value, len) = (None, self.rest.len());
        while let Some((digit @ b'0'..=b'9', rest)) = self.rest.split_first() {
            let sum = value.unwrap_or(0) * 10 + usize::from(digit - b'0');
            if sum > i32::MAX as usize {
                return Err(self.stack.raise("integral size overflow"));
            }
            (value, self.rest) = (Some(sum), rest);
        }
        self.stack.work((len - self.rest.len()) / 8)?;
        Ok(value.unwrap_or(default))
    }

    /// Bytes to skip so that a value at `at` is aligned.
    fn padding(&self, at: usize, letter: &Letter) -> usize {
        if letter.len == 0 || letter.letter == b'c' {
            return 0;
        }
        let len = letter.len.min(self.align);
        len.wrapping_sub(at & (len - 1)) & (len - 1)
    }

    /// A letter that stands for no value.
    fn control(&mut self, letter: u8) -> Result<(), Raised> {
        match letter {
            b' ' => {}
            b'>' => self.is_big = true,
            b'<' => self.is_big = false,
            b'!' => {
                let align = self.number(ALIGN_DEFAULT)?;
                if !align.is_power_of_two() {
                    return Err(self.stack.raise(format!("alignment {align} is not a power of 2")));
                }
                self.align = align;
            }
            _ => {
                let letter = char::from(letter);
                return Err(self.stack.bad_argument(1, &format!("invalid format option '{letter}'")));
            }
        }
        Ok(())
    }

    fn push_bytes(&self, out: &mut Vec<u8>, little: &[u8]) {
        if self.is_big { out.extend(little.iter().rev()) } else { out.extend_from_slice(little) }
    }
}

fn pack(stack: &Stack<'_>) -> Outcome {
    let mut format = Format::new(stack, stack.check_text(1)?);
    // A missing argument is nil.
    if !stack.has_space(8) {
        return Err(stack.raise("stack overflow"));
    }
    stack.push_nil();
    stack.world().with_scratch(|out| {
        let (mut nth, mut counted) = (2, 0);
        while let Some(letter) = format.next()? {
            stack.work(2 + (out.len() - counted) / BYTES_PER_STEP)?;
            counted = out.len();
            if counted > stack.heap().max_bytes() {
                return Err(stack.raise_plain("not enough memory"));
            }
            out.resize(out.len() + format.padding(out.len(), &letter), 0);
            match letter.letter {
                b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                    let value = stack.check_number(nth)?;
                    let value = if value < 0.0 { value as i64 as u64 } else { value as u64 };
                    let mut bytes = [0; INTEGER_LEN_MAX];
                    bytes[..8].copy_from_slice(&value.to_le_bytes());
                    format.push_bytes(out, &bytes[..letter.len]);
                    nth += 1;
                }
                b'x' => out.push(0),
                b'f' => {
                    format.push_bytes(out, &(stack.check_number(nth)? as f32).to_le_bytes());
                    nth += 1;
                }
                b'd' => {
                    format.push_bytes(out, &stack.check_number(nth)?.to_le_bytes());
                    nth += 1;
                }
                b'c' | b's' => {
                    let text = stack.check_text(nth)?;
                    nth += 1;
                    let len = if letter.len == 0 { text.len() } else { letter.len };
                    let text = text.get(..len).ok_or_else(|| stack.bad_argument(nth, "string too short"))?;
                    out.extend_from_slice(text);
                    if letter.letter == b's' {
                        out.push(0);
                    }
                }
                other => format.control(other)?,
            }
        }
        stack.push_bytes(out);
        Ok(1)
    })
}

const TOO_SHORT: &str = "data string too short";

fn unpack(stack: &Stack<'_>) -> Outcome {
    let mut format = Format::new(stack, stack.check_text(1)?);
    let data = stack.check_text(2)?;
    let start = if stack.is_given(3) { to_integer(stack.check_number(3)?) } else { 1 };
    stack.refuse_argument_if(start == 0, 3, "offset must be 1 or greater")?;
    let mut at = usize::try_from(start.saturating_sub(1)).unwrap_or(usize::MAX);
    let mut count = 0;
    while let Some(letter) = format.next()? {
        stack.work(2)?;
        at = at.saturating_add(format.padding(at, &letter));
        let mut bytes = part(stack, data, at, letter.len)?;
        if !stack.has_space(2 + 4) {
            return Err(stack.raise("stack overflow (too many results)"));
        }
        match letter.letter {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                stack.push_number(integer(bytes, format.is_big, letter.letter.is_ascii_lowercase()));
                count += 1;
            }
            b'x' => {}
            b'f' => {
                let bits = raw(bytes, format.is_big) as u32;
                stack.push_number(f64::from(f32::from_bits(bits)));
                count += 1;
            }
            b'd' => {
                stack.push_number(f64::from_bits(raw(bytes, format.is_big)));
                count += 1;
            }
            b'c' => {
                if letter.len == 0 {
                    let len = if count > 0 { stack.number(TOP) } else { None };
                    let len = len.ok_or_else(|| stack.raise("format 'c0' needs a previous size"))?;
                    let len = usize::try_from(to_integer(len)).unwrap_or(usize::MAX);
                    stack.pop(1);
                    bytes = part(stack, data, at, len)?;
                    count -= 1;
                }
                stack.push_bytes(bytes);
                count += 1;
            }
            b's' => {
                let rest = &data[at..];
                let len = memchr::memchr(0, rest).ok_or_else(|| stack.raise("unfinished string in data"))?;
                bytes = &rest[..=len];
                stack.push_bytes(&rest[..len]);
                count += 1;
            }
            other => format.control(other)?,
        }
        at += bytes.len();
    }
    stack.push_number((at as u64).wrapping_add(1) as f64);
    Ok(count + 1)
}

fn part<'a>(stack: &Stack<'_>, data: &'a [u8], at: usize, len: usize) -> Result<&'a [u8], Raised> {
    let end = at.checked_add(len);
    end.and_then(|end| data.get(at..end)).ok_or_else(|| stack.bad_argument(2, TOO_SHORT))
}

/// The lowest 64 bits.
fn raw(bytes: &[u8], is_big: bool) -> u64 {
    let join = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
    if is_big { bytes.iter().fold(0, join) } else { bytes.iter().rev().fold(0, join) }
}

fn integer(bytes: &[u8], is_big: bool, is_signed: bool) -> f64 {
    let value = raw(bytes, is_big);
    if !is_signed {
        return value as f64;
    }
    // For integers longer than a word the shift wraps, as it does on the processors that Redis runs on.
    let mask = u64::MAX.wrapping_shl((bytes.len() as u32 * 8).wrapping_sub(1));
    (if value & mask == 0 { value } else { value | mask }) as i64 as f64
}

fn size(stack: &Stack<'_>) -> Outcome {
    let mut format = Format::new(stack, stack.check_text(1)?);
    let mut at = 0;
    while let Some(letter) = format.next()? {
        stack.work(2)?;
        at += format.padding(at, &letter);
        match letter.letter {
            b's' => return Err(stack.bad_argument(1, "option 's' has no fixed size")),
            b'c' if letter.len == 0 => return Err(stack.bad_argument(1, "option 'c0' has no fixed size")),
            other if !other.is_ascii_alphanumeric() => format.control(other)?,
            _ => {}
        }
        at += letter.len;
    }
    stack.push_number(at as f64);
    Ok(1)
}

#[cfg(test)]
mod tests {
    use crate::test_host::{Run, error, eval};
    use proptest::prelude::*;

    #[test]
    fn values_have_the_layout_that_the_format_says() {
        let cases = [
            ("'>h', 258", "0102"),
            ("'<i3', 258", "020100"),
            ("'>i16', 258", "00000000000000000000000000000102"),
            ("'>f', 1.5", "3fc00000"),
            ("'s', 'abc'", "61626300"),
            ("'c2', 'abc'", "6162"),
            ("'!bi', 1, 2", "0100000002000000"),
            ("'!4bi8', 1, 2", "010000000200000000000000"),
            ("'bi', 1, 2", "0102000000"),
            ("'B', -1", "ff"),
            ("'>i8', -5", "fffffffffffffffb"),
            ("'bxb', 1, 2", "010002"),
            ("'i0', 1", ""),
        ];
        for (code, hex) in cases {
            let code =
                format!("return (struct.pack({code}):gsub('.', function(c) return ('%02x'):format(c:byte()) end))");
            assert_eq!(eval(&code), format!("${}\r\n{hex}\r\n", hex.len()), "{code}");
        }
    }

    #[test]
    fn formats_and_data_that_do_not_fit_are_errors() {
        let cases = [
            ("pack('>i33', 1)", "integral size 33 is larger than limit of 32"),
            ("pack('c5', 'abc')", "bad argument #3 to 'pack' (string too short)"),
            ("pack('!3bi', 1, 2)", "alignment 3 is not a power of 2"),
            ("pack('=i', 1)", "bad argument #1 to 'pack' (invalid format option '=')"),
            ("pack('ii', 1)", "bad argument #3 to 'pack' (number expected, got nil)"),
            ("pack('i99999999999999', 1)", "integral size overflow"),
            ("unpack('>h', '\\1')", "bad argument #2 to 'unpack' (data string too short)"),
            ("unpack('>h', '\\1\\2', 0)", "bad argument #3 to 'unpack' (offset must be 1 or greater)"),
            ("unpack('>h', '\\1\\2', -1)", "bad argument #2 to 'unpack' (data string too short)"),
            ("unpack('s', 'abc')", "unfinished string in data"),
            ("unpack('c0', 'abc')", "format 'c0' needs a previous size"),
            ("unpack('bc0', '\\255abcd')", "bad argument #2 to 'unpack' (data string too short)"),
            ("size('s')", "bad argument #1 to 'size' (option 's' has no fixed size)"),
        ];
        for (code, problem) in cases {
            assert_eq!(error(&format!("return struct.{code}")), format!("ERR user_script:1: {problem}"), "{code}");
        }
    }

    #[test]
    fn values_are_read_back() {
        assert_eq!(eval("return {struct.unpack('>i9', string.rep('\\1', 16))}"), "*2\r\n:-127\r\n:10\r\n");
        assert_eq!(eval("return {struct.unpack('bc0', '\\3abcd')}"), "*2\r\n$3\r\nabc\r\n:5\r\n");
        assert_eq!(eval("return {struct.unpack('!bi4', '\\1\\0\\0\\0\\2\\0\\0\\0')}"), "*3\r\n:1\r\n:2\r\n:9\r\n");
        assert_eq!(
            eval("return {struct.size('!8bd'), struct.size('lLTfd'), struct.size('z')}"),
            "*3\r\n:16\r\n:36\r\n:0\r\n"
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn what_is_packed_is_unpacked_the_same(byte: i8, short: i16, int: i32, text in "[a-z]{0,40}", big: bool, align in 0u32..5) {
            let format = format!("{}!{}bhi4sd", if big { '>' } else { '<' }, 1 << align);
            let code = format!(
                "local b, h, i, s, d = struct.unpack('{format}', struct.pack('{format}', {byte}, {short}, {int}, ARGV[1], {int} / 7)) \
                 return b == {byte} and h == {short} and i == {int} and s == ARGV[1] and d == {int} / 7"
            );
            prop_assert_eq!(Run::new().eval_with(&code, &[text.as_bytes()]), b":1\r\n");
        }

        #[test]
        fn formats_and_data_of_any_kind_do_no_harm(format in "[><! xbBhHlLTiIcsfd0-9]{0,20}", data in prop::collection::vec(any::<u8>(), 0..40)) {
            let mut run = Run::new();
            run.eval_with("return {pcall(struct.unpack, ARGV[1], ARGV[2])}", &[format.as_bytes(), &data]);
            run.eval_with("return {pcall(struct.pack, ARGV[1], 1, 'a', 2, 3)}", &[format.as_bytes()]);
            run.eval_with("return {pcall(struct.size, ARGV[1])}", &[format.as_bytes()]);
        }
    }
}
