//! Many fields with their values and times to live: the large form of a hash.
//!
//! In the [`Dict`] a value has a byte in front that says whether its field expires, and the time if it does. What expires
//! is kept in order of time beside it.

use std::collections::BTreeSet;

use crate::collections::dict::Dict;

const STAYS: &[u8] = &[0];
const EXPIRES: u8 = 1;
const TIME_LEN: usize = size_of::<i64>();

/// Many fields with their values.
#[derive(Clone, Debug)]
pub(super) struct Fields {
    pub(super) dict: Dict,
    expiries: BTreeSet<(i64, Box<[u8]>)>,
}

/// Value and expiry from the bytes that the dict keeps.
#[inline]
pub(super) fn read(stored: &[u8]) -> (&[u8], Option<i64>) {
    match stored {
        [EXPIRES, rest @ ..] => {
            let (time, value) = rest.split_at(TIME_LEN);
            (value, Some(i64::from_le_bytes(time.try_into().unwrap_or_default())))
        }
        _ => (&stored[1..], None),
    }
}

impl Fields {
    pub(super) fn new() -> Self {
        Fields { dict: Dict::new(), expiries: BTreeSet::new() }
    }

    /// No fields, with room for about `len`. O(`len` / 500).
    pub(super) fn for_len(len: usize) -> Self {
        Fields { dict: Dict::for_len(len), expiries: BTreeSet::new() }
    }

    /// A copy of the fields as they are now, for reading. Of the expiries beside the dict it has only the next one:
    /// each field has its own in the dict. O(fields / 500).
    pub(super) fn freeze(&mut self) -> Fields {
        let expiries = self.expiries.first().cloned().into_iter().collect();
        Fields { dict: self.dict.freeze(), expiries }
    }

    #[inline]
    pub(super) fn get(&self, field: &[u8]) -> Option<(&[u8], Option<i64>)> {
        self.dict.get(field).map(read)
    }

    /// Inserts or overwrites a field; returns whether it is new.
    #[inline]
    pub(super) fn set(&mut self, field: &[u8], value: &[u8], expiry: Option<i64>) -> bool {
        if !self.expiries.is_empty() {
            self.forget_expiry(field);
        }
        match expiry {
            None => self.dict.insert(field, &[STAYS, value]),
            Some(at) => {
                self.expiries.insert((at, field.into()));
                self.dict.insert(field, &[&[EXPIRES], &at.to_le_bytes(), value])
            }
        }
    }

    fn forget_expiry(&mut self, field: &[u8]) {
        if let Some((_, Some(at))) = self.get(field) {
            self.expiries.remove(&(at, field.into()));
        }
    }

    pub(super) fn remove(&mut self, field: &[u8]) -> bool {
        if !self.expiries.is_empty() {
            self.forget_expiry(field);
        }
        self.dict.remove(field)
    }

    pub(super) fn next_expiry(&self) -> Option<i64> {
        self.expiries.first().map(|(at, _)| *at)
    }

    /// The field that expires first, if it is due.
    pub(super) fn due(&self, now_ms: i64) -> Option<Box<[u8]>> {
        self.expiries.first().filter(|(at, _)| *at <= now_ms).map(|(_, field)| field.clone())
    }

    pub(super) fn size_bytes(&self) -> usize {
        // The standard library's set does not report its size; its nodes are about two thirds full.
        const EXPIRY_BYTES: usize = 56;
        self.dict.size_bytes() + self.expiries.len() * EXPIRY_BYTES
    }

    pub(super) fn free_effort(&self) -> usize {
        self.dict.free_effort() + 2 * self.expiries.len()
    }
}
