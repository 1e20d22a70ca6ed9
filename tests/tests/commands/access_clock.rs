//! The access counters of LFU policies.

use onrush_tests::argv;
use onrush_tests::argv::Argv;
use onrush_tests::resp::Value;
use onrush_tests::server::Server;

const KEYS: usize = 200;
const HITS_PER_KEY: usize = 5_000;

/// The counters of the keys after a number of hits of each, all in one pipeline. Keys take turns in pairs, so a pair has its
/// hits within some milliseconds, and no command equals the one before.
fn counters(server: &Server) -> Vec<i64> {
    let mut conn = server.connect();
    let key = |index: usize| format!("key:{index}");
    let set: Vec<Argv> = (0..KEYS).map(|index| argv!["SET", key(index), "value"]).collect();
    let hits: Vec<Argv> =
        (0..KEYS * HITS_PER_KEY).map(|hit| argv!["GET", key(hit / (2 * HITS_PER_KEY) * 2 + hit % 2)]).collect();
    conn.try_pipeline(&set).expect("replies to SET");
    assert_eq!(conn.try_pipeline(&hits).expect("replies to GET").len(), KEYS * HITS_PER_KEY);
    let count = |index| match conn.call(&argv!["OBJECT", "FREQ", key(index)]) {
        Value::Int(count) => count,
        other => panic!("no counter but {other}"),
    };
    (0..KEYS).map(count).collect()
}

#[test]
fn a_million_hits_in_one_pipeline_count_as_a_million() {
    // No decay: a minute may pass in between.
    let args = ["--maxmemory-policy", "allkeys-lfu", "--lfu-log-factor", "10", "--lfu-decay-time", "0"];
    // A counter that stands n above its start rises once in 10 * n + 1 hits: near the square root of a fifth of the hits.
    let expected = 5.0 + (HITS_PER_KEY as f64 / 5.0).sqrt();
    for server in [Server::start_onrush(&[&args[..], &["--workers", "1"]].concat()), Server::start_redis(&args)] {
        let counters = counters(&server);
        let mean = counters.iter().sum::<i64>() as f64 / KEYS as f64;
        // One has a standard deviation of 3.3, the mean of all one of 0.24.
        assert!((mean - expected).abs() < 2.0, "about {expected:.1} expected, not {mean}: {counters:?}");
        assert!(counters.iter().all(|&count| (count as f64 - expected).abs() < 25.0), "{counters:?}");
    }
}
