//! Rows of the command table: the commands about clusters.

use crate::command::spec::{Group, Spec};
use crate::commands::cluster::{change, connection, keys, moves, slot_stats, views};

/// The commands about clusters.
pub(crate) static SPECS: &[Spec] = &[
    Spec::container(Group::Cluster, "cluster", "3.0.0", CLUSTER).summary("Container of commands about the cluster."),
    Spec::cluster("readonly", "3.0.0", 1, "loading stale fast", connection::readonly)
        .summary("Lets the connection read from a replica of a cluster.")
        .categories("connection"),
    Spec::cluster("readwrite", "3.0.0", 1, "loading stale fast", connection::readwrite)
        .summary("Ends what READONLY began.")
        .categories("connection"),
    Spec::cluster("asking", "3.0.0", 1, "fast", connection::asking)
        .summary("Lets the next command through that is about a slot under way.")
        .categories("connection"),
];

static CLUSTER: &[Spec] = &[
    Spec::cluster("addslots", "3.0.0", -3, "admin stale no_async_loading", change::addslots)
        .syntax("slot [slot ...]")
        .summary("Assigns slots to this node.")
        .complexity("O(N), N the number of slots"),
    Spec::cluster("addslotsrange", "7.0.0", -4, "admin stale no_async_loading", change::addslotsrange)
        .syntax("start-slot end-slot [start-slot end-slot ...]")
        .summary("Assigns ranges of slots to this node.")
        .complexity("O(N), N the number of slots"),
    Spec::cluster("bumpepoch", "3.0.0", 2, "admin stale no_async_loading", change::bumpepoch)
        .summary("Raises this node's configuration epoch.")
        .tips("nondeterministic_output"),
    Spec::cluster("cancelslotmigrations", "9.0.0", 2, "admin stale no_async_loading", moves::cancelslotmigrations)
        .summary("Ends the migrations of slots from this node.")
        .complexity("O(N), N the number of migrations"),
    Spec::cluster("count-failure-reports", "3.0.0", 3, "admin stale", views::count_failure_reports)
        .syntax("node-id")
        .summary("Returns how many nodes take a node for failed.")
        .complexity("O(N), N the number of failure reports")
        .tips("nondeterministic_output"),
    Spec::cluster("countkeysinslot", "3.0.0", 3, "stale", keys::countkeysinslot)
        .syntax("slot")
        .summary("Returns how many keys a slot has."),
    Spec::cluster("delslots", "3.0.0", -3, "admin stale no_async_loading", change::delslots)
        .syntax("slot [slot ...]")
        .summary("Takes slots away from this node.")
        .complexity("O(N), N the number of slots"),
    Spec::cluster("delslotsrange", "7.0.0", -4, "admin stale no_async_loading", change::delslotsrange)
        .syntax("start-slot end-slot [start-slot end-slot ...]")
        .summary("Takes ranges of slots away from this node.")
        .complexity("O(N), N the number of slots"),
    Spec::cluster("failover", "3.0.0", -2, "admin stale no_async_loading", change::failover)
        .syntax("[FORCE | TAKEOVER]")
        .summary("Makes this replica the primary."),
    Spec::cluster("flushslots", "3.0.0", 2, "admin stale no_async_loading", change::flushslots)
        .summary("Takes all slots away from this node."),
    Spec::cluster("forget", "3.0.0", 3, "admin stale no_async_loading", change::forget)
        .syntax("node-id")
        .summary("Removes a node from the nodes known."),
    Spec::cluster("getkeysinslot", "3.0.0", 4, "stale", keys::getkeysinslot)
        .syntax("slot count")
        .summary("Returns keys of a slot.")
        .complexity("O(N), N the number of keys asked for")
        .tips("nondeterministic_output"),
    Spec::cluster("getslotmigrations", "9.0.0", 2, "admin stale", moves::getslotmigrations)
        .summary("Returns the migrations of slots from and to this node.")
        .complexity("O(N), N the number of migrations")
        .tips("nondeterministic_output"),
    Spec::cluster("help", "5.0.0", 2, "loading stale", views::help).summary("Returns help on the subcommands."),
    Spec::cluster("info", "3.0.0", 2, "stale", views::info)
        .summary("Returns the state of the cluster.")
        .tips("nondeterministic_output"),
    Spec::cluster("keyslot", "3.0.0", 3, "stale", keys::keyslot)
        .syntax("key")
        .summary("Returns the slot of a key.")
        .complexity("O(N), N the length of the key"),
    Spec::cluster("links", "7.0.0", 2, "stale", views::links)
        .summary("Returns the links to other nodes.")
        .complexity("O(N), N the number of nodes")
        .tips("nondeterministic_output"),
    Spec::cluster("meet", "3.0.0", -4, "admin stale no_async_loading", change::meet)
        .syntax("ip port [cluster-bus-port]")
        .summary("Brings a node into the cluster."),
    Spec::cluster("migrateslots", "9.0.0", -7, "admin stale no_async_loading", moves::migrateslots)
        .syntax("SLOTSRANGE start-slot end-slot [start-slot end-slot ...] NODE node-id [SLOTSRANGE start-slot end-slot [start-slot end-slot ...] NODE node-id ...]")
        .summary("Moves slots to other nodes as a whole.")
        .complexity("O(N), N the number of slots"),
    Spec::cluster("myid", "3.0.0", 2, "stale", views::myid).summary("Returns this node's identifier."),
    Spec::cluster("myshardid", "7.2.0", 2, "stale", views::myshardid)
        .summary("Returns the identifier of this node's shard.")
        .tips("nondeterministic_output"),
    Spec::cluster("nodes", "3.0.0", 2, "stale", views::nodes)
        .summary("Returns the configuration of the nodes.")
        .complexity("O(N), N the number of nodes")
        .tips("nondeterministic_output"),
    Spec::cluster("replicas", "5.0.0", 3, "admin stale", views::replicas)
        .syntax("node-id")
        .summary("Returns the replicas of a node.")
        .complexity("O(N), N the number of replicas")
        .tips("nondeterministic_output"),
    Spec::cluster("replicate", "3.0.0", 3, "admin stale no_async_loading", change::replicate)
        .syntax("node-id")
        .summary("Makes this node a replica of another."),
    Spec::cluster("reset", "3.0.0", -2, "admin noscript stale", change::reset)
        .syntax("[HARD | SOFT]")
        .summary("Makes this node forget the cluster.")
        .complexity("O(N), N the number of nodes"),
    Spec::cluster("saveconfig", "3.0.0", 2, "admin stale no_async_loading", change::saveconfig)
        .summary("Writes the node's configuration to its file."),
    Spec::cluster("set-config-epoch", "3.0.0", 3, "admin stale no_async_loading", change::set_config_epoch)
        .syntax("config-epoch")
        .summary("Sets a new node's configuration epoch."),
    Spec::cluster("setslot", "3.0.0", -4, "admin stale no_async_loading", change::setslot)
        .syntax("slot <IMPORTING node-id | MIGRATING node-id | NODE node-id | STABLE>")
        .summary("Binds a slot to a node, or moves it."),
    Spec::cluster("shards", "7.0.0", 2, "loading stale", views::shards)
        .summary("Returns which nodes have which slots.")
        .complexity("O(N), N the number of nodes")
        .tips("nondeterministic_output"),
    Spec::cluster("slaves", "3.0.0", 3, "admin stale", views::replicas)
        .syntax("node-id")
        .summary("Returns the replicas of a node.")
        .complexity("O(N), N the number of replicas")
        .tips("nondeterministic_output")
        .deprecated("5.0.0", "`CLUSTER REPLICAS`"),
    Spec::cluster("slot-stats", "8.2.0", -4, "loading stale", slot_stats::slot_stats)
        .syntax("<SLOTSRANGE start-slot end-slot | ORDERBY metric [LIMIT limit] [ASC | DESC]>")
        .summary("Returns what slots of this node hold and cost.")
        .complexity("O(N log N), N the number of slots")
        .tips("nondeterministic_output request_policy:all_shards"),
    Spec::cluster("slots", "3.0.0", 2, "loading stale", views::slots)
        .summary("Returns which nodes have which slots.")
        .complexity("O(N), N the number of nodes")
        .tips("nondeterministic_output")
        .deprecated("7.0.0", "`CLUSTER SHARDS`"),
    Spec::cluster("syncslots", "9.0.0", -3, "admin noscript stale no_async_loading", moves::syncslots)
        .syntax("<ESTABLISH name node-id start-slot end-slot [start-slot end-slot ...] | ALIVE | PREPARE | TAKE milliseconds epoch>")
        .summary("What a node says to another one that slots move to.")
        .complexity("O(N), N the number of slots"),
];
