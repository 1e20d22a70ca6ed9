//! The worst requests of each class of fault that Redis had to publish since 2021. [docs/security.md] has the table of
//! the classes, with those that other tests cover.
//!
//! [docs/security.md]: ../../../docs/security.md

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use onrush_tests::argv;
use onrush_tests::argv::Argv;
use onrush_tests::client::Conn;
use onrush_tests::latency::holds_once;
use onrush_tests::process::peak_rss_kb;
use onrush_tests::resp::Value;
use onrush_tests::server::{Oracle, Server, wait_until};

/// Longest time that another client may wait for its reply.
const WAIT_MAX: Duration = Duration::from_millis(1_200);
/// Most memory that any of these requests may take.
const MEMORY_MAX_KB: u64 = 200 << 10;

const MAX: &str = "9223372036854775807";
const MIN: &str = "-9223372036854775808";

/// The server serves others, has stayed within its memory, and no thread of it has panicked.
fn stands(server: &Server) {
    assert_eq!(server.connect().run("PING").text(), "PONG");
    let peak = peak_rss_kb(server.pid());
    assert!(peak < MEMORY_MAX_KB, "{peak} kB");
    assert!(!server.log().contains("panicked"), "{}", server.log_tail());
}

fn line(text: &str) -> Argv {
    Argv::parse(&text.replace("MAX", MAX).replace("MIN", MIN)).expect("balanced quotes")
}

/// A command and numbered arguments behind it.
fn with_many(front: &str, count: usize, argument: impl Fn(usize) -> String) -> Argv {
    Argv(line(front).0.into_iter().chain((0..count).map(|n| argument(n).into_bytes())).collect())
}

/// Onrush and the newer oracle with the same data, which get the same commands.
struct Pair {
    ours: Server,
    conns: [Conn; 2],
    _oracle: Server,
}

impl Pair {
    fn start(args: &[&str], data: &[&str]) -> Pair {
        let (ours, oracle) = (Server::start_onrush(args), Server::start_oracle(Oracle::Newer, args));
        let mut pair = Pair { conns: [ours.connect(), oracle.connect()], ours, _oracle: oracle };
        pair.check(data);
        pair
    }

    fn check(&mut self, lines: &[&str]) {
        lines.iter().for_each(|text| self.check_one(&line(text)));
    }

    fn check_one(&mut self, command: &Argv) {
        let [ours, oracle] = self.conns.each_mut().map(|conn| conn.call(command));
        assert_eq!(ours, oracle, "{command}");
    }
}

const DATA: &[&str] = &[
    "SET s hello",
    "SET a aaaa",
    "SET b aabb",
    "RPUSH l a b a c a",
    "SADD st a b c",
    "SADD si 1 2 3",
    "HSET h f 1 g 2",
    "ZADD z 1 a 2 b",
];

#[test]
fn offsets_beyond_what_a_string_may_have_are_errors() {
    let mut pair = Pair::start(&["--proto-max-bulk-len", "1mb"], DATA);
    pair.check(&[
        "SETRANGE s 1048576 x",
        "SETRANGE s 1048575 xy",
        "SETRANGE s 4294967296 x",
        "SETRANGE s MAX x",
        "SETRANGE s MIN x",
        "SETRANGE s 9223372036854775800 xxxxxxxxxxxxxxxx",
        "SETRANGE n MAX \"\"",
        "SETBIT s 4294967296 1",
        "SETBIT s MAX 1",
        "SETBIT s -1 1",
        "GETBIT s MAX",
        "BITFIELD s SET u8 4294967296 1",
        "BITFIELD s SET i64 #MAX 1",
        "BITFIELD s SET u63 #4611686018427387904 1",
        "BITFIELD s GET u63 MAX",
        "BITFIELD s GET u64 0 GET i65 0 GET i0 0",
        "BITFIELD s OVERFLOW SAT INCRBY i64 0 MAX",
        "BITFIELD s OVERFLOW FAIL INCRBY i64 0 MAX",
        "BITFIELD s OVERFLOW WRAP INCRBY i64 0 MIN",
        "BITFIELD_RO s GET i64 4294967296",
        "BITPOS s 1 MIN MAX",
        "BITPOS s 0 MIN MIN BIT",
        "BITCOUNT s MIN MAX",
        "GETRANGE s MIN MAX",
        "SUBSTR s MAX MIN",
        "STRLEN s",
    ]);
    stands(&pair.ours);
    // Here redis-server multiplies without a look at the overflow.
    let wrapped = pair.conns[0].run("BITFIELD s GET i64 #288230376151711744");
    assert_eq!(wrapped.text(), "ERR bit offset is not an integer or out of range");
}

