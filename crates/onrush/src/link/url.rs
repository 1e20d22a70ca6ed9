//! Where the server is and who we are there: connection URLs.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use url::Url;

use crate::error::{ErrorKind, RedisError, RedisResult};
use crate::link::sentinel::{DEFAULT_PORT as SENTINEL_PORT, Sentinels};

/// Redis's usual port.
pub const DEFAULT_PORT: u16 = 6379;

/// The version of the protocol to speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ProtocolVersion {
    /// RESP2, which every server speaks.
    RESP2,
    /// RESP3, with maps, sets and pushes; falls back to RESP2 if the server has no RESP3.
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
    /// The primary of a group, which Sentinels tell at each connection. When it is lost, or is a primary no more (it says
    /// READONLY), they are asked again.
    Sentinel(Sentinels),
    /// Nodes of a cluster; for [`ClusterClient`](crate::ClusterClient) alone.
    Cluster(Seeds),
}

/// Nodes of a cluster, which tell of the others.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Seeds {
    /// Where they listen, in the order in which they are asked.
    pub addrs: Vec<(String, u16)>,
    /// Whether the nodes speak TLS, and then, whether any certificate is taken.
    pub tls: Option<bool>,
}

impl fmt::Display for Seeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the cluster at ")?;
        write_hosts(f, &self.addrs)
    }
}

/// Where the server is and who we are there.
///
/// Parsed from a URL:
/// - `redis://[user][:password]@host[:port][/db][?option=value…]`, the login only if wanted, also `valkey://` and
///   `onrush://`;
/// - `rediss://…` for TLS, with `#insecure` at the end to take any certificate;
/// - `redis-sentinel://[user][:password@]host[:port][,host[:port]…]/service[/db][?option=value…]` for the primary that
///   Sentinels at these hosts tell, `rediss-sentinel://` with TLS; the login is that of the server, the options
///   `sentinel_user` and `sentinel_pass` are for the Sentinels;
/// - `redis-cluster://[user][:password@]host[:port][,host[:port]…][?option=value…]` for a cluster that these nodes belong
///   to, `rediss-cluster://` with TLS; for [`ClusterClient`](crate::ClusterClient);
/// - `redis+unix://[[user]:password@]/path/to/socket[?db=0&user=…&pass=…]`, also `unix://`.
///
/// A user without a password logs in with an empty one, which users with `nopass` take.
///
/// Options: `protocol=resp2|resp3` (or `2`, `3`), `db`, `user`, `pass`, `client_name`. Other options, which other
/// clients may have, change nothing: [`unknown_options`](Self::unknown_options) lists them. Reserved characters in any
/// part are percent-encoded.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectionInfo {
    /// Where the server listens.
    pub addr: ConnectionAddr,
    /// The database to select.
    pub db: i64,
    /// The user to log in as, with an empty password if there is none; the default user if there is a password alone.
    pub username: Option<String>,
    /// The password to log in with.
    pub password: Option<String>,
    /// The protocol to ask for.
    pub protocol: ProtocolVersion,
    /// The name to go by in CLIENT LIST.
    pub client_name: Option<String>,
    unknown_options: Vec<String>,
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
            .field("unknown_options", &self.unknown_options)
            .finish()
    }
}

impl fmt::Display for ConnectionAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => write!(f, "{host}:{port}"),
            ConnectionAddr::Unix(path) => write!(f, "{}", path.display()),
            ConnectionAddr::Sentinel(sentinels) => write!(f, "{sentinels}"),
            ConnectionAddr::Cluster(seeds) => write!(f, "{seeds}"),
        }
    }
}

/// Hosts and ports, with a comma between them.
pub(super) fn write_hosts(f: &mut fmt::Formatter<'_>, addrs: &[(String, u16)]) -> fmt::Result {
    for (nth, (host, port)) in addrs.iter().enumerate() {
        write!(f, "{}{host}:{port}", if nth > 0 { "," } else { "" })?;
    }
    Ok(())
}

