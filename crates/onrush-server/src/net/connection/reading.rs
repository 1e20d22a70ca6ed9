//! How a connection reads, and into which buffer.

use std::io::{self, ErrorKind};

use super::big_bulk::BigBulk;
use super::{Connection, Input};
use crate::workers::scratch::{CARRY_LEN_MAX, READ_LEN_MAX, Scratch};

/// Commands that must wait are kept in segments, so that nothing moves as they pile up: each new segment has room for
/// as many bytes as wait already, within these bounds.
const SEGMENT_LEN_MIN: usize = 16 * 1024;
const SEGMENT_LEN_MAX: usize = 1024 * 1024;

/// First room for a large argument, in bytes, whatever length was announced.
const BIG_BULK_START: usize = 64 * 1024;

impl Connection {
    /// Moves the bytes of a large argument that have arrived, from `at` in the query buffer on, into a buffer of their
    /// own.
    pub(super) fn start_big_bulk(&mut self, at: usize, len: usize) {
        let mut buf = Vec::with_capacity((self.query.len() - at).max(BIG_BULK_START).min(len + 2));
        buf.extend_from_slice(&self.query[at..]);
        self.query.truncate(at);
        self.big = Some(BigBulk { buf, len });
    }

    /// Reads into the buffer that suits the connection's state; 0 is the end of the stream.
    pub(super) fn read(&mut self, scratch: &mut Scratch) -> io::Result<usize> {
        let stats = self.stats;
        let len = if self.big.is_some() {
            self.read_big()?
        } else if self.input == Input::UsedUp && self.query.len() <= CARRY_LEN_MAX && self.query_pos == 0 {
            return self.read_and_execute(scratch);
        } else if self.input == Input::UsedUp {
            self.query.drain(..std::mem::take(&mut self.query_pos));
            self.query.reserve(READ_LEN_MAX);
            let len = self.socket.read_behind(&mut self.query, READ_LEN_MAX)?;
            self.input = Input::Pending;
            len
        } else {
            self.read_later()?
        };
        stats.net_input_bytes.add(len as u64);
        stats.reads_processed.add(1);
        // A client that sends is not idle, even if nothing is executed yet.
        self.note_time();
        Ok(len)
    }

    /// Moves the content of the query buffer into the thread's read buffer, reads after it, and executes from there.
    fn read_and_execute(&mut self, scratch: &mut Scratch) -> io::Result<usize> {
        let stats = self.stats;
        let mut space = std::mem::take(&mut scratch.read);
        // A panic in the middle of a slice may have lost it.
        space.resize(READ_LEN_MAX + CARRY_LEN_MAX, 0);
        let carried = self.query.len();
        space[..carried].copy_from_slice(&self.query);
        let read = self.socket.read(&mut space[carried..]);
        if let Ok(len @ 1..) = read {
            stats.net_input_bytes.add(len as u64);
            stats.reads_processed.add(1);
            self.execute_read(&space[..carried + len], scratch);
        }
        scratch.read = space;
        read
    }

    /// Reads after commands that wait.
    fn read_later(&mut self) -> io::Result<usize> {
        if !self.socket.is_readable() {
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
        let read = self.socket.read_behind(&mut segment, free);
        if !segment.is_empty() {
            self.later.push_back(segment);
        }
        self.later_len += *read.as_ref().unwrap_or(&0);
        read
    }

    fn read_big(&mut self) -> io::Result<usize> {
        let Some(big) = &mut self.big else { return Ok(0) };
        if !self.socket.is_readable() {
            return Err(ErrorKind::WouldBlock.into());
        }
        big.make_room()?;
        let room = big.buf.capacity().min(big.total()) - big.buf.len();
        let len = self.socket.read_behind(&mut big.buf, room)?;
        if big.buf.len() == big.total()
            && let Some(mut big) = self.big.take()
        {
            big.buf.truncate(big.len);
            self.decoder.supply_owned(big.buf);
            self.spilled = true;
            self.input = Input::Pending;
        }
        Ok(len)
    }
}
