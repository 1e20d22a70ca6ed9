//! Rewrites: what the manifest lists and what remains in the folder.

use super::*;
use crate::storage::faulty::{Fault, FaultKind};

fn names(system: &Faulty) -> Vec<String> {
    system.list(Path::new(DIR)).unwrap()
}

fn create(system: &Faulty) -> Arc<Aof> {
    let base = save_base(system, 0).unwrap();
    Aof::create(Arc::new(system.clone()), options(FsyncPolicy::Always).0, &base, false, 0).unwrap()
}

#[test]
fn a_rewrite_leaves_a_base_a_file_of_commands_and_the_manifest() {
    let system = Faulty::new();
    let aof = create(&system);
    (1..=20).for_each(|lsn| hand_over(&aof, lsn));
    aof.work();
    let before = aof.facts();
    assert!(aof.switch(20).is_err() && aof.finish_rewrite(Path::new("x"), false).is_err());
    aof.prepare_rewrite().unwrap();
    assert!(aof.prepare_rewrite().is_err() && aof.facts().is_rewriting);
    aof.switch(20).unwrap();
    hand_over(&aof, 21);
    let base = save_base(&system, 20).unwrap();
    let len = system.bytes(&base).unwrap().len() as u64;
    aof.finish_rewrite(&base, false).unwrap();
    let facts = aof.facts();
    // Database 0 is chosen in the file already.
    assert_eq!((facts.base_size, facts.is_rewriting, before.base_size), (len, false, 23));
    aof.stop().unwrap();
    assert!(aof.facts().size > len);
    assert_eq!(names(&system), ["appendonly.aof.2.base.aof", "appendonly.aof.2.incr.aof", "appendonly.aof.manifest"]);
    assert!(recover(&system).unwrap() == expected(21));
}

#[test]
fn a_file_that_was_prepared_in_vain_is_taken_the_next_time() {
    let system = Faulty::new();
    let aof = create(&system);
    hand_over(&aof, 1);
    aof.prepare_rewrite().unwrap();
    aof.abort_rewrite();
    assert!(!aof.facts().is_rewriting);
    hand_over(&aof, 2);
    aof.work();
    aof.prepare_rewrite().unwrap();
    aof.switch(2).unwrap();
    hand_over(&aof, 3);
    aof.stop().unwrap();
    assert!(system.bytes(&path("appendonly.aof.2.incr.aof")).is_some_and(|bytes| !bytes.is_empty()));
    assert!(system.bytes(&path("appendonly.aof.3.incr.aof")).is_none());
    assert!(recover(&system).unwrap() == expected(3));
}

#[test]
fn rewrites_that_fail_leave_nothing_that_grows_in_number() {
    let system = Faulty::new();
    let aof = create(&system);
    hand_over(&aof, 1);
    aof.work();
    for times in 0..3 {
        aof.prepare_rewrite().unwrap();
        aof.switch(1).unwrap();
        let base = save_base(&system, 1).unwrap();
        // By then the base is in place, but the manifest cannot be written.
        system.set_fault(Some(Fault { at: system.operations() + 2, times: 1, kind: FaultKind::NoSpace }));
        assert!(aof.finish_rewrite(&base, false).is_err());
        aof.abort_rewrite();
        let bases = names(&system).into_iter().filter(|name| name.contains(".base."));
        assert_eq!(
            bases.collect::<Vec<_>>(),
            ["appendonly.aof.1.base.aof".to_owned(), format!("appendonly.aof.{}.base.aof", times + 2)]
        );
        assert!(recover(&system).unwrap() == expected(1));
    }
    // While the folder takes no names, nothing new is begun.
    let before = names(&system);
    system.set_fault(Some(Fault { at: system.operations(), times: u64::MAX, kind: FaultKind::NoSpace }));
    (0..10).for_each(|_| assert!(aof.prepare_rewrite().is_err()));
    assert_eq!(names(&system), before);
    system.set_fault(None);
    aof.prepare_rewrite().unwrap();
    aof.switch(1).unwrap();
    let base = save_base(&system, 1).unwrap();
    aof.finish_rewrite(&base, false).unwrap();
    assert_eq!(names(&system), ["appendonly.aof.5.base.aof", "appendonly.aof.5.incr.aof", "appendonly.aof.manifest"]);
    aof.stop().unwrap();
    assert!(recover(&system).unwrap() == expected(1));
}

