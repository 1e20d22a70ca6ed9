//! The spec of a command: what the command table knows of it.
//!
//! Specs are `static`, written as struct literals that end in `..Spec::DEFAULT`. Flags, categories and key flags are
//! written as words ([`flags`], [`categories`], [`KeySpec::key`]) and checked by the compiler: a misspelt word does not build.

use super::key_spec::GetKeys;
pub use super::key_spec::{BeginSearch, FindKeys, KEY_FLAG_NAMES, KeyFlags, KeySpec, key_flags};
use super::words::{same, split_word};
use crate::ctx::{CommandResult, Ctx, Handler, RunHandler};

bitflags::bitflags! {
    /// What a command does and when it may run. The first part has Redis's names and is told by COMMAND.
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
        /// Has to do with pub/sub.
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
        /// Acts as though ASKING had come before it.
        const ASKING = 1 << 11;
        /// Constant or logarithmic time.
        const FAST = 1 << 12;
        /// Allowed before authentication.
        const NO_AUTH = 1 << 13;
        /// May be propagated although it writes no key.
        const MAY_REPLICATE = 1 << 14;
        /// May be called without any key although it has key specs.
        const NO_MANDATORY_KEYS = 1 << 15;
        /// Refused while loading in the background with the old data still being served.
        const NO_ASYNC_LOADING = 1 << 16;
        /// Not allowed inside MULTI.
        const NO_MULTI = 1 << 17;
        /// Key positions depend on the arguments. Derived, never written in a spec.
        const MOVABLEKEYS = 1 << 18;
        /// Allowed while a script has run past its time limit.
        const ALLOW_BUSY = 1 << 19;
        /// Internal: it is executed at once, not queued, behind MULTI.
        const NOT_QUEUED = 1 << 28;
        /// Internal: it may work on keys that its key specs do not tell.
        const OTHER_KEYS = 1 << 29;
        /// Internal: its run time is negligible, so it is not timed by itself.
        const SHORT = 1 << 30;
    }
}

/// Names of the flags that COMMAND tells, in the order it tells them.
pub const FLAG_NAMES: &[(Flags, &str)] = &[
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

/// Names of the categories without `@`, in the order ACL CAT and COMMAND tell them.
pub const CATEGORY_NAMES: &[(Categories, &str)] = &[
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

/// Categories by their names without `@`, separated by single spaces; `not_of_group` keeps the group from implying its own.
///
/// # Panics
/// On a word that is no category.
pub const fn categories(words: &str) -> Categories {
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

/// The part of the documentation a command stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Group {
    Generic,
    String,
    List,
    Set,
    SortedSet,
    Hash,
    Pubsub,
    Transactions,
    Connection,
    Server,
    Scripting,
    Hyperloglog,
    Cluster,
    Geo,
    Stream,
    Bitmap,
}

impl Group {
    /// The name COMMAND DOCS tells.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Generic => "generic",
            Self::String => "string",
            Self::List => "list",
            Self::Set => "set",
            Self::SortedSet => "sorted-set",
            Self::Hash => "hash",
            Self::Pubsub => "pubsub",
            Self::Transactions => "transactions",
            Self::Connection => "connection",
            Self::Server => "server",
            Self::Scripting => "scripting",
            Self::Hyperloglog => "hyperloglog",
            Self::Cluster => "cluster",
            Self::Geo => "geo",
            Self::Stream => "stream",
            Self::Bitmap => "bitmap",
        }
    }

    /// The category that commands of this group are in.
    const fn category(self) -> Categories {
        match self {
            Self::Generic => Categories::KEYSPACE,
            Self::String => Categories::STRING,
            Self::List => Categories::LIST,
            Self::Set => Categories::SET,
            Self::SortedSet => Categories::SORTEDSET,
            Self::Hash => Categories::HASH,
            Self::Transactions => Categories::TRANSACTION,
            Self::Connection => Categories::CONNECTION,
            Self::Scripting => Categories::SCRIPTING,
            Self::Hyperloglog => Categories::HYPERLOGLOG,
            Self::Geo => Categories::GEO,
            Self::Stream => Categories::STREAM,
            Self::Bitmap => Categories::BITMAP,
            // `@pubsub` comes with the flag: PUBSUB HELP is not in it.
            Self::Pubsub | Self::Server | Self::Cluster => Categories::empty(),
        }
    }
}

/// Since when a command is deprecated, and what to use instead.
#[derive(Clone, Copy, Debug)]
pub struct Deprecated {
    /// Version.
    pub since: &'static str,
    /// Replacement, in words.
    pub replaced_by: &'static str,
}

