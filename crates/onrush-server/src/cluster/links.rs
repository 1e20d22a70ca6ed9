//! The connections of the bus: bytes to messages and back.
//!
//! Each link has two tasks of the bus's thread. One reads messages and hands them over as [`Event`]s, through a channel that
//! is bounded, by number and by bytes: a node that floods is read no faster than it is understood. The other writes what is
//! queued.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use onrush_cluster::cluster::LinkId;
use onrush_cluster::message::{self, Message, PREFIX_LEN};
use parking_lot::Mutex;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ServerConfig};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{Sender, UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::JoinHandle;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::tls::errors;

/// Events that wait until the bus's thread has time for them.
pub(super) const EVENTS_MAX: usize = 1024;

/// Bytes of messages of all links that wait with them. A link whose message would be too much waits, and is not read
/// meanwhile; a longer message waits alone. A message counts from when it has come as a whole: if room were kept for what is
/// still to come, a slow node would hold up all others. So each link may have one more message, which it is reading.
const WAITING_MAX: usize = 64 << 20;

/// They are counted in units of so many bytes.
const UNIT: usize = 1 << 10;

/// Room for messages that wait. The process has one bus.
static ROOM: Semaphore = Semaphore::const_new(WAITING_MAX / UNIT);

/// The longest message that is read: the longest that a client can publish, and what is around it.
const MESSAGE_LEN_MAX: usize = (512 << 20) + (64 << 10);

/// The longest one before it is known who is at the other end: greetings with gossip about all nodes there can be.
const STRANGER_LEN_MAX: usize = 4 << 20;

/// Bytes of messages that such links are reading, all together. Beyond that they are closed.
const STRANGERS_MAX: usize = 64 << 20;

/// Room for them.
static STRANGERS: Semaphore = Semaphore::const_new(STRANGERS_MAX / UNIT);

/// How often it is looked whether that is known when a longer one comes.
const KNOWN_LOOK: Duration = Duration::from_millis(5);

/// Most bytes that are read at once. A message takes memory as it comes, not as it promises.
const READ_LEN: usize = 16 << 10;

/// A link on which nothing comes for so many node timeouts, and for so long, is closed. Each node pings each other one at least
/// every half of its node timeout, so only a stranger is silent for that long, or a node that is gone without a word; a node
/// whose timeout is far longer connects again at once. redis-server keeps such links for ever, and relies on TCP's own probes
/// for those that are gone.
const SILENT_TIMEOUTS: u32 = 10;
const SILENT_MIN: Duration = Duration::from_secs(600);

/// How long the log does not repeat what is wrong with a link.
const SILENCE: Duration = Duration::from_secs(10);

/// Different lines about that in this time, at most.
const TOLD_MAX: usize = 100;

/// What has happened to a link.
pub(super) enum Event {
    /// It is there.
    Connected(LinkId),
    /// Another node has made it.
    Accepted { link: Link, id: LinkId },
    /// It has brought a message.
    Message(LinkId, Box<Received>),
    /// It is no more.
    Closed(LinkId, String),
}

/// A message that has come. Dropped, it leaves room for others.
pub(super) struct Received {
    message: Message,
    _room: SemaphorePermit<'static>,
}

impl Deref for Received {
    type Target = Message;

    fn deref(&self) -> &Message {
        &self.message
    }
}

/// One end of a link. Dropped, it is closed.
pub(super) struct Link {
    queue: UnboundedSender<Arc<Vec<u8>>>,
    /// Bytes that are queued and not written.
    pub(super) queued: Arc<AtomicUsize>,
    /// Whether it is known who is at the other end.
    pub(super) is_known: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Link {
    /// Queues a message.
    pub(super) fn send(&self, bytes: &Arc<Vec<u8>>) {
        self.queued.fetch_add(bytes.len(), Relaxed);
        // Nobody takes it any more if the link is closed.
        let _ = self.queue.send(Arc::clone(bytes));
    }

    /// Connects to a node.
    pub(super) fn connect(id: LinkId, to: Destination, events: Sender<Event>) -> Self {
        Self::start(true, move |outgoing, is_known| async move {
            let result = match within(to.timeout, to.connect()).await {
                Ok(stream) => {
                    if events.send(Event::Connected(id)).await.is_err() {
                        return;
                    }
                    serve(id, stream, outgoing, Reading::new(to.timeout, is_known), &events).await
                }
                Err(error) => Err(error),
            };
            complain("The link to", to.address.ip(), &result);
            let _ = events.send(Event::Closed(id, reason(&result))).await;
        })
    }

    /// Takes over a connection that another node has made.
    pub(super) fn accept(
        id: LinkId,
        stream: TcpStream,
        tls: Option<Arc<ServerConfig>>,
        timeout: Duration,
        events: Sender<Event>,
    ) -> Self {
        let peer = stream.peer_addr();
        Self::start(false, move |outgoing, is_known| async move {
            let result = match within(timeout, decrypt(stream, tls)).await {
                Ok(stream) => serve(id, stream, outgoing, Reading::new(timeout, is_known), &events).await,
                Err(error) => Err(error),
            };
            if let Ok(peer) = peer {
                complain("A link from", peer.ip(), &result);
            }
            let _ = events.send(Event::Closed(id, reason(&result))).await;
        })
    }

    fn start<F>(is_known: bool, run: impl FnOnce(Outgoing, Arc<AtomicBool>) -> F) -> Self
    where
        F: Future<Output = ()> + 'static,
    {
        let (queue, messages) = unbounded_channel();
        let (queued, is_known) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(is_known)));
        let outgoing = Outgoing { messages, queued: Arc::clone(&queued) };
        let task = tokio::task::spawn_local(run(outgoing, Arc::clone(&is_known)));
        Self { queue, queued, is_known, task }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Says in the log what is wrong with a certificate or with the other side's TLS: that is for the operator to mend. Nodes try
/// again ten times a second, so the same is said once in a while only.
fn complain(what: &str, ip: IpAddr, result: &io::Result<()>) {
    static TOLD: Mutex<Vec<(String, Instant)>> = Mutex::new(Vec::new());
    let inner = result.as_ref().err().and_then(|error| error.get_ref());
    let Some(error) = inner.and_then(|inner| inner.downcast_ref::<rustls::Error>()) else { return };
    let text = format!("{what} the node at {ip} has failed: {}", errors::reason(error));
    let mut told = TOLD.lock();
    told.retain(|(_, at)| at.elapsed() < SILENCE);
    if told.len() < TOLD_MAX && told.iter().all(|(known, _)| *known != text) {
        tracing::warn!("{text}");
        told.push((text, Instant::now()));
    }
}

fn reason(result: &io::Result<()>) -> String {
    result.as_ref().err().map_or_else(|| "the node has closed it".to_owned(), ToString::to_string)
}

/// What is to be written.
struct Outgoing {
    messages: UnboundedReceiver<Arc<Vec<u8>>>,
    queued: Arc<AtomicUsize>,
}

/// Where a node is, and how to get there.
pub(super) struct Destination {
    pub(super) address: SocketAddr,
    pub(super) tls: Option<Arc<ClientConfig>>,
    pub(super) timeout: Duration,
}

impl Destination {
    pub(super) async fn connect(&self) -> io::Result<Box<dyn Stream>> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let Some(tls) = &self.tls else { return Ok(Box::new(stream)) };
        let name = ServerName::from(self.address.ip());
        Ok(Box::new(TlsConnector::from(Arc::clone(tls)).connect(name, stream).await?))
    }
}

async fn decrypt(stream: TcpStream, tls: Option<Arc<ServerConfig>>) -> io::Result<Box<dyn Stream>> {
    stream.set_nodelay(true)?;
    match tls {
        None => Ok(Box::new(stream)),
        Some(tls) => Ok(Box::new(TlsAcceptor::from(tls).accept(stream).await?)),
    }
}

/// A connection, encrypted or not.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin {}

impl<S: AsyncRead + AsyncWrite + Unpin> Stream for S {}

/// How a link is read.
struct Reading {
    /// Whether it is known who is at the other end.
    is_known: Arc<AtomicBool>,
    /// The other end has to say something within this time: a stranger must not keep a file open for nothing.
    first_within: Duration,
    /// Later, something has to come within this one.
    silent_max: Duration,
    room: &'static Semaphore,
    room_len: usize,
    /// Room for what strangers send.
    strangers: &'static Semaphore,
}

impl Reading {
    fn new(node_timeout: Duration, is_known: Arc<AtomicBool>) -> Self {
        Self {
            is_known,
            first_within: node_timeout,
            silent_max: node_timeout.saturating_mul(SILENT_TIMEOUTS).max(SILENT_MIN),
            room: &ROOM,
            room_len: WAITING_MAX,
            strangers: &STRANGERS,
        }
    }
}

/// Reads and writes until one of both ends.
async fn serve(
    id: LinkId,
    stream: Box<dyn Stream>,
    outgoing: Outgoing,
    reading: Reading,
    events: &Sender<Event>,
) -> io::Result<()> {
    let (reader, writer) = tokio::io::split(stream);
    tokio::select! {
        result = read(id, reader, reading, events) => result,
        result = write(writer, outgoing) => result,
    }
}

async fn read(
    id: LinkId,
    mut reader: impl AsyncRead + Unpin,
    reading: Reading,
    events: &Sender<Event>,
) -> io::Result<()> {
    let mut bytes = Vec::new();
    let mut has_come = within(reading.first_within, next(&mut reader, &mut bytes, &reading)).await?;
    while has_come {
        let units = bytes.len().min(reading.room_len).div_ceil(UNIT) as u32;
        let Ok(room) = reading.room.acquire_many(units).await else { return Ok(()) };
        let message = Message::decode(&bytes).map_err(invalid)?;
        bytes.clear();
        bytes.shrink_to(READ_LEN);
        if events.send(Event::Message(id, Box::new(Received { message, _room: room }))).await.is_err() {
            return Ok(());
        }
        has_come = next(&mut reader, &mut bytes, &reading).await?;
    }
    Ok(())
}

/// Puts the next message into `bytes`, which is empty; `false` at the end.
async fn next(reader: &mut (impl AsyncRead + Unpin), bytes: &mut Vec<u8>, reading: &Reading) -> io::Result<bool> {
    let silent_max = reading.silent_max;
    let mut prefix = [0; PREFIX_LEN];
    match within(silent_max, reader.read_exact(&mut prefix)).await {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(false),
        read => read?,
    };
    let len = message::len(prefix).map_err(invalid)?;
    if len > MESSAGE_LEN_MAX {
        return Err(invalid(format!("a message of {len} bytes is too long")));
    }
    if len > STRANGER_LEN_MAX {
        let is_known = async {
            while !reading.is_known.load(Relaxed) {
                tokio::time::sleep(KNOWN_LOOK).await;
            }
        };
        // The first message says it, and may be on its way to the state.
        let waited = tokio::time::timeout(reading.first_within, is_known).await;
        waited.map_err(|_| invalid(format!("a message of {len} bytes comes from a stranger")))?;
    }
    bytes.extend_from_slice(&prefix);
    // What they send may promise much, and not come as a whole.
    let mut taken: Option<SemaphorePermit<'_>> = None;
    while bytes.len() < len {
        let read = READ_LEN.min(len - bytes.len());
        bytes.reserve(read);
        if within(silent_max, (&mut *reader).take(read as u64).read_buf(bytes)).await? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let units = taken.as_ref().map_or(0, SemaphorePermit::num_permits);
        let more = bytes.len().div_ceil(UNIT).saturating_sub(units);
        if !reading.is_known.load(Relaxed) && more > 0 {
            let more = reading.strangers.try_acquire_many(more as u32);
            let more = more.map_err(|_| invalid("strangers send too much at once"))?;
            match &mut taken {
                Some(taken) => taken.merge(more),
                None => taken = Some(more),
            }
        }
    }
    Ok(true)
}

async fn within<T>(limit: Duration, read: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    tokio::time::timeout(limit, read).await.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()))
}

