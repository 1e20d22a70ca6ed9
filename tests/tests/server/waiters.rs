//! Clients that wait for keys, in numbers, and those that vanish meanwhile.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use onrush_tests::argv;
use onrush_tests::argv::Argv;
use onrush_tests::client::Conn;
use onrush_tests::latency::{Latencies, holds_once};
use onrush_tests::process;
use onrush_tests::resp::Value;
use onrush_tests::server::{Server, wait_until};

const WORKERS: [&str; 2] = ["1", "2"];

/// How often a race is tried.
const TRIES: usize = 60;

fn until_waiting(conn: &mut Conn, count: usize) {
    wait_until("clients wait", || conn.info_number("blocked_clients") == Some(count as i64));
}

fn encoded(commands: &[Argv]) -> Vec<u8> {
    let mut bytes = Vec::new();
    commands.iter().for_each(|command| command.encode(&mut bytes));
    bytes
}

/// A client that waits for the list `q`, and its id.
fn waiting(server: &Server, watcher: &mut Conn, command: &Argv) -> (Conn, String) {
    let mut conn = server.connect();
    let Value::Int(id) = conn.call(&argv!["CLIENT", "ID"]) else { panic!("an id") };
    let id = id.to_string();
    conn.send_command(command).expect("a connection");
    until_waiting(watcher, 1);
    (conn, id)
}

#[test]
fn nothing_is_popped_for_a_client_that_was_killed_before_the_push() {
    for workers in WORKERS {
        let server = Server::start_onrush(&["--workers", workers]);
        let mut pusher = server.connect();
        for (nth, command) in
            ["BLPOP q 0", "BLMOVE q to LEFT LEFT 0", "BLMPOP 0 1 q LEFT"].iter().cycle().take(TRIES).enumerate()
        {
            let (_conn, id) = waiting(&server, &mut pusher, &Argv::parse(command).expect("words"));
            let kill = argv!["CLIENT", "KILL", "ID", &id];
            if nth % 2 == 0 {
                assert_eq!(pusher.pipeline(&[kill, argv!["LPUSH", "q", "v"]]), [b":1\r\n", b":1\r\n"]);
            } else {
                assert_eq!(pusher.call(&kill), Value::Int(1));
                assert_eq!(pusher.call(&argv!["LPUSH", "q", "v"]), Value::Int(1));
            }
            assert_eq!(pusher.call(&argv!["LPOP", "q"]).text(), "v", "try {nth}, {workers} workers");
            until_waiting(&mut pusher, 0);
        }
    }
}

#[test]
fn nothing_is_popped_for_a_client_that_closed_its_socket_before_the_push() {
    for workers in WORKERS {
        let server = Server::start_onrush(&["--workers", workers]);
        let mut pusher = server.connect();
        for nth in 0..TRIES {
            let (conn, _) = waiting(&server, &mut pusher, &argv!["BRPOP", "q", "0"]);
            conn.close();
            assert_eq!(pusher.call(&argv!["RPUSH", "q", "v"]), Value::Int(1));
            assert_eq!(pusher.call(&argv!["RPOP", "q"]).text(), "v", "try {nth}, {workers} workers");
            until_waiting(&mut pusher, 0);
        }
    }
}

#[test]
fn the_next_in_line_gets_what_a_vanished_client_waited_for() {
    let server = Server::start_onrush(&[]);
    let mut pusher = server.connect();
    let (gone, _) = waiting(&server, &mut pusher, &argv!["BLPOP", "q", "0"]);
    let mut next = server.connect();
    next.send_command(&argv!["BLPOP", "q", "0"]).expect("a connection");
    until_waiting(&mut pusher, 2);
    gone.close();
    assert_eq!(pusher.call(&argv!["LPUSH", "q", "v"]), Value::Int(1));
    assert_eq!(next.read_reply().expect("a reply"), b"*2\r\n$1\r\nq\r\n$1\r\nv\r\n");
}

