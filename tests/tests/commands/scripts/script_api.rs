//! What scripts find beside what redis-server gives them, and what INFO says of their memory.

use onrush_tests::argv;
use onrush_tests::client::Conn;
use onrush_tests::server::{Oracle, Server, skips_on_stand_in, wait_until};

#[test]
fn commands_are_called_through_server_as_in_valkey() {
    if skips_on_stand_in() {
        return;
    }
    let server = Server::start_onrush(&[]);
    let mut conn = server.connect();
    for (script, reply) in [
        ("return server.call('SET', KEYS[1], 'x')", "OK"),
        ("return server.pcall('GET', KEYS[1])", "x"),
        ("#!LUA flags=no-writes\nreturn redis.call('GET', KEYS[1])", "x"),
        ("return tostring(server == redis)", "true"),
        ("return server.sha1hex('a')", "86f7e437faa5a7fce15d1ddcb9eaeaea377667b8"),
        // It may touch keys that it was not given, and then begins anew.
        ("return server.call('GET', 'k')", "x"),
    ] {
        assert_eq!(conn.call(&argv!["EVAL", script, "1", "k"]).text(), reply, "{script}");
    }
    let error = conn.call(&argv!["EVAL", "server.call = nil", "0"]);
    assert!(error.text().contains("Attempt to modify a readonly table"), "{error}");
    let library =
        "#!Lua name=lib\nserver.register_function('f', function(keys) return server.call('GET', keys[1]) end)";
    assert_eq!(conn.call(&argv!["FUNCTION", "LOAD", library]).text(), "lib");
    assert_eq!(conn.run("FCALL f 1 k").text(), "x");
}

fn memory(conn: &mut Conn, name: &str) -> u64 {
    let text = conn.run("INFO memory").text();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).expect("a field");
    line.trim().parse().expect("a number")
}

#[test]
fn the_memory_of_scripts_is_told() {
    let server = Server::start_onrush(&[]);
    let mut conn = server.connect();
    assert_eq!(memory(&mut conn, "used_memory_scripts_eval"), 0);
    let before = memory(&mut conn, "used_memory_functions");
    let long = format!("return '{}'", "x".repeat(100_000));
    conn.call(&argv!["SCRIPT", "LOAD", long.as_str()]);
    conn.call(&argv!["EVAL", long.as_str(), "0"]);
    let (scripts, vm) = (memory(&mut conn, "used_memory_scripts_eval"), memory(&mut conn, "used_memory_lua"));
    assert!((100_000..110_000).contains(&scripts), "{scripts}");
    assert!(vm > 100_000, "{vm}");
    let library = format!("#!lua name=lib\nredis.register_function('f', function() return 1 end)\n-- {long}");
    conn.call(&argv!["FUNCTION", "LOAD", library.as_str()]);
    let functions = memory(&mut conn, "used_memory_functions") - before;
    assert!((100_000..110_000).contains(&functions), "{functions}");
    assert_eq!(memory(&mut conn, "used_memory_scripts"), scripts + functions + before);
    conn.run("SCRIPT FLUSH");
    conn.run("FUNCTION FLUSH");
    wait_until("all is free", || memory(&mut conn, "used_memory_scripts") == before);
    assert_eq!(memory(&mut conn, "used_memory_scripts_eval"), 0);
}

#[test]
fn what_a_script_replaces_is_freed_while_it_runs() {
    let server = Server::start_onrush(&[]);
    let mut conn = server.connect();
    let script =
        "for i = 1, 30000 do redis.call('SET', 'k', string.rep('x', 4000)) end return redis.call('INFO', 'memory')";
    let text = conn.call(&argv!["EVAL", script, "0"]).text();
    let used = text.lines().find_map(|line| line.strip_prefix("used_memory:")).expect("a field");
    let used: u64 = used.trim().parse().expect("a number");
    assert!(used < 40 << 20, "{used}");
}

#[test]
fn the_first_line_of_a_library_is_read_as_redis_reads_it() {
    let servers = [Server::start_onrush(&[]), Server::start_oracle(Oracle::Newer, &[])];
    let mut conns = servers.each_ref().map(Server::connect);
    let one = "redis.register_function('f', function() return 1 end)";
    let two =
        "redis.register_function('A', function() return 1 end) redis.register_function('a', function() return 1 end)";
    for line in [
        "#!lua name=a",
        "#!lua name='a'",
        "#!lua \"name=a\"",
        "#!lua name=\"a\\x62\"",
        "#!lua name='a",
        "#!lua name=a'b'",
        "#! lua name=a",
        "#!",
        "#!lua",
        "#!LUA NAME=a",
        "#!lua  name=a ",
        "#!lua name=a\r",
        "#!lua name=a name=b",
        "#!lua name=",
        "#!lua name=a b",
        "#!lua name=a b=c",
        "#!js name=a",
        "#!js name=a b",
        " #!lua name=a",
        "lua name=a",
        "'#!lua' name=a",
        "#!'lua' name=a",
        "#!lua name=a-b",
        "",
    ] {
        for code in [one, two] {
            for command in [
                argv!["FUNCTION", "FLUSH"],
                argv!["FUNCTION", "LOAD", format!("{line}\n{code}")],
                argv!["FCALL", "a", "0"],
                argv!["FUNCTION", "LOAD", "REPLACE", line],
                argv!["FUNCTION", "STATS"],
            ] {
                let [ours, theirs] = conns.each_mut().map(|conn| conn.call(&command));
                assert_eq!(ours, theirs, "{command:?} of {line:?}");
            }
        }
    }
    for line in [
        "#!lua",
        "#!lua 'flags=no-writes'",
        "#!lua \"flags=no-writes",
        "#!'lua'",
        "#! lua",
        "#!lua flags=",
        "#!lua flags=x",
        "#!",
        "'#!lua'",
    ] {
        let script = argv!["EVAL", format!("{line}\nreturn 1"), "0"];
        let [ours, theirs] = conns.each_mut().map(|conn| conn.call(&script));
        assert_eq!(ours, theirs, "{line:?}");
    }
}
