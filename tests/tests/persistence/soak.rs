//! Eight seconds of a soak; see `onrush_tests::soak`. `make soak` takes three hours.

use std::time::Duration;

use onrush_tests::amount::first_seed;
use onrush_tests::server::skips_on_stand_in;
use onrush_tests::soak::{self, Options};

#[test]
fn every_kind_of_work_has_its_replies_and_is_in_the_log() {
    if skips_on_stand_in() {
        return;
    }
    let seed = first_seed();
    let (duration, pause) = (Duration::from_secs(8), Duration::from_millis(20));
    let report = soak::run(&Options { duration, seed, clients: 12, pause, is_quiet: true });
    assert!(report.faults.is_empty(), "seed {seed}: {:#?}", report.faults);
    assert_eq!(report.commands.len(), 6, "{:?}", report.commands);
    assert!(report.commands.values().all(|&commands| commands > 10), "{:?}", report.commands);
}
