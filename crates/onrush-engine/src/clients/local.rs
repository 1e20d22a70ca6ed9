//! A client in the same program: no socket, the bytes of its commands in and those of its replies out.

use std::sync::Arc;
use std::time::Duration;

use onrush_resp::{Decoder, Reply};

use crate::batch::part::Lane;
use crate::batch::runner::{Input, Lanes, Runner};
use crate::batch::slice::{SliceEnd, SliceResult};
use crate::blocking::waiter::Outcome;
use crate::clients::client::ClientHandle;
use crate::clients::session::Session;
use crate::ctx::Engine;
use crate::users::user::User;

/// Most memory that the input keeps while it is empty.
const INPUT_KEPT_BYTES_MAX: usize = 1 << 20;

/// How often a replay that is held back looks whether it may go on.
pub const HELD_LOOK_PERIOD: Duration = Duration::from_millis(2);

/// The state of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// All complete commands that it has sent are executed.
    Idle,
    /// There is more to execute: [`LocalClient::go_on`].
    Runs,
    /// A command waits for keys, or is executed by the thread for long commands.
    Waits,
    /// CLIENT PAUSE, a long command that holds its keys, or a script that takes too long keeps it waiting for now.
    IsHeldBack,
    /// Its connection has ended.
    IsClosed,
}

/// A large argument.
struct Big {
    /// What has come of it.
    bytes: Vec<u8>,
    /// Its length.
    len: usize,
    /// Where the rest of it comes in the input, behind the beginning of its command.
    at: usize,
}

/// A client in the same program.
pub struct LocalClient {
    engine: &'static Engine,
    decoder: Decoder,
    session: Session,
    reply: Reply,
    spilled: bool,
    input: Vec<u8>,
    /// A large argument that is read into a buffer of its own.
    big: Option<Big>,
    state: State,
}

impl LocalClient {
    /// A client of `engine`; it needs no password.
    pub fn new(engine: &'static Engine) -> Self {
        let id = engine.clients.next_id();
        let now_ms = engine.clock.unix_ms();
        let handle =
            Arc::new(ClientHandle::new(id, format!("local:{id}"), String::new(), -1, true, now_ms, User::server()));
        engine.clients.add(Arc::clone(&handle));
        Self {
            engine,
            decoder: Decoder::new(),
            session: Session::new(handle, true),
            reply: Reply::new(),
            spilled: false,
            input: Vec::new(),
            big: None,
            state: State::Idle,
        }
    }

    /// The part of it that other clients see.
    pub fn handle(&self) -> &Arc<ClientHandle> {
        &self.session.handle
    }

    /// The database that it has selected.
    pub fn db(&self) -> u32 {
        self.session.db
    }

    #[cfg(test)]
    pub(crate) fn log_out(&mut self) {
        self.session.states.insert(crate::clients::session::States::LOGGED_OUT);
    }

    /// Marks its commands as those of a log: nothing expires before them, they are executed while data is loaded, and no
    /// other client sees, pauses or kills it.
    pub fn replay(&mut self) {
        self.session.is_replay = true;
        self.engine.clients.remove(self.session.handle.id);
    }

    /// Sends bytes and executes the complete commands, for at most a slice of work. What is executed at once is not copied.
    pub fn send(&mut self, runner: &mut Runner, bytes: &[u8]) -> State {
        if self.state == State::Idle {
            self.state = State::Runs;
            if self.input.is_empty() && self.big.is_none() && !self.session.handle.is_killed() {
                let (consumed, end) = self.slice(runner, bytes);
                self.input.extend_from_slice(&bytes[consumed..]);
                self.note_end(&end);
                return self.state;
            }
        }
        self.input.extend_from_slice(bytes);
        self.go_on(runner)
    }

    /// Sends commands and executes them to the end; returns their replies. A replay waits while a script or a long command has
    /// the keyspace.
    ///
    /// # Panics
    /// If one of them is not complete, waits, or ends the connection.
    pub fn run(&mut self, runner: &mut Runner, commands: impl AsRef<[u8]>) -> Vec<u8> {
        let mut state = self.send(runner, commands.as_ref());
        loop {
            match state {
                State::Runs => {}
                State::IsHeldBack if self.session.is_replay => std::thread::sleep(HELD_LOOK_PERIOD),
                _ => break,
            }
            state = self.go_on(runner);
        }
        assert!(state == State::Idle && self.input.is_empty() && self.big.is_none(), "{state:?}");
        self.take_replies()
    }

    /// The replies since the last call, and the messages that have come.
    pub fn take_replies(&mut self) -> Vec<u8> {
        let mut bytes = self.reply.take_bytes();
        while self.session.handle.has_mail() && !self.session.holds_mail_back() {
            self.session.take_mail(&mut self.reply, 0);
            bytes.append(&mut self.reply.take_bytes());
        }
        bytes
    }

