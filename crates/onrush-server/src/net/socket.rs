//! A connection's byte stream: reads and writes that never wait, and what is known of the socket's readiness.

use std::hint::cold_path;
use std::io::{self, IoSlice, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use mio::event::Event;
use mio::{Interest, Registry, Token};
use rustix::net::{self, RecvFlags, SendFlags};

use crate::tls::stream::{Behind, STATE_BYTES, Sink, Slice, TlsStream};

/// A socket of a client, watched by its worker. Events are edge-triggered: a read that returns less than it could has
/// emptied the socket, and a new event announces the next bytes.
pub struct Socket {
    kind: Kind,
    readable: bool,
    writable: bool,
    /// The peer has closed its side, or there is an error: reading continues until a read reports it.
    read_closed: bool,
}

enum Kind {
    Tcp(mio::net::TcpStream),
    Unix(mio::net::UnixStream),
    Tls(Box<TlsStream>),
}

impl From<std::net::TcpStream> for Socket {
    fn from(stream: std::net::TcpStream) -> Self {
        Self::new(Kind::Tcp(mio::net::TcpStream::from_std(stream)))
    }
}

impl From<std::os::unix::net::UnixStream> for Socket {
    fn from(stream: std::os::unix::net::UnixStream) -> Self {
        Self::new(Kind::Unix(mio::net::UnixStream::from_std(stream)))
    }
}

impl From<TlsStream> for Socket {
    fn from(stream: TlsStream) -> Self {
        // The handshake may have read what no event will announce.
        Self { readable: true, ..Self::new(Kind::Tls(Box::new(stream))) }
    }
}

impl Socket {
    fn new(kind: Kind) -> Self {
        Self { kind, readable: false, writable: true, read_closed: false }
    }

    /// Its file descriptor.
    pub fn fd(&self) -> i32 {
        self.kind.as_fd().as_raw_fd()
    }

    /// Whether it is a Unix socket.
    pub fn is_unix(&self) -> bool {
        matches!(self.kind, Kind::Unix(_))
    }

    /// Starts watching the socket.
    ///
    /// # Errors
    /// The system cannot.
    pub fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        let interest = Interest::READABLE | Interest::WRITABLE;
        match &mut self.kind {
            Kind::Tcp(stream) => registry.register(stream, token, interest),
            Kind::Unix(stream) => registry.register(stream, token, interest),
            Kind::Tls(stream) => registry.register(stream.tcp_mut(), token, interest),
        }
    }

    /// Stops watching the socket. Registering it again reports its state at that time.
    ///
    /// # Errors
    /// The system cannot.
    pub fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        match &mut self.kind {
            Kind::Tcp(stream) => registry.deregister(stream),
            Kind::Unix(stream) => registry.deregister(stream),
            Kind::Tls(stream) => registry.deregister(stream.tcp_mut()),
        }
    }

    /// Notes what an event says.
    #[inline]
    pub fn note(&mut self, event: &Event) {
        let closed = event.is_read_closed() || event.is_error();
        self.read_closed |= closed;
        self.readable |= closed || event.is_readable();
        self.writable |= event.is_writable();
    }

    /// Whether there may be something to read.
    #[inline]
    pub fn is_readable(&self) -> bool {
        self.readable
    }

    /// Has the next read ask the system, whatever events have told so far.
    pub fn look(&mut self) {
        self.readable = true;
    }

    /// Whether it can take more, as far as is known.
    #[inline]
    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// Bytes of memory that it holds for what has come and was not read.
    #[inline]
    pub fn input_bytes(&self) -> usize {
        if let Kind::Tls(stream) = &self.kind { stream.input_bytes() } else { 0 }
    }

    /// Bytes of memory that it holds for what was written and is not with the system.
    #[inline]
    pub fn output_bytes(&self) -> usize {
        if let Kind::Tls(stream) = &self.kind { stream.output_bytes() } else { 0 }
    }

    /// Bytes of memory for encryption, its state included.
    #[inline]
    pub fn tls_bytes(&self) -> usize {
        match &self.kind {
            Kind::Tls(stream) => STATE_BYTES + stream.input_bytes() + stream.output_bytes(),
            _ => 0,
        }
    }

    /// Reads into `buf`, which is not empty; 0 is the end of the stream.
    ///
    /// # Errors
    /// `WouldBlock` when there is nothing to read now; those of the system.
    #[inline]
    pub fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if !self.readable {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if let Kind::Tls(_) = self.kind {
            return self.read_tls(&mut Slice(buf));
        }
        let wanted = buf.len();
        let read = retried(|| Ok(net::recv(self.kind.as_fd(), &mut *buf, RecvFlags::empty())?.0));
        self.note_read(wanted, &read);
        read
    }

    /// Reads at most `max` bytes and appends them to `buf`, which must have room for them.
    ///
    /// # Errors
    /// As [`Socket::read`].
    pub fn read_behind(&mut self, buf: &mut Vec<u8>, max: usize) -> io::Result<usize> {
        if let Kind::Tls(_) = self.kind {
            if !self.readable {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            return self.read_tls(&mut Behind { buf, max });
        }
        let free = buf.capacity() - buf.len();
        if free > max {
            // There is more room than asked for: bytes behind `max` must not be touched.
            let len = buf.len();
            buf.resize(len + max, 0);
            let read = self.read(&mut buf[len..]);
            buf.truncate(len + read.as_ref().copied().unwrap_or(0));
            return read;
        }
        if !self.readable {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let read = retried(|| Ok(rustix::io::read(self.kind.as_fd(), rustix::buffer::spare_capacity(buf))?));
        self.note_read(free, &read);
        read
    }

    #[inline(never)]
    fn read_tls(&mut self, sink: &mut impl Sink) -> io::Result<usize> {
        let Kind::Tls(stream) = &mut self.kind else { return Ok(0) };
        let read = stream.read(sink);
        self.readable = read.as_ref().is_ok_and(|read| read.may_go_on || self.read_closed);
        Ok(read?.len)
    }

    fn note_read(&mut self, wanted: usize, read: &io::Result<usize>) {
        self.readable = match read {
            Ok(len) => *len == wanted || self.read_closed,
            Err(_) => false,
        };
    }

    /// Writes from one buffer; returns how much.
    ///
    /// # Errors
    /// `WouldBlock` when the system takes nothing now; those of the system.
    #[inline]
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.written(|kind| match kind {
            Kind::Tls(stream) => stream.write(bytes),
            kind => Ok(net::send(kind.as_fd(), bytes, SendFlags::NOSIGNAL)?),
        })
    }

    /// Writes from several buffers in their order; returns how much.
    ///
    /// # Errors
    /// As [`Socket::write`].
    pub fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.written(|kind| match kind {
            Kind::Tcp(stream) => stream.write_vectored(slices),
            Kind::Unix(stream) => stream.write_vectored(slices),
            Kind::Tls(stream) => stream.write_vectored(slices),
        })
    }

    #[inline]
    fn written(&mut self, mut write: impl FnMut(&mut Kind) -> io::Result<usize>) -> io::Result<usize> {
        if !self.writable {
            cold_path();
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let written = retried(|| write(&mut self.kind));
        self.writable = written.is_ok();
        written
    }

    /// Tells the peer that nothing more comes. Errors do not matter: the peer may have closed already.
    pub fn shutdown(&mut self) {
        let _ = match &mut self.kind {
            Kind::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Kind::Unix(stream) => stream.shutdown(Shutdown::Write),
            Kind::Tls(stream) => {
                stream.shutdown();
                Ok(())
            }
        };
    }
}

