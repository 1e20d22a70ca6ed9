//! Replies from bytes: the reading side of every client.

use crate::element::{
    AggregateKind, BulkKind, Head, ReplyError, Scalar, head, is_marker, line_len_max, reply_limits, short_head,
};

/// Receives the parts of a reply as they are read. The default methods do nothing, so a visitor pays only for the parts
/// that it wants.
pub trait ReplyVisitor {
    /// An element of one line.
    #[inline]
    fn scalar(&mut self, _scalar: Scalar<'_>) {}

    /// A string that arrived as a whole. By default the string comes as one part.
    #[inline]
    fn bulk(&mut self, kind: BulkKind, bytes: &[u8]) {
        self.bulk_begins(kind, bytes.len());
        self.bulk_part(bytes);
        self.bulk_ends(kind);
    }

    /// A string of `len` bytes begins. Its parts follow, then its end.
    #[inline]
    fn bulk_begins(&mut self, _kind: BulkKind, _len: usize) {}

    /// The next bytes of the string that has begun.
    #[inline]
    fn bulk_part(&mut self, _part: &[u8]) {}

    /// The string that has begun is complete.
    #[inline]
    fn bulk_ends(&mut self, _kind: BulkKind) {}

    /// An aggregate of `len` elements begins; each key and each value counts. Its elements follow, then its end.
    #[inline]
    fn open(&mut self, _kind: AggregateKind, _len: usize) {}

    /// The aggregate that was opened last is complete.
    #[inline]
    fn close(&mut self, _kind: AggregateKind) {}

    /// `count` replies have ended. Only [`ReplyReader::skim`] calls this; it does not report the statuses `OK`
    /// themselves.
    #[inline]
    fn replies(&mut self, _count: u64) {}
}

/// The kind of message that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The reply to a command.
    Reply,
    /// A push, which answers no command.
    Push,
}

/// Reads RESP2 and RESP3 replies that arrive in pieces, cut anywhere.
///
/// It reads each byte once and keeps the beginning of an incomplete line, so the caller need not keep any bytes.
/// Memory: that line, and the open aggregates, at most [`DEPTH_MAX`](reply_limits::DEPTH_MAX) of 16 bytes each.
#[derive(Debug, Default)]
pub struct ReplyReader {
    /// A reply has begun but not ended.
    begun: bool,
    /// The reply that has begun is a push.
    is_push: bool,
    /// Aggregates that have begun, the innermost last.
    open: Vec<Open>,
    bulk: Option<Bulk>,
    /// The beginning of a line whose end has not arrived.
    line: Vec<u8>,
}

/// An aggregate that has begun.
#[derive(Debug)]
struct Open {
    /// `None` for the element that attributes are about.
    kind: Option<AggregateKind>,
    /// Elements still to come.
    left: usize,
}

/// A string that has begun.
#[derive(Clone, Copy, Debug)]
struct Bulk {
    kind: BulkKind,
    /// Bytes still to come, without the end of the line.
    left: usize,
    /// How much of the end of the line is still to come.
    end: &'static [u8],
}

pub(crate) const LINE_END: &[u8] = b"\r\n";
pub(crate) const OK: &[u8] = b"+OK\r\n";
/// Eight times the reply that a mass insertion mostly gets.
const OKS: &[u8; 40] = b"+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n";
/// Room for a line that stays allocated between lines, in bytes.
const LINE_KEPT_MAX: usize = 1024;

/// The result of reading an element.
enum Step {
    /// The reply goes on.
    More,
    /// The input is used up.
    Cut,
    Ended(Ended),
}

impl ReplyReader {
    /// A reader at the start of a reply.
    pub fn new() -> ReplyReader {
        ReplyReader::default()
    }

    /// Whether the bytes read so far end with a reply.
    #[inline]
    pub fn is_between(&self) -> bool {
        !self.begun
    }

    /// Reads from `input[*at..]` to the end of a reply, and moves `at` to the first unread byte. `None` if the input
    /// ended first: all of it was read, and the next call goes on with the bytes that follow.
    ///
    /// # Errors
    /// The bytes are not RESP, or pass one of the [`reply_limits`]. After an error the reader must not be used again.
    #[inline]
    pub fn read<V: ReplyVisitor>(
        &mut self,
        input: &[u8],
        at: &mut usize,
        visitor: &mut V,
    ) -> Result<Option<Ended>, ReplyError> {
        let mut step = match self.bulk.take() {
            Some(bulk) => self.bulk_goes_on(bulk, input, at, visitor)?,
            None => Step::More,
        };
        loop {
            match step {
                Step::More => step = self.element(input, at, visitor)?,
                Step::Ended(ended) => {
                    self.begun = false;
                    return Ok(Some(ended));
                }
                Step::Cut => {
                    self.begun = !self.open.is_empty() || !self.line.is_empty() || self.bulk.is_some();
                    return Ok(None);
                }
            }
        }
    }

    /// Reads all of `input`. The visitor gets the number of replies that have ended, without pushes. It does not get
    /// the statuses `OK`, which are counted eight at once.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    #[inline]
    pub fn skim<V: ReplyVisitor>(&mut self, input: &[u8], visitor: &mut V) -> Result<(), ReplyError> {
        let mut at = 0;
        loop {
            if self.is_between() {
                let from = at;
                while input[at..].starts_with(OKS) {
                    at += OKS.len();
                }
                while input[at..].starts_with(OK) {
                    at += OK.len();
                }
                if at > from {
                    visitor.replies(((at - from) / OK.len()) as u64);
                }
            }
            match self.read(input, &mut at, visitor)? {
                Some(Ended::Reply) => visitor.replies(1),
                Some(Ended::Push) => {}
                None => return Ok(()),
            }
        }
    }

