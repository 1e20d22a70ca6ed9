//! Byte streams to a server: TCP, TLS over TCP, Unix sockets.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio::task::JoinSet;

use crate::error::{ErrorKind, RedisError, RedisResult};
use crate::link::resolver::SharedResolver;
use crate::link::url::ConnectionAddr;

/// How many keepalive probes the kernel sends before it gives the connection up.
const KEEPALIVE_PROBES: u32 = 3;
/// The longest idle time that Linux takes.
const KEEPALIVE_MAX: Duration = Duration::from_secs(32_767);

/// How long an address of a host is waited for alone.
const HEAD_START: Duration = Duration::from_millis(250);

/// Most bytes that a TLS session is given at once, as many as it buffers.
#[cfg(feature = "tls")]
const TLS_WRITE_MAX: usize = 64 << 10;

/// Options of the socket.
#[derive(Clone, Debug)]
pub(crate) struct SocketOptions {
    /// The kernel's buffers, in bytes; its own choice when `None`.
    pub send_buffer_bytes: Option<usize>,
    pub receive_buffer_bytes: Option<usize>,
    /// Idle time before the kernel sends keepalive probes; `None`: never.
    pub keepalive: Option<Duration>,
    /// In place of the system's.
    pub resolver: Option<SharedResolver>,
}

impl Default for SocketOptions {
    fn default() -> SocketOptions {
        SocketOptions {
            send_buffer_bytes: None,
            receive_buffer_bytes: None,
            keepalive: Some(Duration::from_secs(15)),
            resolver: None,
        }
    }
}

/// A connection's bytes.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    #[cfg(unix)]
    Unix(UnixStream),
    #[cfg(feature = "tls")]
    Tls(Box<tokio_rustls::client::TlsStream<TcpStream>>),
}

impl Stream {
    pub(crate) async fn connect(
        addr: &ConnectionAddr,
        options: &SocketOptions,
        tls: &crate::link::tls::TlsContext,
    ) -> RedisResult<Stream> {
        match addr {
            ConnectionAddr::Tcp(host, port) => Ok(Stream::Tcp(tcp(host, *port, options).await?)),
            #[cfg(feature = "tls")]
            ConnectionAddr::TcpTls { host, port, insecure } => {
                let stream = tcp(host, *port, options).await?;
                Ok(Stream::Tls(Box::new(tls.connect(host, *insecure, stream).await?)))
            }
            ConnectionAddr::Sentinel(_) => {
                Err(RedisError::new(ErrorKind::Client, "a Sentinel has told no address of a server"))
            }
            ConnectionAddr::Cluster(_) => {
                Err(RedisError::new(ErrorKind::InvalidClientConfig, "a cluster is connected to by ClusterClient"))
            }
            #[cfg(unix)]
            ConnectionAddr::Unix(path) => {
                let stream = UnixStream::connect(path).await?;
                options.apply(SockRef::from(&stream))?;
                Ok(Stream::Unix(stream))
            }
            #[allow(unreachable_patterns)]
            other => {
                let _ = tls;
                Err(RedisError::new(
                    ErrorKind::InvalidClientConfig,
                    format!("{other} cannot be reached in this build; TLS needs the feature `tls`"),
                ))
            }
        }
    }
}

async fn tcp(host: &str, port: u16, options: &SocketOptions) -> RedisResult<TcpStream> {
    let addrs = match &options.resolver {
        Some(SharedResolver(resolver)) => resolver.resolve(host, port).await?,
        None => tokio::net::lookup_host((host, port)).await?.collect(),
    };
    let stream = first_to_answer(addrs).await?;
    stream.set_nodelay(true)?;
    let socket = SockRef::from(&stream);
    options.keep_alive(&socket)?;
    options.apply(socket)?;
    Ok(stream)
}

/// Connects to the first address that answers. Each has a head start before the next one, so that an address that does
/// not answer keeps no later one from being tried (RFC 8305 does it alike).
async fn first_to_answer(addrs: Vec<SocketAddr>) -> io::Result<TcpStream> {
    let mut attempts = JoinSet::new();
    let mut error = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    let mut waiting = addrs.into_iter().peekable();
    loop {
        if let Some(addr) = waiting.next() {
            attempts.spawn(TcpStream::connect(addr));
        }
        let ended = attempts.join_next();
        let ended = match waiting.peek() {
            Some(_) => tokio::time::timeout(HEAD_START, ended).await,
            None => Ok(ended.await),
        };
        match ended {
            Ok(Some(Ok(Ok(stream)))) => return Ok(stream),
            Ok(Some(Ok(Err(failed)))) => error = failed,
            Ok(Some(Err(ended))) => error = ended.into(),
            Ok(None) => return Err(error),
            Err(_) => {}
        }
    }
}

