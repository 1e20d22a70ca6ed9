//! Clients as the others see them: the registry behind CLIENT LIST and CLIENT KILL.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::task::Waker;

use parking_lot::Mutex;

use crate::cluster::routes::Routes;
use crate::messages::kind::Kind;
use crate::messages::outbox::Outbox;
use crate::observe::pipeline::mean_depth;
use crate::replication::introduction::Introduction;
use crate::tracking::mode::{Mode, TrackingState};
use crate::transactions::watched::Watcher;
use crate::users::user::User;

/// The part of a connection that other threads may read, and the means to wake or kill it.
///
/// Its connection refreshes the numbers once per batch; only people read them.
pub struct ClientHandle {
    /// Unique, ascending.
    pub id: u64,
    /// Address of the peer, `ip:port` or the path of the Unix socket and `:0`.
    pub addr: String,
    /// Address on this side.
    pub laddr: String,
    /// File descriptor.
    pub fd: i32,
    /// Unix time of the connect in milliseconds.
    pub created_ms: i64,
    /// Whether it connected over a Unix socket.
    pub unix: bool,
    /// What changes with every batch.
    pub activity: Activity,
    /// Names given by the client.
    pub names: Mutex<Names>,
    /// 2 or 3.
    pub resp: AtomicU32,
    /// Bytes in the query buffer.
    pub query_bytes: AtomicU64,
    /// Bytes allocated for the query buffer and not used.
    pub query_free_bytes: AtomicU64,
    /// Bytes of replies that were not read.
    pub reply_bytes: AtomicU64,
    /// Bytes allocated for replies.
    pub reply_capacity_bytes: AtomicU64,
    /// Bytes of the command that it waits with.
    pub waiting_command_bytes: AtomicU64,
    /// Bytes of encryption, of its connection.
    pub tls_bytes: AtomicU64,
    /// Bytes of what it watches and hears.
    listed_bytes: AtomicU64,
    /// Bytes of its names.
    names_bytes: AtomicU64,
    /// What the registry has counted of it, in bytes.
    counted_bytes: AtomicU64,
    /// Times that it had to give way to others, with commands or replies left.
    pub gave_way: AtomicU64,
    /// Times its unread replies passed their limit.
    pub over_reply_limit: AtomicU64,
    /// Most bytes that waited in the query buffer.
    pub query_bytes_max: AtomicU64,
    /// Most bytes of unread replies.
    pub reply_bytes_max: AtomicU64,
    /// Whether it is to be woken when replicas have what its replies wait for.
    pub waits_for_replicas: AtomicBool,
    /// Whether they have not had it in time.
    pub lacks_replicas: AtomicBool,
    /// Whether it is to be woken when the log has come to what its replies wait for.
    pub waits_for_log: AtomicBool,
    /// The routes by which slots have gone to other nodes, some of whose channels the client may have heard.
    pub(crate) lost_slots: Mutex<Option<Arc<Routes>>>,
    /// CLIENT NO-EVICT.
    pub no_evict: AtomicBool,
    /// CLIENT NO-TOUCH.
    pub no_touch: AtomicBool,
    /// Commands queued since MULTI; negative without MULTI.
    pub transaction_len: AtomicI64,
    /// Bytes of memory that they take.
    pub transaction_bytes: AtomicU64,
    /// Bytes of their arguments.
    pub transaction_args_bytes: AtomicU64,
    /// How many keys it watches.
    pub watched_len: AtomicU32,
    /// Whether a key that it watches has changed.
    pub(crate) watcher: Mutex<Option<Arc<Watcher>>>,
    /// How many channels, patterns and shard channels it has subscribed to, by [`Kind`].
    pub subscriptions: [AtomicU32; 3],
    /// MONITOR.
    pub is_monitor: AtomicBool,
    /// Whether it is a replica.
    pub is_replica: AtomicBool,
    /// Whether it is the link to the primary of this server.
    pub is_primary: AtomicBool,
    /// What it has told as one (REPLCONF).
    pub introduction: Mutex<Option<Box<Introduction>>>,
    /// CLIENT TRACKING.
    pub(crate) tracking: TrackingState,
    /// Messages for it.
    pub(crate) outbox: Outbox,
    /// Whether it is among those that wait for a key or for another thread's reply.
    waits: AtomicBool,
    waker: Mutex<Option<Waker>>,
    /// Whether a thread other than its worker executes, or will execute, a command of the client.
    is_aside: AtomicBool,
}

