//! User names and passwords that change.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use crate::error::RedisResult;

/// Who to log in as.
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Credentials {
    /// The user; the default user if there is a password alone.
    pub username: Option<String>,
    /// The password; without one there is no login.
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
}

/// Hides the password, since such things get logged.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let password = self.password.as_ref().map(|_| "…");
        f.debug_struct("Credentials").field("username", &self.username).field("password", &password).finish()
    }
}

/// Knows the user name and password of the moment: a vault, a file that is rotated, a token service.
///
/// It is asked for each connection that is made, the first, reconnects and leases. Its answer must come within the
/// connection timeout; its error is the error of connecting. A closure that returns a future is one:
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
    /// Whatever kept it from knowing; there is no connection then.
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
pub(crate) struct Provider(Arc<dyn CredentialsProvider>);

impl Provider {
    pub(crate) fn new(provider: impl CredentialsProvider + 'static) -> Provider {
        Provider(Arc::new(provider))
    }

    pub(crate) async fn ask(&self) -> RedisResult<Credentials> {
        self.0.credentials().await
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Provider")
    }
}
