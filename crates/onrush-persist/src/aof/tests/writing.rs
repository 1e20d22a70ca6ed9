//! What the writer writes, when it is durable, and what it does when the disk fails.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use parking_lot::Mutex;

use super::*;
use crate::log::CommandLog;
use crate::storage::StorageFile;
use crate::storage::faulty::{Fault, FaultKind};

const INCR: &str = "appendonly.aof.1.incr.aof";

fn create(system: &Faulty, options: AofOptions) -> Arc<Aof> {
    let base = save_base(system, 0).unwrap();
    Aof::create(Arc::new(system.clone()), options, &base, false, 0).unwrap()
}

fn hand_over_commands(aof: &Aof, lsn: u64, commands: &[(u32, &[&str])]) {
    let mut effects = Effects::default();
    for (db, args) in commands {
        effects.command(*db, args.iter().map(|arg| arg.as_bytes()));
    }
    effects.close(lsn);
    aof.inner.record(effects.record(0));
}

fn text(system: &Faulty, name: &str) -> String {
    let bytes = system.bytes(&path(name)).unwrap();
    String::from_utf8(bytes).unwrap().replace("\r\n", " ")
}

#[test]
fn records_are_framed_and_databases_selected() {
    let system = Faulty::new();
    let (mut options, _) = options(FsyncPolicy::No);
    options.timestamps = true;
    options.unix_time_s = || 1_700_000_000;
    let aof = create(&system, options);
    hand_over_commands(&aof, 1, &[(0, &["A"])]);
    hand_over_commands(&aof, 2, &[(0, &["B"]), (12, &["C"])]);
    hand_over_commands(&aof, 3, &[]);
    hand_over_commands(&aof, 4, &[(12, &["D", "e"])]);
    aof.prepare_rewrite().unwrap();
    aof.switch(4).unwrap();
    aof.set_timestamps(false);
    hand_over_commands(&aof, 5, &[(12, &["F"])]);
    assert_eq!(aof.written_lsn(), 4);
    aof.stop().unwrap();
    assert_eq!((aof.written_lsn(), aof.durable_lsn()), (5, 5));
    let select = |db: u32| format!("*2 $6 SELECT ${} {db} ", db.to_string().len());
    let first = format!(
        "{}#TS:1700000000 *1 $1 A *1 $5 MULTI *1 $1 B {}*1 $1 C *1 $4 EXEC *2 $1 D $1 e ",
        select(0),
        select(12)
    );
    assert_eq!(text(&system, INCR), first);
    assert_eq!(text(&system, "appendonly.aof.2.incr.aof"), format!("{}*1 $1 F ", select(12)));
    let manifest = "file appendonly.aof.1.base.aof seq 1 type b\nfile appendonly.aof.1.incr.aof seq 1 type i\n\
                    file appendonly.aof.2.incr.aof seq 2 type i\n";
    assert_eq!(system.bytes(&path("appendonly.aof.manifest")).unwrap(), manifest.as_bytes());
}

#[test]
fn a_disk_that_fails_is_told_and_written_to_again() {
    let system = Faulty::new();
    let (options, told) = options(FsyncPolicy::Always);
    let aof = create(&system, options);
    hand_over(&aof, 1);
    assert_eq!(aof.work(), None);
    assert_eq!((aof.written_lsn(), told.load(Ordering::Relaxed), aof.status()), (1, 1, AofStatus::Ok));
    // Half of it, and then there is no space.
    let before = system.bytes(&path(INCR)).unwrap().len();
    hand_over(&aof, 2);
    system.set_fault(Some(Fault { at: system.operations(), times: 3, kind: FaultKind::ShortWrite }));
    assert_eq!(aof.work(), Some(Duration::ZERO));
    let AofStatus::Failed { failure, kind, .. } = aof.status() else { panic!("it has failed") };
    assert_eq!((failure, kind), (Failure::Write, std::io::ErrorKind::StorageFull));
    assert!(aof.facts().buffer_len > 0 && !aof.needs_rewrite());
    assert!(system.bytes(&path(INCR)).unwrap().len() > before);
    assert_eq!((aof.written_lsn(), aof.durable_lsn()), (1, 1));
    hand_over(&aof, 3);
    let at = system.operations();
    system.set_fault(Some(Fault { at, times: 1, kind: FaultKind::ShortWrite }));
    assert_eq!(aof.work(), None);
    assert_eq!((aof.written_lsn(), aof.durable_lsn(), aof.status()), (3, 3, AofStatus::Ok));
    assert_eq!(aof.facts().buffer_len, 0);
    assert!(recover(&system).unwrap() == expected(3));
}

