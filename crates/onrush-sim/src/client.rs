//! A client of the simulation, as the worker that has its connection sees it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Wake, Waker};

use onrush_engine::batch::runner::Runner;
use onrush_engine::clients::local::{LocalClient, State};
use onrush_engine::settings::Pause;

use crate::command::Command;
use crate::history::{Call, Fate, Lsns};
use crate::reply::Reply;
use crate::workload::Workload;
use crate::world::{Standing, World};

/// Whether somebody has woken a client.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Relaxed);
    }
}

/// Stands for a reply that belongs to no call: MULTI's, or that of a queued command.
const NO_CALL: usize = usize::MAX;

/// See the module's text.
pub struct Client {
    world: Arc<World>,
    /// Its number. It stays the same when it connects anew.
    number: usize,
    workload: Workload,
    pipelines_left: usize,
    /// The number of its connection in the history.
    lane: usize,
    local: LocalClient,
    state: State,
    /// Calls without a reply so far.
    pending: VecDeque<usize>,
    db: usize,
    woken: Arc<Woken>,
    /// The time of the last look at it.
    looked_ms: i64,
    /// Whether it is woken when a long command is done.
    is_aside: bool,
}

impl Client {
    /// Connects a client that will send so many pipelines.
    pub fn new(world: &Arc<World>, number: usize, workload: Workload, pipelines: usize) -> Self {
        let local = LocalClient::new(world.engine);
        let woken = Arc::default();
        let lane = world.connect(number, local.handle());
        local.handle().set_waker(&Waker::from(Arc::clone(&woken)));
        Self {
            world: Arc::clone(world),
            number,
            workload,
            pipelines_left: pipelines,
            lane,
            local,
            state: State::Idle,
            pending: VecDeque::new(),
            db: 0,
            woken,
            looked_ms: -1,
            is_aside: false,
        }
    }

    /// Connects anew.
    fn reconnect(&mut self) {
        self.local = LocalClient::new(self.world.engine);
        self.lane = self.world.connect(self.number, self.local.handle());
        (self.state, self.db, self.woken, self.is_aside) = (State::Idle, 0, Arc::default(), false);
        self.pending.clear();
        self.local.handle().set_waker(&Waker::from(Arc::clone(&self.woken)));
    }

    /// Does what the client has to do; returns whether there was anything.
    pub fn turn(&mut self, runner: &mut Runner) -> bool {
        let acts = match self.state {
            State::Idle => self.pipelines_left > 0,
            State::Runs | State::IsClosed => true,
            State::Waits => self.woken.0.swap(false, Relaxed) || self.may_be_over(),
            State::IsHeldBack => self.woken.0.swap(false, Relaxed) || self.may_be_let_on(),
        };
        if acts {
            self.looked_ms = self.world.now_ms();
            self.state = if self.state == State::Idle { self.send(runner) } else { self.local.go_on(runner) };
            self.collect();
            self.settle();
        }
        self.world.set_standing(self.number, self.standing());
        acts
    }

    fn settle(&mut self) {
        match self.state {
            State::IsHeldBack => self.is_aside = self.world.engine.offload.set_aside(self.local.handle()),
            State::IsClosed if !self.world.was_killed(self.lane) => {
                self.world
                    .fail(&format!("The connection of client {} ended by itself: did a command panic?", self.lane));
            }
            State::IsClosed => self.reconnect(),
            State::Idle if !self.pending.is_empty() => {
                self.world.fail(&format!("Client {} lacks replies", self.lane));
            }
            _ => {}
        }
    }

    fn send(&mut self, runner: &mut Runner) -> State {
        self.pipelines_left -= 1;
        let sent_ms = self.world.now_ms();
        let lsns = Lsns { sent: self.world.engine.log.last_lsn(), ended: u64::MAX };
        let commands = self.workload.pipeline(sent_ms);
        let bytes: Vec<u8> = commands.iter().flat_map(Command::encode).collect();
        let mut history = self.world.history.lock();
        let sent = history.tick();
        for command in commands {
            if let Command::Select(db) = command {
                self.db = db;
            }
            let calls = &mut history.lanes[self.lane];
            self.pending.extend(std::iter::repeat_n(NO_CALL, command.replies_before()));
            self.pending.push_back(calls.len());
            let (db, ended, ended_ms, fate) = (self.db, u64::MAX, i64::MAX, Fate::Lost);
            calls.push(Call { command, db, sent, ended, sent_ms, ended_ms, fate, lsns });
        }
        drop(history);
        self.local.send(runner, &bytes)
    }

    /// Notes the replies that have come.
    fn collect(&mut self) {
        let bytes = self.local.take_replies();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let Some((reply, call)) = Reply::take(&mut rest).zip(self.pending.pop_front()) else {
                let text = String::from_utf8_lossy(&bytes);
                self.world.fail(&format!("Client {} got what it did not ask for: {text:?}", self.lane));
            };
            match (call, &reply) {
                (NO_CALL, Reply::Status(_)) => {}
                (NO_CALL, other) => {
                    self.world.fail(&format!("Client {} got {other} where a command is queued", self.lane));
                }
                _ => self.world.note_reply(self.lane, call, reply),
            }
        }
    }

    /// The first call without a reply.
    fn with_first<R>(&self, look: impl FnOnce(&mut Call) -> R) -> Option<R> {
        let call = *self.pending.iter().find(|call| **call != NO_CALL)?;
        Some(look(&mut self.world.history.lock().lanes[self.lane][call]))
    }

    /// Whether the time for which it waits may be over.
    fn may_be_over(&self) -> bool {
        let now_ms = self.world.now_ms();
        let is_over =
            |call: &mut Call| call.command.timeout_ms().is_some_and(|ms| ms > 0 && call.sent_ms + ms <= now_ms);
        now_ms != self.looked_ms && self.with_first(is_over).unwrap_or(false)
    }

    fn may_be_let_on(&self) -> bool {
        let now_ms = self.world.now_ms();
        let is_paused = self.world.engine.pause(now_ms) != Pause::None;
        !self.is_aside && (!is_paused || now_ms != self.looked_ms)
    }

    fn standing(&self) -> Standing {
        let is_endless = |call: &mut Call| call.command.timeout_ms() == Some(0);
        match self.state {
            State::Idle if self.pipelines_left == 0 => Standing::Finished,
            State::Waits if self.with_first(is_endless).unwrap_or(false) => Standing::Waits,
            _ => Standing::Busy,
        }
    }

    /// Ends the client once nothing of it is under way.
    pub fn finish(mut self, runner: &mut Runner) {
        if self.state != State::Waits {
            return;
        }
        let before = self.pending.len();
        self.local.go_on(runner);
        self.collect();
        if self.pending.len() < before {
            self.world.fail(&format!("Client {} has got a reply, and was not woken", self.lane));
        }
        let mut history = self.world.history.lock();
        if let Some(first) = self.pending.iter().find(|call| **call != NO_CALL) {
            let calls = &mut history.lanes[self.lane];
            // Commands that were sent after it were not executed.
            calls.truncate(first + 1);
            calls[*first].fate = Fate::Waits;
        }
    }
}
