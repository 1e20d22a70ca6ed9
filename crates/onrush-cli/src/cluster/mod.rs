//! `--cluster`: making, checking and changing a Redis Cluster.
//!
//! [`settings`] is what the command line says. [`view`] finds the nodes, [`node`] is one of them. [`plan`] decides from
//! facts alone; the other files are a command each, or what several commands do ([`check`], [`fix`], [`migrate`]). What is
//! told stands in [`log`]; it is redis-cli's, since scripts read it.

mod add_node;
mod address;
mod backup;
mod call;
mod check;
mod context;
mod create;
mod del_node;
mod fix;
mod help;
mod import;
mod info;
mod log;
mod migrate;
mod node;
mod nodes_text;
mod plan;
mod prompt;
mod rebalance;
mod reshard;
mod set_timeout;
pub mod settings;
mod slots;
mod view;

use self::context::Context;
use crate::args::Options;
use crate::fail::Fail;

/// How many arguments a command takes.
#[derive(Clone, Copy)]
enum Count {
    Exactly(usize),
    AtLeast(usize),
}

type Run = fn(&Context<'_>) -> Result<(), Fail>;

const COMMANDS: [(&str, Count, Run); 13] = [
    ("create", Count::AtLeast(1), create::run),
    ("check", Count::AtLeast(1), check::run),
    ("info", Count::AtLeast(1), info::run),
    ("fix", Count::AtLeast(1), fix::run),
    ("reshard", Count::AtLeast(1), reshard::run),
    ("rebalance", Count::AtLeast(1), rebalance::run),
    ("add-node", Count::Exactly(2), add_node::run),
    ("del-node", Count::Exactly(2), del_node::run),
    ("call", Count::AtLeast(2), call::run),
    ("set-timeout", Count::Exactly(2), set_timeout::run),
    ("import", Count::Exactly(1), import::run),
    ("backup", Count::Exactly(2), backup::run),
    ("help", Count::AtLeast(0), help::run),
];

/// Runs the command.
///
/// # Errors
/// When it did not do all that it was to do.
pub fn run(options: &Options) -> Result<(), Fail> {
    let settings = &options.cluster;
    let (name, args) = settings.words.split_first().ok_or_else(|| Fail::new("Unknown --cluster subcommand"))?;
    let known = COMMANDS.iter().find(|(known, ..)| known == name);
    let (_, count, run) = known.ok_or_else(|| Fail::new("Unknown --cluster subcommand"))?;
    let fits = match count {
        Count::Exactly(count) => args.len() == *count,
        Count::AtLeast(count) => args.len() >= *count,
    };
    if !fits {
        return Err(Fail::new("[ERR] Wrong number of arguments for specified --cluster sub command"));
    }
    run(&Context { options, settings, args }).map_err(|error| {
        let message = error.to_string();
        if !message.is_empty() {
            log::error(message + "\n");
        }
        Fail::silent()
    })
}
