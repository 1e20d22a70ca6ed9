//! Words of a line, in quotes where needed: `"..."` with escapes, or `'...'` with `\'` as the only escape.

use std::fmt::Write;

/// Appends a word, in quotes if a character in it would end or hide it.
pub(super) fn write_quoted(out: &mut String, word: &str) {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'\\');
    if !word.is_empty() && word.bytes().all(is_plain) {
        out.push_str(word);
        return;
    }
    out.push('"');
    for byte in word.bytes() {
        match byte {
            b'"' | b'\\' => out.extend(['\\', char::from(byte)]),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            7 => out.push_str("\\a"),
            8 => out.push_str("\\b"),
            b' '..=b'~' => out.push(char::from(byte)),
            _ => {
                let _ = write!(out, "\\x{byte:02x}");
            }
        }
    }
    out.push('"');
}

/// The words of a line; `None` if quotes do not match, or something follows a quote.
pub(super) fn split(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (mut words, mut rest) = (Vec::new(), line.trim_ascii_start());
    while let Some(&first) = rest.first() {
        let (word, behind) = match first {
            b'"' => double(&rest[1..])?,
            b'\'' => single(&rest[1..])?,
            _ => {
                let len = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
                (rest[..len].to_vec(), &rest[len..])
            }
        };
        if behind.first().is_some_and(|byte| !byte.is_ascii_whitespace()) {
            return None;
        }
        words.push(word);
        rest = behind.trim_ascii_start();
    }
    Some(words)
}

fn double(mut rest: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut word = Vec::new();
    loop {
        let (byte, behind) = rest.split_first()?;
        rest = behind;
        match byte {
            b'"' => return Some((word, rest)),
            b'\\' => {
                let (escaped, behind) = rest.split_first()?;
                rest = behind;
                word.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'a' => 7,
                    b'b' => 8,
                    b'x' => match hex(rest) {
                        Some(byte) => {
                            rest = &rest[2..];
                            byte
                        }
                        None => b'x',
                    },
                    other => *other,
                });
            }
            other => word.push(*other),
        }
    }
}

fn single(mut rest: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut word = Vec::new();
    loop {
        match rest {
            [b'\\', b'\'', behind @ ..] => {
                word.push(b'\'');
                rest = behind;
            }
            [b'\'', behind @ ..] => return Some((word, behind)),
            [byte, behind @ ..] => {
                word.push(*byte);
                rest = behind;
            }
            [] => return None,
        }
    }
}

fn hex(digits: &[u8]) -> Option<u8> {
    let digits = digits.get(..2).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_quoted_is_one_word(word in ".*") {
            let mut line = String::from(" a ");
            write_quoted(&mut line, &word);
            line.push_str(" b");
            prop_assert_eq!(split(line.as_bytes()), Some(vec![b"a".to_vec(), word.into_bytes(), b"b".to_vec()]));
        }
    }

    #[test]
    fn quotes_that_do_not_match_are_no_words() {
        assert_eq!(split(br"'a\'b' c"), Some(vec![b"a'b".to_vec(), b"c".to_vec()]));
        assert_eq!(split(br#""\x41\q" "#), Some(vec![b"Aq".to_vec()]));
        for line in [&b"\"a"[..], b"'a", b"\"a\"b", b"'a'b", b"\"a\\"] {
            assert_eq!(split(line), None);
        }
    }
}
