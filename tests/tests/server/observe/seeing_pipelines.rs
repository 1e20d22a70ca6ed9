//! The server's figures about its clients' pipelines: INFO pipeline, CLIENT LIST, PIPELINE DOCTOR.

use std::time::{Duration, Instant};

use onrush_tests::argv;
use onrush_tests::argv::Argv;
use onrush_tests::client::Conn;
use onrush_tests::resp::Value;
use onrush_tests::server::{Server, skips_on_stand_in, stall, wait_until};

fn info(conn: &mut Conn, field: &str) -> String {
    let text = conn.run("INFO pipeline").text();
    let found = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    found.unwrap_or_else(|| panic!("no {field} in {text}")).to_owned()
}

fn number(conn: &mut Conn, field: &str) -> u64 {
    info(conn, field).parse().expect("a number")
}

/// How often a size was counted in a field such as `1=5,4=2`.
fn count_of(conn: &mut Conn, field: &str, size: u64) -> u64 {
    let text = info(conn, field);
    let mut counts = text.split(',').filter_map(|pair| pair.split_once('='));
    counts.find(|(from, _)| *from == size.to_string()).map_or(0, |(_, count)| count.parse().expect("a number"))
}

/// A field of the line of the client called `name` in CLIENT LIST.
fn of_client(conn: &mut Conn, name: &str, field: &str) -> String {
    let list = conn.run("CLIENT LIST").text();
    let line = list.lines().find(|line| line.contains(&format!(" name={name} "))).unwrap_or_else(|| panic!("{list}"));
    let found = line.split(' ').find_map(|word| word.strip_prefix(field)?.strip_prefix('='));
    found.unwrap_or_else(|| panic!("no {field} in {line}")).to_owned()
}

fn sets(len: usize) -> Vec<Argv> {
    (0..len).map(|n| argv!["SET", format!("k{n}"), "v"]).collect()
}

#[test]
fn batches_are_counted_with_their_commands_and_replies() {
    if skips_on_stand_in() {
        return;
    }
    let server = Server::start_onrush(&["--workers", "1"]);
    let (mut conn, mut other) = (server.connect(), server.connect());
    conn.run("CLIENT SETNAME sender");
    other.run("CONFIG RESETSTAT");
    for _ in 0..3 {
        conn.pipeline(&sets(20));
    }
    // What a pipeline sends with one write may still be read in pieces, so sums are compared.
    let batches = number(&mut other, "pipeline_batches");
    assert!(number(&mut other, "pipeline_commands") >= 60);
    assert!(number(&mut other, "pipeline_round_trips_saved") >= 60 - batches);
    assert!(
        count_of(&mut other, "pipeline_commands_per_read", 16) > 0,
        "{}",
        info(&mut other, "pipeline_commands_per_read")
    );
    assert!(count_of(&mut other, "pipeline_replies_per_write", 16) > 0);
    assert!(number(&mut other, "pipeline_reply_buffer_max") >= 100);
    let commands: u64 = of_client(&mut other, "sender", "tot-cmds").parse().expect("a number");
    let batches: u64 = of_client(&mut other, "sender", "batches").parse().expect("a number");
    let saved: u64 = of_client(&mut other, "sender", "rtt-saved").parse().expect("a number");
    assert_eq!((commands, saved), (61, commands - batches));
}

#[test]
fn unread_replies_and_long_pipelines_count_as_deferrals() {
    if skips_on_stand_in() {
        return;
    }
    let server =
        Server::start_onrush(&["--workers", "1", "--pipeline-reply-limit", "16kb", "--pipeline-slice-us", "50"]);
    let (mut conn, mut other) = (server.connect(), server.connect());
    conn.run("CLIENT SETNAME reader");
    conn.call(&argv!["SET", "k", "x".repeat(10_000)]);
    let gets: Vec<u8> = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n".repeat(5_000);
    let mut writer = conn.writer().expect("a second handle");
    let sender = std::thread::spawn(move || writer.send(&gets));
    wait_until("the replies pass their limit", || number(&mut other, "pipeline_deferrals_reply_limit") > 0);
    for _ in 0..5_000 {
        assert_eq!(conn.read_reply().expect("a reply").len(), 10_010);
    }
    sender.join().expect("no panic").expect("sent");
    assert!(of_client(&mut other, "reader", "deferrals").parse::<u64>().expect("a number") > 0);
    assert!(of_client(&mut other, "reader", "rbuf-max").parse::<u64>().expect("a number") >= 16 * 1024);
    assert!(number(&mut other, "pipeline_reply_buffer_max") >= 16 * 1024);
    let doctor = other.run("PIPELINE DOCTOR").text();
    assert!(doctor.contains("name=reader sends batches that are too large"), "{doctor}");
}

