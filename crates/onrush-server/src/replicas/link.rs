//! One replica: what it still has to get, and what it has acknowledged.

use std::io::{self, Error, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use onrush_engine::replication::attached::{Phase, Replica};
use onrush_engine::replication::history::{Asked, Epoch, Gone};
use onrush_engine::replication::introduction::{Only, SyncRequest};
use onrush_engine::settings::OutputLimits;
use onrush_persist::aof::{Backlog, Part, StreamScan};
use onrush_persist::rdb::{Encoder, FileWriter, Text};
use onrush_resp::REDIS_VERSION;

use super::files::{Answer, Files};
use super::payload::{Payload, State};
use super::spool::{Found, Spool};
use crate::net::connection::Connection;
use crate::process::server::Server;

/// Bytes that are taken for a replica at once, from memory and from a file, and most that it gets in one turn.
const PIECE_LEN: usize = 128 << 10;
const FILE_PIECE_LEN: usize = 512 << 10;
const TURN_BYTES_MAX: usize = 2 << 20;

/// Most reads in one turn, of 4 KB each.
const READS_MAX: usize = 16;

/// The longest request of a replica, in bytes.
const REQUEST_LEN_MAX: usize = 16 << 10;

/// How long a replica that reads the append-only file waits when there is nothing yet.
const DRY_FOR: Duration = Duration::from_millis(100);

/// Why a replica cannot go on.
const IS_GONE: &str = "it lacks a part of the stream that is not kept any more";

/// Why a replica has to ask again.
const OUTDATED: &str = "the history has changed";

/// What a replica gets next.
enum Stage {
    /// Nothing: it waits for data.
    Waits,
    /// Nothing yet: the append-only file may have the stream from where it was.
    Asks { asked: Asked, found: Answer<InLog> },
    /// Data, from this place on; `mark` ends it if its length was not told.
    Data { payload: Arc<Payload>, at: u64, mark: Option<String> },
    /// The stream from this place on, once it has said that it has the data.
    AwaitsAck { next: u64 },
    /// The stream from this place on.
    Stream { next: u64 },
    /// Nothing more: it wanted the data alone.
    HasData,
}

/// What becomes of a replica after a turn.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum After {
    /// It waits for events.
    Wait,
    /// There is more to do at once.
    Again,
    /// It is closed, for this reason.
    End(String),
}

/// Whether the append-only file has the stream from a place on, and what reads it there: nothing does while the place is
/// still on its way to the file.
type InLog = (bool, io::Result<Option<Backlog>>);

/// What comes from a file: bytes behind those that were there.
struct FromFile {
    bytes: Vec<u8>,
    read: Result<(), String>,
    /// Where the stream goes on in the append-only file.
    backlog: Option<Backlog>,
}

/// See the module's text.
pub(super) struct Link {
    pub(super) connection: Connection,
    pub(super) replica: Arc<Replica>,
    pub(super) request: SyncRequest,
    stage: Stage,
    /// The epoch of the history that it follows.
    epoch: Epoch,
    /// Bytes that are to be written, from `written` on.
    out: Vec<u8>,
    written: usize,
    /// What has come and was not understood yet.
    input: Vec<u8>,
    scan: StreamScan,
    /// Whether it reads the stream from the append-only file, since memory does not have it any more.
    reads_log: bool,
    /// Where it goes on there.
    backlog: Option<Backlog>,
    /// What is to come from a file.
    awaited: Option<Answer<FromFile>>,
    /// If there was nothing when it came: when to look again. The rest is on its way to the file.
    dry_until: Option<Instant>,
    /// Whether it was told how its data ends.
    is_announced: bool,
    /// When something was written last, and when something has come.
    progress_at: Instant,
    heard_at: Instant,
    /// When what it lacks passed the soft limit, in Unix milliseconds.
    strained_since_ms: Option<i64>,
}