#[test]
fn a_limit_that_allows_strings_of_any_length_allows_none_that_cannot_be() {
    let server = Server::start_onrush(&["--proto-max-bulk-len", MAX]);
    let mut conn = server.connect();
    conn.run("SET s hello");
    for (command, error) in [
        ("SETRANGE s 9223372036854775800 x", "ERR string exceeds maximum allowed size (proto-max-bulk-len)"),
        ("SETRANGE n 4611686018427387904 x", "ERR string exceeds maximum allowed size (proto-max-bulk-len)"),
        ("SETRANGE n 2147483648 x", "ERR string exceeds maximum allowed size (proto-max-bulk-len)"),
        ("SETBIT s MAX 1", "ERR bit offset is not an integer or out of range"),
        ("SETBIT n 17179869184 1", "ERR bit offset is not an integer or out of range"),
        ("BITFIELD s SET u8 9223372036854775000 1", "ERR bit offset is not an integer or out of range"),
        ("BITFIELD n SET u8 #1152921504606846975 1", "ERR bit offset is not an integer or out of range"),
    ] {
        assert_eq!(conn.call(&line(command)).text(), error, "{command}");
    }
    for len in ["2147483649", "4294967296", "4294967301", MAX] {
        let mut conn = server.connect();
        conn.send(format!("*2\r\n$3\r\nGET\r\n${len}\r\n").as_bytes()).expect("sent");
        let reply = conn.read_to_close().expect("closed");
        assert_eq!(reply.escape_ascii().to_string(), "-ERR Protocol error: invalid bulk length\\r\\n", "{len}");
    }
    assert_eq!(conn.run("GET s").text(), "hello");
    stands(&server);
}

#[test]
fn ranks_counts_and_indices_at_the_ends_of_their_types_are_taken_or_refused() {
    let mut pair = Pair::start(&[], DATA);
    pair.check(&[
        "LPOS l a RANK MIN",
        "LPOS l a RANK -9223372036854775807",
        "LPOS l a RANK MAX COUNT MAX MAXLEN MAX",
        "LPOS l a RANK -1 COUNT MIN",
        "LPOS l a MAXLEN MIN",
        "LCS a b IDX MINMATCHLEN MAX",
        "LCS a b IDX MINMATCHLEN MIN WITHMATCHLEN",
        "LCS a b LEN IDX",
        "LCS a l",
        "SRANDMEMBER st MIN",
        "HRANDFIELD h MIN",
        "HRANDFIELD h MAX WITHVALUES",
        "HRANDFIELD h MIN WITHVALUES",
        "ZRANDMEMBER z MIN",
        "ZRANDMEMBER z MIN WITHSCORES",
        "ZRANDMEMBER z MAX WITHSCORES",
        "SPOP st MIN",
        "LPOP l MIN",
        "SINTERCARD MAX st",
        "SINTERCARD MIN st",
        "SINTERCARD 2147483648 st",
        "SINTERCARD 4294967297 st",
        "SINTERCARD 1 st LIMIT MAX",
        "SINTERCARD 1 st LIMIT MIN",
        "ZINTERCARD 4294967297 z",
        "ZUNIONSTORE d MAX z",
        "ZDIFF 2147483647 z",
        "LMPOP 2147483648 l LEFT",
        "ZMPOP 4294967297 z MIN",
        "EVAL \"return 1\" MAX",
        "EVAL \"return 1\" 4294967297 a",
        "SORT l LIMIT MAX MAX ALPHA",
        "SORT l LIMIT MIN MIN ALPHA",
        "SORT_RO l LIMIT 1 MAX ALPHA",
        "LRANGE l MIN MAX",
        "LINDEX l MIN",
        "ZRANGE z MIN MAX",
        "ZRANGE z 0 1 BYSCORE LIMIT MIN MAX",
        "ZRANGEBYSCORE z -inf +inf LIMIT MAX MAX",
        "ZSCAN z 0 COUNT MIN",
        "HEXPIRE h MAX FIELDS 1 f",
        "HEXPIRE h 10 FIELDS MAX f",
    ]);
    // redis-server would fill its memory with the reply.
    for command in [
        "SRANDMEMBER st -4611686018427387905",
        "HRANDFIELD h -4611686018427387904 WITHVALUES",
        "ZRANDMEMBER z -9223372036854775807",
    ] {
        assert_eq!(pair.conns[0].run(command).text(), "ERR value is out of range", "{command}");
    }
    // Here the index of redis-server wraps.
    assert_eq!(pair.conns[0].call(&line("LSET l MIN x")).text(), "ERR index out of range");
    assert_eq!(pair.conns[0].call(&line("SRANDMEMBER st MAX")).items().map(<[Value]>::len), Some(3));
    stands(&pair.ours);
}