#[test]
fn what_a_killed_rewrite_has_left_goes_when_the_log_is_opened() {
    let system = Faulty::new();
    drop(create(&system));
    let left = ["appendonly.aof.7.base.rdb", "appendonly.aof.8.incr.aof", "temp-appendonly.aof.manifest", REWRITE_NAME];
    let kept = ["appendonly.aof.x.base.rdb", "appendonly.aof.7.incr.aof.copy", "other.aof.7.incr.aof", "temp-7-1.rdb"];
    left.iter().chain(&kept).for_each(|name| drop(system.create(&path(name)).unwrap()));
    // A damaged manifest may have lost their lines.
    let mut full = ["appendonly.aof.0.base.aof", "appendonly.aof.0.incr.aof", "appendonly.aof.9.incr.aof"].to_vec();
    for name in &full {
        write_all(&*system.create(&path(name)).unwrap(), b"*1\r\n$4\r\nPING\r\n").unwrap();
    }
    // Notes say where the stream of replicas is: alone they hold nothing, unless there is more than a new file has.
    let mut left = left.to_vec();
    let note: &[u8] = b"#TS:1796048152\r\n#ONRUSH stream abc 17\r\n";
    for (name, text, is_left) in [
        ("appendonly.aof.11.incr.aof", note.to_vec(), true),
        ("appendonly.aof.12.incr.aof", [note, b"*1\r\n$4\r\nPING\r\n"].concat(), false),
        ("appendonly.aof.13.incr.aof", [note, b"*1\r\n$4\r\nP"].concat(), false),
        ("appendonly.aof.14.incr.aof", note.repeat(30), false),
        ("appendonly.aof.15.incr.aof", b"#TS:17".to_vec(), true),
    ] {
        write_all(&*system.create(&path(name)).unwrap(), &text).unwrap();
        if is_left { left.push(name) } else { full.push(name) }
    }
    // In the order of their names.
    left.sort_unstable();
    full.sort_unstable();
    let manifest = Manifest::load(&system, Path::new(DIR), NAME).unwrap().unwrap();
    let aof = Aof::open(Arc::new(system.clone()), options(FsyncPolicy::No).0, manifest, 0).unwrap();
    let strays = aof.take_strays();
    assert_eq!(
        (strays.removed, strays.kept),
        (left.iter().map(|name| (*name).to_owned()).collect(), full.iter().map(|name| (*name).to_owned()).collect())
    );
    let names = names(&system);
    assert!(kept.iter().all(|name| names.iter().any(|other| other == name)), "{names:?}");
    assert_eq!(names.len(), kept.len() + full.len() + 3);
}

#[test]
fn a_log_that_begins_takes_the_place_of_one_that_is_there_when_its_base_comes() {
    let system = Faulty::new();
    let aof = create(&system);
    (1..=3).for_each(|lsn| hand_over(&aof, lsn));
    aof.stop().unwrap();
    let (options, told) = options(FsyncPolicy::Always);
    let aof = Aof::begin(Arc::new(system.clone()), options, 5).unwrap();
    hand_over(&aof, 6);
    aof.work();
    assert_eq!((aof.written_lsn(), aof.durable_lsn(), aof.facts().is_rewriting), (6, 0, true));
    // Nothing looks like a part of a log before it is one.
    let temporary = |name: &String| name.starts_with("temp-") && name.ends_with(".incr.aof");
    assert_eq!(names(&system).iter().filter(|name| temporary(name)).count(), 1);
    assert_eq!(names(&system).iter().filter(|name| name.starts_with(NAME)).count(), 3);
    assert!(recover(&system).unwrap() == expected(3), "the old one is still there");
    // The first attempt fails, and so does the next.
    aof.abort_rewrite();
    aof.prepare_rewrite().unwrap();
    aof.abort_rewrite();
    assert!(recover(&system).unwrap() == expected(3), "the old one is still there");
    aof.prepare_rewrite().unwrap();
    aof.switch(6).unwrap();
    hand_over(&aof, 7);
    aof.work();
    assert_eq!((aof.written_lsn(), aof.durable_lsn()), (7, 0));
    let base = save_base(&system, 6).unwrap();
    aof.finish_rewrite(&base, false).unwrap();
    assert_eq!((aof.durable_lsn(), told.load(Ordering::Relaxed)), (7, 7));
    assert_eq!(names(&system), ["appendonly.aof.2.base.aof", "appendonly.aof.2.incr.aof", "appendonly.aof.manifest"]);
    system.crash(FaultKind::Crash);
    assert!(recover(&system.restart()).unwrap() == expected(7));
}

