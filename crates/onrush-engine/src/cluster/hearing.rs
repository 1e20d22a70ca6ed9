//! What a primary tells of slots in its stream, and a replica hears: messages of PING, which nodes of other makes take for nothing.

use onrush_cluster::cluster::told::{PREFIX, Told};
use onrush_cluster::slots::parse_ranges;
use onrush_persist::push_command;

use crate::ctx::Engine;

use super::facts::Facts;

/// What a message that tells hidden slots begins with; their ranges follow.
pub const HIDDEN_PREFIX: &str = "onrush-hidden ";

/// Puts a message about slots into the stream.
pub fn tell_of_slots(engine: &Engine, message: &str) {
    let mut command = Vec::new();
    push_command(&mut command, [b"PING".as_slice(), message.as_bytes()].into_iter());
    engine.replication.tell_replicas(engine, &command);
}

/// Takes note of a message of this node's primary, if it is about slots.
pub(crate) fn hear_primary(engine: &'static Engine, message: &[u8]) {
    let Some(cluster) = &engine.cluster else { return };
    if !engine.replication.role.is_replica() {
        return;
    }
    let Ok(text) = std::str::from_utf8(message) else { return };
    if let Some(slots) = text.strip_prefix(HIDDEN_PREFIX).and_then(parse_ranges) {
        cluster.moves.hide_only(&slots);
    } else if text.starts_with(PREFIX)
        && let Some(told) = Told::parse(text)
        && let Ok(mut state) = cluster.node.lock()
    {
        let facts = Facts(engine);
        state.cluster.hear_told(told, facts.now(), &facts);
        drop(state);
        cluster.node.wake();
    }
}
