//! The batch pipeline: executing what was planned.
//!
//! A connection's part of a chunk is executed strictly in order. Execution ends at the end of the part, or earlier:
//! when the unread replies pass their limit, when a command waits, or when the connection closes.

use std::hint::cold_path;
use std::sync::atomic::Ordering::Relaxed;

use onrush_resp::{Decoder, Reply};

use crate::batch::admission::Conditions;
use crate::batch::argv::Argv;
use crate::batch::chunk::{Chunk, Part, Planned, Tally};
use crate::batch::counted::{Counted, MULTI_LEN, QUEUED_LEN, sent_bytes, slot_of_present};
use crate::batch::execute::{End, count_earlier, encode, execute, fail, hear, leave_out};
use crate::batch::permission::are_permitted;
use crate::batch::place::Place;
use crate::batch::planned_keys::PlannedKeys;
use crate::batch::slice::SliceEnd;
use crate::batch::slot_notes::Bytes;
use crate::clients::session::{ReplyMode, Session, States};
use crate::command::Command;
use crate::commit::Commit;
use crate::ctx::{Ctx, Engine};
use crate::messages::show::show;
use crate::transactions::inside::queue;
use crate::transactions::together::{Rest, Together, execute_together};

/// What executing a connection's commands needs of the connection.
pub struct Lane<'a> {
    /// Its decoder.
    pub decoder: &'a mut Decoder,
    /// Its state.
    pub session: &'a mut Session,
    /// Its reply buffer.
    pub reply: &'a mut Reply,
    /// Whether the first command has arguments that no longer stand in the input.
    pub spilled: &'a mut bool,
}

/// A chunk that is executed.
pub(crate) struct Execution<'a> {
    pub(crate) engine: &'static Engine,
    pub(crate) thread: usize,
    pub(crate) chunk: &'a Chunk,
    pub(crate) commit: &'a mut Commit,
    pub(crate) conditions: &'a mut Conditions,
    pub(crate) tally: &'a mut Tally,
}

