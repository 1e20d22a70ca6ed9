//! Users: what they may do while their rules change, and where their rules come from.

use std::fs;
use std::time::Duration;

use onrush_tests::argv;
use onrush_tests::argv::Argv;
use onrush_tests::client::Conn;
use onrush_tests::resp::Value;
use onrush_tests::server::{Launch, Oracle, Server, TempDir, onrush_bin, wait_until};

/// What is done with a connection of this name.
enum Step {
    /// Sends a command and reads the reply.
    Run(&'static str, &'static str),
    /// Sends a command whose reply comes later.
    Send(&'static str, &'static str),
    /// Reads that reply.
    Read(&'static str),
    /// Tells whether the connection is still there.
    IsOpen(&'static str),
}

use Step::{IsOpen, Read, Run, Send};

/// The connections of one server, each made when it is first named.
struct Stage<'s> {
    server: &'s Server,
    conns: Vec<(&'static str, Conn)>,
}

impl Stage<'_> {
    fn conn(&mut self, name: &'static str) -> &mut Conn {
        if !self.conns.iter().any(|(known, _)| *known == name) {
            self.conns.push((name, self.server.connect()));
        }
        let (_, conn) = self.conns.iter_mut().find(|(known, _)| *known == name).expect("just made");
        conn
    }

    fn take(&mut self, step: &Step) -> String {
        match *step {
            Run(name, line) => shown(&self.conn(name).run(line)),
            Send(name, line) => {
                let line = Argv::parse(line).expect("a line");
                self.conn(name).send_command(&line).expect("sent");
                wait_until("it waits", || self.server.connect().info_number("blocked_clients") == Some(1));
                String::new()
            }
            Read(name) => match self.conn(name).read_reply() {
                Ok(raw) => shown(&Value::parse(&raw).expect("a reply")),
                Err(_) => "closed".to_owned(),
            },
            IsOpen(name) => match self.conn(name).try_call(&argv!["PING"]) {
                Ok(_) => "open".to_owned(),
                Err(_) => "closed".to_owned(),
            },
        }
    }
}

/// A reply without what differs from run to run.
fn shown(reply: &Value) -> String {
    match reply {
        Value::Status(text) | Value::Error(text) | Value::Bulk(text) => {
            let text = String::from_utf8_lossy(text);
            // The place of a script's error and its digest.
            text.split(" script: ").next().unwrap_or_default().to_owned()
        }
        Value::Array(items) | Value::Set(items) => {
            let is_passing = |text: &str| {
                text.starts_with("id=")
                    || text.starts_with("age-")
                    || text.starts_with("timestamp-")
                    || text.parse::<f64>().is_ok_and(|number| number != 1.0 && number != 2.0)
            };
            let items: Vec<String> = items.iter().map(shown).filter(|text| !is_passing(text)).collect();
            format!("[{}]", items.join(", "))
        }
        // HELLO's, with versions.
        Value::Map(_) => "a map".to_owned(),
        // A time.
        Value::Int(ms) if *ms > 1_000_000_000_000 => String::new(),
        other => format!("{other:?}"),
    }
}

fn as_the_oracle(steps: &[Step]) {
    let servers = [Server::start_onrush(&[]), Server::start_oracle(Oracle::Newer, &[])];
    let [mut ours, mut theirs] = servers.each_ref().map(|server| Stage { server, conns: Vec::new() });
    for (at, step) in steps.iter().enumerate() {
        let (mine, other) = (ours.take(step), theirs.take(step));
        let line = match step {
            Run(name, line) | Send(name, line) => format!("{name}: {line}"),
            Read(name) | IsOpen(name) => (*name).to_owned(),
        };
        assert_eq!(mine, other, "step {at}, {line}");
    }
}

#[test]
fn commands_keys_and_channels_are_denied_as_in_the_oracle() {
    as_the_oracle(&[
        Run("admin", "ACL SETUSER bob on nopass ~k* &c* +@all -config|set -flushall %R~r* %W~w*"),
        Run("bob", "AUTH bob x"),
        Run("bob", "ACL WHOAMI"),
        Run("bob", "GET x"),
        Run("bob", "FLUSHALL"),
        Run("bob", "CONFIG SET a b"),
        Run("bob", "CONFIG SET"),
        Run("bob", "CONFIG GET port-x"),
        Run("bob", "FOO"),
        Run("bob", "PUBLISH x y"),
        Run("bob", "SUBSCRIBE x"),
        Run("bob", "PSUBSCRIBE c1"),
        Run("bob", "SSUBSCRIBE x"),
        Run("bob", "SET r1 x"),
        Run("bob", "GET w1"),
        Run("bob", "SET w1 x"),
        Run("bob", "SET w1 x GET"),
        Run("bob", "COPY r1 w1"),
        Run("bob", "COPY w1 r1"),
        Run("bob", "EXISTS w1"),
        Run("bob", "TYPE z"),
        Run("bob", "RENAME w1 w2"),
        Run("bob", "MSET k1 a k2 b x c"),
        Run("bob", "SORT k BY w*"),
        Run("bob", "SORT k BY nosort"),
        Run("bob", "SORT k GET w*"),
        Run("bob", "SORT k BY nosort GET #"),
        Run("bob", "XREAD STREAMS k x 0 0"),
        Run("bob", "EVAL \"return redis.call('get','x')\" 0"),
        Run("bob", "EVAL \"return redis.pcall('flushall')\" 0"),
        Run("bob", "EVAL \"return redis.pcall('flushall').err\" 0"),
        Run("bob", "EVAL \"return redis.call('publish','x','y')\" 0"),
        Run("bob", "EVAL \"return {redis.acl_check_cmd('get','x'), redis.acl_check_cmd('get','k')}\" 0"),
        Run("bob", "EVAL \"return redis.call('get','k')\" 1 x"),
        Run("bob", "EVAL \"return redis.acl_check_cmd('foo')\" 0"),
        Run("admin", "ACL LOG 20"),
        Run("admin", "ACL LOG RESET"),
        Run("admin", "ACL LOG"),
        Run("bob", "GET x"),
        Run("bob", "GET x"),
        Run("bob", "GET y"),
        Run("bob", "AUTH nobody y"),
        Run("bob", "HELLO 3 AUTH no no"),
        Run("admin", "ACL LOG"),
    ]);
}

#[test]
fn rights_that_go_half_way_deny_what_comes_after_as_in_the_oracle() {
    as_the_oracle(&[
        Run("admin", "ACL SETUSER bob on nopass ~k* &c* +@all"),
        Run("bob", "AUTH bob x"),
        Run("bob", "MULTI"),
        Run("bob", "GET x"),
        Run("bob", "GET k"),
        Run("bob", "EXEC"),
        Run("bob", "MULTI"),
        Run("bob", "GET k"),
        Run("bob", "SET k 1"),
        Run("bob", "PUBLISH c y"),
        Run("bob", "PING"),
        Run("admin", "ACL SETUSER bob -ping resetchannels resetkeys"),
        Run("bob", "EXEC"),
        Run("admin", "ACL SETUSER bob ~* allchannels +ping"),
        Run("bob", "MULTI"),
        Run("bob", "SET k 2"),
        Run("admin", "ACL SETUSER bob -exec"),
        Run("bob", "EXEC"),
        Run("admin", "ACL SETUSER bob +exec"),
        Run("bob", "EXEC"),
        Run("admin", "GET k"),
        Send("bob", "BLPOP l 0"),
        Run("admin", "ACL SETUSER bob -blpop"),
        Run("admin", "RPUSH l a"),
        Read("bob"),
        Run("admin", "LLEN l"),
        Send("bob", "XREAD BLOCK 0 STREAMS s $"),
        Run("admin", "ACL SETUSER bob resetkeys"),
        Run("admin", "XADD s 1-1 a b"),
        Read("bob"),
        Run("admin", "ACL LOG"),
    ]);
}

#[test]
fn connections_of_users_that_are_gone_or_may_hear_less_end_as_in_the_oracle() {
    as_the_oracle(&[
        Run("admin", "ACL SETUSER p on nopass +@all ~* resetchannels &a* &b1"),
        Run("1", "AUTH p x"),
        Run("1", "SUBSCRIBE a1"),
        Run("2", "AUTH p x"),
        Run("2", "PSUBSCRIBE a*"),
        Run("3", "AUTH p x"),
        Run("3", "SUBSCRIBE b1"),
        Run("4", "AUTH p x"),
        Run("4", "SSUBSCRIBE b1"),
        Run("5", "AUTH p x"),
        Run("admin", "ACL SETUSER p &b*"),
        IsOpen("1"),
        IsOpen("2"),
        IsOpen("3"),
        IsOpen("4"),
        Run("admin", "ACL SETUSER p resetchannels &a*"),
        IsOpen("1"),
        IsOpen("2"),
        IsOpen("3"),
        IsOpen("4"),
        IsOpen("5"),
        Run("admin", "ACL SETUSER p resetchannels &a1"),
        IsOpen("1"),
        IsOpen("2"),
        Run("admin", "ACL DELUSER p nosuch"),
        IsOpen("1"),
        IsOpen("5"),
        Run("admin", "ACL SETUSER me on nopass +@all ~*"),
        Run("6", "AUTH me x"),
        Run("6", "ACL DELUSER me"),
        IsOpen("6"),
        Run("admin", "ACL SETUSER off on nopass +@all ~*"),
        Run("7", "AUTH off x"),
        Run("admin", "ACL SETUSER off off"),
        IsOpen("7"),
        Run("8", "AUTH off x"),
        Run("admin", "ACL SETUSER off on >pw"),
        Run("8", "AUTH off pw"),
        Run("8", "AUTH off no"),
        Run("8", "ACL WHOAMI"),
        Run("8", "RESET"),
        Run("8", "ACL WHOAMI"),
        Run("admin", "CLIENT KILL USER nosuch"),
        Run("admin", "CLIENT KILL USER off"),
        IsOpen("7"),
    ]);
}

#[test]
fn the_default_user_may_be_taken_rights_and_login_as_in_the_oracle() {
    as_the_oracle(&[
        Run("admin", "ACL SETUSER boss on >pw ~* &* +@all"),
        Run("old", "PING"),
        Run("admin", "ACL SETUSER default off"),
        Run("new", "PING"),
        Run("new", "AUTH x"),
        Run("new", "AUTH default x"),
        Run("new", "HELLO 3"),
        Run("new", "AUTH boss pw"),
        Run("new", "PING"),
        Run("old", "PING"),
        Run("admin", "ACL SETUSER default on -@all +acl"),
        Run("admin", "PING"),
        Run("old", "PING"),
        Run("old", "GET a"),
        Run("old", "HELLO x"),
        Run("admin", "ACL WHOAMI"),
        Run("new", "RESET"),
        Run("new", "PING"),
        Run("new", "AUTH boss pw"),
        Run("new", "CONFIG SET requirepass foo"),
        Run("new", "ACL GETUSER default"),
        Run("new", "ACL SETUSER default nopass"),
        Run("new", "CONFIG GET requirepass"),
        Run("new", "CONFIG SET requirepass foo"),
        Run("new", "ACL GETUSER default"),
        Run("new", "CONFIG SET requirepass \"\""),
        Run("new", "ACL LIST"),
        Run("new", "ACL DELUSER default"),
        Run("new", "ACL SAVE"),
        Run("new", "ACL LOAD"),
    ]);
}

#[test]
fn a_pipeline_gets_each_denial_in_its_place() {
    let server = Server::start_onrush(&[]);
    let (mut admin, mut bob) = (server.connect(), server.connect());
    assert_eq!(admin.run("ACL SETUSER bob on nopass ~k* +@all").text(), "OK");
    bob.run("AUTH bob x");
    // The user takes its own right in the middle of the pipeline, of equal commands too.
    let mut lines = vec!["SET k 1"; 100];
    lines.extend(["GET x", "ACL SETUSER bob -set", "SET k 2", "SET k 2", "GET k"]);
    let commands: Vec<Argv> = lines.iter().map(|line| Argv::parse(line).expect("a line")).collect();
    let replies: Vec<String> =
        bob.pipeline(&commands).iter().map(|raw| Value::parse(raw).expect("a reply").text()).collect();
    assert!(replies[..100].iter().all(|reply| reply == "OK"));
    let denied = "NOPERM User bob has no permissions to run the 'set' command";
    assert_eq!(replies[100..], ["NOPERM No permissions to access a key", "OK", denied, denied, "1"]);
}

/// Keys that a key spec misses, because the word that begins them stands somewhere else, too.
#[test]
fn keys_behind_a_word_that_comes_twice_are_denied() {
    let server = Server::start_onrush(&[]);
    let (mut admin, mut bob) = (server.connect(), server.connect());
    for line in [
        "ACL SETUSER bob on nopass ~ok* ~c ~STREAMS ~geo +@all",
        "XADD secret 1-1 a b",
        "XGROUP CREATE secret streams 0",
        "XGROUP CREATE secret g 0",
        "GEOADD geo 1 1 m",
        "SET victim 1",
    ] {
        assert!(!admin.run(line).is_error(), "{line}");
    }
    bob.run("AUTH bob x");
    for line in [
        "XREADGROUP COUNT 1 GROUP streams c STREAMS secret >",
        "XREADGROUP NOACK GROUP g STREAMS STREAMS secret >",
        "GEORADIUS geo 1 1 9 km STORE ok:d STORE victim",
        "GEORADIUS geo 1 1 9 km STOREDIST ok:d STOREDIST victim",
        "GEORADIUSBYMEMBER geo m 9 km STORE ok:d STORE victim",
    ] {
        assert_eq!(bob.run(line).text(), "NOPERM No permissions to access a key", "{line}");
    }
    assert_eq!(admin.run("GET victim").text(), "1");
    assert_eq!(bob.run("GEORADIUS geo 1 1 900 km STORE ok:d"), Value::Int(1));
}

#[test]
fn a_user_that_takes_its_own_right_in_a_transaction_has_lost_it_there() {
    as_the_oracle(&[
        Run("admin", "ACL SETUSER me on nopass ~* +@all"),
        Run("me", "SET k 1"),
        Run("me", "AUTH me x"),
        Run("me", "MULTI"),
        Run("me", "GET k"),
        Run("me", "ACL SETUSER me -get"),
        Run("me", "GET k"),
        Run("me", "EXEC"),
        Run("old", "MULTI"),
        Run("old", "ACL SETUSER default -get"),
        Run("old", "GET k"),
        Run("old", "EXEC"),
    ]);
}

#[test]
fn a_subscriber_that_is_somebody_else_by_now_stays_as_in_the_oracle() {
    as_the_oracle(&[
        Run("admin", "ACL SETUSER b on nopass +@all ~*"),
        Run("hears", "HELLO 3"),
        Run("hears", "SUBSCRIBE z"),
        Run("hears", "AUTH b x"),
        Run("admin", "ACL SETUSER unrelated on"),
        IsOpen("hears"),
        Run("admin", "ACL SETUSER unrelated &z"),
        Run("admin", "ACL SETUSER unrelated resetchannels"),
        IsOpen("hears"),
    ]);
}

/// What can be said in a rule comes back from the configuration and from the file as it was.
#[test]
fn users_with_odd_names_and_patterns_come_back_as_they_were() {
    let folder = TempDir::new();
    let config = folder.0.join("onrush.conf");
    let acl = folder.0.join("users.acl");
    fs::write(&config, "").expect("a writable folder");
    fs::write(&acl, "").expect("a writable folder");
    let odd: &[&[&str]] = &[
        &["quoted", "on", "nopass", "~\"*\"", "~'*'", "~a\"b\"", "~'a", "~\\\"x", "~x\\\"", "&\"x\"", "+get"],
        &["\"q\"", "on", "~#a", "~", "%R~", "&", "+select|\"0\"", "+select|'"],
        &["", "on", "~*"],
        &["a\"b", "on", "(~\"x +get)", "(&'y)"],
        &["\u{fc}", "on", "~\u{e4}*", "~a)", "+select|0)"],
    ];
    let fill = |server: &Server| {
        let mut conn = server.connect();
        for user in odd {
            let args: Vec<Vec<u8>> =
                ["ACL", "SETUSER"].iter().chain(user.iter()).map(|word| word.as_bytes().to_vec()).collect();
            assert_eq!(conn.call(&Argv::new(&args)).text(), "OK", "{user:?}");
        }
        // Read back, it would end the selector.
        for rule in ["(~a) +get)", "(~a) +select|0)"] {
            assert!(conn.call(&argv!["ACL", "SETUSER", "x", rule]).text().ends_with("Syntax error"), "{rule}");
        }
        conn.run("ACL LIST")
    };
    let server = Launch::onrush().config_file(&config).start();
    let before = fill(&server);
    assert_eq!(server.connect().run("CONFIG REWRITE").text(), "OK");
    drop(server);
    let server = Launch::onrush().config_file(&config).start();
    assert_eq!(server.connect().run("ACL LIST"), before);
    drop(server);
    let args = ["--aclfile", acl.to_str().expect("plain")];
    let server = Server::start_onrush(&args);
    let before = fill(&server);
    assert_eq!(server.connect().run("ACL SAVE").text(), "OK");
    drop(server);
    assert_eq!(Server::start_onrush(&args).connect().run("ACL LIST"), before);
}

#[test]
fn names_of_clients_do_not_fill_the_log_of_denials() {
    let server = Server::start_onrush(&[]);
    let mut conn = server.connect();
    let before = conn.info_number("used_memory").expect("a field");
    assert_eq!(conn.call(&argv!["CLIENT", "SETNAME", "x".repeat(1 << 20)]).text(), "OK");
    for user in 0..130 {
        conn.run(&format!("AUTH user{user} x"));
    }
    let after = conn.info_number("used_memory").expect("a field");
    assert!(after - before < 8 << 20, "{before} {after}");
    assert!(conn.info_number("mem_clients_normal").expect("a field") > 1 << 20);
}

#[test]
fn a_script_and_a_transaction_that_begin_anew_are_denied_once() {
    let server = Server::start_onrush(&[]);
    let (mut admin, mut bob) = (server.connect(), server.connect());
    admin.run("ACL SETUSER bob on nopass ~* +@all -flushall -ping");
    bob.run("AUTH bob x");
    // It runs for longer than a worker may: it begins anew on another thread.
    let script =
        "for i = 1, 30000000 do end redis.pcall('flushall') redis.call('set', KEYS[1], 'x') return redis.pcall('ping')";
    let reply = bob.call(&argv!["EVAL", script, "1", "k"]);
    assert_eq!(reply.text(), "ERR ACL failure in script: User bob has no permissions to run the 'ping' command");
    let counts = |admin: &mut Conn| {
        ["acl_access_denied_cmd", "acl_access_denied_key"].map(|field| admin.info_number(field).expect("a field"))
    };
    assert_eq!(counts(&mut admin), [2, 0]);
    assert_eq!(admin.run("ACL LOG").items().map(<[Value]>::len), Some(2));
}

#[test]
fn failed_logins_stand_in_the_servers_log_at_a_bounded_rate() {
    let server = Server::start_onrush(&["--requirepass", "secret"]);
    let mut conn = server.connect();
    let wrong: Vec<Argv> = (0..1000).map(|_| argv!["AUTH", "ev\r\nil", "guess"]).collect();
    assert!(conn.pipeline(&wrong).iter().all(|raw| raw.starts_with(b"-WRONGPASS")));
    let lines = |server: &Server| server.log().lines().filter(|line| line.contains("failed to log in")).count();
    wait_until("a line", || lines(&server) > 0);
    assert!((1..=3).contains(&lines(&server)), "{}", server.log());
    assert!(server.log().contains("'ev\\r\\nil'"), "{}", server.log());
    assert!(!server.log().contains("guess"));
}

#[test]
fn users_come_from_a_file_and_go_back_there() {
    let folder = TempDir::new();
    let path = folder.0.join("users.acl");
    let file = |text: &str| fs::write(&path, text).expect("a writable folder");
    file("user a on nopass +@all ~* &*\nuser c on nopass +@all ~* &*\nuser d on nopass +@all ~* &*\n");
    let server = Server::start_onrush(&["--aclfile", path.to_str().expect("plain")]);
    let mut admin = server.connect();
    let mut of = ["a", "c", "d"].map(|user| {
        let mut conn = server.connect();
        assert_eq!(conn.run(&format!("AUTH {user} x")).text(), "OK");
        conn
    });
    let mut hears = server.connect();
    hears.run("AUTH d x");
    hears.run("SUBSCRIBE z");
    // A user who is gone and one who hears what it may not hear any more lose their connections, others do not.
    file("user a on >new +@all ~* &*\nuser d on nopass +@all ~* &x\n");
    assert_eq!(admin.run("ACL LOAD").text(), "OK");
    let is_open = |conn: &mut Conn| conn.try_call(&argv!["PING"]).is_ok();
    assert_eq!(of.each_mut().map(is_open), [true, false, true]);
    assert!(!is_open(&mut hears));
    // A file with a mistake changes nothing.
    let before = admin.run("ACL LIST").items().map(<[Value]>::len);
    file("user a off\n\nuser b on foo\nuser d (\nuser d on\n+get\nuser e +nosuch\n");
    let shown = path.display();
    assert_eq!(
        admin.run("ACL LOAD").text(),
        format!(
            "ERR {shown}:3: Syntax error. {shown}:4: Unmatched parenthesis in selector definition.WARNING: Duplicate user 'd' \
             found on line 5. {shown}:6 should start with user keyword followed by the username. {shown}:7: Error in \
             applying operation '+nosuch': Unknown command or category name in ACL. WARNING: ACL errors detected, no \
             change to the previously active ACL rules was performed"
        )
    );
    assert_eq!(admin.run("ACL LIST").items().map(<[Value]>::len), before);
    fs::remove_file(&path).expect("it is there");
    assert_eq!(
        admin.run("ACL LOAD").text(),
        format!("ERR Error loading ACLs, opening file '{shown}': No such file or directory")
    );
    // A fifo whose writer may never come is not waited for.
    let made = std::process::Command::new("mkfifo").arg(&path).status().expect("mkfifo");
    assert!(made.success());
    assert_eq!(
        admin.run("ACL LOAD").text(),
        format!("ERR Error loading ACLs, opening file '{shown}': not a regular file, but a fifo, a socket or a device")
    );
    fs::remove_file(&path).expect("it is there");
    assert_eq!(admin.run("ACL SETUSER f on (+get ~f)").text(), "OK");
    assert_eq!(admin.run("ACL SAVE").text(), "OK");
    let saved = fs::read_to_string(&path).expect("it was saved");
    let lines: Vec<&str> = saved.lines().collect();
    assert_eq!(lines[3], "user f on sanitize-payload resetchannels -@all (~f resetchannels -@all +get)");
    assert_eq!(lines.len(), 4);
    fs::create_dir(folder.0.join("gone")).expect("a folder");
    // The folder is gone: nothing can be saved, and that is told.
    drop(server);
    let path = folder.0.join("gone/users.acl");
    fs::write(&path, &saved).expect("a writable folder");
    let server = Server::start_onrush(&["--aclfile", path.to_str().expect("plain")]);
    let mut admin = server.connect();
    assert_eq!(admin.run("ACL LIST").items().map(<[Value]>::len), Some(4));
    fs::remove_dir_all(folder.0.join("gone")).expect("it is there");
    assert_eq!(
        admin.run("ACL SAVE").text(),
        "ERR There was an error trying to save the ACLs. Please check the server logs for more information"
    );
    server.expect_log("The ACL file");
}

#[test]
fn users_of_the_configuration_survive_a_rewrite_and_a_start() {
    let folder = TempDir::new();
    let config = folder.0.join("onrush.conf");
    fs::write(&config, "requirepass foo\nuser bob on >x +acl (+get ~a) ( +set ~b )\nacl-pubsub-default allchannels\n")
        .expect("a writable folder");
    let list = |server: &Server| {
        let mut conn = server.connect();
        assert_eq!(conn.run("AUTH foo").text(), "OK");
        conn.run("ACL LIST")
    };
    let server = Launch::onrush().config_file(&config).start();
    let mut conn = server.connect();
    assert_eq!(conn.run("AUTH bob x").text(), "OK");
    conn.run("AUTH foo");
    assert_eq!(conn.run("ACL SETUSER carol on nopass ~c").text(), "OK");
    assert_eq!(conn.run("ACL SETUSER bob off").text(), "OK");
    let before = list(&server);
    assert_eq!(conn.run("CONFIG REWRITE").text(), "OK");
    drop(server);
    let server = Launch::onrush().config_file(&config).start();
    assert_eq!(list(&server), before);
}

#[test]
fn a_start_with_users_at_two_places_or_wrong_ones_fails_with_the_words_of_redis() {
    let folder = TempDir::new();
    let acl = folder.0.join("users.acl");
    fs::write(&acl, "user a on\n").expect("a writable folder");
    let acl = acl.to_str().expect("plain");
    for (args, text) in [
        (vec!["--aclfile", acl, "--user", "b", "on"], "at the same setting an ACL file path is invalid"),
        (vec!["--aclfile", "/nowhere/x"], "Error loading ACLs, opening file '/nowhere/x': No such file or directory"),
        (
            vec!["--user", "b", "on", "+nosuch"],
            "Error loading ACL rule '+nosuch' for the user named 'b': Unknown command or category name in ACL",
        ),
    ] {
        let socket = folder.0.join("x.sock");
        let listen = ["--port", "0", "--unixsocket", socket.to_str().expect("plain")];
        let (status, output) = Launch::run_to_end(&onrush_bin(), &[&listen[..], &args].concat());
        assert_eq!(status.code(), Some(1), "{output}");
        assert!(output.contains(text), "{output}");
    }
}

/// Clients of a user read and write while its rights come and go: none gets anything but its reply or a denial, and what
/// is denied is not done.
#[test]
fn rights_change_under_load() {
    let server = Server::start_onrush(&["--workers", "2"]);
    let mut admin = server.connect();
    admin.run("ACL SETUSER bob on nopass ~k* +@all");
    let end = std::time::Instant::now() + Duration::from_secs(2);
    std::thread::scope(|scope| {
        for id in 0..4 {
            let server = &server;
            scope.spawn(move || {
                let mut conn = server.connect();
                conn.run("AUTH bob x");
                let key = format!("k{id}");
                let mut done = 0;
                while std::time::Instant::now() < end {
                    let commands: Vec<Argv> = (0..50).map(|_| argv!["INCR", &key]).collect();
                    for raw in conn.pipeline(&commands) {
                        match Value::parse(&raw).expect("a reply") {
                            Value::Int(count) => {
                                done += 1;
                                assert_eq!(count, done);
                            }
                            other => assert!(other.text().starts_with("NOPERM "), "{other:?}"),
                        }
                    }
                }
            });
        }
        let mut rounds = 0;
        while std::time::Instant::now() < end {
            for rules in ["-incr", "+incr resetkeys", "~k* -@all", "+@all"] {
                assert_eq!(admin.run(&format!("ACL SETUSER bob {rules}")).text(), "OK");
            }
            rounds += 1;
        }
        assert!(rounds > 10, "{rounds}");
    });
}
