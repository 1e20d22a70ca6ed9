//! Rows of the command table: functions.

use crate::command::spec::{Group, KeySpec, Spec};
use crate::commands::scripting::specs::{PROGRAM, READING_PROGRAM};
use crate::commands::scripting::{self, functions};

/// The commands about functions.
pub(crate) static SPECS: &[Spec] = &[
    Spec::scripting("fcall", "7.0.0", -3, PROGRAM, functions::fcall)
        .syntax("function numkeys [key [key ...]] [arg [arg ...]]")
        .summary("Calls a function of a library.")
        .complexity("Depends on the function")
        .keys(&[KeySpec::numkeys("RW access update", 2)
            .notes("What happens to the keys is not known: everything is assumed.")]),
    Spec::scripting("fcall_ro", "7.0.0", -3, READING_PROGRAM, functions::fcall)
        .syntax("function numkeys [key [key ...]] [arg [arg ...]]")
        .summary("Calls a function of a library that changes nothing.")
        .complexity("Depends on the function")
        .keys(&[KeySpec::numkeys("RO access", 2).notes("What happens to the keys is not known: reading is assumed.")]),
    Spec::container(Group::Scripting, "function", "7.0.0", FUNCTION).summary("Container of commands about functions."),
];

static FUNCTION: &[Spec] = &[
    Spec::scripting("load", "7.0.0", -3, "write denyoom noscript", functions::function_load)
        .syntax("[REPLACE] function-code")
        .summary("Loads a library of functions.")
        .complexity("O(1), compiling left aside")
        .tips("request_policy:all_shards response_policy:all_succeeded"),
    Spec::scripting("delete", "7.0.0", 3, "write noscript", functions::function_delete)
        .syntax("library-name")
        .summary("Deletes a library and its functions.")
        .tips("request_policy:all_shards response_policy:all_succeeded"),
    Spec::scripting("list", "7.0.0", -2, "noscript reports_data", functions::function_list)
        .syntax("[LIBRARYNAME library-name-pattern] [WITHCODE]")
        .summary("Tells about libraries and their functions.")
        .complexity("O(N), N the number of functions")
        .tips("nondeterministic_output_order"),
    Spec::scripting("stats", "7.0.0", 2, "noscript allow_busy reports_data", functions::function_stats)
        .summary("Tells which function runs, and how many there are.")
        .tips("nondeterministic_output request_policy:all_shards response_policy:special"),
    Spec::scripting("dump", "7.0.0", 2, "noscript reports_data", functions::function_dump)
        .summary("Returns all libraries in one string.")
        .complexity("O(N), N the number of functions"),
    Spec::scripting("restore", "7.0.0", -3, "write denyoom noscript", functions::function_restore)
        .syntax("serialized-value [FLUSH | APPEND | REPLACE]")
        .summary("Loads the libraries of a string that FUNCTION DUMP returned.")
        .complexity("O(N), N the number of functions restored")
        .tips("request_policy:all_shards response_policy:all_succeeded"),
    Spec::scripting("flush", "7.0.0", -2, "write noscript", functions::function_flush)
        .syntax("[ASYNC | SYNC]")
        .summary("Deletes all libraries.")
        .complexity("O(N), N the number of functions")
        .tips("request_policy:all_shards response_policy:all_succeeded"),
    Spec::scripting("kill", "7.0.0", 2, "noscript allow_busy", |ctx| scripting::kill(ctx, true))
        .summary("Ends the function that runs.")
        .tips("request_policy:all_shards response_policy:one_succeeded"),
    Spec::help(Group::Scripting, "7.0.0"),
];
