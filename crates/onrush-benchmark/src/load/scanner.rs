//! Counts replies without building them.

use crate::load::checker::{Checker, Checking};
use onrush_resp::{BulkKind, ReplyError, ReplyReader, ReplyVisitor, Scalar};

/// Counts the replies of one connection.
#[derive(Debug, Default)]
pub struct Scanner {
    reader: ReplyReader,
}

/// What a piece of input held.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Scanned {
    /// Replies that ended; pushes answer nothing and do not count.
    pub replies: u64,
    /// The text of the first error among them, or inside of one.
    pub error: Option<String>,
    /// How many of them send elsewhere in a cluster, and the text of the last one.
    pub redirects: u64,
    pub redirect: Option<String>,
}

impl Scanner {
    /// The same, and compares the replies on the way.
    ///
    /// # Errors
    /// As [`scan`](Self::scan).
    pub fn check(&mut self, input: &[u8], checker: &mut Checker) -> Result<Scanned, ReplyError> {
        let mut checking = Checking { scanned: Scanned::default(), checker };
        self.reader.skim(input, &mut checking)?;
        Ok(checking.scanned)
    }

    /// Goes through a piece of input, all of it.
    ///
    /// # Errors
    /// The bytes are no RESP.
    #[inline]
    pub fn scan(&mut self, input: &[u8]) -> Result<Scanned, ReplyError> {
        let mut scanned = Scanned::default();
        self.reader.skim(input, &mut scanned)?;
        Ok(scanned)
    }
}

impl ReplyVisitor for Scanned {
    #[inline]
    fn scalar(&mut self, scalar: Scalar<'_>) {
        if let Scalar::Error(text) = scalar {
            if text.starts_with(b"MOVED ") || text.starts_with(b"ASK ") {
                self.redirects += 1;
                self.redirect = Some(String::from_utf8_lossy(text).into_owned());
                return;
            }
            self.error.get_or_insert_with(|| String::from_utf8_lossy(text).into_owned());
        }
    }

    #[inline]
    fn bulk_begins(&mut self, kind: BulkKind, _: usize) {
        if kind == BulkKind::Error {
            self.error.get_or_insert_with(|| "an error".into());
        }
    }

    #[inline]
    fn replies(&mut self, count: u64) {
        self.replies += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_compared_with_the_values_of_their_commands() {
        let path = std::env::temp_dir().join(format!("onrush-checker-{}", std::process::id()));
        std::fs::write(&path, "key,data\na,one\nb,\nc,three\n").unwrap();
        let items = std::sync::Arc::new(crate::load::items::Items::read(&path).unwrap());
        std::fs::remove_file(&path).unwrap();
        let input =
            b"+OK\r\n$3\r\none\r\n+OK\r\n+OK\r\n$0\r\n\r\n$5\r\nthrex\r\n$-1\r\n$2\r\non\r\n+OK\r\n$3\r\none\r\n";
        let expected = [None, Some(0), None, None, Some(1), Some(2), Some(0), Some(0), Some(0), Some(0)];
        for piece in 1..input.len() {
            let (mut scanner, mut checker) = (Scanner::default(), Checker::new(items.clone()));
            expected.into_iter().for_each(|item| checker.expect(item));
            let replies =
                input.chunks(piece).map(|some| scanner.check(some, &mut checker).unwrap().replies).sum::<u64>();
            assert_eq!((replies, checker.checked.replies, checker.checked.wrong), (10, 7, 4), "{piece}");
            assert_eq!(checker.checked.key.as_deref(), Some("c"));
        }
    }

    #[test]
    fn redirects_are_counted_apart_from_other_errors() {
        let scanned = Scanner::default().scan(b"-MOVED 1 h:1\r\n+OK\r\n-ASK 2 h:1\r\n-ERR one\r\n").unwrap();
        assert_eq!((scanned.replies, scanned.redirects, scanned.redirect.as_deref()), (4, 2, Some("ASK 2 h:1")));
        assert_eq!(scanned.error.as_deref(), Some("ERR one"));
    }

    #[test]
    fn the_first_error_is_told() {
        let scanned = Scanner::default().scan(b"+OK\r\n-ERR one\r\n-ERR two\r\n").unwrap();
        assert_eq!((scanned.replies, scanned.error.as_deref()), (3, Some("ERR one")));
        let inside = Scanner::default().scan(b"*1\r\n-ERR one\r\n>1\r\n+message\r\n").unwrap();
        assert_eq!((inside.replies, inside.error.as_deref()), (1, Some("ERR one")));
        assert!(Scanner::default().scan(b"!3\r\nERR\r\n").unwrap().error.is_some());
    }
}
