//! `maxmemory`: which keys each policy evicts, when commands are refused, and which messages and events this causes.

use std::collections::HashSet;
use std::ops::Range;

use onrush_tests::argv;
use onrush_tests::argv::Argv;
use onrush_tests::client::Conn;
use onrush_tests::policies::POLICIES;
use onrush_tests::resp::Value;
use onrush_tests::server::{Server, wait_until};

const OOM: &str = "OOM command not allowed when used memory > 'maxmemory'.";

const VALUE_BYTES: usize = 1000;

/// Room between the memory in use and the limit, in bytes.
const ROOM_BYTES: i64 = 4 << 20;

/// With a limit this many bytes below INFO's figure, memory is over it for certain: each thread may count some bytes
/// late.
const FAR_BELOW_BYTES: i64 = 250_000;

fn start(args: &[&str]) -> Server {
    Server::start_onrush(&[&["--workers", "2", "--enable-debug-command", "yes"], args].concat())
}

fn info(conn: &mut Conn, name: &str) -> i64 {
    conn.info_number(name).unwrap_or_else(|| panic!("INFO has {name}"))
}

/// The reply as text, of an integer as well.
fn says(conn: &mut Conn, line: &str) -> String {
    match conn.run(line) {
        Value::Int(number) => number.to_string(),
        reply => reply.text(),
    }
}

fn ok(conn: &mut Conn, line: &str) {
    assert_eq!(says(conn, line), "OK", "{line}");
}

/// Leaves so much room up to the limit.
fn limit(conn: &mut Conn, policy: &str, room_bytes: i64) {
    let maxmemory = info(conn, "used_memory") + room_bytes;
    ok(conn, &format!("CONFIG SET maxmemory-policy {policy} maxmemory {maxmemory}"));
}

fn set(key: &str, expires: bool) -> Argv {
    let value = vec![b'v'; VALUE_BYTES];
    if expires { argv!["SET", key, value, "EX", "10000"] } else { argv!["SET", key, value] }
}

/// Sets keys in pipelines; returns the replies that are not OK.
fn fill(conn: &mut Conn, keys: impl Iterator<Item = String>, expires: bool) -> Vec<String> {
    let commands: Vec<Argv> = keys.map(|key| set(&key, expires)).collect();
    let replies = commands.chunks(500).flat_map(|batch| conn.pipeline(batch)).collect::<Vec<_>>();
    let texts = replies.iter().map(|reply| String::from_utf8_lossy(reply).trim_end().to_owned());
    texts.filter(|reply| reply != "+OK").collect()
}

fn keys(prefix: &str, numbers: Range<usize>) -> impl Iterator<Item = String> {
    numbers.map(move |number| format!("{prefix}:{number}"))
}

/// Those of the keys that are there.
fn present(conn: &mut Conn, keys: impl Iterator<Item = String>) -> Vec<String> {
    let keys: Vec<String> = keys.collect();
    let commands: Vec<Argv> = keys.iter().map(|key| argv!["EXISTS", key]).collect();
    let replies = commands.chunks(500).flat_map(|batch| conn.pipeline(batch)).collect::<Vec<_>>();
    keys.into_iter().zip(replies).filter(|(_, reply)| reply == b":1\r\n").map(|(key, _)| key).collect()
}

/// How many keys are held and how many were evicted once eviction has stopped; together they are `expected`.
fn held_and_evicted(conn: &mut Conn, expected: i64) -> (i64, i64) {
    ok(conn, "CONFIG SET maxmemory 0");
    let mut counts = (0, 0);
    // Another worker may still be evicting under the old limit.
    wait_until("every key is held or was evicted", || {
        counts = (says(conn, "DBSIZE").parse().unwrap(), info(conn, "evicted_keys"));
        counts.0 + counts.1 == expected
    });
    counts
}

