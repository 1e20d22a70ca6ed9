//! Conditional string commands, as Redis 8.4 documents them: `SET … IFEQ | IFNE | IFDEQ | IFDNE`, DELEX, DIGEST,
//! MSETEX. No oracle has them, so the expected replies are here.

use std::collections::BTreeMap;

use onrush_tests::argv;
use onrush_tests::argv::Argv;
use onrush_tests::client::Conn;
use onrush_tests::resp::Value;
use onrush_tests::rng::Rng;
use onrush_tests::server::{Server, is_stand_in, skips_on_stand_in};

/// The digests of `Hello world`, as Redis's page on DIGEST has it, and of a value whose digest begins with zeros.
const HELLO_DIGEST: &str = "b6acb9d84a38ff74";
const ZEROS: &str = "v8lf0c11xh8ymlqztfd3eeq16kfn4sspw7fqmnuuq3k3t75em5wdizgcdw7uc26nnf961u2jkfzkjytls2kwlj7626sd";
const ZEROS_DIGEST: &str = "00006c38adf31777";

const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";
const BAD_DIGEST: &str = "-ERR must be exactly 16 hexadecimal characters";
const SYNTAX: &str = "-ERR syntax error";
const OK: &str = "+OK";
const NIL: &str = "$-1";

/// Runs lines and compares their replies: the first line of each, and for a string the string.
fn check(conn: &mut Conn, lines: &[(&str, &str)]) {
    for (line, want) in lines {
        let raw = conn.try_call(&Argv::parse(line).expect("a line")).expect("a reply");
        let text = String::from_utf8(raw).expect("text");
        let mut parts = text.split("\r\n");
        let head = parts.next().expect("a line");
        let got = if head.starts_with('$') && head != NIL { parts.next().expect("a string") } else { head };
        assert_eq!(got, *want, "{line}");
    }
}

fn connect() -> Option<(Server, Conn)> {
    if is_stand_in() {
        return None;
    }
    let server = Server::start_onrush(&[]);
    let conn = server.connect();
    Some((server, conn))
}

#[test]
fn set_compares_with_the_value_before() {
    let Some((_server, mut conn)) = connect() else { return };
    check(
        &mut conn,
        &[
            ("SET k v IFEQ v", NIL),
            ("EXISTS k", ":0"),
            ("SET k one IFNE v", OK),
            ("SET k two IFNE one", NIL),
            ("SET k two IFEQ other", NIL),
            ("GET k", "one"),
            ("set k two ifeq one", OK),
            ("GET k", "two"),
            ("SET k three IFNE one", OK),
            ("GET k", "three"),
            // Integers are compared as they are spelled.
            ("SET k 10", OK),
            ("SET k 11 IFEQ 010", NIL),
            ("SET k 11 IFEQ 10", OK),
            ("SET k {} IFNE 11", NIL),
            ("SET k \"\" IFEQ 11", OK),
            ("SET k x IFEQ \"\"", OK),
        ],
    );
}

#[test]
fn set_compares_with_the_digest_of_the_value_before() {
    let Some((_server, mut conn)) = connect() else { return };
    let upper = HELLO_DIGEST.to_ascii_uppercase();
    check(
        &mut conn,
        &[
            (&format!("SET k v IFDEQ {HELLO_DIGEST}"), NIL),
            ("EXISTS k", ":0"),
            (&format!("SET k \"Hello world\" IFDNE {HELLO_DIGEST}"), OK),
            (&format!("SET k other IFDNE {HELLO_DIGEST}"), NIL),
            (&format!("SET k other IFDEQ {ZEROS_DIGEST}"), NIL),
            ("GET k", "Hello world"),
            (&format!("SET k {ZEROS} IFDEQ {upper}"), OK),
            (&format!("SET k other IFDNE {HELLO_DIGEST} GET"), ZEROS),
            ("GET k", "other"),
            ("SET k v IFDEQ 6c38adf31777", BAD_DIGEST),
            ("SET k v IFDNE zzzzzzzzzzzzzzzz", BAD_DIGEST),
            ("SET k v IFDEQ +123456789abcdef", BAD_DIGEST),
            ("GET k", "other"),
        ],
    );
}

