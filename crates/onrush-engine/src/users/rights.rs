//! What a user may do, and how it logs in.

use std::hint::black_box;

use crate::formats::sha256;
use crate::users::glances::Glances;
use crate::users::rule_error::RuleError;
use crate::users::selector::Selector;

/// The rules of a user. They do not change; a user gets others instead.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    pub(super) is_on: bool,
    /// Whether any password will do.
    pub(super) no_password: bool,
    /// As asked; payloads are checked whoever sends them.
    pub(super) sanitizes: bool,
    /// SHA-256 of the passwords in hexadecimal digits, in the order they were added.
    pub(super) passwords: Vec<Box<[u8]>>,
    /// The first is the one that rules apply to.
    pub(super) selectors: Vec<Selector>,
    /// As long as the first selector allows everything, nothing needs to be checked.
    is_unrestricted: bool,
    /// Of the first selector, once the rights are complete.
    pub(super) glances: Glances,
}

impl Rights {
    /// Those of a user that is new: none. `all_channels`: `acl-pubsub-default`; `len`: how many commands there are.
    pub(crate) fn none(len: usize, all_channels: bool) -> Self {
        Self { sanitizes: true, selectors: vec![Selector::none(len, all_channels)], ..Self::default() }
    }

    /// All rights, without a password.
    pub(crate) fn all(len: usize) -> Self {
        let mut rights = Self::none(len, true);
        (rights.is_on, rights.no_password) = (true, true);
        rights.selectors[0].all_keys = true;
        rights.selectors[0].commands.set_all(true);
        rights.is_unrestricted = true;
        rights
    }

    /// Brings what follows from the selectors up to date.
    pub(super) fn look(&mut self) {
        self.is_unrestricted = self.selectors.iter().any(Selector::is_unrestricted);
    }

    /// One password instead of all others; an empty one stands for none at all.
    pub(crate) fn set_password(&mut self, password: &[u8]) {
        self.passwords.clear();
        self.no_password = password.is_empty();
        if !password.is_empty() {
            self.passwords.push(sha256::hex(password).into_bytes().into());
        }
    }

    pub(super) fn add_password(&mut self, digest: &[u8]) {
        self.no_password = false;
        if !self.passwords.iter().any(|known| **known == *digest) {
            self.passwords.push(digest.into());
        }
    }

    pub(super) fn remove_password(&mut self, digest: &[u8]) -> Result<(), RuleError> {
        let at = self.passwords.iter().position(|known| **known == *digest).ok_or(RuleError::NoSuchPassword)?;
        self.passwords.remove(at);
        Ok(())
    }

    /// What is allowed at a glance.
    #[inline]
    pub(super) fn glances(&self) -> &Glances {
        &self.glances
    }

    /// Whether every command on every key and channel is allowed.
    #[inline]
    pub(crate) fn is_unrestricted(&self) -> bool {
        self.is_unrestricted
    }

    /// Whether the user may log in.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Whether any password will do.
    pub(crate) fn needs_no_password(&self) -> bool {
        self.no_password
    }

    /// Whether the user may log in with a password that has this digest, in hexadecimal digits. The time that this takes
    /// does not depend on the digits.
    pub(crate) fn admits(&self, digest: &[u8]) -> bool {
        let is_known = self.passwords.iter().fold(false, |found, known| found | same_secret(known, digest));
        self.is_on & (self.no_password | is_known)
    }

    /// Digests of the passwords.
    pub(crate) fn passwords(&self) -> &[Box<[u8]>] {
        &self.passwords
    }

    /// All selectors; there is at least one.
    pub(crate) fn selectors(&self) -> &[Selector] {
        &self.selectors
    }

    /// The words of ACL GETUSER for what is not in a selector.
    pub(crate) fn flags(&self) -> impl Iterator<Item = &'static str> {
        let words = [
            (true, if self.is_on { "on" } else { "off" }),
            (self.no_password, "nopass"),
            (true, if self.sanitizes { "sanitize-payload" } else { "skip-sanitize-payload" }),
        ];
        words.into_iter().filter(|(is_set, _)| *is_set).map(|(_, word)| word)
    }

    /// The rules from which the same rights come.
    pub(crate) fn describe(&self) -> Vec<u8> {
        let mut text = Vec::new();
        for flag in self.flags() {
            text.extend_from_slice(flag.as_bytes());
            text.push(b' ');
        }
        for digest in &self.passwords {
            text.push(b'#');
            text.extend_from_slice(digest);
            text.push(b' ');
        }
        let [first, more @ ..] = &*self.selectors else { return text };
        first.describe(&mut text);
        for selector in more {
            text.extend_from_slice(b" (");
            selector.describe(&mut text);
            text.push(b')');
        }
        text
    }
}

/// Whether two digests are equal. Takes as long for any two of them.
fn same_secret(known: &[u8], given: &[u8]) -> bool {
    let differs = known.iter().zip(given).fold(0, |differs, (a, b)| differs | black_box(a ^ b));
    known.len() == given.len() && black_box(differs) == 0
}
