//! Results of the slow log, the histograms and the latency monitor for which no oracle has the expected value.

use onrush_tests::argv;
use onrush_tests::argv::Argv;
use onrush_tests::client::Conn;
use onrush_tests::resp::Value;
use onrush_tests::server::{Oracle, Server, is_stand_in, wait_until};

/// The arguments of the entries of the slow log, the latest first, each joined by blanks.
fn slow_commands(conn: &mut Conn) -> Vec<String> {
    let reply = conn.run("SLOWLOG GET -1");
    let entry = |entry: &Value| {
        let args = entry.items().expect("an entry")[3].items().expect("arguments");
        args.iter().map(Value::text).collect::<Vec<_>>().join(" ")
    };
    reply.items().expect("entries").iter().map(entry).collect()
}

fn number(value: &Value) -> i64 {
    match value {
        Value::Int(number) => *number,
        other => panic!("no number: {other}"),
    }
}

/// The values of an INFO section by their fields.
fn info(conn: &mut Conn, section: &str, field: &str) -> Option<String> {
    let text = conn.run(&format!("INFO {section}")).text();
    text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')).map(str::to_owned)
}

/// The microseconds in a line of INFO `commandstats`.
fn micros_of(stats: &str) -> u64 {
    let usec = stats.split("usec=").nth(1).and_then(|rest| rest.split(',').next()).and_then(|usec| usec.parse().ok());
    usec.expect("a number")
}

#[test]
fn every_command_of_a_pipeline_is_logged_when_all_count_as_slow() {
    let server = Server::start_onrush(&[]);
    let mut conn = server.connect();
    conn.run("CLIENT SETNAME me");
    conn.run("CONFIG SET slowlog-log-slower-than 0");
    conn.run("SLOWLOG RESET");
    let lines = ["SET a 1", "SET a 1", "SET a 1", "GET a", "NOSUCH", "GET", "KEYS *", "INCR a", "LPUSH a x", "PING"];
    let commands: Vec<Argv> = lines.iter().map(|line| Argv::parse(line).expect("a line")).collect();
    conn.pipeline(&commands);
    // What is no command, or has too few arguments, is not executed.
    let mut expected: Vec<&str> =
        lines.iter().copied().filter(|line| !["NOSUCH", "GET"].contains(line)).rev().collect();
    expected.push("SLOWLOG RESET");
    assert_eq!(slow_commands(&mut conn), expected);
    let latest = conn.run("SLOWLOG GET 1");
    let entry = latest.items().expect("entries")[0].items().expect("an entry").to_vec();
    assert_eq!((entry.len(), entry[5].text()), (6, "me".to_owned()));
    assert!(entry[4].text().starts_with("127.0.0.1:"));
    assert!(number(&entry[2]) >= 0);
    conn.run("CONFIG SET slowlog-log-slower-than -1");
    let len = number(&conn.run("SLOWLOG LEN"));
    conn.run("SET a 1");
    assert_eq!(number(&conn.run("SLOWLOG LEN")), len);
}

