//! Questions to the server beside the load: its settings, and its CPU time if it runs on this machine.

use std::path::PathBuf;
use std::time::Duration;

use crate::cpu;
use crate::error::Error;
use crate::net::listening;
use crate::net::target::Target;
use crate::net::{self, Blocking};
use crate::options::Options;
use crate::report;

/// The settings that are shown with the results.
#[derive(Clone, Debug, Default)]
pub struct HostConfig {
    pub save: String,
    pub appendonly: String,
}

/// Asks for the settings.
///
/// # Errors
/// Why they could not be read.
pub fn host_config(options: &Options, target: &Target) -> Result<HostConfig, Error> {
    let mut stream = net::connect(options, target)?;
    let mut get = |name: &str| -> Result<String, Error> {
        let reply = stream.ask(&net::encode(&["CONFIG", "GET", name]), 1)?;
        // The last of: aggregate, length, name, length, value.
        Ok(String::from_utf8_lossy(&reply).split("\r\n").nth(4).unwrap_or_default().to_owned())
    };
    Ok(HostConfig { save: get("save")?, appendonly: get("appendonly")? })
}

/// What a server says of itself; empty if it says nothing.
pub fn description(options: &Options, target: &Target) -> String {
    let ask = |stream: &mut Blocking| stream.ask(&net::encode(&["INFO", "server"]), 1);
    let info = net::connect(options, target).and_then(|mut stream| ask(&mut stream)).unwrap_or_default();
    report::described(&String::from_utf8_lossy(&info))
}

/// The tasks of a server on this machine.
#[derive(Debug)]
pub struct ServerCpu(PathBuf);

impl ServerCpu {
    /// Finds the process by what INFO says, if the server is on this machine. The number counts only if that process
    /// listens at the target's address: behind a tunnel, or in a container, it is that of another process.
    pub fn of(options: &Options, target: &Target) -> Option<ServerCpu> {
        let is_local = target.socket.is_some() || matches!(target.host.as_str(), "localhost" | "127.0.0.1" | "::1");
        if !is_local {
            return None;
        }
        let mut stream = net::connect(options, target).ok()?;
        let reply = stream.ask(&net::encode(&["INFO", "server"]), 1).ok()?;
        let reply = String::from_utf8_lossy(&reply);
        let id: u32 = reply.lines().find_map(|line| line.strip_prefix("process_id:"))?.trim().parse().ok()?;
        listening::listens(id, target).then(|| ServerCpu(format!("/proc/{id}/task").into()))
    }

    /// CPU time of all its threads so far.
    pub fn now(&self) -> Option<Duration> {
        let tasks = std::fs::read_dir(&self.0).ok()?;
        Some(tasks.flatten().filter_map(|task| cpu::of(task.path().join("schedstat"))).sum())
    }
}
