//! A chunk: the commands that are planned, fetched for and executed together, of one connection or of several.

use std::hint::cold_path;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use onrush_resp::ArgRange;
use onrush_store::{Db, KeyHash, Shard};
use smallvec::SmallVec;

use crate::batch::kept::{KEPT_BYTES_MAX, shrink};
use crate::batch::place::Place;
use crate::batch::slice::{SliceEnd, SliceResult};
use crate::batch::slot_notes::SlotNotes;
use crate::command::name_index::CommandId;
use crate::command::table::Command;
use crate::observe::stats::ThreadStats;

/// Commands planned together; equal short ones that follow each other count once.
pub(crate) const CHUNK_LEN_MAX: usize = 32;

/// Equal commands that are planned as one.
pub(crate) const RUN_LEN_MAX: u32 = 128;

/// A command of the present chunk.
pub(crate) struct Planned {
    /// First byte of the command in the input.
    pub(crate) start: usize,
    /// First byte behind it.
    pub(crate) end: usize,
    /// How often it stands there, one after the other.
    pub(crate) times: u32,
    pub(crate) args: (u32, u32),
    pub(crate) hashes: (u32, u32),
    /// The command, or the subcommand; `None` when it has to be resolved the slow way, to tell what is wrong.
    pub(crate) command: Option<&'static Command>,
    pub(crate) first_key: u32,
    pub(crate) step: u32,
    /// Where its key belongs, if it has only one.
    pub(crate) shard: Option<&'static Shard>,
}

impl Planned {
    /// Where the `nth` of the run starts in the input.
    pub(crate) fn nth_start(&self, nth: u32) -> usize {
        self.start + (self.end - self.start) * nth as usize
    }
}

/// The place of the command behind the one at `place`; `runs` begin with its run.
#[inline]
pub(crate) fn place_behind(place: Place, runs: &[Planned]) -> Place {
    match runs.first() {
        Some(run) if place.nth + 1 < run.times => Place { nth: place.nth + 1, ..place },
        _ => Place { run: place.run + 1, nth: 0 },
    }
}

/// How often the command at `start..end` is repeated behind it, byte by byte, `max` times at most.
#[inline(always)]
pub(crate) fn repetitions(input: &[u8], start: usize, end: usize, max: u32) -> u32 {
    /// The last bytes before the line end: different commands mostly differ there.
    const TAIL_LEN: usize = 8;
    let (this, rest) = input[start..].split_at(end - start);
    if this.len() < TAIL_LEN + 2 || rest.len() < this.len() {
        return 0;
    }
    let tail = this.len() - TAIL_LEN - 2..this.len() - 2;
    if this[tail.clone()] != rest[tail] { 0 } else { repetitions_of_equal_tails(input, start, end, max) }
}

/// As [`repetitions`], with few comparisons: all repetitions found so far are compared as a whole with what follows, in
/// steps that double and then halve.
fn repetitions_of_equal_tails(input: &[u8], start: usize, end: usize, max: u32) -> u32 {
    let len = end - start;
    let (mut times, mut grows) = (0, true);
    // How many more are possible.
    let mut bound = ((input.len() - end) / len).min(max as usize);
    while bound > 0 {
        let step = if grows { bound.min(times + 1) } else { bound.div_ceil(2) };
        let at = end + len * times;
        if input[at..at + len * step] == input[start..start + len * step] {
            times += step;
            bound -= step;
        } else {
            grows = false;
            bound = step - 1;
        }
    }
    times as u32
}

/// Members of collections that a chunk's commands are about.
#[derive(Default)]
pub(crate) struct Members {
    /// Indexes of the commands.
    pub(crate) commands: Vec<u32>,
    /// Hashes of the members.
    pub(crate) hashes: Vec<u64>,
}

