//! Random sequences against the oracles, half of them against each. Most seeds are always the same, so that a
//! change is judged by what it changes; the others are fresh.

use onrush_tests::amount::seeds;
use onrush_tests::diff::{Action, Mode, Runner, Sequence, Step};
use onrush_tests::families::{self, FAMILIES, Family, Generator};
use onrush_tests::rng::Rng;
use onrush_tests::server::Oracle;

const COMMANDS_PER_SEQUENCE: usize = 60;

/// Onrush gathers the keys of 32 commands for a client with BCAST, and redis-server those of a whole pipeline.
const TRACKING_COMMANDS: usize = 30;

fn random_sequences(family: &Family) {
    let mut pairs = Oracle::ALL.map(|_| None);
    let len = if family.name == families::TRACKING.name { TRACKING_COMMANDS } else { COMMANDS_PER_SEQUENCE };
    for seed in seeds(240) {
        let oracle = family.oracle(seed);
        let (runner, generator) = pairs[oracle as usize]
            .get_or_insert_with(|| (Runner::for_family(family, oracle), Generator::new(family, oracle)));
        let mut rng = Rng::new(seed);
        let (protocol, mode) = family.travel(seed);
        let sequence = generator.sequence(&mut rng, protocol, len);
        let name = format!("{} ONRUSH_TEST_SEED={seed}", family.name);
        // On a busy machine a command may take as long as a slow one; not twice the same.
        let tries = if family.name == families::TIMING.name { 3 } else { 1 };
        let mut checks = (0..tries).map(|_| runner.check(&name, &sequence, mode));
        if !checks.any(|checked| checked.inspect_err(|difference| eprintln!("{difference}")).is_ok()) {
            panic!("{name} differs");
        }
    }
}

#[test]
fn strings_reply_as_the_oracle_does() {
    random_sequences(&families::STRINGS);
}

#[test]
fn counters_reply_as_the_oracle_does() {
    random_sequences(&families::COUNTERS);
}

#[test]
fn keys_reply_as_the_oracle_does() {
    random_sequences(&families::KEYS);
}

#[test]
fn expiry_replies_as_the_oracle_does() {
    random_sequences(&families::EXPIRY);
}

#[test]
fn connection_commands_reply_as_the_oracle_does() {
    random_sequences(&families::CONNECTION);
}

#[test]
fn pubsub_replies_and_messages_are_the_oracles() {
    random_sequences(&families::PUBSUB);
}

#[test]
fn tracking_replies_and_messages_are_the_oracles() {
    random_sequences(&families::TRACKING);
}

#[test]
fn authentication_replies_as_the_oracle_does() {
    random_sequences(&families::AUTH);
}

#[test]
fn server_commands_reply_as_the_oracle_does() {
    random_sequences(&families::SERVER);
}

#[test]
fn probes_reply_as_the_oracle_does() {
    random_sequences(&families::PROBES);
}

#[test]
fn what_shows_the_time_replies_as_the_oracle_does() {
    random_sequences(&families::TIMING);
}

#[test]
fn lists_reply_as_the_oracle_does() {
    random_sequences(&families::LISTS);
}

#[test]
fn hashes_reply_as_the_oracle_does() {
    random_sequences(&families::HASHES);
}

#[test]
fn sets_reply_as_the_oracle_does() {
    random_sequences(&families::SETS);
}

#[test]
fn sorted_sets_reply_as_the_oracle_does() {
    random_sequences(&families::SORTED_SETS);
}

#[test]
fn lexical_ranges_reply_as_the_oracle_does() {
    random_sequences(&families::LEX);
}

#[test]
fn streams_reply_as_the_oracle_does() {
    random_sequences(&families::STREAMS);
}

#[test]
fn bits_reply_as_the_oracle_does() {
    random_sequences(&families::BITS);
}

#[test]
fn hyperloglog_reply_as_the_oracle_does() {
    random_sequences(&families::HYPERLOGLOG);
}

#[test]
fn geo_reply_as_the_oracle_does() {
    random_sequences(&families::GEO);
}

#[test]
fn sort_reply_as_the_oracle_does() {
    random_sequences(&families::SORT);
}

#[test]
fn transactions_reply_as_the_oracle_does() {
    random_sequences(&families::TRANSACTIONS);
}

#[test]
fn scripts_reply_as_the_oracle_does() {
    random_sequences(&families::SCRIPTS);
}

#[test]
fn any_number_of_arguments_replies_as_the_oracle_does() {
    let mut failures = Vec::new();
    for family in FAMILIES {
        let mut runner = Runner::for_family(family, Oracle::Newer);
        for argv in families::arity_sweep(family) {
            let name = format!("arity of {argv}");
            let steps = vec![Step { conn: 0, action: Action::Call { argv, expect: None } }];
            failures.extend(runner.check(&name, &Sequence { protocol: 2, steps }, Mode::Single).err());
        }
    }
    assert!(failures.is_empty(), "{} differences:\n\n{}", failures.len(), failures.join("\n"));
}
