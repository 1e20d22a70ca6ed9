//! `--cluster import`: moves or copies all keys of a server that is in no cluster.

use std::time::Duration;

use super::address::Address;
use super::check::{self, Check};
use super::context::Context;
use super::log::{self, told};
use super::migrate;
use super::node::Node;
use super::slots::slot_of;
use super::view::Cluster;
use crate::args::Options;
use crate::askpass;
use crate::fail::Fail;
use crate::scan::Cursor;
use crate::target::Target;

/// How many keys one SCAN looks at.
const SCAN_COUNT: i64 = 1_000;

/// Runs the command.
///
/// # Errors
/// When the cluster has problems, a server is gone or refuses, or a key is there already.
pub fn run(context: &Context<'_>) -> Result<(), Fail> {
    let (known, source) = (context.address()?, source(context)?);
    log::info(format!(
        ">>> Importing data from {}:{} to cluster {}:{}\n",
        source.host, source.port, known.host, known.port
    ));
    let mut cluster = Cluster::load(context, &known)?;
    check::sound(context, &mut cluster, Check::default(), "")?;
    let mut from = Node::open(&login(context)?, &source).map_err(|error| told(format!("{error}.")))?;
    if from.ask(&["INFO"])?.text().contains("cluster_enabled:1") {
        return Err(Fail::new("[ERR] The source node should not be a cluster node."));
    }
    log::warn(format!("*** Importing {} keys from DB 0\n", from.size()?));
    all_keys(context, &cluster, &mut from)
}

fn source(context: &Context<'_>) -> Result<Address, Fail> {
    let Some(from) = &context.settings.from else {
        return Err(told("[ERR] Option '--cluster-from' is required for subcommand 'import'."));
    };
    let invalid = "[ERR] Invalid --cluster-from host. You need to pass a valid address (ie. 120.0.0.1:7000).";
    Address::parse(from).ok_or_else(|| told(invalid))
}

/// The login at the source: its own one.
fn login(context: &Context<'_>) -> Result<Target, Fail> {
    let login = &context.settings.from_login;
    let password = if login.ask { Some(askpass::read()?) } else { login.password.clone() };
    Ok(Target { user: login.user.clone(), password, ..context.options.target.clone() })
}

fn all_keys(context: &Context<'_>, cluster: &Cluster, from: &mut Node) -> Result<(), Fail> {
    let options = Options { scan_count: Some(SCAN_COUNT), pattern: None, scan_type: None, ..context.options.clone() };
    let mut cursor = Cursor::new(&options);
    while let Some(keys) = cursor.next(from.connection())? {
        for key in keys {
            one_key(context, cluster, from, &key)?;
        }
    }
    Ok(())
}

fn one_key(context: &Context<'_>, cluster: &Cluster, from: &mut Node, key: &[u8]) -> Result<(), Fail> {
    let slot = slot_of(key);
    let owner = cluster.nodes.iter().find(|node| node.own.slots.contains(&slot));
    let owner = owner.ok_or_else(|| Fail::new(format!("[ERR] Slot {slot} is not served.")))?;
    log::plain(format!("Migrating {} to {}: ", String::from_utf8_lossy(key), owner.place()));
    let settings = context.settings;
    let mut words = migrate::command(&owner.target, key, settings.timeout_ms);
    words.extend(settings.copy.then(|| b"COPY".to_vec()));
    words.extend(settings.replace.then(|| b"REPLACE".to_vec()));
    let reply = from.call_long(&words, Duration::from_millis(settings.timeout_ms))?;
    if let Some(error) = reply.error() {
        return Err(Fail::new(format!("Source {} replied with error:\n{error}", from.place())));
    }
    log::plain("OK\n");
    Ok(())
}
