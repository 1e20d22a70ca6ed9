//! The state of a connection's client.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use onrush_cluster::slots::slot;
use onrush_resp::{Proto, Reply};

use crate::blocking::waiter::{Outcome, Waiter};
use crate::clients::client::ClientHandle;
use crate::clients::durability::Wish;
use crate::cluster::moves::import::Importing;
use crate::messages::kind::Kind;
use crate::messages::monitors::Monitor;
use crate::messages::subscriptions::Subscriptions;
use crate::replication::introduction::SyncRequest;
use crate::tracking::mode::Mode;
use crate::tracking::tracks::Tracks;
use crate::transactions::transaction::Transaction;
use crate::transactions::watched::{Watched, WatchedKey, Watching};
use crate::users::directory::Users;
use crate::users::held::Held;
use crate::users::rights::Rights;
use crate::users::user::User;

/// CLIENT REPLY.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ReplyMode {
    /// Replies are sent.
    #[default]
    On,
    /// No replies until ON.
    Off,
    /// The reply of the next command is left out.
    SkipNext,
    /// The reply of the present command is left out.
    Skip,
}

/// How many replicas replies wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WantedReplicas {
    /// As many at least.
    named: u32,
    /// As many as `durability-replicas` says, too.
    by_default: bool,
}

impl WantedReplicas {
    /// What CLIENT DURABILITY has named, or what holds without it.
    pub fn by(named: Option<u32>) -> Self {
        Self { named: named.unwrap_or(0), by_default: named.is_none() }
    }

    /// The number, if `durability-replicas` is this.
    pub fn number(self, default: u32) -> u32 {
        if self.by_default { self.named.max(default) } else { self.named }
    }

    fn add(&mut self, other: Self) {
        self.named = self.named.max(other.named);
        self.by_default |= other.by_default;
    }
}

impl Default for WantedReplicas {
    fn default() -> Self {
        Self::by(None)
    }
}

/// What replies may have to wait for. It belongs to the replies: it stays when the state of their connection is replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owed {
    /// The greatest wish of their commands.
    pub wish: Wish,
    /// The same for replicas.
    pub replicas: WantedReplicas,
    /// Whether they may report data.
    pub has_seen_data: bool,
    /// The LSN of the last change of the connection's commands.
    pub changed_lsn: u64,
}

impl Owed {
    /// Nothing yet, for commands with these wishes.
    pub fn by(wish: Wish, replicas: Option<u32>) -> Self {
        Self { wish, replicas: WantedReplicas::by(replicas), ..Self::default() }
    }

    /// Adds what other replies have to wait for.
    pub fn add(&mut self, other: Self) {
        self.wish = self.wish.max(other.wish);
        self.replicas.add(other.replicas);
        self.has_seen_data |= other.has_seen_data;
        self.changed_lsn = self.changed_lsn.max(other.changed_lsn);
    }
}

bitflags::bitflags! {
    /// States in which a connection's commands need checks. Without any, short commands need none.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct States: u8 {
        /// The client has to authenticate first.
        const LOGGED_OUT = 1 << 0;
        /// MULTI: commands are queued until EXEC.
        const QUEUES = 1 << 1;
        /// The client has subscribed in RESP2: only commands about subscriptions are executed.
        const SUBSCRIBED = 1 << 2;
        /// The connection closes once the replies so far are written.
        const CLOSES = 1 << 3;
        /// The client has subscriptions, monitors, or tracks keys: messages may come between its replies.
        const HEARS = 1 << 4;
        /// The client tracks keys: what it reads is noted.
        const TRACKS = 1 << 5;
        /// The user of the client may not do everything.
        const RESTRICTED = 1 << 6;
        /// ASKING: the next command may be about a slot that is under way to here.
        const ASKS = 1 << 7;
    }
}

