//! What INFO counts, beside both oracles.

use std::collections::BTreeMap;

use onrush_tests::client::Conn;
use onrush_tests::resp::Value;
use onrush_tests::server::{Oracle, Server, wait_until};

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

/// The counts of errors: by code, all together, and of every command that has any.
fn errors(conn: &mut Conn) -> (BTreeMap<String, String>, String, Vec<String>) {
    let total = section(conn, "stats").remove("total_error_replies").expect("a count");
    let commands = section(conn, "commandstats").into_iter().filter_map(|(name, line)| {
        let (_, counts) = line.split_once(",rejected_calls=")?;
        (counts != "0,failed_calls=0").then(|| format!("{name} {counts}"))
    });
    let commands = commands.collect();
    (section(conn, "errorstats"), total, commands)
}

#[test]
fn errors_inside_of_scripts_are_counted_once() {
    const SCRIPTS: &[&str] = &[
        "redis.pcall('nosuch') return 1",
        "redis.pcall('config', 'nosuch') return 1",
        "redis.pcall('get') return 1",
        "redis.pcall() return 1",
        "return redis.pcall()",
        "redis.pcall('subscribe', 'a') return 1",
        "redis.pcall('lpush', 's', 1) return 1",
        "redis.pcall('object', 'encoding') return 1",
        "return pcall(redis.call, 'lpush', 's', 1)",
        "return redis.call('lpush', 's', 1)",
        "return redis.pcall('lpush', 's', 1)",
        "return {redis.pcall('lpush', 's', 1), redis.pcall('nosuch'), {err='MYA x'}, {err='MYA y'}}",
        "local e = redis.pcall('lpush', 's', 1) return {e, e}",
        "local e = redis.pcall('lpush', 's', 1) return {err=e.err}",
        "local e = redis.pcall('lpush', 's', 1) error(e)",
        "local e = redis.pcall('lpush', 's', 1) error(e.err)",
        "local e = redis.pcall('lpush', 's', 1) error({err=e.err})",
        "local e = redis.pcall('lpush', 's', 1) e.ignore_error_stats_update = 1 return e",
        "return {err='MYB x', ignore_error_stats_update=true}",
        "return {err='MYC'}",
        "return {err='AVERYLONGCODEWITHTHIRTYLETTERS x'}",
        "return {err='AVERYLONGCODEWITHTHIRTY1LETTERS x'}",
        "return {err='MYD\\nx'}",
        "redis.error_reply('MYE x') return 1",
        "for i = 1, 10 do redis.pcall('lpush', 's', 1) end return 1",
        "redis.setresp(3) return redis.pcall('lpush', 's', 1)",
        // It is undone and executed again, for the key that it was not given and for the time that it takes.
        "redis.pcall('lpush', 's', 1) redis.call('set', 'other', 1) return redis.call('lpush', 's', 1)",
        "redis.pcall('lpush', 's', 1) for i = 1, 1e7 do end redis.call('set', 's', 1) return redis.pcall('nosuch')",
        "redis.call('set', 's', 1) redis.pcall('lpush', 's', 1) for i = 1, 1e7 do end return 1",
    ];
    let [ours, older, newer] = servers().map(|server| {
        let mut conn = server.connect();
        let mut counted = Vec::new();
        for code in SCRIPTS {
            let eval = |name: &str| format!("{name} \"{code}\" 1 s");
            let transaction = ["MULTI".to_owned(), "LPUSH s 1".to_owned(), eval("EVAL"), "EXEC".to_owned()];
            for lines in [&[eval("EVAL")][..], &[eval("EVAL_RO")], &transaction] {
                ["FLUSHALL", "SCRIPT FLUSH", "SET s 1", "CONFIG RESETSTAT"]
                    .iter()
                    .for_each(|line| drop(conn.run(line)));
                lines.iter().for_each(|line| drop(conn.run(line)));
                counted.push((lines.to_vec(), errors(&mut conn)));
            }
        }
        counted
    });
    for ((ours, older), newer) in ours.iter().zip(&older).zip(&newer) {
        assert_eq!(ours, older);
        assert_eq!(ours, newer);
    }
}

#[test]
fn watching_clients_and_expired_fields_are_shown_as_by_the_newer_oracle() {
    let shown = [Server::start_onrush(&[]), Server::start_oracle(Oracle::Newer, &[])].map(|server| {
        let [mut conn, mut one, mut other] = [(); 3].map(|()| server.connect());
        // They are listed when they are accepted.
        [&mut one, &mut other].into_iter().for_each(|conn| drop(conn.run("PING")));
        let mut shown = Vec::new();
        let mut look = |conn: &mut Conn| {
            let mut clients = section(conn, "clients");
            let counts = ["watching_clients", "total_watched_keys"].map(|name| clients.remove(name));
            let list = conn.run("CLIENT LIST").text();
            let watch = list.lines().filter_map(|line| line.split("watch=").nth(1)?.split(' ').next());
            let watch: Vec<_> = watch.map(str::to_owned).collect();
            shown.push((counts, watch, section(conn, "stats").remove("expired_subkeys")));
        };
        look(&mut conn);
        one.run("WATCH a b");
        other.run("WATCH b c c");
        look(&mut conn);
        conn.run("SET a 1");
        look(&mut conn);
        conn.run("SET c 1");
        one.run("UNWATCH");
        look(&mut conn);
        one.run("WATCH a");
        one.run("MULTI");
        look(&mut conn);
        one.run("EXEC");
        look(&mut conn);
        for line in [
            "HSET h a 1 b 2 c 3 d 4 e 5",
            "HPEXPIREAT h 1 FIELDS 2 a b",
            "HGETEX h PXAT 1 FIELDS 1 c",
            "HSETEX h PXAT 1 FIELDS 1 f 6",
        ] {
            conn.run(line);
            look(&mut conn);
        }
        conn.run("HPEXPIRE h 1 FIELDS 2 d e");
        wait_until("the fields have expired", || conn.run("EXISTS h") == Value::Int(0));
        look(&mut conn);
        let fields = |conn: &mut Conn, name: &str| -> Vec<String> {
            let text = conn.run(&format!("INFO {name}")).text();
            text.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name.to_owned()).collect()
        };
        // Their places: what comes before and after each.
        let places = [("clients", "watching_clients"), ("clients", "total_watched_keys"), ("stats", "expired_subkeys")];
        let places = places.map(|(section, name)| {
            let fields = fields(&mut conn, section);
            let at = fields.iter().position(|field| field == name).expect("it is there");
            fields[at - 1..=at + 1].to_vec()
        });
        (shown, places)
    });
    assert_eq!(shown[0], shown[1]);
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
