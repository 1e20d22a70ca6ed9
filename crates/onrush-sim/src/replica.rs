//! Replicas: engines that follow the simulated one over links that break in the middle of anything.
//!
//! A replica asks for the stream behind what it has, or gets all data, as over a socket; what it executes is the engine's.
//! A replica restarts now and then: as another engine with the data that it had, or with none. Its clock stands still, so
//! that only what the primary says expires.
//!
//! A reader reads all keys of a replica at once, again and again. After a round a *judge*, which executes the records of the
//! primary one by one, tells which states there have been: what was read must be among them, in their order.

use std::ops::RangeInclusive;
use std::sync::Arc;

use onrush_engine::batch::runner::Runner;
use onrush_engine::clients::local::LocalClient;
use onrush_engine::ctx::Engine;
use onrush_engine::loading::empty::empty;
use onrush_engine::replication::attached::{Phase, Replica as Attached};
use onrush_engine::replication::follower::Follower;
use onrush_engine::replication::history::{Epoch, Position};
use onrush_engine::replication::introduction::Introduction;
use onrush_engine::replication::role::Primary;
use onrush_engine::shared::Parts;
use onrush_engine::snapshot::output::Purpose;
use onrush_persist::aof::{Part, StreamScan};
use onrush_store::{Random, schedule};
use parking_lot::Mutex;

use crate::command::{Command, DATABASES, KEYS_MAX};
use crate::crash::{Records, record};
use crate::reply::Reply;
use crate::snapshot;
use crate::world::{self, World};

/// Replicas of a simulation.
pub const REPLICAS: usize = 2;

/// Bytes that a link carries at once, at most.
const CARRIED_MAX: usize = 300;

/// Reads of replicas in a round, at most.
const READS_MAX: usize = 6;

/// Writes of a replica that has taken over.
const NEW_WRITES: usize = 20;

/// Restarts of a replica in a simulation. Every one leaves an engine behind.
const RESTARTS_MAX: usize = 10;

/// All data, cut at a place of a history.
#[derive(Clone)]
struct Payload {
    cut: Position,
    epoch: Epoch,
    bytes: Arc<Vec<u8>>,
}

/// What the primary has for its replicas.
#[derive(Default)]
pub struct Service {
    /// Whether all data is wanted.
    is_wanted: Mutex<bool>,
    payload: Mutex<Option<Payload>>,
}

/// The replicas of a simulation.
#[derive(Default)]
pub struct Replicas {
    /// What the primary has for them.
    pub service: Service,
    /// All of them.
    pub all: Vec<Mutex<Replica>>,
    /// Their engines, for those who read.
    engines: Mutex<Vec<&'static Engine>>,
    judge: Option<Judge>,
    /// The newest record before the round.
    first_lsn: Mutex<u64>,
}

impl Replicas {
    /// Replicas without data, with the keys that may be read of them.
    pub fn new(seed: u64, keys: usize) -> Self {
        let all: Vec<_> = (0..REPLICAS).map(|nth| Replica::new(seed ^ (nth as u64 + 1) << 8)).collect();
        let engines = Mutex::new(all.iter().map(|replica| replica.engine).collect());
        let all = all.into_iter().map(Mutex::new).collect();
        Self { all, engines, judge: Some(Judge::new(seed, keys)), ..Self::default() }
    }

    /// Begins the stream and the records for the judge. No other thread goes on meanwhile.
    pub fn begin(&self, world: &World) {
        let Some(judge) = &self.judge else { return };
        record(&world.engine.log, &judge.records);
        if let Err(error) = world.engine.replication.begin_stream(world.engine) {
            world.fail(&format!("The stream cannot begin: {error}"));
        }
        *self.first_lsn.lock() = world.engine.log.last_lsn();
    }

    /// As the thread of a replica: does something at random; returns whether there was anything to do.
    pub fn turn(&self, world: &World, nth: usize, random: &mut Random) -> bool {
        let mut replica = schedule::lock(&self.all[nth], "a replica");
        let acts = replica.turn(world, random);
        self.engines.lock()[nth] = replica.engine;
        acts
    }

    /// As the thread that reads: reads a replica that has data of the primary, at random; returns whether it did. `reads`: how
    /// often it has.
    pub fn read(&self, world: &World, reads: &mut usize, random: &mut Random) -> bool {
        let nth = random.below(self.all.len());
        let engine = self.engines.lock()[nth];
        let id = |engine: &Engine| engine.replication.history.position().id;
        let may = *reads < READS_MAX && random.below(3) == 0 && id(engine) == id(world.engine);
        if may && let Some(judge) = &self.judge {
            *reads += 1;
            judge.read(nth, engine);
        }
        may
    }

