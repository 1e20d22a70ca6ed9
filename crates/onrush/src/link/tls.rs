//! TLS by rustls with ring, behind the feature `tls`.

#[cfg(feature = "tls")]
use std::path::Path;

#[cfg(feature = "tls")]
use crate::error::{ErrorKind, RedisError, RedisResult};

/// What TLS connections trust and present. Without the feature `tls` it holds nothing.
#[derive(Clone, Default)]
pub struct TlsOptions {
    #[cfg(feature = "tls")]
    ca_pem: Option<Vec<u8>>,
    #[cfg(feature = "tls")]
    identity_pem: Option<(Vec<u8>, Vec<u8>)>,
    #[cfg(feature = "tls")]
    server_name: Option<String>,
    #[cfg(feature = "tls")]
    cipher_suites: Option<Vec<rustls::SupportedCipherSuite>>,
    #[cfg(feature = "tls")]
    rustls: Option<std::sync::Arc<rustls::ClientConfig>>,
}

impl std::fmt::Debug for TlsOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TlsOptions")
    }
}

#[cfg(feature = "tls")]
impl TlsOptions {
    /// Trusts the certificate authorities in this PEM text, and in that of other such calls, instead of the operating
    /// system's.
    pub fn with_ca_pem(mut self, pem: impl AsRef<[u8]>) -> TlsOptions {
        let pems = self.ca_pem.get_or_insert_default();
        pems.extend_from_slice(pem.as_ref());
        pems.push(b'\n');
        self
    }

    /// As [`TlsOptions::with_ca_pem`], from a file.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn with_ca_file(self, file: impl AsRef<Path>) -> RedisResult<TlsOptions> {
        Ok(self.with_ca_pem(read(file.as_ref())?))
    }

    /// As [`TlsOptions::with_ca_pem`], from all files of a folder that hold certificates.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn with_ca_folder(mut self, folder: impl AsRef<Path>) -> RedisResult<TlsOptions> {
        let folder = folder.as_ref();
        self.ca_pem.get_or_insert_default();
        for entry in std::fs::read_dir(folder).map_err(|error| unreadable(folder, &error))? {
            let file = entry.map_err(|error| unreadable(folder, &error))?.path();
            // The folder may also hold other files.
            let Ok(pem) = std::fs::read(&file) else { continue };
            if with_rustls::certificates(&pem).is_ok_and(|found| !found.is_empty()) {
                self = self.with_ca_pem(pem);
            }
        }
        Ok(self)
    }

    /// Presents this certificate chain, with its key, both as PEM text.
    pub fn with_identity_pem(mut self, certificates: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> TlsOptions {
        self.identity_pem = Some((certificates.into(), key.into()));
        self
    }

    /// Only these cipher suites, the best first: by their names of OpenSSL (`ECDHE-RSA-AES128-GCM-SHA256`) or IANA
    /// (`TLS_AES_128_GCM_SHA256`). A version of TLS of which none is named keeps all of its own.
    ///
    /// # Errors
    /// A name that is unknown, with those that are known.
    pub fn with_cipher_suites<S: AsRef<str>>(mut self, names: impl IntoIterator<Item = S>) -> RedisResult<TlsOptions> {
        self.cipher_suites = Some(with_rustls::cipher_suites(names)?);
        Ok(self)
    }

    /// The name that the server's certificate must bear, and that the server is told (SNI), in place of the URL's host:
    /// for servers behind a proxy, a tunnel or a bare address.
    pub fn with_server_name(mut self, name: impl Into<String>) -> TlsOptions {
        self.server_name = Some(name.into());
        self
    }

    /// A configuration of rustls of your own: versions, ciphers, verifiers, session stores, no SNI. All is as it says:
    /// the other options have no effect then, but for [`with_server_name`](Self::with_server_name), nor has
    /// `#insecure`.
    pub fn with_rustls(mut self, config: impl Into<std::sync::Arc<rustls::ClientConfig>>) -> TlsOptions {
        self.rustls = Some(config.into());
        self
    }

    /// As [`TlsOptions::with_identity_pem`], from two files.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn with_identity_files(self, certificates: impl AsRef<Path>, key: impl AsRef<Path>) -> RedisResult<TlsOptions> {
        Ok(self.with_identity_pem(read(certificates.as_ref())?, read(key.as_ref())?))
    }

    /// These options as rustls takes them, for TLS on a socket of your own; `insecure` trusts any certificate.
    ///
    /// # Errors
    /// What is wrong with the certificates or the key.
    pub fn client_config(&self, insecure: bool) -> RedisResult<rustls::ClientConfig> {
        if let Some(config) = &self.rustls {
            return Ok(rustls::ClientConfig::clone(config));
        }
        with_rustls::config(insecure, self)
    }
}

