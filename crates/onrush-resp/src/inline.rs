//! Inline commands: a line of words, for people and for `netcat`.

use crate::words::{is_space, split_words};

/// The arguments of an inline command.
#[derive(Debug, PartialEq, Eq)]
pub enum InlineArgs {
    /// The words are unchanged parts of the line: start and end of each.
    Plain(Vec<(usize, usize)>),
    /// At least one word was quoted, so the words were rewritten.
    Quoted(Vec<Vec<u8>>),
}

/// Splits an inline command into its words; `None` if quotes are unbalanced.
///
/// As [`split_words`], but words without quotes stay where they are. O(length).
pub fn split_inline(line: &[u8]) -> Option<InlineArgs> {
    if memchr::memchr2(b'"', b'\'', line).is_none() {
        return Some(InlineArgs::Plain(plain_words(line)));
    }
    split_words(line).map(InlineArgs::Quoted)
}

fn plain_words(line: &[u8]) -> Vec<(usize, usize)> {
    let mut words = Vec::new();
    let mut at = 0;
    loop {
        while at < line.len() && is_space(line[at]) {
            at += 1;
        }
        if at == line.len() {
            return words;
        }
        let start = at;
        while at < line.len() && !matches!(line[at], b' ' | b'\t' | b'\n' | b'\r') {
            at += 1;
        }
        words.push((start, at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
        Some(match split_inline(line)? {
            InlineArgs::Plain(ranges) => ranges.iter().map(|&(s, e)| line[s..e].to_vec()).collect(),
            InlineArgs::Quoted(words) => words,
        })
    }

    #[test]
    fn words_are_split_at_white_space() {
        assert_eq!(words(b"  SET a\tb  "), Some(vec![b"SET".to_vec(), b"a".to_vec(), b"b".to_vec()]));
        assert_eq!(words(b""), Some(vec![]));
        assert_eq!(words(b" \t "), Some(vec![]));
    }

    #[test]
    fn quoted_words_are_rewritten() {
        assert_eq!(words(br#"a "b\x41" ''"#), Some(vec![b"a".to_vec(), b"bA".to_vec(), vec![]]));
        assert_eq!(words(b"'a'b"), None);
    }
}
