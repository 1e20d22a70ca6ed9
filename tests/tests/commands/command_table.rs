//! COMMAND's facts about commands, compared with the oracle's and with the commands that the tests cover.

use std::collections::BTreeSet;

use onrush_tests::argv;
use onrush_tests::argv::Argv;
use onrush_tests::client::Conn;
use onrush_tests::compare::Compare;
use onrush_tests::families::{FAMILIES, Generator};
use onrush_tests::resp::Value;
use onrush_tests::server::{Oracle, Server, skips_on_stand_in};

/// Commands that no random sequence may have, because they end or stall the server or its replies, write files, or
/// change permissions.
const TRIED_BY_HAND: &[&str] = &[
    // Tests of clusters try it.
    "cluster|slot-stats",
    "psync",
    "replconf",
    "sync",
    "monitor",
    "shutdown",
    "client|pause",
    "client|reply",
    "config|rewrite",
    "save",
    "bgsave",
    "bgrewriteaof",
    "acl|setuser",
    "script|flush",
    "function|flush",
    // Payloads differ by what encodings a server uses: tests/rdb.rs compares what they say.
    "dump",
    // It takes a large part of a second: once is enough.
    "pfselftest",
];

/// Commands whose replies are not fixed.
const NOT_COMPARABLE: &[&str] = &["lolwut", "memory|doctor", "memory|malloc-stats", "memory|purge", "memory|stats"];

/// Commands that no oracle has: they have tests of their own.
const NEWER_THAN_ORACLES: &[&str] = &[
    "client|durability",
    "cluster|cancelslotmigrations",
    "cluster|getslotmigrations",
    "cluster|migrateslots",
    "cluster|syncslots",
    "delex",
    "digest",
    "increx",
    "msetex",
    "pipeline",
    "pipeline|doctor",
    "pipeline|help",
    "slowlog|batches",
    "xcfgset",
    "xidmprecord",
    "xnack",
    "hotkeys",
    "hotkeys|get",
    "hotkeys|help",
    "hotkeys|reset",
    "hotkeys|start",
    "hotkeys|stop",
];

/// Commands that take another number of arguments than in the older oracle.
const CHANGED_ARITY: &[&str] = &["zrank", "zrevrank"];

/// The names of all commands, and of all subcommands in the form `config|get`.
fn all_names(conn: &mut Conn) -> BTreeSet<String> {
    let reply = conn.run("COMMAND LIST");
    reply.items().expect("an array of names").iter().map(Value::text).collect()
}

/// The names of all commands.
fn names(conn: &mut Conn) -> BTreeSet<String> {
    all_names(conn).into_iter().filter(|name| !name.contains('|')).collect()
}

