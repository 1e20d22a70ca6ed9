//! Lists: sequences open at both ends.

mod chunks;
mod run;

use std::sync::Arc;

use crate::collections::frozen_form;
use crate::entries::compact::{Compact, Form, FormMut, embedded};
use crate::entries::listpack::{self, Elements, element};
use crate::strings::int::parse_int;
use crate::{Encoding, ListLimits, Packed};
use chunks::Chunks;

/// Elements and bytes up to which a list is one run of bytes that is walked from its start.
const PACKED_ELEMENTS_MAX: usize = 32;
const PACKED_BYTES_MAX: usize = 512;

/// What Redis's listpack has around its elements, in bytes.
pub(crate) const LISTPACK_HEAD_LEN: usize = 7;

/// A sequence of byte strings, open at both ends.
///
/// A handful of elements is one packed run, more are kept in chunks. The list also counts the bytes of Redis's
/// encoding, to report `listpack` or `quicklist` as Redis does.
#[derive(Clone, Debug, Default)]
#[repr(transparent)]
pub struct List(Compact<Chunks>);

embedded!(List);

/// One of the two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The left one, index 0.
    Front,
    /// The right one.
    Back,
}

/// An element read in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element<'a> {
    /// A short one.
    Bytes(&'a [u8]),
    /// A long one; clone the `Arc` to keep it.
    Shared(&'a Arc<Vec<u8>>),
}

impl<'a> Element<'a> {
    /// Its bytes.
    #[inline]
    pub fn as_bytes(self) -> &'a [u8] {
        match self {
            Element::Bytes(bytes) => bytes,
            Element::Shared(bytes) => bytes,
        }
    }
}

/// Bytes that an element takes in Redis's listpack (its `listpack.c` describes the format): integers are kept as such.
pub(crate) fn listpack_len(element: &[u8]) -> usize {
    let own = match parse_int(element) {
        Some(0..=127) => 1,
        Some(-4096..=4095) => 2,
        Some(-32_768..=32_767) => 3,
        Some(-8_388_608..=8_388_607) => 4,
        Some(n) if i32::try_from(n).is_ok() => 5,
        Some(_) => 9,
        None => match element.len() {
            len @ ..64 => 1 + len,
            len @ ..4096 => 2 + len,
            len => 5 + len,
        },
    };
    own + match own {
        0..128 => 1,
        128..16_384 => 2,
        16_384..2_097_152 => 3,
        _ => 4,
    }
}

/// Whether Redis would keep this many elements and bytes in one listpack; with `shrinking` half of the limits apply.
fn fits(limits: &ListLimits, len: usize, bytes: usize, shrinking: bool) -> bool {
    const NODE_BYTES: [usize; 5] = [4096, 8192, 16_384, 32_768, 65_536];
    // For nodes whose limit is a number of elements.
    const SAFE_BYTES: usize = 8192;
    let (len_max, bytes_max) = match limits.listpack_size {
        // 0 stands for 1: an element always has a listpack.
        size @ 0.. => (size.max(1) as usize, SAFE_BYTES),
        size => (usize::MAX, NODE_BYTES[((-size) as usize - 1).min(4)]),
    };
    let divisor = if shrinking { 2 } else { 1 };
    len <= len_max / divisor && bytes <= bytes_max / divisor
}

impl List {
    /// Number of elements. O(1).
    pub fn len(&self) -> usize {
        match self.0.form() {
            Form::Large(chunks) => chunks.len(),
            Form::Packed(packed) => Elements::new(packed, 0).count(),
        }
    }

    /// Whether there are none. O(1).
    pub fn is_empty(&self) -> bool {
        match self.0.form() {
            Form::Large(chunks) => chunks.len() == 0,
            Form::Packed(packed) => packed.is_empty(),
        }
    }

    /// The encoding, as OBJECT ENCODING reports it. O(1).
    pub fn encoding(&self) -> Encoding {
        match self.0.form() {
            Form::Large(chunks) if chunks.is_quicklist => Encoding::Quicklist,
            _ => Encoding::Listpack,
        }
    }

