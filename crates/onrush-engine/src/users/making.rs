//! Making users from rules: those of commands, of the configuration, and of the ACL file.

use std::collections::BTreeMap;

use crate::command::CommandTable;
use crate::users::directory::{Changed, Users};
use crate::users::file;
use crate::users::rights::Rights;
use crate::users::rule_error::RuleError;
use crate::users::rules::{is_name, merge_selectors};
use crate::users::user::{DEFAULT_USER, User};

/// Puts the words of a user's rules together, each selector to one rule.
///
/// # Errors
/// The name cannot be a user's, or a selector does not end.
pub fn merge(name: &[u8], words: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, &'static str> {
    if !is_name(name) {
        return Err("Usernames can't contain spaces or null characters");
    }
    merge_selectors(words.iter().map(Vec::as_slice)).map_err(|_| "Wrong format")
}

/// Looks whether rules can be applied to a new user.
///
/// # Errors
/// The first rule that cannot, and why.
pub fn check(table: &CommandTable, rules: &[Vec<u8>]) -> Result<(), (usize, RuleError)> {
    let mut rights = Rights::none(table.len(), false);
    let apply =
        |(at, rule): (usize, &Vec<u8>)| rights.apply(table.original(), rule, false).map_err(|error| (at, error));
    rules.iter().enumerate().try_for_each(apply)
}

impl Users {
    /// Applies rules to a user, who is made if there is none of this name: all of them or none.
    ///
    /// # Errors
    /// The rule that is refused, and why.
    pub(crate) fn set(
        &self,
        table: &CommandTable,
        name: &[u8],
        rules: &[Vec<u8>],
    ) -> Result<Changed, (usize, RuleError)> {
        self.change(name, |mut rights| {
            for (at, rule) in rules.iter().enumerate() {
                self.apply(&mut rights, table, rule).map_err(|error| (at, error))?;
            }
            Ok(rights.complete(table.original()))
        })
    }

    /// Applies a rule to rights, as to those of one of the users.
    ///
    /// # Errors
    /// It is no rule, or cannot be applied.
    pub(super) fn apply(&self, rights: &mut Rights, table: &CommandTable, rule: &[u8]) -> Result<(), RuleError> {
        rights.apply(table.original(), rule, self.all_channels())
    }

    /// Replaces all users by these. Without a default user among them, that one may do everything again. Returns all that
    /// there were.
    pub(crate) fn replace_all(&self, table: &CommandTable, new: BTreeMap<Vec<u8>, Rights>) -> Vec<Changed> {
        let complete = |(name, rights): (_, Rights)| (name, rights.complete(table.original()));
        self.replace_users(new.into_iter().map(complete).collect())
    }

    /// Makes a user of a configuration file, or gives the default user other rights.
    ///
    /// # Errors
    /// The rule that cannot be applied, and why.
    pub fn define(&self, table: &CommandTable, name: &[u8], rules: &[Vec<u8>]) -> Result<(), (usize, RuleError)> {
        let from_nothing: Vec<_> = std::iter::once(b"reset".to_vec()).chain(rules.iter().cloned()).collect();
        self.set(table, name, &from_nothing).map_err(|(at, error)| (at - 1, error))?;
        Ok(())
    }

    /// Replaces all users by those of the ACL file at the start.
    ///
    /// # Errors
    /// What is wrong with the text; nothing has changed.
    pub fn load(&self, table: &CommandTable, path: &str, text: &[u8]) -> Result<(), String> {
        self.replace_all(table, file::parse(self, table, path, text)?);
        Ok(())
    }

    /// The line of a default user of whom nothing is known but its password.
    pub fn plain_default(&self, password: &[u8]) -> Vec<u8> {
        let mut rights = Rights::all(self.commands_len());
        rights.set_password(password);
        User::new(DEFAULT_USER, rights).line()
    }
}
