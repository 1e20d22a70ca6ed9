//! Making a connection: the socket, the protocol, the login, the database.

use std::sync::Arc;
use std::time::Instant;

use crate::cluster::node::Alarm;
use crate::connection::client::ConnectionConfig;
use crate::connection::queue::Shared;
use crate::error::{ErrorKind, Fate, RedisError, RedisResult, ServerError, ServerErrorKind};
use crate::link::Link;
use crate::link::backoff::Backoff;
use crate::link::credentials::{Credentials, Provider};
use crate::link::net::Stream;
use crate::link::sentinel::{Finder, check_role};
use crate::link::telemetry;
use crate::link::tls::TlsContext;
use crate::link::url::{ConnectionAddr, ConnectionInfo, ProtocolVersion};
use crate::observe::{ConnectionEvent, SharedObserver};
use crate::values::encode::encoded;
use crate::values::value::Value;

/// Waits between attempts that may go on for as long as a reply may take.
#[derive(Debug)]
pub(crate) struct Patience {
    backoff: Backoff,
    until: Option<Instant>,
    attempts: u32,
}

impl Patience {
    pub(crate) fn new(config: &ConnectionConfig) -> Patience {
        Patience::until(config, config.response_timeout.and_then(|timeout| Instant::now().checked_add(timeout)))
    }

    pub(crate) fn until(config: &ConnectionConfig, until: Option<Instant>) -> Patience {
        Patience { backoff: config.backoff.clone().unwrap_or_default(), until, attempts: 0 }
    }

    /// Waits before another attempt after this error.
    ///
    /// # Errors
    /// The error itself when the time is over.
    pub(crate) async fn wait(&mut self, error: RedisError) -> RedisResult<()> {
        self.attempts = self.attempts.saturating_add(1);
        let wait = self.backoff.wait(self.attempts);
        if self.until.is_some_and(|until| Instant::now().checked_add(wait).is_none_or(|at| at >= until)) {
            return Err(error);
        }
        tokio::time::sleep(wait).await;
        Ok(())
    }
}

/// Makes the connections of a client.
#[derive(Clone, Debug)]
pub(crate) struct Connector {
    pub info: ConnectionInfo,
    pub config: ConnectionConfig,
    pub tls: TlsContext,
    /// Finds the primary, if Sentinels have to be asked.
    pub finder: Arc<Finder>,
    /// Of a node of a cluster: notes whether it can be reached.
    pub alarm: Option<Arc<Alarm>>,
    /// Whether each connection says READONLY, so that a replica in a cluster answers reads.
    pub readonly: bool,
}

impl Connector {
    pub(crate) fn new(info: ConnectionInfo, config: ConnectionConfig, tls: TlsContext) -> Connector {
        Connector { info, config, tls, finder: Arc::default(), alarm: None, readonly: false }
    }

    /// Connects, logs in, and brings a new connection to the state that `shared` remembers: loaded scripts,
    /// subscriptions.
    pub(crate) async fn connect(&self, shared: &Shared) -> RedisResult<Link> {
        let connected = telemetry::connecting(&self.info.addr, self.connect_in_time(shared)).await;
        self.tell(match &connected {
            Ok(_) => ConnectionEvent::Connected,
            Err(error) => ConnectionEvent::Failed(error),
        });
        // Whatever became of the attempt, no command of a user was sent.
        connected.map_err(|error| error.with_fate(Fate::NotSent))
    }

    /// The same for a first connection: waits while the server is loading its data, or while Sentinels tell no primary, at
    /// most for the response timeout.
    pub(crate) async fn connect_first(&self, shared: &Shared) -> RedisResult<Link> {
        let mut patience = Patience::new(&self.config);
        loop {
            match self.connect(shared).await {
                Err(error) if error.is_loading() || error.kind() == ErrorKind::NoPrimary => {
                    patience.wait(error).await?
                }
                connected => return connected,
            }
        }
    }

    /// Tells the observer what has become of a connection.
    pub(crate) fn tell(&self, event: ConnectionEvent<'_>) {
        if let Some(alarm) = &self.alarm {
            alarm.note(&event);
        }
        if let Some(SharedObserver(observer)) = &self.config.observer {
            observer.connection(&self.info.addr.to_string(), event);
        }
    }

    async fn connect_in_time(&self, shared: &Shared) -> RedisResult<Link> {
        let Some(timeout) = self.config.connection_timeout else { return self.connect_untimed(shared).await };
        match tokio::time::timeout(timeout, self.connect_untimed(shared)).await {
            Ok(connected) => connected,
            Err(_) => Err(RedisError::new(
                ErrorKind::Timeout,
                format!("no connection to {} within {timeout:?}", self.info.addr),
            )),
        }
    }

    async fn connect_untimed(&self, shared: &Shared) -> RedisResult<Link> {
        let ConnectionAddr::Sentinel(sentinels) = &self.info.addr else {
            return self.connect_unnamed(&self.info.addr, shared).await.map_err(|error| error.at(&self.info.addr));
        };
        let found = self.finder.find(sentinels, &self.config.socket, &self.tls).await;
        let primary = found.map_err(|error| error.at(&self.info.addr))?;
        self.connect_unnamed(&primary, shared).await.map_err(|error| error.at(&primary))
    }

