//! Running commands: sending, showing replies, and the state of the session.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use crate::args::{Mode, Options};
use crate::connection::{Connection, ReadError};
use crate::docs::Docs;
use crate::fail::Fail;
use crate::format::{self, Output};
use crate::reply::Reply;

/// How often one command follows MOVED and ASK. Nodes that send it to each other must not keep it for ever.
const REDIRECTS_MAX: usize = 16;

/// A connection to one server over time, and the state the prompt shows.
pub struct Session {
    /// Flags, which the interactive mode may change.
    pub options: Options,
    /// `None` before the first and after a lost connection.
    pub connection: Option<Connection>,
    /// The selected database.
    pub db: i64,
    /// A transaction is open.
    pub in_multi: bool,
    /// Channels are subscribed to.
    pub subscribed: bool,
    db_before_multi: i64,
    interactive: bool,
    cancel: Option<Arc<AtomicBool>>,
    /// Commands known, for help and hints.
    pub docs: Docs,
}

/// Why a command did not end normally.
pub enum Stop {
    /// The connection is gone; the reason has been shown.
    Disconnected,
    /// End the program with 1, as `-e` asks; the reason has been shown.
    Exit,
    /// The user cancelled.
    Cancelled,
}

impl Session {
    /// A session that is not connected yet.
    pub fn new(options: Options) -> Session {
        Session {
            options,
            connection: None,
            db: 0,
            in_multi: false,
            subscribed: false,
            db_before_multi: 0,
            interactive: false,
            cancel: None,
            docs: Docs::default(),
        }
    }

    /// Makes the session survive lost connections; `cancel` is raised by Ctrl-C.
    pub fn make_interactive(&mut self, cancel: Option<Arc<AtomicBool>>) {
        self.interactive = true;
        self.cancel = cancel;
    }

    /// Connects anew.
    ///
    /// # Errors
    /// When there is no connection; the session has none then.
    pub fn connect(&mut self) -> Result<(), Fail> {
        self.connection = None;
        self.in_multi = false;
        self.subscribed = false;
        self.db = 0;
        let open =
            if matches!(self.options.mode, Mode::Eval(_)) { Connection::open_logged_in } else { Connection::open };
        let mut connection = open(&self.options.target)?;
        self.db = connection.db;
        if let Some(flag) = &self.cancel {
            connection.cancel_on(flag.clone());
        }
        self.connection = Some(connection);
        Ok(())
    }

    /// Sends one command `repeat` times (for ever when negative) and shows the replies.
    ///
    /// # Errors
    /// See [`Stop`].
    pub fn run(&mut self, words: &[Vec<u8>], repeat: i64) -> Result<(), Stop> {
        let name = words[0].to_ascii_lowercase();
        if name == b"help" || name == b"?" {
            print(self.docs.help(&words[1..]));
            return Ok(());
        }
        self.reconnect_if_dead()?;
        let mut left = repeat;
        while left != 0 {
            left -= i64::from(left > 0);
            let started = Instant::now();
            self.run_once(&name, words)?;
            if self.options.target.verbose {
                let name = String::from_utf8_lossy(&words[0]).to_uppercase();
                complain!("{name} took {:.3} ms.", started.elapsed().as_secs_f64() * 1e3);
            }
            if !self.options.interval.is_zero() {
                std::thread::sleep(self.options.interval);
            }
        }
        Ok(())
    }

    /// An idle connection that the server closed is replaced before anything is sent, so nothing is sent twice.
    pub fn reconnect_if_dead(&mut self) -> Result<(), Stop> {
        if self.connection.as_mut().is_some_and(|connection| !connection.is_dead()) {
            return Ok(());
        }
        self.connect().map_err(|error| {
            error.tell();
            Stop::Disconnected
        })
    }

    /// Does something with the connection, which is given up if that fails.
    fn connected<T>(&mut self, work: impl FnOnce(&mut Connection) -> Result<T, ReadError>) -> Result<T, Stop> {
        let Some(connection) = &mut self.connection else { return Err(Stop::Disconnected) };
        work(connection).map_err(|error| self.lost(error))
    }

