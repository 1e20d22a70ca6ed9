//! `--lru-test`: simulates a cache. It reads keys, four times in five out of a fifth of them, and sets them when
//! missing; the share of hits shows how well the server evicts.

use std::time::{Duration, Instant};

use crate::args::Options;
use crate::connection::Connection;
use crate::fail::Fail;
use crate::reply::Reply;
use crate::scan::ask_each;
use crate::session::print;

/// Commands per batch.
const BATCH_LEN: usize = 250;
/// Bytes per value.
const VALUE_LEN: usize = 8;

/// Runs until interrupted, with a line per second.
///
/// # Errors
/// When the connection is gone, or the server has no room and evicts nothing.
pub fn run(options: &Options, keys: u64) -> Result<(), Fail> {
    let mut connection = Connection::open_logged_in(&options.target)?;
    let mut random = Random::new();
    loop {
        let (started, mut hits, mut misses) = (Instant::now(), 0u64, 0u64);
        while started.elapsed() < Duration::from_secs(1) {
            let names: Vec<Vec<u8>> =
                (0..BATCH_LEN).map(|_| format!("lru:{}", random.skewed(keys)).into_bytes()).collect();
            let gets = names.iter().map(|name| vec![b"GET".to_vec(), name.clone()]);
            let replies = granted(ask_each(&mut connection, gets)?)?;
            let missing: Vec<_> = names.into_iter().zip(replies).filter(|(_, reply)| *reply == Reply::Nil).collect();
            misses += missing.len() as u64;
            hits += (BATCH_LEN - missing.len()) as u64;
            let sets = missing.into_iter().map(|(name, _)| vec![b"SET".to_vec(), name, random.value()]);
            granted(ask_each(&mut connection, sets)?)?;
        }
        let total = hits + misses;
        let share = |part: u64| part as f64 / total as f64 * 100.0;
        print(format!(
            "{total} Gets/sec | Hits: {hits} ({:.2}%) | Misses: {misses} ({:.2}%)\n",
            share(hits),
            share(misses)
        ));
    }
}

fn granted(replies: Vec<Reply>) -> Result<Vec<Reply>, Fail> {
    replies.into_iter().map(Reply::granted).collect()
}

/// A generator good enough to choose keys (xorshift64*).
struct Random(u64);

impl Random {
    fn new() -> Random {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Random(now.as_nanos() as u64 | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// From 0 to below `count`; four in five fall into the first fifth.
    fn skewed(&mut self, count: u64) -> u64 {
        let fifth = (count / 5).max(1);
        if self.next() % 5 < 4 || fifth == count { self.next() % fifth } else { fifth + self.next() % (count - fifth) }
    }

    fn value(&mut self) -> Vec<u8> {
        (0..VALUE_LEN).map(|_| b'A' + (self.next() >> 32) as u8 % 26).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_in_five_fall_into_the_first_fifth() {
        let mut random = Random(1);
        let picked: Vec<u64> = (0..10_000).map(|_| random.skewed(1000)).collect();
        assert!(picked.iter().all(|&key| key < 1000));
        let hot = picked.iter().filter(|&&key| key < 200).count();
        assert!((7_800..8_200).contains(&hot), "{hot}");
        assert!((0..100).all(|_| random.skewed(1) == 0));
    }
}
