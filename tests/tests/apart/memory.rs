//! Memory comes back when the work is over, and is not taken before there is work. Run with `--test-threads=1`: the
//! larger ones need some hundred megabytes each.

use std::time::{Duration, Instant};

use onrush_tests::argv;
use onrush_tests::argv::Argv;
use onrush_tests::client::Conn;
use onrush_tests::resp::Value;
use onrush_tests::server::{Server, is_stand_in, skips_on_stand_in, wait_until};

const MB: i64 = 1024 * 1024;

/// What the server says it uses, and what the system says, in bytes.
fn used(conn: &mut Conn) -> i64 {
    conn.info_number("used_memory").expect("used_memory in INFO")
}

fn resident(server: &Server) -> i64 {
    server.rss_kb() as i64 * 1024
}

/// Waits until the server is back within `allowance` bytes of what it used, and had resident, before.
fn wait_for_return(server: &Server, conn: &mut Conn, what: &str, before: (i64, i64), allowance: i64) {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let more = [used(conn) - before.0, resident(server) - before.1];
        if more.iter().all(|bytes| *bytes < allowance) {
            println!("{what}: {} KB more in use, {} KB more resident", more[0] / 1024, more[1] / 1024);
            return;
        }
        assert!(Instant::now() < deadline, "{what}: still {} bytes more in use, {} more resident", more[0], more[1]);
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A server and a connection to it, and what it uses before anything happens.
fn start(workers: &str) -> (Server, Conn, (i64, i64)) {
    let server = Server::start_onrush(&["--workers", workers]);
    let mut conn = server.connect();
    // What is made on first use is there from now on.
    for db in 0..2 {
        conn.run(&format!("SELECT {db}"));
        conn.pipeline(&(0..1000).map(|n| argv!["SET", n.to_string(), "v"]).collect::<Vec<_>>());
    }
    conn.run("FLUSHALL");
    conn.run("SELECT 0");
    let before = (used(&mut conn), resident(&server));
    (server, conn, before)
}

/// Hashes with long keys and fields that expire in a hundred years.
fn timed_hashes(conn: &mut Conn, count: usize) -> Vec<String> {
    let keys: Vec<String> = (0..count).map(|n| format!("{n}:{}", "k".repeat(10_000))).collect();
    let sets = keys.iter().map(|key| argv!["HSET", key, "f", "v", "g", "w"]);
    let times = keys.iter().map(|key| argv!["HEXPIRE", key, "3000000000", "FIELDS", "1", "f"]);
    for reply in conn.pipeline(&sets.chain(times).collect::<Vec<_>>()) {
        assert!(matches!(reply[0], b':' | b'*'), "{}", String::from_utf8_lossy(&reply));
    }
    keys
}

#[test]
fn a_hash_with_timed_fields_leaves_nothing_behind_however_it_goes() {
    const COUNT: usize = 2_000;
    if skips_on_stand_in() {
        return;
    }
    let (server, mut conn, before) = start("2");
    let each = |conn: &mut Conn, keys: &[String], make: &dyn Fn(&String) -> Argv| {
        conn.pipeline(&keys.iter().map(make).collect::<Vec<_>>());
    };
    type Way<'a> = (&'a str, Box<dyn Fn(&mut Conn, &[String]) + 'a>);
    let ways: Vec<Way<'_>> = vec![
        ("DEL", Box::new(|conn, keys| each(conn, keys, &|key| argv!["DEL", key]))),
        ("UNLINK", Box::new(|conn, keys| each(conn, keys, &|key| argv!["UNLINK", key]))),
        ("HDEL", Box::new(|conn, keys| each(conn, keys, &|key| argv!["HDEL", key, "f", "g"]))),
        (
            "SET",
            Box::new(|conn, keys| {
                each(conn, keys, &|key| argv!["SET", key, "v"]);
                each(conn, keys, &|key| argv!["DEL", key]);
            }),
        ),
        ("expiry", Box::new(|conn, keys| each(conn, keys, &|key| argv!["PEXPIRE", key, "1"]))),
        (
            "RENAME",
            Box::new(|conn, keys| {
                each(conn, keys, &|key| argv!["RENAME", key, "target"]);
                conn.run("DEL target");
            }),
        ),
        (
            "MOVE",
            Box::new(|conn, keys| {
                each(conn, keys, &|key| argv!["MOVE", key, "1"]);
                conn.run("SELECT 1");
                each(conn, keys, &|key| argv!["DEL", key]);
                conn.run("SELECT 0");
            }),
        ),
        (
            "COPY",
            Box::new(|conn, keys| {
                each(conn, keys, &|key| argv!["COPY", key, format!("{key}:copy")]);
                each(conn, keys, &|key| argv!["DEL", key, format!("{key}:copy")]);
            }),
        ),
        ("FLUSHDB", Box::new(|conn, _| drop(conn.run("FLUSHDB")))),
        ("FLUSHALL", Box::new(|conn, _| drop(conn.run("FLUSHALL")))),
        ("FLUSHALL ASYNC", Box::new(|conn, _| drop(conn.run("FLUSHALL ASYNC")))),
        (
            "SWAPDB",
            Box::new(|conn, keys| {
                conn.run("SWAPDB 0 1");
                conn.run("SELECT 1");
                each(conn, keys, &|key| argv!["DEL", key]);
                conn.run("SELECT 0");
            }),
        ),
    ];
    for (name, go) in &ways {
        let keys = timed_hashes(&mut conn, COUNT);
        assert_eq!(conn.run("DBSIZE"), Value::Int(COUNT as i64));
        assert!(used(&mut conn) - before.0 > COUNT as i64 * 10_000, "{name}");
        go(&mut conn, &keys);
        wait_until("no key is left", || conn.run("DBSIZE") == Value::Int(0));
        wait_for_return(&server, &mut conn, name, before, 8 * MB);
    }
}

