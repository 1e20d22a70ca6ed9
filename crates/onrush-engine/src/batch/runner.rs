//! The runner of chunks: from the connections' input to their replies.
//!
//! It goes chunk by chunk: decode up to [`CHUNK_LEN_MAX`](crate::batch::chunk::CHUNK_LEN_MAX) commands, plan them (look each
//! up, hash its keys, prefetch the buckets and then the entries), execute them. Chunks continue from one connection to
//! the next, so that the entries of all are prefetched together even with one command from each. Order matters only
//! within a connection, and is kept there.
//!
//! Every step catches panics: a panic ends only the connection whose turn it was, and the step goes on after it.

use std::hint::cold_path;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use onrush_resp::Decoder;

use crate::batch::admission::Conditions;
use crate::batch::chunk::{Chunk, Part, Tally};
use crate::batch::decode::decode;
use crate::batch::part::{Execution, Lane};
use crate::batch::plan::{Planner, prefetch_buckets, prefetch_entries};
use crate::batch::slice::{SliceEnd, SliceResult};
use crate::clients::session::Session;
use crate::commit::Commit;
use crate::ctx::Engine;
use crate::eviction::evictor::Evictor;
use crate::observe::slow_batch::BatchTimes;
use crate::observe::slow_chunk::SlowChunk;

/// When the runner was at work.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// When the first command began.
    pub first: Instant,
    /// When the last one was done.
    pub last: Instant,
}

/// The input of one connection that must be executed.
pub struct Input {
    /// Where it begins in the bytes that the runner is given: at the first byte of a command.
    pub start: usize,
    /// Where it ends.
    pub end: usize,
    /// Bytes of it that are finished.
    consumed: usize,
    /// Commands of it that are finished.
    commands: u32,
    /// When its first command was executed.
    started: Option<Instant>,
}

impl Input {
    /// The bytes at `start..end`.
    pub fn new(start: usize, end: usize) -> Self {
        Self { start, end, consumed: 0, commands: 0, started: None }
    }

    fn of<'s>(&self, space: &'s [u8]) -> &'s [u8] {
        &space[self.start..self.end]
    }
}

/// The connections whose inputs are executed, by the numbers of those.
pub trait Lanes {
    /// What decoding needs of a connection.
    fn decoding(&mut self, at: usize) -> (&mut Decoder, &mut Session);

    /// What execution needs of it.
    fn lane(&mut self, at: usize) -> Lane<'_>;

    /// The input took long; of `times`, those until the end of execution are set. [`Lanes::settle`] comes next.
    fn note_slow(&mut self, _at: usize, _times: BatchTimes) {}

    /// The work on its input is over. Its client may have been killed meanwhile.
    fn settle(&mut self, at: usize, input: &Input, result: &mut SliceResult);

    /// [`Lanes::settle`] has panicked.
    fn give_up(&mut self, at: usize);
}

/// When the first chunk of a run began, and when the present one began and ended.
struct Times {
    started: Instant,
    chunk_started: Instant,
    now: Instant,
}

/// The state with which one thread executes.
pub struct Runner {
    engine: &'static Engine,
    thread: usize,
    commit: Commit,
    chunk: Chunk,
    /// Connections' parts of the present chunk.
    parts: Vec<Part>,
    tally: Tally,
}

impl Runner {
    /// For a thread with this number.
    pub fn new(engine: &'static Engine, thread: usize) -> Self {
        Self {
            engine,
            thread,
            commit: new_commit(engine, thread),
            chunk: Chunk::default(),
            parts: Vec::new(),
            tally: Tally::default(),
        }
    }

    /// The thread's commit; a worker may expire and evict with it between its rounds.
    pub fn commit(&mut self) -> &mut Commit {
        &mut self.commit
    }

    /// Resets itself after a panic outside of [`Runner::run`].
    pub fn reset(&mut self) {
        *self = Self::new(self.engine, self.thread);
    }

