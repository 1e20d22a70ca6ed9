//! DEBUG DIGEST and DEBUG DIGEST-VALUE: equal data has equal digests on Onrush and on a redis-server. `ONRUSH_TEST_SEED` repeats a
//! failure.

use onrush_tests::amount::first_seed;
use onrush_tests::argv;
use onrush_tests::argv::Argv;
use onrush_tests::client::Conn;
use onrush_tests::resp::Value;
use onrush_tests::rng::Rng;
use onrush_tests::server::{Oracle, Server};

const SETTINGS: &[&str] = &["--enable-debug-command", "yes"];
const ROUNDS: u64 = 40;
const COMMANDS_PER_ROUND: usize = 80;
const NAMES: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "key:with a longer name"];

fn element(rng: &mut Rng) -> Vec<u8> {
    match rng.below(6) {
        0 => rng.between(-130, 130).to_string().into_bytes(),
        1 => (rng.next_u64() as i64).to_string().into_bytes(),
        2 => vec![b'a' + rng.below(4) as u8; rng.below(300)],
        _ => (0..rng.below(12)).map(|_| rng.next_u64() as u8).collect(),
    }
}

fn elements(rng: &mut Rng) -> Vec<Vec<u8>> {
    let len = if rng.percent(10) { 600 } else { 1 + rng.below(8) };
    if rng.percent(40) {
        return (0..len).map(|_| rng.between(-1_000_000, 1_000_000).to_string().into_bytes()).collect();
    }
    (0..len).map(|_| element(rng)).collect()
}

/// A score; for 7.0 one that it formats as the others do.
fn score(rng: &mut Rng, oracle: Oracle) -> String {
    match rng.below(6) {
        0 => rng.between(-1_000_000, 1_000_000).to_string(),
        1 => rng.pick(&["inf", "-inf", "0.5", "-1.25", "3.0"]).to_string(),
        2 if oracle == Oracle::Newer => format!("{}", f64::from(rng.between(-999, 999) as i32) / 100.0),
        3 if oracle == Oracle::Newer => rng.pick(&["1e300", "1e-9", "1e17", "123456789012345678", "0.1"]).to_string(),
        _ => rng.between(-20, 20).to_string(),
    }
}

/// A command with the same effect on the same data on any server.
fn command(rng: &mut Rng, oracle: Oracle) -> Argv {
    let key = rng.pick(&NAMES);
    let with = |name: &str, args: Vec<Vec<u8>>| Argv([vec![name.as_bytes().to_vec(), key.into()], args].concat());
    // Long enough that nothing expires before the end.
    let seconds = rng.between(100_000, 900_000).to_string();
    match rng.below(22) {
        0 => argv!["SET", key, element(rng)],
        1 => argv!["SET", key, element(rng), "EX", seconds],
        2 => argv!["APPEND", key, element(rng)],
        3 => argv!["SETBIT", key, rng.below(5000).to_string(), "1"],
        4 => argv!["PFADD", key, element(rng)],
        5 => argv!["GEOADD", key, rng.between(-170, 170).to_string(), rng.between(-80, 80).to_string(), element(rng)],
        6 => with("RPUSH", elements(rng)),
        7 => with("LPUSH", elements(rng)),
        8 => with("SADD", elements(rng)),
        9 | 10 => {
            let pairs = elements(rng).into_iter().flat_map(|member| [score(rng, oracle).into_bytes(), member]);
            with("ZADD", pairs.collect())
        }
        11 | 12 => with("HSET", elements(rng).into_iter().flat_map(|name| [name, element(rng)]).collect()),
        13 if oracle == Oracle::Newer => {
            argv!["HEXPIRE", key, seconds, "FIELDS", "1", rng.between(-1_000, 1_000).to_string()]
        }
        14 => argv!["HSET", key, rng.between(-1_000, 1_000).to_string(), "v"],
        15 | 16 => argv!["XADD", key, format!("{}-{}", 1 + rng.below(60), rng.below(9)), "name", element(rng)],
        17 => argv!["XGROUP", "CREATE", key, "group", "0"],
        18 => argv!["XREADGROUP", "GROUP", "group", "consumer", "COUNT", "3", "STREAMS", key, ">"],
        19 => argv!["EXPIRE", key, seconds],
        20 => argv!["COPY", key, rng.pick(&NAMES), "DB", rng.below(4).to_string()],
        _ => match rng.below(4) {
            0 => argv!["DEL", key],
            1 => argv!["PERSIST", key],
            2 => argv!["RENAME", key, rng.pick(&NAMES)],
            _ => argv!["LREM", key, "0", element(rng)],
        },
    }
}

fn digests(conn: &mut Conn) -> (Value, Value) {
    let all = conn.run("DEBUG DIGEST");
    let values =
        Argv([&b"DEBUG"[..], b"DIGEST-VALUE"].into_iter().chain(NAMES.map(str::as_bytes)).map(Vec::from).collect());
    (all, conn.call(&values))
}

fn equal_data_has_equal_digests(oracle: Oracle) {
    let servers = [Server::start_onrush(SETTINGS), Server::start_oracle(oracle, SETTINGS)];
    let mut conns = servers.each_ref().map(Server::connect);
    let first = first_seed();
    for seed in first..first + ROUNDS {
        let mut rng = Rng::new(seed);
        conns.iter_mut().for_each(|conn| drop(conn.run("FLUSHALL")));
        for _ in 0..4 {
            let mut commands = vec![argv!["SELECT", rng.below(4).to_string()]];
            commands.extend((0..COMMANDS_PER_ROUND / 4).map(|_| command(&mut rng, oracle)));
            let replies = conns.each_mut().map(|conn| conn.pipeline(&commands));
            let [onrush, redis] = conns.each_mut().map(digests);
            if onrush == redis {
                continue;
            }
            let differing = replies[0].iter().zip(&replies[1]).position(|(one, other)| one != other);
            let of_keys = onrush.1.items().into_iter().flatten().zip(redis.1.items().into_iter().flatten());
            let keys: Vec<&str> =
                of_keys.zip(NAMES).filter(|((one, other), _)| one != other).map(|(_, key)| key).collect();
            let differing = differing.map(|at| commands[at].to_string());
            panic!(
                "ONRUSH_TEST_SEED={seed}: {} and {}; keys {keys:?}, first other reply {differing:?}",
                onrush.0, redis.0
            );
        }
    }
}

#[test]
fn equal_data_has_the_digest_of_7_0() {
    equal_data_has_equal_digests(Oracle::Older);
}

#[test]
fn equal_data_has_the_digest_of_8_2() {
    equal_data_has_equal_digests(Oracle::Newer);
}

#[test]
fn large_values_have_the_same_digests() {
    let servers = [Server::start_onrush(SETTINGS), Server::start_redis(SETTINGS)];
    let digests = servers.each_ref().map(|server| {
        let mut conn = server.connect();
        for part in (0..60_000).collect::<Vec<u32>>().chunks(5_000) {
            let numbers = || part.iter().map(|number| number.to_string().into_bytes());
            for (name, is_pairs) in [("SADD", false), ("RPUSH", false), ("ZADD", true), ("HSET", true)] {
                let args = numbers().flat_map(|number| vec![number; if is_pairs { 2 } else { 1 }]);
                conn.call(&Argv([name.into(), name.into()].into_iter().chain(args).collect()));
            }
        }
        (conn.run("DEBUG DIGEST-VALUE SADD RPUSH ZADD HSET none"), conn.run("DEBUG DIGEST"))
    });
    assert_eq!(digests[0], digests[1]);
    assert_ne!(digests[0].1.text(), "0".repeat(40));
}
