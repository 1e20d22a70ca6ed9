//! The ACL file: a line for each user, as ACL LIST shows it.

use std::collections::BTreeMap;

use crate::command::CommandTable;
use crate::users::directory::Users;
use crate::users::rights::Rights;
use crate::users::rule_error::RuleError;
use crate::users::rules::{is_name, merge_selectors};

/// Reads a file. `path` is for the errors.
///
/// # Errors
/// What is wrong in any of the lines, in the words of Redis.
pub(crate) fn parse(
    users: &Users,
    table: &CommandTable,
    path: &str,
    text: &[u8],
) -> Result<BTreeMap<Vec<u8>, Rights>, String> {
    let mut found = BTreeMap::new();
    let mut problems = String::new();
    for (at, line) in text.split(|&byte| byte == b'\n').enumerate() {
        let line = line.trim_ascii();
        if line.is_empty() {
            continue;
        }
        if let Err(problem) = parse_line(users, table, (path, at + 1), line, &mut found) {
            problems.push_str(&problem);
        }
    }
    if problems.is_empty() {
        return Ok(found);
    }
    problems.push_str("WARNING: ACL errors detected, no change to the previously active ACL rules was performed");
    Err(problems)
}

/// Reads a line of a file; `number` is for the errors.
///
/// # Errors
/// What is wrong, in the words of Redis.
fn parse_line(
    users: &Users,
    table: &CommandTable,
    (path, number): (&str, usize),
    line: &[u8],
    found: &mut BTreeMap<Vec<u8>, Rights>,
) -> Result<(), String> {
    let mut words = line.split(|&byte| byte == b' ');
    let (Some(b"user"), Some(name)) = (words.next(), words.next()) else {
        return Err(format!("{path}:{number} should start with user keyword followed by the username. "));
    };
    let shown = String::from_utf8_lossy(name);
    if !is_name(name) {
        return Err(format!("{path}:{number}: username '{shown}' contains invalid characters. "));
    } else if found.contains_key(name) {
        return Err(format!("WARNING: Duplicate user '{shown}' found on line {number}. "));
    }
    let mut rights = users.no_rights();
    // Also a user whose rules are wrong must not come twice.
    found.insert(name.to_vec(), users.no_rights());
    let rules = merge_selectors(words.map(<[u8]>::trim_ascii));
    for rule in rules.map_err(|_| format!("{path}:{number}: Unmatched parenthesis in selector definition."))? {
        users.apply(&mut rights, table, &rule).map_err(|error| match error {
            RuleError::UnknownCommand => {
                let rule = String::from_utf8_lossy(&rule);
                format!("{path}:{number}: Error in applying operation '{rule}': {error}. ")
            }
            _ => format!("{path}:{number}: {error}. "),
        })?;
    }
    found.insert(name.to_vec(), rights);
    Ok(())
}

/// Why an ACL file cannot be read.
pub fn unreadable(path: &str, error: &std::io::Error) -> String {
    let reason = error.to_string();
    let reason = reason.split(" (os error").next().unwrap_or_default();
    format!("Error loading ACLs, opening file '{path}': {reason}")
}

/// The file of all users.
pub(crate) fn text(users: &Users) -> Vec<u8> {
    let mut text = Vec::new();
    for user in users.all() {
        text.extend_from_slice(&user.line());
        text.push(b'\n');
    }
    text
}
