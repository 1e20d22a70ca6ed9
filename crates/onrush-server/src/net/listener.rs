//! Listening sockets: accepting connections, and refusing those that are not allowed.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use onrush_engine::clients::client::ClientHandle;
use onrush_persist::threads;
use rustls::ServerConfig;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::{JoinError, JoinSet};

use crate::config::{Config, os_reason};
use crate::log::Complaints;
use crate::net::binding::{Address, bind_all_tcp, bind_unix, resolve_all};
use crate::net::listen_change::{Kind, ListenChange, Listening};
use crate::net::socket::Socket;
use crate::process::server::Server;
use crate::tls::errors::HandshakeError;
use crate::tls::handshake::{let_read, shake_hands};
use crate::tls::stream::{Established, TlsStream};
use crate::workers::mailbox::Mailbox;

/// Wait before the next try when the system cannot accept, mostly because file descriptors have run out.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// How often, and at what interval, the listener looks for room before it refuses a client.
const FULL_CHECKS: usize = 10;
const FULL_WAIT: Duration = Duration::from_millis(1);

/// Most clients that it looks for room for at once; the next one waits, and those behind it are not accepted meanwhile.
/// Each has a file open beyond `maxclients`, of the few that
/// [`os::clients_allowed`](crate::process::os::clients_allowed) keeps for everything else.
const LATE_MAX: usize = 4;

const TOO_MANY_CLIENTS: &[u8] = b"-ERR max number of clients reached\r\n";

const CLOSING: &[u8] = b"-ERR the server ends\r\n";

const PROTECTED: &[u8] = b"-DENIED Onrush is running in protected mode: no password is set for the default user, so \
only clients on this machine may connect. To let others in, set a password with 'requirepass', or if the network is \
trusted turn the check off with 'CONFIG SET protected-mode no' from this machine or with '--protected-mode no' at \
start.\r\n";

/// The sockets of a server, bound and listening.
pub struct Listeners {
    /// By kind.
    tcp: [Vec<std::net::TcpListener>; 2],
    addresses: [Vec<Address>; 2],
    unix: Option<std::os::unix::net::UnixListener>,
}

impl Listeners {
    /// Binds what the configuration asks for.
    ///
    /// # Errors
    /// Why the server cannot listen. The log has named the address already.
    pub fn bind(config: &Config) -> Result<Self, String> {
        let (mut tcp, mut addresses) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
        for kind in Kind::ALL {
            let port = kind.port(config);
            let bound = resolve_all(config, port).and_then(|addresses| {
                let tcp = bind_all_tcp(&addresses, config.tcp_backlog as i32)?;
                Ok((addresses, tcp))
            });
            (addresses[kind as usize], tcp[kind as usize]) = bound.map_err(|error| {
                tracing::warn!("Warning: {error}");
                format!("Failed listening on port {port} ({}), aborting.", kind.name())
            })?;
        }
        let unix = match config.unixsocket.as_str() {
            "" => None,
            path => Some(
                bind_unix(path, config.unixsocketperm as u32)
                    .map_err(|error| format!("Failed opening Unix socket: bind: {}", os_reason(&error)))?,
            ),
        };
        if tcp.iter().all(Vec::is_empty) && unix.is_none() {
            return Err("Configured to not listen anywhere, exiting.".to_owned());
        }
        Ok(Self { tcp, addresses, unix })
    }

    /// The TCP addresses, which may be changed from now on; returns the requests to do so.
    pub fn open(&mut self, config: &Config) -> (Listening, UnboundedReceiver<ListenChange>) {
        let (changes, requests) = unbounded_channel();
        (Listening::new(changes, std::mem::take(&mut self.addresses), config), requests)
    }

