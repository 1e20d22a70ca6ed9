//! Servers under test as child processes, each with its own port, directory and log.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::chaos::disk::Disk;
use crate::client::Conn;
use crate::port::Port;
use crate::process;

/// How long a server may take to answer its first PING or to end.
const PATIENCE: Duration = Duration::from_secs(20);

/// Options that only Onrush has; dropped (with their value) when a redis-server stands in for it.
const ONRUSH_ONLY: &[&str] = &["--workers", "--pipeline-reply-limit"];

/// The Onrush binary: `ONRUSH_SERVER_BIN`, else the release build in the workspace's target folder.
pub fn onrush_bin() -> PathBuf {
    if let Some(path) = std::env::var_os("ONRUSH_SERVER_BIN") {
        return PathBuf::from(path);
    }
    target().join("release/onrush-server")
}

/// The releases of redis-server that replies are compared with. Onrush follows 7.4, which lies between the two: it does
/// what both do alike, and where they differ, 7.4 decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Oracle {
    /// 7.0, as Debian has it.
    Older,
    /// 8.2, which `make tools` fetches.
    Newer,
    /// Valkey, which `make tools` fetches: a partner in replication, whose replies are not compared.
    Valkey,
}

impl Oracle {
    /// Those that replies are compared with.
    pub const ALL: [Oracle; 2] = [Oracle::Older, Oracle::Newer];

    /// Those that replicate with Onrush.
    pub const PARTNERS: [Oracle; 3] = [Oracle::Older, Oracle::Newer, Oracle::Valkey];

    /// As it is told.
    pub fn name(self) -> &'static str {
        match self {
            Oracle::Older => "redis-server 7.0",
            Oracle::Newer => "redis-server 8.2",
            Oracle::Valkey => "Valkey",
        }
    }

    /// Its binary. The older: `REDIS_SERVER_BIN`, else `redis-server` on the search path. The others: `REDIS_NEWER_SERVER_BIN`
    /// and `VALKEY_SERVER_BIN`, else where `make tools` puts them in the target folder.
    pub fn bin(self) -> PathBuf {
        let (variable, default) = match self {
            Oracle::Older => ("REDIS_SERVER_BIN", "redis-server".into()),
            Oracle::Newer => ("REDIS_NEWER_SERVER_BIN", target().join("oracle/redis-server")),
            Oracle::Valkey => ("VALKEY_SERVER_BIN", target().join("oracle/valkey-server")),
        };
        std::env::var_os(variable).map_or(default, PathBuf::from)
    }
}

/// The workspace's target folder.
fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"), PathBuf::from)
}

/// Whether the server under test is a redis-server that stands in for Onrush, to check the tests themselves.
pub fn is_stand_in() -> bool {
    onrush_bin().file_name().is_some_and(|n| n.to_string_lossy().starts_with("redis-server"))
}

/// Whether the calling test must return at once, because the server under test is a redis-server without the tested
/// feature. It then notes the test in `skipped` in the target folder, which `make test` prints, since libtest would
/// count it as passed.
pub fn skips_on_stand_in() -> bool {
    if is_stand_in() {
        let name = std::thread::current().name().unwrap_or("a test").to_owned();
        let line = format!("{name}: the server under test is a redis-server\n");
        let file = File::options().create(true).append(true).open(target().join("skipped"));
        file.and_then(|mut file| file.write_all(line.as_bytes())).expect("a file in the target folder");
    }
    is_stand_in()
}

/// The subcommand of DEBUG that keeps a thread busy which serves clients: in redis-server there is only that one.
pub fn stall() -> &'static str {
    if is_stand_in() { "SLEEP" } else { "STALL" }
}

/// A running server. Dropping it kills the process and removes its directory.
pub struct Server {
    child: Child,
    dir: TempDir,
    port: Port,
    unix: Option<PathBuf>,
    is_oracle: bool,
    exit: Option<ExitStatus>,
}

impl Server {
    /// Starts Onrush on a free port with `args` added and waits until it answers. Panics when it does not.
    pub fn start_onrush(args: &[&str]) -> Server {
        Launch::onrush().args(args).start()
    }

    /// Starts the older oracle, as [`Server::start_onrush`] does.
    pub fn start_redis(args: &[&str]) -> Server {
        Server::start_oracle(Oracle::Older, args)
    }

    /// Starts an oracle, as [`Server::start_onrush`] does.
    pub fn start_oracle(oracle: Oracle, args: &[&str]) -> Server {
        Launch::of(oracle.bin(), true).args(args).start()
    }

