//! Client-side caching: which clients get which invalidations, in which order; and no copy stays outdated.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use onrush_tests::amount::seeds;
use onrush_tests::argv;
use onrush_tests::argv::Argv;
use onrush_tests::client::Conn;
use onrush_tests::diff::{Mode, Runner};
use onrush_tests::families::{self, Family, Generator};
use onrush_tests::resp::{Value, pretty};
use onrush_tests::rng::Rng;
use onrush_tests::server::{Oracle, Server, wait_until};

const MARK: &str = "the end";

/// Sends commands as one pipeline; returns everything that comes up to the reply to a PING behind them.
fn send_all(conn: &mut Conn, commands: &[Argv]) -> Vec<Vec<u8>> {
    let mut bytes = Vec::new();
    commands.iter().for_each(|command| command.encode(&mut bytes));
    argv!["PING", MARK].encode(&mut bytes);
    conn.send(&bytes).expect("a connection");
    let mut seen = Vec::new();
    loop {
        let raw = conn.read_reply().expect("a reply or a message");
        let is_mark = Value::parse(&raw).expect("RESP").to_string().contains(MARK);
        if is_mark {
            return seen;
        }
        seen.push(raw);
    }
}

fn parse(line: &str) -> Vec<Argv> {
    let commands = line.split(" ; ").map(str::trim).filter(|command| !command.is_empty());
    commands.map(|command| Argv::parse(command).expect("balanced quotes")).collect()
}

/// A client in RESP3 that has sent these commands.
fn client(server: &Server, lines: &str) -> Conn {
    let mut conn = server.connect();
    conn.run("HELLO 3");
    send_all(&mut conn, &parse(lines));
    conn
}

/// The invalidations that a client has got.
fn told(conn: &mut Conn) -> Vec<String> {
    send_all(conn, &[]).iter().map(|raw| pretty(raw)).collect()
}

/// The message that keys have changed.
fn invalidation(keys: &[&str]) -> String {
    let mut raw = format!(">2\r\n$10\r\ninvalidate\r\n*{}\r\n", keys.len());
    keys.iter().for_each(|key| raw.push_str(&format!("${}\r\n{key}\r\n", key.len())));
    pretty(raw.as_bytes())
}

/// Three connections, whose ids are the same on every server.
fn numbered(server: &Server) -> (Vec<Option<Conn>>, [i64; 3]) {
    const FIRST: i64 = 30;
    let connect = || {
        let mut conn = server.connect();
        match conn.run("CLIENT ID") {
            Value::Int(id) => (conn, id),
            other => panic!("{other}"),
        }
    };
    while connect().1 < FIRST - 1 {}
    let conns: Vec<(Conn, i64)> = (0..3).map(|_| connect()).collect();
    assert_eq!(conns[0].1, FIRST);
    (conns.into_iter().map(|(conn, _)| Some(conn)).collect(), [FIRST, FIRST + 1, FIRST + 2])
}

/// Plays a script: each line is for one connection (`1> GET k ; SET k 2`), is sent as one pipeline, and shows all that comes until
/// a PING behind it is answered. `{n}` is the id of client `n`; `2> CLOSE` closes a connection.
fn play(server: &Server, script: &str) -> Vec<String> {
    let (mut conns, ids) = numbered(server);
    let mut seen = Vec::new();
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (number, commands) = line.split_once('>').expect("a connection and commands");
        let at = number.parse::<usize>().expect("a number") - 1;
        if commands.trim() == "CLOSE" {
            conns[at] = None;
            let mut teller = server.connect();
            wait_until("the connection is closed", || {
                let listed = teller.run(&format!("CLIENT LIST ID {}", ids[at])).text();
                !listed.contains("id=")
            });
            continue;
        }
        let named =
            (0..3).fold(commands.to_owned(), |line, n| line.replace(&format!("{{{}}}", n + 1), &ids[n].to_string()));
        let commands = parse(&named);
        let replies = send_all(conns[at].as_mut().expect("an open connection"), &commands);
        let mut shown = String::new();
        for raw in &replies {
            // The greeting tells of versions.
            let is_greeting = raw.windows(6).any(|word| word == b"server");
            shown.push_str(&if is_greeting { "a greeting".into() } else { pretty(raw) });
            shown.push_str("; ");
        }
        seen.push(format!("{line}: {shown}"));
    }
    seen
}

