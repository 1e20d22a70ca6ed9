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
        if let Err(problem) = parse_line(users, table, line, &mut found) {
            problems.push_str(&problem.text(path, at + 1));
        }
    }
    if problems.is_empty() {
        return Ok(found);
    }
    problems.push_str("WARNING: ACL errors detected, no change to the previously active ACL rules was performed");
    Err(problems)
}

enum Problem {
    NoUser,
    BadName(String),
    Twice(String),
    Unmatched,
    Rule(String, RuleError),
}

impl Problem {
    fn text(&self, path: &str, line: usize) -> String {
        match self {
            Self::NoUser => format!("{path}:{line} should start with user keyword followed by the username. "),
            Self::BadName(name) => format!("{path}:{line}: username '{name}' contains invalid characters. "),
            Self::Twice(name) => format!("WARNING: Duplicate user '{name}' found on line {line}. "),
            Self::Unmatched => format!("{path}:{line}: Unmatched parenthesis in selector definition."),
            Self::Rule(rule, error @ RuleError::UnknownCommand) => {
                format!("{path}:{line}: Error in applying operation '{rule}': {error}. ")
            }
            Self::Rule(_, error) => format!("{path}:{line}: {error}. "),
        }
    }
}

fn parse_line(
    users: &Users,
    table: &CommandTable,
    line: &[u8],
    found: &mut BTreeMap<Vec<u8>, Rights>,
) -> Result<(), Problem> {
    let mut words = line.split(|&byte| byte == b' ');
    let (Some(b"user"), Some(name)) = (words.next(), words.next()) else { return Err(Problem::NoUser) };
    let shown = || String::from_utf8_lossy(name).into_owned();
    if !is_name(name) {
        return Err(Problem::BadName(shown()));
    } else if found.contains_key(name) {
        return Err(Problem::Twice(shown()));
    }
    let mut rights = users.no_rights();
    // Also a user whose rules are wrong must not come twice.
    found.insert(name.to_vec(), users.no_rights());
    for rule in merge_selectors(words.map(<[u8]>::trim_ascii)).map_err(|_| Problem::Unmatched)? {
        users
            .apply(&mut rights, table, &rule)
            .map_err(|error| Problem::Rule(String::from_utf8_lossy(&rule).into_owned(), error))?;
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