    fn run_once(&mut self, name: &[u8], words: &[Vec<u8>]) -> Result<(), Stop> {
        self.connected(|connection| connection.send(words))?;
        match name {
            b"monitor" => loop {
                if self.show_next(words)?.error().is_some() {
                    return Ok(());
                }
            },
            b"subscribe" | b"psubscribe" | b"ssubscribe" => self.subscribe(words),
            b"unsubscribe" | b"punsubscribe" | b"sunsubscribe" => self.unsubscribe(words),
            b"sync" | b"psync" => self.follow_replication(),
            b"shutdown" => self.shut_down(words),
            _ => {
                let reply = self.follow_redirects(words, false)?;
                self.show(words, &reply)?;
                self.remember(name, words, &reply);
                Ok(())
            }
        }
    }

    /// Waits for the next reply or push and shows it.
    fn show_next(&mut self, words: &[Vec<u8>]) -> Result<Reply, Stop> {
        let reply = self.next_reply(true)?;
        self.show(words, &reply)?;
        Ok(reply)
    }

    /// Reads up to the next reply; pushes before it are shown when asked for. With `any`, a push counts as a reply.
    fn next_reply(&mut self, any: bool) -> Result<Reply, Stop> {
        loop {
            let reply = self.connected(Connection::read)?;
            let unasked = matches!(reply, Reply::Push(_)) || self.subscribed && is_message(&reply);
            if any || !unasked {
                return Ok(reply);
            }
            if self.options.show_pushes {
                print(format::push(&reply, &self.options));
            }
        }
    }

    fn show(&self, words: &[Vec<u8>], reply: &Reply) -> Result<(), Stop> {
        if let (true, false, Some(error)) = (self.options.error_exit, self.interactive, reply.error()) {
            complain!("{error}");
            return Err(Stop::Exit);
        }
        print(format::reply(reply, &self.options, reads_as_it_is(words)));
        Ok(())
    }

    /// The reply to the command just sent. With `-c`, goes to the node that a MOVED or ASK error names and sends the
    /// command there. With `any`, a push counts as a reply.
    fn follow_redirects(&mut self, words: &[Vec<u8>], any: bool) -> Result<Reply, Stop> {
        let mut left = if self.options.cluster_mode { REDIRECTS_MAX } else { 0 };
        loop {
            let reply = self.next_reply(any)?;
            let redirect = reply.error().filter(|_| left > 0).and_then(|error| Redirect::parse(&error));
            let Some(redirect) = redirect else { return Ok(reply) };
            left -= 1;
            if !redirect.host.is_empty() {
                self.options.target.host = redirect.host;
            }
            self.options.target.port = redirect.port;
            let (place, slot) = (&self.options.target, redirect.slot);
            if self.interactive {
                print(format!("-> Redirected to slot [{slot}] located at {place}\n"));
            } else if self.options.target.verbose {
                complain!("Redirected to slot [{slot}] located at {place}.");
            }
            self.connection = None;
            self.reconnect_if_dead()?;
            if redirect.asking {
                self.connected(|connection| connection.call(&["ASKING"]))?;
            }
            self.connected(|connection| connection.send(words))?;
        }
    }

    fn subscribe(&mut self, words: &[Vec<u8>]) -> Result<(), Stop> {
        let stays = !self.interactive || self.cancel.is_none();
        if stays && self.options.output != Output::Raw {
            print(b"Reading messages... (press Ctrl-C to quit)\n");
        }
        let mut reply = self.follow_redirects(words, true)?;
        self.show(words, &reply)?;
        let mut left = words.len().max(2) - 1;
        while (stays || left > 0) && reply.error().is_none() {
            if !stays {
                left -= usize::from(!is_message(&reply));
                self.subscribed = true;
            }
            if stays || left > 0 {
                reply = self.show_next(words)?;
            }
        }
        Ok(())
    }

