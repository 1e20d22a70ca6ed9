//! The arguments of a command.

use std::sync::Arc;

use onrush_resp::ArgRange;

/// The arguments of one command: ranges over the query buffer.
#[derive(Clone, Copy)]
pub struct Argv<'a> {
    bytes: &'a [u8],
    ranges: &'a [ArgRange],
    owned: &'a [Arc<Vec<u8>>],
}

impl<'a> Argv<'a> {
    /// Arguments `ranges` over `bytes`, which starts at the first byte of the command.
    #[inline]
    pub fn new(bytes: &'a [u8], ranges: &'a [ArgRange], owned: &'a [Arc<Vec<u8>>]) -> Self {
        Self { bytes, ranges, owned }
    }

    /// How many there are, the command's name included.
    #[inline]
    #[allow(clippy::len_without_is_empty, reason = "a command has at least its name")]
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Argument `index`; 0 is the command's name.
    #[inline(always)]
    pub fn get(&self, index: usize) -> &'a [u8] {
        self.ranges[index].of(self.bytes, self.owned)
    }

    /// Argument `index`, if it was read into a buffer of its own, which can become a value without a copy.
    #[inline]
    pub fn owned(&self, index: usize) -> Option<&'a Arc<Vec<u8>>> {
        self.ranges[index].owned_index().map(|at| &self.owned[at])
    }

    /// Where the arguments stand, relative to the first byte of the command.
    pub(crate) fn ranges(&self) -> &'a [ArgRange] {
        self.ranges
    }

    /// The command as a multibulk, if it was sent as one and is in one piece.
    #[inline]
    pub(crate) fn multibulk(&self) -> Option<&'a [u8]> {
        const LINE_END_LEN: usize = 2;
        let last = self.ranges.last()?;
        if self.bytes.first() != Some(&b'*') || self.ranges.iter().any(|range| range.owned_index().is_some()) {
            return None;
        }
        // Arguments alone, one behind the other, may begin with any byte.
        if self.ranges.first()?.end() == self.get(0).len() {
            return None;
        }
        self.bytes.get(..last.end() + LINE_END_LEN)
    }

    /// All of them.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + Clone + use<'a> {
        let argv = *self;
        (0..argv.len()).map(move |index| argv.get(index))
    }
}

/// A command's arguments, its name included, however the caller keeps them.
pub trait Arguments {
    /// Their number.
    fn len(&self) -> usize;

    /// One of them.
    ///
    /// # Panics
    /// Unless `index` is below `len`.
    fn get(&self, index: usize) -> &[u8];

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T: AsRef<[u8]>> Arguments for [T] {
    fn len(&self) -> usize {
        <[T]>::len(self)
    }

    fn get(&self, index: usize) -> &[u8] {
        self[index].as_ref()
    }
}

impl<A: Arguments + ?Sized> Arguments for &A {
    fn len(&self) -> usize {
        (**self).len()
    }

    fn get(&self, index: usize) -> &[u8] {
        (**self).get(index)
    }
}

impl Arguments for Argv<'_> {
    fn len(&self) -> usize {
        Argv::len(self)
    }

    fn get(&self, index: usize) -> &[u8] {
        Argv::get(self, index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_sent_as_a_multibulk_is_one() {
        let sent = [ArgRange::new(8, 4), ArgRange::new(18, 1)];
        let argv = Argv::new(b"*2\r\n$4\r\nINCR\r\n$1\r\na\r\n*1", &sent, &[]);
        assert_eq!(argv.multibulk(), Some(&b"*2\r\n$4\r\nINCR\r\n$1\r\na\r\n"[..]));
        let joined = [ArgRange::new(0, 5), ArgRange::new(5, 3)];
        assert_eq!(Argv::new(b"*incrabc\r\n", &joined, &[]).multibulk(), None);
        assert_eq!(Argv::new(b"incr abc\r\n", &joined, &[]).multibulk(), None);
    }
}
