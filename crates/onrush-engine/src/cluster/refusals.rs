//! Errors that send a client to another node, or away.

use crate::cluster::routes::{NOBODY, Routes, port_for};
use crate::error::CommandError;

pub(crate) const CROSS_SLOT: CommandError =
    CommandError::fixed("CROSSSLOT Keys in request don't hash to the same slot");
pub(crate) const NOT_SERVED: CommandError = CommandError::fixed("CLUSTERDOWN Hash slot not served");
pub(crate) const DOWN: CommandError = CommandError::fixed("CLUSTERDOWN The cluster is down");
pub(crate) const READS_ONLY: CommandError =
    CommandError::fixed("CLUSTERDOWN The cluster is down and only accepts read commands");
pub(crate) const TRY_AGAIN: CommandError =
    CommandError::fixed("TRYAGAIN Multiple keys request during rehashing of slot");

/// Sends a client, whose connection may be encrypted, to a node: `what` is MOVED or ASK.
pub(crate) fn to_node(is_encrypted: bool, routes: &Routes, what: &str, slot: u16, node: u16) -> CommandError {
    let Some(node) = routes.nodes.get(usize::from(node)) else { return NOT_SERVED };
    let port = port_for(node.port, node.tls_port, is_encrypted);
    CommandError::text(format!("{what} {slot} {}:{port}", node.host))
}

/// Why a client that waits for a key of this slot must not wait here any more.
pub(crate) fn end_of_waiting(is_encrypted: bool, routes: &Routes, slot: u16) -> Option<CommandError> {
    let owner = routes.owner(slot);
    if !routes.is_up {
        Some(DOWN)
    } else if owner == NOBODY {
        Some(NOT_SERVED)
    } else if owner == routes.here || routes.importing.contains_key(&slot) {
        None
    } else {
        Some(to_node(is_encrypted, routes, "MOVED", slot, owner))
    }
}

/// Where a client is sent that waits for a key of this slot which is here no more: a slot that leaves has its keys elsewhere.
pub(crate) fn after_a_key(is_encrypted: bool, routes: &Routes, slot: u16) -> Option<CommandError> {
    routes.migrating.get(&slot).map(|then| to_node(is_encrypted, routes, "ASK", slot, *then))
}

/// Whether an error sends the client away from here: EXEC passes it on as it is.
pub(crate) fn is_redirect(error: &CommandError) -> bool {
    matches!(error.code(), b"MOVED" | b"ASK" | b"CROSSSLOT" | b"CLUSTERDOWN" | b"TRYAGAIN")
}