/// The longest PING of others while `work` runs.
fn longest_of_others(server: &Server, work: impl FnOnce()) -> Duration {
    let done = AtomicBool::new(false);
    let mut conns: Vec<Conn> = (0..3).map(|_| server.connect()).collect();
    struct Ends<'a>(&'a AtomicBool);
    impl Drop for Ends<'_> {
        fn drop(&mut self) {
            self.0.store(true, Relaxed);
        }
    }
    std::thread::scope(|scope| {
        // Also when the work fails.
        let ends = Ends(&done);
        let measuring: Vec<_> = conns
            .iter_mut()
            .map(|conn| scope.spawn(|| Latencies::measure(conn, &argv!["PING"], |_| !done.load(Relaxed))))
            .collect();
        work();
        drop(ends);
        measuring.into_iter().map(|measured| measured.join().expect("measured").quantile(1000)).max().expect("some")
    })
}

#[test]
fn waiting_for_very_many_keys_holds_nobody_up() {
    const KEYS: usize = 100_000;
    let server = Server::start_onrush(&["--workers", "2"]);
    let mut command = argv!["BLPOP"];
    command.0.extend((0..KEYS).map(|n| format!("missing:{n}").into_bytes()));
    command.0.push(b"0".to_vec());
    // A key that is named twice is waited for once.
    command.0[1] = b"missing:7".to_vec();
    let longest = longest_of_others(&server, || {
        let (mut conn, mut pusher) = (server.connect(), server.connect());
        conn.send_command(&command).expect("taken");
        until_waiting(&mut pusher, 1);
        wait_until("all keys are waited for", || pusher.info_number("total_blocking_keys") == Some(KEYS as i64 - 1));
        pusher.call(&argv!["LPUSH", format!("missing:{}", KEYS - 1), "v"]);
        assert!(conn.read_reply().expect("a reply").ends_with(b"$1\r\nv\r\n"));
        conn.send_command(&command).expect("taken");
        until_waiting(&mut pusher, 1);
        drop(conn);
        until_waiting(&mut pusher, 0);
        wait_until("no key is waited for", || pusher.info_number("total_blocking_keys") == Some(0));
    });
    // It took 15 s when keys were compared each with each.
    assert!(longest < Duration::from_secs(1), "others waited {longest:?}");
}

#[test]
fn a_push_costs_the_same_however_many_wait_behind_the_first() {
    const WAITERS: usize = 2_000;
    const PUSHES: usize = 1_000;
    let server = Server::start_onrush(&["--workers", "2"]);
    let mut pusher = server.connect();
    let mut conns: Vec<Conn> = (0..WAITERS).map(|_| server.connect()).collect();
    for conn in &mut conns {
        conn.send_command(&argv!["BLPOP", "q", "0"]).expect("a connection");
    }
    until_waiting(&mut pusher, WAITERS);
    let before = server.cpu_time();
    for _ in 0..PUSHES {
        pusher.call(&argv!["LPUSH", "q", "v"]);
    }
    let spent = server.cpu_time() - before;
    // Some .03 s; 1.3 s when each push looked at all waiters.
    assert!(spent < Duration::from_millis(400), "{PUSHES} pushes took {spent:?} of CPU");
    until_waiting(&mut pusher, WAITERS - PUSHES);
    let longest = longest_of_others(&server, || {
        drop(std::mem::take(&mut conns));
        until_waiting(&mut pusher, 0);
    });
    assert!(longest < Duration::from_secs(1), "others waited {longest:?} while {WAITERS} clients left");
}

/// A list for which `waiting` of the connections wait. Each push serves one of them, and another one takes its place.
struct Crowd {
    server: Server,
    pusher: Conn,
    conns: Vec<Conn>,
    waiting: usize,
    pushes: usize,
}

impl Crowd {
    fn new(conns: usize, waiting: usize) -> Crowd {
        let server = Server::start_onrush(&["--workers", "1"]);
        let mut pusher = server.connect();
        let mut conns: Vec<Conn> = (0..conns).map(|_| server.connect()).collect();
        for conn in &mut conns[..waiting] {
            conn.send_command(&argv!["BLPOP", "q", "0"]).expect("a connection");
        }
        until_waiting(&mut pusher, waiting);
        Crowd { server, pusher, conns, waiting, pushes: 0 }
    }

    /// CPU time of `count` pushes.
    fn push(&mut self, count: usize) -> Duration {
        let before = process::exact_cpu_time(self.server.pid());
        for nth in self.pushes..self.pushes + count {
            let len = self.conns.len();
            self.pusher.call(&argv!["LPUSH", "q", "v"]);
            self.conns[nth % len].read_reply().expect("served");
            let next = &mut self.conns[(nth + self.waiting) % len];
            next.send(&encoded(&[argv!["PING"], argv!["BLPOP", "q", "0"]])).expect("a connection");
            // It waits once this reply is there, behind those that are to be served before.
            next.read_reply().expect("a reply");
        }
        self.pushes += count;
        process::exact_cpu_time(self.server.pid()) - before
    }
}

