//! A round: what several connections have sent is one batch.
//!
//! Connections that have nothing to do but to read and execute new commands are read one after the other into the
//! thread's read buffer. What they sent is decoded, planned and executed in chunks that go on from one connection to the
//! next, so that even with one command from each the entries of all of them are fetched together; then their replies
//! are written. Order matters within a connection only, and is kept there.

use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use slab::Slab;

use crate::batch::{Executed, Part, READ_LEN_MAX, SliceEnd, SliceResult, count};
use crate::connection::{After, CARRY_LEN_MAX};
use crate::keys::Keys;
use crate::plan::{CHUNK_LEN_MAX, Planner, prefetch};
use crate::scratch::Scratch;
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
    parts: Vec<(usize, Part)>,
    executed: Vec<Executed>,
}

/// A round of one worker.
pub(crate) struct Round<'a> {
    pub(crate) server: &'static Server,
    pub(crate) thread: usize,
    pub(crate) places: &'a mut Slab<Place>,
    pub(crate) scratch: &'a mut Scratch,
    /// Who needs a turn of his own.
    pub(crate) heavy: &'a mut Vec<usize>,
    /// Whose connection is over.
    pub(crate) ended: &'a mut Vec<usize>,
}

impl Round<'_> {
    /// Serves the connections at `ready` that are light; the others are put into `heavy`.
    pub(crate) fn run(&mut self, ready: &[usize]) {
        let mut space = std::mem::take(&mut self.scratch.read);
        // A panic may have lost it.
        space.resize(READ_LEN_MAX + CARRY_LEN_MAX, 0);
        let mut lists = std::mem::take(&mut self.scratch.lists);
        let mut rest = ready;
        while !rest.is_empty() {
            lists.items.clear();
            rest = self.receive(rest, &mut space, &mut lists.items);
            if !lists.items.is_empty() {
                self.execute(&space, &mut lists);
            }
        }
        self.scratch.lists = lists;
        self.scratch.read = space;
    }

    /// Reads what connections have sent; returns those that have to wait for the next group.
    fn receive<'r>(&mut self, ready: &'r [usize], space: &mut [u8], items: &mut Vec<Item>) -> &'r [usize] {
        let mut filled = 0;
        for (at, &index) in ready.iter().enumerate() {
            if items.len() == GROUP_LEN_MAX || space.len() - filled < ROOM_MIN {
                return &ready[at..];
            }
            let Some(place) = self.places.get_mut(index) else { continue };
            if !place.connection.is_light() {
                self.heavy.push(index);
                continue;
            }
            match place.connection.receive(&mut space[filled..]) {
                // The turn that follows sees the end of the stream.
                Ok(0) => self.heavy.push(index),
                Ok(len) => {
                    let end = filled + len;
                    items.push(Item { place: index, start: filled, end, consumed: 0, started: None });
                    filled = end;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => self.ended.push(index),
            }
        }
        &[]
    }

    /// Executes what was read, chunk by chunk.
    fn execute(&mut self, space: &[u8], lists: &mut Lists) {
        let mut keys = self.scratch.keys.take().unwrap_or_else(|| Box::new(Keys::new(self.server, self.thread)));
        keys.enter();
        let mut now = Instant::now();
        let mut next = 0;
        while next < lists.items.len() {
            keys.now_ms = self.server.clock.unix_ms(now);
            let chunk_end = self.decode(space, lists, next);
            self.execute_parts(space, lists, &mut keys);
            let chunk_started = std::mem::replace(&mut now, Instant::now());
            let stats = &self.server.stats.threads[self.thread];
            count(stats, self.scratch, &lists.executed, now - chunk_started);
            next = chunk_end;
            for ((at, part), executed) in lists.parts.drain(..).zip(lists.executed.drain(..)) {
                let item = &mut lists.items[at];
                let result = executed.result.or_else(|| {
                    item.consumed = part.consumed;
                    let started = *item.started.get_or_insert(chunk_started);
                    let slice = Duration::from_micros(self.server.hot.slice_us.load(Relaxed));
                    let end = SliceEnd::TimeUp;
                    let ended_ms = keys.now_ms;
                    let over = now - started >= slice;
                    over.then_some(SliceResult { consumed: item.consumed, end, requeue: None, ended_ms })
                });
                match result {
                    Some(result) => self.settle(item, space, result),
                    None => next = at,
                }
            }
        }
        keys.leave_counted();
        self.scratch.keys = Some(keys);
    }

    /// Fills a chunk with the commands of the items from `first` on; returns the first that has no part in it.
    fn decode(&mut self, space: &[u8], lists: &mut Lists, first: usize) -> usize {
        self.scratch.clear_chunk();
        let mut planner = Planner::new(self.server);
        let mut next = first;
        while next < lists.items.len() && self.scratch.planned.len() < CHUNK_LEN_MAX {
            let item = &lists.items[next];
            let connection = &mut self.places[item.place].connection;
            let input = &space[item.start..item.end];
            let part = connection.slice(self.scratch).decode(input, item.consumed, self.scratch, &mut planner);
            let goes_on = part.goes_on();
            lists.parts.push((next, part));
            next += 1;
            if goes_on {
                break;
            }
        }
        if self.scratch.planned.len() > 1 {
            prefetch(self.scratch, planner.db());
        }
        next
    }

    /// Executes the parts of a chunk. A panic ends the connection whose command it was, and nothing else.
    fn execute_parts(&mut self, space: &[u8], lists: &mut Lists, keys: &mut Keys) {
        for (at, part) in &mut lists.parts {
            let item = &lists.items[*at];
            let connection = &mut self.places[item.place].connection;
            let input = &space[item.start..item.end];
            if connection.is_killed() {
                lists.executed.push(Executed::none(part, input.len()));
                continue;
            }
            let mut slice = connection.slice(self.scratch);
            let scratch = &*self.scratch;
            let executed = catch_unwind(AssertUnwindSafe(|| slice.execute(input, scratch, keys, part)));
            lists.executed.push(executed.unwrap_or_else(|_| {
                *keys = Keys::new(self.server, self.thread);
                keys.enter();
                connection.kill();
                Executed::none(part, input.len())
            }));
        }
    }

    /// Ends the work on one item.
    fn settle(&mut self, item: &Item, space: &[u8], result: SliceResult) {
        let connection = &mut self.places[item.place].connection;
        if connection.is_killed() {
            self.ended.push(item.place);
            return;
        }
        match connection.settle(&space[item.start..item.end], result, self.scratch) {
            After::Wait => {}
            After::Again => self.heavy.push(item.place),
            After::End => self.ended.push(item.place),
        }
    }
}