impl ConnectionAddr {
    /// A TCP port, which speaks TLS if it is said whether that is `insecure`.
    pub(crate) fn tcp(host: String, port: u16, insecure: Option<bool>) -> ConnectionAddr {
        match insecure {
            None => ConnectionAddr::Tcp(host, port),
            Some(insecure) => ConnectionAddr::TcpTls { host, port, insecure },
        }
    }
}

fn bad(what: impl fmt::Display) -> RedisError {
    RedisError::new(ErrorKind::InvalidClientConfig, format!("the URL {what}"))
}

/// Does not show the place, which is a part of the password.
fn misplaced_login() -> RedisError {
    bad("has a login with reserved characters; write / as %2F, # as %23 and ? as %3F there")
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
            unknown_options: Vec::new(),
        }
    }

    /// Reads a URL as `redis-cli` does: what stands alone before the `@` is the password, and not a user without one.
    ///
    /// # Errors
    /// What is wrong with the URL.
    ///
    /// ```
    /// let info = onrush::ConnectionInfo::from_url_of_tools("redis://secret@localhost")?;
    /// assert_eq!((info.username, info.password.as_deref()), (None, Some("secret")));
    /// # Ok::<(), onrush::RedisError>(())
    /// ```
    pub fn from_url_of_tools(url: &str) -> RedisResult<ConnectionInfo> {
        let mut info: ConnectionInfo = url.parse()?;
        let (start, end) = place_in(url);
        let login = url[start..end].rsplit_once('@').map_or("", |(login, _)| login);
        if !login.is_empty() && info.password.is_none() {
            let names_user = |option: &str| option.starts_with("user=") || option.starts_with("username=");
            if login.contains(':') {
                info.password = info.username.as_ref().map(|_| String::new());
            } else {
                info.password = Some(decode(login)?);
                if !url[end..].split(['?', '&', '#']).any(names_user) {
                    info.username = None;
                }
            }
        }
        Ok(info)
    }

    /// The names of the options in the URL that mean nothing here.
    pub fn unknown_options(&self) -> &[String] {
        &self.unknown_options
    }

    fn set_option(&mut self, name: &str, value: String) -> RedisResult<()> {
        match (name, &mut self.addr) {
            ("db" | "database", _) => self.db = db(&value)?,
            ("user" | "username", _) => self.username = Some(value),
            ("pass" | "password", _) => self.password = Some(value),
            ("client_name" | "clientName", _) => self.client_name = Some(value),
            ("sentinel_user" | "sentinel_username", ConnectionAddr::Sentinel(them)) => them.username = Some(value),
            ("sentinel_pass" | "sentinel_password", ConnectionAddr::Sentinel(them)) => them.password = Some(value),
            ("protocol", _) => {
                self.protocol = match value.as_str() {
                    "resp2" | "2" => ProtocolVersion::RESP2,
                    "resp3" | "3" => ProtocolVersion::RESP3,
                    _ => return Err(bad(format_args!("asks for the protocol '{value}'; there are resp2 and resp3"))),
                }
            }
            _ => self.unknown_options.push(name.to_owned()),
        }
        Ok(())
    }
}

/// Whether the rest of a password with an '&' in it looks like an option: its name must not be shown.
fn is_password_cut(query: &str) -> bool {
    let options: Vec<&str> = query.split('&').collect();
    let is_password = |option: &str| {
        option.split('=').next().is_some_and(|name| name.ends_with("pass") || name.ends_with("password"))
    };
    options.windows(2).any(|pair| is_password(pair[0]) && !pair[1].contains('='))
}

impl FromStr for ConnectionInfo {
    type Err = RedisError;

