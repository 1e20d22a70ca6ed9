//! The soak: hours of every kind of work at a bounded rate, and a look at what grows.
//!
//! One server with an append-only file, snapshots, a limit of memory that is always reached, TLS beside plain text.
//! [`clients`] send random commands of all families, fill the memory, wait, listen, track, and vanish in the middle of
//! something; an operator asks for rewrites, snapshots and new certificates. What must hold: each command has its
//! reply and no connection is lost that did not vanish; resident memory stays the same over the last half
//! ([`samples`]); the log has no warning; the state at the end is what the append-only file makes of an empty
//! server ([`mod@end`]).

pub mod clients;
pub mod end;
pub mod link;
pub mod samples;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::argv;
use crate::certificates::certificates;
use crate::client::Conn;
use crate::port::Port;
use crate::rng::Rng;
use crate::server::{Launch, Server, TempDir};
use link::Doors;
use samples::Samples;

/// How the server is started, beside its ports and certificates.
const ARGS: &[&str] = &[
    "--appendonly",
    "yes",
    "--auto-aof-rewrite-min-size",
    "64mb",
    "--maxmemory",
    "192mb",
    "--maxmemory-policy",
    "allkeys-lru",
    "--maxmemory-clients",
    "64mb",
    // A reply of more than all clients may hold would end its client.
    "--proto-max-bulk-len",
    "4mb",
    "--enable-debug-command",
    "local",
];

/// Between two samples.
const SAMPLE_EVERY: Duration = Duration::from_secs(10);

/// Between two things that the operator does.
const OPERATE_EVERY: Duration = Duration::from_secs(20);

/// What a soak is told.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long it takes.
    pub duration: Duration,
    /// All random choices follow from it.
    pub seed: u64,
    /// How many clients.
    pub clients: usize,
    /// How long each client rests between two steps.
    pub pause: Duration,
    /// No lines of progress.
    pub is_quiet: bool,
}

/// What a soak has seen.
#[derive(Debug, Default)]
pub struct Report {
    /// Commands by kind of client.
    pub commands: BTreeMap<&'static str, u64>,
    /// What is wrong, each once, and how often.
    pub faults: BTreeMap<String, u64>,
    /// The server over time.
    pub samples: Samples,
    /// Rewrites and snapshots that the operator asked for.
    pub operations: u64,
    /// What the end was compared on.
    pub end: String,
}

impl Report {
    fn fault(&mut self, text: String) {
        *self.faults.entry(text).or_default() += 1;
    }
}

/// Runs it.
pub fn run(options: &Options) -> Report {
    let (folder, tls_port) = (TempDir::new(), Port::choose());
    certificates(&folder.0);
    let file = |name: &str| folder.0.join(name).display().to_string();
    let (port, cert, key, ca) = (tls_port.number().to_string(), file("server.crt"), file("server.key"), file("ca.crt"));
    let tls = ["--tls-port", &port, "--tls-cert-file", &cert, "--tls-key-file", &key, "--tls-ca-cert-file", &ca];
    let launch = Launch::onrush().args(ARGS).args(&tls).args(&["--tls-auth-clients", "no", "--save", "600 1"]);
    let mut server = launch.start();
    let doors = Doors::new(server.port(), tls_port.number(), &folder.0);
    let (report, is_over) = (Mutex::new(Report::default()), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let mut rng = Rng::new(options.seed);
        for number in 0..options.clients {
            let (kind, mut step) = clients::client(&doors, number, Rng::new(rng.next_u64()));
            let (report, is_over) = (&report, &is_over);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    match step() {
                        Ok(commands) => *report.lock().commands.entry(kind).or_default() += commands,
                        Err(fault) => {
                            report.lock().fault(format!("{kind}: {fault}"));
                            std::thread::sleep(Duration::from_secs(1));
                        }
                    }
                    std::thread::sleep(options.pause);
                }
            });
        }
        let samples = watch(options, &server, &report, &cert);
        report.lock().samples = samples;
        is_over.store(true, Ordering::Relaxed);
    });
    let mut report = report.into_inner();
    match end::compare(&server) {
        Ok(text) => report.end = text,
        Err(fault) => report.fault(fault),
    }
    end::warnings(&server.log()).into_iter().for_each(|line| report.fault(format!("log: {line}")));
    if server.exited().is_some() {
        report.fault("the server has ended".into());
    }
    report
}

/// Takes samples and operates until the time is over.
fn watch(options: &Options, server: &Server, report: &Mutex<Report>, cert: &str) -> Samples {
    let (began, mut operator, mut samples) = (Instant::now(), server.connect(), Samples::default());
    let (mut next_sample, mut next_operation) = (SAMPLE_EVERY, OPERATE_EVERY);
    while began.elapsed() < options.duration {
        std::thread::sleep(Duration::from_millis(100));
        if began.elapsed() >= next_sample {
            next_sample += SAMPLE_EVERY;
            let sample = samples.take(began.elapsed(), server, &mut operator).to_string();
            if !options.is_quiet && samples.len().is_multiple_of(6) {
                let report = report.lock();
                let commands: u64 = report.commands.values().sum();
                println!("{sample}, {commands} commands, {} faults", report.faults.len());
            }
        }
        if began.elapsed() >= next_operation {
            next_operation += OPERATE_EVERY;
            let number = report.lock().operations;
            let told = operate(&mut operator, number, cert);
            let mut report = report.lock();
            report.operations += 1;
            told.into_iter().for_each(|fault| report.fault(fault));
        }
    }
    samples
}

/// One thing that an operator does; what is wrong with it.
fn operate(operator: &mut Conn, number: u64, cert: &str) -> Option<String> {
    let command = match number % 8 {
        0 => argv!["BGREWRITEAOF"],
        1 | 5 => argv!["CONFIG", "SET", "tls-cert-file", cert],
        2 => argv!["BGSAVE"],
        3 => argv!["INFO", "everything"],
        4 => argv!["CLIENT", "LIST"],
        6 => argv!["FUNCTION", "LOAD", "REPLACE", "#!lua name=soak\nredis.register_function('soak', function() end)"],
        _ => argv!["SCRIPT", "FLUSH"],
    };
    let reply = operator.call(&command);
    // One that was due by itself may be under way.
    let is_told = reply.is_error() && !reply.text().to_lowercase().contains("in progress");
    is_told.then(|| format!("{command}: {reply}"))
}
