//! The metrics for Prometheus: their format, who gets them, and that they are all that the dashboard asks for.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use onrush_tests::argv;
use onrush_tests::port::Port;
use onrush_tests::server::Server;

const DASHBOARD: &str = include_str!("../../../../contrib/grafana-dashboard.json");

fn start(port: u16) -> Server {
    Server::start_onrush(&["--metrics-port", &port.to_string(), "--workers", "2"])
}

fn ask(port: u16, request: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("a port");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("a response");
    response
}

fn scrape(port: u16) -> String {
    let response = ask(port, &format!("GET /metrics HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n"));
    let (head, body) = response.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("text/plain; version=0.0.4"), "{head}");
    assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
    body.to_owned()
}

/// The value of a line.
fn value(text: &str, metric: &str) -> f64 {
    let line = text.lines().find(|line| line.strip_prefix(metric).is_some_and(|rest| rest.starts_with(' ')));
    let line = line.unwrap_or_else(|| panic!("no {metric}"));
    line.rsplit_once(' ').expect("a value").1.parse().expect("a number")
}

#[test]
fn metrics_are_those_of_the_server_in_the_format_of_prometheus() {
    let chosen = Port::choose();
    let port = chosen.number();
    let server = start(port);
    let mut conn = server.connect();
    let commands: Vec<_> = (0..100).map(|n| argv!["SET", format!("k{n}"), "v"]).collect();
    conn.pipeline(&commands);
    conn.run("GET none");
    conn.run("FOO");
    conn.run("AUTH a b");
    let text = scrape(port);
    assert_eq!(value(&text, "redis_up"), 1.0);
    assert_eq!(value(&text, "redis_commands_total{cmd=\"set\"}"), 100.0);
    assert_eq!(value(&text, "redis_db_keys{db=\"db0\"}"), 100.0);
    assert_eq!(value(&text, "redis_keyspace_misses_total"), 1.0);
    assert_eq!(value(&text, "redis_errors_total{err=\"ERR\"}"), 1.0);
    assert_eq!(value(&text, "redis_acl_access_denied_auth_total"), 1.0);
    assert_eq!(value(&text, "redis_connected_clients"), 1.0);
    assert!(value(&text, "redis_memory_used_bytes") > 100_000.0);
    assert_eq!(
        value(&text, "onrush_pipeline_commands_per_read_bucket{le=\"+Inf\"}"),
        value(&text, "onrush_pipeline_commands_per_read_count")
    );
    let (mut types, mut last_bucket) = (BTreeSet::new(), 0.0);
    for line in text.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let words: Vec<&str> = comment.split(' ').collect();
            if words[0] == "TYPE" {
                assert!(matches!(words[2], "gauge" | "counter" | "histogram"), "{line}");
                assert!(types.insert(words[1].to_owned()), "twice: {line}");
                last_bucket = 0.0;
            }
            continue;
        }
        let (metric, number) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no value: {line}"));
        let number: f64 = number.parse().unwrap_or_else(|_| panic!("no number: {line}"));
        let name = metric.split('{').next().expect("a name");
        let family = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
        assert!(types.contains(name) || types.contains(family), "no type: {line}");
        if name.ends_with("_bucket") {
            assert!(number >= last_bucket, "{line}");
            last_bucket = number;
        }
    }
}

#[test]
fn everything_that_the_dashboard_shows_is_there() {
    let chosen = Port::choose();
    let port = chosen.number();
    let server = start(port);
    let mut conn = server.connect();
    for line in ["SET a 1", "FOO"] {
        conn.run(line);
    }
    let text = scrape(port);
    let names: BTreeSet<&str> = DASHBOARD
        .split(|byte: char| !byte.is_ascii_alphanumeric() && byte != '_')
        .filter(|word| word.starts_with("redis_") || word.starts_with("onrush_"))
        .collect();
    assert!(names.len() > 30, "{names:?}");
    for name in names {
        let is_it = |line: &str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '{']));
        assert!(text.lines().any(is_it), "{name}");
    }
}

#[test]
fn web_pages_and_slow_or_endless_requests_get_nothing() {
    let chosen = Port::choose();
    let port = chosen.number();
    let server = start(port);
    for (request, status) in [
        (format!("GET /metrics HTTP/1.1\r\nHost: localhost:{port}\r\nOrigin: http://evil.example\r\n\r\n"), "403"),
        (format!("GET /metrics HTTP/1.1\r\nHost: evil.example:{port}\r\n\r\n"), "403"),
        ("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(), "404"),
        ("POST /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(), "405"),
        ("*1\r\n$4\r\nPING\r\n".to_owned(), "400"),
        (format!("GET /metrics HTTP/1.1\r\nX: {}", "x".repeat(20_000)), "431"),
    ] {
        let response = ask(port, &request);
        assert!(response.starts_with(&format!("HTTP/1.1 {status} ")), "{response}");
        assert!(!response.contains("redis_up"));
    }
    // Those that say nothing keep nobody out.
    let silent: Vec<TcpStream> = (0..40).filter_map(|_| TcpStream::connect(("127.0.0.1", port)).ok()).collect();
    assert_eq!(server.connect().run("PING").text(), "PONG");
    scrape(port);
    drop(silent);
    scrape(port);
}

#[test]
fn a_port_that_is_taken_or_no_address_ends_the_start() {
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = taken.local_addr().expect("an address").port().to_string();
    let folder = onrush_tests::server::TempDir::new();
    let socket = folder.0.join("x.sock");
    let listen = ["--port", "0", "--unixsocket", socket.to_str().expect("plain")];
    for (args, text) in [
        (["--metrics-port", &port, "--metrics-bind", "127.0.0.1"], "Address already in use"),
        (["--metrics-port", "1", "--metrics-bind", "nowhere"], "invalid IP address syntax"),
    ] {
        let bin = onrush_tests::server::onrush_bin();
        let (status, output) = onrush_tests::server::Launch::run_to_end(&bin, &[&listen[..], &args[..]].concat());
        assert_eq!(status.code(), Some(1), "{output}");
        assert!(output.contains("metrics-port") && output.contains(text), "{output}");
    }
}
