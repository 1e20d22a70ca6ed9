//! Rows of the command table: the commands about clusters.

use crate::command::spec::{Deprecated, Group, Spec, categories, flags};
use crate::commands::cluster::disabled;

/// What all of these commands have in common.
const DISABLED: Spec = Spec { group: Group::Cluster, since: "3.0.0", handler: disabled, ..Spec::DEFAULT };

/// The commands about clusters.
pub static SPECS: &[Spec] = &[
    Spec {
        name: "cluster",
        arity: -2,
        complexity: "Depends on the subcommand",
        summary: "Container of commands about the cluster.",
        subcommands: SUBCOMMANDS,
        ..DISABLED
    },
    Spec {
        name: "readonly",
        arity: 1,
        flags: flags("loading stale fast"),
        categories: categories("connection"),
        summary: "Lets the connection read from a replica of a cluster.",
        ..DISABLED
    },
    Spec {
        name: "readwrite",
        arity: 1,
        flags: flags("loading stale fast"),
        categories: categories("connection"),
        summary: "Ends what READONLY began.",
        ..DISABLED
    },
    Spec {
        name: "asking",
        arity: 1,
        flags: flags("fast"),
        categories: categories("connection"),
        summary: "Lets the next command through that is about a slot under way.",
        ..DISABLED
    },
];