/// What both oracles do alike.
const SCRIPTS: &[&str] = &[
    // Options and their errors.
    "
    1> CLIENT TRACKING ; CLIENT TRACKING FOO ; CLIENT TRACKING ON FOO ; CLIENT TRACKING OFF FOO ; CLIENT TRACKING OFF
    1> CLIENT TRACKING ON PREFIX a ; CLIENT TRACKING ON PREFIX ; CLIENT TRACKING ON BCAST PREFIX
    1> CLIENT TRACKING ON REDIRECT ; CLIENT TRACKING ON REDIRECT x ; CLIENT TRACKING ON REDIRECT 999999
    1> CLIENT TRACKING ON REDIRECT -1 ; CLIENT TRACKING ON REDIRECT 0 ; CLIENT TRACKING OFF REDIRECT 999999
    1> CLIENT TRACKING ON REDIRECT {2} REDIRECT {2} ; CLIENT TRACKING ON REDIRECT {1} ; CLIENT TRACKING OFF
    1> CLIENT TRACKING ON OPTIN OPTOUT ; CLIENT TRACKING ON BCAST OPTIN ; CLIENT TRACKING ON BCAST OPTOUT
    1> CLIENT TRACKING ON BCAST PREFIX a PREFIX ab ; CLIENT TRACKING ON BCAST PREFIX a PREFIX a
    1> CLIENT TRACKING ON BCAST PREFIX a PREFIX \"\" ; CLIENT TRACKING ON BCAST PREFIX b OPTIN PREFIX bc
    1> CLIENT TRACKINGINFO ; CLIENT GETREDIR
    1> CLIENT TRACKING on bcast prefix b prefix a noloop ; CLIENT TRACKINGINFO ; CLIENT GETREDIR
    1> CLIENT TRACKING ON BCAST PREFIX ab ; CLIENT TRACKING ON BCAST PREFIX \"\" ; CLIENT TRACKING ON BCAST PREFIX c
    1> CLIENT TRACKINGINFO ; CLIENT TRACKING ON ; CLIENT TRACKING ON OPTIN ; CLIENT TRACKING ON PREFIX d BCAST
    1> CLIENT TRACKING ON BCAST ; CLIENT TRACKINGINFO ; CLIENT CACHING YES ; CLIENT TRACKING OFF ; CLIENT TRACKINGINFO
    1> CLIENT CACHING YES ; CLIENT CACHING ; CLIENT CACHING YES NO ; CLIENT TRACKING ON ; CLIENT CACHING YES
    1> CLIENT CACHING NO ; CLIENT CACHING FOO ; CLIENT TRACKING ON BCAST
    1> CLIENT TRACKING ON OPTIN ; CLIENT CACHING NO ; CLIENT CACHING YES ; CLIENT TRACKINGINFO ; CLIENT TRACKINGINFO
    1> PING ; CLIENT TRACKINGINFO ; CLIENT TRACKING ON OPTOUT ; CLIENT TRACKING ON NOLOOP ; CLIENT TRACKINGINFO
    1> CLIENT TRACKING OFF ; CLIENT TRACKING ON OPTOUT ; CLIENT CACHING NO ; CLIENT TRACKINGINFO ; CLIENT TRACKING ON OPTIN
    1> CLIENT TRACKING ON REDIRECT {2} OPTOUT NOLOOP ; CLIENT TRACKINGINFO ; CLIENT GETREDIR ; HELLO 3 ; CLIENT TRACKINGINFO
    1> RESET ; CLIENT TRACKINGINFO
    ",
    // What is read is told once, right behind the reply.
    "
    1> HELLO 3 ; CLIENT TRACKING ON ; GET k ; SET k 1 ; SET k 2 ; PING ; GET k ; SET k 3 ; PING
    1> MGET a b ; MSET b 1 a 2 c 3 ; PING ; MGET a b a ; DEL a b nope ; EXISTS nope ; SET nope 1 ; PING
    1> GET k ; INCR k ; INCR k ; INCR k ; INCR k ; PING ; GET k ; LPUSH k 1 ; PING
    1> MGET k a ; RENAME k a ; PING ; EXISTS k a ; COPY a k ; PING ; GET k ; EXPIRE k 100 ; PERSIST k ; PING
    1> HSET h f 1 ; GET h ; LPUSH h 1 ; PING
    2> DEL h ; MSET k 1 a 2
    1>
    1> MGET x y
    2> SET y 1 ; SELECT 5 ; SET x 1 ; SELECT 0
    1> GET k ; CLIENT REPLY OFF ; SET k 1 ; CLIENT REPLY ON ; GET k ; CLIENT REPLY SKIP ; SET k 2 ; PING
    1> GET k ; HELLO 2 ; SET k 3 ; GET k ; PING
    2> SET k 4
    1> HELLO 3 ; GET k ; CLIENT TRACKING OFF ; SET k 5 ; PING
    ",
    // Transactions and scripts.
    "
    1> HELLO 3 ; CLIENT TRACKING ON ; GET k
    1> MULTI ; SET k 1 ; GET k ; SET k 2 ; PING ; EXEC ; PING
    1> MULTI ; GET k ; MGET a b ; EXEC
    2> MULTI ; SET b 1 ; SET k 1 ; SET a 1 ; EXEC
    1>
    1> GET k ; EVAL \"redis.call('set', KEYS[1], 1) redis.call('set', 'l', 1) return 1\" 1 k ; PING
    1> MGET k l
    2> EVAL \"redis.call('set', 'l', 1) redis.call('set', 'k', 1) return 1\" 0
    1>
    1> MULTI ; GET k ; DISCARD
    2> SET k 1
    1>
    ",
    // NOLOOP.
    "
    1> HELLO 3 ; CLIENT TRACKING ON NOLOOP ; GET k ; SET k 1 ; PING ; GET k
    2> SET k 2 ; SET k 3
    1> GET k ; SET k 4
    2> SET k 5
    1> GET k ; EVAL \"return redis.call('set', 'k', 1)\" 0 ; PING
    1> GET k ; MULTI ; SET k 1 ; EXEC ; PING
    1> CLIENT TRACKING OFF ; CLIENT TRACKING ON BCAST NOLOOP ; SET k 1 ; MULTI ; SET l 1 ; EXEC
    1>
    2> MSET m 1 n 1
    1>
    ",
    // OPTIN and OPTOUT.
    "
    1> HELLO 3 ; CLIENT TRACKING ON OPTIN ; GET a ; CLIENT CACHING YES ; GET b ; GET c
    1> CLIENT CACHING YES ; MULTI ; GET d ; GET e ; EXEC ; GET f
    1> MULTI ; GET g ; CLIENT CACHING YES ; GET h ; GET i ; EXEC ; GET j
    1> CLIENT CACHING YES ; CLIENT ID ; CLIENT TRACKINGINFO ; GET k ; CLIENT CACHING YES ; FOO ; GET l
    1> CLIENT CACHING YES ; GET ; GET m ; CLIENT CACHING YES ; MULTI ; DISCARD ; GET n ; CLIENT CACHING YES ; SET o 1 ; GET p
    2> MSET a 1 b 1 c 1 d 1 e 1 f 1 g 1 h 1 i 1 j 1 k 1 l 1 m 1 n 1 o 1 p 1
    1>
    1> CLIENT TRACKING OFF ; CLIENT TRACKING ON OPTOUT ; GET a ; CLIENT CACHING NO ; GET b ; GET c
    1> CLIENT CACHING NO ; MULTI ; GET d ; GET e ; EXEC ; GET f
    2> MSET a 1 b 1 c 1 d 1 e 1 f 1
    1>
    ",
    // BCAST.
    "
    1> HELLO 3 ; CLIENT TRACKING ON BCAST PREFIX b PREFIX a
    2> MSET b 1 aa 2 c 9 a 3 ab 4 b3 1 aa 5
    1>
    2> SET c 1
    1>
    1> MULTI ; SET b 1 ; SET a 1 ; SET a2 1 ; EXEC
    1>
    2> EVAL \"redis.call('set', 'a2', 1) redis.call('set', 'a1', 1) redis.call('get', 'a3')\" 0
    1>
    1> CLIENT TRACKING ON BCAST
    2> MSET a 1 x 2
    1>
    1> RESET
    2> MSET a 1 x 2
    1>
    ",
    // REDIRECT to a client that listens in RESP2, or speaks RESP3, or can be told nothing.
    "
    2> SUBSCRIBE other
    1> CLIENT TRACKING ON REDIRECT {2} ; GET k ; GET l
    3> SET k 1
    2>
    1> SET l 1 ; GET k
    2>
    3> FLUSHALL
    2>
    2> UNSUBSCRIBE other
    1> GET k
    3> SET k 1
    2>
    2> HELLO 3
    1> GET k ; CLIENT TRACKING ON REDIRECT {2}
    3> MSET k 1 l 1
    2>
    1> GET k ; GET l ; HELLO 3
    2> CLOSE
    3> MSET k 1 l 1
    1>
    1> CLIENT TRACKINGINFO ; CLIENT GETREDIR ; GET k
    1> HELLO 2
    3> SET k 1
    1> HELLO 3 ; CLIENT TRACKING ON ; CLIENT TRACKINGINFO
    ",
    // Emptied databases.
    "
    1> HELLO 3 ; CLIENT TRACKING ON ; GET k
    2> HELLO 3 ; CLIENT TRACKING ON BCAST PREFIX x ; SELECT 7
    3> FLUSHALL
    1>
    2>
    1> GET k
    2> FLUSHDB ASYNC ; CLIENT TRACKING OFF
    1>
    3> SET k 1 ; MULTI ; FLUSHDB ; SET k 1 ; EXEC
    1>
    1> GET k ; MULTI ; SET k 1 ; FLUSHALL ; SET k 2 ; EXEC ; PING
    1> GET k
    3> SWAPDB 0 1 ; SWAPDB 0 1
    1>
    ",
];