    /// The replicas that have data of the primary, the one that has most last, and the records that each may have, if it is behind
    /// the beginning of the round: all of them up to one of these.
    pub fn known(&self, world: &World) -> Vec<(usize, Option<RangeInclusive<u64>>)> {
        let history = &world.engine.replication.history;
        let id = history.position().id;
        let places = self.all.iter().map(|replica| replica.lock().engine.replication.history.position());
        let mut known: Vec<_> = places.enumerate().filter(|(_, place)| place.id == id).collect();
        known.sort_by_key(|(_, place)| place.offset);
        let with_records = |(nth, place): (usize, Position)| {
            let least = history.lsn_at(place.offset);
            let mut most = least;
            // All records with one mark were sent together.
            let next = history.end_of(least + 1);
            while next.is_some() && history.end_of(most + 1) == next {
                most += 1;
            }
            (nth, (least >= *self.first_lsn.lock()).then_some(least..=most))
        };
        known.into_iter().map(with_records).collect()
    }

    /// At the end of a round: a replica becomes a primary and the others follow it, or all follow the primary; then those that
    /// follow have the same data. No other thread goes on meanwhile.
    pub fn settle(&self, world: &World, promoted: Option<usize>) {
        let mut all: Vec<_> = self.all.iter().map(|replica| replica.lock()).collect();
        let id = world.engine.replication.history.position().id;
        let service = Service::default();
        let (primary, service) = match promoted {
            Some(nth) => {
                all[nth].promote(world);
                let engine = all[nth].engine;
                let was_same = have_same(world.engine, engine);
                let mut client = LocalClient::new(engine);
                for _ in 0..NEW_WRITES {
                    client.run(&mut Runner::new(engine, 0), Command::Incr(KEYS_MAX).encode());
                }
                engine.log.flush();
                // The old primary would follow it from here on.
                let offset = world.engine.replication.history.offset();
                if engine.replication.history.ask(&id, offset + 1).is_known && !was_same {
                    world
                        .fail(&format!("Replica {nth} has taken over, and lets the old primary go on with other data"));
                }
                (engine, &service)
            }
            None => (world.engine, &self.service),
        };
        for nth in (0..all.len()).filter(|nth| Some(*nth) != promoted) {
            let replica = &mut all[nth];
            let position = replica.engine.replication.history.position();
            // One that was loaded has the bytes behind that alone.
            let kept_from = primary.replication.history.kept().0;
            let may_go_on = position.id == id && replica.follower.is_some() && position.offset >= kept_from;
            if promoted.is_some() {
                replica.link = None;
            }
            let full_syncs = replica.syncs[0];
            replica.catch_up(world, primary, service);
            if promoted.is_some() && may_go_on && replica.syncs[0] > full_syncs {
                world.fail(&format!("Replica {nth} had to get all data though a replica that has more took over"));
            }
            if !have_same(primary, replica.engine) {
                world.fail(&format!("Replica {nth} has other data than its primary"));
            }
        }
        if let Some(nth) = promoted {
            all.iter_mut().for_each(|replica| replica.link = None);
            all[nth].demote();
        }
    }

    /// Looks whether everything that was read had been a state of the primary. No other thread goes on meanwhile.
    pub fn judge(&self, world: &World) {
        if let Some(judge) = &self.judge {
            judge.judge(world);
        }
    }

    /// How often replicas got all data, and how often they went on where they were.
    pub fn syncs(&self) -> [u64; 2] {
        let count = |kind: usize| self.all.iter().map(|replica| replica.lock().syncs[kind]).sum();
        [count(0), count(1)]
    }

    /// A new round begins.
    pub fn begin_round(&self, world: &World) {
        *self.first_lsn.lock() = world.engine.log.last_lsn();
        self.all.iter().for_each(|replica| replica.lock().is_cut_off = false);
        // Who got that would go through all of the round before.
        *self.service.payload.lock() = None;
    }
}

/// Takes a snapshot of an engine for replicas.
fn take(engine: &'static Engine) -> Option<Payload> {
    let taken = snapshot::take(engine, Purpose::Replicas, || engine.replication.cut(engine));
    taken.map(|((cut, epoch), bytes)| Payload { cut, epoch, bytes: Arc::new(bytes) })
}

