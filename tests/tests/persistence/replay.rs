//! The command log is complete: executed by an empty server, it makes the same data.
//!
//! Every family of random sequences runs while the log is written, from the beginning and from the middle of a run.
//! `ONRUSH_TEST_SEED` repeats a failure, `ONRUSH_TEST_SEQUENCES` sets the amount.

use std::path::Path;
use std::time::Duration;

use onrush_tests::amount::{first_seed, seeds};
use onrush_tests::argv;
use onrush_tests::argv::Argv;
use onrush_tests::client::Conn;
use onrush_tests::diff::{Action, Step};
use onrush_tests::families::{FAMILIES, Family, Generator};
use onrush_tests::resp::Value;
use onrush_tests::rng::Rng;
use onrush_tests::server::{Oracle, Server};

const COMMANDS_PER_SEQUENCE: usize = 60;

/// Bytes of a log that are sent before replies are read.
const BATCH_BYTES: usize = 16 * 1024;

fn start(args: &[&str]) -> Server {
    Server::start_onrush(&[&["--workers", "2", "--enable-debug-command", "yes"], args].concat())
}

fn state(conn: &mut Conn) -> Value {
    conn.call(&argv!["DEBUG", "STATE-DIGEST"])
}

/// Executes what a log has; panics when the server finds something wrong with it.
fn replay(server: &Server, password: Option<&str>, path: &Path) -> Conn {
    let mut conn = server.connect();
    if let Some(password) = password {
        conn.call(&argv!["AUTH", password]);
    }
    for argv in [
        argv!["FLUSHALL"],
        argv!["FUNCTION", "FLUSH"],
        argv!["DEBUG", "SET-ACTIVE-EXPIRE", "0"],
        argv!["DEBUG", "REPLAY", "1"],
    ] {
        conn.call(&argv);
    }
    let log = std::fs::read(path).expect("a log");
    let commands = parse(&log);
    let mut rest = &commands[..];
    while !rest.is_empty() {
        let mut len = 0;
        let batch = rest.iter().take_while(|argv| {
            len += argv.0.iter().map(Vec::len).sum::<usize>();
            len <= BATCH_BYTES
        });
        let (batch, later) = rest.split_at(batch.count().max(1));
        for (argv, reply) in batch.iter().zip(conn.pipeline(batch)) {
            assert!(!reply.starts_with(b"-"), "{argv} in the log: {}", String::from_utf8_lossy(&reply));
        }
        rest = later;
    }
    conn.call(&argv!["DEBUG", "REPLAY", "0"]);
    conn
}

/// The commands of a log.
fn parse(mut log: &[u8]) -> Vec<Argv> {
    let mut commands = Vec::new();
    while !log.is_empty() {
        let args = (0..number(&mut log, b'*')).map(|_| {
            let len = number(&mut log, b'$');
            let (arg, rest) = log.split_at(len);
            log = &rest[2..];
            arg.to_vec()
        });
        commands.push(Argv(args.collect()));
    }
    commands
}

/// The number of the line that a log begins with.
fn number(log: &mut &[u8], kind: u8) -> usize {
    assert_eq!(log[0], kind, "{}", String::from_utf8_lossy(&log[..log.len().min(80)]));
    let end = log.iter().position(|&byte| byte == b'\r').expect("a line");
    let number = std::str::from_utf8(&log[1..end]).expect("digits").parse().expect("a number");
    *log = &log[end + 2..];
    number
}