#[test]
fn every_policy_keeps_to_the_limit_and_leaves_alone_what_it_must() {
    let server = start(&[]);
    let mut conn = server.connect();
    for policy in POLICIES {
        ok(&mut conn, "CONFIG SET maxmemory 0");
        ok(&mut conn, "FLUSHALL");
        ok(&mut conn, "CONFIG RESETSTAT");
        assert!(fill(&mut conn, keys("stays", 0..500), false).is_empty());
        limit(&mut conn, policy, ROOM_BYTES);
        let refused = fill(&mut conn, keys("comes", 0..20_000), true);
        assert_eq!(refused, [""; 0], "{policy}");
        let stayed = present(&mut conn, keys("stays", 0..500)).len();
        assert_eq!(stayed == 500, policy.starts_with("volatile"), "{policy}: {stayed} of the lasting keys are left");
        let (used, maxmemory) = (info(&mut conn, "used_memory"), info(&mut conn, "maxmemory"));
        assert!(used < maxmemory + (1 << 20), "{policy}: {used} bytes in use, {maxmemory} allowed");
        assert!(info(&mut conn, "total_eviction_exceeded_time") >= 0);
        let (held, _) = held_and_evicted(&mut conn, 20_500);
        assert!((2_000..7_000).contains(&held), "{policy}: {held} keys are held");
    }
}

#[test]
fn noeviction_refuses_what_uses_memory_and_nothing_else() {
    let server = start(&[]);
    let mut conn = server.connect();
    assert!(fill(&mut conn, keys("k", 0..10), false).is_empty());
    limit(&mut conn, "noeviction", -FAR_BELOW_BYTES);
    for line in ["SET k:1 v", "LPUSH list v", "APPEND k:1 v", "MSET a 1 b 2", "SETRANGE k:1 0 x"] {
        assert_eq!(says(&mut conn, line), OOM, "{line}");
    }
    for (line, reply) in [("DEL k:1", "1"), ("EXPIRE k:2 1000", "1"), ("PING", "PONG"), ("EXISTS k:3", "1")] {
        assert_eq!(says(&mut conn, line), reply, "{line}");
    }
    assert_eq!(info(&mut conn, "evicted_keys"), 0);
    wait_until("the time above the limit shows", || info(&mut conn, "current_eviction_exceeded_time") > 0);
    ok(&mut conn, "CONFIG SET maxmemory 0");
    ok(&mut conn, "SET k:1 v");
}

#[test]
fn volatile_policies_refuse_only_while_nothing_has_an_expiry() {
    let server = start(&[]);
    let mut conn = server.connect();
    assert!(fill(&mut conn, keys("k", 0..3000), false).is_empty());
    for policy in POLICIES.iter().filter(|policy| policy.starts_with("volatile")) {
        limit(&mut conn, policy, -FAR_BELOW_BYTES);
        assert_eq!(says(&mut conn, "SET other v"), OOM, "{policy}");
        assert_eq!(says(&mut conn, "SET other v"), OOM, "{policy}");
        let evicted = info(&mut conn, "evicted_keys");
        let expires: Vec<Argv> = keys("k", 0..500).map(|key| argv!["EXPIRE", key, "10000"]).collect();
        assert!(conn.pipeline(&expires).iter().all(|reply| reply == b":1\r\n"));
        wait_until("there is room again", || says(&mut conn, "SET other v") == "OK");
        assert!(info(&mut conn, "evicted_keys") > evicted, "{policy}");
        assert!(present(&mut conn, keys("k", 0..500)).len() < 500, "{policy}");
        assert_eq!(present(&mut conn, keys("k", 500..3000)).len(), 2500, "{policy}");
        ok(&mut conn, "CONFIG SET maxmemory 0");
        assert!(fill(&mut conn, keys("k", 0..500), false).is_empty());
        conn.run("DEL other");
    }
}

#[test]
fn a_lower_limit_evicts_on_an_idle_server() {
    let server = start(&[]);
    let mut conn = server.connect();
    for tenacity in [0, 10, 100] {
        ok(&mut conn, "CONFIG SET maxmemory 0");
        assert!(fill(&mut conn, keys("k", 0..40_000), false).is_empty());
        let used = info(&mut conn, "used_memory");
        let line = format!(
            "CONFIG SET maxmemory-policy allkeys-lru maxmemory-eviction-tenacity {tenacity} maxmemory {}",
            used / 3
        );
        ok(&mut conn, &line);
        // Only CPU time of the server tells without waking it up whether it is at work.
        let mut before = server.cpu_time();
        wait_until("the server has nothing to do", || {
            std::thread::sleep(std::time::Duration::from_millis(150));
            let now = server.cpu_time();
            std::mem::replace(&mut before, now) == now
        });
        let (used, maxmemory) = (info(&mut conn, "used_memory"), info(&mut conn, "maxmemory"));
        assert!(used <= maxmemory + (256 << 10), "{used} bytes in use, {maxmemory} allowed");
        assert!(says(&mut conn, "DBSIZE").parse::<usize>().unwrap() > 5_000);
        assert_eq!(info(&mut conn, "current_eviction_exceeded_time"), 0);
    }
}

