//! A command's arguments as COMMAND DOCS describes them: a tree, read from the spec's syntax line.

use super::spec::{BeginSearch, FindKeys, Flags, Group, KeySpec, Spec};
use super::syntax::{self, SyntaxError};

/// What an argument is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Kind {
    String,
    Integer,
    Double,
    /// The name of a key.
    Key,
    /// A glob pattern.
    Pattern,
    UnixTime,
    /// A word that stands for itself.
    PureToken,
    /// Exactly one of the children.
    OneOf,
    /// All the children in order.
    Block,
}

impl Kind {
    /// The name COMMAND DOCS shows.
    pub const fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Integer => "integer",
            Self::Double => "double",
            Self::Key => "key",
            Self::Pattern => "pattern",
            Self::UnixTime => "unix-time",
            Self::PureToken => "pure-token",
            Self::OneOf => "oneof",
            Self::Block => "block",
        }
    }
}

/// An argument, or a group of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// Lower-case.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// The word in front of it, or the word it is.
    pub token: Option<String>,
    /// May be left out.
    pub optional: bool,
    /// May be repeated.
    pub multiple: bool,
    /// The token is repeated with it.
    pub multiple_token: bool,
    /// Index of the key spec that finds it.
    pub key_spec_index: Option<usize>,
    /// Of [`Kind::OneOf`] and [`Kind::Block`].
    pub children: Vec<Argument>,
}

impl Argument {
    /// An argument with nothing set but its name, kind and children.
    pub(super) fn new(name: impl Into<String>, kind: Kind, children: Vec<Argument>) -> Self {
        Self {
            name: name.into(),
            kind,
            token: None,
            optional: false,
            multiple: false,
            multiple_token: false,
            key_spec_index: None,
            children,
        }
    }

    /// Whether it is a group of others.
    pub(crate) fn is_group(&self) -> bool {
        matches!(self.kind, Kind::OneOf | Kind::Block)
    }
}

/// The arguments of a spec, with their types and key specs. Linear in the syntax line.
///
/// # Errors
/// The syntax line is not in the notation that [`syntax`] describes.
pub fn arguments(spec: &Spec) -> Result<Vec<Argument>, SyntaxError> {
    let mut arguments = syntax::parse(spec.syntax)?;
    set_kinds(&mut arguments, spec);
    KeySpecs { specs: spec.key_specs(), next: 0, found: 0 }.assign(&mut arguments, None);
    Ok(arguments)
}

fn set_kinds(arguments: &mut [Argument], spec: &Spec) {
    for argument in arguments {
        set_kinds(&mut argument.children, spec);
        if argument.kind == Kind::String {
            argument.kind = kind_of(&argument.name, spec);
        }
    }
}

/// The type of an argument by its name, and by its command where Redis's names are ambiguous.
fn kind_of(name: &str, spec: &Spec) -> Kind {
    match name {
        "key" | "key1" | "key2" | "newkey" | "source" | "destination" | "destkey" | "sourcekey" | "src" | "dst"
            if !spec.key_specs().is_empty() =>
        {
            Kind::Key
        }
        "pattern" => Kind::Pattern,
        "unix-time-seconds" | "unix-time-milliseconds" => Kind::UnixTime,
        "height" | "latitude" | "longitude" | "radius" | "score" | "width" => Kind::Double,
        "timeout" if spec.flags.contains(Flags::BLOCKING) => Kind::Double,
        "increment" if spec.name.ends_with("float") => Kind::Double,
        "min" | "max" if spec.name.ends_with("byscore") || spec.name == "zcount" => Kind::Double,
        "start" | "end" | "stop" if spec.group == Group::Stream || spec.name == "zrange" => Kind::String,
        "value" if spec.group == Group::Bitmap => Kind::Integer,
        _ if INTEGERS.contains(&name) => Kind::Integer,
        _ => Kind::String,
    }
}