    /// Bytes allocated. O(chunks).
    pub fn size_bytes(&self) -> usize {
        match self.0.form() {
            Form::Large(chunks) => chunks.size_bytes(),
            Form::Packed(_) => self.0.packed_bytes(),
        }
    }

    /// About how many allocations freeing it gives back.
    pub fn free_effort(&self) -> usize {
        self.0.as_large().map_or(1, Chunks::free_effort)
    }

    /// A large list as it is now, which shares its elements with this one; `None` if it is small. O(chunks).
    pub(crate) fn freeze(&mut self) -> Option<Self> {
        frozen_form(&mut self.0, Chunks::freeze).map(List)
    }

    pub(crate) fn thaw(&mut self) {
        if let FormMut::Large(chunks) = self.0.form_mut() {
            chunks.thaw();
        }
    }

    fn make_large(&mut self) -> &mut Chunks {
        if let Form::Packed(packed) = self.0.form() {
            let mut chunks = Chunks::new();
            Elements::new(packed, 0).for_each(|element| chunks.push(End::Back, element));
            self.0 = Compact::large(Box::new(chunks));
        }
        match self.0.form_mut() {
            FormMut::Large(chunks) => chunks,
            FormMut::Packed(_) => unreachable!("made large above"),
        }
    }

    /// Adds an element at an end. O(1).
    pub fn push(&mut self, end: End, element: &[u8], limits: &ListLimits) {
        if let FormMut::Packed(packed) = self.0.form_mut()
            && packed.len() + element.len() < PACKED_BYTES_MAX
        {
            let len = Elements::new(packed, 0).count() + 1;
            // This few bytes are within every limit; only the number of elements may exceed one.
            if len <= PACKED_ELEMENTS_MAX && fits(limits, len, 0, false) {
                let at = if end == End::Front { 0 } else { packed.len() };
                return listpack::insert_one(packed, at, element);
            }
        }
        let chunks = self.make_large();
        chunks.push(end, element);
        chunks.is_quicklist |= !fits(limits, chunks.len(), chunks.listpack_bytes, false);
    }