#[test]
fn fields_that_cannot_be_and_options_without_their_numbers_leave_the_data_whole() {
    let mut pair = Pair::start(&[], DATA);
    pair.check(&[
        "MSETNX q 1 q 2",
        "GET q",
        "MSETNX q 3 r 4 q 5",
        "MGET q r",
        "HINCRBYFLOAT h new nan",
        "HINCRBYFLOAT h new inf",
        "HINCRBYFLOAT h f -inf",
        "HSET h empty \"\"",
        "HINCRBYFLOAT h empty 1",
        "HINCRBYFLOAT h big 1e4000",
        "HINCRBYFLOAT h big 1e4932",
        "HINCRBYFLOAT h big 1e4932",
        "HSTRLEN h big",
        "INCRBYFLOAT float 1e4932",
        "INCRBYFLOAT float 1e4932",
        "HMGET h f g new empty",
        "HGETEX h FIELDS",
        "HGETEX h EX 10 FIELDS",
        "HGETEX h EX FIELDS 1 f",
        "HGETEX h PERSIST FIELDS",
        "HGETEX h FIELDS 2 f",
        "HSETEX h FIELDS",
        "HSETEX h EX 1 FIELDS",
        "HGETDEL h FIELDS",
        "HTTL h FIELDS",
        "HLEN h",
    ]);
    stands(&pair.ours);
}

#[test]
fn autoclaim_of_deleted_entries_with_any_count_is_bounded() {
    let mut pair = Pair::start(&[], &[]);
    (1..200).for_each(|n| pair.check_one(&argv!["XADD", "x", format!("{n}-1"), "f", "v"]));
    pair.check(&["XGROUP CREATE x g 0"]);
    pair.conns.iter_mut().for_each(|conn| drop(conn.run("XREADGROUP GROUP g c STREAMS x >")));
    pair.check_one(&with_many("XDEL x", 150, |n| format!("{n}-1")));
    pair.check(&[
        "XAUTOCLAIM x g d 0 0 COUNT 1",
        "XAUTOCLAIM x g d 0 0 COUNT 10 JUSTID",
        "XAUTOCLAIM x g d 0 0 COUNT 0",
        "XAUTOCLAIM x g d 0 0 COUNT MIN",
        "XAUTOCLAIM x g d 0 0 COUNT 1152921504606846976",
        "XAUTOCLAIM x g d 0 0 COUNT 1844674407370955162",
        "XAUTOCLAIM x g d 0 0 COUNT 1844674407370955161 JUSTID",
        "XAUTOCLAIM x g d 0 - COUNT MAX JUSTID",
        "XAUTOCLAIM x g d MAX 18446744073709551615-18446744073709551615 COUNT 1",
        "XAUTOCLAIM x g d 0 (18446744073709551615-18446744073709551615",
        "XCLAIM x g d 0 151-1 RETRYCOUNT MAX IDLE MIN JUSTID",
        "XPENDING x g - + MIN",
        "XPENDING x g",
        "XRANGE x (18446744073709551615-18446744073709551615 +",
        "XREVRANGE x (0-0 -",
        "XADD x 18446744073709551615-18446744073709551615 f v",
        "XADD x * f v",
        "XADD x 18446744073709551615-* f v",
    ]);
    stands(&pair.ours);
}

