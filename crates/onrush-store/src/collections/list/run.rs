//! A run of elements: the bytes of some hundred elements one after the other, open at both ends.
//!
//! Lengths are kept beside the bytes: one number if all are the same, as they often are, else one or two bytes each.
//!
//! Adding or removing an element takes its size in Redis's listpack ([`listpack_len`]) as an argument: the run keeps
//! the sum.

use std::collections::VecDeque;

use super::{End, listpack_len};
use crate::shrink::shrink;

/// Bytes of one run: an allocator's size class.
pub(super) const RUN_BYTES_MAX: usize = 8 * 1024;

/// The longest element of a run; a longer one has a chunk of its own.
pub(super) const ELEMENT_LEN_MAX: usize = 1024;

#[derive(Clone, Debug)]
#[allow(clippy::box_collection, reason = "most lists need neither, and chunks are small without them")]
enum Lens {
    Same(u16),
    Narrow(Box<VecDeque<u8>>),
    Wide(Box<VecDeque<u16>>),
}

impl Default for Lens {
    fn default() -> Self {
        Lens::Same(0)
    }
}

impl Lens {
    /// Changes the list of lengths, if there is one.
    #[inline(always)]
    fn change(&mut self, narrow: impl FnOnce(&mut VecDeque<u8>), wide: impl FnOnce(&mut VecDeque<u16>)) {
        match self {
            Lens::Same(_) => {}
            Lens::Narrow(lens) => narrow(lens),
            Lens::Wide(lens) => wide(lens),
        }
    }
}

/// Some hundred elements of at most [`ELEMENT_LEN_MAX`] bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct Run {
    /// The elements, from `start` to the end.
    bytes: Vec<u8>,
    start: u32,
    count: u32,
    /// Bytes the elements take in Redis's listpack.
    listpack_bytes: u32,
    lens: Lens,
}

impl Run {
    /// An empty run; `front`: elements will come in at the front. A run of a long list gets all its room at once.
    pub(super) fn new(front: bool, is_long: bool) -> Self {
        let room = if is_long { RUN_BYTES_MAX } else { 0 };
        let (bytes, start) = if front { (vec![0; room], room as u32) } else { (Vec::with_capacity(room), 0) };
        Run { bytes, start, count: 0, listpack_bytes: 0, lens: Lens::Same(0) }
    }

    pub(super) fn len(&self) -> usize {
        self.count as usize
    }

    /// Bytes of all elements.
    pub(super) fn bytes_len(&self) -> usize {
        self.bytes.len() - self.start as usize
    }

    /// Bytes the elements take in Redis's listpack. O(1).
    pub(super) fn listpack_bytes(&self) -> usize {
        self.listpack_bytes as usize
    }

    pub(super) fn has_room(&self, len: usize) -> bool {
        self.bytes_len() + len <= RUN_BYTES_MAX
    }

    /// Gives back unused room at the end.
    pub(super) fn shrink(&mut self) {
        if self.start > 0 && self.bytes.len() - self.bytes_len() > 256 {
            self.bytes.drain(..self.start as usize);
            self.start = 0;
        }
        shrink(&mut self.bytes);
        self.lens.change(VecDeque::shrink_to_fit, VecDeque::shrink_to_fit);
    }

    pub(super) fn size_bytes(&self) -> usize {
        let lens = match &self.lens {
            Lens::Same(_) => 0,
            Lens::Narrow(lens) => size_of::<VecDeque<u8>>() + lens.capacity(),
            Lens::Wide(lens) => size_of::<VecDeque<u16>>() + 2 * lens.capacity(),
        };
        self.bytes.capacity() + lens
    }

    #[inline]
    fn len_of(&self, index: usize) -> usize {
        match &self.lens {
            Lens::Same(len) => *len as usize,
            Lens::Narrow(lens) => lens[index] as usize,
            Lens::Wide(lens) => lens[index] as usize,
        }
    }

