//! The batch pipeline: what happens to the commands one read brought.
//!
//! A slice of work goes chunk by chunk: decode up to [`CHUNK_LEN_MAX`] commands, plan them (look each up, hash its
//! keys, prefetch the buckets and then the entries), execute them strictly in order. It ends when the input is used
//! up, when the unread replies pass their limit, or when its time is over.
//!
//! Prefetching is sound because no memory is read that another thread may free: the address of a bucket is computed
//! from two atomics and only prefetched, and entries are found under their shard's lock, which is given back and
//! taken again for execution.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use onrush_resp::{ArgRange, Decoded, Decoder, Limits, Reply};
use onrush_store::{Db, KeyHash, Removed, Shard};

use crate::command::{Command, Flags};
use crate::ctx::{Argv, Ctx, Effects, PlannedKeys};
use crate::error::{self, CommandError};
use crate::keys::Keys;
use crate::server::{Pause, Server};
use crate::session::{ReplyMode, Session};

/// Commands planned together.
pub const CHUNK_LEN_MAX: usize = 32;

/// Keys of one chunk that are prefetched; more would push each other out of the cache.
const PREFETCH_KEYS_MAX: usize = 512;

/// Bytes read from a socket at once.
pub const READ_LEN_MAX: usize = 128 * 1024;

/// Reply buffers a thread keeps for reuse, and the largest it keeps, in bytes.
const SPARE_REPLIES_MAX: usize = 16;
const SPARE_REPLY_BYTES_MAX: usize = 256 * 1024;

/// Buffers of a thread, used by the connection that runs.
pub struct Scratch {
    planned: Vec<Planned>,
    args: Vec<ArgRange>,
    hashes: Vec<KeyHash>,
    /// Shards of the keys, for prefetching.
    targets: Vec<(&'static Shard, KeyHash)>,
    spare_replies: Vec<Vec<u8>>,
    /// The thread's way into the keyspace, outside of slices; made at the first one, and again after a panic.
    keys: Option<Box<Keys>>,
    /// Where sockets are read into while their connection holds no unfinished command.
    pub read: Vec<u8>,
}

impl Scratch {
    fn new() -> Self {
        Self {
            planned: Vec::with_capacity(CHUNK_LEN_MAX),
            args: Vec::new(),
            hashes: Vec::new(),
            targets: Vec::new(),
            spare_replies: Vec::new(),
            keys: None,
            read: vec![0; READ_LEN_MAX],
        }
    }

    /// An empty reply buffer, used before if there is one.
    pub fn take_reply_buffer(&mut self) -> Vec<u8> {
        self.spare_replies.pop().unwrap_or_else(|| Vec::with_capacity(16 * 1024))
    }

    /// Keeps an empty reply buffer for the next batch.
    pub fn give_reply_buffer(&mut self, buffer: Vec<u8>) {
        if self.spare_replies.len() < SPARE_REPLIES_MAX && (1..=SPARE_REPLY_BYTES_MAX).contains(&buffer.capacity()) {
            self.spare_replies.push(buffer);
        }
    }
}

thread_local! {
    /// The thread's buffers.
    pub static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch::new());
}

/// A command of the present chunk.
struct Planned {
    /// First byte of the command in the input.
    start: usize,
    /// First byte behind it.
    end: usize,
    args: (u32, u32),
    hashes: (u32, u32),
    /// The command, or the subcommand; `None` when it has to be resolved the slow way, to tell what is wrong.
    command: Option<&'static Command>,
    first_key: u32,
    step: u32,
}

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
    /// The connection closes when the replies are written.
    Close,
}