impl Service {
    /// Takes a snapshot if a replica wants all data; returns whether one did.
    pub fn serve(&self, engine: &'static Engine) -> bool {
        let is_wanted = std::mem::take(&mut *self.is_wanted.lock());
        if is_wanted {
            *self.payload.lock() = take(engine);
        }
        is_wanted
    }

    /// The payload, if the stream behind it is that of the history now and is kept.
    fn joined(&self, engine: &Engine) -> Option<Payload> {
        let history = &engine.replication.history;
        let payload = self.payload.lock().clone();
        let is_good = |payload: &Payload| payload.epoch == history.epoch() && payload.cut.offset >= history.kept().0;
        let payload = payload.filter(is_good);
        *self.is_wanted.lock() |= payload.is_none();
        payload
    }
}

/// A connection to the primary.
struct Link {
    /// How the primary sees this replica.
    attached: Arc<Attached>,
    primary: &'static Engine,
    /// The first byte of the stream that has not been sent, and the epoch of the primary's history.
    next: u64,
    epoch: Epoch,
    scan: StreamScan,
    /// What has come and was not executed.
    bytes: Vec<u8>,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.primary.replication.attached.remove(&self.attached);
    }
}

/// See the module's text.
pub struct Replica {
    /// The data.
    pub engine: &'static Engine,
    follower: Option<Follower>,
    /// Without it, what has come of a command is lost.
    link: Option<Link>,
    restarts: usize,
    /// Whether it stays apart until the round is over.
    is_cut_off: bool,
    seed: u64,
    /// How often it got all data, and how often it went on where it was.
    pub syncs: [u64; 2],
}

fn new_engine(seed: u64) -> &'static Engine {
    let mut random = Random::new(seed);
    let parts = Parts { shards: [1, 4, 64][random.below(3)], workers: 1, ..Parts::default() };
    let engine = world::new_engine(seed, parts);
    follow_anybody(engine);
    engine
}

/// Makes an engine a replica. Nobody else uses it.
fn follow_anybody(engine: &'static Engine) {
    let primary = Primary { host: "simulated".to_owned(), port: 1 };
    // No stream begins, which alone could fail.
    let _ = engine.replication.change_role(engine, Some(primary));
}

/// Puts data into an engine in place of what it has.
fn load(engine: &'static Engine, payload: &Payload) -> Result<(), String> {
    engine.loading.begin(0, 0);
    let alone = engine.gate.exclusive(engine.gate.take_turn());
    empty(engine);
    drop(alone);
    snapshot::load(engine, &payload.bytes)?;
    engine.replication.take_over(payload.cut.clone());
    engine.replication.history.set_db(Some(engine.loading.stream_db()));
    engine.loading.end();
    Ok(())
}

impl Replica {
    /// One without data.
    pub fn new(seed: u64) -> Self {
        let engine = new_engine(seed);
        Self { engine, follower: None, link: None, restarts: 0, is_cut_off: false, seed, syncs: [0; 2] }
    }

    /// Does something at random; returns whether there was anything to do.
    pub fn turn(&mut self, world: &World, random: &mut Random) -> bool {
        match &self.link {
            None if self.is_cut_off => false,
            None if random.below(3) > 0 => false,
            None if self.follower.is_some() && self.restarts < RESTARTS_MAX && random.below(4) == 0 => {
                self.restart(world, random.below(4) > 0);
                true
            }
            None => self.connect(world, world.engine, &world.replicas.service),
            Some(_) if random.below(40) == 0 => {
                self.is_cut_off = random.below(4) == 0;
                self.link = None;
                true
            }
            Some(_) => self.carry(world, 1 + random.below(CARRIED_MAX)),
        }
    }

    /// Begins anew with the data that it has, as after a shutdown, or with none.
    fn restart(&mut self, world: &World, has_data: bool) {
        self.restarts += 1;
        let payload = if has_data { take(self.engine) } else { None };
        self.follower = None;
        self.engine = new_engine(self.seed + self.restarts as u64);
        if let Some(payload) = payload {
            self.load(world, &payload);
        }
    }

    fn load(&mut self, world: &World, payload: &Payload) {
        if let Err(error) = load(self.engine, payload) {
            world.fail(&format!("All data of offset {} cannot be loaded: {error}", payload.cut.offset));
        }
        self.follower = Some(Follower::new(self.engine, &mut runner(self.engine)));
    }

