//! Starting and ending as programs expect it that start a server by themselves: the lines that they look for, exit codes,
//! systemd's protocol, an end within seconds.

use std::fs;
use std::io::Read;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use onrush_tests::argv;
use onrush_tests::client::Conn;
use onrush_tests::port::Port;
use onrush_tests::process;
use onrush_tests::server::{Launch, Oracle, Server, TempDir, is_stand_in, onrush_bin, wait_until};

/// How long a server may take to end after SIGTERM.
const END_MAX: Duration = Duration::from_secs(5);

/// The mark of a line of the log and its message, if the line has the shape `pid:role day month year time mark message`.
fn message(line: &str, pid: u32) -> Option<&str> {
    let rest = line.strip_prefix(&format!("{pid}:M "))?;
    let mut words = rest.splitn(5, ' ');
    let [day, month, year, time] = [(); 4].map(|()| words.next().unwrap_or_default());
    let is_number = |word: &str, len| word.len() == len && word.bytes().all(|byte| byte.is_ascii_digit());
    let is_time = time.split([':', '.']).map(str::len).eq([2, 2, 2, 3]);
    let is_month = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(' ').any(|name| name == month);
    (is_number(day, 2) && is_month && is_number(year, 4) && is_time).then(|| words.next()).flatten()
}

#[test]
fn the_start_is_told_in_the_lines_of_redis() {
    let told = |launch: Launch| {
        let server = launch.unix_socket().start();
        server.expect_log("Ready to accept connections unix");
        let log = server.log().replace(&server.port().to_string(), "PORT");
        let messages = log.lines().filter_map(|line| message(line, server.pid()).map(str::to_owned));
        let is_looked_for = |text: &String| ["mode", "initialized", "Ready"].iter().any(|word| text.contains(word));
        messages.filter(is_looked_for).collect::<Vec<_>>()
    };
    let wanted = [
        "* Running mode=standalone, port=PORT.",
        "* Server initialized",
        "* Ready to accept connections tcp",
        "* Ready to accept connections unix",
    ];
    assert_eq!(told(Launch::redis_of(Oracle::Newer.bin())), wanted);
    assert_eq!(told(Launch::onrush()), wanted);
}

fn run(bin: &Path, args: &[&str], folder: &Path) -> Output {
    let mut command = Command::new(bin);
    command.args(args).args(["--save", ""]).current_dir(folder).stdin(Stdio::null());
    command.output().expect("it starts")
}

#[test]
fn addresses_that_cannot_be_had_are_told_as_in_redis() {
    let server = Server::start_onrush(&[]);
    let held = Port::choose();
    let (taken, free) = (server.port().to_string(), held.number().to_string());
    let folder = TempDir::new();
    for args in [
        &["--port", &taken, "--bind", "127.0.0.1"][..],
        &["--port", &taken, "--bind", "-127.0.0.1"],
        &["--port", &taken, "--bind", "*"],
        &["--port", &free, "--bind", "127.0.0.1", "192.0.2.1"],
        &["--port", &free, "--bind", "host.invalid"],
        &["--port", &free, "--bind", "-192.0.2.1"],
        &["--port", &free, "--bind", ""],
        &["--port", "0"],
        &["--port", "0", "--unixsocket", "no/such/folder"],
    ] {
        let told = |bin: &Path| {
            let output = run(bin, args, &folder.0);
            assert_eq!(output.status.code(), Some(1), "{args:?}");
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let complaints =
                text.lines().filter_map(|line| Some(line.split_once(":M ")?.1.split_once(" # ")?.1.to_owned()));
            complaints.filter(|line| !line.contains("overcommit")).collect::<Vec<_>>()
        };
        let (mut wanted, ours) = (told(&Oracle::Newer.bin()), told(&onrush_bin()));
        if wanted.last().is_some_and(|line| line.contains("not listen anywhere")) {
            // An address that may be missing is no reason to complain.
            wanted.retain(|line| !line.starts_with("Warning"));
        }
        assert_eq!(ours, wanted, "{args:?}");
        assert!(!ours.is_empty(), "{args:?}");
    }
}

#[test]
fn a_file_in_the_place_of_the_unix_socket_stays() {
    if is_stand_in() {
        return;
    }
    let folder = TempDir::new();
    let path = folder.0.join("precious");
    fs::write(&path, "data").expect("a writable folder");
    let output = run(&onrush_bin(), &["--port", "0", "--unixsocket", "precious"], &folder.0);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("Failed opening Unix socket: bind: Address already in use"), "{text}");
    assert_eq!(fs::read_to_string(&path).expect("still there"), "data");
}

#[test]
fn arguments_end_with_the_exit_codes_of_redis() {
    let folder = TempDir::new();
    for args in [&["--version"][..], &["-v"], &["-h"], &["--help"], &["--test-memory"], &["--sentinel"], &["-x"]] {
        let status = |bin: &Path| Command::new(bin).args(args).current_dir(&folder.0).output().expect("it runs").status;
        assert_eq!(status(&onrush_bin()), status(&Oracle::Newer.bin()), "{args:?}");
    }
    if is_stand_in() {
        return;
    }
    for (args, word) in [
        (&["--sentinel"][..], "Sentinel mode is not supported"),
        (&["s.conf", "--sentinel"], "Sentinel mode is not supported"),
        (&["--test-memory", "64"], "no test of the memory"),
        (&["--check-system"], "no check of the system"),
    ] {
        let (status, output) = Launch::run_to_end(&onrush_bin(), args);
        assert_eq!(status.code(), Some(1), "{args:?}");
        assert!(output.contains(word), "{output}");
    }
}