#[test]
fn an_error_of_a_write_that_has_taken_all_is_none() {
    let system = Faulty::new();
    let aof = create(&system, options(FsyncPolicy::Always).0);
    hand_over(&aof, 1);
    system.set_fault(Some(Fault { at: system.operations(), times: 1, kind: FaultKind::WholeWrite }));
    assert_eq!(aof.work(), None);
    assert_eq!((aof.written_lsn(), aof.durable_lsn(), aof.status()), (1, 1, AofStatus::Ok));
    assert!(recover(&system).unwrap() == expected(1));
}

#[test]
fn after_a_failed_sync_nothing_is_durable_until_a_rewrite() {
    let system = Faulty::new();
    let (options, told) = options(FsyncPolicy::Always);
    let aof = create(&system, options);
    hand_over(&aof, 1);
    aof.work();
    system.set_fault(Some(Fault { at: system.operations() + 1, times: 1, kind: FaultKind::Io }));
    hand_over(&aof, 2);
    aof.work();
    hand_over(&aof, 3);
    aof.work();
    assert!(matches!(aof.status(), AofStatus::Failed { failure: Failure::Sync, .. }) && aof.needs_rewrite());
    // The file may have a hole now: nothing may be written after it.
    assert_eq!((told.load(Ordering::Relaxed), aof.written_lsn()), (1, 2));
    aof.prepare_rewrite().unwrap();
    aof.switch(3).unwrap();
    hand_over(&aof, 4);
    aof.work();
    assert_eq!(told.load(Ordering::Relaxed), 1);
    let base = save_base(&system, 3).unwrap();
    aof.finish_rewrite(&base, false).unwrap();
    assert_eq!(told.load(Ordering::Relaxed), 3);
    assert!(!aof.needs_rewrite());
    aof.work();
    assert_eq!((told.load(Ordering::Relaxed), aof.status()), (4, AofStatus::Ok));
    system.crash(FaultKind::Crash);
    assert!(recover(&system.restart()).unwrap() == expected(4));
}

#[test]
fn what_a_log_is_opened_with_is_durable() {
    let system = Faulty::new();
    let aof = create(&system, options(FsyncPolicy::No).0);
    hand_over(&aof, 1);
    aof.work();
    assert_eq!((aof.written_lsn(), aof.durable_lsn()), (1, 0));
    drop(aof);
    let manifest = Manifest::load(&system, Path::new(DIR), NAME).unwrap().unwrap();
    let aof = Aof::open(Arc::new(system.clone()), options(FsyncPolicy::No).0, manifest, 1).unwrap();
    assert_eq!(aof.durable_lsn(), 1);
    system.crash(FaultKind::Crash);
    assert!(recover(&system.restart()).unwrap() == expected(1));
}

/// A file system whose syncs wait until they are let go.
struct Held {
    system: Faulty,
    gate: Arc<Gate>,
}

#[derive(Default)]
struct Gate(Mutex<Option<(Sender<()>, Receiver<()>)>>);

impl Gate {
    /// From now on each sync reports its beginning and waits for permission.
    fn close(&self) -> (Receiver<()>, Sender<()>) {
        let ((begun, has_begun), (go, gone)) = (channel(), channel());
        *self.0.lock() = Some((begun, gone));
        (has_begun, go)
    }

    fn pass(&self) {
        let gate = self.0.lock().take();
        if let Some((begun, gone)) = gate {
            let _ = begun.send(());
            let _ = gone.recv();
        }
    }
}

