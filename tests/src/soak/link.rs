//! Connections, plain or by TLS.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::argv::Argv;
use crate::client::TIMEOUT;
use crate::resp::reply_len;

/// Where a server listens, and whom a client trusts.
#[derive(Clone)]
pub struct Doors {
    /// The plain port.
    pub port: u16,
    /// The port for TLS.
    pub tls_port: u16,
    config: Arc<ClientConfig>,
}

impl Doors {
    /// With the authority `ca.crt` of a folder.
    pub fn new(port: u16, tls_port: u16, folder: &Path) -> Self {
        let mut roots = RootCertStore::empty();
        let authority = CertificateDer::from_pem_file(folder.join("ca.crt")).expect("a certificate");
        roots.add(authority).expect("an authority");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = builder.expect("versions").with_root_certificates(roots).with_no_client_auth();
        Self { port, tls_port, config: Arc::new(config) }
    }

    /// A socket to one of the ports.
    pub fn socket(&self, is_tls: bool) -> io::Result<TcpStream> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, if is_tls { self.tls_port } else { self.port }));
        let socket = TcpStream::connect_timeout(&address, TIMEOUT)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(TIMEOUT))?;
        socket.set_write_timeout(Some(TIMEOUT))?;
        Ok(socket)
    }

    /// A connection.
    pub fn connect(&self, is_tls: bool) -> io::Result<Link> {
        let socket = self.socket(is_tls)?;
        let stream = if is_tls {
            let name = ServerName::try_from("localhost").expect("a name");
            let tls = ClientConnection::new(Arc::clone(&self.config), name).map_err(io::Error::other)?;
            Stream::Tls(Box::new(StreamOwned::new(tls, socket)))
        } else {
            Stream::Plain(socket)
        };
        Ok(Link { stream, buf: Vec::new() })
    }
}

enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

/// A connection.
pub struct Link {
    stream: Stream,
    buf: Vec<u8>,
}

impl Link {
    fn socket(&self) -> &TcpStream {
        match &self.stream {
            Stream::Plain(socket) => socket,
            Stream::Tls(tls) => &tls.sock,
        }
    }

    /// The connection ends with a reset.
    pub fn reset_on_drop(&self) {
        rustix::net::sockopt::set_socket_linger(self.socket(), Some(Duration::ZERO)).expect("a socket");
    }

    /// How long one read may take.
    pub fn set_timeout(&self, timeout: Duration) {
        self.socket().set_read_timeout(Some(timeout)).expect("a timeout above zero");
    }

    /// Writes all the bytes.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.stream {
            Stream::Plain(socket) => socket.write_all(bytes),
            Stream::Tls(tls) => tls.write_all(bytes).and_then(|()| tls.flush()),
        }
    }

    /// Writes commands at once.
    pub fn send_all(&mut self, commands: &[Argv]) -> io::Result<()> {
        let mut bytes = Vec::new();
        commands.iter().for_each(|command| command.encode(&mut bytes));
        self.send(&bytes)
    }

    /// Reads one raw reply or push. Errors: those of the socket, `UnexpectedEof`, `InvalidData`.
    pub fn read_reply(&mut self) -> io::Result<Vec<u8>> {
        loop {
            let len = reply_len(&self.buf).map_err(|reason| io::Error::new(ErrorKind::InvalidData, reason))?;
            if let Some(len) = len {
                let rest = self.buf.split_off(len);
                return Ok(std::mem::replace(&mut self.buf, rest));
            }
            let mut room = [0; 16 << 10];
            let got = match &mut self.stream {
                Stream::Plain(socket) => socket.read(&mut room),
                Stream::Tls(tls) => tls.read(&mut room),
            }?;
            if got == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            self.buf.extend_from_slice(&room[..got]);
        }
    }

    /// Writes commands, and reads a reply for each; pushes between them are dropped. Errors: as [`Link::read_reply`].
    pub fn exchange(&mut self, commands: &[Argv]) -> io::Result<Vec<Vec<u8>>> {
        self.send_all(commands)?;
        let mut replies = Vec::with_capacity(commands.len());
        while replies.len() < commands.len() {
            let reply = self.read_reply()?;
            if !reply.starts_with(b">") {
                replies.push(reply);
            }
        }
        Ok(replies)
    }
}
