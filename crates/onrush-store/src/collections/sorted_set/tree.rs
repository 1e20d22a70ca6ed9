//! An order-statistic B+-tree: members in order of score and bytes, with the number of members under every child.

use std::sync::Arc;

use super::index::short_hash;
use super::leaf::{LEAF_LEN_MAX, Leaf};
use super::places::{Place, Places};

/// Children of an inner node.
const CHILDREN_MAX: usize = 64;

/// How many members ahead of the popped one a member's index slot is prefetched.
const POP_AHEAD: usize = 6;

/// Is shown a member and its score.
pub(super) type Visit<'a> = &'a mut dyn FnMut(&[u8], f64);

/// A node of the tree.
#[derive(Clone, Debug)]
enum Node {
    Leaf(Box<Leaf>),
    Inner(Box<Inner>),
    /// An inner node that frozen trees share, together with the leaves below it.
    Shared(Arc<Inner>),
}

#[derive(Clone, Debug, Default)]
struct Inner {
    children: Vec<Node>,
    /// Members under each child.
    counts: Vec<usize>,
    /// For each child a lower bound of its members that is above all members of the children before it. The first
    /// child's bound is not used.
    firsts: Vec<(f64, Box<[u8]>)>,
}

/// The upper part of a node that was too full: a bound of its members, and the node.
type Split = ((f64, Box<[u8]>), Node);

/// Members in order.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    root: Node,
    len: usize,
}

impl Node {
    /// Another reference to the node: leaves are shared together with the inner node above them; what is above that is
    /// copied.
    fn freeze(&mut self) -> Node {
        if let Node::Inner(inner) = self {
            if let [Node::Inner(_) | Node::Shared(_), ..] = inner.children[..] {
                let children = inner.children.iter_mut().map(Node::freeze).collect();
                let (counts, firsts) = (inner.counts.clone(), inner.firsts.clone());
                return Node::Inner(Box::new(Inner { children, counts, firsts }));
            }
            *self = Node::Shared(Arc::new(std::mem::take(&mut **inner)));
        }
        self.clone()
    }

    /// Takes back the inner nodes that no other tree shares any more.
    fn thaw(&mut self) {
        match self {
            Node::Shared(inner) => {
                if let Some(inner) = Arc::get_mut(inner) {
                    *self = Node::Inner(Box::new(std::mem::take(inner)));
                }
            }
            Node::Inner(inner) => {
                let above_leaves = |child: &&mut Node| !matches!(child, Node::Leaf(_));
                inner.children.iter_mut().take_while(above_leaves).for_each(Node::thaw);
            }
            Node::Leaf(_) => {}
        }
    }

    /// Makes a shared node an owned one: a copy, unless this is the only reference. O(its members).
    #[cold]
    #[inline(never)]
    fn own(&mut self) -> &mut Self {
        if let Node::Shared(inner) = self {
            *self = Node::Inner(Box::new(Arc::unwrap_or_clone(std::mem::take(inner))));
        }
        self
    }

    /// A node that is not a leaf, to be read.
    #[inline]
    fn as_inner(&self) -> Result<&Inner, &Leaf> {
        match self {
            Node::Leaf(leaf) => Err(leaf),
            Node::Inner(inner) => Ok(inner),
            Node::Shared(inner) => Ok(inner),
        }
    }

    fn len(&self) -> usize {
        match self.as_inner() {
            Err(leaf) => leaf.len(),
            Ok(inner) => inner.counts.iter().sum(),
        }
    }

    fn insert(&mut self, score: f64, member: &[u8], places: &mut Places) -> Option<Split> {
        match self {
            Node::Leaf(leaf) => {
                let (Ok(index) | Err(index)) = leaf.search(score, member);
                places.before_insert(leaf, score);
                leaf.insert(index, score, member);
                places.after_insert(leaf, score, member);
                if !leaf.is_overfull() {
                    return None;
                }
                // Members that come in ascending order fill the leaves.
                let at = if index + 1 == leaf.len() { index } else { leaf.len() / 2 };
                let mut upper = leaf.split_off(at);
                places.after_split(leaf, &mut upper);
                Some(((upper.score(0), upper.member(0).into()), Node::Leaf(Box::new(upper))))
            }
            Node::Inner(inner) => inner.insert(score, member, places),
            Node::Shared(_) => self.own().insert(score, member, places),
        }
    }

