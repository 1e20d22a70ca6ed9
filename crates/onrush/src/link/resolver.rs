//! Names of hosts, and their addresses.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

/// Finds the addresses of a host, for [`ConnectionConfig::set_resolver`](crate::ConnectionConfig::set_resolver): by a
/// name service of your own, or by choosing among those that the system knows.
///
/// It is called for each new connection, also for hosts that are addresses already, and must answer within the
/// connection timeout. The addresses are tried in their order. A closure that returns a future is a resolver:
///
/// ```
/// use onrush::ConnectionConfig;
/// let only_ipv4 = |host: String, port: u16| async move {
///     let found = tokio::net::lookup_host((host, port)).await?;
///     Ok(found.filter(|address| address.is_ipv4()).collect())
/// };
/// let config = ConnectionConfig::new().set_resolver(only_ipv4);
/// # let _ = config;
/// ```
pub trait Resolver: Send + Sync {
    /// The addresses of a host, the best first.
    ///
    /// # Errors
    /// Why there are none; it becomes the error of connecting.
    fn resolve(&self, host: &str, port: u16) -> Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send + '_>>;
}

impl<F, R> Resolver for F
where
    F: Fn(String, u16) -> R + Send + Sync,
    R: Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'static,
{
    fn resolve(&self, host: &str, port: u16) -> Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send + '_>> {
        Box::pin(self(host.to_owned(), port))
    }
}

/// A resolver that connections share.
#[derive(Clone)]
pub(crate) struct SharedResolver(pub Arc<dyn Resolver>);

impl fmt::Debug for SharedResolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Resolver")
    }
}
