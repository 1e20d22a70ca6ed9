//! The flags, defined once: parsing, `--help`, the man page and the completions of shells are made from this.

use clap::{Arg, ArgAction, Command, ValueHint, value_parser};
use clap_complete::Shell;
use std::ffi::OsString;

/// Below `--help`.
const EXAMPLES: &str = "\
Without a command, commands are read from standard input, line by line; at a terminal with
history, completion and hints (type \"help\" there).

Environment: REDISCLI_AUTH, REDISCLI_CLUSTER_YES=1, REDISCLI_HISTFILE, REDISCLI_RCFILE, NO_COLOR, FAKETTY.

Examples:
  onrush-cli -x set motd < /etc/motd
  onrush-cli --scan --pattern 'user:*'
  onrush-cli --pipe < commands.resp
  onrush-cli --pipe --from csv --csv-header --template 'SET user:{id} \"{name}\"' < users.csv
  onrush-cli --cluster create h1:7000 h2:7000 h3:7000
  onrush-cli --completions bash > /usr/share/bash-completion/completions/onrush-cli
";

/// The definition. The first word that is not a flag and all words after it are the command, whatever they look like.
pub fn command() -> Command {
    let command = Command::new("onrush-cli")
        .version(env!("CARGO_PKG_VERSION"))
        .about("A command line for Redis-compatible servers")
        .override_usage("onrush-cli [flags] [command [argument ...]]")
        .after_help(EXAMPLES)
        .disable_help_flag(true)
        .disable_version_flag(true)
        .args_override_self(true)
        .arg(Arg::new("words").hide(true).num_args(0..).trailing_var_arg(true).value_parser(value_parser!(OsString)));
    let command = server(command);
    let command = cluster(command_itself(command));
    let command = output(command);
    let command = insertion(command);
    let command = keys(command);
    let command = health(command);
    about(replication(command))
}

/// A flag of one letter, or of a long name.
fn named(name: &'static str, help: &'static str) -> Arg {
    let arg = Arg::new(name).help(help);
    if name.len() == 1 { arg.short(name.chars().next()) } else { arg.long(name) }
}

/// A flag that stands alone.
fn alone(name: &'static str, help: &'static str) -> Arg {
    named(name, help).action(ArgAction::SetTrue)
}

/// A flag with a value, which may start with a hyphen.
fn with(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    let arg = named(name, help).value_name(value).allow_hyphen_values(true).value_parser(value_parser!(OsString));
    match value {
        "FILE" | "SOCKET" => arg.value_hint(ValueHint::FilePath),
        "FOLDER" => arg.value_hint(ValueHint::DirPath),
        "HOST" => arg.value_hint(ValueHint::Hostname),
        _ => arg,
    }
}

fn server(command: Command) -> Command {
    command.next_help_heading("Server").args([
        with("h", "HOST", "Name or address of the server (127.0.0.1)"),
        with("p", "PORT", "Its port (6379)"),
        with("s", "SOCKET", "A Unix socket instead of host and port"),
        with("u", "URL", "redis://[[user]:password@]host[:port][/db], rediss://... or redis+unix:///path"),
        with("t", "SECONDS", "How long connecting may take"),
        with("pass", "PASSWORD", "Log in. Safer: the environment variable REDISCLI_AUTH").short('a'),
        with("user", "NAME", "Log in as this user; needs a password"),
        alone("askpass", "Ask for the password at the terminal"),
        alone("no-auth-warning", "Do not warn of a password on the command line"),
        with("n", "NUMBER", "Database"),
        alone("4", "Use IPv4 addresses only"),
        alone("6", "Use IPv6 addresses only"),
        alone("2", "Speak RESP2 (the default)"),
        alone("3", "Speak RESP3"),
        alone("tls", "Encrypt (needs a build with TLS)"),
        with("sni", "NAME", "The name to ask for, when it is not the host's"),
        with("cacert", "FILE", "Certificates to trust"),
        with("cacertdir", "FOLDER", "A folder of certificates to trust"),
        with("cert", "FILE", "Our certificate"),
        with("key", "FILE", "Our private key"),
        alone("insecure", "Trust any certificate"),
        with("tls-ciphers", "LIST", "Only these ciphers with TLS 1.2: names of OpenSSL or IANA, with : between them"),
        with("tls-ciphersuites", "LIST", "Only these with TLS 1.3"),
    ])
}

fn command_itself(command: Command) -> Command {
    command.next_help_heading("Command").args([
        with("r", "COUNT", "Run it so many times, -1 for ever"),
        with("i", "SECONDS", "Pause between two runs, samples or cycles; fractions are fine"),
        alone("x", "Standard input is the last argument"),
        with("X", "TAG", "Standard input takes the place of the argument TAG"),
        alone("quoted-input", "Arguments are written in quotes: '\"a\\x00b\"'"),
        alone("c", "Go where a cluster's MOVED and ASK send"),
        alone("e", "End with 1 when the server answers with an error"),
        with("eval", "FILE", "Run a script: --eval FILE key ... , argument ..."),
        alone("ldb", "Run that script in the server's debugger, if it has one, on a copy of the data"),
        alone("ldb-sync-mode", "The same on the data itself, while the server does nothing else"),
    ])
}

/// Words up to the next flag.
fn with_words(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    named(name, help).value_name(value).num_args(1..).value_parser(value_parser!(OsString))
}

fn cluster(command: Command) -> Command {
    command.next_help_heading("Redis Cluster").args([
        with_words(
            "cluster",
            "COMMAND",
            "create, check, info, fix, reshard, rebalance, add-node, del-node, call, set-timeout, import or backup, with \
             addresses host:port; --cluster help shows the arguments and flags of each",
        ),
        alone("cluster-yes", "Do not ask, but in fix"),
        with("cluster-replicas", "N", "create: replicas of each primary (0)"),
        with("cluster-from", "IDS", "reshard: ids of nodes that give slots, or all. import: host:port"),
        with("cluster-to", "ID", "reshard: the node that gets slots"),
        with("cluster-slots", "N", "reshard: how many slots"),
        with("cluster-timeout", "MS", "reshard, rebalance, fix, import: how long one MIGRATE may take (60000)"),
        with("cluster-pipeline", "N", "reshard, rebalance, fix: keys that one MIGRATE moves (10)"),
        alone("cluster-replace", "reshard, rebalance, fix, import: overwrite keys that are there"),
        with_words("cluster-weight", "ID=W", "rebalance: the shares of nodes (1)").action(ArgAction::Append),
        alone("cluster-use-empty-masters", "rebalance: nodes without slots get some"),
        with("cluster-threshold", "PERCENT", "rebalance: how far from its share a node may be (2)"),
        alone("cluster-simulate", "rebalance: move nothing, only show"),
        alone("cluster-slave", "add-node: as a replica"),
        with("cluster-master-id", "ID", "add-node: of this primary"),
        alone("cluster-search-multiple-owners", "check, fix: look for slots that several nodes claim"),
        alone("cluster-fix-with-unreachable-masters", "fix: although primaries cannot be reached"),
        alone("cluster-only-masters", "call: primaries only"),
        alone("cluster-only-replicas", "call: replicas only"),
        alone("cluster-copy", "import: leave the keys where they are"),
        with("cluster-from-user", "NAME", "import: the login at the source"),
        with("cluster-from-pass", "PASSWORD", "import: its password"),
        alone("cluster-from-askpass", "import: ask for its password at the terminal"),
    ])
}

fn output(command: Command) -> Command {
    command.next_help_heading("Output").args([
        alone("raw", "The bytes alone (the default into files and pipes)"),
        alone("no-raw", "Laid out for people (the default at a terminal)"),
        with("d", "TEXT", "Between the elements of a raw reply (newline)"),
        with("D", "TEXT", "After a raw reply (newline)"),
        alone("csv", "Comma-separated values"),
        alone("json", "JSON, by RESP3 unless -2 is given"),
        alone("quoted-json", "The same in ASCII alone"),
        with("show-pushes", "yes|no", "Show messages that come unasked"),
        alone("verbose", "Tell on standard error of connections, logins, redirects and how long commands take"),
    ])
}

fn insertion(command: Command) -> Command {
    command.next_help_heading("Mass insertion").args([
        alone("pipe", "Send what standard input holds (commands as the protocol or as lines); count the replies"),
        with("pipe-timeout", "SECONDS", "Give up when no reply comes for so long after the last command (30; 0 never)"),
        with("from", "csv|jsonl", "Standard input holds records, which become commands by --template"),
        with("template", "COMMAND", "For instance 'SET user:{0} \"{1}\"' or 'HSET {id} name {name}'; {{ is a brace"),
        alone("csv-header", "The first CSV record names the columns"),
    ])
}

fn keys(command: Command) -> Command {
    command.next_help_heading("Keys").args([
        alone("scan", "List the keys"),
        alone("bigkeys", "The biggest key of each type, by elements"),
        alone("memkeys", "The biggest key of each type, by memory"),
        with("memkeys-samples", "N", "As --memkeys, with N elements of each key sampled; 0 means all"),
        alone("keystats", "Memory and elements of the keys: the biggest, by type, and how sizes are distributed"),
        with("keystats-samples", "N", "As --keystats, with N elements of each key sampled; 0 means all"),
        with("top", "N", "How many of the biggest keys --keystats lists (10)"),
        with("cursor", "N", "Where --keystats starts, as an interrupted one told"),
        alone("hotkeys", "The keys used most; the server needs an LFU policy"),
        with("pattern", "GLOB", "Scan the keys that match"),
        with("quoted-pattern", "GLOB", "The same, written in quotes"),
        with("count", "N", "How much is scanned at once"),
        with("type", "TYPE", "Scan the keys of one type"),
    ])
}

fn health(command: Command) -> Command {
    command.next_help_heading("Server's health").args([
        alone("stat", "A line of figures every second"),
        alone("latency", "Round-trip times until interrupted; for a second when standard output is no terminal"),
        alone("latency-history", "The same, a line every 15 seconds"),
        alone("latency-dist", "The same as a spectrum of colors"),
        with("intrinsic-latency", "SECONDS", "The longest pause this machine makes by itself within so many seconds"),
        with("lru-test", "KEYS", "Hits and misses of a cache with an 80-20 load"),
    ])
}

fn replication(command: Command) -> Command {
    command.next_help_heading("Replication").args([
        with("rdb", "FILE", "Copy the data set; - is standard output"),
        with("functions-rdb", "FILE", "Copy the functions alone"),
        alone("replica", "Show the commands a replica receives").alias("slave"),
    ])
}

fn about(command: Command) -> Command {
    command.next_help_heading("This program").args([
        alone("docs-table", "The server's commands as the table this program has built in"),
        named("completions", "Completions for a shell").value_name("SHELL").value_parser(value_parser!(Shell)),
        alone("man", "The man page"),
        alone("help", "This text"),
        alone("version", "The version").short('v'),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_holds_together() {
        command().debug_assert();
    }
}
