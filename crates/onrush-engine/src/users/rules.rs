//! Rules, as ACL SETUSER takes them, and what they do to rights.

use crate::command::CommandTable;
use crate::command::flags::{CATEGORY_NAMES, Categories};
use crate::command::key_spec::KeyFlags;
use crate::command::table::Command;
use crate::formats::sha256;
use crate::users::commands::AllowedCommands;
use crate::users::glances::{Glance, Glances};
use crate::users::rights::Rights;
use crate::users::rule_error::RuleError;
use crate::users::selector::{Access, KeyPattern, Selector};
use crate::users::text::has_spaces;

/// Hexadecimal digits of a password's digest.
const DIGEST_LEN: usize = 64;

impl Rights {
    /// Applies a rule. `all_channels`: `acl-pubsub-default`.
    ///
    /// # Errors
    /// It is no rule, or cannot be applied. The rights may have changed in part, if it is a selector.
    pub(crate) fn apply(&mut self, table: &CommandTable, rule: &[u8], all_channels: bool) -> Result<(), RuleError> {
        match rule.to_ascii_lowercase().as_slice() {
            b"on" => self.is_on = true,
            b"off" => self.is_on = false,
            b"nopass" => self.set_password(b""),
            b"resetpass" => {
                self.no_password = false;
                self.passwords.clear();
            }
            b"sanitize-payload" => self.sanitizes = true,
            b"skip-sanitize-payload" => self.sanitizes = false,
            b"clearselectors" => self.selectors.truncate(1),
            b"reset" => *self = Self::none(table.len(), all_channels),
            _ => return self.apply_longer(table, rule, all_channels),
        }
        self.look();
        Ok(())
    }

    /// Applies a rule that is not one word for the whole user.
    fn apply_longer(&mut self, table: &CommandTable, rule: &[u8], all_channels: bool) -> Result<(), RuleError> {
        match rule {
            [b'>', password @ ..] => self.add_password(sha256::hex(password).as_bytes()),
            [b'#', digest @ ..] => self.add_password(checked_digest(digest)?),
            [b'<', password @ ..] => self.remove_password(sha256::hex(password).as_bytes())?,
            [b'!', digest @ ..] => self.remove_password(checked_digest(digest)?)?,
            [b'(', rules @ .., b')'] => self.selectors.push(selector(table, rules, all_channels)?),
            rule => self.selectors[0].apply(table, rule)?,
        }
        self.look();
        Ok(())
    }

    /// Completes the rights, which do not change any more.
    pub(crate) fn complete(mut self, table: &CommandTable) -> Self {
        self.glances = Glances(table.all().map(|command| glance(&self.selectors[0], command)).collect());
        self
    }
}

/// A selector from its rules, which stand between spaces.
fn selector(table: &CommandTable, rules: &[u8], all_channels: bool) -> Result<Selector, RuleError> {
    let mut selector = Selector::none(table.len(), all_channels);
    for rule in rules.split(|&byte| byte == b' ') {
        if rule.ends_with(b")") {
            // Read back, it would end the selector.
            return Err(RuleError::Syntax);
        }
        selector.apply(table, rule)?;
    }
    Ok(selector)
}

fn checked_digest(digest: &[u8]) -> Result<&[u8], RuleError> {
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    (digest.len() == DIGEST_LEN && digest.iter().all(is_digit)).then_some(digest).ok_or(RuleError::BadDigest)
}

impl Selector {
    /// Applies a rule; an empty one changes nothing.
    ///
    /// # Errors
    /// It is not a rule of selectors, or cannot be applied.
    pub(crate) fn apply(&mut self, table: &CommandTable, rule: &[u8]) -> Result<(), RuleError> {
        match rule.to_ascii_lowercase().as_slice() {
            b"" => {}
            b"allkeys" | b"~*" => (self.all_keys, self.keys) = (true, Vec::new()),
            b"resetkeys" => (self.all_keys, self.keys) = (false, Vec::new()),
            b"allchannels" | b"&*" => (self.all_channels, self.channels) = (true, Vec::new()),
            b"resetchannels" => (self.all_channels, self.channels) = (false, Vec::new()),
            b"allcommands" | b"+@all" => self.commands.set_all(true),
            b"nocommands" | b"-@all" => self.commands.set_all(false),
            _ => return self.apply_to_one(table, rule),
        }
        Ok(())
    }

    /// Applies a rule for one command, category or pattern.
    fn apply_to_one(&mut self, table: &CommandTable, rule: &[u8]) -> Result<(), RuleError> {
        match (rule[0], &rule[1..]) {
            (b'+', [b'@', category @ ..]) => self.commands.set_category(table, category, true),
            (b'-', [b'@', category @ ..]) => self.commands.set_category(table, category, false),
            (b'+', name) => self.commands.set_command(table, name, true),
            (b'-', name) => self.commands.set_command(table, name, false),
            (b'~', pattern) => self.add_keys(Access::all(), pattern),
            (b'%', rest) if !self.all_keys => {
                let (access, pattern) = split_access(rest).ok_or(RuleError::Syntax)?;
                self.add_keys(access, pattern)
            }
            (b'%', _) => Err(RuleError::AllKeysAlready),
            (b'&', pattern) => self.add_channels(pattern),
            _ => Err(RuleError::Syntax),
        }
    }

