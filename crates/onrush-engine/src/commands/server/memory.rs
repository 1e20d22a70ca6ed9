//! MEMORY: the memory of the data and of the server.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use onrush_alloc as alloc;

use crate::clients::client::ClientHandle;
use crate::ctx::{CommandResult, Ctx};
use crate::error::{self, CommandError};
use crate::shared::Shared;

/// Bytes of a shard beside its buckets.
const SHARD_BYTES: u64 = 64;

/// Bytes of bucket space per entry: a word of eight at the usual fill of two thirds.
const BUCKET_BYTES_PER_ENTRY: u64 = 12;

/// With fewer bytes than this the doctor makes no judgement.
const DOCTOR_BYTES_MIN: u64 = 5 << 20;

/// The memory of one database beside its entries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DbOverhead {
    /// Its number.
    pub db: usize,
    /// Entries.
    pub keys: u64,
    /// Bytes of shards and buckets, estimated.
    pub main_bytes: u64,
}

/// Where the memory is; all in bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overview {
    /// Allocated.
    pub used: u64,
    /// Most allocated so far.
    pub peak: u64,
    /// Allocated when the server had started.
    pub startup: u64,
    /// Resident, as the system sees it.
    pub rss: u64,
    /// Buffers of clients that are no replicas.
    pub clients: u64,
    /// Buffers of replicas.
    pub replicas: u64,
    /// The stream for replicas, of which all of them are sent the same bytes.
    pub backlog: u64,
    /// Records and snapshots on their way to files.
    pub records: u64,
    /// Databases that have been used.
    pub dbs: Vec<DbOverhead>,
}

impl Overview {
    /// Takes stock. O(databases in use × shards + clients).
    pub(crate) fn of(shared: &Shared) -> Self {
        let used = shared.used_memory();
        let dbs = (0..shared.keyspace.databases()).filter_map(|index| {
            let db = shared.keyspace.db(index)?;
            let keys = db.len() as u64;
            let main_bytes = db.shard_count() as u64 * SHARD_BYTES + keys * BUCKET_BYTES_PER_ENTRY;
            Some(DbOverhead { db: index, keys, main_bytes })
        });
        let all = shared.clients.all();
        let (replicas, clients): (Vec<_>, Vec<_>) = all.iter().partition(|client| client.is_replica.load(Relaxed));
        let held = |clients: &[&Arc<ClientHandle>]| clients.iter().map(|client| client.own_bytes()).sum::<u64>();
        Self {
            used,
            peak: shared.peak_memory.load(Relaxed).max(used),
            startup: shared.startup_memory.load(Relaxed),
            rss: alloc::resident_bytes(),
            records: onrush_persist::held_bytes() as u64,
            clients: shared.messages.waiting_bytes() + held(&clients),
            replicas: held(&replicas),
            backlog: shared.replication.history.memory_bytes(),
            dbs: dbs.collect(),
        }
    }

    /// Bytes other than data.
    pub(crate) fn overhead(&self) -> u64 {
        let buffers = self.clients + self.replicas + self.backlog + self.records;
        self.startup + buffers + self.dbs.iter().map(|db| db.main_bytes).sum::<u64>()
    }

    /// Bytes of data.
    pub(crate) fn dataset(&self) -> u64 {
        self.used.saturating_sub(self.overhead())
    }

    /// Entries in all databases.
    pub(crate) fn keys(&self) -> u64 {
        self.dbs.iter().map(|db| db.keys).sum()
    }

    /// Share of the data in the bytes allocated since the start, in percent.
    pub(crate) fn dataset_percent(&self) -> f64 {
        percent(self.dataset(), self.used.saturating_sub(self.startup))
    }

    /// Share of the present in the most allocated so far, in percent.
    pub(crate) fn peak_percent(&self) -> f64 {
        percent(self.used, self.peak)
    }

    /// Resident bytes for each byte allocated.
    pub(crate) fn fragmentation(&self) -> f64 {
        self.rss as f64 / self.used.max(1) as f64
    }