#[test]
fn lru_keeps_what_is_read_and_lrm_what_is_written() {
    let server = start(&[]);
    let mut conn = server.connect();
    for (policy, kept) in [("allkeys-lru", true), ("volatile-lru", true), ("allkeys-lrm", false)] {
        ok(&mut conn, "CONFIG SET maxmemory 0");
        ok(&mut conn, "FLUSHALL");
        limit(&mut conn, policy, ROOM_BYTES);
        assert!(fill(&mut conn, keys("hot", 0..200), true).is_empty());
        let reads: Vec<Argv> = keys("hot", 0..200).map(|key| argv!["GET", key]).collect();
        for round in 0..60 {
            assert!(fill(&mut conn, keys("cold", round * 300..(round + 1) * 300), true).is_empty());
            conn.pipeline(&reads);
        }
        let left = present(&mut conn, keys("hot", 0..200)).len();
        // A pause makes the server forget how keys rank: what it evicts next, it chooses among few.
        assert!(if kept { left >= 190 } else { left == 0 }, "{policy}: {left}");
    }
}

#[test]
fn the_idle_time_of_a_key_is_told_in_seconds_under_every_policy() {
    let server = start(&["--maxmemory", "1gb", "--maxmemory-policy", "allkeys-lru"]);
    let mut conn = server.connect();
    ok(&mut conn, "SET k v");
    assert_eq!(says(&mut conn, "OBJECT IDLETIME k"), "0");
    wait_until("a second has passed", || says(&mut conn, "OBJECT IDLETIME k") == "1");
    ok(&mut conn, "CONFIG SET maxmemory-policy noeviction");
    assert!(matches!(says(&mut conn, "OBJECT IDLETIME k").as_str(), "1" | "2"));
    conn.run("GET k");
    assert_eq!(says(&mut conn, "OBJECT IDLETIME k"), "0");
    ok(&mut conn, "CONFIG SET maxmemory-policy allkeys-lrm");
    wait_until("a second has passed", || says(&mut conn, "OBJECT IDLETIME k") == "1");
    conn.run("GET k");
    assert_ne!(says(&mut conn, "OBJECT IDLETIME k"), "0");
    conn.run("APPEND k v");
    assert_eq!(says(&mut conn, "OBJECT IDLETIME k"), "0");
}

#[test]
fn lfu_keeps_what_is_used_often() {
    let server = start(&[]);
    let mut conn = server.connect();
    // A minute may pass in between.
    ok(&mut conn, "CONFIG SET lfu-decay-time 0");
    limit(&mut conn, "allkeys-lfu", ROOM_BYTES);
    assert!(fill(&mut conn, keys("hot", 0..200), false).is_empty());
    let reads: Vec<Argv> = (0..40).flat_map(|_| keys("hot", 0..200)).map(|key| argv!["GET", key]).collect();
    conn.pipeline(&reads);
    assert!(fill(&mut conn, keys("cold", 0..20_000), false).is_empty());
    assert_eq!(present(&mut conn, keys("hot", 0..200)).len(), 200);
}

#[test]
fn volatile_ttl_evicts_what_expires_soonest() {
    let server = start(&[]);
    let mut conn = server.connect();
    limit(&mut conn, "volatile-ttl", ROOM_BYTES);
    let of = |number: usize| {
        argv!["SET", format!("k:{number}"), vec![b'v'; VALUE_BYTES], "EX", (100_000 - number).to_string()]
    };
    let commands: Vec<Argv> = (0..10_000).map(of).collect();
    commands.chunks(500).for_each(|batch| _ = conn.pipeline(batch));
    // The later a key was set, the sooner it expires.
    let held = present(&mut conn, keys("k", 0..10_000)).len();
    let first = present(&mut conn, keys("k", 0..held)).len();
    assert!(first * 100 >= held * 85, "{first} of the {held} that expire last are held");
}