/// Runs a family's sequences with the log on, then replays it.
fn check(family: &Family) {
    let password = family.args.iter().position(|arg| *arg == "--requirepass").map(|at| family.args[at + 1]);
    let (server, other) = (start(family.args), start(family.args));
    let mut generators = Oracle::ALL.map(|oracle| Generator::new(family, oracle));
    for seed in seeds(120) {
        let mut rng = Rng::new(seed);
        let oracle = family.oracle(seed);
        let sequence = generators[oracle as usize].sequence(&mut rng, 2, COMMANDS_PER_SEQUENCE);
        // From the beginning, or from somewhere on.
        let from = if seed % 2 == 0 { 0 } else { rng.below(COMMANDS_PER_SEQUENCE) };
        let path = server.dir().join(format!("{}-{seed}.log", family.name));
        let mut control = server.connect();
        if let Some(password) = password {
            control.call(&argv!["AUTH", password]);
        }
        control.call(&argv!["FLUSHALL"]);
        run(&server, &sequence.steps[..from]);
        let reply = control.call(&argv!["DEBUG", "COMMAND-LOG", "START", path.to_str().unwrap()]);
        assert_eq!(reply.text(), "OK", "{reply:?}");
        run(&server, &sequence.steps[from..]);
        control.call(&argv!["DEBUG", "COMMAND-LOG", "STOP"]);
        let same = (0..10).find_map(|_| {
            let before = state(&mut control);
            let replayed = state(&mut replay(&other, password, &path));
            // While both are looked at a key may expire.
            (before == state(&mut control)).then_some(before == replayed)
        });
        assert_eq!(same, Some(true), "{}", {
            format!("{}\n{}", told(family, seed, &sequence.steps, &path), made(&server, &other))
        });
        std::fs::remove_file(&path).unwrap();
    }
}

/// The data of both servers, as commands that make it.
fn made(server: &Server, other: &Server) -> String {
    let made = [(server, "as it is"), (other, "as replayed")].map(|(server, what)| {
        let path = server.dir().join("made.log");
        let _ = std::fs::remove_file(&path);
        let mut control = server.connect();
        control.call(&argv!["DEBUG", "COMMAND-LOG", "START", path.to_str().unwrap()]);
        control.call(&argv!["DEBUG", "COMMAND-LOG", "STOP"]);
        let mut commands: Vec<String> = parse(&std::fs::read(&path).unwrap()).iter().map(Argv::to_string).collect();
        commands.sort();
        format!("{what}:\n{}", commands.join("\n"))
    });
    made.join("\n")
}

/// What was sent and what was logged.
fn told(family: &Family, seed: u64, steps: &[Step], path: &Path) -> String {
    let sent = steps.iter().filter_map(|step| match &step.action {
        Action::Call { argv, .. } => Some(argv.to_string()),
        _ => None,
    });
    let logged = parse(&std::fs::read(path).expect("a log")).into_iter().map(|argv| argv.to_string());
    let (sent, logged): (Vec<String>, Vec<String>) = (sent.collect(), logged.collect());
    format!(
        "{} ONRUSH_TEST_SEED={seed}: the log makes other data\nsent:\n{}\n\nlogged:\n{}",
        family.name,
        sent.join("\n"),
        logged.join("\n")
    )
}

fn run(server: &Server, steps: &[Step]) {
    let mut conns: Vec<Option<Conn>> = (0..3).map(|_| None).collect();
    for step in steps {
        let Action::Call { argv, .. } = &step.action else { continue };
        let conn = conns[step.conn].get_or_insert_with(|| {
            let mut conn = server.connect();
            conn.set_timeout(Duration::from_secs(8));
            conn
        });
        if conn.try_call(argv).is_err() {
            conns[step.conn] = None;
        }
    }
}

/// What it does belongs together, and one part of it is chance.
const SCRIPT: &str =
    "redis.call('RPUSH', KEYS[1], ARGV[1]) redis.call('INCR', KEYS[2]) return redis.call('SPOP', KEYS[3])";

/// Commands whose effect depends on what others have done just before, on few keys.
fn crowded_command(rng: &mut Rng) -> Argv {
    let key = |rng: &mut Rng, kind: &str| format!("{kind}:{}", rng.below(6));
    let (list, other) = (key(rng, "list"), key(rng, "list"));
    let (string, second) = (key(rng, "string"), key(rng, "string"));
    let (set, union) = (key(rng, "set"), key(rng, "set"));
    let number = rng.below(40).to_string();
    match rng.below(21) {
        0 => argv!["INCR", key(rng, "count")],
        1 => argv!["APPEND", string, "x"],
        2 => argv!["RENAME", string, second],
        3 => argv!["COPY", string, second, "REPLACE"],
        4 => argv!["MSET", string, number, second, "y"],
        5 => argv!["RPUSH", list, number],
        6 => argv!["LMOVE", list, other, "LEFT", "RIGHT"],
        7 => argv!["RPOP", list],
        8 => argv!["BLPOP", list, other, "0.01"],
        9 => argv!["SADD", set, number],
        10 => argv!["SPOP", set],
        11 => argv!["SMOVE", set, union, number],
        12 => argv!["SUNIONSTORE", union, set, key(rng, "set")],
        13 => argv!["PEXPIRE", string, rng.below(30).to_string()],
        14 => argv!["SET", second, "z", "PX", (1 + rng.below(20)).to_string()],
        15 => argv!["RANDOMKEY"],
        16 => argv!["LCS", string, second, "LEN"],
        17 => argv!["DEL", set, string],
        19 => argv!["EVAL", SCRIPT, "3", list, key(rng, "count"), set, number],
        18 => argv!["ZINCRBY", key(rng, "sorted"), number, "m"],
        _ => argv!["XADD", key(rng, "stream"), "MAXLEN", "10", "*", "f", number],
    }
}