#[test]
fn commands_of_a_transaction_are_logged_and_counted_one_by_one() {
    let server = Server::start_onrush(&["--enable-debug-command", "yes"]);
    let mut conn = server.connect();
    let pipeline = |conn: &mut Conn, lines: &[&str]| {
        conn.pipeline(&lines.iter().map(|line| Argv::parse(line).expect("a line")).collect::<Vec<_>>());
    };
    conn.run("CONFIG SET slowlog-log-slower-than 50000");
    pipeline(&mut conn, &["MULTI", "SET a 1", "KEYS *", "SET b 1", "EXEC"]);
    conn.run("CONFIG SET slowlog-log-slower-than 0");
    conn.run("SLOWLOG RESET");
    pipeline(&mut conn, &["MULTI", "SET a 1", "GET a", "EXEC"]);
    assert_eq!(slow_commands(&mut conn), ["GET a", "SET a 1", "MULTI", "SLOWLOG RESET"]);
    conn.run("HOTKEYS START METRICS 1 NET");
    pipeline(&mut conn, &["MULTI", "GET hot", "GET hot", "EXEC"]);
    for (name, calls) in [("set", 3), ("get", 3), ("keys", 1)] {
        let stats = info(&mut conn, "commandstats", &format!("cmdstat_{name}")).expect("a line");
        assert!(stats.starts_with(&format!("calls={calls},")), "{name}: {stats}");
        let told = conn.call(&argv!["LATENCY", "HISTOGRAM", name]).pairs().expect("pairs");
        assert_eq!(told[0].1.pairs().expect("fields")[0].1, Value::Int(calls), "{name}");
    }
    if !is_stand_in() {
        assert!(conn.run("HOTKEYS GET").to_string().contains("hot"));
    }
}

#[test]
fn arguments_are_cut_and_passwords_are_not_shown() {
    let server = Server::start_onrush(&[]);
    let mut conn = server.connect();
    conn.run("CONFIG SET slowlog-log-slower-than 0");
    conn.run("CONFIG SET masterauth secret");
    conn.run("AUTH secret");
    conn.run("SLOWLOG LEN");
    let logged = slow_commands(&mut conn);
    assert_eq!(logged[..3], ["SLOWLOG LEN", "AUTH (redacted)", "CONFIG SET masterauth (redacted)"]);
    conn.call(&argv!["SET", "k", "x".repeat(200)]);
    let mut words = vec!["DEL".to_owned()];
    words.extend((0..40).map(|n| format!("k{n}")));
    conn.call(&Argv::new(&words));
    let logged = slow_commands(&mut conn);
    assert_eq!(logged[0], words[..31].join(" ") + " ... (10 more arguments)");
    assert_eq!(logged[1], format!("SET k {}... (72 more bytes)", "x".repeat(128)));
}

#[test]
fn waiting_is_not_slow() {
    let server = Server::start_onrush(&[]);
    let mut conn = server.connect();
    conn.run("CONFIG SET slowlog-log-slower-than 30000");
    conn.run("BLPOP k 0.06");
    let logged = slow_commands(&mut conn);
    assert!(!logged.iter().any(|command| command.starts_with("BLPOP")), "{logged:?}");
}

#[test]
fn a_slow_command_is_logged_and_its_event_noted() {
    let server = Server::start_onrush(&["--enable-debug-command", "yes"]);
    let mut conn = server.connect();
    assert!(conn.run("LATENCY DOCTOR").text().contains("not monitored") || is_stand_in());
    conn.run("CONFIG SET latency-monitor-threshold 20");
    conn.run("DEBUG SLEEP 0.06");
    assert!(slow_commands(&mut conn).contains(&"DEBUG SLEEP 0.06".to_owned()));
    let latest = conn.run("LATENCY LATEST");
    let event = latest.items().expect("events")[0].items().expect("an event").to_vec();
    assert_eq!(event[0].text(), "command");
    assert!(number(&event[2]) >= 60 && number(&event[3]) >= 60);
    let history = conn.run("LATENCY HISTORY command");
    assert_eq!(history.items().map(|samples| samples.len()), Some(1));
    assert!(conn.run("LATENCY GRAPH command").text().starts_with("command - high "));
    assert!(conn.run("LATENCY DOCTOR").text().contains("1 spike") || is_stand_in());
    assert_eq!(conn.run("LATENCY RESET nosuch command"), Value::Int(1));
    assert!(conn.run("LATENCY GRAPH command").is_error());
}

