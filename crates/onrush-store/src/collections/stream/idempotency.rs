//! The messages that a stream's producers have added lately, so that none is added twice.

use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;
use std::sync::Arc;

use super::StreamId;
use crate::collections::part_map::PartMap;

/// Outdated messages that adding one forgets at most, so that no single command pays for a long pause.
const FORGOTTEN_PER_MESSAGE_MAX: usize = 8;

/// Bytes that a message and a producer take beside their identifiers, about: nodes of the maps, heads of the names.
const MESSAGE_BYTES: usize = 100;
const PRODUCER_BYTES: usize = 250;

/// Messages by producer and by the identifier that the producer gave them, each with the entry it became.
///
/// The content depends only on the recorded messages: a message is dropped when a later one finds it outdated, or when
/// its producer has too many. So the same records give the same content everywhere. An outdated message counts as
/// absent even before it is dropped.
///
/// Frozen copies share the producers with their messages. A change copies the one producer that it is about, so at most
/// [`Self::MESSAGES_MAXES`] messages, and its neighbours' names.
#[derive(Clone, Debug)]
pub struct Idempotency {
    duration_s: u32,
    messages_max: u16,
    producers: PartMap<Arc<[u8]>, Arc<Producer>>,
    /// Producers by the time of their oldest message.
    oldest: PartMap<(i64, Arc<[u8]>), ()>,
    /// When the last message was recorded, in Unix milliseconds.
    last_ms: i64,
    messages: usize,
    bytes: usize,
    added: u64,
    duplicates: u64,
}

#[derive(Clone, Debug, Default)]
struct Producer {
    /// The entry that a message became, and the time it was recorded at.
    entries: BTreeMap<Arc<[u8]>, (StreamId, i64)>,
    /// The messages by age, the oldest first, with the time they were recorded at.
    order: VecDeque<(i64, Arc<[u8]>)>,
}

/// A message that was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded<'a> {
    /// Who added it.
    pub producer: &'a [u8],
    /// What its producer calls it.
    pub message: &'a [u8],
    /// The entry it became.
    pub entry: StreamId,
    /// When that was, in Unix milliseconds.
    pub at_ms: i64,
}

/// How much a stream remembers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tracked {
    /// Producers with a message that is not outdated.
    pub producers: usize,
    /// Messages of theirs that are not outdated.
    pub messages: usize,
}

impl Default for Idempotency {
    fn default() -> Self {
        Self {
            duration_s: Self::DURATION_S_DEFAULT,
            messages_max: Self::MESSAGES_MAX_DEFAULT,
            producers: PartMap::default(),
            oldest: PartMap::default(),
            last_ms: 0,
            messages: 0,
            bytes: 0,
            added: 0,
            duplicates: 0,
        }
    }
}

impl Idempotency {
    /// The range of times for which messages can be remembered, in seconds.
    pub const DURATIONS_S: RangeInclusive<i64> = 1..=86_400;

    /// The range of how many messages of a producer can be remembered.
    pub const MESSAGES_MAXES: RangeInclusive<i64> = 1..=10_000;

    const DURATION_S_DEFAULT: u32 = 100;
    const MESSAGES_MAX_DEFAULT: u16 = 100;

    /// A copy of the table as it is now; both share the producers. O(producers / 100).
    pub(super) fn freeze(&mut self) -> Self {
        Self { producers: self.producers.freeze(), oldest: self.oldest.freeze(), ..*self }
    }

    /// Takes back what no other copy shares any more. O(producers / 100).
    pub(super) fn thaw(&mut self) {
        self.producers.thaw();
        self.oldest.thaw();
    }

    /// How long a message is remembered, in seconds.
    pub fn duration_s(&self) -> u32 {
        self.duration_s
    }

    /// How many messages of a producer are remembered.
    pub fn messages_max(&self) -> u16 {
        self.messages_max
    }

    /// Messages ever recorded.
    pub fn added(&self) -> u64 {
        self.added
    }

    /// Messages that were not added because they had been added before.
    pub fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// Sets how long, and how many messages of a producer, are remembered. If that changes anything, all are forgotten.
    /// O(messages).
    pub fn configure(&mut self, duration_s: u32, messages_max: u16) {
        if (duration_s, messages_max) != (self.duration_s, self.messages_max) {
            let (added, duplicates) = (self.added, self.duplicates);
            *self = Self { duration_s, messages_max, added, duplicates, ..Self::default() };
        }
    }