#[test]
fn any_number_of_identifiers_fits_into_xackdel() {
    let mut pair = Pair::start(&[], &["XADD x 1-1 f v", "XADD x 2-1 f v", "XGROUP CREATE x g 0"]);
    pair.conns.iter_mut().for_each(|conn| drop(conn.run("XREADGROUP GROUP g c COUNT 1 STREAMS x >")));
    let id = |n: usize| format!("{n}-1");
    for front in [
        "XACKDEL x g IDS 20000",
        "XACKDEL x g ACKED IDS 20000",
        "XACKDEL x g DELREF IDS 20000",
        "XDELEX x IDS 20000",
        "XACKDEL x g IDS 3",
        "XACK x g",
        "XCLAIM x g d 0",
        "XDEL x",
    ] {
        pair.check_one(&with_many(front, 20_000, id));
    }
    pair.check(&[
        "XACKDEL x g IDS MAX 1-1",
        "XACKDEL x g IDS 0",
        "XACKDEL x g IDS -1 1-1",
        "XACKDEL x g IDS 2147483647 1-1",
        "XACKDEL x g IDS 4294967297 1-1",
        "XDELEX x IDS MAX 1-1",
        "XPENDING x g",
        "XLEN x",
    ]);
    stands(&pair.ours);
}

/// Commands whose keys stand where their arguments say.
const KEYS_BY_ARGUMENTS: &[&str] = &[
    "EVAL x MAX k",
    "EVAL x MIN k",
    "EVAL x 2147483647 k",
    "EVAL x 0",
    "EVAL x 2 k",
    "FCALL f MAX k",
    "SINTERCARD 2147483647 k",
    "SINTERCARD -1 k",
    "ZUNIONSTORE k MAX k",
    "ZUNIONSTORE k 1073741824 k",
    "ZUNIONSTORE k 0 k",
    "LMPOP 3 k k2 LEFT",
    "BLMPOP 0 2147483647 k LEFT",
    "XREADGROUP GROUP a b STREAMS k k2 k3",
    "XREAD STREAMS STREAMS STREAMS",
    "XREAD COUNT 1 STREAMS k k2 k3",
    "MIGRATE h 1 \"\" 0 1 AUTH KEYS KEYS k",
    "MIGRATE h 1 k 0 1 KEYS k",
    "SORT k STORE",
    "SORT k LIMIT 1",
    "SORT k GET STORE STORE k2",
    "SORT_RO k BY x* GET x*",
    "SORT_RO k BY nosort GET #",
    "SORT_RO x",
    "GEORADIUS k 1 1 1 m STORE",
    "GEORADIUS k 1 1 1 m STORE k2 STOREDIST x",
    "SET k v GET GET",
    "BITFIELD k GET",
    "BITFIELD k SET u8",
    "MSET k v k2",
    "MEMORY USAGE k",
    "OBJECT ENCODING k",
];

#[test]
fn keys_are_found_within_the_arguments_whatever_these_say() {
    let mut pair = Pair::start(&[], &["ACL SETUSER poor on nopass ~k* +@all"]);
    for command in KEYS_BY_ARGUMENTS {
        for front in ["COMMAND GETKEYS", "COMMAND GETKEYSANDFLAGS", "ACL DRYRUN poor"] {
            pair.check(&[&format!("{front} {command}")]);
        }
    }
    for front in ["MSET", "DEL", "SINTERCARD 5000", "EVAL x 5000", "XREAD STREAMS"] {
        pair.check_one(&with_many(&format!("COMMAND GETKEYS {front}"), 10_000, |n| format!("k{n}")));
        pair.check_one(&with_many(&format!("ACL DRYRUN poor {front}"), 10_000, |n| format!("k{n}")));
    }
    // Without a comparison, as the oracle counts with fewer bits.
    for count in ["4294967297", "2147483648", "18446744073709551617"] {
        let reply = pair.conns[0].run(&format!("COMMAND GETKEYS EVAL x {count} k"));
        assert!(reply.is_error() || reply.items().is_some_and(<[Value]>::is_empty), "{reply}");
    }
    pair.check(&["AUTH poor x", "SORT_RO x", "SORT_RO k BY x* GET x*", "SORT k BY x*", "SINTERCARD 2 k x"]);
    stands(&pair.ours);
}

