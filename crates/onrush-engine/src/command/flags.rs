//! Flags of commands, and their ACL categories.

use super::words::{same, split_word};

bitflags::bitflags! {
    /// What a command does and when it may run. The first part has Redis's names; COMMAND shows it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Flags: u32 {
        /// May change the keyspace.
        const WRITE = 1 << 0;
        /// Reads keys and changes none.
        const READONLY = 1 << 1;
        /// May use more memory; refused while memory is over its limit.
        const DENYOOM = 1 << 2;
        /// For operators.
        const ADMIN = 1 << 3;
        /// Concerns pub/sub.
        const PUBSUB = 1 << 4;
        /// Not allowed in scripts.
        const NOSCRIPT = 1 << 5;
        /// May make its client wait.
        const BLOCKING = 1 << 6;
        /// Allowed while the data set is being loaded.
        const LOADING = 1 << 7;
        /// Allowed on a replica whose data is stale.
        const STALE = 1 << 8;
        /// Not shown to MONITOR.
        const SKIP_MONITOR = 1 << 9;
        /// Never in the slow log.
        const SKIP_SLOWLOG = 1 << 10;
        /// Acts as if ASKING had come before it.
        const ASKING = 1 << 11;
        /// Constant or logarithmic time.
        const FAST = 1 << 12;
        /// Allowed before authentication.
        const NO_AUTH = 1 << 13;
        /// May be propagated although it writes no key.
        const MAY_REPLICATE = 1 << 14;
        /// May be called without a key although it has key specs.
        const NO_MANDATORY_KEYS = 1 << 15;
        /// Refused while a replica loads in the background and still serves the old data.
        const NO_ASYNC_LOADING = 1 << 16;
        /// Not allowed inside MULTI.
        const NO_MULTI = 1 << 17;
        /// Key positions depend on the arguments. Derived, never written in a spec.
        const MOVABLEKEYS = 1 << 18;
        /// Allowed while a script has run past its time limit.
        const ALLOW_BUSY = 1 << 19;
        /// Internal: works on no key, although it is not short.
        const NO_KEYS = 1 << 20;
        /// Internal: tells data that a failing disk can still take back, although it names no key and is neither a reading
        /// nor a writing command.
        const REPORTS_DATA = 1 << 21;
        /// Internal: executes the commands queued.
        const EXEC = 1 << 22;
        /// Internal: allowed to clients with subscriptions in RESP2, although it is not about subscriptions.
        const FOR_SUBSCRIBERS = 1 << 23;
        /// Internal: allowed only as `enable-debug-command` says.
        const PROTECTED = 1 << 24;
        /// Internal: allowed while the data of a primary is loaded, of which it can be the end.
        const ENDS_SYNC = 1 << 25;
        /// Internal: on the thread for long commands it goes before all others, and ends what waits for another server.
        const URGENT = 1 << 26;
        /// Internal: waits for another server, or for the disk. So the thread for long commands executes it, and it cannot
        /// be undone.
        const REMOTE = 1 << 27;
        /// Internal: executed at once after MULTI, not queued.
        const NOT_QUEUED = 1 << 28;
        /// Internal: may work on keys that its key specs do not name.
        const OTHER_KEYS = 1 << 29;
        /// Internal: its run time is negligible, so it is not timed individually.
        const SHORT = 1 << 30;
    }
}

/// Names of the flags that COMMAND shows, in its order.
pub(crate) const FLAG_NAMES: &[(Flags, &str)] = &[
    (Flags::WRITE, "write"),
    (Flags::READONLY, "readonly"),
    (Flags::DENYOOM, "denyoom"),
    (Flags::ADMIN, "admin"),
    (Flags::PUBSUB, "pubsub"),
    (Flags::NOSCRIPT, "noscript"),
    (Flags::BLOCKING, "blocking"),
    (Flags::LOADING, "loading"),
    (Flags::STALE, "stale"),
    (Flags::SKIP_MONITOR, "skip_monitor"),
    (Flags::SKIP_SLOWLOG, "skip_slowlog"),
    (Flags::ASKING, "asking"),
    (Flags::FAST, "fast"),
    (Flags::NO_AUTH, "no_auth"),
    (Flags::NO_MANDATORY_KEYS, "no_mandatory_keys"),
    (Flags::NO_ASYNC_LOADING, "no_async_loading"),
    (Flags::NO_MULTI, "no_multi"),
    (Flags::MOVABLEKEYS, "movablekeys"),
    (Flags::ALLOW_BUSY, "allow_busy"),
];

const UNTOLD_FLAG_NAMES: &[(Flags, &str)] = &[
    (Flags::NOT_QUEUED, "not_queued"),
    (Flags::MAY_REPLICATE, "may_replicate"),
    (Flags::OTHER_KEYS, "other_keys"),
    (Flags::REMOTE, "remote"),
    (Flags::PROTECTED, "protected"),
    (Flags::URGENT, "urgent"),
    (Flags::ENDS_SYNC, "ends_sync"),
    (Flags::NO_KEYS, "no_keys"),
    (Flags::REPORTS_DATA, "reports_data"),
    (Flags::EXEC, "exec"),
    (Flags::FOR_SUBSCRIBERS, "for_subscribers"),
    (Flags::SHORT, "short"),
];

