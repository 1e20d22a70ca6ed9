//! A polite client: it waits for its replies, notes how long that took, and remembers what it said last.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use super::report::{Checked, Fault, Report};
use super::scene::Scene;
use super::waits::Waits;
use crate::argv;
use crate::argv::{Argv, quote};
use crate::client::Conn;
use crate::resp::Value;

/// Commands that are remembered for the report of a fault.
const TRAIL_LEN: usize = 10;
/// Batches up to this many commands count as one wait.
const WAIT_BATCH_MAX: usize = 16;
/// Waits after which the report gets them.
const WAITS_KEPT: u64 = 1000;
/// How long any reply may take; a server that needs longer has hung.
const PATIENCE: Duration = Duration::from_secs(15);

struct Step {
    at: Duration,
    took: Duration,
    command: Argv,
    reply: Vec<u8>,
}

/// A polite client.
pub struct Talk<'s, 'r> {
    scene: &'s Scene<'r>,
    scenario: &'static str,
    conn: Conn,
    trail: VecDeque<Step>,
    waits: Waits,
}

impl<'s, 'r> Talk<'s, 'r> {
    /// A new connection. Tries again while the server has as many clients as it takes.
    ///
    /// # Errors
    /// No connection for 15 seconds.
    pub fn open(scene: &'s Scene<'r>, scenario: &'static str) -> Checked<Talk<'s, 'r>> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let refusal = match try_open(scene.port) {
                Ok(conn) => {
                    let (trail, waits) = (VecDeque::with_capacity(TRAIL_LEN), Waits::default());
                    return Ok(Talk { scene, scenario, conn, trail, waits });
                }
                Err(refusal) => refusal,
            };
            if Instant::now() > deadline {
                let expected = "a connection within 15 seconds".to_owned();
                return Err(Fault { scenario, expected, got: refusal.to_string(), trail: Vec::new() });
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Sends a command and waits for its reply; the wait counts.
    ///
    /// # Errors
    /// No reply, or one that is no RESP.
    pub fn call(&mut self, command: &Argv) -> Checked<Value> {
        let started = Instant::now();
        let value = self.linger(command)?;
        let scenario = self.scenario;
        self.note(started.elapsed(), || format!("{scenario}: {command}"));
        Ok(value)
    }

    /// Like [`Talk::call`] for a command that waits for other clients, so that its time does not count.
    ///
    /// # Errors
    /// No reply within 15 seconds, or one that is no RESP.
    pub fn linger(&mut self, command: &Argv) -> Checked<Value> {
        let (at, started) = (self.scene.elapsed(), Instant::now());
        let raw = self.conn.try_call(command);
        self.take(at, started, command, raw)
    }

    /// Like [`Talk::call`], and the reply must be `expected` byte by byte.
    ///
    /// # Errors
    /// Another reply, or none.
    pub fn expect(&mut self, command: &Argv, expected: &Value) -> Checked<()> {
        let got = self.call(command)?;
        let wanted = || format!("{} answers {expected}", command.upper(0));
        self.check(got == *expected, wanted, || format!("{got}, to {command}"))
    }

    /// Sends all commands with one write and reads all replies. The wait counts for short batches.
    ///
    /// # Errors
    /// A reply is missing or no RESP.
    pub fn batch(&mut self, commands: &[Argv]) -> Checked<Vec<Value>> {
        let (at, started) = (self.scene.elapsed(), Instant::now());
        let mut bytes = Vec::new();
        commands.iter().for_each(|command| command.encode(&mut bytes));
        if let Err(error) = self.conn.send(&bytes) {
            return Err(self.fault("a batch is taken".into(), format!("{error} after {:?}", started.elapsed())));
        }
        let mut values = Vec::with_capacity(commands.len());
        for command in commands {
            let raw = self.conn.read_reply();
            values.push(self.take(at, started, command, raw)?);
        }
        if commands.len() <= WAIT_BATCH_MAX {
            let scenario = self.scenario;
            let name = || format!("{scenario}: a batch of {} from {}", commands.len(), commands[0]);
            self.note(started.elapsed(), name);
        }
        Ok(values)
    }

    /// A fault unless `holds`.
    ///
    /// # Errors
    /// `holds` is false.
    pub fn check(&self, holds: bool, expected: impl FnOnce() -> String, got: impl FnOnce() -> String) -> Checked<()> {
        if holds { Ok(()) } else { Err(self.fault(expected(), got())) }
    }

    /// A fault with the last commands.
    pub fn fault(&self, expected: String, got: String) -> Fault {
        let show = |step: &Step| {
            let reply = quote(&step.reply, 100);
            format!("{:8.3}s +{:.1?}  {}  ->  {reply}", step.at.as_secs_f64(), step.took, step.command)
        };
        Fault { scenario: self.scenario, expected, got, trail: self.trail.iter().map(show).collect() }
    }

    /// Where findings go.
    pub fn report(&self) -> &'r Report {
        self.scene.report
    }

    /// The connection below, for what is not a call.
    pub fn conn(&mut self) -> &mut Conn {
        &mut self.conn
    }

    /// The client's id.
    ///
    /// # Errors
    /// No reply, or no number.
    pub fn id(&mut self) -> Checked<i64> {
        match self.call(&argv!["CLIENT", "ID"])? {
            Value::Int(id) => Ok(id),
            other => Err(self.fault("an id".into(), other.to_string())),
        }
    }

    /// The number behind `name:` in INFO.
    ///
    /// # Errors
    /// No reply, or no such line.
    pub fn info(&mut self, section: &str, name: &str) -> Checked<i64> {
        let text = self.linger(&argv!["INFO", section])?.text();
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let number = line.and_then(|number| number.trim().parse().ok());
        number.ok_or_else(|| self.fault(format!("{name} in INFO"), text))
    }

    fn note(&mut self, wait: Duration, what: impl FnOnce() -> String) {
        self.waits.note(wait, what);
        if self.waits.count() == WAITS_KEPT {
            self.scene.report.waited(&std::mem::take(&mut self.waits));
        }
    }

    fn take(&mut self, at: Duration, started: Instant, command: &Argv, raw: io::Result<Vec<u8>>) -> Checked<Value> {
        let raw = match raw {
            Ok(raw) => raw,
            Err(error) => {
                let got = format!("{error} after {:.1?}, to {command}", started.elapsed());
                return Err(self.fault("a reply to a polite client".into(), got));
            }
        };
        if self.trail.len() == TRAIL_LEN {
            self.trail.pop_front();
        }
        let cut = |arg: &Vec<u8>| arg[..arg.len().min(48)].to_vec();
        let command = Argv(command.0.iter().take(12).map(cut).collect());
        let reply = raw[..raw.len().min(160)].to_vec();
        self.trail.push_back(Step { at, took: started.elapsed(), command, reply });
        Value::parse(&raw).map_err(|reason| self.fault("a reply in RESP".into(), reason))
    }
}

impl Drop for Talk<'_, '_> {
    fn drop(&mut self) {
        self.scene.report.waited(&self.waits);
    }
}

fn try_open(port: u16) -> io::Result<Conn> {
    let mut conn = Conn::tcp(port)?;
    conn.set_timeout(PATIENCE);
    conn.set_write_timeout(PATIENCE);
    let reply = conn.try_call(&argv!["PING"])?;
    if reply == b"+PONG\r\n" { Ok(conn) } else { Err(io::Error::other(quote(&reply, 100))) }
}
