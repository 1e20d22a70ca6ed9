//! Crashes: what a disk would have of a round, and an engine that loads it.
//!
//! The simulation follows the log and takes snapshots while clients go on. A crash keeps the records up to one of them.
//! A restart loads the newest snapshot from before that record, if there is one, and the records after its cut. Replies
//! that depend on no later record count as sent, as on a connection that waits for the disk. Whether any other command
//! was executed is unknown.

use std::sync::Arc;

use onrush_engine::batch::runner::Runner;
use onrush_engine::clients::local::LocalClient;
use onrush_engine::ctx::Engine;
use onrush_engine::shared::Parts;
use onrush_engine::snapshot::output::Purpose;
use onrush_persist::{CommandLog, FOR_LOG, FOR_REPLICAS, Record, Sink};
use onrush_store::Random;
use parking_lot::Mutex;

use crate::snapshot;
use crate::world::new_engine;

/// A record of the log.
pub struct Logged {
    lsn: u64,
    /// The commands that change data, with their databases: notes of replication are none.
    pub commands: Vec<(u32, Vec<u8>)>,
}

/// The records of a log, from some on.
pub type Records = Arc<Mutex<Vec<Logged>>>;

/// A snapshot that was completed.
#[derive(Clone)]
struct Saved {
    /// It holds exactly what the records up to this one have done.
    lsn: u64,
    bytes: Vec<u8>,
}

/// What would be on the disk.
#[derive(Default)]
pub struct Disk {
    records: Records,
    saved: Mutex<Vec<Saved>>,
    /// The newest record before the round.
    first: Mutex<u64>,
}

/// What a crash leaves.
pub struct Left {
    /// The newest record.
    pub lsn: u64,
    saved: Option<Saved>,
    /// Those behind the snapshot, each with what frames it.
    commands: Vec<u8>,
}

impl Left {
    /// In words, what is loaded first.
    pub fn base(&self) -> String {
        match &self.saved {
            Some(saved) => format!("a snapshot at record {}, and those behind it", saved.lsn),
            None => "records alone".to_owned(),
        }
    }
}

struct Recorder(Records);

impl Sink for Recorder {
    fn record(&mut self, record: Record<'_>) {
        let data = record.commands().filter(|(db, _)| ![FOR_LOG, FOR_REPLICAS].contains(db));
        let commands = data.map(|(db, bytes)| (db, bytes.to_vec())).collect();
        self.0.lock().push(Logged { lsn: record.lsn, commands });
    }
}

/// Adds what a log records from here on.
pub fn record(log: &CommandLog, records: &Records) {
    log.follow(Box::new(Recorder(Arc::clone(records))));
}

impl Disk {
    /// Begins to follow a log. No thread may be in the keyspace.
    pub fn follow(&self, log: &CommandLog) {
        record(log, &self.records);
    }

    /// Takes a snapshot, as the thread for snapshots does. FLUSHALL may end a snapshot that is a file of its own.
    pub fn save(&self, engine: &'static Engine, purpose: Purpose) {
        let taken = snapshot::take(engine, purpose, || Ok(engine.log.last_lsn()));
        self.saved.lock().extend(taken.map(|(lsn, bytes)| Saved { lsn, bytes }));
    }

    /// A new round begins with empty databases.
    pub fn forget(&self, log: &CommandLog) {
        log.flush();
        self.records.lock().clear();
        self.saved.lock().clear();
        *self.first.lock() = log.last_lsn();
    }

    /// What a crash leaves at a record that `random` chooses.
    pub fn left(&self, log: &CommandLog, random: &mut Random) -> Left {
        log.flush();
        let records = self.records.lock();
        let first = *self.first.lock();
        let count = (log.last_lsn() - first) as usize;
        assert_eq!(records.len(), count, "the log lacks records");
        let mut saved: Vec<Saved> = self.saved.lock().clone();
        // Often just after a snapshot, where most can go wrong.
        let near = saved.last().filter(|_| random.below(3) > 0).map(|saved| saved.lsn + random.below(4) as u64);
        let lsn = near.unwrap_or(first + random.below(count + 1) as u64).min(log.last_lsn());
        saved.retain(|saved| saved.lsn <= lsn && random.below(4) > 0);
        let saved = saved.into_iter().max_by_key(|saved| saved.lsn);
        let behind = saved.as_ref().map_or(first, |saved| saved.lsn);
        let mut commands = Vec::new();
        for record in records.iter().filter(|record| record.lsn > behind && record.lsn <= lsn) {
            for (db, command) in &record.commands {
                commands.extend_from_slice(format!("SELECT {db}\r\n").as_bytes());
                commands.extend_from_slice(command);
            }
        }
        Left { lsn, saved, commands }
    }
}

/// An engine that loads what is left.
pub struct Restarted {
    engine: &'static Engine,
    /// The client that reads what the engine has loaded.
    pub client: LocalClient,
    /// What executes the reader's commands.
    pub runner: Runner,
}

impl Restarted {
    /// An engine that shares only the time with the one that crashed.
    pub fn new(seed: u64) -> Self {
        let engine = new_engine(seed, Parts { shards: 4, ..Parts::default() });
        Self { engine, client: LocalClient::new(engine), runner: Runner::new(engine, 0) }
    }

    /// Loads what the crash left in place of what was loaded before.
    ///
    /// # Errors
    /// It cannot be loaded, or a command fails.
    pub fn load(&mut self, left: &Left) -> Result<(), String> {
        self.client.run(&mut self.runner, "FLUSHALL\n");
        if let Some(saved) = &left.saved {
            snapshot::load(self.engine, &saved.bytes)?;
        }
        let mut client = LocalClient::new(self.engine);
        client.replay();
        let replies = client.run(&mut self.runner, &left.commands);
        let failed = replies.split(|byte| *byte == b'\n').find(|line| line.starts_with(b"-"));
        failed.map_or(Ok(()), |line| Err(String::from_utf8_lossy(line).into_owned()))
    }
}