    /// Connects to a primary; returns `false` if that has to make the data first.
    pub fn connect(&mut self, world: &World, primary: &'static Engine, service: &Service) -> bool {
        let own = &self.engine.replication.history;
        let position = own.position();
        let history = &primary.replication.history;
        let asked = history.ask(&position.id, position.offset + 1);
        let (next, epoch) = if self.follower.is_some() && asked.is_known && asked.next >= history.kept().0 {
            let id = history.position().id;
            if id != position.id {
                own.rename(id);
            }
            self.syncs[1] += 1;
            (asked.next, asked.epoch)
        } else {
            let Some(payload) = service.joined(primary) else { return false };
            self.load(world, &payload);
            self.syncs[0] += 1;
            (payload.cut.offset, payload.epoch)
        };
        let handle = Arc::clone(LocalClient::new(primary).handle());
        primary.clients.remove(handle.id);
        let attached = Arc::new(Attached::new(handle, Introduction::default(), primary.clock.unix_ms()));
        attached.set_phase(Phase::Online);
        primary.replication.attached.add(&attached);
        self.link = Some(Link { attached, primary, next, epoch, scan: StreamScan::default(), bytes: Vec::new() });
        true
    }

    /// Carries some bytes of the stream and executes what is whole; returns whether there was anything.
    pub fn carry(&mut self, world: &World, len: usize) -> bool {
        let (Some(link), Some(follower)) = (&mut self.link, &mut self.follower) else { return false };
        let replication = &link.primary.replication;
        link.primary.log.flush();
        if replication.history.epoch() != link.epoch {
            self.link = None;
            return true;
        }
        let Ok(read) = replication.history.read(link.epoch.lineage, link.next, len, &mut link.bytes) else {
            world.fail(&format!("The stream from {} on is not kept, which a replica lacks", link.next));
        };
        if read == 0 {
            return false;
        }
        link.next += read as u64;
        schedule::point();
        loop {
            let part = match link.scan.next(&link.bytes) {
                Ok(Some(Part::Commands { len, .. } | Part::AckWanted { len })) => len,
                Ok(None) => break,
                Err(error) => world.fail(&format!("The stream before {} has {error}", link.next)),
            };
            execute(world, (self.engine, follower), &link.bytes[..part]);
            link.bytes.drain(..part);
        }
        let offset = self.engine.replication.history.offset();
        link.attached.acknowledge(offset, None, link.primary.clock.unix_ms());
        true
    }

    /// Follows a primary to the end of its stream.
    pub fn catch_up(&mut self, world: &World, primary: &'static Engine, service: &Service) {
        while self.link.is_none() && !self.connect(world, primary, service) {
            service.serve(primary);
        }
        while self.carry(world, usize::MAX >> 1) {}
        if self.link.is_none() {
            self.catch_up(world, primary, service);
        }
    }

    /// Makes it a primary.
    pub fn promote(&mut self, world: &World) {
        self.link = None;
        if let Err(error) = self.engine.replication.change_role(self.engine, None) {
            world.fail(&format!("A replica cannot become a primary: {error}"));
        }
    }

    /// Makes it a replica again, of a primary that has other data.
    pub fn demote(&mut self) {
        follow_anybody(self.engine);
        self.follower = None;
    }
}

/// What executes a stream on an engine.
fn runner(engine: &'static Engine) -> Runner {
    Runner::new(engine, engine.replica_thread())
}