#[test]
fn set_with_get_tells_the_value_before_whether_or_not_it_was_set() {
    let Some((_server, mut conn)) = connect() else { return };
    check(
        &mut conn,
        &[
            ("SET k one IFEQ x GET", NIL),
            ("EXISTS k", ":0"),
            ("SET k one IFNE x GET", NIL),
            ("SET k two IFEQ x GET", "one"),
            ("SET k two GET IFEQ one", "one"),
            ("SET k three IFNE two GET", "two"),
            ("GET k", "two"),
        ],
    );
}

#[test]
fn conditions_go_together_with_expiries_but_not_with_each_other() {
    let Some((_server, mut conn)) = connect() else { return };
    check(
        &mut conn,
        &[
            ("SET k one", OK),
            ("SET k two IFEQ one EXAT 33177117420", OK),
            ("EXPIRETIME k", ":33177117420"),
            ("SET k three IFEQ one EX 5", NIL),
            ("EXPIRETIME k", ":33177117420"),
            ("SET k three KEEPTTL IFEQ two", OK),
            ("EXPIRETIME k", ":33177117420"),
            ("SET k four IFNE one", OK),
            ("TTL k", ":-1"),
            ("SET k v IFEQ", SYNTAX),
            ("SET k v IFEQ four NX", SYNTAX),
            ("SET k v XX IFEQ four", SYNTAX),
            ("SET k v IFEQ four IFNE five", SYNTAX),
            ("SET k v IFEQ four IFEQ four", SYNTAX),
            ("SET k v IFEQ four EX 10 KEEPTTL", SYNTAX),
            ("SET k v IFEQ four EX 0", "-ERR invalid expire time in 'set' command"),
            ("GET k", "four"),
            ("RPUSH list a", ":1"),
            ("SET list v IFEQ a", WRONG_TYPE),
            ("SET list v IFNE a", WRONG_TYPE),
            (&format!("SET list v IFDNE {HELLO_DIGEST}"), WRONG_TYPE),
            ("SET list v XX", OK),
        ],
    );
}

#[test]
fn delex_deletes_on_condition() {
    let Some((_server, mut conn)) = connect() else { return };
    let arity = "-ERR wrong number of arguments for 'delex' command";
    check(
        &mut conn,
        &[
            ("DELEX k", ":0"),
            ("DELEX k IFEQ v", ":0"),
            ("DELEX k IFNE v", ":0"),
            ("SET k one", OK),
            ("DELEX k IFEQ two", ":0"),
            ("DELEX k IFNE one", ":0"),
            ("GET k", "one"),
            ("DELEX k ifeq one", ":1"),
            ("EXISTS k", ":0"),
            ("SET k 7", OK),
            ("DELEX k IFNE 8", ":1"),
            ("SET k \"Hello world\"", OK),
            (&format!("DELEX k IFDNE {HELLO_DIGEST}"), ":0"),
            (&format!("DELEX k IFDEQ {ZEROS_DIGEST}"), ":0"),
            (&format!("DELEX k IFDEQ {HELLO_DIGEST}"), ":1"),
            ("SET k v", OK),
            (&format!("DELEX k IFDNE {HELLO_DIGEST}"), ":1"),
            ("SET k v", OK),
            ("DELEX k IFDEQ 123", BAD_DIGEST),
            ("DELEX k IFEQ", arity),
            ("DELEX k IFEQ v IFNE w", arity),
            ("DELEX", arity),
            ("DELEX k NX v", SYNTAX),
            ("DELEX k", ":1"),
            ("RPUSH list a", ":1"),
            ("DELEX list IFEQ a", WRONG_TYPE),
            ("DELEX list IFNE a", WRONG_TYPE),
            ("DELEX list", ":1"),
            ("DBSIZE", ":0"),
        ],
    );
}

