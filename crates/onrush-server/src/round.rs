//! A round: what several connections have sent is one batch.
//!
//! Connections that have nothing to do but to read and execute new commands are read one after the other into the
//! thread's read buffer. What they sent is decoded, planned and executed in chunks that go on from one connection to the
//! next, so that even with one command from each the entries of all of them are fetched together; then their replies
//! are written. Order matters within a connection only, and is kept there.
//!
//! Every step for a connection catches its panics: they end the connection, and nothing else.

use std::hint::cold_path;
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use slab::Slab;

use crate::batch::{Conditions, SliceEnd, SliceResult};
use crate::chunk::{Chunk, Part, Tally};
use crate::connection::{After, CARRY_LEN_MAX};
use crate::keys::Keys;
use crate::plan::{Planner, prefetch_buckets, prefetch_entries};
use crate::scratch::ReplyBuffers;
use crate::server::{Server, unix_ms};
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
    pub(crate) keys: &'a mut Keys,
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
            }
        }
        last
    }

    /// Reads what connections have sent; returns those that have to wait for the next group.
    fn receive<'r>(&mut self, ready: &'r [usize], space: &mut [u8], items: &mut Vec<Item>) -> &'r [usize] {
        let mut start = 0;
        for (at, &place) in ready.iter().enumerate() {
            if items.len() == GROUP_LEN_MAX || space.len() - start < ROOM_MIN {
                return &ready[at..];
            }
            let Some(Place { connection, is_ready, .. }) = self.places.get_mut(place) else { continue };
            *is_ready = false;
            if !connection.is_light() {
                cold_path();
                self.heavy.push(place);
                continue;
            }
            match caught(|| connection.receive(&mut space[start..])) {
                // The turn that follows sees the end of the stream.
                Some(Ok(0)) => self.heavy.push(place),
                Some(Ok(len)) => {
                    let end = start + len;
                    items.push(Item { place, start, end, consumed: 0, started: None });
                    start = end;
                }
                Some(Err(error)) if error.kind() == ErrorKind::WouldBlock => {}
                Some(Err(_)) | None => self.ended.push(place),
            }
        }
        &[]
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
            let mut conditions = self.keys.begin_chunk(self.server.clock.unix_ms(chunk_started));
            prefetch_entries(chunk);
            self.execute_chunk(space, items, chunk, parts, (&mut conditions, tally));
            chunk.owned.clear();
            let now = Instant::now();
            last = Some(now);
            tally.count(&self.server.stats.threads[self.thread], chunk, parts, now - chunk_started);
            for (part, item) in parts.iter_mut().zip(items) {
                if part.result.is_none() {
                    cold_path();
                    item.consumed = part.consumed;
                    let started = *item.started.get_or_insert(chunk_started);
                    let slice = Duration::from_micros(self.server.hot.slice_us.load(Relaxed));
                    if now - started < slice {
                        // The last part goes on in the next chunk.
                        break;
                    }
                    let ended_ms = self.keys.now_ms;
                    part.result =
                        Some(SliceResult { consumed: part.consumed, end: SliceEnd::TimeUp, requeue: None, ended_ms });
                }
                next += 1;
                if let Some(result) = &mut part.result {
                    self.settle(item, space, result);
                }
            }
            parts.clear();
        }
        last
    }

    /// Fills a chunk with the commands of the items; they get a part each, as far as there is room.
    fn decode(&mut self, space: &[u8], items: &[Item], chunk: &mut Chunk, parts: &mut Vec<Part>) {
        chunk.clear();
        let mut planner = Planner::new(self.server);
        for item in items {
            let connection = &mut self.places[item.place].connection;
            let input = &space[item.start..item.end];
            let part = caught(|| connection.decode(input, item.consumed, chunk, &mut planner));
            let part = part.unwrap_or_else(|| {
                connection.kill();
                Part::given_up(chunk, input.len())
            });
            let goes_on = part.goes_on();
            parts.push(part);
            if goes_on || chunk.is_full() {
                break;
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
        for (part, item) in parts.iter_mut().zip(items) {
            let connection = &mut self.places[item.place].connection;
            let input = &space[item.start..item.end];
            if connection.is_killed() {
                cold_path();
                part.give_up(input.len());
                continue;
            }
            let mut slice = connection.slice(self.replies);
            let keys = &mut *self.keys;
            if caught(|| slice.execute(input, chunk, keys, conditions, part, tally)).is_none() {
                *self.keys = Keys::new(self.server, self.thread);
                self.keys.enter();
                *conditions = self.keys.begin_chunk(unix_ms());
                connection.kill();
                part.give_up(input.len());
            }
        }
    }

    /// Ends the work on one item.
    fn settle(&mut self, item: &Item, space: &[u8], result: &mut SliceResult) {
        let connection = &mut self.places[item.place].connection;
        if connection.is_killed() {
            cold_path();
            self.ended.push(item.place);
            return;
        }
        match caught(|| connection.settle(&space[item.start..item.end], result, self.replies)) {
            Some(After::Wait) => {}
            Some(After::Again) => self.heavy.push(item.place),
            Some(After::End) | None => self.ended.push(item.place),
        }
    }
}

/// Calls `step`; `None` if it panics.
#[inline(always)]
pub(crate) fn caught<T>(step: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(step)).ok()
}
