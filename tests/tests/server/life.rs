//! Life and death of the server: start, signals, files, limits, memory coming back.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use onrush_tests::argv;
use onrush_tests::argv::Argv;
use onrush_tests::chaos::disk::{Disk, Library, Word};
use onrush_tests::client::Conn;
use onrush_tests::port::Port;
use onrush_tests::process;
use onrush_tests::resp::Value;
use onrush_tests::server::{Launch, Server, TempDir, is_stand_in, onrush_bin, skips_on_stand_in, stall, wait_until};

/// A configuration file in a directory of its own.
fn config(text: &str) -> (TempDir, std::path::PathBuf) {
    let dir = TempDir::new();
    let path = dir.0.join("test.conf");
    fs::write(&path, text).expect("a writable directory");
    (dir, path)
}

fn config_value(conn: &mut Conn, name: &str) -> String {
    let reply = conn.call(&argv!["CONFIG", "GET", name]);
    reply.items().and_then(|i| i.get(1)).map(Value::text).unwrap_or_default()
}

#[test]
fn termination_signals_end_it_in_order() {
    for signal in ["TERM", "INT"] {
        let dir = TempDir::new();
        let pidfile = dir.0.join("pid");
        let pidfile = pidfile.to_str().expect("a plain path");
        let mut server = Launch::onrush().args(&["--pidfile", pidfile]).unix_socket().start();
        let mut conn = server.connect();
        conn.run("SET a 1");
        assert_eq!(fs::read_to_string(pidfile).expect("a pidfile").trim(), server.pid().to_string());
        server.signal(signal);
        assert_eq!(server.wait_exit().code(), Some(0), "{signal}");
        assert!(conn.read_to_close().expect("closed").is_empty());
        assert!(!Path::new(pidfile).exists(), "the pidfile is left");
        assert!(!server.dir().join("socket").exists(), "the socket is left");
    }
}

#[test]
fn termination_does_not_wait_for_busy_clients() {
    let mut server = Server::start_onrush(&["--workers", "2"]);
    let mut conn = server.connect();
    conn.call(&argv!["SET", "key", "v".repeat(100_000)]);
    let mut get = Vec::new();
    argv!["GET", "key"].encode(&mut get);
    conn.send(&get.repeat(5_000)).expect("taken");
    server.signal("TERM");
    assert_eq!(server.wait_exit().code(), Some(0));
}

#[test]
fn hangup_and_broken_pipe_are_harmless() {
    let mut server = Server::start_onrush(&[]);
    let mut conn = server.connect();
    for signal in ["HUP", "PIPE"] {
        server.signal(signal);
        assert_eq!(conn.run("PING").text(), "PONG", "{signal}");
    }
    assert!(server.exited().is_none());
}

#[test]
fn shutdown_ends_it() {
    for line in ["SHUTDOWN NOSAVE", "SHUTDOWN"] {
        let mut server = Server::start_onrush(&[]);
        let mut conn = server.connect();
        let _ = conn.send_command(&Argv::parse(line).expect("a line"));
        assert_eq!(server.wait_exit().code(), Some(0), "{line}");
        assert!(conn.read_to_close().expect("closed").is_empty());
    }
}

#[test]
fn an_address_in_use_is_reported() {
    let server = Server::start_onrush(&[]);
    let port = server.port().to_string();
    let (status, output) = Launch::run_to_end(&onrush_bin(), &["--port", &port, "--bind", "127.0.0.1", "--save", ""]);
    assert_eq!(status.code(), Some(1), "{output}");
    assert!(output.to_lowercase().contains("in use") && output.contains(&port), "{output}");
}

#[test]
fn a_bad_configuration_is_reported_with_line_and_reason() {
    for (text, line, word) in [
        ("maxclients 100\nno-such-option yes\n", 2, "no-such-option"),
        ("# a comment\n\nmaxclients lots\n", 3, "maxclients"),
        ("maxmemory 1zb\n", 1, "maxmemory"),
        ("timeout\n", 1, "timeout"),
        ("hz 10\nrequirepass \"open\n", 2, "requirepass"),
        ("appendonly maybe\n", 1, "appendonly"),
    ] {
        let (_dir, path) = config(text);
        let (status, output) = Launch::run_to_end(&onrush_bin(), &[path.to_str().expect("a plain path")]);
        assert_eq!(status.code(), Some(1), "{text}{output}");
        assert!(output.contains(word) && output.contains(&format!("at line {line}\n")), "{text}{output}");
    }
}

