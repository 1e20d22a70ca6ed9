//! The reader of replies.

use std::borrow::Cow;

use onrush_resp::{AggregateKind, BulkKind, FromReply, ReplyDecoder, ReplyError, ReplyReader, ReplyVisitor, Scalar};

/// A reply as text.
#[derive(Debug, PartialEq)]
struct Shown(String);

impl FromReply for Shown {
    fn scalar(scalar: Scalar<'_>) -> Shown {
        Shown(format!("{scalar:?}"))
    }

    fn bulk(kind: BulkKind, bytes: Cow<'_, [u8]>) -> Shown {
        Shown(format!("{kind:?} {bytes:?}"))
    }

    fn aggregate(kind: AggregateKind, elements: Vec<Shown>) -> Shown {
        Shown(format!("{kind:?} {elements:?}"))
    }

    fn attributed(self, attributes: Vec<Shown>) -> Shown {
        Shown(format!("{attributes:?} about {self:?}"))
    }
}

/// How many replies ended.
#[derive(Default)]
struct Count(usize);

impl ReplyVisitor for Count {
    fn replies(&mut self, count: u64) {
        self.0 += count as usize;
    }
}

/// The first bytes say how the rest is cut; cut or whole, the replies and the error must be the same, and as many are
/// counted as are built.
pub fn reply(data: &[u8]) {
    let (cuts, stream) = data.split_at(data.len().min(4));
    let whole = decode(&[stream]);
    let mut pieces = Vec::new();
    let (mut rest, mut cuts) = (stream, cuts.iter().cycle());
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at(cuts.next().map_or(1, |&cut| cut as usize + 1).min(rest.len()));
        pieces.push(piece);
        rest = behind;
    }
    assert_eq!(decode(&pieces), whole);
    let (mut reader, mut count) = (ReplyReader::new(), Count::default());
    let error = pieces.iter().find_map(|piece| reader.skim(piece, &mut count).err());
    assert_eq!(error, whole.1);
    let pushes = whole.0.iter().filter(|reply| reply.0.contains("Push")).count();
    assert!((whole.0.len() - pushes..=whole.0.len()).contains(&count.0));
}

fn decode(pieces: &[&[u8]]) -> (Vec<Shown>, Option<ReplyError>) {
    let (mut decoder, mut replies) = (ReplyDecoder::new(), Vec::new());
    for piece in pieces {
        let mut at = 0;
        loop {
            match decoder.next(piece, &mut at) {
                Ok(Some(reply)) => replies.push(reply),
                Ok(None) => break assert_eq!(at, piece.len()),
                Err(error) => return (replies, Some(error)),
            }
        }
    }
    (replies, None)
}