/// See the module's text.
#[derive(Default)]
pub(crate) struct Chunk {
    /// Its commands.
    pub(crate) planned: Vec<Planned>,
    /// Their arguments.
    pub(crate) args: Vec<ArgRange>,
    /// Owned arguments of commands that are the last ones of their parts.
    pub(crate) owned: Vec<Arc<Vec<u8>>>,
    /// The hashes of their keys.
    pub(crate) hashes: Vec<KeyHash>,
    /// Shards of the keys, for prefetching.
    pub(crate) targets: Vec<(&'static Shard, KeyHash)>,
    /// Members of collections, likewise.
    pub(crate) members: Members,
    /// The database of the last command.
    pub(crate) db: Option<&'static Db>,
    /// Whether not all commands are the same.
    pub(crate) is_mixed: bool,
}

impl Chunk {
    /// Clears everything but keeps the memory.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.planned.clear();
        self.args.clear();
        self.owned.clear();
        self.hashes.clear();
        self.targets.clear();
        self.members.commands.clear();
        self.members.hashes.clear();
        self.is_mixed = false;
    }

    /// Gives memory back that commands with very many arguments needed. Call this when the chunk is done with.
    #[inline]
    pub(crate) fn shrink(&mut self) {
        // No other list of a chunk can be large unless it has many arguments.
        if self.args.capacity() > KEPT_BYTES_MAX / size_of::<ArgRange>() {
            self.shrink_lists();
        }
    }

    #[cold]
    fn shrink_lists(&mut self) {
        self.clear();
        shrink(&mut self.args);
        shrink(&mut self.owned);
        shrink(&mut self.hashes);
        shrink(&mut self.targets);
        shrink(&mut self.members.commands);
        shrink(&mut self.members.hashes);
    }

    /// Whether there is no room for another command.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.planned.len() >= CHUNK_LEN_MAX
    }
}

/// One connection's part of a chunk, and its result.
pub(crate) struct Part {
    /// Its first run in the chunk.
    pub(crate) first: usize,
    /// How many it has.
    pub(crate) len: usize,
    /// Where the owned arguments of its last command are in the chunk.
    pub(crate) owned: Range<usize>,
    /// Runs of equal commands executed to the end; most runs are one command.
    pub(crate) runs: usize,
    /// Commands executed of the run behind them.
    pub(crate) of_next: u32,
    /// Where and why it ends: set by decoding, or by execution if that ends first.
    pub(crate) result: SliceResult,
}

impl Part {
    /// Whether there may be more behind it in the same input.
    pub(crate) fn goes_on(&self) -> bool {
        self.result.end == SliceEnd::ChunkFull
    }

    /// A part that begins after what is planned of a chunk, and at `consumed` in the connection's input; `commands` of
    /// that input were executed in earlier chunks.
    #[inline]
    pub(crate) fn of(chunk: &Chunk, consumed: usize, commands: u32) -> Self {
        let (first, owned) = (chunk.planned.len(), chunk.owned.len()..chunk.owned.len());
        let result = SliceResult { consumed, end: SliceEnd::ChunkFull, requeue: None, ended_ms: 0, commands };
        Self { first, len: 0, owned, runs: 0, of_next: 0, result }
    }

    /// Ends it without executing the rest, because its connection closes.
    #[cold]
    pub(crate) fn give_up(&mut self, input_len: usize) {
        self.len = 0;
        self.result = SliceResult { consumed: input_len, end: SliceEnd::Close, ..SliceResult::default() };
    }

    /// The short commands executed.
    fn short_commands<'a>(&self, chunk: &'a Chunk) -> impl Iterator<Item = ShortCommand> + 'a {
        let (first, of_runs, of_next) = (self.first, self.runs, self.of_next);
        let last = usize::from(of_next > 0);
        let runs = &chunk.planned[first..first + of_runs + last];
        runs.iter().enumerate().filter_map(move |(at, run)| {
            let command = run.command.filter(|command| command.is_short())?;
            let times = if at < of_runs { run.times } else { of_next };
            Some(ShortCommand { command, run: first + at, times: times.into() })
        })
    }
}

/// A short command that was executed.
#[derive(Clone, Copy)]
pub(crate) struct ShortCommand {
    pub(crate) command: &'static Command,
    /// The index of its run in the chunk.
    pub(crate) run: usize,
    /// How often it was executed.
    pub(crate) times: u64,
}

