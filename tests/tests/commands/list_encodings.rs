//! A list that grows changes its encoding where a list of redis-server does. (When it shrinks it changes back sooner, so the
//! random sequences forgive that.)

use onrush_tests::argv::Argv;
use onrush_tests::rng::Rng;
use onrush_tests::server::{Oracle, Server};

/// An element that may bring a list near its limits: empty, a number, or some letters.
fn element(rng: &mut Rng, len_max: usize) -> Vec<u8> {
    match rng.below(8) {
        0 => Vec::new(),
        1 => rng.below(1 << 40).to_string().into_bytes(),
        _ => vec![b'e'; rng.below(len_max)],
    }
}

#[test]
fn lists_that_grow_change_their_encoding_where_the_oracle_does() {
    let mut conns = [Server::start_onrush(&[]), Server::start_oracle(Oracle::Newer, &[])].map(|server| {
        let conn = server.connect();
        (server, conn)
    });
    let mut both = |argv: &Argv| {
        let [ours, theirs] = conns.each_mut().map(|(_, conn)| conn.call(argv));
        assert_eq!(ours, theirs, "{argv}");
        ours.text()
    };
    let mut rng = Rng::new(7);
    // Numbers of elements, and sizes of 4 kB to 64 kB.
    for (limit, len_max) in
        [("1", 9), ("6", 9), ("128", 200), ("128", 9), ("-1", 300), ("-2", 300), ("-2", 9000), ("-5", 9000)]
    {
        both(&Argv::new(&["CONFIG", "SET", "list-max-listpack-size", limit]));
        for round in 0..4 {
            both(&Argv::new(&["DEL", "list"]));
            let mut encoding = String::new();
            for _ in 0..2_000 {
                let new = element(&mut rng, len_max);
                let mut argv: Vec<Vec<u8>> = match rng.below(6) {
                    0 => vec!["LINSERT".into(), "list".into(), "BEFORE".into(), b"e".to_vec()],
                    1 if !encoding.is_empty() => vec!["LSET".into(), "list".into(), "0".into()],
                    2 | 3 => vec!["LPUSH".into(), "list".into()],
                    _ => vec!["RPUSH".into(), "list".into()],
                };
                argv.push(new);
                both(&Argv(argv));
                encoding = both(&Argv::new(&["OBJECT", "ENCODING", "list"]));
                if encoding.contains("quicklist") {
                    break;
                }
            }
            assert!(encoding.contains("quicklist"), "{limit}, {round}");
        }
    }
}