/// What a slice of work did.
pub struct SliceResult {
    /// Bytes of the input that are done with.
    pub consumed: usize,
    /// Why it ended.
    pub end: SliceEnd,
    /// A command that was taken from the input but not executed: its bytes, to be put in front of the rest.
    pub requeue: Option<Vec<u8>>,
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
        let mut keys = scratch.keys.take().unwrap_or_else(|| Box::new(Keys::new(self.server, self.thread)));
        keys.enter();
        keys.set_db(self.session.db);
        let result = self.run_chunks(input, scratch, &mut keys);
        let stats = &self.server.stats.threads[self.thread];
        if keys.hits + keys.misses > 0 {
            stats.keyspace_hits.add(std::mem::take(&mut keys.hits));
            stats.keyspace_misses.add(std::mem::take(&mut keys.misses));
        }
        keys.leave();
        scratch.keys = Some(keys);
        result
    }

    fn run_chunks(&mut self, input: &[u8], scratch: &mut Scratch, keys: &mut Keys) -> SliceResult {
        let hot = &self.server.hot;
        let slice_max = Duration::from_micros(hot.slice_us.load(Relaxed));
        let reply_limit = hot.reply_limit_bytes.load(Relaxed);
        let mut limits = Limits { bulk_len_max: hot.bulk_len_max.load(Relaxed), ..Limits::default() };
        if !self.session.authenticated && !hot.password_set.load(Relaxed) {
            // The password was taken away since this client connected.
            self.session.authenticated = true;
        }
        let started = Instant::now();
        let mut now = started;
        let mut consumed = 0;
        loop {
            limits.unauthenticated = !self.session.authenticated;
            let now_ms = self.server.clock.unix_ms(now);
            keys.now_ms = now_ms;
            keys.clock = self.server.access_clock(now_ms, self.session.no_touch);
            let decoded = self.decode_chunk(input, consumed, scratch, &limits, keys);
            let pause = self.server.pause(now_ms);
            let (ended, executed) = self.execute_chunk(input, scratch, keys, decoded.owned, reply_limit, pause);
            let chunk_started = std::mem::replace(&mut now, Instant::now());
            if executed.len > 0 {
                self.count(&scratch.planned[..executed.len], now - chunk_started, executed.timed_ns);
            }
            let result = |consumed, end, requeue| SliceResult { consumed, end, requeue, ended_ms: now_ms };
            match ended {
                ChunkEnd::Done => consumed = decoded.consumed,
                ChunkEnd::Close => return result(decoded.consumed, SliceEnd::Close, None),
                ChunkEnd::Stopped { next, end, requeue } => {
                    self.decoder.reset();
                    let consumed = match &requeue {
                        Some(_) => scratch.planned[next].end,
                        None => scratch.planned[next].start,
                    };
                    return result(consumed, end, requeue);
                }
            }
            match decoded.stop {
                None => {}
                Some(Ok(end)) => return result(consumed, end, None),
                Some(Err(error)) => {
                    self.server.stats.threads[self.thread].protocol_errors.add(1);
                    if self.session.reply_mode == ReplyMode::On {
                        self.reply.error(&format!("ERR {error}"));
                    }
                    return result(input.len(), SliceEnd::Close, None);
                }
            }
            if now - started >= slice_max {
                return result(consumed, SliceEnd::TimeUp, None);
            }
        }
    }

    /// Decodes and plans the next chunk from `input[consumed..]`.
    fn decode_chunk(
        &mut self,
        input: &[u8],
        mut consumed: usize,
        scratch: &mut Scratch,
        limits: &Limits,
        keys: &Keys,
    ) -> DecodedChunk {
        scratch.planned.clear();
        scratch.args.clear();
        scratch.hashes.clear();
        scratch.targets.clear();
        let mut owned = Vec::new();
        let mut stop = None;
        let mut planner = Planner { server: self.server, db: self.server.keyspace.db(keys.db() as usize), last: None };
        while scratch.planned.len() < CHUNK_LEN_MAX {
            let first = scratch.args.len();
            match self.decoder.decode(&input[consumed..], &mut scratch.args, limits) {
                Ok(Decoded::Command { len }) => {
                    let planned = Planned {
                        start: consumed,
                        end: consumed + len,
                        args: (first as u32, scratch.args.len() as u32),
                        hashes: (0, 0),
                        command: None,
                        first_key: 0,
                        step: 1,
                    };
                    consumed += len;
                    if self.decoder.has_owned() {
                        owned = self.decoder.take_owned();
                        planner.plan(planned, input, &owned, scratch);
                        break;
                    }
                    planner.plan(planned, input, &owned, scratch);
                    if limits.unauthenticated {
                        // What follows may be read with wider limits.
                        break;
                    }
                }
                Ok(Decoded::Nothing { len }) => consumed += len,
                Ok(Decoded::Incomplete) => {
                    stop = Some(Ok(SliceEnd::InputUsedUp));
                    break;
                }
                Ok(Decoded::NeedBulk { at, len }) => {
                    stop = Some(Ok(SliceEnd::NeedBulk { at, len }));
                    break;
                }
                Err(error) => {
                    stop = Some(Err(error));
                    break;
                }
            }
        }
        if scratch.planned.len() > 1 {
            self.prefetch(scratch);
        }
        DecodedChunk { consumed, owned, stop }
    }

    /// Brings the buckets and then the entries of the chunk's keys into the cache.
    #[inline]
    fn prefetch(&self, scratch: &Scratch) {
        let wanted = &scratch.targets[..scratch.targets.len().min(PREFETCH_KEYS_MAX)];
        for (shard, hash) in wanted {
            shard.prefetch_bucket(*hash);
        }
        for (shard, hash) in wanted {
            // Somebody else's lock is not worth waiting for here.
            shard.try_prefetch_entry(*hash);
        }
    }

    #[allow(clippy::too_many_arguments, reason = "the chunk's frame, passed once per chunk")]
    fn execute_chunk(
        &mut self,
        input: &[u8],
        scratch: &Scratch,
        keys: &mut Keys,
        owned: Vec<Arc<Vec<u8>>>,
        reply_limit: usize,
        mut pause: Pause,
    ) -> (ChunkEnd, Executed) {
        let planned = &scratch.planned;
        let mut executed = Executed::default();
        if planned.is_empty() {
            return (ChunkEnd::Done, executed);
        }
        let server = self.server;
        let stats = &server.stats.threads[self.thread];
        let log = server.log.is_listening();
        let full = is_out_of_memory(server);
        let no_args = Argv::new(&[], &[], &[]);
        let mut ctx = Ctx {
            server,
            session: &mut *self.session,
            out: &mut *self.reply,
            keys,
            argv: no_args,
            command: server.commands.command(0),
            thread: self.thread,
            planned: PlannedKeys::default(),
            changes: 0,
            log,
            effects: Effects::AsSent,
        };
        let mut end = ChunkEnd::Done;
        for (index, command) in planned.iter().enumerate() {
            let ranges = &scratch.args[command.args.0 as usize..command.args.1 as usize];
            ctx.argv = Argv::new(&input[command.start..], ranges, &owned);
            let stop = if ctx.out.len() >= reply_limit {
                stats.reply_limit_pauses.add(1);
                Some(SliceEnd::ReplyLimit)
            } else if pause != Pause::None && held_back(pause, command.command) {
                Some(SliceEnd::Paused)
            } else {
                None
            };
            if let Some(stop) = stop {
                let requeue = (*self.spilled && index == 0).then(|| encode(&ctx.argv));
                end = ChunkEnd::Stopped { next: index, end: stop, requeue };
                break;
            }
            ctx.planned = PlannedKeys {
                first: command.first_key,
                step: command.step,
                hashes: &scratch.hashes[command.hashes.0 as usize..command.hashes.1 as usize],
            };
            let long_ns = execute(&mut ctx, command.command, full);
            executed.timed_ns += long_ns;
            executed.len += 1;
            if long_ns > 0 {
                ctx.keys.release();
                ctx.log = server.log.is_listening();
                pause = server.pause(ctx.keys.now_ms);
            }
            if ctx.session.close_after_reply {
                end = ChunkEnd::Close;
                break;
            }
        }
        ctx.keys.release();
        ctx.keys.free_garbage();
        if ctx.changes > 0 {
            stats.changes.add(ctx.changes);
        }
        *self.spilled = false;
        (end, executed)
    }

    /// Counts a chunk's commands and spreads its time evenly over the short ones; long ones were timed by themselves.
    fn count(&self, done: &[Planned], took: Duration, timed_ns: u64) {
        let stats = &self.server.stats.threads[self.thread];
        stats.commands_processed.add(done.len() as u64);
        let handle = &self.session.handle;
        handle.commands.store(handle.commands.load(Relaxed) + done.len() as u64, Relaxed);
        let short = done.iter().filter_map(|planned| planned.command).filter(|command| command.is_short());
        let short_len = short.clone().count() as u64;
        if short_len == 0 {
            return;
        }
        let each_ns = (took.as_nanos() as u64).saturating_sub(timed_ns) / short_len;
        let mut last = None;
        for command in short {
            let counters = &stats.commands[command.id as usize];
            counters.calls.add(1);
            counters.nanos.add(each_ns);
            last = Some(command.id);
        }
        if let Some(last) = last {
            handle.last_command.store(u32::from(last), Relaxed);
        }
    }
}

