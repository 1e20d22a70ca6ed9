//! Rows of the command table: functions.

use crate::command::spec::{Group, KeySpec, Spec, flags};

/// The commands about functions.
pub static SPECS: &[Spec] = &[
    Spec {
        name: "fcall",
        arity: -3,
        flags: flags("noscript stale skip_monitor no_mandatory_keys other_keys may_replicate"),
        keys: &[KeySpec::numkeys("RW access update", 2)
            .notes("What happens to the keys is not known: everything is assumed.")],
        group: Group::Scripting,
        since: "7.0.0",
        complexity: "Depends on the function",
        summary: "Calls a function of a library.",
        syntax: "function numkeys [key [key ...]] [arg [arg ...]]",
        handler: crate::commands::scripting::functions::fcall,
        ..Spec::DEFAULT
    },
    Spec {
        name: "fcall_ro",
        arity: -3,
        flags: flags("readonly noscript stale skip_monitor no_mandatory_keys other_keys"),
        keys: &[KeySpec::numkeys("RO access", 2).notes("What happens to the keys is not known: reading is assumed.")],
        group: Group::Scripting,
        since: "7.0.0",
        complexity: "Depends on the function",
        summary: "Calls a function of a library that changes nothing.",
        syntax: "function numkeys [key [key ...]] [arg [arg ...]]",
        handler: crate::commands::scripting::functions::fcall,
        ..Spec::DEFAULT
    },
    Spec {
        name: "function",
        arity: -2,
        group: Group::Scripting,
        since: "7.0.0",
        complexity: "Depends on the subcommand",
        summary: "Container of commands about functions.",
        subcommands: &[
            Spec {
                name: "load",
                arity: -3,
                flags: flags("write denyoom noscript"),
                tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
                group: Group::Scripting,
                since: "7.0.0",
                complexity: "O(1), compiling left aside",
                summary: "Loads a library of functions.",
                syntax: "[REPLACE] function-code",
                handler: crate::commands::scripting::functions::function_load,
                ..Spec::DEFAULT
            },
            Spec {
                name: "delete",
                arity: 3,
                flags: flags("write noscript"),
                tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
                group: Group::Scripting,
                since: "7.0.0",
                summary: "Deletes a library and its functions.",
                syntax: "library-name",
                handler: crate::commands::scripting::functions::function_delete,
                ..Spec::DEFAULT
            },
            Spec {
                name: "list",
                arity: -2,
                flags: flags("noscript"),
                tips: &["nondeterministic_output_order"],
                group: Group::Scripting,
                since: "7.0.0",
                complexity: "O(N), N the number of functions",
                summary: "Tells about libraries and their functions.",
                syntax: "[LIBRARYNAME library-name-pattern] [WITHCODE]",
                handler: crate::commands::scripting::functions::function_list,
                ..Spec::DEFAULT
            },
            Spec {
                name: "stats",
                arity: 2,
                flags: flags("noscript allow_busy"),
                tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
                group: Group::Scripting,
                since: "7.0.0",
                summary: "Tells which function runs, and how many there are.",
                handler: crate::commands::scripting::functions::function_stats,
                ..Spec::DEFAULT
            },
            Spec {
                name: "dump",
                arity: 2,
                flags: flags("noscript"),
                group: Group::Scripting,
                since: "7.0.0",
                complexity: "O(N), N the number of functions",
                summary: "Returns all libraries in one string.",
                handler: crate::commands::scripting::functions::function_dump,
                ..Spec::DEFAULT
            },
            Spec {
                name: "restore",
                arity: -3,
                flags: flags("write denyoom noscript"),
                tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
                group: Group::Scripting,
                since: "7.0.0",
                complexity: "O(N), N the number of functions restored",
                summary: "Loads the libraries of a string that FUNCTION DUMP returned.",
                syntax: "serialized-value [FLUSH | APPEND | REPLACE]",
                handler: crate::commands::scripting::functions::function_restore,
                ..Spec::DEFAULT
            },
            Spec {
                name: "flush",
                arity: -2,
                flags: flags("write noscript"),
                tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
                group: Group::Scripting,
                since: "7.0.0",
                complexity: "O(N), N the number of functions",
                summary: "Deletes all libraries.",
                syntax: "[ASYNC | SYNC]",
                handler: crate::commands::scripting::functions::function_flush,
                ..Spec::DEFAULT
            },
            Spec {
                name: "kill",
                arity: 2,
                flags: flags("noscript allow_busy"),
                tips: &["request_policy:all_shards", "response_policy:one_succeeded"],
                group: Group::Scripting,
                since: "7.0.0",
                summary: "Ends the function that runs.",
                handler: crate::commands::scripting::functions::function_kill,
                ..Spec::DEFAULT
            },
            Spec {
                name: "help",
                arity: 2,
                flags: flags("loading stale"),
                group: Group::Scripting,
                since: "7.0.0",
                summary: "Returns help on the subcommands.",
                handler: crate::commands::scripting::functions::function_help,
                ..Spec::DEFAULT
            },
        ],
        ..Spec::DEFAULT
    },
];
