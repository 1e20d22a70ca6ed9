//! The client library's blocking API: the same connections for code that is not async.

use std::collections::{BTreeSet, HashMap};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use onrush::blocking::{Client, Commands, Connection};
use onrush::{AsyncCommands, ConnectionConfig, ErrorKind, Fate, ProtocolVersion, Script, cmd, pipe};
use onrush_tests::server::Server;

fn servers() -> [Server; 2] {
    [Server::start_onrush(&["--workers", "2"]), Server::start_redis(&[])]
}

fn connect(server: &Server) -> Connection {
    let client = Client::open(format!("redis://127.0.0.1:{}/", server.port())).expect("a URL");
    client.get_connection().expect("a connection")
}

#[test]
fn commands_pipelines_scripts_and_transactions() {
    for server in servers() {
        let con = connect(&server);
        assert_eq!(con.protocol(), ProtocolVersion::RESP3);
        let () = con.set("k", "v").unwrap();
        assert_eq!(con.get::<_, String>("k").unwrap(), "v");
        assert_eq!(cmd("GET").arg("none").query::<Option<String>>(&con).unwrap(), None);
        cmd("SET").arg(("n", 5)).exec(&con).unwrap();
        let (n, old): (i32, String) = pipe().incr("n", 1).get("k").query(&con).unwrap();
        assert_eq!((n, old.as_str()), (6, "v"));
        let each = pipe().incr("k", 1).incr("n", 1).query_each_blocking::<i32>(&con).unwrap();
        assert!(each[0].is_err() && each[1] == Ok(7));
        assert_eq!(con.lpush::<_, _, i32>("k", 1).unwrap_err().code(), Some("WRONGTYPE"));
        assert_eq!(Script::new("return ARGV[1] * 2").arg(4).invoke::<i32>(&con).unwrap(), 8);
        let (n,): (i32,) = con
            .transaction("n", |lease, pipeline| {
                let n: i32 = lease.get("n")?;
                pipeline.set("n", n * 2).ignore().get("n").query(lease)
            })
            .unwrap();
        assert_eq!(n, 14);
        // A blocking command goes over a lease of its own.
        let waiter = con.clone();
        let popped = std::thread::spawn(move || waiter.blpop::<_, _, (String, String)>("list", 30).unwrap());
        let () = con.rpush("list", "x").unwrap();
        assert_eq!(popped.join().unwrap(), ("list".into(), "x".into()));
    }
}

#[test]
fn scans_are_iterators() {
    for server in servers() {
        let con = connect(&server);
        let mut fill = pipe();
        (0..500).for_each(|n| _ = fill.sadd("s", n).hset("h", n, n));
        fill.exec(&con).unwrap();
        let members: BTreeSet<i32> = con.sscan::<i32>("s").map(Result::unwrap).collect();
        assert_eq!(members.len(), 500);
        let fields: HashMap<i32, i32> = con.hscan::<(i32, i32)>("h").collect::<Result<_, _>>().unwrap();
        assert_eq!(fields.len(), 500);
        assert_eq!(con.scan_match::<String>("s*").map(Result::unwrap).collect::<Vec<_>>(), ["s"]);
        let mut wrong = con.zscan::<(String, f64)>("s");
        assert!(wrong.next().unwrap().is_err() && wrong.next().is_none());
    }
}

#[test]
fn threads_share_a_connection() {
    for server in servers() {
        let con = connect(&server);
        std::thread::scope(|scope| {
            for thread in 0..16 {
                let con = &con;
                scope.spawn(move || {
                    for n in 0..200 {
                        let key = format!("{thread}:{n}");
                        let () = con.set(&key, n).unwrap();
                        assert_eq!(con.get::<_, i32>(&key).unwrap(), n);
                    }
                });
            }
        });
        assert_eq!(con.dbsize::<usize>().unwrap(), 3_200);
    }
}

#[test]
fn calls_work_within_runtimes_of_one_thread_and_of_many() {
    let server = Server::start_onrush(&["--workers", "2"]);
    let one = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let many = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    for runtime in [one, many] {
        runtime.block_on(async {
            let con = connect(&server);
            let () = con.set("k", 1).unwrap();
            assert_eq!(con.get::<_, i32>("k").unwrap(), 1);
            // Its async side is driven elsewhere, so it may be awaited here.
            assert_eq!(AsyncCommands::incr::<_, _, i32>(con.as_async(), "k", 1).await.unwrap(), 2);
            let task = tokio::spawn(async move { con.get::<_, i32>("k").unwrap() });
            assert_eq!(task.await.unwrap(), 2);
        });
    }
}

