//! The store against a map.

use std::collections::HashMap;

use onrush_store::{Keyspace, KeyspaceOptions, NewValue, ValueRef};

#[derive(Clone, PartialEq, Debug)]
struct Model {
    bytes: Vec<u8>,
    expire: Option<i64>,
}

/// Bytes are operations on a small keyspace; it must hold what a map holds.
pub fn store(data: &[u8]) {
    let keyspace = Keyspace::new(KeyspaceOptions { databases: 1, shards: 2, seed: Some(1), by_slot: false });
    let mut model: HashMap<Vec<u8>, Model> = HashMap::new();
    let mut now_ms = 1_700_000_000_000;
    let db = keyspace.db_or_create(0);
    for operation in data.chunks_exact(4) {
        let &[kind, key, a, b] = operation else { continue };
        let key = vec![key % 64; 1 + (key as usize % 7) * 60];
        let hash = keyspace.hash(&key);
        let mut table = db.shard_of(hash).lock();
        match kind % 8 {
            0 | 1 => {
                let bytes = vec![b; usize::from(a) * 4];
                let expire = (kind & 8 != 0).then_some(now_ms + i64::from(b));
                table.set(&key, hash, NewValue::Bytes(&bytes), expire, 0);
                model.insert(key, Model { bytes, expire });
            }
            2 => {
                let value = i64::from(a) << (b % 56);
                table.set(&key, hash, NewValue::Int(value), None, 0);
                model.insert(key, Model { bytes: value.to_string().into_bytes(), expire: None });
            }
            3 => {
                if let Some(mut slot) = table.find(&key, hash) {
                    slot.append(&[a, b]);
                }
                if let Some(entry) = model.get_mut(&key) {
                    entry.bytes.extend([a, b]);
                }
            }
            4 => {
                let len = usize::from(a) * 5;
                if let Some(mut slot) = table.find(&key, hash) {
                    slot.resize(len);
                }
                if let Some(entry) = model.get_mut(&key) {
                    entry.bytes.resize(len, 0);
                }
            }
            5 => {
                let expire = (b > 64).then(|| now_ms + i64::from(a) * if b > 128 { 1 } else { 1 << 40 });
                if let Some(mut slot) = table.find(&key, hash) {
                    slot.set_expire(expire);
                }
                if let Some(entry) = model.get_mut(&key) {
                    entry.expire = expire;
                }
            }
            6 => assert_eq!(table.remove(&key, hash).is_some(), model.remove(&key).is_some()),
            _ => {
                drop(table);
                now_ms += i64::from(a);
                for (_, shard) in db.shards() {
                    shard.lock().expire_due(now_ms, 0, usize::MAX, &mut |removed| {
                        let entry = model.remove(removed.key()).expect("an entry the map has");
                        assert!(entry.expire.is_some_and(|at| at <= now_ms));
                    });
                }
                assert!(model.values().all(|entry| entry.expire.is_none_or(|at| at > now_ms)));
            }
        }
    }
    check(&keyspace, &model);
}

fn check(keyspace: &Keyspace, model: &HashMap<Vec<u8>, Model>) {
    let db = keyspace.db_or_create(0);
    assert_eq!(db.len(), model.len());
    let mut seen = 0;
    let mut cursor = 0;
    loop {
        cursor = db.scan(cursor, 10, &mut |entry| {
            seen += 1;
            let expected = &model[entry.key()];
            let bytes = match entry.value() {
                ValueRef::Int(value) => value.to_string().into_bytes(),
                value => value.as_bytes().map(<[u8]>::to_vec).unwrap_or_default(),
            };
            assert_eq!((&bytes, entry.expire_at()), (&expected.bytes, expected.expire));
        });
        if cursor == 0 {
            break;
        }
    }
    assert_eq!(seen, model.len());
}