    fn from_str(text: &str) -> RedisResult<ConnectionInfo> {
        if !text.contains("://") {
            return Err(bad("has no scheme; say redis://host:port"));
        }
        let (text, hosts) = with_one_host(text);
        let (text, has_place) = with_place(&text);
        let url = Url::parse(&text).map_err(|error| bad(format_args!("cannot be read: {error}")))?;
        let fragment = url.fragment().unwrap_or_default();
        let insecure = Some(fragment == "insecure");
        let (mut info, is_tls) = match url.scheme() {
            "redis" | "valkey" | "onrush" => (tcp(&url, None)?, false),
            "rediss" | "valkeys" | "onrushs" => (tcp(&url, insecure)?, true),
            "redis-sentinel" | "valkey-sentinel" => (sentinel(&url, &hosts, None)?, false),
            "rediss-sentinel" | "valkeys-sentinel" => (sentinel(&url, &hosts, insecure)?, true),
            "redis-cluster" | "valkey-cluster" => (cluster(&url, &hosts, None)?, false),
            "rediss-cluster" | "valkeys-cluster" => (cluster(&url, &hosts, insecure)?, true),
            "unix" | "redis+unix" | "valkey+unix" | "redis-socket" | "redis+socket" => (unix(&url, has_place)?, false),
            scheme => return Err(bad(format_args!("has the unknown scheme '{scheme}'"))),
        };
        if fragment.contains('@') {
            return Err(misplaced_login());
        }
        if !(fragment.is_empty() || fragment == "insecure" && is_tls) {
            return Err(bad(format_args!("ends in '#{fragment}', which means nothing there")));
        }
        info.username = Some(decode(url.username())?).filter(|user| !user.is_empty());
        info.password = url.password().map(decode).transpose()?;
        if is_password_cut(url.query().unwrap_or_default()) {
            return Err(bad(
                "has an option without a value behind a password; an '&' within a password is written as %26",
            ));
        }
        if url.query().is_some_and(|query| {
            query.split('&').any(|option| option.split('=').next().is_some_and(|name| name.contains('@')))
        }) {
            return Err(misplaced_login());
        }
        for (name, value) in url.query_pairs() {
            info.set_option(&name, value.into_owned())?;
        }
        if matches!(info.addr, ConnectionAddr::Cluster(_)) && info.db != 0 {
            return Err(bad("names a database; a cluster has only number 0"));
        }
        Ok(info)
    }
}

/// Where login and hosts begin and end in a URL.
fn place_in(text: &str) -> (usize, usize) {
    let start = text.find("://").map_or(0, |at| at + 3);
    (start, text[start..].find(['/', '?', '#']).map_or(text.len(), |at| start + at))
}

/// The parser refuses a login without a host, but other clients take it: `redis://:secret@/1`. Returns a URL with a
/// host, and whether the text had a host or no login.
fn with_place(text: &str) -> (Cow<'_, str>, bool) {
    let (_, end) = place_in(text);
    if text[..end].ends_with('@') {
        return (Cow::Owned(format!("{}127.0.0.1{}", &text[..end], &text[end..])), false);
    }
    (Cow::Borrowed(text), true)
}

/// A URL of Sentinels or of a cluster has several hosts, of which the parser gets the first. Returns all, too.
fn with_one_host(text: &str) -> (Cow<'_, str>, Vec<&str>) {
    let (start, end) = place_in(text);
    let scheme = text[..start].to_ascii_lowercase();
    if !scheme.ends_with("-sentinel://") && !scheme.ends_with("-cluster://") {
        return (Cow::Borrowed(text), Vec::new());
    }
    let start = text[..end].rfind('@').map_or(start, |at| at + 1);
    let hosts: Vec<&str> = text[start..end].split(',').collect();
    let one = hosts.first().copied().unwrap_or_default();
    (Cow::Owned(format!("{}{one}{}", &text[..start], &text[end..])), hosts)
}

/// One of several hosts in a URL.
fn host_and_port(host: &str, what: &str, default: u16) -> RedisResult<(String, u16)> {
    let url = Url::parse(&format!("redis://{host}"));
    let url = url.map_err(|error| bad(format_args!("has a {what} that cannot be read: {error}")))?;
    let host = host_of(&url)?;
    let is_host_alone = url.path().is_empty() && url.username().is_empty();
    if host.is_empty() || !is_host_alone {
        return Err(bad(format_args!("has a {what} without a host")));
    }
    Ok((host, url.port().unwrap_or(default)))
}