impl Link {
    pub(super) fn new(connection: Connection, replica: Arc<Replica>, request: SyncRequest) -> Self {
        Self {
            connection,
            replica,
            request,
            stage: Stage::Waits,
            epoch: Epoch::default(),
            out: Vec::new(),
            written: 0,
            input: Vec::new(),
            scan: StreamScan::default(),
            reads_log: false,
            backlog: None,
            awaited: None,
            dry_until: None,
            is_announced: false,
            progress_at: Instant::now(),
            heard_at: Instant::now(),
            strained_since_ms: None,
        }
    }

    /// Whether it waits for data that is not there.
    pub(super) fn waits(&self) -> bool {
        matches!(self.stage, Stage::Waits)
    }

    /// The first byte of the stream that must be kept for it; `None` if that is not known yet, or if it reads the append-only
    /// file.
    pub(super) fn lacks(&self) -> Option<u64> {
        match &self.stage {
            _ if self.reads_log => None,
            Stage::Data { payload, .. } => payload.cut().map(|(cut, _)| cut.offset),
            Stage::AwaitsAck { next } | Stage::Stream { next } => Some(*next),
            Stage::Waits | Stage::Asks { .. } | Stage::HasData => None,
        }
    }

    /// For how long it has given no sign of life: while it gets and loads data, that it takes bytes is one, too.
    pub(super) fn silence(&self) -> Duration {
        match self.stage {
            // It waits for this server.
            Stage::Waits => Duration::ZERO,
            Stage::Stream { .. } => self.heard_at.elapsed(),
            _ => self.heard_at.max(self.progress_at).elapsed(),
        }
    }

    /// Whether it was told nothing for a while that would show it that this server is there.
    pub(super) fn is_kept_waiting(&self) -> bool {
        let data_is_late = |payload: &Payload, at| self.is_written() && at == 0 && payload.len() == 0;
        match &self.stage {
            Stage::Waits | Stage::Asks { .. } => self.is_written(),
            Stage::Data { payload, at, mark } => {
                mark.is_none() && payload.state() == State::Grows || data_is_late(payload, *at)
            }
            _ => false,
        }
    }

    /// Sends a line without meaning.
    pub(super) fn keep_alive(&mut self) {
        if self.is_written() {
            self.out.push(b'\n');
        }
    }

    fn is_written(&self) -> bool {
        self.written == self.out.len()
    }

    /// It goes on in the stream where it was.
    pub(super) fn go_on(&mut self, server: &Server, next: u64, epoch: Epoch) {
        let reply = match self.replica.introduction.knows_names {
            true => format!("+CONTINUE {}\r\n", server.replication.history.position().id),
            false => "+CONTINUE\r\n".to_owned(),
        };
        self.out.extend_from_slice(reply.as_bytes());
        (self.stage, self.epoch) = (Stage::Stream { next }, epoch);
        self.heard_at = Instant::now();
        self.replica.set_phase(Phase::Online);
    }

    /// Has it looked whether the append-only file has the stream from where this replica was.
    pub(super) fn look_in_log(&mut self, server: &'static Server, files: &Files, asked: Asked) {
        let found = files.ask(move || {
            let aof = server.host.append_only.aof();
            let has = aof.as_ref().is_some_and(|aof| aof.stream_start().is_some_and(|start| start <= asked.next));
            (has, aof.map_or(Ok(None), |aof| aof.backlog(asked.next)))
        });
        self.stage = Stage::Asks { asked, found };
    }

    /// Where this replica was, if that has been looked for now, and whether the append-only file has the stream from there.
    pub(super) fn found_in_log(&mut self) -> Option<(Asked, bool)> {
        let Stage::Asks { asked, found } = &self.stage else { return None };
        let (asked, (has, found)) = (*asked, found.take()?);
        self.reads_log = has && found.is_ok();
        self.backlog = found.unwrap_or_else(|error| {
            tracing::warn!(
                "The append-only file can't be read for the replica {} from offset {} on: {error}",
                self.replica.client.addr,
                asked.next
            );
            None
        });
        self.stage = Stage::Waits;
        Some((asked, self.reads_log))
    }

