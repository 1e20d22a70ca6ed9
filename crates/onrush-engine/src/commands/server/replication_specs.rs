//! Rows of the command table: the commands about replication and persistence.

use crate::command::spec::Spec;
use crate::commands::server::{persistence, replicas, replication};

/// The commands about replication and persistence.
pub(crate) static SPECS: &[Spec] = &[
    Spec::generic("wait", "3.0.0", 3, "blocking", replication::wait)
        .syntax("numreplicas timeout")
        .summary("Waits until replicas have acknowledged the connection's writes; returns how many have.")
        .categories("not_of_group connection")
        .tips("request_policy:all_shards response_policy:agg_min"),
    Spec::generic("waitaof", "7.2.0", 4, "blocking", replication::waitaof)
        .syntax("numlocal numreplicas timeout")
        .summary("Waits until the append-only files of this server and of replicas have the connection's writes.")
        .categories("not_of_group connection")
        .tips("request_policy:all_shards response_policy:agg_min"),
    Spec::server("role", "2.8.12", 1, "noscript loading stale fast", replication::role)
        .summary("Returns the server's role in replication.")
        .categories("admin dangerous"),
    Spec::server("replicaof", "5.0.0", 3, "admin noscript stale no_async_loading ends_sync", replication::replicaof)
        .syntax("<host port | NO ONE>")
        .summary("Makes the server a replica of another, or a primary."),
    Spec::server("slaveof", "1.0.0", 3, "admin noscript stale no_async_loading ends_sync", replication::replicaof)
        .syntax("<host port | NO ONE>")
        .summary("Makes the server a replica of another, or a primary.")
        .deprecated("5.0.0", "`REPLICAOF`"),
    Spec::server("psync", "2.8.0", -3, "admin noscript no_async_loading no_multi", replicas::psync)
        .syntax("replicationid offset")
        .summary("Makes the connection that of a replica, which goes on where it was if that is possible."),
    Spec::server("sync", "1.0.0", 1, "admin noscript no_async_loading no_multi", replicas::sync)
        .summary("Makes the connection that of a replica, which gets all data."),
    Spec::server("replconf", "3.0.0", -1, "admin noscript loading stale allow_busy", replicas::replconf)
        .syntax("[option value [option value ...]]")
        .summary("Tells about a replica that is about to ask for the stream."),
    Spec::server("failover", "6.2.0", -1, "admin noscript stale", replication::failover)
        .syntax("[TO host port [FORCE]] [ABORT] [TIMEOUT milliseconds]")
        .summary("Makes one of the server's replicas the primary."),
    Spec::server("lastsave", "1.0.0", 1, "loading stale fast", persistence::lastsave)
        .summary("Returns the Unix time of the last successful snapshot.")
        .categories("admin dangerous")
        .tips("nondeterministic_output"),
    Spec::server("save", "1.0.0", 1, "admin noscript no_async_loading no_multi", persistence::save)
        .summary("Takes a snapshot and waits until it is written.")
        .complexity("O(N), N the number of keys in all databases"),
    Spec::server("bgsave", "1.0.0", -1, "admin noscript no_async_loading", persistence::bgsave)
        .syntax("[SCHEDULE]")
        .summary("Takes a snapshot in the background.")
        .history(&[("3.2.2", "Option `SCHEDULE`.")]),
    Spec::server("bgrewriteaof", "1.0.0", 1, "admin noscript no_async_loading", persistence::bgrewriteaof)
        .summary("Rewrites the append-only file in the background."),
];
