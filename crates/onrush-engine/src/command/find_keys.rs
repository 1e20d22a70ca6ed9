//! Keys among a command's arguments, found by its key specs.

use super::flags::Flags;
use super::key_spec::{BeginSearch, FindKeys, Invalid, KeyFlags, KeyRef, KeyRefs, KeySpec};
use super::table::{Command, CommandTable};
use crate::batch::argv::{Arguments, Argv};
use crate::error::CommandError;

/// The reply of COMMAND GETKEYS for a command without keys.
pub(crate) const NO_KEY_ARGUMENTS: CommandError = CommandError::fixed("ERR The command has no key arguments");
/// The reply of COMMAND GETKEYS for an unknown command.
pub(crate) const INVALID_COMMAND: CommandError = CommandError::fixed("ERR Invalid command specified");
/// The reply of COMMAND GETKEYS for a number of arguments that the command does not accept.
pub(crate) const INVALID_NUMBER_OF_ARGUMENTS: CommandError =
    CommandError::fixed("ERR Invalid number of arguments specified for command");
/// The reply of COMMAND GETKEYS for arguments that contradict the key specs.
pub(crate) const INVALID_ARGUMENTS: CommandError = CommandError::fixed("ERR Invalid arguments specified for command");

/// The keys of a call, in the order of the key specs. Linear in the arguments.
///
/// # Errors
/// [`Invalid`] if no spec could be followed to its end.
pub(crate) fn find_keys<A: Arguments + ?Sized>(command: &Command, argv: &A) -> Result<KeyRefs, Invalid> {
    let mut found = KeyRefs::new();
    add_keys(command, argv, &mut found)?;
    Ok(found)
}

/// As [`find_keys`], but the keys that were found stay even if a spec could not be followed to its end.
///
/// # Errors
/// [`Invalid`], then.
pub(crate) fn add_keys<A: Arguments + ?Sized>(command: &Command, argv: &A, found: &mut KeyRefs) -> Result<(), Invalid> {
    if let Some(get_keys) = command.spec.get_keys {
        return get_keys(&argv, found);
    }
    for spec in command.spec.key_specs() {
        if !spec.flags.contains(KeyFlags::NOT_KEY) {
            follow(spec, argv, command.flags.contains(Flags::NO_MANDATORY_KEYS), found)?;
        }
    }
    Ok(())
}

/// What decides where a call belongs in a cluster: its keys and its sharded channels. Linear in the arguments.
///
/// # Errors
/// [`Invalid`] if no spec could be followed to its end.
pub(crate) fn find_places<A: Arguments + ?Sized>(command: &Command, argv: &A) -> Result<KeyRefs, Invalid> {
    let mut found = find_keys(command, argv)?;
    for spec in command.spec.key_specs().iter().filter(|spec| spec.flags.contains(KeyFlags::NOT_KEY)) {
        follow(spec, argv, true, &mut found)?;
    }
    Ok(found)
}

/// The keys of the call `argv` of `command`; none if its arguments contradict the key specs. Linear in the arguments.
pub(crate) fn keys_of<'a>(command: &Command, argv: Argv<'a>) -> impl ExactSizeIterator<Item = &'a [u8]> {
    find_keys(command, &argv).unwrap_or_default().into_iter().map(move |key| argv.get(key.index))
}

/// The keys of the call in `argv`, as COMMAND GETKEYS returns them.
///
/// # Errors
/// The error to answer: the command is unknown, has no keys, or does not take these arguments.
pub(crate) fn keys_of_call<A: Arguments + ?Sized>(table: &CommandTable, argv: &A) -> Result<KeyRefs, CommandError> {
    let command = table.resolve(argv).map_err(|_| INVALID_COMMAND)?;
    if !command.has_keys() {
        return Err(NO_KEY_ARGUMENTS);
    }
    if !command.accepts(argv.len()) {
        return Err(INVALID_NUMBER_OF_ARGUMENTS);
    }
    match find_keys(command, argv) {
        Ok(keys) if !keys.is_empty() => Ok(keys),
        _ if command.flags.contains(Flags::NO_MANDATORY_KEYS) => Ok(KeyRefs::new()),
        _ => Err(INVALID_ARGUMENTS),
    }
}

/// Appends the keys of one spec. `may_have_none`: their number may be 0.
fn follow<A: Arguments + ?Sized>(
    spec: &KeySpec,
    argv: &A,
    may_have_none: bool,
    found: &mut KeyRefs,
) -> Result<(), Invalid> {
    let Some(begin) = begin(spec.begin, argv) else {
        return Ok(());
    };
    let (first, last, step) = match spec.find {
        FindKeys::Unknown => return Ok(()),
        FindKeys::Range { last, step, limit } => (begin, last_of_range(begin, last, limit, argv.len()), step),
        FindKeys::KeyNum { num_index, first, step } => {
            let number_at = begin + num_index as usize;
            if number_at >= argv.len() {
                return Err(Invalid);
            }
            let count = match onrush_resp::parse_i64(argv.get(number_at)) {
                Some(count @ 1..) => count,
                Some(0) if may_have_none => return Ok(()),
                _ => return Err(Invalid),
            };
            let first = begin + first as usize;
            let last = (count - 1).checked_mul(step.into()).and_then(|offset| offset.checked_add(first as i64));
            (first, last.ok_or(Invalid)?, step)
        }
    };
    if last < 0 || last >= argv.len() as i64 || first as i64 > last {
        return Err(Invalid);
    }
    found.extend((first..=last as usize).step_by(step.max(1).into()).map(|index| KeyRef { index, flags: spec.flags }));
    Ok(())
}