    async fn connect_unnamed(&self, addr: &ConnectionAddr, shared: &Shared) -> RedisResult<Link> {
        let stream = Stream::connect(addr, &self.config.socket, &self.tls).await?;
        let mut link = Link::new(stream, shared.is_leased());
        let protocol = self.greet(&mut link).await?;
        if matches!(self.info.addr, ConnectionAddr::Sentinel(_)) {
            check_role(&mut link).await?;
            link.must_lead = true;
        }
        shared.set_protocol(protocol);
        if shared.cache.is_some() && protocol != ProtocolVersion::RESP3 {
            let text = "client-side caching needs RESP3, which the URL excludes or the server does not speak";
            return Err(RedisError::new(ErrorKind::InvalidClientConfig, text));
        }
        self.set_up(&mut link, shared).await?;
        shared.set_round_trip(link.round_trip);
        let mut bytes = Vec::new();
        let scripts = shared.reload_scripts(&mut bytes);
        if !scripts.is_empty() {
            let replies = link.exchange(&bytes, scripts.len()).await?;
            // What the server did not take is loaded before its next use.
            let refused = scripts.iter().zip(replies).filter(|(_, reply)| matches!(reply, Value::ServerError(_)));
            refused.for_each(|(script, _)| shared.forget_script(script));
        }
        if protocol == ProtocolVersion::RESP3 || shared.outlet.is_lossless() {
            link.begin_again(shared, shared.resubscriptions());
        }
        Ok(link)
    }

    /// The provider's, or those of the URL.
    pub(crate) async fn credentials(&self) -> RedisResult<Credentials> {
        match &self.config.credentials {
            Some(Provider(provider)) => provider.credentials().await,
            None => Ok(Credentials { username: self.info.username.clone(), password: self.info.password.clone() }),
        }
    }

    /// Agrees on a protocol and logs in.
    async fn greet(&self, link: &mut Link) -> RedisResult<ProtocolVersion> {
        let credentials = self.credentials().await?;
        if self.info.protocol == ProtocolVersion::RESP3 {
            let mut args: Vec<&[u8]> = vec![b"HELLO", b"3"];
            if let Some((user, password)) = credentials.login() {
                args.extend([b"AUTH".as_slice(), user.unwrap_or("default").as_bytes(), password.as_bytes()]);
            }
            match link.ask(&encoded(&args)).await? {
                Value::ServerError(error) if !lacks_resp3(&error) => return Err(refused(error)),
                Value::ServerError(_) => {}
                _ => return Ok(ProtocolVersion::RESP3),
            }
        }
        if let Some(auth) = credentials.auth() {
            if let Value::ServerError(error) = link.ask(&auth).await? {
                return Err(refused(error));
            }
        }
        Ok(ProtocolVersion::RESP2)
    }

    /// Selects the database, sends the library's name and turns tracking on, in one write.
    async fn set_up(&self, link: &mut Link, shared: &Shared) -> RedisResult<()> {
        let mut commands = Vec::new();
        let mut add = |name: &'static str, command: Vec<u8>| commands.push((name, command));
        if self.info.db != 0 {
            add("SELECT", encoded(&[b"SELECT", self.info.db.to_string().as_bytes()]));
        }
        if let Some(name) = &self.info.client_name {
            add("CLIENT SETNAME", encoded(&[b"CLIENT", b"SETNAME", name.as_bytes()]));
        }
        if self.config.set_info {
            // Servers before 7.2 do not know it.
            add("", encoded(&[b"CLIENT", b"SETINFO", b"LIB-NAME", b"onrush"]));
            add("", encoded(&[b"CLIENT", b"SETINFO", b"LIB-VER", env!("CARGO_PKG_VERSION").as_bytes()]));
        }
        if let Some(tracking) = self.config.tracking.as_ref().filter(|_| !shared.is_leased()) {
            add("CLIENT TRACKING", tracking.clone());
        }
        if let Some(cache) = &shared.cache {
            add("CLIENT TRACKING", cache.tracking());
        }
        if self.readonly {
            add("READONLY", encoded(&[b"READONLY"]));
        }
        if self.config.ready_check {
            add(READY, encoded(&[b"PING"]));
        }
        let (names, commands): (Vec<_>, Vec<_>) = commands.into_iter().unzip();
        for (reply, name) in link.exchange(&commands.concat(), names.len()).await?.into_iter().zip(names) {
            match reply {
                Value::ServerError(error) if name == READY && error.kind() != ServerErrorKind::BusyLoading => {}
                Value::ServerError(error) if !name.is_empty() => return Err(refused(error)),
                _ => {}
            }
        }
        Ok(())
    }
}

/// The command by which the server says whether it is loading its data; its other errors mean nothing.
const READY: &str = "PING";

/// Servers before version 6 have no HELLO; others may have renamed it or lack version 3.
fn lacks_resp3(error: &ServerError) -> bool {
    error.code() == "NOPROTO" || error.details().is_some_and(|details| details.starts_with("unknown command"))
}

fn refused(error: ServerError) -> RedisError {
    let kind = match error.code() {
        "WRONGPASS" | "NOAUTH" => ErrorKind::AuthenticationFailed,
        "ERR" if error.line().contains("AUTH") => ErrorKind::AuthenticationFailed,
        _ => ErrorKind::Server(error.kind()),
    };
    RedisError::reply(kind, error)
}
