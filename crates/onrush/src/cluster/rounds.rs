//! Commands that were refused where they went first, or have to wait: sent again in rounds until each has its reply.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::cluster::Inner;
use crate::cluster::command::{Aim, Command, keys_of, refusal, refusal_of_all};
use crate::cluster::lane::{Got, Lane};
use crate::cluster::node::Node;
use crate::cluster::place::Place;
use crate::cluster::routes::{Table, UnderWay, no_node};
use crate::cluster::topology::Refusal;
use crate::commands::script::Script;
use crate::connection::gate::Class;
use crate::error::{ErrorKind, Fate, RedisError, RedisResult};
use crate::values::value::Value;

/// After so many rounds, each waits before it begins: the nodes need time to agree.
const QUICK_ROUNDS: u32 = 2;

/// The longest wait between two rounds: others wait behind.
const REST_MAX: Duration = Duration::from_millis(100);
/// A longer limit of time is none: sums with the present must not overflow.
const PATIENCE_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

/// What all commands of a call have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Common<'a> {
    pub ticket: u64,
    pub class: Class,
    pub scripts: &'a [Script],
    /// If cut off before its end, a lane has no effect at all.
    pub whole: bool,
    /// Of a stream: whether all of its commands so far may be executed twice.
    pub repeats: Option<&'a AtomicBool>,
}

/// The commands of a call that are sent until each has its reply.
#[derive(Debug)]
pub(crate) struct Rounds<'a> {
    inner: &'a Inner,
    common: Common<'a>,
    /// In their order. Those of a slot of which any is open are all here.
    pub commands: Vec<Command<'a>>,
    /// The slots in which the call waits, or may.
    waits_in: BTreeSet<u16>,
    /// The slots of commands that are being passed on, and whether that is all of them.
    departing: Vec<(u16, bool)>,
    until: Option<Instant>,
    /// How many rounds in a row have brought no result.
    stuck: u32,
    pause: bool,
}

impl Drop for Rounds<'_> {
    fn drop(&mut self) {
        if !self.waits_in.is_empty() {
            let mut table = self.inner.routes.lock();
            self.waits_in.iter().for_each(|slot| table.give_up(*slot, self.common.ticket));
        }
    }
}

impl<'a> Rounds<'a> {
    pub(crate) fn new(inner: &'a Inner, common: Common<'a>, commands: Vec<Command<'a>>) -> Rounds<'a> {
        let until = inner.patience().and_then(|patience| Instant::now().checked_add(patience));
        Rounds {
            inner,
            common,
            commands,
            waits_in: BTreeSet::new(),
            departing: Vec::new(),
            until,
            stuck: 0,
            pause: false,
        }
    }

    /// Sends the commands until each has its result. O(commands) for each round.
    pub(crate) async fn run(mut self) -> Vec<Command<'a>> {
        while self.commands.iter().any(Command::is_open) {
            if !self.rest().await {
                self.end_all(timed_out);
                break;
            }
            let lanes = self.lanes().await;
            self.exchange(lanes).await;
        }
        std::mem::take(&mut self.commands)
    }

    /// The same; the results alone.
    pub(crate) async fn results(self) -> Vec<RedisResult<Value>> {
        let commands = self.run().await;
        commands.into_iter().map(|command| command.result.unwrap_or_else(|| Err(RedisError::closed()))).collect()
    }

    /// Takes what came of commands that were sent before, and keeps the order of those that are to be sent again.
    pub(crate) fn take(&mut self, got: impl IntoIterator<Item = (usize, Got)>, node: &Node) {
        got.into_iter().for_each(|(index, got)| self.take_one(index, got, node));
    }

    /// Holds the slots of commands that are sent again, as long as their replies still count as under way.
    pub(crate) fn hold(&mut self) {
        self.end_overtaken();
        let open: BTreeSet<u16> =
            self.commands.iter().filter(|one| one.is_open()).map(|one| one.place.slot()).collect();
        let mut table = self.inner.routes.lock();
        open.iter().for_each(|slot| table.hold(*slot, self.common.ticket));
        self.waits_in.extend(open);
    }

    /// Waits before the next round if that is due. `false`: the time is over.
    async fn rest(&mut self) -> bool {
        let pauses = std::mem::take(&mut self.pause);
        if pauses || self.stuck > QUICK_ROUNDS && !self.is_asked() {
            let wait = if pauses { self.inner.backoff().wait(self.stuck.max(1)) } else { redirect_wait(self.stuck) };
            let left = self.until.map_or(REST_MAX, |until| until.saturating_duration_since(Instant::now()));
            tokio::time::sleep(wait.min(REST_MAX).min(left)).await;
        }
        let is_over = self.stuck > 0 && self.until.is_some_and(|until| Instant::now() >= until);
        !is_over && !self.inner.is_closed()
    }

