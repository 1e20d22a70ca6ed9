//! Words of a line, as inline commands, configuration files, manifests and command lines have them, and how bytes are
//! written so that they read back the same.

use std::io::Write;

pub(crate) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

/// Splits a line into words by Redis's quoting rules; `None` if quotes are unbalanced.
///
/// Words are separated by white space. In `"…"` the escapes are `\n \r \t \b \a \xHH`, and any other escaped byte
/// stands for itself; in `'…'` the only escape is `\'`. Quotes may open inside a word, but a closing quote must be
/// followed by white space or the end. A NUL outside quotes ends the line. O(length).
pub fn split_words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut at = 0;
    loop {
        while line.get(at).is_some_and(|&byte| is_space(byte)) {
            at += 1;
        }
        match line.get(at) {
            None | Some(0) => return Some(words),
            Some(_) => {
                let (word, next) = take_word(line, at)?;
                words.push(word);
                at = next;
            }
        }
    }
}

/// The one word of a text that may be in quotes; `None` if they are unbalanced or there is not one word.
pub fn unquoted(text: &[u8]) -> Option<Vec<u8>> {
    let mut words = split_words(text)?;
    if words.len() == 1 { words.pop() } else { None }
}

/// One word from `at` on, quotes resolved, and the position after it.
fn take_word(line: &[u8], mut at: usize) -> Option<(Vec<u8>, usize)> {
    let mut word = Vec::new();
    while let Some(&byte) = line.get(at) {
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' | 0 => break,
            b'"' | b'\'' => {
                at = take_quoted(line, at + 1, byte, &mut word)?;
                if line.get(at).is_some_and(|&next| !is_space(next) && next != 0) {
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
fn take_quoted(line: &[u8], mut at: usize, quote: u8, word: &mut Vec<u8>) -> Option<usize> {
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

/// Appends the bytes in double quotes, with everything but printable ASCII escaped: pure ASCII. O(length).
pub fn push_quoted(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    for &byte in bytes {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x07 => out.extend_from_slice(b"\\a"),
            0x08 => out.extend_from_slice(b"\\b"),
            b' '..=b'~' => out.push(byte),
            // Writing to memory does not fail.
            _ => _ = write!(out, "\\x{byte:02x}"),
        }
    }
    out.push(b'"');
}

/// The bytes as [`push_quoted`] writes them.
pub fn quoted(bytes: &[u8]) -> String {
    let mut out = Vec::with_capacity(bytes.len() + 2);
    push_quoted(&mut out, bytes);
    String::from_utf8(out).expect("pure ASCII")
}

/// As [`quoted`], but leaves a word as it is if it reads back unchanged without quotes, as the first of a line too.
pub fn quoted_if_needed(word: &[u8]) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'\\' | b'#');
    match !word.is_empty() && word.iter().all(is_plain) {
        true => String::from_utf8_lossy(word).into_owned(),
        false => quoted(word),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_line_splits_at_white_space_outside_quotes() {
        let known: [(&[u8], &[&[u8]]); 20] = [
            (b"", &[]),
            (b"  \t \x0b", &[]),
            (b"get a", &[b"get", b"a"]),
            (b"  SET  a\t'b c' \r", &[b"SET", b"a", b"b c"]),
            (br#"set a "b\n\t\x41\"\q""#, &[b"set", b"a", b"b\n\tA\"q"]),
            (br"'a\'b\n'", &[br"a'b\n"]),
            (br#"ab"c d""#, &[b"abc d"]),
            (br#""" ''"#, &[b"", b""]),
            (br#""\xzz\xfF\x4""#, &[b"xzz\xffx4"]),
            (b"a\\ b", &[b"a\\", b"b"]),
            (b"hz 12\0", &[b"hz", b"12"]),
            (b"hz \"12\"\0 13", &[b"hz", b"12"]),
            (b"\0hz", &[]),
            (br#"save 1"0""#, &[b"save", b"10"]),
            (b"a\x0bb", &[b"a\x0bb"]),
            (br"1'2 3'", &[b"12 3"]),
            (br#"a "b\x41\n\q\x4" ''"#, &[b"a", b"bA\nqx4", b""]),
            (br#"a "b c" 'd "e' "\x41\n\q\"" 'it\'s \n'"#, &[b"a", b"b c", b"d \"e", b"A\nq\"", br"it's \n"]),
            (b"  save\t900 1 \r", &[b"save", b"900", b"1"]),
            (br#"save "" '' "#, &[b"save", b"", b""]),
        ];
        for (line, words) in known {
            assert_eq!(split_words(line).unwrap(), words, "{line:?}");
        }
    }

    #[test]
    fn open_quotes_and_text_after_closing_ones_are_refused() {
        for line in
            [&b"\"a"[..], b"'a", b"\"a\"b", b"'a'b", b"\"a\\", b"\"a\\\"", b"a 'b\\'", b"hz \"10\"x", b"'d ''e'"]
        {
            assert_eq!(split_words(line), None, "{line:?}");
        }
    }

    #[test]
    fn one_argument_is_one_word() {
        assert_eq!(unquoted(b"\"a\\x00\""), Some(b"a\0".to_vec()));
        assert_eq!(unquoted(b"a b"), None);
        assert_eq!(unquoted(b""), None);
    }

    #[test]
    fn what_is_not_printable_is_escaped() {
        assert_eq!(quoted(b"a \"b\"\\\n\r\t\x07\x08\x00\xff"), r#""a \"b\"\\\n\r\t\a\b\x00\xff""#);
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(split_words(quoted(&all).as_bytes()), Some(vec![all]));
        assert_eq!(quoted_if_needed(b"a"), "a");
        assert_eq!(quoted_if_needed(b"#a"), "\"#a\"");
    }

    proptest! {
        #[test]
        fn a_quoted_word_comes_back(word: Vec<u8>) {
            prop_assert_eq!(split_words(quoted(&word).as_bytes()).unwrap(), vec![word.clone()]);
            let line = format!(" a {} b", quoted_if_needed(&word));
            prop_assert_eq!(split_words(line.as_bytes()).unwrap(), vec![b"a".to_vec(), word, b"b".to_vec()]);
        }

        #[test]
        fn no_line_makes_it_panic(line: Vec<u8>) {
            let _ = split_words(&line);
        }
    }
}
