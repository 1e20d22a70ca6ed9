//! The files read as the stream that replicas get.

use proptest::prelude::*;

use super::*;
use crate::effects::{FOR_LOG, FOR_REPLICAS};

const PUBLISH: &[u8] = b"*3\r\n$7\r\nPUBLISH\r\n$1\r\nc\r\n$1\r\nm\r\n";

/// What happens to the log.
#[derive(Clone, Debug)]
enum Event {
    /// A record with commands for these databases, or for replicas only.
    Record(Vec<Option<u32>>),
    /// The stream says its database again: a replica comes.
    Again,
    Rewrite,
    /// Written to the files; the reader reads.
    Work,
    /// The process ends, and another one goes on.
    Restart,
}

fn event() -> impl Strategy<Value = Event> {
    let record = prop::collection::vec(prop::option::weighted(0.7, 0..3_u32), 0..4).prop_map(Event::Record);
    prop_oneof![12 => record, 1 => Just(Event::Again), 1 => Just(Event::Rewrite), 3 => Just(Event::Work), 1 => Just(Event::Restart)]
}

/// The stream as a primary sends it.
#[derive(Default)]
struct Stream {
    bytes: Vec<u8>,
    db: Option<u32>,
}

impl Stream {
    fn record(&mut self, record: crate::Record<'_>) {
        let is_transaction = record.commands().len() > 1;
        for (nth, (db, command)) in record.commands().enumerate() {
            if db == FOR_LOG {
                self.db = None;
                return;
            }
            if db != FOR_REPLICAS && self.db.replace(db) != Some(db) {
                self.bytes.extend_from_slice(format!("*2\r\n$6\r\nSELECT\r\n$1\r\n{db}\r\n").as_bytes());
            }
            if nth == 0 && is_transaction {
                self.bytes.extend_from_slice(b"*1\r\n$5\r\nMULTI\r\n");
            }
            self.bytes.extend_from_slice(command);
        }
        if is_transaction {
            self.bytes.extend_from_slice(b"*1\r\n$4\r\nEXEC\r\n");
        }
    }
}

struct World {
    system: Faulty,
    aof: Arc<Aof>,
    stream: Stream,
    lsn: u64,
    /// Where transactions and commands end in the stream, so that replicas may ask for what comes next.
    ends: Vec<u64>,
}

impl World {
    fn new() -> Self {
        let system = Faulty::new();
        let base = save_base(&system, 0).unwrap();
        let aof = Aof::create(Arc::new(system.clone()), options(FsyncPolicy::No).0, &base, false, 0).unwrap();
        let mut world = Self { system, aof, stream: Stream::default(), lsn: 0, ends: Vec::new() };
        world.again();
        world
    }

    fn hand(&mut self, fill: impl FnOnce(&mut Effects)) {
        let mut effects = Effects::default();
        fill(&mut effects);
        self.lsn += 1;
        effects.close(self.lsn);
        self.aof.inner.record(effects.record(0));
        self.stream.record(effects.record(0));
        self.ends.push(self.stream.bytes.len() as u64);
    }

