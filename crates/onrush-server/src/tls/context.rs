//! The configurations of rustls that the directives ask for.

use std::sync::Arc;
use std::time::Duration;

use rustls::client::ClientConfig;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::PrivateKeyDer;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoClientAuth, NoServerSessionStorage, ServerConfig, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{Error, InconsistentKeys, RootCertStore, SupportedProtocolVersion};

use super::chain::ChainVerifier;
use super::errors::reason;
use super::sessions::Sessions;
use super::{files, suites};
use crate::config::Config;

/// Tickets that a client gets for resuming its session, each good for one time.
const TICKETS: usize = 2;

/// Whether anything of this configuration speaks TLS, so that [`Contexts`] are needed.
pub fn is_used(config: &Config) -> bool {
    config.tls_port != 0 || config.tls_replication || config.tls_cluster
}

/// What the directives say, read from the files that they name.
#[derive(Clone, Debug)]
pub struct Contexts {
    /// For those who connect to this server.
    pub server: Arc<ServerConfig>,
    /// For connections of this server to other ones: links of replication and cluster, and MIGRATE. There is none without
    /// authorities.
    pub links: Option<Arc<ClientConfig>>,
    /// For other nodes that connect to the bus of the cluster: they always have to show a certificate. There is none without
    /// `tls-cluster`.
    pub bus: Option<Arc<ServerConfig>>,
}

impl Contexts {
    /// Reads the files. Waits for the disk.
    ///
    /// # Errors
    /// A text for the log.
    pub fn read(config: &Config) -> Result<Self, String> {
        if config.tls_cert_file.is_empty() {
            return Err("No tls-cert-file configured!".to_owned());
        }
        if config.tls_key_file.is_empty() {
            return Err("No tls-key-file configured!".to_owned());
        }
        let (file, dir) = (&config.tls_ca_cert_file, &config.tls_ca_cert_dir);
        let verifies = config.tls_auth_clients != "no" || config.tls_cluster || config.tls_replication;
        if verifies && file.is_empty() && dir.is_empty() {
            return Err(
                "Either tls-ca-cert-file or tls-ca-cert-dir must be specified when tls-cluster, tls-replication \
                        or tls-auth-clients are enabled!"
                    .to_owned(),
            );
        }
        let parts = Parts {
            provider: Arc::new(CryptoProvider {
                cipher_suites: suites::suites(&config.tls_ciphersuites, &config.tls_ciphers)?,
                ..ring::default_provider()
            }),
            versions: suites::versions(&config.tls_protocols)?,
            roots: files::authorities(file, dir)?,
        };
        let own = parts.identity(&config.tls_cert_file, &config.tls_key_file, &config.tls_key_file_pass)?;
        let as_client = match (config.tls_client_cert_file.as_str(), config.tls_client_key_file.as_str()) {
            ("", "") => Arc::clone(&own),
            ("", _) | (_, "") => {
                return Err("tls-client-cert-file and tls-client-key-file belong together".to_owned());
            }
            (cert, key) => parts.identity(cert, key, &config.tls_client_key_file_pass)?,
        };
        let links = if parts.roots.is_empty() { None } else { Some(Arc::new(parts.links(as_client)?)) };
        let bus = match config.tls_cluster {
            true => Some(Arc::new(parts.server(Arc::clone(&own), config, "yes")?)),
            false => None,
        };
        Ok(Self { server: Arc::new(parts.server(own, config, config.tls_auth_clients)?), links, bus })
    }
}

/// Whether a certificate that cannot be read has the public part of its key somewhere. O(bytes of both).
fn may_have_key(certified: &CertifiedKey) -> bool {
    match (certified.key.public_key(), certified.end_entity_cert()) {
        (Some(public), Ok(certificate)) => certificate.windows(public.len()).any(|part| part == &public[..]),
        _ => true,
    }
}

/// What both configurations are made of.
struct Parts {
    provider: Arc<CryptoProvider>,
    versions: Vec<&'static SupportedProtocolVersion>,
    roots: RootCertStore,
}