    /// Executes what connections have sent. An input is executed to its end or until there is a reason to stop
    /// ([`SliceEnd`]); [`Lanes::settle`] gets the result. Returns the time span, if there were commands.
    #[inline]
    pub fn run<L: Lanes>(&mut self, space: &[u8], inputs: &mut [Input], lanes: &mut L) -> Option<Span> {
        // If it cannot enter, commands are refused until the busy script is over.
        self.commit.enter_unless_busy();
        let (engine, mut next, mut span) = (self.engine, 0, None::<Span>);
        while next < inputs.len() {
            self.commit.note_routes();
            self.decode(space, inputs, next, lanes);
            prefetch_buckets(&self.chunk);
            let chunk_started = engine.clock.now();
            self.commit.begin_chunk(engine.clock.unix_ms_at(chunk_started));
            let mut conditions = Conditions::now(engine, &mut self.commit);
            if self.commit.has_entered() {
                prefetch_entries(&self.chunk);
            }
            let counts_slots = conditions.counts_slots;
            self.execute(space, inputs, next, lanes, &mut conditions);
            self.commit.broadcast();
            let now = engine.clock.now();
            span = Some(Span { first: span.map_or(chunk_started, |span| span.first), last: now });
            let started = span.map_or(chunk_started, |span| span.first);
            if engine.settings.timing.is_long((now - started).as_nanos() as u64) {
                cold_path();
                self.note_slow(space, &inputs[next..], lanes, next, Times { started, chunk_started, now });
            }
            let short_ns = self.tally.count(
                &engine.stats.threads[self.thread],
                &self.chunk,
                &self.parts,
                now - chunk_started,
                engine.settings.timing.tracks(),
            );
            if counts_slots || conditions.counts_slots {
                let replicas = || engine.replication.attached.counts(0).0 as u64;
                self.tally.slots.count(&engine.stats.threads[self.thread], short_ns, replicas);
            }
            self.chunk.owned.clear();
            let last_input = next + self.parts.len() - 1;
            if let Some(part) = self.parts.last_mut()
                && part.goes_on()
            {
                cold_path();
                let input = &mut inputs[last_input];
                (input.consumed, input.commands) = (part.result.consumed, part.result.commands);
                let started = *input.started.get_or_insert(chunk_started);
                let slice = Duration::from_micros(engine.settings.slice_us.load(Relaxed));
                if now - started < slice {
                    // It goes on in the next chunk.
                    self.parts.pop();
                } else {
                    part.result.end = SliceEnd::TimeUp;
                }
            }
            if engine.log.is_late(now) {
                cold_path();
                engine.durability.set_late(true);
            }
            self.settle(&inputs[next..], lanes, next);
            next += self.parts.len();
            self.parts.clear();
        }
        self.commit.leave();
        engine.stats.threads[self.thread].executing.clear();
        self.chunk.shrink();
        span
    }

    /// Fills a chunk with the commands of the inputs from `next` on; each input gets a part, as long as there is room.
    fn decode<L: Lanes>(&mut self, space: &[u8], inputs: &[Input], next: usize, lanes: &mut L) {
        self.chunk.clear();
        let mut planner = Planner::new(self.engine);
        loop {
            let done = caught(|| {
                for (at, input) in inputs.iter().enumerate().skip(next + self.parts.len()) {
                    self.parts.push(Part::of(&self.chunk, input.consumed, input.commands));
                    let Some(part) = self.parts.last_mut() else { unreachable!("just pushed") };
                    let (decoder, session) = lanes.decoding(at);
                    decode(self.engine, decoder, session, input.of(space), &mut self.chunk, part, &mut planner);
                    if part.goes_on() || self.chunk.is_full() {
                        break;
                    }
                }
            });
            if done.is_some() {
                return;
            }
            // It has stopped in the part it made last.
            let at = next + self.parts.len() - 1;
            let Some(part) = self.parts.last_mut() else { return };
            part.give_up(inputs[at].end - inputs[at].start);
            lanes.lane(at).session.handle.kill();
        }
    }

