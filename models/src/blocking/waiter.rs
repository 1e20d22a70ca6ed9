//! A client that waits for one key, and is told a number.

use std::ops::Range;
use std::sync::Arc;

use super::state::StateLock;
use crate::clients::client::ClientHandle;
use crate::sync::Bell;

/// Kinds of values: those that the table of waiters tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitsFor {
    List,
    Group,
}

pub(super) struct Awaited {
    pub(super) db: u32,
    pub(super) range: Range<usize>,
    pub(super) what: WaitsFor,
    pub(super) ticket: u64,
}

/// See the module's text.
pub struct Waiter {
    pub(super) client: Arc<ClientHandle>,
    pub(super) awaited: Awaited,
    pub(super) state: StateLock<usize>,
    /// Wakes its connection.
    pub(super) bell: Bell,
}

impl Waiter {
    pub(super) fn awaited(&self) -> Option<&Awaited> {
        Some(&self.awaited)
    }

    pub(super) fn key(&self, _index: usize) -> &[u8] {
        super::model::KEY
    }
}