impl Parts {
    fn identity(&self, cert: &str, key: &str, password: &[u8]) -> Result<Arc<SingleCertAndKey>, String> {
        let chain = files::certificates(cert)?;
        let private: PrivateKeyDer<'static> = files::private_key(key, password)?;
        let private = self.provider.key_provider.load_private_key(private);
        let private = private.map_err(|error| format!("{key}: {}", reason(&error)))?;
        let certified = CertifiedKey::new(chain, private);
        let are_alike = match certified.keys_match() {
            Ok(()) => true,
            Err(Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => false,
            // Whether an unusual certificate is good enough, such as one of version 1, is for the clients to say.
            Err(_) => may_have_key(&certified),
        };
        match are_alike {
            true => Ok(Arc::new(SingleCertAndKey::from(certified))),
            false => Err(format!("{key}: it is not the key of the certificate in {cert}")),
        }
    }

    fn server(&self, own: Arc<SingleCertAndKey>, config: &Config, auth_clients: &str) -> Result<ServerConfig, String> {
        let text = |error: Error| reason(&error);
        let mut server = ServerConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_protocol_versions(&self.versions)
            .map_err(text)?
            .with_client_cert_verifier(self.client_verifier(auth_clients)?)
            .with_cert_resolver(own);
        server.ignore_client_order = config.tls_prefer_server_ciphers;
        if config.tls_session_caching {
            let lifetime = Duration::from_secs(config.tls_session_cache_timeout);
            server.session_storage = Arc::new(Sessions::new(config.tls_session_cache_size as usize, lifetime));
            server.send_tls13_tickets = TICKETS;
        } else {
            server.session_storage = Arc::new(NoServerSessionStorage {});
            server.send_tls13_tickets = 0;
        }
        Ok(server)
    }

    /// `auth_clients`: the value of `tls-auth-clients`.
    fn client_verifier(&self, auth_clients: &str) -> Result<Arc<dyn ClientCertVerifier>, String> {
        if auth_clients == "no" {
            return Ok(Arc::new(NoClientAuth));
        }
        let builder =
            WebPkiClientVerifier::builder_with_provider(Arc::new(self.roots.clone()), Arc::clone(&self.provider));
        let builder = if auth_clients == "optional" { builder.allow_unauthenticated() } else { builder };
        builder.build().map_err(|error| format!("tls-auth-clients: {error}"))
    }

    fn links(&self, own: Arc<SingleCertAndKey>) -> Result<ClientConfig, String> {
        let algorithms = self.provider.signature_verification_algorithms;
        let verifier = ChainVerifier { roots: self.roots.clone(), algorithms };
        let links = ClientConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_protocol_versions(&self.versions)
            .map_err(|error| reason(&error))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_client_cert_resolver(own);
        Ok(links)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use rustls::{ClientConnection, HandshakeKind, ProtocolVersion, ServerConnection};

    use super::*;
    use crate::tls::testing::Folder;

    fn config(folder: &Folder, more: &[(&str, &str)]) -> Config {
        let files = [("tls-cert-file", "server.crt"), ("tls-key-file", "server.key"), ("tls-ca-cert-file", "ca.crt")];
        let files = files.map(|(name, file)| (name, folder.path(file)));
        let all = files.iter().map(|(name, path)| (*name, path.as_str())).chain(more.iter().copied());
        all.fold(Config::default(), |config, (name, value)| config.with(name, value).unwrap())
    }

    /// Has a link to a server of the same configuration shake hands.
    fn meet(server: &Contexts, client: &Contexts) -> Result<(ClientConnection, ServerConnection), Error> {
        let mut server = ServerConnection::new(Arc::clone(&server.server))?;
        let name = "10.0.0.1".try_into().unwrap();
        let mut client = ClientConnection::new(Arc::clone(client.links.as_ref().unwrap()), name)?;
        for _ in 0..4 {
            let mut flight = Vec::new();
            while client.wants_write() {
                client.write_tls(&mut flight).unwrap();
            }
            server.read_tls(&mut &flight[..]).unwrap();
            server.process_new_packets()?;
            let mut flight = Vec::new();
            while server.wants_write() {
                server.write_tls(&mut flight).unwrap();
            }
            client.read_tls(&mut &flight[..]).unwrap();
            client.process_new_packets()?;
        }
        assert!(!client.is_handshaking() && !server.is_handshaking());
        client.writer().write_all(b"PING").unwrap();
        let mut record = Vec::new();
        client.write_tls(&mut record).unwrap();
        server.read_tls(&mut &record[..]).unwrap();
        server.process_new_packets()?;
        let mut plain = [0; 4];
        server.reader().read_exact(&mut plain).unwrap();
        assert_eq!(&plain, b"PING");
        Ok((client, server))
    }

    #[test]
    fn a_link_trusts_a_chain_under_any_name_and_shows_its_certificate() {
        let folder = Folder::with_certificates();
        let client =
            [("tls-client-cert-file", folder.path("client.crt")), ("tls-client-key-file", folder.path("client.key"))];
        let client: Vec<_> = client.iter().map(|(name, path)| (*name, path.as_str())).collect();
        let contexts = Contexts::read(&config(&folder, &client)).unwrap();
        let (_, server) = meet(&contexts, &contexts).unwrap();
        let shown = server.peer_certificates().unwrap();
        assert_eq!(shown, files::certificates(&folder.path("client.crt")).unwrap());
        assert_eq!(server.protocol_version(), Some(ProtocolVersion::TLSv1_3));
    }

    #[test]
    fn a_link_does_not_trust_another_authority_nor_an_expired_certificate() {
        let (folder, other) = (Folder::with_certificates(), Folder::with_certificates());
        let ours = Contexts::read(&config(&folder, &[])).unwrap();
        let theirs = Contexts::read(&config(&other, &[])).unwrap();
        let error = meet(&theirs, &ours).unwrap_err();
        assert!(reason(&error).contains("authority"), "{error}");
        folder.expired("expired");
        let (cert, key) = (folder.path("expired.crt"), folder.path("expired.key"));
        let expired = Contexts::read(&config(&folder, &[("tls-cert-file", &cert), ("tls-key-file", &key)])).unwrap();
        let error = meet(&expired, &ours).unwrap_err();
        assert!(reason(&error).contains("expired"), "{error}");
    }

    #[test]
    fn versions_and_suites_are_those_of_the_directives() {
        let folder = Folder::with_certificates();
        let old = config(&folder, &[("tls-protocols", "TLSv1.2"), ("tls-ciphers", "ECDHE-ECDSA-AES128-GCM-SHA256")]);
        let old = Contexts::read(&old).unwrap();
        let (client, _) = meet(&old, &old).unwrap();
        assert_eq!(client.protocol_version(), Some(ProtocolVersion::TLSv1_2));
        let new = config(&folder, &[("tls-protocols", "TLSv1.3"), ("tls-ciphersuites", "TLS_AES_128_GCM_SHA256")]);
        let new = Contexts::read(&new).unwrap();
        let (client, _) = meet(&new, &new).unwrap();
        let suite = client.negotiated_cipher_suite().map(|suite| suite.suite());
        assert_eq!(suite, Some(rustls::CipherSuite::TLS13_AES_128_GCM_SHA256));
        let error = meet(&new, &old).unwrap_err();
        assert!(reason(&error).contains("version"), "{}", reason(&error));
    }

    #[test]
    fn sessions_are_resumed_unless_caching_is_off() {
        let folder = Folder::with_certificates();
        for (more, kind) in [
            (&[][..], HandshakeKind::Resumed),
            (&[("tls-protocols", "TLSv1.2")], HandshakeKind::Resumed),
            (&[("tls-session-caching", "no")], HandshakeKind::Full),
            (&[("tls-session-cache-timeout", "0")], HandshakeKind::Full),
        ] {
            let contexts = Contexts::read(&config(&folder, more)).unwrap();
            meet(&contexts, &contexts).unwrap();
            let (client, _) = meet(&contexts, &contexts).unwrap();
            assert_eq!(client.handshake_kind(), Some(kind), "{more:?}");
        }
    }

    #[test]
    fn what_is_missing_or_does_not_fit_is_said() {
        let folder = Folder::with_certificates();
        let (client_key, none) = (folder.path("client.key"), folder.path("none.crt"));
        for (more, text) in [
            (&[("tls-cert-file", "")][..], "No tls-cert-file configured!"),
            (&[("tls-key-file", "")], "No tls-key-file configured!"),
            (&[("tls-ca-cert-file", "")], "Either tls-ca-cert-file or tls-ca-cert-dir must be specified"),
            (&[("tls-key-file", &client_key)], "it is not the key of the certificate"),
            (&[("tls-client-key-file", &client_key)], "belong together"),
            (&[("tls-ca-cert-file", &none)], "none.crt: No such file or directory"),
            (&[("tls-ciphers", "ALL")], "cannot be honoured"),
            (&[("tls-protocols", "TLSv1")], "not secure"),
        ] {
            let error = Contexts::read(&config(&folder, more)).unwrap_err();
            assert!(error.contains(text), "{error}");
        }
        let open = config(&folder, &[("tls-ca-cert-file", ""), ("tls-auth-clients", "no")]);
        assert!(Contexts::read(&open).unwrap().links.is_none());
    }

    #[test]
    fn a_certificate_of_version_1_is_taken_with_its_key_only() {
        let folder = Folder::with_certificates();
        folder.openssl("req -newkey rsa:2048 -nodes -keyout old.key -out old.csr -subj /CN=old");
        folder.openssl("x509 -req -in old.csr -out old.crt -CA ca.crt -CAkey ca.key -CAcreateserial -days 30");
        folder.openssl("genrsa -out other.key 2048");
        let with_key = |key: &str| {
            let (cert, key) = (folder.path("old.crt"), folder.path(key));
            Contexts::read(&config(&folder, &[("tls-cert-file", &cert), ("tls-key-file", &key)])).map(drop)
        };
        assert_eq!(with_key("old.key"), Ok(()));
        for key in ["other.key", "server.key"] {
            assert!(with_key(key).is_err_and(|error| error.contains("it is not the key of the certificate")), "{key}");
        }
    }
}
