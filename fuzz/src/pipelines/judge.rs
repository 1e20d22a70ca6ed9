//! What has to be so of an engine after each input, when no client has anything to do.

use onrush_engine::messages::kind::Kind;
use onrush_store::{CollectionRef, Db, StreamId, ValueRef};

use super::node::{Follower, Node, show};

/// Checks the engine: what it counts, and what of its data a snapshot and the log have. `other` is another one without data.
/// Returns a digest of all data, and the libraries of functions.
pub fn judge(node: &mut Node, other: &mut Node, log: &Follower) -> String {
    nobody_is_left(node);
    node.tend();
    counts(node);
    finds_all(node);
    let whole = state(node);
    node.engine.log.flush();
    let commands = log.take();

    other.load(&node.save());
    assert_eq!(state(other), whole, "a snapshot has the same data");
    counts(other);

    other.run("FLUSHALL SYNC\r\nFUNCTION FLUSH SYNC");
    other.replay(&commands);
    assert_eq!(state(other), whole, "the log has the same data: {}", show(&commands));
    counts(other);
    whole
}

/// What is told of a client ends with it.
fn nobody_is_left(node: &mut Node) {
    assert!(node.engine.waiters.is_empty(), "somebody waits");
    assert!(node.engine.clients.is_empty(), "somebody is connected");
    for kind in [Kind::Channel, Kind::Pattern, Kind::Shard] {
        assert_eq!(node.engine.messages.len(kind), 0, "somebody has subscriptions");
    }
    assert_eq!(node.engine.messages.waiting_bytes(), 0, "messages wait");
}

/// A digest of all data, and the libraries of functions.
fn state(node: &mut Node) -> String {
    show(&node.run("DEBUG STATE-DIGEST\r\nFUNCTION LIST WITHCODE"))
}

/// What is counted is what is there.
fn counts(node: &Node) {
    node.databases().for_each(|(_, db)| check_shards(db));
}

/// DBSIZE and SCAN find what is there, when nothing has expired.
fn finds_all(node: &mut Node) {
    let lens: Vec<(usize, usize)> = node.databases().map(|(number, db)| (number, db.len())).collect();
    for (number, len) in lens.into_iter().filter(|(_, len)| *len > 0) {
        // Without a change in between no key comes twice.
        let replies = node.run_in(number, &format!("DBSIZE\r\nSCAN 0 COUNT {}", 10 * len + 1000));
        let head = format!(":{len}\r\n*2\r\n$1\r\n0\r\n*{len}\r\n");
        assert!(replies.starts_with(head.as_bytes()), "there are {len} keys: {}", show(&replies));
    }
}

fn check_shards(db: &Db) {
    for (_, shard) in db.shards() {
        let (mut len, mut volatile, mut next_ms) = (0, 0, i64::MAX);
        shard.lock().for_each(&mut |entry| {
            len += 1;
            volatile += usize::from(entry.expire_at().is_some());
            next_ms = next_ms.min(entry.expire_at().unwrap_or(i64::MAX));
            if let ValueRef::Collection(collection) = entry.value() {
                let (elements, counted, field_ms) = elements(collection);
                assert!(elements > 0 || matches!(collection, CollectionRef::Stream(_)), "an empty collection is gone");
                assert_eq!(elements, counted, "a collection counts its elements");
                next_ms = next_ms.min(field_ms.unwrap_or(i64::MAX));
            }
        });
        assert_eq!((shard.len(), shard.volatile_len()), (len, volatile), "a shard counts its entries");
        assert!(shard.next_expire_ms() <= next_ms, "{} is no bound of {next_ms}", shard.next_expire_ms());
    }
}

/// How many elements there are, how many are counted, and when the first of them expires.
fn elements(collection: CollectionRef<'_>) -> (usize, usize, Option<i64>) {
    match collection {
        CollectionRef::List(list) => (list.iter().count(), list.len(), None),
        CollectionRef::Set(set) => (set.iter().count(), set.len(), None),
        CollectionRef::SortedSet(set) => (set.iter().count(), set.len(), None),
        CollectionRef::Hash(hash) => {
            (hash.iter().count(), hash.len(), hash.iter().filter_map(|field| field.expiry).min())
        }
        CollectionRef::Stream(stream) => (stream.iter_from(StreamId::MIN).count(), stream.len(), None),
    }
}