    /// Whether a command goes where ASK has told: that is soon out of date.
    fn is_asked(&self) -> bool {
        self.commands.iter().any(|one| one.is_open() && one.aim != Aim::Route)
    }

    fn end_all(&mut self, otherwise: fn() -> RedisError) {
        self.commands.iter_mut().filter(|one| one.is_open()).for_each(|one| one.give_up(otherwise));
    }

    /// The commands that may go now, by node; waits until there is any.
    async fn lanes(&mut self) -> Vec<Lane> {
        // Longer than any other call that still sends.
        let longest = 2 * self.inner.patience().unwrap_or(super::TURN_MAX);
        let inner = self.inner;
        self.forget_ended();
        let turn = std::future::poll_fn(|cx| self.poll_lanes(&mut inner.routes.lock(), Some(cx)));
        match tokio::time::timeout(longest, turn).await {
            Ok(lanes) => lanes,
            // Another call does not take its replies: its commands lose their place in the order.
            Err(_) => match self.poll_lanes(&mut inner.routes.lock(), None) {
                Poll::Ready(lanes) => lanes,
                Poll::Pending => Vec::new(),
            },
        }
    }

    /// Gives up the places in the order of slots of which no command is left.
    fn forget_ended(&mut self) {
        let open: HashSet<u16> = self.commands.iter().filter(|one| one.is_open()).map(|one| one.place.slot()).collect();
        let (kept, ended) = std::mem::take(&mut self.waits_in).into_iter().partition(|slot| open.contains(slot));
        self.waits_in = kept;
        let ended: BTreeSet<u16> = ended;
        if !ended.is_empty() {
            let mut table = self.inner.routes.lock();
            ended.iter().for_each(|slot| table.give_up(*slot, self.common.ticket));
        }
    }

    /// Without a context nothing is waited for.
    fn poll_lanes(&mut self, table: &mut Table, cx: Option<&mut Context<'_>>) -> Poll<Vec<Lane>> {
        let ticket = self.common.ticket;
        let mut turns: HashMap<u16, Turn> = HashMap::new();
        let mut lanes: Vec<Lane> = Vec::new();
        for (index, command) in self.commands.iter_mut().enumerate().filter(|(_, command)| command.is_open()) {
            let slot = command.place.slot();
            let turn = turns.entry(slot).or_insert_with(|| Turn::new(table.may_go(slot, ticket) || cx.is_none()));
            self.waits_in.insert(slot);
            if !turn.takes(command) {
                continue;
            }
            match node_for(table, command) {
                Some(node) => {
                    table.go(slot);
                    Lane::of(&mut lanes, node).add(index, command, command.aim != Aim::Route);
                }
                None => command.give_up(no_node),
            }
        }
        for (slot, turn) in &turns {
            match &cx {
                _ if turn.goes => self.departing.push((*slot, !turn.is_split && !turn.keeps)),
                Some(cx) => table.wake_later(*slot, ticket, cx.waker()),
                None => {}
            }
        }
        let is_ready = !lanes.is_empty() || !self.commands.iter().any(Command::is_open);
        if is_ready || cx.is_none() { Poll::Ready(lanes) } else { Poll::Pending }
    }

    /// Sends lanes and takes their replies.
    async fn exchange(&mut self, mut lanes: Vec<Lane>) {
        let sent: Vec<usize> = lanes.iter().flat_map(|lane| &lane.items).map(|item| item.index).collect();
        let places: Vec<Place> = sent.iter().map(|index| self.commands[*index].place).collect();
        let under_way = UnderWay { routes: &self.inner.routes, places };
        for lane in &mut lanes {
            lane.send(self.common).await;
        }
        self.depart();
        for lane in lanes {
            let node = lane.node.clone();
            let got = lane.receive(self.common).await;
            self.take(got, &node);
        }
        self.stuck = if sent.iter().all(|index| self.commands[*index].is_open()) { self.stuck + 1 } else { 0 };
        self.hold();
        drop(under_way);
    }

    /// Lets those behind go on.
    fn depart(&mut self) {
        let mut table = self.inner.routes.lock();
        for (slot, all) in self.departing.drain(..) {
            table.depart(slot, self.common.ticket, all);
            if all {
                self.waits_in.remove(&slot);
            }
        }
    }

    fn take_one(&mut self, index: usize, got: Got, node: &Node) {
        match got {
            Got::Reply(value) => {
                let is_whole = self.commands[index].replies > 1;
                let of = if is_whole { refusal_of_all } else { refusal };
                match of(&value, &node.addr) {
                    None => self.finish(index, value),
                    Some((refusal, error)) => self.refused(index, refusal, error, node),
                }
            }
            Got::Lost { error, may_retry } => self.lost(index, error, may_retry, node),
        }
    }

