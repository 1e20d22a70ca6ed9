//! Rows of the command table: the sort commands.

use crate::batch::argv::Arguments;
use crate::command::key_spec::{Invalid, KeyRef};
use crate::command::spec::{KeySpec, Spec, categories, flags, key_flags};

/// The sort commands.
pub static SPECS: &[Spec] = &[
    Spec {
        name: "sort",
        arity: -2,
        flags: flags("write denyoom other_keys"),
        keys: &[KeySpec::key("RO access"), KeySpec::unknown("RO access"), KeySpec::unknown("OW update")],
        categories: categories("not_of_group dangerous list set sortedset"),
        complexity: "O(N + M log M), N elements, M of them returned",
        summary: "Sorts the elements of a list, set or sorted set, and stores them if asked to.",
        syntax: "key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC | DESC] [ALPHA] [STORE destination]",
        handler: crate::commands::keys::sort::sort,
        get_keys: Some(sort_keys),
        ..Spec::DEFAULT
    },
    Spec {
        name: "sort_ro",
        arity: -2,
        flags: flags("readonly other_keys"),
        keys: &[KeySpec::key("RO access"), KeySpec::unknown("RO access")],
        categories: categories("not_of_group dangerous list set sortedset"),
        since: "7.0.0",
        complexity: "O(N + M log M), N elements, M of them returned",
        summary: "Sorts the elements of a list, set or sorted set.",
        syntax: "key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC | DESC] [ALPHA]",
        handler: crate::commands::keys::sort::sort_ro,
        get_keys: Some(sort_ro_keys),
        ..Spec::DEFAULT
    },
];

/// The key that is sorted; the keys in patterns are unknown.
fn sort_ro_keys(_: &dyn Arguments, found: &mut Vec<KeyRef>) -> Result<(), Invalid> {
    found.push(KeyRef { index: 1, flags: key_flags("RO access") });
    Ok(())
}

/// As for SORT_RO, and the last destination.
fn sort_keys(argv: &dyn Arguments, found: &mut Vec<KeyRef>) -> Result<(), Invalid> {
    sort_ro_keys(argv, found)?;
    let mut index = 2;
    let mut store = None;
    while index < argv.len() {
        let is = |word: &[u8]| argv.get(index).eq_ignore_ascii_case(word);
        if is(b"STORE") && index + 1 < argv.len() {
            store = Some(index + 1);
            index += 1;
        } else if is(b"LIMIT") {
            index += 2;
        } else if is(b"GET") || is(b"BY") {
            index += 1;
        }
        index += 1;
    }
    found.extend(store.map(|index| KeyRef { index, flags: key_flags("OW update") }));
    Ok(())
}