    /// Messages recorded at this time or earlier are outdated.
    fn limit_ms(&self, now_ms: i64) -> i64 {
        now_ms.saturating_sub(i64::from(self.duration_s) * 1000)
    }

    /// The entry that a message became, unless that is too long ago. O(log messages).
    pub fn find(&self, producer: &[u8], message: &[u8], now_ms: i64) -> Option<StreamId> {
        let (entry, at_ms) = *self.producers.get(producer)?.entries.get(message)?;
        (at_ms > self.limit_ms(now_ms)).then_some(entry)
    }

    /// Counts a message that was not added because it had been added before.
    pub fn count_duplicate(&mut self) {
        self.duplicates += 1;
    }

    /// Remembers which entry a message became; replaces an earlier record of the message. A message counts as recorded
    /// at its entry's time, but not later than now. O(log messages), amortised.
    pub fn record(&mut self, producer: &[u8], message: &[u8], entry: StreamId, now_ms: i64) {
        let at_ms = i64::try_from(entry.ms).unwrap_or(i64::MAX).min(now_ms);
        self.last_ms = at_ms;
        self.forget_outdated(self.limit_ms(at_ms));
        self.forget(producer, message);
        if !self.producers.contains_key(producer) {
            self.bytes += producer.len() + PRODUCER_BYTES;
            self.producers.insert(Arc::from(producer), Arc::default());
        }
        let Some(of_producer) = self.producers.get_mut(producer).map(Arc::make_mut) else { return };
        let front_before = of_producer.order.front().map(|(at_ms, _)| *at_ms);
        let is_full = of_producer.order.len() >= usize::from(self.messages_max);
        let outdone = if is_full { of_producer.order.pop_front() } else { None };
        if let Some((_, outdone)) = &outdone {
            of_producer.entries.remove(outdone);
        }
        let message: Arc<[u8]> = Arc::from(message);
        of_producer.entries.insert(message.clone(), (entry, at_ms));
        // Its place is the end, unless the clock has gone back.
        let place = of_producer.order.iter().rposition(|(other_ms, _)| *other_ms <= at_ms).map_or(0, |at| at + 1);
        self.messages += 1;
        self.bytes += message.len() + MESSAGE_BYTES;
        self.added += 1;
        of_producer.order.insert(place, (at_ms, message));
        let front = of_producer.order.front().map(|(at_ms, _)| *at_ms);
        self.move_oldest(producer, front_before, front);
        if let Some((_, outdone)) = outdone {
            self.note_gone(&outdone);
        }
    }

    fn note_gone(&mut self, message: &[u8]) {
        self.messages -= 1;
        self.bytes -= message.len() + MESSAGE_BYTES;
    }

    /// Forgets a message. O(log messages + messages of the producer).
    fn forget(&mut self, producer: &[u8], message: &[u8]) {
        let Some(of_producer) = self.producers.get_mut(producer).map(Arc::make_mut) else { return };
        if of_producer.entries.remove(message).is_none() {
            return;
        }
        let front_before = of_producer.order.front().map(|(at_ms, _)| *at_ms);
        of_producer.order.retain(|(_, other)| **other != *message);
        let front = of_producer.order.front().map(|(at_ms, _)| *at_ms);
        self.move_oldest(producer, front_before, front);
        self.note_gone(message);
    }

    /// Forgets some of the messages that were recorded at a time or before it.
    fn forget_outdated(&mut self, limit_ms: i64) {
        for _ in 0..FORGOTTEN_PER_MESSAGE_MAX {
            let Some(((at_ms, name), ())) = self.oldest.first_key_value() else { return };
            if *at_ms > limit_ms {
                return;
            }
            let (at_ms, name) = (*at_ms, name.clone());
            let Some(of_producer) = self.producers.get_mut(&name).map(Arc::make_mut) else { return };
            let Some((_, message)) = of_producer.order.pop_front() else { return };
            of_producer.entries.remove(&message);
            let front = of_producer.order.front().map(|(at_ms, _)| *at_ms);
            self.move_oldest(&name, Some(at_ms), front);
            self.note_gone(&message);
        }
    }