#[test]
fn a_digest_is_that_of_the_value_as_it_is_read() {
    let Some((_server, mut conn)) = connect() else { return };
    let huge = "x".repeat(100_000);
    check(
        &mut conn,
        &[
            ("DIGEST k", NIL),
            ("SET k \"Hello world\"", OK),
            ("DIGEST k", HELLO_DIGEST),
            (&format!("SET k {ZEROS}"), OK),
            ("DIGEST k", ZEROS_DIGEST),
            ("SET k \"\"", OK),
            ("DIGEST k", "2d06800538d394c2"),
            ("HSET hash f v", ":1"),
            ("DIGEST hash", WRONG_TYPE),
            ("DIGEST k k", "-ERR wrong number of arguments for 'digest' command"),
            // The same bytes have the same digest whatever the form they are kept in.
            ("SET number 12345", OK),
            ("SET text x", OK),
            ("SETRANGE text 0 12345", ":5"),
            (&format!("SET large {huge}"), OK),
            (&format!("APPEND pieces {}", &huge[..50_000]), ":50000"),
            (&format!("APPEND pieces {}", &huge[50_000..]), ":100000"),
        ],
    );
    assert_eq!(conn.run("DIGEST number"), conn.run("DIGEST text"));
    assert_eq!(conn.run("DIGEST large"), conn.run("DIGEST pieces"));
    let digest = conn.run("DIGEST large").text();
    assert_eq!(conn.run(&format!("DELEX pieces IFDEQ {digest}")), Value::Int(1));
}

#[test]
fn msetex_sets_all_or_nothing() {
    let Some((_server, mut conn)) = connect() else { return };
    let (numkeys, pairs) = ("-ERR invalid numkeys value", "-ERR wrong number of key-value pairs");
    check(
        &mut conn,
        &[
            ("MSETEX 2 a 1 b 2", ":1"),
            ("MSETEX 2 b 3 c 3 NX", ":0"),
            ("MSETEX 2 b 3 c 3 XX", ":0"),
            ("EXISTS c", ":0"),
            ("GET b", "2"),
            ("MSETEX 2 c 3 d 4 NX EXAT 33177117420", ":1"),
            ("EXPIRETIME c", ":33177117420"),
            ("EXPIRETIME d", ":33177117420"),
            ("MSETEX 2 a x c y xx keepttl", ":1"),
            ("GET a", "x"),
            ("TTL a", ":-1"),
            ("EXPIRETIME c", ":33177117420"),
            ("MSETEX 1 c z", ":1"),
            ("TTL c", ":-1"),
            ("MSETEX 3 a 1 a 2 a 3", ":1"),
            ("GET a", "3"),
            ("MSETEX 1 a v PXAT 33177117420123 XX", ":1"),
            ("PEXPIRETIME a", ":33177117420123"),
            // Whatever was there.
            ("RPUSH list x", ":1"),
            ("MSETEX 1 list v XX", ":1"),
            ("GET list", "v"),
            ("MSETEX 0 a 1", numkeys),
            ("MSETEX -1 a 1", numkeys),
            ("MSETEX x a 1", numkeys),
            ("MSETEX 9223372036854775807 a 1", numkeys),
            ("MSETEX 2147483647 a 1", pairs),
            ("MSETEX 2 a 1 b", pairs),
            ("MSETEX 2 a 1", pairs),
            ("MSETEX 1 a", "-ERR wrong number of arguments for 'msetex' command"),
            ("MSETEX 1 a 1 b 2", SYNTAX),
            ("MSETEX 1 a 1 NX XX", SYNTAX),
            ("MSETEX 1 a 1 EX", SYNTAX),
            ("MSETEX 1 a 1 EX 10 PX 10", SYNTAX),
            ("MSETEX 1 a 1 EX 10 KEEPTTL", SYNTAX),
            ("MSETEX 1 a 1 GET", SYNTAX),
            ("MSETEX 1 a 1 IFEQ 1", SYNTAX),
            ("MSETEX 1 a 1 EX 0", "-ERR invalid expire time in 'msetex' command"),
            ("MSETEX 1 a 1 PX x", "-ERR value is not an integer or out of range"),
            ("GET a", "v"),
        ],
    );
}