    /// What there is to connect to: `tcp`, `unix`, `tls`.
    pub fn kinds(&self) -> impl Iterator<Item = &'static str> + use<> {
        let [plain, tls] = Kind::ALL.map(|kind| (!self.tcp[kind as usize].is_empty()).then_some(kind.name()));
        [plain, self.unix.as_ref().map(|_| "unix"), tls].into_iter().flatten()
    }

    /// Accepts connections on all of them, and on other TCP sockets when it is told to, until its task ends.
    ///
    /// # Errors
    /// The runtime cannot watch a socket.
    pub async fn serve(
        self,
        server: &'static Server,
        workers: Arc<[Arc<Mailbox>]>,
        mut changes: UnboundedReceiver<ListenChange>,
    ) -> io::Result<()> {
        let mut unix = JoinSet::new();
        if let Some(listener) = self.unix {
            let listener = UnixListener::from_std(listener)?;
            unix.spawn(accept_unix(server, listener, Arc::clone(&workers)));
        }
        let [plain, tls] = self.tcp;
        let mut plain = accept_all(server, Kind::Plain, plain, &workers)?;
        let mut tls = accept_all(server, Kind::Tls, tls, &workers)?;
        loop {
            tokio::select! {
                Some(ended) = unix.join_next() => check(ended),
                Some(ended) = plain.join_next() => check(ended),
                Some(ended) = tls.join_next() => check(ended),
                Some(ListenChange { kind, sockets, done }) = changes.recv() => {
                    let result = match accept_all(server, kind, sockets, &workers) {
                        Ok(wanted) => {
                            let present = if kind == Kind::Plain { &mut plain } else { &mut tls };
                            std::mem::replace(present, wanted).shutdown().await;
                            Ok(())
                        }
                        Err(error) => Err(error),
                    };
                    // The requesting thread waits for it.
                    let _ = done.send(result);
                }
                // There is nothing to accept and nobody to change that.
                else => std::future::pending().await,
            }
        }
    }
}

/// Ends the process if a task that accepts has panicked: it is one that nobody would miss.
fn check(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && let Ok(panic) = error.try_into_panic()
    {
        threads::end("accepting connections", &*panic);
    }
}

/// Accepts on each socket, in a task of its own; those for TLS have a thread of their own.
fn accept_all(
    server: &'static Server,
    kind: Kind,
    listeners: Vec<std::net::TcpListener>,
    workers: &Arc<[Arc<Mailbox>]>,
) -> io::Result<JoinSet<()>> {
    let mut tasks = JoinSet::new();
    if listeners.is_empty() {
        return Ok(tasks);
    }
    let thread = match kind {
        Kind::Plain => Handle::current(),
        Kind::Tls => server.host.tls.thread()?,
    };
    let _entered = thread.enter();
    for listener in listeners {
        let listener = TcpListener::from_std(listener)?;
        tasks.spawn_on(accept_tcp(server, kind, listener, Arc::clone(workers)), &thread);
    }
    Ok(tasks)
}

