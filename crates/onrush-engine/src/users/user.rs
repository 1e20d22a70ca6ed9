//! A user.

use std::sync::Arc;

use parking_lot::RwLock;

use crate::users::rights::Rights;

/// The user of a client that has not said who it is.
pub(crate) const DEFAULT_USER: &[u8] = b"default";

/// A user.
#[derive(Debug)]
pub struct User {
    name: Box<[u8]>,
    rights: RwLock<Arc<Rights>>,
}

impl User {
    pub(super) fn new(name: &[u8], rights: Rights) -> Arc<Self> {
        Arc::new(Self { name: name.into(), rights: RwLock::new(Arc::new(rights)) })
    }

    /// The server itself, for commands that no client sends: it may do everything. Not one of `Users`.
    pub fn server() -> Arc<Self> {
        Self::new(DEFAULT_USER, Rights::all(0))
    }

    /// Its name.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Its line in the ACL file.
    pub fn line(&self) -> Vec<u8> {
        [b"user ", self.name(), b" ", &*self.rights().describe()].concat()
    }

    /// Its present rights.
    pub(crate) fn rights(&self) -> Arc<Rights> {
        Arc::clone(&self.rights.read())
    }

    /// Whether it may hear messages of a channel. `is_pattern`: it is a pattern of channels.
    pub(crate) fn may_hear(&self, channel: &[u8], is_pattern: bool) -> bool {
        self.rights().may_hear(channel, is_pattern)
    }

    pub(super) fn replace(&self, rights: Rights) {
        *self.rights.write() = Arc::new(rights);
    }
}