#[test]
fn fields_expire_by_themselves_wherever_their_hash_went() {
    if skips_on_stand_in() {
        return;
    }
    let (_server, mut conn, _) = start("2");
    for (went, db) in [
        ("PING", 0),
        ("RENAME h other", 0),
        ("MOVE h 1", 1),
        ("COPY h copy", 0),
        ("COPY h copy DB 1", 0),
        ("SWAPDB 0 1", 1),
        ("PERSIST h", 0),
        ("HSET h g v", 0),
    ] {
        conn.run("HSET h f v");
        assert_eq!(conn.run("HPEXPIRE h 200 FIELDS 1 f").items(), Some(&[Value::Int(1)][..]));
        conn.run(went);
        conn.run("HPEXPIRE h 200 FIELDS 1 g");
        conn.run(&format!("SELECT {db}"));
        assert_ne!(conn.run("DBSIZE"), Value::Int(0), "{went}");
        // DBSIZE looks at no key.
        wait_until(went, || conn.run("DBSIZE") == Value::Int(0));
        conn.run("SELECT 1");
        wait_until(went, || conn.run("DBSIZE") == Value::Int(0));
        conn.run("SELECT 0");
    }
}

/// A command on `count` keys, each followed by `behind`.
fn on_keys(name: &str, count: usize, behind: &[&str]) -> Vec<u8> {
    let mut out = format!("*{}\r\n${}\r\n{name}\r\n", 1 + count * (1 + behind.len()), name.len()).into_bytes();
    for n in 0..count {
        let key = format!("key:{n:012}");
        for arg in std::iter::once(key.as_str()).chain(behind.iter().copied()) {
            out.extend_from_slice(format!("${}\r\n{arg}\r\n", arg.len()).as_bytes());
        }
    }
    out
}