/// Clients that wait: whether the reply or the message of what has ended the waiting comes first is not said.
const WAITING: &str = "
    1> HELLO 3 ; CLIENT TRACKING ON ; EXISTS l
    2> RPUSH l 1 2 3
    1> LRANGE l 0 -1 ; BLPOP l 0 ; LLEN l ; BLMOVE l m LEFT LEFT 0
    2> LPOP l
    1> XREAD COUNT 1 BLOCK 5 STREAMS s $
    2> XADD s 1-1 a b
    1>
    ";

#[test]
fn clients_that_wait_track_what_they_get() {
    let ours = Server::start_onrush(&["--workers", "2", "--gather-connections", "no"]);
    let theirs = Server::start_oracle(Oracle::Newer, &[]);
    assert_eq!(play(&ours, WAITING), play(&theirs, WAITING));
    let heard = |server: &Server| {
        let mut reader = client(server, "FLUSHALL ; CLIENT TRACKING ON ; EXISTS l s");
        let mut writer = server.connect();
        let mut heard = Vec::new();
        for (waits, ends) in [("XREAD BLOCK 0 STREAMS s $", "XADD s 1-1 a b"), ("BLPOP l 0", "RPUSH l 1 2")] {
            reader.send_command(&Argv::parse(waits).expect("a command")).expect("a connection");
            wait_until("the client waits", || writer.info_number("blocked_clients") == Some(1));
            writer.run(ends);
            let mut both = [(); 2].map(|()| pretty(&reader.read_reply().expect("a reply or a message")));
            both.sort();
            heard.push(both.to_vec());
        }
        // What has been read while waiting is tracked, what was taken is not.
        writer.run("XADD s 1-2 a b");
        writer.run("DEL l");
        heard.push(told(&mut reader));
        heard
    };
    assert_eq!(heard(&ours), heard(&theirs));
}

