//! A list in chunks: runs of short elements, and long elements by themselves.

use std::collections::VecDeque;
use std::sync::Arc;

use super::run::{ELEMENT_LEN_MAX, RUN_BYTES_MAX, Run};
use super::{Element, End, LISTPACK_HEAD_LEN, listpack_len};

#[derive(Clone, Debug)]
enum Chunk {
    Run(Run),
    Long(Arc<Vec<u8>>),
}

impl Chunk {
    fn len(&self) -> usize {
        match self {
            Chunk::Run(run) => run.len(),
            Chunk::Long(_) => 1,
        }
    }

    fn get(&self, index: usize) -> Element<'_> {
        match self {
            Chunk::Run(run) => Element::Bytes(run.get(index)),
            Chunk::Long(bytes) => Element::Shared(bytes),
        }
    }

    fn of(element: &[u8], end: End, is_long_list: bool, listpack_bytes: usize) -> Self {
        if element.len() > ELEMENT_LEN_MAX {
            return Chunk::Long(Arc::new(element.to_vec()));
        }
        let mut run = Run::new(end == End::Front, is_long_list);
        match end {
            End::Front => run.push_front(element, listpack_bytes),
            End::Back => run.push_back(element, listpack_bytes),
        }
        Chunk::Run(run)
    }

    /// Bytes its elements take in Redis's listpack. O(1).
    fn listpack_bytes(&self) -> usize {
        match self {
            Chunk::Run(run) => run.listpack_bytes(),
            Chunk::Long(bytes) => listpack_len(bytes),
        }
    }
}

/// What removing did to a chunk.
enum Change {
    None,
    Shrunk,
    Gone,
}

/// A list in chunks.
#[derive(Clone, Debug)]
pub(super) struct Chunks {
    chunks: VecDeque<Chunk>,
    len: usize,
    /// Bytes it would take as one listpack of Redis, by which encodings are told apart.
    pub(super) listpack_bytes: usize,
    /// Whether it is reported as a quicklist.
    pub(super) is_quicklist: bool,
}

impl Chunks {
    pub(super) fn new() -> Self {
        Chunks { chunks: VecDeque::new(), len: 0, listpack_bytes: LISTPACK_HEAD_LEN, is_quicklist: false }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn size_bytes(&self) -> usize {
        let chunk_bytes = |chunk: &Chunk| match chunk {
            Chunk::Run(run) => run.size_bytes(),
            Chunk::Long(bytes) => bytes.capacity() + size_of::<Vec<u8>>() + 2 * size_of::<usize>(),
        };
        let chunks: usize = self.chunks.iter().map(chunk_bytes).sum();
        chunks + self.chunks.capacity() * size_of::<Chunk>() + size_of::<Self>()
    }

    /// Panics unless what is kept about all elements is so.
    #[cfg(test)]
    pub(super) fn assert_sums(&self) {
        assert_eq!(self.len, self.chunks.iter().map(Chunk::len).sum::<usize>());
        let bytes: usize = self.chunks.iter().map(Chunk::listpack_bytes).sum();
        assert_eq!(self.listpack_bytes, LISTPACK_HEAD_LEN + bytes);
        for chunk in &self.chunks {
            if let Chunk::Run(run) = chunk {
                assert_eq!(run.listpack_bytes(), run.iter_from(0).map(listpack_len).sum::<usize>());
            }
        }
    }

    pub(super) fn free_effort(&self) -> usize {
        2 + self.chunks.len()
    }

    pub(super) fn push(&mut self, end: End, element: &[u8]) {
        self.len += 1;
        let listpack_bytes = listpack_len(element);
        self.listpack_bytes += listpack_bytes;
        let chunk = match end {
            End::Front => self.chunks.front_mut(),
            End::Back => self.chunks.back_mut(),
        };
        if let Some(Chunk::Run(run)) = chunk {
            if element.len() <= ELEMENT_LEN_MAX && run.has_room(element.len()) {
                match end {
                    End::Front => run.push_front(element, listpack_bytes),
                    End::Back => run.push_back(element, listpack_bytes),
                }
                return;
            }
            run.shrink();
        }
        let chunk = Chunk::of(element, end, !self.chunks.is_empty(), listpack_bytes);
        match end {
            End::Front => self.chunks.push_front(chunk),
            End::Back => self.chunks.push_back(chunk),
        }
    }

    #[inline]
    pub(super) fn peek(&self, end: End) -> Option<Element<'_>> {
        let chunk = match end {
            End::Front => self.chunks.front()?,
            End::Back => self.chunks.back()?,
        };
        Some(chunk.get(if end == End::Front { 0 } else { chunk.len() - 1 }))
    }

