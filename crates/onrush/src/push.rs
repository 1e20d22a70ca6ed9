//! Where push messages go.

use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use tokio::sync::broadcast;

use crate::error::{ErrorKind, RedisError, RedisResult};
use crate::value::{PushInfo, PushKind};

/// How many messages wait for a slow reader before the socket is left unread, or, on a connection that others use for
/// their replies, before the oldest are dropped.
pub const PUSHES_MAX: usize = 1024;

/// Where a connection's push messages go.
#[derive(Debug)]
pub(crate) enum Outlet {
    /// To whoever listens; a listener that falls behind loses the oldest and is told so. Nobody's reply waits for it.
    Broadcast(broadcast::Sender<PushInfo>),
    /// To one reader, all of them: when it falls behind, the connection is not read until it catches up.
    Lossless(Mutex<Channel>),
}

/// The messages of a lossless outlet.
#[derive(Debug, Default)]
pub(crate) struct Channel {
    messages: VecDeque<PushInfo>,
    reader: Option<Waker>,
    driver: Option<Waker>,
    closed: bool,
}

impl Outlet {
    pub(crate) fn broadcast() -> Outlet {
        Outlet::Broadcast(broadcast::Sender::new(PUSHES_MAX))
    }

    pub(crate) fn lossless() -> Outlet {
        Outlet::Lossless(Mutex::default())
    }

    /// Whether replies of the kind that RESP2 sends in place of pushes are to be expected.
    pub(crate) fn is_lossless(&self) -> bool {
        matches!(self, Outlet::Lossless(_))
    }

    pub(crate) fn send(&self, push: PushInfo) {
        match self {
            Outlet::Broadcast(sender) => {
                // Nobody listening is fine.
                let _ = sender.send(push);
            }
            Outlet::Lossless(channel) => {
                let mut channel = channel.lock();
                channel.messages.push_back(push);
                if let Some(reader) = channel.reader.take() {
                    reader.wake();
                }
            }
        }
    }

    /// Ready when the driver may read on.
    pub(crate) fn poll_ready(&self, cx: &Context<'_>) -> Poll<()> {
        let Outlet::Lossless(channel) = self else { return Poll::Ready(()) };
        let mut channel = channel.lock();
        if channel.messages.len() < PUSHES_MAX {
            return Poll::Ready(());
        }
        channel.driver = Some(cx.waker().clone());
        Poll::Pending
    }

    /// The next message of a lossless outlet; `None` at the end.
    pub(crate) fn poll_next(&self, cx: &Context<'_>) -> Poll<Option<PushInfo>> {
        let Outlet::Lossless(channel) = self else { return Poll::Ready(None) };
        let mut channel = channel.lock();
        if let Some(push) = channel.messages.pop_front() {
            // Half empty, so that the two do not wake each other for every message.
            if channel.messages.len() <= PUSHES_MAX / 2
                && let Some(driver) = channel.driver.take()
            {
                driver.wake();
            }
            return Poll::Ready(Some(push));
        }
        if channel.closed {
            return Poll::Ready(None);
        }
        channel.reader = Some(cx.waker().clone());
        Poll::Pending
    }

    pub(crate) fn close(&self) {
        if let Outlet::Lossless(channel) = self {
            let mut channel = channel.lock();
            channel.closed = true;
            if let Some(reader) = channel.reader.take() {
                reader.wake();
            }
        }
    }
}

/// The push messages of a shared connection: invalidations of cached keys, messages of channels subscribed to, and
/// whatever else the server sends unasked. RESP3 only.
#[derive(Debug)]
pub struct Pushes {
    receiver: broadcast::Receiver<PushInfo>,
}

impl Pushes {
    pub(crate) fn new(outlet: &Outlet) -> RedisResult<Pushes> {
        match outlet {
            Outlet::Broadcast(sender) => Ok(Pushes { receiver: sender.subscribe() }),
            Outlet::Lossless(_) => {
                Err(RedisError::new(ErrorKind::Client, "the pushes of a pub/sub connection are read from it itself"))
            }
        }
    }

    /// The next message, or `None` when the connection is closed for good. A reader more than [`PUSHES_MAX`] messages
    /// behind gets [`PushKind::Lagged`] with the number that it missed: time to drop a whole cache.
    pub async fn recv(&mut self) -> Option<PushInfo> {
        match self.receiver.recv().await {
            Ok(push) => Some(push),
            Err(broadcast::error::RecvError::Lagged(missed)) => Some(lagged(missed)),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }

    /// The next message if one is there already.
    pub fn try_recv(&mut self) -> Option<PushInfo> {
        match self.receiver.try_recv() {
            Ok(push) => Some(push),
            Err(broadcast::error::TryRecvError::Lagged(missed)) => Some(lagged(missed)),
            Err(_) => None,
        }
    }
}

fn lagged(missed: u64) -> PushInfo {
    PushInfo { kind: PushKind::Lagged(missed), data: Vec::new() }
}
