//! The encrypted byte stream of a client whose handshake is over.

use std::cell::RefCell;
use std::io::{self, ErrorKind, IoSlice};
use std::net::Shutdown;

use mio::net::TcpStream;
use rustix::net::{self, RecvFlags, SendFlags};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, InsufficientSizeError, UnbufferedStatus, WriteTraffic,
};

use super::RECORD_LEN_MAX;
use super::errors::reason;
use crate::log::Complaints;
use crate::net::socket::retried;

/// Most bytes that are read from the socket at once, as of a plain connection.
const READ_LEN_MAX: usize = 128 * 1024;

/// Most bytes of replies that are encrypted and not taken by the system. Only so many are held twice, as replies and
/// encrypted, while a client does not read.
const SEALED_LEN_MAX: usize = 64 * 1024;

/// Bytes that records and a change of keys add to so many.
const SEALING_LEN_MAX: usize = 4 * 1024;

/// Most bytes of a record.
const RECORD_PLAIN_LEN: usize = 16 * 1024;

/// Most bytes of the record that ends a stream, with a change of keys before it.
const GOODBYE_LEN_MAX: usize = 256;

/// At most some log lines about broken streams in a while.
static BROKEN: Complaints = Complaints::new();

/// What a connection takes beside its buffers: keys and state, a little more than was measured.
pub const STATE_BYTES: usize = 7 * 1024;

/// Most bytes of a message that spans records. A client has only short ones to send behind its handshake.
const MESSAGE_LEN_MAX: usize = 2 * 1024;

/// Most bytes that are kept until their record, or their message, is complete.
const PARTIAL_LEN_MAX: usize = MESSAGE_LEN_MAX + RECORD_LEN_MAX;

/// Memory of a thread for what passes through.
struct Scratch {
    /// What is read, and decrypted in place.
    input: Vec<u8>,
    /// What is encrypted.
    output: Vec<u8>,
    /// Parts of replies that share a record.
    joined: Vec<u8>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = const {
        RefCell::new(Scratch { input: Vec::new(), output: Vec::new(), joined: Vec::new() })
    };
}

/// A client's TCP connection under TLS. It reads and writes as a socket does, without waiting.
///
/// Replies count as written once all of their records are with the system: a write that gets stuck in the middle says
/// `WouldBlock`, and the next one, which must begin with the same bytes, goes on with the records.
pub struct TlsStream {
    tcp: TcpStream,
    tls: UnbufferedServerConnection,
    /// Encrypted bytes that do not make a record yet.
    partial: Vec<u8>,
    /// Decrypted bytes that nobody has read yet, from `plain_at` on; of one read at most.
    plain: Vec<u8>,
    plain_at: usize,
    /// Encrypted bytes that the system has not taken yet, from `sealed_at` on.
    sealed: Vec<u8>,
    sealed_at: usize,
    /// Bytes of replies that are in them.
    promised: usize,
    /// The client has said that it sends no more, or has closed its side.
    is_at_end: bool,
    /// The stream is broken: nothing can be written any more.
    is_broken: bool,
}

/// What a handshake has left.
pub struct Established {
    /// The state of the protocol.
    pub tls: UnbufferedServerConnection,
    /// Encrypted bytes that do not make a record yet.
    pub partial: Vec<u8>,
    /// Decrypted bytes that came with the end of the handshake.
    pub plain: Vec<u8>,
    /// The client has said that it sends no more.
    pub is_at_end: bool,
}

/// What a read has brought.
pub struct Read {
    /// The number of bytes.
    pub len: usize,
    /// Whether another read may bring more without a new event.
    pub may_go_on: bool,
}

/// Where decrypted bytes go.
pub trait Sink {
    /// Bytes that it takes at most.
    fn room(&self) -> usize;

    /// Takes bytes, no more than there is room for.
    fn put(&mut self, bytes: &[u8]);
}

/// The rest of a buffer.
pub struct Slice<'a>(pub &'a mut [u8]);

impl Sink for Slice<'_> {
    fn room(&self) -> usize {
        self.0.len()
    }

    fn put(&mut self, bytes: &[u8]) {
        let (taken, rest) = std::mem::take(&mut self.0).split_at_mut(bytes.len());
        taken.copy_from_slice(bytes);
        self.0 = rest;
    }
}

