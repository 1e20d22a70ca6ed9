//! Resident bytes per item, each kind of item in a process of its own.

use std::process::Command;

use onrush_store::{Keyspace, KeyspaceOptions, NewValue};

use crate::{ALLOCATOR_NAME, KEYS, key};

/// Measures and prints.
pub fn run() {
    println!("{ALLOCATOR_NAME}: resident bytes per item, {KEYS} items with 16-byte keys");
    let itself = std::env::current_exe().expect("a program knows where it is");
    for item in ["string", "ttl", "integer"] {
        let keys = KEYS.to_string();
        let status = Command::new(&itself).args(["memory", item, &keys]).status();
        assert!(status.is_ok_and(|status| status.success()), "{item} failed");
    }
}

/// Fills a database with one kind of item and prints what each takes.
pub fn fill(item: &str, keys: u32) {
    let keyspace = Keyspace::new(KeyspaceOptions { seed: Some(1), ..KeyspaceOptions::default() });
    let before = resident_bytes();
    let db = keyspace.db_or_create(0);
    let empty = resident_bytes();
    for n in 0..keys {
        let key = key(n);
        let hash = keyspace.hash(&key);
        let (value, expire) = match item {
            "integer" => (NewValue::Int(i64::from(n)), None),
            "ttl" => (NewValue::Bytes(b"xxx"), Some(2_000_000_000_000)),
            _ => (NewValue::Bytes(b"xxx"), None),
        };
        db.shard_of(hash).lock().set(&key, hash, value, expire, 0);
    }
    let filled = resident_bytes();
    let (mut entries_bytes, mut buckets_bytes) = (0, 0);
    for (_, shard) in db.shards() {
        let table = shard.lock();
        buckets_bytes += table.buckets_bytes();
        table.for_each(&mut |entry| entries_bytes += entry.size_bytes());
    }
    let per_item = |bytes: usize| bytes as f64 / f64::from(keys);
    println!(
        "  {item:8} {:5.1}, of which entries {:.1} and buckets {:.1}   (an empty database: {} KiB)",
        per_item(filled - empty),
        per_item(entries_bytes),
        per_item(buckets_bytes),
        (empty - before) / 1024,
    );
}

/// Bytes of this process in memory.
pub fn resident_bytes() -> usize {
    const PAGE_BYTES: usize = 4096;
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux has it");
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    PAGE_BYTES * pages.unwrap_or(0_usize)
}
