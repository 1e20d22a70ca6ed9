//! Every field of INFO moves under load, or is in `docs/info.md` with the value that it always has.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use onrush_tests::argv;
use onrush_tests::client::Conn;
use onrush_tests::server::{Server, wait_until};

/// Fields that are measured and stay at 0 in this test: what they count is rare, over, or not done here.
const QUIET: &[&str] = &[
    "uptime_in_days",
    "maxmemory",
    "maxmemory_human",
    "loading",
    "lazyfree_pending_objects",
    "current_cow_peak",
    "current_cow_size",
    "current_fork_perc",
    "current_save_keys_processed",
    "current_save_keys_total",
    "rdb_bgsave_in_progress",
    "rdb_last_load_keys_expired",
    "rdb_last_load_keys_loaded",
    "aof_rewrite_in_progress",
    "aof_rewrite_scheduled",
    "aof_rewrites_consecutive_failures",
    "aof_buffer_length",
    "aof_pending_bio_fsync",
    "aof_delayed_fsync",
    "expired_stale_perc",
    "expired_time_cap_reached_count",
    "expire_cycle_cpu_milliseconds",
    "client_output_buffer_limit_disconnections",
    "pipeline_deferrals_long_command",
    "pipeline_deferrals_turn_over",
    "current_eviction_exceeded_time",
    "total_eviction_exceeded_time",
    "migrate_cached_sockets",
    "tracking_total_prefixes",
    "total_blocking_keys_on_nokey",
];

type Fields = BTreeMap<String, String>;

fn info(conn: &mut Conn) -> Fields {
    let text = conn.run("INFO everything").text();
    text.lines().filter_map(|line| line.split_once(':')).map(|(field, value)| (field.into(), value.into())).collect()
}

/// The table of the page.
fn constants() -> Fields {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/info.md");
    let text = fs::read_to_string(page).expect("a page");
    let cells = |line: &str| line.split('|').map(|cell| cell.trim().trim_matches('`').to_owned()).collect::<Vec<_>>();
    let rows = text.lines().filter(|line| line.starts_with("| `")).map(cells);
    rows.map(|cells| (cells[1].clone(), cells[2].clone())).collect()
}