/// How much of a chunk was executed.
#[derive(Default)]
struct Executed {
    /// Commands.
    len: usize,
    /// Time of those that are timed by themselves, in nanoseconds.
    timed_ns: u64,
}

/// Looks up the commands of a chunk and hashes their keys.
struct Planner<'a> {
    server: &'static Server,
    /// The database to prefetch from.
    db: Option<&'static Db>,
    /// The command before, as it was spelled: pipelines repeat themselves.
    last: Option<(&'a [u8], &'static Command)>,
}

impl<'a> Planner<'a> {
    /// Plans one command and appends it to the chunk; the shards of its keys are prefetched.
    #[inline]
    fn plan(&mut self, mut planned: Planned, input: &'a [u8], owned: &[Arc<Vec<u8>>], scratch: &mut Scratch) {
        let Scratch { planned: chunk, args, hashes, targets, .. } = scratch;
        let ranges = &args[planned.args.0 as usize..planned.args.1 as usize];
        let argv = Argv::new(&input[planned.start..], ranges, owned);
        if let Some(command) = self.lookup(input, planned.start, ranges[0], argv)
            && command.accepts(argv.len())
            && !command.is_container()
        {
            planned.command = Some(command);
            if let Some((first, last, step)) = command.plan {
                let at = hashes.len() as u32;
                planned.first_key = first as u32;
                planned.step = step as u32;
                if last == first {
                    self.add_key(argv.get(first as usize), hashes, targets);
                } else {
                    let last = if last < 0 { (argv.len() as i32 + last).max(0) } else { last };
                    let last = (last as usize).min(argv.len() - 1);
                    for index in (first as usize..=last).step_by(step as usize) {
                        self.add_key(argv.get(index), hashes, targets);
                    }
                }
                planned.hashes = (at, hashes.len() as u32);
            }
        }
        chunk.push(planned);
    }