/// A buffer that is appended to, up to a length.
pub struct Behind<'a> {
    /// The buffer.
    pub buf: &'a mut Vec<u8>,
    /// Bytes that may still be added.
    pub max: usize,
}

impl Sink for Behind<'_> {
    fn room(&self) -> usize {
        self.max
    }

    fn put(&mut self, bytes: &[u8]) {
        self.buf.extend_from_slice(bytes);
        self.max -= bytes.len();
    }
}

impl TlsStream {
    /// A stream after its handshake.
    pub fn new(tcp: std::net::TcpStream, established: Established) -> Self {
        let Established { tls, partial, plain, is_at_end } = established;
        Self {
            tcp: TcpStream::from_std(tcp),
            tls,
            partial,
            plain,
            plain_at: 0,
            sealed: Vec::new(),
            sealed_at: 0,
            promised: 0,
            is_at_end,
            is_broken: false,
        }
    }

    /// The connection below.
    pub fn tcp(&self) -> &TcpStream {
        &self.tcp
    }

    /// The connection below.
    pub fn tcp_mut(&mut self) -> &mut TcpStream {
        &mut self.tcp
    }

    /// Bytes of memory for what has come and was not read.
    pub fn input_bytes(&self) -> usize {
        self.partial.capacity() + self.plain.capacity()
    }

    /// Bytes of memory for what was written and is not with the system.
    pub fn output_bytes(&self) -> usize {
        self.sealed.capacity()
    }

    /// Reads what there is; 0 is the end of the stream.
    ///
    /// # Errors
    /// `WouldBlock` when there is nothing to read now; those of the system; the client has broken the protocol.
    pub fn read(&mut self, sink: &mut impl Sink) -> io::Result<Read> {
        if !self.plain.is_empty() {
            return Ok(Read { len: self.take_plain(sink), may_go_on: true });
        }
        // Ends soon: records without data are few, as rustls counts them.
        loop {
            if self.is_at_end {
                return Ok(Read { len: 0, may_go_on: true });
            }
            let read = SCRATCH.with_borrow_mut(|scratch| self.receive(sink, &mut scratch.input))?;
            if read.len > 0 {
                return Ok(Read { may_go_on: read.may_go_on || self.is_at_end || !self.plain.is_empty(), ..read });
            }
        }
    }

    fn take_plain(&mut self, sink: &mut impl Sink) -> usize {
        let rest = &self.plain[self.plain_at..];
        let len = rest.len().min(sink.room());
        sink.put(&rest[..len]);
        self.plain_at += len;
        if self.plain_at == self.plain.len() {
            (self.plain, self.plain_at) = (Vec::new(), 0);
        }
        len
    }

    /// Reads from the socket once, and decrypts.
    fn receive(&mut self, sink: &mut impl Sink, input: &mut Vec<u8>) -> io::Result<Read> {
        input.resize(PARTIAL_LEN_MAX + READ_LEN_MAX, 0);
        let held = self.partial.len();
        // With no more than there is room for, but at least a record, little is left over.
        let wanted = sink.room().saturating_sub(held).clamp(RECORD_LEN_MAX, READ_LEN_MAX);
        let space = &mut input[held..held + wanted];
        let len = retried(|| Ok(net::recv(&self.tcp, &mut *space, RecvFlags::empty())?.0))?;
        if len == 0 {
            self.is_at_end = true;
        }
        input[..held].copy_from_slice(&self.partial);
        let input = &mut input[..held + len];
        let mut used = 0;
        let opened = self.open(input, &mut used, sink);
        self.keep(&input[used..])?;
        let opened = opened.map_err(|error| self.give_up(&error))?;
        self.answer();
        Ok(Read { len: opened, may_go_on: len == wanted })
    }

    /// Decrypts complete records; returns how many bytes the sink got. What it has no room for is kept.
    fn open(&mut self, input: &mut [u8], used: &mut usize, sink: &mut impl Sink) -> Result<usize, rustls::Error> {
        let mut opened = 0;
        loop {
            let UnbufferedStatus { discard, state, .. } = self.tls.process_tls_records(&mut input[*used..]);
            *used += discard;
            match state? {
                ConnectionState::ReadTraffic(mut traffic) => {
                    while let Some(record) = traffic.next_record() {
                        let payload = record?.payload;
                        let len = if self.plain.is_empty() { payload.len().min(sink.room()) } else { 0 };
                        sink.put(&payload[..len]);
                        self.plain.extend_from_slice(&payload[len..]);
                        opened += len;
                    }
                }
                ConnectionState::EncodeTlsData(mut data) => encode(&mut data, &mut self.sealed),
                ConnectionState::TransmitTlsData(sent) => sent.done(),
                ConnectionState::PeerClosed => self.is_at_end = true,
                _ => return Ok(opened),
            }
        }
    }

