//! What a connection has read and not executed yet.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};

use onrush_engine::batch::slice::{SliceEnd, SliceResult};
use onrush_resp::Decoder;

use super::big_bulk::BigBulk;
use crate::net::socket::Socket;
use crate::workers::scratch::{CARRY_LEN_MAX, READ_LEN_MAX};

/// Commands that must wait are kept in segments, so that nothing moves as they pile up: each new segment has room for
/// as many bytes as wait already, within these bounds.
const SEGMENT_LEN_MIN: usize = 16 * 1024;
const SEGMENT_LEN_MAX: usize = 1024 * 1024;

/// First room for a large argument, in bytes, whatever length was announced.
const BIG_BULK_START: usize = 64 * 1024;

/// A buffer of up to this many bytes is kept while it holds anything; a larger one is cut to size when most of it is
/// unused.
const KEPT_MAX: usize = 2 * READ_LEN_MAX;

/// Input in order: the large argument that the decoder waits for, if any; otherwise the bytes from `pos` on, then the
/// segments that were read while those had to wait.
pub(super) struct Query {
    pub(super) decoder: Decoder,
    bytes: Vec<u8>,
    pos: usize,
    later: VecDeque<Vec<u8>>,
    later_len: usize,
    big: Option<BigBulk>,
    /// Whether a slice has used or filled memory of its own for arguments.
    pub(super) spilled: bool,
}

impl Query {
    pub(super) fn new() -> Self {
        Self {
            decoder: Decoder::new(),
            bytes: Vec::new(),
            pos: 0,
            later: VecDeque::new(),
            later_len: 0,
            big: None,
            spilled: false,
        }
    }

    /// Bytes in it.
    pub(super) fn len(&self) -> usize {
        let big = self.big.as_ref().map_or(0, |big| big.buf.len());
        self.bytes.len() - self.pos + self.later_len + big + self.decoder.held_bytes()
    }

    /// Bytes allocated and not used.
    pub(super) fn free_len(&self) -> usize {
        let big = self.big.as_ref().map_or(0, |big| big.buf.capacity() - big.buf.len());
        self.bytes.capacity() - self.bytes.len() + big
    }

    /// Whether it needs no memory of its own.
    #[inline]
    pub(super) fn is_unallocated(&self) -> bool {
        self.bytes.capacity() == 0
    }

    /// Whether a large argument is under way.
    #[inline]
    pub(super) fn has_big(&self) -> bool {
        self.big.is_some()
    }

    /// Takes the large argument that is under way, whose connection ends.
    pub(super) fn take_big(&mut self) -> Option<Vec<u8>> {
        self.big.take().map(|big| big.buf)
    }

    /// Whether the thread's read buffer may take over all that is there, but for a large argument.
    #[inline]
    pub(super) fn can_be_carried(&self) -> bool {
        self.pos == 0 && self.bytes.len() <= CARRY_LEN_MAX
    }

    /// The bytes that the thread's read buffer takes over.
    #[inline]
    pub(super) fn carried(&self) -> &[u8] {
        debug_assert!(self.can_be_carried());
        &self.bytes
    }

    /// All was executed that was carried.
    #[inline]
    pub(super) fn end_carried(&mut self) {
        if !self.bytes.is_empty() {
            std::hint::cold_path();
            self.bytes = Vec::new();
        }
    }

    /// Lends the bytes that are to be executed, and where they begin; [`Query::take_back`] follows.
    pub(super) fn lend(&mut self) -> (Vec<u8>, usize) {
        (std::mem::take(&mut self.bytes), self.pos)
    }

    /// Takes them back after a slice.
    pub(super) fn take_back(&mut self, bytes: Vec<u8>, result: &mut SliceResult) {
        self.bytes = bytes;
        self.pos += result.consumed;
        if let Some(requeued) = result.requeue.take() {
            let mut requeued = requeued.into_vec();
            requeued.extend_from_slice(&self.bytes[self.pos..]);
            (self.bytes, self.pos) = (requeued, 0);
        }
    }