    /// Executes the parts of a chunk.
    fn execute<L: Lanes>(
        &mut self,
        space: &[u8],
        inputs: &[Input],
        next: usize,
        lanes: &mut L,
        conditions: &mut Conditions,
    ) {
        let (mut at, now_ms) = (0, self.commit.now_ms());
        loop {
            let done = caught(|| {
                let Self { engine, thread, commit, chunk, parts, tally } = self;
                let mut execution = Execution { engine, thread: *thread, chunk, commit, conditions, tally };
                for (part, input) in parts.iter_mut().zip(&inputs[next..]).skip(at) {
                    let mut lane = lanes.lane(next + at);
                    let input = input.of(space);
                    if lane.session.handle.is_killed() {
                        cold_path();
                        part.give_up(input.len());
                    } else {
                        execution.execute(&mut lane, input, part);
                    }
                    at += 1;
                }
            });
            if done.is_some() {
                return;
            }
            self.commit = new_commit(self.engine, self.thread);
            self.commit.enter_unless_busy();
            self.commit.begin_chunk(now_ms);
            *conditions = Conditions::now(self.engine, &mut self.commit);
            lanes.lane(next + at).session.handle.kill();
            let (part, input) = (&mut self.parts[at], &inputs[next + at]);
            self.tally.refused.retain(|run| *run < part.first);
            self.tally.timed.retain(|run| *run < part.first);
            part.give_up(input.end - input.start);
            at += 1;
        }
    }

    /// Notes the chunk, and inputs that end in it, if they took long.
    #[inline(never)]
    fn note_slow<L: Lanes>(&self, space: &[u8], inputs: &[Input], lanes: &mut L, next: usize, times: Times) {
        let Self { engine, commit, chunk, parts, tally, .. } = self;
        let timing = &engine.settings.timing;
        let took_ns = (times.now - times.chunk_started).as_nanos() as u64;
        let short_ns = took_ns.saturating_sub(tally.timed_ns + commit.evicting_ns());
        if timing.is_long_for_chunk(short_ns) {
            let inputs: Vec<&[u8]> = inputs.iter().map(|input| input.of(space)).collect();
            let slow = SlowChunk { shared: engine, chunk, parts, tally, inputs: &inputs };
            slow.note(short_ns, |part| &lanes.decoding(next + part).1.handle);
        }
        for (at, (part, input)) in parts.iter().zip(inputs).enumerate().filter(|(_, (part, _))| !part.goes_on()) {
            let began = input.started.unwrap_or(times.chunk_started);
            let (waiting, executing) = (began - times.started, times.now - began);
            let (commands, bytes) = (u64::from(part.result.commands), part.result.consumed as u64);
            lanes.note_slow(next + at, BatchTimes { waiting, executing, commands, bytes, ..BatchTimes::default() });
        }
    }

    /// Ends the work on inputs whose parts are their last ones.
    fn settle<L: Lanes>(&mut self, inputs: &[Input], lanes: &mut L, next: usize) {
        let mut at = 0;
        loop {
            let done = caught(|| {
                for (part, input) in self.parts.iter_mut().zip(inputs).skip(at) {
                    lanes.settle(next + at, input, &mut part.result);
                    at += 1;
                }
            });
            if done.is_some() {
                return;
            }
            lanes.give_up(next + at);
            at += 1;
        }
    }
}

/// The commit of a thread that executes for clients.
pub(crate) fn new_commit(engine: &'static Engine, thread: usize) -> Commit {
    Commit::new(engine, thread).with_evictor(Box::new(Evictor::new(engine, thread)))
}

