//! INCREX, as Redis 8.8 documents it. No oracle has it, so the expected replies are here.

use onrush_tests::argv::Argv;
use onrush_tests::client::Conn;
use onrush_tests::resp::Value;
use onrush_tests::rng::Rng;
use onrush_tests::server::{Server, skips_on_stand_in};

/// A reply in short: `new added`, or the error.
fn told(conn: &mut Conn, line: &str) -> String {
    let text = |value: &Value| match value {
        Value::Int(number) => number.to_string(),
        other => other.text(),
    };
    let reply = conn.run(line);
    reply.items().map_or_else(|| text(&reply), |items| items.iter().map(text).collect::<Vec<_>>().join(" "))
}

fn check(lines: &[(&str, &str)]) {
    if skips_on_stand_in() {
        return;
    }
    let server = Server::start_onrush(&[]);
    let mut conn = server.connect();
    for (line, want) in lines {
        assert_eq!(told(&mut conn, line), *want, "{line}");
    }
}

const SYNTAX: &str = "ERR syntax error";

#[test]
fn a_counter_stays_within_its_bounds() {
    check(&[
        ("INCREX k", "1 1"),
        ("INCREX k BYINT 4 UBOUND 5", "5 4"),
        ("INCREX k UBOUND 5", "5 0"),
        ("INCREX k BYINT 9 UBOUND 7", "5 0"),
        ("INCREX k BYINT 9 UBOUND 7 SATURATE", "7 2"),
        ("INCREX k SATURATE UBOUND 7", "7 0"),
        ("increx k byint -10 lbound -2", "7 0"),
        ("INCREX k BYINT -10 LBOUND -2 SATURATE", "-2 -9"),
        ("GET k", "-2"),
        // What is refused of a key that is not there makes none.
        ("INCREX none UBOUND 0", "0 0"),
        ("EXISTS none", "0"),
        // A value that is out of bounds already may come back into them.
        ("SET k 100", "OK"),
        ("INCREX k UBOUND 50", "100 0"),
        ("INCREX k BYINT -60 UBOUND 50", "40 -60"),
        ("INCREX k LBOUND 5 UBOUND 4", "ERR LBOUND must not be greater than UBOUND"),
    ]);
}

