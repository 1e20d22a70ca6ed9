//! Which commands a selector allows, and the rules that say so.

use crate::command::name_index::CommandId;

/// The commands that are allowed, as a bit for each, and the first arguments that are allowed of others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AllowedCommands {
    bits: Box<[u64]>,
    /// Whether all are allowed, and none was taken away since.
    all: bool,
    /// Whether a command that no rule names is allowed.
    others: bool,
    /// Of commands that are not allowed as a whole, in lower case.
    first_args: Vec<(CommandId, Box<[u8]>)>,
    /// Rules behind the last one for all commands, in lower case. Together with `others` they say what is allowed.
    rules: Vec<Rule>,
}

/// A rule for a command, a category or a first argument.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    allows: bool,
    /// `get`, `config|get`, `select|0` or `@read`.
    what: Box<[u8]>,
}

impl Rule {
    /// Whether a rule for `what` replaces this one, which is for the same or for a part of it.
    fn is_within(&self, what: &[u8]) -> bool {
        self.what.strip_prefix(what).is_some_and(|rest| rest.first().is_none_or(|&next| next == b'|'))
    }
}

impl AllowedCommands {
    /// None of the commands of a table with `len` commands.
    pub(crate) fn none(len: usize) -> Self {
        let bits = vec![0; len.div_ceil(u64::BITS as usize)].into();
        Self { bits, all: false, others: false, first_args: Vec::new(), rules: Vec::new() }
    }

    /// Whether all are allowed, also those that may come later.
    #[inline]
    pub(crate) fn are_all(&self) -> bool {
        self.all
    }

    /// Whether a command is allowed whatever its arguments are.
    #[inline]
    fn contains(&self, id: CommandId) -> bool {
        self.bits[usize::from(id) / 64] >> (id % 64) & 1 != 0
    }

    /// Whether a command is allowed with this first argument, in any case.
    #[inline]
    pub(crate) fn allow(&self, id: CommandId, first_arg: Option<&[u8]>) -> bool {
        self.all || self.contains(id) || first_arg.is_some_and(|arg| self.allow_first_arg(id, arg))
    }

    #[cold]
    fn allow_first_arg(&self, id: CommandId, arg: &[u8]) -> bool {
        self.first_args.iter().any(|(of, allowed)| *of == id && allowed.eq_ignore_ascii_case(arg))
    }

    /// Allows or denies all commands.
    pub(crate) fn set_all(&mut self, allows: bool) {
        self.bits.fill(if allows { u64::MAX } else { 0 });
        (self.all, self.others) = (allows, allows);
        self.first_args.clear();
        self.rules.clear();
    }

    /// Allows or denies these commands, a container and its subcommands.
    pub(super) fn set_bits(&mut self, ids: impl Iterator<Item = CommandId>, allows: bool) {
        for id in ids {
            let bit = 1 << (id % 64);
            let word = &mut self.bits[usize::from(id) / 64];
            *word = if allows { *word | bit } else { *word & !bit };
            self.first_args.retain(|(of, _)| *of != id);
        }
        self.all &= allows;
    }

    /// Allows a command with this first argument, in lower case.
    pub(super) fn add_first_arg(&mut self, id: CommandId, arg: Box<[u8]>) {
        if !self.first_args.contains(&(id, arg.clone())) {
            self.first_args.push((id, arg));
        }
    }

    /// Notes a rule, which replaces those for the same and for parts of it.
    pub(super) fn note(&mut self, what: &[u8], allows: bool) {
        let what = what.to_ascii_lowercase().into_boxed_slice();
        self.rules.retain(|rule| !rule.is_within(&what));
        self.rules.push(Rule { allows, what });
    }

    /// Appends the rules from which the same comes.
    pub(crate) fn describe(&self, text: &mut Vec<u8>) {
        text.extend_from_slice(if self.others { b"+@all" } else { b"-@all" });
        for rule in &self.rules {
            text.extend_from_slice(if rule.allows { b" +" } else { b" -" });
            text.extend_from_slice(&rule.what);
        }
    }
}
