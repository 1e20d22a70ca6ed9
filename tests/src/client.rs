//! A raw synchronous client: bytes out, raw replies in, with timeouts on everything.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::argv::Argv;
use crate::resp::{Value, reply_len};

/// How long a read or a write may take before the server counts as stalled.
pub const TIMEOUT: Duration = Duration::from_secs(20);

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// One connection to a server.
pub struct Conn {
    stream: Stream,
    buf: Vec<u8>,
    start: usize,
    scratch: Vec<u8>,
}

impl Conn {
    /// Connects to a port of this machine.
    pub fn tcp(port: u16) -> io::Result<Conn> {
        Conn::tcp_at((Ipv4Addr::LOCALHOST, port).into(), TIMEOUT)
    }

    /// Connects to an address, which may take `at_most`.
    pub fn tcp_at(address: SocketAddr, at_most: Duration) -> io::Result<Conn> {
        let stream = TcpStream::connect_timeout(&address, at_most)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        Ok(Conn::over(Stream::Tcp(stream)))
    }

    /// Connects to a Unix socket.
    pub fn unix(path: &Path) -> io::Result<Conn> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        Ok(Conn::over(Stream::Unix(stream)))
    }

    fn over(stream: Stream) -> Conn {
        Conn { stream, buf: Vec::new(), start: 0, scratch: vec![0; 64 * 1024] }
    }

    /// A second handle on the same connection, so that one thread can write while another reads.
    pub fn writer(&self) -> io::Result<Conn> {
        Ok(Conn::over(match &self.stream {
            Stream::Tcp(s) => Stream::Tcp(s.try_clone()?),
            Stream::Unix(s) => Stream::Unix(s.try_clone()?),
        }))
    }

    /// Changes the read timeout.
    pub fn set_timeout(&mut self, timeout: Duration) {
        match &self.stream {
            Stream::Tcp(s) => s.set_read_timeout(Some(timeout)),
            Stream::Unix(s) => s.set_read_timeout(Some(timeout)),
        }
        .expect("a timeout above zero");
    }

    /// Changes the write timeout.
    pub fn set_write_timeout(&mut self, timeout: Duration) {
        match &self.stream {
            Stream::Tcp(s) => s.set_write_timeout(Some(timeout)),
            Stream::Unix(s) => s.set_write_timeout(Some(timeout)),
        }
        .expect("a timeout above zero");
    }

    /// Writes all the bytes.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.stream {
            Stream::Tcp(s) => s.write_all(bytes),
            Stream::Unix(s) => s.write_all(bytes),
        }
    }

    /// Writes as much as the kernel takes in one call; returns how much.
    pub fn send_some(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.stream {
            Stream::Tcp(s) => s.write(bytes),
            Stream::Unix(s) => s.write(bytes),
        }
    }

    /// Makes reads and writes return at once with `WouldBlock` instead of waiting (or wait again).
    pub fn set_nonblocking(&mut self, nonblocking: bool) {
        match &self.stream {
            Stream::Tcp(s) => s.set_nonblocking(nonblocking),
            Stream::Unix(s) => s.set_nonblocking(nonblocking),
        }
        .expect("a socket");
    }

    /// Makes this connection end with a reset, so that data under way in both directions is lost.
    pub fn reset_on_drop(&self) {
        if let Stream::Tcp(stream) = &self.stream {
            rustix::net::sockopt::set_socket_linger(stream, Some(Duration::ZERO)).expect("a socket");
        }
    }

    /// Closes the connection now: after a mere `drop`, a child that another test has just forked may hold it open until
    /// it runs its own program.
    pub fn close(self) {
        let _ = match &self.stream {
            Stream::Tcp(s) => s.shutdown(Shutdown::Both),
            Stream::Unix(s) => s.shutdown(Shutdown::Both),
        };
    }

    /// Tells the server that no more bytes will come, and goes on reading.
    pub fn half_close(&mut self) {
        let _ = match &self.stream {
            Stream::Tcp(s) => s.shutdown(Shutdown::Write),
            Stream::Unix(s) => s.shutdown(Shutdown::Write),
        };
    }

    /// Reads available bytes, at most 64 kB, into the buffer; 0 means the server has closed the connection.
    pub fn fill(&mut self) -> io::Result<usize> {
        let got = loop {
            let read = match &mut self.stream {
                Stream::Tcp(s) => s.read(&mut self.scratch),
                Stream::Unix(s) => s.read(&mut self.scratch),
            };
            match read {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        if self.start > 0 && self.start * 2 >= self.buf.len() {
            self.buf.drain(..self.start);
            self.start = 0;
        }
        self.buf.extend_from_slice(&self.scratch[..got]);
        Ok(got)
    }

    /// The next raw reply if it is in the buffer already. Errors: bytes that are not RESP.
    pub fn buffered_reply(&mut self) -> io::Result<Option<&[u8]>> {
        let len =
            reply_len(&self.buf[self.start..]).map_err(|reason| io::Error::new(ErrorKind::InvalidData, reason))?;
        Ok(len.map(|len| {
            self.start += len;
            &self.buf[self.start - len..self.start]
        }))
    }

    /// Reads one complete raw reply.
    ///
    /// Errors: `UnexpectedEof` (or a reset) when the server closed, `WouldBlock` on timeout, `InvalidData` on bytes
    /// that are not RESP.
    pub fn read_reply(&mut self) -> io::Result<Vec<u8>> {
        loop {
            if let Some(reply) = self.buffered_reply()? {
                return Ok(reply.to_vec());
            }
            if self.fill()? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Reads and drops exactly `len` bytes. Errors: `UnexpectedEof` when the server closes before.
    pub fn discard(&mut self, mut len: u64) -> io::Result<()> {
        while len > 0 {
            if self.buffered_len() == 0 && self.fill()? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            let taken = len.min(self.buffered_len() as u64);
            self.start += taken as usize;
            len -= taken;
        }
        Ok(())
    }

    /// Drops what is there, and reads once if nothing is; returns how many lines have ended. For lines of any length.
    ///
    /// Errors: as [`Conn::read_reply`].
    pub fn drop_lines(&mut self) -> io::Result<usize> {
        if self.buffered_len() == 0 && self.fill()? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let lines = self.buf[self.start..].iter().filter(|byte| **byte == b'\n').count();
        self.start = self.buf.len();
        Ok(lines)
    }

    /// Reads everything until the server closes the connection (a reset counts as closing).
    pub fn read_to_close(&mut self) -> io::Result<Vec<u8>> {
        loop {
            match self.fill() {
                Ok(0) => break,
                Ok(_) => {}
                Err(e) if e.kind() == ErrorKind::ConnectionReset => break,
                Err(e) => return Err(e),
            }
        }
        let all = self.buf.split_off(self.start);
        self.buf.clear();
        self.start = 0;
        Ok(all)
    }

    /// Drops what has been read but not yet taken.
    pub fn forget(&mut self) {
        self.buf.clear();
        self.start = 0;
    }

    /// The number of bytes read but not yet taken as replies.
    pub fn buffered_len(&self) -> usize {
        self.buf.len() - self.start
    }

    /// Sends one command.
    pub fn send_command(&mut self, argv: &Argv) -> io::Result<()> {
        let mut out = Vec::new();
        argv.encode(&mut out);
        self.send(&out)
    }

    /// Sends one command and reads its raw reply.
    pub fn try_call(&mut self, argv: &Argv) -> io::Result<Vec<u8>> {
        self.send_command(argv)?;
        self.read_reply()
    }

    /// Sends one command and returns its decoded reply. Panics when there is none.
    pub fn call(&mut self, argv: &Argv) -> Value {
        let raw = self.try_call(argv).unwrap_or_else(|e| panic!("no reply to {argv}: {e}"));
        Value::parse(&raw).expect("a complete reply")
    }

    /// Like [`Conn::call`], the command in redis-cli's quoting.
    pub fn run(&mut self, line: &str) -> Value {
        self.call(&Argv::parse(line).expect("balanced quotes"))
    }

    /// Sends all commands with one write, then reads one raw reply for each. Panics when one is missing.
    pub fn pipeline(&mut self, commands: &[Argv]) -> Vec<Vec<u8>> {
        self.try_pipeline(commands).unwrap_or_else(|e| panic!("{e}"))
    }

    /// Like [`Conn::pipeline`]. Errors: a reply that is missing, with the command it belongs to.
    pub fn try_pipeline(&mut self, commands: &[Argv]) -> Result<Vec<Vec<u8>>, String> {
        let mut out = Vec::new();
        commands.iter().for_each(|c| c.encode(&mut out));
        self.send(&out).map_err(|e| format!("the pipeline is not taken: {e}"))?;
        let reply = |(i, argv): (usize, &Argv)| {
            self.read_reply().map_err(|e| format!("no reply to command {i} of a pipeline, {argv}: {e}"))
        };
        commands.iter().enumerate().map(reply).collect()
    }

    /// The number behind `name:` in INFO's text, if that line is there.
    pub fn info_number(&mut self, name: &str) -> Option<i64> {
        let text = self.run("INFO everything").text();
        let line = text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(':'))?;
        line.trim().parse().ok()
    }
}
