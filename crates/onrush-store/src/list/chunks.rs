//! A list in chunks: runs of short elements, and long elements by themselves.

use std::collections::VecDeque;
use std::sync::Arc;

use super::run::{ELEMENT_LEN_MAX, Run};
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

    fn of(element: &[u8], end: End, is_long_list: bool) -> Self {
        if element.len() > ELEMENT_LEN_MAX {
            return Chunk::Long(Arc::new(element.to_vec()));
        }
        let mut run = Run::new(end == End::Front, is_long_list);
        match end {
            End::Front => run.push_front(element),
            End::Back => run.push_back(element),
        }
        Chunk::Run(run)
    }
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

    pub(super) fn free_effort(&self) -> usize {
        2 + self.chunks.len()
    }

    pub(super) fn push(&mut self, end: End, element: &[u8]) {
        self.len += 1;
        self.listpack_bytes += listpack_len(element);
        let chunk = match end {
            End::Front => self.chunks.front_mut(),
            End::Back => self.chunks.back_mut(),
        };
        if let Some(Chunk::Run(run)) = chunk {
            if element.len() <= ELEMENT_LEN_MAX && run.has_room(element.len()) {
                match end {
                    End::Front => run.push_front(element),
                    End::Back => run.push_back(element),
                }
                return;
            }
            run.shrink();
        }
        let chunk = Chunk::of(element, end, !self.chunks.is_empty());
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
        self.listpack_bytes -= listpack_len(element.as_bytes());
        self.len -= 1;
        let chunk = match end {
            End::Front => self.chunks.front_mut(),
            End::Back => self.chunks.back_mut(),
        };
        match chunk {
            Some(Chunk::Run(run)) if run.len() > 1 => match end {
                End::Front => run.pop_front(),
                End::Back => run.pop_back(),
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
        self.len += 1;
        self.listpack_bytes += listpack_len(element);
        let is_short = element.len() <= ELEMENT_LEN_MAX;
        if let Chunk::Run(run) = &mut self.chunks[at] {
            if is_short && run.has_room(element.len()) {
                return run.insert(inner, element);
            }
            if inner > 0 {
                let tail = run.split_off(inner);
                if is_short && run.has_room(element.len()) {
                    run.push_back(element);
                    self.chunks.insert(at + 1, Chunk::Run(tail));
                } else {
                    self.chunks.insert(at + 1, Chunk::Run(tail));
                    self.chunks.insert(at + 1, Chunk::of(element, End::Back, false));
                }
                return;
            }
        }
        self.chunks.insert(at, Chunk::of(element, End::Back, false));
    }

    /// Removes the element at `index`, which there is. O(chunks).
    pub(super) fn remove(&mut self, index: usize) {
        let (at, inner) = self.locate(index);
        self.listpack_bytes -= listpack_len(self.chunks[at].get(inner).as_bytes());
        self.len -= 1;
        match &mut self.chunks[at] {
            Chunk::Run(run) if run.len() > 1 => run.remove(inner),
            _ => _ = self.chunks.remove(at),
        }
    }

    /// Removes all elements that `gone` says, asked in order from one end, and returns how many. O(elements).
    pub(super) fn retain(&mut self, from: End, keep: &mut dyn FnMut(&[u8]) -> bool) -> usize {
        let before = self.len;
        let old = std::mem::take(&mut self.chunks);
        (self.len, self.listpack_bytes) = (0, LISTPACK_HEAD_LEN);
        match from {
            End::Front => {
                for chunk in old {
                    self.keep(chunk, from, keep);
                }
            }
            End::Back => {
                for chunk in old.into_iter().rev() {
                    self.keep(chunk, from, keep);
                }
            }
        }
        before - self.len
    }

    fn keep(&mut self, chunk: Chunk, from: End, keep: &mut dyn FnMut(&[u8]) -> bool) {
        // What comes in at the other end has the order it had.
        let to = if from == End::Front { End::Back } else { End::Front };
        match chunk {
            Chunk::Long(bytes) => {
                if keep(&bytes) {
                    self.push(to, &bytes);
                }
            }
            Chunk::Run(run) if from == End::Front => {
                run.iter_from(0).filter(|element| keep(element)).for_each(|element| self.push(to, element));
            }
            Chunk::Run(run) => {
                let elements = run.iter_back_from(run.len() - 1);
                elements.filter(|element| keep(element)).for_each(|element| self.push(to, element));
            }
        }
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
            self.listpack_bytes -= match chunk {
                Chunk::Run(run) => run.iter_from(0).map(listpack_len).sum(),
                Chunk::Long(bytes) => listpack_len(bytes),
            };
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
