//! Counts replies without building them: RESP2 and RESP3, cut into reads anywhere.

/// Where in a reply the last piece ended.
#[derive(Debug, Default)]
pub struct Scanner {
    /// Bytes of a bulk string, its end of line included, that are still to come.
    skip: usize,
    /// Elements that the reply still needs; 0 between replies.
    open: u64,
    /// Whether it is a push, which answers nothing.
    is_push: bool,
}

/// What the server sent is no RESP.
#[derive(Debug, PartialEq, Eq)]
pub struct Malformed;

/// What a piece of input held.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Scanned {
    /// Bytes used up; the rest, the beginning of a line, has to come again in front of what follows.
    pub consumed: usize,
    /// Replies that ended.
    pub replies: u64,
    /// The text of the first error among them.
    pub error: Option<String>,
}

/// The longest line in front of anything but a text.
const LINE_LEN_MAX: usize = 64 << 10;

impl Scanner {
    /// Goes through a piece of input.
    ///
    /// # Errors
    /// [`Malformed`]
    pub fn scan(&mut self, input: &[u8]) -> Result<Scanned, Malformed> {
        let mut scanned = Scanned::default();
        let mut at = 0;
        loop {
            if self.open == 0 {
                // The replies a benchmark sees most.
                while input[at..].starts_with(b"+OK\r\n") {
                    at += 5;
                    scanned.replies += 1;
                }
            }
            if self.skip > 0 {
                let some = self.skip.min(input.len() - at);
                at += some;
                self.skip -= some;
                if self.skip > 0 {
                    break;
                }
                self.element(&mut scanned);
                continue;
            }
            let Some(end) = memchr::memchr(b'\n', &input[at..]) else {
                if input.len() - at > LINE_LEN_MAX {
                    return Err(Malformed);
                }
                break;
            };
            let line = input[at..at + end].strip_suffix(b"\r").ok_or(Malformed)?;
            at += end + 1;
            self.line(line, &mut scanned)?;
        }
        scanned.consumed = at;
        Ok(scanned)
    }

    #[inline]
    fn line(&mut self, line: &[u8], scanned: &mut Scanned) -> Result<(), Malformed> {
        let (&kind, rest) = line.split_first().ok_or(Malformed)?;
        if self.open == 0 {
            self.open = 1;
            self.is_push = kind == b'>';
        }
        match kind {
            b'+' | b':' | b',' | b'#' | b'_' | b'(' => self.element(scanned),
            b'-' => {
                scanned.error.get_or_insert_with(|| String::from_utf8_lossy(rest).into_owned());
                self.element(scanned);
            }
            b'$' | b'=' | b'!' => match number(rest)? {
                -1 => self.element(scanned),
                len => {
                    self.skip = usize::try_from(len).map_err(|_| Malformed)?.checked_add(2).ok_or(Malformed)?;
                    if kind == b'!' {
                        scanned.error.get_or_insert_with(|| "an error".into());
                    }
                }
            },
            b'*' | b'~' | b'>' => match number(rest)? {
                -1 => self.element(scanned),
                len => self.aggregate(len, 1, scanned)?,
            },
            b'%' => self.aggregate(number(rest)?, 2, scanned)?,
            b'|' => {
                // Pairs about the element that follows, which is still to come.
                self.open += 1;
                self.aggregate(number(rest)?, 2, scanned)?;
            }
            _ => return Err(Malformed),
        }
        Ok(())
    }

    fn aggregate(&mut self, len: i64, width: u64, scanned: &mut Scanned) -> Result<(), Malformed> {
        let len = u64::try_from(len).map_err(|_| Malformed)?.checked_mul(width).ok_or(Malformed)?;
        self.open = self.open.checked_add(len).ok_or(Malformed)?;
        self.element(scanned);
        Ok(())
    }

    /// An element has ended, or an aggregate's head, which then counts for nothing.
    #[inline]
    fn element(&mut self, scanned: &mut Scanned) {
        self.open -= 1;
        if self.open == 0 && !self.is_push {
            scanned.replies += 1;
        }
    }
}

#[inline]
fn number(digits: &[u8]) -> Result<i64, Malformed> {
    if let [digit @ b'0'..=b'9'] = digits {
        return Ok(i64::from(digit - b'0'));
    }
    std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).ok_or(Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const REPLIES: &[&[u8]] = &[
        b"+OK\r\n",
        b"+PONG\r\n",
        b":12\r\n",
        b"$3\r\nabc\r\n",
        b"$0\r\n\r\n",
        b"$-1\r\n",
        b"*-1\r\n",
        b"*0\r\n",
        b"*2\r\n$1\r\na\r\n*1\r\n:1\r\n",
        b"%1\r\n+a\r\n*2\r\n_\r\n#t\r\n",
        b"~1\r\n,1.5\r\n",
        b"|1\r\n+ttl\r\n:5\r\n$2\r\n\r\n\r\n",
        b"=6\r\ntxt:ab\r\n",
        b"(123456789012345678901234567890\r\n",
        b"-ERR no\r\n",
    ];
    const PUSH: &[u8] = b">2\r\n+message\r\n$1\r\nx\r\n";

    proptest! {
        #[test]
        fn replies_are_counted_wherever_they_are_cut(
            picks in proptest::collection::vec(0..=REPLIES.len(), 1..40),
            cuts in proptest::collection::vec(any::<usize>(), 0..20),
        ) {
            let mut input = Vec::new();
            picks.iter().for_each(|&pick| input.extend_from_slice(REPLIES.get(pick).unwrap_or(&PUSH)));
            let expected = picks.iter().filter(|&&pick| pick < REPLIES.len()).count() as u64;
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut % (input.len() + 1)).collect();
            cuts.push(input.len());
            cuts.sort_unstable();
            let (mut scanner, mut held, mut replies, mut from) = (Scanner::default(), Vec::new(), 0, 0);
            for cut in cuts {
                held.extend_from_slice(&input[from..cut]);
                from = cut;
                let scanned = scanner.scan(&held).unwrap();
                replies += scanned.replies;
                held.drain(..scanned.consumed);
            }
            prop_assert_eq!((replies, held.len()), (expected, 0));
        }

        #[test]
        fn any_bytes_are_an_error_or_wait(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            _ = Scanner::default().scan(&bytes);
        }
    }

    #[test]
    fn the_first_error_is_told() {
        let scanned = Scanner::default().scan(b"+OK\r\n-ERR one\r\n-ERR two\r\n").unwrap();
        assert_eq!((scanned.replies, scanned.error.as_deref()), (3, Some("ERR one")));
    }
}
