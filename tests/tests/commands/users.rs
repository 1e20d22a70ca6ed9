//! Users and their rules, beside the oracles: random rules, and what they allow.

use onrush_tests::amount::is_nightly;
use onrush_tests::argv::Argv;
use onrush_tests::client::Conn;
use onrush_tests::resp::Value;
use onrush_tests::rng::Rng;
use onrush_tests::server::{Oracle, Server};

/// Random lists of rules for each oracle.
const LISTS: usize = 5_000;

const WORDS: &[&str] = &[
    "on",
    "off",
    "nopass",
    "resetpass",
    "reset",
    "allkeys",
    "resetkeys",
    "allchannels",
    "resetchannels",
    "allcommands",
    "nocommands",
    "+@all",
    "-@all",
    "clearselectors",
    "sanitize-payload",
    "skip-sanitize-payload",
    "",
    "foo",
    "~*",
    "&*",
    "%RW~*",
];
const PASSWORDS: &[&str] = &[
    ">a",
    ">b",
    ">",
    "<a",
    "<b",
    "<",
    "#abc",
    "!abc",
    "#ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb",
    "!ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb",
    "#CA978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb",
    "#ga978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb",
];
const PATTERNS: &[&str] = &["a", "a*", "b*", "*", "k:[0-9]", "c d", "", "?", "a\tb", "\u{e4}*"];
const ACCESSES: &[&str] = &["~", "%R~", "%W~", "%RW~", "%WR~", "%r~", "%w~", "%RR~", "%~", "%X~", "%R", "%", "%RWR~"];
const COMMANDS: &[&str] = &[
    "get",
    "set",
    "GET",
    "mget",
    "del",
    "config",
    "config|get",
    "config|set",
    "CONFIG|GET",
    "client",
    "client|id",
    "client|kill",
    "select",
    "select|0",
    "select|1",
    "get|a",
    "get|A",
    "set|x",
    "publish",
    "subscribe",
    "psubscribe",
    "acl",
    "acl|whoami",
    "eval",
    "xadd",
    "sort",
    "copy",
    "flushall",
    "ping",
    "nosuch",
    "config|nosuch",
    "config|",
    "config|get|x",
    "get|a|b",
    "|",
    "",
    "@",
    "memory|usage",
    "object|freq",
    "xinfo|stream",
    "script|load",
    "auth",
    "hello",
];
const CATEGORIES: &[&str] = &[
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
    "READ",
    "nosuch",
    "all",
    "",
];
/// Calls whose permission is asked for.
const CALLS: &[&str] = &[
    "get a",
    "get b",
    "get x",
    "set a 1",
    "set a 1 get",
    "mget a b c",
    "del a",
    "config get x",
    "config set x y",
    "client id",
    "client kill x",
    "select 0",
    "select 1",
    "publish a x",
    "publish b x",
    "subscribe a b",
    "psubscribe a",
    "psubscribe a*",
    "ssubscribe a",
    "spublish a x",
    "unsubscribe z",
    "acl whoami",
    "eval return 1 a",
    "eval x 2 a b",
    "eval x 0",
    "xadd a * f v",
    "xread streams a b 0 0",
    "xread block 0 streams a 0",
    "sort a by b* get c*",
    "sort a store b",
    "copy a b",
    "copy b a",
    "flushall",
    "ping",
    "auth x",
    "hello 3",
    "rename a b",
    "exists a b",
    "type a",
    "zunionstore a 2 b c",
    "bitop and a b c",
    "memory usage a",
    "object freq a",
    "xinfo stream a",
    "script load x",
    "georadius a 1 1 1 m store b",
    "migrate h 1 a 0 1 keys b",
    "lmove a b left left",
    "blpop a b 0",
    "get",
    "nosuch",
    "touch a",
    "strlen a",
    "setrange a 0 x",
    "getset a x",
    "append a x",
    "pfcount a",
    "pfmerge a b",
    "bitfield a get u8 0",
    "bitfield a set u8 0 1",
    "dump a",
    "restore a 0 x",
    "scan 0",
    "keys *",
    "wait 0 0",
    "exec",
    "multi",
    "watch a",
    "cluster slots",
    "debug sleep 0",
    "module list",
    "latency reset",
    "expire a 1",
    "persist a",
    "getdel a",
    "getex a",
    "smove a b x",
    "sintercard 2 a b",
    "zrangestore a b 0 1",
    "swapdb 0 1",
    "fcall f 1 a",
];

/// Commands that have other categories or keys since Redis 7.2.
const MOVED: &[&str] = &["wait"];

