//! Executing the stream of a primary, in parts of whole commands and transactions.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use onrush_engine::batch::runner::Runner;
use onrush_engine::clients::client::ClientHandle;
use onrush_engine::clients::durability::Level;
use onrush_engine::clients::local::{HELD_LOOK_PERIOD, LocalClient};
use onrush_engine::replication::follower::Follower as Executor;
use onrush_engine::replication::history::{Epoch, Position};
use onrush_engine::users::user::User;
use onrush_persist::aof::{Part, StreamScan};

use super::LOOK_PERIOD;
use super::link::{End, Link, Sending};
use crate::data::replay::{Answers, Failure, NAME_LEN_MAX};
use crate::net::peers::request;
use crate::process::server::Server;
use crate::replicas::link::next_command;

/// How often the primary is told how far this replica is, if it does not ask.
const ACK_PERIOD: Duration = Duration::from_secs(1);

/// Most places of the stream whose way to the disk is followed at a time.
const PLACES_MAX: usize = 1024;

/// A command or transaction may have this many bytes, however low `client-query-buffer-limit` is.
const PART_BYTES_MAX_MIN: u64 = 1 << 30;

const CLOSED_BY_CLIENT: &str = "CLIENT KILL";

/// What executes a primary's stream.
pub(super) struct Follower {
    runner: Runner,
    inner: Executor,
    /// The epoch of the history that it follows.
    epoch: Epoch,
}

/// The link as CLIENT LIST shows it and CLIENT KILL ends it, as long as it follows.
struct Listed {
    server: &'static Server,
    handle: Arc<ClientHandle>,
}

impl Listed {
    fn new(server: &'static Server, link: &Link) -> Self {
        let (addr, laddr, fd) = link.ends();
        let (id, now_ms) = (server.clients.next_id(), server.clock.unix_ms());
        let handle = Arc::new(ClientHandle::new(id, addr, laddr, fd, false, now_ms, User::server()));
        handle.is_primary.store(true, Relaxed);
        server.clients.add(Arc::clone(&handle));
        Self { server, handle }
    }

    /// Shows what `client`, which executes the stream, has done, and how many bytes are to come.
    fn update(&self, client: &LocalClient, unread_bytes: u64, last_io: Instant) {
        let (shown, done) = (&self.handle.activity, &client.handle().activity);
        shown.last_command.store(done.last_command.load(Relaxed), Relaxed);
        shown.commands.store(done.commands.load(Relaxed), Relaxed);
        shown.batches.store(done.batches.load(Relaxed), Relaxed);
        shown.db.store(client.db(), Relaxed);
        let silent_ms = i64::try_from(last_io.elapsed().as_millis()).unwrap_or(i64::MAX);
        shown.last_interaction_ms.store(self.server.clock.unix_ms().saturating_sub(silent_ms), Relaxed);
        self.handle.query_bytes.store(unread_bytes, Relaxed);
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.server.clients.remove(self.handle.id);
    }
}

/// What the primary was told.
struct Told {
    at: Instant,
    /// The offset up to which it knows that the stream was executed, and is on the disk.
    executed: u64,
    synced: u64,
    /// Offsets that are on the disk when the log has come to these LSNs.
    places: VecDeque<(u64, u64)>,
}

impl Follower {
    pub(super) fn new(server: &'static Server) -> Self {
        let mut runner = Runner::new(server.engine(), server.replica_thread());
        let inner = Executor::new(server.engine(), &mut runner);
        Self { runner, inner, epoch: Epoch::default() }
    }

    /// Executes what the primary sends until the link ends, or the history is not in this `epoch` any more. Parts of the
    /// stream that have not come whole are dropped then.
    pub(super) fn follow(&mut self, server: &'static Server, link: &mut Link, epoch: Epoch) -> Result<Infallible, End> {
        let mut scan = StreamScan::of_primary();
        let offset = server.replication.history.position().offset;
        let mut told = Told { at: Instant::now(), executed: offset, synced: 0, places: VecDeque::new() };
        // What is here may be on the disk since long ago.
        told.note(server);
        told.tell(server, &mut link.sides().1)?;
        // While data was loaded nobody has looked whether the primary is silent.
        link.begin_anew();
        let listed = Listed::new(server, link);
        self.epoch = epoch;
        loop {
            let mut is_asked = false;
            while let Some(part) = scan.next(link.bytes()).map_err(|error| self.need_all(server, &error.to_string()))? {
                let (Part::Commands { len, .. } | Part::AckWanted { len }) = part;
                match part {
                    Part::Commands { .. } => self.execute(server, link, len, &mut told)?,
                    Part::AckWanted { .. } => {
                        is_asked = true;
                        server.replication.history.append(&link.bytes()[..len], None);
                    }
                }
                link.take(len);
                told.note(server);
                if told.at.elapsed() >= ACK_PERIOD {
                    told.tell(server, &mut link.sides().1)?;
                }
                if server.host.replica.is_asked() {
                    return Err(End::Interrupted);
                }
                if listed.handle.is_killed() {
                    return Err(End::Failed(CLOSED_BY_CLIENT.to_owned()));
                }
            }
            let (unread_bytes, last_io) = (link.bytes().len() as u64, link.last_io());
            server.replication.role.set_link(|facts| {
                (facts.unread_bytes, facts.last_io, facts.was_alike) = (unread_bytes, Some(last_io), Some(last_io));
            });
            listed.update(self.inner.client(), unread_bytes, last_io);
            let part_bytes_max = server.host.config.read().client_query_buffer_limit.max(PART_BYTES_MAX_MIN);
            if listed.handle.is_killed() {
                return Err(End::Failed(CLOSED_BY_CLIENT.to_owned()));
            }
            if unread_bytes > part_bytes_max {
                let why = format!(
                    "a command or transaction has more bytes than client-query-buffer-limit ({part_bytes_max})"
                );
                return Err(self.need_all(server, &why));
            }
            if is_asked || told.is_due(server) {
                told.tell(server, &mut link.sides().1)?;
            }
            link.wait().map_err(End::failed("following"))?;
        }
    }