    /// Continues with the sent commands, for at most a slice of work.
    pub fn go_on(&mut self, runner: &mut Runner) -> State {
        if self.session.handle.is_killed() {
            self.state = State::IsClosed;
        }
        if self.state == State::Waits {
            self.look_for_outcome();
        }
        if matches!(self.state, State::Runs | State::IsHeldBack) {
            self.fill_big();
            if self.big.is_some() {
                self.state = State::Idle;
                return self.state;
            }
            let mut input = std::mem::take(&mut self.input);
            let (consumed, end) = self.slice(runner, &input);
            // Of a command that is not complete yet nothing is copied.
            input.drain(..consumed);
            if !self.input.is_empty() {
                self.input.append(&mut input);
            } else if !input.is_empty() || input.capacity() <= INPUT_KEPT_BYTES_MAX {
                self.input = input;
            }
            self.note_end(&end);
        }
        self.state
    }

    fn note_end(&mut self, end: &SliceEnd) {
        self.state = match *end {
            _ if self.session.handle.is_killed() => State::IsClosed,
            SliceEnd::InputUsedUp => State::Idle,
            SliceEnd::NeedBulk { at, len } => {
                self.big = Some(Big { bytes: self.input.split_off(at), len, at });
                State::Idle
            }
            SliceEnd::TimeUp | SliceEnd::ReplyLimit | SliceEnd::ChunkFull => State::Runs,
            SliceEnd::Paused | SliceEnd::HeldLong => State::IsHeldBack,
            SliceEnd::Blocked => State::Waits,
            SliceEnd::Close | SliceEnd::Malformed(_) => State::IsClosed,
        };
    }

    /// Executes a slice of some input, while there is no other. What has to be executed again is the input then, before the rest
    /// of this one. Returns how much of it was consumed, and how it ended.
    fn slice(&mut self, runner: &mut Runner, input: &[u8]) -> (usize, SliceEnd) {
        let mut alone = Alone { client: self, result: SliceResult::default() };
        runner.run(input, &mut [Input::new(0, input.len())], &mut alone);
        let SliceResult { consumed, requeue, end, .. } = alone.result;
        self.input = requeue.map(<[u8]>::into_vec).unwrap_or_default();
        (consumed, end)
    }

    /// Moves the received part of a large argument into its buffer.
    fn fill_big(&mut self) {
        const LINE_END_LEN: usize = 2;
        let Some(Big { mut bytes, len, at }) = self.big.take() else { return };
        // The value keeps this memory.
        bytes.reserve_exact(len + LINE_END_LEN - bytes.len());
        let missing = (len + LINE_END_LEN - bytes.len()).min(self.input.len() - at);
        bytes.extend(self.input.drain(at..at + missing));
        if bytes.len() < len + LINE_END_LEN {
            self.big = Some(Big { bytes, len, at });
            return;
        }
        bytes.truncate(len);
        self.decoder.supply_owned(bytes);
        self.spilled = true;
    }

    /// Handles the end of waiting, if it has ended.
    fn look_for_outcome(&mut self) {
        match self.session.take_outcome(&mut self.reply) {
            Some(Outcome::Reply(bytes)) => {
                if !std::mem::take(&mut self.session.waits_silently) {
                    self.reply.raw(&bytes);
                }
                self.state = State::Runs;
            }
            Some(Outcome::Waits(_)) => {}
            None => {
                let now_ms = self.engine.clock.unix_ms();
                let waiter = self.session.waiter.as_ref();
                if let Some(waiter) = waiter.filter(|waiter| waiter.deadline_ms().is_some_and(|at| at <= now_ms)) {
                    waiter.time_out(self.engine);
                }
            }
        }
    }
}

impl Drop for LocalClient {
    fn drop(&mut self) {
        self.session.end(self.engine);
        self.engine.clients.remove(self.session.handle.id);
    }
}

/// A client that is executed by itself.
struct Alone<'a> {
    client: &'a mut LocalClient,
    result: SliceResult,
}

impl Lanes for Alone<'_> {
    fn decoding(&mut self, _: usize) -> (&mut Decoder, &mut Session) {
        (&mut self.client.decoder, &mut self.client.session)
    }

    fn lane(&mut self, _: usize) -> Lane<'_> {
        let LocalClient { decoder, session, reply, spilled, .. } = &mut *self.client;
        Lane { decoder, session, reply, spilled }
    }

    fn settle(&mut self, _: usize, _: &Input, result: &mut SliceResult) {
        self.result = std::mem::take(result);
    }

    fn give_up(&mut self, _: usize) {}
}