fn invalid(error: impl ToString) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, error.to_string())
}

async fn write(mut writer: impl AsyncWrite + Unpin, mut outgoing: Outgoing) -> io::Result<()> {
    while let Some(bytes) = outgoing.messages.recv().await {
        writer.write_all(&bytes).await?;
        if outgoing.messages.is_empty() {
            writer.flush().await?;
        }
        outgoing.queued.fetch_sub(bytes.len(), Relaxed);
    }
    // The link is about to be dropped.
    std::future::pending().await
}

#[cfg(test)]
mod tests {
    use onrush_cluster::message::{Body, HEADER_LEN, Header, MessageFlags};
    use onrush_cluster::node::{Address, Flags, NodeId};
    use onrush_cluster::slots::SlotSet;
    use tokio::io::DuplexStream;
    use tokio::sync::mpsc::{Receiver, channel};

    use super::*;

    /// A message of PUBLISH that is so long as a whole.
    fn published(len: usize) -> Vec<u8> {
        let id = "0123456789012345678901234567890123456789".parse::<NodeId>().unwrap();
        let header = Header {
            sender: id,
            address: Address::default(),
            flags: Flags::PRIMARY,
            is_down: false,
            message_flags: MessageFlags::empty(),
            current_epoch: 1,
            config_epoch: 1,
            offset: 0,
            slots: SlotSet::new(),
            primary: None,
        };
        let body = |len| Body::Publish { is_sharded: false, channel: Vec::new(), message: vec![0; len] };
        let mut bytes = Vec::new();
        Message { header: header.clone(), body: body(0) }.encode(&mut bytes);
        let around = bytes.len();
        bytes.clear();
        Message { header, body: body(len - around) }.encode(&mut bytes);
        assert_eq!(bytes.len(), len);
        bytes
    }