/// What every batch of a connection changes or reads: on a cache line of its own.
#[derive(Default)]
#[repr(align(64))]
pub struct Activity {
    /// Unix time of the last command in milliseconds.
    pub last_interaction_ms: AtomicI64,
    /// Id of the last command, `u32::MAX` before the first.
    pub last_command: AtomicU32,
    /// Selected database.
    pub db: AtomicU32,
    /// Commands executed.
    pub commands: AtomicU64,
    /// Reads that brought commands.
    pub batches: AtomicU64,
    /// Reads that brought only one command.
    pub singles: AtomicU64,
    /// Milliseconds between each of these reads and the batch before, if they followed soon.
    pub singles_ms: AtomicU64,
    /// What its connection must look at: [`KILLED`], [`MAIL`], [`IDLE`].
    calls: AtomicU8,
}

/// A command that comes this many milliseconds after the previous one did not wait for that one's reply.
const SOON_MS: i64 = 500;

/// The connection must close.
const KILLED: u8 = 1 << 0;

/// There are messages in the outbox.
const MAIL: u8 = 1 << 1;

/// Somebody found the client idle: its connection closes if it still is.
const IDLE: u8 = 1 << 2;

impl Activity {
    /// Notes a batch of commands executed at this time. Only the connection's thread may call this.
    #[inline]
    pub fn note_batch(&self, now_ms: i64, commands: u32) {
        let add = |counter: &AtomicU64, n: u64| counter.store(counter.load(Relaxed) + n, Relaxed);
        let since_ms = now_ms - self.last_interaction_ms.load(Relaxed);
        add(&self.commands, commands.into());
        add(&self.batches, u64::from(commands > 0));
        if commands == 1 {
            add(&self.singles, 1);
            add(&self.singles_ms, if (0..SOON_MS).contains(&since_ms) { since_ms as u64 } else { 0 });
        }
        self.last_interaction_ms.store(now_ms, Relaxed);
    }

    /// There are messages in the outbox, which is locked.
    pub(crate) fn note_mail(&self) {
        self.calls.fetch_or(MAIL, Relaxed);
    }

    /// There are no more messages in the outbox, which is locked.
    pub(crate) fn no_more_mail(&self) {
        self.calls.fetch_and(!MAIL, Relaxed);
    }
}

/// Bytes that a watched key or a subscription takes beside its name: entries of two tables.
const LISTED_BYTES: u64 = 160;

/// Bytes of a client's name that the slow log keeps with each entry.
const LOGGED_NAME_LEN_MAX: usize = 128;

fn listed_bytes(name: &[u8]) -> u64 {
    LISTED_BYTES + name.len() as u64
}

/// Bytes of what only its connection sees: at least those of its session.
pub(crate) const SESSION_BYTES: u64 = 512;

/// Names a client gave itself.
#[derive(Clone)]
pub struct Names {
    /// CLIENT SETNAME.
    pub name: Vec<u8>,
    /// CLIENT SETINFO LIB-NAME.
    pub lib_name: Vec<u8>,
    /// CLIENT SETINFO LIB-VER.
    pub lib_ver: Vec<u8>,
    /// The user it acts for.
    pub user: Arc<User>,
}

