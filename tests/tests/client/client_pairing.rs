//! Every task gets its own command's reply: commands that could shift replies are refused, and a lease with a due reply
//! is closed.

use crate::fake::{Answer, Fake, check_pairing, oblige, polled, run};
use onrush::ConnectionLike as _;
use onrush::{Client, Cmd, ConnectionConfig, ErrorKind, Lease, Value, WindowSize, cmd, pipe};
use redis::aio::ConnectionLike as _;

/// Commands that no server answers with exactly one reply, or that would change a shared connection.
const BARRED: &[&str] = &[
    "",
    "SUBSCRIBE c",
    "psubscribe c*",
    "SSUBSCRIBE c",
    "UNSUBSCRIBE",
    "PUNSUBSCRIBE",
    "sunsubscribe",
    "MONITOR",
    "QUIT",
    "reset",
    "AUTH secret",
    "HELLO 3",
    "CLIENT REPLY OFF",
    "client reply skip",
    "SYNC",
    "PSYNC ? -1",
    "REPLCONF ACK 0",
    "READONLY",
    "READWRITE",
    "ASKING",
    "WAIT 1 0",
    "WAITAOF 1 0 0",
    "MULTI",
    "EXEC",
    "discard",
    "WATCH k",
    "UNWATCH",
    "CLIENT TRACKING ON",
    "client caching YES",
    "CLIENT NO-EVICT ON",
    "CLIENT NO-TOUCH ON",
    "SELECT 1",
    "script debug YES",
    "CLUSTER SYNCSLOTS SYNC",
    "POST",
    "Host:",
];

fn built(line: &str) -> Cmd {
    let args: Vec<&str> = line.split_whitespace().collect();
    Cmd::new().arg(&args[..]).clone()
}

#[test]
fn what_does_not_bring_one_reply_is_refused_before_anything_is_written() {
    run(async {
        let fake = Fake::obliging().await;
        let con = fake.connect(ConnectionConfig::new()).await;
        let is_refused = |error: onrush::RedisError, line: &str, way: &str| {
            assert_eq!(error.kind(), ErrorKind::Client, "{line:?} {way}: {error}");
        };
        for line in BARRED {
            let command = built(line);
            let args: Vec<&str> = line.split_whitespace().collect();
            is_refused(command.exec_async(&con).await.unwrap_err(), line, "as a command");
            let mut raw = pipe();
            raw.arg(&args[..]);
            is_refused(raw.exec_async(&con).await.unwrap_err(), line, "as arguments of a pipeline");
            let mut late = pipe();
            late.cmd("ECHO").arg(1).add_command(&Cmd::new()).arg(&args[..]);
            is_refused(late.exec_async(&con).await.unwrap_err(), line, "named late");
            let mut mixed = pipe();
            mixed.cmd("ECHO").arg(1).add_command(&command);
            is_refused(mixed.query_each::<Value>(&con).await.unwrap_err(), line, "in a pipeline");
            mixed.cmd("BLPOP").arg(("k", 0));
            is_refused(mixed.exec_async(&con).await.unwrap_err(), line, "beside one that blocks");
            is_refused(mixed.atomic().exec_async(&con).await.unwrap_err(), line, "in a transaction");
            is_refused(con.stream([command.clone()]).drain().await.unwrap_err(), line, "in a stream");
            let write = |out: &mut onrush::Pipeline| {
                out.add_command(&command);
                false
            };
            is_refused(con.stream_fn(write).drain().await.unwrap_err(), line, "in a stream of a function");
        }
        check_pairing(&con, "after all").await;
        assert_eq!(fake.seen().into_iter().map(|came| came.line).collect::<Vec<_>>(), ["ECHO after all"]);
    });
}

#[test]
fn code_for_the_redis_crate_meets_the_same_gate() {
    run(async {
        let fake = Fake::obliging().await;
        let mut con = fake.connect(ConnectionConfig::new()).await;
        for line in BARRED {
            let mut command = redis::Cmd::new();
            command.arg(line.split_whitespace().collect::<Vec<_>>());
            let error = command.exec_async(&mut con).await.unwrap_err();
            assert_eq!(error.kind(), redis::ErrorKind::Client, "{line:?}: {error}");
            let mut pipeline = redis::pipe();
            pipeline.cmd("ECHO").arg(1).add_command(command);
            assert!(pipeline.exec_async(&mut con).await.is_err(), "{line:?}");
            assert!(pipeline.atomic().exec_async(&mut con).await.is_err(), "{line:?}");
        }
        let (empty, mut one) = (redis::pipe(), redis::pipe());
        one.cmd("ECHO").arg(1);
        assert_eq!(con.req_packed_commands(&empty, 0, 0).await.unwrap(), []);
        for (offset, count) in [(0, 0), (0, 2), (1, 1), (usize::MAX, 1)] {
            assert!(con.req_packed_commands(&one, offset, count).await.is_err(), "{offset} {count}");
        }
        check_pairing(&con, "after all").await;
        assert_eq!(fake.seen().len(), 1, "{:?}", fake.seen());
    });
}