    /// The element at an end. O(1).
    pub fn peek(&self, end: End) -> Option<Element<'_>> {
        match self.0.form() {
            Form::Large(chunks) => chunks.peek(end),
            Form::Packed(packed) => {
                let mut elements = Elements::new(packed, 0);
                let found = if end == End::Front { elements.next() } else { elements.last() };
                found.map(Element::Bytes)
            }
        }
    }

    /// Removes the element at an end, if there is one. O(1).
    pub fn drop_one(&mut self, end: End, limits: &ListLimits) {
        self.take_one(end);
        self.note_shorter(limits);
    }

    /// Moves an element, given anew, from one end to another or the same one. Only then may the list count as short. O(1).
    pub fn rotate(&mut self, from: End, to: End, element: &[u8], limits: &ListLimits) {
        self.take_one(from);
        self.push(to, element, limits);
        self.note_shorter(limits);
    }

    fn take_one(&mut self, end: End) {
        match self.0.form_mut() {
            FormMut::Large(chunks) => chunks.drop_one(end),
            FormMut::Packed(packed) if packed.is_empty() => {}
            FormMut::Packed(packed) => {
                let at = if end == End::Front { 0 } else { last_at(packed) };
                let end = element(packed, at).end;
                packed.remove(at..end);
            }
        }
    }

    fn note_shorter(&mut self, limits: &ListLimits) {
        if let FormMut::Large(chunks) = self.0.form_mut() {
            Self::shrunk(chunks, limits);
        }
    }

    /// Reports a list that has become short as a listpack again.
    fn shrunk(chunks: &mut Chunks, limits: &ListLimits) {
        if chunks.is_quicklist && fits(limits, chunks.len(), chunks.listpack_bytes, true) {
            chunks.is_quicklist = false;
        }
    }

    /// The element at `index`. O(chunks), from the nearer end.
    pub fn get(&self, index: usize) -> Option<Element<'_>> {
        match self.0.form() {
            Form::Large(chunks) => chunks.get(index),
            Form::Packed(packed) => Elements::new(packed, 0).nth(index).map(Element::Bytes),
        }
    }

    /// Replaces the element at `index`, which must exist. O(chunks).
    pub fn set(&mut self, index: usize, element: &[u8], limits: &ListLimits) {
        if let FormMut::Packed(packed) = self.0.form_mut()
            && packed.len() + element.len() < PACKED_BYTES_MAX
        {
            let at = nth_at(packed, index);
            return listpack::replace(packed, at, element);
        }
        let chunks = self.make_large();
        chunks.remove(index);
        chunks.insert(index, element);
        chunks.is_quicklist |= !fits(limits, chunks.len(), chunks.listpack_bytes, false);
        Self::shrunk(chunks, limits);
    }

    /// Inserts an element in front of the one at `index`, or at the end. O(chunks).
    pub fn insert(&mut self, index: usize, element: &[u8], limits: &ListLimits) {
        let len = self.len();
        if index == 0 || index >= len {
            return self.push(if index == 0 { End::Front } else { End::Back }, element, limits);
        }
        if let FormMut::Packed(packed) = self.0.form_mut()
            && packed.len() + element.len() < PACKED_BYTES_MAX
            && len < PACKED_ELEMENTS_MAX
            && fits(limits, len + 1, 0, false)
        {
            let at = nth_at(packed, index);
            return listpack::insert_one(packed, at, element);
        }
        let chunks = self.make_large();
        chunks.insert(index, element);
        chunks.is_quicklist |= !fits(limits, chunks.len(), chunks.listpack_bytes, false);
    }

    /// Makes it a quicklist if another element would make it one: LSET and LINSERT do so even if they change nothing.
    /// O(1), O(elements) if it becomes one.
    pub fn expect_one_more(&mut self, element: &[u8], limits: &ListLimits) {
        let len = self.len() + 1;
        match self.0.form_mut() {
            FormMut::Large(chunks) => {
                let bytes = chunks.listpack_bytes + listpack_len(element);
                chunks.is_quicklist |= !fits(limits, len, bytes, false);
            }
            FormMut::Packed(_) if fits(limits, len, 0, false) => {}
            FormMut::Packed(_) => self.make_large().is_quicklist = true,
        }
    }

    /// Removes up to `count` elements that are `value`, from one end on; returns how many. O(elements from
    /// that end to the last one removed).
    pub fn remove_values(&mut self, value: &[u8], from: End, count: usize, limits: &ListLimits) -> usize {
        match self.0.form_mut() {
            FormMut::Large(chunks) => {
                let removed = chunks.remove_values(value, from, count);
                if removed > 0 {
                    Self::shrunk(chunks, limits);
                }
                removed
            }
            FormMut::Packed(packed) => {
                let mut left = count;
                let mut keep = |element: &[u8]| {
                    let goes = left > 0 && element == value;
                    left -= usize::from(goes);
                    !goes
                };
                let mut elements: Vec<&[u8]> = Elements::new(packed, 0).collect();
                let before = elements.len();
                if from == End::Back {
                    elements.reverse();
                }
                elements.retain(|element| keep(element));
                if from == End::Back {
                    elements.reverse();
                }
                let removed = before - elements.len();
                if removed > 0 {
                    let mut rest = Packed::with_capacity(packed.len());
                    for element in elements {
                        let end = rest.len();
                        listpack::insert_one(&mut rest, end, element);
                    }
                    *packed = rest;
                }
                removed
            }
        }
    }

    /// Keeps only the `count` elements from `start` on. O(chunks).
    pub fn trim(&mut self, start: usize, count: usize, limits: &ListLimits) {
        let len = self.len();
        let (before, behind) = (start.min(len), len.saturating_sub(start.saturating_add(count)));
        match self.0.form_mut() {
            FormMut::Large(chunks) => {
                chunks.drop_many(End::Front, before);
                chunks.drop_many(End::Back, behind);
                Self::shrunk(chunks, limits);
            }
            FormMut::Packed(packed) => {
                let end = nth_at(packed, len - behind);
                packed.remove(end..packed.len());
                let start = nth_at(packed, before.min(len - behind));
                packed.remove(0..start);
            }
        }
    }

    /// The elements from `index` on.
    pub fn iter_from(&self, index: usize) -> Box<dyn Iterator<Item = Element<'_>> + '_> {
        match self.0.form() {
            Form::Large(chunks) => chunks.iter_from(index),
            Form::Packed(packed) => Box::new(Elements::new(packed, 0).skip(index).map(Element::Bytes)),
        }
    }

    /// All elements.
    pub fn iter(&self) -> Box<dyn Iterator<Item = Element<'_>> + '_> {
        self.iter_from(0)
    }

    /// The elements from `index`, which must exist, down to the first.
    pub fn iter_back_from(&self, index: usize) -> Box<dyn Iterator<Item = Element<'_>> + '_> {
        match self.0.form() {
            Form::Large(chunks) => chunks.iter_back_from(index),
            Form::Packed(packed) => {
                let elements: Vec<_> = Elements::new(packed, 0).take(index + 1).map(Element::Bytes).collect();
                Box::new(elements.into_iter().rev())
            }
        }
    }
}

