//! What a client has queued between MULTI and EXEC.

use std::sync::Arc;

use onrush_resp::{ArgRange, parse_i64};
use onrush_store::KeyHash;

use crate::argv::Argv;
use crate::command::find_keys::find_keys;
use crate::command::{Command, Flags, Group};
use crate::ctx::{Ctx, PlannedKeys};
use crate::kept::KEPT_BYTES_MAX;

/// A queued command.
struct Queued {
    command: &'static Command,
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
pub struct Transaction {
    /// The commands' arguments, one behind the other.
    bytes: Vec<u8>,
    args: Vec<ArgRange>,
    /// Arguments that were read into buffers of their own.
    owned: Vec<Arc<Vec<u8>>>,
    owned_bytes: usize,
    hashes: Vec<KeyHash>,
    commands: Vec<Queued>,
    /// Keys that the commands name, with their databases.
    keys: Vec<(u32, KeyHash)>,
    /// The database that the next command works on.
    db: u32,
    flags: Flags,
    /// Whether a command was refused: nothing is executed then.
    is_broken: bool,
    /// Whether a command may work on keys that it does not name, or on other clients.
    needs_keyspace: bool,
    /// Whether one changes the state of its connection in other ways than SELECT does.
    is_personal: bool,
}

impl Transaction {
    /// Nothing queued yet, in database `db`.
    pub fn new(db: u32) -> Self {
        Self {
            bytes: Vec::new(),
            args: Vec::new(),
            owned: Vec::new(),
            owned_bytes: 0,
            hashes: Vec::new(),
            commands: Vec::new(),
            keys: Vec::new(),
            db,
            flags: Flags::empty(),
            is_broken: false,
            needs_keyspace: false,
            is_personal: false,
        }
    }

    /// Forgets everything but the memory, for a transaction in database `db`.
    pub(crate) fn begin_anew(mut self: Box<Self>, db: u32) -> Box<Self> {
        self.clear();
        self.db = db;
        self
    }

    fn clear(&mut self) {
        let Self { bytes, args, owned, hashes, commands, keys, .. } = self;
        bytes.clear();
        args.clear();
        owned.clear();
        hashes.clear();
        commands.clear();
        keys.clear();
        (self.owned_bytes, self.flags) = (0, Flags::empty());
        (self.is_broken, self.needs_keyspace, self.is_personal) = (false, false, false);
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
    }

    /// Bytes of the arguments.
    pub fn args_bytes(&self) -> usize {
        self.bytes.len() + self.owned_bytes
    }

    /// A command was refused: EXEC is refused too.
    pub fn fail(&mut self) {
        self.is_broken = true;
    }

    /// Whether a command was refused.
    pub fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// The flags of all commands together.
    pub fn flags(&self) -> Flags {
        self.flags
    }

    /// The keys that it names, with their databases.
    pub fn keys(&self) -> &[(u32, KeyHash)] {
        &self.keys
    }

    /// Whether it has to have the whole keyspace.
    pub fn needs_keyspace(&self) -> bool {
        self.needs_keyspace
    }

    /// The database that is selected when it is done, if that is known.
    pub fn final_db(&self) -> Option<u32> {
        (!self.is_personal).then_some(self.db)
    }

    /// Queues the present command. O(bytes).
    pub fn push(&mut self, ctx: &Ctx<'_>, command: &'static Command) {
        let start = self.bytes.len();
        let first_arg = self.args.len() as u32;
        self.copy_args(&ctx.argv);
        let first_hash = self.hashes.len() as u32;
        let PlannedKeys { first, step, hashes, .. } = ctx.planned;
        self.hashes.extend_from_slice(hashes);
        self.note_keys(ctx, command, hashes);
        self.flags |= command.flags;
        self.commands.push(Queued {
            command,
            start,
            args: (first_arg, self.args.len() as u32),
            hashes: (first_hash, self.hashes.len() as u32),
            first_key: first,
            step,
        });
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

    fn note_keys(&mut self, ctx: &Ctx<'_>, command: &Command, hashes: &[KeyHash]) {
        let db = self.db;
        if command.flags.contains(Flags::OTHER_KEYS) {
            self.needs_keyspace = true;
        } else if command.plan.is_some() && !command.flags.contains(Flags::MOVABLEKEYS) && !hashes.is_empty() {
            self.keys.extend(hashes.iter().map(|&hash| (db, hash)));
        } else if command.has_keys() {
            match find_keys(command, &ctx.argv) {
                Ok(found) => {
                    let hash = |index| ctx.engine.keyspace.hash(ctx.arg(index));
                    self.keys.extend(found.into_iter().map(|key| (db, hash(key.index))));
                }
                // It fails, or knows keys that its specs do not.
                Err(_) => self.needs_keyspace = true,
            }
        } else if command.spec.name == "select" && command.parent.is_none() {
            let wanted = parse_i64(ctx.arg(1)).and_then(|db| usize::try_from(db).ok());
            self.db = wanted.filter(|db| *db < ctx.engine.keyspace.databases()).map_or(db, |db| db as u32);
        } else if !command.is_short() {
            self.needs_keyspace = true;
            // DEBUG REPLAY is about the connection, too.
            let is_personal = matches!(command.spec.group, Group::Connection | Group::Pubsub | Group::Scripting);
            self.is_personal |= is_personal || command.spec.name == "debug";
        }
    }

    /// The commands in their order.
    pub(crate) fn commands(&self) -> impl Iterator<Item = (&'static Command, Argv<'_>, PlannedKeys<'_>)> {
        self.commands.iter().map(|queued| {
            let ranges = &self.args[queued.args.0 as usize..queued.args.1 as usize];
            let argv = Argv::new(&self.bytes[queued.start..], ranges, &self.owned);
            let hashes = &self.hashes[queued.hashes.0 as usize..queued.hashes.1 as usize];
            let planned = PlannedKeys { first: queued.first_key, step: queued.step, hashes, shard: None };
            (queued.command, argv, planned)
        })
    }
}