#[test]
#[ignore = "nightly: a million keys take half a minute"]
fn commands_on_a_million_keys_leave_nothing_behind() {
    const COUNT: usize = 1_000_000;
    for workers in ["1", "2"] {
        let (server, mut conn, before) = start(workers);
        let mut busy = server.connect();
        for (name, behind) in [("MSET", &["v"][..]), ("MGET", &[]), ("EXISTS", &[]), ("DEL", &[])] {
            let command = on_keys(name, COUNT, behind);
            let mut writer = busy.writer().expect("a second handle");
            std::thread::scope(|scope| {
                scope.spawn(|| writer.send(&command).expect("taken"));
                let reply = busy.read_reply().expect("a reply");
                assert!(!reply.starts_with(b"-"), "{name}");
            });
        }
        assert_eq!(conn.run("DBSIZE"), Value::Int(0));
        wait_for_return(&server, &mut conn, &format!("a million keys, {workers} workers"), before, 8 * MB);
        drop(busy);
    }
}

#[test]
fn pipelines_of_commands_with_many_arguments_leave_nothing_behind() {
    let (server, mut conn, before) = start("2");
    let mut busy: Vec<Conn> = (0..20).map(|_| server.connect()).collect();
    for conn in &mut busy {
        let commands = [on_keys("MSET", 20_000, &["v"]), on_keys("MGET", 20_000, &[])].concat().repeat(3);
        let mut writer = conn.writer().expect("a second handle");
        std::thread::scope(|scope| {
            scope.spawn(|| writer.send(&commands).expect("taken"));
            (0..6).for_each(|_| drop(conn.read_reply().expect("a reply")));
        });
    }
    conn.run("FLUSHALL");
    wait_for_return(&server, &mut conn, "pipelines of MSET and MGET", before, 8 * MB);
    drop(busy);
}

#[test]
fn an_announcement_takes_no_memory() {
    let (server, mut conn, before) = start("2");
    // Enough in use that the system may back memory with huge pages.
    conn.call(&argv!["SETRANGE", "ballast", "33554431", "x"]);
    for announcement in
        ["*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$536870912\r\n", "*1000000\r\n", "*2147483647\r\n$4\r\nMSET\r\n"]
    {
        let mut crowd: Vec<Conn> = (0..100).map(|_| server.connect()).collect();
        for conn in &mut crowd {
            conn.send(announcement.as_bytes()).expect("taken");
        }
        wait_until("all is read", || {
            let input = conn.run("CLIENT LIST").text();
            input.lines().filter(|line| line.contains("cmd=NULL")).count() >= crowd.len()
        });
        let used = used(&mut conn) - before.0 - 32 * MB;
        let resident = resident(&server) - before.1 - 32 * MB;
        println!("{announcement:?}: {used} bytes in use, {resident} resident");
        assert!(is_stand_in() || used < 20 * MB, "{announcement:?}: {used} bytes in use");
        assert!(resident < 20 * MB, "{announcement:?}: {resident} bytes resident");
    }
}

