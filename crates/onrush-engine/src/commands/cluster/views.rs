//! Commands that show what this node knows of the cluster.

use std::sync::atomic::Ordering::Relaxed;

use onrush_cluster::cluster::view::{Health, LinkView, NodeView, RouteNode, ShardView, SlotsView};
use onrush_cluster::cluster::{Cluster, Endpoint};

use crate::cluster::facts::Facts;
use crate::cluster::routes::{endpoint, port_for};
use crate::command::replies;
use crate::commands::cluster::cluster;
use crate::commands::reply::Fields;
use crate::ctx::{CommandResult, Ctx};
use crate::error::CommandError;

/// `CLUSTER INFO`
pub(crate) fn info(ctx: &mut Ctx<'_>) -> CommandResult {
    let cluster = cluster(ctx)?;
    // A node whose bus stands still executes nothing.
    let is_served = cluster.routes().is_up && !cluster.is_stopped();
    let mut text = cluster.node.lock()?.cluster.info_text(is_served);
    let dropped = cluster.links_over_limit.load(Relaxed);
    text.push_str(&format!("total_cluster_links_buffer_limit_exceeded:{dropped}\r\n"));
    ctx.reply_text(text.as_bytes())
}

/// `CLUSTER NODES`
pub(crate) fn nodes(ctx: &mut Ctx<'_>) -> CommandResult {
    let text = cluster(ctx)?.node.lock()?.cluster.nodes_text();
    ctx.reply_text(text.as_bytes())
}

/// `CLUSTER REPLICAS node-id`, also as SLAVES
pub(crate) fn replicas(ctx: &mut Ctx<'_>) -> CommandResult {
    let id = String::from_utf8_lossy(ctx.arg(2)).into_owned();
    let lines = cluster(ctx)?.node.lock()?.cluster.replicas_text(&id).map_err(CommandError::text)?;
    ctx.out.array(lines.len());
    lines.iter().for_each(|line| ctx.out.bulk(line.as_bytes()));
    Ok(())
}

/// `CLUSTER MYID`
pub(crate) fn myid(ctx: &mut Ctx<'_>) -> CommandResult {
    let id = cluster(ctx)?.node.lock()?.cluster.my_id();
    ctx.reply_bulk(id.as_bytes())
}

/// `CLUSTER MYSHARDID`
pub(crate) fn myshardid(ctx: &mut Ctx<'_>) -> CommandResult {
    let id = cluster(ctx)?.node.lock()?.cluster.my_shard_id();
    ctx.reply_bulk(id.as_bytes())
}

/// `CLUSTER COUNT-FAILURE-REPORTS node-id`
pub(crate) fn count_failure_reports(ctx: &mut Ctx<'_>) -> CommandResult {
    let id = String::from_utf8_lossy(ctx.arg(2)).into_owned();
    let now = Facts(ctx.engine).now();
    let count = cluster(ctx)?.node.lock()?.cluster.count_failure_reports(&id, now).map_err(CommandError::text)?;
    ctx.reply_int(count as i64)
}

/// `CLUSTER SLOTS`
pub(crate) fn slots(ctx: &mut Ctx<'_>) -> CommandResult {
    let (views, preferred) = {
        let state = cluster(ctx)?.node.lock()?;
        (state.cluster.slots(), preferred(&state.cluster))
    };
    ctx.out.array(views.len());
    for SlotsView { slots, nodes } in views {
        ctx.out.array(2 + nodes.len());
        ctx.out.int((*slots.start()).into());
        ctx.out.int((*slots.end()).into());
        nodes.iter().for_each(|node| node_of_slots(ctx, &node.at, preferred));
    }
    Ok(())
}

fn preferred(cluster: &Cluster) -> Endpoint {
    cluster.options().preferred_endpoint
}

