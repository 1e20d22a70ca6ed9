//! Counting replies without building them.

/// The length of the tag that the last reply carries.
pub const TAG_LEN: usize = 20;
/// The longest line of an error that is kept; the rest of a longer one is dropped.
const ERROR_LEN_MAX: usize = 1024;
/// The longest header of a reply: a marker, 20 digits, a sign and the end of the line, with room to spare.
const HEADER_LEN_MAX: usize = 64;
/// What most replies are, many at once.
const OKS: &[u8; 40] = b"+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n";
const OK: &[u8; 5] = b"+OK\r\n";

/// Walks over replies cut into reads anywhere. Elements still to come are a mere number, however they nest.
pub struct Scanner {
    tag: [u8; TAG_LEN],
    /// Replies seen, the one with the tag not counted.
    pub replies: u64,
    /// Errors among them.
    pub errors: u64,
    /// The reply with the tag has come.
    pub finished: bool,
    /// Elements missing in the reply that has begun; 0 between replies.
    pending: u64,
    is_push: bool,
    state: State,
    /// The line that has begun.
    line: Vec<u8>,
}

enum State {
    /// In a line that begins with a marker.
    Line,
    /// In bytes that do not matter, so many to go.
    Skip(usize),
    /// In a string as long as the tag; `line` holds what has come of it.
    Tag,
}

impl Scanner {
    /// Waits for the bulk string `tag`.
    pub fn new(tag: [u8; TAG_LEN]) -> Scanner {
        Scanner {
            tag,
            replies: 0,
            errors: 0,
            finished: false,
            pending: 0,
            is_push: false,
            state: State::Line,
            line: Vec::new(),
        }
    }

    /// Takes the next bytes; `on_error` gets the number of the command (from 1) and the error's text.
    ///
    /// # Errors
    /// When the bytes are no RESP.
    pub fn feed(&mut self, mut bytes: &[u8], mut on_error: impl FnMut(u64, &[u8])) -> Result<(), String> {
        while !bytes.is_empty() && !self.finished {
            bytes = match self.state {
                State::Skip(left) => {
                    let taken = left.min(bytes.len());
                    self.state = if taken < left { State::Skip(left - taken) } else { State::Line };
                    if taken == left {
                        self.element_ends();
                    }
                    &bytes[taken..]
                }
                State::Tag => {
                    let taken = (TAG_LEN + 2 - self.line.len()).min(bytes.len());
                    self.line.extend_from_slice(&bytes[..taken]);
                    if self.line.len() == TAG_LEN + 2 {
                        self.finished = self.line[..TAG_LEN] == self.tag;
                        self.line.clear();
                        self.state = State::Line;
                        self.element_ends();
                    }
                    &bytes[taken..]
                }
                State::Line => self.lines(bytes, &mut on_error)?,
            };
        }
        Ok(())
    }