/// Where the element at `index` begins; for an index that is the length, the end.
fn nth_at(packed: &[u8], index: usize) -> usize {
    let mut elements = Elements::new(packed, 0);
    (0..index).for_each(|_| _ = elements.next());
    elements.at()
}

/// Where the last of some elements begins.
fn last_at(packed: &[u8]) -> usize {
    let mut at = 0;
    loop {
        let next = element(packed, at).end;
        if next == packed.len() {
            return at;
        }
        at = next;
    }
}

impl PartialEq for List {
    fn eq(&self, other: &Self) -> bool {
        let bytes = |element: Element<'_>| element.as_bytes().to_vec();
        self.len() == other.len() && self.iter().map(bytes).eq(other.iter().map(bytes))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use crate::Random;

    #[test]
    fn short_lists_are_listpacks_and_come_back_at_half() {
        let limits = ListLimits { listpack_size: 4 };
        let mut list = List::default();
        (0..4).for_each(|_| list.push(End::Back, b"x", &limits));
        assert_eq!(list.encoding(), Encoding::Listpack);
        list.push(End::Front, b"x", &limits);
        assert_eq!(list.encoding(), Encoding::Quicklist);
        (0..2).for_each(|_| list.drop_one(End::Back, &limits));
        assert_eq!((list.len(), list.encoding()), (3, Encoding::Quicklist));
        list.rotate(End::Back, End::Front, b"x", &limits);
        assert_eq!((list.len(), list.encoding()), (3, Encoding::Quicklist));
        list.drop_one(End::Back, &limits);
        assert_eq!((list.len(), list.encoding()), (2, Encoding::Listpack));
        let mut list = List::default();
        list.push(End::Back, &[b'x'; 8_175], &ListLimits::default());
        assert_eq!(list.encoding(), Encoding::Listpack);
        list.push(End::Back, b"xxxxx", &ListLimits::default());
        assert_eq!(list.encoding(), Encoding::Quicklist);
    }

    #[test]
    fn an_element_takes_hardly_more_than_its_bytes() {
        if cfg!(miri) {
            return;
        }
        for end in [End::Front, End::Back] {
            let mut list = List::default();
            (0..100_000).for_each(|n| list.push(end, format!("member:{n:07}").as_bytes(), &ListLimits::default()));
            let each = list.size_bytes() as f64 / list.len() as f64;
            assert!(each < 14.4, "{each} bytes for an element of 14");
        }
    }

    #[test]
    fn removing_at_one_end_leaves_the_rest_where_it_is() {
        let limits = ListLimits::default();
        let mut list = List::default();
        (0..2_000).for_each(|n| list.push(End::Back, format!("member:{n:07}").as_bytes(), &limits));
        let address = |list: &List, index| list.get(index).map(|element| element.as_bytes().as_ptr());
        let last = address(&list, 1_999);
        assert_eq!(list.remove_values(b"member:0000001", End::Front, 1, &limits), 1);
        assert_eq!(address(&list, 1_998), last);
        list.push(End::Front, b"first", &limits);
        let first = address(&list, 0);
        assert_eq!(list.remove_values(b"member:0001998", End::Back, 1, &limits), 1);
        assert_eq!((address(&list, 0), list.len()), (first, 1_999));
    }

    #[test]
    fn what_is_left_of_many_chunks_is_put_together() {
        let limits = ListLimits::default();
        for from in [End::Front, End::Back] {
            let mut list = List::default();
            let count = if cfg!(miri) { 1_500 } else { 50_000 };
            (0..count).for_each(|n| {
                let element = if n % 100 == 0 { format!("stays:{n:08}") } else { "goes:000000000".to_owned() };
                list.push(End::Back, element.as_bytes(), &limits);
            });
            assert_eq!(list.remove_values(b"goes:000000000", from, usize::MAX, &limits), count - count / 100);
            let expected = (0..count).step_by(100).map(|n| format!("stays:{n:08}").into_bytes());
            assert!(list.iter().map(|element| element.as_bytes().to_vec()).eq(expected));
            assert!(list.size_bytes() < 40 * list.len() + 1_000, "{} bytes", list.size_bytes());
        }
    }

    /// All operations at random, on short lists and long ones, against a deque.
    #[test]
    fn agrees_with_a_deque() {
        let operations = if cfg!(miri) { 600 } else { 120_000 };
        let mut random = Random::new(2);
        let limits = ListLimits { listpack_size: 20 };
        let mut list = List::default();
        let mut model: VecDeque<Vec<u8>> = VecDeque::new();
        for step in 0..operations {
            let phase = step / 3_000 % 4;
            if step % 3_000 == 0 {
                (list, model) = (List::default(), VecDeque::new());
            }
            let len = [vec![14], vec![0, 1, 3, 14], vec![1, 300, 800], vec![3, 1500]][phase].clone();
            let element = vec![b'a' + random.below(5) as u8; len[random.below(len.len())]];
            let end = [End::Front, End::Back][random.below(2)];
            let index = random.below(model.len().max(1));
            match random.below(if model.len() > 1_500 { 30 } else { 24 }) {
                0..12 => {
                    list.push(end, &element, &limits);
                    if end == End::Front { model.push_front(element) } else { model.push_back(element) }
                }
                12..18 | 24.. => {
                    let expected = if end == End::Front { model.pop_front() } else { model.pop_back() };
                    assert_eq!(list.peek(end).map(|element| element.as_bytes().to_vec()), expected);
                    list.drop_one(end, &limits);
                }
                18 if !model.is_empty() => {
                    list.set(index, &element, &limits);
                    model[index] = element;
                }
                19 if !model.is_empty() => {
                    list.insert(index, &element, &limits);
                    model.insert(index, element);
                }
                20 => {
                    let count = 1 + random.below(3);
                    let mut left = count;
                    let mut kept: VecDeque<Vec<u8>> = VecDeque::new();
                    let all: Vec<_> = model.drain(..).collect();
                    let order: Vec<_> = if end == End::Front { all } else { all.into_iter().rev().collect() };
                    for old in order {
                        let goes = old == element && left > 0;
                        left -= usize::from(goes);
                        if !goes {
                            if end == End::Front { kept.push_back(old) } else { kept.push_front(old) }
                        }
                    }
                    assert_eq!(list.remove_values(&element, end, count, &limits), count - left);
                    model = kept;
                }
                21 if step % 11 == 0 => {
                    let count = random.below(model.len() + 3);
                    list.trim(index, count, &limits);
                    model = model.into_iter().skip(index).take(count).collect();
                }
                _ if !model.is_empty() => {
                    let got = list.get(index).map(|element| element.as_bytes().to_vec());
                    assert_eq!(got.as_ref(), model.get(index));
                }
                _ => assert!(list.get(0).is_none()),
            }
            assert_eq!((list.len(), list.is_empty()), (model.len(), model.is_empty()));
            if let Some(chunks) = list.0.as_large() {
                chunks.assert_sums();
            }
            if step % 41 == 0 && !model.is_empty() {
                let index = random.below(model.len());
                assert!(list.iter_from(index).map(Element::as_bytes).eq(model.range(index..).map(|e| &e[..])));
                let back = list.iter_back_from(index).map(Element::as_bytes);
                assert!(back.eq(model.range(..=index).rev().map(|e| &e[..])));
                assert_eq!(list, list.clone());
            }
        }
    }
}