/// Uses what the server has.
fn load(server: &Server, conn: &mut Conn, samples: &mut Vec<Fields>) -> Vec<Conn> {
    for key in 0..200 {
        conn.call(&argv!["SET", format!("k{key}"), "v".repeat(100)]);
        conn.call(&argv!["GET", format!("k{key}")]);
    }
    for line in [
        "FLUSHDB ASYNC",
        "GET none",
        "SET e 1 PX 1",
        "HSET h f v g w",
        "HPEXPIRE h 1 FIELDS 1 f",
        "EVAL \"return redis.call('get', KEYS[1])\" 1 k1",
        "FUNCTION LOAD \"#!lua name=l\\nredis.register_function('f', function() return 1 end)\"",
        "FCALL f 0",
        "FOO",
        "INCR k1",
        "AUTH nobody x",
        "ACL SETUSER bob on nopass +get +subscribe",
        "UNLINK k2",
        "SET k1 1",
        "SET k5 1",
    ] {
        conn.run(line);
    }
    let mut kept: Vec<Conn> = (0..9).map(|_| server.connect()).collect();
    let lines = [
        "SUBSCRIBE c",
        "PSUBSCRIBE c*",
        "SSUBSCRIBE s",
        "CLIENT TRACKING ON",
        "CLIENT TRACKING ON BCAST PREFIX x",
        "WATCH k1",
        "AUTH bob x",
    ];
    for (conn, line) in kept.iter_mut().zip(lines) {
        conn.run(line);
    }
    kept[3].run("GET k1");
    for line in ["SET a b", "GET x", "SUBSCRIBE x"] {
        assert!(kept[6].run(line).text().starts_with("NOPERM"), "{line}");
    }
    kept[7].send_command(&argv!["BLPOP", "l", "0"]).expect("sent");
    kept[8].send_command(&argv!["XREADGROUP", "GROUP", "g", "me", "BLOCK", "0", "STREAMS", "q", ">"]).expect("sent");
    for line in ["PUBLISH c x", "SPUBLISH s x", "SET k3 w", "HSET h g 2"] {
        conn.run(line);
    }
    samples.push(info(conn));
    // A pipeline, replies that nobody reads, and an argument that is not over.
    let gets: Vec<_> = (0..100).map(|_| argv!["GET", "k5"]).collect();
    conn.pipeline(&gets);
    conn.call(&argv!["SET", "large", "x".repeat(1 << 20)]);
    let mut unread = server.connect();
    for _ in 0..40 {
        unread.send_command(&argv!["GET", "large"]).expect("sent");
    }
    kept.push(unread);
    let mut unfinished = server.connect();
    unfinished.send(b"*2\r\n$3\r\nGET\r\n$100000\r\n").expect("sent");
    unfinished.send(&[b'x'; 50_000]).expect("sent");
    kept.push(unfinished);
    let mut wrong = server.connect();
    wrong.send(b"*1\r\nx\r\n").expect("sent");
    let _ = wrong.read_to_close();
    wait_until("replies wait", || conn.info_number("client_recent_max_output_buffer") > Some(0));
    samples.push(info(conn));
    // Closed at limits.
    let mut long = server.connect();
    let _ = long.send(format!("*2\r\n$3\r\nGET\r\n${}\r\n", 8 << 20).as_bytes());
    let _ = long.send(&vec![b'x'; 4 << 20]);
    let _ = long.read_to_close();
    conn.run("CONFIG SET maxmemory-clients 3mb");
    for _ in 0..4 {
        let mut large = server.connect();
        large.send(b"*2\r\n$3\r\nGET\r\n$1500000\r\n").expect("sent");
        let _ = large.send(&[b'x'; 1_400_000]);
        kept.push(large);
    }
    wait_until("a client is evicted", || conn.info_number("evicted_clients") > Some(0));
    conn.run("CONFIG SET maxmemory-clients 0");
    conn.run("CONFIG SET maxclients 15");
    for _ in 0..10 {
        kept.extend(server.try_connect());
    }
    wait_until("one is rejected", || conn.info_number("rejected_connections") > Some(0));
    for line in
        ["CONFIG SET maxmemory-policy allkeys-lru", "CONFIG SET maxmemory 1mb", "SET x y", "CONFIG SET maxmemory 0"]
    {
        conn.run(line);
    }
    for line in ["BGSAVE", "BGREWRITEAOF"] {
        conn.run(line);
        wait_until(line, || {
            ["rdb_bgsave_in_progress", "aof_rewrite_in_progress"].iter().all(|field| conn.info_number(field) == Some(0))
        });
    }
    kept
}

#[test]
fn each_field_moves_under_load_or_is_documented_as_constant() {
    let server = Server::start_onrush(&[
        "--appendonly",
        "yes",
        "--client-query-buffer-limit",
        "2mb",
        "--slowlog-log-slower-than",
        "0",
        "--latency-monitor-threshold",
        "1",
    ]);
    let mut conn = server.connect();
    let mut samples = vec![info(&mut conn)];
    let kept = load(&server, &mut conn, &mut samples);
    samples.push(info(&mut conn));
    std::thread::sleep(std::time::Duration::from_millis(1_200));
    samples.push(info(&mut conn));
    drop(kept);
    samples.push(info(&mut conn));
    let constants = constants();
    for (field, value) in &constants {
        for sample in &samples {
            assert_eq!(sample.get(field), Some(value), "{field}");
        }
    }
    let is_nothing = |value: &str| matches!(value, "0" | "0.00" | "0.000000" | "0B" | "0.00%");
    let stays = |field: &&String| samples.iter().all(|sample| sample.get(*field).is_none_or(|value| is_nothing(value)));
    let still: Vec<&String> = samples[1]
        .keys()
        .filter(stays)
        .filter(|field| !constants.contains_key(*field) && !QUIET.contains(&field.as_str()))
        .collect();
    assert!(still.is_empty(), "neither measured nor documented: {still:?}");
}
