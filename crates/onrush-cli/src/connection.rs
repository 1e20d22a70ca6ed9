//! A connection: a TCP or Unix socket, commands out, replies in.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use onrush_resp::ReplyError;
use socket2::{SockRef, TcpKeepalive};

use crate::fail::{Fail, system_message};
use crate::reply::{Decoder, Reply};
use crate::target::{Family, Target};

/// How much is read at once.
const READ_LEN: usize = 64 << 10;
/// A batch up to this length is written at once, before its replies are read.
const SMALL_BATCH_LEN_MAX: usize = 4 << 10;
/// A longer one is written in pieces of about this length.
const SEND_LEN: usize = 64 << 10;
/// How often a read checks whether the user has cancelled.
const CANCEL_POLL: Duration = Duration::from_millis(50);

/// A socket of any kind.
pub enum Socket {
    /// TCP.
    Tcp(TcpStream),
    /// Unix.
    Unix(UnixStream),
    /// TLS over TCP.
    #[cfg(feature = "tls")]
    Tls(Box<crate::tls::TlsStream>),
}

/// Runs an expression on whichever socket it is.
macro_rules! each {
    ($socket:expr, $inner:ident => $body:expr) => {
        match $socket {
            Socket::Tcp($inner) => $body,
            Socket::Unix($inner) => $body,
            #[cfg(feature = "tls")]
            Socket::Tls($inner) => $body,
        }
    };
}

impl Socket {
    fn open(target: &Target) -> io::Result<Socket> {
        if let Some(path) = &target.socket {
            return UnixStream::connect(path).map(Socket::Unix);
        }
        let mut failure = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for address in (target.host.as_str(), target.port).to_socket_addrs()? {
            if let Some(wanted) = target.only.filter(|only| (*only == Family::V4) != address.is_ipv4()) {
                let version = if wanted == Family::V4 { 4 } else { 6 };
                if failure.kind() == io::ErrorKind::AddrNotAvailable {
                    failure = io::Error::new(failure.kind(), format!("the host has no address of IPv{version}"));
                }
                continue;
            }
            let connected = match target.connect_timeout {
                Some(timeout) if !timeout.is_zero() => TcpStream::connect_timeout(&address, timeout),
                _ => TcpStream::connect(address),
            };
            match connected {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    let keepalive = TcpKeepalive::new().with_time(Duration::from_secs(15));
                    SockRef::from(&stream).set_tcp_keepalive(&keepalive)?;
                    stream.set_read_timeout(target.read_timeout)?;
                    #[cfg(feature = "tls")]
                    if target.tls {
                        return crate::tls::TlsStream::open(stream, target).map(|tls| Socket::Tls(Box::new(tls)));
                    }
                    return Ok(Socket::Tcp(stream));
                }
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    /// A second handle on the same socket; `None` where there can be none.
    pub fn try_clone(&self) -> Option<Socket> {
        match self {
            Socket::Tcp(stream) => stream.try_clone().ok().map(Socket::Tcp),
            Socket::Unix(stream) => stream.try_clone().ok().map(Socket::Unix),
            #[cfg(feature = "tls")]
            Socket::Tls(stream) => stream.try_clone().ok().map(|stream| Socket::Tls(Box::new(stream))),
        }
    }

    /// Bounds the time a read may take.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        SockRef::from(self).set_read_timeout(timeout)
    }

    /// Ends both directions, which wakes a thread that reads.
    pub fn shut_down(&self) {
        let _ = SockRef::from(self).shutdown(std::net::Shutdown::Both);
    }

    fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        SockRef::from(self).set_nonblocking(nonblocking)
    }
}

impl std::os::fd::AsFd for Socket {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        each!(self, stream => stream.as_fd())
    }
}

impl Read for Socket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        each!(self, stream => stream.read(into))
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        each!(self, stream => stream.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        each!(self, stream => stream.flush())
    }
}

/// Why a reply did not come.
#[derive(Debug)]
pub enum ReadError {
    /// The server ended the connection, or it broke.
    Closed(String),
    /// The server sent something other than a reply.
    Malformed(String),
    /// The user pressed Ctrl-C.
    Cancelled,
}

impl ReadError {
    /// In words.
    pub fn message(&self) -> &str {
        match self {
            ReadError::Closed(message) | ReadError::Malformed(message) => message,
            ReadError::Cancelled => "cancelled",
        }
    }
}

impl From<ReplyError> for ReadError {
    fn from(error: ReplyError) -> ReadError {
        ReadError::Malformed(format!("Protocol error, {error}"))
    }
}

impl From<ReadError> for Fail {
    fn from(error: ReadError) -> Fail {
        Fail::new(format!("Error: {}", error.message()))
    }
}

