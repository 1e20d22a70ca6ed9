//! Rows of the command table: the commands about the server.

use crate::command::spec::{Group, KeySpec, Spec};
use crate::commands::server::{self, command, config, debug, info, memory};

/// The commands about the server.
pub(crate) static SPECS: &[Spec] = &[
    Spec::server("info", "1.0.0", -1, "loading stale", info::info)
        .syntax("[section [section ...]]")
        .summary("Tells about the server's state, with statistics.")
        .categories("dangerous")
        .tips("nondeterministic_output request_policy:all_shards response_policy:special")
        .history(&[("7.0.0", "Several sections.")]),
    Spec::container(Group::Server, "config", "2.0.0", CONFIG).summary("Container of commands about the configuration."),
    Spec::server("command", "2.8.13", -1, "loading stale", command::command)
        .summary("Returns details of all commands.")
        .complexity("O(N), N the number of commands")
        .categories("connection")
        .tips("nondeterministic_output_order")
        .subcommands(COMMAND),
    Spec::server("time", "2.6.0", 1, "loading stale fast no_keys", server::time)
        .summary("Returns the server's time.")
        .tips("nondeterministic_output"),
    Spec::server("monitor", "1.0.0", 1, "admin noscript loading stale", server::monitor)
        .summary("Shows the connection every command that is executed."),
    Spec::server("lolwut", "5.0.0", -1, "readonly fast", server::lolwut)
        .syntax("[VERSION version]")
        .summary("Draws something, and shows the version.")
        .complexity(""),
    Spec::server("shutdown", "1.0.0", -1, "admin noscript loading stale no_multi allow_busy urgent", server::shutdown)
        .syntax("[NOSAVE | SAVE] [NOW] [FORCE] [ABORT]")
        .summary("Ends the server, after saving the data if so configured.")
        .complexity("O(N) when saving, N the number of keys in all databases; otherwise O(1)")
        .history(&[("7.0.0", "Modifiers `NOW`, `FORCE` and `ABORT`.")]),
    Spec::container(Group::Server, "memory", "4.0.0", MEMORY).summary("Container of commands about memory."),
    Spec::server("debug", "1.0.0", -2, "admin noscript loading stale protected reports_data", debug::debug)
        .summary("Container of commands for debugging and tests.")
        .complexity("Depends on the subcommand")
        .syscmd(),
];

static CONFIG: &[Spec] = &[
    Spec::server("get", "2.0.0", -3, "admin noscript loading stale", config::config_get)
        .syntax("parameter [parameter ...]")
        .summary("Returns the parameters that match patterns, and their values.")
        .complexity("O(N), N the number of patterns")
        .history(&[("7.0.0", "Several patterns.")]),
    Spec::server("set", "2.0.0", -4, "admin noscript loading stale", config::config_set)
        .syntax("parameter value [parameter value ...]")
        .summary("Changes parameters of the running server, all or none.")
        .complexity("O(N), N the number of parameters")
        .tips("request_policy:all_nodes response_policy:all_succeeded")
        .history(&[("7.0.0", "Several parameters.")]),
    Spec::server("rewrite", "2.8.0", 2, "admin noscript loading stale remote", config::config_rewrite)
        .summary("Writes the running configuration to the configuration file."),
    Spec::server("resetstat", "2.0.0", 2, "admin noscript loading stale", config::config_resetstat)
        .summary("Sets the statistics that INFO shows to zero."),
    Spec::help(Group::Server, "5.0.0"),
];

static COMMAND: &[Spec] = &[
    Spec::server("count", "2.8.13", 2, "loading stale", command::command_count)
        .summary("Returns the number of commands.")
        .categories("connection"),
    Spec::server("list", "7.0.0", -2, "loading stale", command::command_list)
        .syntax("[FILTERBY <MODULE module-name | ACLCAT category | PATTERN pattern>]")
        .summary("Returns the names of commands.")
        .complexity("O(N), N the number of commands")
        .categories("connection")
        .tips("nondeterministic_output_order"),
    Spec::server("info", "2.8.13", -2, "loading stale", command::command_info)
        .syntax("[command-name [command-name ...]]")
        .summary("Returns details of some commands, or of all.")
        .complexity("O(N), N the number of commands asked for")
        .categories("connection")
        .tips("nondeterministic_output_order")
        .history(&[("7.0.0", "Without names it tells about all commands.")]),
    Spec::server("docs", "7.0.0", -2, "loading stale", command::command_docs)
        .syntax("[command-name [command-name ...]]")
        .summary("Returns the documentation of some commands, or of all.")
        .complexity("O(N), N the number of commands asked for")
        .categories("connection")
        .tips("nondeterministic_output_order"),
    Spec::server("getkeys", "2.8.13", -4, "loading stale", command::command_getkeys)
        .syntax("command [arg [arg ...]]")
        .summary("Finds the keys among a command's arguments.")
        .complexity("O(N), N the number of arguments")
        .categories("connection"),
    Spec::server("getkeysandflags", "7.0.0", -4, "loading stale", command::command_getkeysandflags)
        .syntax("command [arg [arg ...]]")
        .summary("Finds the keys among a command's arguments and tells what happens to them.")
        .complexity("O(N), N the number of arguments")
        .categories("connection"),
    Spec::help(Group::Server, "5.0.0").categories("connection"),
];

static MEMORY: &[Spec] = &[
    Spec::server("doctor", "4.0.0", 2, "", memory::memory_doctor)
        .summary("Reports problems with memory.")
        .tips("nondeterministic_output request_policy:all_shards response_policy:special"),
    Spec::server("malloc-stats", "4.0.0", 2, "", memory::memory_malloc_stats)
        .summary("Returns what the allocator reports about itself.")
        .complexity("Depends on how much memory is allocated")
        .tips("nondeterministic_output request_policy:all_shards response_policy:special"),
    Spec::server("purge", "4.0.0", 2, "", memory::memory_purge)
        .summary("Asks the allocator to give memory back.")
        .complexity("Depends on how much memory is allocated")
        .tips("request_policy:all_shards response_policy:all_succeeded"),
    Spec::server("stats", "4.0.0", 2, "", memory::memory_stats)
        .summary("Returns details of memory usage.")
        .tips("nondeterministic_output request_policy:all_shards response_policy:special"),
    Spec::server("usage", "4.0.0", -3, "readonly", memory::memory_usage)
        .syntax("key [SAMPLES count]")
        .summary("Estimates the memory that a key and its value take.")
        .complexity("O(N), N the number of samples")
        .keys(&[KeySpec::keys("RO", 2, 0, 1)]),
    Spec::help(Group::Server, "4.0.0"),
];
