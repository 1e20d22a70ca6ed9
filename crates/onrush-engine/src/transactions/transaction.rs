//! What a client has queued between MULTI and EXEC.

use std::sync::Arc;

use onrush_resp::ArgRange;
use onrush_store::KeyHash;

use crate::batch::argv::Argv;
use crate::batch::kept::KEPT_BYTES_MAX;
use crate::batch::planned_keys::PlannedKeys;
use crate::command::flags::Flags;
use crate::command::name_index::CommandId;

/// A queued command.
struct Queued {
    id: CommandId,
    /// The database that it works on.
    db: u32,
    /// Where it begins in the bytes.
    start: usize,
    /// Its arguments.
    args: (u32, u32),
    /// The hashes of its keys at fixed places.
    hashes: (u32, u32),
    first_key: u32,
    step: u32,
}

/// See the module's text.
#[derive(Default)]
pub struct Transaction {
    /// The commands' arguments, one after the other.
    bytes: Vec<u8>,
    args: Vec<ArgRange>,
    /// Arguments that were read into buffers of their own.
    owned: Vec<Arc<Vec<u8>>>,
    owned_bytes: usize,
    hashes: Vec<KeyHash>,
    commands: Vec<Queued>,
    /// Keys that the commands name at other places, with their databases.
    keys: Vec<(u32, KeyHash)>,
    /// The database that the next command works on.
    db: u32,
    flags: Flags,
    common_flags: Flags,
    /// Whether a command was refused: then EXEC executes nothing.
    is_broken: bool,
    /// Whether a command may work on keys that it does not name, or on other clients.
    needs_keyspace: bool,
    /// The places of the commands that run a script or a function.
    programs: Vec<u32>,
    /// Commands that are not short.
    slow: u32,
}

impl Transaction {
    /// An empty transaction in database `db`.
    pub fn new(db: u32) -> Self {
        Self { db, common_flags: Flags::all(), ..Self::default() }
    }

    /// Empties it for a transaction in database `db`; keeps the memory.
    pub(crate) fn begin_anew(mut self: Box<Self>, db: u32) -> Box<Self> {
        self.clear();
        self.db = db;
        self
    }

    fn clear(&mut self) {
        let Self { bytes, args, owned, hashes, commands, keys, programs, .. } = self;
        bytes.clear();
        args.clear();
        owned.clear();
        hashes.clear();
        commands.clear();
        keys.clear();
        programs.clear();
        (self.owned_bytes, self.flags, self.common_flags, self.slow) = (0, Flags::empty(), Flags::all(), 0);
        (self.is_broken, self.needs_keyspace) = (false, false);
    }

    /// Whether its memory is worth keeping for the next one.
    pub(crate) fn is_kept(&self) -> bool {
        self.owned.is_empty() && self.memory_bytes() <= KEPT_BYTES_MAX
    }

    /// Number of commands.
    pub fn len(&self) -> usize {
        self.commands.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// Bytes of memory that it takes.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
            + self.owned_bytes
            + self.args.capacity() * size_of::<ArgRange>()
            + self.hashes.capacity() * size_of::<KeyHash>()
            + self.commands.capacity() * size_of::<Queued>()
            + self.keys.capacity() * size_of::<(u32, KeyHash)>()
            + self.programs.capacity() * size_of::<u32>()
    }

    /// Bytes of the arguments.
    pub fn args_bytes(&self) -> usize {
        self.bytes.len() + self.owned_bytes
    }

    /// Notes that a command was refused: EXEC is refused too.
    pub fn fail(&mut self) {
        self.is_broken = true;
    }

    /// Whether a command was refused.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// The flags that any of the commands has.
    pub fn flags(&self) -> Flags {
        self.flags
    }

    /// The flags that each of the commands has.
    pub(crate) fn common_flags(&self) -> Flags {
        self.common_flags
    }

    /// The keys that it names, with their databases.
    pub fn keys(&self) -> impl Iterator<Item = (u32, KeyHash)> {
        let planned = self.commands.iter().flat_map(|queued| {
            let hashes = &self.hashes[queued.hashes.0 as usize..queued.hashes.1 as usize];
            hashes.iter().map(|&hash| (queued.db, hash))
        });
        planned.chain(self.keys.iter().copied())
    }

