//! A client that speaks TLS and lets a test see and make the records.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

use onrush::rustls::pki_types::pem::PemObject;
use onrush::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use onrush::rustls::{self, ClientConfig, ClientConnection, HandshakeKind, RootCertStore};
use onrush_tests::client::TIMEOUT;

use super::authority::Authority;

/// How the client trusts `authority`, with the certificate of that name if it has one.
pub fn trust(authority: &Authority, own: Option<&str>) -> Arc<ClientConfig> {
    trust_with(authority, authority, own, rustls::ALL_VERSIONS)
}

/// The same with a certificate of another authority, and other versions of the protocol.
pub fn trust_with(
    authority: &Authority,
    owns: &Authority,
    own: Option<&str>,
    versions: &[&'static rustls::SupportedProtocolVersion],
) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority.path("ca.crt")).expect("a file")).expect("an authority");
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(versions)
        .expect("versions")
        .with_root_certificates(roots);
    let config = match own {
        None => builder.with_no_client_auth(),
        Some(name) => {
            let cert = CertificateDer::from_pem_file(owns.path(&format!("{name}.crt"))).expect("a file");
            let key = PrivateKeyDer::from_pem_file(owns.path(&format!("{name}.key"))).expect("a file");
            builder.with_client_auth_cert(vec![cert], key).expect("a key")
        }
    };
    Arc::new(config)
}

/// A connection.
pub struct Peer {
    socket: TcpStream,
    tls: ClientConnection,
    /// Encrypted bytes that have been read.
    pub received: Vec<u8>,
    plain: Vec<u8>,
    is_at_end: bool,
}

impl Peer {
    /// Connects without a handshake.
    pub fn begin(port: u16, config: &Arc<ClientConfig>) -> Self {
        Self::over(TcpStream::connect(("127.0.0.1", port)).expect("a connection"), config)
    }

    /// The same over a connection that is there.
    pub fn over(socket: TcpStream, config: &Arc<ClientConfig>) -> Self {
        socket.set_nodelay(true).expect("a socket");
        socket.set_read_timeout(Some(TIMEOUT)).expect("a socket");
        socket.set_write_timeout(Some(TIMEOUT)).expect("a socket");
        let name = ServerName::try_from("localhost").expect("a name");
        let tls = ClientConnection::new(Arc::clone(config), name).expect("a configuration");
        Self { socket, tls, received: Vec::new(), plain: Vec::new(), is_at_end: false }
    }

    /// Connects and shakes hands.
    pub fn connect(port: u16, config: &Arc<ClientConfig>) -> io::Result<Self> {
        let mut peer = Self::begin(port, config);
        peer.shake_hands()?;
        Ok(peer)
    }

    /// Shakes hands.
    pub fn shake_hands(&mut self) -> io::Result<()> {
        while self.tls.is_handshaking() {
            self.flush()?;
            if self.tls.is_handshaking() && self.fill()? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        self.flush()
    }

    /// How the handshake ended.
    pub fn kind(&self) -> Option<HandshakeKind> {
        self.tls.handshake_kind()
    }

    /// Encrypts; at most 16 KB make one record.
    pub fn seal(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.tls.writer().write_all(bytes).expect("room");
        self.take_sealed()
    }

    /// Asks for new keys, in a record of its own.
    pub fn change_keys(&mut self) -> Vec<u8> {
        self.tls.refresh_traffic_keys().expect("TLS 1.3");
        self.seal(b"")
    }

    /// The record that says that nothing more comes.
    pub fn goodbye(&mut self) -> Vec<u8> {
        self.tls.send_close_notify();
        self.take_sealed()
    }

    fn take_sealed(&mut self) -> Vec<u8> {
        let mut sealed = Vec::new();
        while self.tls.wants_write() {
            self.tls.write_tls(&mut sealed).expect("a vector takes all");
        }
        sealed
    }

    /// Sends bytes as they are.
    pub fn send_sealed(&mut self, sealed: &[u8]) -> io::Result<()> {
        self.socket.write_all(sealed)
    }

    /// Encrypts and sends.
    pub fn send(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(16 * 1024) {
            let sealed = self.seal(part);
            self.send_sealed(&sealed).expect("the server reads");
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let sealed = self.take_sealed();
        self.send_sealed(&sealed)
    }

    /// Reads once; 0 is the end.
    fn fill(&mut self) -> io::Result<usize> {
        let mut space = [0; 64 * 1024];
        let len = loop {
            match self.socket.read(&mut space) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        self.received.extend_from_slice(&space[..len]);
        let mut rest = &space[..len];
        while !rest.is_empty() {
            self.tls.read_tls(&mut rest)?;
            let state = self.tls.process_new_packets().map_err(io::Error::other)?;
            let at = self.plain.len();
            self.plain.resize(at + state.plaintext_bytes_to_read(), 0);
            let got = match self.tls.reader().read(&mut self.plain[at..]) {
                Ok(got) => got,
                Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
                Err(error) => return Err(error),
            };
            self.plain.truncate(at + got);
            self.is_at_end |= state.peer_has_closed();
            if self.is_at_end {
                break;
            }
        }
        Ok(len)
    }

    /// The next `len` bytes.
    pub fn receive(&mut self, len: usize) -> Vec<u8> {
        while self.plain.len() < len {
            assert!(self.fill().expect("the server sends") > 0, "{} bytes instead of {len}", self.plain.len());
        }
        self.plain.drain(..len).collect()
    }

    /// Sends a command line and checks the reply.
    pub fn expect(&mut self, line: &str, reply: &str) {
        self.send(format!("{line}\r\n").as_bytes());
        let got = self.receive(reply.len());
        assert_eq!(String::from_utf8_lossy(&got), reply, "{line}");
    }

    /// Everything until the end, and whether the server has said that it is the end.
    pub fn receive_rest(&mut self) -> (Vec<u8>, bool) {
        while !self.is_at_end {
            match self.fill() {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
                Err(error) => panic!("{error}"),
            }
        }
        (std::mem::take(&mut self.plain), self.is_at_end)
    }

    /// Why the connection fails, which may come only after the handshake.
    pub fn failure(&mut self) -> String {
        let failed = self.shake_hands().and_then(|()| {
            let ping = self.seal(b"PING\r\n");
            self.send_sealed(&ping)?;
            while self.fill()? > 0 {}
            Err::<(), _>(io::Error::other("closed without a reason"))
        });
        failed.expect_err("a failure").to_string()
    }

    /// Closes the direction to the server, without the words of TLS.
    pub fn cut(&self) {
        self.socket.shutdown(Shutdown::Write).expect("a socket");
    }
}

/// The lengths of the records in encrypted bytes.
pub fn records(mut sealed: &[u8]) -> Vec<usize> {
    let mut lens = Vec::new();
    while let [_, _, _, high, low, rest @ ..] = sealed {
        let len = usize::from(*high) << 8 | usize::from(*low);
        lens.push(len);
        sealed = &rest[len..];
    }
    lens
}