    fn add_keys(&mut self, access: Access, pattern: &[u8]) -> Result<(), RuleError> {
        if self.all_keys {
            return Err(RuleError::AllKeysAlready);
        } else if has_spaces(pattern) {
            return Err(RuleError::Syntax);
        }
        match self.keys.iter_mut().find(|known| *known.pattern == *pattern) {
            Some(known) => known.access |= access,
            None => self.keys.push(KeyPattern::new(access, pattern)),
        }
        Ok(())
    }

    fn add_channels(&mut self, pattern: &[u8]) -> Result<(), RuleError> {
        if self.all_channels {
            return Err(RuleError::AllChannelsAlready);
        } else if has_spaces(pattern) {
            return Err(RuleError::Syntax);
        }
        if !self.channels.iter().any(|known| **known == *pattern) {
            self.channels.push(pattern.into());
        }
        Ok(())
    }
}

/// What stands before `~` in a rule for keys, and the pattern behind it; `None` if that is no access.
fn split_access(rest: &[u8]) -> Option<(Access, &[u8])> {
    let mut access = Access::empty();
    for (at, letter) in rest.iter().enumerate() {
        let more = match letter.to_ascii_uppercase() {
            b'R' => Access::READ,
            b'W' => Access::WRITE,
            b'~' => return (!access.is_empty()).then_some((access, &rest[at + 1..])),
            _ => return None,
        };
        if access.contains(more) {
            return None;
        }
        access |= more;
    }
    // As in Redis, a missing pattern is an empty one.
    (!access.is_empty()).then_some((access, &[]))
}

impl AllowedCommands {
    /// Allows or denies the commands of a category, by its name without `@` in any case.
    ///
    /// # Errors
    /// There is no such category.
    pub(crate) fn set_category(&mut self, table: &CommandTable, name: &[u8], allows: bool) -> Result<(), RuleError> {
        let category = category(name).ok_or(RuleError::UnknownCommand)?;
        for command in table.all().filter(|command| command.categories.contains(category)) {
            self.set_command_bits(command, allows);
        }
        self.note(&[b"@", name].concat(), allows);
        Ok(())
    }

    /// Allows or denies a command, or a subcommand as in `config|get`; or allows a first argument as in `select|0`.
    ///
    /// # Errors
    /// There is no such command; an argument is allowed of a subcommand, or none is given.
    pub(crate) fn set_command(&mut self, table: &CommandTable, name: &[u8], allows: bool) -> Result<(), RuleError> {
        if let Some(command) = table.lookup_full(name) {
            self.set_command_bits(command, allows);
            self.note(command.full_name.as_bytes(), allows);
            return Ok(());
        }
        let bar = memchr::memrchr(b'|', name).filter(|_| allows).ok_or(RuleError::UnknownCommand)?;
        let (command, arg) = (&name[..bar], &name[bar + 1..]);
        let command = table.lookup_full(command).ok_or(RuleError::UnknownCommand)?;
        if command.parent.is_some() {
            return Err(RuleError::FirstArgOfSubcommand);
        } else if arg.is_empty() || has_spaces(arg) {
            // With a space a saved rule would be read as two.
            return Err(RuleError::Syntax);
        } else if command.is_container() {
            return Err(RuleError::UnknownCommand);
        }
        let arg = arg.to_ascii_lowercase().into_boxed_slice();
        self.add_first_arg(command.id, arg);
        self.note(name, true);
        Ok(())
    }

    fn set_command_bits(&mut self, command: &Command, allows: bool) {
        self.set_bits(std::iter::once(command.id).chain(command.subcommands()), allows);
    }
}

fn category(name: &[u8]) -> Option<Categories> {
    let is_it = |(_, known): &&(Categories, &str)| known.as_bytes().eq_ignore_ascii_case(name);
    CATEGORY_NAMES.iter().find(is_it).map(|(category, _)| *category)
}

fn glance(selector: &Selector, command: &Command) -> Glance {
    let hears = command.spec.channels.is_some() && !selector.all_channels;
    if !selector.allows_command(command, None) || hears {
        return Glance::Unclear;
    } else if selector.all_keys || !command.has_keys() {
        return Glance::Allowed;
    }
    let may_do_more = |flags: KeyFlags| flags.contains(KeyFlags::VARIABLE_FLAGS) && !flags.contains(KeyFlags::ACCESS);
    match command.spec.key_specs() {
        // What a call does with its keys may be less than what the spec says, but for DELEX, which reads with a condition.
        [only]
            if command.has_only_fixed_keys() && !only.flags.contains(KeyFlags::NOT_KEY) && !may_do_more(only.flags) =>
        {
            Glance::OnKeys(Access::of(only.flags))
        }
        _ => Glance::Unclear,
    }
}

