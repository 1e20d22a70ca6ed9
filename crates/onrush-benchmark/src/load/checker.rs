//! Replies to GET beside the values that were imported, for `--data-verify`.

use std::collections::VecDeque;
use std::sync::Arc;

use onrush_resp::{BulkKind, ReplyVisitor, Scalar};

use crate::load::items::Items;
use crate::load::scanner::Scanned;

/// How many replies were compared, and how many of them were not the value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    pub replies: u64,
    pub wrong: u64,
    /// The key of the first wrong one.
    pub key: Option<String>,
}

impl Checked {
    /// Adds what another connection has compared.
    pub fn add(&mut self, other: &Checked) {
        self.replies += other.replies;
        self.wrong += other.wrong;
        self.key = self.key.take().or_else(|| other.key.clone());
    }
}

/// Compares the replies of one connection.
#[derive(Debug)]
pub struct Checker {
    items: Arc<Items>,
    /// For each command in flight the item whose value is its reply, if that is to be compared.
    expected: VecDeque<Option<u32>>,
    /// How much of that value has come, while all of it was right.
    right: Option<usize>,
    pub checked: Checked,
}

impl Checker {
    pub fn new(items: Arc<Items>) -> Checker {
        Checker { items, expected: VecDeque::new(), right: None, checked: Checked::default() }
    }

    /// Expects one more reply.
    pub fn expect(&mut self, item: Option<u32>) {
        self.expected.push_back(item);
    }

    /// Expects none any more.
    pub fn forget(&mut self) {
        self.expected.clear();
        self.right = None;
    }

    fn value(&self) -> Option<&[u8]> {
        let item = self.expected.front().copied().flatten()?;
        Some(self.items.row(item as usize).1)
    }

    fn end(&mut self) {
        let right = self.right.take();
        let Some(item) = self.expected.pop_front().flatten() else { return };
        let (key, value) = self.items.row(item as usize);
        self.checked.replies += 1;
        if right != Some(value.len()) {
            self.checked.wrong += 1;
            self.checked.key.get_or_insert_with(|| String::from_utf8_lossy(key).into_owned());
        }
    }
}

/// Counts replies, and compares them on the way.
pub struct Checking<'a> {
    pub scanned: Scanned,
    pub checker: &'a mut Checker,
}

impl ReplyVisitor for Checking<'_> {
    fn scalar(&mut self, scalar: Scalar<'_>) {
        self.scanned.scalar(scalar);
    }

    fn bulk_begins(&mut self, kind: BulkKind, len: usize) {
        self.scanned.bulk_begins(kind, len);
        self.checker.right = self.checker.value().filter(|value| value.len() == len).map(|_| 0);
    }

    fn bulk_part(&mut self, part: &[u8]) {
        let at = self.checker.right.take();
        let value = self.checker.value().unwrap_or_default();
        self.checker.right = at.filter(|&at| value[at..].starts_with(part)).map(|at| at + part.len());
    }

    fn replies(&mut self, count: u64) {
        self.scanned.replies(count);
        (0..count).for_each(|_| self.checker.end());
    }
}
