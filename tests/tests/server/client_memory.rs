//! `maxmemory-clients`: the clients that hold most memory are disconnected when all hold too much.

use onrush_tests::argv;
use onrush_tests::argv::Argv;
use onrush_tests::client::Conn;
use onrush_tests::server::{Server, wait_until};

const LIMIT: i64 = 4 << 20;

fn start() -> Server {
    Server::start_onrush(&["--maxmemory-clients", "4mb", "--workers", "2"])
}

/// A client that has sent the beginning of a command with `len` bytes.
fn holding(server: &Server, len: usize) -> Conn {
    let mut conn = server.connect();
    let begin = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n", 100 << 20);
    let sent = conn.send(&[begin.as_bytes(), &vec![b'x'; len]].concat());
    // It may be disconnected already.
    let _ = sent;
    conn
}

fn evicted(admin: &mut Conn) -> i64 {
    admin.info_number("evicted_clients").expect("a field")
}

fn is_open(conn: &mut Conn) -> bool {
    conn.try_call(&argv!["PING"]).is_ok()
}

#[test]
fn the_largest_client_goes_and_the_others_stay() {
    let server = start();
    let mut admin = server.connect();
    let mut others: Vec<Conn> = (0..10).map(|_| server.connect()).collect();
    let small = holding(&server, 100 << 10);
    let large = holding(&server, 8 << 20);
    wait_until("it is evicted", || evicted(&mut admin) == 1);
    assert!(others.iter_mut().all(is_open));
    assert_eq!(admin.info_number("connected_clients"), Some(12));
    assert!(admin.info_number("mem_clients_normal").expect("a field") < LIMIT);
    server.expect_log("Evicting client: id=");
    drop((small, large));
    assert_eq!(admin.run("CONFIG RESETSTAT").text(), "OK");
    assert_eq!(evicted(&mut admin), 0);
}