#[test]
fn malformed_rules_of_users_are_refused_and_never_kept() {
    let mut pair = Pair::start(&[], &[]);
    let rules = "% %~ %R %RW %R~ %RR~a %X~a %~a %RW~ %rw~k (% (%R) () (( (+get +get) (~a)( ~ & + - +@ -@ +| -| +get| \
                 +|get +config| +config|nosuch +config|get|x -config|get -get|a > < # ! #zz !zz >) ( ) (+@all (+@all) \
                 (%R~a%W~b) (%R~a +@nosuch resetx allkeys";
    for rule in rules.split(' ') {
        for command in [
            argv!["ACL", "SETUSER", "u", rule],
            argv!["ACL", "GETUSER", "u"],
            argv!["ACL", "LIST"],
            argv!["ACL", "DRYRUN", "u", "GET", "a"],
            argv!["ACL", "DRYRUN", "u", "CONFIG", "GET", "a"],
        ] {
            pair.check_one(&command);
        }
    }
    // Here it is refused with other words.
    assert!(pair.conns[0].run("ACL SETUSER u (+@all))").is_error());
    let long = format!("({}+get)", "~a ".repeat(2_000));
    pair.check_one(&argv!["ACL", "SETUSER", "u", "reset", long]);
    pair.check_one(&with_many("ACL SETUSER u", 500, |n| format!("(~a{n} +get)")));
    pair.check(&[
        "ACL GETUSER u",
        "ACL DRYRUN u GET zz",
        "ACL SETUSER v ( +get )",
        "ACL SETUSER v (+get ~a",
        "ACL LIST",
    ]);
    stands(&pair.ours);
}

/// The reply to a command, and how long others wait at most until it comes.
fn beside_others(server: &Server, command: &Argv) -> (Value, Duration) {
    let (mut conn, mut other) = (server.connect(), server.connect());
    other.run("PING");
    let mut longest = Duration::ZERO;
    conn.send_command(command).expect("sent");
    conn.set_nonblocking(true);
    while conn.fill().is_err() {
        let asked = Instant::now();
        assert_eq!(other.run("PING").text(), "PONG");
        longest = longest.max(asked.elapsed());
    }
    conn.set_nonblocking(false);
    (Value::parse(&conn.read_reply().expect("a reply")).expect("RESP"), longest)
}

#[test]
fn patterns_of_any_length_are_matched_in_bounded_time_and_without_recursion() {
    let server = Server::start_onrush(&["--workers", "2"]);
    let mut conn = server.connect();
    let mut listener = server.connect();
    (0..40).for_each(|n| drop(conn.call(&argv!["SET", format!("{n}{}", "a".repeat(20_000)), "1"])));
    let stars = format!("{}b", "*a".repeat(100_000));
    for pattern in [
        &*stars,
        &"[".repeat(100_000),
        &"[^".repeat(50_000),
        &"\\".repeat(100_001),
        &format!("*{}b", "a".repeat(10_000)),
    ] {
        for command in [
            argv!["KEYS", pattern],
            argv!["SCAN", "0", "MATCH", pattern, "COUNT", "100"],
            argv!["COMMAND", "LIST", "FILTERBY", "PATTERN", pattern],
            argv!["FUNCTION", "LIST", "LIBRARYNAME", pattern],
            argv!["CONFIG", "GET", pattern],
            argv!["PUBSUB", "CHANNELS", pattern],
            argv!["ACL", "SETUSER", "u", format!("~{pattern}"), format!("&{pattern}"), "+@all"],
            argv!["ACL", "DRYRUN", "u", "GET", "a".repeat(20_000)],
            argv!["PUBLISH", "a".repeat(20_000), "message"],
        ] {
            holds_once(|| {
                let (_, longest) = beside_others(&server, &command);
                (longest < WAIT_MAX).then_some(()).ok_or_else(|| format!("{longest:?}, {command}"))
            });
        }
        listener.call(&argv!["PSUBSCRIBE", pattern]);
    }
    // A match that is given up is none.
    assert_eq!(conn.call(&argv!["KEYS", stars]).items().map(<[Value]>::len), Some(0));
    stands(&server);
}

