//! Where a command belongs: whether this node may execute it, and who else.

use std::sync::Arc;

use onrush_lua::FunctionFlags;

use crate::batch::argv::Arguments;
use crate::clients::session::States;
use crate::cluster::clustering::Clustering;
use crate::cluster::refusals::{CROSS_SLOT, DOWN, NOT_SERVED, READS_ONLY, TRY_AGAIN, to_node};
use crate::cluster::routes::{NOBODY, Routes};
use crate::cluster::slotted::{Slotted, slot_of};
use crate::command::find_keys::find_keys;
use crate::command::{Command, Flags};
use crate::ctx::Ctx;
use crate::error::CommandError;
use crate::scripts::declared::declared;
use crate::transactions::transaction::Transaction;

/// What a command wants, and of which slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub slot: u16,
    /// Whether it names more than one key, and whether they are of several slots.
    pub has_several: bool,
    pub is_crossing: bool,
    pub writes: bool,
    /// Whether it is about a sharded channel.
    pub is_channel: bool,
    /// Whether ASKING came before it.
    pub is_asking: bool,
    /// Whether READONLY came before it.
    pub is_readonly: bool,
    /// Whether it moves keys to other nodes.
    pub migrates: bool,
}

/// What is to be done with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// It is executed here.
    Here,
    /// Its slot is under way from here: it is executed here if all of its keys are still here. Otherwise its client asks
    /// that node.
    IfPresent { then: u16 },
    /// Its slot is under way to here: it is executed if all of its keys have come, or it has only one.
    IfArrived,
    /// Another node has its slot.
    Moved(u16),
    /// The error to reply with.
    Refused(CommandError),
}

/// The way of a command, by Redis's rules in their order.
pub(crate) fn way(routes: &Routes, wanted: &Wanted) -> Way {
    let (slot, owner) = (wanted.slot, routes.owner(wanted.slot));
    if owner == NOBODY {
        return Way::Refused(NOT_SERVED);
    }
    if wanted.is_crossing {
        return Way::Refused(CROSS_SLOT);
    }
    if !routes.is_up
        && let Some(refusal) = refusal_while_down(routes, wanted)
    {
        return Way::Refused(refusal);
    }
    let is_here = owner == routes.here && !routes.is_replica;
    let migrating = routes.migrating.get(&slot).filter(|_| is_here);
    let is_importing = !is_here && routes.importing.contains_key(&slot);
    if (migrating.is_some() || is_importing) && wanted.migrates {
        return Way::Here;
    }
    if let Some(then) = migrating
        && !wanted.is_channel
    {
        return Way::IfPresent { then: *then };
    }
    if is_importing && wanted.is_asking {
        return if wanted.has_several && !wanted.is_channel { Way::IfArrived } else { Way::Here };
    }
    let may_replica = wanted.is_channel || wanted.is_readonly && !wanted.writes;
    if is_here || routes.is_replica && owner == routes.here && may_replica { Way::Here } else { Way::Moved(owner) }
}

/// Why a command is not executed while the cluster is down, if it is not.
fn refusal_while_down(routes: &Routes, wanted: &Wanted) -> Option<CommandError> {
    if wanted.is_channel {
        (!routes.allows_shard_channels_when_down).then_some(DOWN)
    } else if !routes.allows_reads_when_down {
        Some(DOWN)
    } else {
        wanted.writes.then_some(READS_ONLY)
    }
}

/// Why this node must not execute the present command, by what it names and what is known without a lock.
#[cold]
pub(crate) fn redirect(ctx: &Ctx<'_>, command: &Command) -> Option<CommandError> {
    let cluster = ctx.engine.cluster.as_ref()?;
    let hashes = ctx.planned.hashes;
    if command.has_only_fixed_keys() && !hashes.is_empty() {
        let may_read = ctx.session.is_readonly && command.flags.contains(Flags::READONLY);
        if cluster.is_free(hashes) || may_read && cluster.is_readable(hashes) {
            return None;
        }
    }
    let wanted = wanted(ctx, command)?;
    if !wanted.is_crossing && cluster.is_slot_free(wanted.slot) {
        return None;
    }
    let (way, routes) = way_to_begin(cluster, &wanted);
    match way {
        Way::Here | Way::IfPresent { .. } | Way::IfArrived => None,
        Way::Moved(owner) => Some(to_node(ctx.session.handle.is_encrypted(), &routes, "MOVED", wanted.slot, owner)),
        Way::Refused(refusal) => Some(refusal),
    }
}