    /// Whether it should look again soon though nothing tells it to.
    pub(super) fn is_dry(&self) -> bool {
        self.dry_until.is_some()
    }

    /// It gets the data of a payload, which has been cut.
    pub(super) fn get(&mut self, payload: &Arc<Payload>) {
        let Some((cut, epoch)) = payload.cut() else { return };
        if self.request.is_psync {
            self.out.extend_from_slice(format!("+FULLRESYNC {} {}\r\n", cut.id, cut.offset).as_bytes());
        }
        let mark = self.replica.introduction.takes_mark.then(|| payload.mark());
        (self.stage, self.epoch) = (Stage::Data { payload: Arc::clone(payload), at: 0, mark }, epoch);
        self.replica.set_phase(Phase::GetsData);
    }

    /// It gets a part of the data, for which nobody waits, and nothing behind it.
    pub(super) fn get_part(&mut self, server: &Server, only: Only) {
        let mut encoder = Encoder::default();
        encoder.aux(b"redis-ver", Text::Bytes(REDIS_VERSION.as_bytes()));
        encoder.aux(b"redis-bits", Text::Bytes(usize::BITS.to_string().as_bytes()));
        if only == Only::Functions {
            server.scripts.library_texts().iter().for_each(|text| encoder.function(text));
        }
        let has_checksum = server.host.config.read().rdbchecksum;
        let written = FileWriter::new(Vec::new(), encoder.version(), has_checksum).and_then(|mut writer| {
            writer.write(&encoder.take())?;
            writer.finish()
        });
        // Memory takes all bytes.
        let data = written.unwrap_or_default();
        let position = server.replication.history.position();
        if self.request.is_psync {
            self.out.extend_from_slice(format!("+FULLRESYNC {} {}\r\n", position.id, position.offset).as_bytes());
        }
        self.out.extend_from_slice(format!("${}\r\n", data.len()).as_bytes());
        self.out.extend_from_slice(&data);
        (self.stage, self.epoch) = (Stage::HasData, server.replication.history.epoch());
        self.replica.set_phase(Phase::GetsData);
    }

    /// The payload that it gets.
    pub(super) fn payload(&self) -> Option<&Arc<Payload>> {
        if let Stage::Data { payload, .. } = &self.stage { Some(payload) } else { None }
    }

    /// Reads and writes what the socket takes now, of the stream up to `end`.
    pub(super) fn turn(&mut self, server: &'static Server, spool: &Spool, files: &Files, end: u64) -> After {
        if self.replica.client.is_killed() {
            return After::End("it was killed".to_owned());
        }
        if self.is_outdated(server) {
            return After::End(OUTDATED.to_owned());
        }
        let goes_on = match self.read(server) {
            Ok(goes_on) => goes_on,
            Err(why) => return After::End(why),
        };
        match self.write(server, spool, files, end).unwrap_or_else(After::End) {
            After::Wait if goes_on => After::Again,
            after => after,
        }
    }

    /// Whether what it has got is not the beginning of what comes next any more.
    fn is_outdated(&self, server: &Server) -> bool {
        let is_served = !matches!(self.stage, Stage::Waits | Stage::Asks { .. });
        is_served && self.epoch != server.replication.history.epoch()
    }

    /// Reads what has come, up to a limit; returns whether there may be more.
    fn read(&mut self, server: &Server) -> Result<bool, String> {
        for _ in 0..READS_MAX {
            let mut buf = [0; 4096];
            match self.connection.socket().read(&mut buf) {
                Ok(0) => return Err("it has closed the connection".to_owned()),
                Ok(len) => {
                    self.heard_at = Instant::now();
                    self.input.extend_from_slice(&buf[..len]);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error.to_string()),
            }
            self.understand(server)?;
        }
        Ok(true)
    }

