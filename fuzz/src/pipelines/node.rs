//! An engine with what it takes to run, to save and to load it.

use std::io;
use std::sync::Arc;

use onrush_engine::batch::runner::Runner;
use onrush_engine::clients::local::LocalClient;
use onrush_engine::command::CommandTable;
use onrush_engine::commands::FAMILIES;
use onrush_engine::commit::Expired;
use onrush_engine::ctx::Engine;
use onrush_engine::loading::load::{Rules, load_batch, load_end};
use onrush_engine::process::Process;
use onrush_engine::replication::reached::end_waits;
use onrush_engine::settings::Pause;
use onrush_engine::shared::Parts;
use onrush_engine::snapshot::output::{NoResult, Output, Purpose};
use onrush_engine::snapshot::run::{At, begin, run};
use onrush_persist::rdb::{Batch, FileReader, FileWriter};
use onrush_persist::{FOR_LOG, FOR_REPLICAS, Record, Sink};
use onrush_resp::ReplyDecoder;
use onrush_store::{Db, Entry, Type};
use parking_lot::Mutex;

use super::time;
use crate::tree::Tree;

/// Databases: few, so that commands meet.
const DATABASES: usize = 4;

const SEED: u64 = 1;

/// All engines: nobody takes those that are no longer used for lost memory.
static ENGINES: Mutex<Vec<&'static Engine>> = Mutex::new(Vec::new());

/// See the module's text.
pub struct Node {
    /// The engine.
    pub engine: &'static Engine,
    /// Its only thread.
    pub runner: Runner,
}

impl Node {
    /// An engine in this process, which lasts as long as the process does.
    pub fn new(process: &'static dyn Process) -> Self {
        let parts = Parts {
            databases: DATABASES,
            shards: 4,
            time: time::SOURCE,
            hash_seed: Some(SEED),
            seed: SEED,
            process,
            ..Parts::default()
        };
        let engine: &'static Engine = Box::leak(Box::new(Engine::new(&parts, CommandTable::new(FAMILIES))));
        ENGINES.lock().push(engine);
        Self { engine, runner: Runner::new(engine, 0) }
    }

    /// What a new client gets for a command.
    ///
    /// # Panics
    /// If the reply does not come at once.
    pub fn run(&mut self, command: &str) -> Vec<u8> {
        LocalClient::new(self.engine).run(&mut self.runner, format!("{command}\r\n"))
    }

    /// As [`Node::run`], in another database.
    pub fn run_in(&mut self, db: usize, command: &str) -> Vec<u8> {
        let mut client = LocalClient::new(self.engine);
        client.run(&mut self.runner, format!("SELECT {db}\r\n"));
        client.run(&mut self.runner, format!("{command}\r\n"))
    }

    /// All of its data and libraries go, and what else inputs change. `users`: whether users may have changed.
    pub fn reset(&mut self, users: bool) {
        let mut commands = RESETS.join("\r\n") + "\r\n";
        if users {
            commands += RESET_USER;
            let names = self.engine.users.all().into_iter().map(|user| user.name().to_vec());
            for name in names.filter(|name| name != b"default") {
                let name = String::from_utf8_lossy(&name).into_owned();
                commands += &format!("*3\r\n$3\r\nACL\r\n$7\r\nDELUSER\r\n${}\r\n{name}\r\n", name.len());
            }
        }
        LocalClient::new(self.engine).run(&mut self.runner, commands);
        self.engine.reseed(SEED);
        self.runner = Runner::new(self.engine, 0);
    }

    /// Does what the threads of a server do now and then: removes what has expired, and lets go of clients that no longer
    /// wait for replicas.
    pub fn tend(&mut self) {
        let now_ms = time::now_ms();
        end_waits(self.engine);
        if self.engine.pause(now_ms) != Pause::None {
            return;
        }
        let commit = self.runner.commit();
        commit.enter();
        commit.begin_chunk(now_ms);
        let keyspace = &self.engine.keyspace;
        for (number, db) in (0..DATABASES).filter_map(|number| Some((number, keyspace.db(number)?))) {
            for (_, shard) in db.shards() {
                let mut expired = Expired { has_more: true, ..Expired::default() };
                while expired.has_more && shard.next_expire_ms() <= now_ms {
                    expired = commit.expire_shard(number as u32, shard, now_ms, 8);
                }
            }
        }
        commit.leave();
    }

