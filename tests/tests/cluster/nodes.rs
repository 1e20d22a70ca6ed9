//! Clusters of servers, and a client that goes where it is sent.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::process::Command;
use std::time::{Duration, Instant};

use onrush_cluster::slots::slot;
use onrush_tests::argv::Argv;
use onrush_tests::client::Conn;
use onrush_tests::port::Port;
use onrush_tests::resp::Value;
use onrush_tests::server::{Launch, Oracle, Server, wait_until};

/// Milliseconds after which a silent node may have failed.
pub const NODE_TIMEOUT_MS: &str = "1000";

/// A node and the port of its bus.
pub struct Node {
    pub server: Server,
    bus: Port,
}

impl Node {
    /// A node alone: Onrush, or a partner.
    pub fn start(partner: Option<Oracle>, more: &[&str]) -> Self {
        Self::start_in(partner, more, None)
    }

    fn start_in(partner: Option<Oracle>, more: &[&str], bus: Option<Port>) -> Self {
        let bus = bus.unwrap_or_else(Port::choose);
        let number = bus.number().to_string();
        let launch = match partner {
            None => Launch::onrush(),
            Some(oracle) => Launch::redis_of(oracle.bin()),
        };
        let own = ["--cluster-enabled", "yes", "--cluster-port", &number, "--cluster-node-timeout", NODE_TIMEOUT_MS];
        let quick = ["--repl-diskless-sync-delay", "0"];
        Self { server: launch.args(&own).args(&quick).args(more).start(), bus }
    }

    pub fn run(&self, line: &str) -> Value {
        self.server.connect().run(line)
    }

    pub fn text(&self, line: &str) -> String {
        self.run(line).text()
    }

    pub fn id(&self) -> String {
        self.text("CLUSTER MYID")
    }

    pub fn bus_port(&self) -> u16 {
        self.bus.number()
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.server.port())
    }
}

/// A cluster.
pub struct Nodes(pub Vec<Node>);

impl Nodes {
    /// Primaries with one replica each: first the primaries, then the replicas. Each is what `kind` says of its number.
    pub fn form(primaries: usize, replicas: usize, kind: impl Fn(usize) -> Option<Oracle>, more: &[&str]) -> Self {
        let nodes: Vec<Node> = (0..primaries + replicas).map(|at| Node::start(kind(at), more)).collect();
        for (at, node) in nodes.iter().enumerate().take(primaries) {
            let (first, last) = (at * 16_384 / primaries, (at + 1) * 16_384 / primaries - 1);
            assert_eq!(node.text(&format!("CLUSTER ADDSLOTSRANGE {first} {last}")), "OK");
            assert_eq!(node.text(&format!("CLUSTER SET-CONFIG-EPOCH {}", at + 1)), "OK");
        }
        let nodes = Self(nodes);
        for node in &nodes.0[1..] {
            nodes.meet(node);
        }
        nodes.wait_until_known();
        for (at, node) in nodes.0.iter().enumerate().skip(primaries) {
            let primary = nodes.0[(at - primaries) % primaries].id();
            wait_until("a node follows its primary", || node.text(&format!("CLUSTER REPLICATE {primary}")) == "OK");
        }
        nodes.wait_until_well();
        nodes
    }

    pub fn onrush(primaries: usize, replicas: usize) -> Self {
        Self::form(primaries, replicas, |_| None, &[])
    }

    pub fn meet(&self, node: &Node) {
        let first = &self.0[0];
        let bus = first.bus_port();
        assert_eq!(node.text(&format!("CLUSTER MEET 127.0.0.1 {} {bus}", first.server.port())), "OK");
    }

    pub fn wait_until_known(&self) {
        let all = self.0.len();
        wait_until("all nodes know each other", || {
            self.0.iter().all(|node| {
                let text = node.text("CLUSTER NODES");
                text.lines().count() == all && !text.contains("handshake")
            })
        });
    }

    /// Waits until all nodes say that the cluster is up, and all replicas have their links.
    pub fn wait_until_well(&self) {
        wait_until("the cluster is up", || {
            self.0.iter().all(|node| {
                let role = node.text("INFO replication");
                let follows = !role.contains("role:slave") || role.contains("master_link_status:up");
                follows && node.text("CLUSTER INFO").contains("cluster_state:ok")
            })
        });
        wait_until("all nodes agree", || {
            let mut maps: Vec<Vec<String>> = self.0.iter().map(owners).collect();
            maps.dedup();
            maps.len() == 1 && maps[0].iter().any(|line| line.contains('-'))
        });
    }

    /// The node that serves a slot, by what the first node says.
    pub fn owner(&self, slot: u16) -> usize {
        let routes = slots(&mut self.0[0].server.connect());
        let port = routes[&slot];
        self.0.iter().position(|node| node.server.port() == port).expect("a node")
    }

    pub fn client(&self) -> Client {
        let ports: Vec<u16> = self.0.iter().map(|node| node.server.port()).collect();
        Client::new(ports)
    }