    /// Something in the stream cannot be executed. The same would come again; with all data it has been executed.
    #[cold]
    fn need_all(&self, server: &'static Server, why: &str) -> End {
        let _held = server.host.replica.hold_stream();
        if server.replication.history.epoch() == self.epoch {
            server.replication.take_over(Position { id: server.new_replid(), offset: 0 });
        }
        End::Failed(format!("{why}; this replica needs all data"))
    }

    /// Executes the next `len` bytes of the stream, whole commands. While they wait for their turn, the primary hears
    /// of this replica.
    fn execute(&mut self, server: &'static Server, link: &mut Link, len: usize, told: &mut Told) -> Result<(), End> {
        let (bytes, mut sending) = link.sides();
        let bytes = &bytes[..len];
        let held = loop {
            // A snapshot that waits to begin, or a command that loads the log anew, has it.
            let held = server.host.replica.hold_stream_for(ACK_PERIOD);
            // Other data is loaded, or the log takes no more.
            let may_go_on = !server.loading.is_on() && !server.settings.is_log_full();
            if let Some(held) = held.filter(|_| may_go_on) {
                break held;
            }
            if server.host.replica.is_asked() {
                return Err(End::Interrupted);
            }
            told.keep_alive(server, &mut sending)?;
            std::thread::sleep(LOOK_PERIOD);
        };
        if server.replication.history.epoch() != self.epoch {
            return Err(End::Failed("the data was replaced meanwhile".to_owned()));
        }
        let mut answers = Answers::default();
        let mut kept_alive = Ok(());
        let waits = || {
            if kept_alive.is_ok() {
                kept_alive = told.keep_alive(server, &mut sending);
            }
            std::thread::sleep(HELD_LOOK_PERIOD);
        };
        let executed = self.inner.execute(&mut self.runner, bytes, |replies| answers.read(replies), waits);
        drop(held);
        for failure in answers.failures() {
            note_failure(bytes, failure);
        }
        executed
            .map_err(|_| End::Failed("a command of the stream does not end, or selects no database here".to_owned()))?;
        kept_alive
    }
}

/// A command that changed something at the primary fails here. Of a client's text only the name is told.
#[cold]
fn note_failure(bytes: &[u8], failure: &Failure) {
    let mut rest = bytes;
    let command = std::iter::from_fn(|| next_command(&mut rest)).nth(failure.index);
    let name = command.as_ref().and_then(|args| args.first()).copied().unwrap_or_default();
    tracing::error!(
        "The command '{}' of the primary's stream fails here ({}): the data of this replica may differ from the primary's",
        name[..name.len().min(NAME_LEN_MAX)].escape_ascii(),
        failure.code
    );
}

impl Told {
    /// Notes a place of the stream whose way to the disk is to be followed.
    fn note(&mut self, server: &Server) {
        if !server.durability.is_on() {
            self.places.clear();
            return;
        }
        let offset = server.replication.history.position().offset;
        let lsn = server.log.last_lsn();
        let is_full = self.places.len() >= PLACES_MAX;
        match self.places.back_mut() {
            Some((known, until)) if *known == lsn || is_full => (*known, *until) = (lsn, offset),
            _ => self.places.push_back((lsn, offset)),
        }
    }

    /// The offset up to which the stream is on the disk.
    fn look_at_disk(&mut self, server: &Server) -> u64 {
        let mut synced = self.synced;
        while let Some((_, offset)) = self.places.pop_front_if(|(lsn, _)| server.durability.has(Level::Durable, *lsn)) {
            synced = offset;
        }
        synced
    }

    /// Whether there is something to tell.
    fn is_due(&mut self, server: &Server) -> bool {
        let executed = server.replication.history.position().offset;
        let synced = self.look_at_disk(server);
        let is_due = executed > self.executed || synced > self.synced || self.at.elapsed() >= ACK_PERIOD;
        self.synced = synced;
        is_due
    }

    /// Tells at times where this replica is, though it does not come farther.
    fn keep_alive(&mut self, server: &Server, sending: &mut Sending<'_>) -> Result<(), End> {
        if self.at.elapsed() >= ACK_PERIOD { self.tell(server, sending) } else { Ok(()) }
    }

    fn tell(&mut self, server: &Server, sending: &mut Sending<'_>) -> Result<(), End> {
        let executed = server.replication.history.position().offset;
        let synced = self.look_at_disk(server);
        let (ack, fack) = (executed.to_string(), synced.to_string());
        let mut args: Vec<&[u8]> = vec![b"REPLCONF", b"ACK", ack.as_bytes()];
        if server.durability.is_on() {
            args.extend([&b"FACK"[..], fack.as_bytes()]);
        }
        sending.send(&request(&args)).map_err(End::failed("acknowledging"))?;
        (self.at, self.executed, self.synced) = (Instant::now(), executed, synced);
        Ok(())
    }
}