#[test]
fn the_order_of_many_clients_is_that_of_the_log() {
    const CLIENTS: u64 = 8;
    const BATCHES: usize = 60;
    const BATCH_LEN: usize = 100;
    let (server, other) = (start(&[]), start(&[]));
    let path = server.dir().join("crowd.log");
    let mut control = server.connect();
    let first = first_seed() * 1_000;
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let server = &server;
            scope.spawn(move || {
                let (mut conn, mut rng) = (server.connect(), Rng::new(first + client));
                for _ in 0..BATCHES {
                    let batch: Vec<Argv> = (0..BATCH_LEN).map(|_| crowded_command(&mut rng)).collect();
                    conn.pipeline(&batch);
                }
            });
        }
        // In the middle of it all.
        control.call(&argv!["DEBUG", "COMMAND-LOG", "START", path.to_str().expect("a path of UTF-8")]);
    });
    control.call(&argv!["DEBUG", "COMMAND-LOG", "STOP"]);
    let same = (0..10).find_map(|_| {
        let before = state(&mut control);
        let replayed = state(&mut replay(&other, None, &path));
        (before == state(&mut control)).then_some(before == replayed)
    });
    assert_eq!(same, Some(true), "ONRUSH_TEST_SEED={}", first / 1_000);
}

macro_rules! families {
    ($($name:ident: $family:literal;)*) => {
        $(#[test]
        fn $name() {
            check(FAMILIES.iter().find(|family| family.name == $family).expect("a family"));
        })*

        #[test]
        fn no_family_of_data_is_left_out() {
            // These change no data.
            let others = ["auth", "connection", "probes", "pubsub", "server", "timing", "tracking"];
            let tested = [$($family),*];
            for family in FAMILIES {
                assert!(tested.contains(&family.name) || others.contains(&family.name), "{}", family.name);
            }
        }
    };
}

families! {
    strings: "strings";
    counters: "counters";
    keys: "keys";
    expiry: "expiry";
    bits: "bits";
    geo: "geo";
    hashes: "hashes";
    hyperloglog: "hyperloglog";
    lists: "lists";
    sets: "sets";
    sort: "sort";
    sorted_sets: "sorted-sets";
    lex: "lex";
    streams: "streams";
    scripts: "scripts";
    transactions: "transactions";
}

