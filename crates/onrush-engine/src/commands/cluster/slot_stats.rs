//! CLUSTER SLOT-STATS: what each slot of this node holds and costs.

use std::cmp::Reverse;
use std::ops::RangeInclusive;

use onrush_cluster::slots::SLOTS;
use onrush_resp::parse_i64;
use onrush_store::Db;

use crate::cluster::routes::Routes;
use crate::commands::cluster::change::slot_argument;
use crate::commands::cluster::cluster;
use crate::commands::reply::Fields;
use crate::ctx::{CommandResult, Ctx};
use crate::error::{self, CommandError};
use crate::observe::slots::SlotUsage;

const BAD_METRIC: CommandError = CommandError::fixed("ERR Unrecognized sort metric for ORDERBY.");
const TWICE: CommandError = CommandError::fixed("ERR Multiple filters of the same type are disallowed.");
const BAD_LIMIT: CommandError =
    CommandError::fixed("ERR Limit has to lie in between 1 and 16384 (maximum number of slots).");

/// What is told of a slot. All but the first is told only while it is counted.
#[derive(Clone, Copy)]
enum Metric {
    Keys,
    Micros,
    BytesIn,
    BytesOut,
}

const METRICS: [(&str, Metric); 4] = [
    ("key-count", Metric::Keys),
    ("cpu-usec", Metric::Micros),
    ("network-bytes-in", Metric::BytesIn),
    ("network-bytes-out", Metric::BytesOut),
];

/// What is known of a slot.
struct SlotStats {
    slot: u16,
    keys: u64,
    usage: SlotUsage,
}

impl SlotStats {
    fn of(ctx: &Ctx<'_>, db: &Db, slot: u16) -> Self {
        Self { slot, keys: db.shard(slot.into()).len() as u64, usage: ctx.engine.stats.slot(slot) }
    }

    fn value(&self, metric: Metric) -> u64 {
        match metric {
            Metric::Keys => self.keys,
            Metric::Micros => self.usage.nanos / 1000,
            Metric::BytesIn => self.usage.bytes_in,
            Metric::BytesOut => self.usage.bytes_out,
        }
    }
}

/// The slots that are asked for, and their order.
enum Wanted {
    Range(RangeInclusive<u16>),
    Ordered { metric: Metric, limit: usize, ascending: bool },
}

/// `CLUSTER SLOT-STATS SLOTSRANGE start end | ORDERBY metric [LIMIT n] [ASC | DESC]`
pub(crate) fn slot_stats(ctx: &mut Ctx<'_>) -> CommandResult {
    let cluster = cluster(ctx)?;
    let metrics = if ctx.engine.settings.counts_slots() { &METRICS[..] } else { &METRICS[..1] };
    let wanted = parse(ctx, metrics)?;
    ctx.commit.release();
    let range = match &wanted {
        Wanted::Range(range) => range.clone(),
        Wanted::Ordered { .. } => 0..=SLOTS - 1,
    };
    ctx.expect_work(range.len() * metrics.len())?;
    let (routes, db) = (cluster.routes(), ctx.engine.keyspace.db_or_create(0));
    let mut found: Vec<_> =
        range.filter(|slot| is_here(&routes, *slot)).map(|slot| SlotStats::of(ctx, db, slot)).collect();
    if let Wanted::Ordered { metric, limit, ascending } = wanted {
        // Slots with the same value stay in their order.
        match ascending {
            true => found.sort_by_key(|stats| stats.value(metric)),
            false => found.sort_by_key(|stats| Reverse(stats.value(metric))),
        }
        found.truncate(limit);
    }
    ctx.out.array(found.len());
    for stats in found {
        ctx.out.array(2);
        ctx.out.int(stats.slot.into());
        ctx.out.map(metrics.len());
        for (name, metric) in metrics {
            ctx.out.int_field(name, stats.value(*metric) as i64);
        }
    }
    Ok(())
}

/// Whether a slot is this node's, or its primary's.
fn is_here(routes: &Routes, slot: u16) -> bool {
    routes.owner(slot) == routes.here
}

fn parse(ctx: &Ctx<'_>, metrics: &[(&str, Metric)]) -> Result<Wanted, CommandError> {
    if ctx.is(2, "SLOTSRANGE") && ctx.argc() == 5 {
        let (first, last) = (slot_argument(ctx, 3)?, slot_argument(ctx, 4)?);
        if first > last {
            return Err(CommandError::text(format!(
                "ERR Start slot number {first} is greater than end slot number {last}"
            )));
        }
        return Ok(Wanted::Range(first..=last));
    }
    if !ctx.is(2, "ORDERBY") {
        return Err(ctx.wrong_subcommand());
    }
    let known = metrics.iter().find(|(name, _)| ctx.is(3, name));
    let (_, metric) = *known.ok_or(BAD_METRIC)?;
    let (mut limit, mut ascending) = (None, None);
    let mut rest = ctx.rest(4);
    while !rest.is_empty() {
        if rest.take_with("LIMIT", 1) {
            if limit.is_some() {
                return Err(TWICE);
            }
            let given = parse_i64(rest.next_arg()).filter(|limit| (1..=i64::from(SLOTS)).contains(limit));
            limit = Some(given.ok_or(BAD_LIMIT)? as usize);
        } else if let Some(way) = rest.take_one_of([("ASC", true), ("DESC", false)]) {
            if ascending.replace(way).is_some() {
                return Err(TWICE);
            }
        } else {
            return Err(error::SYNTAX);
        }
    }
    let limit = limit.unwrap_or(SLOTS.into());
    Ok(Wanted::Ordered { metric, limit, ascending: ascending.unwrap_or(false) })
}
