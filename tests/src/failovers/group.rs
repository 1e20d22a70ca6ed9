//! Three servers and three Sentinels.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::Options;
use crate::argv;
use crate::client::Conn;
use crate::port::Port;
use crate::process;
use crate::resp::Value;
use crate::server::{Oracle, TempDir};

/// The name of the primary among Sentinels.
const NAME: &str = "group";

/// How often a state is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How long one command may take.
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);

/// What a server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Onrush.
    Onrush,
    /// redis-server.
    Redis(Oracle),
}

/// How servers are logged in to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Login {
    /// Not at all.
    #[default]
    None,
    /// By the password of the default user.
    Password,
    /// As a user with rights; the default user is off.
    User,
}

/// The user and the password.
const USER: &str = "operator";
const PASSWORD: &str = "let-me-in";

impl Login {
    fn of_server(self) -> String {
        match self {
            Self::None => String::new(),
            Self::Password => format!("requirepass {PASSWORD}\nmasterauth {PASSWORD}\n"),
            Self::User => format!(
                "user {USER} on >{PASSWORD} ~* &* +@all\nuser default off\nmasteruser {USER}\nmasterauth {PASSWORD}\n"
            ),
        }
    }

    fn of_sentinel(self) -> String {
        match self {
            Self::None => String::new(),
            Self::Password => format!("sentinel auth-pass {NAME} {PASSWORD}\n"),
            Self::User => format!("sentinel auth-user {NAME} {USER}\nsentinel auth-pass {NAME} {PASSWORD}\n"),
        }
    }

    /// Connects to a server and logs in.
    ///
    /// # Errors
    /// The system's; what it replies but OK.
    pub fn connect(self, port: u16) -> Result<Conn, String> {
        let mut conn = Conn::tcp(port).map_err(|error| error.to_string())?;
        conn.set_timeout(REPLY_TIMEOUT);
        let auth = match self {
            Self::None => return Ok(conn),
            Self::Password => argv!["AUTH", PASSWORD],
            Self::User => argv!["AUTH", USER, PASSWORD],
        };
        match conn.try_call(&auth).map_err(|error| error.to_string())? {
            reply if reply == b"+OK\r\n" => Ok(conn),
            other => Err(String::from_utf8_lossy(&other).into_owned()),
        }
    }
}

/// A process with a folder, a port and a configuration of its own; it is killed at the end.
struct Node {
    bin: PathBuf,
    args: Vec<&'static str>,
    dir: TempDir,
    port: Port,
    login: Login,
    child: Option<Child>,
}

