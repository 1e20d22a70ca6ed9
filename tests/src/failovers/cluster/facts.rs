//! What never changes about the nodes, and connections to them.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use crate::argv::Argv;
use crate::client::Conn;
use crate::failovers::group::Kind;
use crate::failovers::node::Place;
use crate::resp::Value;

/// How long a connection may take to open: the network is one machine.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(300);

/// How long a node that does not take a connection is left alone.
const LEFT_ALONE: Duration = Duration::from_millis(300);

/// Primaries, each with one replica: node `n` and node `n + SHARDS` are a shard.
pub const SHARDS: usize = 3;

/// Nodes.
pub const NODES: usize = 2 * SHARDS;

/// Where the nodes are, what they are, and their names in the cluster.
#[derive(Clone)]
pub struct Facts {
    /// Where each is.
    pub places: Vec<Place>,
    /// What each is.
    pub kinds: [Kind; NODES],
    /// Each one's name in the cluster.
    pub ids: Vec<String>,
}

impl Facts {
    /// The node at an address as redirections name it: `5 127.0.0.1:7000`.
    pub fn by_redirection(&self, text: &str) -> Option<usize> {
        let (host, port) = text.trim_end().rsplit(' ').next()?.rsplit_once(':')?;
        let (host, port): (Ipv4Addr, u16) = (host.parse().ok()?, port.parse().ok()?);
        self.places.iter().position(|place| (place.address, place.port) == (host, port))
    }

    /// The node of that name.
    pub fn by_id(&self, id: &str) -> Option<usize> {
        self.ids.iter().position(|known| known == id)
    }

    /// Whether a node holds replies until its replica has the writes.
    pub fn waits_itself(&self, nth: usize) -> bool {
        self.kinds[nth] == Kind::Onrush
    }

    /// The other node of a shard.
    pub fn twin(nth: usize) -> usize {
        (nth + SHARDS) % NODES
    }
}

/// A client's connections, one to each node at most.
pub struct Conns {
    open: Vec<Option<Conn>>,
    shunned_until: Vec<Option<Instant>>,
    reply_timeout: Duration,
}

impl Conns {
    /// None is open. `reply_timeout`: how long a reply may take.
    pub fn new(reply_timeout: Duration) -> Self {
        Self { open: (0..NODES).map(|_| None).collect(), shunned_until: vec![None; NODES], reply_timeout }
    }

    /// The connection to a node; it is opened if it is not. `None`: the node does not take it.
    pub fn to(&mut self, nth: usize, facts: &Facts) -> Option<&mut Conn> {
        if self.open[nth].is_none() {
            if self.shunned_until[nth].is_some_and(|until| Instant::now() < until) {
                return None;
            }
            let place = &facts.places[nth];
            let Ok(mut conn) = Conn::tcp_at((place.address, place.port).into(), CONNECT_TIMEOUT) else {
                self.shunned_until[nth] = Some(Instant::now() + LEFT_ALONE);
                return None;
            };
            conn.set_timeout(self.reply_timeout);
            self.open[nth] = Some(conn);
        }
        self.open[nth].as_mut()
    }

    /// Closes the connection to a node.
    pub fn close(&mut self, nth: usize) {
        self.open[nth] = None;
    }

    /// One command's reply.
    ///
    /// # Errors
    /// There is none. The connection is closed then.
    pub fn call(&mut self, nth: usize, facts: &Facts, line: &str) -> Result<Value, String> {
        let argv = Argv::parse(line)?;
        let conn = self.to(nth, facts).ok_or_else(|| format!("node {nth} takes no connection"))?;
        let raw = conn.try_call(&argv).map_err(|error| format!("node {nth}: {line}: {error}"));
        if raw.is_err() {
            self.close(nth);
        }
        Value::parse(&raw?)
    }

    /// As [`Conns::call`], for commands that say OK.
    ///
    /// # Errors
    /// As [`Conns::call`], and any other reply.
    pub fn ok(&mut self, nth: usize, facts: &Facts, line: &str) -> Result<(), String> {
        match self.call(nth, facts, line)?.text() {
            said if said == "OK" => Ok(()),
            said => Err(format!("node {nth}: {line}: {said}")),
        }
    }
}

/// What a reply says about its command.
#[derive(Debug, PartialEq, Eq)]
pub enum Said {
    /// It was executed; the number that is its reply.
    Done(i64),
    /// It was not executed: that node has the slot.
    Moved(usize),
    /// It was not executed: that node is asked.
    Ask(usize),
    /// It was not executed: later perhaps.
    Later,
    /// It may have been executed, and the connection is of no use any more.
    Unknown,
    /// An error that nobody expects here.
    Strange(String),
}

impl Said {
    /// Reads a raw reply to a write.
    pub fn read(raw: &[u8], facts: &Facts) -> Self {
        let text = String::from_utf8_lossy(raw);
        let strange = || Self::Strange(text.trim_end().to_owned());
        if let Some(number) = text.strip_prefix(':').and_then(|number| number.trim_end().parse().ok()) {
            return Self::Done(number);
        }
        match text.split_once(' ').map_or(text.as_ref(), |(code, _)| code) {
            "-MOVED" => facts.by_redirection(&text).map_or_else(strange, Self::Moved),
            "-ASK" => facts.by_redirection(&text).map_or_else(strange, Self::Ask),
            "-TRYAGAIN" | "-CLUSTERDOWN" | "-LOADING" | "-MASTERDOWN" => Self::Later,
            "-NOREPLICAS" => Self::Unknown,
            _ => strange(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failovers::node::Login;

    #[test]
    fn redirections_name_nodes_and_numbers_are_done() {
        let place = |port| Place {
            address: Ipv4Addr::LOCALHOST,
            port,
            announced: port,
            login: Login::None,
            socket: std::path::PathBuf::new(),
        };
        let places = (7000..7006).map(place).collect();
        let facts = Facts { places, kinds: [Kind::Onrush; NODES], ids: Vec::new() };
        let read = |text: &str| Said::read(text.as_bytes(), &facts);
        assert_eq!(read(":17\r\n"), Said::Done(17));
        assert_eq!(read("-MOVED 5 127.0.0.1:7004\r\n"), Said::Moved(4));
        assert_eq!(read("-ASK 5 127.0.0.1:7001\r\n"), Said::Ask(1));
        assert_eq!(read("-MOVED 5 127.0.0.1:8001\r\n"), Said::Strange("-MOVED 5 127.0.0.1:8001".to_owned()));
        assert_eq!(read("-CLUSTERDOWN The cluster is down\r\n"), Said::Later);
        assert_eq!(read("-NOREPLICAS What was written\r\n"), Said::Unknown);
        assert_eq!(read("-ERR no\r\n"), Said::Strange("-ERR no".to_owned()));
    }
}
