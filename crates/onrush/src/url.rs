//! Where the server is and who we are there: connection URLs.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::error::{ErrorKind, RedisError, RedisResult};

/// Redis's usual port.
pub const DEFAULT_PORT: u16 = 6379;

/// The version of the protocol to speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, PartialOrd, Ord)]
pub enum ProtocolVersion {
    /// RESP2, which every server speaks.
    RESP2,
    /// RESP3, with maps, sets and pushes; where the server has no RESP3, RESP2 is spoken all the same.
    #[default]
    RESP3,
}

/// Where the server listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ConnectionAddr {
    /// A TCP port.
    Tcp(String, u16),
    /// A TCP port that speaks TLS. Needs the feature `tls`.
    TcpTls {
        /// The host, whose name the certificate must bear.
        host: String,
        /// The port.
        port: u16,
        /// Takes any certificate, which is good for tests only.
        insecure: bool,
    },
    /// A Unix socket.
    Unix(PathBuf),
}

/// Where the server is and who we are there.
///
/// Parsed from a URL:
/// - `redis://[[user]:password@]host[:port][/db][?option=value…]`, also `valkey://` and `onrush://`;
/// - `rediss://…` for TLS, with `#insecure` at the end to take any certificate;
/// - `redis+unix:///path/to/socket[?db=0&user=…&pass=…]`, also `unix://`.
///
/// Options: `protocol=resp2|resp3` (or `2`, `3`), `db`, `user`, `pass`, `client_name`. Reserved characters in any part
/// are percent-encoded.
#[derive(Clone, PartialEq, Eq)]
pub struct ConnectionInfo {
    /// Where the server listens.
    pub addr: ConnectionAddr,
    /// The database to select.
    pub db: i64,
    /// The user to log in as; the default user if there is a password alone.
    pub username: Option<String>,
    /// The password to log in with.
    pub password: Option<String>,
    /// The protocol to ask for.
    pub protocol: ProtocolVersion,
    /// The name to go by in CLIENT LIST.
    pub client_name: Option<String>,
}

/// Hides the password, since such things get logged.
impl fmt::Debug for ConnectionInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionInfo")
            .field("addr", &self.addr)
            .field("db", &self.db)
            .field("username", &self.username)
            .field("password", &self.password.as_ref().map(|_| "…"))
            .field("protocol", &self.protocol)
            .field("client_name", &self.client_name)
            .finish()
    }
}

impl fmt::Display for ConnectionAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => write!(f, "{host}:{port}"),
            ConnectionAddr::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

fn bad(what: impl fmt::Display) -> RedisError {
    RedisError::new(ErrorKind::InvalidClientConfig, format!("the URL {what}"))
}

impl ConnectionInfo {
    /// The default user, database 0, RESP3.
    pub fn new(addr: ConnectionAddr) -> ConnectionInfo {
        ConnectionInfo {
            addr,
            db: 0,
            username: None,
            password: None,
            protocol: ProtocolVersion::default(),
            client_name: None,
        }
    }

    fn set_option(&mut self, name: &str, value: String) -> RedisResult<()> {
        match name {
            "db" => self.db = db(&value)?,
            "user" | "username" => self.username = Some(value),
            "pass" | "password" => self.password = Some(value),
            "client_name" => self.client_name = Some(value),
            "protocol" => {
                self.protocol = match value.as_str() {
                    "resp2" | "2" => ProtocolVersion::RESP2,
                    "resp3" | "3" => ProtocolVersion::RESP3,
                    _ => return Err(bad(format_args!("asks for the protocol '{value}'; there are resp2 and resp3"))),
                }
            }
            _ => return Err(bad(format_args!("has an unknown option '{name}'"))),
        }
        Ok(())
    }
}

impl FromStr for ConnectionInfo {
    type Err = RedisError;

    fn from_str(url: &str) -> RedisResult<ConnectionInfo> {
        let (scheme, rest) = url.split_once("://").ok_or_else(|| bad("has no scheme; say redis://host:port"))?;
        let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut info = match scheme {
            "redis" | "valkey" | "onrush" => tcp(place, false, false)?,
            "rediss" | "valkeys" | "onrushs" => tcp(place, true, fragment == "insecure")?,
            "unix" | "redis+unix" | "valkey+unix" => {
                if place.is_empty() {
                    return Err(bad("names no socket; say redis+unix:///path/to/socket"));
                }
                ConnectionInfo::new(ConnectionAddr::Unix(PathBuf::from(decode(place)?)))
            }
            _ => return Err(bad(format_args!("has the unknown scheme '{scheme}'"))),
        };
        if !(fragment.is_empty() || fragment == "insecure" && matches!(info.addr, ConnectionAddr::TcpTls { .. })) {
            return Err(bad(format_args!("ends in '#{fragment}', which means nothing there")));
        }
        for option in query.split('&').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            info.set_option(name, decode(value)?)?;
        }
        Ok(info)
    }
}