#[test]
fn bad_arguments_are_reported() {
    for args in [&["--no-such-option", "1"][..], &["--port", "99999999"], &["/no/such/file.conf"], &["--maxclients"]] {
        let (status, output) = Launch::run_to_end(&onrush_bin(), args);
        assert_eq!(status.code(), Some(1), "{args:?}: {output}");
        assert!(!output.trim().is_empty(), "{args:?}");
    }
}

#[test]
fn version_and_help_are_shown() {
    for arg in ["--version", "-v", "--help", "-h"] {
        let (status, output) = Launch::run_to_end(&onrush_bin(), &[arg]);
        // As from redis-server: help is an error there.
        assert_eq!(status.success(), arg.contains('v'), "{arg}: {output}");
        assert!(!output.trim().is_empty(), "{arg}");
        if arg.contains('v') && !is_stand_in() {
            // Programs look for the version of Redis that a server stands for behind `v=`.
            let version = output.split("v=").nth(1).and_then(|rest| rest.split(' ').next());
            assert!(version.is_some_and(|version| version.starts_with("7.4.")), "{output}");
            assert!(output.contains(&format!("onrush-{}", env!("CARGO_PKG_VERSION"))), "{output}");
        }
    }
}

#[test]
fn the_server_stands_for_one_version_of_redis_everywhere() {
    if is_stand_in() {
        return;
    }
    let server = Server::start_onrush(&[]);
    let mut conn = server.connect();
    let info = conn.run("INFO server").text();
    let version = info.lines().find_map(|line| line.strip_prefix("redis_version:")).expect("a version").to_owned();
    assert!(version.starts_with("7.4."), "{version}");
    let hello = conn.run("HELLO").pairs().expect("fields");
    let told = hello.iter().find(|(name, _)| name.text() == "version").expect("a version").1.text();
    assert_eq!(told, version);
    assert!(conn.run("LOLWUT").text().contains(&format!("Redis ver. {version} ")));
    assert_eq!(conn.run("EVAL 'return redis.REDIS_VERSION' 0").text(), version);
    let number = version.split('.').fold(0, |number, part| number << 8 | part.parse::<i64>().expect("a number"));
    assert_eq!(conn.run("EVAL 'return redis.REDIS_VERSION_NUM' 0"), Value::Int(number));
}

#[test]
fn the_command_line_overrides_the_configuration_file() {
    let (_dir, path) = config("maxclients 123\ntimeout 77 # no comment here\n");
    let bad = Launch::run_to_end(&onrush_bin(), &[path.to_str().expect("a plain path")]);
    assert_eq!(bad.0.code(), Some(1), "text behind a value is no comment: {}", bad.1);
    let (_dir, path) = config("# comment\nmaxclients 123\ntimeout 77\nmaxmemory \"100mb\"\n");
    let server = Launch::onrush().config_file(&path).args(&["--timeout", "88"]).start();
    let mut conn = server.connect();
    assert_eq!(config_value(&mut conn, "maxclients"), "123");
    assert_eq!(config_value(&mut conn, "timeout"), "88");
    assert_eq!(config_value(&mut conn, "maxmemory"), "104857600");
}

#[test]
fn a_rewritten_configuration_survives_a_restart() {
    let (_dir, path) = config("# keep this comment\ntimeout 77\nmaxmemory 100mb\n");
    let mut first = Launch::onrush().config_file(&path).start();
    let mut conn = first.connect();
    conn.run("CONFIG SET timeout 99 maxmemory-policy allkeys-lru requirepass \"with \\\"quotes\\\" and \\x01\"");
    assert_eq!(conn.run("CONFIG REWRITE").text(), "OK");
    first.signal("TERM");
    first.wait_exit();
    let text = fs::read_to_string(&path).expect("the file");
    assert!(text.contains("# keep this comment"), "{text}");
    let server = Launch::onrush().config_file(&path).start();
    let mut conn = server.connect();
    assert!(conn.run("PING").text().starts_with("NOAUTH"));
    assert_eq!(conn.call(&argv!["AUTH", b"with \"quotes\" and \x01"]).text(), "OK");
    assert_eq!(config_value(&mut conn, "timeout"), "99");
    assert_eq!(config_value(&mut conn, "maxmemory"), "104857600");
    assert_eq!(config_value(&mut conn, "maxmemory-policy"), "allkeys-lru");
}

