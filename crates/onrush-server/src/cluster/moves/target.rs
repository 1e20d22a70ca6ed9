//! The connection to the node that gets slots: commands go there, and their replies are looked through for errors.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use onrush_resp::{ReplyReader, ReplyVisitor, Scalar};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinHandle;

use crate::cluster::link_timeout;
use crate::cluster::links::Destination;
use crate::net::peers::request;
use crate::process::server::Server;

/// Bytes of replies that are read at once.
const READ_LEN: usize = 64 << 10;

/// Said replies that wait.
const SAID_MAX: usize = 16;

/// What the target says beside the replies to commands of clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// A status that is not `OK`.
    Status(String),
    /// A command has failed there.
    Error(String),
    /// The connection is closed.
    Closed(String),
}

/// What was heard when a status was waited for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// The status.
    Status,
    /// Nothing so far.
    Nothing,
    /// A command has failed.
    Error(String),
    /// The connection is closed.
    Closed(String),
}

/// See the module's text.
pub(super) struct Target {
    writer: Box<dyn AsyncWrite + Unpin>,
    said: Receiver<Said>,
    reader: JoinHandle<()>,
    has_answered: bool,
    /// How long it may be silent.
    pub(super) timeout: Duration,
}

impl Drop for Target {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl Target {
    /// Connects and logs in, as a replica does.
    ///
    /// # Errors
    /// Why not.
    pub(super) async fn connect(server: &'static Server, ip: &str, port: u16) -> Result<Self, String> {
        let config = server.host.config.read().clone();
        let ip: IpAddr = ip.parse().map_err(|_| format!("{ip:?} is no address"))?;
        let tls = match config.tls_cluster {
            true => Some(server.host.tls.links().ok_or("there is no tls-ca-cert-file")?),
            false => None,
        };
        let timeout = link_timeout(&config);
        let to = Destination { address: SocketAddr::new(ip, port), tls, timeout };
        let stream = match tokio::time::timeout(timeout, to.connect()).await {
            Ok(stream) => stream.map_err(|error| format!("connecting to the target: {error}"))?,
            Err(_) => return Err("connecting to the target takes too long".to_owned()),
        };
        let (reader, writer) = tokio::io::split(stream);
        let (sender, said) = channel(SAID_MAX);
        let reader = tokio::task::spawn_local(async move {
            let why = listen(reader, &sender).await;
            let _ = sender.send(Said::Closed(why)).await;
        });
        let mut target = Self { writer: Box::new(writer), said, reader, has_answered: false, timeout };
        if !config.masterauth.is_empty() {
            let user = match config.masteruser.as_str() {
                "" => "default",
                user => user,
            };
            target.send(&request(&[b"AUTH", user.as_bytes(), &config.masterauth])).await?;
        }
        Ok(target)
    }

    /// Sends commands.
    ///
    /// # Errors
    /// The connection is closed, one of the commands before has failed, or the target takes nothing for too long.
    pub(super) async fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        for piece in bytes.chunks(READ_LEN) {
            self.check()?;
            // With TLS what the socket does not take yet is kept, and waited for by the flush.
            let written = async {
                self.writer.write_all(piece).await?;
                self.writer.flush().await
            };
            let sent = tokio::time::timeout(self.timeout, written).await;
            sent.map_err(|_| "the target takes nothing".to_owned())?
                .map_err(|error| self.check().err().unwrap_or_else(|| error.to_string()))?;
            // The task that reads replies has the same thread.
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// Whether nothing has gone wrong so far.
    fn check(&mut self) -> Result<(), String> {
        while let Ok(said) = self.said.try_recv() {
            match said {
                Said::Status(_) => self.has_answered = true,
                Said::Error(why) | Said::Closed(why) => return Err(why),
            }
        }
        Ok(())
    }

    /// Waits until it says a status, at most so long.
    pub(super) async fn hear(&mut self, status: &str, at_most: Duration) -> Heard {
        let until = tokio::time::Instant::now() + at_most;
        loop {
            match tokio::time::timeout_at(until, self.said.recv()).await {
                Err(_) => return Heard::Nothing,
                Ok(Some(Said::Status(said))) if said == status => return Heard::Status,
                // It has been asked that before.
                Ok(Some(Said::Status(_))) => self.has_answered = true,
                Ok(Some(Said::Error(why))) => return Heard::Error(why),
                Ok(Some(Said::Closed(why))) => return Heard::Closed(why),
                Ok(None) => return Heard::Closed("the connection is closed".to_owned()),
            }
        }
    }

    /// Whether it has said anything since the last call.
    pub(super) fn has_answered(&mut self) -> bool {
        std::mem::take(&mut self.has_answered)
    }
}

/// Reads replies until the connection ends; returns why.
async fn listen(mut reader: impl AsyncRead + Unpin, sender: &Sender<Said>) -> String {
    let (mut replies, mut bytes) = (ReplyReader::default(), vec![0; READ_LEN]);
    let mut ear = Ear { depth: 0, said: Vec::new() };
    loop {
        let len = match reader.read(&mut bytes).await {
            Ok(0) => return "the target has closed the connection".to_owned(),
            Ok(len) => len,
            Err(error) => return format!("the connection to the target: {error}"),
        };
        if replies.skim(&bytes[..len], &mut ear).is_err() {
            return "the target says what is no reply".to_owned();
        }
        for said in ear.said.drain(..) {
            if sender.send(said).await.is_err() {
                return String::new();
            }
        }
    }
}

struct Ear {
    depth: usize,
    said: Vec<Said>,
}

impl ReplyVisitor for Ear {
    fn scalar(&mut self, scalar: Scalar<'_>) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match scalar {
            Scalar::Status(status) if status != b"OK" && self.depth == 0 => self.said.push(Said::Status(text(status))),
            Scalar::Error(error) => self.said.push(Said::Error(text(error))),
            _ => {}
        }
    }

    fn open(&mut self, _: onrush_resp::AggregateKind, _: usize) {
        self.depth += 1;
    }

    fn close(&mut self, _: onrush_resp::AggregateKind) {
        self.depth = self.depth.saturating_sub(1);
    }
}