#[cfg(feature = "tls")]
fn unreadable(path: &Path, error: &std::io::Error) -> RedisError {
    RedisError::new(ErrorKind::InvalidClientConfig, format!("TLS: {}: {error}", path.display()))
}

#[cfg(feature = "tls")]
fn read(file: &Path) -> RedisResult<Vec<u8>> {
    std::fs::read(file).map_err(|error| unreadable(file, &error))
}

/// The TLS library, as this crate uses it.
#[cfg(feature = "tls")]
pub use tokio_rustls::rustls;

/// State that the connections of a client share: the configuration, which the first of them makes, and the sessions in
/// it, which the others resume.
#[derive(Clone, Default, Debug)]
pub(crate) struct TlsContext {
    #[cfg(feature = "tls")]
    options: TlsOptions,
    #[cfg(feature = "tls")]
    config: std::sync::Arc<tokio::sync::OnceCell<std::sync::Arc<rustls::ClientConfig>>>,
}

impl TlsContext {
    pub(crate) fn new(options: TlsOptions) -> TlsContext {
        #[cfg(feature = "tls")]
        return TlsContext { options, config: Default::default() };
        #[cfg(not(feature = "tls"))]
        {
            let _ = options;
            TlsContext {}
        }
    }
}

#[cfg(feature = "tls")]
mod with_rustls {
    use std::sync::Arc;

    use tokio::net::TcpStream;
    use tokio_rustls::TlsConnector;
    use tokio_rustls::client::TlsStream;
    use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
    use tokio_rustls::rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
    use tokio_rustls::rustls::pki_types::pem::PemObject;
    use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
    use tokio_rustls::rustls::{
        ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme, SupportedCipherSuite,
    };

    use super::{TlsContext, TlsOptions};
    use crate::error::{ErrorKind, RedisError, RedisResult};

    fn bad(what: impl std::fmt::Display) -> RedisError {
        RedisError::new(ErrorKind::InvalidClientConfig, format!("TLS: {what}"))
    }

    impl TlsContext {
        /// A TLS connection over a TCP one. Whether it is `insecure` must be the same for all of a client.
        pub(crate) async fn connect(
            &self,
            host: &str,
            insecure: bool,
            stream: TcpStream,
        ) -> RedisResult<TlsStream<TcpStream>> {
            let name = self.options.server_name.as_deref().unwrap_or(host);
            let name = ServerName::try_from(name.to_owned()).map_err(bad)?;
            if let Some(config) = &self.options.rustls {
                return Ok(TlsConnector::from(config.clone()).connect(name, stream).await?);
            }
            let config = self.config.get_or_try_init(async || {
                let options = self.options.clone();
                // It may read files: those of the system's authorities.
                let made = tokio::task::spawn_blocking(move || config(insecure, &options)).await;
                made.map_err(bad)?.map(Arc::new)
            });
            let config = config.await?.clone();
            Ok(TlsConnector::from(config).connect(name, stream).await?)
        }
    }