struct HeldFile(Arc<dyn StorageFile>, Arc<Gate>);

impl StorageFile for HeldFile {
    fn write(&self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(bytes)
    }

    fn sync(&self) -> std::io::Result<()> {
        self.1.pass();
        self.0.sync()
    }

    fn len(&self) -> std::io::Result<u64> {
        self.0.len()
    }
}

impl Storage for Held {
    fn create(&self, path: &Path) -> std::io::Result<Arc<dyn StorageFile>> {
        Ok(Arc::new(HeldFile(self.system.create(path)?, Arc::clone(&self.gate))))
    }

    fn append(&self, path: &Path) -> std::io::Result<Arc<dyn StorageFile>> {
        self.system.append(path)
    }

    fn read(&self, path: &Path) -> std::io::Result<Input> {
        self.system.read(path)
    }

    fn truncate(&self, path: &Path, len: u64) -> std::io::Result<()> {
        self.system.truncate(path, len)
    }

    fn rename(&self, from: &Path, to: &Path) -> std::io::Result<()> {
        self.system.rename(from, to)
    }

    fn remove(&self, path: &Path) -> std::io::Result<()> {
        self.system.remove(path)
    }

    fn list(&self, dir: &Path) -> std::io::Result<Vec<String>> {
        self.system.list(dir)
    }

    fn create_dir(&self, dir: &Path) -> std::io::Result<()> {
        self.system.create_dir(dir)
    }

    fn sync_dir(&self, dir: &Path) -> std::io::Result<()> {
        self.system.sync_dir(dir)
    }

    fn len(&self, path: &Path) -> std::io::Result<Option<u64>> {
        self.system.len(path)
    }
}

#[test]
fn switching_records_and_writing_wait_for_no_sync() {
    let (system, gate) = (Faulty::new(), Arc::new(Gate::default()));
    let (options, told) = options(FsyncPolicy::EverySecond);
    let base = save_base(&system, 0).unwrap();
    let storage = Arc::new(Held { system: system.clone(), gate: Arc::clone(&gate) });
    let aof = Aof::create(storage, options, &base, false, 0).unwrap();
    aof.prepare_rewrite().unwrap();
    let (has_begun, go) = gate.close();
    hand_over(&aof, 1);
    aof.work();
    // The thread syncs a second after the write.
    has_begun.recv().unwrap();
    assert_eq!(aof.facts().pending_fsyncs, 1);
    hand_over(&aof, 2);
    aof.work();
    assert_eq!((aof.written_lsn(), aof.durable_lsn()), (2, 0));
    aof.switch(2).unwrap();
    hand_over(&aof, 3);
    aof.work();
    assert_eq!(aof.written_lsn(), 2, "the new file waits for the old one");
    // It has taken more than two seconds: counted once.
    assert_eq!(aof.facts().delayed_fsyncs, 0);
    aof.inner.state.lock().unsynced_since = Instant::now().checked_sub(Duration::from_secs(3));
    aof.work();
    aof.work();
    assert_eq!(aof.facts().delayed_fsyncs, 1);
    go.send(()).unwrap();
    aof.stop().unwrap();
    assert_eq!((told.load(Ordering::Relaxed), aof.facts().pending_fsyncs), (3, 0));
    system.crash(FaultKind::Crash);
    assert!(recover(&system.restart()).unwrap() == expected(3));
}

/// An attached log, and the LSNs that it reports.
fn attached(policy: FsyncPolicy) -> (Arc<CommandLog>, Arc<Aof>, Receiver<u64>) {
    let (tell, told) = channel();
    let mut options = AofOptions::new(DIR, NAME);
    options.policy = policy;
    options.on_durable = Box::new(move |lsn| tell.send(lsn).unwrap_or_default());
    let aof = create(&Faulty::new(), options);
    let log = CommandLog::new();
    aof.attach(&log).unwrap();
    (log, aof, told)
}

fn commit(log: &CommandLog) -> u64 {
    let mut effects = Effects::default();
    effects.command(0, [&b"A"[..]].into_iter());
    let lsn = log.close(&mut effects);
    log.submit(&mut effects);
    lsn
}