    /// Resident bytes minus allocated bytes; negative if pages were never touched or are swapped out.
    pub(crate) fn fragmentation_bytes(&self) -> i64 {
        self.rss as i64 - self.used as i64
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    part as f64 * 100.0 / whole.max(1) as f64
}

/// `MEMORY USAGE key [SAMPLES count]`
pub(crate) fn memory_usage(ctx: &mut Ctx<'_>) -> CommandResult {
    check_samples(ctx)?;
    let key = ctx.key(2);
    match ctx.commit.peek(&key) {
        Some(entry) => {
            let bytes = entry.size_bytes() as u64 + BUCKET_BYTES_PER_ENTRY;
            ctx.out.int(bytes as i64);
        }
        None => ctx.out.null(),
    }
    Ok(())
}

/// Checks the options; sizes here are exact, whatever the number of samples.
fn check_samples(ctx: &Ctx<'_>) -> Result<(), CommandError> {
    let mut rest = ctx.rest(3);
    while !rest.is_empty() {
        if !rest.take_with("SAMPLES", 1) || rest.next_int()? < 0 {
            return Err(error::SYNTAX);
        }
    }
    Ok(())
}

/// A figure of MEMORY STATS.
enum Figure {
    Int(i64),
    Ratio(f64),
}

/// `MEMORY STATS`
pub(crate) fn memory_stats(ctx: &mut Ctx<'_>) -> CommandResult {
    use Figure::{Int, Ratio};
    let memory = Overview::of(ctx.engine);
    let scripts = &ctx.engine.scripts;
    let keys = memory.keys();
    let since_start = memory.used.saturating_sub(memory.startup);
    let int = |bytes: u64| Int(bytes as i64);
    let before = [
        ("peak.allocated", int(memory.peak)),
        ("total.allocated", int(memory.used)),
        ("startup.allocated", int(memory.startup)),
        ("replication.backlog", int(memory.backlog)),
        ("clients.slaves", int(memory.replicas)),
        ("clients.normal", int(memory.clients)),
        ("cluster.links", Int(0)),
        ("aof.buffer", int(memory.records)),
        ("lua.caches", int(scripts.cache.bytes() as u64)),
        ("functions.caches", int(scripts.libraries.count().bytes as u64)),
    ];
    let after = [
        ("overhead.total", int(memory.overhead())),
        ("keys.count", int(keys)),
        ("keys.bytes-per-key", int(since_start.checked_div(keys).unwrap_or(0))),
        ("dataset.bytes", int(memory.dataset())),
        ("dataset.percentage", Ratio(memory.dataset_percent())),
        ("peak.percentage", Ratio(memory.peak_percent())),
        ("allocator.allocated", int(memory.used)),
        ("allocator.active", int(memory.rss)),
        ("allocator.resident", int(memory.rss)),
        ("allocator-fragmentation.ratio", Ratio(memory.fragmentation())),
        ("allocator-fragmentation.bytes", Int(memory.fragmentation_bytes())),
        ("allocator-rss.ratio", Ratio(1.0)),
        ("allocator-rss.bytes", Int(0)),
        ("rss-overhead.ratio", Ratio(1.0)),
        ("rss-overhead.bytes", Int(0)),
        ("fragmentation", Ratio(memory.fragmentation())),
        ("fragmentation.bytes", Int(memory.fragmentation_bytes())),
    ];
    let dbs = memory.dbs.iter().filter(|db| db.keys > 0);
    ctx.out.map(before.len() + dbs.clone().count() + after.len());
    before.into_iter().for_each(|figure| put(ctx, figure));
    for db in dbs {
        ctx.out.bulk(format!("db.{}", db.db).as_bytes());
        ctx.out.map(3);
        put(ctx, ("overhead.hashtable.main", int(db.main_bytes)));
        // An expiry is part of its entry.
        put(ctx, ("overhead.hashtable.expires", Int(0)));
        put(ctx, ("overhead.hashtable.slot-to-keys", Int(0)));
    }
    after.into_iter().for_each(|figure| put(ctx, figure));
    Ok(())
}

fn put(ctx: &mut Ctx<'_>, (name, figure): (&str, Figure)) {
    ctx.out.bulk(name.as_bytes());
    match figure {
        Figure::Int(value) => ctx.out.int(value),
        Figure::Ratio(value) => ctx.out.double(value),
    }
}

/// `MEMORY DOCTOR`
pub(crate) fn memory_doctor(ctx: &mut Ctx<'_>) -> CommandResult {
    let report = diagnose(&Overview::of(ctx.engine), ctx.engine.clients.len() as u64);
    ctx.reply_text(report.as_bytes())
}

/// Memory problems, in words for an operator.
fn diagnose(memory: &Overview, clients: u64) -> String {
    if memory.used < DOCTOR_BYTES_MIN {
        return "This instance is empty or uses very little memory: there is nothing to diagnose yet.\n".to_owned();
    }
    let mut findings = Vec::new();
    if memory.peak > memory.used / 2 * 3 {
        findings.push(
            "Peak: at some time the server used more than 150% of the memory it uses now. The allocator may keep \
             pages from then, which makes the fragmentation look high; it goes down as memory is used again.",
        );
    }
    if memory.fragmentation() > 1.4 && memory.fragmentation_bytes() > 10 << 20 {
        findings.push(
            "Fragmentation: the process takes over 1.4 times the memory that is allocated. Values of many sizes \
             that come and go leave holes; a restart packs them.",
        );
    }
    if memory.clients / clients.max(1) > 200 << 10 {
        findings.push(
            "Client buffers: a client takes over 200 KB on average. Look for clients that do not read their replies \
             or send very long pipelines, with CLIENT LIST.",
        );
    }
    if findings.is_empty() {
        return "No memory problem was found.\n".to_owned();
    }
    let mut report = "Memory problems were found:\n".to_owned();
    for finding in findings {
        report.push_str(&format!("\n * {finding}\n"));
    }
    report
}

/// `MEMORY MALLOC-STATS`
pub(crate) fn memory_malloc_stats(ctx: &mut Ctx<'_>) -> CommandResult {
    let memory = Overview::of(ctx.engine);
    let mut report = format!(
        "allocator: {}\nallocated bytes: {}\nmost allocated bytes: {}\nresident bytes: {}\n",
        alloc::name(),
        memory.used,
        memory.peak,
        memory.rss
    );
    let classes = alloc::size_classes();
    if !classes.is_empty() {
        report.push_str("\nheap of this worker:\n     block bytes     blocks used      bytes held   in use\n");
    }
    for class in classes {
        let percent = (class.used * class.block_bytes * 100).checked_div(class.committed_bytes).unwrap_or(0);
        report.push_str(&format!(
            "{:16} {:15} {:15} {percent:6} %\n",
            class.block_bytes, class.used, class.committed_bytes
        ));
    }
    ctx.reply_text(report.as_bytes())
}

/// `MEMORY PURGE`: every worker gives free memory back to the system within a moment
pub(crate) fn memory_purge(ctx: &mut Ctx<'_>) -> CommandResult {
    alloc::ask_to_give_back();
    ctx.reply_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    fn overview() -> Overview {
        Overview {
            used: 100 * MB,
            peak: 110 * MB,
            startup: 2 * MB,
            rss: 120 * MB,
            clients: MB,
            replicas: 0,
            backlog: 0,
            records: 0,
            dbs: Vec::new(),
        }
    }

    #[test]
    fn the_doctor_names_what_is_wrong() {
        assert!(diagnose(&Overview { used: MB, ..overview() }, 1).contains("nothing to diagnose"));
        assert!(diagnose(&overview(), 10).starts_with("No memory problem"));
        assert!(diagnose(&Overview { peak: 200 * MB, ..overview() }, 10).contains("* Peak"));
        assert!(diagnose(&Overview { rss: 200 * MB, ..overview() }, 10).contains("* Fragmentation"));
        assert!(diagnose(&overview(), 1).contains("* Client buffers"));
    }

    #[test]
    fn data_is_what_is_left_without_the_overhead() {
        let db = DbOverhead { db: 0, keys: 10, main_bytes: 7 * MB };
        let memory = Overview { dbs: vec![db], ..overview() };
        assert_eq!(memory.overhead(), 10 * MB);
        assert_eq!(memory.dataset(), 90 * MB);
        assert_eq!(memory.keys(), 10);
        assert!((memory.dataset_percent() - 90.0 * 100.0 / 98.0).abs() < 1e-9);
        assert_eq!(Overview::default().dataset_percent(), 0.0);
    }
}
