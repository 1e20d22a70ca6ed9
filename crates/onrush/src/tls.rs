//! TLS by rustls with ring, behind the feature `tls`.

/// What TLS connections trust and present. Without the feature `tls` it holds nothing.
#[derive(Clone, Default)]
pub struct TlsOptions {
    #[cfg(feature = "tls")]
    ca_pem: Option<Vec<u8>>,
    #[cfg(feature = "tls")]
    identity_pem: Option<(Vec<u8>, Vec<u8>)>,
}

impl std::fmt::Debug for TlsOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TlsOptions")
    }
}

#[cfg(feature = "tls")]
impl TlsOptions {
    /// Trusts the certificate authorities in this PEM text instead of the operating system's.
    pub fn with_ca_pem(mut self, pem: impl Into<Vec<u8>>) -> TlsOptions {
        self.ca_pem = Some(pem.into());
        self
    }

    /// Presents this certificate chain, with its key, both as PEM text.
    pub fn with_identity_pem(mut self, certificates: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> TlsOptions {
        self.identity_pem = Some((certificates.into(), key.into()));
        self
    }
}

#[cfg(feature = "tls")]
pub(crate) use with_rustls::connect;

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
    use tokio_rustls::rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

    use super::TlsOptions;
    use crate::error::{ErrorKind, RedisError, RedisResult};

    fn bad(what: impl std::fmt::Display) -> RedisError {
        RedisError::new(ErrorKind::InvalidClientConfig, format!("TLS: {what}"))
    }

    pub(crate) async fn connect(
        host: &str,
        insecure: bool,
        options: &TlsOptions,
        stream: TcpStream,
    ) -> RedisResult<TlsStream<TcpStream>> {
        let name = ServerName::try_from(host.to_owned()).map_err(bad)?;
        let config = config(insecure, options)?;
        Ok(TlsConnector::from(Arc::new(config)).connect(name, stream).await?)
    }

    fn config(insecure: bool, options: &TlsOptions) -> RedisResult<ClientConfig> {
        let provider = Arc::new(ring::default_provider());
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

    fn roots(options: &TlsOptions) -> RedisResult<RootCertStore> {
        let mut roots = RootCertStore::empty();
        match &options.ca_pem {
            Some(pem) => {
                for certificate in certificates(pem)? {
                    roots.add(certificate).map_err(bad)?;
                }
            }
            // Some systems carry certificates that rustls does not take; the others will do.
            None => drop(roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs)),
        }
        Ok(roots)
    }

    fn certificates(pem: &[u8]) -> RedisResult<Vec<CertificateDer<'static>>> {
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
