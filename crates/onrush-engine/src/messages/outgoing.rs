//! The messages of a commit, until it ends.
//!
//! Consecutive messages on one channel are encoded together: a subscriber gets one reference for all of them. The
//! subscribers of a channel are looked up once, as long as no subscription begins or ends.

use std::ops::Range;
use std::sync::Arc;

use onrush_cluster::slots::slot;

use super::channel::Channel;
use super::events::EventClasses;
use super::kind::Kind;
use super::outbox::Parcel;
use crate::batch::kept::shrink;
use crate::cluster::facts::Facts;
use crate::observe::slots::SlotUsage;
use crate::shared::Shared;

/// Messages on one channel that were published one after the other.
struct Group {
    kind: Kind,
    channel: Option<Arc<Channel>>,
    /// Patterns that its name matches.
    patterns: Arc<[Arc<Channel>]>,
    name: Range<usize>,
    /// The messages in the list of payloads.
    payloads: Range<usize>,
}

/// A channel as of the last message on it.
struct Known {
    kind: Kind,
    name: Vec<u8>,
    version: u64,
    channel: Option<Arc<Channel>>,
    patterns: Arc<[Arc<Channel>]>,
    receivers: usize,
    /// Whether the last group is of this channel.
    is_last: bool,
}

/// A message that was published.
enum Payload {
    Copied(Range<usize>),
    Shared(Arc<Vec<u8>>),
}

/// See the module's text.
pub(crate) struct Outgoing {
    shared: &'static Shared,
    thread: usize,
    known: Option<Known>,
    groups: Vec<Group>,
    payloads: Vec<Payload>,
    /// Names and payloads.
    bytes: Vec<u8>,
    /// Messages for the subscribers of other nodes.
    for_others: Vec<ForOthers>,
    /// Memory of all messages, about, in bytes.
    held_bytes: usize,
}

/// A message for other nodes of the cluster.
struct ForOthers {
    is_sharded: bool,
    name: Vec<u8>,
    payload: Vec<u8>,
}

/// Most bytes of messages that wait for the end of a commit. More are sent before, or the commands are undone and executed
/// where they can be.
const HELD_BYTES_MAX: usize = 16 << 20;

/// Steps for finding the patterns that an event's channel matches, some milliseconds: its key is locked meanwhile. Beyond them,
/// patterns with a star that is still to be widened do not match.
const EVENT_STEPS_MAX: usize = 1 << 20;

impl Outgoing {
    pub(crate) fn new(shared: &'static Shared, thread: usize) -> Self {
        Self {
            shared,
            thread,
            known: None,
            groups: Vec::new(),
            payloads: Vec::new(),
            bytes: Vec::new(),
            for_others: Vec::new(),
            held_bytes: 0,
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.groups.is_empty() && self.for_others.is_empty()
    }

    /// Whether more messages wait than may.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.held_bytes > HELD_BYTES_MAX
    }

    /// Publishes a message on a channel; `owned` is the message if it is in a buffer of its own. Returns how many
    /// clients will get it.
    pub(crate) fn publish(&mut self, kind: Kind, name: &[u8], payload: &[u8], owned: Option<&Arc<Vec<u8>>>) -> usize {
        self.publish_within(kind, name, payload, owned, usize::MAX)
    }

    /// The same, with so many steps for finding patterns that match.
    fn publish_within(
        &mut self,
        kind: Kind,
        name: &[u8],
        payload: &[u8],
        owned: Option<&Arc<Vec<u8>>>,
        steps: usize,
    ) -> usize {
        let version = self.shared.messages.version();
        let known = match &mut self.known {
            Some(known) if known.version == version && known.kind == kind && known.name == name => known,
            known => known.insert(look_up(self.shared, kind, name, version, steps)),
        };
        if known.receivers == 0 {
            return 0;
        }
        if !std::mem::replace(&mut known.is_last, true) {
            let start = self.bytes.len();
            self.bytes.extend_from_slice(name);
            self.groups.push(Group {
                kind,
                channel: known.channel.clone(),
                patterns: Arc::clone(&known.patterns),
                name: start..self.bytes.len(),
                payloads: self.payloads.len()..self.payloads.len(),
            });
        }
        self.held_bytes += size_of::<Group>() + size_of::<Payload>() + name.len() + payload.len();
        let start = self.bytes.len();
        self.payloads.push(match owned {
            Some(value) => Payload::Shared(Arc::clone(value)),
            None => {
                self.bytes.extend_from_slice(payload);
                Payload::Copied(start..self.bytes.len())
            }
        });
        if let Some(group) = self.groups.last_mut() {
            group.payloads.end = self.payloads.len();
        }
        known.receivers
    }

    /// Publishes a message on other nodes, too.
    #[cold]
    pub(crate) fn publish_elsewhere(&mut self, kind: Kind, name: &[u8], payload: &[u8]) {
        self.held_bytes += size_of::<ForOthers>() + name.len() + payload.len();
        let is_sharded = kind == Kind::Shard;
        self.for_others.push(ForOthers { is_sharded, name: name.to_vec(), payload: payload.to_vec() });
    }

    /// Gives messages for other nodes to the bus.
    #[cold]
    fn hand_over(&mut self) {
        let Some(cluster) = &self.shared.cluster else { return };
        if let Ok(mut state) = cluster.node.lock() {
            let facts = Facts(self.shared);
            for ForOthers { is_sharded, name, payload } in self.for_others.drain(..) {
                state.cluster.publish(&name, &payload, is_sharded, facts.now(), &facts);
            }
        }
        cluster.node.wake();
    }

