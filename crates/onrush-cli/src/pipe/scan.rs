//! The facts that `--pipe` needs about the replies: their number, the errors, and the last one.

use onrush_resp::{AggregateKind, BulkKind, ReplyError, ReplyReader, ReplyVisitor, Scalar};

/// The length of the tag that the last reply carries.
pub const TAG_LEN: usize = 20;
/// How much is shown of an error that is a bulk string, in bytes.
const ERROR_LEN_MAX: usize = 1024;

/// Counts the replies, without building them.
pub struct Scanner {
    reader: ReplyReader,
    pub seen: Seen,
}

/// What has been seen of the replies.
pub struct Seen {
    tag: [u8; TAG_LEN],
    /// Replies so far, without pushes and the one with the tag.
    pub replies: u64,
    /// Errors among the replies.
    pub errors: u64,
    /// Whether the reply with the tag has come.
    pub finished: bool,
    /// Aggregates that are open.
    depth: usize,
    /// Bytes to keep of the present string: it may be the tag, or is an error.
    wanted: usize,
    kept: Vec<u8>,
}

/// Visits one piece of input.
struct Listener<'a, F> {
    seen: &'a mut Seen,
    on_error: F,
}

impl Scanner {
    /// Waits for the bulk string `tag`.
    pub fn new(tag: [u8; TAG_LEN]) -> Scanner {
        let seen = Seen { tag, replies: 0, errors: 0, finished: false, depth: 0, wanted: 0, kept: Vec::new() };
        Scanner { reader: ReplyReader::new(), seen }
    }

    /// Takes the next bytes; `on_error` gets the number of the command (from 1) and the error's text.
    ///
    /// # Errors
    /// When the bytes are not RESP.
    pub fn feed(&mut self, bytes: &[u8], on_error: impl FnMut(u64, &[u8])) -> Result<(), ReplyError> {
        self.reader.skim(bytes, &mut Listener { seen: &mut self.seen, on_error })
    }
}

impl<F: FnMut(u64, &[u8])> Listener<'_, F> {
    fn error(&mut self, text: &[u8]) {
        if self.seen.depth == 0 {
            self.seen.errors += 1;
            (self.on_error)(self.seen.replies + 1, text);
        }
    }
}

impl<F: FnMut(u64, &[u8])> ReplyVisitor for Listener<'_, F> {
    #[inline]
    fn scalar(&mut self, scalar: Scalar<'_>) {
        if let Scalar::Error(text) = scalar {
            self.error(text);
        }
    }

    #[inline]
    fn bulk_begins(&mut self, kind: BulkKind, len: usize) {
        self.seen.wanted = match kind {
            BulkKind::String if len == TAG_LEN && self.seen.depth == 0 => TAG_LEN,
            BulkKind::Error => ERROR_LEN_MAX,
            _ => 0,
        };
    }

    #[inline]
    fn bulk_part(&mut self, part: &[u8]) {
        let room = self.seen.wanted - self.seen.kept.len();
        if room > 0 {
            self.seen.kept.extend_from_slice(&part[..part.len().min(room)]);
        }
    }

    #[inline]
    fn bulk_ends(&mut self, kind: BulkKind) {
        if self.seen.wanted == 0 {
            return;
        }
        let mut kept = std::mem::take(&mut self.seen.kept);
        match kind {
            BulkKind::Error => self.error(&kept),
            _ => self.seen.finished |= kept == self.seen.tag,
        }
        kept.clear();
        self.seen.kept = kept;
    }

    fn open(&mut self, _: AggregateKind, _: usize) {
        self.seen.depth += 1;
    }

    fn close(&mut self, _: AggregateKind) {
        self.seen.depth -= 1;
    }

    #[inline]
    fn replies(&mut self, count: u64) {
        if !self.seen.finished {
            self.seen.replies += count;
        }
    }
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
        assert_eq!(scanner.seen.errors, errors.len() as u64);
        (scanner.seen.replies, errors, scanner.seen.finished)
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
    fn a_long_error_is_shown_in_part() {
        let mut bytes = b"!5000\r\n".to_vec();
        bytes.extend_from_slice(&[b'x'; 5000]);
        bytes.extend_from_slice(b"\r\n");
        for step in [1, 700, bytes.len()] {
            assert_eq!(scan(&bytes, step), (1, vec![(1, "x".repeat(ERROR_LEN_MAX))], false), "in steps of {step}");
        }
    }

    #[test]
    fn what_is_no_resp_is_an_error() {
        for bytes in [&b"hello\r\n"[..], b"$x\r\n", b"\r\n", b"*99999999999999999999999\r\n", &[b'$'; 100]] {
            assert!(Scanner::new(TAG).feed(bytes, |_, _| ()).is_err(), "{bytes:?}");
        }
    }
}
