//! The wire protocol below the commands: requests in every form, protocol errors, and streams cut anywhere.

use onrush_tests::amount::seeds;
use onrush_tests::argv::Argv;
use onrush_tests::rng::Rng;
use onrush_tests::server::Server;
use onrush_tests::stream;

struct Servers {
    ours: Server,
    oracle: Server,
    rng: Rng,
}

impl Servers {
    fn start(args: &[&str]) -> Servers {
        let ours = Server::start_onrush(&[&["--workers", "2"], args].concat());
        Servers { ours, oracle: Server::start_redis(args), rng: Rng::new(11) }
    }

    fn check(&mut self, name: &str, bytes: impl AsRef<[u8]>) {
        stream::check(&self.ours, &self.oracle, name, bytes.as_ref(), &mut self.rng);
    }
}

fn command(line: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    Argv::parse(line).expect("a well-quoted line").encode(&mut bytes);
    bytes
}

#[test]
fn inline_commands_are_answered() {
    let mut servers = Servers::start(&[]);
    for text in [
        "PING\r\nPING\r\nPING\r\n",
        "PING\nPING\nPING\n",
        "\r\n\r\nPING\r\n",
        "\n\nPING\n",
        "   PING   \r\n",
        "  \r\nPING\r\n",
        "SET a \"x y\"\r\nGET a\r\n",
        "SET a 'x\\'y'\r\nGET a\r\n",
        "SET a \"\\x41\\n\\t\\xff\\\"\"\r\nGET a\r\n",
        "set a ''\r\nget a\r\n",
        "SET a \"b\"\r\nGET\ta\r\n",
        "ECHO \"a\\zb\\x4\"\r\n",
        "ECHO a\"b\"\r\n",
        "ECHO \\x41\r\n",
        "nosuch a b\r\nPING\r\n",
        "PING\r\nQUIT\r\nPING\r\n",
        "PING\r",
        "PING",
        "\r\r\n",
        "PING\r\r\n",
    ] {
        servers.check("inline", text);
    }
}

#[test]
fn inline_and_multibulk_mix_on_one_connection() {
    let mut servers = Servers::start(&[]);
    let stream = [
        &b"PING\r\n"[..],
        &command("SET a 1"),
        b"INCR a\n",
        b"*0\r\n",
        &command("INCR a"),
        b"*-1\r\n\r\n",
        b"GET a\r\n",
        &command("QUIT"),
        b"PING\r\n",
    ];
    servers.check("mix", stream.concat());
}

#[test]
fn empty_requests_get_no_reply() {
    let mut servers = Servers::start(&[]);
    for text in
        ["*0\r\n", "*-1\r\n", "*-9\r\nPING\r\n", "\r\n", "*0\r\n*0\r\n*1\r\n$4\r\nPING\r\n", "*1\r\n$0\r\n\r\nPING\r\n"]
    {
        servers.check("empty", text);
    }
}

#[test]
fn an_empty_request_takes_the_place_of_a_skipped_reply() {
    let mut servers = Servers::start(&[]);
    for empty in ["*0\r\n", "*-1\r\n", "\r\n", "  \t\r\n", "\r\n*0\r\n"] {
        for stream in [
            format!("CLIENT REPLY SKIP\r\n{empty}PING\r\nECHO 2\r\n"),
            format!("PING\r\nCLIENT REPLY SKIP\r\nECHO 1\r\n{empty}ECHO 2\r\n"),
            format!("{empty}CLIENT REPLY SKIP\r\nCLIENT REPLY SKIP\r\n{empty}{empty}ECHO 1\r\nECHO 2\r\n"),
            format!("CLIENT REPLY OFF\r\n{empty}PING\r\nCLIENT REPLY ON\r\n{empty}PING\r\n"),
            format!("CLIENT REPLY SKIP\r\nCLIENT ID\r\n{empty}CLIENT GETNAME\r\nPING\r\n{empty}"),
        ] {
            servers.check("empty after skip", format!("{stream}QUIT\r\n"));
        }
    }
}

#[test]
fn a_line_with_a_nul_has_no_end() {
    let mut servers = Servers::start(&[]);
    for text in [
        "PI\0NG\r\nPING\r\n",
        "ECHO a\0b\r\nPING\r\n",
        "PING\r\n\0\r\nPING\r\n",
        "PING\0",
        "PING\r\n\0PING\r\n",
        "GET \"a\0b\"\r\nPING\r\n",
        "SET a \"x\0\r\nPING\r\n",
        "GET \0*1\r\n$4\r\nPING\r\n",
        "PING\nA\r\0\nPING\n",
        "*1\0\r\n$4\r\nPING\r\nPING\r\n",
        "PING\r\n*\0\r\nPING\r\n",
        "*1\r\n$4\0\r\nPING\r\nPING\r\n",
        "*1\r\n\0\r\nPING\r\n",
        "*1\r\0$4\r\nPING\r\nQUIT\r\n",
    ] {
        servers.check("NUL", text);
    }
    let long = "x".repeat(70_000);
    servers.check("a NUL in a line beyond the limit", format!("PING\r\nSET \0\r\n{long}"));
    servers.check("a NUL in a count beyond the limit", format!("PING\r\n*1\0\r\n{long}"));
    servers.check("a NUL in a length beyond the limit", format!("PING\r\n*1\r\n$4\0\r\n{long}"));
}

