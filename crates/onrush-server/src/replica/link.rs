//! The connection of a replica to its primary: bytes, lines, and how long it is silent.

use std::fmt::Display;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use onrush_engine::replication::role::Primary;
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};

use crate::process::server::Server;

/// The longest line that a primary may send before the stream.
const LINE_LEN_MAX: usize = 1 << 10;

/// How long the socket waits at a time.
const WAIT_MAX: Duration = Duration::from_millis(250);

/// Most bytes that are read at once.
const READ_LEN_MAX: usize = 256 << 10;

/// Most memory that the buffer keeps while little is in it.
const KEPT_LEN_MAX: usize = 4 << 20;

/// Why a link has ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum End {
    /// The server gets another role.
    #[error("interrupted")]
    Interrupted,
    /// The primary wants to be asked again later.
    #[error("{0}")]
    Later(String),
    /// The replica that is to take over does not want to.
    #[error("{0}")]
    Refused(String),
    /// Something went wrong.
    #[error("{0}")]
    Failed(String),
}

impl End {
    /// What went wrong while something was done.
    pub(super) fn failed(doing: &str) -> impl FnOnce(io::Error) -> Self + '_ {
        move |error| match error.kind() {
            ErrorKind::UnexpectedEof => Self::Failed(format!("{doing}: the primary has closed the connection")),
            ErrorKind::TimedOut => Self::Failed(format!("{doing}: the primary is silent for repl-timeout")),
            _ => Self::Failed(format!("{doing}: {error}")),
        }
    }
}

/// Whether the socket has only waited for as long as it waits at a time.
fn is_pause(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// A socket that several own.
struct Socket(Arc<TcpStream>);

impl Read for Socket {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        (&*self.0).read(buf)
    }
}

impl Write for Socket {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        (&*self.0).write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A connection, encrypted or not.
trait Stream: Read + Write + Send {}

impl<S: Read + Write + Send> Stream for S {}

/// The side of a connection that sends.
pub(super) struct Sending<'a>(&'a mut dyn Stream);

impl Sending<'_> {
    /// Sends all of it.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)?;
        self.0.flush()
    }
}

/// A connection to the primary. Dropped, it is closed.
pub(super) struct Link {
    server: &'static Server,
    socket: Arc<TcpStream>,
    stream: Box<dyn Stream>,
    /// Bytes that have come and were not taken: those from `at` on.
    buf: Vec<u8>,
    at: usize,
    /// When something came last.
    last_io: Instant,
}

impl Link {
    /// Connects.
    ///
    /// # Errors
    /// Why it cannot.
    pub(super) fn open(server: &'static Server, primary: &Primary) -> Result<Self, End> {
        let (timeout, is_encrypted) = {
            let config = server.host.config.read();
            (Duration::from_secs(config.repl_timeout), config.tls_replication)
        };
        let socket = server.host.replica.open(primary, timeout).map_err(End::failed("connecting"))?;
        let limit = |socket: &TcpStream| {
            socket.set_read_timeout(Some(WAIT_MAX))?;
            socket.set_write_timeout(Some(timeout))
        };
        limit(&socket).map_err(End::failed("connecting"))?;
        let own = Socket(Arc::clone(&socket));
        let stream = if is_encrypted { Self::encrypt(server, own, timeout)? } else { Box::new(own) };
        Ok(Self { server, socket, stream, buf: Vec::new(), at: 0, last_io: Instant::now() })
    }

