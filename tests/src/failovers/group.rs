//! Three servers and three Sentinels.

use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use super::Options;
use super::network::Network;
use super::node::{Login, Node, Place, wait};
use crate::argv;
use crate::certificates::certificates;
use crate::client::Conn;
use crate::resp::Value;
use crate::server::{Oracle, TempDir};

/// The name of the primary among Sentinels.
const NAME: &str = "group";

/// What a server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Onrush.
    Onrush,
    /// redis-server or Valkey.
    Other(Oracle),
}

/// See the module's text.
pub struct Group {
    servers: Vec<Node>,
    sentinels: Vec<Node>,
    network: Option<Network>,
    _certificates: Option<TempDir>,
}

/// The directives for TLS of a server or a Sentinel.
fn encryption(folder: &Path) -> String {
    let folder = folder.display();
    format!(
        "tls-cert-file {folder}/server.crt\ntls-key-file {folder}/server.key\ntls-ca-cert-file {folder}/ca.crt\n\
         tls-replication yes\n"
    )
}

impl Group {
    /// Starts all.
    ///
    /// # Errors
    /// One does not start.
    pub fn start(options: &Options) -> Result<Self, String> {
        let encrypted = options.encrypted.then(TempDir::new);
        encrypted.iter().for_each(|folder| certificates(&folder.0));
        let mut network = if options.network { Some(Network::new()?) } else { None };
        let mut servers: Vec<Node> = Vec::new();
        for kind in options.servers {
            let bin = match kind {
                Kind::Onrush => options.onrush_bin.clone(),
                Kind::Other(oracle) => oracle.bin(),
            };
            let host = match &mut network {
                Some(network) => {
                    let address = network.add_host()?;
                    (address, Some(network.space(address)))
                }
                None => (Ipv4Addr::LOCALHOST, None),
            };
            let primary = servers.first().map(|first| first.place().clone());
            let mut node = Node::new((bin, &[]), host, options.login, |place, dir, more| {
                let (address, port, socket, dir) = (place.address, place.port, place.socket.display(), dir.display());
                let mut text = format!(
                    "port {port}\nbind {address}\nunixsocket {socket}\ndir {dir}\nsave \"\"\nappendonly yes\n\
                     protected-mode no\nenable-debug-command yes\nrepl-diskless-sync-delay 0\n"
                );
                if let Some(folder) = &encrypted {
                    place.announced = more;
                    text.push_str(&format!("tls-port {more}\n{}", encryption(&folder.0)));
                }
                text.push_str(&options.login.of_server());
                if kind == Kind::Onrush {
                    options.directives.iter().for_each(|line| text.push_str(&format!("{line}\n")));
                    if options.replicas > 0 {
                        text.push_str("durability-replicas-timeout 1500\n");
                    }
                }
                if let Some(primary) = primary {
                    text.push_str(&format!("replicaof {} {}\n", primary.address, primary.announced));
                }
                text
            });
            node.start()?;
            servers.push(node);
        }
        let primary = servers[0].place();
        let mut sentinels = Vec::new();
        for _ in 0..3 {
            let program = (options.sentinels.bin(), &["--sentinel"][..]);
            let mut node = Node::new(program, (Ipv4Addr::LOCALHOST, None), Login::None, |place, dir, more| {
                // Sentinels tell each other the address that they reach the servers from.
                let here = network.as_ref().map_or_else(String::new, |network| format!(" {}", network.here()));
                let tls = encrypted
                    .as_ref()
                    .map_or_else(String::new, |folder| format!("tls-port {more}\n{}", encryption(&folder.0)));
                format!(
                    "port {}\nbind 127.0.0.1{here}\ndir {}\nprotected-mode no\n{tls}\
                     sentinel monitor {NAME} {} {} 2\nsentinel down-after-milliseconds {NAME} 1000\n\
                     sentinel failover-timeout {NAME} 6000\nsentinel parallel-syncs {NAME} 2\n{}",
                    place.port,
                    dir.display(),
                    primary.address,
                    primary.announced,
                    options.login.of_sentinel(NAME)
                )
            });
            node.start()?;
            sentinels.push(node);
        }
        let group = Self { servers, sentinels, network, _certificates: encrypted };
        wait("the Sentinels know each other and the replicas", Duration::from_secs(40), || {
            group.sentinels.iter().try_for_each(|sentinel| {
                let reply = sentinel.ask(&format!("SENTINEL master {NAME}"))?;
                let field = |name: &str| {
                    let pairs = reply.pairs().unwrap_or_default();
                    pairs.iter().find(|(field, _)| field.text() == name).map(|(_, value)| value.text())
                };
                let known = (field("num-slaves"), field("num-other-sentinels"));
                let is_complete = known == (Some("2".to_owned()), Some("2".to_owned()));
                if is_complete { Ok(()) } else { Err(format!("{known:?}")) }
            })
        })?;
        Ok(group)
    }