/// Empty if there is none.
fn host_of(url: &Url) -> RedisResult<String> {
    match url.host() {
        None => Ok(String::new()),
        // Without the brackets around it.
        Some(url::Host::Ipv6(address)) => Ok(address.to_string()),
        Some(host) => decode(&host.to_string()),
    }
}

fn cluster(url: &Url, hosts: &[&str], tls: Option<bool>) -> RedisResult<ConnectionInfo> {
    let addr = |host: &&str| host_and_port(host, "node", DEFAULT_PORT);
    let addrs = hosts.iter().map(addr).collect::<RedisResult<_>>()?;
    let mut info = ConnectionInfo::new(ConnectionAddr::Cluster(Seeds { addrs, tls }));
    let path = url.path().trim_matches('/');
    if !path.is_empty() {
        info.db = db(&decode(path)?)?;
    }
    Ok(info)
}

fn sentinel(url: &Url, hosts: &[&str], tls: Option<bool>) -> RedisResult<ConnectionInfo> {
    let addr = |host: &&str| host_and_port(host, "Sentinel", SENTINEL_PORT);
    let addrs: Vec<(String, u16)> = hosts.iter().map(addr).collect::<RedisResult<_>>()?;
    let mut path = url.path().trim_matches('/').split('/');
    let service = decode(path.next().unwrap_or_default())?;
    if service.is_empty() {
        return Err(bad("names no group of the Sentinels; say redis-sentinel://host:26379/mymaster"));
    }
    let number = path.next().map(|text| db(&decode(text)?)).transpose()?;
    if path.next().is_some() {
        return Err(bad("has more than a group and a database in its path"));
    }
    let sentinels = Sentinels { addrs, service, username: None, password: None, tls };
    let mut info = ConnectionInfo::new(ConnectionAddr::Sentinel(sentinels));
    info.db = number.unwrap_or(0);
    Ok(info)
}

/// `insecure` is for TLS.
fn tcp(url: &Url, insecure: Option<bool>) -> RedisResult<ConnectionInfo> {
    let host = host_of(url)?;
    let host = if host.is_empty() { "127.0.0.1".to_owned() } else { host };
    let port = url.port().unwrap_or(DEFAULT_PORT);
    let mut info = ConnectionInfo::new(ConnectionAddr::tcp(host, port, insecure));
    let path = url.path().trim_matches('/');
    if !path.is_empty() {
        // An `@` in a later part shows that a login ends there, with a password that would be quoted.
        let is_misplaced = [url.query(), url.fragment()].into_iter().flatten().any(|part| part.contains('@'));
        info.db = db(&decode(path)?).map_err(|error| if is_misplaced { misplaced_login() } else { error })?;
    }
    Ok(info)
}

/// The path to a socket may be relative; then its first part looks like a host.
fn unix(url: &Url, has_place: bool) -> RedisResult<ConnectionInfo> {
    let first = url.host_str().filter(|_| has_place).unwrap_or_default();
    if url.port().is_some() {
        // Paths have none: this is the beginning of a login.
        return Err(misplaced_login());
    }
    let path = decode(&format!("{first}{}", url.path()))?;
    if path.trim_matches('/').is_empty() {
        return Err(bad("names no socket; say redis+unix:///path/to/socket"));
    }
    Ok(ConnectionInfo::new(ConnectionAddr::Unix(PathBuf::from(path))))
}

fn db(text: &str) -> RedisResult<i64> {
    if text.contains('@') {
        return Err(misplaced_login());
    }
    let number = text.parse().ok().filter(|&number: &i64| number >= 0);
    number.ok_or_else(|| bad(format_args!("has the database '{text}', which is no number")))
}

fn decode(text: &str) -> RedisResult<String> {
    let decoded = percent_encoding::percent_decode_str(text).decode_utf8();
    decoded.map(Cow::into_owned).map_err(|_| bad("holds bytes that are no UTF-8"))
}