    /// Shakes hands, for as long as `timeout`.
    fn encrypt(server: &'static Server, mut socket: Socket, timeout: Duration) -> Result<Box<dyn Stream>, End> {
        let failed = |why: &dyn Display| End::Failed(format!("encrypting: {why}"));
        let config = server.host.tls.links().ok_or_else(|| failed(&"there is no tls-ca-cert-file"))?;
        let address = socket.0.peer_addr().map_err(|error| failed(&error))?;
        let name = ServerName::from(address.ip());
        let mut connection = ClientConnection::new(config, name).map_err(|error| failed(&error))?;
        let began = Instant::now();
        // Here rather than with the first bytes, where a socket that waits no longer would be an error.
        while connection.is_handshaking() {
            if server.host.replica.is_asked() {
                return Err(End::Interrupted);
            }
            if began.elapsed() >= timeout {
                return Err(End::failed("encrypting")(ErrorKind::TimedOut.into()));
            }
            match connection.complete_io(&mut socket) {
                Ok(_) => {}
                Err(error) if is_pause(&error) => {}
                Err(error) => return Err(End::failed("encrypting")(error)),
            }
        }
        Ok(Box::new(StreamOwned::new(connection, socket)))
    }

    /// Sends all of it.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.sides().1.send(bytes)
    }

    /// The bytes that have come and were not taken, and the side that sends meanwhile.
    pub(super) fn sides(&mut self) -> (&[u8], Sending<'_>) {
        (&self.buf[self.at..], Sending(&mut *self.stream))
    }

    /// The address of the primary, that of this side, and the file descriptor.
    pub(super) fn ends(&self) -> (String, String, i32) {
        let shown = |address: io::Result<SocketAddr>| address.map_or_else(|_| "?:0".to_owned(), |it| it.to_string());
        (shown(self.socket.peer_addr()), shown(self.socket.local_addr()), self.socket.as_raw_fd())
    }

    /// The bytes that have come and were not taken.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.buf[self.at..]
    }

    /// Takes the first bytes.
    pub(super) fn take(&mut self, len: usize) {
        self.at += len;
    }

    /// When something came last.
    pub(super) fn last_io(&self) -> Instant {
        self.last_io
    }

    /// From here on the primary is silent for too long, if it is.
    pub(super) fn begin_anew(&mut self) {
        self.last_io = Instant::now();
    }

    /// Waits a moment for bytes; returns how many have come, which may be none.
    ///
    /// # Errors
    /// The system's; `UnexpectedEof` at the end, `TimedOut` after `repl-timeout` of silence.
    pub(super) fn wait(&mut self) -> io::Result<usize> {
        self.buf.drain(..std::mem::take(&mut self.at));
        let before = self.buf.len();
        if self.buf.capacity() > KEPT_LEN_MAX && before < self.buf.capacity() / 8 {
            // A large command was here.
            self.buf.shrink_to(before.max(KEPT_LEN_MAX));
        }
        self.buf.resize(before + READ_LEN_MAX, 0);
        let read = self.read_socket(before);
        self.buf.truncate(before + *read.as_ref().unwrap_or(&0));
        read
    }

    fn read_socket(&mut self, from: usize) -> io::Result<usize> {
        match self.stream.read(&mut self.buf[from..]) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(len) => {
                self.last_io = Instant::now();
                self.server.replication.syncs.input_bytes.fetch_add(len as u64, Relaxed);
                Ok(len)
            }
            Err(error) if is_pause(&error) => {
                let timeout_s = self.server.host.config.read().repl_timeout;
                match self.last_io.elapsed() > Duration::from_secs(timeout_s) {
                    true => Err(ErrorKind::TimedOut.into()),
                    false => Ok(0),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// Waits for a line; returns it without its end. Empty lines, with which a primary keeps the link alive, are passed
    /// over.
    ///
    /// # Errors
    /// As of [`Link::wait`]; `InvalidData` if it is very long.
    pub(super) fn line(&mut self) -> io::Result<String> {
        loop {
            while let Some(end) = self.bytes().iter().position(|byte| *byte == b'\n') {
                let line = String::from_utf8_lossy(&self.bytes()[..end]).trim_end().to_owned();
                self.take(end + 1);
                if !line.is_empty() {
                    return Ok(line);
                }
            }
            if self.bytes().len() > LINE_LEN_MAX {
                return Err(io::Error::new(ErrorKind::InvalidData, "a line does not end"));
            }
            self.wait()?;
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.server.host.replica.forget(&self.socket);
    }
}
