//! How a connection writes: its replies, and the messages in its client's outbox.

use std::hint::cold_path;
use std::io::{self, ErrorKind, IoSlice};

use onrush_engine::batch::slice::SliceResult;
use onrush_engine::observe::slow::note_batch;

use super::{After, Connection, Input};
use crate::workers::scratch::ReplyBuffers;

/// Slices of one vectored write.
const WRITE_SLICES_MAX: usize = 64;

/// Most bytes written in one turn to a client that reads as fast as the server writes.
const WRITE_BUDGET_BYTES: usize = 1024 * 1024;

/// Unread replies a client may cause before it has authenticated, in bytes (as in Redis).
const UNAUTHENTICATED_REPLY_BYTES_MAX: usize = 1024;

impl Connection {
    /// What the connection wants if it only has to write.
    pub(super) fn after_writing(&self) -> After {
        // No event will come for a socket that takes more: it was never full.
        let may_write = !self.reply.is_empty() && self.socket.is_writable() && !self.is_held();
        if may_write { After::Again } else { After::Wait }
    }

    /// Writes the replies of `commands` commands with one call if they are in one piece; returns whether all are
    /// written, which is the usual case. Then their buffer is given back.
    #[inline]
    pub(super) fn write_all(&mut self, replies: &mut ReplyBuffers, commands: u32) -> io::Result<bool> {
        if self.writable_bytes() < self.reply.len() {
            return Ok(false);
        }
        let Some(bytes) = self.reply.as_single_slice() else { return Ok(false) };
        if !bytes.is_empty() {
            let len = bytes.len();
            let written = match self.socket.write(bytes) {
                Ok(written) => written,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            };
            self.count_write(written);
            self.note_written(written);
            if written < len {
                cold_path();
                self.reply.advance(written);
                return Ok(false);
            }
            if commands > 0 {
                self.stats.pipeline.note_exchange(commands, len);
            }
        } else if commands > 0 {
            cold_path();
            self.stats.pipeline.note_read(commands);
        }
        replies.give(self.reply.take_buffer());
        Ok(true)
    }

    #[inline]
    fn count_write(&self, len: usize) {
        self.stats.net_output_bytes.add(len as u64);
        self.stats.writes_processed.add(1);
    }

    /// Writes what the kernel takes; [`After::End`] if the connection is over.
    pub(super) fn write_and_publish(&mut self, replies: &mut ReplyBuffers) -> After {
        if !self.reply.is_empty() && self.write().is_err() {
            return After::End;
        }
        if self.reply.is_empty() {
            replies.give(self.reply.take_buffer());
            if self.input == Input::UsedUp {
                self.end_batch(None);
            }
            if self.batch.unwritten_replies > 0 {
                self.stats.pipeline.note_write(std::mem::take(&mut self.batch.unwritten_replies));
            }
            if self.closing || (self.eof && self.input == Input::UsedUp) {
                if !self.is_of_replica() {
                    self.socket.shutdown();
                }
                return After::End;
            }
        } else if !self.session.is_authenticated() && self.reply.len() > UNAUTHENTICATED_REPLY_BYTES_MAX {
            tracing::warn!("Closing client {}: too many replies before it authenticated", self.session.handle.addr);
            return After::End;
        } else if self.leaves_too_much_unread() {
            return After::End;
        } else if self.input == Input::UsedUp {
            self.batch.note_unwritten();
        }
        if let Some(now_ms) = self.batch.unpublished_ms.take() {
            let commands = std::mem::take(&mut self.batch.unpublished_commands);
            self.publish(now_ms, commands);
        }
        After::Wait
    }

    /// All replies of the batch are written: if it took long, this goes to the log of slow batches. `last` as of
    /// [`Batch::end`](super::batch::Batch::end).
    #[inline]
    pub(super) fn end_batch(&mut self, last: Option<&SliceResult>) {
        if let Some(times) = self.batch.end(last) {
            note_batch(self.server, &self.session.handle, times);
        }
    }

    /// Moves messages from the outbox to the replies while the replies are short.
    #[inline]
    pub(super) fn take_mail(&mut self, replies: &mut ReplyBuffers) {
        if self.session.handle.has_mail() && !self.closing {
            if self.reply.capacity() == 0 {
                self.reply.put_buffer(replies.take());
            }
            self.session.take_mail(&mut self.reply, 0);
            self.session.owed.has_seen_data = true;
        }
    }

    /// Whether the client has passed `client-output-buffer-limit`.
    #[cold]
    fn leaves_too_much_unread(&self) -> bool {
        let unread = self.reply.len() + self.socket.output_bytes();
        self.session.handle.closes_as_slow(unread as u64, self.server, self.thread)
    }

    /// Writes what the kernel takes, up to a budget.
    fn write(&mut self) -> io::Result<()> {
        let mut writable = self.writable_bytes();
        let mut budget = WRITE_BUDGET_BYTES;
        while !self.reply.is_empty() && budget > 0 && writable > 0 {
            let written = match self.reply.as_single_slice() {
                Some(bytes) => self.socket.write(&bytes[..bytes.len().min(writable)]),
                None => {
                    let mut slices = [IoSlice::new(&[]); WRITE_SLICES_MAX];
                    let count = self.reply.slices_up_to(writable, &mut slices);
                    self.socket.write_vectored(&slices[..count])
                }
            };
            match written {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(len) => {
                    self.count_write(len);
                    self.reply.advance(len);
                    self.note_written(len);
                    writable = writable.saturating_sub(len);
                    budget = budget.saturating_sub(len);
                    // A client that reads its replies is not idle.
                    self.note_time();
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
