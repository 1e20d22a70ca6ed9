//! MIGRATE: sends keys to another server, and deletes them here once the other server has them.
//!
//! The command runs on the thread for long commands and holds the locks of its keys until it ends: no client changes a
//! key that is on its way, or sees only some of the keys gone. Keys are sent as RESTOREs in batches of about a
//! megabyte; the replies to a batch are read before the next batch is sent, so neither side buffers much. A key is
//! deleted only after a `+` from the other server. When a reply is lost, the key may be on both servers; it is never on
//! neither.

use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use onrush_persist::push_command;

use crate::batch::argv::Arguments;
use crate::command::key_spec::{Invalid, KeyRef, KeyRefs, key_flags};
use crate::commands::keys::dump::with_payload;
use crate::commands::keys::lock_keys;
use crate::commit::Key;
use crate::ctx::{CommandResult, Ctx, EventClass};
use crate::error::{self, CommandError};
use crate::process::{Peer, PeerAddress};

const KEY_AND_KEYS: CommandError =
    CommandError::fixed("ERR When using MIGRATE KEYS option, the key argument must be set to the empty string");
const CONNECTING: CommandError = CommandError::fixed("IOERR error or timeout connecting to the client");
const WRITING: CommandError = CommandError::fixed("IOERR error or timeout writing to target instance");
const READING: CommandError = CommandError::fixed("IOERR error or timeout reading to target instance");
const OF_TARGET: &[u8] = b"ERR Target instance replied with error: ";

/// The arguments with the single key, and with the first option.
const KEY_AT: usize = 3;
const OPTIONS_AT: usize = 6;

/// Used in place of a timeout that is not positive.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(1);

/// From this many bytes of commands on they are sent and their replies are read.
const BATCH_LEN: usize = 1 << 20;

/// The argument that is the word KEYS, if there is one. The values of AUTH and AUTH2 do not count.
fn word_keys(argv: &(impl Arguments + ?Sized)) -> Option<usize> {
    let mut index = OPTIONS_AT;
    while index < argv.len() {
        let is = |word: &[u8]| argv.get(index).eq_ignore_ascii_case(word);
        if is(b"KEYS") {
            return Some(index);
        }
        index += if is(b"AUTH2") { 3 } else { 1 + usize::from(is(b"AUTH")) };
    }
    None
}

/// Arguments that name the keys: behind the word KEYS, or the single one.
fn keys_among(argv: &(impl Arguments + ?Sized)) -> Result<Range<usize>, CommandError> {
    match word_keys(argv) {
        Some(_) if !argv.get(KEY_AT).is_empty() => Err(KEY_AND_KEYS),
        Some(at) => Ok(at + 1..argv.len()),
        None => Ok(KEY_AT..KEY_AT + 1),
    }
}

/// The keys for COMMAND GETKEYS and for EXEC.
pub(crate) fn migrate_keys(argv: &dyn Arguments, found: &mut KeyRefs) -> Result<(), Invalid> {
    let keys = keys_among(argv).map_err(|_| Invalid)?;
    let keys = if keys.is_empty() { KEY_AT..KEY_AT + 1 } else { keys };
    found.extend(keys.map(|index| KeyRef { index, flags: key_flags("RW access delete") }));
    Ok(())
}

/// The request.
struct Request<'a> {
    address: PeerAddress<'a>,
    db: i64,
    keeps: bool,
    replaces: bool,
    /// The arguments of AUTH; empty if there is to be none.
    credentials: Vec<&'a [u8]>,
}

impl<'a> Request<'a> {
    /// The request, and the arguments that name its keys.
    fn parse(ctx: &Ctx<'a>) -> Result<(Self, Range<usize>), CommandError> {
        let argv = ctx.argv;
        let (mut keeps, mut replaces, mut credentials) = (false, false, Vec::new());
        let mut rest = ctx.rest(OPTIONS_AT);
        while !rest.is_empty() && !rest.is("KEYS") {
            if rest.take("COPY") {
                keeps = true;
            } else if rest.take("REPLACE") {
                replaces = true;
            } else if rest.take_with("AUTH", 1) {
                credentials = vec![rest.next_arg()];
            } else if rest.take_with("AUTH2", 2) {
                credentials = vec![rest.next_arg(), rest.next_arg()];
            } else {
                return Err(error::SYNTAX);
            }
        }
        let keys = keys_among(&argv)?;
        let timeout_ms = ctx.int(5)?;
        let db = ctx.int(4)?;
        let timeout =
            u64::try_from(timeout_ms).ok().filter(|ms| *ms > 0).map_or(TIMEOUT_DEFAULT, Duration::from_millis);
        let address = PeerAddress { host: argv.get(1), port: argv.get(2), timeout };
        Ok((Self { address, db, keeps, replaces, credentials }, keys))
    }
}

/// `MIGRATE host port key|"" destination-db timeout [COPY] [REPLACE] [AUTH password | AUTH2 username password] [KEYS key ...]`
pub(crate) fn migrate(ctx: &mut Ctx<'_>) -> CommandResult {
    let (request, named) = Request::parse(ctx)?;
    let mut keys = lock_keys(ctx, named)?;
    if keys.iter().any(|key| ctx.commit.held_entry(key).is_some()) {
        // It waits for another server, and workers must not wait.
        ctx.leave_worker()?;
    }
    keys.retain(|key| ctx.commit.read(key).is_some());
    if keys.is_empty() {
        return ctx.reply_simple("NOKEY");
    }
    let mut transfer = Transfer { ctx: &mut *ctx, request: &request, answered: 0, moved: Vec::new(), refused: None };
    let result = transfer.run(&keys);
    let Transfer { moved, refused, .. } = transfer;
    if !moved.is_empty() && ctx.is_logged() {
        let args: Vec<&[u8]> = [&b"DEL"[..]].into_iter().chain(moved).collect();
        ctx.log_instead(&args);
    }
    // An error from the other server says more than a later failure of the connection.
    if let Some(error) = refused {
        return Err(error.into());
    }
    result?;
    ctx.reply_ok()
}

