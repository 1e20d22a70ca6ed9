//! MIGRATE: between Onrush and redis-server, and to servers that refuse, hang, die or send other replies.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use onrush_tests::argv;
use onrush_tests::argv::Argv;
use onrush_tests::chaos::disk::{Disk, Library, Word};
use onrush_tests::client::Conn;
use onrush_tests::resp::Value;
use onrush_tests::server::{Launch, Oracle, Server, TempDir, is_stand_in, skips_on_stand_in, wait_until};
use rustix::net::sockopt::set_socket_recv_buffer_size;

const DEBUG: &[&str] = &["--enable-debug-command", "yes"];

/// Keys of every type, small and large.
const NAMES: [&str; 10] = ["string", "number", "bytes", "list", "lists", "set", "sorted", "hash", "hashes", "stream"];

fn start() -> Server {
    Server::start_onrush(&[DEBUG, &["--workers", "2"]].concat())
}

fn fill(conn: &mut Conn) {
    for line in [
        "SET string value",
        "SET number 12 PX 500000",
        "SADD set a b 3",
        "ZADD sorted 1.5 a -inf b 3 c",
        "HSET hash f v g w",
        "RPUSH list a b 3",
        "EXPIRE list 1000",
        "XADD stream 5-1 name value",
        "XADD stream 6-1 name value other 7",
        "XGROUP CREATE stream group 0",
        "XREADGROUP GROUP group me COUNT 1 STREAMS stream >",
    ] {
        assert!(!conn.run(line).is_error(), "{line}");
    }
    conn.call(&argv!["SET", "bytes", vec![b'x'; 100_000]]);
    for part in (0..30_000).collect::<Vec<u32>>().chunks(5_000) {
        let numbers = || part.iter().map(|number| format!("element:{number}").into_bytes());
        let with =
            |name: &[u8], key: &[u8], args: Vec<Vec<u8>>| Argv([vec![name.to_vec(), key.to_vec()], args].concat());
        conn.call(&with(b"RPUSH", b"lists", numbers().collect()));
        conn.call(&with(b"HSET", b"hashes", numbers().flat_map(|name| [name, b"value".to_vec()]).collect()));
    }
}

fn digests(conn: &mut Conn) -> Value {
    let words = [&b"DEBUG"[..], b"DIGEST-VALUE"].into_iter().chain(NAMES.map(str::as_bytes));
    conn.call(&Argv(words.map(Vec::from).collect()))
}

fn migrate(port: u16, rest: &str) -> Argv {
    Argv::parse(&format!("MIGRATE 127.0.0.1 {port} {rest}")).expect("balanced quotes")
}

fn number(conn: &mut Conn, line: &str) -> i64 {
    match conn.run(line) {
        Value::Int(number) => number,
        other => panic!("{line}: {other}"),
    }
}

/// All keys go there in one command, and come back one by one.
fn there_and_back(home: &Server, away: &Server) {
    let (mut here, mut there) = (home.connect(), away.connect());
    fill(&mut here);
    let before = digests(&mut here);
    let pending = here.run("XPENDING stream group");
    let all = format!("\"\" 3 5000 KEYS {} missing", NAMES.join(" "));
    assert_eq!(here.call(&migrate(away.port(), &all)).text(), "OK");
    assert_eq!(number(&mut here, "DBSIZE"), 0);
    there.run("SELECT 3");
    assert_eq!(digests(&mut there), before);
    assert_eq!(there.run("XPENDING stream group"), pending);
    let ttl_ms = number(&mut there, "PTTL number");
    assert!((400_000..=500_000).contains(&ttl_ms), "{ttl_ms}");
    for name in NAMES {
        let copied = there.call(&migrate(home.port(), &format!("{name} 0 5000 COPY")));
        assert_eq!(copied.text(), "OK", "{name}");
        let again = there.call(&migrate(home.port(), &format!("{name} 0 5000")));
        assert_eq!(again.text(), "ERR Target instance replied with error: BUSYKEY Target key name already exists.");
        assert_eq!(there.call(&migrate(home.port(), &format!("{name} 0 5000 REPLACE"))).text(), "OK", "{name}");
    }
    assert_eq!((number(&mut there, "DBSIZE"), number(&mut here, "DBSIZE")), (0, NAMES.len() as i64));
    assert_eq!(digests(&mut here), before);
    assert_eq!(here.run("XPENDING stream group"), pending);
}

#[test]
fn keys_of_all_types_go_to_redis_7_0_and_back() {
    there_and_back(&start(), &Server::start_oracle(Oracle::Older, DEBUG));
}

