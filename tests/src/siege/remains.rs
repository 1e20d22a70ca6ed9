//! Checks what is left after a siege: memory, descriptors, clients that the server should have forgotten; and whether
//! the server ends on SIGTERM.

use std::time::{Duration, Instant};

use super::options::Bounds;
use super::report::Checked;
use super::scene::Scene;
use super::talk::Talk;
use crate::argv;
use crate::process;
use crate::resp::Value;
use crate::server::Server;

/// How long the server may take to clean up after vanished clients and flushed data.
const CLEARING_MAX: Duration = Duration::from_secs(15);

/// What a server holds while it has one client and no data.
#[derive(Clone, Copy, Debug)]
pub struct Remains {
    used: u64,
    rss: u64,
    files: usize,
}

impl Remains {
    /// What the server holds now.
    ///
    /// # Errors
    /// INFO does not say.
    pub fn of(control: &mut Talk<'_, '_>, pid: u32) -> Checked<Remains> {
        let used = control.info("memory", "used_memory")? as u64;
        Ok(Remains { used, rss: process::rss_kb(pid) << 10, files: process::open_files(pid) })
    }

    /// Waits until the server holds little more than it did when it was fresh.
    ///
    /// # Errors
    /// It still holds more after a while.
    pub fn compare(&self, control: &mut Talk<'_, '_>, pid: u32, bounds: &Bounds) -> Checked<()> {
        let started = Instant::now();
        loop {
            let now = Remains::of(control, pid)?;
            let (used, rss) = (now.used.saturating_sub(self.used), now.rss.saturating_sub(self.rss));
            let excess = [
                ("used_memory", used > bounds.left_used_bytes_max),
                ("resident memory", rss > bounds.left_rss_bytes_max),
                ("descriptors", now.files > self.files),
                ("keys", control.linger(&argv!["DBSIZE"])? != Value::Int(0)),
            ];
            let took = started.elapsed();
            if let Some((what, _)) = excess.iter().find(|(_, is_left)| *is_left) {
                let in_time = took < CLEARING_MAX;
                let wanted = || format!("{what} as it was before the siege");
                control.check(in_time, wanted, || format!("{now:?} after {took:.1?}, before: {self:?}"))?;
                std::thread::sleep(Duration::from_millis(50));
                continue;
            }
            control.report().note(format!(
                "left after {took:.1?}: used_memory +{} KB, resident +{} KB, {} descriptors",
                used >> 10,
                rss >> 10,
                now.files
            ));
            return Ok(());
        }
    }
}

/// Waits until the server has no client but this one, and nobody waits for keys.
///
/// # Errors
/// There are still some after a while.
pub fn all_gone(control: &mut Talk<'_, '_>) -> Checked<()> {
    let deadline = Instant::now() + CLEARING_MAX;
    for (name, expected) in [("connected_clients", 1), ("blocked_clients", 0), ("total_blocking_keys", 0)] {
        loop {
            // Older servers do not count keys.
            let found = match control.info("clients", name) {
                Err(_) if name == "total_blocking_keys" => expected,
                found => found?,
            };
            if found == expected {
                break;
            }
            let list = if Instant::now() < deadline {
                String::new()
            } else {
                control.linger(&argv!["CLIENT", "LIST"])?.text()
            };
            let shown: String = list.lines().take(5).map(|line| format!("\n{line}")).collect();
            let wanted = || format!("{name}:{expected} when all have left");
            control.check(Instant::now() < deadline, wanted, || format!("{found}{shown}"))?;
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    Ok(())
}

/// Ends the server with SIGTERM while clients wait for keys and for their replies.
///
/// # Errors
/// It takes too long, or does not end in order.
pub fn shutdown(scene: &Scene<'_>, server: &mut Server, bounds: &Bounds) -> Checked<()> {
    const SCENARIO: &str = "shutdown";
    let mut control = Talk::open(scene, SCENARIO)?;
    control.call(&argv!["SET", "big", vec![b'v'; 100_000]])?;
    let mut band = Vec::new();
    let mut gets = Vec::new();
    argv!["GET", "big"].encode(&mut gets);
    for i in 0..60 {
        let mut talk = Talk::open(scene, SCENARIO)?;
        let sent = if i % 6 == 0 {
            talk.conn().send(&gets.repeat(300))
        } else {
            talk.conn().send_command(&argv!["BLPOP", "none", format!("none:{i}"), "0"])
        };
        talk.check(sent.is_ok(), || "a command is taken".into(), || format!("{sent:?}"))?;
        band.push(talk);
    }
    let started = Instant::now();
    server.signal("TERM");
    let mut status = None;
    while status.is_none() && started.elapsed() < CLEARING_MAX {
        status = server.exited();
        std::thread::sleep(Duration::from_millis(2));
    }
    let took = started.elapsed();
    let in_order = status.is_some_and(|status| status.code() == Some(0));
    control.check(in_order, || "exit code 0 after SIGTERM".into(), || format!("{status:?} after {took:?}"))?;
    let wanted = || format!("an end within {:?} of SIGTERM", bounds.shutdown_max);
    control.check(took <= bounds.shutdown_max, wanted, || format!("{took:?}"))?;
    scene.report.note(format!("ended {took:.1?} after SIGTERM"));
    Ok(())
}
