//! Rows of the command table: the HyperLogLog commands.

use crate::command::spec::{Group, KeySpec, Spec, flags};

/// The HyperLogLog commands.
pub static SPECS: &[Spec] = &[
    Spec {
        name: "pfadd",
        arity: -2,
        flags: flags("write denyoom fast short"),
        keys: &[KeySpec::key("RW insert")],
        group: Group::Hyperloglog,
        since: "2.8.9",
        complexity: "O(1) for each element",
        summary: "Shows a HyperLogLog elements; it is made if it is not there.",
        syntax: "key [element [element ...]]",
        handler: crate::commands::hyperloglog::pfadd,
        ..Spec::DEFAULT
    },
    Spec {
        name: "pfcount",
        arity: -2,
        flags: flags("readonly may_replicate"),
        keys: &[KeySpec::keys("RW access", 1, -1, 1)],
        group: Group::Hyperloglog,
        since: "2.8.9",
        complexity: "O(1) for one key whose estimate holds, else O(N) for N keys, with a great constant",
        summary: "Estimates how many distinct elements HyperLogLogs were shown.",
        syntax: "key [key ...]",
        handler: crate::commands::hyperloglog::pfcount,
        ..Spec::DEFAULT
    },
    Spec {
        name: "pfmerge",
        arity: -2,
        flags: flags("write denyoom"),
        keys: &[KeySpec::key("RW access insert"), KeySpec::keys("RO access", 2, -1, 1)],
        group: Group::Hyperloglog,
        since: "2.8.9",
        complexity: "O(N) for N keys, with a great constant",
        summary: "Merges HyperLogLogs into one.",
        syntax: "destkey sourcekey [sourcekey ...]",
        handler: crate::commands::hyperloglog::pfmerge,
        ..Spec::DEFAULT
    },
    Spec {
        name: "pfdebug",
        arity: 3,
        flags: flags("write denyoom admin"),
        keys: &[KeySpec::keys("RW access", 2, 0, 1)],
        group: Group::Hyperloglog,
        since: "2.8.9",
        summary: "Shows the inside of a HyperLogLog.",
        syntax: "subcommand key",
        handler: crate::commands::hyperloglog::pfdebug,
        ..Spec::DEFAULT
    },
    Spec {
        name: "pfselftest",
        arity: 1,
        flags: flags("admin"),
        group: Group::Hyperloglog,
        since: "2.8.9",
        summary: "Tests the estimates of HyperLogLogs.",
        handler: crate::commands::hyperloglog::pfselftest,
        ..Spec::DEFAULT
    },
];