    fn remove(&mut self, score: f64, member: &[u8], places: &mut Places) -> bool {
        match self {
            Node::Leaf(leaf) => match leaf.search(score, member) {
                Ok(index) => {
                    leaf.remove(index);
                    if leaf.len() == 0 {
                        places.take_number(leaf);
                    }
                    true
                }
                Err(_) => false,
            },
            Node::Inner(inner) => {
                let child = inner.child_of(score, member);
                let removed = inner.children[child].remove(score, member, places);
                if removed {
                    inner.counts[child] -= 1;
                    inner.mend(child, places);
                }
                removed
            }
            Node::Shared(_) => self.own().remove(score, member, places),
        }
    }

    fn pop(&mut self, greatest: bool, visit: Visit<'_>, places: &mut Places) {
        match self {
            Node::Leaf(leaf) => {
                let index = if greatest { leaf.len() - 1 } else { 0 };
                let member = leaf.member(index);
                visit(member, leaf.score(index));
                places.index.remove(short_hash(member), Place::of_member(leaf, index));
                leaf.remove(index);
                if leaf.len() == 0 {
                    places.take_number(leaf);
                }
                let next = if greatest { leaf.len().checked_sub(POP_AHEAD) } else { Some(POP_AHEAD) };
                if let Some(next) = next.filter(|&next| next < leaf.len()) {
                    places.index.prefetch(short_hash(leaf.member(next)));
                }
            }
            Node::Inner(inner) => {
                let child = if greatest { inner.children.len() - 1 } else { 0 };
                inner.children[child].pop(greatest, visit, places);
                inner.counts[child] -= 1;
                inner.mend(child, places);
            }
            Node::Shared(_) => self.own().pop(greatest, visit, places),
        }
    }

    /// Removes up to `count` members from the one at `rank`, which must exist, as far as its leaf goes; returns how many.
    fn remove_run(&mut self, rank: usize, count: usize, places: &mut Places) -> usize {
        match self {
            Node::Leaf(leaf) => {
                let range = rank..leaf.len().min(rank.saturating_add(count));
                let hashes: Vec<u32> =
                    leaf.iter_from(rank).take(range.len()).map(|(member, _)| short_hash(member)).collect();
                hashes.iter().for_each(|&hash| places.index.prefetch(hash));
                for (hash, index) in hashes.into_iter().zip(range.clone()) {
                    places.index.remove(hash, Place::of_member(leaf, index));
                }
                let removed = range.len();
                leaf.remove_range(range);
                if leaf.len() == 0 {
                    places.take_number(leaf);
                }
                removed
            }
            Node::Inner(inner) => {
                let (child, rank) = inner.child_at(rank);
                let removed = inner.children[child].remove_run(rank, count, places);
                inner.counts[child] -= removed;
                inner.mend(child, places);
                removed
            }
            Node::Shared(_) => self.own().remove_run(rank, count, places),
        }
    }

    /// Merges this node with the next one if there is room; returns whether it did.
    fn try_merge(&mut self, next: &mut Node, bound: &(f64, Box<[u8]>), places: &mut Places) -> bool {
        let fit = match (self.as_inner(), next.as_inner()) {
            (Err(leaf), Err(next)) => leaf.fits_with(next),
            (Ok(inner), Ok(next)) => inner.children.len() + next.children.len() <= CHILDREN_MAX / 2,
            _ => false,
        };
        if fit {
            self.merge(next, bound, places);
        }
        fit
    }

    #[cold]
    fn merge(&mut self, next: &mut Node, bound: &(f64, Box<[u8]>), places: &mut Places) {
        match (self.own(), next.own()) {
            (Node::Leaf(leaf), Node::Leaf(next)) => {
                places.before_merge(leaf, next);
                leaf.append(next);
            }
            (Node::Inner(inner), Node::Inner(next)) => {
                next.firsts[0] = bound.clone();
                inner.children.append(&mut next.children);
                inner.counts.append(&mut next.counts);
                inner.firsts.append(&mut next.firsts);
            }
            _ => unreachable!("neighbours are equally far from the leaves, and owned now"),
        }
    }

    fn is_small(&self) -> bool {
        match self.as_inner() {
            Err(leaf) => leaf.len() < LEAF_LEN_MAX / 4,
            Ok(inner) => inner.children.len() < CHILDREN_MAX / 4,
        }
    }

