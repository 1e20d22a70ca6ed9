//! Counts replies without building them.

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
}

impl Scanner {
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
    fn the_first_error_is_told() {
        let scanned = Scanner::default().scan(b"+OK\r\n-ERR one\r\n-ERR two\r\n").unwrap();
        assert_eq!((scanned.replies, scanned.error.as_deref()), (3, Some("ERR one")));
        let inside = Scanner::default().scan(b"*1\r\n-ERR one\r\n>1\r\n+message\r\n").unwrap();
        assert_eq!((inside.replies, inside.error.as_deref()), (1, Some("ERR one")));
        assert!(Scanner::default().scan(b"!3\r\nERR\r\n").unwrap().error.is_some());
    }
}
