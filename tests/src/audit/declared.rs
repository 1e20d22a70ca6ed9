//! The one list of faults that may be there, with the reason, and the list of commands that need no case.

use super::judge::{Fault, Kind};

/// A fault that may be there.
pub struct Declared {
    /// The scenario.
    pub scenario: &'static str,
    /// The line, or `memory`.
    pub what: &'static str,
    /// The kind.
    pub kind: Kind,
    /// Why it may be there.
    pub reason: &'static str,
}

/// All of them.
pub const DECLARED: &[Declared] = &[];

/// Commands whose cost cannot depend on data or on arguments, with the reason.
pub const CONSTANT: &[(&str, &str)] = &[
    ("client|getredir", "answers with a number of the connection"),
    ("client|help", "answers with a fixed text"),
    ("client|reply", "sets a flag of the connection"),
    ("client|trackinginfo", "answers with flags of the connection"),
    ("command|help", "answers with a fixed text"),
    ("config|help", "answers with a fixed text"),
    ("config|rewrite", "writes a file as long as the configuration"),
    ("memory|help", "answers with a fixed text"),
    ("object|help", "answers with a fixed text"),
    ("pfselftest", "tests a fixed amount of data of its own"),
    ("quit", "closes the connection"),
    ("shutdown", "ends the process; tests of its life time it"),
    ("xgroup|help", "answers with a fixed text"),
    ("xinfo|help", "answers with a fixed text"),
];

/// Separates undeclared faults from declared ones with their reasons.
pub fn split(scenario: &str, faults: Vec<Fault>) -> (Vec<Fault>, Vec<(Fault, &'static str)>) {
    let reason = |fault: &Fault| {
        let is_it = |d: &&Declared| d.scenario == scenario && d.what == fault.what && d.kind == fault.kind;
        DECLARED.iter().find(is_it).map(|d| d.reason)
    };
    let (mut undeclared, mut declared) = (Vec::new(), Vec::new());
    for fault in faults {
        match reason(&fault) {
            Some(reason) => declared.push((fault, reason)),
            None => undeclared.push(fault),
        }
    }
    (undeclared, declared)
}
