//! Logins of live connections that are made again, for passwords that change and tokens that end.

use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::connection::sink::{Manner, Sink};
use crate::connection::{Connection, Inner};
use crate::error::{ErrorKind, RedisError, RedisResult};
use crate::link::telemetry;
use crate::link::url::ProtocolVersion;
use crate::values::cmd::Terms;

/// A failed login is tried again after this part of the interval.
const SOONER: u32 = 8;

impl Connection {
    /// Logs in again over this live connection, with what the provider of credentials says now
    /// ([`set_credentials_provider`](crate::ConnectionConfig::set_credentials_provider)), or as the URL does. Commands
    /// that are under way are not disturbed. Leased connections are not used again: those that are idle are closed, the
    /// others when their holders give them back. Without any login, and over RESP2 on a connection for subscriptions
    /// (which takes no other commands), this does nothing.
    ///
    /// # Errors
    /// The provider's, the server's, and those of the connection. The login before stays valid then.
    pub async fn log_in_again(&self) -> RedisResult<()> {
        let Inner { shared, connector, leases, .. } = &*self.inner;
        if shared.outlet.is_lossless() && self.protocol() == ProtocolVersion::RESP2 {
            return Ok(());
        }
        let limit = connector.config.connection_timeout.unwrap_or(Duration::MAX);
        let late = |_| RedisError::new(ErrorKind::Timeout, "the provider of credentials has not answered in time");
        let credentials = tokio::time::timeout(limit, connector.credentials()).await.map_err(late)??;
        let Some(auth) = credentials.auth() else { return Ok(()) };
        // The gate refuses it to users; here it has the effect that each new connection has.
        let reply = self.retrying(auth.len(), Terms::REPEATABLE, || {
            let (sink, waiting) = Sink::one();
            shared.push_encoded(&auth, Manner::OWN, sink).map(|()| waiting)
        });
        reply.await?.into_result()?;
        leases.renew();
        Ok(())
    }
}

/// Logs in again every so often, if that is wanted, until the last user is gone.
pub(crate) fn keep_logged_in(inner: &Arc<Inner>) {
    let Some(interval) = inner.connector.config.login_interval.filter(|_| !inner.shared.is_leased()) else { return };
    tokio::spawn(log_in_often(Arc::downgrade(inner), interval));
}

async fn log_in_often(inner: Weak<Inner>, interval: Duration) {
    let mut wait = interval;
    loop {
        tokio::time::sleep(wait).await;
        let Some(inner) = inner.upgrade().filter(|inner| !inner.shared.is_closed()) else { return };
        let connection = Connection { inner: Arc::new(inner.aside()) };
        drop(inner);
        let result = tokio::select! {
            result = connection.log_in_again() => result,
            () = connection.inner.shared.ended() => return,
        };
        wait = match result {
            Ok(()) => interval,
            Err(error) => {
                telemetry::not_logged_in(&connection.inner.connector.info.addr, &error);
                interval / SOONER
            }
        };
    }
}