/// The argument a search begins at; `None` if its keyword is absent.
fn begin<A: Arguments + ?Sized>(begin: BeginSearch, argv: &A) -> Option<usize> {
    match begin {
        BeginSearch::Unknown => None,
        BeginSearch::Index(index) => Some(index.into()),
        BeginSearch::Keyword { keyword, start_from } => {
            let is_keyword = |&index: &usize| argv.get(index).eq_ignore_ascii_case(keyword.as_bytes());
            // The last argument cannot be the keyword: no key could follow it.
            let end = argv.len().saturating_sub(1);
            let at = if start_from >= 0 {
                (start_from as usize..end).find(is_keyword)
            } else {
                let start = argv.len().checked_sub(start_from.unsigned_abs().into())?;
                (2..end.min(start + 1)).rev().find(is_keyword)
            };
            at.map(|at| at + 1)
        }
    }
}

/// The last key's argument, which may be beyond `argc`.
fn last_of_range(begin: usize, last: i16, limit: u16, argc: usize) -> i64 {
    if last >= 0 {
        begin as i64 + i64::from(last)
    } else if limit <= 1 {
        argc as i64 + i64::from(last)
    } else {
        begin as i64 + (argc as i64 - begin as i64) / i64::from(limit) + i64::from(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::spec::{Spec, unreached};

    const STREAMS: KeySpec = KeySpec::new(
        "RO",
        BeginSearch::Keyword { keyword: "STREAMS", start_from: 1 },
        FindKeys::Range { last: -1, step: 1, limit: 2 },
    );
    const FROM_END: KeySpec = KeySpec::new(
        "RW",
        BeginSearch::Keyword { keyword: "KEYS", start_from: -2 },
        FindKeys::Range { last: -1, step: 1, limit: 0 },
    );
    static SPECS: &[Spec] = &[
        Spec::connection("ping", "1.0.0", -1, "", unreached),
        Spec::string("mset", "1.0.1", -3, "", unreached).keys(&[KeySpec::keys("OW update", 1, -1, 2)]),
        Spec::pubsub("spublish", "7.0.0", 3, "", unreached).key("not_key"),
        Spec::scripting("eval", "2.6.0", -3, "no_mandatory_keys", unreached).keys(&[KeySpec::numkeys("RW", 2)]),
        Spec::sorted_set("zunionstore", "2.0.0", -4, "", unreached)
            .keys(&[KeySpec::key("OW"), KeySpec::numkeys("RO", 2)]),
        Spec::stream("xread", "5.0.0", -4, "", unreached).keys(&[STREAMS]),
        Spec::generic("migrate", "2.6.0", -6, "", unreached).keys(&[FROM_END]),
    ];

    fn keys(call: &str) -> Result<Vec<String>, CommandError> {
        let argv: Vec<&[u8]> = call.split(' ').map(str::as_bytes).collect();
        let name = |key: KeyRef| String::from_utf8_lossy(argv[key.index]).into_owned();
        let table = CommandTable::new(&[SPECS]);
        keys_of_call(&table, argv.as_slice()).map(|keys| keys.into_iter().map(name).collect())
    }

    #[test]
    fn key_specs_of_all_kinds_find_their_keys() {
        assert_eq!(keys("MSET a 1 b 2").unwrap(), ["a", "b"]);
        assert_eq!(keys("EVAL s 2 a b c").unwrap(), ["a", "b"]);
        assert_eq!(keys("ZUNIONSTORE d 2 a b WEIGHTS 1 2").unwrap(), ["d", "a", "b"]);
        assert_eq!(keys("XREAD COUNT 5 streams a b 1 2").unwrap(), ["a", "b"]);
        assert_eq!(keys("MIGRATE h p x 0 1 KEYS a b").unwrap(), ["a", "b"]);
    }

    #[test]
    fn calls_without_keys_are_answered_as_redis_does() {
        assert_eq!(keys("FOO a"), Err(INVALID_COMMAND));
        assert_eq!(keys("PING a"), Err(NO_KEY_ARGUMENTS));
        assert_eq!(keys("SPUBLISH a b"), Err(NO_KEY_ARGUMENTS));
        assert_eq!(keys("MSET a"), Err(INVALID_NUMBER_OF_ARGUMENTS));
        for wrong in ["ZUNIONSTORE d 3 a b", "ZUNIONSTORE d 0 a", "ZUNIONSTORE d x a", "XREAD COUNT 5 a"] {
            assert_eq!(keys(wrong), Err(INVALID_ARGUMENTS), "{wrong}");
        }
        assert_eq!(keys(&format!("ZUNIONSTORE d {} a", i64::MAX)), Err(INVALID_ARGUMENTS));
        for none in ["EVAL s 0", "EVAL s x a", "EVAL s 5 a", "EVAL s -1"] {
            assert_eq!(keys(none).unwrap(), [""; 0], "{none}");
        }
    }
}
