//! User names and passwords that change.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use crate::error::RedisResult;
use crate::values::encode::encoded;

/// A login.
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Credentials {
    /// The user; the default user if there is only a password.
    pub username: Option<String>,
    /// The password; an empty one if there is only a user. Without both there is no login.
    pub password: Option<String>,
}

impl Credentials {
    /// A user and a password.
    pub fn new(username: impl Into<String>, password: impl Into<String>) -> Credentials {
        Credentials { username: Some(username.into()), password: Some(password.into()) }
    }

    /// A password of the default user.
    pub fn password(password: impl Into<String>) -> Credentials {
        Credentials { username: None, password: Some(password.into()) }
    }

    /// The user, if not the default one, and the password. A user without a password has an empty one.
    pub(crate) fn login(&self) -> Option<(Option<&str>, &str)> {
        let user = self.username.as_deref();
        self.password.as_deref().or(user.map(|_| "")).map(|password| (user, password))
    }

    /// The command that logs in, if there is a login.
    pub(crate) fn auth(&self) -> Option<Vec<u8>> {
        let (user, password) = self.login()?;
        let args: Vec<&[u8]> = [Some("AUTH"), user, Some(password)].into_iter().flatten().map(str::as_bytes).collect();
        Some(encoded(&args))
    }
}

/// Hides the password, since such values get logged.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let password = self.password.as_ref().map(|_| "…");
        f.debug_struct("Credentials").field("username", &self.username).field("password", &password).finish()
    }
}

/// Provides the present user name and password, from a vault, a rotated file or a token service.
///
/// It is called for each new connection: the first, reconnects and leases, and when a live one logs in again
/// ([`Connection::log_in_again`](crate::Connection::log_in_again)). It must answer within the connection
/// timeout; its error becomes the error of connecting. A closure that returns a future is a provider:
///
/// ```
/// use onrush::{ConnectionConfig, Credentials};
/// let config = ConnectionConfig::new().set_credentials_provider(|| async {
///     let password = std::fs::read_to_string("/run/secrets/redis")?;
///     Ok(Credentials::new("app", password.trim()))
/// });
/// # let _ = config;
/// ```
pub trait CredentialsProvider: Send + Sync {
    /// The user name and password to log in with now.
    ///
    /// # Errors
    /// Why there is no login; then there is no connection.
    fn credentials(&self) -> Pin<Box<dyn Future<Output = RedisResult<Credentials>> + Send + '_>>;
}

impl<F, R> CredentialsProvider for F
where
    F: Fn() -> R + Send + Sync,
    R: Future<Output = RedisResult<Credentials>> + Send + 'static,
{
    fn credentials(&self) -> Pin<Box<dyn Future<Output = RedisResult<Credentials>> + Send + '_>> {
        Box::pin(self())
    }
}

/// A provider that connections share.
#[derive(Clone)]
pub(crate) struct Provider(pub Arc<dyn CredentialsProvider>);

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Provider")
    }
}