fn execute(world: &World, (engine, follower): (&'static Engine, &mut Follower), bytes: &[u8]) {
    let mut replies = Vec::new();
    let executed = follower.execute(&mut runner(engine), bytes, |some| replies.extend_from_slice(some), || {});
    let failed = replies.split(|byte| *byte == b'\n').find(|line| line.starts_with(b"-"));
    if executed.is_err() || failed.is_some() {
        let why = failed.map_or("it does not end".into(), String::from_utf8_lossy);
        world.fail(&format!("What a replica gets fails: {why}\n{}", String::from_utf8_lossy(bytes)));
    }
}

/// The values and times of keys. Members of sets are sorted.
type State = Vec<Reply>;

/// Reads all keys, between MULTI and EXEC if `at_once`. `None`: data is being loaded.
fn read_all(engine: &'static Engine, keys: usize, at_once: bool) -> Option<State> {
    let commands = (0..keys)
        .flat_map(|key| [Command::ExpireTime(key), Command::Get(key), Command::Range(key), Command::Members(key)]);
    let commands: Vec<Vec<u8>> = (0..DATABASES)
        .flat_map(|db| [Command::Select(db)].into_iter().chain(commands.clone()))
        .map(|command| command.encode())
        .collect();
    let [begin, end] = if at_once { [&b"MULTI\n"[..], b"EXEC\n"] } else { [&b""[..]; 2] };
    let bytes = [begin, &commands.concat(), end].concat();
    let replies = LocalClient::new(engine).run(&mut Runner::new(engine, 0), bytes);
    let mut rest = &replies[..];
    let replies = std::iter::from_fn(|| Reply::take(&mut rest)).collect::<Vec<_>>();
    let replies = if at_once { replies.into_iter().next_back().map(Reply::items)? } else { replies };
    let is_loading = |reply: &Reply| matches!(reply, Reply::Error(text) if text.starts_with("LOADING"));
    let is_read = replies.len() == commands.len() && !replies.iter().any(is_loading);
    let sorted = |(command, reply): (&Vec<u8>, Reply)| {
        let has_any_order = command.windows(8).any(|word| word == b"SMEMBERS");
        if has_any_order { reply.sorted() } else { reply }
    };
    is_read.then(|| commands.iter().zip(replies).map(sorted).collect())
}

/// Whether two have the same data.
fn have_same(one: &'static Engine, other: &'static Engine) -> bool {
    let state = read_all(one, KEYS_MAX + 1, false);
    state.is_some() && state == read_all(other, KEYS_MAX + 1, false)
}

/// What was read of a replica: its number, the address of its engine, and the epoch of its history.
struct Read {
    from: (usize, usize, Epoch),
    state: State,
}

/// Reads of replicas, and what judges them.
struct Judge {
    reads: Mutex<Vec<Read>>,
    keys: usize,
    /// What the primary has done and the judge has not seen.
    records: Records,
    engine: &'static Engine,
}

impl Judge {
    fn new(seed: u64, keys: usize) -> Self {
        Self { reads: Mutex::default(), keys, records: Arc::default(), engine: new_engine(seed) }
    }

    /// Reads all keys of an engine, if it is not just loading.
    fn read(&self, nth: usize, engine: &'static Engine) {
        let history = &engine.replication.history;
        let epoch = history.epoch();
        let state = read_all(engine, self.keys, true);
        let is_same = history.epoch() == epoch && !engine.loading.is_on();
        if let Some(state) = state.filter(|_| is_same) {
            self.reads.lock().push(Read { from: (nth, std::ptr::from_ref(engine).addr(), epoch), state });
        }
    }

    /// Executes record by record and looks for everything that was read.
    fn judge(&self, world: &World) {
        let records = std::mem::take(&mut *self.records.lock());
        let mut reads = std::mem::take(&mut *self.reads.lock());
        // Of each replica and epoch what comes next, at the end.
        reads.reverse();
        self.look(&mut reads);
        let mut client = LocalClient::new(self.engine);
        client.replay();
        for record in records.into_iter().filter(|record| !record.commands.is_empty()) {
            let mut bytes = b"MULTI\n".to_vec();
            for (db, command) in record.commands {
                bytes.extend_from_slice(format!("SELECT {db}\n").as_bytes());
                bytes.extend_from_slice(&command);
            }
            bytes.extend_from_slice(b"EXEC\n");
            client.run(&mut runner(self.engine), bytes);
            self.look(&mut reads);
        }
        if let Some(Read { from: (nth, ..), state }) = reads.last() {
            let state = Reply::Array(state.clone());
            world.fail(&format!("Replica {nth} had a state that the primary never had, or had before: {state}"));
        }
    }

    /// Takes from the reads those that show the state as it is, unless another one of the same replica comes first.
    fn look(&self, reads: &mut Vec<Read>) {
        if reads.is_empty() {
            return;
        }
        let state = read_all(self.engine, self.keys, true);
        let mut earlier = Vec::new();
        for at in (0..reads.len()).rev() {
            let Read { from, state: read } = &reads[at];
            if earlier.contains(from) {
                continue;
            }
            if state.as_ref() == Some(read) {
                reads.remove(at);
            } else {
                earlier.push(*from);
            }
        }
    }
}
