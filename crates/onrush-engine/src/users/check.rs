//! Whether a user may execute a command.

use std::hint::cold_path;

use crate::batch::argv::{Arguments, Argv};
use crate::command::Flags;
use crate::command::find_keys::add_keys;
use crate::command::key_spec::{KeyRef, KeyRefs};
use crate::command::spec::Channels;
use crate::command::table::Command;
use crate::formats::glob::glob_match;
use crate::users::glances::Glance;
use crate::users::rights::Rights;
use crate::users::selector::{Access, Selector};

/// What a user may not: run a command, or touch the key or channel that is this argument. Of several selectors the
/// denial counts that is greatest: the selector got furthest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Denied {
    /// The command itself.
    Command,
    /// A key.
    Key(usize),
    /// A channel, or a pattern of channels.
    Channel(usize),
}

impl Rights {
    /// Whether a command with these arguments is allowed. O(selectors x (keys x patterns)).
    ///
    /// # Errors
    /// What is not.
    pub(crate) fn check<A: Arguments + ?Sized>(&self, command: &Command, argv: &A) -> Result<(), Denied> {
        if self.is_unrestricted() {
            return Ok(());
        }
        let call = Call::new(command, argv, self.selectors().iter().all(|selector| selector.all_keys));
        let mut denied = Denied::Command;
        for selector in self.selectors() {
            match selector.check(&call) {
                Ok(()) => return Ok(()),
                Err(more) => denied = denied.max(more),
            }
        }
        cold_path();
        Err(denied)
    }

    /// Whether a command with these arguments is allowed at a glance; if not, [`Rights::check`] decides. O(keys x
    /// patterns).
    #[inline]
    pub(crate) fn allow_at_a_glance(&self, command: &Command, argv: &Argv<'_>) -> bool {
        match self.glances().of(command.id) {
            Glance::Unclear => false,
            Glance::Allowed => true,
            Glance::OnKeys(access) => command.plan.is_some_and(|keys| {
                let selector = &self.selectors()[0];
                keys.indexes(argv.len()).all(|at| selector.may_use_key(argv.get(at), access))
            }),
        }
    }

    /// Whether a command with these arguments is allowed by a selector that allows reading all keys.
    pub(crate) fn may_read_all_keys<A: Arguments + ?Sized>(&self, command: &Command, argv: &A) -> bool {
        let call = Call::new(command, argv, false);
        self.is_unrestricted()
            || self.selectors().iter().any(|selector| selector.reads_all_keys() && selector.check(&call).is_ok())
    }

    /// Whether all channels of other rights may be heard, as far as the patterns are the same.
    pub(super) fn hears_all_of(&self, other: &Self) -> bool {
        let hears_all = |rights: &Self| rights.selectors().iter().any(|selector| selector.all_channels);
        let patterns = |rights: &Self| -> Vec<Box<[u8]>> {
            rights.selectors().iter().flat_map(|selector| selector.channels.iter().cloned()).collect()
        };
        let own = patterns(self);
        hears_all(self) || !hears_all(other) && patterns(other).iter().all(|pattern| own.contains(pattern))
    }

    /// Whether messages of a channel may be heard. `is_pattern`: it is a pattern of channels.
    pub(crate) fn may_hear(&self, channel: &[u8], is_pattern: bool) -> bool {
        self.selectors().iter().any(|selector| selector.may_use_channel(channel, is_pattern))
    }
}

/// A command with its arguments.
struct Call<'a, A: ?Sized> {
    command: &'a Command,
    argv: &'a A,
    keys: KeyRefs,
}

impl<'a, A: Arguments + ?Sized> Call<'a, A> {
    #[inline]
    fn new(command: &'a Command, argv: &'a A, needs_no_keys: bool) -> Self {
        let mut keys = KeyRefs::new();
        if !needs_no_keys {
            // A call whose keys cannot all be found will fail; those that were found are checked.
            let _ = add_keys(command, argv, &mut keys);
        }
        Self { command, argv, keys }
    }
}

impl Selector {
    fn check<A: Arguments + ?Sized>(&self, call: &Call<'_, A>) -> Result<(), Denied> {
        let Call { command, argv, keys } = call;
        let first_arg = (argv.len() > 1 && command.parent.is_none()).then(|| argv.get(1));
        if !self.allows_command(command, first_arg) {
            return Err(Denied::Command);
        }
        if !self.all_keys {
            let is_denied = |key: &&KeyRef| !self.may_use_key(argv.get(key.index), Access::of(key.flags));
            if let Some(key) = keys.iter().find(is_denied) {
                return Err(Denied::Key(key.index));
            }
        }
        if !self.all_channels
            && let Some(channels) = command.spec.channels
        {
            return self.check_channels(channels, *argv);
        }
        Ok(())
    }

    #[cold]
    fn check_channels<A: Arguments + ?Sized>(&self, channels: Channels, argv: &A) -> Result<(), Denied> {
        let (places, is_pattern) = match channels {
            Channels::First => (1..2, false),
            Channels::All => (1..argv.len(), false),
            Channels::Patterns => (1..argv.len(), true),
        };
        let denied = places.into_iter().find(|&at| !self.may_use_channel(argv.get(at), is_pattern));
        denied.map_or(Ok(()), |at| Err(Denied::Channel(at)))
    }

    /// Whether a command is allowed whatever its keys and channels are.
    #[inline]
    pub(super) fn allows_command(&self, command: &Command, first_arg: Option<&[u8]>) -> bool {
        command.flags.contains(Flags::NO_AUTH) || self.commands.allow(command.id, first_arg)
    }

    #[inline]
    pub(super) fn may_use_key(&self, key: &[u8], access: Access) -> bool {
        self.keys.iter().any(|known| known.access.contains(access) && known.matches(key))
    }

    /// A pattern is allowed only if the rules have the same one.
    fn may_use_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        let is_it = |known: &[u8]| if is_pattern { known == channel } else { glob_match(known, channel, false) };
        self.all_channels || self.channels.iter().any(|known| is_it(known))
    }

    fn reads_all_keys(&self) -> bool {
        self.all_keys || self.keys.iter().any(|known| known.access.contains(Access::READ) && *known.pattern == *b"*")
    }
}
