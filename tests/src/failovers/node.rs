//! One server or Sentinel, and how it is reached.

use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::argv;
use crate::client::Conn;
use crate::port::Port;
use crate::process;
use crate::resp::Value;
use crate::server::TempDir;

/// How often a state is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How long one command may take.
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a connection may take to open.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

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
    /// The directives of a server.
    pub fn of_server(self) -> String {
        match self {
            Self::None => String::new(),
            Self::Password => format!("requirepass {PASSWORD}\nmasterauth {PASSWORD}\n"),
            Self::User => format!(
                "user {USER} on >{PASSWORD} ~* &* +@all\nuser default off\nmasteruser {USER}\nmasterauth {PASSWORD}\n"
            ),
        }
    }

    /// The directives of a Sentinel for the primary `name`.
    pub fn of_sentinel(self, name: &str) -> String {
        match self {
            Self::None => String::new(),
            Self::Password => format!("sentinel auth-pass {name} {PASSWORD}\n"),
            Self::User => format!("sentinel auth-user {name} {USER}\nsentinel auth-pass {name} {PASSWORD}\n"),
        }
    }

    fn apply(self, mut conn: Conn) -> Result<Conn, String> {
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

/// Where a process is reached.
#[derive(Clone, Debug)]
pub struct Place {
    /// The address.
    pub address: Ipv4Addr,
    /// The port for clients without TLS.
    pub port: u16,
    /// The port that replicas and Sentinels use, which is another one with TLS.
    pub announced: u16,
    /// How it is logged in to.
    pub login: Login,
    /// The Unix socket of a server.
    pub socket: PathBuf,
}

impl Place {
    /// Connects over the network and logs in.
    ///
    /// # Errors
    /// The system's; what it replies but OK.
    pub fn connect(&self) -> Result<Conn, String> {
        let conn =
            Conn::tcp_at((self.address, self.port).into(), CONNECT_TIMEOUT).map_err(|error| error.to_string())?;
        self.login.apply(conn)
    }

    /// As [`Place::connect`], over the Unix socket, which no network cuts.
    ///
    /// # Errors
    /// As [`Place::connect`].
    pub fn connect_beside(&self) -> Result<Conn, String> {
        self.login.apply(Conn::unix(&self.socket).map_err(|error| error.to_string())?)
    }
}

/// A process with a folder, ports and a configuration of its own; it is killed at the end.
pub struct Node {
    bin: PathBuf,
    args: Vec<&'static str>,
    dir: TempDir,
    /// They are held as long as they are used.
    _ports: [Port; 2],
    place: Place,
    space: Option<String>,
    child: Option<Child>,
}

impl Node {
    /// `space`: the network namespace. `config`: makes the text of the configuration from a place and a folder.
    pub fn new(
        (bin, args): (PathBuf, &[&'static str]),
        (address, space): (Ipv4Addr, Option<String>),
        login: Login,
        config: impl FnOnce(&mut Place, &Path, u16) -> String,
    ) -> Self {
        let (dir, ports) = (TempDir::new(), [Port::choose(), Port::choose()]);
        let port = ports[0].number();
        let mut place = Place { address, port, announced: port, login, socket: dir.0.join("socket") };
        let text = config(&mut place, &dir.0, ports[1].number());
        fs::write(dir.0.join("conf"), text).expect("the configuration is written");
        Self { bin, args: args.to_vec(), dir, _ports: ports, place, space, child: None }
    }

    /// Where it is reached.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Starts it and waits until it answers.
    ///
    /// # Errors
    /// It does not.
    pub fn start(&mut self) -> Result<(), String> {
        let log = File::options().create(true).append(true).open(self.dir.0.join("log")).map_err(|e| e.to_string())?;
        let mut command = match &self.space {
            Some(space) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", space]).arg(&self.bin);
                command
            }
            None => Command::new(&self.bin),
        };
        command.arg(self.dir.0.join("conf")).args(&self.args).current_dir(&self.dir.0).stdin(Stdio::null());
        command.stdout(log.try_clone().map_err(|e| e.to_string())?).stderr(log);
        self.child = Some(command.spawn().map_err(|e| format!("can't start {}: {e}", self.bin.display()))?);
        wait("a server answers", REPLY_TIMEOUT * 4, || match self.ask("PING") {
            Ok(reply) if reply.text() == "PONG" || reply.text().starts_with("LOADING") => Ok(()),
            Ok(reply) => Err(reply.text()),
            Err(why) => Err(why),
        })
    }

    /// The reply to one command.
    ///
    /// # Errors
    /// There is none.
    pub fn ask(&self, line: &str) -> Result<Value, String> {
        let mut conn = self.place.connect()?;
        let argv = crate::argv::Argv::parse(line).map_err(|error| format!("{line}: {error:?}"))?;
        let raw = conn.try_call(&argv).map_err(|error| format!("{line}: {error}"))?;
        Value::parse(&raw)
    }

    /// Sends a signal to it.
    pub fn signal(&self, name: &str) {
        if let Some(child) = &self.child {
            process::signal(child.id(), name);
        }
    }

    /// Waits until it has ended.
    ///
    /// # Errors
    /// It does not.
    pub fn wait_exit(&mut self) -> Result<(), String> {
        let Some(child) = &mut self.child else { return Ok(()) };
        wait("a server ends", Duration::from_secs(30), || match child.try_wait() {
            Ok(Some(_)) => Ok(()),
            _ => Err("it runs".to_owned()),
        })?;
        self.child = None;
        Ok(())
    }

    /// The end of its log.
    pub fn log(&self) -> String {
        self.log_without(25, "\n")
    }

    /// The last lines of its log, but for those with a text.
    pub fn log_without(&self, count: usize, text: &str) -> String {
        let log = fs::read(self.dir.0.join("log")).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().filter(|line| !line.contains(text)).collect();
        let tail = lines[lines.len().saturating_sub(count)..].join("\n");
        format!("--- {}:{} ({}) ---\n{tail}", self.place.address, self.place.announced, self.bin.display())
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
