//! The batch pipeline: what happens to the commands one read brought.
//!
//! A slice of work goes chunk by chunk: decode up to [`CHUNK_LEN_MAX`] commands, plan them (look each up, hash its
//! keys, prefetch the buckets and then the entries), execute them strictly in order. It ends when the input is used
//! up, when the unread replies pass their limit, or when its time is over.

use std::hint::cold_path;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use onrush_resp::{Decoder, ProtocolError, Reply};
use onrush_store::Shard;

use crate::chunk::{Chunk, Part, Planned, Tally};
use crate::command::{Command, Flags};
use crate::commit::Commit;
use crate::ctx::{Argv, Ctx, PlannedKeys};
use crate::decode::decode;
use crate::eviction::Memory;
use crate::execute::{encode, execute, execute_row};
use crate::plan::{Planner, prefetch_buckets, prefetch_entries};
use crate::scratch::Scratch;
use crate::server::{Pause, Server};
use crate::session::{ReplyMode, Session};

/// Bytes read from a socket at once.
pub const READ_LEN_MAX: usize = 128 * 1024;

/// Why a slice of work ended.
#[derive(Debug, PartialEq, Eq)]
pub enum SliceEnd {
    /// No complete command is left.
    InputUsedUp,
    /// The next argument, `len` bytes, is to be read into a buffer of its own; what is there of it starts at `at`
    /// behind the consumed bytes.
    NeedBulk {
        /// Position of its first byte behind the consumed bytes.
        at: usize,
        /// Its length.
        len: usize,
    },
    /// Too many replies are unread.
    ReplyLimit,
    /// Others have to get their turn.
    TimeUp,
    /// CLIENT PAUSE holds the next command back.
    Paused,
    /// The last command waits for keys.
    Blocked,
    /// The connection closes when the replies are written.
    Close,
    /// The next command wants a shard that somebody holds for long.
    HeldLong,
    /// The chunk was full; there may be more behind it.
    ChunkFull,
    /// What follows is not RESP: the client is told, and the connection closes.
    Malformed(ProtocolError),
}

/// What a slice of work did.
pub struct SliceResult {
    /// Bytes of the input that are done with.
    pub consumed: usize,
    /// Why it ended.
    pub end: SliceEnd,
    /// A command that was taken from the input but not executed: its bytes, to be put in front of the rest.
    pub requeue: Option<Box<[u8]>>,
    /// The time of its last chunk, in Unix milliseconds.
    pub ended_ms: i64,
}

/// One connection's turn on one thread.
pub struct Slice<'a> {
    /// The server.
    pub server: &'static Server,
    /// The thread it runs on.
    pub thread: usize,
    /// The connection's decoder.
    pub decoder: &'a mut Decoder,
    /// The connection's state.
    pub session: &'a mut Session,
    /// The connection's reply buffer.
    pub reply: &'a mut Reply,
    /// Whether the first command has arguments that no longer stand in the input.
    pub spilled: &'a mut bool,
}

