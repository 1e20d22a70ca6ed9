//! What the threads of a round share, and the connection of its clients.

use std::io::ErrorKind;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use super::options::{Bounds, Plant};
use super::report::{Finding, Report, lock};
use super::settings::Settings;
use crate::argv::Argv;
use crate::client::Conn;
use crate::process;
use crate::resp::Value;

/// How long clients sleep between looks at what they wait for.
const LOOK: Duration = Duration::from_millis(5);

/// The most by which bounds of time grow on a machine that does much else: no fault is waited out.
const SLOWDOWN_MAX: f64 = 8.0;

/// What the threads of a round share.
pub struct Scene<'r> {
    /// Where clients connect.
    pub port: u16,
    /// How the server is set up.
    pub settings: Settings,
    /// How long things may take.
    pub bounds: Bounds,
    /// Where findings go.
    pub report: &'r Report,
    /// The seed of the round.
    pub seed: u64,
    /// The process.
    pub pid: AtomicU32,
    /// Goes up with each start of the server.
    pub life: AtomicU64,
    /// Whether the server runs and has loaded its data.
    pub up: AtomicBool,
    /// Whether clients come to rest.
    pub pause: AtomicBool,
    /// Whether the round is over.
    pub over: AtomicBool,
    /// Whether the server was found frozen or dead, so that the round cannot go on.
    pub lost: AtomicBool,
    /// Whether directives are at their ends, so that connections may be closed at any time.
    pub rough: AtomicBool,
    /// Clients that are at work.
    pub busy: AtomicUsize,
    /// How much later than it wanted the thread of [`Scene::pace`] has run.
    late_us: AtomicU64,
    act: Mutex<String>,
    extra_reply: AtomicBool,
}

/// What a machine has done besides: how long the server's threads have run, how long they have waited for a processor,
/// and how late others came that wanted one.
#[derive(Clone, Copy, Default)]
pub struct Load {
    ran: Duration,
    waited: Duration,
    late: Duration,
}

impl Load {
    /// As if the server had just started now.
    pub fn at_start(self) -> Load {
        Load { late: self.late, ..Load::default() }
    }
}

impl<'r> Scene<'r> {
    /// The beginning of a round; no server runs.
    pub fn new(port: u16, settings: Settings, bounds: Bounds, report: &'r Report, seed: u64) -> Scene<'r> {
        let off = || AtomicBool::new(false);
        Scene {
            port,
            settings,
            bounds,
            report,
            seed,
            pid: AtomicU32::new(0),
            life: AtomicU64::new(0),
            up: off(),
            pause: off(),
            over: off(),
            lost: off(),
            rough: off(),
            busy: AtomicUsize::new(0),
            late_us: AtomicU64::new(0),
            act: Mutex::default(),
            extra_reply: off(),
        }
    }

    /// Makes clients see a fault that the server does not have.
    pub fn plant(&self, plant: Option<Plant>) {
        self.extra_reply.store(plant == Some(Plant::ExtraReply), SeqCst);
    }

    /// Says what goes on from now on.
    pub fn enter(&self, act: &str) {
        act.clone_into(&mut lock(&self.act));
    }

    /// What goes on.
    pub fn act(&self) -> String {
        lock(&self.act).clone()
    }

    /// Takes in a finding.
    pub fn fail(&self, expected: &'static str, got: impl Into<String>) {
        let round = format!("--seed {} --rounds 1: {}", self.seed, self.settings.line());
        self.report.fail(expected, Finding { round, act: self.act(), got: got.into() });
    }

    /// Takes in a finding after which the round cannot go on.
    pub fn lose(&self, expected: &'static str, got: impl Into<String>) {
        if !self.lost.swap(true, SeqCst) {
            self.fail(expected, got);
        }
    }

    /// Whether the server of this life is still there for its clients.
    pub fn is_in(&self, life: u64) -> bool {
        self.up.load(SeqCst) && self.life.load(SeqCst) == life && !self.over.load(SeqCst)
    }

    /// Waits until clients may work; returns whether they shall, or the round is over.
    pub fn may_work(&self) -> bool {
        while !self.over.load(SeqCst) {
            if self.up.load(SeqCst) && !self.pause.load(SeqCst) {
                return true;
            }
            std::thread::sleep(LOOK);
        }
        false
    }

    /// What the machine does besides, up to now.
    pub fn load(&self) -> Load {
        let (ran, waited) = process::run_and_wait(self.pid.load(SeqCst));
        Load { ran, waited, late: Duration::from_micros(self.late_us.load(SeqCst)) }
    }

    /// A bound of time on a machine that does other things since `before`, too.
    pub fn stretched(&self, bound: Duration, before: Load) -> Duration {
        let now = self.load();
        let late = now.late.saturating_sub(before.late) * 4;
        (bound.mul_f64(slowdown((before.ran, before.waited), (now.ran, now.waited))) + late)
            .min(bound.mul_f64(SLOWDOWN_MAX))
    }

    /// Measures how late a thread comes that wants to run every few milliseconds, until the round is over: threads that
    /// get no processor at all do not report it.
    pub fn pace(&self) {
        while !self.over.load(SeqCst) {
            let began = Instant::now();
            std::thread::sleep(LOOK);
            let late = began.elapsed().saturating_sub(2 * LOOK);
            self.late_us.fetch_add(late.as_micros() as u64, SeqCst);
        }
    }
}

/// How many times as long as alone on the machine a process takes between two looks at how long its threads have run and
/// have waited for a processor; at most [`SLOWDOWN_MAX`], since the times of threads that have ended are missing.
pub fn slowdown(before: (Duration, Duration), now: (Duration, Duration)) -> f64 {
    let ran = now.0.saturating_sub(before.0).as_secs_f64();
    let waited = now.1.saturating_sub(before.1).as_secs_f64();
    if ran > 0.01 { ((ran + waited) / ran).min(SLOWDOWN_MAX) } else { 1.0 }
}

/// A connection of a client of a round. It ends with the life of its server.
pub struct Talk<'s, 'r> {
    scene: &'s Scene<'r>,
    conn: Conn,
    life: u64,
}

impl<'s, 'r> Talk<'s, 'r> {
    /// Connects; waits for a server that is up. `None`: the round is over.
    pub fn open(scene: &'s Scene<'r>) -> Option<Talk<'s, 'r>> {
        while scene.may_work() {
            let life = scene.life.load(SeqCst);
            match Conn::tcp(scene.port) {
                Ok(mut conn) => {
                    conn.set_timeout(Duration::from_millis(50));
                    conn.set_write_timeout(Duration::from_millis(50));
                    return Some(Talk { scene, conn, life });
                }
                Err(_) => std::thread::sleep(LOOK),
            }
        }
        None
    }

