//! Rows of the command table: the commands that show what takes time.

use crate::command::spec::{Group, Spec};
use crate::commands::timing::{hotkeys, latency, pipeline, slowlog};

/// The commands that show what takes time.
pub(crate) static SPECS: &[Spec] = &[
    Spec::container(Group::Server, "slowlog", "2.2.12", SLOWLOG)
        .summary("Container of commands about commands that took long."),
    Spec::container(Group::Server, "latency", "2.8.13", LATENCY).summary("Container of commands about latencies."),
    Spec::container(Group::Server, "pipeline", "0.1.0", PIPELINE).summary("Container of commands about pipelining."),
    Spec::container(Group::Server, "hotkeys", "8.6.0", HOTKEYS)
        .summary("Container of commands about keys that are hot."),
];

static SLOWLOG: &[Spec] = &[
    Spec::server("batches", "0.1.0", -2, "admin loading stale", slowlog::slowlog_batches)
        .syntax("[count]")
        .summary("Returns the latest batches that took long, with what their time was spent on.")
        .complexity("O(N), N the number of entries")
        .tips("request_policy:all_nodes nondeterministic_output"),
    Spec::server("get", "2.2.12", -2, "admin loading stale", slowlog::slowlog_get)
        .syntax("[count]")
        .summary("Returns the latest entries of the slow log.")
        .complexity("O(N), N the number of entries")
        .tips("request_policy:all_nodes nondeterministic_output")
        .history(&[("4.0.0", "Address and name of the client.")]),
    Spec::help(Group::Server, "6.2.0"),
    Spec::server("len", "2.2.12", 2, "admin loading stale", slowlog::slowlog_len)
        .summary("Returns how many entries the slow log has.")
        .tips("request_policy:all_nodes response_policy:agg_sum nondeterministic_output"),
    Spec::server("reset", "2.2.12", 2, "admin loading stale", slowlog::slowlog_reset)
        .summary("Forgets all entries of the slow log, batches too.")
        .complexity("O(N), N the number of entries")
        .tips("request_policy:all_nodes response_policy:all_succeeded"),
];

static LATENCY: &[Spec] = &[
    Spec::server("doctor", "2.8.13", 2, "admin noscript loading stale", latency::latency_doctor)
        .summary("Tells in words what was slow, and what to do about it.")
        .tips("nondeterministic_output request_policy:all_nodes response_policy:special"),
    Spec::server("graph", "2.8.13", 3, "admin noscript loading stale", latency::latency_graph)
        .syntax("event")
        .summary("Draws the samples of an event.")
        .tips("nondeterministic_output request_policy:all_nodes response_policy:special"),
    Spec::help(Group::Server, "2.8.13"),
    Spec::server("histogram", "7.0.0", -2, "admin noscript loading stale", latency::latency_histogram)
        .syntax("[command [command ...]]")
        .summary("Returns how the times of commands are distributed.")
        .complexity("O(N), N the number of commands asked for")
        .tips("nondeterministic_output request_policy:all_nodes response_policy:special"),
    Spec::server("history", "2.8.13", 3, "admin noscript loading stale", latency::latency_history)
        .syntax("event")
        .summary("Returns the samples of an event.")
        .tips("nondeterministic_output request_policy:all_nodes response_policy:special"),
    Spec::server("latest", "2.8.13", 2, "admin noscript loading stale", latency::latency_latest)
        .summary("Returns the latest sample of each event.")
        .tips("nondeterministic_output request_policy:all_nodes response_policy:special"),
    Spec::server("reset", "2.8.13", -2, "admin noscript loading stale", latency::latency_reset)
        .syntax("[event [event ...]]")
        .summary("Forgets the samples of some events, or of all.")
        .tips("request_policy:all_nodes response_policy:all_succeeded"),
];

static PIPELINE: &[Spec] = &[
    Spec::server("doctor", "0.1.0", 2, "admin noscript loading stale", pipeline::pipeline_doctor)
        .summary("Tells in words which clients would gain by other batches.")
        .complexity("O(N), N the number of connections")
        .tips("nondeterministic_output request_policy:all_nodes response_policy:special"),
    Spec::help(Group::Server, "0.1.0"),
];

static HOTKEYS: &[Spec] = &[
    Spec::server("get", "8.6.0", 2, "admin noscript loading stale", hotkeys::hotkeys_get)
        .summary("Returns what the session has found.")
        .complexity("O(N log N), N the number of keys known"),
    Spec::help(Group::Server, "8.6.0"),
    Spec::server("reset", "8.6.0", 2, "admin noscript loading stale", hotkeys::hotkeys_reset)
        .summary("Forgets what the last session has found.")
        .complexity("O(N), N the number of keys known"),
    Spec::server("start", "8.6.0", -5, "admin noscript loading stale", hotkeys::hotkeys_start)
        .syntax("METRICS count [CPU] [NET] [COUNT k] [DURATION seconds] [SAMPLE ratio] [SLOTS count slot [slot ...]]")
        .summary("Begins to look for hot keys."),
    Spec::server("stop", "8.6.0", 2, "admin noscript loading stale", hotkeys::hotkeys_stop)
        .summary("Ends the session."),
];
