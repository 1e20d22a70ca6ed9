//! Huge collections: commands on one delay no other client. Run with `--test-threads=1`: times are measured.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use onrush_tests::argv;
use onrush_tests::argv::Argv;
use onrush_tests::client::Conn;
use onrush_tests::latency::{Latencies, holds_once};
use onrush_tests::resp::Value;
use onrush_tests::server::{Server, wait_until};

const MEMBERS: usize = 5_000_000;
const PER_COMMAND: usize = 500;

/// Adds `MEMBERS` members to a sorted set, in scrambled order.
fn load(conn: &mut Conn, key: &str) {
    for first in (0..MEMBERS).step_by(PER_COMMAND * 100) {
        let commands: Vec<Argv> = (first..first + PER_COMMAND * 100)
            .step_by(PER_COMMAND)
            .map(|first| {
                let mut args = vec!["ZADD".to_string(), key.to_string()];
                for number in first..first + PER_COMMAND {
                    // The factor has no divisor in common with the number of members: every number comes once.
                    let number = number * 7_368_787 % MEMBERS;
                    args.extend([number.to_string(), format!("member:{number:07}")]);
                }
                Argv::new(&args)
            })
            .collect();
        conn.pipeline(&commands);
    }
    assert_eq!(conn.call(&argv!["ZCARD", key]), Value::Int(MEMBERS as i64));
}

/// Round-trip times of a quiet connection, from before a command of another one until its garbage is freed.
fn latencies_beside(server: &Server, command: &Argv) -> Latencies {
    let done = AtomicBool::new(false);
    let mut probe = server.connect();
    let mut conn = server.connect();
    std::thread::scope(|scope| {
        let done = &done;
        let measured = scope.spawn(move || {
            let until = Instant::now() + Duration::from_secs(30);
            Latencies::measure(&mut probe, &argv!["GET", "other"], |calls| {
                (calls < 5_000 || !done.load(Ordering::Relaxed)) && Instant::now() < until
            })
        });
        std::thread::sleep(Duration::from_millis(50));
        conn.call(command);
        wait_until("it is freed", || conn.info_number("lazyfree_pending_objects") == Some(0));
        done.store(true, Ordering::Relaxed);
        measured.join().expect("measured")
    })
}

#[test]
fn deleting_five_million_members_delays_nobody() {
    let server = Server::start_onrush(&["--workers", "2"]);
    let mut conn = server.connect();
    conn.call(&argv!["SET", "other", "v"]);
    holds_once(|| {
        load(&mut conn, "huge");
        let latencies = latencies_beside(&server, &argv!["DEL", "huge"]);
        println!("beside DEL: {latencies}");
        // Freed by its worker at once, it would delay one call for a second; in pieces, many calls. What a busy machine
        // does to a thread takes some milliseconds.
        let fits = latencies.quantile(999) < Duration::from_millis(10)
            && latencies.quantile(1000) < Duration::from_millis(100);
        if fits { Ok(()) } else { Err(latencies.to_string()) }
    });
}
