//! The nodes of a stream, in blocks that frozen copies share.

use std::collections::VecDeque;

use super::StreamId;
use super::node::Node;
use crate::collections::part::Part;

/// Nodes of a block, at most: some ten kilobytes, which the first change of a shared block copies.
pub(super) const BLOCK_LEN_MAX: usize = 16;

/// The most bytes that are allocated for a node before it has entries.
const NODE_ROOM_MAX: usize = 4096;

/// Nodes in the order of their entries.
#[derive(Clone, Debug, Default)]
pub(super) struct Nodes {
    /// None of them is empty.
    blocks: VecDeque<Part<Vec<Node>>>,
    len: usize,
}

/// A node's place, valid until a node is added or removed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    block: usize,
    node: usize,
}

impl Place {
    /// The place of the first node, if there is one.
    pub(super) const FIRST: Self = Place { block: 0, node: 0 };
}

impl Nodes {
    /// Number of nodes. O(1).
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// A copy of the nodes as they are now. Both share all blocks; a change copies only the block that it changes.
    /// O(nodes / [`BLOCK_LEN_MAX`]), without reading any.
    pub(super) fn freeze(&mut self) -> Nodes {
        Nodes { blocks: self.blocks.iter_mut().map(Part::share).collect(), len: self.len }
    }

    /// Takes back the blocks that no other copy shares any more. O(nodes / [`BLOCK_LEN_MAX`]).
    pub(super) fn thaw(&mut self) {
        self.blocks.iter_mut().for_each(Part::thaw);
    }

    /// All nodes.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &Node> + Clone {
        self.blocks.iter().flat_map(|block| block.iter())
    }

    /// The nodes from a place on.
    pub(super) fn iter_from(&self, place: Place) -> impl Iterator<Item = &Node> {
        let rest = self.blocks.iter().skip(place.block + 1).flat_map(|block| block.iter());
        let first = self.blocks.get(place.block).into_iter().flat_map(move |block| &block[place.node..]);
        first.chain(rest)
    }

    /// The nodes from a place, which must exist, down to the first.
    pub(super) fn iter_back_from(&self, place: Place) -> impl Iterator<Item = &Node> {
        let rest = self.blocks.range(..place.block).rev().flat_map(|block| block.iter().rev());
        self.blocks[place.block][..=place.node].iter().rev().chain(rest)
    }

    /// The node that an identifier is in, if it is in any. O(log nodes).
    pub(super) fn of(&self, id: StreamId) -> Option<Place> {
        let is_before = |node: &Node| node.first <= id;
        let block = self.blocks.partition_point(|block| is_before(&block[0])).checked_sub(1)?;
        let node = self.blocks[block].partition_point(is_before).checked_sub(1)?;
        Some(Place { block, node })
    }

    /// The first node.
    pub(super) fn front(&self) -> Option<&Node> {
        self.blocks.front()?.first()
    }

    /// The second node.
    pub(super) fn second(&self) -> Option<&Node> {
        let mut blocks = self.blocks.iter();
        blocks.next()?.get(1).or_else(|| blocks.next()?.first())
    }

    /// The node at a place, which must exist.
    pub(super) fn get(&self, place: Place) -> &Node {
        &self.blocks[place.block][place.node]
    }

    /// As [`Nodes::get`], to be changed.
    pub(super) fn get_mut(&mut self, place: Place) -> &mut Node {
        &mut self.blocks[place.block].own()[place.node]
    }

    /// The first node, to be changed.
    pub(super) fn front_mut(&mut self) -> Option<&mut Node> {
        self.blocks.front_mut()?.own().first_mut()
    }

    /// The last node, to be changed.
    #[inline]
    pub(super) fn back_mut(&mut self) -> Option<&mut Node> {
        self.blocks.back_mut()?.own().last_mut()
    }

    /// Adds a node behind the others, for an entry that the caller adds.
    #[inline(never)]
    pub(super) fn begin(&mut self, id: StreamId, pairs: &[(&[u8], &[u8])]) -> &mut Node {
        // A node grows about as large as the one before it.
        let room = self.back_mut().map_or(0, |node| {
            node.shrink();
            node.bytes_len().min(NODE_ROOM_MAX)
        });
        let fields: Vec<&[u8]> = pairs.iter().map(|(field, _)| *field).collect();
        let node = Node::new(id, &fields, room);
        self.len += 1;
        if self.blocks.back().is_none_or(|block| block.len() >= BLOCK_LEN_MAX) {
            self.blocks.push_back(Part::default());
        }
        let last = self.blocks.len() - 1;
        self.blocks[last].own().push_mut(node)
    }

    /// Removes the first node, if there is one.
    pub(super) fn pop_front(&mut self) {
        if !self.blocks.is_empty() {
            self.remove(Place::FIRST);
        }
    }

    /// Removes the node at a place, which must exist. O(blocks).
    pub(super) fn remove(&mut self, place: Place) {
        self.len -= 1;
        if self.blocks[place.block].len() == 1 {
            self.blocks.remove(place.block);
        } else {
            self.blocks[place.block].own().remove(place.node);
        }
    }

    /// Bytes allocated, itself not included. O(nodes).
    pub(super) fn size_bytes(&self) -> usize {
        let unused: usize = self.blocks.iter().map(|block| block.capacity() - block.len()).sum();
        let blocks = self.blocks.capacity() * size_of::<Part<Vec<Node>>>();
        self.iter().map(Node::size_bytes).sum::<usize>() + unused * size_of::<Node>() + blocks
    }

    /// About how many allocations freeing it gives back.
    pub(super) fn free_effort(&self) -> usize {
        self.len + self.blocks.len()
    }
}
