//! A client that waits, and its command.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use onrush_resp::{ArgRange, Proto, Reply};
use onrush_store::Type;
use parking_lot::Mutex;

use super::state::{State, StateLock};
use super::waiters::PLACE_BYTES;
use crate::batch::argv::Argv;
use crate::clients::client::ClientHandle;
use crate::clients::session::Session;
use crate::command::flags::Flags;
use crate::command::table;
use crate::replication::goal::Goal;
use crate::shared::Shared;

/// Arguments from this length on may be owned; owned arguments are not copied.
const OWNED_LEN_MIN: usize = 32 * 1024;

/// What a client gets when its time is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnTimeout {
    /// A null array (`*-1` in RESP2).
    NullArray,
    /// Null (`$-1` in RESP2).
    Null,
    /// How many replicas have what it waits for (WAIT, WAITAOF).
    Counts(Goal),
    /// OK: it has slept since this moment (DEBUG SLEEP), which counts as time that its command took.
    Awake(Instant),
    /// Its time is never over: another thread does what it waits for, and replies then. Nothing else ends the waiting.
    Never,
}

impl OnTimeout {
    /// Appends it to a reply.
    pub(crate) fn append_to(self, out: &mut Reply, shared: &Shared) {
        match self {
            Self::NullArray => out.null_array(),
            Self::Null | Self::Never => out.null(),
            Self::Awake(_) => out.ok(),
            Self::Counts(goal) => goal.reply(shared, out),
        }
    }
}

/// What a client waits for a key to become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitsFor {
    /// A list.
    List,
    /// A sorted set.
    SortedSet,
    /// A stream, with entries behind some identifier.
    Stream,
    /// A stream with entries for a group. If the stream or the group is gone, the client gets an error.
    Group,
}

impl WaitsFor {
    /// The kinds of waiting that are served when a key has become a value of this type, or is gone. Those who wait for a
    /// group's entries learn of every other value, too.
    pub(super) fn served_by(ty: Option<Type>) -> &'static [Self] {
        match ty {
            Some(Type::List) => &[Self::List, Self::Group],
            Some(Type::SortedSet) => &[Self::SortedSet, Self::Group],
            Some(Type::Stream) => &[Self::Stream, Self::Group],
            _ => &[Self::Group],
        }
    }
}

/// The command of a client that waits.
pub(super) struct Command {
    bytes: Vec<u8>,
    ranges: Vec<ArgRange>,
    owned: Vec<Arc<Vec<u8>>>,
}

/// An argument that takes the place of one that was sent.
pub(crate) struct ReplacedArg {
    /// Its index among the arguments.
    pub index: usize,
    /// The argument.
    pub arg: Vec<u8>,
}

impl Command {
    /// Copies the arguments, some of them replaced.
    pub(super) fn copy(argv: &Argv<'_>, instead: &[ReplacedArg]) -> Self {
        let mut command = Self {
            bytes: Vec::with_capacity(argv.iter().map(<[u8]>::len).filter(|len| *len < OWNED_LEN_MIN).sum()),
            ranges: Vec::with_capacity(argv.len()),
            owned: Vec::new(),
        };
        let mut instead = instead.iter().peekable();
        for (index, arg) in argv.iter().enumerate() {
            if let Some(arg) = argv.owned(index) {
                command.ranges.push(ArgRange::owned(command.owned.len()));
                command.owned.push(Arc::clone(arg));
                continue;
            }
            let arg = instead.next_if(|replaced| replaced.index == index).map_or(arg, |replaced| &replaced.arg);
            command.ranges.push(ArgRange::new(command.bytes.len(), arg.len()));
            command.bytes.extend_from_slice(arg);
        }
        command
    }

    /// Bytes of the arguments.
    pub(super) fn bytes_len(&self) -> usize {
        self.bytes.len() + self.owned.iter().map(|arg| arg.len()).sum::<usize>()
    }

    pub(super) fn argv(&self) -> Argv<'_> {
        Argv::new(&self.bytes, &self.ranges, &self.owned)
    }
}

/// A client that waits.
pub struct Waiter {
    pub(super) client: Arc<ClientHandle>,
    pub(super) command: Command,
    /// Which command of the table that is.
    pub(super) entry: &'static table::Command,
    pub(super) waits: Waits,
    pub(super) proto: Proto,
    /// Nanoseconds that the command took before it began to wait, if the slow log may want them.
    pub(super) began_ns: AtomicU64,
    /// Bytes of the arguments of its command, and of what was queued since MULTI and is lent to another thread.
    pub held_bytes: usize,
    pub(super) state: StateLock<End>,
}

/// What a client waits for.
pub(super) enum Waits {
    /// Keys.
    Keys(Awaited, Until),
    /// Another thread, which finishes the waiter.
    Finish(Until),
    /// The thread for long commands, which executes its command.
    Turn(Turn),
}

/// When waiting ends by itself.
#[derive(Clone, Copy)]
pub(super) struct Until {
    /// In Unix milliseconds; `None` if never.
    pub(super) deadline_ms: Option<i64>,
    /// The reply then.
    pub(super) on_timeout: OnTimeout,
}

