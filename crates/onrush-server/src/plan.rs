//! Planning: looking up the commands of a chunk, hashing their keys, and bringing what they need into the cache.
//!
//! Prefetching is sound because no memory is read that another thread may free: the address of a bucket is computed
//! from two atomics and only prefetched, and entries are found under their shard's lock, which is given back and
//! taken again for execution.

use std::sync::Arc;

use onrush_resp::ArgRange;
use onrush_store::{Db, KeyHash, Shard, member_hash};

use crate::command::Command;
use crate::ctx::Argv;
use crate::scratch::Scratch;
use crate::server::Server;

/// Commands planned together; equal short ones that follow each other count once.
pub const CHUNK_LEN_MAX: usize = 32;

/// Equal commands that are planned as one.
pub(crate) const ROW_LEN_MAX: u32 = 128;

/// Keys of one chunk that are prefetched; more would push each other out of the cache.
pub(crate) const PREFETCH_KEYS_MAX: usize = 512;

/// A command of the present chunk.
pub(crate) struct Planned {
    /// First byte of the command in the input.
    pub(crate) start: usize,
    /// First byte behind it.
    pub(crate) end: usize,
    /// How often it stands there, one behind the other.
    pub(crate) times: u32,
    pub(crate) args: (u32, u32),
    pub(crate) hashes: (u32, u32),
    /// The command, or the subcommand; `None` when it has to be resolved the slow way, to tell what is wrong.
    pub(crate) command: Option<&'static Command>,
    pub(crate) first_key: u32,
    pub(crate) step: u32,
}

impl Planned {
    /// Where the `nth` of the row starts in the input.
    pub(crate) fn nth_start(&self, nth: u32) -> usize {
        self.start + (self.end - self.start) * nth as usize
    }
}

/// How often the command at `start..end` is repeated behind it, byte by byte, `max` times at most. Few comparisons: what is
/// known to be repeated is compared with what follows as a whole, in steps that double and then halve.
#[inline]
pub(crate) fn repetitions(input: &[u8], start: usize, end: usize, max: u32) -> u32 {
    /// The last bytes before the line end: where commands that are not equal differ, mostly.
    const TAIL_LEN: usize = 8;
    let len = end - start;
    if len < TAIL_LEN + 2 {
        return 0;
    }
    let tail = |at: usize| input.get(at + len - TAIL_LEN - 2..at + len - 2).and_then(|tail| tail.first_chunk());
    let first: Option<&[u8; TAIL_LEN]> = tail(start);
    if tail(end) != first {
        return 0;
    }
    let (mut times, mut grows) = (0, true);
    // How many more there may be.
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

/// Looks up the commands of a chunk and hashes their keys.
pub(crate) struct Planner<'a> {
    server: &'static Server,
    /// The database to prefetch from.
    db: Option<&'static Db>,
    /// The command before, as it was spelled: pipelines repeat themselves.
    last: Option<(&'a [u8], &'static Command)>,
}

impl<'a> Planner<'a> {
    /// For one chunk.
    pub(crate) fn new(server: &'static Server) -> Self {
        Self { server, db: None, last: None }
    }

    /// Sets the database that the next commands are about.
    #[inline]
    pub(crate) fn set_db(&mut self, db: Option<&'static Db>) {
        self.db = db;
    }

    /// The database set last.
    pub(crate) fn db(&self) -> Option<&'static Db> {
        self.db
    }

    /// Plans one command and appends it to the chunk; the shards of its keys are prefetched.
    #[inline]
    pub(crate) fn plan(
        &mut self,
        mut planned: Planned,
        input: &'a [u8],
        owned: &[Arc<Vec<u8>>],
        scratch: &mut Scratch,
    ) {
        let Scratch { planned: chunk, args, hashes, targets, members, .. } = scratch;
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
                let member = command.spec.member as usize;
                if member > 0 && member < argv.len() && self.db.is_some() {
                    members.commands.push(chunk.len() as u32);
                    members.hashes.push(member_hash(argv.get(member)));
                }
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

/// Members of collections that a chunk's commands are about.
#[derive(Default)]
pub(crate) struct Members {
    /// Indexes of the commands.
    pub(crate) commands: Vec<u32>,
    /// Hashes of the members.
    pub(crate) hashes: Vec<u64>,
}

/// Brings what looking up the chunk's members needs into the cache, for neighbouring commands on one key at once.
#[cold]
fn prefetch_members(scratch: &Scratch, db: &'static Db) {
    let Members { commands, hashes } = &scratch.members;
    let key_hash = |at: usize| scratch.hashes[scratch.planned[commands[at] as usize].hashes.0 as usize];
    let mut at = 0;
    while at < commands.len() {
        let hash = key_hash(at);
        let end = (at + 1..commands.len()).find(|&other| key_hash(other) != hash).unwrap_or(commands.len());
        if let Some(table) = db.shard_of(hash).try_lock() {
            table.prefetch_members(hash, &hashes[at..end]);
        }
        at = end;
    }
}

/// Brings the buckets, then the entries of the chunk's keys into the cache, then what their members need.
#[inline]
pub(crate) fn prefetch(scratch: &Scratch, db: Option<&'static Db>) {
    let wanted = &scratch.targets[..scratch.targets.len().min(PREFETCH_KEYS_MAX)];
    for (shard, hash) in wanted {
        shard.prefetch_bucket(*hash);
    }
    let mut in_overflow = [0_u64; PREFETCH_KEYS_MAX / u64::BITS as usize];
    for (index, (shard, hash)) in wanted.iter().enumerate() {
        // Somebody else's lock is not worth waiting for here.
        let again = shard.try_prefetch_entry(*hash);
        in_overflow[index / 64] |= u64::from(again) << (index % 64);
    }
    for (at, mut marks) in in_overflow[..wanted.len().div_ceil(64)].iter().copied().enumerate() {
        while marks != 0 {
            let (shard, hash) = &wanted[at * 64 + marks.trailing_zeros() as usize];
            shard.try_prefetch_overflow_entry(*hash);
            marks &= marks - 1;
        }
    }
    if !scratch.members.commands.is_empty()
        && let Some(db) = db
    {
        prefetch_members(scratch, db);
    }
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
