//! Clusters of real servers, each in processes of its own that end with it.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use onrush::{Client, ClusterClient, Connection, RedisResult, Value, cmd};

/// How long anything may take that has to happen.
const PATIENCE: Duration = Duration::from_secs(30);

/// The bus of each node has a port that is so much higher.
const BUS: u16 = 10_000;

/// The servers run so long without news of a node before they count it as failed, in milliseconds.
const NODE_TIMEOUT_MS: &str = "1500";

/// Primaries, and a replica for each if wanted.
pub struct Cluster {
    pub nodes: Vec<Node>,
    pub primaries: usize,
    _certificate: Option<Folder>,
}

/// A folder that is removed with this.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("onrush-cluster-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub struct Node {
    pub port: u16,
    /// The port for clients over TLS, if the nodes speak that among themselves.
    pub tls_port: Option<u16>,
    child: Option<Child>,
    _dir: Folder,
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A port that is free, and whose bus has a free one.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 20_000 + (std::process::id() % 90) as u16 * 100;
    loop {
        let port = first + NEXT.fetch_add(1, Ordering::Relaxed);
        let is_free = |port| std::net::TcpListener::bind(("127.0.0.1", port)).is_ok();
        if is_free(port) && is_free(port + BUS) {
            return port;
        }
    }
}

/// A certificate that vouches for itself, for all nodes.
fn certificate() -> Folder {
    let folder = Folder::new();
    // One that says of itself that it is an authority is none of a server for Onrush.
    let about = "[req]\ndistinguished_name=n\n[n]\n[v3]\nbasicConstraints=CA:FALSE\n";
    std::fs::write(folder.0.join("about"), about).expect("a file");
    let make = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout key -out crt -subj /CN=n \
                -days 3 -config about -extensions v3";
    let made = Command::new("openssl").args(make.split(' ')).current_dir(&folder.0).output().expect("openssl");
    assert!(made.status.success(), "{made:?}");
    folder
}

/// The options for TLS.
fn tls_args(certificate: &Folder, port: u16) -> Vec<String> {
    let file = |name: &str| certificate.0.join(name).to_string_lossy().into_owned();
    let files = [("--tls-cert-file", "crt"), ("--tls-key-file", "key"), ("--tls-ca-cert-file", "crt")];
    let files = files.into_iter().flat_map(|(option, name)| [option.to_owned(), file(name)]);
    let port = port.to_string();
    let options = ["--tls-port", &port, "--tls-cluster", "yes", "--tls-auth-clients", "no"];
    options.into_iter().map(str::to_owned).chain(files).collect()
}

impl Node {
    fn start(certificate: Option<&Folder>) -> Node {
        // Servers of other tests look for free ports too.
        (0..20).find_map(|_| Node::start_on_free_port(certificate)).expect("a free port")
    }