    /// Where an element begins in `bytes`. O(1) if all lengths are the same, else O(elements).
    fn offset_of(&self, index: usize) -> usize {
        let before = match &self.lens {
            Lens::Same(len) => *len as usize * index,
            Lens::Narrow(lens) => lens.iter().take(index).map(|&len| len as usize).sum(),
            Lens::Wide(lens) => lens.iter().take(index).map(|&len| len as usize).sum(),
        };
        self.start as usize + before
    }

    #[inline(always)]
    pub(super) fn get(&self, index: usize) -> &[u8] {
        let at = if index + 1 == self.len() {
            self.bytes.len() - self.len_of(index)
        } else if index == 0 {
            self.start as usize
        } else {
            self.offset_of(index)
        };
        &self.bytes[at..at + self.len_of(index)]
    }

    /// The elements from `index` on.
    pub(super) fn iter_from(&self, index: usize) -> impl Iterator<Item = &[u8]> {
        let mut at = self.offset_of(index);
        (index..self.len()).map(move |index| {
            let from = at;
            at += self.len_of(index);
            &self.bytes[from..at]
        })
    }

    /// The elements from `index` down to the first.
    pub(super) fn iter_back_from(&self, index: usize) -> impl Iterator<Item = &[u8]> {
        let mut at = self.offset_of(index) + self.len_of(index);
        (0..=index).rev().map(move |index| {
            let to = at;
            at -= self.len_of(index);
            &self.bytes[at..to]
        })
    }

    /// Makes the lengths hold one of `len`.
    fn widen(&mut self, len: usize) {
        let needs_wide = len > u8::MAX as usize;
        match &self.lens {
            Lens::Same(_) if self.count == 0 => self.lens = Lens::Same(len as u16),
            Lens::Same(same) if *same as usize == len => {}
            Lens::Same(same) if needs_wide || *same > u16::from(u8::MAX) => {
                self.lens = Lens::Wide(Box::new(vec![*same; self.len()].into()));
            }
            Lens::Same(same) => self.lens = Lens::Narrow(Box::new(vec![*same as u8; self.len()].into())),
            Lens::Narrow(lens) if needs_wide => {
                self.lens = Lens::Wide(Box::new(lens.iter().map(|&len| u16::from(len)).collect()));
            }
            Lens::Narrow(_) | Lens::Wide(_) => {}
        }
    }

    /// Adds an element at an end.
    #[inline]
    pub(super) fn push(&mut self, end: End, element: &[u8], listpack_bytes: usize) {
        match end {
            End::Front => self.push_front(element, listpack_bytes),
            End::Back => self.push_back(element, listpack_bytes),
        }
    }

    /// Removes the element at an end, which must exist.
    #[inline]
    pub(super) fn pop(&mut self, end: End, listpack_bytes: usize) {
        match end {
            End::Front => self.pop_front(listpack_bytes),
            End::Back => self.pop_back(listpack_bytes),
        }
    }

    pub(super) fn push_back(&mut self, element: &[u8], listpack_bytes: usize) {
        self.listpack_bytes += listpack_bytes as u32;
        self.widen(element.len());
        self.lens.change(|lens| lens.push_back(element.len() as u8), |lens| lens.push_back(element.len() as u16));
        if self.bytes.len() + element.len() > self.bytes.capacity() {
            self.make_room(element.len());
        }
        self.bytes.extend_from_slice(element);
        self.count += 1;
    }

    /// Makes room at the end; room at the front is used first.
    fn make_room(&mut self, len: usize) {
        let live = self.bytes_len();
        if self.start as usize > live / 2 {
            self.bytes.drain(..self.start as usize);
            self.start = 0;
        }
        if self.bytes.len() + len > self.bytes.capacity() {
            let more = (live / 2).max(len).max(64).min(RUN_BYTES_MAX.saturating_sub(live).max(len));
            self.bytes.reserve_exact(more);
        }
    }

