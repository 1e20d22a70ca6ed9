//! HOTKEYS, as Redis 8.6 documents it. No oracle has it.

use onrush_tests::argv;
use onrush_tests::argv::Argv;
use onrush_tests::client::Conn;
use onrush_tests::resp::Value;
use onrush_tests::server::{Server, skips_on_stand_in, wait_until};

/// What the one element of the reply tells.
fn fields(conn: &mut Conn) -> Option<Vec<(Value, Value)>> {
    match conn.run("HOTKEYS GET").items()? {
        [about] => about.pairs(),
        other => panic!("{} elements", other.len()),
    }
}

fn field(conn: &mut Conn, name: &str) -> Option<Value> {
    let pairs = fields(conn)?;
    pairs.into_iter().find(|(field, _)| field.text() == name).map(|(_, value)| value)
}

fn keys(conn: &mut Conn, name: &str) -> Vec<String> {
    let found = field(conn, name).expect("a field");
    found.items().expect("keys and sums").iter().step_by(2).map(Value::text).collect()
}

#[test]
fn a_session_finds_the_keys_that_take_most_time_and_bytes() {
    if skips_on_stand_in() {
        return;
    }
    let server = Server::start_onrush(&[]);
    let mut conn = server.connect();
    assert!(matches!(conn.run("HOTKEYS GET"), Value::Null(_)));
    conn.call(&argv!["SET", "large", "x".repeat(10_000)]);
    let members: Vec<String> = (0..3_000).map(|n| n.to_string()).collect();
    conn.call(&Argv::new(&[vec!["SADD".to_owned(), "set".to_owned()], members].concat()));
    assert_eq!(conn.run("HOTKEYS START METRICS 2 CPU NET COUNT 2").text(), "OK");
    assert!(conn.run("HOTKEYS START METRICS 1 CPU").is_error());
    assert!(conn.run("HOTKEYS RESET").is_error());
    let mut batch: Vec<Argv> = (0..500).map(|n| argv!["SET", format!("cold:{n}"), "v"]).collect();
    batch.extend((0..100).map(|_| argv!["GET", "large"]));
    batch.extend((0..100).map(|_| argv!["SORT", "set", "LIMIT", "0", "1"]));
    conn.pipeline(&batch);
    assert_eq!(keys(&mut conn, "by-net-bytes")[0], "large");
    assert_eq!(keys(&mut conn, "by-cpu-time-us")[0], "set");
    assert_eq!(keys(&mut conn, "by-net-bytes").len(), 2);
    assert_eq!(field(&mut conn, "tracking-active"), Some(Value::Int(1)));
    let fields: Vec<String> = fields(&mut conn).expect("fields").iter().map(|(name, _)| name.text()).collect();
    let documented = [
        "tracking-active",
        "sample-ratio",
        "selected-slots",
        "all-commands-all-slots-us",
        "net-bytes-all-commands-all-slots",
        "collection-start-time-unix-ms",
        "collection-duration-ms",
        "by-cpu-time-us",
        "by-net-bytes",
    ];
    assert_eq!(fields, documented);
    assert_eq!(conn.run("HOTKEYS STOP").text(), "OK");
    assert!(matches!(conn.run("HOTKEYS STOP"), Value::Null(_)));
    conn.run("GET other");
    assert_eq!(field(&mut conn, "tracking-active"), Some(Value::Int(0)));
    assert_eq!(keys(&mut conn, "by-net-bytes")[0], "large");
    assert_eq!(conn.run("HOTKEYS RESET").text(), "OK");
    assert!(matches!(conn.run("HOTKEYS GET"), Value::Null(_)));
}

#[test]
fn a_sample_and_a_duration_bound_what_a_session_costs() {
    if skips_on_stand_in() {
        return;
    }
    let server = Server::start_onrush(&[]);
    let mut conn = server.connect();
    conn.run("HOTKEYS START METRICS 1 NET SAMPLE 10 DURATION 1");
    let gets: Vec<Argv> = (0..32_000).map(|n| argv!["GET", format!("k{}", n % 2)]).collect();
    conn.pipeline(&gets);
    let Some(Value::Int(bytes)) = field(&mut conn, "net-bytes-all-commands-all-slots") else { panic!("no number") };
    // One GET is ten bytes with its reply, there are 32,000, and those looked at stand for all.
    assert!((100_000..1_000_000).contains(&bytes), "{bytes}");
    assert_eq!(field(&mut conn, "by-cpu-time-us"), None);
    wait_until("the session is over", || field(&mut conn, "tracking-active") == Some(Value::Int(0)));
    assert_eq!(conn.run("HOTKEYS START METRICS 1 CPU").text(), "OK");
}

#[test]
fn wrong_options_are_refused() {
    if skips_on_stand_in() {
        return;
    }
    let server = Server::start_onrush(&[]);
    let mut conn = server.connect();
    for line in [
        "HOTKEYS",
        "HOTKEYS START",
        "HOTKEYS START METRICS 1",
        "HOTKEYS START METRICS 2 CPU",
        "HOTKEYS START METRICS 1 CPU NET",
        "HOTKEYS START METRICS 1 CPU CPU",
        "HOTKEYS START METRICS x CPU",
        "HOTKEYS START COUNT 1 CPU",
        "HOTKEYS START METRICS 1 CPU COUNT 0",
        "HOTKEYS START METRICS 1 CPU SAMPLE 0",
        "HOTKEYS START METRICS 1 CPU DURATION -1",
        "HOTKEYS START METRICS 1 CPU SLOTS 1 5",
        "HOTKEYS GET x",
    ] {
        assert!(conn.run(line).is_error(), "{line}");
    }
    assert!(matches!(conn.run("HOTKEYS GET"), Value::Null(_)));
}

#[test]
fn info_tells_of_a_session_until_it_is_reset() {
    if skips_on_stand_in() {
        return;
    }
    let server = Server::start_onrush(&[]);
    let mut conn = server.connect();
    for (line, expected) in [
        ("PING", None),
        ("HOTKEYS START METRICS 1 NET", Some("1")),
        ("HOTKEYS STOP", Some("0")),
        ("HOTKEYS RESET", None),
    ] {
        conn.run(line);
        for info in ["INFO", "INFO hotkeys"] {
            let info = conn.run(info).text();
            let told = info.split_once("# Hotkeys\r\n").map(|(_, rest)| rest.lines().next().unwrap_or_default());
            assert_eq!(told, expected.map(|active| format!("hotkeys-tracking-active:{active}")).as_deref(), "{line}");
        }
    }
}
