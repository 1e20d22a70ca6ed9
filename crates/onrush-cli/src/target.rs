//! Where the server is, and how to log in.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use onrush::{ConnectionAddr, ConnectionInfo, ProtocolVersion};

use crate::fail::Fail;

/// An address, a login, and what to ask for once connected.
#[derive(Clone, Debug, Default)]
pub struct Target {
    /// Host name or address.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Use addresses of this family only.
    pub only: Option<Family>,
    /// A Unix socket instead.
    pub socket: Option<PathBuf>,
    /// Database number.
    pub db: i64,
    /// User name; the default user when absent.
    pub user: Option<Vec<u8>>,
    /// Password.
    pub password: Option<Vec<u8>>,
    /// Speak RESP3.
    pub resp3: bool,
    /// Go on in RESP2 when the server has no RESP3.
    pub resp3_optional: bool,
    /// How long connecting may take.
    pub connect_timeout: Option<Duration>,
    /// How long the server may be silent while it owes something; for ever if there is none.
    pub read_timeout: Option<Duration>,
    /// Encrypt.
    pub tls: bool,
    /// How to encrypt.
    pub tls_options: TlsOptions,
    /// Tell of connections on standard error.
    pub verbose: bool,
}

/// The version of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    V4,
    V6,
}

/// Certificates and names for TLS.
#[derive(Clone, Debug, Default)]
pub struct TlsOptions {
    /// The name to ask for, when it is not the host's.
    pub sni: Option<String>,
    /// Certificates to trust.
    pub ca_file: Option<PathBuf>,
    /// A folder of certificates to trust.
    pub ca_folder: Option<PathBuf>,
    /// Our certificate.
    pub cert_file: Option<PathBuf>,
    /// Our private key.
    pub key_file: Option<PathBuf>,
    /// Cipher suites to agree on, for their versions of TLS; all if there are none.
    pub ciphers: Vec<String>,
    /// Trust any certificate.
    pub insecure: bool,
}

impl Target {
    /// A server on this machine, without a login.
    pub fn new() -> Target {
        Target { host: "127.0.0.1".to_owned(), port: 6379, ..Target::default() }
    }

    /// Takes what a `redis://user:password@host:port/db` URL says; whether it holds a password.
    ///
    /// # Errors
    /// What is wrong with the URL.
    pub fn set_url(&mut self, url: &str) -> Result<bool, Fail> {
        let Some((scheme, _)) = url.split_once("://") else {
            return Err(Fail::new("Invalid URI scheme"));
        };
        let info = ConnectionInfo::from_url_of_tools(url).map_err(|error| Fail::new(format!("{error}")))?;
        if !info.unknown_options().is_empty() {
            complain!("Ignored options of the URL: {}", info.unknown_options().join(", "));
        }
        match info.addr {
            ConnectionAddr::Tcp(host, port) => (self.host, self.port) = (host, port),
            ConnectionAddr::TcpTls { host, port, insecure } => {
                (self.host, self.port) = (host, port);
                self.tls_options.insecure |= insecure;
                self.use_tls()?;
            }
            ConnectionAddr::Unix(path) => self.socket = Some(path),
            // The rest of the URL may hold a password.
            _ => return Err(Fail::new(format!("A URL of '{scheme}' names a kind of address not known here."))),
        }
        self.db = info.db;
        let has_password = info.password.is_some();
        self.user = info.username.map(String::into_bytes).or(self.user.take());
        self.password = info.password.map(String::into_bytes).or(self.password.take());
        self.resp3 |= url.contains("protocol=") && info.protocol == ProtocolVersion::RESP3;
        Ok(has_password)
    }

    /// Asks for encryption.
    ///
    /// # Errors
    /// When the program was built without it.
    pub fn use_tls(&mut self) -> Result<(), Fail> {
        if cfg!(not(feature = "tls")) {
            return Err(Fail::new("This onrush-cli was built without TLS; build it with --features tls."));
        }
        self.tls = true;
        Ok(())
    }
}

impl fmt::Display for Target {
    /// `host:port`, with brackets around an IPv6 address, or the socket's path.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.socket {
            Some(path) => write!(out, "{}", path.display()),
            None if self.host.contains(':') => write!(out, "[{}]:{}", self.host, self.port),
            None => write!(out, "{}:{}", self.host, self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_alone_before_the_host_is_a_password() {
        for (url, user, password) in [
            ("redis://secret@h", None, Some("secret")),
            ("redis://a%2Fb@h/3", None, Some("a/b")),
            ("redis://secret@h?user=bob", Some("bob"), Some("secret")),
            ("redis://bob@h?pass=secret", Some("bob"), Some("secret")),
            ("redis://bob@h?user=bob", Some("bob"), Some("bob")),
            ("redis://bob:@h", Some("bob"), Some("")),
            ("redis://:secret@h", None, Some("secret")),
            ("redis://:@h", None, None),
            ("redis://h", None, None),
        ] {
            let mut target = Target::new();
            target.set_url(url).unwrap();
            let login = (target.user.as_deref(), target.password.as_deref());
            assert_eq!(login, (user.map(str::as_bytes), password.map(str::as_bytes)), "{url}");
        }
    }

    #[test]
    fn no_refusal_of_a_url_shows_its_password() {
        for (url, named) in [
            ("redis-sentinel://bob:secret@h:26379/mymaster", "'redis-sentinel'"),
            ("rediss-cluster://:secret@h:1,i:2", "'rediss-cluster'"),
            ("nosuch://bob:secret@h", "'nosuch'"),
            ("redis://bob:secret@h:x", "port"),
            ("redis://bob:secret@h/x", "'x'"),
            ("bob:secret@h", "scheme"),
            ("redis://se?cret@h", "reserved characters"),
        ] {
            let said = Target::new().set_url(url).unwrap_err().to_string();
            assert!(said.contains(named) && !said.contains("secret"), "{url}: {said}");
        }
    }
}