    /// A link that is read, with room for so many bytes, and its other end.
    fn link(room_len: usize) -> (DuplexStream, Receiver<Event>, JoinHandle<io::Result<()>>) {
        let room: &'static Semaphore = Box::leak(Box::new(Semaphore::new(room_len / UNIT)));
        let first_within = Duration::from_secs(60);
        let is_known = Arc::new(AtomicBool::new(true));
        let reading = Reading {
            is_known,
            first_within,
            silent_max: Duration::from_millis(50),
            room,
            room_len,
            strangers: &STRANGERS,
        };
        let (end, other) = tokio::io::duplex(1 << 20);
        let (events, incoming) = channel(EVENTS_MAX);
        let task = tokio::spawn(async move { read(LinkId(1), other, reading, &events).await });
        (end, incoming, task)
    }

    fn run(test: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
    }

    /// Lets the link read what it may.
    async fn settle() {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }

    #[test]
    fn messages_wait_up_to_a_number_of_bytes_and_a_longer_one_waits_alone() {
        run(async {
            let (mut end, mut incoming, _task) = link(8 * UNIT);
            for len in [HEADER_LEN + 100, 4 * UNIT, 100 * UNIT, HEADER_LEN + 100] {
                end.write_all(&published(len)).await.unwrap();
            }
            settle().await;
            assert_eq!(incoming.len(), 2, "3 + 4 units");
            drop(incoming.recv().await);
            settle().await;
            assert_eq!(incoming.len(), 1, "the long one does not fit");
            drop(incoming.recv().await);
            settle().await;
            assert_eq!(incoming.len(), 1, "it is alone");
            let long = incoming.recv().await.unwrap();
            assert!(matches!(&long, Event::Message(_, message) if matches!(&message.body, Body::Publish { .. })));
            settle().await;
            assert!(incoming.is_empty(), "it is not handled yet");
            drop(long);
            assert!(incoming.recv().await.is_some());
        });
    }

