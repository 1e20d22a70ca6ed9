//! Scores of sorted sets as text, beside the newer redis-server: the older one writes them in another way.

use onrush_tests::amount::seeds;
use onrush_tests::argv;
use onrush_tests::rng::Rng;
use onrush_tests::server::{Oracle, Server};

/// A double with a chosen number of bits before and behind the point.
fn score(rng: &mut Rng) -> f64 {
    let digits = rng.next_u64() >> rng.below(64);
    let power = [0, 0, 0, 3, 9, 20, 60, 300][rng.below(8)];
    let number = digits as f64 * if rng.below(2) == 0 { 10f64.powi(-power) } else { 2f64.powi(power / 3) };
    if rng.below(2) == 0 { -number } else { number }
}

#[test]
fn scores_have_the_digits_that_redis_writes() {
    let args = ["--enable-debug-command", "yes"];
    let servers = [Server::start_onrush(&args), Server::start_oracle(Oracle::Newer, &args)];
    let mut conns = servers.each_ref().map(Server::connect);
    for seed in seeds(8) {
        let mut rng = Rng::new(seed);
        for n in 0..200 {
            let (score, weight) = (score(&mut rng), [0.0, -1.0, 2.0, 0.5][rng.below(4)]);
            // The long member keeps small sorted sets from being packed.
            let member = if n % 2 == 0 { "m".repeat(65) } else { "m".to_owned() };
            let lines = [
                argv!["DEL", "z", "u"],
                argv!["ZADD", "z", format!("{score:e}"), member.as_str(), "-0.0", "zero"],
                argv!["ZSCORE", "z", member.as_str()],
                argv!["ZINCRBY", "z", "0.25", "zero"],
                argv!["ZUNIONSTORE", "u", "1", "z", "WEIGHTS", weight.to_string()],
                argv!["ZRANGE", "u", "0", "-1", "WITHSCORES"],
                argv!["ZSCAN", "u", "0", "MATCH", "m*"],
                argv!["DEBUG", "DIGEST-VALUE", "z", "u"],
            ];
            for line in lines {
                let [ours, theirs] = conns.each_mut().map(|conn| conn.call(&line));
                assert_eq!(ours, theirs, "{line:?} with seed {seed}, the score {score:e}");
            }
        }
    }
}