static SUBCOMMANDS: &[Spec] = &[
    Spec {
        name: "addslots",
        arity: -3,
        flags: flags("admin stale no_async_loading"),
        complexity: "O(N), N the number of slots",
        summary: "Assigns slots to this node.",
        syntax: "slot [slot ...]",
        ..DISABLED
    },
    Spec {
        name: "addslotsrange",
        arity: -4,
        flags: flags("admin stale no_async_loading"),
        since: "7.0.0",
        complexity: "O(N), N the number of slots",
        summary: "Assigns ranges of slots to this node.",
        syntax: "start-slot end-slot [start-slot end-slot ...]",
        ..DISABLED
    },
    Spec {
        name: "bumpepoch",
        arity: 2,
        flags: flags("admin stale no_async_loading"),
        tips: &["nondeterministic_output"],
        summary: "Raises this node's configuration epoch.",
        ..DISABLED
    },
    Spec {
        name: "count-failure-reports",
        arity: 3,
        flags: flags("admin stale"),
        tips: &["nondeterministic_output"],
        complexity: "O(N), N the number of failure reports",
        summary: "Returns how many nodes take a node for failed.",
        syntax: "node-id",
        ..DISABLED
    },
    Spec {
        name: "countkeysinslot",
        arity: 3,
        flags: flags("stale"),
        summary: "Returns how many keys a slot has.",
        syntax: "slot",
        ..DISABLED
    },
    Spec {
        name: "delslots",
        arity: -3,
        flags: flags("admin stale no_async_loading"),
        complexity: "O(N), N the number of slots",
        summary: "Takes slots away from this node.",
        syntax: "slot [slot ...]",
        ..DISABLED
    },
    Spec {
        name: "delslotsrange",
        arity: -4,
        flags: flags("admin stale no_async_loading"),
        since: "7.0.0",
        complexity: "O(N), N the number of slots",
        summary: "Takes ranges of slots away from this node.",
        syntax: "start-slot end-slot [start-slot end-slot ...]",
        ..DISABLED
    },
    Spec {
        name: "failover",
        arity: -2,
        flags: flags("admin stale no_async_loading"),
        summary: "Makes this replica the primary.",
        syntax: "[FORCE | TAKEOVER]",
        ..DISABLED
    },
    Spec {
        name: "flushslots",
        arity: 2,
        flags: flags("admin stale no_async_loading"),
        summary: "Takes all slots away from this node.",
        ..DISABLED
    },
    Spec {
        name: "forget",
        arity: 3,
        flags: flags("admin stale no_async_loading"),
        summary: "Removes a node from the nodes known.",
        syntax: "node-id",
        ..DISABLED
    },
    Spec {
        name: "getkeysinslot",
        arity: 4,
        flags: flags("stale"),
        tips: &["nondeterministic_output"],
        complexity: "O(N), N the number of keys asked for",
        summary: "Returns keys of a slot.",
        syntax: "slot count",
        ..DISABLED
    },
    Spec {
        name: "help",
        arity: 2,
        flags: flags("loading stale"),
        since: "5.0.0",
        summary: "Returns help on the subcommands.",
        ..DISABLED
    },
    Spec {
        name: "info",
        arity: 2,
        flags: flags("stale"),
        tips: &["nondeterministic_output"],
        summary: "Returns the state of the cluster.",
        ..DISABLED
    },
    Spec {
        name: "keyslot",
        arity: 3,
        flags: flags("stale"),
        complexity: "O(N), N the length of the key",
        summary: "Returns the slot of a key.",
        syntax: "key",
        ..DISABLED
    },
    Spec {
        name: "links",
        arity: 2,
        flags: flags("stale"),
        tips: &["nondeterministic_output"],
        since: "7.0.0",
        complexity: "O(N), N the number of nodes",
        summary: "Returns the links to other nodes.",
        ..DISABLED
    },
    Spec {
        name: "meet",
        arity: -4,
        flags: flags("admin stale no_async_loading"),
        summary: "Brings a node into the cluster.",
        syntax: "ip port [cluster-bus-port]",
        ..DISABLED
    },
    Spec { name: "myid", arity: 2, flags: flags("stale"), summary: "Returns this node's identifier.", ..DISABLED },
    Spec {
        name: "myshardid",
        arity: 2,
        flags: flags("stale"),
        tips: &["nondeterministic_output"],
        since: "7.2.0",
        summary: "Returns the identifier of this node's shard.",
        ..DISABLED
    },
    Spec {
        name: "nodes",
        arity: 2,
        flags: flags("stale"),
        tips: &["nondeterministic_output"],
        complexity: "O(N), N the number of nodes",
        summary: "Returns the configuration of the nodes.",
        ..DISABLED
    },
    Spec {
        name: "replicas",
        arity: 3,
        flags: flags("admin stale"),
        tips: &["nondeterministic_output"],
        since: "5.0.0",
        complexity: "O(N), N the number of replicas",
        summary: "Returns the replicas of a node.",
        syntax: "node-id",
        ..DISABLED
    },
    Spec {
        name: "replicate",
        arity: 3,
        flags: flags("admin stale no_async_loading"),
        summary: "Makes this node a replica of another.",
        syntax: "node-id",
        ..DISABLED
    },
    Spec {
        name: "reset",
        arity: -2,
        flags: flags("admin noscript stale"),
        complexity: "O(N), N the number of nodes",
        summary: "Makes this node forget the cluster.",
        syntax: "[HARD | SOFT]",
        ..DISABLED
    },
    Spec {
        name: "saveconfig",
        arity: 2,
        flags: flags("admin stale no_async_loading"),
        summary: "Writes the node's configuration to its file.",
        ..DISABLED
    },
    Spec {
        name: "set-config-epoch",
        arity: 3,
        flags: flags("admin stale no_async_loading"),
        summary: "Sets a new node's configuration epoch.",
        syntax: "config-epoch",
        ..DISABLED
    },
    Spec {
        name: "setslot",
        arity: -4,
        flags: flags("admin stale no_async_loading"),
        summary: "Binds a slot to a node, or moves it.",
        syntax: "slot <IMPORTING node-id | MIGRATING node-id | NODE node-id | STABLE>",
        ..DISABLED
    },
    Spec {
        name: "shards",
        arity: 2,
        flags: flags("loading stale"),
        tips: &["nondeterministic_output"],
        since: "7.0.0",
        complexity: "O(N), N the number of nodes",
        summary: "Returns which nodes have which slots.",
        ..DISABLED
    },
    Spec {
        name: "slaves",
        arity: 3,
        flags: flags("admin stale"),
        tips: &["nondeterministic_output"],
        complexity: "O(N), N the number of replicas",
        summary: "Returns the replicas of a node.",
        syntax: "node-id",
        deprecated: Some(Deprecated { since: "5.0.0", replaced_by: "`CLUSTER REPLICAS`" }),
        ..DISABLED
    },
    Spec {
        name: "slots",
        arity: 2,
        flags: flags("loading stale"),
        tips: &["nondeterministic_output"],
        complexity: "O(N), N the number of nodes",
        summary: "Returns which nodes have which slots.",
        deprecated: Some(Deprecated { since: "7.0.0", replaced_by: "`CLUSTER SHARDS`" }),
        ..DISABLED
    },
];
