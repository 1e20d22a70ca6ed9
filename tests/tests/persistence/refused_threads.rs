//! A system that refuses threads, as one with too many does: what is there is loaded and saved all the same.
//!
//! Root may have any number (RLIMIT_NPROC), so the server runs as another user here.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use onrush_tests::argv;
use onrush_tests::resp::Value;
use onrush_tests::server::{Launch, Server, TempDir, onrush_bin, skips_on_stand_in, wait_until};
use rustix::process::getuid;

/// A user that nothing else runs as.
const USER: u32 = 61_234;

/// A program that starts the server as that user, in a folder that this user may enter.
fn wrapper(folder: &Path) -> std::path::PathBuf {
    let (server, wrapper) = (folder.join("server"), folder.join("wrapper"));
    fs::copy(onrush_bin(), &server).expect("a copy");
    let script =
        format!("#!/bin/sh\nexec setpriv --reuid={USER} --regid={USER} --clear-groups {} \"$@\"\n", server.display());
    fs::write(&wrapper, script).expect("a file");
    for path in [folder, &server, &wrapper] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("one's own file");
    }
    wrapper
}

fn start(wrapper: &Path, data: &Path, args: &[&str]) -> Server {
    let data = data.to_str().expect("a plain path");
    Launch::binary(wrapper.to_owned()).args(&["--dir", data, "--enable-debug-command", "yes"]).args(args).start()
}

/// From now on the server gets no thread. Its own user may say so; root may lack the right.
fn refuse_threads(server: &Server) {
    let user = [format!("--reuid={USER}"), format!("--regid={USER}"), "--clear-groups".to_owned()];
    let pid = server.pid().to_string();
    let status =
        Command::new("setpriv").args(user).args(["prlimit", "--pid", &pid, "--nproc=1"]).status().expect("it starts");
    assert!(status.success(), "{status}");
}

#[test]
fn nothing_is_lost_when_the_system_refuses_threads() {
    if skips_on_stand_in() || !getuid().is_root() {
        return;
    }
    for args in [["--save", "3600 1000000"], ["--appendonly", "yes"]] {
        let (programs, data) = (TempDir::new(), TempDir::new());
        chown(&data.0, Some(USER), Some(USER)).expect("root may");
        let wrapper = wrapper(&programs.0);
        let mut server = start(&wrapper, &data.0, &args);
        let mut conn = server.connect();
        refuse_threads(&server);
        for n in 0..1_000 {
            conn.call(&argv!["SET", format!("k{n}"), "v".repeat(100)]);
        }
        assert_eq!(conn.run("DEBUG RELOAD").text(), "OK");
        assert_eq!(conn.run("DBSIZE"), Value::Int(1_000));
        if args[0] == "--save" {
            let refused = conn.run("CONFIG SET appendonly yes");
            assert!(refused.text().starts_with("ERR"), "{refused}");
        }
        assert!(conn.run("BGSAVE").text().starts_with("Background saving"));
        wait_until("it is saved", || conn.run("INFO persistence").text().contains("rdb_bgsave_in_progress:0"));
        assert!(conn.run("INFO persistence").text().contains("rdb_last_bgsave_status:ok"));
        conn.run("SET last one");
        server.signal("TERM");
        assert_eq!(server.wait_exit().code(), Some(0), "{}", server.log_tail());
        let server = start(&wrapper, &data.0, &args);
        let mut conn = server.connect();
        wait_until("it is loaded", || conn.run("PING").text() == "PONG");
        assert_eq!((conn.run("DBSIZE"), conn.run("GET last").text().as_str()), (Value::Int(1_001), "one"));
    }
}
