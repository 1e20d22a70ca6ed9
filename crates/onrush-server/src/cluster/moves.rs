//! The thread of slots that move as a whole: it sends slots of this node to others, one move after the other, and deletes what
//! has come of moves to here that failed.

mod export;
mod feed;
mod target;

use std::io;
use std::time::{Duration, Instant};

use onrush_cluster::cluster::view::Role;
use onrush_cluster::slots::{SlotSet, parse_ranges, ranges_text};
use onrush_engine::cluster::change::{Deletion, delete_slots};
use onrush_engine::cluster::clustering::Clustering;
use onrush_engine::cluster::moves::Work;
use onrush_engine::cluster::moves::import::{tell_marks, write_marks};
use onrush_engine::cluster::moves::job::{Job, Side, Stage};
use onrush_engine::cluster::node::State;
use onrush_persist::threads;

use super::slots::note_marks;
use crate::process::server::Server;
use export::Export;

/// How long the thread sleeps if nothing wakes it.
const SLEEP_MAX: Duration = Duration::from_millis(250);

/// Starts the thread.
///
/// # Errors
/// The system cannot create it.
pub(super) fn start(server: &'static Server, cluster: &'static Clustering) -> io::Result<()> {
    threads::start("slot-moves", move || run(server, cluster)).map(drop)
}

fn run(server: &'static Server, cluster: &'static Clustering) {
    let mut marks = Marks::default();
    loop {
        marks.look(server, cluster);
        let silent_s = server.host.config.read().repl_timeout;
        cluster.moves.end_silent_imports(server.engine(), now_s(server), silent_s as i64);
        let work = cluster.moves.next(SLEEP_MAX, now_s(server));
        match work {
            Some(Work::CleanUp(job)) => clean_up(server, cluster, &job),
            Some(Work::Export(job)) => {
                let name = job.name.clone();
                if let Err(error) = threads::start("slot-export", move || export(server, cluster, job)) {
                    cluster.moves.set_stage(&name, Side::Export, Stage::Failed, &error.to_string(), now_s(server));
                }
            }
            None => {}
        }
    }
}

/// Replicas are told so often what is hidden: one that has come since may not know.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// What others must know of hidden slots: the file, replicas, and this node itself if its primary has failed.
#[derive(Default)]
struct Marks {
    /// The version of what is hidden that is in the file.
    written: u64,
    /// The one that replicas were told, and when.
    told: Option<(u64, Instant)>,
    /// Since when this primary has hidden slots that no move brings.
    left_over_since: Option<Instant>,
    /// The replicas that were online at the last look, in order.
    online: Vec<u64>,
    is_failing: bool,
}

impl Marks {
    fn look(&mut self, server: &'static Server, cluster: &Clustering) {
        let version = cluster.moves.hidden_version();
        if self.written != version && !server.loading.is_on() {
            match write_marks(server.engine()) {
                Ok(()) => (self.written, self.is_failing) = (version, false),
                Err(error) if !std::mem::replace(&mut self.is_failing, true) => {
                    tracing::error!("Can't write which slots are on their way: {error}");
                }
                Err(_) => {}
            }
        }
        if server.replication.role.is_replica() {
            (self.told, self.left_over_since) = (None, None);
            self.online.clear();
            // The data is its primary's.
            cluster.moves.leave_nothing();
            return;
        }
        if server.settings.are_writes_held() {
            // A replica that takes over waits for an offset that has to stay.
            return;
        }
        self.tell_new_replicas(server, cluster);
        // A replica that takes over deletes the rest of slots that have gone, as it does with those that did not come.
        let marked: SlotSet = cluster.moves.marked().difference(&cluster.routes().own).collect();
        let is_due = |(told, at): (u64, Instant)| told != version || !marked.is_empty() && at.elapsed() >= TELL_EVERY;
        if self.told.map_or(version > 0, is_due) {
            self.told = Some((version, Instant::now()));
            tell_marks(server.engine());
        }
        if cluster.moves.hides_some() {
            self.clean_up_left_over(server, cluster);
        }
    }

    /// A replica that has come hears of this node's slots.
    fn tell_new_replicas(&mut self, server: &'static Server, cluster: &Clustering) {
        let mut online = server.replication.attached.online();
        online.sort_unstable();
        let has_new = online.iter().any(|id| self.online.binary_search(id).is_err());
        self.online = online;
        if has_new {
            self.told = None;
        }
        if has_new && let Ok(mut state) = cluster.node.lock() {
            state.cluster.tell_replicas_again();
            drop(state);
            cluster.node.wake();
        }
    }

