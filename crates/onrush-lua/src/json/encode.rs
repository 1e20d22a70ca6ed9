//! `cjson.encode`

use super::{Invalid, Options};
use crate::number::push_general;
use crate::stack::{Kind, NESTING_MAX, Outcome, Raised, Stack, TOP};
use crate::unfold::ValuesLeft;

/// Bytes of a string that are written between two looks at the limits.
const PART_LEN: usize = 4096;

pub(super) fn encode(stack: &Stack<'_>) -> Outcome {
    stack.refuse_argument_if(stack.top() != 1, 1, "expected 1 argument")?;
    let options = stack.world().json.get();
    stack.world().with_scratch(|out| {
        Encoder { stack, out, options: &options, left: ValuesLeft::new(stack.heap()) }.value(0)?;
        stack.push_bytes(out);
        Ok(1)
    })
}

struct Encoder<'a> {
    stack: &'a Stack<'a>,
    out: &'a mut Vec<u8>,
    options: &'a Options,
    left: ValuesLeft,
}

impl Encoder<'_> {
    /// Appends the value on top and pops it.
    fn value(&mut self, depth: u32) -> Result<(), Raised> {
        let stack = self.stack;
        stack.work(4)?;
        if !self.left.take() {
            return Err(stack.raise("Cannot serialise, too many values"));
        }
        match stack.kind(TOP) {
            Kind::String => self.string(stack.bytes(TOP).unwrap_or_default())?,
            Kind::Number => self.number(stack.number(TOP).unwrap_or_default(), self.options.encode_invalid)?,
            Kind::Boolean => self.out.extend_from_slice(if stack.truth(TOP) { b"true" } else { b"false" }),
            Kind::Table => self.table(depth + 1)?,
            Kind::Nil => self.out.extend_from_slice(b"null"),
            _ if stack.is_null_pointer(TOP) => self.out.extend_from_slice(b"null"),
            kind => return Err(self.unsupported(kind, "type not supported")),
        }
        stack.pop(1);
        Ok(())
    }

    #[cold]
    fn unsupported(&self, kind: Kind, reason: &str) -> Raised {
        self.stack.raise(format!("Cannot serialise {}: {reason}", kind.name()))
    }

    fn table(&mut self, depth: u32) -> Result<(), Raised> {
        if depth > self.options.encode_depth.min(NESTING_MAX) || !self.stack.has_space(10) {
            return Err(self.stack.raise(format!("Cannot serialise, excessive nesting ({depth})")));
        }
        match self.array_len()? {
            Some(len) => self.array(len, depth),
            None => self.object(depth),
        }
    }

    /// The largest index of the table on top if all its keys are positive integers and there are some.
    fn array_len(&self) -> Result<Option<i32>, Raised> {
        let stack = self.stack;
        let (mut max, mut count) = (0_i32, 0.0_f64);
        stack.push_nil();
        while stack.next(-2) {
            stack.pop(1);
            stack.work(1)?;
            let key = if stack.kind(TOP) == Kind::Number { stack.number(TOP) } else { None };
            match key {
                Some(key) if key >= 1.0 && key.floor() == key => {
                    if key > f64::from(max) {
                        // A key that does not fit becomes the smallest integer, so the table is an object.
                        max = if key <= f64::from(i32::MAX) { key as i32 } else { i32::MIN };
                    }
                    count += 1.0;
                }
                _ => {
                    stack.pop(1);
                    return Ok(None);
                }
            }
        }
        let Options { sparse_ratio, sparse_safe, sparse_convert, .. } = *self.options;
        if sparse_ratio > 0
            && f64::from(max) > count * f64::from(sparse_ratio)
            && i64::from(max) > i64::from(sparse_safe)
        {
            if !sparse_convert {
                return Err(self.unsupported(Kind::Table, "excessively sparse array"));
            }
            return Ok(None);
        }
        Ok((max > 0).then_some(max))
    }

    fn array(&mut self, len: i32, depth: u32) -> Result<(), Raised> {
        self.out.push(b'[');
        for nth in 1..=len {
            if nth > 1 {
                self.out.push(b',');
            }
            self.stack.get_nth(TOP, nth);
            self.value(depth)?;
            self.check_len()?;
        }
        self.out.push(b']');
        Ok(())
    }

    fn object(&mut self, depth: u32) -> Result<(), Raised> {
        let stack = self.stack;
        self.out.push(b'{');
        let mut is_first = true;
        stack.push_nil();
        while stack.next(-2) {
            if !is_first {
                self.out.push(b',');
            }
            is_first = false;
            match stack.kind(-2) {
                Kind::Number => {
                    self.out.push(b'"');
                    self.number(stack.number(-2).unwrap_or_default(), self.options.encode_invalid)?;
                    self.out.push(b'"');
                }
                Kind::String => self.string(stack.bytes(-2).unwrap_or_default())?,
                kind => return Err(self.unsupported(kind, "table key must be a number or string")),
            }
            self.out.push(b':');
            self.value(depth)?;
            self.check_len()?;
        }
        self.out.push(b'}');
        Ok(())
    }

    fn number(&mut self, value: f64, invalid: Invalid) -> Result<(), Raised> {
        if !value.is_finite() {
            match invalid {
                Invalid::Refused => return Err(self.unsupported(Kind::Number, "must not be NaN or Inf")),
                Invalid::Null => self.out.extend_from_slice(b"null"),
                Invalid::Written if value.is_nan() => self.out.extend_from_slice(b"nan"),
                Invalid::Written => self.out.extend_from_slice(if value > 0.0 { b"inf" } else { b"-inf" }),
            }
            return Ok(());
        }
        if value.trunc() == value
            && value.abs() < 1e9
            && !(value == 0.0 && value.is_sign_negative())
            && self.options.precision >= 9
        {
            self.out.extend_from_slice(itoa::Buffer::new().format(value as i64).as_bytes());
        } else {
            push_general(self.out, value, self.options.precision as usize);
        }
        Ok(())
    }

    fn string(&mut self, bytes: &[u8]) -> Result<(), Raised> {
        self.out.push(b'"');
        for part in bytes.chunks(PART_LEN) {
            self.stack.work(part.len() / 8)?;
            self.check_len()?;
            self.part_of_string(part);
        }
        self.out.push(b'"');
        Ok(())
    }

    /// Strings that a table has many times could unfold to any size.
    fn check_len(&self) -> Result<(), Raised> {
        if self.out.len() > self.stack.heap().max_bytes() {
            return Err(self.stack.raise_plain("not enough memory"));
        }
        Ok(())
    }

    fn part_of_string(&mut self, bytes: &[u8]) {
        let mut plain = 0;
        for (at, &byte) in bytes.iter().enumerate() {
            if byte >= b' ' && !matches!(byte, b'"' | b'\\' | b'/' | 127) {
                continue;
            }
            self.out.extend_from_slice(&bytes[plain..at]);
            plain = at + 1;
            match byte {
                b'"' | b'\\' | b'/' => self.out.extend_from_slice(&[b'\\', byte]),
                b'\n' => self.out.extend_from_slice(b"\\n"),
                b'\r' => self.out.extend_from_slice(b"\\r"),
                b'\t' => self.out.extend_from_slice(b"\\t"),
                8 => self.out.extend_from_slice(b"\\b"),
                12 => self.out.extend_from_slice(b"\\f"),
                _ => self.out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            }
        }
        self.out.extend_from_slice(&bytes[plain..]);
    }
}
