//! `--cluster help`.

use super::context::Context;
use super::log;
use crate::fail::Fail;

const PLACE: &str = "<host:port> or <host> <port> - separated by either colon or space";

/// Each command, its arguments, and its flags without `--cluster-`.
const COMMANDS: [(&str, &str, &[&str]); 13] = [
    ("create", "host1:port1 ... hostN:portN", &["replicas <arg>"]),
    ("check", PLACE, &["search-multiple-owners"]),
    ("info", PLACE, &[]),
    ("fix", PLACE, &["search-multiple-owners", "fix-with-unreachable-masters"]),
    ("reshard", PLACE, &["from <arg>", "to <arg>", "slots <arg>", "yes", "timeout <arg>", "pipeline <arg>", "replace"]),
    (
        "rebalance",
        PLACE,
        &[
            "weight <node1=w1...nodeN=wN>",
            "use-empty-masters",
            "timeout <arg>",
            "simulate",
            "pipeline <arg>",
            "threshold <arg>",
            "replace",
        ],
    ),
    ("add-node", "new_host:new_port existing_host:existing_port", &["slave", "master-id <arg>"]),
    ("del-node", "host:port node_id", &[]),
    ("call", "host:port command arg arg .. arg", &["only-masters", "only-replicas"]),
    ("set-timeout", "host:port milliseconds", &[]),
    ("import", "host:port", &["from <arg>", "from-user <arg>", "from-pass <arg>", "from-askpass", "copy", "replace"]),
    ("backup", "host:port backup_directory", &[]),
    ("help", "", &[]),
];

/// Shows all commands. The exit code is 1, as redis-cli's is.
///
/// # Errors
/// Always, without a message.
pub fn run(_: &Context<'_>) -> Result<(), Fail> {
    let mut text = "Cluster Manager Commands:\n".to_owned();
    for (name, args, flags) in COMMANDS {
        text += &format!("  {name:<15}{args}\n");
        flags.iter().for_each(|flag| text += &format!("                 --cluster-{flag}\n"));
    }
    text += "\nThe commands that take <host:port>, and del-node, set-timeout, call, import and backup, may name any \
             node of the cluster.\n\nCluster Manager Options:\n  --cluster-yes  Automatic yes to cluster commands \
             prompts\n\n";
    log::plain(text);
    Err(Fail::silent())
}