#[test]
fn keys_of_all_types_come_from_redis_7_0_and_go_back() {
    there_and_back(&Server::start_oracle(Oracle::Older, DEBUG), &start());
}

#[test]
fn keys_of_all_types_go_from_onrush_to_onrush_and_back() {
    there_and_back(&start(), &start());
}

#[test]
fn replies_are_those_of_redis() {
    let target = Server::start_oracle(Oracle::Older, &["--requirepass", "secret", "--databases", "4"]);
    let open = Server::start_oracle(Oracle::Older, &[]);
    let servers = [Server::start_onrush(&[]), Server::start_oracle(Oracle::Older, &[])];
    let replies = servers.each_ref().map(|server| {
        let mut conn = server.connect();
        open.connect().run("FLUSHALL");
        conn.run("MSET k v other w");
        let (port, open_port) = (target.port(), open.port());
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let tried = [
            migrate(open_port, "missing 0 1000"),
            migrate(open_port, "\"\" 0 1000 KEYS missing gone"),
            migrate(open_port, "\"\" 0 1000"),
            migrate(open_port, "\"\" 0 1000 KEYS"),
            migrate(open_port, "k 0 x"),
            migrate(open_port, "k x 1000"),
            migrate(open_port, "k 0 1000 FOO"),
            migrate(open_port, "k 0 1000 AUTH"),
            migrate(open_port, "k 0 1000 AUTH2 user"),
            migrate(open_port, "k 0 1000 KEYS k"),
            migrate(open_port, "k 99 1000"),
            migrate(closed, "k 0 1000"),
            argv!["MIGRATE", "no.such.host.invalid", "7000", "k", "0", "1000"],
            migrate(port, "k 0 1000"),
            migrate(port, "k 0 1000 AUTH wrong"),
            migrate(port, "k 0 1000 AUTH2 default wrong"),
            migrate(port, "k 0 1000 COPY REPLACE AUTH secret"),
            migrate(port, "k 3 1000 copy replace auth2 default secret"),
            migrate(port, "k 4 1000 COPY AUTH secret"),
            migrate(open_port, "\"\" 0 -1 COPY KEYS other other"),
            migrate(open_port, "\"\" 0 1000 AUTH keys KEYS k"),
            migrate(open_port, "\"\" 0 1000 REPLACE KEYS k other missing"),
            argv!["EXISTS", "k", "other"],
            argv!["COMMAND", "GETKEYS", "MIGRATE", "h", "1", "", "0", "1", "AUTH", "keys", "KEYS", "a", "b"],
            argv!["COMMAND", "GETKEYS", "MIGRATE", "h", "1", "k", "0", "1", "KEYS", "a", "b"],
            argv!["COMMAND", "GETKEYS", "MIGRATE", "h", "1", "k", "0", "1", "COPY", "AUTH2", "keys", "keys"],
        ];
        tried.map(|argv| (argv.to_string(), conn.call(&argv)))
    });
    let [ours, theirs] = replies;
    for ((command, ours), (_, theirs)) in ours.into_iter().zip(theirs) {
        assert_eq!(ours, theirs, "{command}");
    }
}

#[test]
fn what_the_other_server_refuses_stays_and_the_rest_goes() {
    let (server, target) = (start(), Server::start_redis(&[]));
    let (mut conn, mut there) = (server.connect(), target.connect());
    let log = server.dir().join("log");
    conn.run("MSET a 1 b 2 c 3");
    there.run("SET b other");
    assert_eq!(conn.call(&argv!["DEBUG", "COMMAND-LOG", "START", log.to_str().unwrap()]).text(), "OK");
    let reply = conn.call(&migrate(target.port(), "\"\" 0 1000 KEYS a b c"));
    assert_eq!(reply.text(), "ERR Target instance replied with error: BUSYKEY Target key name already exists.");
    // A copy changes nothing.
    assert_eq!(conn.call(&migrate(target.port(), "b 0 1000 COPY REPLACE")).text(), "OK");
    conn.run("DEBUG COMMAND-LOG STOP");
    assert_eq!([number(&mut conn, "EXISTS a c"), number(&mut conn, "EXISTS b")], [0, 1]);
    assert_eq!(there.run("MGET a b c"), Value::parse(b"*3\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n").unwrap());
    let log = String::from_utf8_lossy(&std::fs::read(log).unwrap()).into_owned();
    assert!(log.ends_with("*3\r\n$3\r\nDEL\r\n$1\r\na\r\n$1\r\nc\r\n"), "{log}");
}

