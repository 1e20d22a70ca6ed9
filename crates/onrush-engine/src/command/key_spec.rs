//! Where a command's keys are among its arguments, in the model of Redis 7: a place where the search begins, and a rule
//! for which of the following arguments are keys.

use std::iter::StepBy;
use std::ops::Range;

use smallvec::SmallVec;

use super::words::{same, split_word};
use crate::batch::argv::Arguments;

bitflags::bitflags! {
    /// What a command does with the keys of a key spec.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct KeyFlags: u16 {
        /// Reads the value and leaves it.
        const RO = 1 << 0;
        /// Changes the value or its metadata.
        const RW = 1 << 1;
        /// Overwrites the value.
        const OW = 1 << 2;
        /// Deletes the key.
        const RM = 1 << 3;
        /// Returns, copies or uses the value's data.
        const ACCESS = 1 << 4;
        /// Changes data in the value, perhaps depending on it.
        const UPDATE = 1 << 5;
        /// Adds data and never changes what is there.
        const INSERT = 1 << 6;
        /// Removes data from the value.
        const DELETE = 1 << 7;
        /// Not a key, but routed like one (sharded channels).
        const NOT_KEY = 1 << 8;
        /// May not cover all keys.
        const INCOMPLETE = 1 << 9;
        /// The access depends on the other arguments.
        const VARIABLE_FLAGS = 1 << 10;
    }
}

/// Names of the key flags in the order COMMAND shows them.
pub(crate) const KEY_FLAG_NAMES: &[(KeyFlags, &str)] = &[
    (KeyFlags::RO, "RO"),
    (KeyFlags::RW, "RW"),
    (KeyFlags::OW, "OW"),
    (KeyFlags::RM, "RM"),
    (KeyFlags::ACCESS, "access"),
    (KeyFlags::UPDATE, "update"),
    (KeyFlags::INSERT, "insert"),
    (KeyFlags::DELETE, "delete"),
    (KeyFlags::NOT_KEY, "not_key"),
    (KeyFlags::INCOMPLETE, "incomplete"),
    (KeyFlags::VARIABLE_FLAGS, "variable_flags"),
];

/// Key flags by their names, separated by single spaces.
///
/// # Panics
/// On a word that is no key flag.
pub(crate) const fn key_flags(words: &str) -> KeyFlags {
    let mut bits = 0;
    let mut rest = words.as_bytes();
    while !rest.is_empty() {
        let (word, after) = split_word(rest);
        let mut index = 0;
        while !same(KEY_FLAG_NAMES[index].1.as_bytes(), word) {
            index += 1;
            assert!(index < KEY_FLAG_NAMES.len(), "unknown key flag");
        }
        bits |= KEY_FLAG_NAMES[index].0.bits();
        rest = after;
    }
    KeyFlags::from_bits_retain(bits)
}

/// Where the search for keys begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BeginSearch {
    /// At this argument; the command's name is 0 (and a subcommand's 1).
    Index(u16),
    /// Behind a keyword.
    Keyword {
        /// Upper-case; arguments are compared without regard to case.
        keyword: &'static str,
        /// The argument to look at first; a negative one counts from the end and looks backwards.
        start_from: i16,
    },
    /// Unknown.
    Unknown,
}

/// Which of the following arguments are keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FindKeys {
    /// Every `step`-th argument up to a last one.
    Range {
        /// Relative to the first key; negative counts from the end, -1 is the last argument.
        last: i16,
        /// Distance from a key to the next.
        step: u16,
        /// With `last` -1: only the first 1/limit of the arguments; 0 and 1 stand for all.
        limit: u16,
    },
    /// An argument tells the number of keys.
    KeyNum {
        /// The argument with the number, relative to the begin.
        num_index: u16,
        /// The first key, relative to the begin.
        first: u16,
        /// Distance from a key to the next.
        step: u16,
    },
    /// Unknown.
    Unknown,
}

/// Where some of a command's keys are and what happens to them, in the model of Redis 7.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeySpec {
    /// What happens to them.
    pub flags: KeyFlags,
    /// Where to begin.
    pub begin: BeginSearch,
    /// Which arguments from there on.
    pub find: FindKeys,
    /// A remark for people, or empty.
    pub notes: &'static str,
}