    /// Executes what has come: nothing but acknowledgements.
    fn understand(&mut self, server: &Server) -> Result<(), String> {
        loop {
            let blank = self.input.iter().take_while(|byte| matches!(byte, b'\n' | b'\r')).count();
            self.input.drain(..blank);
            let part = self.scan.next(&self.input).map_err(|error| format!("it sends what is {error}"))?;
            let Some(Part::Commands { len, .. } | Part::AckWanted { len }) = part else {
                let is_long = self.input.len() > REQUEST_LEN_MAX;
                return if is_long { Err("it sends a request without end".to_owned()) } else { Ok(()) };
            };
            let commands: Vec<u8> = self.input.drain(..len).collect();
            let mut rest = &commands[..];
            while !rest.is_empty() {
                let args = next_command(&mut rest).ok_or("it sends what is no command")?;
                self.acknowledged(server, &args)?;
            }
        }
    }

    fn acknowledged(&mut self, server: &Server, args: &[&[u8]]) -> Result<(), String> {
        let number = |text: &[u8]| std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
        let (offset, synced) = match args {
            [name, ack, offset] if is(name, "REPLCONF") && is(ack, "ACK") => (number(offset), None),
            [name, ack, offset, fack, synced] if is(name, "REPLCONF") && is(ack, "ACK") && is(fack, "FACK") => {
                (number(offset), number(synced))
            }
            [name, ..] if is(name, "REPLCONF") || is(name, "PING") => return Ok(()),
            _ => return Err("it sends other commands than REPLCONF".to_owned()),
        };
        let offset = offset.ok_or("it acknowledges what is no offset")?;
        let position = server.replication.history.position();
        if offset > position.offset {
            return Err(format!("it acknowledges {offset}, which is beyond {}", position.offset));
        }
        // It cannot have synced what it does not have.
        let synced = synced.map(|synced: u64| synced.min(offset));
        self.replica.acknowledge(offset, synced, server.clock.unix_ms());
        if let Stage::AwaitsAck { next } = self.stage {
            self.stage = Stage::Stream { next };
            self.replica.set_phase(Phase::Online);
            tracing::info!("The replica {} has all data", self.replica.client.addr);
        }
        if self.is_outdated(server) {
            self.replica.forget();
            return Err(OUTDATED.to_owned());
        }
        if matches!(self.stage, Stage::Stream { .. }) {
            // Another role may have come just before it did.
            self.replica.set_phase(Phase::Online);
        }
        Ok(())
    }