#[test]
fn connections_are_kept_and_replaced_when_the_other_server_has_closed_them() {
    let (server, target) = (start(), Server::start_redis(&[]));
    let (mut conn, mut there) = (server.connect(), target.connect());
    let sent = |conn: &mut Conn, db: u32| {
        conn.run("SET k v");
        assert_eq!(conn.call(&migrate(target.port(), &format!("k {db} 1000 REPLACE"))).text(), "OK");
    };
    for db in [0, 0, 2, 2, 0] {
        sent(&mut conn, db);
        assert_eq!(conn.info_number("migrate_cached_sockets"), Some(1));
    }
    let clients = there.info_number("total_connections_received");
    assert_eq!(number(&mut there, "CLIENT KILL TYPE normal SKIPME yes"), 1);
    sent(&mut conn, 0);
    assert_eq!(there.info_number("total_connections_received"), clients.map(|clients| clients + 1));
    assert_eq!(number(&mut there, "EXISTS k"), 1);
}

/// A server that answers what the test says.
struct Fake {
    listener: TcpListener,
    port: u16,
}

impl Fake {
    fn new() -> Fake {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        Fake { listener, port }
    }

    /// Accepts a connection and answers the SELECT that comes first.
    fn accept(&self) -> TcpStream {
        let (mut stream, _) = self.listener.accept().expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket");
        read_until(&mut stream, b"SELECT\r\n$1\r\n0\r\n");
        stream.write_all(b"+OK\r\n").expect("it reads");
        stream
    }
}

/// Reads until the last bytes are these.
fn read_until(stream: &mut TcpStream, end: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    while !bytes.ends_with(end) {
        let mut some = [0; 4096];
        let len = stream.read(&mut some).expect("bytes");
        assert!(len > 0, "closed after {}", bytes.escape_ascii());
        bytes.extend_from_slice(&some[..len]);
    }
    bytes
}

/// The end of the payload of a string, as it is sent in RESTORE with a last option.
const REPLACE: &[u8] = b"$7\r\nREPLACE\r\n";

#[test]
fn while_the_other_server_hangs_other_clients_go_on() {
    let (server, fake) = (start(), Fake::new());
    let (mut moving, mut conn) = (server.connect(), server.connect());
    conn.run("MSET k v other w");
    let started = Instant::now();
    moving.send_command(&migrate(fake.port, "k 0 700 REPLACE")).unwrap();
    let mut stream = fake.accept();
    read_until(&mut stream, REPLACE);
    // It has the key, and does not answer.
    for _ in 0..100 {
        assert_eq!(conn.run("GET other").text(), "w");
    }
    let answered = started.elapsed();
    assert_eq!(conn.run("GET k").text(), "v");
    assert_eq!(moving.read_reply().unwrap(), b"-IOERR error or timeout reading to target instance\r\n");
    if !is_stand_in() {
        assert!(answered < Duration::from_millis(700), "others waited {answered:?}");
    }
    assert!(started.elapsed() >= Duration::from_millis(700));
    assert_eq!(conn.info_number("migrate_cached_sockets"), Some(0));
}

#[test]
fn a_server_that_takes_a_few_bytes_at_a_time_is_given_up() {
    const TIMEOUT: Duration = Duration::from_millis(300);
    let (server, fake) = (start(), Fake::new());
    let mut conn = server.connect();
    // More than the buffers of the sockets take.
    conn.run("CONFIG SET rdbcompression no");
    conn.call(&argv!["SET", "k", vec![b'x'; 12 << 20]]);
    set_socket_recv_buffer_size(&fake.listener, 4096).expect("a socket");
    let started = Instant::now();
    conn.send_command(&migrate(fake.port, &format!("k 0 {}", TIMEOUT.as_millis()))).unwrap();
    let mut stream = fake.accept();
    let (over, is_over) = channel::<()>();
    let reader = std::thread::spawn(move || {
        // Each byte comes in time.
        while is_over.recv_timeout(Duration::from_millis(10)) == Err(RecvTimeoutError::Timeout) {
            let _ = stream.read(&mut [0; 1_000]);
        }
    });
    conn.set_timeout(20 * TIMEOUT);
    assert_eq!(conn.read_reply().unwrap(), b"-IOERR error or timeout writing to target instance\r\n");
    assert!(started.elapsed() >= TIMEOUT);
    assert_eq!(number(&mut conn, "EXISTS k"), 1);
    drop(over);
    reader.join().expect("it ends");
}