impl Slice<'_> {
    /// Executes commands from `input`, which starts at the first byte of a command.
    pub fn run(mut self, input: &[u8], scratch: &mut Scratch) -> SliceResult {
        let mut keys = scratch.keys.take().unwrap_or_else(|| Box::new(Commit::new(self.server, self.thread)));
        keys.enter();
        let result = self.run_chunks(input, scratch, &mut keys);
        keys.leave();
        scratch.chunk.shrink();
        scratch.keys = Some(keys);
        result
    }

    fn run_chunks(&mut self, input: &[u8], scratch: &mut Scratch, keys: &mut Commit) -> SliceResult {
        let started = Instant::now();
        let mut tally = Tally::default();
        let mut consumed = 0;
        loop {
            let chunk = &mut scratch.chunk;
            chunk.clear();
            let mut planner = Planner::new(self.server);
            let mut part = Part::of(chunk, consumed);
            decode(self.server, (self.decoder, self.session), input, chunk, &mut part, &mut planner);
            prefetch_buckets(chunk);
            let chunk_started = Instant::now();
            keys.begin_chunk(self.server.clock.unix_ms(chunk_started));
            let mut conditions = Conditions::now(self.server, keys);
            prefetch_entries(chunk);
            self.execute(input, chunk, keys, &mut conditions, &mut part, &mut tally);
            chunk.owned.clear();
            let now = Instant::now();
            let stats = &self.server.stats.threads[self.thread];
            tally.count(stats, chunk, std::slice::from_ref(&part), now - chunk_started);
            if part.result.end != SliceEnd::ChunkFull {
                return part.result;
            }
            consumed = part.result.consumed;
            if now - started >= Duration::from_micros(self.server.hot.slice_us.load(Relaxed)) {
                return SliceResult { end: SliceEnd::TimeUp, ..part.result };
            }
        }
    }

    /// Executes what [`decode`] planned of one part.
    pub(crate) fn execute(
        &mut self,
        input: &[u8],
        chunk: &Chunk,
        keys: &mut Commit,
        conditions: &mut Conditions,
        part: &mut Part,
        tally: &mut Tally,
    ) {
        part.result.ended_ms = keys.now_ms();
        if part.len > 0
            && let Some(end) = self.execute_planned(input, chunk, keys, conditions, part, tally)
        {
            self.end_part(chunk, part, end);
        }
        if let SliceEnd::Malformed(error) = part.result.end {
            cold_path();
            self.server.stats.threads[self.thread].protocol_errors.add(1);
            if self.session.reply_mode == ReplyMode::On {
                self.reply.error_bytes(&[b"ERR ", error.to_bytes().as_slice()].concat());
            }
            (part.result.consumed, part.result.end) = (input.len(), SliceEnd::Close);
        }
    }

    /// Ends a part before its end: the rest is still to be executed, unless the connection closes.
    #[cold]
    fn end_part(&mut self, chunk: &Chunk, part: &mut Part, end: ChunkEnd) {
        let result = &mut part.result;
        match end {
            ChunkEnd::Close => result.end = SliceEnd::Close,
            ChunkEnd::Blocked { consumed } => {
                self.decoder.reset();
                (result.consumed, result.end) = (consumed, SliceEnd::Blocked);
            }
            ChunkEnd::Stopped { end, requeue } => {
                self.decoder.reset();
                let next = &chunk.planned[part.first + part.rows];
                result.consumed = if requeue.is_some() { next.end } else { next.nth_start(part.of_next) };
                (result.end, result.requeue) = (end, requeue);
            }
        }
    }

    /// Executes the rows of a part; says why it ended before its end, if it did.
    fn execute_planned(
        &mut self,
        input: &[u8],
        chunk: &Chunk,
        keys: &mut Commit,
        conditions: &mut Conditions,
        part: &mut Part,
        tally: &mut Tally,
    ) -> Option<ChunkEnd> {
        let planned = &chunk.planned[part.first..part.first + part.len];
        let server = self.server;
        keys.begin_part(self.session);
        let owned = &chunk.owned[part.owned.clone()];
        let mut ctx = Ctx::new(server, self.thread, &mut *self.session, &mut *self.reply, keys);
        let plain = ctx.session.authenticated && !conditions.full;
        let mut steps = Steps { conditions, tally, plain, spilled: *self.spilled };
        let mut end = None;
        let (mut rows, mut of_next, mut more) = (0, 0, 0);
        'rows: for row in planned {
            let ranges = &chunk.args[row.args.0 as usize..row.args.1 as usize];
            ctx.argv = Argv::new(&input[row.start..], ranges, owned);
            ctx.planned = PlannedKeys {
                first: row.first_key,
                step: row.step,
                hashes: &chunk.hashes[row.hashes.0 as usize..row.hashes.1 as usize],
                shard: row.shard,
            };
            if row.times == 1 {
                if let Some((is_before, why)) = steps.step(&mut ctx, row, (part.first + rows, 0)) {
                    cold_path();
                    of_next = u32::from(!is_before);
                    end = Some(why);
                    break;
                }
            } else {
                cold_path();
                while of_next < row.times {
                    if steps.conditions.pause == Pause::None && !row.shard.is_some_and(Shard::is_held_long) {
                        of_next += execute_row(&mut ctx, row.command, row.times - of_next, steps.conditions.full);
                    }
                    if of_next == row.times {
                        break;
                    }
                    let stopped = steps.step_of_row(&mut ctx, row, (part.first + rows, of_next));
                    of_next += u32::from(!stopped.as_ref().is_some_and(|(is_before, _)| *is_before));
                    if let Some((_, why)) = stopped {
                        end = Some(why);
                        break 'rows;
                    }
                }
                more += u64::from(row.times) - 1;
                of_next = 0;
            }
            rows += 1;
        }
        (part.rows, part.of_next) = (rows, of_next);
        let len = rows as u64 + u64::from(of_next) + more;
        steps.tally.len += len;
        if len > 0
            && let Some(last) = planned[rows - usize::from(of_next == 0)].command
            && last.is_short()
        {
            // Of those that are not short the handler's caller has noted it.
            ctx.session.handle.activity.last_command.store(u32::from(last.id), Relaxed);
        }
        ctx.keys.release();
        ctx.keys.free_garbage();
        if ctx.changes > 0 {
            server.stats.threads[self.thread].changes.add(ctx.changes);
        }
        *self.spilled = false;
        end
    }
}

