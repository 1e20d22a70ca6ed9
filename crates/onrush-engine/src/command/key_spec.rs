//! Where a command's keys are among its arguments, in the model of Redis 7: a place where the search begins, and a rule
//! for which of the following arguments are keys.

use std::iter::StepBy;
use std::ops::Range;

use smallvec::SmallVec;

use super::words::{named_flags, next_place};
use crate::batch::argv::Arguments;

named_flags! {
    /// What a command does with the keys of a key spec.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct KeyFlags: u16, named in KEY_FLAG_NAMES {
        /// Reads the value and leaves it.
        RO = 0, "RO";
        /// Changes the value or its metadata.
        RW = 1, "RW";
        /// Overwrites the value.
        OW = 2, "OW";
        /// Deletes the key.
        RM = 3, "RM";
        /// Returns, copies or uses the value's data.
        ACCESS = 4, "access";
        /// Changes data in the value, perhaps depending on it.
        UPDATE = 5, "update";
        /// Adds data and never changes what is there.
        INSERT = 6, "insert";
        /// Removes data from the value.
        DELETE = 7, "delete";
        /// Not a key, but routed like one (sharded channels).
        NOT_KEY = 8, "not_key";
        /// May not cover all keys.
        INCOMPLETE = 9, "incomplete";
        /// The access depends on the other arguments.
        VARIABLE_FLAGS = 10, "variable_flags";
    }
}

/// Key flags by their names, separated by single spaces.
///
/// # Panics
/// On a word that is no key flag.
pub(crate) const fn key_flags(words: &str) -> KeyFlags {
    let (mut flags, mut rest) = (KeyFlags::empty(), words.as_bytes());
    while !rest.is_empty() {
        let (place, after) = next_place(KEY_FLAG_NAMES, rest, "unknown key flag");
        (flags, rest) = (flags.union(KEY_FLAG_NAMES[place].0), after);
    }
    flags
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