fn node_of_slots(ctx: &mut Ctx<'_>, node: &RouteNode, preferred: Endpoint) {
    let shown = endpoint(node, preferred);
    ctx.out.array(4);
    match &shown {
        Some(endpoint) => ctx.out.bulk(endpoint.as_bytes()),
        None => ctx.out.null(),
    }
    ctx.out.int(port_for(node.port, node.tls_port, ctx.session.handle.is_encrypted()).into());
    ctx.out.bulk(node.id.as_bytes());
    // What the first field does not tell.
    let is_by_name = shown.as_ref() != Some(&node.ip);
    let ip = is_by_name.then_some(("ip", &node.ip));
    let hostname =
        (!node.hostname.is_empty() && shown.as_ref() != Some(&node.hostname)).then_some(("hostname", &node.hostname));
    let more: Vec<_> = ip.into_iter().chain(hostname).collect();
    ctx.out.map(more.len());
    for (name, value) in more {
        ctx.out.bulk_field(name, value);
    }
}

/// `CLUSTER SHARDS`
pub(crate) fn shards(ctx: &mut Ctx<'_>) -> CommandResult {
    let (shards, preferred) = {
        let state = cluster(ctx)?.node.lock()?;
        (state.cluster.shards(), preferred(&state.cluster))
    };
    ctx.out.array(shards.len());
    for ShardView { slots, nodes, .. } in shards {
        ctx.out.map(2);
        ctx.out.bulk(b"slots");
        ctx.out.array(slots.len() * 2);
        for range in slots {
            ctx.out.int((*range.start()).into());
            ctx.out.int((*range.end()).into());
        }
        ctx.out.bulk(b"nodes");
        ctx.out.array(nodes.len());
        nodes.iter().for_each(|node| node_of_shard(ctx, node, preferred));
    }
    Ok(())
}

fn node_of_shard(ctx: &mut Ctx<'_>, view: &NodeView, preferred: Endpoint) {
    let node = &view.at;
    let ports = [("port", node.port), ("tls-port", node.tls_port)];
    let ports: Vec<_> = ports.into_iter().filter(|(_, port)| *port != 0).collect();
    let has_name = !node.hostname.is_empty();
    ctx.out.map(6 + ports.len() + usize::from(has_name));
    ctx.out.bulk_field("id", node.id.as_str());
    for (name, port) in ports {
        ctx.out.int_field(name, port.into());
    }
    ctx.out.bulk_field("ip", &node.ip);
    ctx.out.bulk_field("endpoint", endpoint(node, preferred).as_deref().unwrap_or_default());
    if has_name {
        ctx.out.bulk_field("hostname", &node.hostname);
    }
    ctx.out.bulk_field("role", if view.is_primary { "master" } else { "replica" });
    ctx.out.int_field("replication-offset", view.offset as i64);
    let health = match view.health {
        Health::Failed => "fail",
        Health::Loading => "loading",
        Health::Online => "online",
    };
    ctx.out.bulk_field("health", health);
}

/// `CLUSTER LINKS`
pub(crate) fn links(ctx: &mut Ctx<'_>) -> CommandResult {
    let cluster = cluster(ctx)?;
    let views = cluster.node.lock()?.cluster.links();
    ctx.out.array(views.len());
    for LinkView { id, is_outgoing, node, created_wall_ms } in views {
        let used = cluster.queued_on(id);
        ctx.out.map(6);
        ctx.out.bulk_field("direction", if is_outgoing { "to" } else { "from" });
        ctx.out.bulk_field("node", node.as_bytes());
        ctx.out.int_field("create-time", created_wall_ms as i64);
        ctx.out.bulk_field("events", if used > 0 { "rw" } else { "r" });
        ctx.out.int_field("send-buffer-allocated", used as i64);
        ctx.out.int_field("send-buffer-used", used as i64);
    }
    Ok(())
}

/// `CLUSTER HELP`
pub(crate) fn help(ctx: &mut Ctx<'_>) -> CommandResult {
    cluster(ctx)?;
    replies::help(&ctx.engine.commands, ctx.command, ctx.out);
    Ok(())
}
