//! Fail-overs by the Sentinels of others. `make failovers ARGS="--rounds 200"` takes longer.

use onrush_tests::failovers::group::Kind;
use onrush_tests::failovers::node::Login;
use onrush_tests::failovers::{Fault, Options, run};
use onrush_tests::server::{Oracle, onrush_bin, skips_on_stand_in};

/// Plays a round of each of the faults; returns how many acknowledged writes are lost.
fn play(servers: [Kind; 3], (sentinels, encrypted): (Oracle, bool), replicas: u32, faults: &[Fault]) -> usize {
    let lost = faults.iter().map(|fault| {
        let options = Options {
            rounds: 1,
            seed: 1,
            replicas,
            servers,
            sentinels,
            login: Login::User,
            encrypted,
            network: false,
            faults: vec![*fault],
            directives: Vec::new(),
            progress: false,
            onrush_bin: onrush_bin(),
        };
        run(&options).unwrap_or_else(|why| panic!("{why}")).lost()
    });
    lost.sum()
}

#[test]
fn a_killed_primary_is_replaced_and_nothing_acknowledged_is_lost() {
    if skips_on_stand_in() {
        return;
    }
    assert_eq!(play([Kind::Onrush; 3], (Oracle::Older, true), 2, &[Fault::Kill]), 0);
}

#[test]
fn groups_with_redis_are_failed_over_by_request() {
    if skips_on_stand_in() {
        return;
    }
    let mixed = [Kind::Onrush, Kind::Other(Oracle::Older), Kind::Onrush];
    play(mixed, (Oracle::Newer, false), 0, &[Fault::Planned]);
}
