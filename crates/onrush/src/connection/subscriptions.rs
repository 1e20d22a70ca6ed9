//! The subscriptions of a connection.

use std::collections::BTreeSet;

use crate::values::encode::encoded;
use crate::values::value::PushKind;

/// The commands that subscribe to channels, patterns and shard channels, and what confirms the beginning and the end.
static KINDS: [(&str, PushKind, PushKind); 3] = [
    ("SUBSCRIBE", PushKind::Subscribe, PushKind::Unsubscribe),
    ("PSUBSCRIBE", PushKind::PSubscribe, PushKind::PUnsubscribe),
    ("SSUBSCRIBE", PushKind::SSubscribe, PushKind::SUnsubscribe),
];

/// The kind that confirms the end of a subscription, for the kind that confirms its beginning.
pub(crate) fn end_of(kind: &PushKind) -> Option<PushKind> {
    KINDS.iter().find(|(_, begins, _)| kind == begins).map(|(.., ends)| ends.clone())
}

/// The subscriptions of each kind that the server has confirmed, kept to make them again after a reconnect.
#[derive(Debug, Default, Clone)]
pub(crate) struct Subscriptions([BTreeSet<Vec<u8>>; 3]);

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
        for ((_, begins, ends), names) in KINDS.iter().zip(&mut self.0) {
            if kind == begins {
                names.insert(name.to_vec());
            } else if kind == ends {
                names.remove(name);
            }
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
        KINDS.iter().zip(&self.0).any(|((_, begins, _), names)| kind == begins && names.contains(name))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(BTreeSet::is_empty)
    }

    /// Commands that make all subscriptions again: one for each, so that the server can refuse them one by one.
    pub(crate) fn commands(&self) -> Vec<Resubscription> {
        let again = |command, name: &Vec<u8>| Resubscription::new(command, name.as_slice().into());
        let all = KINDS.iter().zip(&self.0);
        all.flat_map(|(&(command, ..), names)| names.iter().map(move |name| again(command, name))).collect()
    }
}

impl Resubscription {
    fn new(command: &'static str, name: Box<[u8]>) -> Resubscription {
        let change = Change { command, targets: &[&name] };
        Resubscription { bytes: change.encoded(), kind: change.kind(), name }
    }

    /// The command that subscribes to one thing; `None` for kinds that confirm no subscription.
    pub(crate) fn of(kind: &PushKind, name: Box<[u8]>) -> Option<Resubscription> {
        let &(command, ..) = KINDS.iter().find(|(_, begins, _)| kind == begins)?;
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
