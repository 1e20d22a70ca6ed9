//! What clients change in slots that are under way as a whole: commands for the target, from the log of commits.

use std::fmt;
use std::io;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use onrush_cluster::slots::{SlotSet, slot};
use onrush_persist::{FOR_LOG, FOR_REPLICAS, Record, Sink, SinkId};
use parking_lot::Mutex;

use crate::command::find_keys::find_keys;
use crate::ctx::Engine;
use crate::snapshot::output::Output;
use crate::snapshot::run::begin_of_slots;

/// Why a move cannot go on: a command has deleted all keys.
const FLUSHED: &str = "the data was flushed";

/// See the module's text.
pub struct MoveStream {
    engine: &'static Engine,
    parts: Mutex<Parts>,
    /// With so many, commands that write are held back until half of them is taken.
    len_max: AtomicUsize,
}

#[derive(Default)]
struct Parts {
    /// The slots whose keys are copied: their changes wait for that.
    cut: SlotSet,
    /// Those whose keys the target has.
    copied: SlotSet,
    /// Changes to be sent.
    bytes: Vec<u8>,
    /// Changes of the slots that are copied.
    waiting: Vec<u8>,
    failure: Option<&'static str>,
}

impl MoveStream {
    /// One of no slots.
    pub fn new(engine: &'static Engine, len_max: usize) -> Arc<Self> {
        let len_max = AtomicUsize::new(len_max);
        Arc::new(Self { engine, parts: Mutex::default(), len_max })
    }

    /// Begins to follow the log.
    ///
    /// # Errors
    /// The system has no thread to give.
    pub fn attach(self: &Arc<Self>) -> io::Result<SinkId> {
        self.engine.log.attach(Box::new(Follower(Arc::clone(self))))
    }

    /// Cuts slots: `output` gets the commands that make their keys as they are, and what changes in them from here on comes
    /// to this stream. Waits for the commands under way. O(these slots). Returns `false` if that is not possible now: a script
    /// takes too long, or another snapshot is under way.
    pub fn cut(&self, output: Box<dyn Output>, slots: &[u16]) -> bool {
        let Some(alone) = self.engine.alone_unless_busy() else { return false };
        let has_begun = begin_of_slots(self.engine, output, slots.to_vec()).is_some();
        if has_begun {
            let mut parts = self.parts.lock();
            slots.iter().for_each(|slot| parts.cut.add(*slot));
        }
        drop(alone);
        has_begun
    }

    /// The target has been sent the keys of the slots that were cut: their changes may follow.
    pub fn end_of_copy(&self) {
        let mut parts = self.parts.lock();
        let Parts { cut, copied, bytes, waiting, .. } = &mut *parts;
        mem::take(cut).iter().for_each(|slot| copied.add(slot));
        bytes.append(waiting);
        *waiting = Vec::new();
    }

    /// From here on, so many bytes may wait.
    pub fn set_len_max(&self, len_max: usize) {
        self.len_max.store(len_max, Relaxed);
        self.look(&self.parts.lock());
    }

    /// Takes all that may be sent.
    ///
    /// # Errors
    /// Why the move cannot go on.
    pub fn take(&self) -> Result<Vec<u8>, &'static str> {
        let mut parts = self.parts.lock();
        if let Some(failure) = parts.failure {
            return Err(failure);
        }
        let bytes = mem::take(&mut parts.bytes);
        self.look(&parts);
        Ok(bytes)
    }

    /// Ends following the log; nobody is held back any more.
    pub fn end(&self, id: SinkId) {
        drop(self.engine.log.detach(id));
        self.set_behind(false);
    }

    fn look(&self, parts: &Parts) {
        let (len, most) = (parts.bytes.len() + parts.waiting.len(), self.len_max.load(Relaxed));
        if len > most {
            self.set_behind(true);
        } else if len <= most / 2 {
            self.set_behind(false);
        }
    }

    fn set_behind(&self, is_behind: bool) {
        if let Some(cluster) = &self.engine.cluster {
            cluster.moves.is_behind.store(is_behind, Relaxed);
        }
    }

    fn record(&self, record: Record<'_>) {
        let mut parts = self.parts.lock();
        if parts.failure.is_some() {
            return;
        }
        for (db, command) in record.commands() {
            if db == FOR_LOG || db == FOR_REPLICAS {
                continue;
            }
            match self.place(command) {
                Place::Slot(slot) if parts.copied.has(slot) => parts.bytes.extend_from_slice(command),
                Place::Slot(slot) if parts.cut.has(slot) => parts.waiting.extend_from_slice(command),
                Place::All => {
                    parts.failure = Some(FLUSHED);
                    (parts.bytes, parts.waiting) = (Vec::new(), Vec::new());
                }
                Place::Slot(_) | Place::Nowhere => {}
            }
        }
        self.look(&parts);
    }

    /// What a recorded command is about.
    fn place(&self, command: &[u8]) -> Place {
        let mut args = Args(command).take(HEAD_ARGS);
        let (Some(name), first) = (args.next(), args.next()) else { return Place::Nowhere };
        let Some(found) = self.engine.commands.original().lookup(name) else { return Place::Nowhere };
        if let Some(first) = first
            && found.plan.is_some_and(|keys| keys.first == 1)
        {
            return Place::Slot(slot(first));
        }
        if matches!(found.spec.name, "flushall" | "flushdb") {
            return Place::All;
        }
        let args: Vec<&[u8]> = Args(command).collect();
        let Ok(command) = self.engine.commands.original().resolve(args.as_slice()) else { return Place::Nowhere };
        let keys = find_keys(command, args.as_slice()).unwrap_or_default();
        keys.into_iter().next().map_or(Place::Nowhere, |key| Place::Slot(slot(args[key.index])))
    }
}

/// The name of a command, and what is mostly its key.
const HEAD_ARGS: usize = 2;

enum Place {
    Slot(u16),
    All,
    Nowhere,
}

/// The arguments of a multibulk that this server has made.
struct Args<'a>(&'a [u8]);

impl<'a> Iterator for Args<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.0.first() == Some(&b'*') {
            self.0 = line(self.0)?.1;
        }
        let (head, rest) = line(self.0)?;
        let len = onrush_resp::parse_i64(head.strip_prefix(b"$")?).and_then(|len| usize::try_from(len).ok())?;
        let argument = rest.get(..len)?;
        self.0 = rest.get(len + 2..)?;
        Some(argument)
    }
}

fn line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().take(32).position(|byte| *byte == b'\r')?;
    Some((&bytes[..end], bytes.get(end + 2..)?))
}

struct Follower(Arc<MoveStream>);

impl Sink for Follower {
    fn record(&mut self, record: Record<'_>) {
        self.0.record(record);
    }
}

impl fmt::Debug for MoveStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MoveStream").field("len_max", &self.len_max).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_of_a_recorded_command_are_read() {
        let args = |bytes: &'static str| Args(bytes.as_bytes()).collect::<Vec<_>>();
        assert_eq!(args("*2\r\n$3\r\nDEL\r\n$1\r\nk\r\n"), [&b"DEL"[..], b"k"]);
        assert_eq!(args("*3\r\n$3\r\nSET\r\n$2\r\n\r\n\r\n$0\r\n\r\n"), [&b"SET"[..], b"\r\n", b""]);
        assert_eq!(args("*2\r\n$3\r\nDEL\r\n$9\r\nk\r\n"), [&b"DEL"[..]]);
    }
}
