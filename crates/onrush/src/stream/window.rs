//! How much of a stream may be under way: its commands, and the memory of their replies.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use parking_lot::Mutex;

use crate::builder::builder;
use crate::error::RedisResult;
use crate::stream::summary::Summary;
use crate::values::value::Value;

/// The size that a reply is expected to have before the first has come.
const FIRST_REPLY_BYTES: usize = 256 << 10;
/// Commands sent before the first reply has come. Their replies say most: over a long line, a stream of small ones
/// fills its window in the second round.
const FIRST_COMMANDS: usize = 16;
/// The mean size of replies is that of about so many: it follows growth at once, and shrinks slowly.
const GROWING_OVER: usize = 16;
const SHRINKING_OVER: usize = 256;

/// How much of a stream may be under way at a time.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct WindowSize {
    /// Bytes of commands that are sent, or about to be, and not answered.
    pub bytes: usize,
    /// Commands that are not answered, and replies that are not taken.
    pub commands: usize,
    /// Memory of replies that are not taken, and of those that commands under way will bring, in bytes. What these will
    /// bring is known only by the mean of what has come; one command is always sent.
    pub reply_bytes: usize,
}

builder! {
    WindowSize, new: "1 MB and 16,384 commands, 4 MB of replies.";

    /// Bytes of commands that are sent, or about to be, and not answered.
    set_bytes(bytes: usize) => bytes = bytes;

    /// Commands that are not answered, and replies that are not taken.
    set_commands(commands: usize) => commands = commands;

    /// Memory of replies that are not taken, or still to come, in bytes.
    set_reply_bytes(bytes: usize) => reply_bytes = bytes;
}

impl WindowSize {
    /// The same with room for something.
    pub(super) fn at_least_one(self) -> WindowSize {
        WindowSize { bytes: self.bytes.max(1), commands: self.commands.max(1), reply_bytes: self.reply_bytes.max(1) }
    }

    /// A window that keeps a line with this round trip busy: 400 MB of commands, as much of replies, and ten million
    /// commands for each second of it, at least the default, at most 64 MB and two million commands.
    pub fn for_round_trip(round_trip: Duration) -> WindowSize {
        let near = WindowSize::default();
        // Bytes and commands for each microsecond.
        let micros = usize::try_from(round_trip.as_micros()).unwrap_or(usize::MAX);
        WindowSize {
            bytes: micros.saturating_mul(400).clamp(near.bytes, 64 << 20),
            commands: micros.saturating_mul(10).clamp(near.commands, 2 << 20),
            reply_bytes: micros.saturating_mul(400).clamp(near.reply_bytes, 64 << 20),
        }
    }
}

impl Default for WindowSize {
    /// 1 MB and 16,384 commands, 4 MB of replies: on a local network a larger window is not faster.
    fn default() -> WindowSize {
        WindowSize { bytes: 1 << 20, commands: 16 << 10, reply_bytes: 4 << 20 }
    }
}

/// State shared by a stream and its parts under way.
#[derive(Debug)]
pub(crate) struct Window {
    /// Whether replies are kept to be taken, or only counted.
    keeps: AtomicBool,
    pub(super) state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    /// Of commands in parts that are under way.
    pub bytes: usize,
    /// Commands that are not answered.
    pub commands: usize,
    pub replies: VecDeque<RedisResult<Value>>,
    /// The memory that `replies` take.
    reply_bytes: usize,
    sizes: ReplySizes,
    /// How many commands have failed without a reply of the server.
    failed: usize,
    pub summary: Summary,
    waker: Option<Waker>,
}

/// What is known of the sizes of a stream's replies.
#[derive(Debug)]
struct ReplySizes {
    measured: u64,
    /// Never 0.
    mean_bytes: usize,
}

impl Default for ReplySizes {
    fn default() -> ReplySizes {
        ReplySizes { measured: 0, mean_bytes: FIRST_REPLY_BYTES }
    }
}

impl ReplySizes {
    fn add(&mut self, replies: usize, bytes: usize) {
        if replies == 0 {
            return;
        }
        let mean = bytes / replies;
        let over = if mean > self.mean_bytes { GROWING_OVER } else { SHRINKING_OVER };
        self.mean_bytes = if self.measured == 0 || replies >= over {
            mean
        } else {
            // Both are far below the limits of the type.
            (self.mean_bytes * (over - replies) + mean * replies) / over
        }
        .max(1);
        self.measured += replies as u64;
    }

