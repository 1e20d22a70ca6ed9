//! Keyspace events: every command's, against the oracles'.

use onrush_tests::amount::seeds;
use onrush_tests::argv;
use onrush_tests::client::Conn;
use onrush_tests::diff::{Mode, Runner};
use onrush_tests::families::{self, Family, Generator};
use onrush_tests::resp::Value;
use onrush_tests::rng::Rng;
use onrush_tests::server::{Oracle, Server};

const COMMANDS_PER_SEQUENCE: usize = 60;

/// Every class, and both channels.
const CLASSES: &str = "KEAmn";

/// The same without keys that are not found.
const CLASSES_OF_CHANGES: &str = "KEAn";

/// Random sequences of a family. Nothing expires but what is looked at: the servers would do so at different times.
fn events_of(family: &Family, classes: &str) {
    let args = [&["--enable-debug-command", "yes"], family.args].concat();
    let reset = [&["DEBUG SET-ACTIVE-EXPIRE 0"], family.reset].concat();
    let mut runners = Oracle::ALL.map(|_| None);
    for seed in seeds(240) {
        // Before 7.2 XREADGROUP made a consumer only for something to read.
        let oracle = if family.name == families::STREAMS.name { Oracle::Newer } else { family.oracle(seed) };
        let (runner, generator) = runners[oracle as usize].get_or_insert_with(|| {
            let mut runner = Runner::new(&args, &reset, oracle);
            runner.listen(classes);
            (runner, Generator::new(family, oracle))
        });
        let mut rng = Rng::new(seed);
        let sequence = generator.sequence(&mut rng, 2, COMMANDS_PER_SEQUENCE);
        let name = format!("events of {} ONRUSH_TEST_SEED={seed}", family.name);
        let mode = match seed % 4 {
            1 => Mode::Scripts,
            3 => Mode::Transactions,
            _ => Mode::Single,
        };
        runner.check(&name, &sequence, mode).unwrap_or_else(|difference| panic!("{difference}"));
    }
}

#[test]
fn events_of_strings_are_the_oracles() {
    events_of(&families::STRINGS, CLASSES);
}

#[test]
fn events_of_counters_are_the_oracles() {
    events_of(&families::COUNTERS, CLASSES);
}

#[test]
fn events_of_keys_are_the_oracles() {
    events_of(&families::KEYS, CLASSES);
}

#[test]
fn events_of_expiry_are_the_oracles() {
    events_of(&families::EXPIRY, CLASSES);
}

#[test]
fn events_of_lists_are_the_oracles() {
    events_of(&families::LISTS, CLASSES);
}

#[test]
fn events_of_hashes_are_the_oracles() {
    events_of(&families::HASHES, CLASSES);
}

#[test]
fn events_of_sets_are_the_oracles() {
    events_of(&families::SETS, CLASSES);
}

#[test]
fn events_of_sorted_sets_are_the_oracles() {
    events_of(&families::SORTED_SETS, CLASSES);
}

#[test]
fn events_of_lexical_ranges_are_the_oracles() {
    events_of(&families::LEX, CLASSES);
}

#[test]
fn events_of_streams_are_the_oracles() {
    events_of(&families::STREAMS, CLASSES_OF_CHANGES);
}

#[test]
fn events_of_bits_are_the_oracles() {
    events_of(&families::BITS, CLASSES);
}

#[test]
fn events_of_hyperloglog_are_the_oracles() {
    events_of(&families::HYPERLOGLOG, CLASSES);
}

#[test]
fn events_of_geo_are_the_oracles() {
    events_of(&families::GEO, CLASSES);
}

#[test]
fn events_of_sort_are_the_oracles() {
    events_of(&families::SORT, CLASSES_OF_CHANGES);
}

/// A client that hears events on channels that match `pattern`, of a server that tells those of some classes.
fn listener(server: &Server, classes: &str, pattern: &str) -> Conn {
    let mut conn = server.connect();
    conn.call(&argv!["CONFIG", "SET", "notify-keyspace-events", classes]);
    conn.call(&argv!["PSUBSCRIBE", pattern]);
    conn
}