/// The spec of a command, a container of subcommands, or a subcommand.
pub struct Spec {
    /// Lower-case; of a subcommand without its container's name.
    pub name: &'static str,
    /// Number of arguments, the command's name (and a subcommand's) included; negative: at least so many.
    pub arity: i32,
    /// What it does and when it may run.
    pub flags: Flags,
    /// Where its keys are.
    pub keys: &'static [KeySpec],
    /// ACL categories that neither flags nor group imply.
    pub categories: Categories,
    /// Hints for clients and proxies, in Redis's words.
    pub tips: &'static [&'static str],
    /// Part of the documentation.
    pub group: Group,
    /// Redis version that brought it.
    pub since: &'static str,
    /// Time, in O notation.
    pub complexity: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// Its arguments in the usual notation, as [`super::syntax`] reads them; empty without arguments.
    pub syntax: &'static str,
    /// Versions that changed it, and how.
    pub history: &'static [(&'static str, &'static str)],
    /// Executes equal commands that follow each other, if that is cheaper than one by one.
    pub run: Option<RunHandler>,
    /// The argument that is a member or field of a collection, for prefetching; 0 if there is none.
    pub member: u16,
    /// Set if it should not be used any more.
    pub deprecated: Option<Deprecated>,
    /// Not meant for applications.
    pub syscmd: bool,
    /// Its subcommands.
    pub subcommands: &'static [Spec],
    /// Runs it; of a container only what is left when no subcommand is given.
    pub handler: Handler,
    /// Finds its keys when key specs cannot.
    pub get_keys: Option<GetKeys>,
}

impl Spec {
    /// What a spec need not say.
    pub const DEFAULT: Self = Self {
        name: "",
        arity: -1,
        flags: Flags::empty(),
        keys: &[],
        categories: Categories::empty(),
        tips: &[],
        group: Group::Generic,
        since: "1.0.0",
        complexity: "O(1)",
        summary: "",
        syntax: "",
        history: &[],
        run: None,
        member: 0,
        deprecated: None,
        syscmd: false,
        subcommands: &[],
        handler: container,
        get_keys: None,
    };

    /// All ACL categories: its own and those its flags and group imply.
    pub fn all_categories(&self) -> Categories {
        let mut all = self.categories.difference(Categories::NOT_OF_GROUP);
        let implied = [
            (self.flags.contains(Flags::WRITE), Categories::WRITE),
            (self.flags.contains(Flags::READONLY) && self.group != Group::Scripting, Categories::READ),
            (self.flags.contains(Flags::ADMIN), Categories::ADMIN.union(Categories::DANGEROUS)),
            (self.flags.contains(Flags::PUBSUB), Categories::PUBSUB),
            (self.flags.contains(Flags::BLOCKING), Categories::BLOCKING),
            (self.flags.contains(Flags::FAST), Categories::FAST),
            (!self.flags.contains(Flags::FAST), Categories::SLOW),
            (self.is_of_group(), self.group.category()),
        ];
        for (applies, categories) in implied {
            if applies {
                all |= categories;
            }
        }
        all
    }

    /// A container is only a name for its subcommands, which are in the group's category themselves.
    fn is_of_group(&self) -> bool {
        self.subcommands.is_empty() && !self.categories.contains(Categories::NOT_OF_GROUP)
    }
}

/// Handler of containers; their arity keeps it from being reached.
fn container(_: &mut Ctx<'_>) -> CommandResult {
    Err(crate::error::SYNTAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_flags() {
        const FLAGS: Flags = flags("write denyoom short");
        assert_eq!(FLAGS, Flags::WRITE | Flags::DENYOOM | Flags::SHORT);
        assert_eq!(flags(""), Flags::empty());
        assert_eq!(key_flags("RW access"), KeyFlags::RW | KeyFlags::ACCESS);
        assert_eq!(categories("dangerous keyspace"), Categories::DANGEROUS | Categories::KEYSPACE);
    }

    #[test]
    #[should_panic = "unknown command flag"]
    fn an_unknown_flag_is_refused() {
        flags("write denyom");
    }

    #[test]
    fn flags_and_group_imply_categories() {
        let get = Spec { group: Group::String, flags: flags("readonly fast"), ..Spec::DEFAULT };
        assert_eq!(get.all_categories(), categories("read string fast"));
        let sort = Spec { flags: flags("write"), categories: categories("not_of_group list"), ..Spec::DEFAULT };
        assert_eq!(sort.all_categories(), categories("write list slow"));
    }
}