#[test]
fn the_logs_thread_makes_records_durable() {
    let (log, _aof, told) = attached(FsyncPolicy::Always);
    assert_eq!(commit(&log), 1);
    assert_eq!(told.recv(), Ok(1));
}

#[test]
fn a_thread_of_its_own_syncs_once_a_second() {
    let (log, _aof, told) = attached(FsyncPolicy::EverySecond);
    commit(&log);
    assert_eq!(told.recv(), Ok(1));
    commit(&log);
    assert_eq!(told.recv(), Ok(2));
}

#[test]
fn who_wants_it_durable_gets_a_sync_under_any_policy() {
    let (log, aof, told) = attached(FsyncPolicy::No);
    let lsn = commit(&log);
    log.flush();
    aof.want_durable(lsn);
    assert_eq!(told.recv(), Ok(lsn));
    // A sync is also made if it is requested before the record comes.
    aof.want_durable(lsn + 1);
    commit(&log);
    assert_eq!(told.recv(), Ok(lsn + 1));
    aof.set_policy(FsyncPolicy::Always);
    commit(&log);
    assert_eq!(told.recv(), Ok(lsn + 2));
}

/// A log on `system` whose reports of health are counted and kept.
fn with_health(system: &Faulty, policy: FsyncPolicy) -> (Arc<Aof>, Receiver<Health>) {
    let (tell, told) = channel();
    let (mut options, _) = options(policy);
    options.on_health = Box::new(move |health| tell.send(health.clone()).unwrap_or_default());
    (create(system, options), told)
}

#[test]
fn records_for_a_full_buffer_wait_for_nothing_and_the_log_says_that_it_wants_no_more() {
    let system = Faulty::new();
    let (aof, told) = with_health(&system, FsyncPolicy::No);
    system.set_fault(Some(Fault { at: system.operations(), times: u64::MAX, kind: FaultKind::NoSpace }));
    let large = "x".repeat(BUFFER_BYTES_MAX / 4);
    (1..=3).for_each(|lsn| hand_over_commands(&aof, lsn, &[(0, &[&large])]));
    assert!(told.try_recv().is_err());
    hand_over_commands(&aof, 4, &[(0, &[&large])]);
    assert_eq!(told.try_recv(), Ok(Health { status: AofStatus::Ok, takes_more: false }));
    hand_over_commands(&aof, 5, &[(0, &[&large])]);
    aof.work();
    let Ok(Health { status: AofStatus::Failed { failure: Failure::Write, .. }, takes_more: false }) = told.try_recv()
    else {
        panic!("the disk is full")
    };
    system.set_fault(None);
    aof.work();
    assert_eq!(told.try_recv(), Ok(Health { status: AofStatus::Ok, takes_more: true }));
    assert_eq!((aof.written_lsn(), aof.facts().buffer_len, aof.status()), (5, 0, AofStatus::Ok));
    assert!(told.try_recv().is_err(), "each change is told once");
}

#[test]
fn after_a_failed_sync_the_log_wants_no_more_until_a_rewrite_that_failed_before_is_done() {
    let system = Faulty::new();
    let (aof, told) = with_health(&system, FsyncPolicy::Always);
    hand_over(&aof, 1);
    system.set_fault(Some(Fault { at: system.operations() + 1, times: 1, kind: FaultKind::Io }));
    aof.work();
    assert!(told.try_recv().is_ok_and(|health| !health.takes_more) && aof.needs_rewrite());
    for _ in 0..10 {
        aof.prepare_rewrite().unwrap();
        assert!(!aof.needs_rewrite());
        aof.switch(1).unwrap();
        aof.abort_rewrite();
        assert!(aof.needs_rewrite());
    }
    // Nothing has come since, so all of them use one file.
    assert!(system.bytes(&path("appendonly.aof.2.incr.aof")).is_some());
    assert!(system.bytes(&path("appendonly.aof.3.incr.aof")).is_none());
    // A record between the two steps is in the base; it must not be in the file, too.
    aof.prepare_rewrite().unwrap();
    hand_over(&aof, 2);
    assert!(aof.switch(2).is_err());
    aof.abort_rewrite();
    aof.prepare_rewrite().unwrap();
    hand_over(&aof, 3);
    aof.switch(3).unwrap();
    hand_over(&aof, 4);
    let base = save_base(&system, 3).unwrap();
    aof.finish_rewrite(&base, false).unwrap();
    assert_eq!(told.try_recv(), Ok(Health { status: AofStatus::Ok, takes_more: true }));
    aof.stop().unwrap();
    system.crash(FaultKind::Crash);
    assert!(recover(&system.restart()).unwrap() == expected(4));
}