/// The next event: its channel behind the prefix, and its message.
fn next(conn: &mut Conn) -> (String, String) {
    let value = Value::parse(&conn.read_reply().expect("an event")).expect("RESP");
    let items = value.items().expect("a message");
    let channel = items[2].text();
    (channel.split_once("__:").expect("an event's channel").1.to_owned(), items[3].text())
}

#[test]
fn what_expires_without_being_looked_at_is_told() {
    let server = Server::start_onrush(&[]);
    let mut listener = listener(&server, "Kxgh", "__keyspace@0__:*");
    let mut conn = server.connect();
    conn.run("PSETEX a 20 v");
    let event = |key: &str, event: &str| (key.to_owned(), event.to_owned());
    assert_eq!(next(&mut listener), event("a", "expire"));
    assert_eq!(next(&mut listener), event("a", "expired"));
    conn.run("HSET h f v");
    conn.run("HPEXPIRE h 20 FIELDS 1 f");
    for expected in ["hset", "hexpire", "hexpired", "del"] {
        assert_eq!(next(&mut listener), event("h", expected));
    }
}

#[test]
fn evicted_keys_are_told() {
    let server = Server::start_onrush(&["--maxmemory", "20mb", "--maxmemory-policy", "allkeys-random"]);
    let mut listener = listener(&server, "Ee", "__keyevent@0__:*");
    let mut conn = server.connect();
    conn.pipeline(&(0..300).map(|n| argv!["SET", format!("key:{n}"), "x".repeat(100_000)]).collect::<Vec<_>>());
    let evicted = conn.info_number("evicted_keys").expect("a number");
    assert!(evicted > 0);
    for _ in 0..evicted {
        let (event, key) = next(&mut listener);
        assert!(event == "evicted" && key.starts_with("key:"), "{event} {key}");
        assert_eq!(conn.call(&argv!["EXISTS", key]), Value::Int(0));
    }
}

#[test]
fn only_the_classes_that_are_set_are_told_on_the_channels_that_are_set() {
    let server = Server::start_onrush(&[]);
    let mut listener = listener(&server, "K$", "__key*");
    let mut conn = server.connect();
    for (classes, told) in [("K$", true), ("Kg", false), ("$", false), ("", false), ("KA", true), ("Km", false)] {
        conn.call(&argv!["CONFIG", "SET", "notify-keyspace-events", classes]);
        conn.run("SELECT 3");
        conn.run("SET a 1");
        conn.run("PUBLISH __key__:mark x");
        if told {
            assert_eq!(next(&mut listener), ("a".to_owned(), "set".to_owned()), "{classes}");
        }
        assert_eq!(next(&mut listener), ("mark".to_owned(), "x".to_owned()), "{classes}");
    }
}

#[test]
fn events_of_a_key_come_in_the_order_of_its_changes_whoever_makes_them() {
    const ROUNDS: usize = 3_000;
    let server = Server::start_onrush(&["--workers", "2", "--gather-connections", "no"]);
    let mut listener = listener(&server, "KA", "__keyspace@0__:list");
    std::thread::scope(|scope| {
        for line in [argv!["RPUSH", "list", "v"], argv!["LPOP", "list"]] {
            let server = &server;
            scope.spawn(move || {
                let mut conn = server.connect();
                (0..ROUNDS / 10).for_each(|_| drop(conn.pipeline(&vec![line.clone(); 10])));
            });
        }
        let (mut len, mut pushed) = (0, 0);
        while pushed < ROUNDS {
            match next(&mut listener).1.as_str() {
                "rpush" => (len, pushed) = (len + 1, pushed + 1),
                "lpop" => {
                    assert!(len > 0, "popped from an empty list after {pushed}");
                    len -= 1;
                    if len == 0 {
                        assert_eq!(next(&mut listener).1, "del");
                    }
                }
                other => panic!("{other}"),
            }
        }
    });
}