impl ClientHandle {
    /// A handle for a connection just accepted, which acts for `user`.
    pub fn new(id: u64, addr: String, laddr: String, fd: i32, unix: bool, now_ms: i64, user: Arc<User>) -> Self {
        Self {
            id,
            addr,
            laddr,
            fd,
            created_ms: now_ms,
            unix,
            activity: Activity {
                last_interaction_ms: AtomicI64::new(now_ms),
                last_command: AtomicU32::new(u32::MAX),
                ..Activity::default()
            },
            names: Mutex::new(Names { name: Vec::new(), lib_name: Vec::new(), lib_ver: Vec::new(), user }),
            resp: AtomicU32::new(2),
            query_bytes: AtomicU64::new(0),
            query_free_bytes: AtomicU64::new(0),
            reply_bytes: AtomicU64::new(0),
            reply_capacity_bytes: AtomicU64::new(0),
            waiting_command_bytes: AtomicU64::new(0),
            tls_bytes: AtomicU64::new(0),
            listed_bytes: AtomicU64::new(0),
            names_bytes: AtomicU64::new(0),
            counted_bytes: AtomicU64::new(0),
            gave_way: AtomicU64::new(0),
            over_reply_limit: AtomicU64::new(0),
            query_bytes_max: AtomicU64::new(0),
            reply_bytes_max: AtomicU64::new(0),
            waits_for_replicas: AtomicBool::new(false),
            lacks_replicas: AtomicBool::new(false),
            waits_for_log: AtomicBool::new(false),
            lost_slots: Mutex::default(),
            no_evict: AtomicBool::new(false),
            no_touch: AtomicBool::new(false),
            transaction_len: AtomicI64::new(-1),
            transaction_bytes: AtomicU64::new(0),
            transaction_args_bytes: AtomicU64::new(0),
            watched_len: AtomicU32::new(0),
            watcher: Mutex::new(None),
            subscriptions: [const { AtomicU32::new(0) }; 3],
            is_monitor: AtomicBool::new(false),
            is_replica: AtomicBool::new(false),
            is_primary: AtomicBool::new(false),
            introduction: Mutex::new(None),
            tracking: TrackingState::default(),
            outbox: Outbox::default(),
            waits: AtomicBool::new(false),
            waker: Mutex::new(None),
            is_aside: AtomicBool::new(false),
        }
    }

    /// Sets the client aside while another thread executes, or will execute, its command; or ends that.
    pub fn set_aside(&self, is_aside: bool) {
        self.is_aside.store(is_aside, Release);
    }

    /// Whether the client is set aside.
    pub fn is_aside(&self) -> bool {
        self.is_aside.load(Acquire)
    }

    /// Notes whether it is among those that wait; only their table calls this.
    pub(crate) fn note_waits(&self, waits: bool) {
        self.waits.store(waits, Release);
    }

    /// Whether it waits for a key or for another thread's reply.
    pub fn waits(&self) -> bool {
        self.waits.load(Acquire)
    }

    /// The user it acts for.
    pub fn user(&self) -> Arc<User> {
        Arc::clone(&self.names.lock().user)
    }

    /// Whether the client runs on this machine: it connected over a Unix socket or from a loopback address.
    pub fn is_local(&self) -> bool {
        let peer = self.addr.parse::<SocketAddr>();
        self.unix || peer.is_ok_and(|peer| peer.ip().to_canonical().is_loopback())
    }

    /// Whether another server is at its other end.
    pub(crate) fn is_server(&self) -> bool {
        self.is_replica.load(Relaxed) || self.is_primary.load(Relaxed)
    }

    /// Whether it speaks RESP3.
    pub(crate) fn is_resp3(&self) -> bool {
        self.resp.load(Relaxed) == 3
    }

    /// Whether it has subscribed to anything.
    pub(crate) fn has_subscriptions(&self) -> bool {
        self.subscriptions.iter().any(|count| count.load(Relaxed) > 0)
    }

    /// Memory of its buffers in bytes, without messages that it shares with others.
    pub(crate) fn buffer_bytes(&self) -> u64 {
        let query = self.query_bytes.load(Relaxed) + self.query_free_bytes.load(Relaxed);
        let reply = self.reply_capacity_bytes.load(Relaxed).max(self.reply_bytes.load(Relaxed));
        let commands = self.transaction_bytes.load(Relaxed) + self.waiting_command_bytes.load(Relaxed);
        query + reply + commands + self.tls_bytes.load(Relaxed)
    }

    /// Memory of the client in bytes, without messages that it shares with others.
    pub(crate) fn own_bytes(&self) -> u64 {
        let fixed = size_of::<Self>() as u64 + SESSION_BYTES;
        self.buffer_bytes() + self.listed_bytes.load(Relaxed) + self.names_bytes.load(Relaxed) + fixed
    }

    /// Memory of the client in bytes, with all messages that wait for it.
    pub(crate) fn total_bytes(&self) -> u64 {
        self.own_bytes() + self.waiting().bytes as u64
    }

    /// The beginning of its name, as logs keep it.
    pub(crate) fn short_name(&self) -> Vec<u8> {
        let names = self.names.lock();
        names.name[..names.name.len().min(LOGGED_NAME_LEN_MAX)].to_vec()
    }

