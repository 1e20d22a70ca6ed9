//! Logs with records of hundreds of megabytes; alone on the machine, since times are compared.

use std::time::{Duration, Instant};

use onrush_tests::argv;
use onrush_tests::client::Conn;
use onrush_tests::server::{Server, wait_until};

#[test]
fn a_large_transaction_is_loaded_in_a_time_that_grows_with_its_length() {
    const SETS: usize = 100_000;
    let args = ["--appendonly", "yes", "--enable-debug-command", "yes", "--auto-aof-rewrite-percentage", "0"];
    let server = Server::start_onrush(&args);
    let mut conn = server.connect();
    let loading_time = |conn: &mut Conn| {
        wait_until("all is on the disk", || conn.run("WAITAOF 1 0 1000").to_string().contains("(integer) 1"));
        let began = Instant::now();
        assert_eq!(conn.run("DEBUG LOADAOF").text(), "OK");
        let took = began.elapsed();
        assert_eq!(conn.run("DBSIZE").to_string(), format!("(integer) {SETS}"));
        conn.run("FLUSHALL");
        conn.run("BGREWRITEAOF");
        wait_until("the rewrite is done", || conn.info_number("aof_rewrite_in_progress") == Some(0));
        took
    };
    let sets: Vec<_> = (0..SETS).map(|n| argv!["SET", format!("k{n}"), vec![b'x'; 4000]]).collect();
    sets.chunks(1000).for_each(|batch| drop(conn.pipeline(batch)));
    let alone = loading_time(&mut conn);
    let script = "for i = 1, tonumber(ARGV[1]) do redis.call('SET', 'k' .. i, ARGV[2]) end";
    conn.call(&argv!["EVAL", script, "0", SETS.to_string(), vec![b'x'; 4000]]);
    let together = loading_time(&mut conn);
    assert!(together < alone * 10 + Duration::from_millis(200), "{together:?} against {alone:?}");
}