#[test]
fn the_doctor_names_who_sends_one_command_at_a_time() {
    if skips_on_stand_in() {
        return;
    }
    let server = Server::start_onrush(&[]);
    let (mut conn, mut batches, mut other) = (server.connect(), server.connect(), server.connect());
    conn.run("CLIENT SETNAME single");
    batches.run("CLIENT SETNAME batches");
    batches.pipeline(&sets(1_000));
    assert!(!other.run("PIPELINE DOCTOR").text().contains("one command at a time"));
    let started = Instant::now();
    while started.elapsed() < Duration::from_millis(300) {
        conn.run("GET k1");
    }
    let doctor = other.run("PIPELINE DOCTOR").text();
    assert!(doctor.contains("name=single sends one command at a time"), "{doctor}");
    assert!(!doctor.contains("name=batches"), "{doctor}");
}

/// Entries of SLOWLOG BATCHES of the client called `name`: the named fields of each, the latest first.
fn slow_batches(conn: &mut Conn, name: &str, fields: &[&str]) -> Vec<Vec<i64>> {
    let reply = conn.run("SLOWLOG BATCHES -1");
    let entries = reply.items().expect("entries").iter().map(|entry| entry.pairs().expect("a map"));
    let field = |entry: &[(Value, Value)], name: &str| {
        entry.iter().find(|(field, _)| field.text() == name).map(|(_, value)| value.clone()).expect("a field")
    };
    let number = |value: Value| match value {
        Value::Int(number) => number,
        other => panic!("no number: {other}"),
    };
    entries
        .filter(|entry| field(entry, "name").text() == name)
        .map(|entry| fields.iter().map(|name| number(field(&entry, name))).collect())
        .collect()
}

#[test]
fn a_slow_batch_tells_what_its_time_was_spent_on() {
    if skips_on_stand_in() {
        return;
    }
    let server = Server::start_onrush(&["--workers", "1", "--enable-debug-command", "yes"]);
    let (mut conn, mut other) = (server.connect(), server.connect());
    other.run("CONFIG SET slowlog-log-slower-than 50000");
    conn.run("CLIENT SETNAME sleeper");
    let mut batch = sets(5);
    batch.push(argv!["DEBUG", stall(), "0.1"]);
    conn.pipeline(&batch);
    let fields = ["commands", "executing-us", "total-us", "syncing-us", "bytes"];
    let told = slow_batches(&mut other, "sleeper", &fields);
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!((told[0][0], told[0][3]), (6, 0));
    assert!(told[0][1] >= 100_000 && told[0][2] >= told[0][1] && told[0][4] > 100, "{told:?}");
    other.run("SLOWLOG RESET");
    assert_eq!(slow_batches(&mut other, "sleeper", &[]).len(), 0);
    // What waits for keys is not slow.
    conn.run("BLPOP nothing 0.1");
    assert_eq!(slow_batches(&mut other, "sleeper", &[]).len(), 0);
}

#[test]
fn a_batch_whose_replies_are_not_read_spends_its_time_flushing() {
    if skips_on_stand_in() {
        return;
    }
    let server = Server::start_onrush(&["--workers", "1"]);
    let (mut conn, mut other) = (server.connect(), server.connect());
    other.run("CONFIG SET slowlog-log-slower-than 50000");
    conn.run("CLIENT SETNAME reader");
    conn.call(&argv!["SET", "k", "x".repeat(100_000)]);
    let gets: Vec<u8> = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n".repeat(500);
    let started = Instant::now();
    conn.send(&gets).expect("sent");
    wait_until("the replies pass their limit", || number(&mut other, "pipeline_deferrals_reply_limit") > 0);
    wait_until("some time has passed", || started.elapsed() >= Duration::from_millis(200));
    for _ in 0..500 {
        conn.read_reply().expect("a reply");
    }
    wait_until("the batch is noted", || !slow_batches(&mut other, "reader", &[]).is_empty());
    let told = slow_batches(&mut other, "reader", &["commands", "flushing-us", "total-us"]);
    assert_eq!((told.len(), told[0][0]), (1, 500));
    assert!(told[0][1] >= 100_000 && told[0][2] >= told[0][1], "{told:?}");
}