#[test]
fn nothing_is_evicted_during_a_pause() {
    let server = start(&[]);
    let mut conn = server.connect();
    assert!(fill(&mut conn, keys("k", 0..5000), false).is_empty());
    ok(&mut conn, "CLIENT PAUSE 60000 WRITE");
    ok(&mut conn, "CONFIG SET maxmemory-policy allkeys-lru maxmemory 1mb");
    for _ in 0..50 {
        assert_eq!(says(&mut conn, "DBSIZE"), "5000");
    }
    assert_eq!(info(&mut conn, "evicted_keys"), 0);
    ok(&mut conn, "CLIENT UNPAUSE");
    wait_until("keys are evicted", || info(&mut conn, "evicted_keys") > 3000);
}

/// The seconds of a reply to TIME.
fn seconds(time: &Value) -> u64 {
    match time {
        Value::Array(parts) => parts[0].text().parse().expect("a number"),
        other => panic!("{other}"),
    }
}

#[test]
fn keys_of_all_databases_are_evicted() {
    const DATABASES: [usize; 3] = [0, 3, 15];
    let server = start(&[]);
    let mut conn = server.connect();
    // Each as likely as the others, or the oldest first wherever they are.
    for (policy, expected) in
        [("allkeys-random", [1300..2700, 1300..2700, 1300..2700]), ("allkeys-lru", [0..700, 2200..3001, 2900..3001])]
    {
        ok(&mut conn, "CONFIG SET maxmemory 0");
        ok(&mut conn, "FLUSHALL");
        for db in DATABASES {
            ok(&mut conn, &format!("SELECT {db}"));
            assert!(fill(&mut conn, keys("k", 0..3000), false).is_empty());
            // The next ones are younger by more than a second, whatever unit clocks count.
            let then = server.connect().run("TIME");
            wait_until("time has passed", || seconds(&server.connect().run("TIME")) > seconds(&then) + 1);
        }
        let data = info(&mut conn, "used_memory") - info(&mut conn, "used_memory_startup");
        limit(&mut conn, policy, -(data / 3));
        wait_until("keys are evicted", || info(&mut conn, "used_memory") <= info(&mut conn, "maxmemory") + (128 << 10));
        for (db, expected) in DATABASES.iter().zip(expected) {
            ok(&mut conn, &format!("SELECT {db}"));
            let held: usize = says(&mut conn, "DBSIZE").parse().unwrap();
            assert!(expected.contains(&held), "{policy}: {held} keys in database {db}");
        }
    }
}

#[test]
fn a_client_that_waits_for_a_stream_learns_that_it_was_evicted() {
    let server = start(&[]);
    let mut conn = server.connect();
    conn.run("XGROUP CREATE stream group $ MKSTREAM");
    let mut waiting = server.connect();
    waiting.send_command(&argv!["XREADGROUP", "GROUP", "group", "me", "BLOCK", "0", "STREAMS", "stream", ">"]).unwrap();
    wait_until("it waits", || info(&mut conn, "blocked_clients") == 1);
    limit(&mut conn, "allkeys-lru", ROOM_BYTES);
    assert!(fill(&mut conn, keys("k", 0..20_000), false).is_empty());
    let reply = waiting.read_reply().expect("an error");
    assert!(reply.starts_with(b"-NOGROUP") || reply.starts_with(b"-UNBLOCKED"), "{}", String::from_utf8_lossy(&reply));
}

