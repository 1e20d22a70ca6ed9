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
use crate::url::ConnectionAddr;

/// Idle time before the kernel asks whether the peer is still there.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// Options of the socket.
#[derive(Clone, Debug, Default)]
pub(crate) struct SocketOptions {
    /// The kernel's buffers, in bytes; its own choice when `None`.
    pub send_buffer_bytes: Option<usize>,
    pub receive_buffer_bytes: Option<usize>,
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
        tls: &crate::tls::TlsOptions,
    ) -> RedisResult<Stream> {
        match addr {
            ConnectionAddr::Tcp(host, port) => Ok(Stream::Tcp(tcp(host, *port, options).await?)),
            #[cfg(feature = "tls")]
            ConnectionAddr::TcpTls { host, port, insecure } => {
                let stream = tcp(host, *port, options).await?;
                Ok(Stream::Tls(Box::new(crate::tls::connect(host, *insecure, tls, stream).await?)))
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
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE))?;
    options.apply(socket)?;
    Ok(stream)
}

impl SocketOptions {
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