    /// Updates a producer's place among the producers; removes a producer without messages.
    fn move_oldest(&mut self, producer: &[u8], before: Option<i64>, now: Option<i64>) {
        if before == now && now.is_some() {
            return;
        }
        let Some((name, _)) = self.producers.get_key_value(producer) else { return };
        let name = name.clone();
        if let Some(before) = before {
            self.oldest.remove(&(before, name.clone()));
        }
        match now {
            Some(now) => self.oldest.insert((now, name), ()),
            None => {
                self.producers.remove(&name);
                self.bytes -= name.len() + PRODUCER_BYTES;
            }
        }
    }

    /// What is remembered. O(producers * log messages of each).
    pub fn tracked(&self, now_ms: i64) -> Tracked {
        let limit_ms = self.limit_ms(now_ms);
        let fresh = |of_producer: &Arc<Producer>| {
            of_producer.order.len() - of_producer.order.partition_point(|(at_ms, _)| *at_ms <= limit_ms)
        };
        let counts = self.producers.values().map(fresh).filter(|&count| count > 0);
        counts.fold(Tracked::default(), |sum, count| Tracked {
            producers: sum.producers + 1,
            messages: sum.messages + count,
        })
    }

    /// The messages that were not outdated when the last one was recorded, by producer, the oldest of each first.
    pub fn iter(&self) -> impl Iterator<Item = Recorded<'_>> {
        let limit_ms = self.limit_ms(self.last_ms);
        self.producers.iter().flat_map(move |(producer, of_producer)| {
            of_producer.order.iter().filter(move |(at_ms, _)| *at_ms > limit_ms).filter_map(move |(at_ms, message)| {
                let (entry, _) = *of_producer.entries.get(message)?;
                Some(Recorded { producer, message, entry, at_ms: *at_ms })
            })
        })
    }

    /// Bytes allocated, about. O(1).
    pub fn size_bytes(&self) -> usize {
        size_of::<Self>() + self.bytes
    }

    /// About how many allocations freeing it gives back. O(1).
    pub fn free_effort(&self) -> usize {
        1 + self.messages + 2 * self.producers.len()
    }
}