/// A server's address: a URL, or its parts.
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
        assert_eq!(parse("redis:///2").db, 2);
        assert_eq!(parse("redis://h:/").addr, ConnectionAddr::Tcp("h".into(), 6379));
    }

    #[test]
    fn the_forms_that_other_clients_take_are_taken() {
        let tcp = |host: &str, port| ConnectionAddr::Tcp(host.into(), port);
        for (url, addr, db, user, password) in [
            ("redis://h:1/0", tcp("h", 1), 0, None, None),
            ("redis://my_host.local:1?db=4", tcp("my_host.local", 1), 4, None, None),
            ("redis://:pa%23s%2Fs%3Aw%25@h:1/2", tcp("h", 1), 2, None, Some("pa#s/s:w%")),
            ("redis://u:p@s@h:1", tcp("h", 1), 0, Some("u"), Some("p@s")),
            ("redis://u@h:1", tcp("h", 1), 0, Some("u"), None),
            ("redis://u:100%@h:1/", tcp("h", 1), 0, Some("u"), Some("100%")),
            ("redis://:p@/3", tcp("127.0.0.1", 6379), 3, None, Some("p")),
            ("redis://h:1?user=u&password=p%26q", tcp("h", 1), 0, Some("u"), Some("p&q")),
            ("redis://u:p@[2001:db8::1]:7/1", tcp("2001:db8::1", 7), 1, Some("u"), Some("p")),
            ("REDIS://h:1", tcp("h", 1), 0, None, None),
            ("unix://u:p@/run/r.sock?db=1", ConnectionAddr::Unix("/run/r.sock".into()), 1, Some("u"), Some("p")),
            ("unix:///run/r%20s.sock", ConnectionAddr::Unix("/run/r s.sock".into()), 0, None, None),
            ("unix://run/r.sock", ConnectionAddr::Unix("run/r.sock".into()), 0, None, None),
            ("redis-socket:///r.sock?database=5", ConnectionAddr::Unix("/r.sock".into()), 5, None, None),
        ] {
            let info = parse(url);
            assert_eq!((&info.addr, info.db), (&addr, db), "{url}");
            assert_eq!((info.username.as_deref(), info.password.as_deref()), (user, password), "{url}");
            assert!(info.unknown_options().is_empty(), "{url}");
        }
        for protocol in ["2", "resp2"] {
            assert_eq!(parse(&format!("redis://h?protocol={protocol}")).protocol, ProtocolVersion::RESP2);
        }
    }

    #[test]
    fn sentinels_tell_the_primary_of_a_group() {
        let info = parse("redis-sentinel://u:p%40@a:1,b,[::1]:3/my%20group/2?sentinel_user=s&sentinel_pass=t&x=1");
        let ConnectionAddr::Sentinel(sentinels) = &info.addr else { panic!("{info:?}") };
        let addrs = [("a".to_owned(), 1), ("b".to_owned(), 26379), ("::1".to_owned(), 3)];
        assert_eq!((&sentinels.addrs[..], sentinels.service.as_str(), sentinels.tls), (&addrs[..], "my group", None));
        assert_eq!((sentinels.username.as_deref(), sentinels.password.as_deref()), (Some("s"), Some("t")));
        assert_eq!((info.username.as_deref(), info.password.as_deref(), info.db), (Some("u"), Some("p@"), 2));
        assert_eq!(info.unknown_options(), ["x"]);
        assert!(!format!("{info:?}").contains("\"t\"") && !format!("{info:?}").contains("p@"), "{info:?}");
        let info = parse("rediss-sentinel://h/g#insecure");
        assert!(matches!(info.addr, ConnectionAddr::Sentinel(Sentinels { tls: Some(true), .. })), "{info:?}");
        for (url, reason) in [
            ("redis-sentinel://h:1", "no group"),
            ("redis-sentinel://h:1,/g", "without a host"),
            ("redis-sentinel:///g", "without a host"),
            ("redis-sentinel://h:1,g:x/g", "port"),
            ("redis-sentinel://h/g/one", "'one'"),
            ("redis-sentinel://h/g/1/2", "more than"),
            ("redis-sentinel://h/g#insecure", "#insecure"),
        ] {
            let error = url.parse::<ConnectionInfo>().unwrap_err().to_string();
            assert!(error.contains(reason), "{url}: {error}");
        }
        assert_eq!(parse("redis://h?sentinel_user=x").unknown_options(), ["sentinel_user"]);
    }

    #[test]
    fn nodes_of_a_cluster_are_named_one_by_one() {
        let info = parse("redis-cluster://u:p%40@a:1,b,[::1]:3/0?client_name=me&x=1");
        let ConnectionAddr::Cluster(seeds) = &info.addr else { panic!("{info:?}") };
        let addrs = [("a".to_owned(), 1), ("b".to_owned(), 6379), ("::1".to_owned(), 3)];
        assert_eq!((&seeds.addrs[..], seeds.tls), (&addrs[..], None));
        assert_eq!((info.username.as_deref(), info.password.as_deref()), (Some("u"), Some("p@")));
        assert_eq!((info.client_name.as_deref(), info.unknown_options()), (Some("me"), &["x".to_owned()][..]));
        assert_eq!(info.addr.to_string(), "the cluster at a:1,b:6379,::1:3");
        let info = parse("rediss-cluster://h#insecure");
        assert!(matches!(info.addr, ConnectionAddr::Cluster(Seeds { tls: Some(true), .. })), "{info:?}");
        for (url, reason) in [
            ("redis-cluster://h/1", "number 0"),
            ("redis-cluster://h?db=2", "number 0"),
            ("redis-cluster://", "without a host"),
            ("redis-cluster://h,,i", "without a host"),
            ("redis-cluster://h#insecure", "#insecure"),
        ] {
            let error = url.parse::<ConnectionInfo>().unwrap_err().to_string();
            assert!(error.contains(reason), "{url}: {error}");
        }
    }

    #[test]
    fn the_rest_of_a_password_is_no_option() {
        for url in [
            "redis://h?pass=a&bcd",
            "redis://h?db=1&password=a&bcd&protocol=3",
            "redis-sentinel://h/g?sentinel_pass=a&bcd",
        ] {
            let error = url.parse::<ConnectionInfo>().unwrap_err().to_string();
            assert!(error.contains("%26") && !error.contains("bcd"), "{url}: {error}");
        }
        assert_eq!(parse("redis://h?pass=a%26bcd").password.as_deref(), Some("a&bcd"));
        assert_eq!(parse("redis://h?bcd&pass=a").unknown_options(), ["bcd"]);
    }

    #[test]
    fn unknown_options_are_told_and_change_nothing() {
        let info = parse("rediss://h:1/2?read_timeout=3s&db=4&pool_size=7");
        assert_eq!(info.unknown_options(), ["read_timeout", "pool_size"]);
        assert_eq!(info.db, 4);
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
            ("redis://h:x", "port"),
            ("redis://h/one", "'one'"),
            ("redis://h?protocol=4", "'4'"),
            ("redis://h#insecure", "#insecure"),
            ("redis://h/1/2", "'1/2'"),
            ("redis://[::1", "IPv6"),
            ("redis://:%ff@h", "UTF-8"),
            ("unix://", "socket"),
            ("unix://u:p@/", "socket"),
        ] {
            let error = url.parse::<ConnectionInfo>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidClientConfig);
            assert!(error.to_string().contains(reason), "{url}: {error}");
        }
        for url in [
            "redis://u:1#secret@h",
            "redis://u:1/secret@h",
            "redis://u:1/secret@h?x=1",
            "redis://u:1/secret?x@h",
            "redis://u:1/secret#d@h",
            "unix://u:1/secret@/tmp/s",
        ] {
            let error = url.parse::<ConnectionInfo>().unwrap_err().to_string();
            assert!(error.contains("reserved") && !error.contains("secret"), "{url}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_url_makes_it_panic(url in "(redis|rediss|unix|redis-sentinel|redis-cluster)://[ -~]{0,30}") {
            let _ = url.parse::<ConnectionInfo>();
        }
    }
}
