//! Fail-overs under load while slots move. `make failovers ARGS="--cluster --rounds 200"` takes longer.

use onrush_tests::failovers::cluster::{Fault, Options, run};
use onrush_tests::failovers::group::Kind;
use onrush_tests::server::{onrush_bin, skips_on_stand_in};

#[test]
fn what_was_acknowledged_is_there_in_its_order_after_fail_overs_while_slots_move() {
    if skips_on_stand_in() {
        return;
    }
    for fault in [Fault::Kill, Fault::Stop] {
        let options = Options {
            rounds: 1,
            seed: 1,
            replicas: 1,
            kinds: [Kind::Onrush; 6],
            node_timeout_ms: 1000,
            network: false,
            faults: vec![fault],
            directives: Vec::new(),
            progress: false,
            onrush_bin: onrush_bin(),
        };
        assert_eq!(run(&options).unwrap_or_else(|why| panic!("{why}")).faults(), 0);
    }
}
