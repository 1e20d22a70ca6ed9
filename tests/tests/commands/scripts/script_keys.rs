//! Scripts and the keys that they are given: they run beside other work as long as they keep to these keys, and alone
//! when they do not; no client sees that some are undone and begin anew.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use onrush_tests::argv;
use onrush_tests::argv::Argv;
use onrush_tests::client::Conn;
use onrush_tests::resp::Value;
use onrush_tests::server::{Server, wait_until};

fn start() -> Server {
    Server::start_onrush(&["--workers", "2", "--enable-debug-command", "yes"])
}

fn now_ms(conn: &mut Conn) -> i64 {
    let time = conn.run("TIME");
    let [seconds, us] =
        [0, 1].map(|at| time.items().expect("two numbers")[at].text().parse::<i64>().expect("a number"));
    seconds * 1000 + us / 1000
}

/// Moves an amount between two accounts and notes it in a third key. Which of the keys it is given is up to the caller.
const TRANSFER: &str =
    "redis.call('DECRBY', ARGV[1], 7) redis.call('INCRBY', ARGV[2], 7) return redis.call('INCR', 'moves')";

const ACCOUNTS: usize = 8;

fn account(number: usize) -> String {
    format!("account:{}", number % ACCOUNTS)
}

fn sum(reply: &Value) -> i64 {
    let items = reply.items().expect("an array");
    items.iter().map(|item| item.text().parse::<i64>().expect("a number")).sum()
}

/// Writers move amounts between accounts with all, some and none of the keys declared; readers see the sum unchanged.
#[test]
fn nobody_sees_half_of_a_script() {
    const OBSERVATIONS: u64 = 50_000;
    let server = start();
    let mut conn = server.connect();
    let names: Vec<String> = (0..ACCOUNTS).map(account).collect();
    for name in &names {
        conn.call(&argv!["SET", name, "1000"]);
    }
    let (seen, sent, is_over) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for writer in 0..3 {
            let (server, sent, is_over) = (&server, &sent, &is_over);
            scope.spawn(move || {
                let mut conn = server.connect();
                let mut round = writer;
                while !is_over.load(Relaxed) {
                    let batch: Vec<Argv> = (0..20)
                        .map(|at| {
                            round += 1;
                            let (from, to) = (account(round), account(round * 3 + at + 1));
                            // Another text each time, so nothing is known of it.
                            let text = format!("{TRANSFER} -- {writer} {round}");
                            match round % 3 {
                                0 => argv!["EVAL", text, "3", from, to, "moves", from, to],
                                1 => argv!["EVAL", text, "1", from, from, to],
                                _ => argv!["EVAL", text, "0", from, to],
                            }
                        })
                        .collect();
                    for reply in conn.pipeline(&batch) {
                        assert_eq!(reply.first(), Some(&b':'), "{}", String::from_utf8_lossy(&reply));
                    }
                    sent.fetch_add(batch.len() as u64, Relaxed);
                }
            });
        }
        for reader in 0..2 {
            let (server, seen, is_over, names) = (&server, &seen, &is_over, &names);
            scope.spawn(move || {
                let mut conn = server.connect();
                let mget = Argv::new(&[&["MGET".to_owned()], names.as_slice()].concat());
                let script = "return redis.call('MGET', unpack(KEYS))".to_owned();
                let head = ["EVAL".to_owned(), script, ACCOUNTS.to_string()];
                let scripted = Argv::new(&[&head, names.as_slice()].concat());
                let batch = vec![if reader == 0 { mget } else { scripted }; 50];
                while !is_over.load(Relaxed) {
                    for reply in conn.pipeline(&batch) {
                        assert_eq!(sum(&Value::parse(&reply).expect("a reply")), 8000);
                    }
                    if seen.fetch_add(batch.len() as u64, Relaxed) > OBSERVATIONS {
                        is_over.store(true, Relaxed);
                    }
                }
            });
        }
    });
    assert_eq!(conn.run("GET moves").text(), sent.load(Relaxed).to_string(), "each is executed once");
}

fn eval(conn: &mut Conn, script: &str, keys: &[&str]) -> Value {
    let count = keys.len().to_string();
    conn.call(&Argv::new(&[&["EVAL", script, &count], keys].concat()))
}