    /// The type of the value of a key that has not expired.
    pub fn type_of(&self, db: usize, key: &[u8]) -> Option<Type> {
        let keyspace = &self.engine.keyspace;
        let hash = keyspace.hash(key);
        let table = keyspace.db(db)?.shard_of(hash).lock();
        table.get(key, hash).filter(|entry| !entry.is_expired(time::now_ms())).map(Entry::ty)
    }

    /// All data as an RDB file.
    pub fn save(&self) -> Vec<u8> {
        let taken = Taken::default();
        let output = Box::new(Writing { writer: None, taken: Arc::clone(&taken) });
        let alone = self.engine.gate.exclusive(self.engine.gate.take_turn());
        let underway = begin(self.engine, output, Purpose::LogBase, false).expect("no other snapshot is under way");
        drop(alone);
        run(self.engine, &underway, At::Gate(self.engine.snapshot_thread())).expect("memory takes all");
        taken.lock().take().expect("it was written")
    }

    /// Loads an RDB file into the empty keyspace.
    pub fn load(&self, file: &[u8]) {
        let mut reader = FileReader::new(file).expect("a file that was written");
        let mut batch = Batch::default();
        while reader.next_batch(&mut batch).expect("items that were written") {
            load_batch(self.engine, &batch, Rules::LOG_BASE).expect("a batch that was written");
        }
        load_end(self.engine).expect("the end of a file that was written");
    }

    /// Executes the commands of a log.
    pub fn replay(&mut self, commands: &[u8]) {
        let mut client = LocalClient::new(self.engine);
        client.replay();
        let replies = client.run(&mut self.runner, commands);
        let (mut decoder, mut at) = (ReplyDecoder::<Tree>::new(), 0);
        while let Some(reply) = decoder.next(&replies, &mut at).expect("well-formed replies") {
            assert!(!reply.has_error(), "{reply:?} in {}", show(commands));
        }
    }

    /// Its databases that were ever used, and their numbers.
    pub fn databases(&self) -> impl Iterator<Item = (usize, &'static Db)> {
        let keyspace = &self.engine.keyspace;
        (0..DATABASES).filter_map(|number| Some((number, keyspace.db(number)?)))
    }
}

/// What makes an engine as it was.
const RESETS: &[&str] = &[
    "FLUSHALL SYNC",
    "FUNCTION FLUSH SYNC",
    "SCRIPT FLUSH SYNC",
    "ACL LOG RESET",
    "SLOWLOG RESET",
    "LATENCY RESET",
    "DEBUG SET-ACTIVE-EXPIRE 1",
];

const RESET_USER: &str = "ACL SETUSER default reset on nopass ~* &* +@all\r\n";

/// Bytes as text.
pub fn show(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

/// The records of a log as commands that replay them.
#[derive(Clone, Default)]
pub struct Follower(Arc<Mutex<Vec<u8>>>);

impl Follower {
    /// The commands since the last call.
    pub fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.lock())
    }
}

impl Sink for Follower {
    fn record(&mut self, record: Record<'_>) {
        let mut commands = self.0.lock();
        // Notes of replication are no changes.
        for (db, command) in record.commands().filter(|(db, _)| ![FOR_LOG, FOR_REPLICAS].contains(db)) {
            commands.extend_from_slice(format!("SELECT {db}\r\n").as_bytes());
            commands.extend_from_slice(command);
        }
    }
}

type Taken = Arc<Mutex<Option<Vec<u8>>>>;

/// A snapshot that is written.
struct Writing {
    writer: Option<FileWriter<Vec<u8>>>,
    taken: Taken,
}

impl Output for Writing {
    fn begin(&mut self, version: u16) -> io::Result<()> {
        self.writer = Some(FileWriter::new(Vec::new(), version, true)?);
        Ok(())
    }

    fn write(&mut self, items: &[u8]) -> io::Result<()> {
        self.writer.as_mut().ok_or(io::ErrorKind::NotFound)?.write(items)
    }

    fn finish(self: Box<Self>) -> io::Result<u64> {
        let bytes = self.writer.ok_or(io::ErrorKind::NotFound)?.finish()?;
        let len = bytes.len() as u64;
        *self.taken.lock() = Some(bytes);
        Ok(len)
    }

    fn abandon(self: Box<Self>, _: &NoResult) {}
}
