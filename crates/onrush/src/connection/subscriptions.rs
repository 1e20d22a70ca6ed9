//! The subscriptions of a connection.

use std::collections::BTreeSet;

use crate::values::encode::encoded;
use crate::values::value::PushKind;

/// The subscriptions that the server has confirmed, kept to make them again after a reconnect.
#[derive(Debug, Default, Clone)]
pub(crate) struct Subscriptions {
    channels: BTreeSet<Vec<u8>>,
    patterns: BTreeSet<Vec<u8>>,
    shard_channels: BTreeSet<Vec<u8>>,
}

/// A command that begins or ends subscriptions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Change<'a> {
    /// `SUBSCRIBE` or a similar command, in capitals.
    pub command: &'static str,
    pub targets: &'a [&'a [u8]],
}

/// A command that subscribes to one thing again, and what confirms it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Resubscription {
    pub bytes: Vec<u8>,
    pub kind: PushKind,
    pub name: Box<[u8]>,
}

impl Change<'_> {
    /// The command as it goes over the wire.
    pub(crate) fn encoded(&self) -> Vec<u8> {
        let args: Vec<&[u8]> = std::iter::once(self.command.as_bytes()).chain(self.targets.iter().copied()).collect();
        encoded(&args)
    }

    /// What confirms each target.
    pub(crate) fn kind(&self) -> PushKind {
        PushKind::from_name(self.command.to_ascii_lowercase().as_bytes())
    }

    fn ends(&self) -> bool {
        self.command.contains("UNSUB")
    }
}

impl Subscriptions {
    /// Notes what the server confirms: a subscription that has begun or ended. O(log n).
    pub(crate) fn confirm(&mut self, kind: &PushKind, name: &[u8]) {
        match kind {
            PushKind::Subscribe => _ = self.channels.insert(name.to_vec()),
            PushKind::PSubscribe => _ = self.patterns.insert(name.to_vec()),
            PushKind::SSubscribe => _ = self.shard_channels.insert(name.to_vec()),
            PushKind::Unsubscribe => _ = self.channels.remove(name),
            PushKind::PUnsubscribe => _ = self.patterns.remove(name),
            PushKind::SUnsubscribe => _ = self.shard_channels.remove(name),
            _ => {}
        }
    }

    /// Notes the subscriptions that a command ends, before the server confirms it: so they are not made again after a
    /// reconnect. O(log n) for each target.
    pub(crate) fn end(&mut self, change: Change<'_>) {
        if change.ends() {
            let kind = change.kind();
            change.targets.iter().for_each(|target| self.confirm(&kind, target));
        }
    }

    pub(crate) fn has(&self, kind: &PushKind, name: &[u8]) -> bool {
        match kind {
            PushKind::Subscribe => self.channels.contains(name),
            PushKind::PSubscribe => self.patterns.contains(name),
            PushKind::SSubscribe => self.shard_channels.contains(name),
            _ => false,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.channels.is_empty() && self.patterns.is_empty() && self.shard_channels.is_empty()
    }

    /// Commands that make all subscriptions again: one for each, so that the server can refuse them one by one.
    pub(crate) fn commands(&self) -> Vec<Resubscription> {
        let all = [("SUBSCRIBE", &self.channels), ("PSUBSCRIBE", &self.patterns), ("SSUBSCRIBE", &self.shard_channels)];
        let again = |command, name: &Vec<u8>| Resubscription::new(command, name.as_slice().into());
        all.into_iter().flat_map(|(command, names)| names.iter().map(move |name| again(command, name))).collect()
    }
}

impl Resubscription {
    fn new(command: &'static str, name: Box<[u8]>) -> Resubscription {
        let change = Change { command, targets: &[&name] };
        Resubscription { bytes: change.encoded(), kind: change.kind(), name }
    }

    /// The command that subscribes to one thing; `None` for kinds that confirm no subscription.
    pub(crate) fn of(kind: &PushKind, name: Box<[u8]>) -> Option<Resubscription> {
        let command = match kind {
            PushKind::Subscribe => "SUBSCRIBE",
            PushKind::PSubscribe => "PSUBSCRIBE",
            PushKind::SSubscribe => "SSUBSCRIBE",
            _ => return None,
        };
        Some(Resubscription::new(command, name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_confirmed_and_not_ended_is_subscribed_to_again() {
        let mut subscriptions = Subscriptions::default();
        for (kind, name) in [(PushKind::Subscribe, "a"), (PushKind::Subscribe, "b"), (PushKind::PSubscribe, "p")] {
            subscriptions.confirm(&kind, name.as_bytes());
        }
        subscriptions.confirm(&PushKind::SSubscribe, b"s");
        subscriptions.confirm(&PushKind::SUnsubscribe, b"s");
        subscriptions.end(Change { command: "UNSUBSCRIBE", targets: &[b"a"] });
        subscriptions.end(Change { command: "SUBSCRIBE", targets: &[b"c"] });
        let want = |bytes: &[u8], kind, name: &[u8]| Resubscription { bytes: bytes.to_vec(), kind, name: name.into() };
        assert_eq!(
            subscriptions.commands(),
            [
                want(b"*2\r\n$9\r\nSUBSCRIBE\r\n$1\r\nb\r\n", PushKind::Subscribe, b"b"),
                want(b"*2\r\n$10\r\nPSUBSCRIBE\r\n$1\r\np\r\n", PushKind::PSubscribe, b"p"),
            ]
        );
    }
}
