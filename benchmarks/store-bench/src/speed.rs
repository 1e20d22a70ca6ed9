//! GET and SET, half and half, on random keys, in chunks of 16 that are prefetched in two steps.
//!
//! Times are the threads' own processor time, so that other programs on the machine disturb less: the ratio is what
//! two threads on two idle cores do together over what one does.

use std::hint::black_box;
use std::sync::Barrier;

use onrush_store::{Db, KeyHash, Keyspace, KeyspaceOptions, NewValue, ValueRef};

use crate::{ALLOCATOR_NAME, KEYS, key};

const CHUNK_LEN: usize = 16;
const CHUNKS: usize = 1 << 17;
const ROUNDS: usize = 5;

/// Measures and prints.
pub fn run() {
    let keyspace = Keyspace::new(KeyspaceOptions { seed: Some(1), ..KeyspaceOptions::default() });
    let db = keyspace.db_or_create(0);
    for n in 0..KEYS {
        let key = key(n);
        let hash = keyspace.hash(&key);
        let value = NewValue::Bytes(b"xxx");
        db.shard_of(hash).lock().set(&key, hash, value, None, 0);
    }
    assert_eq!(db.len(), KEYS as usize);
    let mut one = [0.0; ROUNDS];
    let mut two = [0.0; ROUNDS];
    println!("{ALLOCATOR_NAME}: {KEYS} keys, chunks of {CHUNK_LEN} (ns per operation and thread)");
    for (one, two) in one.iter_mut().zip(&mut two) {
        (*one, *two) = (round(&keyspace, 1), round(&keyspace, 2));
        println!("  1 thread {one:6.1}   2 threads {two:6.1}");
    }
    one.sort_by(f64::total_cmp);
    two.sort_by(f64::total_cmp);
    let (one, two) = (one[ROUNDS / 2], two[ROUNDS / 2]);
    println!(
        "  median: 1 thread {one:.1} ns, {:.2} M/s; 2 threads {two:.1} ns, {:.2} M/s; ratio {:.2}",
        1e3 / one,
        2e3 / two,
        2.0 * one / two
    );
}

/// Runs `threads` threads at once; returns nanoseconds per operation and thread.
fn round(keyspace: &Keyspace, threads: u64) -> f64 {
    let barrier = Barrier::new(threads as usize);
    let worker = |seed: u64| {
        let mut random = Xorshift(seed);
        let db = keyspace.db_or_create(0);
        barrier.wait();
        let start = thread_ns();
        for _ in 0..CHUNKS {
            chunk(keyspace, db, &mut random);
        }
        (thread_ns() - start) as f64 / (CHUNKS * CHUNK_LEN) as f64
    };
    let total: f64 = std::thread::scope(|scope| {
        let spawn = |n| scope.spawn(move || worker(0x9e37_79b9_7f4a_7c15 * (n + 1)));
        let workers: Vec<_> = (0..threads).map(spawn).collect();
        let times = workers.into_iter().map(|worker| worker.join().expect("no panic"));
        times.sum()
    });
    total / threads as f64
}

#[inline]
fn chunk(keyspace: &Keyspace, db: &Db, random: &mut Xorshift) {
    let mut planned: [([u8; 16], KeyHash, bool); CHUNK_LEN] = std::array::from_fn(|_| {
        let drawn = random.next();
        let key = key((((drawn >> 32) * u64::from(KEYS)) >> 32) as u32);
        (key, keyspace.hash(&key), drawn & 1 == 0)
    });
    for (_, hash, _) in &planned {
        db.shard_of(*hash).prefetch_bucket(*hash);
    }
    for (_, hash, _) in &planned {
        db.shard_of(*hash).lock().prefetch_entry(*hash);
    }
    for (key, hash, is_get) in &mut planned {
        let mut table = db.shard_of(*hash).lock();
        if *is_get {
            let entry = table.get(&*key, *hash).expect("every key is there");
            if let ValueRef::Bytes(bytes) = entry.value() {
                key[..bytes.len()].copy_from_slice(bytes);
            }
        } else {
            table.set(&*key, *hash, NewValue::Bytes(b"yyy"), None, 1);
        }
    }
    black_box(&planned);
}

/// Processor time of the calling thread.
fn thread_ns() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux has it");
    let ns = stat.split(' ').next().and_then(|ns| ns.parse().ok());
    ns.expect("a number of nanoseconds")
}

struct Xorshift(u64);

impl Xorshift {
    #[inline]
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}