/// Puts the words of selectors together again: `(`, `+get`, `~x)` is one rule.
///
/// # Errors
/// The first word of a selector that does not end.
pub(crate) fn merge_selectors<'a>(words: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<Vec<u8>>, &'a [u8]> {
    let mut rules: Vec<Vec<u8>> = Vec::new();
    let mut open: Option<&[u8]> = None;
    for word in words {
        match open {
            Some(_) => {
                let rule = rules.last_mut().expect("an open selector");
                rule.push(b' ');
                rule.extend_from_slice(word);
            }
            None => rules.push(word.to_vec()),
        }
        let begins = word.first() == Some(&b'(') && open.is_none();
        if word.last() == Some(&b')') && (begins || open.is_some()) {
            open = None;
        } else if begins {
            open = Some(word);
        }
    }
    open.map_or(Ok(rules), Err)
}

/// Whether a name may be a user's: it must not look like several words.
pub(crate) fn is_name(name: &[u8]) -> bool {
    !has_spaces(name)
}

#[cfg(test)]
mod tests {
    use onrush_resp::ArgRange;
    use proptest::prelude::*;

    use super::*;
    use crate::batch::argv::Argv;
    use crate::commands::FAMILIES;

    const RULES: &[&str] = &[
        "+@all",
        "-@all",
        "+@read",
        "-@write",
        "+set",
        "-get",
        "+config|get",
        "-config",
        "+select|0",
        "~*",
        "~a*",
        "%R~b*",
        "%W~c*",
        "resetkeys",
        "~a?",
        "~\\a*",
        "~",
        "&*",
        "&c*",
        "resetchannels",
        "(+get ~z*)",
        "allkeys",
    ];
    const CALLS: &[&str] = &[
        "get a1",
        "get b",
        "get c",
        "set a 1",
        "set b 1 get",
        "set c 1",
        "delex a",
        "delex b ifeq 1",
        "bitfield a get u8 0",
        "bitfield c set u8 0 1",
        "mget a b",
        "mget a1 a2",
        "mset a 1 b 2",
        "del c a",
        "config get x",
        "config set x y",
        "select 0",
        "select 1",
        "publish c x",
        "publish d x",
        "spublish c x",
        "ping",
        "rename a c",
        "exists z",
        "zadd a 1 x",
        "lmove a a left left",
        "copy b c",
        "eval x 1 a",
        "sort a",
        "bitop and a b",
        "hello",
        "acl whoami",
        "incr a",
        "getset b x",
    ];

    fn argv_of(call: &str) -> (Vec<u8>, Vec<ArgRange>) {
        let (mut bytes, mut ranges) = (Vec::new(), Vec::new());
        for word in call.split(' ') {
            let start = bytes.len();
            bytes.extend_from_slice(word.as_bytes());
            ranges.push(ArgRange::new(start, word.len()));
        }
        (bytes, ranges)
    }

    proptest! {
        #[test]
        fn what_is_allowed_at_a_glance_is_allowed(
            rules in prop::collection::vec(prop::sample::select(RULES), 0..8),
        ) {
            let table = CommandTable::new(FAMILIES);
            let mut rights = Rights::none(table.len(), false);
            for rule in rules {
                // Some cannot follow others.
                let _ = rights.apply(&table, rule.as_bytes(), false);
            }
            let rights = rights.complete(&table);
            for call in CALLS {
                let (bytes, ranges) = argv_of(call);
                let argv = Argv::new(&bytes, &ranges, &[]);
                let command = table.resolve(&argv).expect("a command");
                let is_allowed = rights.check(command, &argv).is_ok();
                let at_a_glance = rights.allow_at_a_glance(command, &argv);
                prop_assert!(is_allowed || !at_a_glance, "{}", call);
            }
        }
    }

    #[test]
    fn the_usual_commands_of_a_limited_user_are_allowed_at_a_glance() {
        let table = CommandTable::new(FAMILIES);
        let mut rights = Rights::none(table.len(), false);
        for rule in ["~app:*", "+@read", "+set", "+ping"] {
            rights.apply(&table, rule.as_bytes(), false).expect("a rule");
        }
        let rights = rights.complete(&table);
        for (call, is_allowed) in [
            ("get app:1", true),
            ("set app:1 x", true),
            ("mget app:1 app:2", true),
            ("ping", true),
            ("get other", false),
            ("mget app:1 other", false),
            ("del app:1", false),
        ] {
            let (bytes, ranges) = argv_of(call);
            let argv = Argv::new(&bytes, &ranges, &[]);
            let command = table.resolve(&argv).expect("a command");
            assert_eq!(rights.allow_at_a_glance(command, &argv), is_allowed, "{call}");
        }
    }
}