/// A command of a few keys and fields whose times end while others are executed.
fn due_command(rng: &mut Rng) -> Argv {
    const CONDITIONS: [&str; 5] = ["", "NX", "XX", "GT", "LT"];
    // Most times end within some commands, others never.
    let ms = match rng.below(6) {
        0 => rng.below(3) as i64 - 1,
        1..4 => 1 + rng.below(8) as i64,
        4 => 40 + rng.below(10) as i64,
        _ => 1_000_000 + rng.below(3) as i64,
    };
    let (key, other) = (format!("string:{}", rng.below(3)), format!("string:{}", rng.below(3)));
    let (hash, copy) = (format!("hash:{}", rng.below(2)), format!("hash:{}", rng.below(2)));
    let (field, second) = (format!("f{}", rng.below(3)), format!("f{}", rng.below(3)));
    let condition = CONDITIONS[rng.below(CONDITIONS.len())];
    let at = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a clock").as_millis() as i64;
    let line = match rng.below(24) {
        0 => format!("SET {key} v PX {}", ms.max(1)),
        1 => format!("SET {key} w KEEPTTL"),
        2 => format!("SET {key} 5"),
        3 => format!("INCR {key}"),
        4 => format!("APPEND {key} x"),
        5 => format!("GETEX {key} PX {}", ms.max(1)),
        6 => format!("GETEX {key} PERSIST"),
        7 | 8 => format!("PEXPIRE {} {ms} {condition}", if rng.below(2) == 0 { &key } else { &hash }),
        9 => format!("PEXPIREAT {hash} {} {condition}", at + ms),
        10 => format!("PERSIST {}", if rng.below(2) == 0 { &key } else { &hash }),
        11 => format!("RENAME {key} {other}"),
        12 => format!("COPY {hash} {copy} REPLACE"),
        13..15 => format!("HSET {hash} {field} 1 {second} 2"),
        15 => format!("HSETNX {hash} {field} 3"),
        16 => format!("HINCRBY {hash} {field} 1"),
        17 | 18 => format!("HPEXPIRE {hash} {ms} {condition} FIELDS 2 {field} {second}"),
        19 => format!("HPEXPIREAT {hash} {} {condition} FIELDS 1 {field}", at + ms),
        20 => format!("HPERSIST {hash} FIELDS 1 {field}"),
        21 => format!("HSETEX {hash} {} PX {} FIELDS 1 {field} 7", ["", "FNX", "FXX"][rng.below(3)], ms.max(1)),
        22 => format!("HGETEX {hash} PX {} FIELDS 1 {field}", ms.max(1)),
        _ => format!("HDEL {hash} {field}"),
    };
    Argv::new(&line.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>())
}

#[test]
fn times_that_end_meanwhile_are_replayed_as_they_were() {
    let (server, other) = (start(&[]), start(&[]));
    for seed in seeds(80) {
        let mut rng = Rng::new(seed);
        let mut conn = server.connect();
        let path = server.dir().join(format!("times-{seed}.log"));
        // What is due stays until a command finds it, or goes by itself.
        let expires = (seed % 2).to_string();
        for argv in [
            argv!["FLUSHALL"],
            argv!["DEBUG", "SET-ACTIVE-EXPIRE", expires.as_str()],
            argv!["DEBUG", "COMMAND-LOG", "START", path.to_str().unwrap()],
        ] {
            assert_eq!(conn.call(&argv).text(), "OK", "{argv}");
        }
        let mut sent = Vec::new();
        for _ in 0..COMMANDS_PER_SEQUENCE {
            let argv = due_command(&mut rng);
            let is_transaction = rng.below(8) == 0;
            if is_transaction {
                conn.call(&argv!["MULTI"]);
                conn.call(&argv);
                sent.push(argv);
                let argv = due_command(&mut rng);
                conn.call(&argv);
                sent.push(argv);
                conn.call(&argv!["EXEC"]);
            } else {
                let reply = conn.call(&argv);
                assert!(!reply.text().contains("syntax") && !reply.text().contains("wrong number"), "{argv}: {reply}");
                sent.push(argv);
            }
            if rng.below(3) == 0 {
                std::thread::sleep(Duration::from_millis(1 + rng.below(3) as u64));
            }
        }
        // What is due by now goes when a command finds it, and nothing more is due for a long time.
        std::thread::sleep(Duration::from_millis(60));
        for number in 0..3 {
            conn.call(&Argv::new(&["EXISTS".to_owned(), format!("string:{number}")]));
            conn.call(&Argv::new(&["HLEN".to_owned(), format!("hash:{number}")]));
        }
        conn.call(&argv!["DEBUG", "COMMAND-LOG", "STOP"]);
        let same = state(&mut conn) == state(&mut replay(&other, None, &path));
        let lines = |commands: &[Argv]| commands.iter().map(Argv::to_string).collect::<Vec<_>>().join("\n");
        let logged = parse(&std::fs::read(&path).expect("a log"));
        assert!(
            same,
            "ONRUSH_TEST_SEED={seed}\nsent:\n{}\n\nlogged:\n{}\n\n{}",
            lines(&sent),
            lines(&logged),
            made(&server, &other)
        );
        std::fs::remove_file(&path).unwrap();
    }
}