impl PartialEq for Idempotency {
    /// Compares what is remembered; the counters do not matter.
    fn eq(&self, other: &Self) -> bool {
        (self.duration_s, self.messages_max) == (other.duration_s, other.messages_max) && self.iter().eq(other.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;

    fn id(ms: u64, seq: u64) -> StreamId {
        StreamId { ms, seq }
    }

    /// Every sum that is kept agrees with what is there.
    fn check(table: &Idempotency) {
        let all: Vec<&Arc<[u8]>> = table
            .producers
            .values()
            .flat_map(|of_producer| of_producer.order.iter().map(|(_, message)| message))
            .collect();
        assert_eq!(all.len(), table.messages);
        let entries: usize = table.producers.values().map(|of_producer| of_producer.entries.len()).sum();
        assert_eq!(entries, table.messages);
        let names = table.producers.keys().map(|name| name.len() + PRODUCER_BYTES).sum::<usize>();
        let bytes = all.iter().map(|message| message.len() + MESSAGE_BYTES).sum::<usize>() + names;
        assert_eq!(bytes, table.bytes);
        let mut oldest: Vec<(i64, Arc<[u8]>)> = table
            .producers
            .iter()
            .map(|(name, of_producer)| (of_producer.order.front().expect("a message").0, name.clone()))
            .collect();
        oldest.sort();
        assert!(oldest.iter().eq(table.oldest.keys()));
    }

    /// Producers and messages that are remembered.
    fn tracked(table: &Idempotency, now_ms: i64) -> (usize, usize) {
        let Tracked { producers, messages } = table.tracked(now_ms);
        (producers, messages)
    }

    #[test]
    fn a_message_is_known_for_the_time_set() {
        let mut table = Idempotency::default();
        table.record(b"p", b"m", id(1000, 0), 1000);
        assert_eq!(table.find(b"p", b"m", 100_999), Some(id(1000, 0)));
        assert_eq!(table.find(b"p", b"m", 101_000), None);
        assert_eq!((table.find(b"q", b"m", 1000), table.find(b"p", b"n", 1000)), (None, None));
        assert_eq!((tracked(&table, 100_999), tracked(&table, 101_000)), ((1, 1), (0, 0)));
        // It is there again with another entry.
        table.record(b"p", b"m", id(101_000, 0), 101_000);
        assert_eq!(table.find(b"p", b"m", 101_001), Some(id(101_000, 0)));
        assert_eq!((tracked(&table, 101_001), table.added()), ((1, 1), 2));
        check(&table);
    }

    #[test]
    fn a_producer_is_remembered_with_its_latest_messages() {
        let mut table = Idempotency::default();
        table.configure(50, 3);
        (0..5u8).for_each(|n| table.record(b"p", &[n], id(1000, n.into()), 1000));
        table.record(b"q", &[0], id(1000, 9), 1000);
        let known =
            |table: &Idempotency| (0..5u8).filter(|&n| table.find(b"p", &[n], 1001).is_some()).collect::<Vec<_>>();
        assert_eq!(known(&table), [2, 3, 4]);
        assert_eq!(table.find(b"q", &[0], 1001), Some(id(1000, 9)));
        // The same again changes nothing, something else forgets all.
        table.configure(50, 3);
        assert_eq!(tracked(&table, 1001), (2, 4));
        check(&table);
        table.configure(50, 4);
        assert_eq!((tracked(&table, 1001), table.added()), ((0, 0), 6));
        check(&table);
    }

    #[test]
    fn producers_that_stopped_are_forgotten_by_others_messages() {
        let mut table = Idempotency::default();
        (0..1000u64).for_each(|n| table.record(&n.to_be_bytes(), b"m", id(1000, n), 1000));
        let full = table.size_bytes();
        (0..200u64).for_each(|n| table.record(b"p", &n.to_be_bytes(), id(200_000, n), 200_000));
        assert_eq!((table.producers.len(), table.messages), (1, 100));
        assert!(table.size_bytes() < full / 5, "{} of {full}", table.size_bytes());
        check(&table);
    }

    #[test]
    fn entries_ahead_of_the_clock_do_not_keep_messages_for_longer() {
        let mut table = Idempotency::default();
        table.record(b"p", b"m", id(u64::MAX, 0), 1000);
        assert_eq!(table.find(b"p", b"m", 100_999), Some(id(u64::MAX, 0)));
        assert_eq!(table.find(b"p", b"m", 101_000), None);
    }

    /// Random messages, with a clock that sometimes jumps back: sums agree, and equal records give equal content.
    #[test]
    fn what_is_kept_depends_on_what_was_recorded_alone() {
        let steps = if cfg!(miri) { 300 } else { 20_000 };
        let mut random = Random::new(5);
        let mut table = Idempotency::default();
        let mut records = Vec::new();
        let mut now_ms = 1_000_000;
        table.configure(10, 20);
        for step in 0..steps {
            now_ms += random.below(400) as i64 - 50;
            let (producer, message) = ([random.below(6) as u8], [random.below(60) as u8]);
            match table.find(&producer, &message, now_ms) {
                Some(_) => table.count_duplicate(),
                None => {
                    let entry = id(now_ms as u64, step);
                    table.record(&producer, &message, entry, now_ms);
                    records.push((producer, message, entry));
                }
            }
            if step % 97 == 0 {
                check(&table);
            }
        }
        assert!(table.duplicates() > 0);
        let mut again = Idempotency::default();
        again.configure(10, 20);
        records.iter().for_each(|(producer, message, entry)| again.record(producer, message, *entry, i64::MAX));
        assert_eq!(table, again);
        check(&table);
    }

    /// A change of a frozen table copies one producer, and what was frozen stays as it was.
    #[test]
    fn a_frozen_copy_shares_all_producers_but_the_one_that_changes() {
        let mut table = Idempotency::default();
        let producer = |n: u64| n.to_be_bytes();
        for n in 0..1000 {
            (0..3).for_each(|message| table.record(&producer(n), &[message], id(1000, n), 1000));
        }
        let before = table.clone();
        let frozen = table.freeze();
        table.record(&producer(500), b"new", id(1001, 0), 1001);
        table.record(b"someone else", b"new", id(1001, 1), 1001);
        let shared = |(name, of_producer): (&Arc<[u8]>, &Arc<Producer>)| {
            frozen.producers.get(name).is_some_and(|other| Arc::ptr_eq(of_producer, other))
        };
        assert_eq!(table.producers.iter().filter(|row| shared(*row)).count(), 999);
        assert_eq!(frozen, before);
        check(&table);
        check(&frozen);
        drop(frozen);
        table.thaw();
        table.record(&producer(0), b"new", id(1001, 2), 1001);
        check(&table);
    }
}