#[test]
fn clients_that_have_not_logged_in_get_no_room_for_replies() {
    let server = Server::start_onrush(&["--requirepass", "secret"]);
    let mut admin = server.connect();
    assert_eq!(admin.run("AUTH secret").text(), "OK");
    // Their replies are five times as long as they are.
    let flood = "GET a\r\n".repeat(20_000);
    let mut crowd: Vec<Conn> = (0..8).map(|_| server.connect()).collect();
    crowd.iter_mut().for_each(|conn| conn.set_nonblocking(true));
    // None of them reads: the system takes some replies, and then the server closes.
    wait_until("all are closed", || {
        crowd.retain_mut(|conn| match conn.send_some(flood.as_bytes()) {
            Ok(_) => true,
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        });
        assert_eq!(admin.run("PING").text(), "PONG");
        crowd.is_empty()
    });
    let peak = peak_rss_kb(server.pid());
    assert!(peak < MEMORY_MAX_KB / 2, "{peak} kB");
    server.expect_log("too many replies before it authenticated");
    assert!(!server.log().contains("panicked"), "{}", server.log_tail());
}

#[test]
fn a_denied_command_of_very_many_arguments_leaves_nothing_behind() {
    let server = Server::start_onrush(&[]);
    let (mut admin, mut poor) = (server.connect(), server.connect());
    admin.run("ACL SETUSER poor on nopass -@all");
    poor.run("AUTH poor x");
    let used = admin.info_number("used_memory").expect("a number");
    let denied = "NOPERM User poor has no permissions to run the 'mset' command";
    for _ in 0..5 {
        assert_eq!(poor.call(&with_many("MSET", 300_000, |n| format!("{n:010}"))).text(), denied);
    }
    wait_until("memory has come back", || admin.info_number("used_memory").expect("a number") < used + (4 << 20));
    stands(&server);
}

#[test]
fn connections_that_break_in_every_way_do_not_keep_others_out() {
    let server = Server::start_onrush(&[]);
    let mut admin = server.connect();
    for round in 0..500 {
        let mut conn = server.connect();
        let bytes: &[u8] = match round % 5 {
            0 => b"",
            1 => b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            2 => b"*1\r\n$-5\r\n",
            3 => b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
            _ => b"*2147483647\r\n$536870912\r\n",
        };
        let _ = conn.send(bytes);
        if round % 2 == 0 {
            conn.reset_on_drop();
        }
    }
    let started = Instant::now();
    assert_eq!(server.connect().run("PING").text(), "PONG");
    assert!(started.elapsed() < WAIT_MAX, "{:?}", started.elapsed());
    wait_until("they are gone", || admin.info_number("connected_clients") == Some(1));
    stands(&server);
}

/// A sparse or dense HyperLogLog of any registers.
fn hyperloglog(encoding: u8, cached: u8, registers: &[u8]) -> Vec<u8> {
    [b"HYLL", &[encoding, 0, 0, 0][..], &[0, 0, 0, 0, 0, 0, 0, cached], registers].concat()
}

#[test]
fn strings_that_pretend_to_be_hyperloglogs_are_counted_or_refused() {
    const WHOLE: [u8; 2] = [0x7f, 0xff];
    let mut pair = Pair::start(&[], &["PFADD good a b c"]);
    // The lengths of its runs add up to more than 31 bits.
    let overflows = [WHOLE.repeat(1 << 17), vec![0xff; 1 << 10]].concat();
    let cases: Vec<Vec<u8>> = vec![
        hyperloglog(1, 0x80, &overflows),
        hyperloglog(1, 0, &overflows),
        hyperloglog(1, 0x80, &WHOLE),
        hyperloglog(1, 0x80, &WHOLE.repeat(2)),
        hyperloglog(1, 0x80, &[0x7f]),
        hyperloglog(1, 0x80, &[0x7f, 0xfe]),
        hyperloglog(1, 0x80, &[0x7f, 0xfe, 0x83]),
        hyperloglog(1, 0x80, &[0xff; 5_000]),
        hyperloglog(1, 0x80, &[]),
        hyperloglog(0, 0x80, &[]),
        hyperloglog(0, 0x80, &[0xff; 12_287]),
        hyperloglog(0, 0x80, &[0xff; 12_289]),
        hyperloglog(2, 0x80, &[0; 12_288]),
        hyperloglog(255, 0xff, &[0; 12_288]),
        b"HYLL".to_vec(),
        b"HYLL\x01\0\0\0\0\0\0\0\0\0\0".to_vec(),
        b"XYLL\x01\0\0\0\0\0\0\0\0\0\0\0".to_vec(),
    ];
    const COMMANDS: [&str; 6] =
        ["PFCOUNT k", "PFCOUNT k good", "PFADD k x y z", "PFMERGE d k", "PFMERGE k good", "PFDEBUG TODENSE k"];
    for (nth, payload) in cases.iter().enumerate() {
        for command in COMMANDS {
            // Anew for each, as some of them change it.
            pair.check_one(&argv!["SET", "k", payload]);
            pair.check(&["DEL d"]);
            let [ours, oracle] = pair.conns.each_mut().map(|conn| conn.call(&line(command)));
            assert_eq!(ours, oracle, "case {nth}: {command}");
            pair.check(&["STRLEN k", "STRLEN d"]);
        }
    }
    // More than a count can be: redis-server makes any number of it.
    for command in COMMANDS {
        pair.conns[0].call(&argv!["SET", "k", hyperloglog(0, 0x80, &[0xff; 12_288])]);
        let reply = pair.conns[0].run(command);
        assert!(!reply.is_error() || reply.text().starts_with("ERR"), "{command}: {reply}");
    }
    stands(&pair.ours);
}

