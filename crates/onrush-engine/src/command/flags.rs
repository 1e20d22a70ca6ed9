//! Flags of commands, and their ACL categories.

use super::words::{named_flags, next_place};

named_flags! {
    /// What a command does and when it may run. The first part has Redis's names; COMMAND shows it.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Flags: u32, named in FLAG_NAMES {
        /// May change the keyspace.
        WRITE = 0, "write";
        /// Reads keys and changes none.
        READONLY = 1, "readonly";
        /// May use more memory; refused while memory is over its limit.
        DENYOOM = 2, "denyoom";
        /// For operators.
        ADMIN = 3, "admin";
        /// Concerns pub/sub.
        PUBSUB = 4, "pubsub";
        /// Not allowed in scripts.
        NOSCRIPT = 5, "noscript";
        /// May make its client wait.
        BLOCKING = 6, "blocking";
        /// Allowed while the data set is being loaded.
        LOADING = 7, "loading";
        /// Allowed on a replica whose data is stale.
        STALE = 8, "stale";
        /// Not shown to MONITOR.
        SKIP_MONITOR = 9, "skip_monitor";
        /// Never in the slow log.
        SKIP_SLOWLOG = 10, "skip_slowlog";
        /// Acts as if ASKING had come before it.
        ASKING = 11, "asking";
        /// Constant or logarithmic time.
        FAST = 12, "fast";
        /// Allowed before authentication.
        NO_AUTH = 13, "no_auth";
        /// May be propagated although it writes no key.
        MAY_REPLICATE = 14, "may_replicate";
        /// May be called without a key although it has key specs.
        NO_MANDATORY_KEYS = 15, "no_mandatory_keys";
        /// Refused while a replica loads in the background and still serves the old data.
        NO_ASYNC_LOADING = 16, "no_async_loading";
        /// Not allowed inside MULTI.
        NO_MULTI = 17, "no_multi";
        /// Key positions depend on the arguments. Derived, never written in a spec.
        MOVABLEKEYS = 18, "movablekeys";
        /// Allowed while a script has run past its time limit.
        ALLOW_BUSY = 19, "allow_busy";
        /// Internal: works on no key, although it is not short.
        NO_KEYS = 20, "no_keys";
        /// Internal: tells data that a failing disk can still take back, although it names no key and is neither a reading
        /// nor a writing command.
        REPORTS_DATA = 21, "reports_data";
        /// Internal: executes the commands queued.
        EXEC = 22, "exec";
        /// Internal: allowed to clients with subscriptions in RESP2, although it is not about subscriptions.
        FOR_SUBSCRIBERS = 23, "for_subscribers";
        /// Internal: allowed only as `enable-debug-command` says.
        PROTECTED = 24, "protected";
        /// Internal: allowed while the data of a primary is loaded, of which it can be the end.
        ENDS_SYNC = 25, "ends_sync";
        /// Internal: on the thread for long commands it goes before all others, and ends what waits for another server.
        URGENT = 26, "urgent";
        /// Internal: waits for another server, or for the disk. So the thread for long commands executes it, and it cannot
        /// be undone.
        REMOTE = 27, "remote";
        /// Internal: executed at once after MULTI, not queued.
        NOT_QUEUED = 28, "not_queued";
        /// Internal: may work on keys that its key specs do not name.
        OTHER_KEYS = 29, "other_keys";
        /// Internal: its run time is negligible, so it is not timed individually.
        SHORT = 30, "short";
    }
}

impl Flags {
    /// The flags that COMMAND shows.
    pub(crate) const SHOWN: Self = Self::from_bits_retain((1 << 20) - 1).difference(Self::MAY_REPLICATE);
}

/// Flags by their names, separated by single spaces; evaluated by the compiler in a `static`.
///
/// # Panics
/// On a word that is no flag.
pub const fn flags(words: &str) -> Flags {
    let (mut flags, mut rest) = (Flags::empty(), words.as_bytes());
    while !rest.is_empty() {
        let (place, after) = next_place(FLAG_NAMES, rest, "unknown command flag");
        (flags, rest) = (flags.union(FLAG_NAMES[place].0), after);
    }
    flags
}

named_flags! {
    /// ACL categories.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Categories: u32, named in CATEGORY_WORDS {
        /// `@keyspace`
        KEYSPACE = 0, "keyspace";
        /// `@read`
        READ = 1, "read";
        /// `@write`
        WRITE = 2, "write";
        /// `@set`
        SET = 3, "set";
        /// `@sortedset`
        SORTEDSET = 4, "sortedset";
        /// `@list`
        LIST = 5, "list";
        /// `@hash`
        HASH = 6, "hash";
        /// `@string`
        STRING = 7, "string";
        /// `@bitmap`
        BITMAP = 8, "bitmap";
        /// `@hyperloglog`
        HYPERLOGLOG = 9, "hyperloglog";
        /// `@geo`
        GEO = 10, "geo";
        /// `@stream`
        STREAM = 11, "stream";
        /// `@pubsub`
        PUBSUB = 12, "pubsub";
        /// `@admin`
        ADMIN = 13, "admin";
        /// `@fast`
        FAST = 14, "fast";
        /// `@slow`
        SLOW = 15, "slow";
        /// `@blocking`
        BLOCKING = 16, "blocking";
        /// `@dangerous`
        DANGEROUS = 17, "dangerous";
        /// `@connection`
        CONNECTION = 18, "connection";
        /// `@transaction`
        TRANSACTION = 19, "transaction";
        /// `@scripting`
        SCRIPTING = 20, "scripting";
        /// Only in specs: the group implies no category.
        NOT_OF_GROUP = 31, "not_of_group";
    }
}

/// Names of the categories without `@`, in the order ACL CAT and COMMAND show them: all words but the last.
pub(crate) const CATEGORY_NAMES: &[(Categories, &str)] = CATEGORY_WORDS.split_at(CATEGORY_WORDS.len() - 1).0;

/// Categories by their names without `@`, separated by single spaces; with `not_of_group` the group implies no
/// category.
///
/// # Panics
/// On a word that is no category.
pub(crate) const fn categories(words: &str) -> Categories {
    let (mut categories, mut rest) = (Categories::empty(), words.as_bytes());
    while !rest.is_empty() {
        let (place, after) = next_place(CATEGORY_WORDS, rest, "unknown ACL category");
        (categories, rest) = (categories.union(CATEGORY_WORDS[place].0), after);
    }
    categories
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