fn rule(rng: &mut Rng, depth: usize) -> String {
    let rule = match rng.below(if depth == 0 { 100 } else { 92 }) {
        0..14 => rng.pick(WORDS).to_owned(),
        14..22 => rng.pick(PASSWORDS).to_owned(),
        22..40 => format!("{}{}", rng.pick(ACCESSES), rng.pick(PATTERNS)),
        40..50 => format!("&{}", rng.pick(PATTERNS)),
        50..66 => format!("+{}", rng.pick(COMMANDS)),
        66..76 => format!("-{}", rng.pick(COMMANDS)),
        76..86 => format!("+@{}", rng.pick(CATEGORIES)),
        86..92 => format!("-@{}", rng.pick(CATEGORIES)),
        _ => {
            let rules: Vec<String> = (0..rng.below(4)).map(|_| rule(rng, 1)).collect();
            match rng.below(12) {
                0 => format!("( {} )", rules.join(" ")),
                1 => format!("({}", rules.join(" ")),
                // A first argument with a space in it ends the newer oracle.
                2 => format!("{})", rules.concat().replace(char::is_whitespace, "")),
                _ => format!("({})", rules.join(" ")),
            }
        }
    };
    if rng.percent(5) { rule.to_uppercase() } else { rule }
}

/// Rules as arguments: a selector comes as one or as several.
fn rules(rng: &mut Rng) -> Vec<String> {
    let count = if rng.percent(70) { 1 + rng.below(3) } else { 1 + rng.below(10) };
    let mut args = Vec::new();
    for _ in 0..count {
        let rule = rule(rng, 0);
        if rule.starts_with('(') && rng.percent(50) {
            args.extend(rule.split(' ').map(str::to_owned));
        } else {
            args.push(rule);
        }
    }
    args
}

fn command(words: &[&str], more: &[String]) -> Argv {
    let args: Vec<Vec<u8>> = words
        .iter()
        .map(|word| word.as_bytes().to_vec())
        .chain(more.iter().map(|word| word.clone().into_bytes()))
        .collect();
    Argv::new(&args)
}

/// What is compared of ACL GETUSER. The older oracle shows another text for commands, and no flag for payloads.
fn comparable(reply: Vec<u8>, conn: &mut Conn, user: &str, oracle: Oracle) -> String {
    match oracle {
        Oracle::Newer | Oracle::Valkey => String::from_utf8_lossy(&reply).into_owned(),
        Oracle::Older => match conn.call(&command(&["ACL", "GETUSER", user], &[])) {
            Value::Array(fields) => format!("{:?}", (&fields[3], &fields[7], &fields[9])),
            other => format!("{other:?}"),
        },
    }
}

fn is_allowed(reply: &Value) -> String {
    // The older oracle says "This user" instead of the name.
    text(reply).replace("This user has", "User u has")
}

fn text(reply: &Value) -> String {
    match reply {
        Value::Status(text) | Value::Error(text) | Value::Bulk(text) => String::from_utf8_lossy(text).into_owned(),
        other => format!("{other:?}"),
    }
}

fn random_rules_do_the_same(oracle: Oracle, seed: u64) {
    let servers = [Server::start_onrush(&["--workers", "1"]), Server::start_oracle(oracle, &[])];
    let [mut ours, mut theirs] = servers.each_ref().map(Server::connect);
    let mut rng = Rng::new(seed);
    let lists = if is_nightly() { LISTS } else { LISTS / 4 };
    for list in 0..lists {
        let at = format!("seed {seed}, list {list}");
        let user = "u";
        if rng.percent(3) {
            for conn in [&mut ours, &mut theirs] {
                conn.call(&command(&["ACL", "DELUSER", user], &[]));
            }
        }
        let rules = rules(&mut rng);
        if oracle == Oracle::Older && rules.iter().any(|rule| rule.starts_with('(') != rule.ends_with(')')) {
            // It takes a selector that begins within another one.
            continue;
        }
        let setting = command(&["ACL", "SETUSER", user], &rules);
        let mine = text(&ours.call(&setting));
        let Ok(other) = theirs.try_call(&setting) else { panic!("{at}: the oracle ended with {setting}") };
        let other = text(&Value::parse(&other).expect("a reply"));
        assert_eq!(mine, other, "{at}: {setting}");
        let getting = command(&["ACL", "GETUSER", user], &[]);
        let [mine, other] = [(&mut ours, "ours"), (&mut theirs, "theirs")].map(|(conn, which)| {
            let reply =
                conn.try_call(&getting).unwrap_or_else(|error| panic!("{at}: {which}: {error} after {setting}"));
            comparable(reply, conn, user, oracle)
        });
        assert_eq!(mine, other, "{at}: after {setting}");
        for _ in 0..6 {
            let call: Vec<&str> = rng.pick(CALLS).split(' ').collect();
            if oracle == Oracle::Older && MOVED.contains(&call[0]) {
                continue;
            }
            let asking = command(&[&["ACL", "DRYRUN", user][..], &call].concat(), &[]);
            let [mine, other] = [&mut ours, &mut theirs].map(|conn| is_allowed(&conn.call(&asking)));
            assert_eq!(mine, other, "{at}: {asking} after {setting}");
        }
    }
}

fn fresh_seed() -> u64 {
    std::env::var("ONRUSH_TEST_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or_else(|| std::time::UNIX_EPOCH.elapsed().map_or(1, |time| time.as_millis() as u64))
}

#[test]
fn random_rules_of_users_do_as_in_the_newer_oracle() {
    random_rules_do_the_same(Oracle::Newer, fresh_seed());
}

#[test]
fn random_rules_of_users_do_as_in_the_older_oracle() {
    random_rules_do_the_same(Oracle::Older, fresh_seed());
}