    /// Where all servers and all Sentinels are.
    pub fn places(&self) -> Places {
        let of = |nodes: &[Node]| nodes.iter().map(|node| node.place().clone()).collect();
        Places { servers: of(&self.servers), sentinels: of(&self.sentinels) }
    }

    /// Where a server is.
    pub fn place(&self, nth: usize) -> &Place {
        self.servers[nth].place()
    }

    /// A connection to the primary.
    ///
    /// # Errors
    /// There is none that all agree on.
    pub fn connect(&self) -> Result<Conn, String> {
        self.place(self.primary()?).connect()
    }

    /// The server that is the primary by all Sentinels and by its own word.
    ///
    /// # Errors
    /// What is seen instead.
    pub fn primary(&self) -> Result<usize, String> {
        let places = self.places();
        let told: Result<Vec<usize>, String> =
            places.sentinels.iter().map(|sentinel| places.primary_by(sentinel)).collect();
        let told = told?;
        let nth = told[0];
        if told.iter().any(|other| *other != nth) {
            return Err(format!("the Sentinels tell {told:?}"));
        }
        let role = self.servers[nth].ask("ROLE")?;
        let is_primary = role.items().is_some_and(|items| items[0].text() == "master");
        if is_primary { Ok(nth) } else { Err(format!("server {nth}: {}", role.text())) }
    }

    /// Cuts a server off from all others, or connects it again.
    ///
    /// # Errors
    /// It has no network of its own, or `ip` fails.
    pub fn set_connected(&self, nth: usize, is_connected: bool) -> Result<(), String> {
        let network = self.network.as_ref().ok_or("the servers are not on hosts of their own")?;
        network.connect(self.place(nth).address, is_connected)
    }

    /// Kills a server.
    pub fn kill(&mut self, nth: usize) {
        self.servers[nth].signal("KILL");
        // It cannot refuse.
        let _ = self.servers[nth].wait_exit();
    }

    /// Sends a signal to a server.
    pub fn signal(&self, nth: usize, name: &str) {
        self.servers[nth].signal(name);
    }

    /// Starts a server that has ended.
    ///
    /// # Errors
    /// It does not answer.
    pub fn start_again(&mut self, nth: usize) -> Result<(), String> {
        self.servers[nth].start()
    }

    /// Ends a server as an operator does, and starts it again.
    ///
    /// # Errors
    /// It does not end, or does not answer.
    pub fn restart(&mut self, nth: usize) -> Result<(), String> {
        self.signal(nth, "TERM");
        self.servers[nth].wait_exit()?;
        self.start_again(nth)
    }

    /// Asks for a fail-over.
    ///
    /// # Errors
    /// The Sentinels refuse.
    pub fn fail_over(&self) -> Result<(), String> {
        wait("SENTINEL FAILOVER is taken", Duration::from_secs(20), || {
            let reply = self.sentinels[0].ask(&format!("SENTINEL FAILOVER {NAME}"))?.text();
            if reply == "OK" { Ok(()) } else { Err(reply) }
        })
    }

