//! The clients that listen to one channel.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::clients::client::ClientHandle;

/// Clients by their ids; most channels have one. Adding and removing cost O(log clients).
pub(super) enum Subscribers {
    None,
    One(Arc<ClientHandle>),
    Many(BTreeMap<u64, Arc<ClientHandle>>),
}

impl Subscribers {
    pub(super) fn add(&mut self, client: &Arc<ClientHandle>) {
        match self {
            Self::None => *self = Self::One(Arc::clone(client)),
            Self::One(first) if first.id == client.id => {}
            Self::One(first) => {
                let both = [(first.id, Arc::clone(first)), (client.id, Arc::clone(client))];
                *self = Self::Many(both.into());
            }
            Self::Many(clients) => {
                clients.insert(client.id, Arc::clone(client));
            }
        }
    }

    pub(super) fn remove(&mut self, id: u64) {
        match self {
            Self::One(only) if only.id == id => *self = Self::None,
            Self::None | Self::One(_) => {}
            Self::Many(clients) => {
                clients.remove(&id);
                if clients.len() == 1
                    && let Some((_, last)) = clients.pop_first()
                {
                    *self = Self::One(last);
                }
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::None => 0,
            Self::One(_) => 1,
            Self::Many(clients) => clients.len(),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<ClientHandle>> {
        let (one, many) = match self {
            Self::None => (None, None),
            Self::One(only) => (Some(only), None),
            Self::Many(clients) => (None, Some(clients.values())),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }
}
