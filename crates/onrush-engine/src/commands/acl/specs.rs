//! Rows of the command table: the commands about users, and about modules.

use crate::command::spec::{Group, Spec};
use crate::commands::acl::{self, changing, log};
use crate::commands::server::modules;

/// The commands about users, and about modules.
pub(crate) static SPECS: &[Spec] = &[
    Spec::container(Group::Server, "acl", "6.0.0", ACL)
        .summary("Container of commands about users and what they may do."),
    Spec::container(Group::Server, "module", "4.0.0", MODULE).summary("Container of commands about modules."),
];

static ACL: &[Spec] = &[
    Spec::server("cat", "6.0.0", -2, "noscript loading stale", acl::acl_cat)
        .syntax("[category]")
        .summary("Returns the categories of commands, or the commands of one.")
        .complexity("O(1), or O(N) with a category, N the number of commands"),
    Spec::server("deluser", "6.0.0", -3, "admin noscript loading stale", changing::acl_deluser)
        .syntax("username [username ...]")
        .summary("Removes users and closes their connections.")
        .complexity("O(N), N the number of users given")
        .tips("request_policy:all_nodes response_policy:all_succeeded"),
    Spec::server("dryrun", "7.0.0", -4, "admin noscript loading stale", acl::acl_dryrun)
        .syntax("username command [arg [arg ...]]")
        .summary("Tells whether a user may execute a command, without executing it."),
    Spec::server("genpass", "6.0.0", -2, "noscript loading stale", acl::acl_genpass)
        .syntax("[bits]")
        .summary("Returns a random password."),
    Spec::server("getuser", "6.0.0", 3, "admin noscript loading stale", acl::acl_getuser)
        .syntax("username")
        .summary("Returns the rules of a user.")
        .history(&[("6.2.0", "Patterns of channels."), ("7.0.0", "Selectors; keys and channels as rules.")]),
    Spec::help(Group::Server, "6.0.0"),
    Spec::server("list", "6.0.0", 2, "admin noscript loading stale", acl::acl_list)
        .summary("Returns all users with their rules.")
        .complexity("O(N), N the number of users"),
    Spec::server("load", "6.0.0", 2, "admin noscript loading stale", changing::acl_load)
        .summary("Reads the users anew from the ACL file.")
        .complexity("O(N), N the number of users"),
    Spec::server("log", "6.0.0", -2, "admin noscript loading stale", log::acl_log)
        .syntax("[count | RESET]")
        .summary("Returns what was denied lately, or forgets it.")
        .complexity("O(N), N the number of entries")
        .history(&[("7.2.0", "Fields `entry-id`, `timestamp-created` and `timestamp-last-updated`.")]),
    Spec::server("save", "6.0.0", 2, "admin noscript loading stale", changing::acl_save)
        .summary("Writes the users to the ACL file.")
        .complexity("O(N), N the number of users")
        .tips("request_policy:all_nodes response_policy:all_succeeded"),
    Spec::server("setuser", "6.0.0", -3, "admin noscript loading stale", changing::acl_setuser)
        .syntax("username [rule [rule ...]]")
        .summary("Creates a user, or changes one.")
        .complexity("O(N), N the number of rules")
        .tips("request_policy:all_nodes response_policy:all_succeeded")
        .history(&[("6.2.0", "Patterns of channels."), ("7.0.0", "Selectors; keys by what happens to them.")]),
    Spec::server("users", "6.0.0", 2, "admin noscript loading stale", acl::acl_users)
        .summary("Returns the names of all users.")
        .complexity("O(N), N the number of users"),
    Spec::server("whoami", "6.0.0", 2, "noscript loading stale", acl::acl_whoami)
        .summary("Returns the name of the connection's user."),
];

static MODULE: &[Spec] = &[
    Spec::help(Group::Server, "5.0.0"),
    Spec::server("list", "4.0.0", 2, "admin noscript", |ctx| ctx.reply_empty())
        .summary("Returns the modules that are loaded.")
        .complexity("O(N), N the number of modules")
        .tips("nondeterministic_output_order"),
    Spec::server("load", "4.0.0", -3, "admin noscript no_async_loading", modules::module_refused)
        .syntax("path [arg [arg ...]]")
        .summary("Loads a module."),
    Spec::server("loadex", "7.0.0", -3, "admin noscript no_async_loading", modules::module_refused)
        .syntax("path [CONFIG name value [CONFIG name value ...]] [ARGS args [args ...]]")
        .summary("Loads a module and sets its parameters."),
    Spec::server("unload", "4.0.0", 3, "admin noscript no_async_loading", modules::module_refused)
        .syntax("name")
        .summary("Removes a module."),
];
