//! How a connection executes its input in a turn of its own, and what follows from the end of a slice.

use std::sync::atomic::Ordering::Relaxed;

use onrush_engine::batch::part::Lane;
use onrush_engine::batch::runner::{Input as Bytes, Lanes};
use onrush_engine::batch::slice::{SliceEnd, SliceResult};
use onrush_engine::clients::session::Session;
use onrush_engine::observe::slow_batch::BatchTimes;
use onrush_resp::Decoder;

use super::{Connection, Input};
use crate::net::underway::Underway;
use crate::workers::scratch::{READ_LEN_MAX, ReplyBuffers, Scratch};

/// A query buffer of up to this many bytes is kept while it holds anything; a larger one is cut to size when most of it
/// is unused.
const QUERY_KEPT_MAX: usize = 2 * READ_LEN_MAX;

impl Connection {
    /// Executes from the connection's own query buffer; returns whether the slice's time ran out.
    pub(super) fn execute_query(&mut self, scratch: &mut Scratch) -> bool {
        let query = std::mem::take(&mut self.query);
        let result = self.run_slice(&query[self.query_pos..], scratch);
        self.query = query;
        self.query_pos += result.consumed;
        if let Some(requeued) = result.requeue {
            let mut requeued = requeued.into_vec();
            requeued.extend_from_slice(&self.query[self.query_pos..]);
            self.query = requeued;
            self.query_pos = 0;
        }
        if self.input == Input::UsedUp
            && !self.closing
            && let Some(segment) = self.later.pop_front()
        {
            self.append_segment(segment);
        } else if let SliceEnd::NeedBulk { at, len } = result.end {
            self.start_big_bulk(self.query_pos + at, len);
        }
        let rest = self.query.len() - self.query_pos;
        if rest == 0 {
            self.query = Vec::new();
            self.query_pos = 0;
        } else if self.query.capacity() > QUERY_KEPT_MAX && rest < self.query.capacity() / 4 {
            self.query = self.query[self.query_pos..].to_vec();
            self.query_pos = 0;
        }
        result.end == SliceEnd::TimeUp
    }

    /// Appends input that was read while commands waited.
    fn append_segment(&mut self, segment: Vec<u8>) {
        self.later_len -= segment.len();
        self.input = Input::Pending;
        if self.query_pos == self.query.len() {
            self.query = segment;
        } else {
            self.query.drain(..self.query_pos);
            self.query.extend_from_slice(&segment);
        }
        self.query_pos = 0;
    }

    /// Executes from the thread's read buffer, which starts with what the query buffer held.
    pub(super) fn execute_read(&mut self, input: &[u8], scratch: &mut Scratch) {
        let mut result = self.run_slice(input, scratch);
        self.keep_rest(input, &mut result);
    }

    /// Keeps the part of the thread's read buffer that a slice of work has left.
    #[inline]
    pub(super) fn keep_rest(&mut self, input: &[u8], result: &mut SliceResult) {
        debug_assert_eq!(self.query_pos, 0);
        self.query.clear();
        if let Some(requeued) = result.requeue.take() {
            self.query = requeued.into_vec();
        }
        if result.consumed < input.len() {
            self.query.extend_from_slice(&input[result.consumed..]);
        }
        if let SliceEnd::NeedBulk { at, len } = result.end {
            self.start_big_bulk(at, len);
        }
        if self.query.is_empty() {
            self.query = Vec::new();
        }
    }

    fn run_slice(&mut self, input: &[u8], scratch: &mut Scratch) -> SliceResult {
        let Scratch { runner, replies, .. } = scratch;
        let is_underway = self.underway.is_some();
        let mut alone = Alone { connection: self, replies, result: SliceResult::default() };
        let span = runner.run(input, &mut [Bytes::new(0, input.len())], &mut alone);
        let result = alone.result;
        if let Some(span) = span {
            if let Some(batch) = &mut self.underway {
                if is_underway {
                    batch.add_slice(span.first, span.last);
                }
            } else if result.end != SliceEnd::InputUsedUp {
                self.underway = Some(Box::new(Underway::new(span.first, span.last - span.first)));
            }
        }
        self.note_end(&result);
        result
    }

    /// What a slice of work needs of the connection.
    #[inline]
    pub fn lane(&mut self, replies: &mut ReplyBuffers) -> Lane<'_> {
        if self.reply.capacity() == 0 {
            self.reply.put_buffer(replies.take());
        }
        Lane {
            decoder: &mut self.decoder,
            session: &mut self.session,
            reply: &mut self.reply,
            spilled: &mut self.spilled,
        }
    }

    #[inline]
    pub(super) fn note_end(&mut self, result: &SliceResult) {
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
                self.closing = true;
                Input::UsedUp
            }
        };
        match result.end {
            SliceEnd::ReplyLimit => _ = self.session.handle.over_reply_limit.fetch_add(1, Relaxed),
            SliceEnd::HeldLong => self.stats.pipeline.held_back.add(1),
            SliceEnd::TimeUp => self.note_deferral(),
            _ => {}
        }
        self.note_underway(result);
        self.batch_commands += result.commands;
        self.unwritten_replies += result.commands;
        if self.input == Input::UsedUp && self.batch_commands > 0 {
            self.stats.pipeline.note_read(self.batch_commands);
            self.unpublished_commands += std::mem::take(&mut self.batch_commands);
        }
        self.unpublished_ms = Some(result.ended_ms);
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
