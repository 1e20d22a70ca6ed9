//! The process under test: it is started again and again on one folder and one port, with a disk that can fail.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::disk::{Disk, Library};
use super::scene::slowdown;
use super::settings::Settings;
use crate::argv;
use crate::client::Conn;
use crate::port::Port;
use crate::process;
use crate::server::TempDir;

/// How long a start may take, with a log of what a round writes.
const START_MAX: Duration = Duration::from_secs(60);

/// A process and what it works on.
pub struct Host {
    /// The disk below its data.
    pub disk: Disk,
    bin: PathBuf,
    port: Port,
    folder: TempDir,
    child: Option<Child>,
    starts: u32,
}

impl Host {
    /// A place for a server; nothing runs.
    ///
    /// # Errors
    /// There is no room for it in the folder for temporary files.
    pub fn new(bin: PathBuf, library: &Library) -> std::io::Result<Host> {
        let folder = TempDir::new();
        fs::create_dir(folder.0.join("data"))?;
        let below = folder.0.canonicalize()?.join("data");
        Ok(Host { disk: Disk::below(library, &below)?, bin, port: Port::choose(), folder, child: None, starts: 0 })
    }

    /// The folder of the data.
    pub fn data(&self) -> PathBuf {
        self.folder.0.canonicalize().expect("the folder is there").join("data")
    }

    /// The server's port.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// The process id; 0 if none runs.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }

    /// Starts the process and waits until it has loaded its data.
    ///
    /// # Errors
    /// It ends or does not answer.
    pub fn start(&mut self, settings: &Settings) -> Result<(), String> {
        self.starts += 1;
        let output = File::create(self.output()).map_err(|error| error.to_string())?;
        let mut command = Command::new(&self.bin);
        command.args(["--port", &self.port.number().to_string(), "--bind", "127.0.0.1"]);
        command.args(["--enable-debug-command", "yes"]).arg("--dir").arg(self.data()).args(settings.args());
        command.current_dir(self.data()).stdin(Stdio::null());
        command.stdout(output.try_clone().expect("a second handle")).stderr(output);
        self.disk.put_before(&mut command);
        self.child = Some(command.spawn().map_err(|error| format!("{}: {error}", self.bin.display()))?);
        let began = Instant::now();
        let time = |pid| START_MAX.mul_f64(slowdown(Default::default(), process::run_and_wait(pid)));
        while began.elapsed() < time(self.pid()) {
            if let Some(status) = self.exited() {
                return Err(format!("it ends at once: {status}\n{}", self.log_tail()));
            }
            if let Ok(mut conn) = Conn::tcp(self.port()) {
                conn.set_timeout(Duration::from_secs(5));
                let is_up = |reply: Vec<u8>| !reply.starts_with(b"-LOADING") && !reply.starts_with(b"-BUSY");
                if conn.try_call(&argv!["PING"]).is_ok_and(is_up) {
                    return Ok(());
                }
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Err(format!("it does not answer PING within {START_MAX:?}\n{}", self.log_tail()))
    }

    /// How the process ended, if it did.
    pub fn exited(&mut self) -> Option<ExitStatus> {
        self.child.as_mut().and_then(|child| child.try_wait().expect("one's own child"))
    }

    /// Sends a signal to the process.
    pub fn signal(&self, name: &str) {
        if self.child.is_some() {
            process::signal(self.pid(), name);
        }
    }

    /// Waits for the end of the process; `None` if it does not come in time.
    pub fn wait_exit(&mut self, time: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + time;
        loop {
            if let Some(status) = self.exited() {
                return Some(status);
            }
            if Instant::now() > deadline {
                return None;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Kills the process, if it runs, and waits for its end.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Removes all data. Nothing may run.
    pub fn wipe(&self) {
        let _ = fs::remove_dir_all(self.data_unchecked());
        fs::create_dir(self.data_unchecked()).expect("one's own folder");
    }

    /// The file that the log was written to last, and what is in it; `None` if there is no log.
    pub fn log_file(&self) -> Option<(PathBuf, Vec<u8>)> {
        let folder = self.data().join("appendonlydir");
        let manifest = fs::read_to_string(folder.join("appendonly.aof.manifest")).ok()?;
        let line = manifest.lines().rfind(|line| line.ends_with("type i"))?;
        let path = folder.join(line.split(' ').nth(1)?);
        let bytes = fs::read(&path).ok()?;
        Some((path, bytes))
    }

    fn data_unchecked(&self) -> PathBuf {
        self.folder.0.join("data")
    }

    fn output(&self) -> PathBuf {
        self.folder.0.join(format!("output-{}", self.starts))
    }

    /// What this start of the server has logged.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.output()).unwrap_or_default()).into_owned()
    }

    /// The end of it.
    pub fn log_tail(&self) -> String {
        let log = self.log();
        let lines: Vec<String> = log.lines().map(|line| line.chars().take(300).collect()).collect();
        lines[lines.len().saturating_sub(10)..].join("\n")
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What each thread of a process does, for findings: name, state, processor time.
pub fn threads(pid: u32) -> String {
    let mut lines = Vec::new();
    for task in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
        let stat = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        let Some((before, after)) = stat.rsplit_once(") ") else { continue };
        let name = before.split_once('(').map_or("", |(_, name)| name);
        let fields: Vec<&str> = after.split(' ').collect();
        let field = |index: usize| fields.get(index).copied().unwrap_or("?");
        let waits_in = fs::read_to_string(task.path().join("wchan")).unwrap_or_default();
        lines.push(format!("{name}: {} {} {waits_in}", field(0), field(11)));
    }
    lines.sort();
    format!("threads (state, ticks, where): {}", lines.join("; "))
}
