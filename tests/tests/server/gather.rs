//! Connections move between workers while they are used, and clients do not notice.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use onrush_tests::argv;
use onrush_tests::client::Conn;
use onrush_tests::resp::Value;
use onrush_tests::server::{Server, wait_until};

fn used(conn: &mut Conn) -> Option<i64> {
    conn.info_number("workers_used")
}

#[test]
fn an_idle_server_uses_one_worker_and_can_be_told_to_use_all() {
    let server = Server::start_onrush(&["--workers", "3", "--gather-connections", "yes"]);
    let mut conn = server.connect();
    assert_eq!(used(&mut conn), Some(1));
    conn.call(&argv!["CONFIG", "SET", "gather-connections", "no"]);
    wait_until("all workers are used", || used(&mut conn) == Some(3));
    conn.call(&argv!["CONFIG", "SET", "gather-connections", "yes"]);
    wait_until("one worker is left", || used(&mut conn) == Some(1));
}

#[test]
fn commands_are_answered_in_order_while_connections_move() {
    let server = Server::start_onrush(&["--workers", "3"]);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..12)
            .map(|client| {
                let (server, over) = (&server, &over);
                scope.spawn(move || {
                    let mut conn = server.connect();
                    conn.call(&argv!["SELECT", (client % 4).to_string()]);
                    let key = format!("count:{client}");
                    let mut count = 0;
                    while !over.load(Relaxed) {
                        let len = 1 + count as usize % 37;
                        let mut bytes = Vec::new();
                        (0..len).for_each(|_| argv!["INCR", &key].encode(&mut bytes));
                        // A command that arrives in two parts may find itself with another worker in between.
                        let (head, tail) = bytes.split_at(bytes.len() - 5);
                        conn.send(head).expect("sent");
                        std::thread::sleep(Duration::from_micros(500));
                        conn.send(tail).expect("sent");
                        for _ in 0..len {
                            count += 1;
                            assert_eq!(conn.read_reply().expect("a reply"), format!(":{count}\r\n").into_bytes());
                        }
                        if client % 3 == 0 {
                            let waits = argv!["BLPOP", format!("nothing:{client}"), "0.005"];
                            assert_eq!(conn.try_call(&waits).expect("a reply"), b"*-1\r\n");
                        }
                    }
                    count
                })
            })
            .collect();
        let mut control = server.connect();
        for _ in 0..3 {
            control.call(&argv!["CONFIG", "SET", "gather-connections", "yes"]);
            let spread = |conn: &mut Conn| used(conn) != Some(3);
            wait_until("connections gather", || spread(&mut control));
            control.call(&argv!["CONFIG", "SET", "gather-connections", "no"]);
            wait_until("connections spread", || used(&mut control) == Some(3));
        }
        over.store(true, Relaxed);
        for (client, thread) in clients.into_iter().enumerate() {
            let count: u64 = thread.join().expect("no panic");
            assert!(count > 0);
            control.call(&argv!["SELECT", (client % 4).to_string()]);
            assert_eq!(control.call(&argv!["GET", format!("count:{client}")]).text(), count.to_string());
        }
        let clients = |conn: &mut Conn| conn.info_number("connected_clients");
        wait_until("all are gone but one", || clients(&mut control) == Some(1));
    });
}

#[test]
fn clients_are_killed_and_unblocked_wherever_they_are() {
    let server = Server::start_onrush(&["--workers", "2", "--gather-connections", "yes"]);
    let mut control = server.connect();
    let mut clients: Vec<Conn> = (0..20).map(|_| server.connect()).collect();
    let ids: Vec<i64> = clients
        .iter_mut()
        .map(|conn| match conn.call(&argv!["CLIENT", "ID"]) {
            Value::Int(id) => id,
            other => panic!("{other:?}"),
        })
        .collect();
    control.call(&argv!["CONFIG", "SET", "gather-connections", "no"]);
    wait_until("all workers are used", || used(&mut control) == Some(2));
    for (nth, (conn, id)) in clients.iter_mut().zip(&ids).enumerate() {
        if nth % 2 == 0 {
            conn.send_command(&argv!["BLPOP", "nothing", "0"]).expect("sent");
            let unblock = argv!["CLIENT", "UNBLOCK", id.to_string()];
            wait_until("it is unblocked", || control.call(&unblock) == Value::Int(1));
            assert_eq!(conn.read_reply().expect("a reply"), b"*-1\r\n");
        }
        assert_eq!(control.call(&argv!["CLIENT", "KILL", "ID", id.to_string()]), Value::Int(1));
        assert!(conn.read_reply().is_err());
    }
    wait_until("all are gone but one", || control.info_number("connected_clients") == Some(1));
}