/// Calls `step`; `None` if it panics.
#[inline(always)]
pub fn caught<T>(step: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(step)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::local::{LocalClient, State};
    use crate::command::CommandTable;
    use crate::commands::FAMILIES;
    use crate::eviction::state::EvictionOptions;
    use crate::shared::Parts;
    use onrush_persist::{Record, Sink};
    use parking_lot::Mutex;
    use std::sync::Arc;

    /// A client of an engine of its own.
    struct Harness {
        engine: &'static Engine,
        runner: Runner,
        client: LocalClient,
        log: Arc<Mutex<Vec<String>>>,
    }

    struct Collect(Arc<Mutex<Vec<String>>>);

    impl Sink for Collect {
        fn record(&mut self, record: Record<'_>) {
            let texts = record.commands().map(|(db, bytes)| {
                let lines = String::from_utf8_lossy(bytes);
                // Every second line is a length.
                let words: Vec<&str> = lines.split("\r\n").skip(2).step_by(2).collect();
                format!("{db} {}", words.join(" "))
            });
            self.0.lock().push(texts.collect::<Vec<_>>().join("; "));
        }
    }

    impl Harness {
        fn new() -> Self {
            let engine = Engine::new(&Parts::default(), CommandTable::new(FAMILIES));
            let engine: &'static Engine = Box::leak(Box::new(engine));
            let log = Arc::default();
            engine.log.attach(Box::new(Collect(Arc::clone(&log)))).expect("a thread");
            Self { engine, runner: Runner::new(engine, 0), client: LocalClient::new(engine), log }
        }

        /// Sends commands, in as many slices as they take; returns the replies.
        fn run(&mut self, commands: &str) -> String {
            String::from_utf8_lossy(&self.client.run(&mut self.runner, commands)).into_owned()
        }

        /// Sends a command that panics; another client goes on.
        fn panics(&mut self, commands: &str) {
            assert_eq!(self.client.send(&mut self.runner, commands.as_bytes()), State::IsClosed);
            self.client = LocalClient::new(self.engine);
        }

        fn effects(&mut self, commands: &str) -> Vec<String> {
            self.run(commands);
            self.engine.log.flush();
            std::mem::take(&mut *self.log.lock())
        }
    }

    #[test]
    fn a_large_argument_may_come_in_pieces_of_any_length() {
        let value = "v".repeat(300_000);
        let commands = format!("*3\r\n$3\r\nSET\r\n$1\r\na\r\n$300000\r\n{value}\r\nSTRLEN a\n");
        for len in [1_000, 7_919, 65_536, 299_990, commands.len()] {
            let mut harness = Harness::new();
            for piece in commands.as_bytes().chunks(len) {
                let mut state = harness.client.send(&mut harness.runner, piece);
                while state == State::Runs {
                    state = harness.client.go_on(&mut harness.runner);
                }
                assert_eq!(state, State::Idle);
            }
            assert_eq!(harness.run("GETRANGE a 0 1\n"), "+OK\r\n:300000\r\n$2\r\nvv\r\n", "{len}");
        }
    }

    #[test]
    fn effects_stand_in_the_log_in_order_and_without_time_or_chance() {
        let mut harness = Harness::new();
        let effects = harness.effects(
            "SET a 1\nINCR a\nGET a\nSETNX a 2\nAPPEND a x\nINCR a\nSELECT 2\nMSET a 1 b 2\nGETDEL a\nDEL none\n\
             INCRBYFLOAT b 0.5\nRENAME b c\nFLUSHDB\n",
        );
        let expected = [
            "0 SET a 1",
            "0 INCR a",
            "0 APPEND a x",
            "2 MSET a 1 b 2",
            "2 DEL a",
            "2 SET b 2.5 KEEPTTL",
            "2 RENAME b c",
            "2 FLUSHDB",
        ];
        assert_eq!(effects, expected);
    }

    #[test]
    fn expiries_are_logged_as_points_in_time() {
        let mut harness = Harness::new();
        let effects = harness.effects("SET a 1 EX 100\nEXPIRE a 200\nGETEX a PX 5000\nSET b 1 PXAT 1\nGET b\n");
        let words: Vec<Vec<&str>> = effects.iter().map(|effect| effect.split(' ').collect()).collect();
        assert_eq!(words[0][..4], ["0", "SET", "a", "1"]);
        assert_eq!(words[0][4], "PXAT");
        assert_eq!(words[1][..3], ["0", "PEXPIREAT", "a"]);
        assert_eq!(words[2][..3], ["0", "PEXPIREAT", "a"]);
        assert_eq!(effects[3..], ["0 SET b 1 PXAT 1", "0 DEL b"]);
    }

    #[test]
    fn conditional_writes_are_logged_without_their_conditions() {
        let mut harness = Harness::new();
        let effects = harness.effects(
            "SET a 1 IFNE 2\nSET a 2 IFEQ 3\nSET a 2 IFEQ 1 PXAT 99999999999999\nSET a 3 IFEQ 2 KEEPTTL GET\nDELEX a IFEQ 2\n\
             DELEX a IFDNE 0123456789abcdef\nDELEX a\nMSETEX 2 a 1 b 2 NX EXAT 99999999999\nMSETEX 1 a 1 NX\n\
             MSETEX 2 a 1 b 2 XX KEEPTTL\nMSETEX 1 c 1\nDELEX c\nDELEX c IFEQ 1\nDIGEST a\n",
        );
        let expected = [
            "0 SET a 1",
            "0 SET a 2 PXAT 99999999999999",
            "0 SET a 3 KEEPTTL",
            "0 DEL a",
            "0 MSETEX 2 a 1 b 2 PXAT 99999999999000",
            "0 MSETEX 2 a 1 b 2 KEEPTTL",
            "0 MSETEX 1 c 1",
            "0 DEL c",
        ];
        assert_eq!(effects, expected);
    }

    #[test]
    fn bounded_counters_are_logged_as_what_they_are_now() {
        let mut harness = Harness::new();
        let effects = harness.effects(
            "INCREX a UBOUND 1 PXAT 99999999999999 ENX\nINCREX a UBOUND 1\nINCREX a BYINT 5 UBOUND 3 SATURATE PXAT \
             99999999999000 ENX\nINCREX a BYINT -1 PERSIST\nINCREX b BYFLOAT 0.5\nINCREX b\nINCREX c UBOUND 0\n",
        );
        let expected = ["0 SET a 1 PXAT 99999999999999", "0 SET a 3 PXAT 99999999999999", "0 SET a 2", "0 SET b 0.5"];
        assert_eq!(effects, expected);
    }

    #[test]
    fn nothing_is_logged_of_commands_that_fail_or_change_nothing() {
        let mut harness = Harness::new();
        harness.effects("SET s x\n");
        let effects =
            harness.effects("INCR s\nNOSUCH\nSET s\nSET s y NX\nPERSIST s\nDEL none\nEXPIRE none 10\nGET s\n");
        assert_eq!(effects, [""; 0]);
    }

    #[test]
    fn a_panic_leaves_no_lock_behind() {
        let mut harness = Harness::new();
        harness.run("SET a 1\n");
        harness.panics("INCR a\nDEBUG PANIC\n");
        assert_eq!(harness.run("INCR a\nFLUSHALL\nEXISTS a\n"), ":3\r\n+OK\r\n:0\r\n");
    }

    #[test]
    fn what_a_panic_has_applied_is_recorded() {
        let mut harness = Harness::new();
        harness.effects("SET a 1\nRPUSH l x y\nHSET h f v\nPEXPIREAT l 99999999999999\n");
        for (key, expected) in [
            ("a", "0 DEL a; 0 SET a 1"),
            ("l", "0 DEL l; 0 RPUSH l x y; 0 PEXPIREAT l 99999999999999"),
            ("none", "0 DEL none"),
        ] {
            harness.panics(&format!("DEBUG PANIC {key}\n"));
            assert_eq!(harness.effects("PING\n"), [expected]);
        }
        assert_eq!(harness.effects("INCR a\n"), ["0 INCR a"], "no number is left open");
    }

    #[test]
    fn what_belongs_together_is_one_record() {
        let mut harness = Harness::new();
        let effects = harness.effects("SET a 1 PXAT 1\nSADD s 1\nGET a\nSPOP s 5\nSET b 1 PXAT 1\nSADD b 1\n");
        assert_eq!(
            effects,
            ["0 SET a 1 PXAT 1", "0 SADD s 1", "0 DEL a", "0 DEL s", "0 SET b 1 PXAT 1", "0 DEL b; 0 SADD b 1"]
        );
    }

    /// The same commands as multibulks.
    fn multibulks(commands: &str) -> String {
        let command = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            let bulk = |word: &&str| format!("${}\r\n{word}\r\n", word.len());
            format!("*{}\r\n{}", words.len(), words.iter().map(bulk).collect::<String>())
        };
        commands.lines().map(command).collect()
    }

    #[test]
    fn keys_belong_to_the_database_that_is_selected_when_it_is_their_turn() {
        let mut harness = Harness::new();
        harness.run("SELECT 3\nSET a 3\nSELECT 0\nSET a 0\nSET b 0\n");
        let replies = harness.run(&multibulks(
            "GET a\nSELECT 3\nGET a\nINCR a\nSELECT 0\nGET a\nINCR a\nCOPY a c DB 3\nSWAPDB 0 3\nGET a\nGET c\nGET b",
        ));
        let values =
            "$1\r\n0\r\n+OK\r\n$1\r\n3\r\n:4\r\n+OK\r\n$1\r\n0\r\n:1\r\n:1\r\n+OK\r\n$1\r\n4\r\n$1\r\n1\r\n$-1\r\n";
        assert_eq!(replies, values);
    }

    #[test]
    fn commands_that_begin_alike_are_told_apart() {
        let mut harness = Harness::new();
        let replies = harness.run(&multibulks(
            "SET a 1\nSETNX b 2\nset a 5\nGET a\nGETDEL a\nGET a\nSET a\nSET b 7\nINCR b\nINCRBY b 2\nincr b\nDEL b\nDEL a b",
        ));
        let expected = "+OK\r\n:1\r\n+OK\r\n$1\r\n5\r\n$1\r\n5\r\n$-1\r\n\
                        -ERR wrong number of arguments for 'set' command\r\n+OK\r\n:8\r\n:10\r\n:11\r\n:1\r\n:0\r\n";
        assert_eq!(replies, expected);
    }

    #[test]
    fn calls_are_counted_in_chunks_of_one_command_and_of_several() {
        let mut harness = Harness::new();
        let calls = |harness: &Harness, name: &str| {
            let command = harness.engine.commands.lookup(name.as_bytes()).expect("a command");
            harness.engine.stats.threads[0].commands[command.id as usize].calls.get()
        };
        harness.run(&multibulks(&"SET a 1\n".repeat(500)));
        harness.run(&multibulks(&(0..100).map(|n| format!("SET key:{n} 1\n")).collect::<String>()));
        harness.run(&multibulks(&"GET a\nSET a 2\nNOSUCH\nGET\nKEYS *\n".repeat(20)));
        assert_eq!([calls(&harness, "set"), calls(&harness, "get"), calls(&harness, "keys")], [620, 20, 20]);
        assert_eq!(harness.engine.stats.threads[0].commands_processed.get(), 660);
    }

    #[test]
    fn refused_commands_do_not_count_as_calls() {
        let mut harness = Harness::new();
        let counts = |harness: &Harness| {
            let stats = &harness.engine.stats.threads[0];
            let of = |name: &[u8]| {
                let command = harness.engine.commands.lookup(name).expect("a command");
                let counters = &stats.commands[command.id as usize];
                [counters.calls.get(), counters.rejected.get(), counters.failed.get()]
            };
            (of(b"set"), of(b"get"), stats.commands_processed.get())
        };
        let sets = "SET a 1\n".repeat(40);
        let pipeline = multibulks(&(sets + "GET a\nSET b 1\nSET b\nGET a\nINCR a b\n"));
        harness.run(&pipeline);
        assert_eq!(counts(&harness), ([41, 1, 0], [2, 0, 0], 43));
        let options = EvictionOptions { maxmemory: 1, ..EvictionOptions::default() };
        harness.engine.eviction.store(&options, harness.engine.apart());
        harness.run(&pipeline);
        assert_eq!(counts(&harness), ([41, 43, 0], [4, 0, 0], 45));
        harness.run(&multibulks(&"SET a 1\n".repeat(3)));
        harness.engine.eviction.store(&EvictionOptions::default(), harness.engine.apart());
        harness.engine.users.set_default_password(b"secret");
        harness.client.log_out();
        harness.run(&multibulks("GET a\nGET a\nSET a 1"));
        assert_eq!(counts(&harness), ([41, 47, 0], [4, 2, 0], 45));
    }

    #[test]
    fn an_error_takes_only_its_own_place() {
        let mut harness = Harness::new();
        let replies = harness.run("SET a x\nINCR a\nGET a\nNOSUCH\nPING\n");
        let lines: Vec<&str> = replies.split("\r\n").collect();
        assert_eq!(lines[0], "+OK");
        assert_eq!(lines[1], "-ERR value is not an integer or out of range");
        assert_eq!(lines[2..4], ["$1", "x"]);
        assert!(lines[4].starts_with("-ERR unknown command 'NOSUCH'"), "{replies}");
        assert_eq!(lines[5], "+PONG");
    }
}
