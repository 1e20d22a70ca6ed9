//! Rows of the command table: the sort commands.

use crate::batch::argv::Arguments;
use crate::command::key_spec::{Invalid, KeyRef, KeyRefs};
use crate::command::spec::{KeySpec, Spec, key_flags};
use crate::commands::keys::sort;

/// The sort commands.
pub(crate) static SPECS: &[Spec] = &[
    Spec::generic("sort", "1.0.0", -2, "write denyoom other_keys", sort::sort)
        .syntax(
            "key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC | DESC] [ALPHA] \
             [STORE destination]",
        )
        .summary("Sorts the elements of a list, set or sorted set, and stores them if asked to.")
        .complexity("O(N + M log M), N elements, M of them returned")
        .keys(&[KeySpec::key("RO access"), KeySpec::unknown("RO access"), KeySpec::unknown("OW update")])
        .get_keys(sort_keys)
        .categories("not_of_group dangerous list set sortedset"),
    Spec::generic("sort_ro", "7.0.0", -2, "readonly other_keys", sort::sort)
        .syntax("key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC | DESC] [ALPHA]")
        .summary("Sorts the elements of a list, set or sorted set.")
        .complexity("O(N + M log M), N elements, M of them returned")
        .keys(&[KeySpec::key("RO access"), KeySpec::unknown("RO access")])
        .get_keys(sort_ro_keys)
        .categories("not_of_group dangerous list set sortedset"),
];

/// The key that is sorted; the keys in patterns are unknown.
fn sort_ro_keys(_: &dyn Arguments, found: &mut KeyRefs) -> Result<(), Invalid> {
    found.push(KeyRef { index: 1, flags: key_flags("RO access") });
    Ok(())
}

/// As for SORT_RO, and the last destination.
fn sort_keys(argv: &dyn Arguments, found: &mut KeyRefs) -> Result<(), Invalid> {
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
