//! Lua values as replies.
//!
//! | Lua | reply |
//! |---|---|
//! | string, number | bulk string, integer (the fraction is cut off) |
//! | false, true | null and 1; booleans after `redis.setresp(3)` |
//! | table with `err`, `ok` (strings) | error, status |
//! | table with `double`, `map`, `set`, `big_number`, `verbatim_string` | of that type; in RESP2 what stands in for it |
//! | other table | array up to the first nil |
//! | anything else | null |

use onrush_resp::Reply;

use crate::number::to_integer;
use crate::stack::{BYTES_PER_STEP, Kind, NESTING_MAX, Raised, Scalar, Stack, TOP};
use crate::unfold::ValuesLeft;

/// Most bytes of a script's reply: tables that contain each other could unfold to any size.
const REPLY_LEN_MAX: usize = 512 << 20;

/// Appends the topmost value as a reply and pops it. O(length of the reply).
///
/// # Errors
/// The script has been ended from outside meanwhile. Nothing has been appended.
#[inline]
pub(crate) fn take_reply(stack: &Stack<'_>, out: &mut Reply) -> Result<(), Raised> {
    match stack.scalar(TOP) {
        Some(Scalar::Number(number)) => out.int(to_integer(number)),
        Some(Scalar::Bytes(bytes)) => out.bulk(bytes),
        None => return take_other(stack, out),
    }
    stack.pop(1);
    Ok(())
}

fn take_other(stack: &Stack<'_>, out: &mut Reply) -> Result<(), Raised> {
    let mark = out.mark();
    let start = out.len();
    let left = ValuesLeft::new(stack.heap());
    let mut writer = Writer { stack, out, limit: start.saturating_add(REPLY_LEN_MAX), left, depth: 0 };
    let written = writer.value();
    if written.is_err() {
        out.rewind(mark);
    }
    match written {
        Ok(()) => Ok(()),
        Err(Stopped::Raised(raised)) => Err(raised),
        Err(Stopped::TooLarge) => {
            out.error("ERR reply of the script is too large");
            Ok(())
        }
    }
}

/// The field of an error's table that says that it is a command's reply. Scripts see it under this name in Redis, too.
pub(crate) const FROM_COMMAND: &str = "ignore_error_stats_update";

/// Fields that mark a table as another type than an array, in order of precedence.
const TAGS: [(&str, Kind); 7] = [
    ("err", Kind::String),
    ("ok", Kind::String),
    ("double", Kind::Number),
    ("map", Kind::Table),
    ("set", Kind::Table),
    ("big_number", Kind::String),
    ("verbatim_string", Kind::Table),
];

/// Why a reply is not written to its end.
enum Stopped {
    /// It has grown beyond its limits.
    TooLarge,
    /// The script has been ended from outside.
    Raised(Raised),
}

impl From<Raised> for Stopped {
    fn from(raised: Raised) -> Self {
        Self::Raised(raised)
    }
}

struct Writer<'a> {
    stack: &'a Stack<'a>,
    out: &'a mut Reply,
    limit: usize,
    left: ValuesLeft,
    depth: u32,
}