    fn unsubscribe(&mut self, words: &[Vec<u8>]) -> Result<(), Stop> {
        let mut missing = words.len().max(2) - 1;
        while missing > 0 {
            let reply = self.show_next(words)?;
            if is_message(&reply) {
                continue;
            }
            missing -= 1;
            self.subscribed &= has_channels_left(&reply);
        }
        Ok(())
    }

    /// Shows one message of a subscription that has arrived, or is about to.
    ///
    /// # Errors
    /// See [`Stop`].
    pub fn show_message(&mut self) -> Result<(), Stop> {
        let reply = self.show_next(&[])?;
        let kind = reply.items().and_then(|items| items.first()).and_then(Reply::bytes);
        if kind.is_some_and(|kind| kind.ends_with(b"unsubscribe")) {
            self.subscribed = has_channels_left(&reply);
        }
        Ok(())
    }

    fn follow_replication(&mut self) -> Result<(), Stop> {
        print(b"Entering replica output mode...  (press Ctrl-C to quit)\n");
        let Some(connection) = self.connection.take() else { return Err(Stop::Disconnected) };
        if let Err(error) = crate::replica::follow(connection) {
            complain!("{error}");
        }
        Err(Stop::Disconnected)
    }

    /// A server that shuts down closes the connection instead of replying.
    fn shut_down(&mut self, words: &[Vec<u8>]) -> Result<(), Stop> {
        let Some(connection) = &mut self.connection else { return Err(Stop::Disconnected) };
        match connection.read_reply() {
            Ok(reply) => {
                print(format::reply(&reply, &self.options, reads_as_it_is(words)));
                if let (true, false, Some(_)) = (self.options.error_exit, self.interactive, reply.error()) {
                    return Err(Stop::Exit);
                }
            }
            Err(ReadError::Closed(_)) => self.connection = None,
            Err(error) => return Err(self.lost(error)),
        }
        Ok(())
    }

    /// Keeps track of database, transaction and login; `name` is the command in lower case.
    pub fn remember(&mut self, name: &[u8], words: &[Vec<u8>], reply: &Reply) {
        let refused = reply.error().is_some();
        match (name, words.len()) {
            (b"select", 2) if !refused => {
                self.db = crate::args::leading_number(&words[1]);
                self.options.target.db = self.db;
            }
            (b"auth", 2 | 3) if !refused => {
                let user = (words.len() == 3).then(|| words[1].clone());
                (self.options.target.user, self.options.target.password) = (user, words.last().cloned());
                self.select_again();
            }
            (b"hello", 2..) if !refused => self.options.target.resp3 = words[1] == b"3",
            (b"multi", 1) if !refused => {
                self.in_multi = true;
                self.db_before_multi = self.db;
            }
            (b"exec", 1) if self.in_multi => {
                self.in_multi = false;
                if refused || *reply == Reply::Nil {
                    self.db = self.db_before_multi;
                    self.options.target.db = self.db;
                }
            }
            (b"discard", 1) if !refused => {
                self.in_multi = false;
                self.db = self.db_before_multi;
                self.options.target.db = self.db;
            }
            (b"reset", 1) if !refused => {
                (self.in_multi, self.subscribed, self.db) = (false, false, 0);
                self.options.target.db = 0;
                self.options.target.resp3 = false;
                (self.options.target.user, self.options.target.password) = (None, None);
            }
            _ => {}
        }
    }

    /// Selects the database from the command line, once logging in has succeeded.
    fn select_again(&mut self) {
        let wanted = self.options.target.db;
        if wanted == self.db {
            return;
        }
        let Some(connection) = &mut self.connection else { return };
        match connection.call(&["SELECT", &wanted.to_string()]) {
            Ok(reply) if reply.error().is_none() => self.db = wanted,
            Ok(reply) => complain!("SELECT {wanted} failed: {}", reply.error().unwrap_or_default()),
            Err(_) => self.connection = None,
        }
    }

