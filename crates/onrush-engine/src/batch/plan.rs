//! Planning: looking up the commands of a chunk, hashing their keys, and prefetching what they need.
//!
//! Prefetching is sound because no memory is read that another thread may free: the address of a bucket is computed
//! from two atomics and only prefetched, and entries are found under their shard's lock, which is given back and
//! taken again for execution.

use std::hint::cold_path;
use std::ops::Range;

use onrush_resp::ArgRange;
use onrush_store::{Db, KeyHash, Shard, equal, member_hash};

use crate::batch::argv::Argv;
use crate::batch::chunk::{Chunk, Members, Planned, RUN_LEN_MAX, repetitions};
use crate::clients::session::Session;
use crate::cluster::clustering::Clustering;
use crate::command::table::CommandTable;
use crate::command::{Command, Flags, KeyRange};
use crate::ctx::Engine;

/// Keys of one chunk that are prefetched; more would push each other out of the cache.
pub(crate) const PREFETCH_KEYS_MAX: usize = 512;

/// A command that was looked up.
#[derive(Clone, Copy)]
struct Found {
    command: &'static Command,
    /// The index of its key if it has only one; else 0.
    only_key: usize,
}

/// What a command has in common with others of the same name and number of arguments.
#[derive(Clone, Copy)]
struct Head<'a> {
    /// Its first bytes, to the end of its name.
    bytes: &'a [u8],
    found: Found,
}

/// Looks up the commands of a chunk and hashes their keys.
pub(crate) struct Planner<'a> {
    engine: &'static Engine,
    /// Where commands are looked up.
    commands: &'static CommandTable,
    /// The database to prefetch from.
    db: Option<&'static Db>,
    /// The cluster, if there is one.
    cluster: Option<&'static Clustering>,
    /// Whether the client has sent READONLY.
    is_readonly: bool,
    /// The command before: pipelines repeat themselves.
    last: Option<Head<'a>>,
    /// Whether to look for repetitions of the next command: a chunk whose first command is not repeated hardly has a
    /// run.
    expects_run: bool,
}

impl<'a> Planner<'a> {
    /// For one chunk.
    pub(crate) fn new(engine: &'static Engine) -> Self {
        let cluster = engine.cluster.as_ref();
        Self {
            engine,
            commands: &engine.commands,
            db: None,
            cluster,
            is_readonly: false,
            last: None,
            expects_run: true,
        }
    }

    /// Sets the database that the next commands are about, where they are looked up, and whose they are.
    #[inline]
    pub(crate) fn set_part(&mut self, db: Option<&'static Db>, commands: &'static CommandTable, session: &Session) {
        self.db = db;
        self.cluster = self.engine.cluster.as_ref().filter(|_| !session.is_of_its_own_slots());
        self.is_readonly = session.is_readonly;
        if !std::ptr::eq(self.commands, commands) {
            cold_path();
            (self.commands, self.last) = (commands, None);
        }
    }

    /// Plans the command at `place` in the input and appends it to the chunk; prefetches the shards of its keys. Its arguments
    /// begin at `first_arg`, its owned arguments at `first_owned`. If the command is short, its repetitions behind it are
    /// planned with it. Returns the bytes of the repetitions.
    #[inline(always)]
    pub(crate) fn plan(
        &mut self,
        input: &'a [u8],
        place: Range<usize>,
        first_arg: usize,
        first_owned: usize,
        chunk: &mut Chunk,
    ) -> usize {
        let Range { start, end } = place;
        let bytes = &input[start..];
        let Chunk { planned: runs, args, owned, hashes, targets, members, is_mixed, .. } = chunk;
        let owned = &owned[first_owned..];
        let argv = Argv::new(bytes, &args[first_arg..], owned);
        let mut run_len = 0;
        let mut planned = Planned {
            start,
            end,
            times: 1,
            args: (first_arg as u32, args.len() as u32),
            hashes: (0, 0),
            command: None,
            first_key: 0,
            step: 1,
            shard: None,
        };
        let found = match &self.last {
            Some(last)
                if owned.is_empty() && bytes.get(..last.bytes.len()).is_some_and(|head| equal(head, last.bytes)) =>
            {
                Some(last.found)
            }
            _ => {
                let found = self.look_up(bytes, argv, args[first_arg]);
                let id = |command: Option<&'static Command>| command.map(|command| command.id);
                let this = id(found.map(|found| found.command));
                *is_mixed |= runs.first().is_some_and(|first| id(first.command) != this);
                found
            }
        };
        if let Some(Found { command, only_key }) = found {
            planned.command = Some(command);
            if self.expects_run && command.is_short() && owned.is_empty() {
                let more = repetitions(input, start, end, RUN_LEN_MAX - 1);
                planned.times += more;
                self.expects_run = more > 0;
                run_len = (end - start) * more as usize;
            }
            let at = hashes.len() as u32;
            if only_key > 0 {
                planned.first_key = only_key as u32;
                planned.shard = self.add_key(argv.get(only_key), hashes, targets);
            } else if let Some(keys) = command.plan {
                cold_path();
                self.plan_keys(&mut planned, keys, argv, hashes, targets);
            }
            let member = command.spec.member as usize;
            if member > 0 && member < argv.len() && self.db.is_some() {
                members.commands.push(runs.len() as u32);
                members.hashes.push(member_hash(argv.get(member)));
            }
            planned.hashes = (at, hashes.len() as u32);
            if let Some(cluster) = self.cluster
                && (!cluster.is_free(&hashes[at as usize..]) || command.flags.contains(Flags::MOVABLEKEYS))
                && !self.may_read(cluster, command, &hashes[at as usize..])
            {
                cold_path();
                // Whether it is executed here is found out when it is looked up again.
                planned.command = None;
            }
        }
        runs.push(planned);
        run_len
    }