    /// Removes the element at an end, if there is one.
    #[inline]
    pub(super) fn drop_one(&mut self, end: End) {
        let Some(element) = self.peek(end) else { return };
        let listpack_bytes = listpack_len(element.as_bytes());
        self.listpack_bytes -= listpack_bytes;
        self.len -= 1;
        let chunk = match end {
            End::Front => self.chunks.front_mut(),
            End::Back => self.chunks.back_mut(),
        };
        match chunk {
            Some(Chunk::Run(run)) if run.len() > 1 => match end {
                End::Front => run.pop_front(listpack_bytes),
                End::Back => run.pop_back(listpack_bytes),
            },
            _ => match end {
                End::Front => _ = self.chunks.pop_front(),
                End::Back => _ = self.chunks.pop_back(),
            },
        }
    }

    /// The chunk of an element and its index there; of the length the place behind the last. O(chunks), from the nearer
    /// end.
    fn locate(&self, index: usize) -> (usize, usize) {
        if index <= self.len / 2 {
            let mut left = index;
            for (at, chunk) in self.chunks.iter().enumerate() {
                if left < chunk.len() {
                    return (at, left);
                }
                left -= chunk.len();
            }
            return (self.chunks.len(), left);
        }
        let mut behind = self.len - index;
        for (at, chunk) in self.chunks.iter().enumerate().rev() {
            if behind <= chunk.len() {
                return (at, chunk.len() - behind);
            }
            behind -= chunk.len();
        }
        (0, 0)
    }