impl AsFd for Kind {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
            Self::Tls(stream) => stream.tcp().as_fd(),
        }
    }
}

/// Calls again what a signal has interrupted.
#[inline(always)]
pub fn retried(mut call: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match call() {
            Ok(len) => return Ok(len),
            Err(error) => {
                cold_path();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    fn pair() -> (Socket, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let mut socket = Socket::from(ours);
        socket.readable = true;
        (socket, theirs)
    }

    #[test]
    fn a_short_read_has_emptied_the_socket() {
        let (mut socket, mut peer) = pair();
        peer.write_all(b"abcdef").unwrap();
        let mut buf = [0; 4];
        assert_eq!(socket.read(&mut buf).unwrap(), 4);
        assert!(socket.readable);
        assert_eq!(socket.read(&mut buf).unwrap(), 2);
        assert!(!socket.readable);
        assert_eq!(socket.read(&mut buf).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn what_is_read_behind_never_passes_its_limit() {
        let (mut socket, mut peer) = pair();
        peer.write_all(b"0123456789").unwrap();
        let mut roomy = Vec::with_capacity(64);
        roomy.extend_from_slice(b"x");
        assert_eq!(socket.read_behind(&mut roomy, 3).unwrap(), 3);
        let mut tight = Vec::with_capacity(4);
        assert_eq!(socket.read_behind(&mut tight, 4).unwrap(), 4);
        assert_eq!((roomy.as_slice(), tight.as_slice()), (&b"x012"[..], &b"3456"[..]));
        drop(peer);
        socket.read_closed = true;
        let mut rest = Vec::with_capacity(100);
        assert_eq!(socket.read_behind(&mut rest, 100).unwrap(), 3);
        assert_eq!(socket.read_behind(&mut rest, 97).unwrap(), 0);
    }

    #[test]
    fn a_full_socket_takes_nothing_until_told_otherwise() {
        let (mut socket, _peer) = pair();
        let bytes = vec![1; 1 << 20];
        while socket.write(&bytes).is_ok() {}
        assert!(!socket.writable);
        assert_eq!(socket.write(b"x").unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
}
