//! Rows of the command table: the commands about replication and persistence.

use crate::command::spec::{Deprecated, Group, Spec, categories, flags};

/// The commands about replication and persistence.
pub static SPECS: &[Spec] = &[
    Spec {
        name: "wait",
        arity: 3,
        flags: flags("blocking"),
        categories: categories("not_of_group connection"),
        tips: &["request_policy:all_shards", "response_policy:agg_min"],
        group: Group::Generic,
        since: "3.0.0",
        summary: "Waits until replicas have acknowledged the connection's writes; returns how many have.",
        syntax: "numreplicas timeout",
        handler: crate::commands::server::replication::wait,
        ..Spec::DEFAULT
    },
    Spec {
        name: "waitaof",
        arity: 4,
        flags: flags("blocking"),
        categories: categories("not_of_group connection"),
        tips: &["request_policy:all_shards", "response_policy:agg_min"],
        group: Group::Generic,
        since: "7.2.0",
        summary: "Waits until the append-only files of this server and of replicas have the connection's writes.",
        syntax: "numlocal numreplicas timeout",
        handler: crate::commands::server::replication::waitaof,
        ..Spec::DEFAULT
    },
    Spec {
        name: "role",
        arity: 1,
        flags: flags("noscript loading stale fast"),
        categories: categories("admin dangerous"),
        group: Group::Server,
        since: "2.8.12",
        summary: "Returns the server's role in replication.",
        handler: crate::commands::server::replication::role,
        ..Spec::DEFAULT
    },
    Spec {
        name: "replicaof",
        arity: 3,
        flags: flags("admin noscript stale no_async_loading"),
        group: Group::Server,
        since: "5.0.0",
        summary: "Makes the server a replica of another, or a primary.",
        syntax: "<host port | NO ONE>",
        handler: crate::commands::server::replication::replicaof,
        ..Spec::DEFAULT
    },
    Spec {
        name: "slaveof",
        arity: 3,
        flags: flags("admin noscript stale no_async_loading"),
        group: Group::Server,
        summary: "Makes the server a replica of another, or a primary.",
        syntax: "<host port | NO ONE>",
        deprecated: Some(Deprecated { since: "5.0.0", replaced_by: "`REPLICAOF`" }),
        handler: crate::commands::server::replication::replicaof,
        ..Spec::DEFAULT
    },
    Spec {
        name: "failover",
        arity: -1,
        flags: flags("admin noscript stale"),
        group: Group::Server,
        since: "6.2.0",
        summary: "Makes one of the server's replicas the primary.",
        syntax: "[TO host port [FORCE]] [ABORT] [TIMEOUT milliseconds]",
        handler: crate::commands::server::replication::failover,
        ..Spec::DEFAULT
    },
    Spec {
        name: "lastsave",
        arity: 1,
        flags: flags("loading stale fast"),
        categories: categories("admin dangerous"),
        tips: &["nondeterministic_output"],
        group: Group::Server,
        summary: "Returns the Unix time of the last successful snapshot.",
        handler: crate::commands::server::persistence::lastsave,
        ..Spec::DEFAULT
    },
    Spec {
        name: "save",
        arity: 1,
        flags: flags("admin noscript no_async_loading no_multi"),
        group: Group::Server,
        complexity: "O(N), N the number of keys in all databases",
        summary: "Takes a snapshot and waits until it is written.",
        handler: crate::commands::server::persistence::save,
        ..Spec::DEFAULT
    },
    Spec {
        name: "bgsave",
        arity: -1,
        flags: flags("admin noscript no_async_loading"),
        group: Group::Server,
        summary: "Takes a snapshot in the background.",
        syntax: "[SCHEDULE]",
        history: &[("3.2.2", "Option `SCHEDULE`.")],
        handler: crate::commands::server::persistence::bgsave,
        ..Spec::DEFAULT
    },
    Spec {
        name: "bgrewriteaof",
        arity: 1,
        flags: flags("admin noscript no_async_loading"),
        group: Group::Server,
        summary: "Rewrites the append-only file in the background.",
        handler: crate::commands::server::persistence::bgrewriteaof,
        ..Spec::DEFAULT
    },
];