#[test]
fn numbers_that_do_not_fit_are_refused_or_saturate() {
    check(&[
        ("SET k 9223372036854775806", "OK"),
        ("INCREX k BYINT 2", "9223372036854775806 0"),
        ("INCREX k BYINT 2 LBOUND 0", "9223372036854775806 0"),
        ("INCREX k BYINT 2 UBOUND 9223372036854775807", "9223372036854775806 0"),
        ("INCREX k BYINT 2 SATURATE", "9223372036854775807 1"),
        ("INCREX k BYINT -9223372036854775808 LBOUND 0 SATURATE", "0 -9223372036854775807"),
        ("SET low -9223372036854775808", "OK"),
        ("INCREX low BYINT -1", "-9223372036854775808 0"),
        ("INCREX low BYINT -1 SATURATE", "-9223372036854775808 0"),
        // What is added has to be a number of 64 bits.
        ("INCREX low LBOUND 1 SATURATE", "ERR increment or decrement would overflow"),
        ("GET low", "-9223372036854775808"),
        ("INCREX k BYINT 1.5", "ERR value is not an integer or out of range"),
        ("INCREX k UBOUND x", "ERR value is not an integer or out of range"),
        ("INCREX k BYFLOAT x", "ERR value is not a valid float"),
        ("SET s text", "OK"),
        ("INCREX s", "ERR value is not an integer or out of range"),
        ("INCREX s BYFLOAT 1", "ERR value is not a valid float"),
        ("LPUSH l x", "1"),
        ("INCREX l", "WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("INCREX l BYFLOAT 1", "WRONGTYPE Operation against a key holding the wrong kind of value"),
    ]);
}

#[test]
fn floats_have_bounds_too() {
    check(&[
        ("INCREX k BYFLOAT 0.1", "0.1 0.1"),
        ("INCREX k BYFLOAT 0.2 UBOUND 0.5", "0.3 0.2"),
        ("INCREX k BYFLOAT 0.5 UBOUND 0.5", "0.3 0"),
        ("INCREX k BYFLOAT 0.5 UBOUND 0.5 SATURATE", "0.5 0.2"),
        ("INCREX k BYFLOAT -3 LBOUND -inf UBOUND inf", "-2.5 -3"),
        ("INCREX k BYFLOAT inf", "ERR increment would produce NaN or Infinity"),
        ("INCREX k BYFLOAT inf UBOUND 5 SATURATE", "5 7.5"),
        ("INCREX k", "6 1"),
    ]);
}

#[test]
fn floats_are_doubles_in_resp3() {
    if skips_on_stand_in() {
        return;
    }
    let server = Server::start_onrush(&[]);
    let mut conn = server.connect();
    conn.run("HELLO 3");
    let reply = |conn: &mut Conn, line: &str| conn.try_call(&Argv::parse(line).expect("a command")).expect("a reply");
    assert_eq!(reply(&mut conn, "INCREX k BYFLOAT 0.1"), b"*2\r\n,0.1\r\n,0.1\r\n");
    assert_eq!(reply(&mut conn, "INCREX k BYFLOAT 1 UBOUND 1"), b"*2\r\n,0.1\r\n,0\r\n");
    assert_eq!(reply(&mut conn, "INCREX n"), b"*2\r\n:1\r\n:1\r\n");
}

#[test]
fn the_expiry_is_set_kept_or_taken_away() {
    check(&[
        ("INCREX k EXAT 99999999999", "1 1"),
        ("EXPIRETIME k", "99999999999"),
        ("INCREX k", "2 1"),
        ("EXPIRETIME k", "99999999999"),
        ("INCREX k EXAT 88888888888 ENX", "3 1"),
        ("EXPIRETIME k", "99999999999"),
        // What is refused leaves the expiry alone.
        ("INCREX k UBOUND 3 PXAT 77777777777000", "3 0"),
        ("EXPIRETIME k", "99999999999"),
        ("INCREX k UBOUND 3 SATURATE PXAT 77777777777000", "3 0"),
        ("EXPIRETIME k", "77777777777"),
        ("INCREX k PERSIST", "4 1"),
        ("TTL k", "-1"),
        ("INCREX k EXAT 66666666666 ENX", "5 1"),
        ("EXPIRETIME k", "66666666666"),
        ("INCREX f BYFLOAT 1 EXAT 66666666666", "1 1"),
        ("EXPIRETIME f", "66666666666"),
        ("INCREX k EX 0", "ERR invalid expire time in 'increx' command"),
        ("INCREX k EX x", "ERR value is not an integer or out of range"),
        ("INCREX k PXAT 1", "6 1"),
        ("EXISTS k", "0"),
    ]);
}

#[test]
fn options_stand_once_and_do_not_contradict() {
    check(&[
        ("INCREX", "ERR wrong number of arguments for 'increx' command"),
        ("INCREX k 5", SYNTAX),
        ("INCREX k BYINT", SYNTAX),
        ("INCREX k BYINT 1 BYINT 1", SYNTAX),
        ("INCREX k BYINT 1 BYFLOAT 1", SYNTAX),
        ("INCREX k UBOUND 1 UBOUND 1", SYNTAX),
        ("INCREX k SATURATE SATURATE", SYNTAX),
        ("INCREX k EX 1 PX 1", SYNTAX),
        ("INCREX k EX 1 PERSIST", SYNTAX),
        ("INCREX k PERSIST EX 1", SYNTAX),
        ("INCREX k ENX", SYNTAX),
        ("INCREX k PERSIST ENX", SYNTAX),
        ("INCREX k ENX EX 100 ENX", SYNTAX),
        ("EXISTS k", "0"),
    ]);
}

/// Random calls against plain arithmetic.
#[test]
fn random_calls_agree_with_arithmetic() {
    if skips_on_stand_in() {
        return;
    }
    let server = Server::start_onrush(&[]);
    let mut conn = server.connect();
    let (mut rng, mut value) = (Rng::new(7), 0_i64);
    for _ in 0..2_000 {
        let (by, low) = (rng.between(-9, 9), rng.between(-20, 0));
        let high = low + rng.between(0, 30);
        let saturates = rng.percent(50);
        let sum = value + by;
        let new = if (low..=high).contains(&sum) {
            sum
        } else if saturates {
            sum.clamp(low, high)
        } else {
            value
        };
        let line =
            format!("INCREX k BYINT {by} LBOUND {low} UBOUND {high}{}", if saturates { " SATURATE" } else { "" });
        assert_eq!(told(&mut conn, &line), format!("{new} {}", new - value), "{line} at {value}");
        value = new;
    }
}
