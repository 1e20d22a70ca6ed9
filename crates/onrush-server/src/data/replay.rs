//! Executing the commands of the append-only file again.
//!
//! A command in the file has changed something when it was first executed. If it fails now, a part of the data would be
//! missing: nothing is started from such a file. Scripts are the exception, which servers before Redis 7 logged as they
//! were sent: one that fails has failed before, after its changes.

use std::path::Path;

use onrush_engine::batch::runner::Runner;
use onrush_engine::clients::local::{HELD_LOOK_PERIOD, LocalClient, State};
use onrush_engine::observe::progress::Report;
use onrush_persist::aof::{AofError, Chunk, CommandReader, truncate};
use onrush_persist::storage::Disk;
use onrush_resp::{AggregateKind, BulkKind, ReplyReader, ReplyVisitor, Scalar};

use crate::data::loading::tell;
use crate::process::server::Server;

/// A chunk of more bytes than this is one large command or transaction.
const LARGE_BYTES_MIN: usize = 8 << 20;
/// In such a chunk, arguments from this length on are read into buffers of their own, as from a socket.
const OWN_LEN_MIN: usize = 32 << 10;
/// Most bytes that the client gets at once.
const PIECE_LEN_MAX: usize = 1 << 20;
/// Most bytes of a command's name that an error shows.
pub(crate) const NAME_LEN_MAX: usize = 128;

/// Executes the commands of a file.
///
/// # Errors
/// The file is damaged, or a command in it is not known or fails.
pub fn replay(
    server: &'static Server,
    commands: &mut CommandReader,
    path: &Path,
    cuts_end: bool,
) -> Result<(), String> {
    let mut replayer = Replayer::new(server, path);
    let (mut chunk, mut report) = (Chunk::default(), Report::new());
    loop {
        let before = commands.offset();
        match commands.next_chunk(&mut chunk) {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(AofError::Truncated { valid_len, .. }) if cuts_end => {
                tracing::warn!(
                    "{} ends in the middle of a command or a transaction: it is cut after byte {valid_len} \
                     (aof-load-truncated is yes)",
                    path.display()
                );
                return truncate(&Disk, path, valid_len).map_err(|error| error.to_string());
            }
            Err(error) => {
                return Err(format!(
                    "{error}. 'onrush-check aof --fix' on a copy of the files shows what can be saved"
                ));
            }
        }
        replayer.execute(&chunk)?;
        server.loading.add_bytes(commands.offset() - before);
        tell(&mut report, server);
    }
}

/// A client that executes the commands of one file.
struct Replayer<'a> {
    path: &'a Path,
    runner: Runner,
    client: LocalClient,
}

impl<'a> Replayer<'a> {
    fn new(server: &'static Server, path: &'a Path) -> Self {
        let mut client = LocalClient::new(server.engine());
        client.replay();
        Self { path, runner: Runner::new(server.engine(), server.snapshot_thread()), client }
    }

    fn execute(&mut self, chunk: &Chunk) -> Result<(), String> {
        let mut answers = Answers::default();
        if chunk.bytes().len() < LARGE_BYTES_MIN {
            self.send(chunk.bytes(), &mut answers);
        } else {
            // What the client has not come to is moved after each slice of work, so it gets little at a time. A command by
            // itself is executed in one go.
            let len_max = if chunk.commands() > 1 { PIECE_LEN_MAX } else { usize::MAX };
            let pieces = chunk.pieces(OWN_LEN_MIN).flat_map(|piece| piece.chunks(len_max));
            pieces.for_each(|piece| self.send(piece, &mut answers));
        }
        let mut failures = std::mem::take(&mut answers.visitor.failures).into_iter();
        if let Some(failure) = failures.find_map(|failure| self.judge(chunk, &failure)) {
            return Err(failure);
        }
        if answers.visitor.count == chunk.commands() {
            return Ok(());
        }
        let at = chunk.command(answers.visitor.count).map_or(0, |command| command.at);
        Err(format!("{}: the command at byte {at} does not end", self.path.display()))
    }

    fn send(&mut self, bytes: &[u8], answers: &mut Answers) {
        let mut state = self.client.send(&mut self.runner, bytes);
        loop {
            // Unread replies would keep it from going on.
            answers.read(&self.client.take_replies());
            match state {
                State::Runs => {}
                // A script that began before has the keyspace.
                State::IsHeldBack => std::thread::sleep(HELD_LOOK_PERIOD),
                _ => return,
            }
            state = self.client.go_on(&mut self.runner);
        }
    }

