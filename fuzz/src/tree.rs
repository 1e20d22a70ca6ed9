//! A reply as a tree that can be compared.

use std::borrow::Cow;

use onrush_resp::{AggregateKind, BulkKind, FromReply, Scalar};

/// A reply. What stands in the stream is kept as it is: floating-point numbers are compared by their digits.
#[derive(Debug, PartialEq)]
pub enum Tree {
    /// A one-line status.
    Status(Vec<u8>),
    /// An error, in one line or with a length.
    Error(Vec<u8>),
    /// Another element of one line, as text.
    Line(String),
    /// A string; whether it names its format.
    Bulk { is_verbatim: bool, bytes: Vec<u8> },
    /// An aggregate of any kind but attributes.
    Aggregate(AggregateKind, Vec<Tree>),
    /// An element, and the attributes before it.
    Attributed(Box<Tree>, Vec<Tree>),
}

impl FromReply for Tree {
    fn scalar(scalar: Scalar<'_>) -> Tree {
        match scalar {
            Scalar::Status(text) => Tree::Status(text.to_vec()),
            Scalar::Error(text) => Tree::Error(text.to_vec()),
            scalar => Tree::Line(format!("{scalar:?}")),
        }
    }

    fn bulk(kind: BulkKind, bytes: Cow<'_, [u8]>) -> Tree {
        match kind {
            BulkKind::Error => Tree::Error(bytes.into_owned()),
            kind => Tree::Bulk { is_verbatim: kind == BulkKind::Verbatim, bytes: bytes.into_owned() },
        }
    }

    fn aggregate(kind: AggregateKind, elements: Vec<Tree>) -> Tree {
        Tree::Aggregate(kind, elements)
    }

    fn attributed(self, attributes: Vec<Tree>) -> Tree {
        Tree::Attributed(Box::new(self), attributes)
    }
}

impl Tree {
    /// Whether it is a message that answers no command.
    pub fn is_push(&self) -> bool {
        match self {
            Tree::Aggregate(kind, _) => *kind == AggregateKind::Push,
            Tree::Attributed(reply, _) => reply.is_push(),
            _ => false,
        }
    }

    /// Whether it is an error or has one.
    pub fn has_error(&self) -> bool {
        match self {
            Tree::Error(_) => true,
            Tree::Aggregate(_, elements) => elements.iter().any(Tree::has_error),
            Tree::Attributed(reply, _) => reply.has_error(),
            Tree::Status(_) | Tree::Line(_) | Tree::Bulk { .. } => false,
        }
    }
}