#[test]
fn large_values_are_freed_with_and_without_the_freeing_thread() {
    let server = start(&[]);
    let mut conn = server.connect();
    for lazy in ["no", "yes"] {
        ok(&mut conn, "FLUSHALL");
        ok(&mut conn, "CONFIG RESETSTAT");
        ok(&mut conn, &format!("CONFIG SET lazyfree-lazy-eviction {lazy}"));
        limit(&mut conn, "allkeys-lru", ROOM_BYTES);
        for list in 0..60 {
            let members = (0..2000).map(|member| format!("member:{list}:{member:060}"));
            let args: Vec<String> = ["SADD".to_owned(), format!("set:{list}")].into_iter().chain(members).collect();
            assert_eq!(conn.call(&Argv::new(&args)), Value::Int(2000));
        }
        let (held, evicted) = held_and_evicted(&mut conn, 60);
        assert!((5..59).contains(&held), "{held} sets are held");
        wait_until("all is freed", || info(&mut conn, "lazyfree_pending_objects") == 0);
        assert_eq!(info(&mut conn, "lazyfreed_objects"), if lazy == "yes" { evicted } else { 0 });
    }
}

#[test]
fn keys_and_values_of_many_megabytes_are_evicted_like_others() {
    const HUGE_BYTES: usize = 9 << 20;
    let server = start(&["--maxmemory", "80mb"]);
    let mut conn = server.connect();
    for policy in ["allkeys-lru", "allkeys-lfu", "allkeys-random", "volatile-ttl"] {
        ok(&mut conn, &format!("CONFIG SET maxmemory-policy {policy}"));
        for round in 0..12 {
            assert!(fill(&mut conn, keys(&format!("k{round}"), 0..40), true).is_empty());
            let name = format!("{round}{}", "k".repeat(HUGE_BYTES));
            // The key is huge, or the value, or what the entry of a collection begins with.
            let command = match round % 3 {
                0 => argv!["SET", name.clone(), "v", "EX", "10000"],
                1 => argv!["SET", format!("huge:{round}"), name.clone(), "EX", "10000"],
                _ => argv!["HSET", name.clone(), "f", "v"],
            };
            let replies = conn.pipeline(&[command, argv!["EXPIRE", name, "10000"]]);
            assert!(replies.iter().all(|reply| reply[0] != b'-'), "{policy}, {round}: {replies:?}");
        }
        assert!(info(&mut conn, "evicted_keys") > 0, "{policy}");
        ok(&mut conn, "FLUSHALL");
    }
}

/// Waits until every record has left memory, or for some seconds; returns how many keys were evicted meanwhile.
fn evicted_when_settled(conn: &mut Conn) -> i64 {
    wait_until("the log is written", || info(conn, "mem_not_counted_for_evict") < 8 << 20);
    // Workers look for something to evict before they execute a chunk.
    (0..50).for_each(|_| _ = says(conn, "PING"));
    info(conn, "evicted_keys")
}

#[test]
fn records_on_their_way_to_the_append_only_file_evict_nothing() {
    const KEYS: usize = 30_000;
    let server = start(&["--appendonly", "yes", "--maxmemory", "128mb", "--maxmemory-policy", "allkeys-lru"]);
    let mut conn = server.connect();
    assert!(fill(&mut conn, keys("k", 0..KEYS), false).is_empty());
    assert_eq!(conn.call(&argv!["SET", "large", vec![b'x'; 40_000_000]]).text(), "OK");
    assert_eq!(says(&mut conn, "DBSIZE"), (KEYS + 1).to_string());
    // Many records of one transaction, which all wait for its end.
    let mut transaction = vec![argv!["MULTI"]];
    transaction.extend((0..12).map(|_| argv!["SET", "again", vec![b'y'; 1_000_000]]));
    transaction.push(argv!["EXEC"]);
    assert!(conn.pipeline(&transaction).last().is_some_and(|reply| reply.starts_with(b"*12")));
    assert_eq!(evicted_when_settled(&mut conn), 0);
    assert_eq!(says(&mut conn, "DBSIZE"), (KEYS + 2).to_string());
    // A rewrite and a snapshot encode all of it.
    for line in ["BGREWRITEAOF", "BGSAVE"] {
        conn.run(line);
        assert!(fill(&mut conn, keys("k", 0..KEYS), false).is_empty());
        wait_until(line, || {
            ["aof_rewrite_in_progress", "rdb_bgsave_in_progress"].iter().all(|name| info(&mut conn, name) == 0)
        });
    }
    assert_eq!(evicted_when_settled(&mut conn), 0);
}