/// Flags by their names, separated by single spaces; evaluated by the compiler in a `static`.
///
/// # Panics
/// On a word that is no flag.
pub const fn flags(words: &str) -> Flags {
    let mut bits = 0;
    let mut rest = words.as_bytes();
    while !rest.is_empty() {
        let (word, after) = split_word(rest);
        bits |= match find_flag(FLAG_NAMES, word) {
            Some(bit) => bit,
            None => match find_flag(UNTOLD_FLAG_NAMES, word) {
                Some(bit) => bit,
                None => panic!("unknown command flag"),
            },
        };
        rest = after;
    }
    Flags::from_bits_retain(bits)
}

const fn find_flag(names: &[(Flags, &str)], word: &[u8]) -> Option<u32> {
    let mut index = 0;
    while index < names.len() {
        if same(names[index].1.as_bytes(), word) {
            return Some(names[index].0.bits());
        }
        index += 1;
    }
    None
}

bitflags::bitflags! {
    /// ACL categories.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Categories: u32 {
        /// `@keyspace`
        const KEYSPACE = 1 << 0;
        /// `@read`
        const READ = 1 << 1;
        /// `@write`
        const WRITE = 1 << 2;
        /// `@set`
        const SET = 1 << 3;
        /// `@sortedset`
        const SORTEDSET = 1 << 4;
        /// `@list`
        const LIST = 1 << 5;
        /// `@hash`
        const HASH = 1 << 6;
        /// `@string`
        const STRING = 1 << 7;
        /// `@bitmap`
        const BITMAP = 1 << 8;
        /// `@hyperloglog`
        const HYPERLOGLOG = 1 << 9;
        /// `@geo`
        const GEO = 1 << 10;
        /// `@stream`
        const STREAM = 1 << 11;
        /// `@pubsub`
        const PUBSUB = 1 << 12;
        /// `@admin`
        const ADMIN = 1 << 13;
        /// `@fast`
        const FAST = 1 << 14;
        /// `@slow`
        const SLOW = 1 << 15;
        /// `@blocking`
        const BLOCKING = 1 << 16;
        /// `@dangerous`
        const DANGEROUS = 1 << 17;
        /// `@connection`
        const CONNECTION = 1 << 18;
        /// `@transaction`
        const TRANSACTION = 1 << 19;
        /// `@scripting`
        const SCRIPTING = 1 << 20;
        /// Only in specs: the group implies no category.
        const NOT_OF_GROUP = 1 << 31;
    }
}

/// Names of the categories without `@`, in the order ACL CAT and COMMAND show them.
pub(crate) const CATEGORY_NAMES: &[(Categories, &str)] = &[
    (Categories::KEYSPACE, "keyspace"),
    (Categories::READ, "read"),
    (Categories::WRITE, "write"),
    (Categories::SET, "set"),
    (Categories::SORTEDSET, "sortedset"),
    (Categories::LIST, "list"),
    (Categories::HASH, "hash"),
    (Categories::STRING, "string"),
    (Categories::BITMAP, "bitmap"),
    (Categories::HYPERLOGLOG, "hyperloglog"),
    (Categories::GEO, "geo"),
    (Categories::STREAM, "stream"),
    (Categories::PUBSUB, "pubsub"),
    (Categories::ADMIN, "admin"),
    (Categories::FAST, "fast"),
    (Categories::SLOW, "slow"),
    (Categories::BLOCKING, "blocking"),
    (Categories::DANGEROUS, "dangerous"),
    (Categories::CONNECTION, "connection"),
    (Categories::TRANSACTION, "transaction"),
    (Categories::SCRIPTING, "scripting"),
];

/// Categories by their names without `@`, separated by single spaces; with `not_of_group` the group implies no
/// category.
///
/// # Panics
/// On a word that is no category.
pub(crate) const fn categories(words: &str) -> Categories {
    let mut bits = 0;
    let mut rest = words.as_bytes();
    while !rest.is_empty() {
        let (word, after) = split_word(rest);
        let mut index = 0;
        while index < CATEGORY_NAMES.len() && !same(CATEGORY_NAMES[index].1.as_bytes(), word) {
            index += 1;
        }
        bits |= if index < CATEGORY_NAMES.len() {
            CATEGORY_NAMES[index].0.bits()
        } else if same(word, b"not_of_group") {
            Categories::NOT_OF_GROUP.bits()
        } else {
            panic!("unknown ACL category")
        };
        rest = after;
    }
    Categories::from_bits_retain(bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_flags() {
        const FLAGS: Flags = flags("write denyoom short");
        assert_eq!(FLAGS, Flags::WRITE | Flags::DENYOOM | Flags::SHORT);
        assert_eq!(flags(""), Flags::empty());
        assert_eq!(categories("dangerous keyspace"), Categories::DANGEROUS | Categories::KEYSPACE);
    }

    #[test]
    #[should_panic = "unknown command flag"]
    fn an_unknown_flag_is_refused() {
        flags("write denyom");
    }
}
