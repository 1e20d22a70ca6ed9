//! Rows of the command table: scripts.

use crate::command::spec::{Group, KeySpec, Spec};
use crate::commands::scripting;

/// The flags of a command that runs a program.
pub(super) const PROGRAM: &str = "noscript stale skip_monitor no_mandatory_keys other_keys may_replicate";

/// The flags of a command that runs a program that only reads.
pub(super) const READING_PROGRAM: &str = "readonly noscript stale skip_monitor no_mandatory_keys other_keys";

/// The commands about scripts.
pub(crate) static SPECS: &[Spec] = &[
    Spec::scripting("eval", "2.6.0", -3, PROGRAM, scripting::eval)
        .syntax("script numkeys [key [key ...]] [arg [arg ...]]")
        .summary("Runs a Lua script.")
        .complexity("Depends on the script")
        .keys(&[KeySpec::numkeys("RW access update", 2)
            .notes("What happens to the keys is not known: everything is assumed.")]),
    Spec::scripting("evalsha", "2.6.0", -3, PROGRAM, scripting::evalsha)
        .syntax("sha1 numkeys [key [key ...]] [arg [arg ...]]")
        .summary("Runs a Lua script that the server knows.")
        .complexity("Depends on the script")
        .keys(&[KeySpec::numkeys("RW access update", 2)]),
    Spec::scripting("eval_ro", "7.0.0", -3, READING_PROGRAM, scripting::eval)
        .syntax("script numkeys [key [key ...]] [arg [arg ...]]")
        .summary("Runs a Lua script that changes nothing.")
        .complexity("Depends on the script")
        .keys(&[KeySpec::numkeys("RO access", 2).notes("What happens to the keys is not known: reading is assumed.")]),
    Spec::scripting("evalsha_ro", "7.0.0", -3, READING_PROGRAM, scripting::evalsha)
        .syntax("sha1 numkeys [key [key ...]] [arg [arg ...]]")
        .summary("Runs a Lua script that the server knows and that changes nothing.")
        .complexity("Depends on the script")
        .keys(&[KeySpec::numkeys("RO access", 2)]),
    Spec::container(Group::Scripting, "script", "2.6.0", SCRIPT).summary("Container of commands about scripts."),
];

static SCRIPT: &[Spec] = &[
    Spec::scripting("load", "2.6.0", 3, "noscript stale", scripting::script_load)
        .syntax("script")
        .summary("Compiles a script and keeps it.")
        .complexity("O(N), N the length of the script")
        .tips("request_policy:all_nodes response_policy:all_succeeded"),
    Spec::scripting("exists", "2.6.0", -3, "noscript", scripting::script_exists)
        .syntax("sha1 [sha1 ...]")
        .summary("Tells which scripts the server knows.")
        .complexity("O(N), N the number of scripts asked for")
        .tips("request_policy:all_shards response_policy:agg_logical_and"),
    Spec::scripting("flush", "2.6.0", -2, "noscript", scripting::script_flush)
        .syntax("[ASYNC | SYNC]")
        .summary("Forgets all scripts.")
        .complexity("O(N), N the number of scripts")
        .tips("request_policy:all_nodes response_policy:all_succeeded")
        .history(&[("6.2.0", "Modifiers `ASYNC` and `SYNC`.")]),
    Spec::scripting("kill", "2.6.0", 2, "noscript allow_busy", |ctx| scripting::kill(ctx, false))
        .summary("Ends the script that runs.")
        .tips("request_policy:all_shards response_policy:one_succeeded"),
    Spec::scripting("debug", "3.2.0", 3, "noscript", scripting::script_debug)
        .syntax("<YES | SYNC | NO>")
        .summary("Is there for clients that ask; there is no debugger."),
    Spec::help(Group::Scripting, "5.0.0"),
];
