//! Rows of the command table: scripts.

use crate::command::spec::{Group, KeySpec, Spec, flags};

/// The commands about scripts.
pub static SPECS: &[Spec] = &[
    Spec {
        name: "eval",
        arity: -3,
        flags: flags("noscript stale skip_monitor no_mandatory_keys other_keys may_replicate"),
        keys: &[KeySpec::numkeys("RW access update", 2)
            .notes("What happens to the keys is not known: everything is assumed.")],
        group: Group::Scripting,
        since: "2.6.0",
        complexity: "Depends on the script",
        summary: "Runs a Lua script.",
        syntax: "script numkeys [key [key ...]] [arg [arg ...]]",
        handler: crate::commands::scripting::eval,
        ..Spec::DEFAULT
    },
    Spec {
        name: "evalsha",
        arity: -3,
        flags: flags("noscript stale skip_monitor no_mandatory_keys other_keys may_replicate"),
        keys: &[KeySpec::numkeys("RW access update", 2)],
        group: Group::Scripting,
        since: "2.6.0",
        complexity: "Depends on the script",
        summary: "Runs a Lua script that the server knows.",
        syntax: "sha1 numkeys [key [key ...]] [arg [arg ...]]",
        handler: crate::commands::scripting::evalsha,
        ..Spec::DEFAULT
    },
    Spec {
        name: "eval_ro",
        arity: -3,
        flags: flags("readonly noscript stale skip_monitor no_mandatory_keys other_keys"),
        keys: &[KeySpec::numkeys("RO access", 2).notes("What happens to the keys is not known: reading is assumed.")],
        group: Group::Scripting,
        since: "7.0.0",
        complexity: "Depends on the script",
        summary: "Runs a Lua script that changes nothing.",
        syntax: "script numkeys [key [key ...]] [arg [arg ...]]",
        handler: crate::commands::scripting::eval,
        ..Spec::DEFAULT
    },
    Spec {
        name: "evalsha_ro",
        arity: -3,
        flags: flags("readonly noscript stale skip_monitor no_mandatory_keys other_keys"),
        keys: &[KeySpec::numkeys("RO access", 2)],
        group: Group::Scripting,
        since: "7.0.0",
        complexity: "Depends on the script",
        summary: "Runs a Lua script that the server knows and that changes nothing.",
        syntax: "sha1 numkeys [key [key ...]] [arg [arg ...]]",
        handler: crate::commands::scripting::evalsha,
        ..Spec::DEFAULT
    },
    Spec {
        name: "script",
        arity: -2,
        group: Group::Scripting,
        since: "2.6.0",
        complexity: "Depends on the subcommand",
        summary: "Container of commands about scripts.",
        subcommands: &[
            Spec {
                name: "load",
                arity: 3,
                flags: flags("noscript stale"),
                tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
                group: Group::Scripting,
                since: "2.6.0",
                complexity: "O(N), N the length of the script",
                summary: "Compiles a script and keeps it.",
                syntax: "script",
                handler: crate::commands::scripting::script_load,
                ..Spec::DEFAULT
            },
            Spec {
                name: "exists",
                arity: -3,
                flags: flags("noscript"),
                tips: &["request_policy:all_shards", "response_policy:agg_logical_and"],
                group: Group::Scripting,
                since: "2.6.0",
                complexity: "O(N), N the number of scripts asked for",
                summary: "Tells which scripts the server knows.",
                syntax: "sha1 [sha1 ...]",
                handler: crate::commands::scripting::script_exists,
                ..Spec::DEFAULT
            },
            Spec {
                name: "flush",
                arity: -2,
                flags: flags("noscript"),
                tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
                group: Group::Scripting,
                since: "2.6.0",
                complexity: "O(N), N the number of scripts",
                summary: "Forgets all scripts.",
                syntax: "[ASYNC | SYNC]",
                history: &[("6.2.0", "Modifiers `ASYNC` and `SYNC`.")],
                handler: crate::commands::scripting::script_flush,
                ..Spec::DEFAULT
            },
            Spec {
                name: "kill",
                arity: 2,
                flags: flags("noscript allow_busy"),
                tips: &["request_policy:all_shards", "response_policy:one_succeeded"],
                group: Group::Scripting,
                since: "2.6.0",
                summary: "Ends the script that runs.",
                handler: crate::commands::scripting::script_kill,
                ..Spec::DEFAULT
            },
            Spec {
                name: "debug",
                arity: 3,
                flags: flags("noscript"),
                group: Group::Scripting,
                since: "3.2.0",
                summary: "Is there for clients that ask; there is no debugger.",
                syntax: "<YES | SYNC | NO>",
                handler: crate::commands::scripting::script_debug,
                ..Spec::DEFAULT
            },
            Spec {
                name: "help",
                arity: 2,
                flags: flags("loading stale"),
                group: Group::Scripting,
                since: "5.0.0",
                summary: "Returns help on the subcommands.",
                handler: crate::commands::scripting::script_help,
                ..Spec::DEFAULT
            },
        ],
        ..Spec::DEFAULT
    },
];
