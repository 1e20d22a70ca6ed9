//! Rows of the command table: transactions.

use crate::command::spec::{KeySpec, Spec};
use crate::commands::transactions::{discard, exec, multi, unwatch, watch};

/// The commands about transactions.
pub(crate) static SPECS: &[Spec] = &[
    Spec::transaction("multi", "1.2.0", 1, "noscript loading stale fast allow_busy short not_queued", multi)
        .summary("Begins a transaction: the commands that follow are queued."),
    Spec::transaction("exec", "1.2.0", 1, "noscript loading stale skip_slowlog not_queued reports_data exec", exec)
        .summary("Executes the queued commands as one.")
        .complexity("That of the commands queued"),
    Spec::transaction("discard", "2.0.0", 1, "noscript loading stale fast allow_busy not_queued", discard)
        .summary("Drops the queued commands and ends the transaction.")
        .complexity("O(N), N the number of commands queued"),
    Spec::transaction("watch", "2.2.0", -2, "noscript loading stale fast allow_busy short not_queued", watch)
        .syntax("key [key ...]")
        .summary("Has the next EXEC do nothing if one of the keys changes before.")
        .complexity("O(1) for each key")
        .keys(&[KeySpec::keys("RO", 1, -1, 1)]),
    Spec::transaction("unwatch", "2.2.0", 1, "noscript loading stale fast allow_busy", unwatch)
        .summary("Forgets the watched keys.")
        .complexity("O(N), N the number of keys watched"),
];