/// What all commands of a chunk are executed under; a command that is not short may have changed it.
pub(crate) struct Conditions {
    reply_limit: usize,
    pause: Pause,
    /// Whether commands that use memory have to be refused.
    full: bool,
}

impl Conditions {
    /// The present ones; evicts where too much memory is in use. No locks are held.
    pub(crate) fn now(server: &Server, keys: &mut Commit) -> Self {
        Self {
            reply_limit: server.hot.reply_limit_bytes.load(Relaxed),
            pause: server.pause(keys.now_ms()),
            full: keys.keep_within_memory() == Memory::Stuck,
        }
    }
}

/// What executing one command after the other needs to know.
struct Steps<'a> {
    conditions: &'a mut Conditions,
    tally: &'a mut Tally,
    plain: bool,
    spilled: bool,
}

impl Steps<'_> {
    /// Executes the `nth` command of row `at`; says why to stop in front of it (true) or behind it (false), if so.
    #[inline(always)]
    fn step(&mut self, ctx: &mut Ctx<'_>, row: &Planned, (at, nth): (usize, u32)) -> Option<(bool, ChunkEnd)> {
        let stop = if ctx.out.len() >= self.conditions.reply_limit {
            ctx.server.stats.threads[ctx.thread].reply_limit_pauses.add(1);
            Some(SliceEnd::ReplyLimit)
        } else if row.shard.is_some_and(Shard::is_held_long) {
            Some(SliceEnd::HeldLong)
        } else if self.conditions.pause != Pause::None && held_back(ctx, self.conditions.pause, row.command) {
            Some(SliceEnd::Paused)
        } else {
            None
        };
        if let Some(end) = stop {
            cold_path();
            return Some((true, ChunkEnd::Stopped { end, requeue: self.spilled.then(|| encode(&ctx.argv).into()) }));
        }
        let long_ns = execute(ctx, row.command, self.plain, self.conditions.full);
        if long_ns > 0 {
            cold_path();
            if std::mem::take(&mut ctx.is_held_back) {
                let requeue = self.spilled.then(|| encode(&ctx.argv).into());
                return Some((true, ChunkEnd::Stopped { end: SliceEnd::HeldLong, requeue }));
            }
            self.tally.timed_ns += long_ns;
            if std::mem::take(&mut ctx.refused) {
                self.tally.refused.push(at);
            }
            ctx.keys.release();
            *self.conditions = Conditions::now(ctx.server, ctx.keys);
            self.plain = ctx.session.authenticated && !self.conditions.full;
            ctx.keys.look_for_log();
            if ctx.session.waiter.is_some() {
                return Some((false, ChunkEnd::Blocked { consumed: row.nth_start(nth + 1) }));
            }
        }
        ctx.session.close_after_reply.then_some((false, ChunkEnd::Close))
    }

    #[inline(never)]
    fn step_of_row(&mut self, ctx: &mut Ctx<'_>, row: &Planned, place: (usize, u32)) -> Option<(bool, ChunkEnd)> {
        self.step(ctx, row, place)
    }
}

/// Why the execution of a part ended before its end.
enum ChunkEnd {
    Close,
    Blocked { consumed: usize },
    Stopped { end: SliceEnd, requeue: Option<Box<[u8]>> },
}