async fn accept_tcp(server: &'static Server, kind: Kind, listener: TcpListener, workers: Arc<[Arc<Mailbox>]>) {
    let admit = match kind {
        Kind::Plain => admit_tcp,
        Kind::Tls => admit_tls,
    };
    let complaints = Complaints::new();
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                if is_full(server)
                    && let Some(late) = Late::begin().await
                {
                    let workers = Arc::clone(&workers);
                    tokio::spawn(late.admit(server, workers, move |workers| admit(server, stream, peer, workers)));
                } else if let Err(error) = admit(server, stream, peer, &workers) {
                    tracing::debug!("Client {peer} went away while it was accepted: {error}");
                }
            }
            Err(error) => {
                complaints.tell(format_args!("Accepting client connection: accept: {}", os_reason(&error)));
                tokio::time::sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

fn admit_tcp(
    server: &'static Server,
    stream: TcpStream,
    peer: SocketAddr,
    workers: &Arc<[Arc<Mailbox>]>,
) -> io::Result<()> {
    set_up(server, &stream, peer)?;
    if is_kept_out(server, peer) {
        return refuse(server, stream.into_std()?, PROTECTED);
    }
    let place = match Place::take(server) {
        Ok(place) => place,
        Err(why) => {
            return refuse(server, stream.into_std()?, why);
        }
    };
    let laddr = stream.local_addr()?.to_string();
    place.hand_over(workers, peer.to_string(), laddr, stream.into_std()?.into());
    Ok(())
}

/// As [`admit_tcp`], after a handshake in a task of its own. A client that is one too many would not understand a text.
fn admit_tls(
    server: &'static Server,
    stream: TcpStream,
    peer: SocketAddr,
    workers: &Arc<[Arc<Mailbox>]>,
) -> io::Result<()> {
    set_up(server, &stream, peer)?;
    if is_kept_out(server, peer) {
        server.stats.connections_rejected.fetch_add(1, Relaxed);
        if let Some(config) = server.host.tls.server() {
            tokio::spawn(refuse_tls(stream, config));
        }
        return Ok(());
    }
    let (Ok(place), Some(config)) = (Place::take(server), server.host.tls.server()) else {
        server.stats.connections_rejected.fetch_add(1, Relaxed);
        return Ok(());
    };
    let workers = Arc::clone(workers);
    tokio::spawn(meet(place, stream, peer, config, workers));
    Ok(())
}

/// Handshakes at once with clients that protected mode keeps out. They take no place of others, and more of them are not told
/// why.
static KEPT_OUT: Semaphore = Semaphore::const_new(16);

async fn refuse_tls(mut stream: TcpStream, config: Arc<ServerConfig>) {
    if let Ok(_place) = KEPT_OUT.try_acquire()
        && let Ok(established) = shake_hands(&mut stream, config).await
        && let Ok(stream) = stream.into_std()
    {
        // It may have gone.
        let _ = TlsStream::new(stream, established).write(PROTECTED);
    }
}

/// At most some log lines about failed handshakes in a while.
static FAILED: Complaints = Complaints::new();

async fn meet(
    place: Place,
    mut stream: TcpStream,
    peer: SocketAddr,
    config: Arc<ServerConfig>,
    workers: Arc<[Arc<Mailbox>]>,
) {
    let error = match shake_hands(&mut stream, config).await {
        Ok(established) => match begin(place, stream, peer, established, &workers) {
            Ok(()) => return,
            Err(error) => return tracing::debug!("Client {peer} went away while it was accepted: {error}"),
        },
        Err(error) => error,
    };
    match error {
        // Who only looks whether the port is open is no reason for a line.
        HandshakeError::Closed | HandshakeError::Io(_) => {
            tracing::debug!("Error accepting a client connection: {error} (addr={peer})");
        }
        _ => {
            FAILED.tell(format_args!("Error accepting a client connection: {error} (addr={peer})"));
            let_read(stream).await;
        }
    }
}

fn begin(
    place: Place,
    stream: TcpStream,
    peer: SocketAddr,
    established: Established,
    workers: &[Arc<Mailbox>],
) -> io::Result<()> {
    let laddr = stream.local_addr()?.to_string();
    let mut stream = TlsStream::new(stream.into_std()?, established);
    // Protected mode may have come during the handshake.
    if is_kept_out(place.0, peer) {
        place.0.stats.connections_rejected.fetch_add(1, Relaxed);
        return stream.write(PROTECTED).map(drop);
    }
    place.hand_over(workers, peer.to_string(), laddr, stream.into());
    Ok(())
}

fn set_up(server: &Server, stream: &TcpStream, peer: SocketAddr) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let keepalive_s = server.host.config.read().tcp_keepalive;
    if keepalive_s > 0 {
        let interval = Duration::from_secs((keepalive_s / 3).max(1));
        let keepalive =
            TcpKeepalive::new().with_time(Duration::from_secs(keepalive_s)).with_interval(interval).with_retries(3);
        // The system may not support these times; the connection works without them.
        if let Err(error) = SockRef::from(stream).set_tcp_keepalive(&keepalive) {
            tracing::debug!("No TCP keepalive for {peer}: {error}");
        }
    }
    Ok(())
}

/// Whether protected mode lets only this machine in, and the client is elsewhere.
fn is_kept_out(server: &Server, peer: SocketAddr) -> bool {
    let is_protected = server.host.config.read().protected_mode && server.users.is_open();
    is_protected && !peer.ip().to_canonical().is_loopback()
}