    /// Runs a subcommand of `redis-cli --cluster`; returns what it says.
    pub fn tool(&self, args: &[&str]) -> (bool, String) {
        tool(args)
    }
}

/// Runs a subcommand of `redis-cli --cluster`.
pub fn tool(args: &[&str]) -> (bool, String) {
    let output = Command::new("redis-cli").arg("--cluster").args(args).output().expect("redis-cli");
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

/// Who has slots, by one node.
fn owners(node: &Node) -> Vec<String> {
    let text = node.text("CLUSTER NODES");
    let mut lines: Vec<String> = text
        .lines()
        .map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let role = if words[2].contains("slave") { "replica" } else { "primary" };
            format!("{} {role} {} {}", words[0], words[3], words[8..].join(" "))
        })
        .collect();
    lines.sort();
    lines
}

fn number(value: &Value) -> u16 {
    let Value::Int(number) = value else { panic!("{value:?}") };
    u16::try_from(*number).expect("a slot or a port")
}

/// The port of each slot's primary.
fn slots(conn: &mut Conn) -> HashMap<u16, u16> {
    let Value::Array(ranges) = conn.run("CLUSTER SLOTS") else { panic!("no array") };
    let mut found = HashMap::new();
    for range in ranges {
        let Value::Array(parts) = range else { panic!("no array") };
        let Value::Array(primary) = &parts[2] else { panic!("no array") };
        let (first, last, port) = (number(&parts[0]), number(&parts[1]), number(&primary[1]));
        found.extend((first..=last).map(|slot| (slot, port)));
    }
    found
}

/// A client that goes where it is sent, one command after the other.
pub struct Client {
    ports: Vec<u16>,
    conns: HashMap<u16, Conn>,
    routes: HashMap<u16, u16>,
    /// Redirections so far.
    pub moved: usize,
    pub asked: usize,
}

/// How long a command is tried.
const PATIENCE: Duration = Duration::from_secs(30);

impl Client {
    fn new(ports: Vec<u16>) -> Self {
        Self { ports, conns: HashMap::new(), routes: HashMap::new(), moved: 0, asked: 0 }
    }

    fn conn(&mut self, port: u16) -> Option<&mut Conn> {
        match self.conns.entry(port) {
            Entry::Occupied(known) => Some(known.into_mut()),
            Entry::Vacant(new) => {
                let mut conn = Conn::tcp(port).ok()?;
                conn.set_timeout(Duration::from_secs(3));
                Some(new.insert(conn))
            }
        }
    }

    fn try_at(&mut self, port: u16, command: &Argv, asks: bool) -> Option<String> {
        let conn = self.conn(port)?;
        let result = match asks {
            true => conn.try_pipeline(&[Argv::new(&["ASKING"]), command.clone()]).ok().map(|mut all| all.remove(1)),
            false => conn.try_call(command).ok(),
        };
        if result.is_none() {
            self.conns.remove(&port);
        }
        result.map(|reply| String::from_utf8_lossy(&reply).trim_end().replace("\r\n", " "))
    }

    /// Executes a command about one key; returns the reply. It may be executed more than once when a node fails; `None`:
    /// its fate is unknown.
    pub fn once(&mut self, key: &str, command: &Argv) -> Option<String> {
        let slot = slot(key.as_bytes());
        let (mut port, mut asks) = (*self.routes.get(&slot).unwrap_or(&self.ports[0]), false);
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            let Some(reply) = self.try_at(port, command, asks) else {
                // The next time another node says who has it.
                self.routes.remove(&slot);
                let turn = self.ports.remove(0);
                self.ports.push(turn);
                return None;
            };
            asks = false;
            let target = |reply: &str| reply.rsplit(':').next().and_then(|port| port.parse().ok());
            if reply.starts_with("-MOVED") {
                port = target(&reply).expect("a port");
                self.routes.insert(slot, port);
                self.moved += 1;
            } else if reply.starts_with("-ASK") {
                (port, asks) = (target(&reply).expect("a port"), true);
                self.asked += 1;
            } else if ["-TRYAGAIN", "-CLUSTERDOWN", "-LOADING", "-MASTERDOWN"]
                .iter()
                .any(|code| reply.starts_with(code))
            {
                std::thread::sleep(Duration::from_millis(20));
                port = *self.routes.get(&slot).unwrap_or(&self.ports[0]);
            } else {
                return Some(reply);
            }
        }
        panic!("no node takes {command:?}");
    }

    /// As [`Client::once`], for commands that may be executed again.
    pub fn call(&mut self, key: &str, line: &str) -> String {
        let command = Argv::parse(line).expect("a command");
        let begin = Instant::now();
        loop {
            match self.once(key, &command) {
                Some(reply) => return reply,
                None if begin.elapsed() > PATIENCE => panic!("no node takes {line}"),
                None => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }
}