    /// Hashes a key and prefetches its shard.
    #[inline(always)]
    fn add_key(&self, key: &[u8], hashes: &mut Vec<KeyHash>, targets: &mut Vec<(&'static Shard, KeyHash)>) {
        let hash = self.server.keyspace.hash(key);
        // The same key again and again needs to be fetched once.
        let again = hashes.last() == Some(&hash);
        hashes.push(hash);
        if !again && let Some(db) = self.db {
            let shard = db.shard_of(hash);
            shard.prefetch();
            targets.push((shard, hash));
        }
    }

    #[inline(always)]
    fn lookup(&mut self, input: &'a [u8], start: usize, name: ArgRange, argv: Argv<'_>) -> Option<&'static Command> {
        if let Some((spelled, command)) = self.last
            && spelled == argv.get(0)
        {
            return Some(command);
        }
        let command = self.server.commands.lookup(argv.get(0))?;
        if name.owned_index().is_none() {
            self.last = Some((name.of(&input[start..], &[]), command));
        }
        Some(command)
    }
}

struct DecodedChunk {
    /// End of the chunk in the input.
    consumed: usize,
    /// Owned arguments of its last command.
    owned: Vec<Arc<Vec<u8>>>,
    /// Why decoding stopped before the chunk was full.
    stop: Option<Result<SliceEnd, onrush_resp::ProtocolError>>,
}