    /// Keeps the beginning of a record, or of a message.
    fn keep(&mut self, rest: &[u8]) -> io::Result<()> {
        // What comes behind the end of the stream is nothing.
        if rest.is_empty() || self.is_at_end {
            self.partial = Vec::new();
            return Ok(());
        }
        if rest.len() > PARTIAL_LEN_MAX {
            return Err(ErrorKind::InvalidData.into());
        }
        self.partial.clear();
        self.partial.extend_from_slice(rest);
        Ok(())
    }

    /// Sends what the protocol itself has to say. What the system does not take goes with the next reply.
    fn answer(&mut self) {
        if !self.sealed.is_empty() && self.promised == 0 {
            // An error comes up at the next read or write.
            let _ = self.flush();
        }
    }

    /// Tells the client what it has done wrong, if the socket takes that at once.
    #[cold]
    fn give_up(&mut self, error: &rustls::Error) -> io::Error {
        encode_all(&mut self.tls, &mut self.partial, &mut self.sealed);
        let _ = self.flush();
        self.is_broken = true;
        if let Ok(peer) = self.tcp.peer_addr() {
            BROKEN.tell(format_args!("Closing client addr={peer}: {}", reason(error)));
        }
        ErrorKind::InvalidData.into()
    }

    /// Writes from one buffer; returns how much.
    ///
    /// # Errors
    /// `WouldBlock` when the system takes nothing now; those of the system.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.written(bytes.len(), |traffic, output, _| {
            let len = bytes.len().min(SEALED_LEN_MAX);
            Ok((len, seal(traffic, &bytes[..len], output)?))
        })
    }

    /// Writes from several buffers in their order; returns how much. Small ones share a record.
    ///
    /// # Errors
    /// As [`TlsStream::write`].
    pub fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let all = slices.iter().map(|slice| slice.len()).sum();
        self.written(all, |traffic, output, joined| {
            let (mut left, mut sealed) = (SEALED_LEN_MAX, 0);
            joined.clear();
            for slice in slices {
                let mut rest = &slice[..slice.len().min(left)];
                left -= rest.len();
                while !rest.is_empty() {
                    if joined.is_empty() && rest.len() >= RECORD_PLAIN_LEN {
                        let (record, later) = rest.split_at(RECORD_PLAIN_LEN);
                        sealed += seal(traffic, record, &mut output[sealed..])?;
                        rest = later;
                        continue;
                    }
                    let (part, later) = rest.split_at(rest.len().min(RECORD_PLAIN_LEN - joined.len()));
                    joined.extend_from_slice(part);
                    rest = later;
                    if joined.len() == RECORD_PLAIN_LEN {
                        sealed += seal(traffic, joined, &mut output[sealed..])?;
                        joined.clear();
                    }
                }
            }
            sealed += seal(traffic, joined, &mut output[sealed..])?;
            Ok((SEALED_LEN_MAX - left, sealed))
        })
    }

    /// Encrypts a part of `all` bytes and sends it, unless one is under way already.
    fn written(
        &mut self,
        all: usize,
        seal: impl FnOnce(&mut Traffic<'_>, &mut [u8], &mut Vec<u8>) -> io::Result<(usize, usize)>,
    ) -> io::Result<usize> {
        self.flush()?;
        if self.promised > 0 {
            let written = self.promised.min(all);
            self.promised -= written;
            return Ok(written);
        }
        SCRATCH.with_borrow_mut(|Scratch { output, joined, .. }| {
            output.resize(SEALED_LEN_MAX + SEALING_LEN_MAX, 0);
            let (plain, sealed) = self.encrypt(|traffic| seal(traffic, output, joined))?;
            let mut rest = &output[..sealed];
            if self.sealed.is_empty() {
                let sent = self.send(rest)?;
                rest = &rest[sent..];
            }
            if rest.is_empty() {
                return Ok(plain);
            }
            self.sealed.extend_from_slice(rest);
            self.promised = plain;
            Err(ErrorKind::WouldBlock.into())
        })
    }

    /// Lets `seal` encrypt.
    fn encrypt<T>(&mut self, seal: impl FnOnce(&mut Traffic<'_>) -> io::Result<T>) -> io::Result<T> {
        let mut seal = Some(seal);
        loop {
            let UnbufferedStatus { discard, state, .. } = self.tls.process_tls_records(&mut self.partial);
            match state {
                Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                    if let Some(seal) = seal.take() {
                        return seal(&mut traffic);
                    }
                    return Err(ErrorKind::Other.into());
                }
                Ok(ConnectionState::EncodeTlsData(mut data)) => encode(&mut data, &mut self.sealed),
                Ok(ConnectionState::TransmitTlsData(sent)) => sent.done(),
                Ok(ConnectionState::PeerClosed) => self.is_at_end = true,
                _ => {
                    self.is_broken = true;
                    return Err(ErrorKind::BrokenPipe.into());
                }
            }
            self.partial.drain(..discard);
        }
    }

    /// Sends what is encrypted already.
    ///
    /// # Errors
    /// `WouldBlock`: some is left. Those of the system.
    fn flush(&mut self) -> io::Result<()> {
        if self.is_broken {
            return Err(ErrorKind::BrokenPipe.into());
        }
        if self.sealed.is_empty() {
            return Ok(());
        }
        let sealed = std::mem::take(&mut self.sealed);
        let sent = self.send(&sealed[self.sealed_at..])?;
        self.sealed_at += sent;
        if self.sealed_at < sealed.len() {
            self.sealed = sealed;
            return Err(ErrorKind::WouldBlock.into());
        }
        self.sealed_at = 0;
        Ok(())
    }

    /// Sends what the system takes; returns how much.
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut at = 0;
        while at < bytes.len() {
            match retried(|| Ok(net::send(&self.tcp, &bytes[at..], SendFlags::NOSIGNAL)?)) {
                Ok(len) => at += len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => {
                    self.is_broken = true;
                    return Err(error);
                }
            }
        }
        Ok(at)
    }

    /// Tells the client that nothing more comes.
    pub fn shutdown(&mut self) {
        self.say_goodbye();
        let _ = self.tcp.shutdown(Shutdown::Write);
    }

    /// Sends the end of the stream, unless a record would be cut by it. Errors do not matter: the client may have closed
    /// already.
    fn say_goodbye(&mut self) {
        if self.is_broken || !self.sealed.is_empty() {
            return;
        }
        let mut output = [0; GOODBYE_LEN_MAX];
        let sealed = self.encrypt(|traffic| traffic.queue_close_notify(&mut output).map_err(io::Error::other));
        if let Ok(len) = sealed
            && self.sealed.is_empty()
        {
            let _ = self.send(&output[..len]);
        }
        self.is_broken = true;
    }
}

impl Drop for TlsStream {
    fn drop(&mut self) {
        self.say_goodbye();
    }
}

type Traffic<'a> = WriteTraffic<'a, ServerConnectionData>;

/// Encrypts; returns the length of the records.
fn seal(traffic: &mut Traffic<'_>, bytes: &[u8], output: &mut [u8]) -> io::Result<usize> {
    traffic.encrypt(bytes, output).map_err(io::Error::other)
}

/// Appends all that the protocol has to say of what has gone wrong.
pub(super) fn encode_all(tls: &mut UnbufferedServerConnection, partial: &mut [u8], to: &mut Vec<u8>) {
    while tls.wants_write()
        && let Ok(ConnectionState::EncodeTlsData(mut data)) = tls.process_tls_records(partial).state
    {
        encode(&mut data, to);
    }
}

/// Appends what the protocol has to say.
pub(super) fn encode(data: &mut EncodeTlsData<'_, ServerConnectionData>, to: &mut Vec<u8>) {
    let at = to.len();
    if let Err(EncodeError::InsufficientSize(InsufficientSizeError { required_size })) = data.encode(&mut []) {
        to.resize(at + required_size, 0);
        // It is as long as it says.
        let _ = data.encode(&mut to[at..]);
    }
}
