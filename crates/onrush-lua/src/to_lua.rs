//! Replies as Lua values.
//!
//! | reply | Lua |
//! |---|---|
//! | integer, bulk string | number, string |
//! | status, error | table with `ok`, with `err` |
//! | array | table |
//! | null of RESP2, null of RESP3 | false, nil |
//! | boolean, double | boolean, table with `double` |
//! | map, set | table with `map`, with `set` (members are keys) |
//! | big number, verbatim string | table with `big_number`, with `verbatim_string` (`string`, `format`) |

use std::hint::cold_path;

use onrush_resp::parse_i64;

use crate::stack::{NESTING_MAX, Raised, Stack};
use crate::to_resp::FROM_COMMAND;

/// Pushes a reply; returns whether it is an error. O(length).
///
/// # Errors
/// Memory is at its limit, or the reply is nested too deeply.
#[inline]
pub(crate) fn push_reply(stack: &Stack<'_>, bytes: &[u8]) -> Result<bool, Raised> {
    let mut reader = Reader { bytes, at: 0, depth: 0 };
    reader.value(stack)?;
    Ok(bytes.first() == Some(&b'-'))
}

/// Up to this length a line's end is looked for byte by byte.
const SHORT_LINE_LEN: usize = 8;

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    depth: u32,
}

impl<'a> Reader<'a> {
    fn value(&mut self, stack: &Stack<'_>) -> Result<(), Raised> {
        let kind = self.bytes.get(self.at).copied();
        let line = self.line();
        match kind {
            Some(b':') => stack.push_number(parse_i64(line).unwrap_or_default() as f64),
            Some(b'$') => match parse_i64(line) {
                Some(len @ 0..) => stack.push_bytes(self.take(len as usize)),
                _ => stack.push_boolean(false),
            },
            Some(b'+') => stack.push_text_table("ok", line),
            Some(b'-') => {
                cold_path();
                stack.push_table(0, 2);
                stack.set_text("err", line);
                stack.push_boolean(true);
                stack.set_field(-2, FROM_COMMAND);
            }
            Some(b'*') => match parse_i64(line) {
                Some(len @ 0..) => self.array(stack, len as usize)?,
                _ => stack.push_boolean(false),
            },
            _ => self.value_of_resp3(stack, kind, line)?,
        }
        Ok(())
    }

    fn value_of_resp3(&mut self, stack: &Stack<'_>, kind: Option<u8>, line: &'a [u8]) -> Result<(), Raised> {
        let len = || parse_i64(line).map_or(0, |len| len.max(0) as usize);
        match kind {
            Some(b'#') => stack.push_boolean(line == b"t"),
            Some(b',') => {
                let value = std::str::from_utf8(line).ok().and_then(|text| text.parse().ok());
                stack.push_table(0, 1);
                stack.push_number(value.unwrap_or(f64::NAN));
                stack.set_field(-2, "double");
            }
            Some(b'(') => stack.push_text_table("big_number", line),
            Some(b'=') => {
                let (format, string) = self.take(len()).split_at_checked(4).unwrap_or_default();
                stack.push_table(0, 1);
                stack.push_table(0, 2);
                stack.set_text("format", format.strip_suffix(b":").unwrap_or(format));
                stack.set_text("string", string);
                stack.set_field(-2, "verbatim_string");
            }
            Some(b'%') => self.pairs(stack, len(), "map", true)?,
            Some(b'~') => self.pairs(stack, len(), "set", false)?,
            Some(b'>') => self.array(stack, len())?,
            _ => stack.push_nil(),
        }
        Ok(())
    }

    fn array(&mut self, stack: &Stack<'_>, len: usize) -> Result<(), Raised> {
        self.descend(stack)?;
        stack.push_table(len, 0);
        for nth in 1..=len {
            self.value(stack)?;
            stack.set_nth(-2, nth as i32);
            stack.check_memory()?;
            stack.work(2)?;
        }
        self.depth -= 1;
        Ok(())
    }

    /// A table of `len` pairs in field `name` of another one. Without values, each key has true.
    fn pairs(&mut self, stack: &Stack<'_>, len: usize, name: &str, has_values: bool) -> Result<(), Raised> {
        self.descend(stack)?;
        stack.push_table(0, 1);
        stack.push_table(0, len);
        for _ in 0..len {
            self.value(stack)?;
            if has_values {
                self.value(stack)?;
            } else {
                stack.push_boolean(true);
            }
            if stack.is_no_key(-2) {
                stack.pop(2)
            } else {
                stack.set(-3)
            }
            stack.check_memory()?;
            stack.work(2)?;
        }
        stack.set_field(-2, name);
        self.depth -= 1;
        Ok(())
    }

    fn descend(&mut self, stack: &Stack<'_>) -> Result<(), Raised> {
        self.depth += 1;
        if self.depth <= NESTING_MAX && stack.has_space(10) {
            Ok(())
        } else {
            Err(stack.raise_plain("ERR reply is nested too deeply"))
        }
    }

    /// The rest of the present line after its first byte.
    #[inline]
    fn line(&mut self) -> &'a [u8] {
        let rest = self.bytes.get(self.at + 1..).unwrap_or_default();
        // Most lines are short: numbers.
        let short = || rest.iter().take(SHORT_LINE_LEN).position(|byte| *byte == b'\r');
        let len = short().or_else(|| memchr::memchr(b'\r', rest)).unwrap_or(rest.len());
        self.at += 1 + len + 2;
        &rest[..len]
    }

    /// Takes `len` bytes and the end of the line after them; returns the bytes.
    #[inline]
    fn take(&mut self, len: usize) -> &'a [u8] {
        let bytes = self.bytes.get(self.at..self.at.saturating_add(len)).unwrap_or_default();
        self.at = self.at.saturating_add(len + 2);
        bytes
    }
}
