//! Clients that wait with XREADGROUP for a stream that goes away or becomes another value: they get an error at once, the
//! same as of the newer oracle, whatever did it.

use std::time::{Duration, Instant};

use onrush_tests::argv;
use onrush_tests::argv::Argv;
use onrush_tests::client::Conn;
use onrush_tests::server::{Oracle, Server, wait_until};

/// Commands that end the wait for `s`. Those that delay the end are last.
const ENDS: &[&[&str]] = &[
    &["DEL s"],
    &["UNLINK s"],
    &["PEXPIRE s 20"],
    &["PEXPIRE s -1"],
    &["EXPIREAT s 1"],
    &["RENAME s t"],
    &["RPUSH t a", "RENAME t s"],
    &["ZADD t 1 a", "RENAME t s"],
    &["HSET t a 1", "RENAME t s"],
    &["XADD t 1-1 a 1", "RENAME t s"],
    &["XADD t 1-1 a 1", "XGROUP CREATE t g 0", "RENAME t s"],
    &["RPUSH t a", "COPY t s REPLACE"],
    &["SET t a", "COPY t s REPLACE"],
    &["XADD t 1-1 a 1", "COPY t s REPLACE"],
    &["RPUSH t a", "SORT t ALPHA STORE s"],
    &["SORT t ALPHA STORE s"],
    &["SET s 1"],
    &["MSET s 1 t 2"],
    &["ZADD t 1 a", "ZUNIONSTORE s 1 t"],
    &["ZUNIONSTORE s 1 t"],
    &["ZADD t 1 a", "ZRANGESTORE s t 0 -1"],
    &["SADD t a", "SUNIONSTORE s t"],
    &["SDIFFSTORE s t"],
    &["SET t a", "BITOP NOT s t"],
    &["BITOP NOT s t"],
    &["GEOADD t 1 1 a", "GEOSEARCHSTORE s t FROMMEMBER a BYRADIUS 1 km"],
    &["GEOSEARCHSTORE s t FROMLONLAT 1 1 BYRADIUS 1 km"],
    &["MOVE s 3"],
    &["SWAPDB 0 3"],
    &["SELECT 3", "RPUSH s a", "SWAPDB 0 3"],
    &["FLUSHALL"],
    &["FLUSHDB ASYNC"],
    &["XGROUP DESTROY s g"],
    &["MULTI", "DEL s", "XADD s 5-1 a 1", "EXEC"],
    &["MULTI", "DEL s", "XADD s 5-1 a 1", "XGROUP CREATE s g 0", "EXEC"],
    &["MULTI", "PEXPIRE s 20", "EXEC"],
    &["RPUSH t a", "MULTI", "RENAME t s", "EXEC"],
    &["RPUSH t a", "EVAL \"redis.call('rename', KEYS[1], KEYS[2])\" 2 t s"],
    &["ZADD t 1 a", "EVAL \"redis.call('zunionstore', KEYS[1], 1, KEYS[2])\" 2 s t"],
    &["EVAL \"redis.call('pexpire', KEYS[1], 20)\" 1 s"],
    &["EVAL \"redis.call('swapdb', 0, 3)\" 0"],
    &["DEBUG SET-ACTIVE-EXPIRE 0", "PEXPIRE s 1", "!expired", "TYPE s", "DEBUG SET-ACTIVE-EXPIRE 1"],
    &["DEBUG SET-ACTIVE-EXPIRE 0", "PEXPIRE s 1", "!expired", "RPUSH s a", "DEBUG SET-ACTIVE-EXPIRE 1"],
    &["CONFIG SET maxmemory-policy allkeys-lru maxmemory 1", "PING", "CONFIG SET maxmemory 0"],
];

/// What a reader gets that waited when these commands came.
fn ended_by(server: &Server, commands: &[&str]) -> String {
    let (mut conn, mut reader) = (server.connect(), server.connect());
    for line in ["FLUSHALL", "XADD s 0-1 f v", "XGROUP CREATE s g $"] {
        assert!(!conn.run(line).is_error(), "{line}");
    }
    reader.send_command(&argv!["XREADGROUP", "GROUP", "g", "c", "BLOCK", "0", "STREAMS", "s", ">"]).expect("sent");
    wait_until("the reader waits", || conn.info_number("blocked_clients") == Some(1));
    for line in commands {
        if *line == "!expired" {
            let expired = Instant::now() + Duration::from_millis(3);
            wait_until("the stream has expired", || Instant::now() > expired);
            continue;
        }
        assert!(!conn.run(line).is_error(), "{line}");
    }
    reader.set_timeout(Duration::from_secs(5));
    let reply = reader.read_reply().unwrap_or_else(|problem| panic!("{commands:?}: {problem}"));
    String::from_utf8_lossy(&reply).into_owned()
}

#[test]
fn readers_of_a_group_learn_that_their_stream_is_gone() {
    let args = ["--enable-debug-command", "yes"];
    let (ours, oracle) = (Server::start_onrush(&args), Server::start_oracle(Oracle::Newer, &args));
    for commands in ENDS {
        assert_eq!(ended_by(&ours, commands), ended_by(&oracle, commands), "{commands:?}");
    }
}

#[test]
fn keys_are_counted_once_and_those_whose_end_is_waited_for_too() {
    let (ours, oracle) = (Server::start_onrush(&[]), Server::start_oracle(Oracle::Newer, &[]));
    for server in [&ours, &oracle] {
        let mut conn = server.connect();
        let counts = |conn: &mut Conn| {
            ["blocked_clients", "total_blocking_keys", "total_blocking_keys_on_nokey"]
                .map(|name| conn.info_number(name))
        };
        conn.run("XGROUP CREATE s g $ MKSTREAM");
        let waits = [
            "BLPOP a b a 0",
            "BZPOPMIN a c 0",
            "XREAD BLOCK 0 STREAMS a s $ $",
            "XREADGROUP GROUP g c BLOCK 0 STREAMS s >",
        ];
        let mut waiting: Vec<Conn> = waits.iter().map(|_| server.connect()).collect();
        for (waiter, line) in waiting.iter_mut().zip(waits) {
            waiter.send_command(&Argv::parse(line).expect("a line")).expect("sent");
        }
        wait_until("all wait", || counts(&mut conn) == [Some(4), Some(4), Some(1)]);
        drop(waiting.pop());
        wait_until("the reader of the group is gone", || counts(&mut conn) == [Some(3), Some(4), Some(0)]);
        drop(waiting);
        wait_until("nobody waits", || counts(&mut conn) == [Some(0); 3]);
    }
}