    pub(super) fn get(&self, index: usize) -> Option<Element<'_>> {
        if index >= self.len {
            return None;
        }
        let (chunk, inner) = self.locate(index);
        Some(self.chunks[chunk].get(inner))
    }

    /// Inserts an element in front of the one at `index`, or at the end. O(chunks).
    pub(super) fn insert(&mut self, index: usize, element: &[u8]) {
        if index == 0 || index >= self.len {
            return self.push(if index == 0 { End::Front } else { End::Back }, element);
        }
        let (at, inner) = self.locate(index);
        let listpack_bytes = listpack_len(element);
        self.len += 1;
        self.listpack_bytes += listpack_bytes;
        let is_short = element.len() <= ELEMENT_LEN_MAX;
        if let Chunk::Run(run) = &mut self.chunks[at] {
            if is_short && run.has_room(element.len()) {
                return run.insert(inner, element, listpack_bytes);
            }
            if inner > 0 {
                let tail = run.split_off(inner);
                if is_short && run.has_room(element.len()) {
                    run.push_back(element, listpack_bytes);
                    self.chunks.insert(at + 1, Chunk::Run(tail));
                } else {
                    self.chunks.insert(at + 1, Chunk::Run(tail));
                    self.chunks.insert(at + 1, Chunk::of(element, End::Back, false, listpack_bytes));
                }
                return;
            }
        }
        self.chunks.insert(at, Chunk::of(element, End::Back, false, listpack_bytes));
    }

    /// Removes the element at `index`, which there is. O(chunks).
    pub(super) fn remove(&mut self, index: usize) {
        let (at, inner) = self.locate(index);
        let listpack_bytes = listpack_len(self.chunks[at].get(inner).as_bytes());
        self.listpack_bytes -= listpack_bytes;
        self.len -= 1;
        match &mut self.chunks[at] {
            Chunk::Run(run) if run.len() > 1 => run.remove(inner, listpack_bytes),
            _ => _ = self.chunks.remove(at),
        }
    }

    /// Removes up to `count` elements that are `value`, from one end on; returns how many. O(elements from that end to the
    /// last one removed, and those of a chunk).
    pub(super) fn remove_values(&mut self, value: &[u8], from: End, count: usize) -> usize {
        let chunks_len = self.chunks.len();
        let place = |n: usize| if from == End::Front { n } else { chunks_len - 1 - n };
        // Chunks looked at from that end, and how many of them are left, which come first.
        let (mut seen, mut kept, mut left) = (0, 0, count);
        while seen < chunks_len && left > 0 {
            let at = place(seen);
            seen += 1;
            match self.remove_from_chunk(at, value, from, &mut left) {
                Change::Gone => continue,
                Change::Shrunk if kept > 0 && self.try_merge(place(kept - 1), at, from) => continue,
                Change::Shrunk | Change::None => {}
            }
            self.chunks.swap(place(kept), at);
            kept += 1;
        }
        match from {
            End::Front => _ = self.chunks.drain(kept..seen),
            End::Back => _ = self.chunks.drain(chunks_len - seen..chunks_len - kept),
        }
        count - left
    }

    /// Removes up to `left` elements that are `value` from a chunk, which is left as it is if all of it goes.
    fn remove_from_chunk(&mut self, at: usize, value: &[u8], from: End, left: &mut usize) -> Change {
        let chunk = &mut self.chunks[at];
        let (len, listpack_bytes) = (chunk.len(), chunk.listpack_bytes());
        let (rest_len, rest_bytes) = match chunk {
            Chunk::Long(bytes) if ***bytes == *value => {
                *left -= 1;
                (0, 0)
            }
            Chunk::Long(_) => return Change::None,
            Chunk::Run(run) => {
                let Some(rest) = run.without(value, from, left) else { return Change::None };
                let counts = (rest.len(), rest.listpack_bytes());
                *run = rest;
                counts
            }
        };
        self.len -= len - rest_len;
        self.listpack_bytes -= listpack_bytes - rest_bytes;
        if rest_len == 0 { Change::Gone } else { Change::Shrunk }
    }

    /// Makes one run of two chunks that are neighbours, if there is room to spare; says whether it did. `near` is the one
    /// nearer to the end that is worked from, and has the result.
    fn try_merge(&mut self, near: usize, far: usize, from: End) -> bool {
        let (Chunk::Run(a), Chunk::Run(b)) = (&self.chunks[near], &self.chunks[far]) else { return false };
        if a.bytes_len() + b.bytes_len() > RUN_BYTES_MAX / 2 {
            return false;
        }
        let (before, behind) = if from == End::Front { (a, b) } else { (b, a) };
        let mut run = before.clone();
        run.append(behind);
        self.chunks[near] = Chunk::Run(run);
        true
    }

    /// Removes `count` elements from an end, whole chunks at once. O(chunks).
    pub(super) fn drop_many(&mut self, end: End, count: usize) {
        let mut left = count.min(self.len);
        while left > 0 {
            let chunk = if end == End::Front { self.chunks.front() } else { self.chunks.back() };
            let Some(chunk) = chunk else { return };
            let len = chunk.len();
            if len > left {
                (0..left).for_each(|_| self.drop_one(end));
                return;
            }
            self.listpack_bytes -= chunk.listpack_bytes();
            self.len -= len;
            left -= len;
            match end {
                End::Front => _ = self.chunks.pop_front(),
                End::Back => _ = self.chunks.pop_back(),
            }
        }
    }

    /// The elements from `index` on.
    pub(super) fn iter_from(&self, index: usize) -> Box<dyn Iterator<Item = Element<'_>> + '_> {
        let (at, inner) = self.locate(index.min(self.len));
        Box::new(self.chunks.iter().skip(at).enumerate().flat_map(move |(n, chunk)| {
            let (run, long) = match chunk {
                Chunk::Run(run) => (Some(run.iter_from(if n == 0 { inner } else { 0 })), None),
                Chunk::Long(bytes) => (None, Some(Element::Shared(bytes))),
            };
            run.into_iter().flatten().map(Element::Bytes).chain(long)
        }))
    }

    /// The elements from `index` down to the first.
    pub(super) fn iter_back_from(&self, index: usize) -> Box<dyn Iterator<Item = Element<'_>> + '_> {
        let (at, inner) = self.locate(index);
        Box::new(self.chunks.iter().take(at + 1).rev().enumerate().flat_map(move |(n, chunk)| {
            let (run, long) = match chunk {
                Chunk::Run(run) => (Some(run.iter_back_from(if n == 0 { inner } else { run.len() - 1 })), None),
                Chunk::Long(bytes) => (None, Some(Element::Shared(bytes))),
            };
            run.into_iter().flatten().map(Element::Bytes).chain(long)
        }))
    }
}