#[test]
fn an_empty_pipeline_sends_nothing() {
    run(async {
        let fake = Fake::obliging().await;
        let con = fake.connect(ConnectionConfig::new()).await;
        assert_eq!(con.send_pipeline(&pipe()).await.unwrap(), Some(vec![]));
        assert_eq!(con.send_pipeline(pipe().atomic()).await.unwrap(), Some(vec![]));
        assert_eq!(pipe().query_async::<Vec<Value>>(&con).await.unwrap(), []);
        check_pairing(&con, "after all").await;
        assert_eq!(fake.seen().len(), 1, "{:?}", fake.seen());
    });
}

/// The connection that a lease's commands come over.
async fn number(fake: &Fake, lease: &Lease) -> usize {
    check_pairing(lease, "number").await;
    fake.seen().into_iter().rfind(|came| came.line == "ECHO number").expect("just sent").connection
}

#[test]
fn only_a_lease_as_good_as_new_is_leased_again() {
    run(async {
        let fake = Fake::start(|_, line| if line == "GET slow" { Answer::Nothing } else { oblige(line) }).await;
        let con = fake.connect(ConnectionConfig::new()).await;
        let (mut last, mut lease) = (usize::MAX, con.lease().await.unwrap());
        for line in [
            "SELECT 1",
            "AUTH other secret",
            "hello 3",
            "RESET",
            "READONLY",
            "CLIENT TRACKING ON",
            "client no-evict on",
            "CLIENT NO-TOUCH on",
            "client SETNAME me",
            "CLIENT setinfo LIB-NAME mine",
            "QUIT",
            "MULTI",
            "WATCH k",
        ] {
            let now = number(&fake, &lease).await;
            assert_ne!(now, last, "before {line}");
            built(line).exec_async(&lease).await.unwrap();
            if line != "WATCH k" && line != "MULTI" {
                lease.is_clean();
            }
            drop(lease);
            (last, lease) = (now, con.lease().await.unwrap());
        }
        let first = number(&fake, &lease).await;
        assert_ne!(first, last, "after WATCH");
        drop(lease);
        let lease = con.lease().await.unwrap();
        cmd("WATCH").arg("k").exec_async(&lease).await.unwrap();
        lease.is_clean();
        drop(lease);
        let lease = con.lease().await.unwrap();
        assert_eq!(number(&fake, &lease).await, first, "one that is as new");

        let copy = lease.connection().clone();
        drop(lease);
        let lease = con.lease().await.unwrap();
        let second = number(&fake, &lease).await;
        assert_ne!(second, first, "one of which a copy is left");
        assert!(cmd("ECHO").arg(1).exec_async(&copy).await.is_err(), "it is closed");

        let commands = (0..10).map(|_| cmd("GET").arg("slow").to_owned());
        let mut replies = lease.stream(commands).window(WindowSize::new().set_bytes(1).set_commands(1));
        assert!(polled(replies.next(), 1).await.is_none());
        drop(replies);
        drop(lease);
        let lease = con.lease().await.unwrap();
        let third = number(&fake, &lease).await;
        assert_ne!(third, second, "one with a stream given up half-way");

        assert!(polled(cmd("GET").arg("slow").exec_async(&lease), 1).await.is_none());
        drop(lease);
        assert_ne!(number(&fake, &con.lease().await.unwrap()).await, third, "one with a request given up half-way");
    });
}

#[test]
fn a_lease_given_up_is_hung_up_even_if_its_server_takes_nothing() {
    run(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("redis://127.0.0.1:{}/?protocol=resp2", listener.local_addr().unwrap().port());
        let config = ConnectionConfig::new().set_client_info(false).set_ready_check(false).set_response_timeout(None);
        let con = Client::open(url).unwrap().connect_with(config).await.unwrap();
        let lease = con.lease().await.unwrap();
        let _shared = listener.accept().await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        // More than any socket's buffers hold.
        let large = vec![b'x'; 64 << 20];
        assert!(polled(cmd("BLPOP").arg(&large).arg(0).exec_async(&lease), 1).await.is_none());
        stream.readable().await.unwrap();
        drop(lease);
        let mut rest = vec![0; 1 << 20];
        loop {
            stream.readable().await.unwrap();
            match stream.try_read(&mut rest) {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => return,
            }
        }
    });
}
