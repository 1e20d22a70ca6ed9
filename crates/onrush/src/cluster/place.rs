//! Where a command goes: the slot of its keys.

use crate::cluster::keys::{Keys, Spec, each_key, spec_of, spec_of_name};
use crate::cluster::slot::{SLOTS, slot};

/// The longest name that is remembered from one command to the next.
const KEPT_NAME_LEN: usize = 24;

/// Where a command goes, in 16 bits: a slot, and whether a replica may answer; or that it has no slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place(u16);

impl Place {
    const READS: u16 = 1 << 15;
    const ODD: u16 = 1 << 14;
    /// Its keys are in several slots.
    pub(crate) const CROSS: Place = Place(Place::ODD);
    /// It goes to all primaries.
    pub(crate) const ALL: Place = Place(Place::ODD | 1);

    pub(crate) const fn of_slot(slot: u16) -> Place {
        Place(slot % SLOTS)
    }

    pub(crate) fn reads(self, reads: bool) -> Place {
        if reads { Place(self.0 | Place::READS) } else { self }
    }

    /// Whether it has no slot.
    #[inline]
    pub(crate) fn is_odd(self) -> bool {
        self.0 & Place::ODD != 0
    }

    /// Whether a replica may answer.
    #[inline]
    pub(crate) fn may_be_replica(self) -> bool {
        self.0 & Place::READS != 0
    }

    /// Its slot; of an odd place, any.
    #[inline]
    pub(crate) fn slot(self) -> u16 {
        self.0 % SLOTS
    }
}

/// Finds the places of commands that come one after the other. A command without keys goes where the one before it
/// goes.
#[derive(Debug)]
pub(crate) struct Router {
    name: [u8; KEPT_NAME_LEN],
    name_len: usize,
    spec: Spec,
    slot: u16,
}

impl Router {
    /// `slot`: where commands without keys go until one has a key.
    pub(crate) fn new(slot: u16) -> Router {
        let spec = Spec { keys: Keys::Subcommand, reads: false, all: None };
        Router { name: [0; KEPT_NAME_LEN], name_len: 0, spec, slot: slot % SLOTS }
    }

    /// The place of an encoded command. O(length of the keys); O(arguments) for commands with several keys.
    #[inline]
    pub(crate) fn place(&mut self, encoded: &[u8]) -> Place {
        let Some((name, at)) = arg_at(encoded, first_arg(encoded)) else { return Place::of_slot(self.slot) };
        if self.name[..self.name_len] != *name || self.name_len == 0 {
            self.spec = spec_of_name(name);
            self.keep(name);
        }
        match self.spec {
            Spec { keys: Keys::One { at: 1 }, reads, .. } => match arg_at(encoded, at) {
                Some((key, _)) => {
                    self.slot = slot(key);
                    Place::of_slot(self.slot).reads(reads)
                }
                None => Place::of_slot(self.slot),
            },
            _ => self.place_slowly(encoded),
        }
    }

    fn keep(&mut self, name: &[u8]) {
        self.name_len = 0;
        if let Some(room) = self.name.get_mut(..name.len()) {
            room.copy_from_slice(name);
            self.name_len = name.len();
        }
    }

    fn place_slowly(&mut self, encoded: &[u8]) -> Place {
        let spec = if self.spec.keys == Keys::Subcommand { spec_of(encoded) } else { self.spec };
        if spec.all.is_some() {
            return Place::ALL;
        }
        match slot_of_keys(encoded, spec.keys) {
            Ok(None) => Place::of_slot(self.slot),
            Ok(Some(slot)) => {
                self.slot = slot;
                Place::of_slot(slot).reads(spec.reads)
            }
            Err(Cross) => Place::CROSS,
        }
    }
}

/// The keys of a command are in several slots.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Cross;

/// The slot of all keys; `None` without keys.
pub(crate) fn slot_of_keys(encoded: &[u8], keys: Keys) -> Result<Option<u16>, Cross> {
    let (mut found, mut is_cross) = (None, false);
    each_key(encoded, keys, |key| {
        let slot = slot(key);
        is_cross |= found.is_some_and(|other| other != slot);
        found = Some(slot);
    });
    if is_cross { Err(Cross) } else { Ok(found) }
}

/// Where the first argument begins.
#[inline]
fn first_arg(encoded: &[u8]) -> usize {
    number_at(encoded, 1).map_or(usize::MAX, |(_, at)| at)
}

/// The argument that begins there, and where the next one does.
#[inline]
fn arg_at(encoded: &[u8], at: usize) -> Option<(&[u8], usize)> {
    if *encoded.get(at)? != b'$' {
        return None;
    }
    let (len, start) = number_at(encoded, at + 1)?;
    let arg = encoded.get(start..start.checked_add(len)?)?;
    Some((arg, start + len + 2))
}

/// The number that begins there, and where the next line does.
#[inline]
fn number_at(encoded: &[u8], mut at: usize) -> Option<(usize, usize)> {
    let mut number = 0_usize;
    loop {
        match *encoded.get(at)? {
            digit @ b'0'..=b'9' => number = number.checked_mul(10)?.checked_add(usize::from(digit - b'0'))?,
            _ => return Some((number, at + 2)),
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::encode::command;
    use proptest::prelude::*;

    fn encoded(line: &str) -> Vec<u8> {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let mut bytes = Vec::new();
        command(&args, &mut bytes);
        bytes
    }

    #[test]
    fn a_command_goes_to_the_slot_of_its_keys() {
        let mut router = Router::new(7);
        let mut place = |line: &str| router.place(&encoded(line));
        assert_eq!(place("TIME"), Place::of_slot(7));
        assert_eq!(place("SET foo 1"), Place::of_slot(12182));
        assert_eq!(place("GET foo"), Place::of_slot(12182).reads(true));
        assert!(place("GET foo").may_be_replica() && !place("GET foo").is_odd());
        assert_eq!(place("ECHO x"), Place::of_slot(12182), "what has no key goes where the command before went");
        assert_eq!(place("MGET {a}1 {a}2"), Place::of_slot(slot(b"a")).reads(true));
        assert_eq!(place("MGET a b"), Place::CROSS);
        assert_eq!(place("DBSIZE"), Place::ALL);
        assert_eq!(place("SCRIPT LOAD x"), Place::ALL);
        assert_eq!(place("OBJECT ENCODING foo"), Place::of_slot(12182).reads(true));
        assert_eq!(place("GET"), Place::of_slot(12182));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60), end in 0..200_usize) {
            Router::new(0).place(&bytes);
            let line = encoded("ZUNIONSTORE d 2 aaaaaaaaaaaa b WEIGHTS 1 2");
            Router::new(0).place(&line[..end.min(line.len())]);
        }
    }
}