    pub(crate) fn config(insecure: bool, options: &TlsOptions) -> RedisResult<ClientConfig> {
        let mut provider = ring::default_provider();
        if let Some(suites) = &options.cipher_suites {
            provider.cipher_suites.clone_from(suites);
        }
        let provider = Arc::new(provider);
        let builder =
            ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions().map_err(bad)?;
        let builder = if insecure {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(TrustAnybody(provider)))
        } else {
            builder.with_root_certificates(roots(options)?)
        };
        match &options.identity_pem {
            None => Ok(builder.with_no_client_auth()),
            Some((chain, key)) => {
                let key = PrivateKeyDer::from_pem_slice(key).map_err(bad)?;
                builder.with_client_auth_cert(certificates(chain)?, key).map_err(bad)
            }
        }
    }

    /// The suites of these names, and all of the versions of TLS of which none is named.
    pub(crate) fn cipher_suites<S: AsRef<str>>(
        names: impl IntoIterator<Item = S>,
    ) -> RedisResult<Vec<SupportedCipherSuite>> {
        let all = ring::default_provider().cipher_suites;
        let mut suites: Vec<SupportedCipherSuite> = Vec::new();
        for name in names {
            let name = name.as_ref();
            let is_it =
                |suite: &&SupportedCipherSuite| names_of(suite).iter().any(|own| own.eq_ignore_ascii_case(name));
            let suite = all.iter().find(is_it).ok_or_else(|| {
                let known: Vec<String> = all.iter().map(|suite| names_of(suite)[1].clone()).collect();
                bad(format!("there is no cipher suite '{name}'; there are {}", known.join(", ")))
            })?;
            suites.push(*suite);
        }
        let is_13 = |suite: &SupportedCipherSuite| matches!(suite, SupportedCipherSuite::Tls13(_));
        let has = [false, true].map(|version| suites.iter().any(|suite| is_13(suite) == version));
        suites.extend(all.iter().filter(|suite| !has[usize::from(is_13(suite))]));
        Ok(suites)
    }

    /// A suite's names: IANA's and OpenSSL's.
    fn names_of(suite: &SupportedCipherSuite) -> [String; 2] {
        let name = format!("{:?}", suite.suite()).replace("TLS13_", "TLS_");
        if matches!(suite, SupportedCipherSuite::Tls13(_)) {
            return [name.clone(), name];
        }
        let short = name.trim_start_matches("TLS_").replace("_WITH_", "-").replace("AES_", "AES").replace('_', "-");
        [name, short.replace("POLY1305-SHA256", "POLY1305")]
    }

    fn roots(options: &TlsOptions) -> RedisResult<RootCertStore> {
        let mut roots = RootCertStore::empty();
        match &options.ca_pem {
            Some(pem) => {
                let found = certificates(pem)?;
                let count = found.len();
                if roots.add_parsable_certificates(found).0 == 0 {
                    return Err(bad(format!("none of the {count} certificates to trust can be used")));
                }
            }
            // Some systems have certificates that rustls does not accept; the others suffice.
            None => drop(roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs)),
        }
        Ok(roots)
    }

    pub(crate) fn certificates(pem: &[u8]) -> RedisResult<Vec<CertificateDer<'static>>> {
        CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(bad)
    }

    /// For `#insecure`: checks signatures, so the peer has the key it shows, but not whose it is.
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
        ) -> Result<ServerCertVerified, Error> {
            Ok(ServerCertVerified::assertion())
        }

        fn verify_tls12_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.0.signature_verification_algorithms.supported_schemes()
        }
    }
}

#[cfg(all(test, feature = "tls"))]
mod tests {
    use super::*;

    #[test]
    fn suites_are_chosen_by_either_name_and_for_their_version_only() {
        let suites = |names: &[&str]| -> RedisResult<Vec<String>> {
            let made = with_rustls::cipher_suites(names)?;
            Ok(made.iter().map(|suite| format!("{:?}", suite.suite())).collect())
        };
        let one = suites(&["ecdhe-rsa-chacha20-poly1305"]).unwrap();
        assert_eq!(one[0], "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256");
        assert!(one.len() == 4 && one[1..].iter().all(|name| name.starts_with("TLS13_")), "{one:?}");
        let both =
            ["TLS_AES_128_GCM_SHA256", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES128-GCM-SHA256"];
        assert_eq!(suites(&both).unwrap().len(), 3);
        let error = suites(&["HIGH"]).unwrap_err().to_string();
        assert!(error.contains("'HIGH'") && error.contains("ECDHE-RSA-AES256-GCM-SHA384"), "{error}");
        let tls = TlsOptions::default().with_cipher_suites(["TLS_AES_128_GCM_SHA256"]).unwrap();
        assert_eq!(tls.client_config(true).unwrap().crypto_provider().cipher_suites.len(), 7);
    }
}
