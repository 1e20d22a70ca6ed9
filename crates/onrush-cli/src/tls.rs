//! TLS by rustls with ring, behind the feature `tls`.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::target::{Target, TlsOptions};

/// How much is encrypted, and read of the socket, at once.
const CHUNK_LEN: usize = 16 << 10;

/// An encrypted connection. Clones share it: one may write while another reads, since nobody waits for the socket with
/// the lock held. Only one of them may write, or records would overtake each other.
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

    /// See [`TcpStream::set_read_timeout`].
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.socket.set_read_timeout(timeout)
    }

    /// See [`TcpStream::set_nonblocking`].
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.socket.set_nonblocking(nonblocking)
    }

    /// See [`TcpStream::shutdown`].
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.socket.shutdown(how)
    }

    fn state(&self) -> MutexGuard<'_, ClientConnection> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
        let mut outgoing = std::mem::take(&mut self.outgoing);
        outgoing.clear();
        let mut state = self.state();
        let taken = state.writer().write(&bytes[..bytes.len().min(CHUNK_LEN)])?;
        while state.wants_write() {
            state.write_tls(&mut outgoing)?;
        }
        drop(state);
        self.socket.write_all(&outgoing)?;
        self.outgoing = outgoing;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn config(options: &TlsOptions) -> io::Result<ClientConfig> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone());
    let builder = builder.with_safe_default_protocol_versions().map_err(bad)?;
    let builder = if options.insecure {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(TrustAnybody(provider)))
    } else {
        builder.with_root_certificates(roots(options)?)
    };
    match (&options.cert_file, &options.key_file) {
        (None, None) => Ok(builder.with_no_client_auth()),
        (Some(cert), Some(key)) => {
            let key = PrivateKeyDer::from_pem_file(key).map_err(|error| bad(format!("{}: {error}", key.display())))?;
            builder.with_client_auth_cert(certificates(cert)?, key).map_err(bad)
        }
        _ => Err(bad("--cert and --key belong together")),
    }
}

fn roots(options: &TlsOptions) -> io::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    if let Some(file) = &options.ca_file {
        for certificate in certificates(file)? {
            roots.add(certificate).map_err(bad)?;
        }
    }
    if let Some(folder) = &options.ca_folder {
        for entry in std::fs::read_dir(folder).map_err(|error| bad(format!("{}: {error}", folder.display())))? {
            // What is no certificate may lie in that folder too.
            roots.add_parsable_certificates(certificates(&entry?.path()).unwrap_or_default());
        }
    }
    if options.ca_file.is_none() && options.ca_folder.is_none() {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    Ok(roots)
}

fn certificates(file: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
    read.map_err(|error| bad(format!("{}: {error}", file.display())))
}

/// For `--insecure`: checks signatures, so the server has the key it shows, but not whose it is.
#[derive(Debug)]
struct TrustAnybody(Arc<CryptoProvider>);

impl ServerCertVerifier for TrustAnybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