    /// Waits until the Sentinels tell another primary.
    ///
    /// # Errors
    /// They do not in time.
    pub fn wait_for_other_primary(&self, before: usize, at_most: Duration) -> Result<(), String> {
        wait("another primary", at_most, || match self.primary()? {
            now if now != before => Ok(()),
            _ => Err("the same primary".to_owned()),
        })
    }

    /// Waits until all others are replicas of the primary that follow it.
    ///
    /// # Errors
    /// They are not in time.
    pub fn wait_until_all_follow(&self, at_most: Duration) -> Result<(), String> {
        wait("all follow one primary", at_most, || self.look_at_replicas(false))
    }

    /// Waits until all have the same data; nobody writes.
    ///
    /// # Errors
    /// They do not in time.
    pub fn settle(&self, at_most: Duration) -> Result<(), String> {
        wait("all follow one primary and have its data", at_most, || {
            self.look_at_replicas(true)?;
            let digests: Result<Vec<_>, String> =
                self.servers.iter().map(|server| Ok(server.ask("DEBUG DIGEST")?.text())).collect();
            let digests = digests?;
            let is_same = digests.iter().all(|digest| *digest == digests[0]);
            if is_same { Ok(()) } else { Err(format!("digests {digests:?}")) }
        })
    }

    fn look_at_replicas(&self, have_all: bool) -> Result<(), String> {
        let primary = self.primary()?;
        let Place { address, announced, .. } = self.place(primary);
        let offset = field(&self.servers[primary], "master_repl_offset")?;
        for (nth, server) in self.servers.iter().enumerate().filter(|(nth, _)| *nth != primary) {
            let follows = [field(server, "master_host")?, field(server, "master_port")?];
            if follows != [address.to_string(), announced.to_string()] {
                return Err(format!("server {nth} follows {follows:?}, not {address}:{announced}"));
            }
            if field(server, "master_link_status")? != "up" {
                return Err(format!("server {nth} has no link"));
            }
            let has = field(server, "slave_repl_offset")?;
            if have_all && has != offset {
                return Err(format!("server {nth} is at {has}, not at {offset}"));
            }
        }
        Ok(())
    }

    /// The ends of all logs.
    pub fn logs(&self) -> String {
        let logs: Vec<String> = self.servers.iter().chain(&self.sentinels[..1]).map(Node::log).collect();
        logs.join("\n")
    }
}

/// A field of INFO replication.
fn field(server: &Node, name: &str) -> Result<String, String> {
    let text = server.ask("INFO replication")?.text();
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.map(|value| value.trim().to_owned()).ok_or_else(|| format!("no {name}: is it a replica?"))
}

/// Where all are.
pub struct Places {
    servers: Vec<Place>,
    /// The Sentinels.
    pub sentinels: Vec<Place>,
}

impl Places {
    /// The server that a Sentinel tells as the primary.
    ///
    /// # Errors
    /// It does not answer, or knows none.
    pub fn primary_by(&self, sentinel: &Place) -> Result<usize, String> {
        let ask = argv!["SENTINEL", "get-master-addr-by-name", NAME];
        let raw = sentinel.connect()?.try_call(&ask).map_err(|error| error.to_string())?;
        let reply = Value::parse(&raw)?;
        let told = reply.items().map(|items| items.iter().map(Value::text).collect::<Vec<_>>()).unwrap_or_default();
        let is_told = |server: &Place| told == [server.address.to_string(), server.announced.to_string()];
        let nth = self.servers.iter().position(is_told);
        nth.ok_or_else(|| format!("a Sentinel tells {}", reply.text()))
    }

    /// Where the primary is, by the first Sentinel that knows it.
    pub fn primary(&self) -> Option<&Place> {
        let nth = self.sentinels.iter().find_map(|sentinel| self.primary_by(sentinel).ok())?;
        Some(&self.servers[nth])
    }
}
