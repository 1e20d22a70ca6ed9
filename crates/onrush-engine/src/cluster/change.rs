//! Changing what this node serves, and what follows from it for clients.

use std::sync::Arc;
use std::time::Duration;

use onrush_cluster::slots::{SLOTS, slot};

use crate::blocking::ending::redirect_all;
use crate::cluster::routes::Routes;
use crate::commit::Commit;
use crate::ctx::Engine;
use crate::gate::Exclusive;
use crate::messages::kind::Kind;
use crate::messages::outgoing::Outgoing;

/// Publishes new routes when no command is under way; commands that wait for keys of other nodes end. Waits for the
/// commands under way. O(slots + clients).
pub fn change_routes(engine: &'static Engine, routes: Arc<Routes>) {
    let turn = engine.gate.take_turn();
    publish(engine, &routes, engine.gate.exclusive(turn));
}

/// As [`change_routes`], but waits only this long.
///
/// # Errors
/// The time was over, and nothing has changed.
pub fn try_change_routes(engine: &'static Engine, routes: Arc<Routes>, at_most: Duration) -> Result<(), Arc<Routes>> {
    let (turn, began) = (engine.gate.take_turn(), engine.clock.now());
    let alone = engine.gate.exclusive_unless(turn, || engine.clock.now() - began > at_most);
    let Some(alone) = alone else { return Err(routes) };
    publish(engine, &routes, alone);
    Ok(())
}

fn publish(engine: &'static Engine, routes: &Arc<Routes>, alone: Exclusive<'_>) {
    if let Some(cluster) = &engine.cluster {
        forget_moved(engine, &cluster.routes(), routes);
        cluster.publish(Arc::clone(routes));
        redirect_all(engine, routes);
    }
    drop(alone);
    end_subscriptions(engine, routes);
}

/// Forgets what was counted of slots that have come or gone. No thread is inside of the gate. O(slots).
fn forget_moved(engine: &Engine, before: &Routes, after: &Routes) {
    let is_here = |routes: &Routes, slot| routes.owner(slot) == routes.here;
    (0..SLOTS)
        .filter(|&slot| is_here(before, slot) != is_here(after, slot))
        .for_each(|slot| engine.stats.forget_slot(slot));
}

/// Has clients leave sharded channels whose slots are other nodes'. O(sharded channels).
fn end_subscriptions(engine: &'static Engine, routes: &Arc<Routes>) {
    for channel in engine.messages.all(Kind::Shard) {
        if routes.owner(slot(&channel.name)) == routes.here {
            continue;
        }
        let subscribers: Vec<_> = channel.subscribers().collect();
        for client in subscribers {
            *client.lost_slots.lock() = Some(Arc::clone(routes));
            // It has nothing to say: its connection gets a turn.
            client.send_behind(Vec::new(), engine, engine.cluster_thread());
        }
    }
}

/// Publishes a message that has come over the bus.
pub fn publish_here(engine: &'static Engine, channel: &[u8], message: &[u8], is_sharded: bool) {
    let kind = if is_sharded { Kind::Shard } else { Kind::Channel };
    let mut outgoing = Outgoing::new(engine, engine.cluster_thread());
    outgoing.publish(kind, channel, message, None);
    outgoing.deliver();
}

/// Keys that are deleted at a time.
const DELETED_AT_ONCE: usize = 256;

/// How long the deletion of keys rests until it looks again whether it may go on.
const DELETION_LOOK: Duration = Duration::from_millis(1);

/// Which slots go, and how.
pub struct Deletion<'a> {
    /// Those whose keys are deleted.
    pub slots: &'a [u16],
    /// Whether their keys come from another node and are hidden. If not, a hidden slot comes anew, and is left alone.
    pub are_hidden: bool,
    /// Whether somebody waits for the end.
    pub hurries: &'a dyn Fn() -> bool,
}

/// Deletes the keys of slots that are another node's, in small pieces. A slot that is this node's by then is left alone, and so
/// are all if this is a replica. Rests while writes are held back, unless it is to hurry. O(keys).
pub fn delete_slots(engine: &'static Engine, deletion: &Deletion<'_>) {
    let Deletion { slots, are_hidden, hurries } = *deletion;
    let Some(cluster) = &engine.cluster else { return };
    let mut commit = Commit::new(engine, engine.cluster_thread());
    let mut returning = engine.lazyfree.returning();
    let Some(database) = engine.keyspace.db(0) else { return };
    for slot in slots {
        let mut position = (!database.shard(usize::from(*slot)).is_empty()).then_some(0);
        while let Some(at) = position {
            commit.enter();
            // Inside of the gate: whoever holds writes back waits until nobody is there.
            if engine.settings.are_writes_held() && !hurries() {
                commit.leave();
                std::thread::sleep(DELETION_LOOK);
                continue;
            }
            // Routes and role do not change while a thread is inside of the gate.
            let routes = cluster.routes();
            let comes_back = routes.own.has(*slot) || routes.importing.contains_key(slot);
            if comes_back || engine.replication.role.is_replica() || cluster.moves.hides(*slot) != are_hidden {
                commit.leave();
                break;
            }
            commit.begin_chunk(engine.clock.unix_ms());
            let shard = database.shard(usize::from(*slot));
            let before = shard.len();
            position = commit.delete_of_slot(*slot, at, DELETED_AT_ONCE);
            commit.broadcast();
            commit.leave();
            if !hurries() {
                returning.note(before.saturating_sub(shard.len()));
            }
        }
    }
}
