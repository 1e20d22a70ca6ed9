//! The spec of a command: its row in the command table.
//!
//! Specs are `static`. A row begins with what every command has, in the constructor of its group: name, the version that
//! introduced it, arity, flags, handler. Methods add the rest, each where it differs from the default:
//!
//! ```text
//! Spec::string("getset", "1.0.0", 3, "write denyoom fast short", strings::getset)
//!     .syntax("key value")
//!     .summary("Gives a key a string value and returns the one before.")
//!     .key("RW access update")
//!     .deprecated("6.2.0", "`SET` with the option `GET`"),
//! ```
//!
//! A container has no handler: its row ([`Spec::container`]) names the table of its subcommands, which are rows like all.
//!
//! Flags, categories and key flags are words that the compiler reads: a misspelt word does not build.

pub(crate) use super::flags::{CATEGORY_NAMES, Categories, FLAG_NAMES, Flags};
use super::flags::{categories, flags};
use super::key_spec::GetKeys;
pub(crate) use super::key_spec::{BeginSearch, FindKeys, KEY_FLAG_NAMES, KeyFlags, KeySpec, key_flags};
use super::replies;
use crate::ctx::{CommandResult, Ctx, Handler, RunHandler};

/// Makes [`Group`] from the table of groups, and for each its constructor of rows.
macro_rules! groups {
    ($($constructor:ident: $Group:ident, $name:literal, $category:expr;)*) => {
        /// The part of the documentation that has a command.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[expect(missing_docs, reason = "the names say it")]
        pub enum Group {
            $($Group,)*
        }

        impl Group {
            /// The name COMMAND DOCS shows.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$Group => $name,)*
                }
            }

            /// The category that commands of this group are in.
            const fn category(self) -> Categories {
                match self {
                    $(Self::$Group => $category,)*
                }
            }
        }

        impl Spec {
            $(
                #[doc = concat!("The row of a command of [`Group::", stringify!($Group), "`]. `words` are its flags.")]
                pub(crate) const fn $constructor(
                    name: &'static str,
                    since: &'static str,
                    arity: i32,
                    words: &str,
                    handler: Handler,
                ) -> Self {
                    Self::new(Group::$Group, name, since, arity, words, handler)
                }
            )*
        }
    };
}

// The constructor of rows, the group, its name in COMMAND DOCS, and the category of its commands.
groups! {
    generic: Generic, "generic", Categories::KEYSPACE;
    string: String, "string", Categories::STRING;
    list: List, "list", Categories::LIST;
    set: Set, "set", Categories::SET;
    sorted_set: SortedSet, "sorted-set", Categories::SORTEDSET;
    hash: Hash, "hash", Categories::HASH;
    // `@pubsub` comes with the flag: PUBSUB HELP is not in it.
    pubsub: Pubsub, "pubsub", Categories::empty();
    transaction: Transactions, "transactions", Categories::TRANSACTION;
    connection: Connection, "connection", Categories::CONNECTION;
    server: Server, "server", Categories::empty();
    scripting: Scripting, "scripting", Categories::SCRIPTING;
    hyperloglog: Hyperloglog, "hyperloglog", Categories::HYPERLOGLOG;
    cluster: Cluster, "cluster", Categories::empty();
    geo: Geo, "geo", Categories::GEO;
    stream: Stream, "stream", Categories::STREAM;
    bitmap: Bitmap, "bitmap", Categories::BITMAP;
}

/// Since when a command is deprecated, and what to use instead.
#[derive(Clone, Copy, Debug)]
pub struct Deprecated {
    /// Version.
    pub since: &'static str,
    /// Replacement, in words.
    pub replaced_by: &'static str,
}

/// Where a command's keys are.
enum Keys {
    One(KeySpec),
    Many(&'static [KeySpec]),
}

/// The spec of a command, a container of subcommands, or a subcommand.
pub struct Spec {
    /// Lower-case; of a subcommand without its container's name.
    pub name: &'static str,
    /// Number of arguments, the command's name (and a subcommand's) included; a negative number is a minimum.
    pub arity: i32,
    /// What it does and when it may run.
    pub flags: Flags,
    keys: Keys,
    /// ACL categories that neither flags nor group imply.
    pub categories: Categories,
    /// Hints for clients and proxies, in Redis's words, separated by spaces.
    pub tips: &'static str,
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
    /// The channels that it sends to, or begins to hear.
    pub(crate) channels: Option<Channels>,
}

/// Which arguments are channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Channels {
    /// The first one.
    First,
    /// All.
    All,
    /// All, as patterns of channels.
    Patterns,
}

impl Spec {
    /// A command's row, with what all rows have. `words` are its flags.
    const fn new(
        group: Group,
        name: &'static str,
        since: &'static str,
        arity: i32,
        words: &str,
        handler: Handler,
    ) -> Self {
        Self {
            name,
            arity,
            flags: flags(words),
            keys: Keys::Many(&[]),
            categories: Categories::empty(),
            tips: "",
            group,
            since,
            complexity: "O(1)",
            summary: "",
            syntax: "",
            history: &[],
            run: None,
            member: 0,
            deprecated: None,
            syscmd: false,
            subcommands: &[],
            handler,
            get_keys: None,
            channels: None,
        }
    }