    /// What to report about a command that has failed, if the file must not be used. Never a client's text beyond the name.
    fn judge(&self, chunk: &Chunk, failure: &Failure) -> Option<String> {
        let path = self.path.display();
        if let Some(exec) = failure.exec
            && !chunk.command(exec).is_some_and(|command| command.name.eq_ignore_ascii_case(b"EXEC"))
        {
            // A script has returned errors as data.
            return None;
        }
        let Some(command) = chunk.command(failure.index) else { return Some(format!("{path}: a command fails")) };
        let name = command.name[..command.name.len().min(NAME_LEN_MAX)].escape_ascii();
        let at = command.at;
        if failure.is_unknown {
            return Some(format!(
                "Unknown command '{name}' reading the append only file {path}, at byte {at}. The server does not start \
                 without it, since the next rewrite would remove it"
            ));
        }
        if command.name.eq_ignore_ascii_case(b"SHUTDOWN") {
            return Some(format!("{path}: the command at byte {at} is SHUTDOWN, which no server writes to its log"));
        }
        let is_script = [&b"EVAL"[..], b"EVALSHA"].iter().any(|script| command.name.eq_ignore_ascii_case(script));
        if is_script && failure.code != "NOSCRIPT" {
            tracing::warn!("{path}: the script at byte {at} ends with an error, as it must have when it was logged");
            return None;
        }
        let code = &failure.code;
        Some(format!(
            "{path}: the command '{name}' at byte {at} fails ({code}), so a part of the data would be missing"
        ))
    }
}

/// The replies to the commands of a chunk.
#[derive(Default)]
pub(crate) struct Answers {
    reader: ReplyReader,
    visitor: Visitor,
}

impl Answers {
    /// Takes replies, from one call to the next cut anywhere.
    pub(crate) fn read(&mut self, bytes: &[u8]) {
        let mut at = 0;
        while let Ok(Some(_)) = self.reader.read(bytes, &mut at, &mut self.visitor) {
            self.visitor.end();
        }
    }

    /// The commands that have failed.
    pub(crate) fn failures(&self) -> &[Failure] {
        &self.visitor.failures
    }
}

/// A command that has failed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// Its number in the chunk, from 0 on.
    pub(crate) index: usize,
    /// The number of EXEC, if the error is in the reply to that.
    exec: Option<usize>,
    /// The first word of its error.
    pub(crate) code: String,
    /// Whether there is no such command.
    is_unknown: bool,
}

/// Counts replies and finds errors among them, and among the elements of those that are arrays.
#[derive(Default)]
struct Visitor {
    /// Replies so far.
    count: usize,
    depth: usize,
    /// Elements of the present array, and how many of them have ended.
    elements: usize,
    ended: usize,
    /// Errors in the present array, with their places.
    inner: Vec<(usize, Failure)>,
    failures: Vec<Failure>,
}

impl Visitor {
    fn element(&mut self) {
        self.ended += usize::from(self.depth == 1);
    }

    fn error(&mut self, text: &[u8]) {
        let word = text.split(|byte| *byte == b' ').next().unwrap_or_default();
        let is_code = word.iter().all(|byte| byte.is_ascii_uppercase());
        let code = if is_code { String::from_utf8_lossy(word).into_owned() } else { "an error".to_owned() };
        let is_unknown = text.starts_with(b"ERR unknown command") || text.starts_with(b"ERR unknown subcommand");
        let failure = Failure { index: self.count, exec: None, code, is_unknown };
        match self.depth {
            0 => self.failures.push(failure),
            1 => self.inner.push((self.ended, failure)),
            _ => {}
        }
    }

    /// A reply has ended. An array with errors is that of EXEC, or of a script: the commands of a transaction stand before
    /// its EXEC.
    fn end(&mut self) {
        for (place, mut failure) in std::mem::take(&mut self.inner) {
            (failure.index, failure.exec) = ((self.count + place).saturating_sub(self.elements), Some(self.count));
            self.failures.push(failure);
        }
        (self.elements, self.ended) = (0, 0);
        self.count += 1;
    }
}

impl ReplyVisitor for Visitor {
    fn scalar(&mut self, scalar: Scalar<'_>) {
        if let Scalar::Error(text) = scalar {
            self.error(text);
        }
        self.element();
    }

    fn bulk_ends(&mut self, _: BulkKind) {
        self.element();
    }

    fn open(&mut self, _: AggregateKind, len: usize) {
        if self.depth == 0 {
            self.elements = len;
        }
        self.depth += 1;
    }

    fn close(&mut self, _: AggregateKind) {
        self.depth -= 1;
        self.element();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failures(replies: &[u8]) -> Vec<(usize, Option<usize>, String, bool)> {
        let mut answers = Answers::default();
        // In two pieces, cut anywhere.
        let (first, second) = replies.split_at(replies.len() / 2);
        answers.read(first);
        answers.read(second);
        let told = |failure: Failure| (failure.index, failure.exec, failure.code, failure.is_unknown);
        answers.visitor.failures.into_iter().map(told).collect()
    }

    #[test]
    fn only_errors_are_failures_and_they_are_found_at_their_command() {
        assert_eq!(failures(b"+OK\r\n:1\r\n$7\r\na\n-ERR \r\n*2\r\n$4\r\n-ERR\r\n:1\r\n*-1\r\n"), []);
        let replies = b":1\r\n-WRONGTYPE secret\r\n-ERR unknown command 'x', with args beginning with: 'secret' \r\n";
        let wrong_type = (1, None, "WRONGTYPE".to_owned(), false);
        assert_eq!(failures(replies), [wrong_type, (2, None, "ERR".to_owned(), true)]);
        let exec = b"+OK\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n:1\r\n*1\r\n-ERR deeper\r\n-NOPE x\r\n";
        assert_eq!(failures(exec), [(4, Some(5), "NOPE".to_owned(), false)]);
        assert_eq!(failures(b"-a client's text\r\n"), [(0, None, "an error".to_owned(), false)]);
    }
}
