//! Lines of `user`: a name and its rules, as ACL SETUSER takes them.

use std::fmt;

use onrush_engine::command::CommandTable;
use onrush_engine::users::making;
use onrush_engine::users::rule_error::RuleError;

use super::words::Reason;

const DUPLICATE: &str = "Duplicate user found. A user can only be defined once in config files";

/// A user as a line says it.
#[derive(Clone, PartialEq, Eq)]
pub struct UserLine {
    /// Its name.
    pub name: Vec<u8>,
    /// Its rules, each selector as one.
    pub rules: Vec<Vec<u8>>,
    /// Whether the line is in an included file, which CONFIG REWRITE leaves alone.
    pub is_included: bool,
}

impl fmt::Debug for UserLine {
    /// Rules may hold passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "user {} (redacted)", String::from_utf8_lossy(&self.name))
    }
}

/// Reads the words after `user`. Commands that are not known are found out later, when there are users.
///
/// # Errors
/// The name or a rule is wrong, or one of the users in `before` has the name.
pub fn parse(name: &[u8], words: &[Vec<u8>], is_included: bool, before: &[UserLine]) -> Result<UserLine, Reason> {
    let wrong =
        |why: &str| Reason::Owned(format!("Error in user declaration '{}': {why}", String::from_utf8_lossy(name)));
    if before.iter().any(|line| line.name == name) {
        return Err(wrong(DUPLICATE));
    }
    let rules = making::merge(name, words).map_err(wrong)?;
    Ok(UserLine { name: name.to_vec(), rules, is_included })
}

/// Looks whether the rules of a line can be applied.
///
/// # Errors
/// One of them cannot, for another reason than that a command is not known.
pub fn check(line: &UserLine, table: &CommandTable) -> Result<(), Reason> {
    match making::check(table, &line.rules) {
        Err((_, RuleError::UnknownCommand)) | Ok(()) => Ok(()),
        Err((_, error)) => {
            let name = String::from_utf8_lossy(&line.name);
            Err(Reason::Owned(format!("Error in user declaration '{name}': {error}")))
        }
    }
}

/// What CONFIG REWRITE writes about users.
#[derive(Default)]
pub struct UserLines {
    /// The line of each user, by ascending name. `None`: an ACL file has the users, so the configuration has none.
    pub all: Option<Vec<Vec<u8>>>,
    /// The line of the default user if nothing but `requirepass` is known of it: it needs not be written then.
    pub plain_default: Vec<u8>,
}
