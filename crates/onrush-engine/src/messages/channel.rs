//! A channel or a pattern with subscribers.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::kind::Kind;
use super::subscribers::Subscribers;
use crate::clients::client::ClientHandle;
use crate::formats::glob::match_within;

/// A channel or a pattern with subscribers.
pub(crate) struct Channel {
    pub(super) kind: Kind,
    /// Its name, or the pattern.
    pub name: Arc<[u8]>,
    /// The length of the pattern's literal beginning, in bytes.
    plain_len: usize,
    pub(super) subscribers: Mutex<Subscribers>,
}

impl Channel {
    fn new(kind: Kind, name: &[u8]) -> Self {
        let plain_len = name.iter().position(|byte| b"*?[\\".contains(byte)).unwrap_or(name.len());
        Self { kind, name: name.into(), plain_len, subscribers: Mutex::new(Subscribers::None) }
    }

    /// Those who hear it now.
    pub(crate) fn subscribers(&self) -> impl Iterator<Item = Arc<ClientHandle>> {
        let subscribers: Vec<_> = self.subscribers.lock().iter().cloned().collect();
        subscribers.into_iter()
    }

    /// Whether the pattern matches a channel's name, within so many steps.
    pub(super) fn takes(&self, name: &[u8], steps: &mut usize) -> bool {
        name.starts_with(&self.name[..self.plain_len]) && match_within(&self.name, name, false, steps)
    }
}

/// Hashes names with a seed.
#[derive(Clone, Copy)]
pub(super) struct NameHash(pub(super) u64);

/// The state of [`NameHash`].
pub(super) struct NameHasher(u64);

impl BuildHasher for NameHash {
    type Hasher = NameHasher;

    fn build_hasher(&self) -> NameHasher {
        NameHasher(self.0)
    }
}

impl Hasher for NameHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh3_64_with_seed(bytes, self.0);
    }

    /// The length of a name adds nothing to its bytes.
    fn write_usize(&mut self, _: usize) {}

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Channels by their names.
pub(super) type Names = HashMap<Arc<[u8]>, Arc<Channel>, NameHash>;

/// Room for this many names is kept even if there are few.
const KEPT_NAMES_MAX: usize = 256;

/// Adds a client to the subscribers of a channel among others, which holds the channel then.
pub(super) fn join(names: &mut Names, kind: Kind, name: &[u8], client: &Arc<ClientHandle>) -> Arc<Channel> {
    let channel = match names.get(name) {
        Some(known) => Arc::clone(known),
        None => {
            let channel = Arc::new(Channel::new(kind, name));
            names.insert(Arc::clone(&channel.name), Arc::clone(&channel));
            channel
        }
    };
    channel.subscribers.lock().add(client);
    channel
}

/// Takes a client out of the subscribers of a channel, and the channel out of its map when it was the last one.
pub(super) fn leave(names: &mut Names, channel: &Channel, client: &ClientHandle) {
    let is_empty = {
        let mut subscribers = channel.subscribers.lock();
        subscribers.remove(client.id);
        subscribers.len() == 0
    };
    if is_empty {
        names.remove(&*channel.name);
        shrink(names);
    }
}

/// Gives back memory that many names needed, in steps with constant work per removed name.
pub(super) fn shrink(names: &mut Names) {
    if names.capacity() > KEPT_NAMES_MAX && names.len() < names.capacity() / 8 {
        names.shrink_to(names.len() * 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_takes_what_its_glob_matches() {
        for (pattern, name, takes) in [
            ("a*", "abc", true),
            ("ab?", "abc", true),
            ("x*", "abc", false),
            ("abc", "abc", true),
            ("\\a*", "ab", true),
            ("*", "", true),
        ] {
            assert_eq!(
                Channel::new(Kind::Pattern, pattern.as_bytes()).takes(name.as_bytes(), &mut 100),
                takes,
                "{pattern} {name}"
            );
        }
    }
}