#[test]
fn errors_quote_bytes_as_they_came() {
    let mut servers = Servers::start(&["--enable-debug-command", "yes"]);
    let bytes: &[&[u8]] = &[b"\xff\xfea", b"\xc3\x28", b"a\0b", b"\x80", b"\xed\xa0\x80", "\u{fffd}".as_bytes()];
    for word in bytes {
        for before in [
            &[][..],
            &["GETX"],
            &["CONFIG"],
            &["CLIENT"],
            &["OBJECT"],
            &["DEBUG"],
            &["XINFO"],
            &["CLIENT", "LIST", "TYPE"],
            &["CLIENT", "KILL", "USER"],
            &["CLIENT", "SETNAME"],
            &["COMMAND", "LIST", "FILTERBY"],
            &["MEMORY"],
        ] {
            for after in [&[][..], &["1"]] {
                let words =
                    before.iter().map(|w| w.as_bytes()).chain([*word]).chain(after.iter().map(|w| w.as_bytes()));
                let mut stream = Vec::new();
                Argv(words.map(<[u8]>::to_vec).collect()).encode(&mut stream);
                servers.check("an error that quotes", [stream, command("QUIT")].concat());
            }
        }
        for line in [
            "CONFIG SET % 1",
            "CONFIG SET % 1 % 2",
            "CONFIG SET appendfsync %",
            "XGROUP DESTROY % %",
            "EXPIRE a 1 %",
            "HELLO 3 %",
            "XACK % % 1",
        ] {
            let words = line.split(' ').map(|w| if w == "%" { word.to_vec() } else { w.into() });
            let mut stream = Vec::new();
            Argv(words.collect()).encode(&mut stream);
            servers.check("an error that quotes", [stream, command("QUIT")].concat());
        }
    }
    for byte in [0x7f, 0x80, 0xc3, 0xff] {
        servers.check("a type byte that is none", [b"*1\r\n", &[byte][..], b"4\r\nPING\r\n"].concat());
    }
}

#[test]
fn protocol_errors_come_after_the_replies_before_them_and_close() {
    let mut servers = Servers::start(&[]);
    let errors = [
        "*abc\r\n",
        "*\r\n",
        "*1.5\r\n",
        "* 1\r\n",
        "*01\r\n",
        "*+1\r\n",
        "*2147483648\r\n",
        "*9223372036854775808\r\n",
        "*1\r\nPING\r\n",
        "*1\r\n:4\r\n",
        "*1\r\n\r\nPING\r\n",
        "*1\r\n$abc\r\n",
        "*1\r\n$\r\n",
        "*1\r\n$-1\r\n",
        "*1\r\n$04\r\nPING\r\n",
        "*1\r\n$ 4\r\nPING\r\n",
        "*1\r\n$536870913\r\n",
        "*1\r\n$9223372036854775808\r\n",
        "*2\r\n$3\r\nGET\r\nx1\r\n",
        "*2\r\n$3\r\nGET\r\n*1\r\n",
        "GET \"a\r\n",
        "GET 'a\r\n",
        "GET \"a\"b\r\n",
        "GET 'a'b\r\n",
        "\"\r\n",
        "*1\r\n$4\r\nPINGxx*1\r\n$4\r\nPING\r\n",
    ];
    for error in errors {
        servers.check("error alone", error);
        let among = [&command("SET a 1")[..], &command("INCR a"), error.as_bytes(), &command("PING")].concat();
        servers.check("error among commands", among);
    }
}

#[test]
fn requests_without_an_end_have_a_limit() {
    let mut servers = Servers::start(&[]);
    let long = |len| "x".repeat(len);
    servers.check("inline of 65536", format!("PING\r\n{}", long(65_536)));
    servers.check("inline of 65537", format!("PING\r\n{}", long(65_537)));
    servers.check("inline of 200000", long(200_000));
    servers.check("long inline with an end", format!("ECHO {}\r\nPING\r\n", long(60_000)));
    servers.check("multibulk count", format!("PING\r\n*{}", "1".repeat(70_000)));
    servers.check("bulk count", format!("PING\r\n*1\r\n${}", "1".repeat(70_000)));
}

#[test]
fn unfinished_requests_are_dropped_when_the_client_leaves() {
    let mut servers = Servers::start(&[]);
    let whole = [command("SET a 1"), command("APPEND a 234"), command("GET a")].concat();
    for len in 0..whole.len() {
        servers.check("unfinished", &whole[..len]);
    }
}