#[test]
fn small_forms_without_limits_hold_as_much_as_large_ones() {
    let server = Server::start_onrush(&["--enable-debug-command", "yes"]);
    let mut conn = server.connect();
    for directive in [
        "set-max-intset-entries",
        "set-max-listpack-entries",
        "set-max-listpack-value",
        "hash-max-listpack-entries",
        "hash-max-listpack-value",
        "zset-max-listpack-entries",
        "zset-max-listpack-value",
        "stream-node-max-bytes",
        "stream-node-max-entries",
    ] {
        assert_eq!(conn.run(&format!("CONFIG SET {directive} {MAX}")).text(), "OK", "{directive}");
    }
    assert_eq!(conn.run("CONFIG SET list-max-listpack-size 2147483647").text(), "OK");
    for part in 0..30 {
        conn.call(&with_many("SADD ints", 1_000, |n| (1_000_000_007 * (part * 1_000 + n)).to_string()));
    }
    let long = "x".repeat(1 << 20);
    for part in ["1", "2"] {
        conn.call(&argv!["RPUSH", "list", &long, part]);
        conn.call(&argv!["HSET", "hash", format!("{part}{long}"), &long]);
        conn.call(&argv!["ZADD", "zset", part, format!("{part}{long}")]);
        conn.call(&argv!["SADD", "set", format!("{part}{long}"), part]);
        conn.call(&argv!["XADD", "stream", format!("{part}-1"), "f", &long]);
    }
    for key in ["ints", "list", "hash", "zset", "set", "stream"] {
        let digest = |conn: &mut Conn, key: &str| conn.run(&format!("DEBUG DIGEST-VALUE {key}"));
        let before = digest(&mut conn, key);
        assert_eq!(conn.run(&format!("COPY {key} copy REPLACE")), Value::Int(1), "{key}");
        assert_eq!(digest(&mut conn, "copy"), before, "{key}");
        let payload = conn.run(&format!("DUMP {key}"));
        let payload = payload.bytes().expect("a payload");
        assert_eq!(conn.call(&argv!["RESTORE", "copy", "0", payload, "REPLACE"]).text(), "OK", "{key}");
        assert_eq!(digest(&mut conn, "copy"), before, "{key}");
        // A value of more than a megabyte is in no small form, whatever the directives say.
        let encoding = conn.run(&format!("OBJECT ENCODING {key}")).text();
        assert_ne!(encoding, "listpack", "{key}");
        conn.run(&format!("DEL {key} copy"));
    }
    assert_eq!(server.connect().run("PING").text(), "PONG");
    assert!(!server.log().contains("panicked"), "{}", server.log_tail());
}

#[test]
fn looking_at_the_ends_of_a_stream_keeps_no_memory() {
    let server = Server::start_onrush(&[]);
    let mut conn = server.connect();
    let lines =
        ["XADD x * f v", "XADD x * f v", "XTRIM x MAXLEN 1", "XINFO STREAM x", "XREVRANGE x + - COUNT 1", "XDEL x 1-1"];
    let round: Vec<Argv> = lines.iter().map(|text| line(text)).collect();
    let rounds = |conn: &mut Conn| (0..2_000).for_each(|_| drop(conn.pipeline(&round)));
    rounds(&mut conn);
    let used = conn.info_number("used_memory").expect("a number");
    rounds(&mut conn);
    let grown = conn.info_number("used_memory").expect("a number") - used;
    assert!(grown < 1 << 20, "{grown} bytes");
    stands(&server);
}

