//! Manifests: their text, what is wrong with one, and logs of one file.

use super::*;
use crate::storage::faulty::{Fault, FaultKind};

fn file(name: &str, seq: u64) -> ManifestFile {
    ManifestFile { name: name.into(), seq }
}

#[test]
fn a_manifest_is_read_as_it_was_written() {
    let manifest = Manifest {
        base: Some(file("my file \"x\".2.base.rdb", 2)),
        incrs: vec![file("a.1.incr.aof", 1), file("é.4.incr.aof", 4)],
        history: vec![file("a.1.base.rdb", 1)],
    };
    let text = manifest.text();
    assert!(text.starts_with("file \"my file \\\"x\\\".2.base.rdb\" seq 2 type b\n"), "{text}");
    assert_eq!(Manifest::parse(text.as_bytes()).unwrap(), manifest);
    let foreign = b"# a comment\nFILE a.1.base.rdb SEQ 1 more x TYPE b\r\n\nfile a.1.incr.aof seq 1 type i";
    let parsed = Manifest::parse(foreign).unwrap();
    assert_eq!(parsed.files().map(|file| &file.name[..]).collect::<Vec<_>>(), ["a.1.base.rdb", "a.1.incr.aof"]);
}

#[test]
fn what_is_wrong_with_a_manifest_is_told_with_its_line() {
    let told = |text: &str| Manifest::parse(text.as_bytes()).unwrap_err().to_string();
    let on_line_2 = |line: &str| {
        let told = told(&format!("file a.1.base.rdb seq 1 type b\n{line}\nfile z seq 9 type h\n"));
        told.strip_prefix("line 2 of the manifest: ").unwrap_or(&told).to_owned()
    };
    assert_eq!(told(""), "line 1 of the manifest: it is empty");
    assert_eq!(on_line_2("file b seq 2 type b"), "there is a second base file");
    assert_eq!(on_line_2("file b seq 2"), "it is not of the form: file NAME seq N type b|h|i");
    assert_eq!(on_line_2("file b seq 2 x y"), "it has no type");
    assert_eq!(on_line_2("file b x y type i"), "it has no seq");
    assert_eq!(on_line_2("x b seq 2 type i"), "it names no file");
    assert_eq!(on_line_2("file b seq 2 type i\0 more"), "there is a NUL in it");
    assert_eq!(on_line_2("file \"b seq 2 type i"), "its quotes do not match");
    assert_eq!(on_line_2("file b seq 0 type i"), "\"0\" is no number of a file");
    assert_eq!(on_line_2("file b seq x type i"), "\"x\" is no number of a file");
    assert_eq!(on_line_2("file b seq 1 type bi"), "\"bi\" is no type of a file (b, h or i)");
    assert_eq!(on_line_2("file ../b seq 1 type i"), "\"../b\" is no name of a file in the folder");
    assert_eq!(on_line_2("file .. seq 1 type i"), "\"..\" is no name of a file in the folder");
    assert_eq!(on_line_2("file a.1.base.rdb seq 1 type h"), "a.1.base.rdb comes twice");
    assert_eq!(on_line_2(&"x".repeat(2049)), "it is longer than 2048 bytes");
    assert!(!is_file_name(&"x".repeat(256)) && is_file_name(&"x".repeat(255)));
    let falling = "file b seq 2 type i\nfile c seq 2 type i";
    assert_eq!(told(falling), "line 2 of the manifest: number 2 does not follow the one before");
}

fn load(system: &Faulty) -> Result<Option<Manifest>, AofError> {
    Manifest::load_or_upgrade(system, Path::new("data"), Path::new(DIR), NAME)
}

#[test]
fn a_log_of_one_file_becomes_the_base_whatever_interrupts_it() {
    let old = PathBuf::from("data").join(NAME);
    let prepared = || {
        let system = Faulty::new();
        let file = system.create(&old).unwrap();
        write_all(&*file, b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*1\r\n$1\r\nA\r\n").unwrap();
        file.sync().unwrap();
        system.sync_dir(Path::new("data")).unwrap();
        system
    };
    assert!(load(&Faulty::new()).unwrap().is_none());
    let whole = prepared();
    let manifest = load(&whole).unwrap().unwrap();
    assert_eq!((manifest.base, manifest.incrs.len()), (Some(file(NAME, 1)), 0));
    let operations = whole.operations();
    for at in 2..=operations {
        for kind in [FaultKind::Crash, FaultKind::CrashPartly(at), FaultKind::CrashPartly(at + 7), FaultKind::Io] {
            let system = prepared();
            system.set_fault(Some(Fault { at, times: 1, kind }));
            let _ = load(&system);
            system.crash(kind);
            let system = system.restart();
            let manifest = load(&system).unwrap().expect("a log");
            assert_eq!(recover(&system).unwrap(), [(0, b"*1\r\n$1\r\nA\r\n".to_vec())]);
            let aof = Aof::open(Arc::new(system.clone()), options(FsyncPolicy::Always).0, manifest, 0).unwrap();
            hand_over(&aof, 1);
            aof.stop().unwrap();
            system.crash(FaultKind::Crash);
            assert_eq!(recover(&system.restart()).unwrap().len(), 1 + expected(1).len());
        }
    }
}
