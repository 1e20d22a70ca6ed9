//! What is read from text: inline commands, numbers, patterns, configuration, syntax lines.

use onrush_engine::command::syntax;
use onrush_engine::formats::glob::glob_match;
use onrush_engine::formats::long_double::LongDouble;
use onrush_resp::{InlineArgs, parse_i64, push_double, push_shortest, split_inline};
use onrush_server::config::{CommandLine, load};

/// Words of an inline command stand where they are said to stand.
pub fn inline(data: &[u8]) {
    if let Some(InlineArgs::Plain(words)) = split_inline(data) {
        let mut at = 0;
        for (start, end) in words {
            assert!(at <= start && start < end && end <= data.len());
            at = end;
        }
    }
}

/// Integers are those the standard library reads, spelled in the one way it writes them; doubles read back as they were.
pub fn numbers(data: &[u8]) {
    let expected =
        std::str::from_utf8(data).ok().and_then(|text| text.parse::<i64>().ok().filter(|n| n.to_string() == text));
    assert_eq!(parse_i64(data), expected);
    if let Some(bytes) = data.first_chunk::<8>() {
        let value = f64::from_le_bytes(*bytes);
        if value.is_finite() {
            for push in [push_double, push_shortest] {
                let mut text = Vec::new();
                push(&mut text, value);
                assert_eq!(std::str::from_utf8(&text).ok().and_then(|text| text.parse().ok()), Some(value));
            }
        }
    }
}

/// What is printed reads back as what it prints as; sums are the same both ways round.
pub fn long_double(data: &[u8]) {
    let (left, right) = data.split_at(data.len() / 2);
    if let (Some(left), Some(right)) = (LongDouble::parse(left), LongDouble::parse(right)) {
        let sum = left.checked_add(right);
        assert_eq!(sum.map(|sum| sum.to_string()), right.checked_add(left).map(|sum| sum.to_string()));
        if let Some(sum) = sum.filter(|sum| !sum.is_infinite()) {
            let text = sum.to_string();
            let again = LongDouble::parse(text.as_bytes()).map(|again| again.to_string());
            assert_eq!(again, Some(text));
        }
    }
}

/// A pattern without special characters matches itself alone; without regard to case no fewer strings match.
pub fn glob(data: &[u8]) {
    let (pattern, string) = data.split_at(data.len() / 2);
    let matched = glob_match(pattern, string, false);
    if !pattern.iter().any(|byte| b"*?[\\".contains(byte)) {
        assert_eq!(matched, pattern == string);
    }
    // A class that excludes a letter excludes both its cases then.
    if matched && !pattern.contains(&b'[') {
        assert!(glob_match(pattern, string, true));
    }
}

/// Configuration from standard input is taken or refused with a reason.
pub fn config(data: &[u8]) {
    // Files are none of a fuzzer's business.
    if String::from_utf8_lossy(data).to_ascii_lowercase().contains("include") {
        return;
    }
    let command_line = CommandLine { stdin: true, ..CommandLine::default() };
    match load(&command_line, &mut &*data) {
        Ok(loaded) => assert!(!loaded.config.get_matching(&[b"*"]).is_empty()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// A syntax line is parsed or refused.
pub fn syntax(data: &[u8]) {
    let _ = syntax::parse(&String::from_utf8_lossy(data));
}
