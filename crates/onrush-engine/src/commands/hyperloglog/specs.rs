//! Rows of the command table: the HyperLogLog commands.

use crate::command::spec::{KeySpec, Spec};
use crate::commands::hyperloglog;

/// The HyperLogLog commands.
pub(crate) static SPECS: &[Spec] = &[
    Spec::hyperloglog("pfadd", "2.8.9", -2, "write denyoom fast short", hyperloglog::pfadd)
        .syntax("key [element [element ...]]")
        .summary("Shows a HyperLogLog elements; it is made if it is not there.")
        .complexity("O(1) for each element")
        .key("RW insert"),
    Spec::hyperloglog("pfcount", "2.8.9", -2, "readonly may_replicate", hyperloglog::pfcount)
        .syntax("key [key ...]")
        .summary("Estimates how many distinct elements HyperLogLogs were shown.")
        .complexity("O(1) for one key whose estimate holds, else O(N) for N keys, with a great constant")
        .keys(&[KeySpec::keys("RW access", 1, -1, 1)]),
    Spec::hyperloglog("pfmerge", "2.8.9", -2, "write denyoom", hyperloglog::pfmerge)
        .syntax("destkey sourcekey [sourcekey ...]")
        .summary("Merges HyperLogLogs into one.")
        .complexity("O(N) for N keys, with a great constant")
        .keys(&[KeySpec::key("RW access insert"), KeySpec::keys("RO access", 2, -1, 1)]),
    Spec::hyperloglog("pfdebug", "2.8.9", 3, "write denyoom admin", hyperloglog::pfdebug)
        .syntax("subcommand key")
        .summary("Shows the inside of a HyperLogLog.")
        .keys(&[KeySpec::keys("RW access", 2, 0, 1)]),
    Spec::hyperloglog("pfselftest", "2.8.9", 1, "admin", hyperloglog::pfselftest)
        .summary("Tests the estimates of HyperLogLogs."),
];
