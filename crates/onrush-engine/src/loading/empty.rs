//! Deleting everything, because other data takes its place.

use crate::commit::Commit;
use crate::shared::Shared;

/// Whether there is nothing that [`empty`] would delete. O(databases in use).
pub fn is_empty(shared: &Shared) -> bool {
    let mut dbs = (0..shared.keyspace.databases()).filter_map(|db| shared.keyspace.db(db));
    dbs.all(|db| db.len() == 0) && shared.scripts.libraries.count().libraries == 0
}

/// Deletes all keys and all libraries of functions. Clients that watch or track keys are told. The calling thread has the
/// whole keyspace. O(1) for the keys, which are freed in the background; O(watched keys).
pub fn empty(shared: &'static Shared) {
    for db in (0..shared.keyspace.databases()).filter_map(|db| shared.keyspace.db(db)) {
        // At once, not piece by piece: other data is about to come, and nobody is served meanwhile.
        shared.lazyfree.free_later(Box::new(db.clear()), 1, 0);
    }
    shared.scripts.libraries.clear();
    if !shared.watched.is_unobserved() {
        shared.watched.changed_databases(|key| shared.keyspace.hash(key), |_, _| true);
    }
    // Dropped, it tells the clients.
    Commit::new(shared, shared.replica_thread()).outdate_everything();
}