/// Names of integers.
const INTEGERS: &[&str] = &[
    "bit",
    "bits",
    "client-id",
    "cluster-bus-port",
    "config-epoch",
    "count",
    "cursor",
    "db",
    "decrement",
    "destination-db",
    "end",
    "end-slot",
    "entries-added",
    "entries-read",
    "frequency",
    "increment",
    "index",
    "index1",
    "index2",
    "len",
    "limit",
    "milliseconds",
    "ms",
    "num-matches",
    "numkeys",
    "numlocal",
    "numreplicas",
    "offset",
    "port",
    "protover",
    "rank",
    "seconds",
    "slot",
    "start",
    "start-slot",
    "stop",
    "timeout",
    "ttl",
    "version",
    "weight",
];

/// Hands out a command's key specs to its key arguments in order.
struct KeySpecs<'a> {
    specs: &'a [KeySpec],
    next: usize,
    /// Keys the present spec has found so far.
    found: usize,
}

impl KeySpecs<'_> {
    /// `token` is the word in front of the arguments' group.
    fn assign(&mut self, arguments: &mut [Argument], token: Option<&str>) {
        for argument in arguments {
            let token = argument.token.as_deref().or(token).map(str::to_owned);
            if argument.kind == Kind::Key {
                argument.key_spec_index = self.by_keyword(token.as_deref()).or_else(|| self.in_order());
            }
            self.assign(&mut argument.children, token.as_deref());
        }
    }

    fn by_keyword(&self, token: Option<&str>) -> Option<usize> {
        let token = token?;
        self.specs
            .iter()
            .position(|spec| matches!(spec.begin, BeginSearch::Keyword { keyword, .. } if keyword == token))
    }

    fn in_order(&mut self) -> Option<usize> {
        let is_keyword = |spec: &KeySpec| matches!(spec.begin, BeginSearch::Keyword { .. });
        while self.next + 1 < self.specs.len()
            && (is_keyword(&self.specs[self.next]) || self.found >= keys_of(&self.specs[self.next]))
        {
            self.next += 1;
            self.found = 0;
        }
        self.found += 1;
        (self.next < self.specs.len()).then_some(self.next)
    }
}

/// How many arguments of the syntax line a spec finds; an argument that may be repeated is one.
fn keys_of(spec: &KeySpec) -> usize {
    match spec.find {
        FindKeys::Range { last, step, .. } if last >= 0 => last as usize / usize::from(step.max(1)) + 1,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::spec::unreached;

    #[test]
    fn names_tell_types() {
        const SPEC: Spec = Spec::generic("x", "1.0.0", -1, "", unreached)
            .syntax("key value [EX seconds | EXAT unix-time-seconds] [MATCH pattern] count")
            .key("RO");
        let kinds = |arguments: &[Argument]| arguments.iter().map(|argument| argument.kind).collect::<Vec<_>>();
        let arguments = arguments(&SPEC).unwrap();
        assert_eq!(kinds(&arguments), [Kind::Key, Kind::String, Kind::OneOf, Kind::Pattern, Kind::Integer]);
        assert_eq!(kinds(&arguments[2].children), [Kind::Integer, Kind::UnixTime]);
    }

    #[test]
    fn key_arguments_know_their_key_specs() {
        let indexes = |spec: &Spec| -> Vec<_> {
            arguments(spec).unwrap().iter().filter_map(|argument| argument.key_spec_index).collect()
        };
        const RENAME: Spec = Spec::generic("rename", "1.0.0", 3, "", unreached)
            .syntax("key newkey")
            .keys(&[KeySpec::key("RW"), KeySpec::keys("OW", 2, 0, 1)]);
        assert_eq!(indexes(&RENAME), [0, 1]);
        const LCS: Spec = Spec::string("lcs", "7.0.0", -3, "", unreached)
            .syntax("key1 key2 [LEN]")
            .keys(&[KeySpec::keys("RO", 1, 1, 1)]);
        assert_eq!(indexes(&LCS), [0, 0]);
        const GEO: Spec = Spec::geo("georadius", "3.2.0", -6, "", unreached)
            .syntax("key [STORE key] [STOREDIST key]")
            .keys(&[KeySpec::key("RO"), KeySpec::keyword("OW", "STORE", 6), KeySpec::keyword("OW", "STOREDIST", 6)]);
        assert_eq!(indexes(&GEO), [0, 1, 2]);
    }
}