impl Writer<'_> {
    /// Appends the value on top and pops it.
    fn value(&mut self) -> Result<(), Stopped> {
        let Self { stack, out, .. } = self;
        stack.work(4)?;
        if !self.left.take() || out.len() > self.limit {
            return Err(Stopped::TooLarge);
        }
        match stack.kind(TOP) {
            Kind::Number => out.int(to_integer(stack.number(TOP).unwrap_or_default())),
            Kind::String => {
                let bytes = stack.bytes(TOP).unwrap_or_default();
                stack.work(bytes.len() / BYTES_PER_STEP)?;
                out.bulk(bytes);
            }
            Kind::Boolean => {
                let value = stack.truth(TOP);
                if stack.world().is_resp3.get() {
                    out.bool(value);
                } else if value {
                    out.int(1);
                } else {
                    out.null();
                }
            }
            Kind::Table if self.depth == NESTING_MAX || !stack.has_space(10) => {
                self.error(b"ERR reached lua stack limit", false)
            }
            Kind::Table => return self.table(),
            _ => out.null(),
        }
        self.stack.pop(1);
        Ok(())
    }

    /// Appends an error and tells the host of it.
    #[cold]
    fn error(&mut self, message: &[u8], is_known: bool) {
        self.out.error_bytes(message);
        self.stack.host(|host| host.returns_error(message, is_known));
    }

    fn table(&mut self) -> Result<(), Stopped> {
        self.depth += 1;
        if !self.scalar()? {
            self.array()?;
        }
        self.depth -= 1;
        self.stack.pop(1);
        Ok(())
    }

    /// Appends a table that is marked as another type than an array; returns whether it is.
    fn scalar(&mut self) -> Result<bool, Stopped> {
        if !self.stack.may_have_fields(TOP) {
            return Ok(false);
        }
        let top = self.stack.top();
        for (name, kind) in TAGS {
            if self.stack.get_field(TOP, name) == kind {
                let is_done = self.tagged(name)?;
                self.stack.set_top(top);
                return Ok(is_done);
            }
            self.stack.pop(1);
        }
        Ok(false)
    }

    /// Appends the value that the field of this name, which is on top, describes.
    fn tagged(&mut self, name: &str) -> Result<bool, Stopped> {
        let Self { stack, out, .. } = self;
        match name {
            "err" => {
                let message = without_line_end(until_nul(stack.bytes(TOP).unwrap_or_default()));
                let is_known = is_known(stack, -2);
                self.error(message, is_known);
            }
            "ok" => line(out, b'+', stack.bytes(TOP).unwrap_or_default()),
            "double" => out.double(stack.number(TOP).unwrap_or_default()),
            "map" => self.fields(true)?,
            "set" => self.fields(false)?,
            "big_number" => {
                let digits = stack.bytes(TOP).unwrap_or_default();
                if out.is_resp3() { line(out, b'(', digits) } else { out.bulk(&one_line(digits)) }
            }
            _ => return Ok(self.verbatim()),
        }
        Ok(true)
    }

    fn verbatim(&mut self) -> bool {
        let Self { stack, out, .. } = self;
        let is_text = stack.get_field(TOP, "format") == Kind::String && stack.get_field(-2, "string") == Kind::String;
        if !is_text {
            return false;
        }
        let mut format = *b"   ";
        let given = stack.bytes(-2).unwrap_or_default();
        let len = given.len().min(format.len());
        format[..len].copy_from_slice(&given[..len]);
        let string = stack.bytes(TOP).unwrap_or_default();
        if out.is_resp3() {
            out.raw(format!("={}\r\n", string.len() + format.len() + 1).as_bytes());
            out.raw(&format);
            out.raw(b":");
            out.raw(string);
            out.raw(b"\r\n");
        } else {
            out.bulk(string);
        }
        true
    }

    /// The fields of the table on top as a map, or their keys as a set.
    fn fields(&mut self, is_map: bool) -> Result<(), Stopped> {
        let len = self.count()?;
        if is_map {
            self.out.map(len)
        } else {
            self.out.set(len)
        }
        self.stack.push_nil();
        while self.stack.next(-2) {
            if is_map {
                self.stack.push_value(-2);
                self.value()?;
            } else {
                self.stack.pop(1);
                self.stack.push_value(TOP);
            }
            self.value()?;
        }
        Ok(())
    }

    /// Fields of the table on top.
    fn count(&self) -> Result<usize, Raised> {
        let mut len = 0;
        self.stack.push_nil();
        while self.stack.next(-2) {
            self.stack.pop(1);
            self.stack.work(1)?;
            len += 1;
        }
        Ok(len)
    }

    fn array(&mut self) -> Result<(), Stopped> {
        let mut len = 0;
        loop {
            self.stack.get_nth(TOP, len as i32 + 1);
            let ends = self.stack.kind(TOP) == Kind::Nil;
            self.stack.pop(1);
            if ends {
                break;
            }
            self.stack.work(1)?;
            len += 1;
        }
        self.out.array(len);
        for nth in 1..=len {
            self.stack.get_nth(TOP, nth as i32);
            self.value()?;
        }
        Ok(())
    }
}

/// Whether the table of an error at `index` says that a command has answered this error before. Pushes nothing.
pub(crate) fn is_known(stack: &Stack<'_>, index: i32) -> bool {
    let is_known = stack.get_field(index, FROM_COMMAND) == Kind::Boolean && stack.truth(TOP);
    stack.pop(1);
    is_known
}

/// The text up to its first NUL, as C reads it.
pub(crate) fn until_nul(text: &[u8]) -> &[u8] {
    &text[..memchr::memchr(0, text).unwrap_or(text.len())]
}

fn without_line_end(text: &[u8]) -> &[u8] {
    &text[..text.iter().rposition(|byte| !matches!(byte, b'\r' | b'\n')).map_or(0, |last| last + 1)]
}

/// A reply of one line, in which line ends become spaces.
fn line(out: &mut Reply, kind: u8, text: &[u8]) {
    out.raw(&[kind]);
    out.raw(&one_line(text));
    out.raw(b"\r\n");
}

fn one_line(text: &[u8]) -> Vec<u8> {
    text.iter().map(|&byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte }).collect()
}