impl Execution<'_> {
    /// Executes the part of one connection, whose input is `input`.
    pub(crate) fn execute(&mut self, lane: &mut Lane<'_>, input: &[u8], part: &mut Part) {
        part.result.ended_ms = self.commit.now_ms();
        if part.len == 0 {
            return self.refuse_malformed(lane, input, part);
        }
        let Self { engine, thread, chunk, ref mut commit, ref mut conditions, ref mut tally } = *self;
        let planned = &chunk.planned[part.first..part.first + part.len];
        commit.begin_part(lane.session);
        lane.session.look_at_rights(&engine.users);
        let (is_free, changed_lsn, replied) = (!conditions.restricts, commit.changed_lsn(), lane.reply.len());
        let owned = &chunk.owned[part.owned.clone()];
        let mut ctx = Ctx::new(engine, thread, &mut *lane.session, &mut *lane.reply, commit);
        let plain = conditions.admit_all_short(&ctx)
            || ctx.session.states == States::RESTRICTED
                && conditions.admit_all_short_but_for_rights(&ctx)
                && are_permitted(&ctx, planned, chunk, input, owned);
        let states = ctx.session.states;
        let mut steps = Steps {
            mode: Mode::of(conditions, plain),
            conditions,
            tally,
            planned: &chunk.planned,
            states,
            spilled: *lane.spilled,
            has_owned: !owned.is_empty(),
            scripts_ns: 0,
        };
        let mut end = None;
        let (mut runs, mut of_next, mut more) = (0, 0, 0);
        while let Some(run) = planned.get(runs) {
            let ranges = &chunk.args[run.args.0 as usize..run.args.1 as usize];
            ctx.argv = Argv::new(&input[run.start..], ranges, owned);
            ctx.planned = PlannedKeys {
                first: run.first_key,
                step: run.step,
                hashes: &chunk.hashes[run.hashes.0 as usize..run.hashes.1 as usize],
                shard: run.shard,
            };
            if run.times == 1 {
                let place = Place { run: part.first + runs, nth: 0 };
                let turn = match steps.mode {
                    Mode::Plain => steps.step::<true>(&mut ctx, run, place),
                    _ => steps.step_seen(&mut ctx, run, place),
                };
                if let Some(turn) = turn {
                    cold_path();
                    match turn {
                        Turn::Queues => {
                            let rest = Rest { chunk, input, part, next: runs + 1 };
                            runs += 1 + steps.step_together(&mut ctx, rest, &mut more);
                            continue;
                        }
                        Turn::EndsBefore(why) => end = Some(why),
                        Turn::EndsBehind(why) => (of_next, end) = (1, Some(why)),
                    }
                    break;
                }
            } else {
                cold_path();
                (of_next, end) = steps.step_through(&mut ctx, run, part.first + runs);
                if end.is_some() {
                    break;
                }
                more += u64::from(run.times) - 1;
            }
            runs += 1;
        }
        (part.runs, part.of_next) = (runs, of_next);
        let len = runs as u64 + u64::from(of_next) + more;
        steps.tally.len += len;
        part.result.commands += len as u32;
        if len > 0
            && let Some(last) = planned[runs - usize::from(of_next == 0)].command
            && last.is_short()
        {
            // The handler's caller has noted commands that are not short.
            ctx.session.handle.activity.last_command.store(u32::from(last.id), Relaxed);
        }
        ctx.commit.release();
        count_earlier(&mut ctx);
        // Places begin anew with the next chunk.
        ctx.commit.watch().unchain();
        let timed_ns = ctx.commit.watch().take_measured();
        steps.tally.timed_ns += timed_ns;
        if steps.mode != Mode::Plain {
            cold_path();
            hear(&mut ctx);
            steps.tally.slots.end_row(timed_ns);
        }
        if ctx.commit.has_garbage() {
            ctx.commit.free_garbage();
        }
        if ctx.commit.changed_lsn() != changed_lsn {
            ctx.session.owed.changed_lsn = ctx.commit.changed_lsn();
        }
        // Otherwise commands are executed one by one, and each says what its reply may report.
        if (is_free || !steps.conditions.restricts) && engine.durability.holds(ctx.session.owed.wish) {
            cold_path();
            // Who executes a command elsewhere says what its reply reports.
            let has_replies = ctx.out.len() > replied;
            ctx.session.owed.has_seen_data |= has_replies && planned.iter().any(|run| run.hashes.0 != run.hashes.1);
        }
        if ctx.changes > 0 {
            engine.stats.threads[thread].changes.add(ctx.changes);
        }
        *lane.spilled = false;
        if let Some(end) = end {
            end_part(lane, chunk, part, end);
        }
        self.refuse_malformed(lane, input, part);
    }

    /// If what comes next is malformed, its error is the last reply.
    #[inline]
    fn refuse_malformed(&self, lane: &mut Lane<'_>, input: &[u8], part: &mut Part) {
        if let SliceEnd::Malformed(error) = part.result.end {
            cold_path();
            self.engine.stats.threads[self.thread].protocol_errors.add(1);
            if lane.session.reply_mode == ReplyMode::On {
                lane.reply.error_bytes(&[b"ERR ", error.to_bytes().as_slice()].concat());
            }
            (part.result.consumed, part.result.end) = (input.len(), SliceEnd::Close);
        }
    }
}

/// How the commands of a part are executed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Any short command may be executed, and nothing sees each.
    Plain,
    /// The same, but what each costs its slot is counted.
    Counted,
    /// Each command is looked at.
    Watchful,
}

impl Mode {
    /// `plain`: see [`Conditions::admit_all_short`].
    #[inline]
    fn of(conditions: &Conditions, plain: bool) -> Self {
        match (plain, conditions.counts_slots) {
            (true, false) => Self::Plain,
            (true, true) => Self::Counted,
            (false, _) => Self::Watchful,
        }
    }
}