#[test]
fn small_limits_hold_before_the_password() {
    let mut servers = Servers::start(&["--requirepass", "secret"]);
    for text in [
        "*10\r\n$4\r\nPING\r\n",
        "*11\r\n$4\r\nPING\r\n",
        "*1\r\n$16384\r\n",
        "*1\r\n$16385\r\n",
        "*1\r\n$4\r\nPING\r\nGET a\r\nAUTH wrong\r\nAUTH secret\r\nGET a\r\nQUIT\r\n",
        "*2\r\n$4\r\nAUTH\r\n$6\r\nsecret\r\n*11\r\n$3\r\nDEL\r\n$1\r\na\r\n$1\r\na\r\n$1\r\na\r\n$1\r\na\r\n$1\r\na\r\n$1\r\na\r\n\
         $1\r\na\r\n$1\r\na\r\n$1\r\na\r\n$1\r\na\r\nQUIT\r\n",
        "HELLO 3\r\nHELLO 3 AUTH default wrong\r\nAUTH default secret\r\nGET a\r\nRESET\r\nGET a\r\nQUIT\r\n",
    ] {
        servers.check("before the password", text);
    }
}

#[test]
fn lines_of_http_close_the_connection() {
    let server = Server::start_onrush(&[]);
    for line in ["POST / HTTP/1.1", "Host: example", "MULTI\r\nPOST / HTTP/1.1"] {
        let stream = format!("PING\r\n{line}\r\nPING\r\nPING\r\n");
        // Redis itself drops the reply before that line or not, as reads fall; none may come after it.
        let got = stream::exchange(&server, stream.as_bytes(), None).expect("closed");
        assert!(b"+PONG\r\n+OK\r\n".starts_with(&got), "{}", String::from_utf8_lossy(&got));
    }
}

#[test]
fn replies_can_be_switched_off_and_on() {
    let mut servers = Servers::start(&[]);
    let stream = "SET a 1\r\nCLIENT REPLY OFF\r\nINCR a\r\nPING\r\nnosuch\r\nCLIENT REPLY ON\r\nGET a\r\nCLIENT REPLY SKIP\r\n\
                  INCR a\r\nGET a\r\nCLIENT REPLY SKIP\r\nCLIENT REPLY SKIP\r\nINCR a\r\nGET a\r\nCLIENT REPLY maybe\r\n\
                  CLIENT REPLY\r\nCLIENT REPLY OFF\r\nCLIENT REPLY SKIP\r\nPING\r\nCLIENT REPLY ON\r\nPING\r\nQUIT\r\n";
    servers.check("client reply", stream);
    servers.check("off to the end", "PING\r\nCLIENT REPLY OFF\r\nPING\r\nQUIT\r\n");
    servers.check("skip, then reset", "CLIENT REPLY SKIP\r\nRESET\r\nPING\r\nQUIT\r\n");
    servers.check("off, then reset", "CLIENT REPLY OFF\r\nRESET\r\nPING\r\nQUIT\r\n");
    servers.check("off, then a protocol error", "CLIENT REPLY OFF\r\nPING\r\n*abc\r\n");
}

#[test]
fn large_bulks_arrive_in_any_pieces() {
    let mut servers = Servers::start(&[]);
    let mut stream = Vec::new();
    for len in [16_383, 16_384, 32_767, 32_768, 32_769, 70_000, 300_000] {
        stream.extend(command(&format!("SET a {}", "v".repeat(len))));
        stream.extend(command("STRLEN a"));
        stream.extend(command("GET a"));
    }
    stream.extend(command("QUIT"));
    servers.check("large bulks", stream);
}

#[test]
fn random_streams_are_answered_as_the_oracle_does() {
    let mut servers = Servers::start(&[]);
    for seed in seeds(400) {
        let stream = random_stream(&mut Rng::new(seed));
        servers.check(&format!("ONRUSH_TEST_SEED={seed}"), stream);
    }
}

/// Good requests in both forms, with now and then a byte changed, dropped or put in.
fn random_stream(rng: &mut Rng) -> Vec<u8> {
    const LINES: &[&str] = &[
        "PING",
        "SET a 1",
        "INCR a",
        "GET a",
        "ECHO \"x y\"",
        "nosuch a",
        "MSET a 1 b 2",
        "MGET a b c",
        "STRLEN a",
        "DEL a b",
    ];
    let mut stream = Vec::new();
    for _ in 0..1 + rng.below(40) {
        let line = rng.pick(LINES);
        match rng.below(12) {
            0..7 => stream.extend(command(line)),
            7..10 => stream.extend(format!("{line}\r\n").into_bytes()),
            10 => stream.extend_from_slice(rng.pick(&["\r\n", "*0\r\n", "*-1\r\n", "\n"]).as_bytes()),
            _ if rng.percent(30) => {
                let mut bytes = command(line);
                damage(&mut bytes, rng);
                stream.extend(bytes);
            }
            _ => {}
        }
    }
    stream
}

fn damage(bytes: &mut Vec<u8>, rng: &mut Rng) {
    let at = rng.below(bytes.len());
    let byte = rng.pick(&["*", "$", "\r", "\n", "-", "9", "0", "x", "\"", " "]).as_bytes()[0];
    match rng.below(3) {
        0 => bytes[at] = byte,
        1 => bytes.insert(at, byte),
        _ => drop(bytes.remove(at)),
    }
}