enum ChunkEnd {
    Done,
    Close,
    Stopped { next: usize, end: SliceEnd, requeue: Option<Vec<u8>> },
}

/// Whether CLIENT PAUSE applies to a command.
fn held_back(pause: Pause, command: Option<&'static Command>) -> bool {
    match pause {
        Pause::None => false,
        Pause::All => true,
        Pause::Writes => command.is_some_and(|command| command.flags.intersects(Flags::WRITE | Flags::MAY_REPLICATE)),
    }
}

/// Whether commands that use memory have to be refused.
fn is_out_of_memory(server: &Server) -> bool {
    let limit = server.hot.maxmemory.load(Relaxed);
    limit > 0 && server.used_memory() > limit
}

/// The command as it came.
fn encode(argv: &Argv<'_>) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", argv.len()).into_bytes();
    for arg in argv.iter() {
        bytes.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        bytes.extend_from_slice(arg);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// Executes one command; returns the nanoseconds it took if it is one that is timed by itself.
#[inline]
fn execute(ctx: &mut Ctx<'_>, planned: Option<&'static Command>, full: bool) -> u64 {
    let mark = ctx.out.mark();
    let result;
    let mut timed = 0;
    match planned {
        Some(command) if command.is_short() && ctx.session.authenticated && !(full && command.is_denied_oom()) => {
            ctx.command = command;
            result = (command.handler)(ctx);
            if let Err(error) = result {
                ctx.server.stats.threads[ctx.thread].commands[command.id as usize].failed.add(1);
                fail(ctx, mark, &error);
            }
        }
        _ => {
            let started = Instant::now();
            result = execute_long(ctx, full, started);
            if let Err(error) = result {
                fail(ctx, mark, &error);
            }
            timed = (started.elapsed().as_nanos() as u64).max(1);
        }
    }
    if ctx.keys.has_expired() || ctx.log {
        record(ctx);
    }
    ctx.keys.end_command();
    if ctx.session.reply_mode != ReplyMode::On {
        leave_out(ctx, mark);
    }
    timed
}

/// CLIENT REPLY: drops the reply of the command that just ran.
#[cold]
fn leave_out(ctx: &mut Ctx<'_>, mark: onrush_resp::Mark) {
    match ctx.session.reply_mode {
        ReplyMode::On => {}
        ReplyMode::Off => ctx.out.rewind(mark),
        ReplyMode::Skip => {
            ctx.out.rewind(mark);
            ctx.session.reply_mode = ReplyMode::On;
        }
        ReplyMode::SkipNext => {
            ctx.out.rewind(mark);
            ctx.session.reply_mode = ReplyMode::Skip;
        }
    }
}

/// Commands that may take long, that need a subcommand looked up, or with which something is wrong.
#[cold]
fn execute_long(ctx: &mut Ctx<'_>, full: bool, started: Instant) -> Result<(), CommandError> {
    let command = match ctx.server.commands.resolve(&ctx.argv) {
        Ok(command) => command,
        Err(_) if is_http(ctx.arg(0)) => {
            // A browser was made to talk to this port: nothing of what it says may run.
            tracing::warn!(
                "Possible security attack: HTTP request from {}, closing its connection",
                ctx.session.handle.addr
            );
            ctx.session.close_after_reply = true;
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    ctx.command = command;
    let counters = &ctx.server.stats.threads[ctx.thread].commands[command.id as usize];
    let refused = if !command.accepts(ctx.argv.len()) {
        Some(command.wrong_arity())
    } else if !ctx.session.authenticated && !command.flags.contains(Flags::NO_AUTH) {
        ctx.server.stats.threads[ctx.thread].auth_denied.add(1);
        Some(error::NO_AUTH)
    } else if full && command.is_denied_oom() {
        Some(error::OUT_OF_MEMORY)
    } else {
        None
    };
    if let Some(error) = refused {
        counters.rejected.add(1);
        return Err(error);
    }
    ctx.session.handle.last_command.store(u32::from(command.id), Relaxed);
    let result = (command.handler)(ctx);
    counters.failed.add(u64::from(result.is_err()));
    if !command.is_short() {
        counters.calls.add(1);
        counters.nanos.add(started.elapsed().as_nanos() as u64);
    }
    result
}

/// Whether a word begins a line of HTTP that every request of a browser has.
fn is_http(word: &[u8]) -> bool {
    word.eq_ignore_ascii_case(b"post") || word.eq_ignore_ascii_case(b"host:")
}

#[cold]
fn fail(ctx: &mut Ctx<'_>, mark: onrush_resp::Mark, error: &CommandError) {
    ctx.out.rewind(mark);
    ctx.out.error_bytes(error.as_bytes());
    ctx.server.stats.threads[ctx.thread].error_replies.add(1);
    ctx.server.stats.count_error(error.code());
}

/// Appends a command's effects to the log, while its locks are still held.
#[cold]
fn record(ctx: &mut Ctx<'_>) {
    let changes = if ctx.log { std::mem::take(&mut ctx.changes) } else { 0 };
    let expired: Vec<(u32, Removed)> = ctx.keys.take_expired();
    ctx.server.stats.threads[ctx.thread].changes.add(expired.len() as u64);
    ctx.server.stats.threads[ctx.thread].expired_keys.add(expired.len() as u64);
    for (db, removed) in expired {
        if ctx.log {
            ctx.server.log.append(db, &[b"DEL", removed.key()]);
        }
        ctx.keys.discard(Some(removed));
    }
    if changes > 0 {
        let db = ctx.keys.db();
        match std::mem::take(&mut ctx.effects) {
            Effects::AsSent => ctx.server.log.append(db, &ctx.argv.iter().collect::<Vec<_>>()),
            Effects::Rewritten(commands) => {
                for args in commands {
                    ctx.server.log.append(db, &args.iter().map(Vec::as_slice).collect::<Vec<_>>());
                }
            }
        }
        ctx.server.stats.threads[ctx.thread].changes.add(changes);
    }
    ctx.effects = Effects::AsSent;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::ClientHandle;
    use crate::config::Config;
    use onrush_persist::Sink;
    use parking_lot::Mutex;

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
        fn record(&mut self, db: u32, args: &[&[u8]]) {
            let words: Vec<_> = args.iter().map(|arg| String::from_utf8_lossy(arg)).collect();
            self.0.lock().push(format!("{db} {}", words.join(" ")));
        }
    }

    impl Harness {
        fn new() -> Self {
            let config = Config::default().with("enable-debug-command", "yes").expect("a directive");
            let server: &'static Server = Box::leak(Box::new(Server::new(config, None).expect("a server")));
            let handle = ClientHandle::new(1, String::new(), String::new(), 0, false, 0, 0);
            let log = Arc::default();
            server.log.attach(Box::new(Collect(Arc::clone(&log))));
            Self {
                server,
                session: Session::new(Arc::new(handle), true),
                decoder: Decoder::new(),
                scratch: Scratch::new(),
                log,
            }
        }

        /// Sends inline commands; returns the replies.
        fn run(&mut self, commands: &str) -> String {
            let mut reply = Reply::new();
            let slice = Slice {
                server: self.server,
                thread: 0,
                decoder: &mut self.decoder,
                session: &mut self.session,
                reply: &mut reply,
                spilled: &mut false,
            };
            let result = slice.run(commands.as_bytes(), &mut self.scratch);
            assert_eq!((result.consumed, result.end), (commands.len(), SliceEnd::InputUsedUp), "{commands}");
            String::from_utf8_lossy(reply.as_single_slice().expect("short replies")).into_owned()
        }

        fn effects(&mut self, commands: &str) -> Vec<String> {
            self.run(commands);
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
