//! Byte streams to a server: TCP, TLS over TCP, Unix sockets.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;

use crate::error::{ErrorKind, RedisError, RedisResult};
use crate::link::url::ConnectionAddr;

/// How many keepalive probes the kernel sends before it gives the connection up.
const KEEPALIVE_PROBES: u32 = 3;

/// Options of the socket.
#[derive(Clone, Debug)]
pub(crate) struct SocketOptions {
    /// The kernel's buffers, in bytes; its own choice when `None`.
    pub send_buffer_bytes: Option<usize>,
    pub receive_buffer_bytes: Option<usize>,
    /// Idle time before the kernel sends keepalive probes; `None`: never.
    pub keepalive: Option<Duration>,
}

impl Default for SocketOptions {
    fn default() -> SocketOptions {
        SocketOptions { send_buffer_bytes: None, receive_buffer_bytes: None, keepalive: Some(Duration::from_secs(15)) }
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
    let stream = TcpStream::connect((host, port)).await?;
    stream.set_nodelay(true)?;
    let socket = SockRef::from(&stream);
    options.keep_alive(&socket)?;
    options.apply(socket)?;
    Ok(stream)
}

impl SocketOptions {
    /// Makes the kernel detect the loss of a peer within twice the idle time, both on an idle connection and with
    /// unacknowledged data.
    fn keep_alive(&self, socket: &SockRef<'_>) -> io::Result<()> {
        let Some(idle) = self.keepalive else { return Ok(()) };
        let idle = idle.max(Duration::from_secs(1));
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
