//! Connections to the server: they connect and greet while blocking, then a thread's poll takes them.

pub(crate) mod cluster;
pub(crate) mod listening;
pub(crate) mod proxy;
pub(crate) mod target;
pub(crate) mod tls;

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;

use mio::event::Source;
use mio::{Interest, Registry, Token};

use crate::error::Error;
use crate::load::scanner::Scanner;
use crate::net::target::Target;
#[cfg(feature = "tls")]
use crate::net::tls::TlsStream;
use crate::options::Options;

/// How long the server may be silent during the TLS handshake.
#[cfg(feature = "tls")]
const HANDSHAKE_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(5);

/// A connection to the server, of streams of either kind.
#[derive(Debug)]
pub enum Stream<T, U> {
    Tcp(T),
    Unix(U),
    #[cfg(feature = "tls")]
    Tls(Box<TlsStream<T>>),
}

/// A connected socket that does not block.
pub type Socket = Stream<mio::net::TcpStream, mio::net::UnixStream>;

/// A stream that blocks, for a greeting and for questions beside the load.
pub type Blocking = Stream<TcpStream, UnixStream>;

impl<T: Read, U: Read> Read for Stream<T, U> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(into),
            Stream::Unix(stream) => stream.read(into),
            #[cfg(feature = "tls")]
            Stream::Tls(stream) => stream.read(into),
        }
    }
}

impl<T: Write, U: Write> Write for Stream<T, U> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
            #[cfg(feature = "tls")]
            Stream::Tls(stream) => stream.write(bytes),
        }
    }

    /// Writes the bytes that wait inside.
    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Tcp(_) | Stream::Unix(_) => Ok(()),
            #[cfg(feature = "tls")]
            Stream::Tls(stream) => stream.flush(),
        }
    }
}

impl Blocking {
    /// Connects.
    ///
    /// # Errors
    /// [`Error::Unreachable`] in redis-benchmark's words.
    pub fn connect(target: &Target) -> Result<Blocking, Error> {
        let failed = |error: io::Error| {
            let reason = match error.raw_os_error() {
                Some(code) => errno::Errno(code).to_string(),
                None => error.to_string(),
            };
            Error::Unreachable { target: target.to_string(), reason }
        };
        if let Some(path) = &target.socket {
            return UnixStream::connect(path).map(Blocking::Unix).map_err(failed);
        }
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for address in (target.host.as_str(), target.port).to_socket_addrs().map_err(failed)? {
            match TcpStream::connect(address) {
                Ok(stream) => {
                    stream.set_nodelay(true).map_err(failed)?;
                    #[cfg(feature = "tls")]
                    if let Some(tls) = &target.tls {
                        // A server without TLS reads the greeting as the start of a long command, and does not answer.
                        stream.set_read_timeout(Some(HANDSHAKE_TIMEOUT)).map_err(failed)?;
                        let opened = tls.open(stream).map_err(|error| match error.kind() {
                            io::ErrorKind::WouldBlock => failed(io::Error::other("no answer to the TLS handshake")),
                            _ => failed(error),
                        })?;
                        opened.socket.set_read_timeout(None).map_err(failed)?;
                        return Ok(Blocking::Tls(Box::new(opened)));
                    }
                    return Ok(Blocking::Tcp(stream));
                }
                Err(error) => last = error,
            }
        }
        Err(failed(last))
    }

    /// Sends commands, reads `replies` replies and returns their bytes.
    ///
    /// # Errors
    /// Those of the socket, and [`Error::Refused`] for an error reply.
    pub fn ask(&mut self, commands: &[u8], replies: u64) -> Result<Vec<u8>, Error> {
        self.write_all(commands)?;
        let (mut scanner, mut got, mut seen) = (Scanner::default(), Vec::new(), 0);
        let mut piece = [0; 4096];
        while seen < replies {
            let len = self.read(&mut piece)?;
            if len == 0 {
                return Err(Error::Closed);
            }
            got.extend_from_slice(&piece[..len]);
            let some = scanner.scan(&piece[..len])?;
            seen += some.replies;
            if let Some(error) = some.error {
                return Err(Error::Refused(error));
            }
        }
        Ok(got)
    }

    /// Turns it into a socket that does not block.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn into_socket(self) -> io::Result<Socket> {
        Ok(match self {
            Blocking::Tcp(stream) => {
                stream.set_nonblocking(true)?;
                Socket::Tcp(mio::net::TcpStream::from_std(stream))
            }
            Blocking::Unix(stream) => {
                stream.set_nonblocking(true)?;
                Socket::Unix(mio::net::UnixStream::from_std(stream))
            }
            #[cfg(feature = "tls")]
            Blocking::Tls(stream) => Socket::Tls(Box::new(stream.reshape(|stream| {
                stream.set_nonblocking(true)?;
                Ok(mio::net::TcpStream::from_std(stream))
            })?)),
        })
    }
}