/// State of one connection that commands read and change.
pub struct Session {
    /// The shared part.
    pub handle: Arc<ClientHandle>,
    /// Selected database.
    pub db: u32,
    /// Why its commands are not simply executed.
    pub states: States,
    /// What the client may do.
    rights: Held,
    /// CLIENT REPLY.
    pub(crate) reply_mode: ReplyMode,
    /// CLIENT NO-TOUCH.
    pub no_touch: bool,
    /// CLIENT DURABILITY.
    pub durability: Wish,
    /// Replicas that its replies wait for; `None`: as many as `durability-replicas` says.
    pub durability_replicas: Option<u32>,
    /// What the replies that the connection has not looked at yet may have to wait for.
    pub owed: Owed,
    /// Whether the commands are those of a log: nothing expires before them.
    pub is_replay: bool,
    /// What was queued since MULTI.
    pub transaction: Option<Box<Transaction>>,
    /// The keys that it watches.
    pub(crate) watching: Option<Box<Watching>>,
    /// What the client waits for.
    pub waiter: Option<Arc<Waiter>>,
    /// Whether the reply to the command that waits is to be left out.
    pub waits_silently: bool,
    /// Whether commands that would block reply at once instead.
    pub deny_blocking: bool,
    /// Whether clients that monitor have seen the present command, which runs a script and may begin anew.
    pub(crate) is_script_shown: bool,
    /// What it listens to; `None` if that is nothing.
    pub(crate) subscriptions: Option<Box<Subscriptions>>,
    /// MONITOR.
    pub(crate) monitor: Option<Box<Monitor>>,
    /// CLIENT TRACKING.
    pub(crate) tracks: Option<Box<Tracks>>,
    /// READONLY: a replica of a cluster executes what the client reads.
    pub(crate) is_readonly: bool,
    /// Slots of a cluster come over this connection.
    pub(crate) imports: Option<Box<Importing>>,
    /// Whether a command of the present transaction or script has changed the state of the cluster.
    pub(crate) changed_cluster: bool,
    /// PSYNC: once the replies so far are written, the connection is a replica's.
    pub sync_request: Option<Box<SyncRequest>>,
}

impl Session {
    /// The state of a connection just accepted, or of another thread that executes a client's command.
    pub fn new(handle: Arc<ClientHandle>, authenticated: bool) -> Self {
        let mut states = if authenticated { States::empty() } else { States::LOGGED_OUT };
        states.set(States::TRACKS, handle.tracking.mode().contains(Mode::ON));
        Self {
            handle,
            db: 0,
            states,
            rights: Held::default(),
            reply_mode: ReplyMode::On,
            no_touch: false,
            durability: Wish::Default,
            durability_replicas: None,
            owed: Owed::default(),
            is_replay: false,
            transaction: None,
            watching: None,
            waiter: None,
            waits_silently: false,
            deny_blocking: false,
            is_script_shown: false,
            subscriptions: None,
            monitor: None,
            tracks: None,
            is_readonly: false,
            imports: None,
            changed_cluster: false,
            sync_request: None,
        }
    }

    /// Whether its commands are executed here whoever has their slots: they come from a primary, or from the node that has had
    /// the slots so far.
    #[inline]
    pub(crate) fn is_of_its_own_slots(&self) -> bool {
        self.is_replay || self.is_importing()
    }

    /// Whether slots come from another node over this connection.
    pub(crate) fn is_importing(&self) -> bool {
        self.imports.as_ref().is_some_and(|imports| !imports.has_failed())
    }

    /// Watches nothing any more; returns what was watched.
    pub(crate) fn unwatch(&mut self, watched: &Watched) -> Vec<WatchedKey> {
        let Some(watching) = self.watching.take() else { return Vec::new() };
        *self.handle.watcher.lock() = None;
        self.handle.watched_len.store(0, Relaxed);
        watching.keys().iter().for_each(|key| self.handle.note_unwatched(&key.key));
        watching.end(watched)
    }

    /// Watches these keys, too, whose locks are held.
    pub(crate) fn watch(&mut self, watched: &Watched, keys: impl IntoIterator<Item = WatchedKey>) {
        let client = self.handle.id;
        let mut watching = self.watching.take().unwrap_or_else(|| Box::new(Watching::new(client)));
        let before = watching.len();
        keys.into_iter().for_each(|key| watching.add(watched, key));
        watching.keys()[before..].iter().for_each(|key| self.handle.note_watched(&key.key));
        *self.handle.watcher.lock() = Some(Arc::clone(watching.watcher()));
        self.handle.watched_len.store(watching.len() as u32, Relaxed);
        self.watching = Some(watching);
    }

    /// Ends queueing and returns the transaction; `None` without MULTI.
    pub(crate) fn end_transaction(&mut self) -> Option<Box<Transaction>> {
        let transaction = self.transaction.take()?;
        self.states.remove(States::QUEUES);
        self.handle.transaction_len.store(-1, Relaxed);
        self.handle.transaction_bytes.store(0, Relaxed);
        self.handle.transaction_args_bytes.store(0, Relaxed);
        Some(transaction)
    }

