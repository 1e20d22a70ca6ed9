//! Subscriptions that a new link makes again.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Sleep;

use crate::connection::queue::Shared;
use crate::connection::subscriptions::Resubscription;
use crate::error::ServerError;
use crate::link::backoff::Backoff;
use crate::values::value::{PushInfo, PushKind};

/// The shortest wait before a subscription is asked for again: servers refuse at once.
const WAIT_MIN: Duration = Duration::from_millis(1);

/// The subscriptions of earlier links that this one has not settled yet. One is settled when the server confirms it, or
/// refuses it with an error that does not pass by itself.
#[derive(Debug, Default)]
pub(crate) struct Unsettled {
    pub count: usize,
    /// Those that the server has refused for now, such as while a script runs.
    refused: Vec<Resubscription>,
    attempts: u32,
    wait: Option<Pin<Box<Sleep>>>,
}

impl Unsettled {
    /// Notes one that is settled.
    pub(crate) fn settle(&mut self, shared: &Shared) {
        if self.count == 0 {
            return;
        }
        self.count -= 1;
        if self.count == 0 {
            shared.outlet.send(PushInfo { kind: PushKind::Resubscribed, data: Vec::new() });
        }
    }

    /// Notes one that the server has refused.
    pub(crate) fn refuse(&mut self, shared: &Shared, kind: &PushKind, name: Box<[u8]>, why: &ServerError) {
        match Resubscription::of(kind, name.clone()).filter(|_| why.is_passing()) {
            Some(refused) => self.refused.push(refused),
            None => {
                shared.lose_subscription(kind, name, why.clone());
                self.settle(shared);
            }
        }
    }

    /// Those to ask for again now, without those that their user has ended meanwhile. Pending while none is refused, or
    /// it is too early.
    pub(crate) fn poll_again(
        &mut self,
        shared: &Shared,
        backoff: &Backoff,
        cx: &mut Context<'_>,
    ) -> Poll<Vec<Resubscription>> {
        if self.refused.is_empty() {
            return Poll::Pending;
        }
        let attempts = &mut self.attempts;
        let wait = self.wait.get_or_insert_with(|| {
            *attempts = attempts.saturating_add(1);
            Box::pin(tokio::time::sleep(backoff.wait(*attempts).max(WAIT_MIN)))
        });
        std::task::ready!(wait.as_mut().poll(cx));
        self.wait = None;
        let (wanted, ended): (Vec<_>, Vec<_>) =
            self.refused.drain(..).partition(|refused| shared.is_subscribed(&refused.kind, &refused.name));
        ended.iter().for_each(|_| self.settle(shared));
        Poll::Ready(wanted)
    }
}