#[test]
fn lifetimes_of_msetex_count_from_now() {
    let Some((_server, mut conn)) = connect() else { return };
    for (line, most_ms) in [("MSETEX 2 a 1 b 2 EX 1000", 1_000_000), ("MSETEX 2 b 3 a 4 PX 70000", 70_000)] {
        assert_eq!(conn.run(line), Value::Int(1));
        for key in ["a", "b"] {
            let left = conn.run(&format!("PTTL {key}"));
            assert!(matches!(left, Value::Int(ms) if ms <= most_ms && ms > most_ms - 60_000), "{line}: {left}");
        }
    }
}

#[test]
fn msetex_of_very_many_keys_is_one_step() {
    let Some((_server, mut conn)) = connect() else { return };
    let count = 5_000;
    let mut set = argv!["MSETEX", count.to_string()];
    set.0.extend((0..count).flat_map(|n| [format!("k:{n}").into_bytes(), n.to_string().into_bytes()]));
    set.0.extend([b"NX".to_vec(), b"EXAT".to_vec(), b"33177117420".to_vec()]);
    assert_eq!(conn.call(&set), Value::Int(1));
    assert_eq!(conn.run("DBSIZE"), Value::Int(count));
    for n in [0, 1, count / 2, count - 1] {
        assert_eq!(conn.run(&format!("GET k:{n}")).text(), n.to_string());
        assert_eq!(conn.run(&format!("EXPIRETIME k:{n}")), Value::Int(33_177_117_420));
    }
    conn.run("DEL k:0");
    assert_eq!(conn.call(&set), Value::Int(0));
    assert_eq!(conn.run("EXISTS k:0"), Value::Int(0));
}

#[test]
fn an_expired_key_meets_the_conditions_of_an_absent_one() {
    let Some((_server, mut conn)) = connect() else { return };
    check(
        &mut conn,
        &[
            ("SET a v PXAT 1", OK),
            ("SET a w IFEQ v", NIL),
            ("SET b v PXAT 1", OK),
            ("SET b w IFNE v", OK),
            ("SET c v PXAT 1", OK),
            ("DELEX c IFEQ v", ":0"),
            ("SET d v PXAT 1", OK),
            ("MSETEX 2 d w e w NX", ":1"),
            ("DIGEST a", NIL),
        ],
    );
}

#[test]
fn conditional_commands_tell_their_keys() {
    let Some((_server, mut conn)) = connect() else { return };
    let keys = |conn: &mut Conn, call: &str| {
        let reply = conn.run(&format!("COMMAND GETKEYSANDFLAGS {call}"));
        let name = |entry: &Value| {
            let parts = entry.items().expect("a pair");
            let flags = parts[1].items().expect("flags").iter().map(Value::text).collect::<Vec<_>>();
            format!("{} {}", parts[0].text(), flags.join(" "))
        };
        reply.items().unwrap_or_else(|| panic!("{call}: {reply}")).iter().map(name).collect::<Vec<_>>()
    };
    assert_eq!(keys(&mut conn, "SET k v IFEQ x"), ["k RW access update"]);
    assert_eq!(keys(&mut conn, "SET k v EX 10"), ["k OW update"]);
    assert_eq!(keys(&mut conn, "DELEX k"), ["k RM delete"]);
    assert_eq!(keys(&mut conn, "DELEX k IFNE x"), ["k RW access delete"]);
    assert_eq!(keys(&mut conn, "DIGEST k"), ["k RO access"]);
    assert_eq!(keys(&mut conn, "MSETEX 2 a 1 b 2 KEEPTTL"), ["a OW update", "b OW update"]);
    for wrong in ["MSETEX 3 a 1 b 2", "MSETEX x a 1", "MSETEX 0 a 1"] {
        let reply = conn.run(&format!("COMMAND GETKEYS {wrong}"));
        assert_eq!(reply.text(), "ERR Invalid arguments specified for command", "{wrong}");
    }
}

