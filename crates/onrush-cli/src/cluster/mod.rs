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

use std::ops::RangeInclusive;

use self::context::Context;
use crate::args::Options;
use crate::fail::Fail;

/// No limit to the number of arguments.
const MANY: usize = usize::MAX;

type Run = fn(&Context<'_>) -> Result<(), Fail>;

/// Each command, and how many arguments it takes.
const COMMANDS: [(&str, RangeInclusive<usize>, Run); 13] = [
    ("create", 1..=MANY, create::run),
    ("check", 1..=MANY, check::run),
    ("info", 1..=MANY, info::run),
    ("fix", 1..=MANY, fix::run),
    ("reshard", 1..=MANY, reshard::run),
    ("rebalance", 1..=MANY, rebalance::run),
    ("add-node", 2..=2, add_node::run),
    ("del-node", 2..=2, del_node::run),
    ("call", 2..=MANY, call::run),
    ("set-timeout", 2..=2, set_timeout::run),
    ("import", 1..=1, import::run),
    ("backup", 2..=2, backup::run),
    ("help", 0..=MANY, help::run),
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
    if !count.contains(&args.len()) {
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