/// A logged-in connection.
pub struct Connection {
    socket: Socket,
    decoder: Decoder,
    input: Vec<u8>,
    at: usize,
    cancel: Option<Arc<AtomicBool>>,
    /// The database selected on connecting; 0 when the server refused.
    pub db: i64,
}

impl Connection {
    /// Connects, logs in, chooses protocol and database. If the server refuses any of these, a message goes to standard
    /// error and the connection stays usable, as in redis-cli.
    ///
    /// # Errors
    /// When there is no connection; says so in redis-cli's words.
    pub fn open(target: &Target) -> Result<Connection, Fail> {
        let mut connection = Connection::connect(target)?;
        connection.log_in(target)?;
        Ok(connection)
    }

    /// As [`open`](Self::open), for a mode that could do nothing useful without the login and the database.
    ///
    /// # Errors
    /// The same, and when the server refuses either, which has been told then.
    pub fn open_logged_in(target: &Target) -> Result<Connection, Fail> {
        let mut connection = Connection::connect(target)?;
        if connection.log_in(target)? { Ok(connection) } else { Err(Fail::silent()) }
    }

    fn connect(target: &Target) -> Result<Connection, Fail> {
        let started = Instant::now();
        let socket = Socket::open(target).map_err(|error| {
            let place = match &target.socket {
                Some(path) => path.display().to_string(),
                None => format!("{}:{}", target.host, target.port),
            };
            Fail::new(format!("Could not connect to Redis at {place}: {}", system_message(&error)))
        })?;
        if target.verbose {
            complain!("Connected to {target} in {:.3} ms.", started.elapsed().as_secs_f64() * 1e3);
        }
        Ok(Connection { socket, decoder: Decoder::default(), input: Vec::new(), at: 0, cancel: None, db: 0 })
    }

    /// Whether the server took login and database.
    fn log_in(&mut self, target: &Target) -> Result<bool, Fail> {
        if let Some(password) = &target.password {
            let mut words = vec![b"AUTH".to_vec()];
            words.extend(target.user.clone().filter(|user| !user.is_empty()));
            words.push(password.clone());
            if let Some(error) = self.call(&words)?.error() {
                complain!("AUTH failed: {error}");
                return Ok(false);
            }
            if target.verbose {
                let user = target.user.as_deref().filter(|user| !user.is_empty()).unwrap_or(b"default");
                complain!("Logged in as {}.", String::from_utf8_lossy(user));
            }
        }
        if target.db != 0 {
            if let Some(error) = self.call(&["SELECT", &target.db.to_string()])?.error() {
                complain!("SELECT {} failed: {error}", target.db);
                return Ok(false);
            }
            self.db = target.db;
        }
        if target.verbose {
            let (db, protocol) = (self.db, if target.resp3 { 3 } else { 2 });
            complain!("Database {db}, RESP{protocol}.");
        }
        if target.resp3
            && let Some(error) = self.call(&["HELLO", "3"])?.error()
            && !target.resp3_optional
        {
            complain!("HELLO 3 failed: {error}");
        }
        Ok(true)
    }

    /// From now on, waiting for a reply ends when `flag` is raised.
    pub fn cancel_on(&mut self, flag: Arc<AtomicBool>) {
        let _ = self.socket.set_read_timeout(Some(CANCEL_POLL));
        self.cancel = Some(flag);
    }

    /// The socket, and input that has been read ahead; for modes with a protocol of their own.
    pub fn into_parts(self) -> (Socket, Vec<u8>) {
        let rest = self.input[self.at..].to_vec();
        (self.socket, rest)
    }

    /// The socket.
    pub fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Sends one command.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn send<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Result<(), ReadError> {
        let mut bytes = Vec::new();
        encode(&mut bytes, words);
        self.send_bytes(&bytes)
    }

