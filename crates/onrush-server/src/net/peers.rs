//! Connections to other servers, for MIGRATE.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use onrush_engine::process::{Peer, PeerAddress};
use onrush_persist::threads;
use parking_lot::Mutex;

/// Most connections that are kept; when there are more, the oldest is closed.
const KEPT_MAX: usize = 64;

/// How long a connection is kept.
const KEPT_FOR: Duration = Duration::from_secs(10);

/// The longest line that another server may send: errors quote what they are about.
const LINE_LEN_MAX: usize = 64 << 10;

const READ_LEN: usize = 4 << 10;

/// So many bytes must be taken within the timeout, as in Redis.
const SENT_LEN: usize = 64 << 10;

/// The connections.
#[derive(Default)]
pub struct Peers {
    /// Unused connections, the oldest first.
    idle: Mutex<Vec<Idle>>,
    /// Those in use.
    used: Mutex<Vec<Arc<TcpStream>>>,
    /// The way to the thread that waits for a new connection.
    opening: Mutex<Option<Sender<io::Result<TcpStream>>>>,
    /// How many want that none is in use.
    refusals: AtomicUsize,
}

struct Idle {
    host: Vec<u8>,
    port: Vec<u8>,
    stream: Arc<TcpStream>,
    selected_db: Option<i64>,
    since: Instant,
}

impl Peers {
    /// Connects, or takes a connection that was kept unless `anew`.
    ///
    /// # Errors
    /// See [`Process::connect`](onrush_engine::process::Process::connect).
    pub fn connect(self: &Arc<Self>, address: &PeerAddress<'_>, anew: bool) -> io::Result<Box<dyn Peer>> {
        let kept = if anew { None } else { self.take(address) };
        let is_reused = kept.is_some();
        let (stream, selected_db) = match kept {
            Some(idle) => (idle.stream, idle.selected_db),
            None => (Arc::new(self.open(address)?), None),
        };
        stream.set_read_timeout(Some(address.timeout))?;
        stream.set_write_timeout(Some(address.timeout))?;
        self.used.lock().push(Arc::clone(&stream));
        let connection = Connection {
            peers: Arc::clone(self),
            host: address.host.to_vec(),
            port: address.port.to_vec(),
            timeout: address.timeout,
            stream,
            selected_db,
            is_reused,
            is_kept: false,
            unread: Vec::new(),
        };
        // Who refuses has seen it among those in use, or is seen here.
        self.check()?;
        Ok(Box::new(connection))
    }

    /// Opens a connection on a thread of its own: looking up a name, or waiting for a server that does not answer, cannot be
    /// interrupted.
    fn open(&self, address: &PeerAddress<'_>) -> io::Result<TcpStream> {
        let (tell, told) = channel();
        *self.opening.lock() = Some(tell.clone());
        self.check()?;
        let (host, port, timeout) = (address.host.to_vec(), address.port.to_vec(), address.timeout);
        threads::start("peer", move || {
            // Nobody listens any more after an interruption.
            let _ = tell.send(open(&PeerAddress { host: &host, port: &port, timeout }));
        })?;
        told.recv().unwrap_or_else(|_| Err(ErrorKind::Interrupted.into()))
    }

    fn check(&self) -> io::Result<()> {
        if self.refusals.load(SeqCst) > 0 { Err(ErrorKind::Interrupted.into()) } else { Ok(()) }
    }

