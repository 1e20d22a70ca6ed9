//! Sending slots to another node.
//!
//! Group by group of slots: the keys as they are at a cut, then what clients have changed since. In the end the target
//! answers within [`LAG_MAX`]: writes are held back, it gets the rest, says within [`PAUSE_MAX`] that it has executed all, and
//! takes the slots over. If it is not that fast, writes go on, and are slowed down until it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::time::{Duration, Instant};

use onrush_cluster::cluster::epoch_in;
use onrush_engine::cluster::clustering::Clustering;
use onrush_engine::cluster::facts::Facts;
use onrush_engine::cluster::moves::job::{Job, Side, Stage};
use onrush_engine::cluster::moves::stream::MoveStream;
use onrush_engine::cluster::routes::Routes;
use onrush_engine::settings::Hold;
use onrush_engine::snapshot::output::Purpose;
use onrush_persist::SinkId;
use tokio::task::LocalSet;

use super::super::slots::note_marks;
use super::feed::{Feed, FeedOutput};
use super::now_s;
use super::target::{Heard, Target};
use crate::net::peers::request;
use crate::process::server::Server;

/// Slots are cut together as long as they have no more keys than this: what clients change in them waits until the keys are
/// sent.
const GROUP_KEYS_MAX: usize = 64 << 10;

/// Bytes of changes that wait while keys are copied, if `client-output-buffer-limit replica` sets no limit. With more, commands that
/// write are held back.
const STREAM_BYTES_MAX: usize = 256 << 20;

/// As few may wait while the target is too slow.
const STREAM_BYTES_MIN: usize = 1 << 20;

/// Writes are held back only when the target answers as soon as this; after some tries, as soon as they may be held back at all.
const LAG_MAX: Duration = Duration::from_millis(10);

/// So many tries it is [`LAG_MAX`].
const TRIES_FOR_LAG: u32 = 20;

/// How long writes are held back for the rest of the changes; if it takes longer, they go on, and it is tried again.
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// How long replicas of the target may take for the rest of the changes; if they take longer, they get it later.
const REPLICAS_WAIT_MS: &[u8] = b"20";

/// What this node has got just now, its target knows within this time.
const KNOWN_WITHIN: Duration = Duration::from_secs(5);

/// If a command goes on that long, so much later.
const PAUSE_EVERY: Duration = Duration::from_millis(500);

/// How often that is tried.
const TRIES_MAX: u32 = 100;

/// Between two looks whether something is possible now.
const LOOK: Duration = Duration::from_millis(5);

/// So long after it has failed a replica of the target may take its place.
const ELECTION_MAX: Duration = Duration::from_secs(5);

/// Between two looks whether the routes say that slots are given away.
const LOOK_AT_ROUTES: Duration = Duration::from_micros(200);

/// If they do not for so long, the log tells it.
const TELL_AFTER: Duration = Duration::from_secs(5);

/// How often the target is asked whether it is there while keys are sent.
const ASK_EVERY: Duration = Duration::from_secs(1);

const OTHERS: &str = "the slots have got another owner";

/// See the module's text.
pub(super) struct Export {
    server: &'static Server,
    cluster: &'static Clustering,
    job: Job,
    slots: Vec<u16>,
    feed: Arc<Feed>,
    stream: Arc<MoveStream>,
    sink: Option<SinkId>,
    is_holding: bool,
    asked: Instant,
    keys: u64,
    bytes: u64,
}

impl Export {
    /// Prepares a move.
    ///
    /// # Errors
    /// It is not possible any more.
    pub(super) fn new(server: &'static Server, cluster: &'static Clustering, job: Job) -> Result<Self, String> {
        let export = Self {
            server,
            cluster,
            slots: job.slots(),
            job,
            feed: Arc::default(),
            stream: MoveStream::new(server.engine(), stream_bytes_max(server)),
            sink: None,
            is_holding: false,
            asked: Instant::now(),
            keys: 0,
            bytes: 0,
        };
        export.check()?;
        Ok(export)
    }