    /// Walks over whole lines, and keeps the last one if its end has not come.
    fn lines<'b>(&mut self, mut bytes: &'b [u8], on_error: &mut impl FnMut(u64, &[u8])) -> Result<&'b [u8], String> {
        if self.pending == 0 && self.line.is_empty() {
            while let Some(rest) = bytes.strip_prefix(OKS) {
                bytes = rest;
                self.replies += 8;
            }
            while let Some(rest) = bytes.strip_prefix(OK) {
                bytes = rest;
                self.replies += 1;
            }
            if bytes.is_empty() {
                return Ok(bytes);
            }
        }
        let Some(newline) = memchr::memchr(b'\n', bytes) else {
            self.keep(bytes)?;
            return Ok(&[]);
        };
        let (line, rest) = (&bytes[..newline], &bytes[newline + 1..]);
        if self.line.is_empty() {
            self.element(line, on_error)?;
        } else {
            self.keep(line)?;
            let line = std::mem::take(&mut self.line);
            self.element(&line, on_error)?;
            self.line = line;
            self.line.clear();
        }
        Ok(rest)
    }

    fn keep(&mut self, part: &[u8]) -> Result<(), String> {
        let is_text = self.line.first().or(part.first()).is_some_and(|marker| b"+-,(".contains(marker));
        if !is_text && self.line.len() + part.len() > HEADER_LEN_MAX {
            return Err("a header without end".to_owned());
        }
        let room = ERROR_LEN_MAX.saturating_sub(self.line.len()).max(1);
        self.line.extend_from_slice(&part[..part.len().min(room)]);
        Ok(())
    }

    /// Takes the line an element begins with, or is.
    fn element(&mut self, line: &[u8], on_error: &mut impl FnMut(u64, &[u8])) -> Result<(), String> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let Some((&marker, body)) = line.split_first() else { return Err("an empty line".to_owned()) };
        let top = self.pending == 0;
        if top {
            self.pending = 1;
            self.is_push = marker == b'>';
        }
        match marker {
            b'+' | b':' | b'_' | b',' | b'#' | b'(' => self.element_ends(),
            b'-' => {
                if top {
                    self.errors += 1;
                    on_error(self.replies + 1, body);
                }
                self.element_ends();
            }
            b'$' | b'=' | b'!' => match length(body)? {
                None => self.element_ends(),
                Some(TAG_LEN) if top && marker == b'$' => self.state = State::Tag,
                Some(len) => {
                    if top && marker == b'!' {
                        self.errors += 1;
                        on_error(self.replies + 1, b"(a long error)");
                    }
                    self.state = State::Skip(len.saturating_add(2));
                }
            },
            b'*' | b'~' | b'>' | b'%' | b'|' => {
                let len = length(body)?.unwrap_or(0) as u64;
                let elements = if matches!(marker, b'%' | b'|') { len.saturating_mul(2) } else { len };
                self.pending = self.pending.saturating_add(elements + u64::from(marker == b'|'));
                self.element_ends();
            }
            _ => return Err(format!("got \"{}\" as reply type byte", char::from(marker).escape_default())),
        }
        Ok(())
    }

    fn element_ends(&mut self) {
        self.pending -= 1;
        if self.pending == 0 && !self.is_push && !self.finished {
            self.replies += 1;
        }
    }
}

/// A length; `None` for -1, which means null.
fn length(digits: &[u8]) -> Result<Option<usize>, String> {
    if digits == b"-1" {
        return Ok(None);
    }
    let parsed = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
    parsed.map(Some).ok_or_else(|| format!("'{}' is no length", String::from_utf8_lossy(digits)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAG: [u8; TAG_LEN] = *b"abcdefghijklmnopqrst";

    fn scan(bytes: &[u8], step: usize) -> (u64, Vec<(u64, String)>, bool) {
        let mut scanner = Scanner::new(TAG);
        let mut errors = Vec::new();
        for part in bytes.chunks(step) {
            let note = |at, text: &[u8]| errors.push((at, String::from_utf8_lossy(text).into_owned()));
            scanner.feed(part, note).unwrap();
        }
        assert_eq!(scanner.errors, errors.len() as u64);
        (scanner.replies, errors, scanner.finished)
    }

    #[test]
    fn replies_of_all_kinds_are_counted_however_they_are_cut() {
        let mut bytes = b"+OK\r\n".repeat(19);
        bytes.extend_from_slice(b"-ERR no\r\n:5\r\n$5\r\na\nb\r\n\r\n$-1\r\n*-1\r\n*0\r\n");
        bytes.extend_from_slice(
            b"*2\r\n*1\r\n-ERR inner\r\n%1\r\n+k\r\n~2\r\n#t\r\n_\r\n>2\r\n+x\r\n:1\r\n|1\r\n+a\r\n:1\r\n,3.5\r\n",
        );
        bytes.extend_from_slice(b"$20\r\nabcdefghijklmnopqrsX\r\n-WRONG type\r\n$20\r\nabcdefghijklmnopqrst\r\n");
        let expected = (29, vec![(20, "ERR no".to_owned()), (29, "WRONG type".to_owned())], true);
        for step in 1..bytes.len() {
            assert_eq!(scan(&bytes, step), expected, "in steps of {step}");
        }
    }

    #[test]
    fn a_long_status_costs_no_memory() {
        let mut scanner = Scanner::new(TAG);
        for _ in 0..1000 {
            scanner.feed(&[b'+'; 1000], |_, _| ()).unwrap();
        }
        assert!(scanner.line.len() < 3000);
        scanner.feed(b"\r\n", |_, _| ()).unwrap();
        assert_eq!(scanner.replies, 1);
    }

    #[test]
    fn what_is_no_resp_is_an_error() {
        for bytes in [&b"hello\r\n"[..], b"$x\r\n", b"\r\n", b"*99999999999999999999999\r\n", &[b'$'; 100]] {
            assert!(Scanner::new(TAG).feed(bytes, |_, _| ()).is_err(), "{bytes:?}");
        }
    }
}