    fn size_bytes(&self) -> usize {
        match self.as_inner() {
            Err(leaf) => leaf.size_bytes(),
            Ok(inner) => {
                let bounds: usize = inner.firsts.iter().map(|(_, member)| member.len()).sum();
                let each = size_of::<Node>() + size_of::<usize>() + size_of::<(f64, Box<[u8]>)>();
                let children: usize = inner.children.iter().map(Node::size_bytes).sum();
                children + bounds + each * inner.children.capacity() + size_of::<Inner>()
            }
        }
    }
}

impl Inner {
    /// The child a member is in or belongs to.
    #[inline]
    fn child_of(&self, score: f64, member: &[u8]) -> usize {
        self.firsts[1..]
            .partition_point(|(first, first_member)| *first < score || *first == score && **first_member <= *member)
    }

    /// The child that the member at a rank is in, and its rank there.
    #[inline]
    fn child_at(&self, rank: usize) -> (usize, usize) {
        let (mut child, mut left) = (0, rank);
        while left >= self.counts[child] {
            left -= self.counts[child];
            child += 1;
        }
        (child, left)
    }

    fn insert(&mut self, score: f64, member: &[u8], places: &mut Places) -> Option<Split> {
        let child = self.child_of(score, member);
        self.counts[child] += 1;
        let (bound, node) = self.children[child].insert(score, member, places)?;
        let len = node.len();
        self.counts[child] -= len;
        self.children.insert(child + 1, node);
        self.counts.insert(child + 1, len);
        self.firsts.insert(child + 1, bound);
        if self.children.len() <= CHILDREN_MAX {
            return None;
        }
        let at = if child + 2 == self.children.len() { child + 1 } else { self.children.len() / 2 };
        let upper = Inner {
            children: self.children.split_off(at),
            counts: self.counts.split_off(at),
            firsts: self.firsts.split_off(at),
        };
        Some((upper.firsts[0].clone(), Node::Inner(Box::new(upper))))
    }

    /// Merges a child that has become small with a neighbour, and drops one that is empty.
    fn mend(&mut self, child: usize, places: &mut Places) {
        if self.counts[child] == 0 && self.children.len() > 1 {
            self.take_out(child);
            return;
        }
        if !self.children[child].is_small() {
            return;
        }
        for left in [child.wrapping_sub(1), child] {
            if left >= self.children.len() || left + 1 >= self.children.len() {
                continue;
            }
            let (before, behind) = self.children.split_at_mut(left + 1);
            if before[left].try_merge(&mut behind[0], &self.firsts[left + 1], places) {
                self.counts[left] += self.counts[left + 1];
                self.take_out(left + 1);
                return;
            }
        }
    }

    fn take_out(&mut self, child: usize) {
        self.children.remove(child);
        self.counts.remove(child);
        self.firsts.remove(child);
    }
}

impl Tree {
    pub(super) fn new() -> Self {
        Tree { root: Node::Leaf(Box::new(Leaf::new())), len: 0 }
    }

    /// A copy of the tree as it is now. Both share all leaves; a change copies the leaves under one inner node: some
    /// thousand members. O(leaves / 45).
    pub(super) fn freeze(&mut self) -> Tree {
        Tree { root: self.root.freeze(), len: self.len }
    }

