//! The primary of a group, as Redis's Sentinels tell it.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::{ErrorKind, RedisError, RedisResult};
use crate::link::Link;
use crate::link::net::{SocketOptions, Stream};
use crate::link::tls::TlsContext;
use crate::link::url::{ConnectionAddr, write_hosts};
use crate::values::encode::{command, encoded};
use crate::values::value::Value;

/// The usual port of a Sentinel.
pub(crate) const DEFAULT_PORT: u16 = 26379;

/// How long one Sentinel may take before the next is asked.
const TIMEOUT: Duration = Duration::from_millis(500);

/// Most Sentinels that are learnt from others.
const LEARNT_MAX: usize = 64;

/// Sentinels, and the group whose primary is wanted.
#[derive(Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Sentinels {
    /// Where they listen, in the order in which they are asked. Others that they know are asked, too.
    pub addrs: Vec<(String, u16)>,
    /// The group, as the Sentinels name it.
    pub service: String,
    /// The user to log in as at the Sentinels, if they want a login; the servers have their own in
    /// [`ConnectionInfo`](crate::ConnectionInfo).
    pub username: Option<String>,
    /// The password there.
    pub password: Option<String>,
    /// Whether the Sentinels and the servers speak TLS, and take any certificate.
    pub tls: Option<Insecure>,
}

/// Whether any certificate is taken.
type Insecure = bool;

/// Hides the password.
impl fmt::Debug for Sentinels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sentinels")
            .field("addrs", &self.addrs)
            .field("service", &self.service)
            .field("username", &self.username)
            .field("password", &self.password.as_ref().map(|_| "…"))
            .field("tls", &self.tls)
            .finish()
    }
}

impl fmt::Display for Sentinels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the primary of '{}' at ", self.service)?;
        write_hosts(f, &self.addrs)
    }
}