#[test]
fn histograms_count_what_commandstats_counts() {
    let server = Server::start_onrush(&["--workers", "2"]);
    let mut conn = server.connect();
    let commands: Vec<Argv> = (0..500).flat_map(|n| [argv!["SET", format!("k{n}"), "1"], argv!["GET", "k1"]]).collect();
    conn.pipeline(&commands);
    conn.run("KEYS nothing*");
    conn.run("CONFIG GET maxmemory");
    for (name, calls) in [("set", 500), ("get", 500), ("keys", 1), ("config|get", 1)] {
        let stats = info(&mut conn, "commandstats", &format!("cmdstat_{name}")).expect("a line");
        assert!(stats.starts_with(&format!("calls={calls},")), "{name}: {stats}");
        let reply = conn.call(&argv!["LATENCY", "HISTOGRAM", name]);
        let told = reply.pairs().expect("pairs");
        assert_eq!(told[0].0.text(), name);
        let fields = told[0].1.pairs().expect("fields");
        assert_eq!(fields[0].1, Value::Int(calls));
        let powers = fields[1].1.pairs().expect("powers");
        assert_eq!(powers.last().map(|(_, calls)| calls.clone()), Some(Value::Int(calls)), "{name}");
        let percentiles = info(&mut conn, "latencystats", &format!("latency_percentiles_usec_{name}"));
        let percentiles = percentiles.expect("a line");
        let words: Vec<&str> = percentiles.split(',').map(|word| word.split('=').next().expect("a name")).collect();
        assert_eq!(words, ["p50", "p99", "p99.9"]);
    }
    // The container stands for its subcommands.
    let of_config = conn.run("LATENCY HISTOGRAM config nosuch");
    assert_eq!(of_config.pairs().map(|pairs| pairs[0].0.text()), Some("config|get".to_owned()));
    conn.run("CONFIG SET latency-tracking-info-percentiles \"0 100\"");
    assert!(info(&mut conn, "latencystats", "latency_percentiles_usec_set").expect("a line").contains(",p100="));
    conn.run("CONFIG RESETSTAT");
    wait_until("the counters of the chunk before are in", || {
        conn.run("LATENCY HISTOGRAM set get keys").pairs().is_some_and(|pairs| pairs.is_empty())
    });
    conn.run("CONFIG SET latency-tracking no");
    conn.run("SET a 1");
    assert!(conn.run("LATENCY HISTOGRAM set").pairs().is_some_and(|pairs| pairs.is_empty()));
    assert_eq!(info(&mut conn, "latencystats", "latency_percentiles_usec_get"), None);
}

/// Scripts that are known to be brief are timed together, with others they are not.
#[test]
fn every_script_of_a_pipeline_is_counted() {
    let server = Server::start_onrush(&["--workers", "2"]);
    let mut conn = server.connect();
    let brief = |key: String| argv!["EVAL", "return redis.call('INCR', KEYS[1])", "1", key];
    let fails = || argv!["EVAL", "return redis.call('INCR', KEYS[1])", "1", "list"];
    let longer = || argv!["EVAL", "for i = 1, 3 do redis.call('INCR', 'n') end return 1", "0"];
    conn.run("LPUSH list x");
    let mut commands: Vec<Argv> = (0..100).map(|n| brief(format!("k{n}"))).collect();
    commands.extend((0..40).map(|_| brief("same".to_owned())));
    commands.extend((0..30).flat_map(|_| [brief("a".to_owned()), argv!["SET", "b", "1"]]));
    commands.extend((0..30).flat_map(|_| [brief("a".to_owned()), brief("b".to_owned()), longer()]));
    commands.extend((0..20).flat_map(|_| [brief("a".to_owned()), fails()]));
    commands.extend([
        argv!["MULTI"],
        brief("a".to_owned()),
        brief("b".to_owned()),
        argv!["EXEC"],
        brief("b".to_owned()),
    ]);
    conn.pipeline(&commands);
    // Also what has just been executed.
    let replies = conn.pipeline(&[brief("a".to_owned()), brief("a".to_owned()), argv!["INFO", "commandstats"]]);
    let text = String::from_utf8_lossy(&replies[2]);
    let line = text.lines().find(|line| line.starts_with("cmdstat_eval:")).expect("a line");
    assert!(line.contains("calls=305,") && line.ends_with("failed_calls=20"), "{line}");
    assert!(micros_of(line) >= 50, "{line}");
    let told = conn.run("LATENCY HISTOGRAM eval").pairs().expect("pairs");
    assert_eq!(told[0].1.pairs().expect("fields")[0].1, Value::Int(305));
}