    /// Moves the slots; returns what the log tells of it.
    ///
    /// # Errors
    /// They stay here: why.
    pub(super) fn run(mut self) -> Result<String, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        LocalSet::new().block_on(&runtime, self.send())
    }

    async fn send(&mut self) -> Result<String, String> {
        let (ip, port) = self.address()?;
        let mut target = Target::connect(self.server, &ip, port).await?;
        self.establish(&mut target).await?;
        self.sink = Some(self.stream.attach().map_err(|error| error.to_string())?);
        self.set_stage(Stage::Copies);
        for group in self.groups() {
            self.copy(&mut target, &group).await?;
            self.stream.end_of_copy();
            self.pass_changes(&mut target).await?;
        }
        self.set_stage(Stage::CatchesUp);
        // Not while writes are held back: this waits for the disk.
        self.leave();
        let held = self.hand_over(&mut target).await?;
        let (keys, mb) = (self.keys, self.bytes as f64 / 1e6);
        Ok(format!("{keys} keys, {mb:.1} MB, writes held back for {:.1} ms", held.as_secs_f64() * 1e3))
    }

    fn address(&self) -> Result<(String, u16), String> {
        let is_encrypted = self.server.host.config.read().tls_cluster;
        self.with(|state| {
            let node = state.cluster.node_at(&self.job.target).ok_or("the target is not known any more")?;
            Ok((node.ip, if is_encrypted { node.tls_port } else { node.port }))
        })
    }

    fn with<R>(
        &self,
        look: impl FnOnce(&mut onrush_engine::cluster::node::State) -> Result<R, String>,
    ) -> Result<R, String> {
        let mut state = self.cluster.node.lock().map_err(|_| "the node has not begun".to_owned())?;
        look(&mut state)
    }

    /// Whether it may go on.
    fn check(&self) -> Result<(), String> {
        if self.cluster.moves.is_cancelled(&self.job.name) {
            return Err("a client wants it to end".to_owned());
        }
        let checked = self.with(|state| state.cluster.check_export(&self.slots, &self.job.target));
        checked.map_err(|error| error.trim_start_matches("ERR ").to_owned())
    }

    fn set_stage(&self, stage: Stage) {
        self.cluster.moves.set_stage(&self.job.name, Side::Export, stage, "", now_s(self.server));
    }

    fn note_heard(&self) {
        self.cluster.moves.note_heard(&self.job.name, Side::Export, now_s(self.server));
    }

    async fn establish(&self, target: &mut Target) -> Result<(), String> {
        let mut args: Vec<Vec<u8>> = ["CLUSTER", "SYNCSLOTS", "ESTABLISH", &self.job.name, &self.job.source]
            .map(|arg| arg.as_bytes().to_vec())
            .into();
        for range in self.job.slots.ranges() {
            args.extend([range.start(), range.end()].map(|slot| slot.to_string().into_bytes()));
        }
        let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        let began = Instant::now();
        loop {
            target.send(&request(&args)).await?;
            match self.hear(target, "ESTABLISHED", target.timeout).await {
                // It has not heard yet what this node has got just now.
                Err(why) if why.starts_with("TRYAGAIN") && began.elapsed() < KNOWN_WITHIN => {
                    self.check()?;
                    tokio::time::sleep(PAUSE_MAX).await;
                }
                established => return established,
            }
        }
    }

    /// Waits for an answer that must come.
    async fn hear(&self, target: &mut Target, status: &str, at_most: Duration) -> Result<(), String> {
        match target.hear(status, at_most).await {
            Heard::Status => {
                self.note_heard();
                Ok(())
            }
            Heard::Nothing => Err("the target does not answer".to_owned()),
            Heard::Error(why) | Heard::Closed(why) => Err(why),
        }
    }

    /// The slots may be the target's from here on.
    fn leave(&self) {
        self.cluster.moves.leave(&self.slots, true);
        note_marks(self.server);
    }

    /// Slots that are cut together.
    fn groups(&self) -> Vec<Vec<u16>> {
        let Some(db) = self.server.keyspace.db(0) else { return vec![self.slots.clone()] };
        let (mut groups, mut keys) = (vec![Vec::new()], 0);
        for slot in &self.slots {
            let len = db.shard(usize::from(*slot)).len();
            if keys > 0 && keys + len > GROUP_KEYS_MAX {
                groups.push(Vec::new());
                keys = 0;
            }
            keys += len;
            if let Some(group) = groups.last_mut() {
                group.push(*slot);
            }
        }
        groups
    }

    /// Sends the keys of some slots.
    async fn copy(&mut self, target: &mut Target, group: &[u16]) -> Result<(), String> {
        self.feed.begin();
        while !self.stream.cut(Box::new(FeedOutput(Arc::clone(&self.feed))), group) {
            // Another snapshot comes first.
            self.check()?;
            self.ask(target).await?;
            tokio::time::sleep(LOOK).await;
        }
        if let Some(db) = self.server.keyspace.db(0) {
            self.keys += group.iter().map(|slot| db.shard(usize::from(*slot)).len() as u64).sum::<u64>();
        }
        loop {
            let taken = self.feed.take()?;
            self.pass(target, &taken.bytes).await?;
            if taken.is_whole {
                return Ok(());
            }
            self.pass_changes(target).await?;
            self.check()?;
        }
    }

    async fn pass(&mut self, target: &mut Target, bytes: &[u8]) -> Result<(), String> {
        self.bytes += bytes.len() as u64;
        target.send(bytes).await?;
        self.ask(target).await
    }

    /// Sends what has changed in slots that the target has the keys of.
    async fn pass_changes(&mut self, target: &mut Target) -> Result<(), String> {
        let changes = self.stream.take()?;
        self.pass(target, &changes).await
    }

    /// Asks from time to time whether the target is there.
    async fn ask(&mut self, target: &mut Target) -> Result<(), String> {
        if self.asked.elapsed() < ASK_EVERY {
            return Ok(());
        }
        self.asked = Instant::now();
        if target.has_answered() {
            self.note_heard();
        }
        target.send(&request(&[b"CLUSTER", b"SYNCSLOTS", b"ALIVE"])).await
    }

    /// Sends the changes so far, and has the target say when it has executed them.
    async fn prepare(&mut self, target: &mut Target) -> Result<(), String> {
        self.pass_changes(target).await?;
        target.send(&request(&[b"CLUSTER", b"SYNCSLOTS", b"PREPARE"])).await
    }

    /// Holds writes back and has the target take over when it has all; returns for how long writes were held back.
    async fn hand_over(&mut self, target: &mut Target) -> Result<Duration, String> {
        let (mut len_max, mut lag_before) = (stream_bytes_max(self.server), Duration::MAX);
        for nth in 0..TRIES_MAX {
            let lag_max = if nth < TRIES_FOR_LAG { LAG_MAX } else { PAUSE_MAX };
            self.check()?;
            let asked = Instant::now();
            self.prepare(target).await?;
            self.hear(target, "PREPARED", target.timeout).await?;
            let lag = asked.elapsed();
            if lag > lag_max {
                // What was on its way when the copies ended is no fault of those who write.
                let comes_closer = lag <= std::mem::replace(&mut lag_before, lag) / 2;
                if comes_closer {
                    continue;
                }
                len_max = (len_max / 2).max(STREAM_BYTES_MIN);
                self.stream.set_len_max(len_max);
                self.slow_down(target, lag.min(PAUSE_MAX)).await?;
                continue;
            }
            while !self.reserve()? {
                self.check()?;
                self.pass_changes(target).await?;
                tokio::time::sleep(LOOK).await;
            }
            // To give slots away is to write that down.
            while self.cluster.is_file_failing.load(Relaxed) || !self.hold() {
                // A script takes long, or the disk is full.
                self.release();
                self.check()?;
                self.pass_changes(target).await?;
                tokio::time::sleep(PAUSE_EVERY).await;
            }
            let held = Instant::now();
            self.set_stage(Stage::Pauses);
            let mut last = self.stream.take()?;
            // If the target's replica takes over right after the target has, it is to have all.
            let replicas = self.with(|state| Ok(state.cluster.usable_replicas(&self.job.target)))?;
            if replicas > 0 {
                last.extend(request(&[b"WAIT", replicas.to_string().as_bytes(), REPLICAS_WAIT_MS]));
            }
            last.extend(request(&[b"CLUSTER", b"SYNCSLOTS", b"PREPARE"]));
            self.send_held(target, &last, held).await?;
            let left = PAUSE_MAX.saturating_sub(held.elapsed());
            match target.hear("PREPARED", left).await {
                Heard::Status if self.is_holding => {
                    let is_taken = self.take(target).await?;
                    self.release();
                    if is_taken {
                        return Ok(held.elapsed());
                    }
                    self.end_hand_over();
                    self.set_stage(Stage::CatchesUp);
                    // The two nodes may hand over to each other, and must not go on in step. The name is drawn.
                    let drawn = self.job.name.bytes().cycle().nth(nth as usize).map_or(0, |digit| digit % 8);
                    tokio::time::sleep(LOOK * u32::from(drawn)).await;
                }
                // Writes went on before the target had read all.
                Heard::Status => self.set_stage(Stage::CatchesUp),
                Heard::Nothing => {
                    self.release();
                    self.set_stage(Stage::CatchesUp);
                    self.hear(target, "PREPARED", target.timeout).await?;
                }
                Heard::Error(why) | Heard::Closed(why) => return Err(why),
            }
        }
        Err("the target is too slow for what clients write".to_owned())
    }

    /// Sends something while writes are held back since then. If the target does not read it in time, they go on meanwhile.
    async fn send_held(&mut self, target: &mut Target, bytes: &[u8], held: Instant) -> Result<(), String> {
        self.bytes += bytes.len() as u64;
        let mut sending = std::pin::pin!(target.send(bytes));
        let left = PAUSE_MAX.saturating_sub(held.elapsed());
        match tokio::time::timeout(left, &mut sending).await {
            Ok(sent) => sent,
            Err(_) => {
                self.release();
                sending.await
            }
        }
    }

    /// The target is behind: clients write nothing for a moment.
    async fn slow_down(&mut self, target: &mut Target, time: Duration) -> Result<(), String> {
        self.hold();
        let (held, changes) = (Instant::now(), self.stream.take()?);
        self.send_held(target, &changes, held).await?;
        tokio::time::sleep(time.saturating_sub(held.elapsed())).await;
        self.release();
        Ok(())
    }

    /// Has a majority hear of the hand-over. `false`: not yet.
    fn reserve(&self) -> Result<bool, String> {
        let facts = Facts(self.server.engine());
        let is_ready = self.with(|state| state.cluster.reserve_hand_over(facts.now(), &facts))?;
        self.cluster.node.wake();
        Ok(is_ready)
    }

    fn hold(&mut self) -> bool {
        self.is_holding = true;
        self.server.hold_writes(Hold::Move, PAUSE_MAX)
    }

    fn release(&mut self) {
        if std::mem::take(&mut self.is_holding) {
            self.server.release_writes(Hold::Move);
        }
    }

    /// Has the target take over, and gives the slots away. If it does not answer, it may have them: nobody writes here until
    /// that is known, or a target without replicas has failed, or twice the time has gone by after which a node counts as failed, and
    /// [`ELECTION_MAX`] more if it has replicas. Then this node keeps those that nobody else has, by an epoch above the target's, as
    /// soon as a majority has answered and has heard of that: until then others may have them without its knowing. While the cluster
    /// is down here nobody is held back.
    /// `false`: it can't just now.
    async fn take(&mut self, target: &mut Target) -> Result<bool, String> {
        // From then on no client can end the move.
        self.set_stage(Stage::HandsOver);
        self.check()?;
        let facts = Facts(self.server.engine());
        let begun =
            self.with(|state| state.cluster.begin_hand_over(&self.slots, &self.job.target, facts.now(), &facts));
        let Some(epoch) = begun? else { return Ok(false) };
        let asked = Instant::now();
        let may_take_ms = target.timeout.as_millis().to_string();
        let epoch = epoch.to_string();
        let take = [&b"CLUSTER"[..], b"SYNCSLOTS", b"TAKE", may_take_ms.as_bytes(), epoch.as_bytes()];
        target.send(&request(&take)).await?;
        let (mut is_closed, mut has_replicas, mut told) = (false, false, None);
        loop {
            let heard = match is_closed {
                true => {
                    tokio::time::sleep(LOOK).await;
                    Heard::Nothing
                }
                false => target.hear("TAKEN", LOOK).await,
            };
            match heard {
                // It has told all that the slots are here.
                Heard::Status if self.with(|state| Ok(state.cluster.has_claimed_back()))? => is_closed = true,
                Heard::Status => return self.give().map(|()| true),
                Heard::Error(why) if why.starts_with("TRYAGAIN") => {
                    return self.with(|state| {
                        epoch_in(&why).into_iter().for_each(|epoch| state.cluster.hear_epoch(epoch));
                        Ok(false)
                    });
                }
                Heard::Error(why) => return Err(why),
                Heard::Closed(_) => is_closed = true,
                Heard::Nothing => {}
            }
            let (own, theirs) = self.with(|state| {
                let cluster = &state.cluster;
                has_replicas |= cluster.usable_replicas(&self.job.target) > 0;
                Ok((cluster.own_among(&self.slots), cluster.count_of(&self.slots, &self.job.target)))
            })?;
            self.go_on_if_down();
            // This node's time may be another one than the target's, and begins before the target's. A replica of the target that has
            // failed may have the slots, and says so when it has taken over.
            let at_most = 2 * target.timeout + if has_replicas { ELECTION_MAX } else { Duration::ZERO };
            if theirs == self.slots.len() {
                // The bus may tell it before the target serves clients, and that may take long.
                let told = *told.get_or_insert_with(Instant::now);
                if is_closed || told.elapsed() > PAUSE_MAX {
                    return self.give().map(|()| true);
                }
            } else if own == 0 {
                return Err(OTHERS.to_owned());
            } else if (asked.elapsed() >= at_most || is_closed && !has_replicas && self.check().is_err())
                && self.keep()?
            {
                return Err("the target has not said that it has taken over".to_owned());
            }
        }
    }

    /// The slots are the target's: from the end of this on, no client writes to them here. The routes say so before the file of
    /// nodes does. If the bus stands still because of the disk, clients are told so instead of being held back.
    fn give(&self) -> Result<(), String> {
        let facts = Facts(self.server.engine());
        self.with(|state| {
            state.cluster.give_slots(&self.slots, &self.job.target, facts.now(), &facts);
            state.cluster.end_hand_over();
            // Whatever the bus waits for.
            self.cluster.foretell(Arc::new(Routes::of(&state.cluster)));
            Ok(())
        })?;
        self.cluster.node.wake();
        wait_for_routes(self.cluster, || !self.slots.iter().any(|slot| self.cluster.routes().own.has(*slot)));
        Ok(())
    }

    /// The slots stay here, and clients go on when that is saved: the target may have them, and come back. `false`: not yet.
    fn keep(&self) -> Result<bool, String> {
        let (facts, is_saved) = (Facts(self.server.engine()), Arc::new(AtomicBool::new(false)));
        let saved = Arc::clone(&is_saved);
        let keeps = self.with(|state| {
            if state.cluster.own_among(&self.slots) == 0 {
                return Err(OTHERS.to_owned());
            }
            let keeps = state.cluster.keep_slots(facts.now(), &facts);
            if keeps {
                state.waiting.push(Box::new(move |_| saved.store(true, Release)));
            }
            Ok(keeps)
        })?;
        self.cluster.node.wake();
        if keeps {
            wait_for_routes(self.cluster, || is_saved.load(Acquire));
        }
        Ok(keeps)
    }

    /// The cluster does not come up while slots are handed over, so nobody need be held back as long as it is down.
    fn go_on_if_down(&mut self) {
        if self.is_holding && self.with(|state| Ok(state.cluster.is_up())) == Ok(false) {
            self.refuse_what_has_gone();
            self.release();
        }
    }

    /// Clients go on, but not with slots that have got another owner, nor while the cluster is down, whatever the routes say so far.
    fn refuse_what_has_gone(&self) {
        let _ = self.with(|state| {
            if state.cluster.own_among(&self.slots) < self.slots.len() || !state.cluster.is_up() {
                self.cluster.foretell(Arc::new(Routes::of(&state.cluster)));
                // The bus makes new ones, which these give way to.
                state.cluster.tell_replicas_again();
            }
            Ok(())
        });
        self.cluster.node.wake();
    }

    /// It is clear whose the slots are.
    fn end_hand_over(&self) {
        // The node has begun, or nothing was handed over.
        let _ = self.with(|state| {
            state.cluster.end_hand_over();
            Ok(())
        });
    }
}

