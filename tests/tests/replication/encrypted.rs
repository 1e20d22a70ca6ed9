//! Replication over TLS, in both directions, and the data as a file for redis-cli.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use onrush_tests::argv;
use onrush_tests::certificates::certificates;
use onrush_tests::client::Conn;
use onrush_tests::port::Port;
use onrush_tests::resp::Value;
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

/// Passes bytes on between one client and a server, the first ones from the server late.
fn answer_late(port: u16) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let own = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        let (client, _) = listener.accept().expect("a client");
        let server = TcpStream::connect(("127.0.0.1", port)).expect("a server");
        let pass = |mut from: TcpStream, mut to: TcpStream, mut late: u32| {
            std::thread::spawn(move || {
                let mut buf = [0; 1 << 16];
                while let Ok(len @ 1..) = from.read(&mut buf) {
                    if late > 0 {
                        late -= 1;
                        std::thread::sleep(Duration::from_millis(700));
                    }
                    if to.write_all(&buf[..len]).is_err() {
                        break;
                    }
                }
                let _ = to.shutdown(Shutdown::Both);
            })
        };
        let both = || (client.try_clone().expect("a copy"), server.try_clone().expect("a copy"));
        let (to_client, to_server) = (both(), both());
        pass(to_server.0, to_server.1, 0);
        pass(to_client.1, to_client.0, 4);
    });
    own
}

/// The first handshake takes longer than a socket waits at a time; it is the only connection that there can be.
#[test]
fn a_handshake_may_take_its_time() {
    let folder = TempDir::new();
    certificates(&folder.0);
    let [primary, replica] = [(); 2].map(|()| Encrypted::start(Launch::onrush(), &folder.0));
    let port = answer_late(primary.tls.number()).to_string();
    let (mut theirs, mut ours) = (primary.server.connect(), replica.server.connect());
    theirs.run("SET key value");
    assert_eq!(ours.call(&argv!["REPLICAOF", "127.0.0.1", port.as_str()]).text(), "OK");
    wait_until("it is there", || ours.run("GET key").text() == "value");
    assert!(is_same(&mut theirs, &mut ours), "{}", replica.server.log_tail());
}

#[test]
fn redis_cli_gets_the_data_as_a_file() {
    let primary = Server::start_onrush(&["--enable-debug-command", "yes"]);
    let mut ours = primary.connect();
    fill(&mut ours);
    let dir = TempDir::new();
    let path = dir.0.join("got.rdb");
    let get = |option: &str| {
        let args = ["-p", &primary.port().to_string(), option];
        let done = Command::new("redis-cli").args(args).arg(&path).output().expect("redis-cli");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    };
    get("--rdb");
    wait_until("it is a replica no more", || info(&mut ours, "replication", "connected_slaves") == "0");
    let args = ["--dir", dir.0.to_str().expect("a path"), "--dbfilename", "got.rdb", "--enable-debug-command", "yes"];
    for server in [Server::start_oracle(Oracle::Newer, &args), Server::start_onrush(&args)] {
        assert_eq!(server.connect().run("DEBUG DIGEST"), ours.run("DEBUG DIGEST"));
    }
    // The functions alone.
    get("--functions-rdb");
    for server in [Server::start_oracle(Oracle::Newer, &args), Server::start_onrush(&args)] {
        let mut conn = server.connect();
        assert_eq!(conn.run("DBSIZE"), Value::Int(0));
        assert_eq!(conn.run("FCALL f 0").text(), "from the primary");
    }
    let refused = ours.run("REPLCONF rdb-filter-only x").to_string();
    assert!(refused.contains("ERR Unsupported rdb-filter-only option: x"), "{refused}");
}
