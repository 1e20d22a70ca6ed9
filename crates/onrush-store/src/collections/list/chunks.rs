//! A list in chunks: runs of short elements, and long elements by themselves.

use std::collections::VecDeque;
use std::hint::cold_path;
use std::sync::Arc;

use super::run::{ELEMENT_LEN_MAX, RUN_BYTES_MAX, Run};
use super::{Element, End, LISTPACK_HEAD_LEN, listpack_len};

/// Where an element of a list is.
struct Place {
    /// The index of its chunk.
    chunk: usize,
    /// Its index there.
    inner: usize,
}

#[derive(Clone, Debug)]
enum Chunk {
    Run(Run),
    /// A run that frozen lists have as well.
    Shared(Arc<Run>),
    Long(Arc<Vec<u8>>),
}

const _: () = assert!(size_of::<Chunk>() == size_of::<Run>(), "whether a run is shared needs no room");

impl Chunk {
    #[inline]
    fn len(&self) -> usize {
        match self.as_run() {
            Some(run) => run.len(),
            None => 1,
        }
    }

    #[inline]
    fn get(&self, index: usize) -> Element<'_> {
        match self.as_run() {
            Some(run) => Element::Bytes(run.get(index)),
            None => self.as_long().unwrap_or(Element::Bytes(&[])),
        }
    }

    fn of(element: &[u8], end: End, is_long_list: bool, listpack_bytes: usize) -> Self {
        if element.len() > ELEMENT_LEN_MAX {
            return Chunk::Long(Arc::new(element.to_vec()));
        }
        let mut run = Run::new(end == End::Front, is_long_list);
        run.push(end, element, listpack_bytes);
        Chunk::Run(run)
    }

    /// Its run, to be read.
    #[inline]
    fn as_run(&self) -> Option<&Run> {
        if let Chunk::Run(run) = self {
            return Some(run);
        }
        cold_path();
        if let Chunk::Shared(run) = self { Some(run) } else { None }
    }

    /// Its run, to be changed.
    #[inline]
    fn as_run_mut(&mut self) -> Option<&mut Run> {
        if let Chunk::Run(run) = self { Some(run) } else { self.own() }
    }

    /// Its element, if that is a long one, which has the chunk to itself.
    fn as_long(&self) -> Option<Element<'_>> {
        if let Chunk::Long(bytes) = self { Some(Element::Shared(bytes)) } else { None }
    }

    /// Another reference to the chunk, which is shared from now on. O(1).
    fn share(&mut self) -> Self {
        if let Chunk::Run(run) = self {
            *self = Chunk::Shared(Arc::new(std::mem::take(run)));
        }
        self.clone()
    }

    fn thaw(&mut self) {
        if let Chunk::Shared(run) = self
            && let Some(run) = Arc::get_mut(run)
        {
            *self = Chunk::Run(std::mem::take(run));
        }
    }

    /// Makes a shared run an owned one: a copy, unless this is the only reference. O(run).
    #[cold]
    #[inline(never)]
    fn own(&mut self) -> Option<&mut Run> {
        if let Chunk::Shared(run) = self {
            *self = Chunk::Run(Arc::unwrap_or_clone(std::mem::take(run)));
        }
        if let Chunk::Run(run) = self { Some(run) } else { None }
    }

    /// Bytes its elements take in Redis's listpack. O(1).
    fn listpack_bytes(&self) -> usize {
        match self {
            Chunk::Run(run) => run.listpack_bytes(),
            Chunk::Shared(run) => run.listpack_bytes(),
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
    /// Bytes that it would take as one listpack of Redis: they decide the reported encoding.
    pub(super) listpack_bytes: usize,
    /// Whether it is reported as a quicklist.
    pub(super) is_quicklist: bool,
}

impl Chunks {
    pub(super) fn new() -> Self {
        Chunks { chunks: VecDeque::new(), len: 0, listpack_bytes: LISTPACK_HEAD_LEN, is_quicklist: false }
    }

    /// A copy of the list as it is now. Both share all chunks; a change copies only the chunk that it changes.
    /// O(chunks), reading nothing but the heads of long elements.
    pub(super) fn freeze(&mut self) -> Chunks {
        Chunks { chunks: self.chunks.iter_mut().map(Chunk::share).collect(), ..*self }
    }

    /// Takes back the runs that no other copy shares any more. O(chunks).
    pub(super) fn thaw(&mut self) {
        self.chunks.iter_mut().for_each(Chunk::thaw);
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn size_bytes(&self) -> usize {
        let chunk_bytes = |chunk: &Chunk| match chunk {
            Chunk::Run(run) => run.size_bytes(),
            Chunk::Shared(run) => run.size_bytes(),
            Chunk::Long(bytes) => bytes.capacity() + size_of::<Vec<u8>>() + 2 * size_of::<usize>(),
        };
        let chunks: usize = self.chunks.iter().map(chunk_bytes).sum();
        chunks + self.chunks.capacity() * size_of::<Chunk>() + size_of::<Self>()
    }

    /// Panics unless the sums agree with the elements.
    #[cfg(test)]
    pub(super) fn assert_sums(&self) {
        assert_eq!(self.len, self.chunks.iter().map(Chunk::len).sum::<usize>());
        let bytes: usize = self.chunks.iter().map(Chunk::listpack_bytes).sum();
        assert_eq!(self.listpack_bytes, LISTPACK_HEAD_LEN + bytes);
        for chunk in &self.chunks {
            if let Some(run) = chunk.as_run() {
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
        if let Some(Chunk::Run(run)) = self.end_mut(end)
            && element.len() <= ELEMENT_LEN_MAX
            && run.has_room(element.len())
        {
            return run.push(end, element, listpack_bytes);
        }
        self.push_chunk(end, element, listpack_bytes);
    }

    /// Adds an element if the run at the end has no room, or is shared and must be copied first.
    #[inline(never)]
    fn push_chunk(&mut self, end: End, element: &[u8], listpack_bytes: usize) {
        match self.end_mut(end) {
            Some(Chunk::Run(run)) => run.shrink(),
            Some(Chunk::Shared(run)) if element.len() <= ELEMENT_LEN_MAX && run.has_room(element.len()) => {
                let run = self.end_mut(end).and_then(Chunk::own);
                return run.into_iter().for_each(|run| run.push(end, element, listpack_bytes));
            }
            Some(Chunk::Shared(_) | Chunk::Long(_)) | None => {}
        }
        let chunk = Chunk::of(element, end, !self.chunks.is_empty(), listpack_bytes);
        match end {
            End::Front => self.chunks.push_front(chunk),
            End::Back => self.chunks.push_back(chunk),
        }
    }

    #[inline]
    fn end_mut(&mut self, end: End) -> Option<&mut Chunk> {
        match end {
            End::Front => self.chunks.front_mut(),
            End::Back => self.chunks.back_mut(),
        }
    }

    #[inline]
    pub(super) fn peek(&self, end: End) -> Option<Element<'_>> {
        let chunk = match end {
            End::Front => self.chunks.front()?,
            End::Back => self.chunks.back()?,
        };
        let index = |len: usize| if end == End::Front { 0 } else { len - 1 };
        if let Chunk::Run(run) = chunk {
            return Some(Element::Bytes(run.get(index(run.len()))));
        }
        cold_path();
        Some(chunk.get(index(chunk.len())))
    }

    /// Removes the element at an end, if there is one.
    #[inline]
    pub(super) fn drop_one(&mut self, end: End) {
        let Some(element) = self.peek(end) else { return };
        let listpack_bytes = listpack_len(element.as_bytes());
        self.listpack_bytes -= listpack_bytes;
        self.len -= 1;
        if let Some(Chunk::Run(run)) = self.end_mut(end)
            && run.len() > 1
        {
            return run.pop(end, listpack_bytes);
        }
        self.drop_chunk(end, listpack_bytes);
    }

    /// Removes the last element of a chunk, or an element of a shared run, which is copied first.
    #[inline(never)]
    fn drop_chunk(&mut self, end: End, listpack_bytes: usize) {
        if let Some(Chunk::Shared(run)) = self.end_mut(end)
            && run.len() > 1
        {
            let run = self.end_mut(end).and_then(Chunk::own);
            return run.into_iter().for_each(|run| run.pop(end, listpack_bytes));
        }
        match end {
            End::Front => _ = self.chunks.pop_front(),
            End::Back => _ = self.chunks.pop_back(),
        }
    }

    /// Where an element is; for an index that is the length, the place behind the last element. O(chunks), from the nearer end.
    fn locate(&self, index: usize) -> Place {
        if index <= self.len / 2 {
            let mut left = index;
            for (at, chunk) in self.chunks.iter().enumerate() {
                if left < chunk.len() {
                    return Place { chunk: at, inner: left };
                }
                left -= chunk.len();
            }
            return Place { chunk: self.chunks.len(), inner: left };
        }
        let mut behind = self.len - index;
        for (at, chunk) in self.chunks.iter().enumerate().rev() {
            if behind <= chunk.len() {
                return Place { chunk: at, inner: chunk.len() - behind };
            }
            behind -= chunk.len();
        }
        Place { chunk: 0, inner: 0 }
    }

    pub(super) fn get(&self, index: usize) -> Option<Element<'_>> {
        if index >= self.len {
            return None;
        }
        let Place { chunk, inner } = self.locate(index);
        Some(self.chunks[chunk].get(inner))
    }

    /// Inserts an element in front of the one at `index`, or at the end. O(chunks).
    pub(super) fn insert(&mut self, index: usize, element: &[u8]) {
        if index == 0 || index >= self.len {
            return self.push(if index == 0 { End::Front } else { End::Back }, element);
        }
        let Place { chunk: at, inner } = self.locate(index);
        let listpack_bytes = listpack_len(element);
        self.len += 1;
        self.listpack_bytes += listpack_bytes;
        let is_short = element.len() <= ELEMENT_LEN_MAX;
        if let Some(run) = self.chunks[at].as_run_mut() {
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

    /// Removes the element at `index`, which must exist. O(chunks).
    pub(super) fn remove(&mut self, index: usize) {
        let Place { chunk: at, inner } = self.locate(index);
        let listpack_bytes = listpack_len(self.chunks[at].get(inner).as_bytes());
        self.listpack_bytes -= listpack_bytes;
        self.len -= 1;
        let chunk = &mut self.chunks[at];
        if chunk.len() == 1 {
            self.chunks.remove(at);
            return;
        }
        if let Some(run) = chunk.as_run_mut() {
            run.remove(inner, listpack_bytes);
        }
    }

    /// Removes up to `count` elements that are `value`, from one end on; returns how many. O(elements from that end to the
    /// last one removed, and those of a chunk).
    pub(super) fn remove_values(&mut self, value: &[u8], from: End, count: usize) -> usize {
        let chunks_len = self.chunks.len();
        let place = |n: usize| if from == End::Front { n } else { chunks_len - 1 - n };
        // Chunks visited from that end, and how many of them remain, which come first.
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

    /// Removes up to `left` elements equal to `value` from a chunk. A chunk that loses all elements stays as it is; the
    /// caller drops it.
    fn remove_from_chunk(&mut self, at: usize, value: &[u8], from: End, left: &mut usize) -> Change {
        let chunk = &mut self.chunks[at];
        let (len, listpack_bytes) = (chunk.len(), chunk.listpack_bytes());
        let (rest_len, rest_bytes) = match (chunk.as_run(), &*chunk) {
            (Some(run), _) => {
                let Some(rest) = run.without(value, from, left) else { return Change::None };
                let counts = (rest.len(), rest.listpack_bytes());
                *chunk = Chunk::Run(rest);
                counts
            }
            (None, Chunk::Long(bytes)) if ***bytes == *value => {
                *left -= 1;
                (0, 0)
            }
            _ => return Change::None,
        };
        self.len -= len - rest_len;
        self.listpack_bytes -= listpack_bytes - rest_bytes;
        if rest_len == 0 { Change::Gone } else { Change::Shrunk }
    }

    /// Merges two neighbouring chunks into one run if there is room to spare; returns whether it did. `near`, the chunk
    /// nearer to the end from which the removal works, gets the result.
    fn try_merge(&mut self, near: usize, far: usize, from: End) -> bool {
        let (Some(a), Some(b)) = (self.chunks[near].as_run(), self.chunks[far].as_run()) else { return false };
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
        let Place { chunk: at, inner } = self.locate(index.min(self.len));
        Box::new(self.chunks.iter().skip(at).enumerate().flat_map(move |(n, chunk)| {
            let run = chunk.as_run().map(|run| run.iter_from(if n == 0 { inner } else { 0 }));
            run.into_iter().flatten().map(Element::Bytes).chain(chunk.as_long())
        }))
    }

    /// The elements from `index` down to the first.
    pub(super) fn iter_back_from(&self, index: usize) -> Box<dyn Iterator<Item = Element<'_>> + '_> {
        let Place { chunk: at, inner } = self.locate(index);
        Box::new(self.chunks.iter().take(at + 1).rev().enumerate().flat_map(move |(n, chunk)| {
            let run = chunk.as_run().map(|run| run.iter_back_from(if n == 0 { inner } else { run.len() - 1 }));
            run.into_iter().flatten().map(Element::Bytes).chain(chunk.as_long())
        }))
    }
}