    /// Takes back the leaves that no other tree shares any more. O(leaves / 45).
    pub(super) fn thaw(&mut self) {
        self.root.thaw();
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Inserts a member that is not there, and that is at its score in the index. O(log n).
    pub(super) fn insert(&mut self, score: f64, member: &[u8], places: &mut Places) {
        self.len += 1;
        if let Some((bound, upper)) = self.root.insert(score, member, places) {
            let lower = std::mem::replace(&mut self.root, Node::Leaf(Box::new(Leaf::new())));
            let counts = vec![lower.len(), upper.len()];
            let firsts = vec![(f64::NEG_INFINITY, Box::default()), bound];
            self.root = Node::Inner(Box::new(Inner { children: vec![lower, upper], counts, firsts }));
        }
    }

    /// Removes a member, whose place in the index is unset meanwhile; returns whether it was there. O(log n).
    pub(super) fn remove(&mut self, score: f64, member: &[u8], places: &mut Places) -> bool {
        let removed = self.root.remove(score, member, places);
        self.len -= usize::from(removed);
        self.lower();
        removed
    }

    /// Removes the first or the last member, if there is one, from here and the index, and shows it to `visit` before it
    /// goes. O(log n).
    pub(super) fn pop(&mut self, greatest: bool, visit: Visit<'_>, places: &mut Places) {
        if self.len > 0 {
            self.root.pop(greatest, visit, places);
            self.len -= 1;
            self.lower();
        }
    }

    /// Removes up to `count` members from rank `start` on, from here and the index; returns how many. O(count + log n), and
    /// O(log n) for each leaf.
    pub(super) fn remove_range(&mut self, start: usize, count: usize, places: &mut Places) -> usize {
        let mut left = count.min(self.len.saturating_sub(start));
        let removed = left;
        while left > 0 {
            let some = self.root.remove_run(start, left, places);
            left -= some;
            self.len -= some;
            self.lower();
        }
        removed
    }

    /// Takes away roots with a single child.
    fn lower(&mut self) {
        while let Node::Inner(inner) = &mut self.root
            && inner.children.len() == 1
            && let Some(only) = inner.children.pop()
        {
            self.root = only;
        }
    }

    /// The leaf that a member is in or belongs to. O(log n).
    pub(super) fn leaf_of(&self, score: f64, member: &[u8]) -> &Leaf {
        let mut node = &self.root;
        loop {
            match node.as_inner() {
                Err(leaf) => return leaf,
                Ok(inner) => node = &inner.children[inner.child_of(score, member)],
            }
        }
    }

    /// The stored score of a member, if the tree has the member with this score; a zero may have another sign. O(log
    /// n).
    pub(super) fn find(&self, score: f64, member: &[u8]) -> Option<f64> {
        let leaf = self.leaf_of(score, member);
        leaf.search(score, member).ok().map(|index| leaf.score(index))
    }

    /// Finds the leaf of a score, the first if there are several, and prefetches its head. O(log n).
    pub(super) fn prefetch(&self, score: f64) -> &Leaf {
        let mut node = &self.root;
        loop {
            match node.as_inner() {
                Err(leaf) => {
                    leaf.prefetch_head();
                    return leaf;
                }
                Ok(inner) => {
                    let child = inner.firsts[1..].partition_point(|(first, _)| *first <= score);
                    node = &inner.children[child];
                }
            }
        }
    }

    /// How many members are before this one, which is there. O(log n).
    pub(super) fn rank(&self, score: f64, member: &[u8]) -> usize {
        let mut node = &self.root;
        let mut rank = 0;
        loop {
            match node.as_inner() {
                Err(leaf) => {
                    let (Ok(index) | Err(index)) = leaf.search(score, member);
                    return rank + index;
                }
                Ok(inner) => {
                    let child = inner.child_of(score, member);
                    rank += inner.counts[..child].iter().sum::<usize>();
                    node = &inner.children[child];
                }
            }
        }
    }

    /// How many members at the front satisfy `before`. If a member satisfies it, all before it must, too. O(log n).
    pub(super) fn partition_point(&self, before: &dyn Fn(f64, &[u8]) -> bool) -> usize {
        let mut node = &self.root;
        let mut rank = 0;
        loop {
            match node.as_inner() {
                Err(leaf) => return rank + leaf.partition_point(before),
                Ok(inner) => {
                    let child = inner.firsts[1..].partition_point(|(score, member)| before(*score, member));
                    rank += inner.counts[..child].iter().sum::<usize>();
                    node = &inner.children[child];
                }
            }
        }
    }

    /// The leaf of the member at a rank, which must exist, and its index there. O(log n).
    pub(super) fn locate(&self, rank: usize) -> (&Leaf, usize) {
        let mut node = &self.root;
        let mut left = rank;
        loop {
            match node.as_inner() {
                Err(leaf) => return (leaf, left),
                Ok(inner) => {
                    let child;
                    (child, left) = inner.child_at(left);
                    node = &inner.children[child];
                }
            }
        }
    }

    /// Bytes allocated. O(leaves).
    pub(super) fn size_bytes(&self) -> usize {
        self.root.size_bytes()
    }

    /// Visits all leaves, in order.
    #[cfg(test)]
    pub(super) fn for_each_leaf(&self, visit: &mut dyn FnMut(&Leaf)) {
        fn visit_all(node: &Node, visit: &mut dyn FnMut(&Leaf)) {
            match node.as_inner() {
                Err(leaf) => visit(leaf),
                Ok(inner) => inner.children.iter().for_each(|child| visit_all(child, visit)),
            }
        }
        visit_all(&self.root, visit);
    }
}