#[test]
fn without_a_file_there_is_nothing_to_rewrite() {
    let server = Server::start_onrush(&[]);
    assert_eq!(server.connect().run("CONFIG REWRITE").text(), "ERR The server is running without a config file");
}

#[test]
fn a_unix_socket_alone_is_enough() {
    let dir = TempDir::new();
    let path = dir.0.join("only.socket");
    let text = path.to_str().expect("a plain path");
    let server = Launch::onrush().args(&["--unixsocketperm", "700"]).unix_socket().start();
    let mode = fs::metadata(server.dir().join("socket")).expect("a socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    assert!(server.connect().run("CLIENT INFO").text().contains("addr="));
    let (_conf_dir, conf) = config(&format!("unixsocket {text}\nsave \"\"\n"));
    let server = Launch::onrush().config_file(&conf).args(&["--port", "0", "--unixsocket", text]).spawn();
    let mut conn = None;
    wait_until("the socket accepts", || {
        conn = Conn::unix(&path).ok();
        conn.is_some()
    });
    assert_eq!(conn.expect("connected").run("PING").text(), "PONG");
    assert!(server.try_connect().is_err(), "port 0 stands for no TCP at all");
}

#[test]
fn a_password_is_asked_for() {
    let server = Server::start_onrush(&["--requirepass", "secret"]);
    let mut conn = server.connect();
    assert_eq!(conn.run("GET a").text(), "NOAUTH Authentication required.");
    assert_eq!(conn.run("AUTH wrong").text(), "WRONGPASS invalid username-password pair or user is disabled.");
    assert_eq!(conn.run("AUTH secret").text(), "OK");
    assert_eq!(conn.run("SET a 1").text(), "OK");
    assert_eq!(conn.run("CONFIG SET requirepass other").text(), "OK");
    assert_eq!(
        server.connect().run("AUTH secret").text(),
        "WRONGPASS invalid username-password pair or user is disabled."
    );
    assert_eq!(server.connect().run("AUTH other").text(), "OK");
}

#[test]
fn idle_clients_are_closed_after_the_timeout() {
    let server = Server::start_onrush(&["--timeout", "1"]);
    let mut busy = server.connect();
    let mut idle = server.connect();
    idle.run("PING");
    let started = Instant::now();
    idle.set_timeout(Duration::from_millis(50));
    wait_until("the idle client is closed", || {
        assert_eq!(busy.run("PING").text(), "PONG");
        matches!(idle.fill(), Ok(0))
    });
    let took = started.elapsed();
    assert!(took > Duration::from_millis(800) && took < Duration::from_secs(5), "after {took:?}");
}

#[test]
fn the_log_goes_where_it_is_told() {
    let server = Server::start_onrush(&["--logfile", "server.log", "--loglevel", "verbose"]);
    let log = || fs::read_to_string(server.dir().join("server.log")).expect("a log file");
    wait_until("the start is logged", || log().contains("Ready to accept connections"));
    // As programs do that rotate logs.
    let old = server.dir().join("server.log.1");
    fs::rename(server.dir().join("server.log"), &old).expect("it is moved");
    let before = fs::read_to_string(&old).expect("a log file");
    server.signal("TERM");
    wait_until("the end is logged in a new file", || {
        fs::read_to_string(server.dir().join("server.log")).is_ok_and(|text| text.contains("bye bye"))
    });
    assert_eq!(fs::read_to_string(&old).expect("a log file"), before);
}

#[test]
fn it_becomes_a_daemon() {
    let dir = TempDir::new();
    let held = Port::choose();
    let port = held.number();
    let pidfile = dir.0.join("pid");
    let path = |p: &Path| p.to_str().expect("a plain path").to_owned();
    let args = [
        "--port",
        &port.to_string(),
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--dir",
        &path(&dir.0),
        "--daemonize",
        "yes",
        "--pidfile",
        &path(&pidfile),
        "--logfile",
        "server.log",
    ];
    let (status, output) = Launch::run_to_end(&onrush_bin(), &args);
    assert_eq!(status.code(), Some(0), "{output}");
    wait_until("the daemon answers", || {
        Conn::tcp(port).and_then(|mut c| c.try_call(&argv!["PING"])).is_ok_and(|reply| reply == b"+PONG\r\n")
    });
    let pid: u32 = fs::read_to_string(&pidfile).expect("a pidfile").trim().parse().expect("a process id");
    assert_eq!(Conn::tcp(port).expect("connected").info_number("process_id"), Some(i64::from(pid)));
    process::signal(pid, "TERM");
    wait_until("the daemon ends", || !process::is_alive(pid));
    assert!(!pidfile.exists());
}

#[test]
fn running_out_of_file_descriptors_is_survived_and_logged() {
    let server = Launch::onrush().files_max(80).args(&["--workers", "2"]).start();
    let mut first = server.connect();
    assert_eq!(first.run("PING").text(), "PONG");
    let crowd: Vec<_> = (0..300).map(|_| server.try_connect()).collect();
    assert_eq!(first.run("SET a 1").text(), "OK");
    let before = server.cpu_time();
    std::thread::sleep(Duration::from_secs(1));
    let busy = server.cpu_time() - before;
    assert!(busy < Duration::from_millis(500), "it spins: {busy:?} of CPU in a second");
    assert_eq!(first.run("GET a").text(), "1");
    drop(crowd);
    wait_until("there is room again", || {
        let mut conn = server.connect();
        conn.try_call(&argv!["PING"]).is_ok_and(|reply| reply == b"+PONG\r\n")
    });
    let log = server.log().to_lowercase();
    assert!(log.contains("file descriptors") || log.contains("open files") || log.contains("maxclients"), "{log}");
}

#[test]
fn clients_that_are_refused_leave_files_for_everything_else() {
    for (workers, files_max) in [("2", 100), ("16", 160)] {
        let args =
            ["--workers", workers, "--appendonly", "yes", "--save", "3600 1", "--auto-aof-rewrite-percentage", "0"];
        let server = Launch::onrush().files_max(files_max).args(&args).start();
        let mut first = server.connect();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let crowd = scope.spawn(|| {
                let mut crowd = Vec::new();
                while !is_over.load(Relaxed) {
                    crowd.extend(server.try_connect().ok());
                    // The first ones have all the places.
                    if crowd.len() > 400 {
                        crowd.truncate(200);
                    }
                }
            });
            let mut wrong = Vec::new();
            for n in 0..30 {
                for line in [&format!("SET a {n}"), "BGREWRITEAOF", "SAVE"] {
                    let reply = first.run(line).text().to_owned();
                    let is_well =
                        ["OK", "Background append only file rewriting", "ERR Another child process is active"];
                    if !is_well.iter().any(|start| reply.starts_with(start)) && !reply.ends_with("already in progress")
                    {
                        wrong.push(format!("{line}: {reply}"));
                    }
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            is_over.store(true, Relaxed);
            crowd.join().expect("no panic");
            assert!(wrong.is_empty(), "{wrong:?}, log: {}", server.log_tail());
        });
        assert!(first.info_number("rejected_connections") > Some(10));
        assert_eq!(first.run("GET a").text(), "29");
    }
}

#[test]
fn clients_that_come_as_others_go_have_a_place() {
    let server = Server::start_onrush(&["--workers", "2", "--maxclients", "8"]);
    let mut conns: Vec<Conn> = Vec::new();
    for round in 0..20 {
        conns.drain(..).for_each(Conn::close);
        conns.extend((0..8).map(|_| server.connect()));
        for conn in &mut conns {
            assert_eq!(conn.run("PING").text(), "PONG", "round {round}");
        }
    }
}

#[test]
fn memory_comes_back_after_expiry_and_flush() {
    let server = Server::start_onrush(&["--workers", "2"]);
    let mut conn = server.connect();
    let used = |conn: &mut Conn| conn.info_number("used_memory").expect("used_memory in INFO");
    for ending in ["expiry", "FLUSHALL", "FLUSHALL ASYNC"] {
        let before = used(&mut conn);
        for chunk in 0..30 {
            let set = |i| match ending {
                "expiry" => argv!["SET", format!("key:{chunk}:{i}"), "v".repeat(100), "PX", "8000"],
                _ => argv!["SET", format!("key:{chunk}:{i}"), "v".repeat(100)],
            };
            conn.pipeline(&(0..10_000).map(set).collect::<Vec<_>>());
        }
        let grown = used(&mut conn) - before;
        assert!(grown > 30_000_000, "{ending}: {grown} bytes for 300,000 keys");
        let started = Instant::now();
        if ending != "expiry" {
            conn.run(ending);
            assert_eq!(conn.run("DBSIZE"), Value::Int(0));
        }
        wait_until("the memory is free", || used(&mut conn) - before < grown / 8);
        assert!(started.elapsed() < Duration::from_secs(15), "{ending}: {:?}", started.elapsed());
        wait_until("no key is left", || conn.run("DBSIZE") == Value::Int(0));
    }
    assert!(conn.info_number("expired_keys") >= Some(300_000));
}

#[test]
fn an_idle_server_rests() {
    let server = Server::start_onrush(&["--workers", "2"]);
    server.connect().run("PING");
    let before = server.cpu_time();
    std::thread::sleep(Duration::from_secs(2));
    let busy = server.cpu_time() - before;
    assert!(busy <= Duration::from_millis(60), "{busy:?} of CPU in two idle seconds");
    assert!(is_stand_in() || server.anonymous_kb() < 5 * 1024, "{} kB of memory", server.anonymous_kb());
    // Of the program's own file the system keeps more or less.
    assert!(is_stand_in() || server.rss_kb() < 14 * 1024, "{} kB of memory", server.rss_kb());
}

#[test]
fn the_server_listens_elsewhere_when_told_to() {
    for server in [Server::start_onrush(&["--workers", "2"]), Server::start_redis(&[])] {
        let mut conn = server.connect();
        let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("another port");
        let [taken_port, free_port] = [&taken, &free].map(|listener| listener.local_addr().expect("bound").port());
        drop(free);

        // What cannot be had changes nothing.
        assert_eq!(
            conn.run(&format!("CONFIG SET port {taken_port}")).text(),
            "ERR CONFIG SET failed (possibly related to argument 'port') - Unable to listen on this port. Check server logs."
        );
        assert_eq!(
            conn.run("CONFIG SET bind 192.0.2.1").text(),
            "ERR CONFIG SET failed (possibly related to argument 'bind') - Failed to bind to specified addresses."
        );
        assert_eq!(
            conn.run(&format!("CONFIG SET maxclients 50 port {taken_port}")).text(),
            "ERR CONFIG SET failed (possibly related to argument 'port') - Unable to listen on this port. Check server logs."
        );
        assert!(!conn.run("CONFIG GET maxclients").text().contains("50\n"));
        assert_eq!(Conn::tcp(server.port()).expect("still there").run("PING").text(), "PONG");

        assert_eq!(conn.run(&format!("CONFIG SET port {free_port}")).text(), "OK");
        assert_eq!(Conn::tcp(free_port).expect("the new port").run("PING").text(), "PONG");
        assert!(Conn::tcp(server.port()).is_err());
        assert!(conn.run("INFO server").text().contains(&format!("tcp_port:{free_port}\r\n")));
        for bind in ["*", "127.0.0.1 -192.0.2.1", "0.0.0.0", "127.0.0.1"] {
            assert_eq!(conn.call(&argv!["CONFIG", "SET", "bind", bind]).text(), "OK");
            assert_eq!(Conn::tcp(free_port).expect("the new address").run("PING").text(), "PONG");
        }
        assert_eq!(conn.run("CONFIG SET port 0").text(), "OK");
        assert!(Conn::tcp(free_port).is_err());
        assert_eq!(conn.run(&format!("CONFIG SET port {}", server.port())).text(), "OK");
        assert_eq!(server.connect().run("PING").text(), "PONG");
    }
}

#[test]
fn nobody_waits_for_the_names_that_the_server_is_to_listen_at() {
    if skips_on_stand_in() {
        return;
    }
    let (library, folder) = (Library::build().expect("a C compiler"), TempDir::new());
    let disk = Disk::below(&library, &folder.0).expect("a page");
    let server = Launch::onrush().args(&["--workers", "2"]).disk(&disk).start();
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound").port();
    let mut conns: Vec<Conn> = (0..6).map(|_| server.connect()).collect();
    let (mut asking, mut probe) = (server.connect(), server.connect());
    let Value::Int(id) = asking.run("CLIENT ID") else { panic!("no number") };
    disk.set(Word::LookupDelayUs, 600_000_000);
    asking.send_command(&argv!["CONFIG", "SET", "port", free.to_string(), "bind", "localhost"]).expect("sent");
    // It gets the reply even so.
    asking.half_close();

    let started = Instant::now();
    wait_until("it waits", || probe.info_number("blocked_clients") == Some(1));
    for (number, conn) in conns.iter_mut().enumerate() {
        assert_eq!(conn.run("FLUSHALL").text(), "OK");
        assert_eq!(conn.run(&format!("CONFIG SET maxmemory-samples {}", number + 1)).text(), "OK");
        assert_eq!(server.connect().run("PING").text(), "PONG");
    }
    for reason in ["", " ERROR"] {
        assert_eq!(probe.run(&format!("CLIENT UNBLOCK {id}{reason}")), Value::Int(0));
    }
    assert!(started.elapsed() < Duration::from_secs(3), "others have waited: {:?}", started.elapsed());
    assert_eq!(config_value(&mut probe, "port"), server.port().to_string());
    let error = probe.pipeline(&[argv!["MULTI"], argv!["CONFIG", "SET", "bind", "localhost"], argv!["EXEC"]]).remove(2);
    let text =
        "CONFIG SET failed (possibly related to argument 'bind') - it waits for name servers, which no transaction can";
    assert!(String::from_utf8_lossy(&error).contains(text), "{}", error.escape_ascii());

    disk.heal();
    assert_eq!(asking.read_to_close().expect("a reply"), b"+OK\r\n");
    assert!(std::net::TcpStream::connect(("localhost", free)).is_ok() && Conn::tcp(server.port()).is_err());
    assert_eq!(config_value(&mut probe, "port"), free.to_string());
    assert_eq!(config_value(&mut probe, "maxmemory-samples"), "6", "what others have changed meanwhile stays");
    assert_eq!(probe.info_number("tcp_port"), Some(free.into()));
}

#[test]
fn a_server_listens_where_it_did_if_another_part_of_the_change_fails() {
    if skips_on_stand_in() {
        return;
    }
    let server = Server::start_onrush(&[]);
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound").port();
    let mut conn = server.connect();
    for change in [format!("port {free}"), "bind 0.0.0.0".to_owned()] {
        let error = conn.run(&format!("CONFIG SET {change} maxclients 4000000000")).text();
        assert!(error.contains("The operating system is not able to handle"), "{error}");
        assert_eq!(server.connect().run("PING").text(), "PONG");
        assert!(Conn::tcp(free).is_err());
        assert_eq!(config_value(&mut conn, "port"), server.port().to_string());
    }
}

#[test]
fn a_worker_that_does_not_come_round_is_logged_and_a_second_signal_ends_it_all_the_same() {
    let mut server = Server::start_onrush(&["--workers", "1", "--enable-debug-command", "yes"]);
    let mut conn = server.connect();
    conn.send_command(&argv!["DEBUG", stall(), "60"]).expect("a connection");
    server.expect_log("busy with one command for 1 s: debug");
    server.signal("TERM");
    server.expect_log("SIGTERM");
    assert!(server.exited().is_none(), "nothing is cut off half-way by the first signal");
    server.signal("TERM");
    assert_eq!(server.wait_exit().code(), Some(1));
}