/// What 7.2 and later do otherwise than 7.0: scripts do not track the keys that they declare, but those that they read.
const NEWER_SCRIPTS: &[&str] = &["
    1> HELLO 3 ; CLIENT TRACKING ON ; EVAL \"return redis.call('get', 'k')\" 0
    1> EVAL_RO \"return redis.call('get', 'l')\" 1 m ; EVAL \"redis.call('set', 'n', 1) redis.call('get', 'n')\" 0 ; PING
    2> MSET k 1 l 1 m 1 n 1
    1>
    1> CLIENT TRACKING OFF ; CLIENT TRACKING ON OPTIN ; CLIENT CACHING YES
    1> CLIENT CACHING YES ; EVAL \"redis.call('get', 'k') redis.call('get', 'l')\" 0 ; GET m
    2> MSET k 1 l 1 m 1 n 1
    1>
    "];

/// What 7.2 does otherwise than 8.2, which empties databases before it is executed for.
const OLDER_SCRIPTS: &[&str] = &["
    1> HELLO 3 ; CLIENT TRACKING ON ; GET k ; FLUSHALL ; PING ; FLUSHDB ; PING
    1> CLIENT TRACKING ON NOLOOP ; FLUSHALL SYNC ; PING
    "];

#[test]
fn clients_are_told_as_by_redis_server() {
    for (oracle, scripts) in [
        (Oracle::Older, SCRIPTS),
        (Oracle::Newer, SCRIPTS),
        (Oracle::Newer, NEWER_SCRIPTS),
        (Oracle::Older, OLDER_SCRIPTS),
    ] {
        for workers in ["1", "2"] {
            for script in scripts {
                let theirs = Server::start_oracle(oracle, &[]);
                let ours = Server::start_onrush(&["--workers", workers, "--gather-connections", "no"]);
                for (ours, theirs) in play(&ours, script).iter().zip(play(&theirs, script)) {
                    assert_eq!(*ours, theirs, "{oracle:?}");
                }
            }
        }
    }
}

/// Commands on keys, each on one of its own. DUMP is not there yet, and 8.2 does not know DIGEST.
const READS_AND_WRITES: &[&str] = &[
    "OBJECT ENCODING k1",
    "TYPE k2",
    "TTL k3",
    "STRLEN k4",
    "SORT k5",
    "SORT_RO k6",
    "PFCOUNT k7 k8",
    "BITFIELD k9 GET u8 0",
    "BITFIELD_RO k10 GET u8 0",
    "GETEX k11",
    "GEORADIUS k12 0 0 1 m",
    "GEORADIUS_RO k13 0 0 1 m",
    "MEMORY USAGE k14",
    "GETDEL k15",
    "TOUCH k16",
    "SRANDMEMBER k17",
    "SINTERCARD 2 k18 k19",
    "ZUNION 2 k20 k21",
    "LCS k22 k23",
    "XINFO STREAM k24",
    "XREAD STREAMS k25 k26 0 0",
    "KEYS k27",
    "SCAN 0 MATCH k28",
    "HSCAN k29 0",
    "WATCH k30",
    "UNWATCH",
    "OBJECT FREQ k32",
    "XPENDING k33 g",
    "GETRANGE k34 a b",
    "EVAL_RO \"return 1\" 1 k35",
    "EVAL \"return 1\" 1 k36",
    "SPUBLISH k37 a",
    "MGET k38 k38 k39",
    "XREADGROUP GROUP g c STREAMS k41 0",
    "SUBSTR k42 0 1",
    "EXPIRETIME k43",
    "COMMAND GETKEYS GET k44",
    "ZINTERCARD 1 k46",
    "SINTERSTORE k47 k48",
    "HRANDFIELD k49",
    "LPOS k50 a",
    "HTTL k51 FIELDS 1 a",
    "EXISTS k52 k53",
    "BITOP AND k54 k55",
    "COPY k56 k57",
    "ZDIFF 2 k62 k63 WITHSCORES",
    "GEOSEARCH k64 FROMLONLAT 0 0 BYRADIUS 1 m",
    "GEODIST k65 a b",
    "SINTERCARD a k66",
    "ZUNION 3 k67",
];

#[test]
fn what_commands_read_is_tracked() {
    let tracked = |server: &Server| {
        let mut reader = client(server, "CLIENT TRACKING ON");
        let commands: Vec<Argv> = READS_AND_WRITES.iter().flat_map(|line| parse(line)).collect();
        send_all(&mut reader, &commands);
        let mut writer = server.connect();
        (1..70).for_each(|n| drop(writer.run(&format!("SET k{n} 1"))));
        told(&mut reader)
    };
    let ours = Server::start_onrush(&["--workers", "2", "--gather-connections", "no"]);
    assert_eq!(tracked(&ours), tracked(&Server::start_oracle(Oracle::Newer, &[])));
}

/// Random sequences of families, whose changes are told. Nothing expires but what is looked at: the servers would do so at
/// different times.
fn changes_of(families: &[&Family]) {
    for family in families {
        let args = [&["--enable-debug-command", "yes"], family.args].concat();
        let reset = [&["DEBUG SET-ACTIVE-EXPIRE 0"], family.reset].concat();
        let mut runners = Oracle::ALL.map(|_| None);
        for seed in seeds(80) {
            // Before 7.2 XREADGROUP made a consumer only for something to read.
            let oracle = if family.name == families::STREAMS.name { Oracle::Newer } else { family.oracle(seed) };
            let (runner, generator) = runners[oracle as usize].get_or_insert_with(|| {
                let mut runner = Runner::new(&args, &reset, oracle);
                runner.track();
                (runner, Generator::new(family, oracle))
            });
            let sequence = generator.sequence(&mut Rng::new(seed), 2, 60);
            let name = format!("changes of {} ONRUSH_TEST_SEED={seed}", family.name);
            let mode = if seed % 4 == 3 { Mode::Transactions } else { Mode::Single };
            runner.check(&name, &sequence, mode).unwrap_or_else(|difference| panic!("{difference}"));
        }
    }
}

#[test]
fn changes_of_strings_and_keys_are_told_as_the_oracles() {
    changes_of(&[&families::STRINGS, &families::COUNTERS, &families::KEYS, &families::EXPIRY, &families::BITS]);
}

#[test]
fn changes_of_collections_are_told_as_the_oracles() {
    changes_of(&[&families::LISTS, &families::HASHES, &families::SETS, &families::SORTED_SETS, &families::STREAMS]);
}

#[test]
fn changes_of_what_is_derived_are_told_as_the_oracles() {
    changes_of(&[&families::LEX, &families::HYPERLOGLOG, &families::GEO, &families::SORT]);
}

#[test]
fn what_expires_or_is_evicted_is_told() {
    let server = Server::start_onrush(&["--workers", "2", "--enable-debug-command", "yes"]);
    let mut reader = client(&server, "CLIENT TRACKING ON");
    let mut writer = server.connect();
    send_all(&mut reader, &parse("SET a 1 PX 30 ; GET a ; HSET h f 1 g 2 ; HPEXPIRE h 30 FIELDS 1 f ; HGETALL h"));
    let mut heard = Vec::new();
    wait_until("both have changed", || {
        heard.extend(told(&mut reader));
        heard.len() >= 2
    });
    heard.sort();
    assert_eq!(heard, [invalidation(&["a"]), invalidation(&["h"])]);
    writer.run("DEBUG SET-ACTIVE-EXPIRE 0");
    // Whoever finds it expired, the reader itself included, has it told; and it is tracked again.
    send_all(&mut reader, &parse("SET a 1 PX 1 ; GET a"));
    wait_until("it has expired", || matches!(writer.run("GET a"), Value::Null(_)));
    assert_eq!(told(&mut reader), [invalidation(&["a"])]);
    writer.run("CONFIG SET maxmemory-policy allkeys-random");
    send_all(&mut reader, &parse("SET big 1 ; GET big"));
    writer.run("CONFIG SET maxmemory 1");
    wait_until("it was evicted", || matches!(writer.run("GET big"), Value::Null(_)));
    assert!(told(&mut reader).contains(&invalidation(&["big"])));
}

#[test]
fn what_a_reader_finds_expired_is_told_and_tracked_again() {
    let server = Server::start_onrush(&["--enable-debug-command", "yes"]);
    let mut reader = client(&server, "DEBUG SET-ACTIVE-EXPIRE 0 ; CLIENT TRACKING ON ; SET a 1 PX 1 ; GET a");
    let mut seen = Vec::new();
    wait_until("it has expired", || {
        seen = send_all(&mut reader, &parse("GET a"));
        seen[0] == b"_\r\n"
    });
    assert_eq!(seen.iter().map(|raw| pretty(raw)).collect::<Vec<_>>()[1..], [invalidation(&["a"])]);
    server.connect().run("SET a 2");
    assert_eq!(told(&mut reader), [invalidation(&["a"])]);
}

#[test]
fn long_commands_track_and_are_tracked() {
    let server = Server::start_onrush(&["--workers", "2", "--gather-connections", "no"]);
    let mut writer = server.connect();
    for key in ["a", "b"] {
        let members = (0..30_000).map(|n| format!("{key}{n}"));
        let words: Vec<String> = ["SADD".to_owned(), key.to_owned()].into_iter().chain(members).collect();
        writer.call(&Argv::new(&words));
    }
    let mut reader = client(&server, "CLIENT TRACKING ON OPTIN ; CLIENT CACHING YES ; SINTER a b ; SINTER a c");
    writer.run("SUNIONSTORE c a b");
    writer.run("SADD b x");
    assert_eq!(told(&mut reader), [invalidation(&["b"])]);
    send_all(&mut reader, &parse("CLIENT CACHING YES ; MULTI ; SINTER a b ; GET x ; EXEC ; SINTER a c"));
    writer.run("MSET x 1 a 1 c 1");
    assert_eq!(told(&mut reader), [invalidation(&["x"]), invalidation(&["a"])]);
}

#[test]
fn no_push_comes_behind_the_end_of_its_protocol() {
    let server = Server::start_onrush(&["--workers", "2", "--gather-connections", "no"]);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut writer = server.connect();
            let batch: Vec<Argv> = (0..50).map(|n| argv!["SET", format!("k{n}"), "v"]).collect();
            while !is_over.load(Relaxed) {
                writer.pipeline(&batch);
            }
        });
        let mut conn = server.connect();
        for round in 0..300 {
            let end = if round % 2 == 0 { "RESET" } else { "HELLO 2" };
            let options = if round % 3 == 0 { "" } else { " BCAST" };
            let mut bytes = Vec::new();
            let gets = (0..50).map(|n| argv!["GET", format!("k{n}")]);
            let begin = parse(&format!("HELLO 3 ; CLIENT TRACKING OFF ; CLIENT TRACKING ON{options}"));
            begin.into_iter().chain(gets).chain(parse(end)).for_each(|command| command.encode(&mut bytes));
            conn.send(&bytes).expect("a connection");
            let is_end = |raw: &[u8]| raw == b"+RESET\r\n" || raw.starts_with(b"*14\r\n$6\r\nserver");
            while !is_end(&conn.read_reply().expect("a reply or a message")) {}
            for _ in 0..3 {
                conn.send_command(&argv!["PING"]).expect("a connection");
                assert_eq!(conn.read_reply().expect("a reply"), b"+PONG\r\n");
            }
        }
        is_over.store(true, Relaxed);
    });
}