#[test]
fn a_log_that_begins_takes_no_name_that_is_in_the_folder() {
    let system = Faulty::new();
    let begin = || Aof::begin(Arc::new(system.clone()), options(FsyncPolicy::Always).0, 0).unwrap();
    // Its disk keeps it from ending, so that it may still write its file.
    let before = begin();
    hand_over(&before, 1);
    before.work();
    let files = names(&system);
    let [old] = &files[..] else { panic!("{files:?}") };
    let bytes = system.bytes(&path(old)).unwrap();
    let left = path("appendonly.aof.7.base.rdb");
    system.create(&left).unwrap();
    let aof = begin();
    assert!(system.bytes(&path(old)).unwrap() == bytes);
    aof.finish_rewrite(&save_base(&system, 0).unwrap(), false).unwrap();
    assert!(names(&system).contains(&"appendonly.aof.8.base.aof".to_owned()));
    drop(before);
}

#[test]
fn a_log_that_has_ended_stores_no_manifest_and_without_a_base_leaves_no_file() {
    let system = Faulty::new();
    let begun = Aof::begin(Arc::new(system.clone()), options(FsyncPolicy::Always).0, 0).unwrap();
    hand_over(&begun, 1);
    assert!(begun.stop().is_err());
    assert_eq!(names(&system), [""; 0]);
    let base = save_base(&system, 0).unwrap();
    assert!(begun.finish_rewrite(&base, false).is_err());
    let aof = Aof::create(Arc::new(system.clone()), options(FsyncPolicy::Always).0, &base, false, 0).unwrap();
    aof.prepare_rewrite().unwrap();
    aof.switch(0).unwrap();
    hand_over(&aof, 1);
    aof.stop().unwrap();
    assert!(aof.finish_rewrite(&save_base(&system, 0).unwrap(), false).is_err());
    aof.abort_rewrite();
    assert!(aof.prepare_rewrite().is_err());
    assert!(recover(&system).unwrap() == expected(1));
}

#[test]
fn no_log_begins_on_a_disk_that_takes_no_byte_and_one_without_a_base_leaves_nothing() {
    let system = Faulty::new();
    system.set_fault(Some(Fault { at: 0, times: u64::MAX, kind: FaultKind::NoSpace }));
    assert!(Aof::begin(Arc::new(system.clone()), options(FsyncPolicy::No).0, 0).is_err());
    system.set_fault(None);
    let aof = Aof::begin(Arc::new(system.clone()), options(FsyncPolicy::No).0, 0).unwrap();
    hand_over(&aof, 1);
    assert!(aof.stop().is_err());
    assert!(names(&system).is_empty(), "{:?}", names(&system));
    // A log that nothing follows has no file for records.
    let aof = Aof::begin(Arc::new(system.clone()), options(FsyncPolicy::No).0, 0).unwrap();
    aof.finish_copy(&save_base(&system, 0).unwrap(), false).unwrap();
    assert_eq!(names(&system), ["appendonly.aof.1.base.aof", "appendonly.aof.manifest"]);
}

#[test]
fn a_file_that_cannot_be_made_is_told_with_its_folder() {
    let system = Faulty::new();
    let aof = create(&system);
    system.set_fault(Some(Fault { at: system.operations() + 2, times: u64::MAX, kind: FaultKind::NoSpace }));
    let error = aof.prepare_rewrite().unwrap_err().to_string();
    assert!(error.starts_with("data/appendonlydir/appendonly.aof.2.incr.aof: "), "{error}");
}
