//! A round: what several connections have sent is one batch.
//!
//! A round reads light connections, those that only have new commands to read and execute, one after the other into the
//! thread's read buffer. The runner executes the commands; then the round writes the replies.
//!
//! A panic while a connection is read or written ends only that connection.

use std::hint::cold_path;
use std::time::{Duration, Instant};

use onrush_engine::batch::part::Lane;
use onrush_engine::batch::runner::{Input, Lanes, Runner, caught};
use onrush_engine::batch::slice::SliceResult;
use onrush_engine::clients::session::Session;
use onrush_engine::observe::slow_batch::BatchTimes;
use onrush_resp::Decoder;
use slab::Slab;

use crate::net::connection::{After, Received};
use crate::workers::place::Place;
use crate::workers::scratch::{CARRY_LEN_MAX, ReplyBuffers};

/// Connections read before what they sent is executed.
const GROUP_LEN_MAX: usize = 64;

/// With less room than this in the read buffer no further connection is read.
const ROOM_MIN: usize = 2 * CARRY_LEN_MAX;

/// Most bytes read from a connection once a round has taken longer than a slice: connections that have sent little are
/// still served in the same round, and do not wait for those that have sent much.
const LATE_READ_LEN: usize = 2 * 1024;

/// Lists of a group, kept for their memory.
#[derive(Default)]
pub(crate) struct Lists {
    inputs: Vec<Input>,
    /// The connections that sent the inputs.
    senders: Vec<usize>,
}

/// A round of one worker.
pub(crate) struct Round<'a> {
    pub(crate) places: &'a mut Slab<Place>,
    pub(crate) runner: &'a mut Runner,
    pub(crate) replies: &'a mut ReplyBuffers,
    /// Connections that need a turn of their own.
    pub(crate) heavy: &'a mut Vec<usize>,
    /// Connections that have ended.
    pub(crate) ended: &'a mut Vec<usize>,
    /// `pipeline-slice-us`.
    pub(crate) slice: Duration,
}

impl Round<'_> {
    /// Serves the connections at `ready` that are light; the others are put into `heavy`. `space` is what they are read into.
    /// Returns when the last command was executed, if there was one.
    pub(crate) fn run(&mut self, ready: &[usize], space: &mut [u8], lists: &mut Lists) -> Option<Instant> {
        let mut rest = ready;
        let (mut first, mut last) = (None, None);
        let mut read_len_max = usize::MAX;
        while !rest.is_empty() {
            lists.inputs.clear();
            lists.senders.clear();
            rest = self.receive(rest, read_len_max, space, lists);
            if !lists.inputs.is_empty() {
                let Self { places, runner, replies, heavy, ended, slice } = self;
                let mut group = Group { senders: &lists.senders, space, places, replies, heavy, ended };
                if let Some(span) = runner.run(space, &mut lists.inputs, &mut group) {
                    last = Some(span.last);
                    if span.last - *first.get_or_insert(span.first) >= *slice {
                        cold_path();
                        read_len_max = LATE_READ_LEN;
                    }
                }
            }
        }
        last
    }

    /// Reads what connections have sent; returns those that have to wait for the next group.
    fn receive<'r>(
        &mut self,
        ready: &'r [usize],
        read_len_max: usize,
        space: &mut [u8],
        lists: &mut Lists,
    ) -> &'r [usize] {
        let mut at = 0;
        loop {
            let done = caught(|| {
                let mut start = lists.inputs.last().map_or(0, |input| input.end);
                while let Some(&place) = ready.get(at)
                    && lists.inputs.len() < GROUP_LEN_MAX
                    && space.len() - start >= ROOM_MIN
                {
                    if let Some(Place { connection, is_ready, .. }) = self.places.get_mut(place) {
                        *is_ready = false;
                        match connection.receive(&mut space[start..], read_len_max) {
                            Received::Bytes(len) => {
                                lists.inputs.push(Input::new(start, start + len));
                                lists.senders.push(place);
                                start += len;
                            }
                            Received::Nothing => {}
                            Received::NeedsTurn => self.heavy.push(place),
                            Received::Failed => self.ended.push(place),
                        }
                    }
                    at += 1;
                }
            });
            if done.is_some() {
                return &ready[at..];
            }
            self.ended.push(ready[at]);
            at += 1;
        }
    }
}

/// The connections of a round that were read together.
struct Group<'a, 'r> {
    /// Their places, by the numbers of their inputs.
    senders: &'r [usize],
    space: &'r [u8],
    places: &'a mut Slab<Place>,
    replies: &'a mut ReplyBuffers,
    heavy: &'a mut Vec<usize>,
    ended: &'a mut Vec<usize>,
}

impl Lanes for Group<'_, '_> {
    #[inline]
    fn decoding(&mut self, at: usize) -> (&mut Decoder, &mut Session) {
        self.places[self.senders[at]].connection.decoding()
    }

    #[inline]
    fn lane(&mut self, at: usize) -> Lane<'_> {
        self.places[self.senders[at]].connection.lane(self.replies)
    }

    fn note_slow(&mut self, at: usize, times: BatchTimes) {
        self.places[self.senders[at]].connection.note_slow(times);
    }

    #[inline]
    fn settle(&mut self, at: usize, input: &Input, result: &mut SliceResult) {
        let place = self.senders[at];
        let connection = &mut self.places[place].connection;
        if connection.is_killed() {
            cold_path();
            self.ended.push(place);
            return;
        }
        match connection.settle(&self.space[input.start..input.end], result, self.replies) {
            After::Wait => {}
            After::Again => self.heavy.push(place),
            After::End => self.ended.push(place),
        }
    }

    fn give_up(&mut self, at: usize) {
        self.ended.push(self.senders[at]);
    }
}
