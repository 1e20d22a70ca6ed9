//! The spec of a command: its entry in the command table.
//!
//! Specs are `static`, written as struct literals that end in `..Spec::DEFAULT`. Flags, categories and key flags are
//! written as words ([`flags`], [`categories`], [`KeySpec::key`]) and checked by the compiler: a misspelt word does not build.

pub use super::flags::{CATEGORY_NAMES, Categories, FLAG_NAMES, Flags, categories, flags};
use super::key_spec::GetKeys;
pub use super::key_spec::{BeginSearch, FindKeys, KEY_FLAG_NAMES, KeyFlags, KeySpec, key_flags};
use crate::ctx::{CommandResult, Ctx, Handler, RunHandler};

/// The part of the documentation that has a command.
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
    /// The name COMMAND DOCS shows.
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
    /// Number of arguments, the command's name (and a subcommand's) included; a negative number is a minimum.
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
    /// The Redis version that introduced it.
    pub since: &'static str,
    /// Time, in O notation.
    pub complexity: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// Its arguments in the usual notation, as [`super::syntax`] reads them; empty without arguments.
    pub syntax: &'static str,
    /// Versions that changed it, and how.
    pub history: &'static [(&'static str, &'static str)],
    /// Executes consecutive equal commands, if that is cheaper than one by one.
    pub run: Option<RunHandler>,
    /// The argument that is a member or field of a collection, for prefetching; 0 if there is none.
    pub member: u16,
    /// Set if it should not be used any more.
    pub deprecated: Option<Deprecated>,
    /// Not meant for applications.
    pub syscmd: bool,
    /// Its subcommands.
    pub subcommands: &'static [Spec],
    /// Runs it; for a container, runs the call without a subcommand.
    pub handler: Handler,
    /// Finds its keys when key specs cannot.
    pub get_keys: Option<GetKeys>,
}

impl Spec {
    /// Defaults for the fields of a spec.
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

    /// All ACL categories: its own and those that its flags and group imply.
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

    /// A container is only a name for its subcommands; these are in the group's category.
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
    fn flags_and_group_imply_categories() {
        let get = Spec { group: Group::String, flags: flags("readonly fast"), ..Spec::DEFAULT };
        assert_eq!(get.all_categories(), categories("read string fast"));
        let sort = Spec { flags: flags("write"), categories: categories("not_of_group list"), ..Spec::DEFAULT };
        assert_eq!(sort.all_categories(), categories("write list slow"));
    }
}