    /// How many commands may be under way.
    fn trusted(&self) -> usize {
        if self.measured == 0 { FIRST_COMMANDS } else { usize::MAX }
    }
}

/// The memory that a reply takes, in bytes.
#[inline]
pub(crate) fn reply_len(reply: &RedisResult<Value>) -> usize {
    const ERROR_BYTES: usize = 128;
    match reply {
        Ok(value) => value.memory_len(),
        Err(_) => ERROR_BYTES,
    }
}

/// Answers of a part that are handed over together.
#[derive(Debug, Default)]
pub(crate) struct News {
    /// How many commands have got theirs.
    pub answered: usize,
    /// How many of these are replies of the server, and the memory that they take.
    pub measured: usize,
    pub bytes: usize,
}

impl Window {
    pub(super) fn new(keeps: bool) -> Window {
        Window { keeps: AtomicBool::new(keeps), state: Mutex::default() }
    }

    /// Nobody is left to take replies: those that are there and those to come go.
    pub(super) fn abandon(&self) {
        self.keeps.store(false, Ordering::Relaxed);
        self.state.lock().replies = VecDeque::new();
    }

    /// Whether replies are kept to be taken.
    #[inline]
    pub(crate) fn keeps(&self) -> bool {
        self.keeps.load(Ordering::Relaxed)
    }

    /// Takes the reply to command `index` of the stream; replies to keep gather in `replies` until they are published.
    #[inline]
    pub(crate) fn add(&self, reply: RedisResult<Value>, index: u64, replies: &mut Vec<RedisResult<Value>>) {
        if self.keeps() {
            replies.push(reply);
        } else if let Err(error) = reply {
            self.state.lock().summary.add_error(index, error);
        }
    }

    /// Hands over the replies that have gathered, if they are kept, and what they tell of the window.
    pub(crate) fn publish(&self, replies: &mut Vec<RedisResult<Value>>, news: News) {
        if news.answered == 0 {
            return;
        }
        let mut state = self.state.lock();
        state.commands -= news.answered;
        state.summary.replies += news.answered as u64;
        state.sizes.add(news.measured, news.bytes);
        // Looked at under the lock, behind which an abandoned window stays empty.
        if self.keeps() {
            state.reply_bytes += news.bytes;
            state.replies.extend(replies.drain(..));
            state.wake();
        } else {
            replies.clear();
        }
        state.failed = state.failed.saturating_add(news.answered - news.measured);
    }

    /// Notes that so many bytes of commands are no longer under way.
    pub(crate) fn finish_part(&self, bytes: usize) {
        let mut state = self.state.lock();
        state.bytes -= bytes;
        state.wake();
    }
}

/// How much more may be sent.
pub(super) struct Room {
    pub bytes: usize,
    pub commands: usize,
}

impl State {
    /// What the window has room for; `None` until half of it is free, so that parts do not become tiny.
    pub(super) fn room(&self, size: WindowSize) -> Option<Room> {
        // Where there is no server, few at a time would take a timeout each: twice as many each time.
        let trusted = self.sizes.trusted().max(self.failed.saturating_mul(2));
        let under_way = self.commands + self.replies.len();
        let mean_bytes = match self.sizes.measured {
            0 => (FIRST_REPLY_BYTES * FIRST_COMMANDS / trusted.max(1)).max(1),
            _ => self.sizes.mean_bytes,
        };
        let expected_bytes = self.reply_bytes.saturating_add(self.commands.saturating_mul(mean_bytes));
        let is_full = under_way > size.commands / 2
            || self.bytes > size.bytes / 2
            || self.commands > trusted / 2
            || expected_bytes > size.reply_bytes / 2;
        if is_full {
            return None;
        }
        let expected = (size.reply_bytes - expected_bytes) / mean_bytes;
        let commands = (size.commands - under_way).min(trusted - self.commands).min(expected.max(1));
        Some(Room { bytes: size.bytes - self.bytes, commands })
    }

