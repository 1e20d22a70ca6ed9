//! Lines of a configuration file: how they split into words, and how a word is written so that it splits again.

/// A line whose quotes do not close, or close in the middle of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnbalancedQuotes;

/// Splits a line into its words.
///
/// Words are separated by white space. `"…"` may hold white space and the escapes `\n`, `\r`, `\t`, `\b`, `\a`,
/// `\xHH`, and `\` before any other byte for that byte; `'…'` may hold everything, with `\'` for the quote. A closing
/// quote must end its word. A `#` begins a comment only as the line's first byte, which is the caller's business.
///
/// # Errors
/// [`UnbalancedQuotes`].
pub fn split_words(line: &[u8]) -> Result<Vec<Vec<u8>>, UnbalancedQuotes> {
    let mut words = Vec::new();
    let mut rest = line.trim_ascii_start();
    while !rest.is_empty() {
        let Word { bytes, len } = take_word(rest)?;
        words.push(bytes);
        rest = rest[len..].trim_ascii_start();
    }
    Ok(words)
}

/// A word of a line.
struct Word {
    /// The word without its quotes.
    bytes: Vec<u8>,
    /// How many bytes of the line it takes up.
    len: usize,
}

/// The first word of `text`, which does not begin with white space.
fn take_word(text: &[u8]) -> Result<Word, UnbalancedQuotes> {
    let mut word = Vec::new();
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'"' | b'\'' => {
                at += 1 + take_quoted(&text[at + 1..], byte, &mut word)?;
                return match text.get(at) {
                    Some(next) if !next.is_ascii_whitespace() => Err(UnbalancedQuotes),
                    _ => Ok(Word { bytes: word, len: at }),
                };
            }
            b' ' | b'\t' | b'\r' | b'\n' | 0 => break,
            _ => word.push(byte),
        }
        at += 1;
    }
    // A NUL ends the word, as in Redis. It counts as one byte of the word, so that the caller makes progress.
    let ended_by_nul = text.get(at) == Some(&0);
    Ok(Word { bytes: word, len: at + usize::from(ended_by_nul) })
}

/// Takes what is between quotes; `text` begins after the opening one. Returns the bytes taken, with the closing quote.
fn take_quoted(text: &[u8], quote: u8, word: &mut Vec<u8>) -> Result<usize, UnbalancedQuotes> {
    let mut at = 0;
    loop {
        match &text[at..] {
            [] => return Err(UnbalancedQuotes),
            [byte, ..] if *byte == quote => return Ok(at + 1),
            [b'\\', b'x', high, low, ..] if quote == b'"' && high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                word.push(hex(*high) << 4 | hex(*low));
                at += 4;
            }
            [b'\\', escaped, ..] if quote == b'"' => {
                word.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => *other,
                });
                at += 2;
            }
            [b'\\', b'\'', ..] if quote == b'\'' => {
                word.push(b'\'');
                at += 2;
            }
            [byte, ..] => {
                word.push(*byte);
                at += 1;
            }
        }
    }
}

fn hex(digit: u8) -> u8 {
    (digit as char).to_digit(16).map_or(0, |value| value as u8)
}

/// Writes `word` in double quotes, with escapes for what is not printable ASCII.
pub fn quote(word: &[u8]) -> String {
    use std::fmt::Write;
    let mut text = String::with_capacity(word.len() + 2);
    text.push('"');
    for &byte in word {
        match byte {
            b'\\' | b'"' => text.extend(['\\', byte as char]),
            b'\n' => text.push_str("\\n"),
            b'\r' => text.push_str("\\r"),
            b'\t' => text.push_str("\\t"),
            7 => text.push_str("\\a"),
            8 => text.push_str("\\b"),
            b' '..=b'~' => text.push(byte as char),
            _ => {
                let _ = write!(text, "\\x{byte:02x}");
            }
        }
    }
    text.push('"');
    text
}

/// As [`quote`], but leaves a word as it is if it reads back unchanged without quotes.
pub fn quote_if_needed(word: &[u8]) -> String {
    let plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'\\' | b'#');
    if !word.is_empty() && word.iter().all(plain) { String::from_utf8_lossy(word).into_owned() } else { quote(word) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(line: &str) -> Vec<String> {
        let words = split_words(line.as_bytes()).unwrap();
        words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect()
    }

    #[test]
    fn words_are_separated_by_white_space() {
        assert_eq!(words("  save\t900 1 \r"), ["save", "900", "1"]);
        assert_eq!(words(""), [""; 0]);
    }

    #[test]
    fn quotes_keep_white_space_and_escapes() {
        assert_eq!(words(r#"a "b c" 'd "e' "\x41\n\q\"" 'it\'s \n'"#), ["a", "b c", "d \"e", "A\nq\"", "it's \\n"]);
        assert_eq!(words(r#"save "" '' 1"0""#), ["save", "", "", "10"]);
        assert_eq!(split_words(br#""\xfF""#).unwrap(), [[0xff]]);
        assert_eq!(words(r#""\xzz""#), ["xzz"]);
    }

    #[test]
    fn quotes_must_close_and_end_their_word() {
        for line in ["hz 'a", "hz \"a", "hz \"10\"x", "hz '1'2", "a \"b\\\""] {
            assert_eq!(split_words(line.as_bytes()), Err(UnbalancedQuotes), "{line}");
        }
    }

    #[test]
    fn a_nul_ends_its_word() {
        assert_eq!(split_words(b"hz 12\0").unwrap(), [b"hz".to_vec(), b"12".to_vec()]);
    }

    proptest! {
        #[test]
        fn a_quoted_word_comes_back(word: Vec<u8>) {
            prop_assert_eq!(split_words(quote(&word).as_bytes()).unwrap(), vec![word.clone()]);
            prop_assert_eq!(split_words(quote_if_needed(&word).as_bytes()).unwrap(), vec![word]);
        }

        #[test]
        fn no_line_makes_it_panic(line: Vec<u8>) {
            let _ = split_words(&line);
        }
    }
}
