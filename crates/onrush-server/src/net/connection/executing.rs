//! How a connection executes its input in a turn of its own, and what follows from the end of a slice.

use std::sync::atomic::Ordering::Relaxed;

use onrush_engine::batch::part::Lane;
use onrush_engine::batch::runner::{Input as Bytes, Lanes};
use onrush_engine::batch::slice::{SliceEnd, SliceResult};
use onrush_engine::clients::session::Session;
use onrush_engine::observe::slow_batch::BatchTimes;
use onrush_resp::{Decoder, TLS_HANDSHAKE};

use super::{Connection, Input};
use crate::log::Complaints;
use crate::workers::scratch::{ReplyBuffers, Scratch};

/// At most some log lines about clients at the wrong port in a while.
static REFUSED: Complaints = Complaints::new();

impl Connection {
    /// Executes from the connection's own query buffer; returns whether the slice's time ran out.
    pub(super) fn execute_query(&mut self, scratch: &mut Scratch) -> bool {
        let (bytes, pos) = self.query.lend();
        let mut result = self.run_slice(&bytes[pos..], scratch);
        self.query.take_back(bytes, &mut result);
        if self.input == Input::UsedUp && !self.closing && self.query.go_on() {
            self.input = Input::Pending;
        } else if let SliceEnd::NeedBulk { at, len } = result.end {
            self.query.start_big(at, len);
        }
        self.query.shrink();
        result.end == SliceEnd::TimeUp
    }

    /// Executes from the thread's read buffer, which starts with what the query buffer held.
    pub(super) fn execute_read(&mut self, input: &[u8], scratch: &mut Scratch) {
        let mut result = self.run_slice(input, scratch);
        self.query.keep_rest(input, &mut result);
    }

    fn run_slice(&mut self, input: &[u8], scratch: &mut Scratch) -> SliceResult {
        let Scratch { runner, replies, .. } = scratch;
        let was_underway = self.batch.is_underway();
        let mut alone = Alone { connection: self, replies, result: SliceResult::default() };
        let span = runner.run(input, &mut [Bytes::new(0, input.len())], &mut alone);
        let result = alone.result;
        if let Some(span) = span {
            self.batch.note_span(span.first, span.last, was_underway, &result.end);
        }
        self.note_end(&result, input);
        result
    }

    /// What a slice of work needs of the connection.
    #[inline]
    pub fn lane(&mut self, replies: &mut ReplyBuffers) -> Lane<'_> {
        if self.reply.capacity() == 0 {
            self.reply.put_buffer(replies.take());
        }
        Lane {
            decoder: &mut self.query.decoder,
            session: &mut self.session,
            reply: &mut self.reply,
            spilled: &mut self.query.spilled,
        }
    }

    /// Notes how a slice of work on `input` has ended.
    #[inline]
    pub(super) fn note_end(&mut self, result: &SliceResult, input: &[u8]) {
        self.input = match result.end {
            SliceEnd::InputUsedUp | SliceEnd::NeedBulk { .. } => Input::UsedUp,
            SliceEnd::ReplyLimit | SliceEnd::TimeUp | SliceEnd::ChunkFull => Input::Pending,
            SliceEnd::Paused => {
                self.set_alarm(self.server.pause_look_ms(self.server.clock.unix_ms()));
                Input::Paused
            }
            SliceEnd::HeldLong => match self.server.offload.set_aside(&self.session.handle) {
                true => Input::HeldLong,
                false => Input::Pending,
            },
            SliceEnd::Blocked => {
                if let Some(deadline_ms) = self.session.waiter.as_ref().and_then(|waiter| waiter.deadline_ms()) {
                    self.set_alarm(deadline_ms);
                }
                Input::Blocked
            }
            SliceEnd::Close | SliceEnd::Malformed(_) => {
                if input.starts_with(TLS_HANDSHAKE) {
                    let handle = &self.session.handle;
                    REFUSED.tell(format_args!(
                        "Closing client id={} addr={} laddr={}: it speaks TLS, and this is not the TLS port",
                        handle.id, handle.addr, handle.laddr
                    ));
                }
                self.closing = true;
                Input::UsedUp
            }
        };
        match result.end {
            SliceEnd::ReplyLimit => {
                let handle = &self.session.handle;
                handle.over_reply_limit.fetch_add(1, Relaxed);
                // The socket may take them all before the buffers are published.
                handle.reply_bytes_max.fetch_max(self.reply.len() as u64, Relaxed);
                self.stats.pipeline.note_reply_bytes(self.reply.len() as u64);
            }
            SliceEnd::HeldLong => self.stats.pipeline.held_back.add(1),
            SliceEnd::TimeUp => self.note_deferral(),
            _ => {}
        }
        let is_used_up = self.input == Input::UsedUp;
        match self.input {
            Input::Blocked | Input::Paused => self.batch.note_wait(),
            _ => self.batch.time_slice(result, is_used_up),
        }
        self.batch.note_slice(result, is_used_up, self.stats);
    }
}

/// A connection that is executed in a turn of its own.
struct Alone<'a> {
    connection: &'a mut Connection,
    replies: &'a mut ReplyBuffers,
    result: SliceResult,
}

impl Lanes for Alone<'_> {
    fn decoding(&mut self, _: usize) -> (&mut Decoder, &mut Session) {
        self.connection.decoding()
    }

    fn lane(&mut self, _: usize) -> Lane<'_> {
        self.connection.lane(self.replies)
    }

    fn note_slow(&mut self, _: usize, times: BatchTimes) {
        self.connection.note_slow(times);
    }

    fn settle(&mut self, _: usize, _: &Bytes, result: &mut SliceResult) {
        self.result = std::mem::take(result);
    }

    fn give_up(&mut self, _: usize) {
        self.connection.kill();
    }
}