#[test]
fn the_table_of_keys_has_a_limit() {
    let server = Server::start_onrush(&["--tracking-table-max-keys", "100"]);
    let mut reader = client(&server, "CLIENT TRACKING ON");
    let mut teller = server.connect();
    let gets: Vec<Argv> = (0..1_000).map(|n| argv!["GET", format!("k{n}")]).collect();
    let seen = send_all(&mut reader, &gets);
    let forgotten = seen.iter().filter(|raw| raw.starts_with(b">2\r\n$10\r\ninvalidate\r\n*1\r\n")).count();
    assert_eq!((seen.len(), forgotten), (1_900, 900));
    assert_eq!(teller.info_number("tracking_total_keys"), Some(100));
    // One command with more keys than that.
    let keys: Vec<String> = (0..300).map(|n| format!("m{n}")).collect();
    send_all(&mut reader, &[Argv::new(&[&["MGET".to_owned()], keys.as_slice()].concat())]);
    assert_eq!(teller.info_number("tracking_total_items"), Some(100));
    // Those that are left are tracked, all others are told: some by the maintenance thread, once it has them all.
    teller.run("CONFIG SET tracking-table-max-keys 10");
    wait_until("the table keeps to its new limit", || teller.info_number("tracking_total_keys") == Some(10));
    let mut forgotten = 0;
    wait_until("the reader is told", || {
        forgotten += told(&mut reader).len();
        forgotten >= 90
    });
    assert_eq!(forgotten, 90);
    let sets: Vec<Argv> =
        (0..1_000).flat_map(|n| [argv!["SET", format!("k{n}"), "v"], argv!["SET", format!("m{n}"), "v"]]).collect();
    teller.pipeline(&sets);
    assert_eq!(told(&mut reader).len(), 10);
    teller.run("CONFIG SET tracking-table-max-keys 0");
    send_all(&mut reader, &gets);
    assert_eq!(teller.info_number("tracking_total_keys"), Some(1_000));
}

