//! A fifo in the place of a file of the data or the configuration: the start is refused at once, with the file's name.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use onrush_tests::argv;
use onrush_tests::server::{Launch, TempDir, onrush_bin, wait_until};

/// How long a start that is refused may take.
const REFUSED_WITHIN: Duration = Duration::from_secs(5);

fn make_fifo(path: &Path) {
    let _ = fs::remove_file(path);
    assert!(Command::new("mkfifo").arg(path).status().expect("mkfifo").success());
}

/// Starts a server that ends by itself; returns its status and what it has logged.
fn start(folder: &Path, args: &[&str]) -> (ExitStatus, String) {
    let log = folder.join("log");
    let output = fs::File::create(&log).expect("a log");
    let mut command = Command::new(onrush_bin());
    command.args(args).current_dir(folder).stdin(Stdio::null());
    command.stdout(output.try_clone().expect("a handle")).stderr(output);
    let mut child = command.spawn().expect("it starts");
    let deadline = Instant::now() + REFUSED_WITHIN;
    loop {
        if let Some(status) = child.try_wait().expect("a child") {
            return (status, fs::read_to_string(&log).expect("a log"));
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            let _ = child.wait();
            panic!("it hangs: {}", fs::read_to_string(&log).expect("a log"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A folder with an append-only file of a base and commands.
fn with_log() -> TempDir {
    let folder = TempDir::new();
    let dir = folder.0.to_str().expect("a plain path");
    let server = Launch::onrush().args(&["--dir", dir, "--appendonly", "yes"]).start();
    let mut conn = server.connect();
    assert_eq!(conn.run("SET a 1").text(), "OK");
    assert_eq!(conn.run("BGREWRITEAOF").text(), "Background append only file rewriting started");
    wait_until("it is rewritten", || conn.info_number("aof_rewrites") == Some(1));
    wait_until("it is done", || conn.info_number("aof_rewrite_in_progress") == Some(0));
    assert_eq!(conn.call(&argv!["SET", "b", "1"]).text(), "OK");
    folder
}

#[test]
fn a_fifo_in_the_place_of_a_file_of_the_log_refuses_the_start() {
    for ending in [".manifest", ".base.rdb", ".incr.aof"] {
        let folder = with_log();
        let names = fs::read_dir(folder.0.join("appendonlydir")).expect("a folder");
        let paths: Vec<_> = names.map(|entry| entry.expect("an entry").path()).collect();
        let path = paths.iter().find(|path| path.to_string_lossy().ends_with(ending)).expect(ending);
        make_fifo(path);
        let (status, log) = start(&folder.0, &["--port", "0", "--unixsocket", "socket", "--appendonly", "yes"]);
        assert_eq!(status.code(), Some(1), "{log}");
        let name = path.file_name().expect("a name").to_string_lossy();
        assert!(log.contains(&format!("appendonlydir/{name}: not a regular file")), "{log}");
    }
}

#[test]
fn a_fifo_in_the_place_of_a_snapshot_refuses_the_start() {
    let folder = TempDir::new();
    make_fifo(&folder.0.join("dump.rdb"));
    let (status, log) = start(&folder.0, &["--port", "0", "--unixsocket", "socket"]);
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains("dump.rdb: not a regular file"), "{log}");
}

#[test]
fn a_fifo_in_the_place_of_a_configuration_refuses_the_start_and_an_open_pipe_does_not() {
    let folder = TempDir::new();
    make_fifo(&folder.0.join("conf"));
    fs::write(folder.0.join("including"), "include conf\n").expect("written");
    for file in ["conf", "including"] {
        let (status, log) = start(&folder.0, &[file]);
        assert_eq!(status.code(), Some(1), "{log}");
        assert!(log.contains("conf': a fifo"), "{log}");
    }
    // The configuration that the pipe holds is read: its error is told.
    let line = format!("echo no-such-directive 1 | '{}' /dev/stdin", onrush_bin().display());
    let output = Command::new("sh").args(["-c", &line]).output().expect("a shell");
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(text.contains("no-such-directive"), "{text}");
}

/// One more than may be.
#[test]
fn more_databases_than_may_be_refuse_the_start() {
    let folder = TempDir::new();
    let (status, log) = start(&folder.0, &["--databases", "1000001"]);
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains("FATAL CONFIG FILE ERROR"), "{log}");
    assert!(log.contains("argument must be between 1 and 1000000 inclusive"), "{log}");
}