/// The sum of what was executed of a chunk.
#[derive(Default)]
pub(crate) struct Tally {
    /// Commands executed; those that were refused as well.
    pub(crate) len: u64,
    /// The runs of refused commands in the chunk, once for each command.
    pub(crate) refused: Vec<usize>,
    /// The runs of short commands that are timed and counted individually, once for each command.
    pub(crate) timed: Vec<usize>,
    /// The numbers of commands that count as short here: EXECs of transactions that were executed where they stood.
    pub(crate) execs: Vec<CommandId>,
    /// Time of the commands that are timed individually, in nanoseconds.
    pub(crate) timed_ns: u64,
    /// What they cost their slots, if that is counted.
    pub(crate) slots: SlotNotes,
}

impl Tally {
    /// Counts what was executed of a chunk and spreads the time evenly over the short commands; long commands were
    /// timed individually. `tracks`: commands have histograms. Returns the time of the short commands in nanoseconds,
    /// and resets itself.
    #[inline]
    pub(crate) fn count(
        &mut self,
        stats: &ThreadStats,
        chunk: &Chunk,
        parts: &[Part],
        took: Duration,
        tracks: bool,
    ) -> u64 {
        let took_ns = took.as_nanos() as u64;
        let short_ns = took_ns.saturating_sub(self.timed_ns);
        let len = self.len - self.refused.len() as u64;
        stats.commands_processed.add(len);
        stats.commands_nanos.add(took_ns);
        if !chunk.is_mixed
            && self.refused.is_empty()
            && self.timed.is_empty()
            && let Some(Planned { command: Some(command), .. }) = chunk.planned.first()
            && command.is_short()
        {
            stats.commands[command.id as usize].count(len, short_ns, tracks);
        } else {
            cold_path();
            self.count_each(stats, chunk, parts, short_ns, tracks);
            self.refused.clear();
            self.timed.clear();
            self.execs.clear();
        }
        (self.len, self.timed_ns) = (0, 0);
        short_ns
    }

    #[inline(never)]
    fn count_each(&self, stats: &ThreadStats, chunk: &Chunk, parts: &[Part], short_ns: u64, tracks: bool) {
        let mut counted: SmallVec<[(CommandId, u64); 64]> = SmallVec::new();
        counted.extend(self.execs.iter().map(|&id| (id, 1)));
        let mut short_len = counted.len() as u64;
        for part in parts {
            for ShortCommand { command, times, .. } in self.short_commands(chunk, part).filter(|short| short.times > 0)
            {
                short_len += times;
                // Consecutive equal commands are counted together.
                match counted.last_mut().filter(|(id, _)| *id == command.id) {
                    Some((_, sum)) => *sum += times,
                    None => counted.push((command.id, times)),
                }
            }
        }
        if short_len == 0 {
            return;
        }
        for (id, times) in counted {
            stats.commands[id as usize].count(times, short_ns / short_len * times, tracks);
        }
    }

    /// The short commands of a part, without refused ones and those timed individually.
    pub(crate) fn short_commands<'a>(
        &'a self,
        chunk: &'a Chunk,
        part: &'a Part,
    ) -> impl Iterator<Item = ShortCommand> + 'a {
        // Both lists are in the order of the runs.
        let (mut refused, mut timed) = (self.refused.as_slice(), self.timed.as_slice());
        part.short_commands(chunk).map(move |short| {
            let others = take(&mut refused, short.run) + take(&mut timed, short.run);
            ShortCommand { times: short.times - others, ..short }
        })
    }
}

/// Removes the notes of a run and of earlier runs from a list; returns how many the run has.
#[inline]
fn take(noted: &mut &[usize], run: usize) -> u64 {
    let mut times = 0;
    while let Some((first, rest)) = noted.split_first()
        && *first <= run
    {
        times += u64::from(*first == run);
        *noted = rest;
    }
    times
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn repetitions_are_what_comparing_one_by_one_finds(
            unit in proptest::collection::vec(b'a'..=b'c', 1..24),
            times in 0_usize..300,
            behind in proptest::collection::vec(b'a'..=b'c', 0..30),
            max in 0_u32..200,
        ) {
            let input = [b"??".to_vec(), unit.repeat(times + 1), behind].concat();
            let (start, len) = (2, unit.len());
            let found = input[start + len..].chunks_exact(len).take_while(|chunk| *chunk == unit).count();
            let expected = if len < 10 { 0 } else { found.min(max as usize) };
            prop_assert_eq!(repetitions(&input, start, start + len, max) as usize, expected);
        }
    }
}