#[test]
fn a_server_ends_although_the_other_one_hangs() {
    let (mut server, fake) = (start(), Fake::new());
    let mut conn = server.connect();
    conn.run("SET k v");
    conn.send_command(&migrate(fake.port, "k 0 600000 REPLACE")).unwrap();
    let mut stream = fake.accept();
    read_until(&mut stream, REPLACE);
    server.signal("TERM");
    if !is_stand_in() {
        assert!(server.wait_exit().success());
    }
}

/// Waits until so many clients execute MIGRATE, or wait for it.
fn wait_for_migrates(conn: &mut Conn, count: usize) {
    wait_until("they have come", || conn.run("CLIENT LIST").text().matches("cmd=migrate ").count() == count);
}

#[test]
fn shutdown_goes_before_all_that_waits_for_other_servers() {
    if skips_on_stand_in() {
        return;
    }
    let (mut server, fake) = (start(), Fake::new());
    let mut conn = server.connect();
    conn.run("MSET k v k2 v k3 v");
    let (mut first, mut second, mut third) = (server.connect(), server.connect(), server.connect());
    first.send_command(&migrate(fake.port, "k 0 600000 REPLACE")).unwrap();
    let mut stream = fake.accept();
    read_until(&mut stream, REPLACE);
    second.send_command(&migrate(fake.port, "k2 0 600000")).unwrap();
    // One that is under way may have others behind it in its transaction.
    third.send(b"MULTI\r\n").unwrap();
    third.send_command(&migrate(fake.port, "k3 0 600000")).unwrap();
    third.send(b"EXEC\r\n").unwrap();
    wait_for_migrates(&mut conn, 2);
    conn.send(b"SHUTDOWN SAVE\r\n").unwrap();
    assert!(server.wait_exit().success());
}

#[test]
fn the_server_ends_although_a_name_is_looked_up() {
    if skips_on_stand_in() {
        return;
    }
    let (library, folder) = (Library::build().expect("a C compiler"), TempDir::new());
    let disk = Disk::below(&library, &folder.0).expect("a page");
    disk.set(Word::LookupDelayUs, 600_000_000);
    for way in ["SHUTDOWN SAVE", "SIGTERM"] {
        let mut server = Launch::onrush().args(&["--save", "3600 1"]).disk(&disk).start();
        let (mut moving, mut conn) = (server.connect(), server.connect());
        conn.run("SET k v");
        moving.send(b"MIGRATE localhost 1 k 0 600000\r\n").unwrap();
        wait_for_migrates(&mut conn, 1);
        match way {
            "SIGTERM" => server.signal("TERM"),
            _ => conn.send(b"SHUTDOWN SAVE\r\n").unwrap(),
        }
        assert!(server.wait_exit().success(), "{way}");
    }
}

#[test]
fn other_servers_are_reached_again_after_a_shutdown_that_fails() {
    if skips_on_stand_in() {
        return;
    }
    let (server, other, fake) = (start(), start(), Fake::new());
    let (mut moving, mut conn) = (server.connect(), server.connect());
    conn.run("MSET k v k2 v");
    moving.send_command(&migrate(fake.port, "k 0 600000 REPLACE")).unwrap();
    let mut stream = fake.accept();
    read_until(&mut stream, REPLACE);
    let folder = conn.call(&argv!["CONFIG", "GET", "dir"]).items().expect("a pair")[1].text();
    // A file cannot take the place of a folder.
    std::fs::create_dir(std::path::Path::new(&folder).join("dump.rdb")).expect("a folder of one's own");
    assert_eq!(conn.run("SHUTDOWN SAVE").text(), "ERR Errors trying to SHUTDOWN. Check logs.");
    assert_eq!(moving.read_reply().unwrap(), b"-IOERR error or timeout reading to target instance\r\n");
    assert_eq!(conn.call(&migrate(other.port(), "k2 0 5000")).text(), "OK");
}