impl SocketOptions {
    /// Makes the kernel detect the loss of a peer within twice the idle time, both on an idle connection and with
    /// unacknowledged data.
    fn keep_alive(&self, socket: &SockRef<'_>) -> io::Result<()> {
        let Some(idle) = self.keepalive else { return Ok(()) };
        let idle = idle.clamp(Duration::from_secs(1), KEEPALIVE_MAX);
        let keepalive = TcpKeepalive::new().with_time(idle);
        #[cfg(any(target_os = "linux", target_os = "macos", target_os = "freebsd"))]
        let keepalive = keepalive
            .with_interval((idle / KEEPALIVE_PROBES).max(Duration::from_secs(1)))
            .with_retries(KEEPALIVE_PROBES);
        socket.set_tcp_keepalive(&keepalive)?;
        #[cfg(target_os = "linux")]
        socket.set_tcp_user_timeout(Some(idle * 2))?;
        Ok(())
    }

    fn apply(&self, socket: SockRef<'_>) -> io::Result<()> {
        if let Some(bytes) = self.send_buffer_bytes {
            socket.set_send_buffer_size(bytes)?;
        }
        if let Some(bytes) = self.receive_buffer_bytes {
            socket.set_recv_buffer_size(bytes)?;
        }
        Ok(())
    }
}

macro_rules! each {
    ($self:expr, $stream:ident => $call:expr) => {
        match $self.get_mut() {
            Stream::Tcp($stream) => $call,
            #[cfg(unix)]
            Stream::Unix($stream) => $call,
            #[cfg(feature = "tls")]
            Stream::Tls($stream) => $call,
        }
    };
}

/// A write that has failed.
#[derive(Debug)]
pub(crate) struct Failed {
    pub error: io::Error,
    /// How many of its bytes the operating system may have taken all the same.
    pub taken: usize,
}

impl Stream {
    /// Writes some bytes. A TLS session that fails does not tell which of its records went out before, so all that it
    /// was given may have been.
    pub(crate) fn poll_send(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize, Failed>> {
        let (bytes, may_take) = match self {
            #[cfg(feature = "tls")]
            Stream::Tls(_) => (&bytes[..bytes.len().min(TLS_WRITE_MAX)], true),
            _ => (bytes, false),
        };
        let taken = if may_take { bytes.len() } else { 0 };
        Pin::new(self).poll_write(cx, bytes).map_err(|error| Failed { error, taken })
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => Pin::new(stream).poll_read(cx, buf))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        each!(self, stream => Pin::new(stream).poll_write(cx, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => Pin::new(stream).poll_shutdown(cx))
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_address_that_does_not_answer_keeps_no_other_from_being_tried() {
        // With a full backlog, the system answers no more.
        let full = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        full.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        full.listen(0).unwrap();
        let silent = full.local_addr().unwrap().as_socket().unwrap();
        let mut waiting = Vec::new();
        while let Ok(stream) = tokio::time::timeout(HEAD_START, TcpStream::connect(silent)).await {
            waiting.push(stream.unwrap());
        }
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let good = listener.local_addr().unwrap();
        let refusing = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let stream = tokio::time::timeout(Duration::from_secs(10), first_to_answer(vec![silent, refusing, good])).await;
        assert_eq!(stream.expect("it does not wait for the first").unwrap().peer_addr().unwrap(), good);
        let refused = first_to_answer(vec![refusing]).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        assert!(first_to_answer(Vec::new()).await.unwrap_err().to_string().contains("no address"));
    }

    #[tokio::test]
    async fn a_peer_that_is_gone_is_found_within_twice_the_idle_time() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let options = SocketOptions { keepalive: Some(Duration::from_secs(9)), ..SocketOptions::default() };
        let stream = tcp("127.0.0.1", port, &options).await.unwrap();
        let socket = SockRef::from(&stream);
        assert_eq!(socket.tcp_keepalive_time().unwrap(), Duration::from_secs(9));
        assert_eq!(socket.tcp_keepalive_interval().unwrap(), Duration::from_secs(3));
        assert_eq!(socket.tcp_keepalive_retries().unwrap(), 3);
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(Duration::from_secs(18)));

        let options = SocketOptions { keepalive: None, ..SocketOptions::default() };
        let stream = tcp("127.0.0.1", port, &options).await.unwrap();
        assert!(!SockRef::from(&stream).keepalive().unwrap());
    }
}