/// The way of a command that has not begun, and the routes that say so: those to come if they refuse it.
fn way_to_begin(cluster: &Clustering, wanted: &Wanted) -> (Way, Arc<Routes>) {
    let routes = cluster.routes();
    if cluster.is_stopped()
        && let Some(refusal) = refusal_while_down(&routes, wanted)
    {
        return (Way::Refused(refusal), routes);
    }
    let next = cluster.next_routes().into_iter().rev().map(|next| (way(&next, wanted), next));
    let refused = next.into_iter().find(|(way, _)| matches!(way, Way::Moved(_) | Way::Refused(_)));
    refused.unwrap_or_else(|| (way(&routes, wanted), routes))
}

/// What a command of this client wants; `None` if it is about no key.
fn wanted(ctx: &Ctx<'_>, command: &Command) -> Option<Wanted> {
    if ctx.session.is_of_its_own_slots() {
        return None;
    }
    let (slotted, writes) = match &ctx.session.transaction {
        Some(transaction) if command.is_exec() => {
            (slot_of_all(ctx, transaction)?, transaction.flags().contains(Flags::WRITE))
        }
        _ => (slot_of(command, &ctx.argv)?, command.flags.contains(Flags::WRITE) || may_write_by_script(ctx, command)),
    };
    Some(wanted_by(ctx, command, slotted, writes))
}

/// Whether a script that declares that it may write is called by a client that reads from a replica: it belongs to the primary.
fn may_write_by_script(ctx: &Ctx<'_>, command: &Command) -> bool {
    ctx.session.is_readonly
        && declared(ctx.engine, command, &ctx.argv).is_some_and(|flags| !flags.contains(FunctionFlags::NO_WRITES))
}

/// Where the keys of all commands of a transaction belong; `None` if there are none. O(arguments).
pub(crate) fn slot_of_all(ctx: &Ctx<'_>, transaction: &Transaction) -> Option<Slotted> {
    let commands = &ctx.engine.commands;
    let each = transaction.commands().filter_map(|(id, argv, _)| slot_of(commands.command(id), &argv));
    each.reduce(Slotted::and)
}

fn wanted_by(ctx: &Ctx<'_>, command: &Command, slotted: Slotted, writes: bool) -> Wanted {
    let Slotted { slot, has_several, is_crossing } = slotted;
    Wanted {
        slot,
        has_several,
        is_crossing,
        writes,
        is_channel: command.flags.contains(Flags::PUBSUB),
        is_asking: ctx.session.states.contains(States::ASKS) || command.flags.contains(Flags::ASKING),
        is_readonly: ctx.session.is_readonly,
        migrates: command.spec.name == "migrate",
    }
}

const CROSSES_IN_SCRIPT: &str = "in script attempted to access keys that don't hash to the same slot";
const NOT_SERVED_IN_SCRIPT: CommandError = CommandError::fixed("ERR Script attempted to access a slot not served");
const DOWN_IN_SCRIPT: CommandError =
    CommandError::fixed("ERR Script attempted to execute a command while the cluster is down");
const READS_ONLY_IN_SCRIPT: CommandError =
    CommandError::fixed("ERR Script attempted to execute a write command while the cluster is down and readonly");
const NOT_LOCAL_IN_SCRIPT: CommandError =
    CommandError::fixed("ERR Script attempted to access a non local key in a cluster node");
const OTHER_SLOT_IN_SCRIPT: CommandError =
    CommandError::fixed("ERR Script attempted to access keys that do not hash to the same slot");