#[test]
fn a_key_that_another_client_changes_meanwhile_is_not_lost() {
    let (server, fake) = (start(), Fake::new());
    let (mut moving, mut conn) = (server.connect(), server.connect());
    for (reply, length, left) in [("+OK", 1, 1), ("-ERR no", 2, 2)] {
        conn.run("DEL k");
        conn.run("RPUSH k first");
        moving.send_command(&migrate(fake.port, "k 0 20000 REPLACE")).unwrap();
        let mut stream = fake.accept();
        let sent = read_until(&mut stream, REPLACE);
        assert!(sent.windows(5).any(|bytes| bytes == b"first"));
        // Waits for the key, which is on its way.
        conn.send_command(&argv!["RPUSH", "k", "second"]).unwrap();
        stream.write_all(format!("{reply}\r\n").as_bytes()).unwrap();
        let replied = moving.read_reply().unwrap();
        assert_eq!(replied.starts_with(b"+OK"), reply == "+OK", "{}", replied.escape_ascii());
        assert_eq!(conn.read_reply().unwrap(), format!(":{length}\r\n").into_bytes());
        assert_eq!(number(&mut conn, "LLEN k"), left);
        stream.shutdown(Shutdown::Both).unwrap();
    }
}

#[test]
fn what_has_arrived_is_gone_when_the_other_server_dies_in_the_middle() {
    let (server, fake) = (start(), Fake::new());
    let (mut moving, mut conn) = (server.connect(), server.connect());
    conn.run("MSET a 1 b 2 c 3");
    moving.send_command(&migrate(fake.port, "\"\" 0 5000 REPLACE KEYS a b c")).unwrap();
    let mut stream = fake.accept();
    let mut sent = Vec::new();
    while sent.windows(7).filter(|bytes| bytes == b"RESTORE").count() < 3 {
        sent.extend(read_until(&mut stream, REPLACE));
    }
    stream.write_all(b"+OK\r\n").unwrap();
    drop(stream);
    let reply = moving.read_reply().unwrap();
    assert_eq!(reply, b"-IOERR error or timeout reading to target instance\r\n");
    assert_eq!([number(&mut conn, "EXISTS a"), number(&mut conn, "EXISTS b c")], [0, 2]);
}

#[test]
fn only_a_success_lets_a_key_go() {
    let (server, fake) = (start(), Fake::new());
    let (mut moving, mut conn) = (server.connect(), server.connect());
    conn.run("SET k v");
    moving.send_command(&migrate(fake.port, "k 0 5000 REPLACE")).unwrap();
    let mut stream = fake.accept();
    read_until(&mut stream, REPLACE);
    stream.write_all(b"HTTP/1.1 400 Bad Request\r\n").unwrap();
    let reply = moving.read_reply().unwrap();
    assert_eq!(reply, b"-ERR Target instance replied with error: HTTP/1.1 400 Bad Request\r\n");
    assert_eq!(number(&mut conn, "EXISTS k"), 1);
}

#[test]
fn many_keys_go_in_several_batches() {
    let (server, target) = (start(), start());
    let (mut conn, mut there) = (server.connect(), target.connect());
    conn.run("CONFIG SET rdbcompression no");
    let names: Vec<String> = (0..3_000).map(|number| format!("key:{number}")).collect();
    for name in &names {
        conn.call(&argv!["SET", name, vec![b'v'; 1_000]]);
    }
    let digest = conn.run("DEBUG DIGEST");
    let reply = conn.call(&migrate(target.port(), &format!("\"\" 0 5000 KEYS {}", names.join(" "))));
    assert_eq!(reply.text(), "OK");
    assert_eq!((number(&mut conn, "DBSIZE"), number(&mut there, "DBSIZE")), (0, 3_000));
    assert_eq!(there.run("DEBUG DIGEST"), digest);
}

#[test]
fn scripts_and_transactions_move_keys() {
    let (server, target) = (start(), Server::start_redis(&[]));
    let (mut conn, mut there) = (server.connect(), target.connect());
    for round in 0..3 {
        conn.run("MSET k v other w");
        there.run("FLUSHALL");
        let script =
            "local r = redis.call('MIGRATE', '127.0.0.1', ARGV[1], KEYS[1], 0, 1000) redis.call('INCR', 'n') return r";
        let reply = conn.call(&argv!["EVAL", script, "1", "k", target.port().to_string()]);
        assert_eq!(reply.text(), "OK", "{reply}");
        assert_eq!(conn.run("GET n").text(), (round + 1).to_string());
        let move_other = migrate(target.port(), "\"\" 0 1000 KEYS other");
        let replies = conn.pipeline(&[argv!["MULTI"], move_other, argv!["EXISTS", "other"], argv!["EXEC"]]);
        assert_eq!(replies[3], b"*2\r\n+OK\r\n:0\r\n", "{}", replies[3].escape_ascii());
        assert_eq!((number(&mut conn, "EXISTS k other"), number(&mut there, "EXISTS k other")), (0, 2));
    }
    wait_until("nobody waits", || conn.info_number("blocked_clients") == Some(0));
}