    /// Gives the connection up and shows why.
    pub fn lost(&mut self, error: ReadError) -> Stop {
        self.connection = None;
        (self.in_multi, self.subscribed) = (false, false);
        if matches!(error, ReadError::Cancelled) {
            return Stop::Cancelled;
        }
        complain!("Error: {}", error.message());
        Stop::Disconnected
    }
}

/// Where a cluster's node sends us: `MOVED 3999 127.0.0.1:6381`.
#[derive(Debug, PartialEq)]
struct Redirect {
    slot: u16,
    host: String,
    port: u16,
    asking: bool,
}

impl Redirect {
    fn parse(error: &str) -> Option<Redirect> {
        let mut words = error.split(' ');
        let asking = match words.next()? {
            "MOVED" => false,
            "ASK" => true,
            _ => return None,
        };
        let slot = words.next()?.parse().ok()?;
        let (host, port) = words.next()?.rsplit_once(':')?;
        Some(Redirect { slot, host: host.to_owned(), port: port.parse().ok()?, asking })
    }
}

/// Writes to standard output at once. Ends the program if the reader of the output is gone.
pub fn print(text: impl AsRef<[u8]>) {
    let mut out = io::stdout().lock();
    if out.write_all(text.as_ref()).and_then(|()| out.flush()).is_err() {
        std::process::exit(1);
    }
}

/// Whether it is a published message, which in RESP2 looks like any other list.
fn is_message(reply: &Reply) -> bool {
    let parts = reply.items().unwrap_or_default();
    match parts.first().and_then(Reply::bytes) {
        Some(b"message" | b"smessage") => parts.len() == 3,
        Some(b"pmessage") => parts.len() == 4,
        _ => false,
    }
}

/// Whether a reply to unsubscribing tells of channels that are still subscribed to.
fn has_channels_left(reply: &Reply) -> bool {
    reply.items().and_then(|items| items.last()).and_then(Reply::integer).is_some_and(|left| left > 0)
}

/// Whether the reply of a command is a text laid out to be read, such as INFO's.
fn reads_as_it_is(words: &[Vec<u8>]) -> bool {
    let lower: Vec<Vec<u8>> = words.iter().take(2).map(|word| word.to_ascii_lowercase()).collect();
    let sub = lower.get(1).map_or(&b""[..], Vec::as_slice);
    matches!(
        (lower.first().map_or(&b""[..], Vec::as_slice), sub, words.len()),
        (b"info" | b"lolwut", _, _)
            | (b"debug", b"htstats" | b"htstats-key", _)
            | (b"memory", b"malloc-stats" | b"doctor", _)
            | (b"cluster", b"nodes" | b"info", 2)
            | (b"client", b"list" | b"info", _)
            | (b"latency", b"graph", 3)
            | (b"latency", b"doctor", 2)
            | (b"proxy", b"info", _)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_name_slot_and_node() {
        let moved = Redirect { slot: 3999, host: "::1".to_owned(), port: 6381, asking: false };
        assert_eq!(Redirect::parse("MOVED 3999 ::1:6381"), Some(moved));
        assert_eq!(Redirect::parse("ASK 1 :7000").map(|to| (to.host, to.asking)), Some((String::new(), true)));
        for error in ["ERR no", "MOVED", "MOVED 1 h", "MOVED x h:1", "MOVED 1 h:x"] {
            assert_eq!(Redirect::parse(error), None);
        }
    }

    #[test]
    fn texts_laid_out_to_be_read_are_known() {
        let reads = |line: &str| reads_as_it_is(&onrush_resp::split_words(line.as_bytes()).unwrap());
        assert!(reads("INFO") && reads("client LIST") && reads("latency graph x") && reads("cluster nodes"));
        assert!(!reads("GET info") && !reads("client id") && !reads("latency history x") && !reads("cluster slots"));
    }
}
