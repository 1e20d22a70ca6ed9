//! One key that one writer writes to: what it was told, and whether that is still so.

use std::collections::HashMap;

use onrush_cluster::slots::slot;

/// How it is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// RPUSH of numbers that grow; each is pushed once.
    List,
    /// INCR.
    Counter,
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Nobody knows.
    Unknown,
    /// Its reply says that it was not executed.
    Refused,
    /// It was acknowledged with this number.
    Acknowledged(i64),
}

/// Why a write is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// It is there twice.
    Twice,
    /// It is there though its reply says that it was not executed.
    Refused,
    /// It is before one that was acknowledged before it.
    Order,
    /// The counter has counted more or less than can be.
    Count,
}

/// See the module's text. Writes have numbers in the order in which they were sent.
pub struct Key {
    /// Its name.
    pub name: String,
    /// Its slot.
    pub slot: u16,
    /// How it is written to.
    pub shape: Shape,
    fates: Vec<Fate>,
    /// What was said when a write was refused.
    refusals: Vec<(usize, String)>,
}

/// What a look at a key has shown.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Acknowledged writes that are not there.
    pub lost: Vec<usize>,
    /// Acknowledged writes that changed places, are there twice, or are there though they were refused.
    pub wrong: Vec<(usize, Wrong)>,
    /// Writes of unknown fate that came behind later ones: their connection broke, and the server read them afterwards.
    pub late: usize,
}

impl Key {
    /// Nothing is written yet.
    pub fn new(name: String, shape: Shape) -> Self {
        Self { slot: slot(name.as_bytes()), name, shape, fates: Vec::new(), refusals: Vec::new() }
    }

    /// The number of the next write, whose fate is unknown from now on.
    pub fn issue(&mut self) -> usize {
        self.fates.push(Fate::Unknown);
        self.fates.len() - 1
    }

    /// Notes what became of a write.
    pub fn note(&mut self, number: usize, fate: Fate) {
        self.fates[number] = fate;
    }

    /// Everything is as it was at the beginning.
    pub fn forget(&mut self) {
        self.fates.clear();
        self.refusals.clear();
    }

    /// Notes why a write was refused.
    pub fn note_refusal(&mut self, number: usize, text: String) {
        self.refusals.push((number, text));
    }

    /// Why a write was refused, each time, and what became of it.
    pub fn story(&self, number: usize) -> String {
        let refusals = self.refusals.iter().filter(|(other, _)| *other == number).map(|(_, text)| text.as_str());
        format!("{number}: {}, {:?}", refusals.collect::<Vec<_>>().join(", "), self.fates.get(number))
    }

    /// How many writes were acknowledged, and how many are of unknown fate.
    pub fn counts(&self) -> (u64, u64) {
        let count = |is: fn(&Fate) -> bool| self.fates.iter().filter(|fate| is(fate)).count() as u64;
        (count(|fate| matches!(fate, Fate::Acknowledged(_))), count(|fate| matches!(fate, Fate::Unknown)))
    }

    /// The first write whose reply was no larger than that of an acknowledged one before it: by then some were lost.
    pub fn first_step_back(&self) -> Option<(usize, i64, i64)> {
        let mut last = 0;
        for (number, fate) in self.fates.iter().enumerate() {
            if let Fate::Acknowledged(reply) = *fate {
                if reply <= last {
                    return Some((number, reply, last));
                }
                last = reply;
            }
        }
        None
    }

    /// Judges a list.
    pub fn judge_list(&self, found: &[usize]) -> Found {
        let mut result = Found::default();
        let mut places = HashMap::new();
        for (place, number) in found.iter().enumerate() {
            let is_first = places.insert(*number, place).is_none();
            let may_be_there = self.fates.get(*number).is_some_and(|fate| *fate != Fate::Refused);
            if !is_first {
                result.wrong.push((*number, Wrong::Twice));
            } else if !may_be_there {
                result.wrong.push((*number, Wrong::Refused));
            }
        }
        let mut last = None;
        for (number, fate) in self.fates.iter().enumerate() {
            let is_acknowledged = matches!(fate, Fate::Acknowledged(_));
            match places.get(&number) {
                None if is_acknowledged => result.lost.push(number),
                Some(place) if is_acknowledged => {
                    if last.is_some_and(|last| place < last) {
                        result.wrong.push((number, Wrong::Order));
                    }
                    last = last.max(Some(place));
                }
                Some(place) => result.late += usize::from(found[..*place].iter().any(|before| *before > number)),
                None => {}
            }
        }
        result
    }