impl KeySpec {
    /// The first argument is a key: the usual case.
    pub(crate) const fn key(words: &str) -> Self {
        Self::keys(words, 1, 0, 1)
    }

    /// Keys from argument `first` up to `last` (relative to `first`, or from the end if negative), every `step`-th.
    pub(crate) const fn keys(words: &str, first: u16, last: i16, step: u16) -> Self {
        Self::new(words, BeginSearch::Index(first), FindKeys::Range { last, step, limit: 0 })
    }

    /// Argument `num_index` tells the number of the keys that follow it.
    pub(crate) const fn numkeys(words: &str, num_index: u16) -> Self {
        let find = FindKeys::KeyNum { num_index: 0, first: 1, step: 1 };
        Self::new(words, BeginSearch::Index(num_index), find)
    }

    /// The argument behind `keyword`, looked for from `start_from` on.
    pub(crate) const fn keyword(words: &str, keyword: &'static str, start_from: i16) -> Self {
        let begin = BeginSearch::Keyword { keyword, start_from };
        Self::new(words, begin, FindKeys::Range { last: 0, step: 1, limit: 0 })
    }

    /// Keys whose place depends on the arguments in ways that a spec cannot express.
    pub(crate) const fn unknown(words: &str) -> Self {
        Self::new(words, BeginSearch::Unknown, FindKeys::Unknown)
    }

    /// A spec from its parts; `words` are key flags.
    pub(crate) const fn new(words: &str, begin: BeginSearch, find: FindKeys) -> Self {
        Self { flags: key_flags(words), begin, find, notes: "" }
    }

    /// The same with a remark.
    pub(crate) const fn notes(mut self, notes: &'static str) -> Self {
        self.notes = notes;
        self
    }
}

/// A key among the arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRef {
    /// Its argument.
    pub index: usize,
    /// What happens to it.
    pub flags: KeyFlags,
}

/// Keys among the arguments; few of them take no memory of their own.
pub type KeyRefs = SmallVec<[KeyRef; 4]>;

/// Finds the keys of a command whose key specs cannot; appends them in the order of the arguments.
///
/// # Errors
/// [`Invalid`] if the arguments do not form a call.
pub(crate) type GetKeys = fn(&dyn Arguments, &mut KeyRefs) -> Result<(), Invalid>;

/// The arguments contradict the key specs: the number of keys is not a number, or too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invalid;

/// Keys at fixed places, by the numbers of their arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyRange {
    /// The first key; at least 1.
    pub first: i32,
    /// The last key; a negative number counts from the end, -1 is the last argument.
    pub last: i32,
    /// The distance between keys; at least 1.
    pub step: i32,
}

impl KeyRange {
    /// The argument of the only key, if every call has exactly one.
    #[inline]
    pub(crate) fn only(self) -> Option<usize> {
        (self.first == self.last).then_some(self.first as usize)
    }

    /// The arguments that are keys, in a call of `argc` arguments.
    #[inline]
    pub(crate) fn indexes(self, argc: usize) -> StepBy<Range<usize>> {
        let last = if self.last < 0 { (argc as i32 + self.last).max(0) } else { self.last };
        (self.first as usize..(last as usize + 1).min(argc)).step_by(self.step as usize)
    }
}

/// The keys at fixed places as one range, if they form one. Keys elsewhere are left out.
pub(super) fn fixed_range(specs: &[KeySpec]) -> Option<KeyRange> {
    let mut whole: Option<KeyRange> = None;
    for spec in specs {
        let (BeginSearch::Index(begin), FindKeys::Range { last, step, .. }) = (spec.begin, spec.find) else {
            continue;
        };
        let (begin, last, step) = (i32::from(begin), i32::from(last), i32::from(step));
        let last = if last >= 0 { begin + last } else { last };
        whole = match whole {
            None => Some(KeyRange { first: begin, last, step: step.max(1) }),
            Some(KeyRange { first, last: before, step: 1 }) if step == 1 && before + 1 == begin => {
                Some(KeyRange { first, last, step: 1 })
            }
            Some(_) => return whole,
        };
    }
    whole
}

/// Whether a command's keys can be at places that [`fixed_range`] does not cover.
pub(super) fn are_movable(specs: &[KeySpec]) -> bool {
    !specs.iter().all(|spec| matches!((spec.begin, spec.find), (BeginSearch::Index(_), FindKeys::Range { .. })))
}