    /// Goes on with the input that was read later; returns whether there is any.
    pub(super) fn go_on(&mut self) -> bool {
        let Some(segment) = self.later.pop_front() else { return false };
        self.later_len -= segment.len();
        if self.pos == self.bytes.len() {
            self.bytes = segment;
        } else {
            self.bytes.drain(..self.pos);
            self.bytes.extend_from_slice(&segment);
        }
        self.pos = 0;
        true
    }

    /// The decoder wants a large argument of `len` bytes, of which those from `at` in the present bytes have come: it
    /// gets a buffer of its own.
    pub(super) fn start_big(&mut self, at: usize, len: usize) {
        let at = self.pos + at;
        let mut buf = Vec::with_capacity((self.bytes.len() - at).max(BIG_BULK_START).min(len + 2));
        buf.extend_from_slice(&self.bytes[at..]);
        self.bytes.truncate(at);
        self.big = Some(BigBulk { buf, len });
    }

    /// Gives memory back that is not used.
    pub(super) fn shrink(&mut self) {
        let rest = self.bytes.len() - self.pos;
        if rest == 0 {
            (self.bytes, self.pos) = (Vec::new(), 0);
        } else if self.bytes.capacity() > KEPT_MAX && rest < self.bytes.capacity() / 4 {
            (self.bytes, self.pos) = (self.bytes[self.pos..].to_vec(), 0);
        }
    }

    /// Keeps the part of the thread's read buffer that a slice of work has left.
    #[inline]
    pub(super) fn keep_rest(&mut self, input: &[u8], result: &mut SliceResult) {
        debug_assert_eq!(self.pos, 0);
        self.bytes.clear();
        if let Some(requeued) = result.requeue.take() {
            self.bytes = requeued.into_vec();
        }
        if result.consumed < input.len() {
            self.bytes.extend_from_slice(&input[result.consumed..]);
        }
        if let SliceEnd::NeedBulk { at, len } = result.end {
            self.start_big(at, len);
        }
        if self.bytes.is_empty() {
            self.bytes = Vec::new();
        }
    }

    /// Reads behind the present bytes; 0 is the end of the stream.
    pub(super) fn read_behind(&mut self, socket: &mut Socket) -> io::Result<usize> {
        self.bytes.drain(..std::mem::take(&mut self.pos));
        self.bytes.reserve(READ_LEN_MAX);
        socket.read_behind(&mut self.bytes, READ_LEN_MAX)
    }

    /// Reads behind everything.
    pub(super) fn read_later(&mut self, socket: &mut Socket) -> io::Result<usize> {
        if !socket.is_readable() {
            return Err(ErrorKind::WouldBlock.into());
        }
        let mut segment = match self.later.pop_back() {
            Some(segment) if segment.len() < segment.capacity() => segment,
            full => {
                self.later.extend(full);
                Vec::with_capacity(self.later_len.clamp(SEGMENT_LEN_MIN, SEGMENT_LEN_MAX))
            }
        };
        let free = segment.capacity() - segment.len();
        let read = socket.read_behind(&mut segment, free);
        if !segment.is_empty() {
            self.later.push_back(segment);
        }
        self.later_len += *read.as_ref().unwrap_or(&0);
        read
    }

    /// Reads more of the large argument.
    pub(super) fn read_big(&mut self, socket: &mut Socket) -> io::Result<usize> {
        let Some(big) = &mut self.big else { return Ok(0) };
        if !socket.is_readable() {
            return Err(ErrorKind::WouldBlock.into());
        }
        big.make_room()?;
        let room = big.buf.capacity().min(big.total()) - big.buf.len();
        let len = socket.read_behind(&mut big.buf, room)?;
        if big.buf.len() == big.total()
            && let Some(mut big) = self.big.take()
        {
            big.buf.truncate(big.len);
            self.decoder.supply_owned(big.buf);
            self.spilled = true;
        }
        Ok(len)
    }
}