/// Data that is too large for a way back is also changed only once: small keys before it, large ones, many, and all of
/// them.
#[test]
fn what_changes_much_is_executed_once() {
    let server = start();
    let mut conn = server.connect();
    let members: Vec<String> = (0..2000).flat_map(|n| [n.to_string(), format!("m:{n}")]).collect();
    let zadd: Vec<String> = ["ZADD".to_owned(), "large".to_owned()].into_iter().chain(members).collect();
    conn.call(&Argv::new(&zadd));
    conn.call(&argv!["SET", "text", "x".repeat(100_000)]);
    for (name, script, keys) in [
        ("a large key", "redis.call('INCR', 'n') return redis.call('ZADD', 'large', 5000, 'new')", &["n", "large"][..]),
        ("undeclared", "redis.call('INCR', 'n') return redis.call('ZINCRBY', 'large', 1, 'm:1')", &["n"]),
        ("a long text", "redis.call('INCR', 'n') return redis.call('APPEND', 'text', 'y')", &["n", "text"]),
        (
            "a key renamed",
            "redis.call('INCR', 'n') redis.call('RENAME', 'large', 'l2') return redis.call('RENAME', 'l2', 'large')",
            &["n"],
        ),
        ("many keys", "redis.call('INCR', 'n') for i = 1, 1000 do redis.call('INCR', 'many:' .. i) end", &["n"]),
        (
            "many declared",
            "redis.call('INCR', KEYS[1]) for i = 1, 1000 do redis.call('INCR', KEYS[2]) end",
            &["n", "counter"],
        ),
        (
            "databases",
            "redis.call('INCR', 'n') redis.call('SELECT', 1) redis.call('INCR', 'other') redis.call('SELECT', 0)",
            &["n"],
        ),
        ("the keyspace", "redis.call('INCR', 'n') return redis.call('DBSIZE')", &["n"]),
    ] {
        conn.run("SET n 0");
        for times in 1..=3 {
            let reply = eval(&mut conn, script, keys);
            assert!(!reply.to_string().contains("ERR"), "{name}: {reply}");
            assert_eq!(conn.run("GET n").text(), times.to_string(), "{name}");
        }
    }
    assert_eq!(conn.run("ZCARD large"), Value::Int(2001));
    assert_eq!(conn.run("ZSCORE large m:1").text(), "4");
    assert_eq!(conn.run("STRLEN text"), Value::Int(100_003));
    assert_eq!((conn.run("GET many:1000").text(), conn.run("GET counter").text()), ("3".into(), "3000".into()));
    for _ in 0..2 {
        conn.run("SELECT 1");
        assert_eq!(conn.run("GET other").text(), "3");
        conn.run("SELECT 0");
        let script = "redis.call('SET', KEYS[1], 1) redis.call('FLUSHDB') return redis.call('INCR', KEYS[1])";
        assert_eq!(eval(&mut conn, script, &["n"]), Value::Int(1));
        assert_eq!(conn.run("DBSIZE"), Value::Int(1));
    }
}

/// Errors that a script catches or not, and expired keys, do not hide what was taken back.
#[test]
fn a_script_that_begins_anew_finds_what_was_there() {
    let server = start();
    let mut conn = server.connect();
    conn.run("DEBUG SET-ACTIVE-EXPIRE 0");
    let expires_ms = now_ms(&mut conn) + 5;
    conn.run(&format!("SET gone v PXAT {expires_ms}"));
    conn.run("HSET h f 1");
    conn.run("SET text abc");
    wait_until("the key is past its time", || now_ms(&mut conn) > expires_ms);
    let script = "local old = redis.call('GET', KEYS[1]) redis.call('SET', KEYS[1], 'new') \
                  redis.pcall('INCR', KEYS[3]) redis.call('HINCRBY', KEYS[2], 'f', 1) redis.call('DEL', KEYS[3]) \
                  redis.pcall('LPUSH', 'outside', KEYS[3]) \
                  return {old, redis.call('GET', KEYS[1]), redis.call('HGET', KEYS[2], 'f'), redis.call('LLEN', 'outside')}";
    let reply = eval(&mut conn, script, &["gone", "h", "text"]);
    let shown: Vec<String> = reply.items().expect("an array").iter().map(Value::to_string).collect();
    assert_eq!(reply.items().map(<[Value]>::len), Some(4), "{shown:?}");
    assert_eq!(conn.run("HGET h f").text(), "2");
    assert_eq!(conn.run("LLEN outside"), Value::Int(1));
    assert_eq!(conn.run("EXISTS text"), Value::Int(0));
    assert_eq!(conn.run("GET gone").text(), "new");
    assert_eq!(conn.run("TTL gone"), Value::Int(-1));
    // An error that is not caught leaves what came before it, as ever.
    let failing = "redis.call('INCR', KEYS[1]) redis.call('INCR', 'hidden') return redis.call('LPUSH', KEYS[1], 1)";
    assert!(eval(&mut conn, failing, &["n"]).to_string().contains("WRONGTYPE"));
    assert_eq!((conn.run("GET n").text(), conn.run("GET hidden").text()), ("1".into(), "1".into()));
}
