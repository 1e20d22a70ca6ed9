//! A round: what several connections have sent is one batch.
//!
//! Connections that have nothing to do but to read and execute new commands are read one after the other into the
//! thread's read buffer. What they sent is decoded, planned and executed in chunks that go on from one connection to the
//! next, so that even with one command from each the entries of all of them are fetched together; then their replies
//! are written. Order matters within a connection only, and is kept there.
//!
//! Every step catches panics: they end the connection whose turn it was, and nothing else; the step goes on behind it.

use std::hint::cold_path;
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use slab::Slab;

use crate::batch::{Conditions, SliceEnd};
use crate::chunk::{Chunk, Part, Tally};
use crate::commit::Commit;
use crate::connection::{After, CARRY_LEN_MAX};
use crate::plan::{Planner, prefetch_buckets, prefetch_entries};
use crate::scratch::ReplyBuffers;
use crate::server::Server;
use crate::worker::Place;

/// Connections read before what they sent is executed.
const GROUP_LEN_MAX: usize = 64;

/// With less room than this in the read buffer no further connection is read.
const ROOM_MIN: usize = 2 * CARRY_LEN_MAX;

/// What one connection sent.
struct Item {
    place: usize,
    /// Where it stands in the read buffer.
    start: usize,
    end: usize,
    /// Bytes of it that are done with.
    consumed: usize,
    /// When its first command was executed.
    started: Option<Instant>,
}

/// Lists of a group, kept for their memory.
#[derive(Default)]
pub(crate) struct Lists {
    items: Vec<Item>,
    /// Connections' parts of a chunk.
    parts: Vec<Part>,
    chunk: Chunk,
    tally: Tally,
}

/// A round of one worker.
pub(crate) struct Round<'a> {
    pub(crate) server: &'static Server,
    pub(crate) thread: usize,
    pub(crate) places: &'a mut Slab<Place>,
    pub(crate) keys: &'a mut Commit,
    pub(crate) replies: &'a mut ReplyBuffers,
    /// Who needs a turn of his own.
    pub(crate) heavy: &'a mut Vec<usize>,
    /// Whose connection is over.
    pub(crate) ended: &'a mut Vec<usize>,
}

