//! Ten seconds of siege; see `onrush_tests::siege`. `make siege ARGS="--seconds 3600"` takes longer.

use std::time::Duration;

use onrush_tests::siege;
use onrush_tests::siege::options::Options;

#[test]
fn hostile_clients_harm_nobody_and_leave_nothing_behind() {
    let options = Options::new(Duration::from_secs(10));
    let report = siege::run(&options);
    println!("{report}");
    assert!(report.is_clean(), "ONRUSH_SIEGE_SEED={}\n{report}", options.seed);
}
