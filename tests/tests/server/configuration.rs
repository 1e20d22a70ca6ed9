//! Configuration files: every directive of a redis-server is taken or refused as there, with the same words.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use onrush_tests::server::{Launch, Oracle, Server, TempDir, is_stand_in, onrush_bin};

/// Behind a line that is taken, the server ends at this one. So a line is judged without a server that listens.
const LAST: &str = "hz\n";

/// What each directive is tried with, behind what CONFIG GET tells of it.
const VALUES: &[&str] = &["", "\"\"", "yes", "0", "7", "-1", "70000", "10mb", "abc", "1 2"];

/// Lines of one file each, beyond those of [`VALUES`]. `FOLDER` stands for that of the file.
const LINES: &[&str] = &[
    // Words, quotes, comments.
    "HZ 20",
    "  hz\t20  \r",
    "\"hz\" '20'",
    "hz \"\\x32\\x30\"",
    "hz \"20\"x",
    "hz 'open",
    "hz 20 # no comment",
    "# a comment\n\n   # and another\nhz x",
    "\"\"",
    "requirepass \"a b\\n\\\"'\"",
    // Bytes.
    "maxmemory 1kb",
    "maxmemory 1MB",
    "maxmemory 5g",
    "maxmemory 1024b",
    "maxmemory 1.5gb",
    "maxmemory 1zb",
    "maxmemory -1",
    "maxmemory 9223372036854775807",
    "maxmemory 9223372036854775808",
    "maxmemory 99999999999999999999",
    "client-query-buffer-limit 99999999999999999999",
    "proto-max-bulk-len 99999999999999999999",
    "maxmemory-clients 5%",
    "maxmemory-clients 101%",
    // Several words and several lines.
    "save 900 1",
    "save 900 1\nsave 300 10\nsave \"\"\nsave 60 1",
    "save 900",
    "save \"900 1 300 10\"",
    "save 0 1",
    "save \"\" 900 1",
    "bind * -::*",
    "bind 127.0.0.1 -::1",
    "bind \"127.0.0.1 ::1\"",
    "bind 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17",
    "client-output-buffer-limit slave 256mb 64mb 60",
    "client-output-buffer-limit normal 0 0 0 replica 1 2 3 pubsub 1 2 3",
    "client-output-buffer-limit master 0 0 0",
    "client-output-buffer-limit normal 1 -1 0",
    "client-output-buffer-limit normal 0 0",
    "oom-score-adj-values 0 200 800",
    "oom-score-adj-values 0 200",
    "oom-score-adj-values -2000 0 2001",
    "latency-tracking-info-percentiles 50 99.9",
    "latency-tracking-info-percentiles 101",
    "shutdown-on-sigterm nosave now",
    "shutdown-on-sigterm save nosave",
    // Commands with other names.
    "rename-command FLUSHALL \"\"",
    "rename-command CONFIG b840fc02d524045429941cc15f59e41cb7be6c52",
    "rename-command get set2\nrename-command set get",
    "rename-command nosuch x",
    "rename-command GET SET",
    // Files.
    "include FOLDER/other.inc\nhz x",
    "include FOLDER/*.inc",
    "include FOLDER/none*",
    "dir FOLDER",
    "dir /nowhere/at/all",
    "appenddirname a/b",
    "appendfilename \"a b\"",
    "unixsocketperm 700",
    "unixsocketperm 1777",
    "unixsocketperm 999",
    // Older names, and names that are no more.
    "slaveof no one",
    "slaveof 127.0.0.1 x",
    "slave-read-only yes",
    "slave-serve-stale-data no",
    "slave-priority 50",
    "slave-lazy-flush yes",
    "slave-ignore-maxmemory no",
    "slave-announce-ip 10.0.0.1",
    "slave-announce-port 7",
    "min-slaves-to-write 0",
    "min-slaves-max-lag 3",
    "repl-ping-slave-period 5",
    "cluster-slave-validity-factor 3",
    "cluster-slave-no-failover yes",
    "lua-time-limit 5000",
    "lua-replicate-commands yes",
    "list-max-ziplist-size -2",
    "list-max-ziplist-entries 512",
    "list-max-ziplist-value 64",
    "hash-max-ziplist-entries 5",
    "hash-max-ziplist-value 5",
    "zset-max-ziplist-entries 5",
    "zset-max-ziplist-value 5",
    "server_cpulist 0-1",
    "bio_cpulist 0",
    "aof_rewrite_cpulist 0",
    "bgsave_cpulist 0",
    // Words of directives that have a set of them.
    "loglevel nothing",
    "loglevel loud",
    "maxmemory-policy VOLATILE-LRU",
    "appendfsync always",
    "supervised systemd",
    "syslog-facility LOCAL7",
    "enable-debug-command local",
    "acl-pubsub-default allchannels",
    "notify-keyspace-events Ex",
    "notify-keyspace-events KEA",
    "notify-keyspace-events q",
    "propagation-error-behavior panic",
    "repl-diskless-load swapdb",
    "cluster-announce-hostname host.example",
    "cluster-announce-hostname \"a b\"",
    "cluster-announce-human-nodename \"a-b\"",
    "cluster-announce-human-nodename a:b",
    "proc-title-template \"{title} {listen-addr}\"",
    "proc-title-template {nosuch}",
    // Users.
    "user default on nopass sanitize-payload ~* &* +@all",
    "user default on nopass ~* &* +@all\nuser default on nopass ~* &* +@all",
    "user bob on >secret ~* &* +@all",
    "user bob on (~a +get) ( &b )",
    "user bob on (~a",
    "user bob on foo",
    "user bob on +nosuch",
    "user bob ~* ~a",
    "user",
    "user default on nopass ~* &* +@all\nrequirepass x",
    "sentinel monitor a 127.0.0.1 1 1",
];