#[test]
fn a_script_behind_short_commands_begins_when_it_begins() {
    let server = Server::start_onrush(&["--workers", "1"]);
    let mut conn = server.connect();
    let lives = || argv!["EVAL", "return redis.call('SET', KEYS[1], 'v', 'PX', 5000)", "1", "k"];
    // The first of a chunk, and the second of a later one.
    conn.call(&lives());
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    conn.pipeline(&[argv!["GET", "a"], lives()]);
    let Value::Int(left_ms) = conn.run("PTTL k") else { panic!("no number") };
    assert!((4_000..=5_000).contains(&left_ms), "{left_ms} ms");
    let stats = info(&mut conn, "commandstats", "cmdstat_eval").expect("a line");
    assert!(micros_of(&stats) < 1_000_000, "{stats}");
}

#[test]
fn a_script_that_is_refused_behind_a_brief_one_has_not_failed() {
    let server = Server::start_onrush(&["--workers", "1"]);
    let mut conn = server.connect();
    conn.run("CONFIG SET maxmemory 1");
    conn.pipeline(&[argv!["EVAL", "return 1", "0"], argv!["EVAL", "#!lua\nreturn 1", "0"]]);
    let stats = info(&mut conn, "commandstats", "cmdstat_eval").expect("a line");
    assert!(stats.starts_with("calls=1,") && stats.ends_with("rejected_calls=1,failed_calls=0"), "{stats}");
}

#[test]
fn a_command_that_waits_is_logged_when_it_has_its_reply_and_as_it_came() {
    let servers = [Server::start_onrush(&[]), Server::start_oracle(Oracle::Newer, &[])];
    let logged = servers.map(|server| {
        let (mut conn, mut waiter) = (server.connect(), server.connect());
        conn.run("CONFIG SET slowlog-log-slower-than 0");
        for (waits, pushes) in [
            ("BLPOP list 0", "RPUSH list a"),
            ("BLMOVE list other LEFT RIGHT 0", "RPUSH list a"),
            ("BZPOPMIN set 0", "ZADD set 1 a"),
            ("XREAD BLOCK 0 STREAMS s t $ +", "XADD s 1-1 a b"),
            ("BLPOP none 0.01", "PING"),
            ("BLPOP unblocked 0", "CLIENT UNBLOCK"),
        ] {
            let argv = Argv::parse(waits).expect("a line");
            let Value::Int(id) = waiter.run("CLIENT ID") else { panic!("no number") };
            conn.run("SLOWLOG RESET");
            waiter.send_command(&argv).expect("sent");
            if pushes != "PING" {
                wait_until("the client waits", || conn.info_number("blocked_clients") == Some(1));
                assert!(!slow_commands(&mut conn).iter().any(|command| command == waits), "{waits} is not done");
            }
            conn.run(&if pushes == "CLIENT UNBLOCK" { format!("{pushes} {id}") } else { pushes.to_owned() });
            waiter.read_reply().expect("a reply");
            let count = slow_commands(&mut conn).iter().filter(|command| *command == waits).count();
            assert_eq!(count, 1, "{waits}");
        }
        conn.run("SLOWLOG RESET");
        for line in ["SET k 1 EX 100", "GETEX k PERSIST", "SADD set2 a b", "SPOP set2 2", "INCRBYFLOAT k 1.5"] {
            conn.run(line);
        }
        slow_commands(&mut conn)
    });
    assert_eq!(logged[0], logged[1]);
}