    /// This node has become a primary, and some slots were on their way to the one before: they are shown if they are this
    /// node's, and deleted if another node has had them for some time.
    fn clean_up_left_over(&mut self, server: &'static Server, cluster: &Clustering) {
        let left_over = cluster.moves.left_over();
        if left_over.is_empty() {
            self.left_over_since = None;
            return;
        }
        let since = *self.left_over_since.get_or_insert_with(Instant::now);
        let timeout_ms = server.host.config.read().cluster_node_timeout;
        let is_settled = since.elapsed() >= 2 * Duration::from_millis(timeout_ms);
        let (mut own, mut others) = (SlotSet::new(), SlotSet::new());
        if let Ok(state) = cluster.node.lock() {
            for slot in left_over.iter() {
                if state.cluster.own_among(&[slot]) > 0 {
                    own.add(slot);
                } else if is_settled && state.cluster.is_served_elsewhere(slot) {
                    others.add(slot);
                }
            }
        }
        cluster.moves.hide(&own, false);
        if !others.is_empty() {
            tracing::warn!(
                "Slots {} are other nodes', and some of their keys were still with the primary that has failed: they are deleted",
                ranges_text(&others)
            );
            let slots: Vec<u16> = others.iter().collect();
            delete_slots(server.engine(), &Deletion { slots: &slots, are_hidden: true, hurries: &|| false });
            cluster.moves.hide(&others, false);
        }
    }
}

/// Deletes what had come of slots that were on their way when this node ended. Call this when the data is loaded, before the
/// node says anything.
pub(super) fn recover(server: &'static Server, cluster: &Clustering) {
    let Some(path) = cluster.moves.marks().get() else { return };
    let Ok(text) = std::fs::read_to_string(path) else { return };
    let Some(mut slots) = parse_ranges(&text) else {
        tracing::warn!("{} does not say which slots were on their way: {text:?}", path.display());
        return;
    };
    let mut is_primary = false;
    if let Ok(state) = cluster.node.lock() {
        is_primary = state.cluster.role() == Role::Primary;
        let own: Vec<u16> = slots.iter().filter(|slot| state.cluster.own_among(&[*slot]) > 0).collect();
        own.into_iter().for_each(|slot| slots.remove(slot));
    }
    // A replica gets the data of its primary.
    if !slots.is_empty() && is_primary {
        tracing::warn!(
            "Slots {} were on their way when this node ended, and are not its own: their keys are deleted",
            ranges_text(&slots)
        );
        let slots: Vec<u16> = slots.iter().collect();
        delete_slots(server.engine(), &Deletion { slots: &slots, are_hidden: false, hurries: &|| true });
    }
    note_marks(server);
}

fn now_s(server: &Server) -> i64 {
    server.clock.unix_ms() / 1000
}

/// Deletes what has come, and shows the slots again, which are another node's.
fn clean_up(server: &'static Server, cluster: &Clustering, job: &Job) {
    tracing::warn!("Slots {} do not come here: {}", job.ranges(), job.message);
    // An operator may have given some to this node meanwhile, or be about to.
    let of_others = |state: &State| {
        let is_others = |slot: &u16| state.cluster.own_among(&[*slot]) == 0 && !state.cluster.is_importing(*slot);
        job.slots.iter().filter(is_others).collect::<Vec<_>>()
    };
    let slots = cluster.node.lock().map(|state| of_others(&state)).unwrap_or_default();
    if !server.replication.role.is_replica() {
        delete_slots(server.engine(), &Deletion { slots: &slots, are_hidden: true, hurries: &|| false });
    }
    cluster.moves.hide(&job.slots, false);
    cluster.moves.set_stage(&job.name, Side::Import, Stage::Failed, "", now_s(server));
}

fn export(server: &'static Server, cluster: &'static Clustering, job: Job) {
    let (name, ranges, target) = (job.name.clone(), job.ranges(), job.target.clone());
    tracing::info!("Slots {ranges} move to {target}");
    let began = server.clock.now();
    let result = Export::new(server, cluster, job).and_then(Export::run);
    let (stage, message) = match result {
        Ok(report) => {
            let took = (server.clock.now() - began).as_secs_f64();
            tracing::info!("Slots {ranges} are {target}'s: {report}, in {took:.2} s");
            (Stage::Done, String::new())
        }
        Err(_) if cluster.moves.is_cancelled(&name) => {
            tracing::info!("Slots {ranges} stay here, as a client wants");
            (Stage::Cancelled, String::new())
        }
        Err(why) => {
            tracing::warn!("Slots {ranges} stay here: {why}");
            (Stage::Failed, why)
        }
    };
    cluster.moves.set_stage(&name, Side::Export, stage, &message, now_s(server));
}