fn tcp(place: &str, tls: bool, insecure: bool) -> RedisResult<ConnectionInfo> {
    let (authority, path) = place.split_once('/').unwrap_or((place, ""));
    let (login, server) = authority.rsplit_once('@').map_or((None, authority), |(login, server)| (Some(login), server));
    let (host, port) = host_and_port(server)?;
    let addr = if tls { ConnectionAddr::TcpTls { host, port, insecure } } else { ConnectionAddr::Tcp(host, port) };
    let mut info = ConnectionInfo::new(addr);
    if let Some(login) = login {
        let (user, password) = login.split_once(':').map_or((login, None), |(user, password)| (user, Some(password)));
        info.username = Some(decode(user)?).filter(|user| !user.is_empty());
        info.password = password.map(decode).transpose()?;
    }
    let path = path.trim_end_matches('/');
    if !path.is_empty() {
        info.db = db(path)?;
    }
    Ok(info)
}

fn host_and_port(server: &str) -> RedisResult<(String, u16)> {
    let (host, port) = match server.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or_else(|| bad("has an unclosed '[' around its host"))?;
            (host, port.strip_prefix(':'))
        }
        None => server.rsplit_once(':').map_or((server, None), |(host, port)| (host, Some(port))),
    };
    let port = match port {
        None | Some("") => DEFAULT_PORT,
        Some(port) => port.parse().map_err(|_| bad(format_args!("has the port '{port}'")))?,
    };
    let host = if host.is_empty() { "127.0.0.1".to_owned() } else { decode(host)? };
    Ok((host, port))
}

fn db(text: &str) -> RedisResult<i64> {
    let number = text.parse().ok().filter(|&number: &i64| number >= 0);
    number.ok_or_else(|| bad(format_args!("has the database '{text}', which is no number")))
}

fn decode(text: &str) -> RedisResult<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| char::from(byte.unwrap_or(b'?')).to_digit(16);
        match (digit(rest.next()), digit(rest.next())) {
            (Some(high), Some(low)) => bytes.push((high * 16 + low) as u8),
            _ => return Err(bad("has a '%' without two hexadecimal digits; write %25 for a percent sign")),
        }
    }
    String::from_utf8(bytes).map_err(|_| bad("holds bytes that are no UTF-8"))
}

/// What can say where the server is: a URL, or its parts.
pub trait IntoConnectionInfo {
    /// The parts.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidClientConfig`] with what is wrong in the URL.
    fn into_connection_info(self) -> RedisResult<ConnectionInfo>;
}

impl IntoConnectionInfo for ConnectionInfo {
    fn into_connection_info(self) -> RedisResult<ConnectionInfo> {
        Ok(self)
    }
}

impl IntoConnectionInfo for &str {
    fn into_connection_info(self) -> RedisResult<ConnectionInfo> {
        self.parse()
    }
}

impl IntoConnectionInfo for String {
    fn into_connection_info(self) -> RedisResult<ConnectionInfo> {
        self.parse()
    }
}

impl<T: AsRef<str>> IntoConnectionInfo for (T, u16) {
    fn into_connection_info(self) -> RedisResult<ConnectionInfo> {
        Ok(ConnectionInfo::new(ConnectionAddr::Tcp(self.0.as_ref().to_owned(), self.1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(url: &str) -> ConnectionInfo {
        url.parse().unwrap()
    }

    #[test]
    fn a_url_names_server_login_database_and_protocol() {
        let info = parse("redis://al%20ice:p%40ss@example.com:7000/3?protocol=resp2&client_name=me");
        assert_eq!(info.addr, ConnectionAddr::Tcp("example.com".into(), 7000));
        assert_eq!((info.username.as_deref(), info.password.as_deref()), (Some("al ice"), Some("p@ss")));
        assert_eq!((info.db, info.protocol, info.client_name.as_deref()), (3, ProtocolVersion::RESP2, Some("me")));
        assert!(!format!("{info:?}").contains("p@ss"));
    }

    #[test]
    fn what_a_url_leaves_out_has_a_default() {
        assert_eq!(parse("redis://"), ConnectionInfo::new(ConnectionAddr::Tcp("127.0.0.1".into(), 6379)));
        assert_eq!(parse("redis://[::1]/").addr, ConnectionAddr::Tcp("::1".into(), 6379));
        assert_eq!(parse("redis://:secret@h").password.as_deref(), Some("secret"));
        assert_eq!(parse("redis://:secret@h").username, None);
    }

    #[test]
    fn tls_and_unix_sockets_have_their_schemes() {
        let tls = ConnectionAddr::TcpTls { host: "h".into(), port: 1, insecure: true };
        assert_eq!(parse("rediss://h:1#insecure").addr, tls);
        let info = parse("redis+unix:///run/redis.sock?db=2&pass=x");
        assert_eq!((info.addr, info.db), (ConnectionAddr::Unix("/run/redis.sock".into()), 2));
    }

    #[test]
    fn nonsense_is_refused_with_its_reason() {
        for (url, reason) in [
            ("localhost", "scheme"),
            ("http://h", "'http'"),
            ("redis://h:x", "'x'"),
            ("redis://h/one", "'one'"),
            ("redis://h?color=red", "'color'"),
            ("redis://h?protocol=4", "'4'"),
            ("redis://h#insecure", "#insecure"),
            ("redis://%zz", "%25"),
            ("unix://", "socket"),
        ] {
            let error = url.parse::<ConnectionInfo>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidClientConfig);
            assert!(error.to_string().contains(reason), "{url}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_url_makes_it_panic(url in "(redis|rediss|unix)://[ -~]{0,30}") {
            let _ = url.parse::<ConnectionInfo>();
        }
    }
}
