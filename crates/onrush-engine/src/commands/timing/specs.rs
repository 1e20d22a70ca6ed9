//! Rows of the command table: the commands that show what takes time.

use crate::command::spec::{Group, Spec, flags};
use crate::commands::timing::{hotkeys, latency, pipeline, slowlog};

/// The commands that show what takes time.
pub static SPECS: &[Spec] = &[
    Spec {
        name: "slowlog",
        arity: -2,
        group: Group::Server,
        since: "2.2.12",
        complexity: "Depends on the subcommand",
        summary: "Container of commands about commands that took long.",
        subcommands: &[
            Spec {
                name: "batches",
                arity: -2,
                flags: flags("admin loading stale"),
                tips: &["request_policy:all_nodes", "nondeterministic_output"],
                group: Group::Server,
                since: "0.1.0",
                complexity: "O(N), N the number of entries",
                summary: "Returns the latest batches that took long, with what their time was spent on.",
                syntax: "[count]",
                handler: slowlog::slowlog_batches,
                ..Spec::DEFAULT
            },
            Spec {
                name: "get",
                arity: -2,
                flags: flags("admin loading stale"),
                tips: &["request_policy:all_nodes", "nondeterministic_output"],
                group: Group::Server,
                since: "2.2.12",
                complexity: "O(N), N the number of entries",
                summary: "Returns the latest entries of the slow log.",
                syntax: "[count]",
                history: &[("4.0.0", "Address and name of the client.")],
                handler: slowlog::slowlog_get,
                ..Spec::DEFAULT
            },
            Spec {
                name: "help",
                arity: 2,
                flags: flags("loading stale"),
                group: Group::Server,
                since: "6.2.0",
                summary: "Returns help on the subcommands.",
                handler: slowlog::slowlog_help,
                ..Spec::DEFAULT
            },
            Spec {
                name: "len",
                arity: 2,
                flags: flags("admin loading stale"),
                tips: &["request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"],
                group: Group::Server,
                since: "2.2.12",
                summary: "Returns how many entries the slow log has.",
                handler: slowlog::slowlog_len,
                ..Spec::DEFAULT
            },
            Spec {
                name: "reset",
                arity: 2,
                flags: flags("admin loading stale"),
                tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
                group: Group::Server,
                since: "2.2.12",
                complexity: "O(N), N the number of entries",
                summary: "Forgets all entries of the slow log, batches too.",
                handler: slowlog::slowlog_reset,
                ..Spec::DEFAULT
            },
        ],
        ..Spec::DEFAULT
    },
    Spec {
        name: "latency",
        arity: -2,
        group: Group::Server,
        since: "2.8.13",
        complexity: "Depends on the subcommand",
        summary: "Container of commands about latencies.",
        subcommands: &[
            Spec {
                name: "doctor",
                arity: 2,
                flags: flags("admin noscript loading stale"),
                tips: &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"],
                group: Group::Server,
                since: "2.8.13",
                summary: "Tells in words what was slow, and what to do about it.",
                handler: latency::latency_doctor,
                ..Spec::DEFAULT
            },
            Spec {
                name: "graph",
                arity: 3,
                flags: flags("admin noscript loading stale"),
                tips: &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"],
                group: Group::Server,
                since: "2.8.13",
                summary: "Draws the samples of an event.",
                syntax: "event",
                handler: latency::latency_graph,
                ..Spec::DEFAULT
            },
            Spec {
                name: "help",
                arity: 2,
                flags: flags("loading stale"),
                group: Group::Server,
                since: "2.8.13",
                summary: "Returns help on the subcommands.",
                handler: latency::latency_help,
                ..Spec::DEFAULT
            },
            Spec {
                name: "histogram",
                arity: -2,
                flags: flags("admin noscript loading stale"),
                tips: &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"],
                group: Group::Server,
                since: "7.0.0",
                complexity: "O(N), N the number of commands asked for",
                summary: "Returns how the times of commands are distributed.",
                syntax: "[command [command ...]]",
                handler: latency::latency_histogram,
                ..Spec::DEFAULT
            },
            Spec {
                name: "history",
                arity: 3,
                flags: flags("admin noscript loading stale"),
                tips: &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"],
                group: Group::Server,
                since: "2.8.13",
                summary: "Returns the samples of an event.",
                syntax: "event",
                handler: latency::latency_history,
                ..Spec::DEFAULT
            },
            Spec {
                name: "latest",
                arity: 2,
                flags: flags("admin noscript loading stale"),
                tips: &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"],
                group: Group::Server,
                since: "2.8.13",
                summary: "Returns the latest sample of each event.",
                handler: latency::latency_latest,
                ..Spec::DEFAULT
            },
            Spec {
                name: "reset",
                arity: -2,
                flags: flags("admin noscript loading stale"),
                tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
                group: Group::Server,
                since: "2.8.13",
                summary: "Forgets the samples of some events, or of all.",
                syntax: "[event [event ...]]",
                handler: latency::latency_reset,
                ..Spec::DEFAULT
            },
        ],
        ..Spec::DEFAULT
    },
    Spec {
        name: "pipeline",
        arity: -2,
        group: Group::Server,
        since: "0.1.0",
        complexity: "Depends on the subcommand",
        summary: "Container of commands about pipelining.",
        subcommands: &[
            Spec {
                name: "doctor",
                arity: 2,
                flags: flags("admin noscript loading stale"),
                tips: &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"],
                group: Group::Server,
                since: "0.1.0",
                complexity: "O(N), N the number of connections",
                summary: "Tells in words which clients would gain by other batches.",
                handler: pipeline::pipeline_doctor,
                ..Spec::DEFAULT
            },
            Spec {
                name: "help",
                arity: 2,
                flags: flags("loading stale"),
                group: Group::Server,
                since: "0.1.0",
                summary: "Returns help on the subcommands.",
                handler: pipeline::pipeline_help,
                ..Spec::DEFAULT
            },
        ],
        ..Spec::DEFAULT
    },
    Spec {
        name: "hotkeys",
        arity: -2,
        group: Group::Server,
        since: "8.6.0",
        complexity: "Depends on the subcommand",
        summary: "Container of commands about keys that are hot.",
        subcommands: &[
            Spec {
                name: "get",
                arity: 2,
                flags: flags("admin noscript loading stale"),
                group: Group::Server,
                since: "8.6.0",
                complexity: "O(N log N), N the number of keys known",
                summary: "Returns what the session has found.",
                handler: hotkeys::hotkeys_get,
                ..Spec::DEFAULT
            },
            Spec {
                name: "help",
                arity: 2,
                flags: flags("loading stale"),
                group: Group::Server,
                since: "8.6.0",
                complexity: "O(1)",
                summary: "Returns help on the subcommands.",
                handler: hotkeys::hotkeys_help,
                ..Spec::DEFAULT
            },
            Spec {
                name: "reset",
                arity: 2,
                flags: flags("admin noscript loading stale"),
                group: Group::Server,
                since: "8.6.0",
                complexity: "O(N), N the number of keys known",
                summary: "Forgets what the last session has found.",
                handler: hotkeys::hotkeys_reset,
                ..Spec::DEFAULT
            },
            Spec {
                name: "start",
                arity: -5,
                flags: flags("admin noscript loading stale"),
                group: Group::Server,
                since: "8.6.0",
                complexity: "O(1)",
                summary: "Begins to look for hot keys.",
                syntax: "METRICS count [CPU] [NET] [COUNT k] [DURATION seconds] [SAMPLE ratio]",
                handler: hotkeys::hotkeys_start,
                ..Spec::DEFAULT
            },
            Spec {
                name: "stop",
                arity: 2,
                flags: flags("admin noscript loading stale"),
                group: Group::Server,
                since: "8.6.0",
                complexity: "O(1)",
                summary: "Ends the session.",
                handler: hotkeys::hotkeys_stop,
                ..Spec::DEFAULT
            },
        ],
        ..Spec::DEFAULT
    },
];