    /// Whether a replica may execute a command because its client has sent READONLY.
    #[inline(never)]
    fn may_read(&self, cluster: &Clustering, command: &Command, hashes: &[KeyHash]) -> bool {
        self.is_readonly
            && command.flags.contains(Flags::READONLY)
            && !command.flags.contains(Flags::MOVABLEKEYS)
            && cluster.is_readable(hashes)
    }

    /// Looks a command up by its name, which stands at `name` of its `bytes`. `None` if it must be resolved the slow
    /// way.
    #[inline(never)]
    fn look_up(&mut self, bytes: &'a [u8], argv: Argv<'_>, name: ArgRange) -> Option<Found> {
        let command = self.commands.lookup(argv.get(0))?;
        if !command.accepts(argv.len()) || command.is_container() {
            return None;
        }
        let found = Found { command, only_key: command.plan.and_then(KeyRange::only).unwrap_or(0) };
        if bytes.first() == Some(&b'*') && name.owned_index().is_none() {
            self.last = Some(Head { bytes: &bytes[..name.end()], found });
        }
        Some(found)
    }

    /// Hashes the keys of a command that may have several, from the first to the last by steps, and prefetches their shards.
    fn plan_keys(
        &self,
        planned: &mut Planned,
        keys: KeyRange,
        argv: Argv<'_>,
        hashes: &mut Vec<KeyHash>,
        targets: &mut Vec<(&'static Shard, KeyHash)>,
    ) {
        planned.first_key = keys.first as u32;
        planned.step = keys.step as u32;
        for index in keys.indexes(argv.len()) {
            if targets.len() < PREFETCH_KEYS_MAX {
                self.add_key(argv.get(index), hashes, targets);
            } else {
                hashes.push(self.engine.keyspace.hash(argv.get(index)));
            }
        }
    }

    /// Hashes a key and prefetches its shard, which is returned if there is one yet.
    #[inline(always)]
    fn add_key(
        &self,
        key: &[u8],
        hashes: &mut Vec<KeyHash>,
        targets: &mut Vec<(&'static Shard, KeyHash)>,
    ) -> Option<&'static Shard> {
        let hash = self.engine.keyspace.hash(key);
        // A key that is repeated is prefetched once.
        let again = hashes.last() == Some(&hash);
        hashes.push(hash);
        let shard = self.db?.shard_of(hash);
        if !again {
            shard.prefetch();
            targets.push((shard, hash));
        }
        Some(shard)
    }
}

/// Prefetches what looking up the chunk's members reads; consecutive commands on one key together.
#[cold]
fn prefetch_members(chunk: &Chunk, db: &'static Db) {
    let Members { commands, hashes } = &chunk.members;
    let key_hash = |at: usize| chunk.hashes[chunk.planned[commands[at] as usize].hashes.0 as usize];
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

/// Prefetches the buckets of the chunk's keys.
#[inline]
pub(crate) fn prefetch_buckets(chunk: &Chunk) {
    for (shard, hash) in chunk.targets.iter().take(PREFETCH_KEYS_MAX) {
        shard.prefetch_bucket(*hash);
    }
}

/// Prefetches the entries of the chunk's keys, whose buckets are on their way, then what their members need.
#[inline]
pub(crate) fn prefetch_entries(chunk: &Chunk) {
    if chunk.planned.len() < 2 {
        // With one command the wait would be the same.
        return;
    }
    let wanted = &chunk.targets[..chunk.targets.len().min(PREFETCH_KEYS_MAX)];
    let mut in_overflow = [0_u64; PREFETCH_KEYS_MAX / u64::BITS as usize];
    for (index, (shard, hash)) in wanted.iter().enumerate() {
        // Waiting for a lock is not worth it here.
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
    if !chunk.members.commands.is_empty()
        && let Some(db) = chunk.db
    {
        prefetch_members(chunk, db);
    }
}