#[test]
fn a_client_that_must_not_be_evicted_stays() {
    let server = start();
    let mut admin = server.connect();
    let mut spared = server.connect();
    assert_eq!(spared.run("CLIENT NO-EVICT ON").text(), "OK");
    spared.send(format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n", 6 << 20).as_bytes()).expect("sent");
    spared.send(&vec![b'x'; 6 << 20]).expect("sent");
    // What is left to others is nothing: they go, largest first, and the spared one is answered.
    spared.send(b"\r\n").expect("sent");
    assert_eq!(spared.read_reply().expect("a reply"), b"+OK\r\n");
    assert!(is_open(&mut spared));
    let _ = is_open(&mut admin);
}

#[test]
fn everything_that_a_client_holds_counts() {
    let server = start();
    let mut admin = server.connect();
    let mut expected = 0;
    let value = "x".repeat(1 << 20);
    // Commands behind MULTI.
    let mut queues = server.connect();
    queues.run("MULTI");
    for _ in 0..8 {
        let _ = queues.try_call(&argv!["SET", "k", &value]);
    }
    expected += 1;
    wait_until("MULTI is evicted", || evicted(&mut admin) == expected);
    // Subscriptions, and keys that are watched.
    for command in ["SUBSCRIBE", "WATCH"] {
        let mut lists = server.connect();
        for block in 0..40 {
            let names = (0..1000).map(|name| format!("{block}:{name}").into_bytes());
            let args: Vec<Vec<u8>> = std::iter::once(command.as_bytes().to_vec()).chain(names).collect();
            if lists.send_command(&Argv::new(&args)).is_err() {
                break;
            }
        }
        expected += 1;
        wait_until(command, || evicted(&mut admin) == expected);
    }
    // A command that waits.
    let mut waits = server.connect();
    let keys = (0..100_000).map(|key| format!("list-that-is-not-there:{key:050}").into_bytes());
    let args: Vec<Vec<u8>> =
        std::iter::once(b"BLPOP".to_vec()).chain(keys).chain(std::iter::once(b"0".to_vec())).collect();
    let _ = waits.send_command(&Argv::new(&args));
    expected += 1;
    wait_until("BLPOP is evicted", || evicted(&mut admin) == expected);
    // Messages that nobody reads.
    let mut hears = server.connect();
    hears.run("SUBSCRIBE c");
    for _ in 0..20 {
        admin.call(&argv!["PUBLISH", "c", &value]);
    }
    expected += 1;
    wait_until("the subscriber is evicted", || evicted(&mut admin) == expected);
    // Replies that nobody reads.
    admin.call(&argv!["SET", "k", &value]);
    assert_eq!(admin.run("CONFIG SET pipeline-reply-limit 16mb").text(), "OK");
    let mut unread = server.connect();
    for _ in 0..40 {
        let _ = unread.send_command(&argv!["GET", "k"]);
    }
    expected += 1;
    wait_until("the reader is evicted", || evicted(&mut admin) == expected);
    assert!(is_open(&mut admin));
}

/// What a killed client has not read is gone with it: nobody else has to go for it.
#[test]
fn one_subscriber_that_does_not_read_takes_nobody_with_it() {
    let server = start();
    let (mut admin, mut hears) = (server.connect(), server.connect());
    let mut others: Vec<Conn> = (0..40).map(|_| server.connect()).collect();
    assert!(others.iter_mut().all(is_open));
    hears.run("SUBSCRIBE c");
    let (value, small) = ("x".repeat(1 << 20), "y".repeat(50 << 10));
    for _ in 0..30 {
        admin.call(&argv!["PUBLISH", "c", &value]);
        for other in &mut others[..4] {
            other.call(&argv!["SET", "k", &small]);
        }
    }
    wait_until("it is evicted", || evicted(&mut admin) > 0);
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(evicted(&mut admin), 1);
    assert!(others.iter_mut().all(is_open));
}

#[test]
fn a_crowd_stays_within_the_limit() {
    let server = start();
    let mut admin = server.connect();
    let mut crowd = Vec::new();
    let mut most = 0;
    for _ in 0..200 {
        crowd.push(holding(&server, 150 << 10));
        most = most.max(admin.info_number("mem_clients_normal").expect("a field"));
    }
    wait_until("many are evicted", || evicted(&mut admin) > 100);
    // Those that were told to close count until they are closed.
    assert!(most < 3 * LIMIT, "{most}");
    assert!(is_open(&mut admin));
}

#[test]
fn the_keys_that_clients_wait_for_count() {
    const KEYS: usize = 100_000;
    let server = Server::start_onrush(&["--workers", "2", "--maxmemory-clients", "100mb"]);
    let mut admin = server.connect();
    let before = admin.info_number("used_memory").expect("a field");
    let crowd: Vec<Conn> = (0..3)
        .map(|nth| {
            let mut conn = server.connect();
            let keys = (0..KEYS).map(|key| format!("key:{nth}:{key}").into_bytes());
            let command = Argv([b"BLPOP".to_vec()].into_iter().chain(keys).chain([b"0".to_vec()]).collect());
            conn.send_command(&command).expect("sent");
            conn
        })
        .collect();
    wait_until("all wait", || admin.info_number("blocked_clients") == Some(3));
    let more = admin.info_number("used_memory").expect("a field") - before;
    wait_until("it counts", || {
        let counted = admin.info_number("mem_clients_normal").expect("a field");
        counted > more * 3 / 4 && counted < more * 3 / 2
    });
    assert_eq!(admin.run("CONFIG SET maxmemory-clients 20mb").text(), "OK");
    wait_until("those that hold too much are gone", || evicted(&mut admin) >= 2);
    drop(crowd);
}

/// All have sent when the server looks: the worst there is.
#[test]
fn thousands_that_send_at_once_are_closed_before_all_are_read() {
    let server = Server::start_onrush(&["--maxmemory-clients", "8mb", "--workers", "1"]);
    let mut admin = server.connect();
    admin.run("CLIENT NO-EVICT on");
    let mut crowd: Vec<Conn> = (0..4_000).map(|_| server.connect()).collect();
    wait_until("all are there", || admin.info_number("connected_clients") == Some(4_001));
    server.signal("STOP");
    let begin = [b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1000000\r\n", &vec![b'x'; 40_000][..]].concat();
    for conn in &mut crowd {
        conn.set_nonblocking(true);
        let _ = conn.send(&begin);
    }
    server.signal("CONT");
    wait_until("most are closed", || evicted(&mut admin) > 3_800);
    // A worker reads 1,024 at most before it closes any.
    let peak = admin.info_number("used_memory_peak").expect("a field");
    assert!(peak < 100 << 20, "{peak}");
}

#[test]
fn the_limit_can_be_a_share_of_maxmemory_and_change() {
    let server = Server::start_onrush(&["--maxmemory-clients", "10%"]);
    let mut admin = server.connect();
    let _large = holding(&server, 8 << 20);
    assert_eq!(evicted(&mut admin), 0);
    assert_eq!(admin.run("CONFIG SET maxmemory 40mb").text(), "OK");
    wait_until("it is evicted", || evicted(&mut admin) == 1);
    assert_eq!(admin.run("CONFIG GET maxmemory-clients").items().expect("a pair")[1].text(), "10%");
}
