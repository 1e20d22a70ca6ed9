//! The rights of a client as the thread that executes its commands has them.

use std::sync::Arc;

use crate::users::directory::Users;
use crate::users::rights::Rights;

/// Rights that are up to date as of an epoch of all users.
#[derive(Default)]
pub(crate) struct Held {
    /// 0: before all users.
    epoch: u64,
    /// `None`: everything is allowed.
    rights: Option<Arc<Rights>>,
}

impl Held {
    /// Whether rights have changed since.
    #[inline]
    pub(crate) fn are_old(&self, users: &Users) -> bool {
        self.epoch != users.epoch()
    }

    /// What is allowed; `None`: everything.
    #[inline]
    pub(crate) fn limits(&self) -> Option<&Arc<Rights>> {
        self.rights.as_ref()
    }

    /// Takes over the rights that `now` returns; tells whether they are limited.
    pub(crate) fn renew(&mut self, users: &Users, now: impl FnOnce() -> Arc<Rights>) -> bool {
        // Before the rights are read: those that are newer are read again.
        self.epoch = users.epoch();
        let rights = now();
        self.rights = (!rights.is_unrestricted()).then_some(rights);
        self.rights.is_some()
    }
}