#[test]
fn one_thread_subscribes_while_another_reads() {
    for server in servers() {
        for protocol in ["resp2", "resp3"] {
            let url = format!("redis://127.0.0.1:{}/?protocol={protocol}", server.port());
            let (sink, mut stream) = Client::open(url).unwrap().get_pubsub().unwrap().split();
            let reader = std::thread::spawn(move || {
                let message = stream.get_message_within(Duration::from_secs(30)).unwrap().unwrap();
                (message.get_payload::<String>().unwrap(), stream)
            });
            sink.subscribe("a").unwrap();
            // The server may not have heard yet that the one before is gone.
            sink.clone().psubscribe(format!("{protocol}*")).unwrap();
            sink.unsubscribe("a").unwrap();
            let heard: usize = connect(&server).publish(format!("{protocol}:c"), "hello").unwrap();
            let (text, stream) = reader.join().unwrap();
            assert_eq!((heard, text.as_str()), (1, "hello"));
            drop(stream);
            assert_eq!(sink.subscribe("c").unwrap_err().kind(), ErrorKind::Closed);
        }
    }
}

#[test]
fn subscriptions() {
    for server in servers() {
        let con = connect(&server);
        let client = Client::open(format!("redis://127.0.0.1:{}/", server.port())).unwrap();
        let mut pubsub = client.get_pubsub().unwrap();
        pubsub.subscribe("c").unwrap();
        pubsub.psubscribe("p*").unwrap();
        assert_eq!(pubsub.get_message_within(Duration::from_millis(1)).unwrap(), None);
        assert_eq!(con.publish::<_, _, i32>("c", "one").unwrap(), 1);
        assert_eq!(con.publish::<_, _, i32>("pq", "two").unwrap(), 1);
        assert_eq!(pubsub.get_message().unwrap().get_payload::<String>().unwrap(), "one");
        assert!(pubsub.next().unwrap().from_pattern());
        pubsub.unsubscribe("c").unwrap();
        assert_eq!(con.publish::<_, _, i32>("c", "three").unwrap(), 0);
    }
}

#[test]
fn a_call_may_have_a_timeout_of_its_own() {
    let server = Server::start_onrush(&["--workers", "2"]);
    let (con, other) = (connect(&server), connect(&server));
    let () = cmd("CLIENT").arg(("PAUSE", 60_000, "WRITE")).query(&other).unwrap();
    let before = Instant::now();
    let error = con.with_timeout(Duration::from_millis(30)).set::<_, _, ()>("k", "v").unwrap_err();
    assert_eq!((error.kind(), error.fate()), (ErrorKind::Timeout, Fate::Unknown));
    assert!(before.elapsed() < Duration::from_secs(30));
    // What was given up has its reply taken from the line all the same.
    let () = other.client_unpause().unwrap();
    assert_eq!(con.get::<_, String>("k").unwrap(), "v");
}

#[test]
fn a_closed_connection_takes_nothing_and_a_dead_server_is_told() {
    let server = Server::start_onrush(&["--workers", "2"]);
    let con = connect(&server);
    let (told, heard) = mpsc::channel();
    let busy = con.clone();
    let thread = std::thread::spawn(move || {
        let () = busy.set("k", "v").unwrap();
        told.send(()).unwrap();
        while busy.incr::<_, _, i64>("n", 1).is_ok() {}
    });
    heard.recv().unwrap();
    con.close().unwrap();
    thread.join().unwrap();
    let error = con.get::<_, String>("k").unwrap_err();
    assert_eq!((error.kind(), error.fate()), (ErrorKind::Closed, Fate::NotSent));
    let url = format!("redis://127.0.0.1:{}/", server.port());
    drop(server);
    let config = ConnectionConfig::new().set_connection_timeout(Some(Duration::from_secs(5)));
    let error = Client::open(url).unwrap().connect_with(config).unwrap_err();
    assert!(error.is_connection_refusal(), "{error}");
}