    /// Sends bytes as they are.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn send_bytes(&mut self, bytes: &[u8]) -> Result<(), ReadError> {
        self.socket.write_all(bytes).map_err(|error| ReadError::Closed(system_message(&error)))
    }

    /// Waits for the next reply or push.
    ///
    /// # Errors
    /// When the connection ends, the server sends something other than a reply, or the user cancels.
    pub fn read(&mut self) -> Result<Reply, ReadError> {
        loop {
            if let Some(reply) = self.buffered()? {
                return Ok(reply);
            }
            self.fill()?;
        }
    }

    /// The next reply from bytes that have been read already.
    ///
    /// # Errors
    /// When the bytes are not a reply.
    pub fn buffered(&mut self) -> Result<Option<Reply>, ReadError> {
        let reply = self.decoder.next(&self.input, &mut self.at)?;
        if self.at == self.input.len() {
            self.input.clear();
            self.at = 0;
        }
        Ok(reply)
    }

    /// Reads once, waiting for bytes.
    ///
    /// # Errors
    /// When the connection ends or the user cancels.
    pub fn fill(&mut self) -> Result<(), ReadError> {
        // Checked even while replies come without a pause.
        if self.cancel.as_ref().is_some_and(|flag| flag.swap(false, Ordering::Relaxed)) {
            return Err(ReadError::Cancelled);
        }
        self.input.drain(..self.at);
        self.at = 0;
        let filled = self.input.len();
        self.input.resize(filled + READ_LEN, 0);
        let read = loop {
            match self.socket.read(&mut self.input[filled..]) {
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    match &self.cancel {
                        Some(flag) if flag.swap(false, Ordering::Relaxed) => break Err(ReadError::Cancelled),
                        Some(_) => {}
                        None => break Err(ReadError::Closed("The server did not reply in time".to_owned())),
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Err(ReadError::Closed(system_message(&error))),
                Ok(0) => break Err(ReadError::Closed("Server closed the connection".to_owned())),
                Ok(read) => break Ok(read),
            }
        };
        self.input.truncate(filled + *read.as_ref().unwrap_or(&0));
        read.map(drop)
    }

    /// Sends a command and waits for its reply; pushes in between are dropped.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn call<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Result<Reply, ReadError> {
        self.send(words)?;
        self.read_reply()
    }

    /// Waits for the next reply other than a push.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn read_reply(&mut self) -> Result<Reply, ReadError> {
        loop {
            match self.read()? {
                Reply::Push(_) => {}
                reply => return Ok(reply),
            }
        }
    }

    /// Sends a command and waits for its reply, which must not be an error.
    ///
    /// # Errors
    /// When the connection is gone or the server refuses.
    pub fn ask<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Result<Reply, Fail> {
        self.call(words)?.granted()
    }

    /// Sends the commands that `source` appends one by one until it returns that there are no more, `count` in all, and
    /// passes each reply to `take`, with the time since the start. It writes and reads at the same time, so no number
    /// of commands can block both ends or use much memory.
    ///
    /// # Errors
    /// When the connection is gone or the user cancels.
    pub fn batch(
        &mut self,
        mut source: impl FnMut(&mut Vec<u8>) -> bool + Send + 'static,
        count: u64,
        mut take: impl FnMut(u64, Reply, Duration),
    ) -> Result<(), ReadError> {
        let started = Instant::now();
        let mut bytes = Vec::new();
        let mut goes_on = true;
        while goes_on && bytes.len() <= SMALL_BATCH_LEN_MAX {
            goes_on = source(&mut bytes);
        }
        let mut writer = None;
        if goes_on {
            let no_clone = || ReadError::Closed("The socket cannot be read and written at once.".to_owned());
            let mut socket = self.socket.try_clone().ok_or_else(no_clone)?;
            writer = Some(std::thread::spawn(move || {
                while goes_on && socket.write_all(&bytes).is_ok() {
                    bytes.clear();
                    while goes_on && bytes.len() < SEND_LEN {
                        goes_on = source(&mut bytes);
                    }
                }
                // A socket that fails is noticed where the replies are read.
                let _ = socket.write_all(&bytes);
            }));
        } else {
            // A batch that fits into any socket's buffer needs no thread.
            self.send_bytes(&bytes)?;
        }
        for index in 0..count {
            match self.read_reply() {
                Ok(reply) => take(index, reply, started.elapsed()),
                Err(error) => {
                    self.socket.shut_down();
                    return Err(error);
                }
            }
        }
        if let Some(writer) = writer {
            let _ = writer.join();
        }
        Ok(())
    }

    /// Whether bytes read from the socket still wait to be decoded.
    pub fn has_buffered(&self) -> bool {
        self.at < self.input.len()
    }

    /// Whether the server has ended an idle connection; reads what it sent before.
    pub fn is_dead(&mut self) -> bool {
        if self.socket.set_nonblocking(true).is_err() {
            return true;
        }
        let mut bytes = [0; 4096];
        let dead = loop {
            match self.socket.read(&mut bytes) {
                Ok(0) => break true,
                Ok(len) => self.input.extend_from_slice(&bytes[..len]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break error.kind() != io::ErrorKind::WouldBlock,
            }
        };
        dead || self.socket.set_nonblocking(false).is_err()
    }
}

/// Appends a command as RESP.
pub fn encode<W: AsRef<[u8]>>(out: &mut Vec<u8>, words: &[W]) {
    out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        let word = word.as_ref();
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}