#[test]
fn a_push_costs_the_same_whether_one_waits_or_thousands() {
    const CONNS: usize = 2_000;
    const PUSHES: usize = 400;
    let (mut few, mut many) = (Crowd::new(CONNS, 1), Crowd::new(CONNS, CONNS));
    holds_once(|| {
        let (mut one, mut all) = (Duration::MAX, Duration::MAX);
        // In turns, so that what else the machine does meets both.
        for _ in 0..5 {
            one = one.min(few.push(PUSHES));
            all = all.min(many.push(PUSHES));
        }
        let fits = all < one.mul_f64(1.2);
        if fits { Ok(()) } else { Err(format!("{PUSHES} pushes: {all:?} with {CONNS} waiting, {one:?} with one")) }
    });
    assert_eq!(many.pusher.info_number("blocked_clients"), Some(CONNS as i64));
}

#[test]
fn an_error_ends_the_waiting_as_it_would_have_come_at_once() {
    let server = Server::start_onrush(&[]);
    let mut pusher = server.connect();
    pusher.run("SET to text");
    let (mut conn, _) = waiting(&server, &mut pusher, &argv!["BLMOVE", "q", "to", "LEFT", "LEFT", "0"]);
    assert_eq!(pusher.call(&argv!["LPUSH", "q", "v"]), Value::Int(1));
    assert!(conn.read_reply().expect("an error").starts_with(b"-WRONGTYPE "));
    assert_eq!(pusher.call(&argv!["LLEN", "q"]), Value::Int(1));
}

#[test]
fn who_waits_or_sends_is_not_idle() {
    let server = Server::start_onrush(&["--timeout", "1"]);
    let (mut waits, mut sends, mut idle) = (server.connect(), server.connect(), server.connect());
    waits.send_command(&argv!["BLPOP", "q", "0"]).expect("a connection");
    let value = vec![b'x'; 300_000];
    let bytes = encoded(&[argv!["SET", "key", value.clone()]]);
    let (head, tail) = bytes.split_at(bytes.len() - 1_000);
    sends.send(head).expect("taken");
    // A command that takes 2.5 s to arrive, some bytes at a time.
    let started = Instant::now();
    for piece in tail.chunks(20) {
        sends.send(piece).expect("the connection stays open");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(started.elapsed() > Duration::from_millis(2_200));
    assert_eq!(sends.read_reply().expect("stored"), b"+OK\r\n");
    assert!(idle.read_to_close().expect("closed").is_empty());
    let mut pusher = server.connect();
    assert_eq!(pusher.call(&argv!["LPUSH", "q", "v"]), Value::Int(1));
    assert_eq!(waits.read_reply().expect("served"), b"*2\r\n$1\r\nq\r\n$1\r\nv\r\n");
}

#[test]
fn readers_of_a_group_cost_each_other_nothing() {
    const READERS: usize = 1_000;
    let server = Server::start_onrush(&["--workers", "2"]);
    let mut conn = server.connect();
    for group in ["one", "two"] {
        conn.call(&argv!["XGROUP", "CREATE", "s", group, "$", "MKSTREAM"]);
    }
    let before = server.cpu_time();
    let mut readers: Vec<Conn> = (0..READERS).map(|_| server.connect()).collect();
    for (nth, reader) in readers.iter_mut().enumerate() {
        let consumer = format!("c{nth}");
        // The group need not come first.
        let command =
            argv!["XREADGROUP", "BLOCK", "0", "GROUP", ["one", "two"][nth % 2], consumer, "STREAMS", "s", ">"];
        reader.send_command(&command).expect("a connection");
    }
    until_waiting(&mut conn, READERS);
    for left in (0..READERS / 2).rev() {
        conn.call(&argv!["XADD", "s", "*", "f", "v"]);
        until_waiting(&mut conn, left * 2);
    }
    let spent = server.cpu_time() - before;
    // Each reader that came looked at all others, and each entry as well.
    assert!(spent < Duration::from_millis(1_500), "{READERS} readers took {spent:?} of CPU");
}