    /// Queues commands from now on, behind those of `transaction`.
    pub(crate) fn resume_transaction(&mut self, transaction: Box<Transaction>) {
        self.show_transaction(&transaction);
        self.transaction = Some(transaction);
        self.states.insert(States::QUEUES);
    }

    /// Hands the whole state over to the thread that executes a command of this client. What stays speaks for the
    /// connection meanwhile, and is replaced by what comes back ([`Session::take_outcome`]).
    pub(crate) fn lend(&mut self) -> Box<Self> {
        let stays = Self {
            db: self.db,
            states: self.states - States::QUEUES,
            reply_mode: self.reply_mode,
            durability: self.durability,
            durability_replicas: self.durability_replicas,
            // The replies so far are still with the connection.
            owed: std::mem::replace(&mut self.owed, Owed::by(self.durability, self.durability_replicas)),
            is_replay: self.is_replay,
            is_readonly: self.is_readonly,
            ..Self::new(Arc::clone(&self.handle), true)
        };
        Box::new(std::mem::replace(self, stays))
    }

    /// Replies so far wait for nothing more; what comes next is judged for itself.
    #[inline]
    pub fn owe_anew(&mut self) {
        let changed_lsn = self.owed.changed_lsn;
        self.owed = Owed { changed_lsn, ..Owed::by(self.durability, self.durability_replicas) };
    }

    /// Whether another thread executes a command of this client with its state.
    pub(crate) fn is_lent(&self) -> bool {
        self.waiter.as_ref().is_some_and(|waiter| waiter.is_offloaded())
    }

    /// What has come of the waiting, if it is over. The client may wait for something else then. `out` is for later
    /// replies: the command may have changed the protocol.
    pub fn take_outcome(&mut self, out: &mut Reply) -> Option<Outcome> {
        let waiter = Arc::clone(self.waiter.as_ref()?);
        let (outcome, lent) = waiter.take_outcome()?;
        if let Some(lent) = lent {
            let stayed = std::mem::replace(self, *lent);
            self.owed.add(stayed.owed);
            out.set_proto(if self.handle.is_resp3() { Proto::Resp3 } else { Proto::Resp2 });
        } else {
            self.owed.has_seen_data |= waiter.may_report_data();
        }
        self.waiter = match &outcome {
            Outcome::Reply(_) => None,
            Outcome::Waits(next) => Some(Arc::clone(next)),
        };
        Some(outcome)
    }

    /// CLIENT REPLY: whether the reply of the command that has just been executed is left out.
    pub(crate) fn leaves_out(&mut self) -> bool {
        if self.reply_mode == ReplyMode::On {
            return false;
        }
        self.waits_silently = self.waiter.is_some() && self.reply_mode != ReplyMode::SkipNext;
        self.reply_mode = match self.reply_mode {
            ReplyMode::On | ReplyMode::Skip => ReplyMode::On,
            ReplyMode::SkipNext => ReplyMode::Skip,
            ReplyMode::Off => ReplyMode::Off,
        };
        true
    }

    /// Publishes how much is queued.
    pub(crate) fn show_transaction(&self, transaction: &Transaction) {
        self.handle.transaction_len.store(transaction.len() as i64, Relaxed);
        self.handle.transaction_bytes.store(transaction.memory_bytes() as u64, Relaxed);
        self.handle.transaction_args_bytes.store(transaction.args_bytes() as u64, Relaxed);
    }

    /// Moves messages from the outbox into the replies: all of them if both together have at most `all_bytes_max` bytes,
    /// otherwise while the replies are short. Only between commands. If another thread executes the last command,
    /// messages that may belong after its reply stay.
    pub fn take_mail(&mut self, out: &mut Reply, all_bytes_max: usize) {
        match &self.waiter {
            Some(waiter) if self.may_hold_mail_back(waiter) => {
                waiter.while_waiting(|| self.handle.take_mail(out, all_bytes_max));
            }
            _ => self.handle.take_mail(out, all_bytes_max),
        }
        if self.subscriptions.is_some() && !self.is_lent() {
            self.leave_lost_slots(out);
        }
    }