#[test]
fn a_large_argument_takes_memory_as_it_comes() {
    const LEN: usize = 100 * 1024 * 1024 + 77;
    if skips_on_stand_in() {
        return;
    }
    let (server, mut conn, before) = start("2");
    let value: Vec<u8> =
        (0..LEN / 8 + 1).flat_map(|n| (n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()).collect();
    let value = &value[..LEN];
    let mut sender = server.connect();
    sender.send(format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${LEN}\r\n").as_bytes()).expect("taken");
    let mut sent = 0;
    for step in [1_000, 1_000_000, 10_000_000] {
        sender.send(&value[sent..sent + step]).expect("taken");
        sent += step;
        wait_until("it is read", || {
            let list = conn.run("CLIENT LIST").text();
            list.lines()
                .any(|line| line.contains(&format!("qbuf={}", sent + 6)) || line.contains(&format!("qbuf={sent}")))
                || used(&mut conn) - before.0 > sent as i64
        });
        let taken = used(&mut conn) - before.0;
        assert!(taken < 4 * sent as i64 + MB, "{taken} bytes for {sent}");
    }
    sender.send(&value[sent..]).expect("taken");
    sender.send(b"\r\n").expect("taken");
    assert_eq!(sender.read_reply().expect("a reply"), b"+OK\r\n");
    let taken = used(&mut conn) - before.0;
    assert!((LEN as i64..LEN as i64 + 2 * MB).contains(&taken), "{taken} bytes for {LEN}");
    assert_eq!(conn.run("GET k").bytes(), Some(value));
    // One that never comes to its end is given back with its connection.
    sender.send(format!("*3\r\n$3\r\nSET\r\n$1\r\nl\r\n${LEN}\r\n").as_bytes()).expect("taken");
    sender.send(&value[..LEN / 2]).expect("taken");
    drop(sender);
    conn.run("DEL k");
    wait_for_return(&server, &mut conn, "a large argument", before, 8 * MB);
}

#[test]
fn clients_that_wait_take_little() {
    if skips_on_stand_in() {
        return;
    }
    let (server, mut conn, before) = start("2");
    let mut crowd: Vec<Conn> = (0..200).map(|_| server.connect()).collect();
    for conn in &mut crowd {
        conn.send(b"BLPOP nothing 0\r\n").expect("taken");
    }
    wait_until("all wait", || conn.info_number("blocked_clients") == Some(200));
    let input = |conn: &mut Conn| conn.info_number("total_net_input_bytes").expect("a number");
    let (first, second) = (input(&mut conn), input(&mut conn));
    for conn in &mut crowd {
        conn.send(b"PING\r\n").expect("taken");
    }
    let mut own = second - first;
    wait_until("all has arrived", || {
        own += second - first;
        input(&mut conn) - first - own >= 200 * 6
    });
    let each = (used(&mut conn) - before.0) / 200;
    println!("{each} bytes for each client that waits");
    assert!(each < 64 * 1024, "{each} bytes for each client that waits");
}

#[test]
fn replies_nobody_reads_go_with_their_connections() {
    let (server, mut conn, before) = start("2");
    conn.call(&argv!["SET", "k", "v".repeat(10_000)]);
    let batch = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n".repeat(20_000);
    for _ in 0..3 {
        let mut crowd: Vec<Conn> = (0..50).map(|_| server.connect()).collect();
        for conn in &mut crowd {
            conn.set_nonblocking(true);
            let _ = conn.send_some(&batch);
        }
        wait_until("replies wait", || used(&mut conn) - before.0 > 20 * MB);
    }
    wait_for_return(&server, &mut conn, "replies nobody reads", before, 12 * MB);
}

#[test]
fn connections_that_come_and_go_leave_nothing_behind() {
    let (server, mut conn, before) = start("2");
    for _ in 0..5 {
        let mut crowd: Vec<Conn> = (0..1_000).map(|_| server.connect()).collect();
        for (n, conn) in crowd.iter_mut().enumerate() {
            conn.send(format!("CLIENT SETNAME {}\r\nGET {n}\r\n", "n".repeat(10_000)).as_bytes()).expect("taken");
        }
        for conn in &mut crowd {
            assert_eq!(conn.read_reply().expect("a reply"), b"+OK\r\n");
        }
    }
    wait_for_return(&server, &mut conn, "5,000 connections", before, 12 * MB);
}

#[test]
fn clients_that_go_while_they_wait_leave_nothing_behind() {
    let (server, mut conn, before) = start("2");
    for round in 0..5 {
        let mut crowd: Vec<Conn> = (0..500).map(|_| server.connect()).collect();
        for (n, conn) in crowd.iter_mut().enumerate() {
            let key = format!("{round}:{n}:{}", "k".repeat(10_000));
            conn.send_command(&argv!["BLPOP", key, "0"]).expect("taken");
        }
        wait_until("all wait", || conn.info_number("blocked_clients") == Some(500));
        drop(crowd);
        wait_until("all are gone", || conn.info_number("connected_clients") == Some(1));
    }
    wait_for_return(&server, &mut conn, "2,500 clients that waited", before, 8 * MB);
}
