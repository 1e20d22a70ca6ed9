//! Rows of the command table: transactions.

use crate::command::spec::{Group, KeySpec, Spec, flags};

/// The commands about transactions.
pub static SPECS: &[Spec] = &[
    Spec {
        name: "multi",
        arity: 1,
        flags: flags("noscript loading stale fast allow_busy short not_queued"),
        group: Group::Transactions,
        since: "1.2.0",
        summary: "Begins a transaction: the commands that follow are queued.",
        handler: crate::commands::transactions::multi,
        ..Spec::DEFAULT
    },
    Spec {
        name: "exec",
        arity: 1,
        flags: flags("noscript loading stale skip_slowlog not_queued"),
        group: Group::Transactions,
        since: "1.2.0",
        complexity: "That of the commands queued",
        summary: "Executes the queued commands as one.",
        handler: crate::commands::transactions::exec,
        ..Spec::DEFAULT
    },
    Spec {
        name: "discard",
        arity: 1,
        flags: flags("noscript loading stale fast allow_busy not_queued"),
        group: Group::Transactions,
        since: "2.0.0",
        complexity: "O(N), N the number of commands queued",
        summary: "Drops the queued commands and ends the transaction.",
        handler: crate::commands::transactions::discard,
        ..Spec::DEFAULT
    },
    Spec {
        name: "watch",
        arity: -2,
        flags: flags("noscript loading stale fast allow_busy short not_queued"),
        keys: &[KeySpec::keys("RO", 1, -1, 1)],
        group: Group::Transactions,
        since: "2.2.0",
        complexity: "O(1) for each key",
        summary: "Has the next EXEC do nothing if one of the keys changes before.",
        syntax: "key [key ...]",
        handler: crate::commands::transactions::watch,
        ..Spec::DEFAULT
    },
    Spec {
        name: "unwatch",
        arity: 1,
        flags: flags("noscript loading stale fast allow_busy"),
        group: Group::Transactions,
        since: "2.2.0",
        complexity: "O(N), N the number of keys watched",
        summary: "Forgets the watched keys.",
        handler: crate::commands::transactions::unwatch,
        ..Spec::DEFAULT
    },
];