    /// The row of a container: a command that is only there for its subcommands.
    pub(crate) const fn container(
        group: Group,
        name: &'static str,
        since: &'static str,
        subcommands: &'static [Self],
    ) -> Self {
        Self::new(group, name, since, -2, "", unreached)
            .complexity("Depends on the subcommand")
            .subcommands(subcommands)
    }

    /// The row of a container's subcommand HELP.
    pub(crate) const fn help(group: Group, since: &'static str) -> Self {
        Self::new(group, "help", since, 2, "loading stale", help).summary("Returns help on the subcommands.")
    }

    /// With arguments, in the usual notation.
    pub(crate) const fn syntax(mut self, syntax: &'static str) -> Self {
        self.syntax = syntax;
        self
    }

    /// With what it does, in one line.
    pub(crate) const fn summary(mut self, summary: &'static str) -> Self {
        self.summary = summary;
        self
    }

    /// With another complexity than O(1).
    pub(crate) const fn complexity(mut self, complexity: &'static str) -> Self {
        self.complexity = complexity;
        self
    }

    /// With the first argument as the only key. `words` are key flags.
    pub(crate) const fn key(mut self, words: &str) -> Self {
        self.keys = Keys::One(KeySpec::key(words));
        self
    }

    /// With keys elsewhere than in the first argument only.
    pub(crate) const fn keys(mut self, specs: &'static [KeySpec]) -> Self {
        self.keys = Keys::Many(specs);
        self
    }

    /// With a function that finds the keys.
    pub(crate) const fn get_keys(mut self, get_keys: GetKeys) -> Self {
        self.get_keys = Some(get_keys);
        self
    }

    /// With channels that it sends to, or begins to hear.
    pub(crate) const fn channels(mut self, channels: Channels) -> Self {
        self.channels = Some(channels);
        self
    }

    /// With the argument that is a member or field of a collection.
    pub(crate) const fn member(mut self, argument: u16) -> Self {
        self.member = argument;
        self
    }

    /// With a handler of consecutive equal calls.
    pub const fn run(mut self, handler: RunHandler) -> Self {
        self.run = Some(handler);
        self
    }

    /// In further categories. `words` are their names.
    pub(crate) const fn categories(mut self, words: &str) -> Self {
        self.categories = categories(words);
        self
    }

    /// With hints, separated by spaces.
    pub(crate) const fn tips(mut self, words: &'static str) -> Self {
        self.tips = words;
        self
    }

    /// With versions that changed it, and how.
    pub(crate) const fn history(mut self, history: &'static [(&'static str, &'static str)]) -> Self {
        self.history = history;
        self
    }

    /// Not to be used any more since a version, but something else.
    pub(crate) const fn deprecated(mut self, since: &'static str, replaced_by: &'static str) -> Self {
        self.deprecated = Some(Deprecated { since, replaced_by });
        self
    }

    /// Not meant for applications.
    pub(crate) const fn syscmd(mut self) -> Self {
        self.syscmd = true;
        self
    }

    /// With subcommands, although it can be called without one.
    pub(crate) const fn subcommands(mut self, subcommands: &'static [Self]) -> Self {
        self.subcommands = subcommands;
        self
    }

    /// Where its keys are.
    pub(crate) const fn key_specs(&self) -> &[KeySpec] {
        match &self.keys {
            Keys::One(spec) => std::slice::from_ref(spec),
            Keys::Many(specs) => specs,
        }
    }

    /// All ACL categories: its own and those that its flags and group imply.
    pub(crate) fn all_categories(&self) -> Categories {
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

/// Handler of HELP.
pub(crate) fn help(ctx: &mut Ctx<'_>) -> CommandResult {
    replies::help(&ctx.engine.commands, ctx.command, ctx.out);
    Ok(())
}

/// Handler of containers; their arity keeps it from being reached.
pub(super) fn unreached(_: &mut Ctx<'_>) -> CommandResult {
    Err(crate::error::SYNTAX.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_and_group_imply_categories() {
        let get = Spec::string("get", "1.0.0", 2, "readonly fast", unreached);
        assert_eq!(get.all_categories(), categories("read string fast"));
        let sort = Spec::generic("sort", "1.0.0", -2, "write", unreached).categories("not_of_group list");
        assert_eq!(sort.all_categories(), categories("write list slow"));
    }

    #[test]
    fn key_specs_of_a_row_are_in_its_order() {
        const COPY: Spec = Spec::generic("copy", "6.2.0", -3, "write", unreached)
            .keys(&[KeySpec::key("RO access"), KeySpec::keys("OW update", 2, 0, 1)]);
        let begins: Vec<_> = COPY.key_specs().iter().map(|spec| spec.begin).collect();
        assert_eq!(begins, [BeginSearch::Index(1), BeginSearch::Index(2)]);
        let changed = COPY.key("RO access");
        assert!(matches!(changed.key_specs(), [KeySpec { begin: BeginSearch::Index(1), .. }]));
    }
}
