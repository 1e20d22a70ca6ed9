//! How a connection reads, and into which buffer.

use std::io;

use super::{Connection, Input};
use crate::workers::scratch::{CARRY_LEN_MAX, READ_LEN_MAX, Scratch};

impl Connection {
    /// Reads into the buffer that suits the connection's state; 0 is the end of the stream.
    pub(super) fn read(&mut self, scratch: &mut Scratch) -> io::Result<usize> {
        let stats = self.stats;
        let len = if self.query.has_big() {
            let len = self.query.read_big(&mut self.socket)?;
            if !self.query.has_big() {
                self.input = Input::Pending;
            }
            len
        } else if self.input != Input::UsedUp {
            self.query.read_later(&mut self.socket)?
        } else if self.query.can_be_carried() {
            return self.read_and_execute(scratch);
        } else {
            let len = self.query.read_behind(&mut self.socket)?;
            self.input = Input::Pending;
            len
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
        let carried = self.query.carried().len();
        space[..carried].copy_from_slice(self.query.carried());
        let read = self.socket.read(&mut space[carried..]);
        if let Ok(len @ 1..) = read {
            stats.net_input_bytes.add(len as u64);
            stats.reads_processed.add(1);
            self.execute_read(&space[..carried + len], scratch);
        }
        scratch.read = space;
        read
    }
}