    /// Changes its names.
    pub(crate) fn set_names(&self, change: impl FnOnce(&mut Names)) {
        let mut names = self.names.lock();
        change(&mut names);
        let bytes = names.name.len() + names.lib_name.len() + names.lib_ver.len();
        self.names_bytes.store(bytes as u64, Relaxed);
    }

    /// It hears something more with this name.
    pub(crate) fn note_listed(&self, name: &[u8]) {
        self.listed_bytes.fetch_add(listed_bytes(name), Relaxed);
    }

    /// It does not hear something with this name any more.
    pub(crate) fn note_unlisted(&self, name: &[u8]) {
        self.listed_bytes.fetch_sub(listed_bytes(name), Relaxed);
    }

    /// It watches a key more, which the table of all watched keys has as well.
    pub(crate) fn note_watched(&self, key: &[u8]) {
        self.listed_bytes.fetch_add(listed_bytes(key) + key.len() as u64, Relaxed);
    }

    /// It does not watch a key any more.
    pub(crate) fn note_unwatched(&self, key: &[u8]) {
        self.listed_bytes.fetch_sub(listed_bytes(key) + key.len() as u64, Relaxed);
    }

    /// Its line in CLIENT LIST, with the line end. `command_name` tells the name of a command by its number.
    pub(crate) fn info_line<'c>(&self, command_name: impl Fn(usize) -> Option<&'c str>, now_ms: i64) -> Vec<u8> {
        let names = self.names.lock().clone();
        let waiting = self.waiting();
        let subscribed = |kind: Kind| self.subscriptions[kind as usize].load(Relaxed);
        let seconds_since = |at_ms: i64| (now_ms - at_ms).max(0) / 1000;
        let mut line =
            format!("id={} addr={} laddr={} fd={} name=", self.id, self.addr, self.laddr, self.fd).into_bytes();
        line.extend_from_slice(&names.name);
        let reply_bytes = self.reply_bytes.load(Relaxed);
        let capacity_bytes = self.reply_capacity_bytes.load(Relaxed);
        let events = if reply_bytes > 0 || waiting.bytes > 0 { "rw" } else { "r" };
        let last = self.activity.last_command.load(Relaxed) as usize;
        let command = command_name(last).unwrap_or("NULL");
        line.extend_from_slice(
            format!(
                " age={} idle={} flags={} db={} sub={} psub={} ssub={} multi={} watch={} qbuf={} qbuf-free={} \
                 argv-mem={} multi-mem={} rbs={capacity_bytes} rbp={capacity_bytes} obl={reply_bytes} oll={} omem={} tot-mem={} \
                 events={events} cmd={command} user=",
                seconds_since(self.created_ms),
                seconds_since(self.activity.last_interaction_ms.load(Relaxed)),
                self.flags(),
                self.activity.db.load(Relaxed),
                subscribed(Kind::Channel),
                subscribed(Kind::Pattern),
                subscribed(Kind::Shard),
                self.transaction_len.load(Relaxed),
                self.watched_len(),
                self.query_bytes.load(Relaxed),
                self.query_free_bytes.load(Relaxed),
                self.transaction_args_bytes.load(Relaxed),
                self.transaction_bytes.load(Relaxed),
                waiting.parcels,
                waiting.bytes,
                self.own_bytes() + waiting.bytes as u64,
            )
            .as_bytes(),
        );
        line.extend_from_slice(names.user.name());
        let redirect = self.tracking.shown_redirect();
        line.extend_from_slice(format!(" redir={redirect} resp={} lib-name=", self.resp.load(Relaxed)).as_bytes());
        line.extend_from_slice(&names.lib_name);
        line.extend_from_slice(b" lib-ver=");
        line.extend_from_slice(&names.lib_ver);
        line.extend_from_slice(self.pipelining().as_bytes());
        line.push(b'\n');
        line
    }

    /// How it pipelines, as CLIENT LIST shows after the fields of Redis.
    fn pipelining(&self) -> String {
        let [commands, batches] = [&self.activity.commands, &self.activity.batches].map(|count| count.load(Relaxed));
        let deferrals = self.gave_way.load(Relaxed) + self.over_reply_limit.load(Relaxed);
        format!(
            " tot-cmds={commands} batches={batches} depth={:.2} rtt-saved={} deferrals={deferrals} qbuf-max={} rbuf-max={}",
            mean_depth(commands, batches),
            commands.saturating_sub(batches),
            self.query_bytes_max.load(Relaxed),
            self.reply_bytes_max.load(Relaxed),
        )
    }

    /// How many keys it watches; none once one of them has changed.
    pub(crate) fn watched_len(&self) -> u32 {
        if self.is_outdated() { 0 } else { self.watched_len.load(Relaxed) }
    }

    /// Whether a key that it watches has changed.
    fn is_outdated(&self) -> bool {
        self.watcher.lock().as_ref().is_some_and(|watcher| watcher.is_outdated())
    }

    /// The letters CLIENT LIST shows, `N` if there are none.
    fn flags(&self) -> String {
        let queues = self.transaction_len.load(Relaxed) >= 0;
        let tracking = self.tracking.mode();
        let letters = [
            (self.is_monitor.load(Relaxed), 'O'),
            (self.is_replica.load(Relaxed) && !self.is_monitor.load(Relaxed), 'S'),
            (self.is_primary.load(Relaxed), 'M'),
            (self.has_subscriptions(), 'P'),
            (queues, 'x'),
            (self.waits(), 'b'),
            (tracking.contains(Mode::ON), 't'),
            (tracking.contains(Mode::BROKEN), 'R'),
            (tracking.contains(Mode::BCAST), 'B'),
            (self.is_outdated(), 'd'),
            (self.unix, 'U'),
            (self.no_evict.load(Relaxed), 'e'),
            (self.no_touch.load(Relaxed), 'T'),
        ];
        let flags: String = letters.into_iter().filter(|(set, _)| *set).map(|(_, letter)| letter).collect();
        if flags.is_empty() { "N".to_owned() } else { flags }
    }

    /// Asks the connection to close, without replies that are still to come.
    pub fn kill(&self) {
        self.activity.calls.fetch_or(KILLED, Relaxed);
        self.wake();
    }

    /// Whether the connection must close.
    #[inline]
    pub fn is_killed(&self) -> bool {
        self.activity.calls.load(Relaxed) & KILLED != 0
    }

    /// Whether its connection is encrypted.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.tls_bytes.load(Relaxed) > 0
    }

    /// Whether messages wait in the outbox.
    #[inline]
    pub fn has_mail(&self) -> bool {
        self.activity.calls.load(Relaxed) & MAIL != 0
    }

    /// Whether the client has been silent for longer than this and is expected to speak: it neither waits for a command of
    /// its own nor listens.
    pub fn is_idle(&self, now_ms: i64, timeout_ms: i64) -> bool {
        let hears = self.has_subscriptions() || self.is_monitor.load(Relaxed);
        now_ms - self.activity.last_interaction_ms.load(Relaxed) > timeout_ms
            && !(hears || self.is_aside() || self.waits() || self.is_server())
    }

    /// Has the connection close if its client is idle. Only the connection knows what it has read and executed meanwhile.
    pub fn close_if_idle(&self) {
        self.activity.calls.fetch_or(IDLE, Relaxed);
        self.wake();
    }

    /// Whether somebody has called [`ClientHandle::close_if_idle`].
    #[inline]
    pub fn closes_if_idle(&self) -> bool {
        self.activity.calls.load(Relaxed) & IDLE != 0
    }

    /// The client is not idle; takes [`ClientHandle::close_if_idle`] back.
    pub fn stay(&self) {
        self.activity.calls.fetch_and(!IDLE, Relaxed);
    }

    /// Whether the connection has to look at anything besides its socket.
    #[inline]
    pub fn is_called(&self) -> bool {
        self.activity.calls.load(Relaxed) != 0
    }

    /// Gives the connection a turn.
    pub fn wake(&self) {
        if let Some(waker) = &*self.waker.lock() {
            waker.wake_by_ref();
        }
    }

    /// Sets what gives the connection a turn.
    pub fn set_waker(&self, waker: &Waker) {
        *self.waker.lock() = Some(waker.clone());
    }
}

