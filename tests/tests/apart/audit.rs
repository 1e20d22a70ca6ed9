//! The cost audit: at night at sizes to 100,000, by hand (`--ignored`) to 10,000. `make audit` goes to
//! 1,000,000 and writes a table.

use std::collections::BTreeSet;
use std::time::Duration;

use onrush_tests::audit::declared::{CONSTANT, DECLARED};
use onrush_tests::audit::judge::{Fault, Kind};
use onrush_tests::audit::report;
use onrush_tests::audit::run::{Outcome, Settings, audit, command_names, run};
use onrush_tests::audit::scenarios;
use onrush_tests::audit::script::{Line, Scenario};
use onrush_tests::server::Server;

#[test]
#[ignore = "nightly: takes more than a minute alone"]
fn costs_and_memory_grow_as_with_redis_server() {
    let settings = if std::env::var_os("ONRUSH_TEST_NIGHTLY").is_some() { Settings::LARGE } else { Settings::TEST };
    let outcomes = audit(&scenarios::all(), &settings, |outcome| println!("{}", report::summary(outcome)));
    let bad: Vec<String> = outcomes.iter().filter(|o| is_faulty(o, &settings)).map(report::summary).collect();
    assert!(bad.is_empty(), "{}\nMeasure one alone: cargo run --bin onrush-audit -- --only NAME", bad.join("\n"));
}

/// Whether a fault is found a second time, with new servers: a machine that does something else for a moment is none.
fn is_faulty(outcome: &Outcome, settings: &Settings) -> bool {
    if outcome.faults.is_empty() {
        return false;
    }
    let scenario = scenarios::all().into_iter().find(|scenario| scenario.name == outcome.name);
    let again = run(scenario.expect("it was run"), settings);
    println!("again: {}", report::summary(&again));
    let is_same = |fault: &Fault| again.faults.iter().any(|other| (other.what, other.kind) == (fault.what, fault.kind));
    outcome.faults.iter().any(is_same)
}

#[test]
fn every_command_is_measured_or_has_a_reason_not_to_be() {
    let server = Server::start_onrush(&[]);
    let known = command_names(&mut server.connect());
    let measured = |line: &Line| if line.measured { line.command_names() } else { Vec::new() };
    let lines = scenarios::all().into_iter().flat_map(Scenario::lines);
    let mut covered: BTreeSet<String> = lines.flat_map(|line| measured(&line)).collect();
    for (name, _) in CONSTANT {
        assert!(known.contains(*name), "'{name}' has a reason but is no command");
        assert!(covered.insert(name.to_string()), "'{name}' has a reason but is measured");
    }
    let missing: Vec<&String> = known.difference(&covered).collect();
    assert!(missing.is_empty(), "neither a case nor a reason: {missing:?}");
}

#[test]
fn declared_faults_are_about_lines_that_exist() {
    for declared in DECLARED {
        let scenario = scenarios::all().into_iter().find(|s| s.name == declared.scenario);
        let lines = scenario.map(Scenario::lines).unwrap_or_default();
        assert!(!lines.is_empty(), "no scenario '{}'", declared.scenario);
        for what in declared.lines.iter().filter(|what| **what != "memory") {
            assert!(lines.iter().any(|line| line.text == *what), "no line '{what}' in '{}'", declared.scenario);
        }
        assert!(!declared.reason.is_empty());
    }
}

/// Few sizes, little patience: for scenarios that test the audit itself.
const SHORT: Settings =
    Settings { size_max: 10_000, turns: 1, repeats: 0, patience: Duration::from_millis(500), ..Settings::TEST };

#[test]
fn a_command_that_never_returns_is_told_by_its_line() {
    const HANGS: Scenario = Scenario::new("hangs", "> once PING\n> once BLPOP nothing 0\n> once ECHO x");
    let outcome = run(&HANGS, &SHORT);
    let stopped: Vec<_> = outcome.faults.iter().filter(|f| f.kind == Kind::Stopped).map(|f| f.what).collect();
    assert_eq!(stopped, ["once BLPOP nothing 0"]);
    assert!(outcome.ours.costs.contains_key(&(2, 10_000)), "the lines behind it are measured all the same");
}

#[test]
fn an_error_reply_is_a_fault() {
    const FAILS: Scenario = Scenario::new("fails", "once SET k v\n> once LPUSH k v\n>? once LPUSH k v");
    let outcome = run(&FAILS, &SHORT);
    assert!(outcome.faults.iter().any(|f| f.kind == Kind::Stopped && f.detail.contains("WRONGTYPE")));
    assert!(outcome.faults.iter().all(|f| f.kind == Kind::Stopped), "{}", report::summary(&outcome));
}