#[test]
fn who_vanishes_leaves_nothing_behind() {
    let server = Server::start_onrush(&["--workers", "2", "--gather-connections", "no"]);
    let mut teller = server.connect();
    let counts = |teller: &mut Conn| {
        ["clients", "total_keys", "total_items", "total_prefixes"]
            .map(|name| teller.info_number(&format!("tracking_{name}")).expect("a number"))
    };
    let gets: Vec<Argv> = (0..100_000).map(|n| argv!["GET", format!("key:{n}")]).collect();
    let mut memory = Vec::new();
    for vanish in [drop::<Conn>, |conn: Conn| conn.reset_on_drop(), |mut conn: Conn| drop(conn.run("RESET"))] {
        let mut readers: Vec<Conn> = (0..3).map(|_| client(&server, "CLIENT TRACKING ON")).collect();
        let prefixes: String = (0..2_000).map(|n| format!(" PREFIX p{n}:")).collect();
        let broad = client(&server, &format!("CLIENT TRACKING ON BCAST{prefixes}"));
        for chunk in gets.chunks(1_000) {
            readers.iter_mut().for_each(|reader| drop(reader.pipeline(chunk)));
        }
        assert_eq!(counts(&mut teller), [4, 100_000, 300_000, 2_000]);
        readers.into_iter().chain([broad]).for_each(vanish);
        wait_until("nothing is left", || counts(&mut teller) == [0; 4]);
        let mut used = 0;
        wait_until("the memory is back", || {
            used = teller.info_number("used_memory").expect("a number");
            memory.first().is_none_or(|first| used < first + 500_000)
        });
        memory.push(used);
    }
}

