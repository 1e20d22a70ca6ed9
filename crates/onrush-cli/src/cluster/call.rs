//! `--cluster call`: the same command on every node.

use super::context::Context;
use super::log;
use super::node::Node;
use crate::fail::Fail;
use crate::format;

/// Runs the command.
///
/// # Errors
/// When the cluster cannot be reached. What single nodes reply is shown.
pub fn run(context: &Context<'_>) -> Result<(), Fail> {
    let mut cluster = context.load()?;
    let words = &context.args[1..];
    log::info(">>> Calling");
    log::plain(format!(" {}\n", words.join(" ")));
    let settings = context.settings;
    for node in &mut cluster.nodes {
        let is_left_out = if node.is_replica() { settings.only_primaries } else { settings.only_replicas };
        if !is_left_out {
            call(node, words);
        }
    }
    Ok(())
}

fn call(node: &mut Node, words: &[String]) {
    let place = node.place();
    match node.call(words) {
        Ok(reply) => {
            let mut shown = format!("{place}: ").into_bytes();
            format::raw(&mut shown, &reply, b"\n");
            shown.push(b'\n');
            log::plain(shown);
        }
        Err(error) => {
            complain!("{error}");
            log::plain(format!("{place}: Failed!\n"));
        }
    }
}
