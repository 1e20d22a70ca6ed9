//! The arguments that a handler has not read yet: how it reads its options.

use std::ops::Range;

use onrush_resp::parse_i64;

use crate::batch::argv::Argv;
use crate::error::{self, CommandError};

/// The arguments from some index to the end. A handler takes them one after the other.
///
/// Conditions stand before the word that they allow, as a word that has been taken is gone:
///
/// ```text
/// let mut rest = ctx.rest(3);
/// while !rest.is_empty() {
///     if rest.take("REPLACE") {
///         replaces = true;
///     } else if db.is_none() && rest.take_with("DB", 1) {
///         db = Some(rest.next_int()?);
///     } else {
///         return Err(error::SYNTAX);
///     }
/// }
/// ```
#[derive(Clone, Copy)]
pub(crate) struct RestOfArgs<'a> {
    argv: Argv<'a>,
    /// The argument that comes next; the number of arguments if none is left.
    at: usize,
}

impl<'a> RestOfArgs<'a> {
    /// The arguments from `at` on.
    #[inline]
    pub(crate) fn new(argv: Argv<'a>, at: usize) -> Self {
        Self { argv, at }
    }

    /// How many arguments are left.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.argv.len().saturating_sub(self.at)
    }

    /// Whether no argument is left.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.at >= self.argv.len()
    }

    /// The index of the argument that comes next.
    #[inline]
    pub(crate) fn index(&self) -> usize {
        self.at
    }

    /// The argument that comes next, if any is left.
    #[inline]
    pub(crate) fn peek(&self) -> Option<&'a [u8]> {
        (!self.is_empty()).then(|| self.argv.get(self.at))
    }

    /// Whether this word comes next, in any case.
    #[inline]
    pub(crate) fn is(&self, word: &str) -> bool {
        self.peek().is_some_and(|arg| arg.eq_ignore_ascii_case(word.as_bytes()))
    }

    /// Takes this word if it comes next, in any case.
    #[inline]
    pub(crate) fn take(&mut self, word: &str) -> bool {
        self.take_with(word, 0)
    }

    /// Takes this word, but not its values, if it comes next and at least so many values follow it.
    #[inline]
    pub(crate) fn take_with(&mut self, word: &str, values: usize) -> bool {
        let taken = self.len() > values && self.is(word);
        self.at += usize::from(taken);
        taken
    }

    /// Takes one of these words if it comes next; returns what stands beside it.
    #[inline]
    pub(crate) fn take_one_of<T, const N: usize>(&mut self, words: [(&str, T); N]) -> Option<T> {
        self.take_one_of_with(words, 0)
    }

    /// As [`RestOfArgs::take_one_of`], if at least so many values follow the word.
    #[inline]
    pub(crate) fn take_one_of_with<T, const N: usize>(&mut self, words: [(&str, T); N], values: usize) -> Option<T> {
        if self.len() <= values {
            return None;
        }
        let arg = self.argv.get(self.at);
        let nth = words.iter().position(|(word, _)| arg.eq_ignore_ascii_case(word.as_bytes()))?;
        self.at += 1;
        words.into_iter().nth(nth).map(|(_, found)| found)
    }

    /// Takes the next argument if at least so many values follow it and `read` knows it; returns what `read` makes of
    /// it.
    // As a call it costs SET with EX 20 of 1,720 instructions.
    #[inline(always)]
    pub(crate) fn take_if<T>(&mut self, values: usize, read: impl FnOnce(&'a [u8]) -> Option<T>) -> Option<T> {
        if self.len() <= values {
            return None;
        }
        let found = read(self.argv.get(self.at))?;
        self.at += 1;
        Some(found)
    }

    /// Takes the next argument.
    ///
    /// # Panics
    /// None is left.
    #[inline]
    pub(crate) fn next_arg(&mut self) -> &'a [u8] {
        let index = self.next_index();
        self.argv.get(index)
    }

    /// Takes the next argument, which must be there; returns its index.
    #[inline]
    pub(crate) fn next_index(&mut self) -> usize {
        self.next_range(1).start
    }

    /// Takes so many arguments, which must be there; returns their indexes.
    #[inline]
    pub(crate) fn next_range(&mut self, len: usize) -> Range<usize> {
        let start = self.at;
        self.at += len;
        start..self.at
    }

    /// Takes the next argument as an integer.
    ///
    /// # Errors
    /// `ERR value is not an integer or out of range`
    ///
    /// # Panics
    /// None is left.
    #[inline]
    pub(crate) fn next_int(&mut self) -> Result<i64, CommandError> {
        self.next_int_or(error::NOT_INTEGER)
    }

    /// As [`RestOfArgs::next_int`], with another error text.
    ///
    /// # Errors
    /// The one given.
    #[inline]
    pub(crate) fn next_int_or(&mut self, error: CommandError) -> Result<i64, CommandError> {
        parse_i64(self.next_arg()).ok_or(error)
    }
}

#[cfg(test)]
mod tests {
    use onrush_resp::ArgRange;

    use super::*;

    const BYTES: &[u8] = b"count5get";
    fn ranges() -> [ArgRange; 3] {
        [ArgRange::new(0, 5), ArgRange::new(5, 1), ArgRange::new(6, 3)]
    }

    #[test]
    fn a_word_is_taken_in_any_case_and_only_where_it_stands() {
        let ranges = ranges();
        let mut rest = RestOfArgs::new(Argv::new(BYTES, &ranges, &[]), 0);
        assert!(!rest.take("GET") && !rest.take("COUN") && !rest.take("COUNTS"));
        assert!(rest.take("Count") && !rest.take("COUNT"));
        assert_eq!((rest.index(), rest.len(), rest.peek()), (1, 2, Some(&b"5"[..])));
    }

    #[test]
    fn a_word_stays_if_its_values_are_missing() {
        let ranges = ranges();
        let mut rest = RestOfArgs::new(Argv::new(BYTES, &ranges, &[]), 0);
        assert!(!rest.take_with("COUNT", 3) && rest.take_with("COUNT", 2));
        assert_eq!(rest.next_int(), Ok(5));
        assert!(!rest.take_with("GET", 1));
        assert_eq!(rest.take_one_of_with([("GET", ())], 1), None);
        assert_eq!(rest.take_one_of([("SET", 1), ("GET", 2)]), Some(2));
    }

    #[test]
    fn at_the_end_there_is_no_word() {
        let ranges = ranges();
        let mut rest = RestOfArgs::new(Argv::new(BYTES, &ranges, &[]), 0);
        assert_eq!(rest.next_range(3), 0..3);
        assert!(rest.is_empty() && !rest.is("") && !rest.take("GET"));
        assert_eq!((rest.len(), rest.index(), rest.peek(), rest.take_if(0, Some)), (0, 3, None, None));
    }
}