    /// Closes the connections in use and refuses new ones, because the process is to end: a thread that waits for another
    /// server gets an error at once. Lasts until [`Peers::allow`].
    pub fn refuse(&self) {
        self.refusals.fetch_add(1, SeqCst);
        if let Some(opening) = self.opening.lock().take() {
            // It may have its connection already.
            let _ = opening.send(Err(ErrorKind::Interrupted.into()));
        }
        for stream in self.used.lock().drain(..) {
            // It may be closed already.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Takes one [`Peers::refuse`] back.
    pub fn allow(&self) {
        self.refusals.fetch_sub(1, SeqCst);
    }

    fn take(&self, address: &PeerAddress<'_>) -> Option<Idle> {
        let mut idle = self.idle.lock();
        let at = idle.iter().rposition(|idle| idle.host == address.host && idle.port == address.port)?;
        Some(idle.remove(at))
    }

    /// Closes what has been kept long enough. Call this regularly.
    pub fn close_idle(&self) {
        self.idle.lock().retain(|idle| idle.since.elapsed() < KEPT_FOR);
    }

    /// How many are kept.
    pub fn count(&self) -> usize {
        self.idle.lock().len()
    }
}

fn open(address: &PeerAddress<'_>) -> io::Result<TcpStream> {
    let text = |bytes| std::str::from_utf8(bytes).map_err(|_| io::Error::from(ErrorKind::InvalidInput));
    let host = text(address.host)?;
    // Redis fails with what is no port as with one where nobody listens, but for negative numbers.
    let below_zero = address.port.strip_prefix(b"-").and_then(|digits| digits.iter().find(|digit| **digit != b'0'));
    let is_negative = below_zero.is_some_and(u8::is_ascii_digit);
    let wrong = if is_negative { ErrorKind::InvalidInput } else { ErrorKind::ConnectionRefused };
    let port: Option<u16> = std::str::from_utf8(address.port).ok().and_then(|port| port.parse().ok());
    connect(host, port.ok_or(wrong)?, address.timeout)
}

/// Looks a name up, and connects to the first of its addresses where a server answers.
///
/// # Errors
/// The system's.
pub fn connect(host: &str, port: u16, timeout: Duration) -> io::Result<TcpStream> {
    let mut failed = io::Error::from(ErrorKind::AddrNotAvailable);
    for to in (host, port).to_socket_addrs()? {
        match connect_to(to, timeout) {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

fn connect_to(to: SocketAddr, timeout: Duration) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&to, timeout)?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// A command as another server gets it.
pub fn request(args: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    onrush_persist::push_command(&mut bytes, args.iter().copied());
    bytes
}

/// A connection in use. Dropped, it is broken off: what the other server has not got yet, it never gets. A command that the
/// system would go on sending for minutes, when the network is back, could undo what has happened to its key meanwhile.
struct Connection {
    peers: Arc<Peers>,
    host: Vec<u8>,
    port: Vec<u8>,
    timeout: Duration,
    stream: Arc<TcpStream>,
    selected_db: Option<i64>,
    is_reused: bool,
    is_kept: bool,
    /// Bytes behind the lines that were returned.
    unread: Vec<u8>,
}

impl Peer for Connection {
    fn is_reused(&self) -> bool {
        // After an interruption the caller must not try again.
        self.is_reused && self.peers.used.lock().iter().any(|stream| Arc::ptr_eq(stream, &self.stream))
    }

    fn selected_db(&self) -> Option<i64> {
        self.selected_db
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        for mut part in bytes.chunks(SENT_LEN) {
            let started = Instant::now();
            while !part.is_empty() {
                // The socket's timeout is for each write, and a peer may take a few bytes at a time.
                if started.elapsed() > self.timeout {
                    return Err(ErrorKind::TimedOut.into());
                }
                match (&*self.stream).write(part) {
                    Ok(0) => return Err(ErrorKind::WriteZero.into()),
                    Ok(len) => part = &part[len..],
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    fn receive_line(&mut self) -> io::Result<Vec<u8>> {
        let (started, mut searched) = (Instant::now(), 0);
        loop {
            if let Some(at) = self.unread[searched..].iter().position(|byte| *byte == b'\n') {
                let mut line: Vec<u8> = self.unread.drain(..=searched + at).collect();
                line.truncate(line.trim_ascii_end().len());
                return Ok(line);
            }
            searched = self.unread.len();
            if searched > LINE_LEN_MAX {
                return Err(ErrorKind::InvalidData.into());
            }
            // The timeout is for each read, and a line may come in many pieces.
            if started.elapsed() > self.timeout {
                return Err(ErrorKind::TimedOut.into());
            }
            let mut bytes = [0; READ_LEN];
            match (&*self.stream).read(&mut bytes) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(len) => self.unread.extend_from_slice(&bytes[..len]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn keep(mut self: Box<Self>, selected_db: Option<i64>) {
        // Unexpected bytes would be taken for the next reply.
        if !self.unread.is_empty() {
            return;
        }
        self.is_kept = true;
        let (host, port, stream) = (self.host.clone(), self.port.clone(), Arc::clone(&self.stream));
        let mut idle = self.peers.idle.lock();
        if idle.len() == KEPT_MAX {
            idle.remove(0);
        }
        idle.push(Idle { host, port, stream, selected_db, since: Instant::now() });
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if !self.is_kept {
            // It may be broken already.
            let _ = socket2::SockRef::from(&*self.stream).set_linger(Some(Duration::ZERO));
        }
        self.peers.used.lock().retain(|stream| !Arc::ptr_eq(stream, &self.stream));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn connect(peers: &Arc<Peers>, port: &str, anew: bool) -> io::Result<Box<dyn Peer>> {
        let timeout = Duration::from_millis(50);
        peers.connect(&PeerAddress { host: b"127.0.0.1", port: port.as_bytes(), timeout }, anew)
    }

    #[test]
    fn a_connection_that_was_kept_is_taken_with_its_database() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (peers, port) = (Arc::new(Peers::default()), listener.local_addr().unwrap().port().to_string());
        for _ in 0..=KEPT_MAX {
            connect(&peers, &port, true).unwrap().keep(Some(3));
        }
        assert_eq!(peers.count(), KEPT_MAX);
        let kept = connect(&peers, &port, false).unwrap();
        assert_eq!((kept.is_reused(), kept.selected_db(), peers.count()), (true, Some(3), KEPT_MAX - 1));
        let new = connect(&peers, &port, true).unwrap();
        assert_eq!((new.is_reused(), new.selected_db(), peers.count()), (false, None, KEPT_MAX - 1));
        assert!(connect(&peers, "x", false).is_err() && connect(&peers, "99999", false).is_err());
    }

    #[test]
    fn one_that_is_given_up_is_broken_off() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (peers, port) = (Arc::new(Peers::default()), listener.local_addr().unwrap().port().to_string());
        let end = |peer: Box<dyn Peer>, keeps: bool| {
            let (mut other, _) = listener.accept().unwrap();
            if keeps {
                peer.keep(None)
            } else {
                drop(peer)
            }
            peers.idle.lock().clear();
            other.read(&mut [0]).map_err(|error| error.kind())
        };
        assert_eq!(end(connect(&peers, &port, true).unwrap(), false), Err(ErrorKind::ConnectionReset));
        assert_eq!(end(connect(&peers, &port, true).unwrap(), true), Ok(0));
    }

    #[test]
    fn lines_come_in_any_pieces_and_in_time() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peers = Arc::new(Peers::default());
        let mut peer = connect(&peers, &listener.local_addr().unwrap().port().to_string(), false).unwrap();
        let (mut other, _) = listener.accept().unwrap();
        other.write_all(b"+OK\r\n-ERR no\r\n+half").unwrap();
        assert_eq!(peer.receive_line().unwrap(), b"+OK");
        assert_eq!(peer.receive_line().unwrap(), b"-ERR no");
        let kind = peer.receive_line().unwrap_err().kind();
        assert!(matches!(kind, ErrorKind::TimedOut | ErrorKind::WouldBlock), "{kind}");
        other.write_all(b" a line\r\n").unwrap();
        assert_eq!(peer.receive_line().unwrap(), b"+half a line");
        other.write_all(&vec![b'x'; LINE_LEN_MAX + READ_LEN + 1]).unwrap();
        assert_eq!(peer.receive_line().unwrap_err().kind(), ErrorKind::InvalidData);
        peer.keep(None);
        assert_eq!(peers.count(), 0);
    }
}