    #[test]
    fn a_stranger_sends_nothing_long() {
        run(async {
            for is_known in [true, false] {
                let (mut end, other) = tokio::io::duplex(1 << 20);
                let (events, mut incoming) = channel(EVENTS_MAX);
                let known = Arc::new(AtomicBool::new(false));
                let reading = Reading::new(Duration::from_millis(200), Arc::clone(&known));
                let task = tokio::spawn(async move { read(LinkId(1), other, reading, &events).await });
                end.write_all(&published(HEADER_LEN + 100)).await.unwrap();
                assert!(incoming.recv().await.is_some());
                known.store(is_known, Relaxed);
                let long = published(STRANGER_LEN_MAX + 1);
                let sent = end.write_all(&long).await;
                assert_eq!((sent.is_ok(), incoming.recv().await.is_some()), (is_known, is_known));
                drop(end);
                assert_eq!(task.await.unwrap().is_ok(), is_known);
            }
        });
    }

    #[test]
    fn strangers_send_little_all_together() {
        static ROOM_FOR_TWO: Semaphore = Semaphore::const_new(READ_LEN / UNIT);
        run(async {
            let mut others = Vec::new();
            for nth in 0..3 {
                let (mut end, other) = tokio::io::duplex(1 << 20);
                let (events, _incoming) = channel(EVENTS_MAX);
                let known = Arc::new(AtomicBool::new(false));
                let reading =
                    Reading { strangers: &ROOM_FOR_TWO, ..Reading::new(Duration::from_secs(60), Arc::clone(&known)) };
                let task = tokio::spawn(async move { read(LinkId(nth), other, reading, &events).await });
                end.write_all(&published(READ_LEN)[..READ_LEN / 2]).await.unwrap();
                settle().await;
                others.push((end, task));
            }
            assert_eq!(others.iter().map(|(_, task)| task.is_finished()).collect::<Vec<_>>(), [false, false, true]);
            for (end, task) in others {
                drop(end);
                assert!(task.await.unwrap().is_err());
            }
            assert_eq!(ROOM_FOR_TWO.available_permits(), READ_LEN / UNIT);
        });
    }

    #[test]
    fn a_link_on_which_nothing_comes_any_more_ends() {
        run(async {
            for rest in [&published(4 * UNIT)[..1_000], &[]] {
                let (mut end, mut incoming, task) = link(WAITING_MAX);
                end.write_all(&published(4 * UNIT)).await.unwrap();
                end.write_all(rest).await.unwrap();
                assert!(incoming.recv().await.is_some());
                assert_eq!(task.await.unwrap().unwrap_err().kind(), ErrorKind::TimedOut);
                assert!(incoming.recv().await.is_none());
                drop(end);
            }
        });
    }
}