    /// Takes the outcomes of the commands from `first` on, to be taken or only counted.
    pub(super) fn land(&mut self, results: Vec<RedisResult<Value>>, first: u64, keeps: bool) {
        let bytes = results.iter().map(reply_len).sum();
        self.commands -= results.len();
        self.summary.replies += results.len() as u64;
        self.sizes.add(results.len(), bytes);
        if keeps {
            self.reply_bytes += bytes;
            self.replies.extend(results);
            return;
        }
        self.summary.add_errors(first, results);
    }

    /// Only counts the replies that wait to be taken, the last of which is that before command `end`, and begins the
    /// summary with them.
    pub(super) fn count_waiting(&mut self, end: u64) {
        let replies = std::mem::take(&mut self.replies);
        self.reply_bytes = 0;
        self.summary = Summary { replies: replies.len() as u64, ..Summary::default() };
        self.summary.add_errors(end - replies.len() as u64, replies);
    }

    pub(super) fn take_reply(&mut self) -> Option<RedisResult<Value>> {
        let reply = self.replies.pop_front()?;
        // Counted as it was when it came; the sum begins anew whenever all are taken.
        let left = self.reply_bytes.saturating_sub(reply_len(&reply));
        self.reply_bytes = if self.replies.is_empty() { 0 } else { left };
        Some(reply)
    }

    /// Registers the task to be woken when replies come or parts are done. Must be called under the same lock as the
    /// check that found nothing to do: otherwise events in between would be missed.
    pub(super) fn sleep(&mut self, cx: &Context<'_>) {
        if !self.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            self.waker = Some(cx.waker().clone());
        }
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The window of a server that answers each command with so many bytes: commands under way after each of the
    /// rounds.
    fn rounds(state: &mut State, size: WindowSize, reply_bytes: usize, rounds: usize) -> Vec<usize> {
        let round = |_| {
            while let Some(room) = state.room(size) {
                state.commands += room.commands;
            }
            state.sizes.add(state.commands, state.commands * reply_bytes);
            std::mem::take(&mut state.commands)
        };
        (0..rounds).map(round).collect()
    }

    #[test]
    fn the_commands_under_way_follow_the_size_of_their_replies() {
        let size = WindowSize::default();
        let mut state = State::default();
        assert_eq!(rounds(&mut state, size, 32, 5), [16, 16384, 16384, 16384, 16384]);
        assert_eq!(rounds(&mut State::default(), size, 20 << 10, 3), [16, 204, 204]);
        assert_eq!(rounds(&mut State::default(), size, 1 << 20, 3), [16, 4, 4]);
        assert_eq!(rounds(&mut State::default(), size, 100 << 20, 3), [16, 1, 1]);
        // A mean that has grown stays for a while: the next reply may be large again.
        let mut state = State::default();
        rounds(&mut state, size, 1 << 20, 1);
        assert_eq!(rounds(&mut state, size, 32, 8)[..3], [4, 4, 4]);
        assert!(*rounds(&mut state, size, 32, 1_000).last().unwrap() >= 8192);
        let far = WindowSize::for_round_trip(Duration::from_millis(43));
        assert_eq!(*rounds(&mut State::default(), far, 32, 6).last().unwrap(), 430_000);
    }

    #[test]
    fn replies_that_are_not_taken_fill_the_window() {
        let mut state = State { reply_bytes: 3 << 20, ..State::default() };
        state.sizes.add(100, 100 << 10);
        assert!(state.room(WindowSize::default()).is_none());
        state.replies.push_back(Ok(Value::BulkString(vec![0; 3 << 20])));
        assert!(state.take_reply().is_some());
        assert_eq!((state.reply_bytes, state.room(WindowSize::default()).map(|room| room.commands)), (0, Some(4096)));
    }

    #[test]
    fn a_window_grows_with_the_distance_within_bounds() {
        let near = WindowSize::default();
        let at = |ms| WindowSize::for_round_trip(Duration::from_millis(ms));
        assert_eq!((at(0).bytes, at(0).commands), (near.bytes, near.commands));
        assert_eq!((at(43).bytes, at(43).commands, at(43).reply_bytes), (17_200_000, 430_000, 17_200_000));
        assert_eq!((at(10_000).bytes, at(10_000).commands, at(10_000).reply_bytes), (64 << 20, 2 << 20, 64 << 20));
        assert_eq!(WindowSize::for_round_trip(Duration::MAX).commands, 2 << 20);
    }
}
