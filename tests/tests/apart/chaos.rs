//! A quarter of a minute of chaos, and faults of a server that the run itself makes and has to find; see
//! `onrush_tests::chaos`. `make chaos ARGS="--seconds 600"` takes longer.

use std::time::Duration;

use onrush_tests::chaos;
use onrush_tests::chaos::options::{Bounds, Options, Plant};
use onrush_tests::chaos::report::Report;

#[test]
fn faults_of_all_kinds_harm_nobody_and_nothing() {
    let mut options = Options::new(Duration::from_secs(15));
    options.acts = 3;
    println!("seed {}", options.seed);
    let report = chaos::run(&options).expect("a C compiler");
    println!("{report}");
    assert!(report.is_clean(), "ONRUSH_CHAOS_SEED={}\n{report}", options.seed);
}

/// A round with a planted fault, under a log that is synced before each reply.
fn planted(plant: Option<Plant>, faults: &[&str]) -> Report {
    let mut options = Options::new(Duration::ZERO);
    (options.acts, options.plant) = (1, plant);
    options.faults = faults.iter().map(|name| name.to_string()).collect();
    let settings = [("appendonly", "yes"), ("appendfsync", "always"), ("maxmemory", "0"), ("save", "")];
    options.settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let (answer_max, end_max) = (Duration::from_millis(500), Duration::from_secs(2));
    if plant.is_some() {
        options.bounds = Bounds { answer_max, end_max, ..options.bounds };
    }
    chaos::run(&options).expect("a C compiler")
}

#[track_caller]
fn is_found(plant: Plant, faults: &[&str], expected: &[&str]) {
    let report = planted(Some(plant), faults);
    let broken = report.broken();
    assert!(broken.iter().any(|kind| expected.contains(kind)), "{plant:?} is not found:\n{report}");
}

#[test]
fn a_server_without_a_fault_is_not_blamed() {
    let report = planted(None, &["rest", "kill-at-rest", "term"]);
    assert!(report.is_clean(), "{report}");
    let counts = ["acknowledged INCRs", "sums checked", "replies paired", "random commands", "questions of the judge"];
    for deed in counts {
        assert!(report.counted(deed) > 0, "{deed}");
    }
}

#[test]
#[ignore = "nightly: tests this test"]
fn whoever_waits_without_a_bound_is_found() {
    let expected = [
        "a new connection gets PONG, or an error that says why not, in time",
        "a new connection gets INFO in time",
        "a new connection that does not wait for the disk reads in time",
    ];
    is_found(Plant::Stall, &["rest", "kill"], &expected);
    is_found(Plant::Stopped, &["rest", "term"], &["SIGTERM ends the server"]);
}

#[test]
#[ignore = "nightly: tests this test"]
fn whoever_says_what_is_not_is_found() {
    is_found(Plant::FalseOk, &["config-ends", "kill"], &["CONFIG GET tells what CONFIG SET has set"]);
    is_found(Plant::LostWrite, &["rest", "kill-at-rest"], &["acknowledged writes are there after a start"]);
    is_found(Plant::LostHalf, &["rest", "kill-at-rest"], &["the sum of all accounts stays"]);
    is_found(Plant::ExtraReply, &["rest", "kill"], &["each reply belongs to its command"]);
}

#[test]
#[ignore = "nightly: tests this test"]
fn whoever_cannot_read_what_it_wrote_is_found() {
    is_found(Plant::CutLog, &["rest", "kill"], &["acknowledged writes are there after a start"]);
    is_found(Plant::DamagedLog, &["rest", "kill"], &["a server starts from what it has written"]);
}

#[test]
#[ignore = "nightly: tests this test"]
fn whoever_dies_is_found() {
    is_found(Plant::Crash, &["rest", "kill"], &["the server lives"]);
}
