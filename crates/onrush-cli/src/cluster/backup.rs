//! `--cluster backup`: the data of each primary as an RDB file, and the nodes as JSON.

use std::io::Write;
use std::path::Path;

use serde_json::json;

use super::check::{self, Check};
use super::context::Context;
use super::log::{self, told};
use super::node::Node;
use super::slots::runs;
use super::view::Cluster;
use crate::fail::{Fail, system_message};
use crate::replacement::OutputFile;
use crate::replica;
use crate::target::Target;

/// Runs the command. A cluster with problems is backed up all the same.
///
/// # Errors
/// When a node is gone or refuses, or a file cannot be written.
pub fn run(context: &Context<'_>) -> Result<(), Fail> {
    let mut cluster = context.load()?;
    let is_sound = check::check(context, &mut cluster, Check::default())?;
    let folder = Path::new(&context.args[1]);
    for index in cluster.primaries() {
        save(&cluster.nodes[index], folder)?;
    }
    let file = folder.join("nodes.json");
    log::info(format!("Saving cluster configuration to: {}\n", file.display()));
    let written = OutputFile::open(&file).and_then(|mut out| {
        out.write_all(description(&cluster).as_bytes())?;
        out.finish()
    });
    written.map_err(|error| {
        Fail::new(format!("Could not save nodes to: {}: {}", file.display(), system_message(&error)))
    })?;
    if !is_sound {
        log::warn(
            "*** Cluster seems to have some problems, please be aware of it if you're going to restore this backup.\n",
        );
    }
    log::success(format!("[OK] Backup created into: {}\n", context.args[1]));
    Ok(())
}

/// Copies the data of a node.
fn save(node: &Node, folder: &Path) -> Result<(), Fail> {
    log::info(format!(">>> Node {} -> Saving RDB...\n", node.place()));
    let Target { host, port, .. } = &node.target;
    let file = folder.join(format!("redis-node-{host}-{port}-{}.rdb", node.own.id));
    // The node may need long to write its data before it sends the first byte.
    let target = Target { read_timeout: None, ..node.target.clone() };
    replica::save(&target, &file, false).map_err(told)
}

/// The nodes as redis-cli writes them: a list of objects, two blanks before each brace.
fn description(cluster: &Cluster) -> String {
    let nodes: Vec<String> = cluster.nodes.iter().map(described).collect();
    format!("[\n{}\n]", nodes.join(",\n"))
}

fn described(node: &Node) -> String {
    let open = |list: &[super::nodes_text::OpenSlot]| {
        let pairs: Vec<String> =
            list.iter().map(|one| format!("{}: {}", json!(one.slot.to_string()), json!(one.peer))).collect();
        format!("{{{}}}", pairs.join(","))
    };
    let runs: Vec<String> = runs(&node.own.slots).iter().map(|(first, last)| format!("[{first},{last}]")).collect();
    let mut fields = vec![
        ("name", json!(node.own.id).to_string()),
        ("host", json!(node.target.host).to_string()),
        ("port", node.target.port.to_string()),
        ("replicate", json!(node.own.replicates).to_string()),
        ("slots", format!("[{}]", runs.join(","))),
        ("slots_count", node.own.slots.len().to_string()),
        ("flags", json!(node.own.flags.join(",")).to_string()),
        ("current_epoch", node.own.epoch.to_string()),
    ];
    for (name, list) in [("migrating", &node.own.migrating), ("importing", &node.own.importing)] {
        if !list.is_empty() {
            fields.push((name, open(list)));
        }
    }
    let lines: Vec<String> = fields.iter().map(|(name, value)| format!("    \"{name}\": {value}")).collect();
    format!("  {{\n{}\n  }}", lines.join(",\n"))
}