#[test]
fn a_limit_above_what_is_in_use_evicts_nothing() {
    let server = start(&["--maxmemory-policy", "allkeys-lru"]);
    let mut conn = server.connect();
    assert!(fill(&mut conn, keys("k", 0..100_000), false).is_empty());
    let used = info(&mut conn, "used_memory");
    for percent in [150, 110, 105, 120, 110] {
        ok(&mut conn, &format!("CONFIG SET maxmemory {}", used * percent / 100));
        (0..50).for_each(|_| _ = says(&mut conn, "PING"));
        assert_eq!(evicted_when_settled(&mut conn), 0, "{percent} % of what is in use");
    }
    // Nor does more data, as long as it is within the limit.
    assert!(fill(&mut conn, keys("more", 0..5_000), false).is_empty());
    assert_eq!(evicted_when_settled(&mut conn), 0);
    // Beyond the limit about as many keys go as come.
    assert!(fill(&mut conn, keys("much", 0..20_000), false).is_empty());
    let evicted = evicted_when_settled(&mut conn);
    assert!((10_000..30_000).contains(&evicted), "{evicted} of 125,000 keys were evicted");
}

#[test]
fn resident_memory_is_no_reason_to_refuse_commands() {
    let server = start(&["--maxmemory-policy", "volatile-lru", "--maxmemory", "80mb"]);
    let mut conn = server.connect();
    // Half of the keys leave holes, so that less is in use than resident.
    assert!(fill(&mut conn, keys("k", 0..55_000), false).is_empty());
    let every_other: Vec<Argv> = keys("k", 0..55_000).step_by(2).map(|key| argv!["DEL", key]).collect();
    every_other.chunks(500).for_each(|batch| _ = conn.pipeline(batch));
    for number in 0..2_000 {
        let value = vec![b'w'; 8_000 + number];
        assert_eq!(conn.call(&argv!["SET", format!("w:{number}"), value]).text(), "OK", "{number}");
    }
    assert!(info(&mut conn, "used_memory") < info(&mut conn, "maxmemory"));
}

/// The words of every command in a log.
fn parse(log: &[u8]) -> Vec<Vec<String>> {
    let text = String::from_utf8_lossy(log);
    let mut lines = text.split("\r\n");
    let mut commands = Vec::new();
    while let Some(len) = lines.next().and_then(|line| line.strip_prefix('*')) {
        commands.push((0..len.parse().unwrap()).filter_map(|_| lines.nth(1).map(str::to_owned)).collect());
    }
    commands
}

#[test]
fn the_command_log_has_the_evictions_in_their_order() {
    for policy in ["allkeys-lru", "volatile-lfu", "allkeys-random"] {
        let server = start(&[]);
        let mut conn = server.connect();
        let path = server.dir().join("commands.log");
        ok(&mut conn, &format!("DEBUG COMMAND-LOG START {}", path.display()));
        // The log keeps some buffers.
        limit(&mut conn, policy, 2 * ROOM_BYTES);
        std::thread::scope(|scope| {
            for client in 0..2 {
                let mut conn = server.connect();
                scope.spawn(move || {
                    for _ in 0..2 {
                        let refused = fill(&mut conn, keys(&format!("k{client}"), 0..8_000), true);
                        assert_eq!(refused, [""; 0]);
                    }
                });
            }
        });
        // Nothing is evicted any more that the log would not have.
        ok(&mut conn, "CONFIG SET maxmemory 0");
        ok(&mut conn, "DEBUG COMMAND-LOG STOP");
        let (mut held, mut deleted) = (HashSet::new(), 0);
        for words in parse(&std::fs::read(&path).expect("a log")) {
            match words[0].as_str() {
                "SET" => _ = held.insert(words[1].clone()),
                "DEL" => {
                    deleted += 1;
                    assert!(held.remove(&words[1]), "{words:?} is there when it is deleted");
                }
                other => assert_eq!(other, "SELECT"),
            }
        }
        assert_eq!(deleted, info(&mut conn, "evicted_keys"), "{policy}");
        let all = (0..2).flat_map(|client| (0..8_000).map(move |number| format!("k{client}:{number}")));
        let there: HashSet<String> = present(&mut conn, all).into_iter().collect();
        assert!(there == held, "{policy}: {} keys are there, {} by the log", there.len(), held.len());
    }
}
