//! The chaos run: the real process, faults drawn by a seed, and what must hold all the time.
//!
//! A *round* has a seed of its own. It draws settings, starts the server on a fresh folder, and lets clients
//! ([`clients`]) work all the time: counters, transfers, queues, messages, random commands of all families. Beside them
//! the *judge* ([`mod@judge`]) connects again and again and wants its reply in time. Meanwhile one fault after the other
//! ([`acts`]) happens: scripts without end in every wrapping, a disk that is full, fails or is slow, directives at their
//! ends, huge keys and values, clients that die. Then the process ends in some way ([`ends`]) and starts again, and what
//! was acknowledged must be there.
//!
//! The four rules that this holds the server to: a worker never waits without a bound (the judge); what the server says is
//! what is (acknowledgements, sums, CONFIG GET, pairing of replies); what it writes it can read (starts, digests); it does
//! not die. Faults of the server that the run makes itself ([`options::Plant`]) prove that each is found.
//!
//! Random choices follow from the seed; the timing of threads, sockets and disks does not.

pub mod acts;
pub mod clients;
pub mod disk;
pub mod ends;
pub mod host;
pub mod judge;
pub mod options;
pub mod report;
pub mod round;
pub mod scene;
pub mod settings;

use std::time::Instant;

use disk::Library;
use options::Options;
use report::Report;
use round::Round;

use crate::rng::Rng;

/// Runs rounds until the time is over; returns what was found.
///
/// # Errors
/// The library in front of the disk cannot be built.
pub fn run(options: &Options) -> Result<Report, String> {
    let (library, report) = (Library::build()?, Report::default());
    let (began, mut seed) = (Instant::now(), options.seed);
    let mut rounds = 0;
    while rounds < options.rounds_max && (rounds == 0 || began.elapsed() < options.duration) {
        Round::play(options, &library, &report, seed);
        rounds += 1;
        report.count("rounds", 1);
        seed = Rng::new(seed).next_u64() >> 16;
    }
    Ok(report)
}

/// The names of all faults, ends and special clients, and of all wrappings.
pub fn names() -> (Vec<&'static str>, Vec<&'static str>) {
    let faults = acts::ALL.iter().map(|act| act.0).chain(ends::ALL.iter().map(|end| end.0));
    let faults = faults.chain([clients::PACKET_DURABILITY]);
    (faults.collect(), acts::scripts::wrappings().collect())
}
