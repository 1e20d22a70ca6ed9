//! A selector: commands together with the keys and channels on which they are allowed.

use crate::command::key_spec::KeyFlags;
use crate::formats::glob::glob_match;
use crate::users::commands::AllowedCommands;

bitflags::bitflags! {
    /// What is done to a key.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Access: u8 {
        /// Its value is read.
        const READ = 1 << 0;
        /// Its value is changed.
        const WRITE = 1 << 1;
    }
}

impl Access {
    /// What a command needs that does this with a key. A look at whether the key exists needs nothing but its name.
    #[inline]
    pub(crate) fn of(flags: KeyFlags) -> Self {
        let mut access = Self::empty();
        access.set(Self::READ, flags.contains(KeyFlags::ACCESS));
        access.set(Self::WRITE, flags.intersects(KeyFlags::INSERT | KeyFlags::DELETE | KeyFlags::UPDATE));
        access
    }
}

/// Keys that match a glob pattern, and what is allowed on them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyPattern {
    pub(crate) access: Access,
    pub(crate) pattern: Box<[u8]>,
    /// Whether it is a text without special characters, followed by one star.
    is_prefix: bool,
}

impl KeyPattern {
    pub(super) fn new(access: Access, pattern: &[u8]) -> Self {
        let is_prefix = pattern.iter().position(|byte| b"*?[\\".contains(byte)) == pattern.len().checked_sub(1)
            && pattern.ends_with(b"*");
        Self { access, pattern: pattern.into(), is_prefix }
    }

    /// Whether it matches a key.
    #[inline]
    pub(super) fn matches(&self, key: &[u8]) -> bool {
        if self.is_prefix {
            return key.starts_with(&self.pattern[..self.pattern.len() - 1]);
        }
        glob_match(&self.pattern, key, false)
    }
}

/// What one part of a user's rules allows. A command is allowed if one selector allows all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Selector {
    pub(crate) commands: AllowedCommands,
    pub(crate) all_keys: bool,
    /// Empty if `all_keys`.
    pub(crate) keys: Vec<KeyPattern>,
    pub(crate) all_channels: bool,
    /// Glob patterns; empty if `all_channels`.
    pub(crate) channels: Vec<Box<[u8]>>,
}

impl Selector {
    /// Allows nothing but all channels, if `all_channels`. `len`: how many commands there are.
    pub(crate) fn none(len: usize, all_channels: bool) -> Self {
        let commands = AllowedCommands::none(len);
        Self { commands, all_keys: false, keys: Vec::new(), all_channels, channels: Vec::new() }
    }

    /// Whether it allows everything.
    pub(crate) fn is_unrestricted(&self) -> bool {
        self.commands.are_all() && self.all_keys && self.all_channels
    }

    /// The patterns of keys as rules, separated by spaces.
    pub(crate) fn keys_text(&self) -> Vec<u8> {
        if self.all_keys {
            return b"~*".to_vec();
        }
        let mut text = Vec::new();
        for KeyPattern { access, pattern, .. } in &self.keys {
            let prefix: &[u8] = match *access {
                Access::READ => b"%R~",
                Access::WRITE => b"%W~",
                _ => b"~",
            };
            text.extend_from_slice(prefix);
            text.extend_from_slice(pattern);
            text.push(b' ');
        }
        text.pop();
        text
    }

    /// The patterns of channels as rules, separated by spaces.
    pub(crate) fn channels_text(&self) -> Vec<u8> {
        if self.all_channels {
            return b"&*".to_vec();
        }
        self.channels.iter().map(|pattern| [b"&", &**pattern].concat()).collect::<Vec<_>>().join(&b' ')
    }

    /// The rules for commands.
    pub(crate) fn commands_text(&self) -> Vec<u8> {
        let mut text = Vec::new();
        self.commands.describe(&mut text);
        text
    }

    /// Appends the rules from which the same selector comes.
    pub(crate) fn describe(&self, text: &mut Vec<u8>) {
        let keys = self.keys_text();
        if !keys.is_empty() {
            text.extend_from_slice(&keys);
            text.push(b' ');
        }
        if !self.all_channels {
            // Channels would be those of `acl-pubsub-default` otherwise.
            text.extend_from_slice(b"resetchannels ");
        }
        let channels = self.channels_text();
        if !channels.is_empty() {
            text.extend_from_slice(&channels);
            text.push(b' ');
        }
        self.commands.describe(text);
    }
}
