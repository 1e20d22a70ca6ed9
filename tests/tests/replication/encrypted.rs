//! Replication over TLS, in both directions, and the data as a file for redis-cli.

use std::path::Path;
use std::process::Command;

use onrush_tests::argv;
use onrush_tests::certificates::certificates;
use onrush_tests::client::Conn;
use onrush_tests::port::Port;
use onrush_tests::server::{Launch, Oracle, Server, TempDir, skips_on_stand_in, wait_until};

use crate::follows::{fill, info, is_same};

/// A server that also listens for TLS.
struct Encrypted {
    server: Server,
    tls: Port,
}

impl Encrypted {
    fn start(launch: Launch, folder: &Path) -> Self {
        let tls = Port::choose();
        let file = |name: &str| folder.join(name).to_str().expect("a path").to_owned();
        let (port, key, crt, ca) = (tls.number().to_string(), file("server.key"), file("server.crt"), file("ca.crt"));
        let args = ["--tls-port", &port, "--tls-key-file", &key, "--tls-cert-file", &crt, "--tls-ca-cert-file", &ca];
        let more = ["--tls-replication", "yes", "--enable-debug-command", "yes", "--repl-diskless-sync-delay", "0"];
        Self { server: launch.args(&args).args(&more).start(), tls }
    }

    /// The data of another server.
    fn follow(&self, primary: &Self) -> Conn {
        let mut conn = self.server.connect();
        let port = primary.tls.number().to_string();
        assert_eq!(conn.call(&argv!["REPLICAOF", "127.0.0.1", port.as_str()]).text(), "OK");
        conn
    }
}

#[test]
fn replicas_follow_over_tls() {
    if skips_on_stand_in() {
        return;
    }
    let folder = TempDir::new();
    certificates(&folder.0);
    let onrush = || Encrypted::start(Launch::onrush(), &folder.0);
    let redis = || Encrypted::start(Launch::redis_of(Oracle::Older.bin()), &folder.0);
    let pairs = [(onrush(), onrush()), (redis(), onrush()), (onrush(), redis())];
    for (primary, replica) in pairs {
        let mut theirs = primary.server.connect();
        fill(&mut theirs);
        let mut ours = replica.follow(&primary);
        assert!(is_same(&mut theirs, &mut ours), "{}", replica.server.log_tail());
        let value = "v".repeat(100_000);
        (0..100).for_each(|number| _ = theirs.call(&argv!["SET", format!("key:{number}"), value.as_str()]));
        assert!(is_same(&mut theirs, &mut ours));
        theirs.run("CLIENT KILL TYPE replica");
        theirs.run("INCR count");
        assert!(is_same(&mut theirs, &mut ours), "{}", replica.server.log_tail());
    }
}

#[test]
fn redis_cli_gets_the_data_as_a_file() {
    let primary = Server::start_onrush(&["--enable-debug-command", "yes"]);
    let mut ours = primary.connect();
    fill(&mut ours);
    let dir = TempDir::new();
    let path = dir.0.join("got.rdb");
    let done = Command::new("redis-cli")
        .args(["-p", &primary.port().to_string(), "--rdb"])
        .arg(&path)
        .output()
        .expect("redis-cli");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    wait_until("it is a replica no more", || info(&mut ours, "replication", "connected_slaves") == "0");
    let args = ["--dir", dir.0.to_str().expect("a path"), "--dbfilename", "got.rdb", "--enable-debug-command", "yes"];
    for server in [Server::start_oracle(Oracle::Newer, &args), Server::start_onrush(&args)] {
        assert_eq!(server.connect().run("DEBUG DIGEST"), ours.run("DEBUG DIGEST"));
    }
}