#[test]
fn scripts_reach_neither_the_system_nor_other_scripts() {
    let mut pair = Pair::start(&[], &[]);
    for name in
        ["package", "io", "require", "dofile", "loadfile", "debug", "module", "newproxy", "print", "getfenv", "setfenv"]
    {
        let reply = pair.conns[0].call(&argv!["EVAL", format!("return tostring({name})"), "0"]);
        assert!(reply.text().contains("Script attempted to access nonexistent global variable"), "{name}: {reply}");
    }
    for code in [
        "return tostring(os.execute)",
        "return tostring(os.getenv)",
        "return tostring(loadstring(string.dump(function() end)))",
        "return tostring(getmetatable(1))",
        "return tostring(getmetatable(nil))",
    ] {
        assert_eq!(pair.conns[0].call(&argv!["EVAL", code, "0"]).text(), "nil", "{code}");
    }
    // A later script finds everything as it was.
    for change in [
        "getmetatable('').__index = function() return 'bad' end",
        "redis.call = function() return 'bad' end",
        "_G.tostring = nil",
        "string.len = nil",
        "rawset(_G, 'tostring', nil)",
        "setmetatable(_G, {})",
        "getmetatable(_G).__index = nil",
    ] {
        let reply = pair.conns[0].call(&argv!["EVAL", change, "0"]);
        assert!(reply.text().contains("Attempt to modify a readonly table"), "{change}: {reply}");
        let later = argv!["EVAL", "return tostring(('abc'):len()) .. redis.call('PING').ok", "0"];
        assert_eq!(pair.conns[0].call(&later).text(), "3PONG", "{change}");
    }
    // What ends the function that a script becomes is no end of the script.
    for code in [
        "end",
        "return end",
        "end return 1",
        "#!",
        "#!lua",
        "#!lua flags=",
        "#!lua name=x\nreturn 1",
        "\0",
        "return\0",
        "",
    ] {
        pair.check_one(&argv!["EVAL", code, "0"]);
        pair.check_one(&argv!["FUNCTION", "LOAD", code]);
    }
    let debugger = pair.conns[0].run("SCRIPT DEBUG YES").text();
    assert_eq!(debugger, "ERR there is no debugger of scripts");
    stands(&pair.ours);
}

#[test]
fn a_script_makes_one_reply_whatever_stands_in_its_texts() {
    let server = Server::start_onrush(&[]);
    let text = "'a\\r\\n+INJECTED\\r\\n\\0$1\\r\\n'";
    for hello in ["HELLO 2", "HELLO 3"] {
        let mut conn = server.connect();
        conn.run(hello);
        for code in [
            "return redis.error_reply(TEXT)",
            "return redis.status_reply(TEXT)",
            "return {err = TEXT}",
            "return {ok = TEXT}",
            "return {1, {err = TEXT}, {ok = TEXT}}",
            "error(TEXT)",
            "error({err = TEXT})",
            "return redis.pcall(TEXT)",
            "return redis.call(TEXT)",
            "return redis.call('GET', TEXT, TEXT)",
            "redis.setresp(3) return {big_number = TEXT}",
            "redis.setresp(3) return {verbatim_string = {format = TEXT, string = 'x'}}",
            "redis.setresp(3) return {map = {[{err = TEXT}] = {ok = TEXT}}}",
            "return loadstring(TEXT)()",
        ] {
            let script = argv!["EVAL", code.replace("TEXT", text), "0"];
            let replies = conn.pipeline(&[script, argv!["ECHO", "end"]]);
            assert_eq!(replies[1], b"$3\r\nend\r\n", "{code}: {}", replies[0].escape_ascii());
            assert_eq!(conn.buffered_len(), 0, "{code}");
        }
    }
    stands(&server);
}

#[test]
fn what_a_replica_sends_is_not_executed() {
    let server = Server::start_onrush(&[]);
    for request in ["SYNC", "PSYNC ? -1"] {
        let mut replica = server.connect();
        replica.send(format!("{request}\r\nSET a b\r\n").as_bytes()).expect("it is sent");
        replica.fill().expect("the beginning of the data");
        replica.send(b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nb\r\n").expect("it is sent");
        replica.read_to_close().expect("it is closed");
    }
    assert_eq!(server.connect().run("EXISTS a"), Value::Int(0));
    stands(&server);
}
