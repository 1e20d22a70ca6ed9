//! What INFO counts, beside both oracles.

use std::collections::BTreeMap;

use onrush_tests::client::Conn;
use onrush_tests::server::{Oracle, Server};

fn servers() -> [Server; 3] {
    let args = ["--enable-debug-command", "yes"];
    [
        Server::start_onrush(&args),
        Server::start_oracle(Oracle::Older, &args),
        Server::start_oracle(Oracle::Newer, &args),
    ]
}

/// The fields of a section.
fn section(conn: &mut Conn, name: &str) -> BTreeMap<String, String> {
    let text = conn.run(&format!("INFO {name}")).text();
    text.lines().filter_map(|line| line.split_once(':')).map(|(name, value)| (name.into(), value.into())).collect()
}

#[test]
fn errors_that_scripts_return_are_counted_like_others() {
    let lines = [
        "EVAL \"return redis.error_reply('MYA foo')\" 0",
        "EVAL \"return {err='MYB foo'}\" 0",
        "EVAL \"return {1, {2, {err='MYC foo'}}, {err='MYC bar'}, 'MYD'}\" 0",
        "EVAL \"return 'MYD foo'\" 0",
        "EVAL \"error({err='MYE boo'})\" 0",
        "SET s 1",
        "EVAL \"return redis.call('LPUSH', KEYS[1], 'x')\" 1 s",
        "EVAL \"return redis.pcall('LPUSH', KEYS[1], 'x')\" 1 s",
        "EVAL_RO \"return redis.error_reply('MYF foo')\" 0",
        "FUNCTION LOAD \"#!lua name=l\\nredis.register_function('f', function() return redis.error_reply('MYG boo') end)\"",
        "FCALL f 0",
        "MULTI",
        "EVAL \"return redis.error_reply('MYH foo')\" 0",
        "EXEC",
    ];
    let counted = servers().map(|server| {
        let mut conn = server.connect();
        lines.iter().for_each(|line| drop(conn.run(line)));
        let total = section(&mut conn, "stats").remove("total_error_replies");
        let failed = section(&mut conn, "commandstats");
        let failed = ["eval", "eval_ro", "fcall"].map(|name| {
            let line = &failed[&format!("cmdstat_{name}")];
            line.rsplit_once("failed_calls=").map(|(_, count)| count.to_owned())
        });
        (section(&mut conn, "errorstats"), total, failed)
    });
    assert_eq!(counted[0], counted[1]);
    assert_eq!(counted[0], counted[2]);
}

#[test]
fn moving_an_element_or_a_key_is_one_change() {
    let setup =
        ["RPUSH a 1", "RPUSH a 2", "RPUSH a 3", "RPUSH a 4", "RPUSH a 5", "ZADD z 1 a", "SADD s a", "HSET h a 1"];
    let lines = [
        "LMOVE a b LEFT RIGHT",
        "RPOPLPUSH a b",
        "BLMOVE a b LEFT RIGHT 0",
        "BRPOPLPUSH a b 0",
        "LMOVE b b LEFT RIGHT",
        "BLMOVE a b LEFT RIGHT 0",
        "RENAME b c",
        "MOVE c 1",
        "ZPOPMIN z",
        "SPOP s",
        "HDEL h a",
    ];
    let changes = servers().map(|server| {
        let mut conn = server.connect();
        setup.iter().for_each(|line| drop(conn.run(line)));
        let count = |conn: &mut Conn| conn.info_number("rdb_changes_since_last_save").expect("a number");
        lines.map(|line| {
            let before = count(&mut conn);
            assert!(!conn.run(line).is_error(), "{line}");
            (line, count(&mut conn) - before)
        })
    });
    assert_eq!(changes[0], changes[1]);
    assert_eq!(changes[0], changes[2]);
}