#[test]
fn what_came_behind_the_base_in_earlier_lives_counts_as_growth() {
    let system = Faulty::new();
    let aof = create(&system, options(FsyncPolicy::Always).0);
    (1..=20).for_each(|lsn| hand_over(&aof, lsn));
    aof.prepare_rewrite().unwrap();
    aof.switch(20).unwrap();
    let base = save_base(&system, 20).unwrap();
    aof.finish_rewrite(&base, false).unwrap();
    let base_size = aof.facts().base_size;
    (21..=40).for_each(|lsn| hand_over(&aof, lsn));
    aof.stop().unwrap();
    let size = aof.facts().size;
    assert!(size > base_size);
    drop(aof);
    let manifest = Manifest::load(&system, Path::new(DIR), NAME).unwrap().unwrap();
    let aof = Aof::open(Arc::new(system.clone()), options(FsyncPolicy::No).0, manifest, 40).unwrap();
    assert_eq!((aof.facts().base_size, aof.facts().size), (base_size, size));
}

/// Records of some megabytes, for one database or several, with small ones between them.
fn large_effects(lsn: u64) -> Effects {
    let mut effects = Effects::default();
    let value = |len: usize| vec![b'a' + lsn as u8; len];
    let lens: &[(u32, usize)] = match lsn % 4 {
        0 => &[(0, 700_000), (0, 900_000), (3, 10), (0, 1_200_000)],
        1 => &[(0, 5)],
        2 => &[(2, 3_000_000)],
        _ => &[(2, 1_500_000), (2, 20)],
    };
    lens.iter().for_each(|(db, len)| effects.command(*db, [&b"SET"[..], b"key", &value(*len)].into_iter()));
    effects.close(lsn);
    effects
}

#[test]
fn large_records_are_written_as_small_ones_wherever_the_disk_fails() {
    const LAST: u64 = 8;
    let copied: Vec<u8> = {
        let system = Faulty::new();
        let aof = create(&system, options(FsyncPolicy::No).0);
        (1..=LAST).for_each(|lsn| aof.inner.record(large_effects(lsn).record(0)));
        aof.work();
        assert_eq!(aof.written_lsn(), LAST);
        system.bytes(&path(INCR)).unwrap()
    };
    for times in 0..20 {
        let system = Faulty::new();
        let aof = create(&system, options(FsyncPolicy::No).0);
        for lsn in 1..=LAST {
            let mut effects = large_effects(lsn);
            effects.share();
            aof.inner.record(effects.record(0));
            if lsn % 3 == times % 3 {
                let kind = if times % 2 == 0 { FaultKind::ShortWrite } else { FaultKind::NoSpace };
                system.set_fault(Some(Fault { at: system.operations() + times, times: 1 + times / 4, kind }));
                aof.work();
                let written = aof.written_lsn();
                let whole: usize = (1..=written).map(|lsn| large_effects(lsn).len_bytes()).sum();
                assert!(written <= lsn && system.bytes(&path(INCR)).unwrap().len() >= whole, "{times}, {lsn}");
            }
        }
        system.set_fault(None);
        aof.work();
        assert!(system.bytes(&path(INCR)).unwrap() == copied, "{times}");
        assert_eq!((aof.written_lsn(), aof.facts().buffer_len), (LAST, 0));
    }
}
