//! TLS by rustls, behind the feature `tls`: options, and streams that block or do not.

#[cfg(feature = "tls")]
pub use with_rustls::*;
#[cfg(not(feature = "tls"))]
pub use without::*;

use std::path::PathBuf;

/// What the command line says about TLS.
#[derive(Clone, Debug, clap::Args)]
#[cfg_attr(not(feature = "tls"), allow(dead_code, reason = "without TLS they are taken and refused"))]
pub struct TlsOptions {
    /// The name to ask the server for, if not the host's
    #[arg(long, value_name = "name")]
    pub sni: Option<String>,
    /// Certificates to trust
    #[arg(long, value_name = "file")]
    pub cacert: Option<PathBuf>,
    /// A folder of certificates to trust
    #[arg(long, value_name = "folder")]
    pub cacertdir: Option<PathBuf>,
    /// Our certificate
    #[arg(long, value_name = "file")]
    pub cert: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "file")]
    pub key: Option<PathBuf>,
    /// Trusts any certificate
    #[arg(long)]
    pub insecure: bool,
    /// Only these ciphers with TLS 1.2: names of OpenSSL or IANA, with : between them
    #[arg(long, value_name = "list", default_value = "", hide_default_value = true)]
    pub tls_ciphers: String,
    /// Only these with TLS 1.3
    #[arg(long, value_name = "list", default_value = "", hide_default_value = true)]
    pub tls_ciphersuites: String,
}

#[cfg(feature = "tls")]
mod with_rustls {
    use std::io::{self, Read, Write};
    use std::sync::Arc;

    use onrush::rustls::pki_types::ServerName;
    use onrush::rustls::{ClientConfig, ClientConnection};

    use super::TlsOptions;

    /// The most plain text that is encrypted at once.
    const RECORD_LEN: usize = 16 << 10;

    /// How to encrypt, and whom to expect.
    #[derive(Clone, Debug)]
    pub struct Tls {
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
    }

    impl Tls {
        /// For a server of this name, unless the options name another.
        ///
        /// # Errors
        /// What is wrong with the options.
        pub fn new(options: &TlsOptions, host: &str) -> Result<Tls, String> {
            let mut tls = onrush::TlsOptions::default();
            let text = |error: onrush::RedisError| error.to_string();
            if let Some(file) = &options.cacert {
                tls = tls.with_ca_file(file).map_err(text)?;
            }
            if let Some(folder) = &options.cacertdir {
                tls = tls.with_ca_folder(folder).map_err(text)?;
            }
            match (&options.cert, &options.key) {
                (Some(cert), Some(key)) => tls = tls.with_identity_files(cert, key).map_err(text)?,
                (None, None) => {}
                _ => return Err("TLS: --cert and --key belong together".into()),
            }
            let lists = [&options.tls_ciphers, &options.tls_ciphersuites];
            let names = lists.into_iter().flat_map(|list| list.split([':', ',', ' '])).filter(|name| !name.is_empty());
            let ciphers: Vec<String> = names.map(str::to_owned).collect();
            if !ciphers.is_empty() {
                tls = tls.with_cipher_suites(&ciphers).map_err(text)?;
            }
            let config = Arc::new(tls.client_config(options.insecure).map_err(text)?);
            let name = options.sni.as_deref().unwrap_or(host).to_owned();
            let name = ServerName::try_from(name).map_err(|error| format!("TLS: {error}"))?;
            Ok(Tls { config, name })
        }

        /// The suites that are offered, by rustls's names.
        #[cfg(test)]
        pub fn suites(&self) -> Vec<String> {
            self.config.crypto_provider().cipher_suites.iter().map(|suite| format!("{:?}", suite.suite())).collect()
        }

        /// Shakes hands over a socket that blocks.
        ///
        /// # Errors
        /// Those of the socket, and what the two sides do not agree on.
        pub fn open<S: Read + Write>(&self, socket: S) -> io::Result<TlsStream<S>> {
            let mut stream = self.start(socket)?;
            while stream.is_handshaking() {
                stream.state.complete_io(&mut stream.socket)?;
            }
            Ok(stream)
        }

        /// A stream over a socket that does not block; hands are shaken while it is read and written.
        ///
        /// # Errors
        /// What is wrong with the configuration.
        pub fn start<S>(&self, socket: S) -> io::Result<TlsStream<S>> {
            let state = ClientConnection::new(self.config.clone(), self.name.clone()).map_err(io::Error::other)?;
            Ok(TlsStream { state, socket })
        }
    }

    /// An encrypted stream over a socket, which may or may not block.
    #[derive(Debug)]
    pub struct TlsStream<S> {
        state: ClientConnection,
        pub socket: S,
    }

    impl<S> TlsStream<S> {
        /// The same session over the same connection in another shape.
        ///
        /// # Errors
        /// Those of `shape`.
        pub fn reshape<T>(self, shape: impl FnOnce(S) -> io::Result<T>) -> io::Result<TlsStream<T>> {
            Ok(TlsStream { state: self.state, socket: shape(self.socket)? })
        }

        /// Whether the two sides have not agreed yet.
        pub fn is_handshaking(&self) -> bool {
            self.state.is_handshaking()
        }
    }

    impl<S: Write> TlsStream<S> {
        /// Whether encrypted bytes wait for the socket.
        pub fn holds_output(&self) -> bool {
            self.state.wants_write()
        }
    }

    impl<S: Read> Read for TlsStream<S> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            loop {
                match self.state.reader().read(into) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    // A server that just closes the connection has ended it all the same.
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                    done => return done,
                }
                self.state.read_tls(&mut self.socket)?;
                self.state.process_new_packets().map_err(io::Error::other)?;
            }
        }
    }

    impl<S: Write> Write for TlsStream<S> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.flush()?;
            let taken = self.state.writer().write(&bytes[..bytes.len().min(RECORD_LEN)])?;
            match self.flush() {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
                _ => Ok(taken),
            }
        }

        /// Writes what is encrypted already.
        fn flush(&mut self) -> io::Result<()> {
            while self.state.wants_write() {
                self.state.write_tls(&mut self.socket)?;
            }
            Ok(())
        }
    }
}

#[cfg(not(feature = "tls"))]
mod without {
    use super::TlsOptions;

    /// Never made: this build has no TLS.
    #[derive(Clone, Debug)]
    pub enum Tls {}

    impl Tls {
        /// # Errors
        /// Always.
        pub fn new(_: &TlsOptions, _: &str) -> Result<Tls, String> {
            Err("this build has no TLS".into())
        }
    }
}
