//! Words and quotes: how a line becomes arguments, and how bytes are shown so that they read back the same.

/// The bytes in double quotes, with everything but printable ASCII escaped.
pub fn quoted(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() + 2);
    push_quoted(&mut out, bytes);
    out
}

/// Appends what [`quoted`] returns.
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
            _ => {
                out.extend_from_slice(b"\\x");
                out.extend_from_slice(&hex(byte));
            }
        }
    }
    out.push(b'"');
}

/// Two lower-case hexadecimal digits.
pub fn hex(byte: u8) -> [u8; 2] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]
}

/// Splits a line at blanks. `"…"` knows the escapes `\n \r \t \a \b \xHH` and `\` before any other byte, `'…'` knows
/// only `\'`. Quotes may open inside a word, but only a blank or the end may follow a closing one. `None` when the
/// quotes do not fit. The grammar is the one of inline commands and of redis-cli.
pub fn split_words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut at = 0;
    loop {
        while line.get(at).is_some_and(|&byte| is_blank(byte)) {
            at += 1;
        }
        if at >= line.len() {
            return Some(words);
        }
        let mut word = Vec::new();
        while let Some(&byte) = line.get(at) {
            match byte {
                b'\0' => break,
                _ if is_blank(byte) => break,
                b'"' => at = double_quoted(line, at + 1, &mut word)?,
                b'\'' => at = single_quoted(line, at + 1, &mut word)?,
                _ => {
                    word.push(byte);
                    at += 1;
                }
            }
        }
        words.push(word);
        if line.get(at) == Some(&0) {
            return Some(words);
        }
    }
}

/// One argument that may be written in quotes; `None` when the quotes do not fit or there is more than one word.
pub fn unquoted(text: &[u8]) -> Option<Vec<u8>> {
    let mut words = split_words(text)?;
    if words.len() == 1 { words.pop() } else { None }
}

fn is_blank(byte: u8) -> bool {
    byte == b' ' || (b'\t'..=b'\r').contains(&byte)
}

fn double_quoted(line: &[u8], mut at: usize, word: &mut Vec<u8>) -> Option<usize> {
    loop {
        match *line.get(at)? {
            b'"' => return closed(line, at + 1),
            b'\\' => {
                let escaped = *line.get(at + 1)?;
                if escaped == b'x'
                    && let (Some(high), Some(low)) = (nibble(line.get(at + 2)), nibble(line.get(at + 3)))
                {
                    word.push(high << 4 | low);
                    at += 4;
                    continue;
                }
                word.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 0x08,
                    b'a' => 0x07,
                    other => other,
                });
                at += 2;
            }
            byte => {
                word.push(byte);
                at += 1;
            }
        }
    }
}

fn single_quoted(line: &[u8], mut at: usize, word: &mut Vec<u8>) -> Option<usize> {
    loop {
        match *line.get(at)? {
            b'\'' => return closed(line, at + 1),
            b'\\' if line.get(at + 1) == Some(&b'\'') => {
                word.push(b'\'');
                at += 2;
            }
            byte => {
                word.push(byte);
                at += 1;
            }
        }
    }
}

fn closed(line: &[u8], at: usize) -> Option<usize> {
    line.get(at).is_none_or(|&byte| is_blank(byte) || byte == 0).then_some(at)
}

fn nibble(digit: Option<&u8>) -> Option<u8> {
    char::from(*digit?).to_digit(16).map(|value| value as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Option<Vec<String>> {
        split_words(line.as_bytes()).map(|words| words.into_iter().map(|w| String::from_utf8(w).unwrap()).collect())
    }

    #[test]
    fn a_line_splits_at_blanks_outside_quotes() {
        for (line, expected) in [
            ("", vec![]),
            ("  \t ", vec![]),
            ("get a", vec!["get", "a"]),
            ("  set  a   'b c' ", vec!["set", "a", "b c"]),
            (r#"set a "b\n\t\x41\"\q""#, vec!["set", "a", "b\n\tA\"q"]),
            (r"'a\'b\n'", vec![r"a'b\n"]),
            (r#"ab"c d"e"#, vec![]),
            (r#"ab"c d""#, vec!["abc d"]),
            (r#""" ''"#, vec!["", ""]),
            (r#""\xzz""#, vec!["xzz"]),
            ("a\\ b", vec!["a\\", "b"]),
        ] {
            let got = words(line);
            if line == r#"ab"c d"e"# {
                assert_eq!(got, None);
            } else {
                assert_eq!(got, Some(expected.into_iter().map(str::to_owned).collect()), "{line}");
            }
        }
    }

    #[test]
    fn open_quotes_and_text_after_closing_ones_are_refused() {
        for line in ["\"a", "'a", "\"a\"b", "'a'b", "\"a\\", "a 'b\\'"] {
            assert_eq!(words(line), None, "{line}");
        }
    }

    #[test]
    fn what_is_quoted_reads_back_the_same() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(split_words(&quoted(&all)), Some(vec![all]));
        assert_eq!(quoted(b"a\x07\n\"\xff"), b"\"a\\a\\n\\\"\\xff\"");
    }

    #[test]
    fn one_argument_is_one_word() {
        assert_eq!(unquoted(b"\"a\\x00\""), Some(b"a\0".to_vec()));
        assert_eq!(unquoted(b"a b"), None);
        assert_eq!(unquoted(b""), None);
    }
}
