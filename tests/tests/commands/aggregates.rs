//! `AGGREGATE COUNT` of ZUNION, ZINTER and their STORE forms, as Redis 8.8 documents it: a member's score is the sum of the weights
//! of the sets that hold it. No oracle has it.

use onrush_tests::client::Conn;
use onrush_tests::resp::Value;
use onrush_tests::server::{Server, skips_on_stand_in};

fn words(conn: &mut Conn, line: &str) -> String {
    let reply = conn.run(line);
    match reply {
        Value::Int(number) => number.to_string(),
        reply => match reply.items() {
            Some(items) => items.iter().map(Value::text).collect::<Vec<_>>().join(" "),
            None => reply.text(),
        },
    }
}

#[test]
fn a_count_is_the_weight_of_the_sets_that_hold_a_member() {
    if skips_on_stand_in() {
        return;
    }
    let server = Server::start_onrush(&[]);
    let mut conn = server.connect();
    for line in ["ZADD a 5 x -7 y inf z", "ZADD b 100 x -inf z", "SADD c x w", "ZADD d 1 only"] {
        conn.run(line);
    }
    for (line, want) in [
        ("ZUNION 3 a b c AGGREGATE COUNT WITHSCORES", "w 1 y 1 z 2 x 3"),
        ("ZUNION 3 a b c aggregate count", "w y z x"),
        ("ZUNION 3 a b c WEIGHTS 2 0.5 -1 AGGREGATE COUNT WITHSCORES", "w -1 x 1.5 y 2 z 2.5"),
        ("ZINTER 2 a b AGGREGATE COUNT WITHSCORES", "x 2 z 2"),
        ("ZINTER 3 a b c WEIGHTS 10 20 30 AGGREGATE COUNT WITHSCORES", "x 60"),
        ("ZINTER 2 a a AGGREGATE COUNT WITHSCORES", "x 2 y 2 z 2"),
        // Weights of both infinities make nothing, as sums of them do.
        ("ZINTER 2 a b WEIGHTS inf -inf AGGREGATE COUNT WITHSCORES", "x 0 z 0"),
        ("ZUNION 2 none d AGGREGATE COUNT WITHSCORES", "only 1"),
        ("ZUNIONSTORE u 3 a b c AGGREGATE COUNT", "4"),
        ("ZRANGE u 0 -1 WITHSCORES", "w 1 y 1 z 2 x 3"),
        ("ZINTERSTORE i 2 a b WEIGHTS 1 2 AGGREGATE COUNT", "2"),
        ("ZRANGE i 0 -1 WITHSCORES", "x 3 z 3"),
        // The last of two counts, and the others are what they were.
        ("ZINTER 2 a b AGGREGATE COUNT AGGREGATE MIN WITHSCORES", "z -inf x 5"),
        ("ZUNION 2 a d AGGREGATE COUNTS", "ERR syntax error"),
        ("ZDIFF 2 a b AGGREGATE COUNT", "ERR syntax error"),
    ] {
        assert_eq!(words(&mut conn, line), want, "{line}");
    }
}