    /// The TCP port.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The server's working directory, removed with the server.
    pub fn dir(&self) -> &Path {
        &self.dir.0
    }

    /// A new connection. Panics when the server does not accept it.
    pub fn connect(&self) -> Conn {
        self.try_connect().unwrap_or_else(|e| panic!("cannot connect: {e}\n{}", self.log_tail()))
    }

    /// A new connection, or the error.
    pub fn try_connect(&self) -> io::Result<Conn> {
        match &self.unix {
            Some(path) => Conn::unix(path),
            None => Conn::tcp(self.port()),
        }
    }

    /// CPU time used so far.
    pub fn cpu_time(&self) -> Duration {
        process::cpu_time(self.pid())
    }

    /// Lets its files grow to `len` bytes and no further, as on a full disk; `None`: as far as they like.
    pub fn limit_files(&self, len: Option<u64>) {
        let pid = Pid::from_raw(self.pid() as i32).expect("a process");
        prlimit(Some(pid), Resource::Fsize, Rlimit { current: len, maximum: None }).expect("one's own process");
    }

    /// Resident memory in kilobytes without that of files, as the program is one.
    pub fn anonymous_kb(&self) -> u64 {
        process::anonymous_kb(self.pid())
    }

    /// Resident memory in kilobytes.
    pub fn rss_kb(&self) -> u64 {
        process::rss_kb(self.pid())
    }

    /// Everything the server has written to its standard output and error, and to `logfile` in its directory.
    pub fn log(&self) -> String {
        let mut text = String::new();
        for name in ["output", "server.log"] {
            let bytes = fs::read(self.dir.0.join(name)).unwrap_or_default();
            text.push_str(&String::from_utf8_lossy(&bytes));
        }
        text
    }

