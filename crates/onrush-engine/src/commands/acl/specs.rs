//! Rows of the command table: the commands about users, and about modules.

use crate::command::spec::{Group, Spec, flags};
use crate::commands::acl;
use crate::commands::server::modules;

/// The commands about users, and about modules.
pub static SPECS: &[Spec] = &[
    Spec {
        name: "acl",
        arity: -2,
        group: Group::Server,
        since: "6.0.0",
        complexity: "Depends on the subcommand",
        summary: "Container of commands about users and what they may do.",
        subcommands: &[
            Spec {
                name: "cat",
                arity: -2,
                flags: flags("noscript loading stale"),
                group: Group::Server,
                since: "6.0.0",
                complexity: "O(1), or O(N) with a category, N the number of commands",
                summary: "Returns the categories of commands, or the commands of one.",
                syntax: "[category]",
                handler: acl::acl_cat,
                ..Spec::DEFAULT
            },
            Spec {
                name: "deluser",
                arity: -3,
                flags: flags("admin noscript loading stale"),
                tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
                group: Group::Server,
                since: "6.0.0",
                complexity: "O(N), N the number of users given",
                summary: "Removes users and closes their connections.",
                syntax: "username [username ...]",
                handler: acl::acl_deluser,
                ..Spec::DEFAULT
            },
            Spec {
                name: "dryrun",
                arity: -4,
                flags: flags("admin noscript loading stale"),
                group: Group::Server,
                since: "7.0.0",
                summary: "Tells whether a user may execute a command, without executing it.",
                syntax: "username command [arg [arg ...]]",
                handler: acl::acl_dryrun,
                ..Spec::DEFAULT
            },
            Spec {
                name: "genpass",
                arity: -2,
                flags: flags("noscript loading stale"),
                group: Group::Server,
                since: "6.0.0",
                summary: "Returns a random password.",
                syntax: "[bits]",
                handler: acl::acl_genpass,
                ..Spec::DEFAULT
            },
            Spec {
                name: "getuser",
                arity: 3,
                flags: flags("admin noscript loading stale"),
                group: Group::Server,
                since: "6.0.0",
                summary: "Returns the rules of a user.",
                syntax: "username",
                history: &[("6.2.0", "Patterns of channels."), ("7.0.0", "Selectors; keys and channels as rules.")],
                handler: acl::acl_getuser,
                ..Spec::DEFAULT
            },
            Spec {
                name: "help",
                arity: 2,
                flags: flags("loading stale"),
                group: Group::Server,
                since: "6.0.0",
                summary: "Returns help on the subcommands.",
                handler: acl::acl_help,
                ..Spec::DEFAULT
            },
            Spec {
                name: "list",
                arity: 2,
                flags: flags("admin noscript loading stale"),
                group: Group::Server,
                since: "6.0.0",
                complexity: "O(N), N the number of users",
                summary: "Returns all users with their rules.",
                handler: acl::acl_list,
                ..Spec::DEFAULT
            },
            Spec {
                name: "load",
                arity: 2,
                flags: flags("admin noscript loading stale"),
                group: Group::Server,
                since: "6.0.0",
                complexity: "O(N), N the number of users",
                summary: "Reads the users anew from the ACL file.",
                handler: acl::acl_file,
                ..Spec::DEFAULT
            },
            Spec {
                name: "log",
                arity: -2,
                flags: flags("admin noscript loading stale"),
                group: Group::Server,
                since: "6.0.0",
                complexity: "O(N), N the number of entries",
                summary: "Returns what was denied lately, or forgets it.",
                syntax: "[count | RESET]",
                history: &[("7.2.0", "Fields `entry-id`, `timestamp-created` and `timestamp-last-updated`.")],
                handler: acl::log::acl_log,
                ..Spec::DEFAULT
            },
            Spec {
                name: "save",
                arity: 2,
                flags: flags("admin noscript loading stale"),
                tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
                group: Group::Server,
                since: "6.0.0",
                complexity: "O(N), N the number of users",
                summary: "Writes the users to the ACL file.",
                handler: acl::acl_file,
                ..Spec::DEFAULT
            },
            Spec {
                name: "setuser",
                arity: -3,
                flags: flags("admin noscript loading stale"),
                tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
                group: Group::Server,
                since: "6.0.0",
                complexity: "O(N), N the number of rules",
                summary: "Creates a user, or changes one.",
                syntax: "username [rule [rule ...]]",
                history: &[("6.2.0", "Patterns of channels."), ("7.0.0", "Selectors; keys by what happens to them.")],
                handler: acl::acl_setuser,
                ..Spec::DEFAULT
            },
            Spec {
                name: "users",
                arity: 2,
                flags: flags("admin noscript loading stale"),
                group: Group::Server,
                since: "6.0.0",
                complexity: "O(N), N the number of users",
                summary: "Returns the names of all users.",
                handler: acl::acl_users,
                ..Spec::DEFAULT
            },
            Spec {
                name: "whoami",
                arity: 2,
                flags: flags("noscript loading stale"),
                group: Group::Server,
                since: "6.0.0",
                summary: "Returns the name of the connection's user.",
                handler: acl::acl_whoami,
                ..Spec::DEFAULT
            },
        ],
        ..Spec::DEFAULT
    },
    Spec {
        name: "module",
        arity: -2,
        group: Group::Server,
        since: "4.0.0",
        complexity: "Depends on the subcommand",
        summary: "Container of commands about modules.",
        subcommands: &[
            Spec {
                name: "help",
                arity: 2,
                flags: flags("loading stale"),
                group: Group::Server,
                since: "5.0.0",
                summary: "Returns help on the subcommands.",
                handler: modules::module_help,
                ..Spec::DEFAULT
            },
            Spec {
                name: "list",
                arity: 2,
                flags: flags("admin noscript"),
                tips: &["nondeterministic_output_order"],
                group: Group::Server,
                since: "4.0.0",
                complexity: "O(N), N the number of modules",
                summary: "Returns the modules that are loaded.",
                handler: modules::module_list,
                ..Spec::DEFAULT
            },
            Spec {
                name: "load",
                arity: -3,
                flags: flags("admin noscript no_async_loading"),
                group: Group::Server,
                since: "4.0.0",
                summary: "Loads a module.",
                syntax: "path [arg [arg ...]]",
                handler: modules::module_refused,
                ..Spec::DEFAULT
            },
            Spec {
                name: "loadex",
                arity: -3,
                flags: flags("admin noscript no_async_loading"),
                group: Group::Server,
                since: "7.0.0",
                summary: "Loads a module and sets its parameters.",
                syntax: "path [CONFIG name value [CONFIG name value ...]] [ARGS args [args ...]]",
                handler: modules::module_refused,
                ..Spec::DEFAULT
            },
            Spec {
                name: "unload",
                arity: 3,
                flags: flags("admin noscript no_async_loading"),
                group: Group::Server,
                since: "4.0.0",
                summary: "Removes a module.",
                syntax: "name",
                handler: modules::module_refused,
                ..Spec::DEFAULT
            },
        ],
        ..Spec::DEFAULT
    },
];