    /// `None` if another server has taken the port meanwhile.
    fn start_on_free_port(certificate: Option<&Folder>) -> Option<Node> {
        let (port, dir) = (free_port(), Folder::new());
        let tls_port = certificate.map(|_| free_port());
        let tls_args = certificate.zip(tls_port).map(|(certificate, port)| tls_args(certificate, port));
        let mut child = Command::new(super::server_bin())
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .args(["--cluster-enabled", "yes", "--cluster-node-timeout", NODE_TIMEOUT_MS])
            // A primary that has lost all its slots stays one.
            .args(["--cluster-allow-replica-migration", "no"])
            .args(["--repl-diskless-sync-delay", "0", "--logfile", "log", "--dir"])
            .arg(&dir.0)
            .args(tls_args.into_iter().flatten())
            .stdin(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {}: {error}", super::server_bin().display()));
        let (log, began) = (dir.0.join("log"), Instant::now());
        while !std::fs::read_to_string(&log).is_ok_and(|log| log.contains("Ready to accept connections")) {
            if child.try_wait().expect("its state").is_some() {
                return None;
            }
            assert!(began.elapsed() < PATIENCE, "a node does not start");
            std::thread::sleep(Duration::from_millis(5));
        }
        Some(Node { port, tls_port, child: Some(child), _dir: dir })
    }

    /// Kills the process at once.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    pub async fn connect(&self) -> Connection {
        let client = Client::open(format!("redis://127.0.0.1:{}/", self.port)).expect("a URL");
        let began = Instant::now();
        loop {
            match client.connect().await {
                Ok(connection) => return connection,
                Err(error) => assert!(began.elapsed() < PATIENCE, "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub async fn call(&self, words: &str) -> RedisResult<Value> {
        call(&self.connect().await, words).await
    }
}

pub async fn call(connection: &Connection, words: &str) -> RedisResult<Value> {
    let mut words = words.split(' ');
    let mut command = cmd(words.next().expect("a name"));
    words.for_each(|word| _ = command.arg(word));
    command.query_async(connection).await
}

/// Waits until something holds.
pub async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !holds().await {
        assert!(began.elapsed() < PATIENCE, "waited in vain until {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

pub fn text(value: &Value) -> String {
    onrush::from_redis_value(value.clone()).expect("a text")
}

impl Cluster {
    /// So many primaries with equal shares of the slots, and a replica for each if wanted.
    pub async fn start(primaries: usize, replicas: bool) -> Cluster {
        Cluster::start_with(primaries, replicas, false).await
    }

    /// The same; if encrypted, the nodes speak TLS among themselves and have a port for it.
    pub async fn start_with(primaries: usize, replicas: bool, is_encrypted: bool) -> Cluster {
        let count = if replicas { 2 * primaries } else { primaries };
        let certificate = is_encrypted.then(certificate);
        let nodes: Vec<Node> = (0..count).map(|_| Node::start(certificate.as_ref())).collect();
        let cluster = Cluster { nodes, primaries, _certificate: certificate };
        cluster.join().await;
        cluster
    }

    async fn join(&self) {
        let first = self.nodes[0].tls_port.unwrap_or(self.nodes[0].port);
        for (nth, node) in self.nodes.iter().enumerate() {
            node.call(&format!("CLUSTER SET-CONFIG-EPOCH {}", nth + 1)).await.expect("an epoch");
            let share = 16_384 / self.primaries;
            if nth < self.primaries {
                let end = if nth + 1 == self.primaries { 16_383 } else { (nth + 1) * share - 1 };
                node.call(&format!("CLUSTER ADDSLOTSRANGE {} {end}", nth * share)).await.expect("slots");
            }
            if nth > 0 {
                node.call(&format!("CLUSTER MEET 127.0.0.1 {first}")).await.expect("a meeting");
            }
        }
        for node in &self.nodes {
            until("all know each other", async || self.knows_all(node).await).await;
        }
        for (nth, node) in self.nodes.iter().enumerate().skip(self.primaries) {
            let id = self.id(nth - self.primaries).await;
            node.call(&format!("CLUSTER REPLICATE {id}")).await.expect("a primary");
        }
        for (nth, node) in self.nodes.iter().enumerate() {
            until("the cluster works", async || self.is_ready(node, nth).await).await;
        }
    }

    async fn knows_all(&self, node: &Node) -> bool {
        let info = text(&node.call("CLUSTER INFO").await.expect("a reply"));
        let nodes = text(&node.call("CLUSTER NODES").await.expect("a reply"));
        info.contains(&format!("cluster_known_nodes:{}\r", self.nodes.len())) && !nodes.contains("handshake")
    }

    async fn is_ready(&self, node: &Node, nth: usize) -> bool {
        let info = text(&node.call("CLUSTER INFO").await.expect("a reply"));
        let replication = text(&node.call("INFO replication").await.expect("a reply"));
        let slots = node.call("CLUSTER SLOTS").await.expect("a reply");
        let listed = format!("{slots:?}").matches("Int(").count();
        let is_linked = nth < self.primaries || replication.contains("master_link_status:up");
        info.contains("cluster_state:ok") && is_linked && listed >= 2 * self.primaries + self.nodes.len()
    }

    pub async fn id(&self, nth: usize) -> String {
        text(&self.nodes[nth].call("CLUSTER MYID").await.expect("an id"))
    }

    pub fn url(&self) -> String {
        let seeds: Vec<String> = self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port)).collect();
        format!("redis-cluster://{}", seeds.join(","))
    }

    pub fn client(&self) -> ClusterClient {
        ClusterClient::open(self.url()).expect("a URL")
    }

    /// The number of the node that serves a slot.
    pub async fn owner(&self, slot: u16) -> usize {
        self.owner_if_any(slot).await.unwrap_or_else(|| panic!("nobody has slot {slot}"))
    }

    pub async fn owner_if_any(&self, slot: u16) -> Option<usize> {
        for (nth, node) in self.nodes.iter().enumerate().filter(|(_, node)| node.child.is_some()) {
            let nodes = text(&node.call("CLUSTER NODES").await.expect("a reply"));
            let myself = nodes.lines().find(|line| line.contains("myself")).expect("its own line");
            if myself.contains("master") && has_slot(myself, slot) {
                return Some(nth);
            }
        }
        None
    }

    /// Lets a replica take over from its primary, as planned.
    pub async fn fail_over(&self, to: usize) {
        let replica = self.nodes[to].connect().await;
        until("the replica follows", async || {
            let info = text(&call(&replica, "INFO replication").await.expect("a reply"));
            info.contains("master_link_status:up")
        })
        .await;
        let mut asked = None;
        until("the replica takes over", async || {
            // A node forgets it after five seconds.
            if asked.is_none_or(|asked: Instant| asked.elapsed() > Duration::from_secs(6)) {
                let _ = call(&replica, "CLUSTER FAILOVER").await;
                asked = Some(Instant::now());
            }
            let role = text(&call(&replica, "INFO replication").await.expect("a reply"));
            role.contains("role:master")
        })
        .await;
        self.agree().await;
    }

    /// Waits until all nodes say the same of all.
    async fn agree(&self) {
        until("all nodes agree", async || {
            let mut views = Vec::new();
            for node in &self.nodes {
                views.push(view(&text(&node.call("CLUSTER NODES").await.expect("a reply"))));
            }
            views.iter().all(|view| *view == views[0])
        })
        .await;
    }

    /// Moves a slot with all its keys, as `redis-cli --cluster reshard` does.
    pub async fn move_slot(&self, slot: u16, from: usize, to: usize) {
        self.begin_move(slot, from, to).await;
        while self.move_some(slot, from, to, 3).await > 0 {}
        self.end_move(slot, from, to).await;
    }

    pub async fn begin_move(&self, slot: u16, from: usize, to: usize) {
        let (source, target) = (&self.nodes[from], &self.nodes[to]);
        let (from_id, to_id) = (self.id(from).await, self.id(to).await);
        target.call(&format!("CLUSTER SETSLOT {slot} IMPORTING {from_id}")).await.expect("importing");
        source.call(&format!("CLUSTER SETSLOT {slot} MIGRATING {to_id}")).await.expect("migrating");
    }

    /// Moves some keys of a slot; returns how many.
    pub async fn move_some(&self, slot: u16, from: usize, to: usize, count: usize) -> usize {
        let source = self.nodes[from].connect().await;
        let keys = call(&source, &format!("CLUSTER GETKEYSINSLOT {slot} {count}")).await.expect("keys");
        let keys: Vec<String> = onrush::from_redis_value(keys).expect("keys");
        if !keys.is_empty() {
            let mut migrate = cmd("MIGRATE");
            migrate.arg("127.0.0.1").arg(self.nodes[to].port).arg("").arg(0).arg(5_000).arg("KEYS").arg(&keys);
            migrate.exec_async(&source).await.expect("moved");
        }
        keys.len()
    }

    /// Ends a move at all nodes, and waits until they agree: otherwise the next move of the slot could come with an epoch
    /// that is no newer.
    pub async fn end_move(&self, slot: u16, from: usize, to: usize) {
        let to_id = self.id(to).await;
        let others = (0..self.primaries).filter(|nth| *nth != to && *nth != from);
        for nth in [to, from].into_iter().chain(others) {
            self.nodes[nth].call(&format!("CLUSTER SETSLOT {slot} NODE {to_id}")).await.expect("at its new node");
        }
        self.agree().await;
    }
}

/// What a node says of all nodes: their names, epochs and slots.
fn view(nodes: &str) -> Vec<String> {
    let line = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let slots = words[8..].iter().filter(|word| !word.starts_with('[')).copied();
        [words[0], words[6]].into_iter().chain(slots).collect::<Vec<_>>().join(" ")
    };
    let mut view: Vec<String> = nodes.lines().map(line).collect();
    view.sort();
    view
}

/// Whether a line of CLUSTER NODES names the slot.
fn has_slot(line: &str, slot: u16) -> bool {
    line.split(' ').skip(8).any(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        matches!((first.parse::<u16>(), last.parse::<u16>()), (Ok(first), Ok(last)) if (first..=last).contains(&slot))
    })
}

/// Runs a test in a runtime of two threads.
pub fn run(test: impl Future<Output = ()>) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        tokio::time::timeout(Duration::from_secs(120), test).await.expect("it ends");
    });
}