#[test]
fn client_list_shows_who_tracks() {
    let server = Server::start_onrush(&[]);
    let mut conn = client(&server, "");
    let mut other = server.connect();
    let other_id = other.run("CLIENT ID").to_string().replace("(integer) ", "");
    let mut shown = |line: &str| {
        send_all(&mut conn, &parse(line));
        let line = conn.run("CLIENT INFO").text();
        let field = |name: &str| line.split(' ').find_map(|word| word.strip_prefix(name)).expect("a field").to_owned();
        (field("flags="), field("redir="))
    };
    let pair = |flags: &str, redirect: &str| (flags.to_owned(), redirect.to_owned());
    assert_eq!(shown("PING"), pair("N", "-1"));
    assert_eq!(shown("CLIENT TRACKING ON"), pair("t", "0"));
    assert_eq!(shown(&format!("CLIENT TRACKING ON REDIRECT {other_id}")), pair("t", &other_id));
    drop(other);
    let mut teller = server.connect();
    wait_until("the other one is gone", || !teller.run(&format!("CLIENT LIST ID {other_id}")).text().contains("id="));
    assert_eq!(shown("GET k ; SET k 1"), pair("tR", &other_id));
    assert_eq!(shown("CLIENT TRACKING OFF ; CLIENT TRACKING ON BCAST"), pair("tB", "0"));
    assert_eq!(shown("CLIENT TRACKING OFF"), pair("N", "-1"));
}

/// A client that keeps copies of what it reads, and drops those that it is told are outdated.
struct Cache {
    conn: Conn,
    copies: HashMap<String, Vec<u8>>,
    /// Keys whose values are on their way.
    asked: Vec<String>,
}

impl Cache {
    /// Asks for keys that it has no copy of, in one pipeline, and takes in what comes.
    fn read(&mut self, keys: impl Iterator<Item = String>) {
        self.asked = keys.filter(|key| !self.copies.contains_key(key)).collect();
        let mut bytes = Vec::new();
        self.asked.iter().for_each(|key| argv!["GET", key].encode(&mut bytes));
        argv!["PING", MARK].encode(&mut bytes);
        self.conn.send(&bytes).expect("a connection");
        let mut asked = self.asked.iter();
        loop {
            let raw = self.conn.read_reply().expect("a reply or a message");
            if raw.starts_with(b">") {
                let message = Value::parse(&raw).expect("RESP");
                for key in message.items().and_then(|items| items[1].items()).expect("keys") {
                    self.copies.remove(&key.text());
                }
            } else if let Some(key) = asked.next() {
                self.copies.insert(key.clone(), raw);
            } else {
                return;
            }
        }
    }
}