/// A command's entry must be the oracles'; where they differ, that of one of them.
#[test]
fn entries_are_the_oracles() {
    let ours = Server::start_onrush(&[]);
    let oracles = Oracle::ALL.map(|oracle| Server::start_oracle(oracle, &[]));
    let (mut ours, mut oracles) = (ours.connect(), oracles.each_ref().map(Server::connect));
    let known = oracles.each_mut().map(all_names);
    let mut differences = Vec::new();
    for name in all_names(&mut ours) {
        let info = argv!["COMMAND", "INFO", name];
        let entry = ours.try_call(&info).expect("a reply");
        let asked = oracles.iter_mut().zip(&known).filter(|(_, known)| known.contains(&name));
        let theirs: Vec<Vec<u8>> = asked.map(|(oracle, _)| oracle.try_call(&info).expect("a reply")).collect();
        let judge = |theirs: &Vec<u8>| Compare::CommandInfo.judge(&entry, theirs);
        let wrong: Vec<String> = theirs.iter().filter_map(|theirs| judge(theirs).err()).collect();
        if !wrong.is_empty() && wrong.len() == theirs.len() {
            differences.push(format!("{name}: {}", wrong.join("\n")));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n\n"));
}

#[test]
fn every_command_is_documented() {
    let server = Server::start_onrush(&[]);
    let mut conn = server.connect();
    for name in names(&mut conn) {
        let reply = conn.call(&argv!["COMMAND", "DOCS", name]);
        let docs = reply.pairs().and_then(|p| p.first().cloned()).unwrap_or_else(|| panic!("{name}: {reply}"));
        assert_eq!(docs.0.text(), name);
        let fields = docs.1.pairs().expect("a map of fields");
        for field in ["summary", "since", "group"] {
            let value = fields.iter().find(|(key, _)| key.text() == field);
            assert!(value.is_some_and(|(_, v)| !v.text().is_empty()), "{name} has no {field}: {reply}");
        }
    }
}

#[test]
fn the_ways_to_list_commands_agree() {
    let server = Server::start_onrush(&[]);
    let mut conn = server.connect();
    let names = names(&mut conn);
    assert_eq!(conn.run("COMMAND COUNT"), Value::Int(names.len() as i64));
    let all = conn.run("COMMAND");
    let listed = all.items().expect("an array").iter().map(|e| e.items().expect("an entry")[0].text());
    assert_eq!(listed.collect::<BTreeSet<_>>(), names);
    let docs = conn.run("COMMAND DOCS");
    let documented = docs.pairs().expect("pairs").iter().map(|(name, _)| name.text()).collect::<BTreeSet<_>>();
    assert_eq!(documented, names);
}

#[test]
fn every_command_is_under_differential_test() {
    if skips_on_stand_in() {
        return;
    }
    let server = Server::start_onrush(&[]);
    let mut covered: BTreeSet<String> =
        [TRIED_BY_HAND, NOT_COMPARABLE, NEWER_THAN_ORACLES].concat().into_iter().map(str::to_owned).collect();
    for family in FAMILIES {
        let generator = Generator::new(family, Oracle::Newer);
        for words in generator.names() {
            covered.extend((1..=words.len()).map(|len| words[..len].join("|").to_ascii_lowercase()));
        }
    }
    let names = all_names(&mut server.connect());
    let missing: Vec<_> = names.difference(&covered).collect();
    assert!(missing.is_empty(), "no line in families.rs for {missing:?}");
}

#[test]
fn what_cannot_be_compared_still_replies() {
    let server = Server::start_onrush(&[]);
    let mut conn = server.connect();
    conn.run("SET a 1");
    for line in ["LOLWUT", "MEMORY DOCTOR", "MEMORY MALLOC-STATS", "MEMORY PURGE", "MEMORY STATS"] {
        for protocol in ["HELLO 2", "HELLO 3"] {
            conn.run(protocol);
            let reply = conn.run(line);
            assert!(!reply.is_error(), "{line}: {reply}");
        }
    }
}

#[test]
fn keys_are_found_in_every_command_that_has_some() {
    let ours = Server::start_onrush(&[]);
    let oracles = Oracle::ALL.map(|oracle| Server::start_oracle(oracle, &[]));
    let (mut ours, [mut older, mut newer]) = (ours.connect(), oracles.each_ref().map(Server::connect));
    let known = names(&mut older);
    for name in names(&mut ours) {
        if NEWER_THAN_ORACLES.contains(&name.as_str()) {
            continue;
        }
        let is_known = known.contains(&name) && !CHANGED_ARITY.contains(&name.as_str());
        let oracle = if is_known { &mut older } else { &mut newer };
        for args in 0..6 {
            let words = ["COMMAND", "GETKEYS", &name].into_iter().map(str::to_owned);
            let argv = Argv::new(&words.chain((0..args).map(|i| format!("arg{i}"))).collect::<Vec<_>>());
            if args == 0 && !is_known {
                // 7.2 wants an argument behind the name, 8.2 does not.
                continue;
            }
            assert_eq!(ours.call(&argv), oracle.call(&argv), "{argv}");
        }
    }
}