/// One command as it goes over the wire.
pub fn encode(args: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", args.len());
    args.iter().for_each(|arg| bytes.push_str(&format!("${}\r\n{arg}\r\n", arg.len())));
    bytes.into_bytes()
}

/// The first commands of every connection, and the number of their replies.
pub fn greeting(options: &Options, target: &Target) -> (Vec<u8>, u64) {
    let (mut bytes, mut count) = (Vec::new(), 0);
    let mut add = |args: &[&str]| {
        bytes.extend_from_slice(&encode(args));
        count += 1;
    };
    match (&target.user, &target.password) {
        (Some(user), Some(password)) => add(&["AUTH", user, password]),
        (None, Some(password)) => add(&["AUTH", password]),
        _ => {}
    }
    if options.resp3 {
        add(&["HELLO", "3"]);
    }
    if options.tracking {
        add(&["CLIENT", "TRACKING", "on"]);
    }
    if options.db != 0 {
        add(&["SELECT", &options.db.to_string()]);
    }
    (bytes, count)
}

/// A greeted connection.
///
/// # Errors
/// The greeting's, and those of connecting.
pub fn connect(options: &Options, target: &Target) -> Result<Blocking, Error> {
    let mut stream = Blocking::connect(target)?;
    let (greeting, replies) = greeting(options, target);
    if replies > 0 {
        stream.ask(&greeting, replies)?;
    }
    Ok(stream)
}

impl Socket {
    /// Begins to connect to a target, whose address is known unless it is a Unix socket. The caller does the greeting
    /// and the encryption.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn begin(target: &Target, address: Option<SocketAddr>) -> io::Result<Socket> {
        if let Some(path) = &target.socket {
            return Ok(Socket::Unix(mio::net::UnixStream::connect(path)?));
        }
        let address = address.ok_or_else(|| io::Error::other("the server's address is not known"))?;
        let stream = mio::net::TcpStream::connect(address)?;
        // Errors of connecting show later.
        _ = stream.set_nodelay(true);
        #[cfg(feature = "tls")]
        if let Some(tls) = &target.tls {
            return Ok(Socket::Tls(Box::new(tls.start(stream)?)));
        }
        Ok(Socket::Tcp(stream))
    }

    /// Whether the two sides are connected, and agree on encryption if there is one.
    ///
    /// # Errors
    /// Why there is no connection.
    pub fn is_open(&self) -> io::Result<bool> {
        let is_connected = |error: Option<io::Error>, peer: io::Result<()>| match (error, peer) {
            (Some(error), _) => Err(error),
            (None, Ok(())) => Ok(true),
            (None, Err(error)) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
            (None, Err(error)) => Err(error),
        };
        match self {
            Socket::Tcp(stream) => is_connected(stream.take_error()?, stream.peer_addr().map(drop)),
            Socket::Unix(stream) => is_connected(stream.take_error()?, stream.peer_addr().map(drop)),
            #[cfg(feature = "tls")]
            Socket::Tls(stream) => {
                let tcp = &stream.socket;
                Ok(is_connected(tcp.take_error()?, tcp.peer_addr().map(drop))? && !stream.is_handshaking())
            }
        }
    }

    /// The other side's address, of a TCP connection.
    pub fn peer(&self) -> Option<SocketAddr> {
        match self {
            Socket::Tcp(stream) => stream.peer_addr().ok(),
            Socket::Unix(_) => None,
            #[cfg(feature = "tls")]
            Socket::Tls(stream) => stream.socket.peer_addr().ok(),
        }
    }

    /// Whether bytes that it took still wait inside for a flush.
    pub fn holds_output(&self) -> bool {
        match self {
            Socket::Tcp(_) | Socket::Unix(_) => false,
            #[cfg(feature = "tls")]
            Socket::Tls(stream) => stream.holds_output(),
        }
    }

    /// Whether a read that does not fill its buffer has taken everything for now.
    pub fn reads_all(&self) -> bool {
        matches!(self, Socket::Tcp(_) | Socket::Unix(_))
    }

    /// Registers it with a poll.
    ///
    /// # Errors
    /// The poll's.
    pub fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        let interest = Interest::READABLE | Interest::WRITABLE;
        match self {
            Socket::Tcp(stream) => stream.register(registry, token, interest),
            Socket::Unix(stream) => stream.register(registry, token, interest),
            #[cfg(feature = "tls")]
            Socket::Tls(stream) => stream.socket.register(registry, token, interest),
        }
    }
}
