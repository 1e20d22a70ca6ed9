//! A connection of the load: what it sends, what it waits for, and how it reconnects.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::SocketAddr;

use mio::{Registry, Token};

use crate::error::Error;
use crate::load::checker::{Checked, Checker};
use crate::load::random::Random;
use crate::load::request::Commands;
use crate::load::scanner::Scanner;
use crate::net::Socket;

/// Most bytes of one read.
const READ_LEN: usize = 64 << 10;

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It is being made, and this many replies to its greeting must still come. None of this counts as load.
    Opening {
        greeting: u64,
    },
    Ready,
    /// It is broken; it will be made again at this time.
    Broken {
        retry_at_ns: u64,
    },
}

/// What may be left after a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Perhaps more bytes.
    Some,
    /// Nothing for now, but perhaps the end.
    End,
    Nothing,
}

/// Commands in flight: one batch, or a part of it that is of one kind.
#[derive(Clone, Copy, Debug)]
struct Sent {
    /// When they were sent, or due.
    at_ns: u64,
    count: u32,
    kind: u32,
}

/// A connection.
pub struct Conn {
    pub stage: Stage,
    /// In a cluster: the last reply that sends elsewhere, until it is taken; and how many there were.
    pub redirect: Option<String>,
    pub redirects: u64,
    /// Since when the cluster is down that it talks to.
    pub down_since_ns: Option<u64>,
    /// When it first failed since it was last ready, and how often.
    pub failed_at_ns: Option<u64>,
    pub failures: u32,
    pub socket: Socket,
    /// Where it goes once it is made again, unless to a Unix socket.
    pub address: Option<SocketAddr>,
    /// Commands that wait for their replies.
    pub pending: u64,
    out: Vec<u8>,
    out_at: usize,
    input: Vec<u8>,
    scanner: Scanner,
    /// With `--data-verify`.
    checker: Option<Checker>,
    inflight: VecDeque<Sent>,
}

impl Conn {
    /// One that is ready.
    ///
    /// # Errors
    /// The poll's.
    pub fn new(mut socket: Socket, registry: &Registry, token: Token, checker: Option<Checker>) -> io::Result<Conn> {
        socket.register(registry, token)?;
        Ok(Conn {
            stage: Stage::Ready,
            redirect: None,
            redirects: 0,
            down_since_ns: None,
            failed_at_ns: None,
            failures: 0,
            address: socket.peer(),
            socket,
            out: Vec::new(),
            out_at: 0,
            input: vec![0; READ_LEN],
            scanner: Scanner::default(),
            checker,
            inflight: VecDeque::new(),
            pending: 0,
        })
    }

    /// Goes on with a socket that begins to connect, and its greeting. Commands in flight are forgotten.
    pub fn reopen(&mut self, socket: Socket, greeting: (Vec<u8>, u64)) {
        self.socket = socket;
        (self.out, self.stage) = (greeting.0, Stage::Opening { greeting: greeting.1 });
        self.out_at = 0;
        self.scanner = Scanner::default();
        self.forget();
    }

    /// Forgets the commands in flight: they get no replies any more.
    pub fn forget(&mut self) {
        self.inflight.clear();
        self.pending = 0;
        if let Some(checker) = &mut self.checker {
            checker.forget();
        }
    }

    /// What was compared, if anything was to be.
    pub fn checked(&self) -> Option<&Checked> {
        self.checker.as_ref().map(|checker| &checker.checked)
    }

    /// Whether it has become ready just now.
    ///
    /// # Errors
    /// Why it will not become ready.
    pub fn opens(&mut self) -> Result<bool, Error> {
        let is_open = self.stage == Stage::Opening { greeting: 0 } && self.socket.is_open()?;
        if is_open {
            (self.stage, self.failed_at_ns, self.failures) = (Stage::Ready, None, 0);
        }
        Ok(is_open)
    }