/// Why a transfer failed.
struct Failure {
    error: CommandError,
    timed_out: bool,
}

impl Failure {
    fn new(error: CommandError, cause: &io::Error) -> Self {
        let timed_out = matches!(cause.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock);
        Self { error, timed_out }
    }
}

/// Keys on their way.
struct Transfer<'t, 'c> {
    ctx: &'t mut Ctx<'c>,
    request: &'t Request<'c>,
    /// Replies to RESTORE that have come.
    answered: usize,
    /// Keys that the other server has and that are deleted here.
    moved: Vec<&'c [u8]>,
    /// The first error of the other server.
    refused: Option<CommandError>,
}

impl<'c> Transfer<'_, 'c> {
    fn run(&mut self, keys: &[Key<'c>]) -> CommandResult {
        let connect = |this: &Self, anew| {
            let connected = this.ctx.engine.process.connect(&this.request.address, anew);
            // Redis notices this when it writes.
            connected
                .map_err(|error| if error.kind() == io::ErrorKind::ConnectionRefused { WRITING } else { CONNECTING })
        };
        let mut peer = connect(self, false)?;
        let mut result = self.send_all(&mut *peer, keys);
        // The other server may have closed the idle connection: then it has received nothing of this.
        if let Err(failure) = &result
            && peer.is_reused()
            && !failure.timed_out
            && self.answered == 0
        {
            peer = connect(self, true)?;
            result = self.send_all(&mut *peer, keys);
        }
        result.map_err(|failure| failure.error)?;
        // After an error it is unknown which database is selected there.
        peer.keep(self.refused.is_none().then_some(self.request.db));
        Ok(())
    }

    fn send_all(&mut self, peer: &mut dyn Peer, keys: &[Key<'c>]) -> Result<(), Failure> {
        if !self.introduce(peer)? {
            return Ok(());
        }
        let (mut commands, mut sent) = (Vec::new(), Vec::new());
        for (index, key) in keys.iter().enumerate() {
            if self.push_restore(key, &mut commands) {
                sent.push(*key);
            }
            if commands.len() >= BATCH_LEN || index + 1 == keys.len() {
                self.exchange(peer, &commands, &sent)?;
                commands.clear();
                sent.clear();
            }
        }
        Ok(())
    }

    /// Authenticates and selects the database, unless that is done; returns whether the other server accepted it. No
    /// key is sent before that: it would go into another database.
    fn introduce(&mut self, peer: &mut dyn Peer) -> Result<bool, Failure> {
        let request = self.request;
        let (mut commands, mut count) = (Vec::new(), 0);
        if !request.credentials.is_empty() {
            push_command(&mut commands, [&[&b"AUTH"[..]], &request.credentials[..]].concat().into_iter());
            count += 1;
        }
        if peer.selected_db() != Some(request.db) {
            push_command(
                &mut commands,
                [&b"SELECT"[..], itoa::Buffer::new().format(request.db).as_bytes()].into_iter(),
            );
            count += 1;
        }
        send(peer, &commands)?;
        for _ in 0..count {
            self.receive(peer)?;
        }
        Ok(self.refused.is_none())
    }

    /// Appends the command that makes a key on the other server; returns whether the key exists.
    fn push_restore(&mut self, key: &Key<'c>, commands: &mut Vec<u8>) -> bool {
        let engine = self.ctx.engine;
        let Some(entry) = self.ctx.commit.held_entry(key) else { return false };
        let ttl_ms = entry.expire_at().map(|at| at - engine.clock.unix_ms());
        if ttl_ms.is_some_and(|ttl_ms| ttl_ms <= 0) {
            return false;
        }
        let name = if engine.cluster.is_some() { &b"RESTORE-ASKING"[..] } else { b"RESTORE" };
        let args_len = if self.request.replaces { 5 } else { 4 };
        with_payload(entry, engine.settings.rdb_compression.load(Relaxed), |payload| {
            let mut ttl = itoa::Buffer::new();
            let args = [name, key.bytes, ttl.format(ttl_ms.unwrap_or(0)).as_bytes(), payload, b"REPLACE"];
            push_command(commands, args[..args_len].iter().copied());
        });
        true
    }

    /// Sends a batch and deletes the keys that have arrived.
    fn exchange(&mut self, peer: &mut dyn Peer, commands: &[u8], sent: &[Key<'c>]) -> Result<(), Failure> {
        send(peer, commands)?;
        for key in sent {
            let has_arrived = self.receive(peer)?;
            self.answered += 1;
            if has_arrived && !self.request.keeps && self.ctx.commit.delete(key) {
                self.ctx.changed(EventClass::Generic, "del", key.bytes);
                self.moved.push(key.bytes);
            }
        }
        Ok(())
    }

    /// Reads a reply; returns whether it reports success. Any other reply is an error of the other server.
    fn receive(&mut self, peer: &mut dyn Peer) -> Result<bool, Failure> {
        let line = peer.receive_line().map_err(|error| Failure::new(READING, &error))?;
        let is_success = line.first() == Some(&b'+');
        if !is_success {
            let text = line.strip_prefix(b"-").unwrap_or(&line);
            self.refused.get_or_insert_with(|| CommandError::bytes([OF_TARGET, text].concat()));
        }
        Ok(is_success)
    }
}

fn send(peer: &mut dyn Peer, commands: &[u8]) -> Result<(), Failure> {
    peer.send(commands).map_err(|error| Failure::new(WRITING, &error))
}