    fn again(&mut self) {
        let note = Note::Stream { id: "a".repeat(40), offset: self.stream.bytes.len() as u64 };
        self.hand(|effects| effects.encoded(FOR_LOG, note.line().as_bytes()));
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Record(dbs) => {
                let lsn = self.lsn;
                self.hand(|effects| {
                    for db in dbs {
                        match db {
                            None => effects.encoded(FOR_REPLICAS, PUBLISH),
                            Some(db) => {
                                effects.command(db, [&b"SET"[..], b"#k\r\n*1", lsn.to_string().as_bytes()].into_iter());
                            }
                        }
                    }
                });
            }
            Event::Again => self.again(),
            Event::Rewrite => {
                self.aof.prepare_rewrite().unwrap();
                self.aof.switch(self.lsn).unwrap();
                self.again();
                let base = save_base(&self.system, 0).unwrap();
                self.aof.finish_rewrite(&base, false).unwrap();
            }
            Event::Work => _ = self.aof.work(),
            Event::Restart => {
                self.aof.stop().unwrap();
                let storage: Arc<dyn Storage> = Arc::new(self.system.clone());
                let manifest = Manifest::load(&*storage, Path::new(DIR), NAME).unwrap().unwrap();
                let mut reader = Reader::new(Arc::clone(&storage), Path::new(DIR), &manifest).unwrap();
                let mut streams = LoadedStreams::default();
                while let Some(file) = reader.next_file().unwrap() {
                    let Content::Commands(mut commands) = file.content else { panic!("no base of ours") };
                    while commands.next_chunk(&mut Chunk::default()).unwrap() {}
                    streams.add(&file.name, &commands);
                }
                let place = streams.place().expect("a place");
                assert_eq!(place.offset, self.stream.bytes.len() as u64);
                self.aof = Aof::open(storage, options(FsyncPolicy::No).0, manifest, self.lsn).unwrap();
                self.aof.set_streams(streams);
                self.again();
            }
        }
    }

    /// What the files give from `offset` on, read in pieces.
    fn read(&self, offset: u64, piece: usize) -> Vec<u8> {
        let mut backlog = self.aof.backlog(offset).unwrap().expect("the files have it");
        let mut read = Vec::new();
        while backlog.read(&mut read, piece).unwrap() > 0 {}
        assert_eq!(backlog.offset(), offset + read.len() as u64);
        read
    }
}

fn text(bytes: &[u8]) -> String {
    // What stands for the commands that are left out.
    let [one, piece] = [fill_of(PUBLISH.len()), fill_of(2 * PUBLISH.len())];
    let text = bytes.escape_ascii().to_string();
    [fill_of(3 * PUBLISH.len()), piece, one].iter().fold(text, |text, fill| {
        let len = fill.len();
        text.replace(&fill.escape_ascii().to_string(), &PUBLISH.escape_ascii().to_string().repeat(len / PUBLISH.len()))
    })
}

fn fill_of(len: usize) -> Vec<u8> {
    let argument = len - 21;
    [format!("*2\r\n$4\r\nPING\r\n${argument}\r\n").as_bytes(), &vec![b'.'; argument], b"\r\n"].concat()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_files_have_the_stream(events in prop::collection::vec(event(), 1..60), piece in 1..200_usize) {
        let mut world = World::new();
        for event in events {
            world.happen(event);
        }
        world.aof.work();
        world.aof.inner.write_and_sync();
        world.aof.work();
        let start = world.aof.stream_start().expect("a stream");
        for offset in world.ends.iter().copied().filter(|end| *end >= start).collect::<Vec<_>>() {
            let read = world.read(offset, piece);
            prop_assert_eq!(text(&read), text(&world.stream.bytes[offset as usize..]));
        }
        world.aof.stop().unwrap();
    }
}

#[test]
fn a_reader_goes_on_as_the_files_grow() {
    let mut world = World::new();
    let mut backlog = world.aof.backlog(0).unwrap().expect("the files have it");
    let mut read = Vec::new();
    for round in 0..30 {
        for _ in 0..=round % 3 {
            world.happen(Event::Record(vec![Some(1), Some(2)]));
        }
        if round % 7 == 3 {
            world.happen(Event::Rewrite);
        }
        world.aof.inner.write_and_sync();
        backlog.read(&mut read, usize::MAX).unwrap();
    }
    assert_eq!(read.escape_ascii().to_string(), world.stream.bytes.escape_ascii().to_string());
    // What a rewrite has left out is not there for others.
    assert!(world.aof.backlog(0).unwrap().is_none());
    world.aof.stop().unwrap();
}

#[test]
fn a_role_that_ends_ends_the_stream() {
    let mut world = World::new();
    world.happen(Event::Record(vec![Some(0)]));
    world.aof.inner.write_and_sync();
    let mut backlog = world.aof.backlog(0).unwrap().expect("the files have it");
    let note = Note::Place { id: "b".repeat(40), offset: 10, db: 0 };
    world.hand(|effects| effects.encoded(FOR_LOG, note.line().as_bytes()));
    world.aof.inner.write_and_sync();
    assert!(world.aof.stream_start().is_none());
    assert!(backlog.read(&mut Vec::new(), usize::MAX).is_err());
    world.aof.stop().unwrap();
}