    /// Judges a counter.
    pub fn judge_counter(&self, found: i64) -> Found {
        let mut result = Found::default();
        let (mut last, mut acknowledged, mut possible) = (0, 0, 0);
        for (number, fate) in self.fates.iter().enumerate() {
            match *fate {
                Fate::Acknowledged(reply) => {
                    (acknowledged, possible) = (acknowledged + 1, possible + 1);
                    if reply <= last {
                        result.wrong.push((number, Wrong::Count));
                    }
                    // Not even with all others before it.
                    if reply > possible {
                        result.wrong.push((number, Wrong::Count));
                    }
                    last = last.max(reply);
                }
                Fate::Unknown => possible += 1,
                Fate::Refused => {}
            }
        }
        let missing = last.max(acknowledged) - found;
        let is_acknowledged = |number: &usize| matches!(self.fates[*number], Fate::Acknowledged(_));
        let latest_first = (0..self.fates.len()).rev().filter(is_acknowledged);
        result.lost.extend(latest_first.take(usize::try_from(missing).unwrap_or_default()));
        if found > possible {
            result.wrong.push((self.fates.len(), Wrong::Count));
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(fates: &[Fate]) -> Key {
        let mut key = Key::new("k".to_owned(), Shape::List);
        for fate in fates {
            let number = key.issue();
            key.note(number, *fate);
        }
        key
    }

    fn found(lost: &[usize], wrong: &[(usize, Wrong)], late: usize) -> Found {
        Found { lost: lost.to_vec(), wrong: wrong.to_vec(), late }
    }

    use Fate::{Acknowledged as Ack, Refused, Unknown};
    use Wrong::{Count, Order, Twice};

    #[test]
    fn a_list_has_all_that_was_acknowledged_in_its_order() {
        let key = key(&[Ack(1), Unknown, Ack(2), Refused, Ack(3)]);
        assert_eq!(key.judge_list(&[0, 2, 4]), found(&[], &[], 0));
        assert_eq!(key.judge_list(&[0, 1, 2, 4]), found(&[], &[], 0));
        assert_eq!(key.judge_list(&[0, 2, 4, 1]), found(&[], &[], 1));
        assert_eq!(key.judge_list(&[0, 4]), found(&[2], &[], 0));
        assert_eq!(key.judge_list(&[2, 0, 4]), found(&[], &[(2, Order)], 0));
        assert_eq!(key.judge_list(&[0, 2, 2, 4]), found(&[], &[(2, Twice)], 0));
        assert_eq!(key.judge_list(&[0, 2, 3, 4]), found(&[], &[(3, Wrong::Refused)], 0));
        assert_eq!(key.judge_list(&[0, 2, 4, 9]), found(&[], &[(9, Wrong::Refused)], 0));
    }

    #[test]
    fn a_counter_has_counted_what_was_acknowledged() {
        let key = key(&[Ack(1), Unknown, Ack(3), Refused]);
        assert_eq!(key.judge_counter(3), found(&[], &[], 0));
        assert_eq!(key.judge_counter(2), found(&[2], &[], 0));
        assert_eq!(key.judge_counter(0), found(&[2, 0], &[], 0));
        assert_eq!(key.judge_counter(4), found(&[], &[(4, Count)], 0));
    }

    #[test]
    fn a_reply_that_steps_back_tells_that_something_is_gone() {
        assert_eq!(key(&[Ack(1), Ack(2), Unknown, Ack(3)]).first_step_back(), None);
        assert_eq!(key(&[Ack(1), Ack(2), Ack(1)]).first_step_back(), Some((2, 1, 2)));
        assert_eq!(key(&[Ack(1), Ack(2), Ack(1)]).judge_counter(2), found(&[2], &[(2, Count)], 0));
    }
}
