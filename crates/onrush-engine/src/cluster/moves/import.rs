//! A connection over which slots come from another node.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use onrush_cluster::slots::{SlotSet, ranges_text};

use crate::cluster::clustering::Clustering;
use crate::cluster::hearing::{HIDDEN_PREFIX, tell_of_slots};
use crate::cluster::moves::job::{Job, Side, Stage};
use crate::ctx::Engine;

/// See the module's text. When it is dropped before the slots are taken over, the move has failed.
pub struct Importing {
    engine: &'static Engine,
    cluster: &'static Clustering,
    pub(crate) name: String,
    pub(crate) slots: SlotSet,
    pub(crate) source: String,
    /// Whether the move has failed.
    failed: Arc<AtomicBool>,
    /// When the source was last told that all is executed.
    prepared: Option<Instant>,
}

const CLOSED: &str = "the source has closed the connection";

impl Importing {
    /// Begins: clients see nothing of these slots until they are taken over.
    ///
    /// # Errors
    /// A slot is in another move, or has keys. TRYAGAIN: keys of it that have gone, or come with another move, are still there.
    pub(crate) fn begin(
        engine: &'static Engine,
        client: u64,
        name: &str,
        source: &str,
        slots: SlotSet,
    ) -> Result<Self, String> {
        let Some(cluster) = &engine.cluster else { return Err("ERR there is no cluster".to_owned()) };
        let myself = cluster.node.lock().map(|state| state.cluster.my_id().to_string()).unwrap_or_default();
        let has_others = |slot: &u16| cluster.moves.has_remains(*slot) || cluster.moves.is_coming(*slot);
        if let Some(slot) = slots.iter().find(has_others) {
            return Err(still_here(slot));
        }
        let has_keys = |slot: &u16| engine.keyspace.db(0).is_some_and(|db| !db.shard(usize::from(*slot)).is_empty());
        if let Some(slot) = slots.iter().find(has_keys) {
            return Err(format!("ERR There are keys of slot {slot} here, which is another node's"));
        }
        let mut job = Job::new(name.to_owned(), Side::Import, slots.clone(), source, &myself, now_s(engine));
        job.client = client;
        let failed = Arc::clone(&job.failed);
        cluster.moves.add(vec![job])?;
        cluster.moves.hide(&slots, true);
        // Dropped, it ends the move.
        let (name, source) = (name.to_owned(), source.to_owned());
        let begun = Self { engine, cluster, name, slots, source, failed, prepared: None };
        // Whoever deletes keys of a slot that has gone has noted that before, or finds the slot hidden from now on.
        let leaving = begun.slots.iter().find(|slot| cluster.moves.is_leaving(*slot));
        leaving.map_or(Ok(begun), |slot| Err(still_here(slot)))
    }

    /// The source was heard of.
    pub(crate) fn note_heard(&self) {
        self.cluster.moves.note_heard(&self.name, Side::Import, now_s(self.engine));
    }

    /// The source is told that all that it has sent is executed.
    pub(crate) fn prepare(&mut self) {
        self.prepared = Some(self.engine.clock.now());
    }

    /// Whether the source still holds its clients back for this node to take over: it waits for twice as long. A request that
    /// is late, because the network was cut, must not take the slots from clients that go on to write there.
    pub(crate) fn may_take(&self, at_most: Duration) -> bool {
        self.prepared.is_some_and(|prepared| self.engine.clock.now() - prepared <= at_most)
    }

    /// Whether it has failed, so that nothing is to come any more.
    #[inline]
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Relaxed)
    }

    /// What is set when it has failed.
    pub(crate) fn failure(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.failed)
    }

    /// The slots are this node's.
    pub(crate) fn is_taken(&self) {
        self.cluster.moves.set_stage(&self.name, Side::Import, Stage::Done, "", now_s(self.engine));
        self.cluster.moves.hide(&self.slots, false);
    }
}

fn still_here(slot: u16) -> String {
    format!("TRYAGAIN Keys of slot {slot} that have gone from here, or come with another migration, are still here")
}

/// Writes which slots are on their way to the file of that, if there is one. Waits for the disk.
///
/// # Errors
/// The system's.
pub fn write_marks(engine: &Engine) -> io::Result<()> {
    let Some(cluster) = &engine.cluster else { return Ok(()) };
    let Some(path) = cluster.moves.marks().get() else { return Ok(()) };
    let _alone = cluster.moves.writing.lock();
    let text = format!("{}\n", ranges_text(&cluster.moves.marked()));
    engine.process.replace_file(path, text.as_bytes())
}

/// Tells replicas what is hidden, and what is left of slots that have gone: one that takes over deletes that. O(slots).
pub fn tell_marks(engine: &Engine) {
    let Some(cluster) = &engine.cluster else { return };
    let _alone = cluster.moves.telling.lock();
    let marked: SlotSet = cluster.moves.marked().difference(&cluster.routes().own).collect();
    tell_of_slots(engine, &format!("{HIDDEN_PREFIX}{}", ranges_text(&marked)));
}

fn now_s(engine: &Engine) -> i64 {
    engine.clock.unix_ms() / 1000
}

impl Drop for Importing {
    fn drop(&mut self) {
        self.cluster.moves.end_import(&self.name, CLOSED);
    }
}

impl fmt::Debug for Importing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Importing").field("name", &self.name).finish_non_exhaustive()
    }
}