    /// Publishes a keyspace event on the channel of its key and on its own, as `classes` say.
    #[cold]
    pub(crate) fn publish_event(&mut self, classes: EventClasses, db: u32, event: &str, key: &[u8]) {
        if self.shared.messages.is_deaf() {
            return;
        }
        let db = itoa::Buffer::new().format(db).to_owned();
        if classes.contains(EventClasses::KEYSPACE) {
            let channel = [b"__keyspace@", db.as_bytes(), b"__:", key].concat();
            self.publish_within(Kind::Channel, &channel, event.as_bytes(), None, EVENT_STEPS_MAX);
        }
        if classes.contains(EventClasses::KEYEVENT) {
            let channel = [b"__keyevent@", db.as_bytes(), b"__:", event.as_bytes()].concat();
            self.publish_within(Kind::Channel, &channel, key, None, EVENT_STEPS_MAX);
        }
    }

    /// Sends the published messages, in order.
    #[cold]
    pub(crate) fn deliver(&mut self) {
        for group in std::mem::take(&mut self.groups) {
            if group.patterns.is_empty() {
                self.tell_channel(&group, group.payloads.clone());
                continue;
            }
            for at in group.payloads.clone() {
                self.tell_channel(&group, at..at + 1);
                for pattern in &*group.patterns {
                    self.tell(pattern, &group, Some(&pattern.name), at..at + 1);
                }
            }
        }
        if !self.for_others.is_empty() {
            self.hand_over();
        }
        self.clear();
    }

    /// Drops published messages that were not sent.
    pub(crate) fn clear(&mut self) {
        self.groups.clear();
        self.payloads.clear();
        self.bytes.clear();
        self.for_others.clear();
        self.held_bytes = 0;
        shrink(&mut self.payloads);
        shrink(&mut self.bytes);
        if let Some(known) = &mut self.known {
            known.is_last = false;
        }
    }

    fn tell_channel(&self, group: &Group, payloads: Range<usize>) {
        if let Some(channel) = &group.channel {
            self.tell(channel, group, None, payloads);
        }
    }

    /// Puts messages into the outboxes of the subscribers of a channel, or of a pattern that matches its name.
    fn tell(&self, to: &Channel, group: &Group, pattern: Option<&[u8]>, payloads: Range<usize>) {
        let encode = |is_resp3| {
            let name = &self.bytes[group.name.clone()];
            let kind = if pattern.is_some() { Kind::Pattern } else { group.kind };
            let mut bytes = Vec::new();
            let head = head(kind, pattern, name, is_resp3);
            for payload in &self.payloads[payloads.clone()] {
                let payload = match payload {
                    Payload::Copied(range) => &self.bytes[range.clone()],
                    Payload::Shared(value) => value,
                };
                bytes.extend_from_slice(&head);
                push_bulk(&mut bytes, payload);
            }
            Parcel::new(bytes, &self.shared.messages.parcel_bytes)
        };
        let limits = self.shared.settings.output_limits();
        let mut parcels: [Option<Arc<Parcel>>; 2] = [None, None];
        let (mut sent, subscribers) = (0, to.subscribers.lock());
        for client in subscribers.iter() {
            let is_resp3 = client.is_resp3();
            let parcel = parcels[usize::from(is_resp3)].get_or_insert_with(|| encode(is_resp3));
            client.send(parcel, &limits, self.shared, self.thread);
            sent += parcel.bytes.len() as u64;
        }
        if group.kind == Kind::Shard && self.shared.settings.counts_slots() {
            let slot = slot(&self.bytes[group.name.clone()]);
            let usage = SlotUsage { bytes_out: sent, ..SlotUsage::default() };
            self.shared.stats.threads[self.thread].slots.add(slot, usage);
        }
    }
}

fn look_up(shared: &Shared, kind: Kind, name: &[u8], version: u64, steps: usize) -> Known {
    let messages = &shared.messages;
    let channel = messages.find(kind, name);
    let patterns = if kind == Kind::Channel { messages.patterns_of(name, steps) } else { Vec::new() };
    let receivers = channel.iter().chain(&patterns).map(|channel| channel.subscribers.lock().len()).sum();
    Known { kind, name: name.to_vec(), version, channel, patterns: patterns.into(), receivers, is_last: false }
}

/// The common beginning of a channel's messages.
fn head(kind: Kind, pattern: Option<&[u8]>, name: &[u8], is_resp3: bool) -> Vec<u8> {
    let mut head = vec![if is_resp3 { b'>' } else { b'*' }];
    head.extend_from_slice(if pattern.is_some() { b"4\r\n" } else { b"3\r\n" });
    push_bulk(&mut head, kind.message().as_bytes());
    if let Some(pattern) = pattern {
        push_bulk(&mut head, pattern);
    }
    push_bulk(&mut head, name);
    head
}

/// Appends a string in RESP.
pub(crate) fn push_bulk(bytes: &mut Vec<u8>, text: &[u8]) {
    bytes.push(b'$');
    bytes.extend_from_slice(itoa::Buffer::new().format(text.len()).as_bytes());
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(text);
    bytes.extend_from_slice(b"\r\n");
}