/// Waits until routes hold or a new state is saved, or clients are refused because the bus stands still.
fn wait_for_routes(cluster: &Clustering, are_there: impl Fn() -> bool) {
    let (began, mut is_told) = (Instant::now(), false);
    while !are_there() && !cluster.is_stopped() {
        if began.elapsed() > TELL_AFTER && !std::mem::replace(&mut is_told, true) {
            tracing::warn!(
                "Writes are still held back: a command goes on, or the disk is slow, and slots are handed over"
            );
        }
        std::thread::sleep(LOOK_AT_ROUTES);
    }
}

/// The node that gets slots is a kind of replica until it has them.
fn stream_bytes_max(server: &Server) -> usize {
    match server.settings.output_limits().replica.hard_bytes {
        0 => STREAM_BYTES_MAX,
        limit => usize::try_from(limit).unwrap_or(usize::MAX).max(STREAM_BYTES_MIN),
    }
}

impl Drop for Export {
    fn drop(&mut self) {
        if self.is_holding {
            self.refuse_what_has_gone();
        }
        self.release();
        self.end_hand_over();
        self.feed.close();
        // Those that have gone keep the mark until their keys are deleted; without keys, nobody comes to that.
        let is_empty = |slot: u16| self.server.keyspace.db(0).is_some_and(|db| db.shard(usize::from(slot)).is_empty());
        let own = |slot: u16| self.with(|state| Ok(state.cluster.own_among(&[slot]) > 0)).unwrap_or(true);
        let stay: Vec<u16> = self.slots.iter().copied().filter(|slot| is_empty(*slot) || own(*slot)).collect();
        if !stay.is_empty() {
            self.cluster.moves.leave(&stay, false);
            note_marks(self.server);
        }
        if let Some(underway) = self.server.snapshots.underway()
            && underway.purpose == Purpose::Slots
        {
            underway.abort("the move of slots has ended");
        }
        if let Some(sink) = self.sink.take() {
            self.stream.end(sink);
        }
    }
}
