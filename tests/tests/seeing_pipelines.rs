//! What the server tells of its clients' pipelines: INFO pipeline, CLIENT LIST, PIPELINE DOCTOR.

use std::time::Duration;

use onrush_tests::argv;
use onrush_tests::argv::Argv;
use onrush_tests::client::Conn;
use onrush_tests::server::{Server, is_stand_in, wait_until};

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
    if is_stand_in() {
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
    if is_stand_in() {
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
    assert!(doctor.contains("name=reader sends batches that wait on themselves"), "{doctor}");
}

#[test]
fn the_doctor_names_who_sends_one_command_at_a_time() {
    if is_stand_in() {
        return;
    }
    let server = Server::start_onrush(&[]);
    let (mut conn, mut batches, mut other) = (server.connect(), server.connect(), server.connect());
    conn.run("CLIENT SETNAME single");
    batches.run("CLIENT SETNAME batches");
    batches.pipeline(&sets(1_000));
    assert!(!other.run("PIPELINE DOCTOR").text().contains("one command at a time"));
    let started = std::time::Instant::now();
    while started.elapsed() < Duration::from_millis(300) {
        conn.run("GET k1");
    }
    let doctor = other.run("PIPELINE DOCTOR").text();
    assert!(doctor.contains("name=single sends one command at a time"), "{doctor}");
    assert!(!doctor.contains("name=batches"), "{doctor}");
}