    fn finish(&mut self, index: usize, value: Value) {
        let command = &mut self.commands[index];
        command.executed = true;
        let result = value.into_result();
        command.end(result);
    }

    fn refused(&mut self, index: usize, refusal: Refusal, error: RedisError, node: &Node) {
        let slot = self.commands[index].place.slot();
        self.inner.ring();
        let is_redirect = refusal != Refusal::Later;
        self.pause |= !is_redirect;
        let aim = match refusal {
            Refusal::Ask { to } => Aim::Ask(to, Instant::now()),
            Refusal::Later => Aim::Route,
            Refusal::Moved { slot: moved, to } => {
                self.inner.routes.lock().moved(moved, node.number, &to);
                // The slot is all there: those before it need not ask on the way.
                let before = self.commands[..index].iter_mut().filter(|one| one.is_open() && one.place.slot() == slot);
                before.for_each(|one| one.aim = Aim::Route);
                Aim::Route
            }
        };
        let command = &mut self.commands[index];
        // Where it has to wait nobody sends it around. The time for that has a limit of its own.
        command.redirects = if is_redirect { command.redirects + 1 } else { 0 };
        command.aim = aim;
        command.why = Some(error);
        if command.redirects > self.inner.config.redirects_max {
            command.give_up(timed_out);
        }
    }

    fn lost(&mut self, index: usize, error: RedisError, may_retry: bool, node: &Node) {
        let may_repeat = self.common.repeats.is_none_or(|repeats| repeats.load(Ordering::Relaxed));
        let has_gone = error.kind() == ErrorKind::Closed && !self.inner.is_closed();
        let command = &mut self.commands[index];
        let error = error.after(command.fate);
        command.fate = error.fate();
        let repeats = command.fate == Fate::NotSent || command.idempotent && may_repeat;
        command.executed |= !repeats;
        // What was not sent to a node that has gone goes to the next; that is no attempt.
        let is_free = has_gone && command.fate == Fate::NotSent;
        let again = repeats && (is_free || may_retry || has_gone) && (is_free || command.retries_left > 0);
        if !again {
            return command.end(Err(error));
        }
        command.retries_left -= u32::from(!is_free);
        command.aim = Aim::Route;
        command.why = Some(error);
        self.pause |= node.is_broken();
        self.inner.ring();
        if let Some(connection) = node.opened() {
            connection.inner.shared.tally.retry(1);
        }
    }

    /// Gives up commands that would be executed behind later ones of the same key.
    fn end_overtaken(&mut self) {
        let mut later: HashSet<&[u8]> = HashSet::new();
        let reads_elsewhere = self.inner.config.read_from != super::ReadFrom::Primary;
        let has_executed = self.commands.iter().any(|one| one.executed);
        for command in self.commands.iter_mut().rev().filter(|_| has_executed) {
            if command.place.may_be_replica() && reads_elsewhere {
                continue;
            }
            let keys = keys_of(command.bytes);
            if command.executed {
                later.extend(keys);
            } else if command.is_open() && keys.iter().any(|key| later.contains(key)) {
                command.give_up(overtaken);
            }
        }
    }
}

/// The wait before another redirect is followed: 1 ms, doubling. The nodes need time to agree.
fn redirect_wait(stuck: u32) -> Duration {
    Duration::from_millis(1 << stuck.saturating_sub(QUICK_ROUNDS + 1).min(10))
}

/// Whether the commands of a slot go in this round.
struct Turn {
    goes: bool,
    /// Where the first of them goes.
    aim: Option<Aim>,
    /// Others go elsewhere, in a later round.
    is_split: bool,
    /// It keeps its place in the order in any case.
    keeps: bool,
}

impl Turn {
    fn new(goes: bool) -> Turn {
        Turn { goes, aim: None, is_split: false, keeps: false }
    }

    /// Whether the next command of the slot goes with those before it.
    fn takes(&mut self, command: &mut Command<'_>) -> bool {
        if !self.goes || self.is_split {
            return false;
        }
        // Nobody follows before it is known where to go, so that what is told is used at once.
        if command.aim.refresh() {
            self.keeps = true;
            command.redirects -= 1;
        }
        let aim = self.aim.get_or_insert_with(|| command.aim.clone());
        self.is_split = !aim.is_as(&command.aim);
        !self.is_split
    }
}

fn node_for(table: &mut Table, command: &Command<'_>) -> Option<Arc<Node>> {
    match &command.aim {
        Aim::Route => table.node_for(command.place),
        Aim::Ask(addr, _) => table.node_at(addr),
    }
}

/// Whether a reply is a refusal, without looking further.
#[inline]
pub(crate) fn may_be_refusal(value: &Value) -> bool {
    matches!(value, Value::ServerError(_))
}

fn timed_out() -> RedisError {
    RedisError::new(ErrorKind::Timeout, "the slot of the command's keys was not available in time")
}