/// The state of executing one command after the other.
struct Steps<'a> {
    conditions: &'a mut Conditions,
    tally: &'a mut Tally,
    /// The runs of the chunk.
    planned: &'a [Planned],
    mode: Mode,
    /// The states of the session that `mode` is about.
    states: States,
    spilled: bool,
    /// Whether arguments of the part stand elsewhere than in its input.
    has_owned: bool,
    /// Nanoseconds that scripts took since the conditions were looked at.
    scripts_ns: u64,
}

/// Scripts do not change the conditions for the commands behind them, but time passes: after this long they are looked at
/// again.
const SCRIPTS_NS_MAX: u64 = 1_000_000;

impl Steps<'_> {
    /// As [`Self::step`], if something sees each command.
    #[cold]
    fn step_seen(&mut self, ctx: &mut Ctx<'_>, run: &Planned, place: Place) -> Option<Turn> {
        match self.counts_slots(ctx) {
            true => self.step_counted(ctx, run, place),
            false => self.step_watchfully(ctx, run, place),
        }
    }

    /// Executes the equal commands of a run, together if that is possible; returns how many of them if not all, and why.
    #[inline(never)]
    fn step_through(&mut self, ctx: &mut Ctx<'_>, run: &Planned, at: usize) -> (u32, Option<ChunkEnd>) {
        let at_once = run.command.and_then(|command| Some((command, command.run?)));
        let mut nth = 0;
        while nth < run.times {
            if let Some((command, execute)) = at_once
                && self.conditions.admit_run(ctx, run, self.mode != Mode::Watchful)
            {
                // The commands that it leaves are executed one by one.
                ctx.command = command;
                let bytes = Bytes::before(ctx);
                let times = execute(ctx, run.times - nth);
                nth += times;
                if self.counts_slots(ctx) {
                    self.note_run(ctx, run, times, bytes);
                }
            }
            if nth == run.times {
                break;
            }
            let place = Place { run: at, nth };
            let turn = match self.mode {
                Mode::Plain => self.step::<true>(ctx, run, place),
                _ => self.step_seen(ctx, run, place),
            };
            match turn {
                // After equal MULTIs there is no transaction to execute at once.
                None | Some(Turn::Queues) => nth += 1,
                Some(Turn::EndsBefore(why)) => return (nth, Some(why)),
                Some(Turn::EndsBehind(why)) => return (nth + 1, Some(why)),
            }
        }
        (0, None)
    }

    #[inline(never)]
    fn step_watchfully(&mut self, ctx: &mut Ctx<'_>, run: &Planned, place: Place) -> Option<Turn> {
        self.step::<false>(ctx, run, place)
    }

    /// As [`Self::step`]; notes what the command costs its slot.
    #[inline(never)]
    fn step_counted(&mut self, ctx: &mut Ctx<'_>, run: &Planned, place: Place) -> Option<Turn> {
        if self.mode == Mode::Watchful {
            // Messages are no part of the reply.
            hear(ctx);
        }
        let before = Counted::before(ctx, run.command);
        let (refused, timed, timed_ns) = (self.tally.refused.len(), self.tally.timed.len(), self.tally.timed_ns);
        let turn = match self.mode {
            Mode::Watchful => self.step_watchfully(ctx, run, place),
            _ => self.step::<true>(ctx, run, place),
        };
        if matches!(turn, Some(Turn::EndsBefore(_))) {
            return turn;
        }
        let is_refused = self.tally.refused.len() > refused;
        if is_refused && !before.was_queued(ctx) {
            return turn;
        }
        let (slot, bytes) = before.since(ctx, run, self.has_owned);
        if is_refused {
            // It was queued, and its reply belongs to nobody's slot yet.
            slot.inspect(|&slot| self.tally.slots.add(slot, Bytes { replied: 0, ..bytes }));
        } else if run.command.is_some_and(Command::is_short) && self.tally.timed.len() == timed {
            self.tally.slots.add_short(slot, 1, bytes);
        } else {
            self.tally.slots.add_long(slot, bytes, self.tally.timed_ns - timed_ns);
        }
        turn
    }

    /// Notes what `times` equal commands cost their slot that were executed at once; `before`: the bytes before them.
    #[cold]
    fn note_run(&mut self, ctx: &Ctx<'_>, run: &Planned, times: u32, before: Bytes) {
        let sent = sent_bytes(&ctx.argv, run, self.has_owned) * u64::from(times);
        self.tally.slots.add_short(slot_of_present(ctx, run.command), times.into(), before.since(ctx, sent));
    }

    /// Executes the command of `run` at `place`; returns what comes next, if that is not the next command.
    #[inline(always)]
    fn step<const PLAIN: bool>(
        &mut self,
        ctx: &mut Ctx<'_>,
        run: &Planned,
        Place { run: at, nth }: Place,
    ) -> Option<Turn> {
        if !PLAIN {
            hear(ctx);
        }
        if let Some(end) = self.conditions.stop(ctx, run) {
            cold_path();
            let requeue = self.spilled.then(|| encode(&ctx.argv).into());
            return Some(Turn::EndsBefore(ChunkEnd::Stopped { end, requeue }));
        }
        if !PLAIN && ctx.session.states.contains(States::QUEUES) && self.queue(ctx, run.command) {
            self.tally.refused.push(at);
            return None;
        }
        let following = || &self.planned[at..];
        let end = execute::<PLAIN>(ctx, run.command, self.conditions.full, Place { run: at, nth }, following);
        if end != End::Short {
            cold_path();
            if end == End::Later {
                let requeue = self.spilled.then(|| encode(&ctx.argv).into());
                return Some(Turn::EndsBefore(ChunkEnd::Stopped { end: SliceEnd::HeldLong, requeue }));
            }
            let long_ns = ctx.commit.watch().take_measured();
            self.tally.timed_ns += long_ns;
            if std::mem::take(&mut ctx.refused) {
                self.tally.refused.push(at);
            } else {
                if run.command.is_some_and(Command::is_short) {
                    self.tally.timed.push(at);
                }
                // The thread for long commands shows what it executes.
                if ctx.engine.messages.has_monitors() && !ctx.session.is_lent() {
                    show(ctx);
                }
            }
            ctx.commit.release();
            self.look_at_conditions(ctx, long_ns);
            ctx.session.look_at_rights(&ctx.engine.users);
            if ctx.session.states.contains(States::RESTRICTED) {
                // The command may have changed the rights by which the rest of the part was permitted.
                self.mode = Mode::Watchful;
            }
            ctx.commit.look_for_log();
            if ctx.session.waiter.is_some() {
                return Some(Turn::EndsBehind(ChunkEnd::Blocked { consumed: run.nth_start(nth + 1) }));
            }
        }
        if ctx.session.states == self.states {
            return None;
        }
        cold_path();
        self.states = ctx.session.states;
        self.choose_mode(ctx);
        if self.states == States::QUEUES {
            return Some(Turn::Queues);
        }
        self.states.contains(States::CLOSES).then_some(Turn::EndsBehind(ChunkEnd::Close))
    }

    /// After a command that took so long: it may have changed the conditions for the commands behind it.
    fn look_at_conditions(&mut self, ctx: &mut Ctx<'_>, long_ns: u64) {
        let has_moved = ctx.commit.have_routes_changed();
        if ctx.commit.watch().uncounted() > 0 && !has_moved {
            // Brief, and the next one is like it.
            return;
        }
        self.scripts_ns += long_ns;
        let may_evict = ctx.engine.eviction.maxmemory() > 0;
        if ctx.command.runs_program() && !may_evict && !has_moved && self.scripts_ns < SCRIPTS_NS_MAX {
            if ctx.commit.is_logged() {
                // Giving the record to the log may have taken time.
                ctx.commit.watch().unchain();
            }
            return;
        }
        self.scripts_ns = 0;
        ctx.commit.watch().unchain();
        *self.conditions = Conditions::now(ctx.engine, ctx.commit);
        self.choose_mode(ctx);
    }

    /// Whether what commands cost is counted by slot: not while a log is replayed.
    #[inline]
    fn counts_slots(&self, ctx: &Ctx<'_>) -> bool {
        self.conditions.counts_slots && !(ctx.session.is_replay && ctx.engine.loading.is_on())
    }

    #[inline]
    fn choose_mode(&mut self, ctx: &Ctx<'_>) {
        self.mode = Mode::of(self.conditions, self.conditions.admit_all_short(ctx));
    }

    /// MULTI has been executed: executes what follows up to EXEC, if all of it is here and simple. Returns the number
    /// of runs, and adds the number of their commands beyond the first of each run to `more`.
    #[inline(never)]
    fn step_together(&mut self, ctx: &mut Ctx<'_>, rest: Rest<'_>, more: &mut u64) -> usize {
        let before = self.counts_slots(ctx).then(|| Bytes::before(ctx));
        let Some(together) = execute_together(ctx, self.conditions, rest) else { return 0 };
        if let Some(before) = before {
            cold_path();
            self.note_together(ctx, rest, &together, before);
        }
        ctx.session.handle.activity.last_command.store(u32::from(together.exec.id), Relaxed);
        self.states = ctx.session.states;
        self.choose_mode(ctx);
        *more += together.more;
        self.tally.execs.push(together.exec.id);
        together.runs
    }

    /// Notes what a transaction cost its slot that was executed where it stands.
    #[cold]
    fn note_together(&mut self, ctx: &Ctx<'_>, rest: Rest<'_>, together: &Together, before: Bytes) {
        let runs = &rest.chunk.planned[rest.part.first + rest.next..][..together.runs];
        let keyed = |run: &&Planned| run.hashes.0 != run.hashes.1;
        let sent_by = |run: &Planned| sent_bytes(&rest.argv(run), run, self.has_owned) * u64::from(run.times);
        let sent = runs.iter().filter(keyed).map(sent_by).sum::<u64>();
        let slot = runs.iter().find(keyed).map(|run| rest.chunk.hashes[run.hashes.0 as usize].slot());
        let exec = runs.last().map_or(0, |run| (run.end - run.start) as u64);
        let commands = together.runs as u64 + together.more;
        let mut bytes = before.since(ctx, sent + exec + MULTI_LEN);
        bytes.replied = bytes.replied.saturating_sub((commands - 1) * QUEUED_LEN);
        self.tally.slots.add_short(slot, commands, bytes);
    }

    /// Queues the next command of a transaction; returns false if it must be executed at once.
    #[inline(never)]
    fn queue(&self, ctx: &mut Ctx<'_>, planned: Option<&'static Command>) -> bool {
        let mark = ctx.out.mark();
        let Some(queued) = queue(ctx, planned, self.conditions.full) else { return false };
        if let Err(stop) = queued {
            fail(ctx, mark, stop.error());
        }
        if ctx.session.reply_mode != ReplyMode::On {
            leave_out(ctx, mark);
        }
        true
    }
}