    /// Ends subscriptions to channels whose slots have gone to other nodes, and says so.
    #[cold]
    fn leave_lost_slots(&mut self, out: &mut Reply) {
        let Some(routes) = self.handle.lost_slots.lock().take() else { return };
        let Some(subscriptions) = &mut self.subscriptions else { return };
        for channel in subscriptions.all(Kind::Shard) {
            if routes.owner(slot(&channel.name)) == routes.here {
                continue;
            }
            subscriptions.remove(Kind::Shard, &channel.name);
            out.push(3);
            out.bulk(Kind::Shard.unsubscribed().as_bytes());
            out.bulk(&channel.name);
            out.int(subscriptions.count(Kind::Shard) as i64);
        }
        self.note_subscriptions();
    }

    /// Whether messages stay in the outbox for now: a message that makes a reply outdated, or that a subscription of the
    /// command brings, must come after the reply, even if another thread executes the command.
    pub fn holds_mail_back(&self) -> bool {
        let mut is_waiting = true;
        if let Some(waiter) = &self.waiter
            && self.may_hold_mail_back(waiter)
        {
            is_waiting = false;
            waiter.while_waiting(|| is_waiting = true);
        }
        !is_waiting
    }

    fn may_hold_mail_back(&self, waiter: &Waiter) -> bool {
        waiter.is_offloaded() || self.states.contains(States::TRACKS)
    }

    /// Brings what the client may do up to date; returns whether any rights have changed. One load if not.
    #[inline]
    pub(crate) fn look_at_rights(&mut self, users: &Users) -> bool {
        let are_old = self.rights.are_old(users);
        if are_old {
            self.renew_rights(users);
        }
        are_old
    }

    /// Whether rights have changed since they were looked at.
    pub(crate) fn has_old_rights(&self, users: &Users) -> bool {
        self.rights.are_old(users)
    }

    #[cold]
    fn renew_rights(&mut self, users: &Users) {
        let are_limited = self.rights.renew(users, || self.handle.user().rights());
        self.states.set(States::RESTRICTED, are_limited && !self.is_replay);
    }

    /// What the client may do; `None`: everything.
    #[inline]
    pub(crate) fn limits(&self) -> Option<&Arc<Rights>> {
        self.rights.limits().filter(|_| self.states.contains(States::RESTRICTED))
    }

    /// Acts for this user from now on, who has logged in.
    pub(crate) fn log_in(&mut self, user: &Arc<User>, users: &Users) {
        self.handle.names.lock().user = Arc::clone(user);
        self.states.remove(States::LOGGED_OUT);
        self.renew_rights(users);
    }

    /// Whether its client has authenticated or needs no password.
    #[inline]
    pub fn is_authenticated(&self) -> bool {
        !self.states.contains(States::LOGGED_OUT)
    }

    /// Brings the states up to date after a change of its subscriptions, of what it monitors or tracks, or of its protocol.
    pub(crate) fn note_subscriptions(&mut self) {
        self.subscriptions.take_if(|subscriptions| subscriptions.is_empty());
        let is_subscribed = self.subscriptions.is_some();
        let tracks = self.tracks.is_some();
        self.states.set(States::HEARS, is_subscribed || tracks || self.monitor.is_some());
        self.states.set(States::TRACKS, tracks);
        self.states.set(States::SUBSCRIBED, is_subscribed && !self.handle.is_resp3());
    }

    /// RESET: back to the state of a new connection.
    pub(crate) fn reset(&mut self, watched: &Watched, users: &Users) {
        self.unwatch(watched);
        self.end_transaction();
        if let Some(subscriptions) = &mut self.subscriptions {
            subscriptions.leave_all();
        }
        self.tracks = None;
        self.handle.no_evict.store(false, Relaxed);
        self.handle.no_touch.store(false, Relaxed);
        self.handle.set_names(|names| {
            names.name.clear();
            names.user = Arc::clone(users.default_user());
        });
        // CLIENT REPLY SKIP may apply to this very command.
        let reply_mode = if self.reply_mode == ReplyMode::Skip { ReplyMode::Skip } else { ReplyMode::On };
        // The replies to the commands before this one are not written yet.
        let mut owed = self.owed;
        owed.add(Owed::default());
        *self = Self { reply_mode, owed, ..Self::new(Arc::clone(&self.handle), !users.needs_login()) };
        self.look_at_rights(users);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::client::SESSION_BYTES;

    #[test]
    fn a_session_takes_no_more_than_what_is_counted_for_it() {
        assert!(size_of::<Session>() as u64 <= SESSION_BYTES, "{}", size_of::<Session>());
    }
}