fn overtaken() -> RedisError {
    RedisError::new(ErrorKind::Io, "later commands of the same key may have been executed already")
}

impl Inner {
    /// How long commands that are refused are sent again.
    pub(crate) fn patience(&self) -> Option<Duration> {
        self.config.connection.response_timeout.map(|timeout| timeout.min(PATIENCE_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::client::ClusterClient;
    use crate::cluster::place::Router;
    use crate::cluster::routes::Routes;
    use crate::cluster::topology::Addr;
    use crate::error::ServerError;
    use crate::values::encode::command;

    fn inner() -> Inner {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let _runtime = runtime.enter();
        let maker = Arc::new(ClusterClient::open("redis-cluster://h:1").unwrap().maker(&Default::default()));
        Inner::new(Routes::new(Table::new(maker.clone(), Default::default())), maker, Default::default(), Vec::new())
    }

    fn encoded(line: &str) -> Vec<u8> {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let mut bytes = Vec::new();
        command(&args, &mut bytes);
        bytes
    }

    /// What becomes of commands after these replies: whether each is sent again.
    fn after(commands: &[(&str, Got)]) -> Vec<bool> {
        let inner = inner();
        let node = inner.routes.lock().node_at(&Addr { host: "h".to_owned(), port: 1 }).unwrap();
        let lines: Vec<Vec<u8>> = commands.iter().map(|(line, _)| encoded(line)).collect();
        let all = lines.iter().map(|line| Command::new(line, Router::new(0).place(line), false, 3)).collect();
        let common = Common { ticket: 1, class: Class::PLAIN, scripts: &[], whole: false, repeats: None };
        let mut rounds = Rounds::new(&inner, common, all);
        let again = |(index, (_, got)): (usize, &(&str, Got))| match got {
            Got::Reply(value) => (index, Got::Reply(value.clone())),
            Got::Lost { error, may_retry } => (index, Got::Lost { error: error.clone(), may_retry: *may_retry }),
        };
        rounds.take(commands.iter().enumerate().map(again), &node);
        rounds.hold();
        rounds.commands.iter().map(Command::is_open).collect()
    }

    fn refused(line: &str) -> Got {
        Got::Reply(Value::ServerError(ServerError::new(line)))
    }

    fn lost(fate: Fate) -> Got {
        Got::Lost { error: RedisError::new(ErrorKind::Io, "lost").with_fate(fate), may_retry: true }
    }

    #[test]
    fn a_refused_command_is_not_sent_behind_later_ones_of_its_key() {
        let okay = || Got::Reply(Value::Okay);
        let ask = || refused("ASK 1 h:2");
        let again =
            after(&[("SET {a}1 x", ask()), ("SET {a}2 x", okay()), ("SET {a}1 y", okay()), ("GET {a}3", ask())]);
        assert_eq!(again, [false, false, false, true]);
        let again = after(&[("MGET {a}1 {a}2", refused("TRYAGAIN x")), ("SET {a}3 x", okay()), ("GET {a}1", ask())]);
        assert_eq!(again, [true, false, true]);
        let again = after(&[("SET a x", ask()), ("SET a y", lost(Fate::Unknown)), ("SET a z", lost(Fate::NotSent))]);
        assert_eq!(again, [false, false, true], "what may have been executed counts as executed");
        assert_eq!(after(&[("SET a x", okay()), ("SET a y", refused("MOVED 1 h:2"))]), [false, true]);
        assert_eq!(after(&[("SET a x", refused("ERR no"))]), [false]);
    }

    #[test]
    fn a_slot_that_moves_slowly_is_no_circle_of_redirects() {
        let inner = inner();
        let node = inner.routes.lock().node_at(&Addr { host: "h".to_owned(), port: 1 }).unwrap();
        let line = encoded("MGET {a}1 {a}2");
        let common = Common { ticket: 1, class: Class::PLAIN, scripts: &[], whole: false, repeats: None };
        let all = vec![Command::new(&line, Router::new(0).place(&line), false, 3)];
        let mut rounds = Rounds::new(&inner, common, all);
        let replies = |line: &'static str| [(0, refused(line))];
        for _ in 0..=inner.config.redirects_max {
            rounds.take(replies("ASK 1 h:2"), &node);
            assert!(rounds.is_asked());
            rounds.take(replies("TRYAGAIN x"), &node);
            assert!(!rounds.is_asked());
        }
        assert!(rounds.commands[0].is_open());
        for _ in 0..=inner.config.redirects_max {
            assert!(rounds.commands[0].is_open());
            rounds.take(replies("ASK 1 h:2"), &node);
        }
        assert!(!rounds.commands[0].is_open());
    }

    #[test]
    fn redirects_wait_longer_and_longer() {
        let waits: Vec<u128> = (3..14).map(|stuck| redirect_wait(stuck).as_millis()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]);
    }
}