/// All connected clients by id.
#[derive(Default)]
pub struct Registry {
    clients: Mutex<BTreeMap<u64, Arc<ClientHandle>>>,
    last_id: AtomicU64,
    /// What all of them hold, as it was last counted, in bytes.
    held_bytes: AtomicU64,
}

impl Registry {
    /// A new id.
    pub fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Relaxed) + 1
    }

    /// Adds a client.
    pub fn add(&self, client: Arc<ClientHandle>) {
        // Under the lock, as for all who come and go: [`Registry::count_all`] must not miss it.
        let mut clients = self.clients.lock();
        self.count(&client);
        clients.insert(client.id, client);
    }

    /// Counts anew what a client holds.
    #[inline]
    pub(crate) fn count(&self, client: &ClientHandle) {
        self.counted(client, client.own_bytes());
    }

    /// Differences may be negative: the sum wraps around and comes back.
    fn counted(&self, client: &ClientHandle, bytes: u64) {
        let before = client.counted_bytes.swap(bytes, Relaxed);
        self.held_bytes.fetch_add(bytes.wrapping_sub(before), Relaxed);
    }

    /// What all clients held when each was last counted, in bytes.
    #[inline]
    pub fn held_bytes(&self) -> u64 {
        // While several threads count, the sum may be below 0 for a moment.
        (self.held_bytes.load(Relaxed) as i64).max(0) as u64
    }

    /// Counts anew what each client holds, and the sum. O(clients).
    pub(crate) fn count_all(&self) {
        let clients = self.clients.lock();
        let mut sum = 0;
        for client in clients.values() {
            let bytes = client.own_bytes();
            client.counted_bytes.store(bytes, Relaxed);
            sum += bytes;
        }
        self.held_bytes.store(sum, Relaxed);
    }

    /// Removes a client.
    pub fn remove(&self, id: u64) {
        let mut clients = self.clients.lock();
        if let Some(client) = clients.remove(&id) {
            self.counted(&client, 0);
            drop(clients);
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.clients.lock().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One of them.
    pub fn get(&self, id: u64) -> Option<Arc<ClientHandle>> {
        self.clients.lock().get(&id).cloned()
    }

    /// All of them, by ascending id.
    pub fn all(&self) -> Vec<Arc<ClientHandle>> {
        self.clients.lock().values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handle(addr: &str, unix: bool) -> ClientHandle {
        ClientHandle::new(7, addr.into(), "127.0.0.1:6379".into(), 9, unix, 1_000, User::server())
    }

    #[test]
    fn local_is_what_came_by_a_unix_socket_or_loopback() {
        for (addr, unix, local) in [
            ("127.0.0.1:5", false, true),
            ("127.8.0.1:5", false, true),
            ("[::1]:5", false, true),
            ("[::ffff:127.0.0.1]:5", false, true),
            ("10.0.0.1:5", false, false),
            ("[2001:db8::1]:5", false, false),
            ("/tmp/s.sock:0", true, true),
        ] {
            assert_eq!(handle(addr, unix).is_local(), local, "{addr}");
        }
    }

    #[test]
    fn the_line_in_client_list_has_the_fields_of_redis_7_4() {
        let client = handle("127.0.0.1:5", false);
        client.names.lock().name = b"me".to_vec();
        client.names.lock().lib_name = b"lib".to_vec();
        client.no_evict.store(true, Relaxed);
        client.query_bytes.store(3, Relaxed);
        let line = client.info_line(|_| None, 3_500);
        let line = String::from_utf8(line).unwrap();
        assert!(line.starts_with("id=7 addr=127.0.0.1:5 laddr=127.0.0.1:6379 fd=9 name=me age=2 idle=2 flags=e db=0 "));
        assert!(
            line.contains(" events=r cmd=NULL user=default redir=-1 resp=2 lib-name=lib lib-ver= tot-cmds="),
            "{line}"
        );
        let fields: Vec<_> = line.split(' ').map(|field| field.split('=').next().unwrap()).collect();
        assert_eq!(
            fields.join(" "),
            "id addr laddr fd name age idle flags db sub psub ssub multi watch qbuf qbuf-free argv-mem multi-mem rbs rbp obl \
             oll omem tot-mem events cmd user redir resp lib-name lib-ver \
             tot-cmds batches depth rtt-saved deferrals qbuf-max rbuf-max"
        );
    }
}