/// With which slots a script goes on though routes to come refuse them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GoesOn {
    /// It has not written.
    No,
    /// It is part of a transaction, which is not torn apart, and has declared keys of this slot.
    With(u16),
    /// It has written.
    WithAll,
}

impl GoesOn {
    fn is_with(self, slot: u16) -> bool {
        self == Self::WithAll || self == Self::With(slot)
    }
}

/// Why a script must not call a command. `slot`: that of its keys so far, if it must keep to one. `goes_on`: with which slots it goes
/// on to its end by the routes that it, or its transaction, has begun with.
#[cold]
pub(crate) fn refusal_in_script<A: Arguments + ?Sized>(
    ctx: &mut Ctx<'_>,
    command: &Command,
    argv: &A,
    slot: Option<&mut Option<u16>>,
    goes_on: GoesOn,
) -> Option<CommandError> {
    let cluster = ctx.engine.cluster.as_ref()?;
    if ctx.session.is_replay {
        return None;
    }
    let slotted = slot_of(command, argv)?;
    let writes = command.flags.contains(Flags::WRITE);
    let wanted = wanted_by(ctx, command, slotted, writes);
    let is_free = !slotted.is_crossing && cluster.is_slot_free(slotted.slot);
    let way = match is_free {
        true => Way::Here,
        false if goes_on.is_with(slotted.slot) => way(&cluster.routes(), &wanted),
        false => way_to_begin(cluster, &wanted).0,
    };
    let refusal = match way {
        Way::Here => None,
        Way::IfPresent { .. } | Way::IfArrived => lacks_keys(ctx, command, argv).then_some(NOT_LOCAL_IN_SCRIPT),
        Way::Moved(_) => Some(NOT_LOCAL_IN_SCRIPT),
        Way::Refused(refusal) if refusal == NOT_SERVED => Some(NOT_SERVED_IN_SCRIPT),
        Way::Refused(refusal) if refusal == DOWN => Some(DOWN_IN_SCRIPT),
        Way::Refused(refusal) if refusal == READS_ONLY => Some(READS_ONLY_IN_SCRIPT),
        Way::Refused(_) => Some(CommandError::text(format!("ERR Command '{}' {CROSSES_IN_SCRIPT}", command.full_name))),
    };
    refusal.or_else(|| {
        let slot = slot?;
        (*slot.get_or_insert(slotted.slot) != slotted.slot).then_some(OTHER_SLOT_IN_SCRIPT)
    })
}

/// Whether a key of a call is not here. Keys that the script has not declared are not looked at: it begins anew with them.
fn lacks_keys<A: Arguments + ?Sized>(ctx: &mut Ctx<'_>, command: &Command, argv: &A) -> bool {
    let Ok(keys) = find_keys(command, argv) else { return false };
    let db = ctx.commit.db();
    let hashes: Vec<_> = keys.iter().map(|key| (db, ctx.engine.keyspace.hash(argv.get(key.index)))).collect();
    if ctx.commit.lock_all(hashes).is_err() {
        return false;
    }
    keys.into_iter().any(|key| {
        let key = ctx.commit.key(argv.get(key.index));
        ctx.commit.peek(&key).is_none()
    })
}

/// A slot that is under way: whether the keys of a command are here is looked at while they are locked.
pub(crate) struct UnderWay {
    slot: u16,
    is_importing: bool,
    then: u16,
}

/// The slot of the present command, if it is under way, so that it depends on the keys who executes the command.
pub(crate) fn under_way(ctx: &Ctx<'_>, command: &Command) -> Option<UnderWay> {
    let cluster = ctx.engine.cluster.as_ref().filter(|cluster| cluster.has_moving())?;
    let wanted = wanted(ctx, command)?;
    match way(&cluster.routes(), &wanted) {
        Way::IfPresent { then } => Some(UnderWay { slot: wanted.slot, is_importing: false, then }),
        Way::IfArrived => Some(UnderWay { slot: wanted.slot, is_importing: true, then: NOBODY }),
        _ => None,
    }
}