/// A child that is killed when a test fails.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn spawn(folder: &Path, args: &[&str], variables: &[(&str, &str)]) -> Killed {
    let mut command = Command::new(onrush_bin());
    command.args(["--port", "0", "--unixsocket", "s", "--save", ""]).args(args).current_dir(folder);
    command.envs(variables.iter().copied()).stdin(Stdio::null()).stdout(Stdio::piped());
    Killed(command.spawn().expect("it starts"))
}

fn connect(folder: &Path) -> Conn {
    let mut conn = None;
    wait_until("it listens", || {
        conn = Conn::unix(&folder.join("s")).ok();
        conn.is_some()
    });
    conn.expect("connected")
}

fn wait_end(server: &mut Killed) -> Option<i32> {
    let (mut status, started) = (None, Instant::now());
    wait_until("it ends", || {
        status = server.0.try_wait().expect("a child");
        status.is_some()
    });
    assert!(started.elapsed() < END_MAX, "the end took {:?}", started.elapsed());
    status.expect("waited for").code()
}

#[test]
fn systemd_is_told_when_the_server_is_ready_and_when_it_ends() {
    if is_stand_in() {
        return;
    }
    for supervised in ["systemd", "auto"] {
        let folder = TempDir::new();
        let path = folder.0.join("notify");
        let socket = UnixDatagram::bind(&path).expect("a socket");
        socket.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
        let address = path.to_str().expect("a plain path");
        // Under a supervisor it stays in the foreground.
        let args = ["--supervised", supervised, "--daemonize", "yes"];
        let mut server = spawn(&folder.0, &args, &[("NOTIFY_SOCKET", address)]);
        let mut told = [0; 200];
        let len = socket.recv(&mut told).expect("a message");
        assert!(String::from_utf8_lossy(&told[..len]).contains("READY=1"));
        assert_eq!(connect(&folder.0).run("PING").text(), "PONG");
        process::signal(server.0.id(), "TERM");
        let len = socket.recv(&mut told).expect("another one");
        assert!(String::from_utf8_lossy(&told[..len]).contains("STOPPING=1"));
        assert_eq!(wait_end(&mut server), Some(0));
    }
}

#[test]
fn a_log_that_nobody_reads_stops_nobody() {
    if is_stand_in() {
        return;
    }
    let folder = TempDir::new();
    // The pipe holds 64 KB, and nobody reads it.
    let mut server = spawn(&folder.0, &["--enable-debug-command", "yes", "--workers", "2"], &[]);
    let mut conn = connect(&folder.0);
    let log = argv!["DEBUG", "LOG", "x".repeat(1000)];
    let replies = conn.pipeline(&vec![log; 3_000]);
    assert!(replies.iter().all(|reply| reply == b"+OK\r\n"));
    assert_eq!(connect(&folder.0).run("PING").text(), "PONG");
    process::signal(server.0.id(), "TERM");
    assert_eq!(wait_end(&mut server), Some(0));
    let mut text = String::new();
    server.0.stdout.take().expect("a pipe").read_to_string(&mut text).expect("text");
    assert!(text.len() >= 32 << 10, "{} bytes", text.len());
}

#[test]
fn the_log_says_how_many_lines_it_lost() {
    if is_stand_in() {
        return;
    }
    let folder = TempDir::new();
    let mut server = spawn(&folder.0, &["--enable-debug-command", "yes"], &[]);
    let mut conn = connect(&folder.0);
    conn.pipeline(&vec![argv!["DEBUG", "LOG", "x".repeat(1000)]; 3_000]);
    let mut output = server.0.stdout.take().expect("a pipe");
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        output.read_to_string(&mut text).expect("text");
        text
    });
    // Once it is read, it goes on.
    process::signal(server.0.id(), "TERM");
    assert_eq!(wait_end(&mut server), Some(0));
    let text = reader.join().expect("it reads");
    let lost = text.lines().find_map(|line| {
        let (start, _) = line.split_once(" lines of the log are lost here")?;
        start.rsplit(' ').next()?.parse::<usize>().ok()
    });
    let written = text.lines().filter(|line| line.contains("DEBUG LOG")).count();
    assert_eq!(lost.map(|lost| lost + written), Some(3_000));
    assert!(text.contains("ready to exit"), "the end is told");
}

#[test]
fn it_ends_within_seconds_whatever_clients_wait_for() {
    for (what, commands) in [
        ("keys", &["BLPOP list 0"][..]),
        ("entries", &["XREAD BLOCK 0 STREAMS s $"]),
        ("messages", &["SUBSCRIBE c"]),
        ("commands of others", &["MONITOR"]),
        ("the end of a transaction", &["MULTI", "SET a 1"]),
        ("the end of a pause", &["CLIENT PAUSE 100000 ALL", "GET a"]),
        ("acknowledgements", &["SET a 1", "WAIT 1 0"]),
    ] {
        let mut server = Server::start_onrush(&["--save", "3600 1"]);
        let mut conns: Vec<Conn> = (0..3).map(|_| server.connect()).collect();
        for conn in &mut conns {
            for command in commands {
                conn.send_command(&onrush_tests::argv::Argv::parse(command).expect("a command")).expect("taken");
            }
        }
        // The commands have come by then, as far as nothing holds this one back.
        let mut last = server.connect();
        let _ = last.send_command(&argv!["PING"]);
        let started = Instant::now();
        server.signal("TERM");
        assert_eq!(server.wait_exit().code(), Some(0), "clients wait for {what}");
        assert!(started.elapsed() < END_MAX, "clients wait for {what}: {:?}", started.elapsed());
    }
}