impl Round<'_> {
    /// Serves the connections at `ready` that are light; the others are put into `heavy`. `space` is what they are read into.
    /// Returns when the last command was executed, if there was one.
    pub(crate) fn run(&mut self, ready: &[usize], space: &mut [u8], lists: &mut Lists) -> Option<Instant> {
        let mut rest = ready;
        let mut last = None;
        while !rest.is_empty() {
            lists.items.clear();
            rest = self.receive(rest, space, &mut lists.items);
            if !lists.items.is_empty() {
                self.keys.enter();
                last = self.execute(space, lists);
                self.keys.leave();
                lists.chunk.shrink();
            }
        }
        last
    }

    /// Reads what connections have sent; returns those that have to wait for the next group.
    fn receive<'r>(&mut self, ready: &'r [usize], space: &mut [u8], items: &mut Vec<Item>) -> &'r [usize] {
        let mut at = 0;
        while caught(|| self.receive_from(ready, &mut at, space, items)).is_none() {
            self.ended.push(ready[at]);
            at += 1;
        }
        &ready[at..]
    }

    fn receive_from(&mut self, ready: &[usize], at: &mut usize, space: &mut [u8], items: &mut Vec<Item>) {
        let mut start = items.last().map_or(0, |item| item.end);
        while let Some(&place) = ready.get(*at)
            && items.len() < GROUP_LEN_MAX
            && space.len() - start >= ROOM_MIN
        {
            if let Some(Place { connection, is_ready, .. }) = self.places.get_mut(place) {
                *is_ready = false;
                if connection.is_light() {
                    match connection.receive(&mut space[start..]) {
                        // The turn that follows sees the end of the stream.
                        Ok(0) => self.heavy.push(place),
                        Ok(len) => {
                            let end = start + len;
                            items.push(Item { place, start, end, consumed: 0, started: None });
                            start = end;
                        }
                        Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                        Err(_) => self.ended.push(place),
                    }
                } else {
                    cold_path();
                    self.heavy.push(place);
                }
            }
            *at += 1;
        }
    }

    /// Executes what was read, chunk by chunk; returns when the last one was.
    fn execute(&mut self, space: &[u8], lists: &mut Lists) -> Option<Instant> {
        let Lists { items, parts, chunk, tally } = lists;
        let mut next = 0;
        let mut last = None;
        while next < items.len() {
            let items = &mut items[next..];
            self.decode(space, items, chunk, parts);
            prefetch_buckets(chunk);
            let chunk_started = Instant::now();
            self.keys.begin_chunk(self.server.clock.unix_ms(chunk_started));
            let mut conditions = Conditions::now(self.server, self.keys);
            prefetch_entries(chunk);
            self.execute_chunk(space, items, chunk, parts, (&mut conditions, tally));
            chunk.owned.clear();
            let now = Instant::now();
            last = Some(now);
            tally.count(&self.server.stats.threads[self.thread], chunk, parts, now - chunk_started);
            let last_item = parts.len() - 1;
            if let Some(part) = parts.last_mut()
                && part.goes_on()
            {
                cold_path();
                let item = &mut items[last_item];
                item.consumed = part.result.consumed;
                let started = *item.started.get_or_insert(chunk_started);
                let slice = Duration::from_micros(self.server.hot.slice_us.load(Relaxed));
                if now - started < slice {
                    // It goes on in the next chunk.
                    parts.pop();
                } else {
                    part.result.end = SliceEnd::TimeUp;
                }
            }
            next += parts.len();
            self.settle(space, items, parts);
            parts.clear();
        }
        last
    }

    /// Fills a chunk with the commands of the items; they get a part each, as far as there is room.
    fn decode(&mut self, space: &[u8], items: &[Item], chunk: &mut Chunk, parts: &mut Vec<Part>) {
        chunk.clear();
        let mut planner = Planner::new(self.server);
        while caught(|| self.decode_from(space, items, chunk, parts, &mut planner)).is_none() {
            // It stops in the part it made last.
            let item = &items[parts.len() - 1];
            let Some(part) = parts.last_mut() else { return };
            part.give_up(item.end - item.start);
            self.places[item.place].connection.kill();
        }
    }

    fn decode_from<'s>(
        &mut self,
        space: &'s [u8],
        items: &[Item],
        chunk: &mut Chunk,
        parts: &mut Vec<Part>,
        planner: &mut Planner<'s>,
    ) {
        for item in &items[parts.len()..] {
            parts.push(Part::of(chunk, item.consumed));
            let Some(part) = parts.last_mut() else { unreachable!("just pushed") };
            let connection = &mut self.places[item.place].connection;
            connection.decode(&space[item.start..item.end], chunk, part, planner);
            if part.goes_on() || chunk.is_full() {
                return;
            }
        }
    }

    /// Executes the parts of a chunk.
    fn execute_chunk(
        &mut self,
        space: &[u8],
        items: &[Item],
        chunk: &Chunk,
        parts: &mut [Part],
        (conditions, tally): (&mut Conditions, &mut Tally),
    ) {
        let (mut at, now_ms) = (0, self.keys.now_ms());
        while caught(|| self.execute_from(space, items, chunk, parts, (conditions, tally), &mut at)).is_none() {
            *self.keys = Commit::new(self.server, self.thread);
            self.keys.enter();
            self.keys.begin_chunk(now_ms);
            *conditions = Conditions::now(self.server, self.keys);
            self.places[items[at].place].connection.kill();
            tally.refused.retain(|row| *row < parts[at].first);
            parts[at].give_up(items[at].end - items[at].start);
            at += 1;
        }
    }

    fn execute_from(
        &mut self,
        space: &[u8],
        items: &[Item],
        chunk: &Chunk,
        parts: &mut [Part],
        (conditions, tally): (&mut Conditions, &mut Tally),
        at: &mut usize,
    ) {
        for (part, item) in parts.iter_mut().zip(items).skip(*at) {
            let connection = &mut self.places[item.place].connection;
            let input = &space[item.start..item.end];
            if connection.is_killed() {
                cold_path();
                part.give_up(input.len());
            } else {
                connection.slice(self.replies).execute(input, chunk, self.keys, conditions, part, tally);
            }
            *at += 1;
        }
    }

    /// Ends the work on items whose parts are their last ones.
    fn settle(&mut self, space: &[u8], items: &[Item], parts: &mut [Part]) {
        let mut at = 0;
        while caught(|| self.settle_from(space, items, parts, &mut at)).is_none() {
            self.ended.push(items[at].place);
            at += 1;
        }
    }

    fn settle_from(&mut self, space: &[u8], items: &[Item], parts: &mut [Part], at: &mut usize) {
        for (part, item) in parts.iter_mut().zip(items).skip(*at) {
            let connection = &mut self.places[item.place].connection;
            if connection.is_killed() {
                cold_path();
                self.ended.push(item.place);
            } else {
                match connection.settle(&space[item.start..item.end], &mut part.result, self.replies) {
                    After::Wait => {}
                    After::Again => self.heavy.push(item.place),
                    After::End => self.ended.push(item.place),
                }
            }
            *at += 1;
        }
    }
}

/// Calls `step`; `None` if it panics.
#[inline(always)]
pub(crate) fn caught<T>(step: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(step)).ok()
}