/// What becomes of a command whose slot is under way, of whose keys so many are here and so many are not.
///
/// # Errors
/// It is not executed here; this is its reply.
pub(crate) fn judge(ctx: &Ctx<'_>, under_way: &UnderWay, present: usize, missing: usize) -> Result<(), CommandError> {
    if missing == 0 {
        return Ok(());
    } else if under_way.is_importing || present > 0 {
        return Err(TRY_AGAIN);
    }
    let routes = ctx.engine.cluster.as_ref().map(|cluster| cluster.routes()).unwrap_or_default();
    Err(to_node(ctx.session.handle.is_encrypted(), &routes, "ASK", under_way.slot, under_way.then))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::routes::testing::routes;

    const GET: Wanted = Wanted {
        slot: 5,
        has_several: false,
        is_crossing: false,
        writes: false,
        is_channel: false,
        is_asking: false,
        is_readonly: false,
        migrates: false,
    };
    const SET: Wanted = Wanted { writes: true, ..GET };

    #[test]
    fn a_slot_belongs_to_one_node_or_nobody() {
        let routes = routes(&[(0..=9, 0), (10..=19, 2)]);
        assert_eq!(way(&routes, &GET), Way::Here);
        assert_eq!(way(&routes, &Wanted { slot: 15, ..GET }), Way::Moved(2));
        assert_eq!(way(&routes, &Wanted { slot: 20, is_crossing: true, ..GET }), Way::Refused(NOT_SERVED));
        assert_eq!(way(&routes, &Wanted { is_crossing: true, ..GET }), Way::Refused(CROSS_SLOT));
    }

    #[test]
    fn a_slot_that_leaves_has_some_of_its_keys_here_and_one_that_comes_needs_asking() {
        let mut routes = routes(&[(0..=9, 0), (10..=19, 2)]);
        routes.migrating.insert(5, 2);
        routes.importing.insert(15, 2);
        assert_eq!(way(&routes, &SET), Way::IfPresent { then: 2 });
        assert_eq!(way(&routes, &Wanted { is_channel: true, ..SET }), Way::Here);
        let coming = Wanted { slot: 15, ..SET };
        assert_eq!(way(&routes, &coming), Way::Moved(2));
        assert_eq!(way(&routes, &Wanted { is_asking: true, ..coming }), Way::Here);
        assert_eq!(way(&routes, &Wanted { is_asking: true, has_several: true, ..coming }), Way::IfArrived);
        assert_eq!(way(&routes, &Wanted { migrates: true, ..coming }), Way::Here);
    }

    #[test]
    fn a_replica_reads_for_who_says_readonly() {
        let mut routes = routes(&[(0..=9, 1), (10..=19, 2)]);
        (routes.here, routes.is_replica) = (1, true);
        assert_eq!(way(&routes, &GET), Way::Moved(1));
        assert_eq!(way(&routes, &Wanted { is_readonly: true, ..GET }), Way::Here);
        assert_eq!(way(&routes, &Wanted { is_readonly: true, ..SET }), Way::Moved(1));
        assert_eq!(way(&routes, &Wanted { is_readonly: true, slot: 15, ..GET }), Way::Moved(2));
        assert_eq!(way(&routes, &Wanted { is_channel: true, ..SET }), Way::Here);
    }

    #[test]
    fn a_cluster_that_is_down_serves_what_was_allowed() {
        let mut routes = routes(&[(0..=9, 0)]);
        routes.is_up = false;
        assert_eq!(way(&routes, &GET), Way::Refused(DOWN));
        assert_eq!(way(&routes, &Wanted { is_channel: true, ..GET }), Way::Here);
        (routes.allows_reads_when_down, routes.allows_shard_channels_when_down) = (true, false);
        assert_eq!(way(&routes, &GET), Way::Here);
        assert_eq!(way(&routes, &SET), Way::Refused(READS_ONLY));
        assert_eq!(way(&routes, &Wanted { is_channel: true, ..GET }), Way::Refused(DOWN));
    }
}
