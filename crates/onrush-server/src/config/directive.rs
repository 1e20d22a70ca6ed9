//! What the table says about a directive.

use bitflags::bitflags;

/// A directive of the configuration, a row of [`DIRECTIVES`](super::DIRECTIVES).
#[derive(Clone, Copy, Debug)]
pub struct Directive {
    /// The name, in lower case.
    pub name: &'static str,
    /// An older name that means the same.
    pub alias: Option<&'static str>,
    /// What values it takes.
    pub kind: Kind,
    /// The value when nothing sets it, as one would write it in a file. What depends on the machine (`dir`, `workers`)
    /// is empty here.
    pub default: &'static str,
    /// How it may be used.
    pub flags: Flags,
    /// Integers outside these bounds are quietly moved to them.
    pub clamp: Option<(i64, i64)>,
    /// Why the directive has no effect, if so: its value is checked, kept and returned, but nothing reads it.
    pub no_effect: Option<&'static str>,
}

bitflags! {
    /// How a directive may be used.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Flags: u8 {
        /// Only set at start, never by CONFIG SET.
        const IMMUTABLE = 1;
        /// CONFIG SET needs `enable-protected-configs`.
        const PROTECTED = 1 << 1;
        /// CONFIG GET answers it only when asked by its full name.
        const HIDDEN = 1 << 2;
        /// A secret: never written to a log or an error.
        const SENSITIVE = 1 << 3;
        /// When it changes, the server has to do more than read the new value.
        const APPLY = 1 << 4;
        /// An integer below 0 has an error text of its own, as where Redis keeps the number without a sign.
        const UNSIGNED = 1 << 5;
        /// Setting it is a change even if the value is the same: what it names may be another one now.
        const RELOADS = 1 << 6;
    }
}

/// The values a directive takes.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// `yes` or `no`.
    Bool,
    /// An integer, bounds inclusive.
    Integer {
        /// The least.
        min: i64,
        /// The greatest.
        max: i64,
    },
    /// A number of bytes with an optional unit, bounds inclusive and in bytes.
    Memory {
        /// The least.
        min: u64,
        /// The greatest.
        max: u64,
    },
    /// A number of bytes, or a percentage of `maxmemory`.
    MemoryOrPercent,
    /// File permissions in octal.
    Permissions,
    /// One of these words.
    Enum(&'static [&'static str]),
    /// Any of these words together; the first is the name of none.
    EnumSet(&'static [&'static str]),
    /// Any text under a rule.
    Text(TextRule),
    /// Addresses to listen on.
    Addresses,
    /// Pairs of seconds and changes.
    SavePoints,
    /// Classes of clients, each with hard limit, soft limit and seconds.
    OutputLimits,
    /// Letters that stand for classes of keyspace events.
    EventClasses,
    /// Numbers from 0 to 100.
    Percentiles,
    /// Three integers from -2000 to 2000.
    OomScores,
    /// Host and port of a primary, or `no one`.
    Primary,
}

/// What a text must be like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextRule {
    /// Anything.
    Any,
    /// A file name without a path.
    FileName,
    /// The same, and not empty.
    FileNameNotEmpty,
    /// The name of a folder without a path, not empty.
    FolderName,
    /// A directory that exists; kept as an absolute path.
    Directory,
    /// Letters, digits, hyphens and dots.
    Hostname,
    /// Printable ASCII without what would split a line of `nodes.conf`.
    NodeName,
    /// An address as nodes of a cluster tell it each other.
    NodeAddress,
    /// A template for the process title.
    TitleTemplate,
}

pub(super) const fn special(name: &'static str, kind: Kind, default: &'static str) -> Directive {
    let flags = Flags::empty();
    Directive { name, alias: None, kind, default, flags, clamp: None, no_effect: None }
}

pub(super) const fn boolean(name: &'static str, default: &'static str) -> Directive {
    special(name, Kind::Bool, default)
}

pub(super) const fn integer(name: &'static str, min: i64, max: i64, default: &'static str) -> Directive {
    special(name, Kind::Integer { min, max }, default)
}

pub(super) const fn memory(name: &'static str, min: u64, max: u64, default: &'static str) -> Directive {
    special(name, Kind::Memory { min, max }, default)
}

pub(super) const fn one_of(name: &'static str, words: &'static [&'static str], default: &'static str) -> Directive {
    special(name, Kind::Enum(words), default)
}

pub(super) const fn text(name: &'static str, default: &'static str) -> Directive {
    special(name, Kind::Text(TextRule::Any), default)
}

impl Directive {
    const fn with(mut self, flag: Flags) -> Self {
        self.flags = self.flags.union(flag);
        self
    }

    pub(super) const fn alias(mut self, alias: &'static str) -> Self {
        self.alias = Some(alias);
        self
    }

    pub(super) const fn immutable(self) -> Self {
        self.with(Flags::IMMUTABLE)
    }

    pub(super) const fn protected(self) -> Self {
        self.with(Flags::PROTECTED)
    }

    pub(super) const fn hidden(self) -> Self {
        self.with(Flags::HIDDEN)
    }

    pub(super) const fn sensitive(self) -> Self {
        self.with(Flags::SENSITIVE)
    }

    pub(super) const fn apply(self) -> Self {
        self.with(Flags::APPLY)
    }

    pub(super) const fn reloads(self) -> Self {
        self.with(Flags::RELOADS).with(Flags::APPLY)
    }

    pub(super) const fn unsigned(self) -> Self {
        self.with(Flags::UNSIGNED)
    }

    pub(super) const fn clamped(mut self, low: i64, high: i64) -> Self {
        self.clamp = Some((low, high));
        self
    }

    pub(super) const fn no_effect(mut self, why: &'static str) -> Self {
        self.no_effect = Some(why);
        self
    }
}
