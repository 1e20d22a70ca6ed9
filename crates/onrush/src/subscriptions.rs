//! What a connection is subscribed to.

use std::collections::BTreeSet;

use crate::encode::command;
use crate::value::PushKind;

/// What is subscribed to, kept to subscribe again after a reconnect.
#[derive(Debug, Default, Clone)]
pub(crate) struct Subscriptions {
    channels: BTreeSet<Vec<u8>>,
    patterns: BTreeSet<Vec<u8>>,
    shard_channels: BTreeSet<Vec<u8>>,
}

/// A command that begins or ends subscriptions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Change<'a> {
    /// `SUBSCRIBE` or one of its kin, in capitals.
    pub command: &'static str,
    pub targets: &'a [&'a [u8]],
}

/// A command that subscribes, and what confirms it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Resubscription {
    pub bytes: Vec<u8>,
    pub kind: PushKind,
    pub confirmations: usize,
}

impl Change<'_> {
    /// The command as it goes over the wire.
    pub(crate) fn encoded(&self) -> Vec<u8> {
        let args: Vec<&[u8]> = std::iter::once(self.command.as_bytes()).chain(self.targets.iter().copied()).collect();
        let mut bytes = Vec::new();
        command(&args, &mut bytes);
        bytes
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
    /// Notes a change. O(log n) for each target.
    pub(crate) fn note(&mut self, change: Change<'_>) {
        let set = self.set_mut(change.command);
        for target in change.targets {
            if change.ends() {
                set.remove(*target);
            } else {
                set.insert(target.to_vec());
            }
        }
    }

    /// Forgets what a command was to subscribe to.
    pub(crate) fn forget(&mut self, change: Change<'_>) {
        if !change.ends() {
            let set = self.set_mut(change.command);
            change.targets.iter().for_each(|target| _ = set.remove(*target));
        }
    }

    fn set_mut(&mut self, command: &str) -> &mut BTreeSet<Vec<u8>> {
        match command {
            "SUBSCRIBE" | "UNSUBSCRIBE" => &mut self.channels,
            "PSUBSCRIBE" | "PUNSUBSCRIBE" => &mut self.patterns,
            _ => &mut self.shard_channels,
        }
    }

    /// Commands that subscribe to all of it again.
    pub(crate) fn commands(&self) -> Vec<Resubscription> {
        let all = [("SUBSCRIBE", &self.channels), ("PSUBSCRIBE", &self.patterns), ("SSUBSCRIBE", &self.shard_channels)];
        let some = all.into_iter().filter(|(_, names)| !names.is_empty());
        some.map(|(command, names)| {
            let targets: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
            let change = Change { command, targets: &targets };
            Resubscription { bytes: change.encoded(), kind: change.kind(), confirmations: targets.len() }
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_subscribed_to_and_not_ended_is_subscribed_to_again() {
        let mut subscriptions = Subscriptions::default();
        subscriptions.note(Change { command: "SUBSCRIBE", targets: &[b"a", b"b"] });
        subscriptions.note(Change { command: "PSUBSCRIBE", targets: &[b"p"] });
        subscriptions.note(Change { command: "UNSUBSCRIBE", targets: &[b"a"] });
        subscriptions.forget(Change { command: "PUNSUBSCRIBE", targets: &[b"p"] });
        let want = |bytes: &[u8], kind| Resubscription { bytes: bytes.to_vec(), kind, confirmations: 1 };
        assert_eq!(
            subscriptions.commands(),
            [
                want(b"*2\r\n$9\r\nSUBSCRIBE\r\n$1\r\nb\r\n", PushKind::Subscribe),
                want(b"*2\r\n$10\r\nPSUBSCRIBE\r\n$1\r\np\r\n", PushKind::PSubscribe),
            ]
        );
    }
}
