//! The reader of replies.

use onrush_resp::{ReplyDecoder, ReplyError, ReplyReader, ReplyVisitor};

use crate::tree::Tree;

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
    let pushes = whole.0.iter().filter(|reply| reply.is_push()).count();
    assert_eq!(count.0, whole.0.len() - pushes);
}

fn decode(pieces: &[&[u8]]) -> (Vec<Tree>, Option<ReplyError>) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_replies_take_time_by_their_length() {
        let stream = ["0000", &"*1\r\n".repeat(100), "$1\r\n\"\r\n"].concat();
        reply(stream.as_bytes());
    }
}