/// Two writers, and readers that keep copies: once all is quiet, every copy is what the server has.
fn copies_are_never_outdated(options: &str, writes: fn(&mut Rng, u64) -> Vec<Argv>) {
    const KEYS: usize = 40;
    let server = Server::start_onrush(&["--workers", "2", "--gather-connections", "no"]);
    let end = Instant::now() + Duration::from_millis(1_500);
    let mut caches: Vec<Cache> = (0..3)
        .map(|_| {
            let conn = client(&server, &format!("CLIENT TRACKING ON {options}"));
            Cache { conn, copies: HashMap::new(), asked: Vec::new() }
        })
        .collect();
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let mut conn = server.connect();
            scope.spawn(move || {
                let mut rng = Rng::new(writer);
                let mut round = 0;
                while Instant::now() < end {
                    round += 1;
                    conn.pipeline(&writes(&mut rng, round));
                }
            });
        }
        for cache in &mut caches {
            scope.spawn(move || {
                while Instant::now() < end {
                    cache.read((0..KEYS).map(|n| format!("k{n}")));
                }
            });
        }
    });
    let mut teller = client(&server, "");
    // What has a time to live still expires; but whatever has not been told by the end never is.
    wait_until("no copy is outdated", || {
        caches.iter_mut().all(|cache| {
            cache.read(std::iter::empty());
            cache.copies.iter().all(|(key, copy)| teller.try_call(&argv!["GET", key]).expect("a reply") == *copy)
        })
    });
}

#[test]
fn copies_are_never_outdated_by_single_writes() {
    copies_are_never_outdated("", |rng, round| {
        (0..8).map(|_| argv!["SET", format!("k{}", rng.below(40)), round.to_string()]).collect()
    });
}

#[test]
fn copies_are_never_outdated_by_transactions() {
    copies_are_never_outdated("", |rng, round| {
        let mut key = || format!("k{}", rng.below(40));
        let mut commands = vec![argv!["MULTI"]];
        commands.extend((0..4).map(|_| argv!["INCRBY", key(), round.to_string()]));
        commands.extend([argv!["DEL", key()], argv!["EXEC"]]);
        commands
    });
}

#[test]
fn copies_are_never_outdated_by_what_expires() {
    copies_are_never_outdated("NOLOOP", |rng, round| {
        let expiry = 1 + rng.below(5);
        (0..4)
            .map(|_| argv!["SET", format!("k{}", rng.below(40)), round.to_string(), "PX", expiry.to_string()])
            .collect()
    });
}

#[test]
fn copies_are_never_outdated_where_all_changes_are_told() {
    copies_are_never_outdated("BCAST PREFIX k", |rng, round| {
        (0..8).map(|_| argv!["SET", format!("k{}", rng.below(40)), round.to_string()]).collect()
    });
}

#[test]
fn copies_of_what_long_commands_read_are_never_outdated() {
    let server = Server::start_onrush(&["--workers", "2", "--gather-connections", "no"]);
    let mut teller = client(&server, "");
    for key in ["a", "b"] {
        let members = (0..21_000).map(|n| n.to_string());
        let words: Vec<String> = ["SADD".to_owned(), key.to_owned()].into_iter().chain(members).collect();
        teller.call(&Argv::new(&words));
    }
    let end = Instant::now() + Duration::from_millis(1_500);
    let mut reader = client(&server, "CLIENT TRACKING ON");
    let (mut copy, mut reads) = (None, 0);
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let mut conn = server.connect();
            scope.spawn(move || {
                let mut rng = Rng::new(writer);
                while Instant::now() < end {
                    let command = if rng.percent(50) { "SADD" } else { "SREM" };
                    conn.call(&argv![command, "b", rng.below(40).to_string()]);
                }
            });
        }
        let mut read = |has_to_read: bool| {
            let is_asked = copy.is_none() && has_to_read;
            if is_asked {
                reads += 1;
                reader.send_command(&argv!["SINTERCARD", "2", "a", "b"]).expect("a connection");
            }
            reader.send_command(&argv!["PING", MARK]).expect("a connection");
            loop {
                let raw = reader.read_reply().expect("a reply or a message");
                match raw[0] {
                    b'>' => copy = None,
                    b':' => copy = Some(raw),
                    _ => return copy.clone(),
                }
            }
        };
        while Instant::now() < end {
            read(true);
        }
        wait_until("the copy is not outdated", || {
            read(false)
                .is_none_or(|copy| teller.try_call(&argv!["SINTERCARD", "2", "a", "b"]).expect("a reply") == copy)
        });
    });
    assert!(reads > 10, "{reads} reads");
}