impl Node {
    fn new(bin: PathBuf, args: &[&'static str], login: Login, config: impl FnOnce(u16, &str) -> String) -> Self {
        let (dir, port) = (TempDir::new(), Port::choose());
        let text = config(port.number(), dir.0.to_str().unwrap_or_default());
        fs::write(dir.0.join("conf"), text).expect("the configuration is written");
        Self { bin, args: args.to_vec(), dir, port, login, child: None }
    }

    fn start(&mut self) -> Result<(), String> {
        let log = File::options().create(true).append(true).open(self.dir.0.join("log")).map_err(|e| e.to_string())?;
        let mut command = Command::new(&self.bin);
        command.arg(self.dir.0.join("conf")).args(&self.args).current_dir(&self.dir.0).stdin(Stdio::null());
        command.stdout(log.try_clone().map_err(|e| e.to_string())?).stderr(log);
        self.child = Some(command.spawn().map_err(|e| format!("can't start {}: {e}", self.bin.display()))?);
        wait("a server answers", REPLY_TIMEOUT * 4, || match self.ask("PING") {
            Ok(reply) if reply.text() == "PONG" || reply.text().starts_with("LOADING") => Ok(()),
            Ok(reply) => Err(reply.text()),
            Err(why) => Err(why),
        })
    }

    fn ask(&self, line: &str) -> Result<Value, String> {
        let mut conn = self.login.connect(self.port.number())?;
        let argv = crate::argv::Argv::parse(line).map_err(|error| format!("{line}: {error:?}"))?;
        let raw = conn.try_call(&argv).map_err(|error| format!("{line}: {error}"))?;
        Value::parse(&raw)
    }

    fn signal(&self, name: &str) {
        if let Some(child) = &self.child {
            process::signal(child.id(), name);
        }
    }

    fn wait_exit(&mut self) -> Result<(), String> {
        let Some(child) = &mut self.child else { return Ok(()) };
        wait("a server ends", Duration::from_secs(30), || match child.try_wait() {
            Ok(Some(_)) => Ok(()),
            _ => Err("it runs".to_owned()),
        })?;
        self.child = None;
        Ok(())
    }

    fn log(&self) -> String {
        let log = fs::read(self.dir.0.join("log")).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines[lines.len().saturating_sub(25)..].join("\n");
        format!("--- port {} ({}) ---\n{tail}", self.port.number(), self.bin.display())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Looks until `look` finds what it wants.
///
/// # Errors
/// The time is over; the text says what was found last.
pub fn wait<T>(what: &str, at_most: Duration, mut look: impl FnMut() -> Result<T, String>) -> Result<T, String> {
    let until = Instant::now() + at_most;
    loop {
        match look() {
            Ok(found) => return Ok(found),
            Err(last) if Instant::now() > until => return Err(format!("waited for: {what}; last: {last}")),
            Err(_) => std::thread::sleep(LOOK_EVERY),
        }
    }
}

/// See the module's text.
pub struct Group {
    servers: Vec<Node>,
    sentinels: Vec<Node>,
    /// How the servers are logged in to.
    pub login: Login,
}

impl Group {
    /// Starts all.
    ///
    /// # Errors
    /// One does not start.
    pub fn start(options: &Options) -> Result<Self, String> {
        let mut servers: Vec<Node> = Vec::new();
        for kind in options.servers {
            let bin = match kind {
                Kind::Onrush => options.onrush_bin.clone(),
                Kind::Redis(oracle) => oracle.bin(),
            };
            let primary = servers.first().map(|first| first.port.number());
            let mut node = Node::new(bin, &[], options.login, |port, dir| {
                let mut text = format!(
                    "port {port}\nbind 127.0.0.1\ndir {dir}\nsave \"\"\nappendonly yes\nenable-debug-command yes\n\
                     repl-diskless-sync-delay 0\n"
                );
                text.push_str(&options.login.of_server());
                if kind == Kind::Onrush {
                    options.directives.iter().for_each(|line| text.push_str(&format!("{line}\n")));
                    if options.replicas > 0 {
                        text.push_str("durability-replicas-timeout 1500\n");
                    }
                }
                if let Some(primary) = primary {
                    text.push_str(&format!("replicaof 127.0.0.1 {primary}\n"));
                }
                text
            });
            node.start()?;
            servers.push(node);
        }
        let primary = servers[0].port.number();
        let mut sentinels = Vec::new();
        for _ in 0..3 {
            let mut node = Node::new(Oracle::Older.bin(), &["--sentinel"], Login::None, |port, dir| {
                format!(
                    "port {port}\nbind 127.0.0.1\ndir {dir}\nprotected-mode no\n\
                     sentinel monitor {NAME} 127.0.0.1 {primary} 2\nsentinel down-after-milliseconds {NAME} 1000\n\
                     sentinel failover-timeout {NAME} 6000\nsentinel parallel-syncs {NAME} 2\n{}",
                    options.login.of_sentinel()
                )
            });
            node.start()?;
            sentinels.push(node);
        }
        let group = Self { servers, sentinels, login: options.login };
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

    /// The ports of the Sentinels.
    pub fn sentinel_ports(&self) -> Vec<u16> {
        self.sentinels.iter().map(|node| node.port.number()).collect()
    }

    /// A connection to the primary.
    ///
    /// # Errors
    /// There is none that all agree on.
    pub fn connect(&self) -> Result<Conn, String> {
        let primary = self.primary()?;
        self.login.connect(self.servers[primary].port.number())
    }

    /// The server that is the primary by all Sentinels and by its own word.
    ///
    /// # Errors
    /// What is seen instead.
    pub fn primary(&self) -> Result<usize, String> {
        let mut ports: Vec<u16> = Vec::new();
        for sentinel in &self.sentinels {
            ports.push(primary_of(sentinel.port.number())?);
        }
        if ports.iter().any(|port| *port != ports[0]) {
            return Err(format!("the Sentinels tell {ports:?}"));
        }
        let nth = self.servers.iter().position(|server| server.port.number() == ports[0]);
        let nth = nth.ok_or_else(|| format!("no server has port {}", ports[0]))?;
        let role = self.servers[nth].ask("ROLE")?;
        let is_primary = role.items().is_some_and(|items| items[0].text() == "master");
        if is_primary { Ok(nth) } else { Err(format!("port {}: {}", ports[0], role.text())) }
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
        let port = self.servers[primary].port.number().to_string();
        let offset = field(&self.servers[primary], "master_repl_offset")?;
        for server in &self.servers {
            if server.port.number().to_string() == port {
                continue;
            }
            let follows = [field(server, "master_port")?, field(server, "master_link_status")?];
            if follows != [port.as_str(), "up"] {
                return Err(format!("port {} follows {follows:?}, not {port}", server.port.number()));
            }
            let has = field(server, "slave_repl_offset")?;
            if have_all && has != offset {
                return Err(format!("port {} is at {has}, not at {offset}", server.port.number()));
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

/// The port of the primary, by a Sentinel.
///
/// # Errors
/// It does not answer, or knows none.
pub fn primary_of(sentinel: u16) -> Result<u16, String> {
    let mut conn = Conn::tcp(sentinel).map_err(|error| error.to_string())?;
    conn.set_timeout(REPLY_TIMEOUT);
    let raw = conn.try_call(&argv!["SENTINEL", "get-master-addr-by-name", NAME]).map_err(|error| error.to_string())?;
    let reply = Value::parse(&raw)?;
    let port = reply.items().and_then(|items| items.get(1)?.text().parse().ok());
    port.ok_or_else(|| format!("a Sentinel tells {}", reply.text()))
}