    /// Pending commands that count: those sent at `since_ns` or later.
    pub fn pending_since(&self, since_ns: u64) -> u64 {
        self.inflight.iter().filter(|sent| sent.at_ns >= since_ns).map(|sent| u64::from(sent.count)).sum()
    }

    /// Bytes that the socket has not taken yet.
    pub fn unsent_len(&self) -> usize {
        self.out.len() - self.out_at
    }

    /// Takes `count` commands, sent or due at `at_ns`.
    #[inline]
    pub fn push(&mut self, commands: &Commands, count: u64, at_ns: u64, random: &mut Random) {
        let inflight = &mut self.inflight;
        let mut note = |kind: usize, count: usize| match inflight.back_mut() {
            Some(last) if last.at_ns == at_ns && last.kind == kind as u32 => last.count += count as u32,
            _ => inflight.push_back(Sent { at_ns, count: count as u32, kind: kind as u32 }),
        };
        match &mut self.checker {
            None => commands.append(count as usize, random, &mut self.out, note),
            Some(checker) => {
                for _ in 0..count {
                    let (kind, item) = commands.append_one(random, &mut self.out);
                    checker.expect(item);
                    note(kind, 1);
                }
            }
        }
        self.pending += count;
    }

    /// Writes what the socket takes.
    ///
    /// # Errors
    /// The socket's.
    pub fn flush(&mut self) -> io::Result<()> {
        while self.out_at < self.out.len() {
            match self.socket.write(&self.out[self.out_at..]) {
                Ok(len) => self.out_at += len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.out.clear();
        self.out_at = 0;
        match self.socket.flush() {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(()),
        }
    }

    /// Whether a flush has something to do.
    pub fn holds_output(&self) -> bool {
        !self.out.is_empty() || self.socket.holds_output()
    }

    /// Reads once; says how many commands are answered, and what is left.
    ///
    /// # Errors
    /// The socket's, and an error reply.
    pub fn read(&mut self) -> Result<(u64, Left), Error> {
        let len = match self.socket.read(&mut self.input) {
            Ok(0) => return Err(Error::Closed),
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok((0, Left::Nothing)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok((0, Left::Some)),
            Err(error) => return Err(error.into()),
        };
        let left = if len < self.input.len() && self.socket.reads_all() { Left::End } else { Left::Some };
        let scanned = match &mut self.checker {
            Some(checker) if self.stage == Stage::Ready => self.scanner.check(&self.input[..len], checker)?,
            _ => self.scanner.scan(&self.input[..len])?,
        };
        self.redirects += scanned.redirects;
        self.redirect = scanned.redirect.or_else(|| self.redirect.take());
        if let Some(text) = scanned.error {
            return Err(match self.stage {
                Stage::Ready => Error::Reply { at: String::new(), text },
                _ => Error::Refused(text),
            });
        }
        match &mut self.stage {
            Stage::Opening { greeting } => {
                *greeting = greeting.checked_sub(scanned.replies).ok_or(Error::TooManyReplies)?;
                Ok((0, left))
            }
            _ => Ok((scanned.replies, left)),
        }
    }

    /// Notes that `replies` commands are answered; calls `tell` with the time they were sent, their number and their
    /// kind.
    ///
    /// # Errors
    /// [`Error::TooManyReplies`]
    #[inline]
    pub fn settle(&mut self, mut replies: u64, mut tell: impl FnMut(u64, u64, usize)) -> Result<(), Error> {
        self.pending = self.pending.checked_sub(replies).ok_or(Error::TooManyReplies)?;
        while replies > 0 {
            let Some(sent) = self.inflight.front_mut() else { break };
            let some = replies.min(u64::from(sent.count));
            tell(sent.at_ns, some, sent.kind as usize);
            replies -= some;
            sent.count -= some as u32;
            if sent.count == 0 {
                self.inflight.pop_front();
            }
        }
        Ok(())
    }
}