/// Directives that are refused with a value that redis-server takes: the server cannot do what they ask for.
const REFUSED: &[(&str, &str)] = &[("loadmodule x.so", "modules are not supported")];

/// Directives whose values are judged in another way: names of what only one of the two has, and values that
/// [`REFUSED`] has or that a later Redis knows.
fn is_exception(line: &str) -> bool {
    let (name, value) = line.split_once(' ').unwrap_or((line, ""));
    match name {
        // A module of redis-server has these, and reads them later.
        _ if name.starts_with("vset-") => true,
        "aclfile" => !matches!(value, "" | "\"\"" | "1 2"),
        "replicaof" | "slaveof" | "cluster-enabled" | "min-replicas-to-write" | "min-slaves-to-write" => {
            !matches!(value, "" | "no" | "0" | "\"\"")
        }
        "tls-port" | "tls-replication" | "tls-cluster" => true,
        // The texts name the values, and two policies are ours.
        "maxmemory-policy" => true,
        // 7.4 takes more samples than 8.2, and we do.
        "maxmemory-samples" => true,
        "client-output-buffer-limit" => value == "\"\"",
        // The text names the bounds, and we take a million.
        "databases" => value.parse::<i64>().is_ok_and(|value| !(1..=1_000_000).contains(&value)),
        _ => false,
    }
}

/// Runs a server with a file of these lines to its end.
fn run(bin: &Path, folder: &Path, text: &str) -> Output {
    static FILES: AtomicUsize = AtomicUsize::new(0);
    let file = folder.join(format!("{}.conf", FILES.fetch_add(1, Ordering::Relaxed)));
    fs::write(&file, text.replace("FOLDER", folder.to_str().expect("a plain path"))).expect("a writable folder");
    let output = Command::new(bin).arg(&file).current_dir(folder).stdin(Stdio::null()).output();
    fs::remove_file(file).expect("it was written");
    output.expect("it starts")
}

/// Directives whose lines Onrush does not show.
const SECRETS: &[&str] =
    &["requirepass", "masterauth", "masteruser", "tls-key-file-pass", "tls-client-key-file-pass", "user"];

/// What a server says of a file of these lines and [`LAST`], without its version and without secrets.
fn judgement(bin: &Path, folder: &Path, text: &str) -> String {
    let output = run(bin, folder, &format!("{text}\n{LAST}"));
    assert_eq!(output.status.code(), Some(1), "{text}");
    let text = String::from_utf8_lossy(&output.stderr);
    let lines = text.lines().filter(|line| !line.starts_with("*** FATAL CONFIG FILE ERROR (Redis "));
    let lines = lines.filter(|line| !line.starts_with("The line is in the included file"));
    let shown = |line: &str| {
        let name = line.strip_prefix(">>> '").and_then(|line| line.split([' ', '\'']).next()).unwrap_or_default();
        if SECRETS.contains(&name) { format!(">>> '{name} (redacted)'") } else { line.to_owned() }
    };
    lines.map(shown).collect::<Vec<_>>().join("\n")
}

/// Compares the judgements of both servers on some texts, on four threads; returns the differences.
fn differences(texts: &[String]) -> Vec<String> {
    let folder = TempDir::new();
    fs::write(folder.0.join("other.inc"), "hz 20\n\ntimeout x\n").expect("a writable folder");
    let (oracle, onrush) = (Oracle::Newer.bin(), onrush_bin());
    let next = AtomicUsize::new(0);
    let work = || {
        let mut found = Vec::new();
        while let Some(text) = texts.get(next.fetch_add(1, Ordering::Relaxed)) {
            let [wanted, ours] = [&oracle, &onrush].map(|bin| judgement(bin, &folder.0, text));
            if wanted != ours {
                found.push(format!("{text}\n  redis-server:{wanted}\n  Onrush:{ours}"));
            }
        }
        found
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("it compares")).collect()
    })
}