    /// Sends commands with one write and reads their replies: fewer than that if the connection ends. They are waited
    /// for as long as the server lives.
    pub fn exchange(&mut self, commands: &[Argv]) -> Vec<Value> {
        let mut bytes = Vec::new();
        commands.iter().for_each(|command| command.encode(&mut bytes));
        let mut values = Vec::new();
        let mut rest = &bytes[..];
        while values.len() < commands.len() {
            if !rest.is_empty() {
                match self.conn.send_some(rest) {
                    Ok(len) => rest = &rest[len..],
                    Err(error) if is_timeout(&error) => {}
                    Err(_) => break,
                }
                if !rest.is_empty() && !self.goes_on() {
                    break;
                }
                continue;
            }
            match self.receive() {
                Some(value) => values.push(value),
                None => break,
            }
        }
        if values.len() > 4 && self.scene.extra_reply.load(SeqCst) {
            values.insert(0, Value::Status(b"OK".to_vec()));
            values.pop();
        }
        values
    }

    /// The next reply or message; `None` when the connection has ended.
    pub fn receive(&mut self) -> Option<Value> {
        loop {
            match self.conn.read_reply() {
                Ok(raw) => return Value::parse(&raw).ok(),
                Err(error) if is_timeout(&error) && self.goes_on() => {}
                Err(error) => {
                    if error.kind() == ErrorKind::InvalidData {
                        self.scene.fail("replies are RESP", error.to_string());
                    }
                    return None;
                }
            }
        }
    }

    /// The next message if it comes within the time of a look.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn look(&mut self) -> std::io::Result<Option<Value>> {
        match self.conn.read_reply() {
            Ok(raw) => Value::parse(&raw).map(Some).map_err(std::io::Error::other),
            Err(error) if is_timeout(&error) && self.goes_on() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Lines that have come, unread; none when none comes in time.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn drop_lines(&mut self) -> std::io::Result<usize> {
        match self.conn.drop_lines() {
            Err(error) if is_timeout(&error) && self.goes_on() => Ok(0),
            lines => lines,
        }
    }

    fn goes_on(&self) -> bool {
        self.scene.is_in(self.life) && !self.scene.lost.load(SeqCst)
    }

    /// The raw connection.
    pub fn conn(&mut self) -> &mut Conn {
        &mut self.conn
    }
}

fn is_timeout(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// The replies of a fresh connection to commands sent at once, or why there are none. `time` is for all of it.
///
/// # Errors
/// Text that tells what failed.
pub fn ask_all(port: u16, commands: &[Argv], time: Duration) -> Result<Vec<Value>, String> {
    let began = Instant::now();
    ask_until(port, commands, || began.elapsed() >= time)
}

/// As [`ask_all`], until it is late.
///
/// # Errors
/// Text that tells what failed.
pub fn ask_until(port: u16, commands: &[Argv], is_late: impl Fn() -> bool) -> Result<Vec<Value>, String> {
    let began = Instant::now();
    let mut conn = Conn::tcp(port).map_err(|error| format!("no connection: {error}"))?;
    conn.set_timeout(Duration::from_millis(20));
    let mut bytes = Vec::new();
    commands.iter().for_each(|command| command.encode(&mut bytes));
    conn.send(&bytes).map_err(|error| format!("cannot send: {error}"))?;
    let mut values = Vec::new();
    while values.len() < commands.len() {
        match conn.read_reply() {
            Ok(raw) => values.push(Value::parse(&raw)?),
            Err(error) if is_timeout(&error) && !is_late() => {}
            Err(error) if is_timeout(&error) => return Err(format!("no reply within {:.1?}", began.elapsed())),
            Err(error) => return Err(format!("the connection ends: {error}")),
        }
    }
    Ok(values)
}

/// As [`ask_all`], for one command.
///
/// # Errors
/// Text that tells what failed.
pub fn ask(port: u16, command: &Argv, time: Duration) -> Result<Value, String> {
    ask_all(port, std::slice::from_ref(command), time).map(|mut values| values.remove(0))
}