/// Two clients that raise a counter by comparing never lose a step, on however many threads they run.
#[test]
fn compare_and_set_loses_nothing_between_threads() {
    if skips_on_stand_in() {
        return;
    }
    const STEPS: usize = 2_000;
    let server = Server::start_onrush(&["--workers", "2"]);
    server.connect().run("SET counter 0");
    std::thread::scope(|scope| {
        for by_digest in [false, true, false, true] {
            let mut conn = server.connect();
            scope.spawn(move || {
                let mut done = 0;
                while done < STEPS {
                    let old = conn.run("GET counter").text();
                    let new = (old.parse::<u64>().expect("a number") + 1).to_string();
                    let comparison = if by_digest {
                        let digest = conn.run("DIGEST counter").text();
                        // What was digested must be what was read.
                        if conn.run("GET counter").text() != old {
                            continue;
                        }
                        ["IFDEQ".to_owned(), digest]
                    } else {
                        ["IFEQ".to_owned(), old]
                    };
                    let [word, operand] = comparison;
                    done += usize::from(conn.call(&argv!["SET", "counter", new, word, operand]).text() == "OK");
                }
            });
        }
    });
    assert_eq!(server.connect().run("GET counter").text(), (4 * STEPS).to_string());
}

/// Compares random calls, over a few keys and values, with the documented behaviour.
#[test]
fn random_calls_reply_as_documented() {
    let Some((_server, mut conn)) = connect() else { return };
    const VALUES: [&str; 4] = ["", "1", "Hello world", ZEROS];
    let digests = VALUES.map(|value| {
        conn.call(&argv!["SET", "k", value]);
        conn.run("DIGEST k").text()
    });
    conn.run("FLUSHALL");
    let mut model: BTreeMap<String, usize> = BTreeMap::new();
    let mut rng = Rng::new(84);
    for _ in 0..5_000 {
        let key = format!("k{}", rng.below(3));
        let (new, operand) = (rng.below(VALUES.len()), rng.below(VALUES.len()));
        let before = model.get(&key).copied();
        let is_same = before == Some(operand);
        let (word, text, is_met) = match rng.below(4) {
            0 => ("IFEQ", VALUES[operand], is_same),
            1 => ("IFNE", VALUES[operand], !is_same),
            2 => ("IFDEQ", digests[operand].as_str(), is_same),
            _ => ("IFDNE", digests[operand].as_str(), !is_same),
        };
        let null = Value::parse(b"$-1\r\n").expect("null");
        match rng.below(3) {
            0 => {
                let deleted = is_met && model.remove(&key).is_some();
                let reply = conn.call(&argv!["DELEX", &key, word, text]);
                assert_eq!(reply, Value::Int(i64::from(deleted)), "DELEX {key} {word} {text}");
            }
            1 => {
                let reply = conn.call(&argv!["SET", &key, VALUES[new], word, text, "GET"]);
                match before {
                    Some(before) => assert_eq!(reply.text(), VALUES[before], "SET {key} {word} {text} GET"),
                    None => assert_eq!(reply, null, "SET {key} {word} {text} GET"),
                }
                is_met.then(|| model.insert(key, new));
            }
            _ => {
                let reply = conn.call(&argv!["SET", &key, VALUES[new], word, text]);
                match is_met {
                    true => assert_eq!(reply.text(), "OK", "SET {key} {word} {text}"),
                    false => assert_eq!(reply, null, "SET {key} {word} {text}"),
                }
                is_met.then(|| model.insert(key, new));
            }
        }
    }
    for at in 0..3 {
        let key = format!("k{at}");
        assert_eq!(conn.run(&format!("EXISTS {key}")), Value::Int(i64::from(model.contains_key(&key))));
    }
}