/// Whether CLIENT PAUSE applies to a command.
#[cold]
fn held_back(ctx: &Ctx<'_>, pause: Pause, planned: Option<&'static Command>) -> bool {
    match pause {
        Pause::None => false,
        Pause::All => true,
        Pause::Writes => {
            // Subcommands are not looked up in planning.
            let command = planned.or_else(|| ctx.server.commands.resolve(&ctx.argv).ok());
            command.is_some_and(|command| command.flags.intersects(Flags::WRITE | Flags::MAY_REPLICATE))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::ClientHandle;
    use crate::config::Config;
    use onrush_persist::{Record, Sink};
    use parking_lot::Mutex;
    use std::sync::Arc;

    /// A connection without a socket, to a server of its own.
    struct Harness {
        server: &'static Server,
        session: Session,
        decoder: Decoder,
        scratch: Scratch,
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
            let config = Config::default().with("enable-debug-command", "yes").expect("a directive");
            let server: &'static Server = Box::leak(Box::new(Server::new(config, None).expect("a server")));
            let handle = ClientHandle::new(1, String::new(), String::new(), -1, false, 0);
            let log = Arc::default();
            server.log.attach(Box::new(Collect(Arc::clone(&log)))).expect("a thread");
            Self {
                server,
                session: Session::new(Arc::new(handle), true),
                decoder: Decoder::new(),
                scratch: Scratch::new(),
                log,
            }
        }

        /// Sends commands, in as many slices as they take; returns the replies.
        fn run(&mut self, commands: &str) -> String {
            let mut reply = Reply::new();
            let (mut consumed, mut end) = (0, SliceEnd::TimeUp);
            while end == SliceEnd::TimeUp {
                let slice = Slice {
                    server: self.server,
                    thread: 0,
                    decoder: &mut self.decoder,
                    session: &mut self.session,
                    reply: &mut reply,
                    spilled: &mut false,
                };
                let result = slice.run(&commands.as_bytes()[consumed..], &mut self.scratch);
                consumed += result.consumed;
                end = result.end;
            }
            assert_eq!((consumed, end), (commands.len(), SliceEnd::InputUsedUp), "{commands}");
            String::from_utf8_lossy(reply.as_single_slice().expect("short replies")).into_owned()
        }

        fn effects(&mut self, commands: &str) -> Vec<String> {
            self.run(commands);
            self.server.log.flush();
            std::mem::take(&mut *self.log.lock())
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
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| harness.run("INCR a\nDEBUG PANIC\n")));
        assert!(caught.is_err());
        harness.decoder.reset();
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
            let panic = format!("DEBUG PANIC {key}\n");
            let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| harness.run(&panic)));
            assert!(caught.is_err());
            harness.decoder.reset();
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
            let command = harness.server.commands.lookup(name.as_bytes()).expect("a command");
            harness.server.stats.threads[0].commands[command.id as usize].calls.get()
        };
        harness.run(&multibulks(&"SET a 1\n".repeat(500)));
        harness.run(&multibulks(&(0..100).map(|n| format!("SET key:{n} 1\n")).collect::<String>()));
        harness.run(&multibulks(&"GET a\nSET a 2\nNOSUCH\nGET\nKEYS *\n".repeat(20)));
        assert_eq!([calls(&harness, "set"), calls(&harness, "get"), calls(&harness, "keys")], [620, 20, 20]);
        assert_eq!(harness.server.stats.threads[0].commands_processed.get(), 660);
    }

    #[test]
    fn refused_commands_do_not_count_as_calls() {
        let mut harness = Harness::new();
        let counts = |harness: &Harness| {
            let stats = &harness.server.stats.threads[0];
            let of = |name: &[u8]| {
                let command = harness.server.commands.lookup(name).expect("a command");
                let counters = &stats.commands[command.id as usize];
                [counters.calls.get(), counters.rejected.get(), counters.failed.get()]
            };
            (of(b"set"), of(b"get"), stats.commands_processed.get())
        };
        let sets = "SET a 1\n".repeat(40);
        let pipeline = multibulks(&(sets + "GET a\nSET b 1\nSET b\nGET a\nINCR a b\n"));
        harness.run(&pipeline);
        assert_eq!(counts(&harness), ([41, 1, 0], [2, 0, 0], 43));
        harness.server.hot.maxmemory.store(1, Relaxed);
        harness.run(&pipeline);
        assert_eq!(counts(&harness), ([41, 43, 0], [4, 0, 0], 45));
        harness.run(&multibulks(&"SET a 1\n".repeat(3)));
        harness.server.hot.maxmemory.store(0, Relaxed);
        harness.server.hot.password_set.store(true, Relaxed);
        harness.session.authenticated = false;
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