    pub(super) fn push_front(&mut self, element: &[u8], listpack_bytes: usize) {
        self.listpack_bytes += listpack_bytes as u32;
        self.widen(element.len());
        self.lens.change(|lens| lens.push_front(element.len() as u8), |lens| lens.push_front(element.len() as u16));
        if (self.start as usize) < element.len() {
            self.make_front_room(element.len());
        }
        let start = self.start as usize - element.len();
        self.bytes[start..start + element.len()].copy_from_slice(element);
        self.start = start as u32;
        self.count += 1;
    }

    fn make_front_room(&mut self, len: usize) {
        let live = self.bytes_len();
        let room = (live / 2).max(64).min(RUN_BYTES_MAX.saturating_sub(live)).max(len);
        let mut bytes = Vec::with_capacity(room + live);
        bytes.resize(room, 0);
        bytes.extend_from_slice(&self.bytes[self.start as usize..]);
        self.bytes = bytes;
        self.start = room as u32;
    }

    pub(super) fn pop_front(&mut self, listpack_bytes: usize) {
        self.listpack_bytes -= listpack_bytes as u32;
        self.start += self.len_of(0) as u32;
        self.count -= 1;
        self.lens.change(|lens| _ = lens.pop_front(), |lens| _ = lens.pop_front());
    }

    pub(super) fn pop_back(&mut self, listpack_bytes: usize) {
        self.listpack_bytes -= listpack_bytes as u32;
        let len = self.len_of(self.len() - 1);
        self.bytes.truncate(self.bytes.len() - len);
        self.count -= 1;
        self.lens.change(|lens| _ = lens.pop_back(), |lens| _ = lens.pop_back());
    }

    /// Inserts an element in front of the one at `index`; there is room. O(run).
    pub(super) fn insert(&mut self, index: usize, element: &[u8], listpack_bytes: usize) {
        self.listpack_bytes += listpack_bytes as u32;
        let at = self.offset_of(index);
        self.widen(element.len());
        self.lens
            .change(|lens| lens.insert(index, element.len() as u8), |lens| lens.insert(index, element.len() as u16));
        self.bytes.splice(at..at, element.iter().copied());
        self.count += 1;
    }

    /// Removes the element at `index`. O(run).
    pub(super) fn remove(&mut self, index: usize, listpack_bytes: usize) {
        self.listpack_bytes -= listpack_bytes as u32;
        let at = self.offset_of(index);
        self.bytes.drain(at..at + self.len_of(index));
        self.count -= 1;
        self.lens.change(|lens| _ = lens.remove(index), |lens| _ = lens.remove(index));
    }

    /// Takes out the elements from `index` on. O(run).
    pub(super) fn split_off(&mut self, index: usize) -> Run {
        let mut tail = Run::new(false, false);
        self.iter_from(index).for_each(|element| tail.push_back(element, listpack_len(element)));
        while self.len() > index {
            let last = listpack_len(self.get(self.len() - 1));
            self.pop_back(last);
        }
        tail
    }

    /// The run without up to `left` elements equal to `value`, counted from one end; `None` if nothing remains. `left`
    /// is reduced by the number of removed elements. O(run).
    pub(super) fn without(&self, value: &[u8], from: End, left: &mut usize) -> Option<Run> {
        if matches!(self.lens, Lens::Same(len) if len as usize != value.len()) {
            return None;
        }
        let mut places: Vec<usize> =
            self.iter_from(0).enumerate().filter(|(_, e)| *e == value).map(|(at, _)| at).collect();
        let count = places.len().min(*left);
        *left -= count;
        match from {
            End::Front => places.truncate(count),
            End::Back => _ = places.drain(..places.len() - count),
        }
        if places.is_empty() {
            return None;
        }
        let mut rest = Run::new(false, false);
        let mut places = places.into_iter().peekable();
        for (at, element) in self.iter_from(0).enumerate() {
            if places.next_if_eq(&at).is_none() {
                rest.push_back(element, listpack_len(element));
            }
        }
        rest.shrink();
        Some(rest)
    }

    /// Takes over the elements of the run behind this one. O(both).
    pub(super) fn append(&mut self, next: &Run) {
        next.iter_from(0).for_each(|element| self.push_back(element, listpack_len(element)));
    }
}