async fn accept_unix(server: &'static Server, listener: UnixListener, workers: Arc<[Arc<Mailbox>]>) {
    let complaints = Complaints::new();
    let path = server.host.config.read().unixsocket.clone();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                if is_full(server)
                    && let Some(late) = Late::begin().await
                {
                    let (workers, path) = (Arc::clone(&workers), path.clone());
                    tokio::spawn(
                        late.admit(server, workers, move |workers| admit_unix(server, stream, &path, workers)),
                    );
                } else if let Err(error) = admit_unix(server, stream, &path, &workers) {
                    tracing::debug!("A client went away while it was accepted: {error}");
                }
            }
            Err(error) => {
                complaints.tell(format_args!("Accepting client connection: accept: {}", os_reason(&error)));
                tokio::time::sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

fn admit_unix(server: &'static Server, stream: UnixStream, path: &str, workers: &[Arc<Mailbox>]) -> io::Result<()> {
    let place = match Place::take(server) {
        Ok(place) => place,
        Err(why) => {
            return refuse(server, stream.into_std()?, why);
        }
    };
    let addr = format!("{path}:0");
    place.hand_over(workers, addr.clone(), addr, stream.into_std()?.into());
    Ok(())
}

fn is_full(server: &Server) -> bool {
    server.host.connected.load(Relaxed) >= server.host.config.read().maxclients as usize
}

/// A client that is to be admitted, or refused, in a moment: workers may not have noticed closed connections yet, and a
/// client that closes one connection and opens another must not be refused.
struct Late(SemaphorePermit<'static>);

impl Late {
    /// `None` if there are too many, and stay for as long as one of them may.
    async fn begin() -> Option<Self> {
        static PLACES: Semaphore = Semaphore::const_new(LATE_MAX);
        let place = tokio::time::timeout(FULL_WAIT * FULL_CHECKS as u32, PLACES.acquire()).await;
        place.ok()?.ok().map(Self)
    }

    async fn admit(
        self,
        server: &'static Server,
        workers: Arc<[Arc<Mailbox>]>,
        admit: impl FnOnce(&Arc<[Arc<Mailbox>]>) -> io::Result<()> + Send,
    ) {
        for _ in 0..FULL_CHECKS {
            tokio::time::sleep(FULL_WAIT).await;
            if !is_full(server) {
                break;
            }
        }
        if let Err(error) = admit(&workers) {
            tracing::debug!("A client went away while it was accepted: {error}");
        }
        drop(self.0);
    }
}

/// A place among the `maxclients`; given back unless a connection takes it over.
struct Place(&'static Server);

impl Place {
    /// # Errors
    /// Why the client is refused.
    fn take(server: &'static Server) -> Result<Self, &'static [u8]> {
        let place = Self(server);
        let connected = server.host.connected.fetch_add(1, Relaxed);
        if server.host.is_closing.load(Relaxed) {
            // It would get no reply.
            return Err(CLOSING);
        }
        (connected < server.host.config.read().maxclients as usize).then_some(place).ok_or(TOO_MANY_CLIENTS)
    }

    fn hand_over(self, workers: &[Arc<Mailbox>], addr: String, laddr: String, socket: Socket) {
        let server = self.0;
        let (fd, is_unix) = (socket.fd(), socket.is_unix());
        server.stats.connections_received.fetch_add(1, Relaxed);
        let id = server.clients.next_id();
        let user = Arc::clone(server.users.default_user());
        let handle = Arc::new(ClientHandle::new(id, addr, laddr, fd, is_unix, server.clock.unix_ms(), user));
        server.clients.add(Arc::clone(&handle));
        workers[server.host.worker_for(id)].hand_over(socket, handle);
        std::mem::forget(self);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.host.connected.fetch_sub(1, Relaxed);
    }
}

/// Sends a client the reason why it is refused, as far as the kernel takes the text at once, and closes.
fn refuse(server: &'static Server, mut stream: impl Write, why: &'static [u8]) -> io::Result<()> {
    server.stats.connections_rejected.fetch_add(1, Relaxed);
    // It does not block.
    stream.write_all(why)
}