    /// Waits until the log tells `what`: a thread of its own writes it, behind what it tells of.
    pub fn expect_log(&self, what: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !self.log().contains(what) {
            assert!(Instant::now() < deadline, "the log does not tell {what:?}:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// The end of the log, for failure messages.
    pub fn log_tail(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        let tail = &lines[lines.len().saturating_sub(12)..];
        format!("--- log of process {} ---\n{}", self.pid(), tail.join("\n"))
    }

    /// Sends a signal by name.
    pub fn signal(&self, name: &str) {
        process::signal(self.pid(), name);
    }

    /// The exit status if the process has ended.
    pub fn exited(&mut self) -> Option<ExitStatus> {
        if self.exit.is_none() {
            self.exit = self.child.try_wait().expect("the child can be waited for");
        }
        self.exit
    }

    /// Waits for the process to end. Panics when it does not.
    pub fn wait_exit(&mut self) -> ExitStatus {
        let mut status = None;
        wait_until("the server ends", || {
            status = self.exited();
            status.is_some()
        });
        status.expect("waited for")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.exited().is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        if std::thread::panicking() && !self.is_oracle {
            eprintln!("{}", self.log_tail());
        }
    }
}

/// How to start a server.
pub struct Launch {
    bin: PathBuf,
    args: Vec<String>,
    is_oracle: bool,
    unix: bool,
    files_max: Option<u32>,
    config_file: Option<PathBuf>,
    variables: Vec<(&'static str, PathBuf)>,
}

impl Launch {
    /// Onrush, nothing on disk. Its connections are spread over all workers, so that these meet.
    pub fn onrush() -> Launch {
        let launch = Launch::of(onrush_bin(), false);
        if is_stand_in() { launch } else { launch.args(&["--gather-connections", "no"]) }
    }

    /// As [`Launch::onrush`], with workers that sleep as soon as they have nothing to do: their CPU time is all work.
    pub fn onrush_without_polls() -> Launch {
        let launch = Launch::onrush();
        if is_stand_in() { launch } else { launch.args(&["--busy-poll-us", "0"]) }
    }

    /// Any server of the protocol, nothing on disk.
    pub fn binary(bin: PathBuf) -> Launch {
        Launch::of(bin, false)
    }

    /// A redis-server of that binary, nothing on disk.
    pub fn redis_of(bin: PathBuf) -> Launch {
        Launch::of(bin, true)
    }

    fn of(bin: PathBuf, is_oracle: bool) -> Launch {
        Launch {
            bin,
            is_oracle,
            args: Vec::new(),
            unix: false,
            files_max: None,
            config_file: None,
            variables: Vec::new(),
        }
    }

    /// Adds command line arguments.
    pub fn args(mut self, args: &[&str]) -> Launch {
        self.args.extend(args.iter().map(|a| a.to_string()));
        self
    }

    /// Also listens on a Unix socket in the server's directory; [`Server::connect`] then uses it.
    pub fn unix_socket(mut self) -> Launch {
        self.unix = true;
        self
    }

    /// Starts from a configuration file; the command line (port, directory …) goes on top of it.
    pub fn config_file(mut self, path: &Path) -> Launch {
        self.config_file = Some(path.to_owned());
        self
    }

    /// Makes the process use a disk that fails.
    pub fn disk(mut self, disk: &Disk) -> Launch {
        self.variables.extend(disk.variables().map(|(name, path)| (name, path.to_owned())));
        self
    }

    /// Limits the number of file descriptors the process may have.
    pub fn files_max(mut self, files_max: u32) -> Launch {
        self.files_max = Some(files_max);
        self
    }

    /// Starts the server and waits until it answers. Panics when it does not.
    pub fn start(self) -> Server {
        for _ in 0..5 {
            let mut server = self.spawn();
            match wait_ready(&mut server) {
                Ok(()) => return server,
                // Another program took the port between our check and the server's bind.
                Err(_) if server.log().to_lowercase().contains("in use") => continue,
                Err(reason) => panic!("{} {}\n{}", self.bin.display(), reason, server.log_tail()),
            }
        }
        panic!("no free port found");
    }

    /// Starts the process without waiting for it to answer.
    pub fn spawn(&self) -> Server {
        let dir = TempDir::new();
        let port = Port::choose();
        let output = File::create(dir.0.join("output")).expect("a log file");
        let unix = self.unix.then(|| dir.0.join("socket"));
        let mut command = self.command();
        command.args(&self.config_file);
        command.args(["--port", &port.number().to_string(), "--bind", "127.0.0.1", "--save", ""]);
        command.arg("--dir").arg(&dir.0);
        if let Some(path) = &unix {
            command.arg("--unixsocket").arg(path);
        }
        command.args(self.known_args());
        command.envs(self.variables.iter().map(|(name, path)| (name, path)));
        command.current_dir(&dir.0).stdin(Stdio::null());
        command.stdout(output.try_clone().expect("a second handle")).stderr(output);
        let child = command.spawn().unwrap_or_else(|e| {
            panic!("cannot start {}: {e} (`make build tools` makes and fetches the servers)", self.bin.display())
        });
        Server { child, dir, port, unix, is_oracle: self.is_oracle, exit: None }
    }

    /// Runs the binary with exactly the given arguments to its end and returns status and output.
    pub fn run_to_end(bin: &Path, args: &[&str]) -> (ExitStatus, String) {
        let output = Command::new(bin).args(args).stdin(Stdio::null()).output().expect("it starts");
        let text = [output.stdout, output.stderr].concat();
        (output.status, String::from_utf8_lossy(&text).into_owned())
    }

    fn command(&self) -> Command {
        match self.files_max {
            None => Command::new(&self.bin),
            Some(files_max) => {
                let mut command = Command::new("sh");
                command.args(["-c", &format!("ulimit -n {files_max} && exec \"$0\" \"$@\"")]);
                command.arg(&self.bin);
                command
            }
        }
    }

    fn known_args(&self) -> Vec<&str> {
        let drop_own = self.bin.file_name().is_some_and(|n| n.to_string_lossy().starts_with("redis-server"));
        let mut known = Vec::new();
        let mut args = self.args.iter();
        while let Some(arg) = args.next() {
            if drop_own && ONRUSH_ONLY.contains(&arg.as_str()) {
                args.next();
            } else {
                known.push(arg.as_str());
            }
        }
        known
    }
}

fn wait_ready(server: &mut Server) -> Result<(), String> {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if let Some(status) = server.exited() {
            return Err(format!("ended at once: {status}"));
        }
        if let Ok(mut conn) = server.try_connect() {
            let reply = conn.try_call(&crate::argv!["PING"]).unwrap_or_default();
            // A server closes a connection when it no longer lists it.
            conn.half_close();
            let _ = conn.read_to_close();
            if reply.starts_with(b"+PONG") || reply.starts_with(b"-NOAUTH") {
                return Ok(());
            }
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Err("does not answer PING".into())
}

/// Polls `done` until it holds; panics with `what` when it has not held for twenty seconds.
pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A directory of its own, removed when dropped.
pub struct TempDir(pub PathBuf);

impl TempDir {
    /// Creates a fresh directory under the system's temporary directory.
    pub fn new() -> TempDir {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("onrush-test-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a temporary directory");
        TempDir(path)
    }
}

impl Default for TempDir {
    fn default() -> Self {
        TempDir::new()
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