/// The keys that a client waits for.
pub(super) struct Awaited {
    pub(super) db: u32,
    /// The arguments that are keys.
    pub(super) range: Range<usize>,
    pub(super) what: WaitsFor,
    /// The order of arrival.
    pub(super) ticket: u64,
    /// Arguments as they were sent where the command has others.
    pub(super) sent: Vec<ReplacedArg>,
}

/// A command for the thread for long commands.
pub(super) struct Turn {
    /// Whether it goes before all others there.
    pub(super) is_urgent: bool,
    /// The client's whole state, with which it is executed.
    pub(super) lent: Mutex<Option<Box<Session>>>,
}

/// How its waiting ended.
pub(super) struct End {
    pub(super) outcome: Outcome,
    /// The state that its connection gets back.
    pub(super) lent: Option<Box<Session>>,
}

impl End {
    /// The connection must send this.
    pub(super) fn reply(reply: Vec<u8>, lent: Option<Box<Session>>) -> State<Self> {
        State::Ended(Self { outcome: Outcome::Reply(reply), lent })
    }
}

impl Waiter {
    /// About the bytes of memory that it takes, also in the queues of its keys. O(1).
    pub fn memory_bytes(&self) -> usize {
        let keys = self.awaited().map_or(0, |awaited| awaited.range.len());
        self.held_bytes + size_of_val(&self.command.ranges[..]) + keys * PLACE_BYTES
    }

    /// Whether its reply may report data, also what other clients have changed meanwhile.
    pub fn may_report_data(&self) -> bool {
        self.entry.may_report_data()
    }

    /// Whether it may have changed data.
    pub fn may_change_data(&self) -> bool {
        self.may_report_data() && !self.entry.flags.contains(Flags::READONLY)
    }

    /// The keys it waits for, if it does.
    pub(super) fn awaited(&self) -> Option<&Awaited> {
        if let Waits::Keys(awaited, _) = &self.waits { Some(awaited) } else { None }
    }

    fn until(&self) -> Option<&Until> {
        match &self.waits {
            Waits::Keys(_, until) | Waits::Finish(until) => Some(until),
            Waits::Turn(_) => None,
        }
    }

    /// What it waits for, if that is the thread for long commands.
    pub(super) fn turn(&self) -> Option<&Turn> {
        if let Waits::Turn(turn) = &self.waits { Some(turn) } else { None }
    }

    /// Whether it waits for the thread for long commands to execute its command.
    pub(crate) fn is_offloaded(&self) -> bool {
        self.turn().is_some()
    }

    /// Whether its command goes before all others on that thread.
    pub(crate) fn is_urgent(&self) -> bool {
        self.turn().is_some_and(|turn| turn.is_urgent)
    }

    /// When it stops to wait, in Unix milliseconds.
    pub fn deadline_ms(&self) -> Option<i64> {
        self.until().and_then(|until| until.deadline_ms)
    }

    /// The reply when its time is over.
    pub(super) fn on_timeout(&self) -> OnTimeout {
        self.until().map_or(OnTimeout::Never, |until| until.on_timeout)
    }

    /// Whether another thread is to do what its command says, and its reply comes for certain.
    pub fn is_certain(&self) -> bool {
        self.on_timeout() == OnTimeout::Never
    }

    pub(super) fn key(&self, index: usize) -> &[u8] {
        self.command.argv().get(index)
    }

    /// The group of a command that waits for a group's entries: XREADGROUP.
    pub(super) fn group(&self) -> Option<&[u8]> {
        self.awaited().filter(|awaited| awaited.what == WaitsFor::Group)?;
        let argv = self.command.argv();
        let mut index = 1;
        while index + 1 < argv.len() {
            let word = argv.get(index);
            if word.eq_ignore_ascii_case(b"GROUP") {
                return Some(argv.get(index + 1));
            }
            // NOACK stands alone, the other options before the keys have a value.
            index += if word.eq_ignore_ascii_case(b"NOACK") { 1 } else { 2 };
        }
        None
    }

    /// Notes what the command took before it began to wait for keys.
    pub(crate) fn note_begin(&self, nanos: u64) {
        self.began_ns.store(nanos, Relaxed);
    }

    /// Calls `take` unless the client's command is being executed or was executed meanwhile: later messages belong
    /// after the reply then.
    pub(crate) fn while_waiting(&self, take: impl FnOnce()) {
        // An offloaded command may be executed at any moment.
        if self.is_offloaded() {
            return;
        }
        let state = self.state.lock();
        if state.is_waiting() {
            take();
        }
    }

    /// The result of the waiting, and the state that its connection gets back; returned once.
    pub(crate) fn take_outcome(&self) -> Option<(Outcome, Option<Box<Session>>)> {
        self.state.take_end().map(|end| (end.outcome, end.lent))
    }
}

/// What happens to a client that has waited.
pub enum Outcome {
    /// Its connection sends this.
    Reply(Vec<u8>),
    /// It waits for keys now.
    Waits(Arc<Waiter>),
}