    /// Reads the line that an element starts with, and the string after it.
    #[inline]
    fn element<V: ReplyVisitor>(&mut self, input: &[u8], at: &mut usize, visitor: &mut V) -> Result<Step, ReplyError> {
        let rest = &input[*at..];
        if self.line.is_empty() {
            if let Some((head, len)) = short_head(rest) {
                *at += len;
                return self.take(head, input, at, visitor);
            }
        }
        let Some(newline) = memchr::memchr(b'\n', rest) else {
            *at = input.len();
            return self.keep(rest).map(|()| Step::Cut);
        };
        *at += newline + 1;
        if self.line.is_empty() {
            return self.take(head(&rest[..newline])?, input, at, visitor);
        }
        self.keep(&rest[..newline])?;
        let mut line = std::mem::take(&mut self.line);
        let step = self.take(head(&line)?, input, at, visitor)?;
        if line.capacity() <= LINE_KEPT_MAX {
            line.clear();
            self.line = line;
        }
        Ok(step)
    }

    /// Keeps a part of a line.
    fn keep(&mut self, part: &[u8]) -> Result<(), ReplyError> {
        let Some(&marker) = self.line.first().or(part.first()) else { return Ok(()) };
        if !is_marker(marker) {
            return Err(ReplyError::Marker(marker));
        }
        if self.line.len() + part.len() > line_len_max(marker) {
            return Err(ReplyError::LineEnd);
        }
        self.line.extend_from_slice(part);
        Ok(())
    }

    #[inline]
    fn take<V: ReplyVisitor>(
        &mut self,
        head: Head<'_>,
        input: &[u8],
        at: &mut usize,
        visitor: &mut V,
    ) -> Result<Step, ReplyError> {
        match head {
            Head::Scalar(scalar) => visitor.scalar(scalar),
            Head::Bulk(kind, len) => {
                let rest = &input[*at..];
                if rest.len().checked_sub(LINE_END.len()).is_none_or(|room| room < len) {
                    visitor.bulk_begins(kind, len);
                    return self.bulk_goes_on(Bulk { kind, left: len, end: LINE_END }, input, at, visitor);
                }
                let (bytes, end) = rest.split_at(len);
                if !end.starts_with(LINE_END) {
                    return Err(ReplyError::BulkEnd);
                }
                visitor.bulk(kind, bytes);
                *at += len + LINE_END.len();
            }
            Head::Aggregate(kind, len) => {
                if self.open.len() >= reply_limits::DEPTH_MAX {
                    return Err(ReplyError::Depth);
                }
                if kind == AggregateKind::Push && self.open.iter().all(|open| open.kind.is_none()) {
                    self.is_push = true;
                }
                visitor.open(kind, len);
                if len > 0 {
                    self.open.push(Open { kind: Some(kind), left: len });
                    return Ok(Step::More);
                }
                return Ok(self.aggregate_ends(kind, visitor));
            }
        }
        Ok(self.element_ends(visitor))
    }

    /// Goes on with a string whose beginning was read.
    fn bulk_goes_on<V: ReplyVisitor>(
        &mut self,
        mut bulk: Bulk,
        input: &[u8],
        at: &mut usize,
        visitor: &mut V,
    ) -> Result<Step, ReplyError> {
        let rest = &input[*at..];
        let (part, rest) = rest.split_at(bulk.left.min(rest.len()));
        if !part.is_empty() {
            visitor.bulk_part(part);
            bulk.left -= part.len();
        }
        let (end, _) = rest.split_at(bulk.end.len().min(rest.len()));
        let Some(end_left) = bulk.end.strip_prefix(end) else { return Err(ReplyError::BulkEnd) };
        bulk.end = end_left;
        *at += part.len() + end.len();
        if !bulk.end.is_empty() {
            self.bulk = Some(bulk);
            return Ok(Step::Cut);
        }
        visitor.bulk_ends(bulk.kind);
        Ok(self.element_ends(visitor))
    }

    fn aggregate_ends<V: ReplyVisitor>(&mut self, kind: AggregateKind, visitor: &mut V) -> Step {
        visitor.close(kind);
        if kind == AggregateKind::Attribute {
            self.open.push(Open { kind: None, left: 1 });
            return Step::More;
        }
        self.element_ends(visitor)
    }

    #[inline]
    fn element_ends<V: ReplyVisitor>(&mut self, visitor: &mut V) -> Step {
        while let Some(innermost) = self.open.last_mut() {
            innermost.left -= 1;
            if innermost.left > 0 {
                return Step::More;
            }
            let kind = innermost.kind;
            self.open.pop();
            match kind {
                Some(AggregateKind::Attribute) => return self.aggregate_ends(AggregateKind::Attribute, visitor),
                Some(kind) => visitor.close(kind),
                None => {}
            }
        }
        Step::Ended(if std::mem::take(&mut self.is_push) { Ended::Push } else { Ended::Reply })
    }
}
