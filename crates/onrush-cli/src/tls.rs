//! TLS by rustls with ring, behind the feature `tls`.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, PoisonError};

use onrush::rustls::pki_types::ServerName;
use onrush::rustls::{ClientConfig, ClientConnection};

use crate::target::{Target, TlsOptions};

/// How much is encrypted, and read of the socket, at once.
const CHUNK_LEN: usize = 16 << 10;

/// An encrypted connection. Clones share it: one may write while another reads, since no thread waits for the socket
/// while it holds the lock. Only one of them may write, or records would overtake each other.
pub struct TlsStream {
    state: Arc<Mutex<ClientConnection>>,
    socket: TcpStream,
    /// Encrypted bytes read from the socket and not yet decrypted.
    incoming: Vec<u8>,
    /// Encrypted bytes on their way to the socket.
    outgoing: Vec<u8>,
}

fn bad(what: impl std::fmt::Display) -> io::Error {
    io::Error::other(format!("TLS: {what}"))
}

impl TlsStream {
    /// Shakes hands.
    ///
    /// # Errors
    /// When a certificate or key cannot be read, or the two sides do not agree.
    pub fn open(mut stream: TcpStream, target: &Target) -> io::Result<TlsStream> {
        let name = target.tls_options.sni.clone().unwrap_or_else(|| target.host.clone());
        let name = ServerName::try_from(name).map_err(bad)?;
        let config = config(&target.tls_options)?;
        let mut connection = ClientConnection::new(Arc::new(config), name).map_err(bad)?;
        while connection.is_handshaking() {
            connection.complete_io(&mut stream)?;
        }
        Ok(TlsStream::new(Arc::new(Mutex::new(connection)), stream))
    }

    fn new(state: Arc<Mutex<ClientConnection>>, socket: TcpStream) -> TlsStream {
        TlsStream { state, socket, incoming: Vec::new(), outgoing: Vec::new() }
    }

    /// A second handle, to read with while this one writes.
    pub fn try_clone(&self) -> io::Result<TlsStream> {
        Ok(TlsStream::new(self.state.clone(), self.socket.try_clone()?))
    }
}

impl AsFd for TlsStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Read for TlsStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            match state.reader().read(into) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // A server that just closes the connection has ended it all the same.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                done => return done,
            }
            if self.incoming.is_empty() {
                drop(state);
                self.incoming.resize(CHUNK_LEN, 0);
                let read = self.socket.read(&mut self.incoming);
                self.incoming.truncate(*read.as_ref().unwrap_or(&0));
                if read? == 0 {
                    return Ok(0);
                }
                continue;
            }
            let mut rest = self.incoming.as_slice();
            let taken = state.read_tls(&mut rest)?;
            state.process_new_packets().map_err(bad)?;
            drop(state);
            self.incoming.drain(..taken);
        }
    }
}

impl Write for TlsStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.outgoing.clear();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = state.writer().write(&bytes[..bytes.len().min(CHUNK_LEN)])?;
        while state.wants_write() {
            state.write_tls(&mut self.outgoing)?;
        }
        drop(state);
        self.socket.write_all(&self.outgoing)?;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn config(options: &TlsOptions) -> io::Result<ClientConfig> {
    let (cert, key) = (&options.cert_file, &options.key_file);
    if cert.is_some() != key.is_some() {
        return Err(io::Error::other("TLS: --cert and --key belong together"));
    }
    let build = || {
        let mut tls = onrush::TlsOptions::default();
        if let Some(file) = &options.ca_file {
            tls = tls.with_ca_file(file)?;
        }
        if let Some(folder) = &options.ca_folder {
            tls = tls.with_ca_folder(folder)?;
        }
        if let (Some(cert), Some(key)) = (cert, key) {
            tls = tls.with_identity_files(cert, key)?;
        }
        if !options.ciphers.is_empty() {
            tls = tls.with_cipher_suites(&options.ciphers)?;
        }
        tls.client_config(options.insecure)
    };
    build().map_err(|error: onrush::RedisError| io::Error::other(error.to_string()))
}
