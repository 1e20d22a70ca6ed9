//! What the kernel reports about a process: CPU time, memory, open files; and signals to it.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

/// CPU time the process (all its threads) has used so far, in user and kernel mode; resolution is 10 ms.
pub fn cpu_time(pid: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The second field is the name in parentheses and may hold blanks itself.
    let after_name = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let fields: Vec<&str> = after_name.split(' ').collect();
    let ticks = |index: usize| fields.get(index).and_then(|f| f.parse::<u64>().ok()).unwrap_or(0);
    Duration::from_millis((ticks(11) + ticks(12)) * 10)
}

/// How long the threads of the process have run, and how long they were ready to run but had no processor, as of the
/// last time each stopped running; zeros if the system does not report it.
pub fn run_and_wait(pid: u32) -> (Duration, Duration) {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let mut sums = [0, 0];
    for thread in threads {
        let text = fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
        let fields = text.split_whitespace().map(|field| field.parse().unwrap_or(0u64));
        sums.iter_mut().zip(fields).for_each(|(sum, nanos)| *sum += nanos);
    }
    (Duration::from_nanos(sums[0]), Duration::from_nanos(sums[1]))
}

/// CPU time of all living threads in nanoseconds, as of the last time each stopped running.
pub fn exact_cpu_time(pid: u32) -> Duration {
    run_and_wait(pid).0
}

/// Whether one of the threads is running or wants to.
pub fn runs(pid: u32) -> bool {
    let is_running = |task: fs::DirEntry| {
        let stat = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('R'))
    };
    fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten().any(is_running)
}

/// Resident memory in kilobytes; 0 when the process is gone.
pub fn rss_kb(pid: u32) -> u64 {
    status_kb(pid, "VmRSS:")
}

/// Resident memory that is no file's, in kilobytes; 0 when the process is gone.
pub fn anonymous_kb(pid: u32) -> u64 {
    status_kb(pid, "RssAnon:")
}

/// The most memory that was ever resident, in kilobytes; 0 when the process is gone.
pub fn peak_rss_kb(pid: u32) -> u64 {
    status_kb(pid, "VmHWM:")
}

fn status_kb(pid: u32, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix(field));
    line.and_then(|l| l.split_whitespace().next()).and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// Number of open file descriptors.
pub fn open_files(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

/// Whether a process of that id runs; a zombie does not.
pub fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// Sends a signal by name (`TERM`, `INT`, `HUP`, `KILL`, `STOP` …) to one process. Behind `STOP` no thread of it runs.
pub fn signal(pid: u32, name: &str) {
    let script = format!("kill -s {name} {pid}");
    let status = Command::new("sh").args(["-c", &script]).status().expect("sh runs");
    assert!(status.success(), "cannot send {name} to process {pid}");
    if name == "STOP" {
        // A thread that runs on another core stops a moment later.
        let until = Instant::now() + Duration::from_secs(10);
        while !has_stopped(pid) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Whether no thread of a process runs.
fn has_stopped(pid: u32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return true };
    threads.flatten().all(|thread| {
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['T', 'Z', 'X']))
    })
}
