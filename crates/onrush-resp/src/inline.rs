//! Inline commands: a line of words, for people and for `netcat`.

/// The arguments of an inline command.
#[derive(Debug, PartialEq, Eq)]
pub enum InlineArgs {
    /// The words are unchanged parts of the line: start and end of each.
    Plain(Vec<(usize, usize)>),
    /// At least one word was quoted, so the words were rewritten.
    Quoted(Vec<Vec<u8>>),
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

/// Splits a line into words by Redis's quoting rules.
///
/// Words are separated by white space. In `"…"` the escapes are `\n \r \t \b \a \xHH`, and any other escaped byte
/// stands for itself; in `'…'` the only escape is `\'`. A closing quote must be followed by white space or the end.
/// Returns `None` when quotes are unbalanced. O(length).
pub fn split_inline(line: &[u8]) -> Option<InlineArgs> {
    if memchr::memchr2(b'"', b'\'', line).is_none() {
        return Some(InlineArgs::Plain(plain_words(line)));
    }
    let mut words = Vec::new();
    let mut at = 0;
    loop {
        while at < line.len() && is_space(line[at]) {
            at += 1;
        }
        if at == line.len() {
            return Some(InlineArgs::Quoted(words));
        }
        let (word, next) = quoted_word(line, at)?;
        words.push(word);
        at = next;
    }
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

/// One word from `at` on, quotes resolved, and the position after it.
fn quoted_word(line: &[u8], mut at: usize) -> Option<(Vec<u8>, usize)> {
    let mut word = Vec::new();
    while let Some(&byte) = line.get(at) {
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' => break,
            b'"' | b'\'' => {
                at = quoted_part(line, at + 1, byte, &mut word)?;
                if line.get(at).is_some_and(|&next| !is_space(next)) {
                    return None;
                }
                break;
            }
            _ => {
                word.push(byte);
                at += 1;
            }
        }
    }
    Some((word, at))
}

/// The inside of a quoted part up to and including its closing quote.
fn quoted_part(line: &[u8], mut at: usize, quote: u8, word: &mut Vec<u8>) -> Option<usize> {
    loop {
        let byte = *line.get(at)?;
        at += 1;
        if byte == quote {
            return Some(at);
        }
        if byte != b'\\' {
            word.push(byte);
            continue;
        }
        let rest = &line[at..];
        if quote == b'\'' {
            if rest.first() == Some(&b'\'') {
                at += 1;
                word.push(b'\'');
            } else {
                word.push(b'\\');
            }
            continue;
        }
        if let [b'x', high, low, ..] = rest {
            if let (Some(high), Some(low)) = (hex(*high), hex(*low)) {
                word.push(high << 4 | low);
                at += 3;
                continue;
            }
        }
        let escaped = *rest.first()?;
        at += 1;
        word.push(match escaped {
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'b' => 0x08,
            b'a' => 0x07,
            other => other,
        });
    }
}

fn hex(digit: u8) -> Option<u8> {
    (digit as char).to_digit(16).map(|value| value as u8)
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
    fn double_quotes_know_escapes() {
        assert_eq!(words(br#"a "b\x41\n\q\x4" ''"#), Some(vec![b"a".to_vec(), b"bA\nqx4".to_vec(), vec![]]));
        assert_eq!(words(br#"ab"c d""#), Some(vec![b"abc d".to_vec()]));
    }

    #[test]
    fn single_quotes_know_only_themselves() {
        assert_eq!(words(br"'a\n\'b'"), Some(vec![br"a\n'b".to_vec()]));
    }

    #[test]
    fn unbalanced_quotes_are_refused() {
        for line in [&b"\"a"[..], b"'a", b"\"a\"b", b"'a'b", b"\"a\\", b"\"a\\\""] {
            assert_eq!(words(line), None, "{line:?}");
        }
    }
}