impl Sentinels {
    /// What one Sentinel says: the primary, and other Sentinels.
    async fn ask(
        &self,
        (host, port): &(String, u16),
        options: &SocketOptions,
        tls: &TlsContext,
    ) -> RedisResult<(ConnectionAddr, Vec<(String, u16)>)> {
        let stream = Stream::connect(&ConnectionAddr::tcp(host.clone(), *port, self.tls), options, tls).await?;
        let mut link = Link::new(stream, false);
        let (mut commands, mut count) = (Vec::new(), 2);
        if let Some(password) = &self.password {
            let user = self.username.as_deref().into_iter();
            let login: Vec<&[u8]> = [&b"AUTH"[..]].into_iter().chain(user.map(str::as_bytes)).collect();
            command(&[&login[..], &[password.as_bytes()]].concat(), &mut commands);
            count += 1;
        }
        let name = self.service.as_bytes();
        command(&[b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", name], &mut commands);
        command(&[b"SENTINEL", b"SENTINELS", name], &mut commands);
        let mut replies = link.exchange(&commands, count).await?;
        let (others, primary) = (replies.pop().unwrap_or(Value::Nil), replies.pop().unwrap_or(Value::Nil));
        if let Some(Value::ServerError(error)) = replies.pop() {
            return Err(RedisError::new(ErrorKind::AuthenticationFailed, error.line().to_owned()));
        }
        let primary = match primary {
            Value::ServerError(error) => return Err(RedisError::new(ErrorKind::Io, error.line().to_owned())),
            Value::Array(parts) => match (text(parts.first()), text(parts.get(1)).and_then(|port| port.parse().ok())) {
                (Some(host), Some(port)) => ConnectionAddr::tcp(host, port, self.tls),
                _ => return Err(RedisError::new(ErrorKind::Parse, "it tells what is no address")),
            },
            _ => return Err(RedisError::new(ErrorKind::Io, format!("it does not know '{}'", self.service))),
        };
        let others =
            if let Value::Array(others) = others { others.iter().filter_map(addr_of).collect() } else { vec![] };
        Ok((primary, others))
    }
}

/// Where another Sentinel listens, of its fields.
fn addr_of(fields: &Value) -> Option<(String, u16)> {
    let Value::Array(fields) = fields else { return None };
    let field = |name: &str| {
        let at = fields.chunks(2).find(|pair| text(pair.first()).as_deref() == Some(name))?;
        text(at.get(1))
    };
    Some((field("ip")?, field("port")?.parse().ok()?))
}

fn text(value: Option<&Value>) -> Option<String> {
    match value? {
        Value::BulkString(bytes) => String::from_utf8(bytes.to_vec()).ok(),
        Value::SimpleString(text) => Some(text.to_string()),
        _ => None,
    }
}

/// Looks for the primary, and remembers which Sentinel has answered.
#[derive(Debug, Default)]
pub(crate) struct Finder(Mutex<Vec<(String, u16)>>);

impl Finder {
    /// With a mutex of the standard library clients may be used within `catch_unwind`.
    fn known(&self) -> MutexGuard<'_, Vec<(String, u16)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the primary is. Asks one Sentinel after the other; the one that answers is the first next time.
    ///
    /// # Errors
    /// What each has answered.
    pub(crate) async fn find(
        &self,
        sentinels: &Sentinels,
        options: &SocketOptions,
        tls: &TlsContext,
    ) -> RedisResult<ConnectionAddr> {
        let known = {
            let mut known = self.known();
            if known.is_empty() {
                known.clone_from(&sentinels.addrs);
            }
            known.clone()
        };
        let mut answers = Vec::new();
        let mut kind = ErrorKind::Io;
        for sentinel in known {
            // Should the time be over while this one is asked, the next attempt begins with another.
            self.postpone(&sentinel);
            let answer = match tokio::time::timeout(TIMEOUT, sentinels.ask(&sentinel, options, tls)).await {
                Ok(Ok((primary, others))) => {
                    self.learn(sentinel, others);
                    return Ok(primary);
                }
                Ok(Err(error)) => error,
                Err(_) => RedisError::new(ErrorKind::Timeout, format!("no answer within {TIMEOUT:?}")),
            };
            if answer.kind() == ErrorKind::AuthenticationFailed {
                kind = ErrorKind::AuthenticationFailed;
            }
            answers.push(format!("{}:{}: {answer}", sentinel.0, sentinel.1));
        }
        Err(RedisError::new(kind, format!("no Sentinel tells the primary: {}", answers.join("; "))))
    }

    fn postpone(&self, addr: &(String, u16)) {
        let mut known = self.known();
        if let Some(at) = known.iter().position(|other| other == addr) {
            let addr = known.remove(at);
            known.push(addr);
        }
    }

    fn learn(&self, first: (String, u16), others: Vec<(String, u16)>) {
        let mut known = self.known();
        known.retain(|addr| *addr != first);
        known.insert(0, first);
        for other in others {
            if !known.contains(&other) && known.len() < LEARNT_MAX {
                known.push(other);
            }
        }
    }
}

/// Checks that the server is a primary, by its own word.
///
/// # Errors
/// It is not, or does not say it.
pub(crate) async fn check_role(link: &mut Link) -> RedisResult<()> {
    match &link.ask(&encoded(&[b"ROLE"])).await? {
        Value::Array(parts) if text(parts.first()).as_deref() == Some("master") => Ok(()),
        Value::Array(_) => Err(no_primary("the Sentinels tell a server that is no primary yet, or no more")),
        Value::ServerError(error) => Err(no_primary(&format!("the server does not tell its role: {}", error.line()))),
        _ => Err(no_primary("the server does not tell its role")),
    }
}

/// The server is no primary.
pub(crate) fn no_primary(why: &str) -> RedisError {
    RedisError::new(ErrorKind::NoPrimary, why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So that clients are, too.
    #[test]
    fn it_may_be_used_where_panics_are_caught() {
        fn used<T: std::panic::RefUnwindSafe>() {}
        used::<Finder>();
    }

    #[test]
    fn the_one_that_answers_is_first_and_others_are_learnt_once() {
        let addr = |port| ("h".to_owned(), port);
        let finder = Finder(Mutex::new(vec![addr(1), addr(2)]));
        finder.learn(addr(2), vec![addr(1), addr(3)]);
        finder.learn(addr(2), vec![addr(3)]);
        assert_eq!(*finder.known(), [addr(2), addr(1), addr(3)]);
        finder.postpone(&addr(2));
        assert_eq!(*finder.known(), [addr(1), addr(3), addr(2)]);
        finder.learn(addr(3), (10..200).map(addr).collect());
        let known = finder.known();
        assert_eq!((&known[0], known.len()), (&addr(3), LEARNT_MAX));
    }

    #[test]
    fn another_sentinel_is_found_in_its_fields() {
        let bulk = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let fields = ["name", "x", "ip", "10.0.0.1", "port", "26380", "runid", "y"].map(bulk).to_vec();
        assert_eq!(addr_of(&Value::Array(fields)), Some(("10.0.0.1".to_owned(), 26380)));
        assert_eq!(addr_of(&Value::Nil), None);
    }
}