    fn write(&mut self, server: &'static Server, spool: &Spool, files: &Files, end: u64) -> Result<After, String> {
        let mut budget = TURN_BYTES_MAX;
        loop {
            while !self.is_written() {
                if budget == 0 {
                    return Ok(After::Again);
                }
                let end = self.out.len().min(self.written + budget);
                match self.connection.socket().write(&self.out[self.written..end]) {
                    Ok(len) => {
                        self.written += len;
                        budget -= len;
                        self.progress_at = Instant::now();
                        server.replication.syncs.output_bytes.fetch_add(len as u64, Relaxed);
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return self.look_at_limits(server),
                    Err(error) => return Err(error.to_string()),
                }
            }
            self.out.clear();
            self.written = 0;
            if !self.fill(server, spool, files, end)? {
                self.strained_since_ms = None;
                return match self.stage {
                    Stage::HasData => Err("it has the data that it wanted".to_owned()),
                    _ => Ok(After::Wait),
                };
            }
        }
    }

    /// Takes what comes next; returns whether there is anything.
    fn fill(&mut self, server: &'static Server, spool: &Spool, files: &Files, end: u64) -> Result<bool, String> {
        if let Some(awaited) = &self.awaited {
            let Some(found) = awaited.take() else { return Ok(false) };
            self.awaited = None;
            return self.arrived(found);
        }
        match self.stage {
            Stage::Waits | Stage::Asks { .. } | Stage::AwaitsAck { .. } | Stage::HasData => Ok(false),
            Stage::Data { .. } => self.fill_data(files),
            Stage::Stream { next } => {
                let len_max = usize::try_from(end.saturating_sub(next)).unwrap_or(usize::MAX).min(FILE_PIECE_LEN);
                if len_max == 0 {
                    return Ok(false);
                }
                let read = self.read_stream(server, spool, files, next, len_max)?;
                self.stage = Stage::Stream { next: next + read as u64 };
                Ok(read > 0)
            }
        }
    }

    /// Takes what has come from a file; returns whether there is anything.
    fn arrived(&mut self, found: FromFile) -> Result<bool, String> {
        self.out = found.bytes;
        self.backlog = found.backlog;
        let len = self.out.len() as u64;
        match &mut self.stage {
            Stage::Data { at, .. } => *at += len,
            Stage::Stream { next } => {
                *next += len;
                self.dry_until = (len == 0).then(|| Instant::now() + DRY_FOR);
            }
            _ => {}
        }
        found.read.map(|()| len > 0)
    }

    /// Has bytes read from a file.
    fn await_file(
        &mut self,
        files: &Files,
        read: impl FnOnce(&mut Vec<u8>, &mut Option<Backlog>) -> Result<(), String> + Send + 'static,
    ) {
        let (mut bytes, mut backlog) = (std::mem::take(&mut self.out), self.backlog.take());
        self.awaited = Some(files.ask(move || {
            let read = read(&mut bytes, &mut backlog);
            if read.is_err() {
                bytes.clear();
            }
            FromFile { bytes, read, backlog }
        }));
    }

    /// Takes bytes of the stream from memory, or has them read from the file beside it or the append-only file. Returns how
    /// many it took.
    fn read_stream(
        &mut self,
        server: &'static Server,
        spool: &Spool,
        files: &Files,
        next: u64,
        len_max: usize,
    ) -> Result<usize, String> {
        let failed = |error: Error| format!("the stream can't be read: {error}");
        let lineage = self.epoch.lineage;
        if self.backlog.as_ref().is_none_or(Backlog::is_exact) {
            let mut look =
                || match server.replication.history.read(lineage, next, len_max.min(PIECE_LEN), &mut self.out) {
                    Ok(len) => Found::Bytes(len),
                    Err(Gone) => spool.find(lineage, next, len_max, &mut self.out),
                };
            let found = match look() {
                // It may have gone from one to the other meanwhile.
                Found::Nothing => look(),
                found => found,
            };
            if !matches!(found, Found::Nothing) {
                (self.reads_log, self.dry_until) = (false, None);
                if let Some(backlog) = self.backlog.take() {
                    drop(files.ask(|| drop(backlog)));
                }
            }
            match found {
                Found::Bytes(len) => return Ok(len),
                Found::InFile(bytes) => {
                    self.await_file(files, move |out, _| bytes.read(out).map_err(failed));
                    return Ok(0);
                }
                Found::Nothing => {}
            }
        }
        if self.dry_until.is_some_and(|until| until > Instant::now()) {
            return Ok(0);
        }
        self.reads_log = true;
        self.await_file(files, move |out, backlog| {
            let aof = server.host.append_only.aof().ok_or(IS_GONE)?;
            if backlog.is_none() {
                *backlog = aof.backlog(next).map_err(failed)?;
            }
            // If there is nothing yet, it is on its way to the file.
            let Some(backlog) = backlog else {
                let has = aof.stream_start().is_some_and(|start| start <= next);
                return if has { Ok(()) } else { Err(IS_GONE.to_owned()) };
            };
            let read = backlog.read(out, len_max);
            if read.is_err() {
                // It would come back and fail again.
                aof.give_up_streams();
            }
            read.map(drop).map_err(failed)
        });
        Ok(0)
    }

    fn fill_data(&mut self, files: &Files) -> Result<bool, String> {
        let Stage::Data { payload, at, mark } = &mut self.stage else { return Ok(false) };
        let (state, at) = (payload.state(), *at);
        let len = payload.len();
        match state {
            State::HasFailed => return Err("the data can't be written".to_owned()),
            // Its beginning, or its length, is not known yet.
            State::Grows if mark.is_none() || len == 0 => return Ok(false),
            _ => {}
        }
        if !std::mem::replace(&mut self.is_announced, true) {
            let head = mark.as_ref().map_or_else(|| format!("${len}\r\n"), |mark| format!("$EOF:{mark}\r\n"));
            self.out.extend_from_slice(head.as_bytes());
            return Ok(true);
        }
        if at < len {
            let payload = Arc::clone(payload);
            self.await_file(files, move |out, _| {
                payload.read(at, FILE_PIECE_LEN, out).map_err(|error| error.to_string())
            });
            return Ok(false);
        }
        if state == State::Grows {
            return Ok(false);
        }
        let next = payload.cut().map_or(0, |(cut, _)| cut.offset);
        let mark = mark.take();
        self.out.extend_from_slice(mark.as_deref().unwrap_or_default().as_bytes());
        self.stage = match (mark, self.replica.introduction.wants_data_only) {
            (_, true) => Stage::HasData,
            (Some(_), false) => Stage::AwaitsAck { next },
            (None, false) => {
                // It has time to load.
                self.heard_at = Instant::now();
                self.replica.set_phase(Phase::Online);
                Stage::Stream { next }
            }
        };
        Ok(true)
    }

    /// A replica that follows the stream too slowly is closed (`client-output-buffer-limit replica`).
    fn look_at_limits(&mut self, server: &Server) -> Result<After, String> {
        let Stage::Stream { next } = self.stage else { return Ok(After::Wait) };
        if self.reads_log {
            // What it lacks is on the disk, and takes no memory.
            self.strained_since_ms = None;
            return Ok(After::Wait);
        }
        // What is not in memory any more is in a file.
        let (kept_from, _) = server.replication.history.kept();
        let behind = server.replication.history.offset().saturating_sub(next.max(kept_from));
        let lacks = behind + (self.out.len() - self.written) as u64;
        let OutputLimits { replica, .. } = server.settings.output_limits();
        match replica.is_passed(lacks, &mut self.strained_since_ms, || server.clock.unix_ms()) {
            true => {
                server.replication.syncs.closed_at_limit.fetch_add(1, Relaxed);
                Err(format!("{lacks} bytes wait for it in memory, which passes client-output-buffer-limit"))
            }
            false => Ok(After::Wait),
        }
    }
}

fn is(arg: &[u8], word: &str) -> bool {
    arg.eq_ignore_ascii_case(word.as_bytes())
}

/// The arguments of the whole command that `bytes` begin with, which are taken.
pub(crate) fn next_command<'a>(bytes: &mut &'a [u8]) -> Option<Vec<&'a [u8]>> {
    let count = next_number(bytes, b'*')?;
    (0..count)
        .map(|_| {
            let len = next_number(bytes, b'$')?;
            let (arg, rest) = bytes.split_at_checked(len)?;
            *bytes = rest.strip_prefix(b"\r\n")?;
            Some(arg)
        })
        .collect()
}

fn next_number(bytes: &mut &[u8], kind: u8) -> Option<usize> {
    let line = bytes.strip_prefix(&[kind])?;
    let end = line.iter().position(|byte| *byte == b'\r')?;
    let number = std::str::from_utf8(&line[..end]).ok()?.parse().ok()?;
    *bytes = line[end..].strip_prefix(b"\r\n")?;
    Some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_taken_one_by_one() {
        let mut bytes = &b"*2\r\n$1\r\na\r\n$0\r\n\r\n*1\r\n$2\r\n\r\n\r\n"[..];
        assert_eq!(next_command(&mut bytes).unwrap(), [&b"a"[..], b""]);
        assert_eq!(next_command(&mut bytes).unwrap(), [b"\r\n"]);
        assert!(bytes.is_empty() && next_command(&mut bytes).is_none());
    }
}
