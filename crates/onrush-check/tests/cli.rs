//! Runs the program: its output, its changes, and its exit code.

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const BIN: &str = env!("CARGO_BIN_EXE_onrush-check");

/// A folder of a test, removed with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("onrush-check-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        Folder(path)
    }

    fn file(&self, name: &str, bytes: &[u8]) -> String {
        let path = self.0.join(name);
        fs::write(&path, bytes).unwrap();
        path.display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Whether it succeeds, and its output.
fn run_as(bin: &Path, args: &[&str], answer: &str) -> (bool, String) {
    let mut command = Command::new(bin);
    let command = command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // Not every run reads the answer.
    let _ = child.stdin.take().unwrap().write_all(answer.as_bytes());
    let output = child.wait_with_output().unwrap();
    (output.status.success(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}

fn run(args: &[&str]) -> (bool, String) {
    run_as(Path::new(BIN), args, "")
}

const A: &[u8] = b"*1\r\n$1\r\nA\r\n";
const RDB: &[u8] = b"REDIS0003\xfa\x01a\x01b\xfe\x02\xfc\x01\0\0\0\0\0\0\0\x00\x01k\x01v\x01\x01l\x01\x01e\xff";

#[test]
fn a_snapshot_is_summed_up() {
    let folder = Folder::new("rdb");
    let file = folder.file("dump.rdb", RDB);
    let (ok, said) = run(&["rdb", &file]);
    assert!(ok, "{said}");
    for part in ["RDB version 3", "a: b", "2 keys in 1 databases, 1 expire, 1 have expired", "1 strings", "1 lists"] {
        assert!(said.contains(part), "{part} in {said}");
    }
    for len in [5, 20, RDB.len() - 1] {
        let (ok, said) = run(&["rdb", &folder.file("cut.rdb", &RDB[..len])]);
        assert!(!ok && said.contains("cut.rdb"), "{said}");
    }
    let (_, said) = run(&["rdb", &folder.file("cut.rdb", &RDB[..RDB.len() - 1])]);
    assert!(said.contains("2 keys") && said.contains("the last whole key is \"l\" of database 2"), "{said}");
    let unknown = [&RDB[..RDB.len() - 1], b"\x63\x01x"].concat();
    let (_, said) = run(&["rdb", &folder.file("unknown.rdb", &unknown)]);
    assert!(said.contains("2 keys") && said.contains("a value of an unknown type"), "{said}");
    let doubled = [&RDB[..RDB.len() - 1], b"\x02\x01s\x02\x01m\x01m\xff"].concat();
    let (ok, said) = run(&["rdb", &folder.file("double.rdb", &doubled)]);
    assert!(!ok && said.contains("a member that comes twice"), "{said}");
    assert!(!run(&["rdb", "/nowhere/dump.rdb"]).0);
}

#[test]
fn a_log_that_ends_in_the_middle_is_cut_when_the_user_agrees() {
    let folder = Folder::new("fix");
    let bytes = [A, A, &A[..7]].concat();
    let file = folder.file("x.aof", &bytes);
    let (ok, said) = run(&["aof", &file]);
    assert!(!ok && said.contains("whole up to byte 22; --fix cuts off the 7 bytes"), "{said}");
    for answer in ["", "n\n", "nonsense\n"] {
        assert!(!run_as(Path::new(BIN), &["aof", "--fix", &file], answer).0);
        assert_eq!(fs::read(&file).unwrap(), bytes);
    }
    let (ok, said) = run_as(Path::new(BIN), &["aof", "--fix", &file], "y\n");
    assert!(ok, "{said}");
    assert_eq!(fs::read(&file).unwrap(), [A, A].concat());
    let (ok, said) = run(&["aof", &file]);
    assert!(ok && said.contains("2 commands in 22 bytes"), "{said}");
    let file = folder.file("damaged.aof", &[A, b"junk", A].concat());
    let (ok, said) = run(&["aof", &file]);
    assert!(!ok && said.contains("damaged at byte 11") && said.contains("found \"junk*1"), "{said}");
    assert!(run(&["aof", "--fix", "--yes", &file]).0);
    assert_eq!(fs::read(&file).unwrap(), A);
}

#[test]
fn a_manifest_stands_for_all_its_files_and_only_the_last_is_cut() {
    let folder = Folder::new("manifest");
    folder.file("b.rdb", RDB);
    folder.file("i1", &[A, &A[..3]].concat());
    let last = folder.file("i2", &[A, &A[..3]].concat());
    let text = b"file b.rdb seq 1 type b\nfile i1 seq 1 type i\nfile i2 seq 2 type i\n";
    let manifest = folder.file("x.manifest", text);
    let (ok, said) = run(&["aof", "--fix", "--yes", &manifest]);
    assert!(!ok && said.contains("i1 cannot be cut: other files of the log follow it"), "{said}");
    folder.file("i1", A);
    let (ok, said) = run(&["aof", &manifest]);
    assert!(!ok && said.contains("i2 is whole up to byte 11"), "{said}");
    let (ok, said) = run(&["aof", "--fix", "--yes", &manifest]);
    assert!(ok && said.contains("2 keys"), "{said}");
    assert_eq!(fs::read(last).unwrap(), A);
    folder.file("b.rdb", &RDB[..30]);
    assert!(!run(&["aof", "--fix", "--yes", &manifest]).0);
    fs::remove_file(folder.0.join("b.rdb")).unwrap();
    let (ok, said) = run(&["aof", &manifest]);
    assert!(!ok && said.contains("b.rdb is in the manifest but not in the folder"), "{said}");
    let (ok, said) = run(&["aof", &folder.file("y.manifest", b"file b seq x type b\n")]);
    assert!(!ok && said.contains("line 1 of the manifest"), "{said}");
}

#[test]
fn a_log_is_cut_in_front_of_a_later_time() {
    let folder = Folder::new("time");
    let bytes = [b"#TS:100\r\n", A, b"#TS:200\r\n", A, b"#TS:300\r\n", A].concat();
    let file = folder.file("x.aof", &bytes);
    let until = |time: &str| run(&["aof", "--truncate-to-timestamp", time, &file]);
    let (ok, said) = until("500");
    assert!(ok && said.contains("nothing later"), "{said}");
    assert!(!until("99").0);
    assert_eq!(fs::read(&file).unwrap(), bytes);
    let (ok, said) = until("200");
    assert!(ok && said.contains("has been cut"), "{said}");
    assert_eq!(fs::read(&file).unwrap(), bytes[..40]);
}

#[test]
fn through_links_it_takes_the_arguments_of_redis_tools() {
    let folder = Folder::new("links");
    let (rdb, aof) = (folder.0.join("redis-check-rdb"), folder.0.join("redis-check-aof"));
    [&rdb, &aof].into_iter().for_each(|link| symlink(BIN, link).unwrap());
    assert!(run_as(&rdb, &[&folder.file("dump.rdb", RDB)], "").0);
    let file = folder.file("x.aof", &[A, &A[..3]].concat());
    assert!(!run_as(&aof, &[&file], "").0);
    assert!(run_as(&aof, &["--fix", &file], "y\n").0);
    assert_eq!(fs::read(&file).unwrap(), A);
    assert!(run_as(&aof, &[&folder.file("empty", b"")], "").0);
    let (ok, said) = run(&["--help"]);
    assert!(ok && said.contains("--truncate-to-timestamp"));
    assert!(!run(&[]).0);
}

#[test]
fn a_path_of_any_length_is_an_error() {
    let folder = Folder::new("long");
    for len in [300, 1_100, 5_000, 70_000] {
        let name = "x".repeat(len);
        let path = folder.0.join(&name).display().to_string();
        let manifest = folder.file("x.manifest", format!("file {name} seq 1 type b\n").as_bytes());
        for args in [["aof", &path], ["rdb", &path], ["aof", &manifest]] {
            let (ok, said) = run(&args);
            assert!(!ok && !said.is_empty() && !said.contains("panicked"), "{len} bytes, {}: {said:.300}", args[0]);
        }
    }
}
