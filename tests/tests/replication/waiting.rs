//! WAIT, WAITAOF and `min-replicas-to-write`.

use std::time::{Duration, Instant};

use onrush_tests::argv;
use onrush_tests::resp::Value;
use onrush_tests::server::{Oracle, Server, wait_until};

use crate::follows::{info, start_replica, wait_for_link};

fn start_redis_replica(primary: &Server) -> Server {
    let port = primary.port().to_string();
    Server::start_oracle(Oracle::Newer, &["--replicaof", "127.0.0.1", &port, "--appendonly", "yes", "--save", ""])
}

#[test]
fn replicas_are_waited_for_and_counted() {
    let primary = Server::start_onrush(&["--appendonly", "yes", "--save", ""]);
    let mut ours = primary.connect();
    assert_eq!(ours.run("WAIT 0 10"), Value::Int(0));
    assert_eq!(ours.run("WAIT 1 10"), Value::Int(0));
    let replicas = [start_redis_replica(&primary), start_replica(&primary, &["--appendonly", "yes"])];
    replicas.iter().for_each(|replica| wait_for_link(&mut replica.connect()));
    for number in 0..50 {
        let started = Instant::now();
        ours.call(&argv!["SET", "key", number.to_string()]);
        assert_eq!(ours.run("WAIT 2 10000"), Value::Int(2));
        assert!(started.elapsed() < Duration::from_secs(5));
    }
    assert_eq!(ours.run("WAITAOF 1 2 10000").items(), Some(&[Value::Int(1), Value::Int(2)][..]));
    let started = Instant::now();
    assert_eq!(ours.run("WAIT 3 300"), Value::Int(2), "those that have it are counted");
    assert!(started.elapsed() >= Duration::from_millis(290));
    replicas[0].signal("STOP");
    ours.run("SET key last");
    assert_eq!(ours.run("WAIT 2 500"), Value::Int(1));
    assert_eq!(ours.run("WAIT 1 0"), Value::Int(1));
    replicas[0].signal("CONT");
    assert_eq!(ours.run("WAIT 2 10000"), Value::Int(2));
    // Many wait at a time, and each gets its own.
    let clients: Vec<_> = (0..20)
        .map(|client| {
            let mut conn = primary.connect();
            std::thread::spawn(move || {
                for number in 0..50 {
                    conn.call(&argv!["SET", format!("{client}"), number.to_string()]);
                    assert_eq!(conn.run("WAIT 2 10000"), Value::Int(2));
                }
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().expect("it has waited"));
    assert_eq!(ours.run("MULTI").text(), "OK");
    ours.run("SET key value");
    ours.run("WAIT 2 0");
    assert_eq!(ours.run("EXEC").items().map(<[_]>::len), Some(2));
}

#[test]
fn writes_need_their_replicas() {
    let primary = Server::start_onrush(&["--min-replicas-to-write", "1", "--min-replicas-max-lag", "2", "--save", ""]);
    let mut ours = primary.connect();
    let refused = "NOREPLICAS Not enough good replicas to write.";
    assert_eq!(ours.run("SET key value").text(), refused);
    assert_eq!(ours.run("GET key").bytes(), None);
    let replica = start_redis_replica(&primary);
    wait_for_link(&mut replica.connect());
    wait_until("the replica counts", || info(&mut ours, "replication", "min_slaves_good_slaves") == "1");
    assert_eq!(ours.run("SET key value").text(), "OK");
    replica.signal("STOP");
    wait_until("it is silent for too long", || ours.run("SET key value").text() == refused);
    replica.signal("CONT");
    wait_until("it is back", || ours.run("SET key value").text() == "OK");
    drop(replica);
    wait_until("it is gone", || ours.run("SET key value").text() == refused);
    assert_eq!(ours.run("CONFIG SET min-replicas-to-write 0").text(), "OK");
    assert_eq!(ours.run("SET key value").text(), "OK");
}