    /// Counts commands that are not short.
    pub(crate) fn count_slow(&mut self, commands: u32) {
        self.slow += commands;
    }

    /// How many of its commands are not short.
    pub(crate) fn slow_len(&self) -> u32 {
        self.slow
    }

    /// Whether it needs the whole keyspace.
    pub(crate) fn needs_keyspace(&self) -> bool {
        self.needs_keyspace
    }

    /// Queues a command with its arguments. The caller adds the keys it may work on. O(bytes).
    pub(crate) fn push(&mut self, id: CommandId, flags: Flags, argv: &Argv<'_>, planned: PlannedKeys<'_>) {
        let start = self.bytes.len();
        let first_arg = self.args.len() as u32;
        self.copy_args(argv);
        let first_hash = self.hashes.len() as u32;
        self.hashes.extend_from_slice(planned.hashes);
        self.flags |= flags;
        // It was admitted when it was queued.
        let ends_sync = flags.contains(Flags::ENDS_SYNC);
        self.common_flags &= if ends_sync { flags | Flags::LOADING } else { flags };
        self.commands.push(Queued {
            id,
            db: self.db,
            start,
            args: (first_arg, self.args.len() as u32),
            hashes: (first_hash, self.hashes.len() as u32),
            first_key: planned.first,
            step: planned.step,
        });
    }

    /// Notes that a command also works on these keys of the database that is selected by then.
    pub(crate) fn add_keys(&mut self, hashes: impl IntoIterator<Item = KeyHash>) {
        let db = self.db;
        self.keys.extend(hashes.into_iter().map(|hash| (db, hash)));
    }

    /// Notes that the last command runs a script or a function.
    pub(crate) fn is_program(&mut self) {
        self.programs.push(self.commands.len().saturating_sub(1) as u32);
    }

    /// Whether a command runs a script or a function.
    pub(crate) fn has_programs(&self) -> bool {
        !self.programs.is_empty()
    }

    /// The commands that run a script or a function.
    pub(crate) fn programs(&self) -> impl Iterator<Item = (CommandId, Argv<'_>)> {
        self.programs.iter().map(|at| {
            let queued = &self.commands[*at as usize];
            (queued.id, self.argv(queued))
        })
    }

    /// A command may work on keys that it does not name, or on other clients.
    pub(crate) fn need_keyspace(&mut self) {
        self.needs_keyspace = true;
    }

    /// Notes that a command selects another database for the commands after it.
    pub(crate) fn select(&mut self, db: u32) {
        self.db = db;
    }

    fn copy_args(&mut self, argv: &Argv<'_>) {
        if let Some(multibulk) = argv.multibulk() {
            self.bytes.extend_from_slice(multibulk);
            self.args.extend_from_slice(argv.ranges());
            return;
        }
        let start = self.bytes.len();
        for (index, arg) in argv.iter().enumerate() {
            if let Some(owned) = argv.owned(index) {
                self.args.push(ArgRange::owned(self.owned.len()));
                self.owned_bytes += owned.len();
                self.owned.push(Arc::clone(owned));
            } else {
                self.args.push(ArgRange::new(self.bytes.len() - start, arg.len()));
                self.bytes.extend_from_slice(arg);
            }
        }
    }

    /// The numbers of the commands in their order.
    pub(crate) fn ids(&self) -> impl Iterator<Item = CommandId> {
        self.commands.iter().map(|queued| queued.id)
    }

    /// The commands in their order.
    pub(crate) fn commands(&self) -> impl Iterator<Item = (CommandId, Argv<'_>, PlannedKeys<'_>)> {
        self.commands.iter().map(|queued| {
            let argv = self.argv(queued);
            let hashes = &self.hashes[queued.hashes.0 as usize..queued.hashes.1 as usize];
            let planned = PlannedKeys { first: queued.first_key, step: queued.step, hashes, shard: None };
            (queued.id, argv, planned)
        })
    }

    fn argv(&self, queued: &Queued) -> Argv<'_> {
        let ranges = &self.args[queued.args.0 as usize..queued.args.1 as usize];
        Argv::new(&self.bytes[queued.start..], ranges, &self.owned)
    }
}