/// All directives with their values, as a server tells of them.
fn directives(oracle: Oracle) -> Vec<(String, String)> {
    let server = Server::start_oracle(oracle, &[]);
    let pairs = server.connect().run("CONFIG GET *").pairs().expect("pairs");
    pairs.into_iter().map(|(name, value)| (name.text(), value.text())).collect()
}

fn quoted(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

#[test]
fn every_directive_takes_and_refuses_what_it_does_in_redis() {
    let mut texts = BTreeSet::new();
    for (name, value) in directives(Oracle::Newer) {
        texts.insert(format!("{name} {}", quoted(&value)));
        texts.extend(VALUES.iter().map(|value| format!("{name} {value}").trim_end().to_owned()));
    }
    texts.retain(|line| !is_exception(line));
    let texts: Vec<String> = texts.into_iter().collect();
    assert!(texts.len() > 1_500, "{} lines", texts.len());
    let differences = differences(&texts);
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn lines_are_read_as_redis_reads_them() {
    let texts: Vec<String> = LINES.iter().map(|line| (*line).to_owned()).collect();
    let differences = differences(&texts);
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn what_the_server_cannot_do_is_refused_with_the_reason() {
    if is_stand_in() {
        return;
    }
    let folder = TempDir::new();
    for (text, reason) in REFUSED {
        let output = run(&onrush_bin(), &folder.0, text);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), said.lines().last()), (Some(1), Some(*reason)), "{text}\n{said}");
        assert!(!said.contains("secret"), "{said}");
    }
}

/// Starts Onrush with a file of all directives that an oracle knows, at the oracle's values.
fn start_with_all_of(oracle: Oracle) -> (TempDir, Server) {
    let folder = TempDir::new();
    let mut directives = directives(oracle);
    // A primary is two words, and the folder is gone with the oracle.
    directives.retain(|(name, _)| !matches!(name.as_str(), "replicaof" | "slaveof" | "dir"));
    let lines = directives.into_iter().map(|(name, value)| format!("{name} {}\n", quoted(&value)));
    let file = folder.0.join("all.conf");
    fs::write(&file, lines.collect::<String>()).expect("a writable folder");
    let server = Launch::onrush().config_file(&file).args(&["--logfile", ""]).start();
    (folder, server)
}

#[test]
fn a_file_of_all_directives_of_redis_starts_the_server() {
    for oracle in Oracle::ALL {
        let (_folder, server) = start_with_all_of(oracle);
        let mut conn = server.connect();
        assert_eq!(conn.run("CONFIG REWRITE").text(), "OK");
        assert!(!server.log().contains("has no effect"), "defaults are no reason to complain:\n{}", server.log());
    }
}

#[test]
fn a_setting_without_effect_is_told_of() {
    if is_stand_in() {
        return;
    }
    let args = [
        "--io-threads",
        "4",
        "--slave-priority",
        "100",
        "--bind-source-addr",
        "127.0.0.1",
        "--masterauth",
        "secret",
        "--tls-dh-params-file",
        "x",
    ];
    let server = Server::start_onrush(&args);
    server.expect_log("Ready to accept connections");
    let log = server.log();
    for line in [
        "# io-threads has no effect: `workers` sets how many threads read, execute and write",
        "# bind-source-addr has no effect: the system chooses it",
        "# tls-dh-params-file has no effect: keys are exchanged over elliptic curves only",
    ] {
        assert!(log.lines().any(|told| told.ends_with(line)), "{log}");
    }
    assert!(!log.contains("secret") && !log.contains("priority has"), "{log}");
}

#[test]
fn a_file_that_is_not_there_is_told_as_in_redis() {
    let told = |bin: &Path| {
        let output = Command::new(bin).arg("/no/such/file.conf").output().expect("it starts");
        assert_eq!(output.status.code(), Some(1));
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        text.split_once(" # ").expect("a line of the log").1.to_owned()
    };
    assert_eq!(told(&onrush_bin()), told(&Oracle::Newer.bin()));
}

#[test]
fn standard_input_may_be_the_configuration() {
    let folder = TempDir::new();
    let socket = folder.0.join("s");
    let text = format!("port 0\nunixsocket {}\nsave \"\"\ntimeout 77\nrequirepass 'pass word'\n", socket.display());
    let mut child = Command::new(onrush_bin())
        .arg("-")
        .current_dir(&folder.0)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts");
    child.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("taken");
    let mut conn = None;
    onrush_tests::server::wait_until("it listens", || {
        conn = onrush_tests::client::Conn::unix(&socket).ok();
        conn.is_some()
    });
    let mut conn = conn.expect("connected");
    assert_eq!(conn.call(&onrush_tests::argv!["AUTH", "pass word"]).text(), "OK");
    assert_eq!(conn.run("CONFIG GET timeout").items().expect("a pair")[1].text(), "77");
    child.kill().expect("it runs");
    child.wait().expect("it ends");
}