/// What comes after a command.
enum Turn {
    /// The command was MULTI: the transaction may be executed where it stands.
    Queues,
    /// The part ends before the command, which was not executed.
    EndsBefore(ChunkEnd),
    /// The part ends after the command.
    EndsBehind(ChunkEnd),
}

/// Why the execution of a part ended before its end.
enum ChunkEnd {
    Close,
    Blocked { consumed: usize },
    Stopped { end: SliceEnd, requeue: Option<Box<[u8]>> },
}

/// Ends a part early: the rest is executed later, unless the connection closes.
#[cold]
fn end_part(lane: &mut Lane<'_>, chunk: &Chunk, part: &mut Part, end: ChunkEnd) {
    let result = &mut part.result;
    match end {
        ChunkEnd::Close => result.end = SliceEnd::Close,
        ChunkEnd::Blocked { consumed } => {
            lane.decoder.reset();
            (result.consumed, result.end) = (consumed, SliceEnd::Blocked);
        }
        ChunkEnd::Stopped { end, requeue } => {
            lane.decoder.reset();
            let next = &chunk.planned[part.first + part.runs];
            result.consumed = if requeue.is_some() { next.end } else { next.nth_start(part.of_next) };
            (result.end, result.requeue) = (end, requeue);
        }
    }
}
