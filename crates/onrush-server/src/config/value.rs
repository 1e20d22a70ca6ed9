//! Values of directives: reading them from words, and writing them for CONFIG GET and for a file.

use std::borrow::Cow;
use std::fmt::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use onrush_engine::formats::units::parse_memory;
use onrush_engine::messages::events::EventClasses;
use onrush_engine::settings::OutputLimits;
use onrush_resp::{parse_i64, quoted, quoted_if_needed};

use super::directive::{Directive, Flags, Kind};
use super::limits;
use super::text::check_text;
use super::words::{Reason, with_unit};

/// A request for a snapshot after some seconds if there were that many changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavePoint {
    /// Seconds since the last snapshot, at least 1.
    pub seconds: u64,
    /// Changes since the last snapshot.
    pub changes: u64,
}

/// The value of a directive.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Of [`Kind::Bool`].
    Bool(bool),
    /// Of [`Kind::Integer`].
    Integer(i64),
    /// Bytes, of [`Kind::Memory`] or [`Kind::MemoryOrPercent`].
    Memory(u64),
    /// Of [`Kind::MemoryOrPercent`].
    Percent(u64),
    /// Of [`Kind::Permissions`].
    Permissions(u32),
    /// Of [`Kind::Enum`], as the table writes it.
    Enum(&'static str),
    /// Of [`Kind::EnumSet`], in the order of the table; empty is its first word.
    EnumSet(Vec<&'static str>),
    /// Of [`Kind::Text`] or [`Kind::Primary`].
    Text(Vec<u8>),
    /// Of [`Kind::Addresses`].
    Addresses(Vec<Vec<u8>>),
    /// Of [`Kind::SavePoints`].
    SavePoints(Vec<SavePoint>),
    /// Of [`Kind::OutputLimits`].
    OutputLimits(OutputLimits),
    /// Of [`Kind::EventClasses`].
    EventClasses(EventClasses),
    /// Of [`Kind::Percentiles`].
    Percentiles(Vec<f64>),
    /// Of [`Kind::OomScores`].
    OomScores([i64; 3]),
}

/// Addresses `bind` takes.
const ADDRESSES_MAX: usize = 16;

const WORD_COUNT: Reason = Cow::Borrowed("wrong number of arguments");
const NOT_INTEGER: Reason = Cow::Borrowed("argument couldn't be parsed into an integer");
const NEGATIVE: Reason = Cow::Borrowed("argument must be greater or equal to 0");
const NOT_MEMORY: Reason = Cow::Borrowed("argument must be a memory value");

impl Value {
    /// Reads the value of a directive from the words after its name.
    ///
    /// `current` is the value so far: classes of `client-output-buffer-limit` that are not named keep theirs, points of
    /// `save` are added to it, and a relative `dir` begins at it.
    ///
    /// # Errors
    /// What is wrong with the words.
    pub fn parse(directive: &Directive, words: &[Vec<u8>], current: &Value) -> Result<Value, Reason> {
        Ok(match (directive.clamp, parse_unclamped(directive, words, current)?) {
            (Some((low, high)), Value::Integer(n)) => Value::Integer(n.clamp(low, high)),
            (Some((low, high)), Value::Memory(n)) => Value::Memory(n.clamp(low as u64, high as u64)),
            (_, value) => value,
        })
    }

    /// The value as CONFIG GET answers it.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::Text(text) => text.clone(),
            Self::Addresses(addresses) => addresses.join(&b' '),
            other => other.to_string().into_bytes(),
        }
    }

    /// What follows the name on a line of a file that is to set this value.
    pub fn to_line(&self) -> String {
        match self {
            Self::Text(text) => quoted(text),
            Self::Memory(bytes) => with_unit(*bytes),
            Self::EventClasses(classes) => quoted(classes.to_string().as_bytes()),
            Self::OutputLimits(limits) => limits::to_line(limits),
            Self::Addresses(list) if !list.is_empty() => {
                list.iter().map(|address| quoted_if_needed(address)).collect::<Vec<_>>().join(" ")
            }
            other => match other.to_string() {
                nothing if nothing.is_empty() => "\"\"".to_owned(),
                text => text,
            },
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => f.write_str(if *value { "yes" } else { "no" }),
            Self::Integer(n) => write!(f, "{n}"),
            Self::Memory(bytes) => write!(f, "{bytes}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
            Self::Permissions(mode) => write!(f, "{mode:o}"),
            Self::Enum(word) => f.write_str(word),
            Self::EnumSet(words) if words.is_empty() => f.write_str("default"),
            Self::EnumSet(words) => f.write_str(&words.join(" ")),
            Self::Text(text) => f.write_str(&String::from_utf8_lossy(text)),
            Self::Addresses(list) => f.write_str(&String::from_utf8_lossy(&list.join(&b' '))),
            Self::SavePoints(points) => join(f, points, |f, point| write!(f, "{} {}", point.seconds, point.changes)),
            Self::OutputLimits(limits) => f.write_str(&limits::shown(limits)),
            Self::EventClasses(classes) => write!(f, "{classes}"),
            Self::Percentiles(list) => join(f, list, |f, percentile| write!(f, "{percentile}")),
            Self::OomScores(scores) => join(f, scores, |f, score| write!(f, "{score}")),
        }
    }
}

fn join<T>(
    f: &mut fmt::Formatter<'_>,
    items: &[T],
    write: impl Fn(&mut fmt::Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            f.write_char(' ')?;
        }
        write(f, item)?;
    }
    Ok(())
}

/// One word can be the whole list: CONFIG SET passes it that way, and so may a quoted value in a file.
fn split_single(words: &[Vec<u8>]) -> Cow<'_, [Vec<u8>]> {
    match words {
        [word] if word.is_empty() => Cow::Owned(Vec::new()),
        [word] => Cow::Owned(word.split(|&byte| byte == b' ').map(<[u8]>::to_vec).collect()),
        _ => Cow::Borrowed(words),
    }
}

fn parse_unclamped(directive: &Directive, words: &[Vec<u8>], current: &Value) -> Result<Value, Reason> {
    // What most kinds take, and what the others take.
    let single = || if let [word] = words { Ok(word.as_slice()) } else { Err(WORD_COUNT) };
    let list = || split_single(words);
    match directive.kind {
        Kind::Bool => match single()? {
            word if word.eq_ignore_ascii_case(b"yes") => Ok(Value::Bool(true)),
            word if word.eq_ignore_ascii_case(b"no") => Ok(Value::Bool(false)),
            _ => Err("argument must be 'yes' or 'no'".into()),
        },
        Kind::Integer { min, max } => {
            let n = parse_i64(single()?).ok_or(NOT_INTEGER)?;
            if n < 0 && directive.flags.contains(Flags::UNSIGNED) {
                return Err(NEGATIVE);
            }
            if n < min || n > max { Err(out_of_range(min, max)) } else { Ok(Value::Integer(n)) }
        }
        Kind::Memory { min, max } => {
            let bytes = parse_memory(single()?).ok_or(NOT_MEMORY)?;
            if bytes > i64::MAX as u64 && (max == u64::MAX || directive.flags.contains(Flags::UNSIGNED)) {
                return Err(NEGATIVE);
            }
            if bytes < min || bytes > max { Err(out_of_range(min, max)) } else { Ok(Value::Memory(bytes)) }
        }
        Kind::MemoryOrPercent => parse_memory_or_percent(single()?),
        Kind::Permissions => parse_permissions(single()?),
        Kind::Enum(names) => Ok(Value::Enum(pick(names, single()?)?)),
        Kind::EventClasses => Ok(Value::EventClasses(EventClasses::parse(single()?)?)),
        Kind::Text(rule) => {
            let base = match current {
                Value::Text(text) => Path::new(std::ffi::OsStr::from_bytes(text)),
                _ => Path::new(""),
            };
            Ok(Value::Text(check_text(rule, directive.name, single()?, base)?))
        }
        Kind::EnumSet(names) => parse_enum_set(names, &list()),
        Kind::Addresses => match list() {
            list if list.len() > ADDRESSES_MAX => Err("Too many bind addresses specified.".into()),
            list => Ok(Value::Addresses(list.into_owned())),
        },
        Kind::SavePoints => parse_save_points(&list(), current),
        Kind::OutputLimits => {
            let limits = if let Value::OutputLimits(limits) = current { *limits } else { OutputLimits::default() };
            limits::parse_over(limits, &list()).map(Value::OutputLimits)
        }
        Kind::Percentiles => parse_percentiles(&list()),
        Kind::OomScores => parse_oom_scores(&list()),
        Kind::Primary => parse_primary(&list()),
    }
}

fn out_of_range(min: impl fmt::Display, max: impl fmt::Display) -> Reason {
    format!("argument must be between {min} and {max} inclusive").into()
}

fn parse_memory_or_percent(word: &[u8]) -> Result<Value, Reason> {
    let not_either = || Reason::from("argument must be a memory or percent value");
    match word.strip_suffix(b"%") {
        None => match parse_memory(word) {
            Some(bytes) if i64::try_from(bytes).is_ok() => Ok(Value::Memory(bytes)),
            _ => Err(not_either()),
        },
        Some(digits) if !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) => {
            match String::from_utf8_lossy(digits).parse() {
                Ok(0) => Ok(Value::Memory(0)),
                Ok(percent @ 1..=100) => Ok(Value::Percent(percent)),
                _ => Err("percentage argument must be less or equal to 100".into()),
            }
        }
        Some(_) => Err(not_either()),
    }
}

fn parse_permissions(word: &[u8]) -> Result<Value, Reason> {
    let mode = match word {
        [] => Some(0),
        _ => std::str::from_utf8(word).ok().and_then(|text| i64::from_str_radix(text, 8).ok()),
    };
    match mode {
        None => Err("argument couldn't be parsed as an octal number".into()),
        Some(mode @ 0..=0o777) => Ok(Value::Permissions(mode as u32)),
        Some(..0) => Err(NEGATIVE),
        Some(_) => Err(out_of_range(0, 777)),
    }
}

fn pick(names: &'static [&'static str], word: &[u8]) -> Result<&'static str, Reason> {
    names
        .iter()
        .find(|name| name.as_bytes().eq_ignore_ascii_case(word))
        .copied()
        .ok_or_else(|| format!("argument(s) must be one of the following: {}", names.join(", ")).into())
}

fn parse_enum_set(names: &'static [&'static str], words: &[Vec<u8>]) -> Result<Value, Reason> {
    if words.is_empty() {
        pick(names, b"")?;
    }
    let picked = words.iter().map(|word| pick(names, word)).collect::<Result<Vec<_>, _>>()?;
    if picked.contains(&"save") && picked.contains(&"nosave") {
        return Err("shutdown options SAVE and NOSAVE can't be used simultaneously".into());
    }
    Ok(Value::EnumSet(names[1..].iter().copied().filter(|name| picked.contains(name)).collect()))
}

fn parse_save_points(words: &[Vec<u8>], current: &Value) -> Result<Value, Reason> {
    let mut points = match current {
        Value::SavePoints(points) if !words.is_empty() => points.clone(),
        _ => Vec::new(),
    };
    let invalid = || Reason::from("Invalid save parameters");
    let number = |word: &[u8]| parse_i64(word).and_then(|n| u64::try_from(n).ok()).ok_or_else(invalid);
    let (pairs, rest) = words.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(invalid());
    }
    for [seconds, changes] in pairs {
        let point = SavePoint { seconds: number(seconds)?, changes: number(changes)? };
        if point.seconds == 0 {
            return Err(invalid());
        }
        points.push(point);
    }
    Ok(Value::SavePoints(points))
}

fn parse_percentiles(words: &[Vec<u8>]) -> Result<Value, Reason> {
    let percentile = |word: &Vec<u8>| {
        let number = String::from_utf8_lossy(word).parse::<f64>().ok().filter(|number| !number.is_nan());
        match number {
            None => Err("Invalid latency-tracking-info-percentiles parameters".into()),
            Some(number) if (0.0..=100.0).contains(&number) => Ok(number),
            Some(_) => Err("latency-tracking-info-percentiles parameters should sit between [0.0,100.0]".into()),
        }
    };
    words.iter().map(percentile).collect::<Result<_, _>>().map(Value::Percentiles)
}

fn parse_oom_scores(words: &[Vec<u8>]) -> Result<Value, Reason> {
    let [a, b, c] = words else {
        return Err(WORD_COUNT);
    };
    let score = |word: &[u8]| {
        parse_i64(word)
            .filter(|score| (-2000..=2000).contains(score))
            .ok_or("Invalid oom-score-adj-values, elements must be between -2000 and 2000.")
    };
    Ok(Value::OomScores([score(a)?, score(b)?, score(c)?]))
}

fn parse_primary(words: &[Vec<u8>]) -> Result<Value, Reason> {
    let [host, port] = words else {
        return Err(WORD_COUNT);
    };
    if host.eq_ignore_ascii_case(b"no") && port.eq_ignore_ascii_case(b"one") {
        return Ok(Value::Text(Vec::new()));
    }
    match parse_i64(port) {
        Some(0..=65535) => Ok(Value::Text([host.as_slice(), port].join(&b' '))),
        _ => Err("Invalid master port".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::directive::{integer, memory, special};

    #[test]
    fn memory_takes_units_of_1000_and_of_1024() {
        let cases: [(&str, Option<u64>); 17] = [
            ("1k", Some(1000)),
            ("1kb", Some(1024)),
            ("1K", Some(1000)),
            ("2Mb", Some(2 << 20)),
            ("1m", Some(1_000_000)),
            ("1g", Some(1_000_000_000)),
            ("3GB", Some(3 << 30)),
            ("7b", Some(7)),
            ("010", Some(10)),
            ("", Some(0)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", Some(u64::MAX)),
            ("18446744073709551615kb", Some(u64::MAX)),
            ("-1", None),
            ("+1", None),
            ("1.5mb", None),
            ("1t", None),
        ];
        for (word, bytes) in cases {
            assert_eq!(parse_memory(word.as_bytes()), bytes, "{word}");
        }
    }

    #[test]
    fn memory_is_written_with_the_largest_whole_unit() {
        for (bytes, text) in [(0, "0"), (1000, "1000"), (1024, "1kb"), (3 << 30, "3gb"), (1536 << 10, "1536kb")] {
            assert_eq!(with_unit(bytes), text);
        }
    }

    #[test]
    fn integers_are_canonical_decimal() {
        for word in ["", "010", "+5", " 5", "5 ", "-0", "00", "0x10", "-", "9223372036854775808"] {
            assert_eq!(parse_i64(word.as_bytes()), None, "{word}");
        }
        assert_eq!(parse_i64(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(parse_i64(b"0"), Some(0));
    }

    #[test]
    fn bounds_are_told_and_clamps_are_silent() {
        let parse = |directive: &Directive, word: &str| {
            Value::parse(directive, &[word.as_bytes().to_vec()], &Value::Integer(0))
        };
        let hz = integer("hz", 0, 1000, "10").clamped(1, 500);
        assert_eq!(parse(&hz, "0"), Ok(Value::Integer(1)));
        assert_eq!(parse(&hz, "700"), Ok(Value::Integer(500)));
        assert_eq!(parse(&hz, "1001"), Err("argument must be between 0 and 1000 inclusive".into()));
        let limit = memory("limit", 1024, 2048, "1kb");
        assert_eq!(parse(&limit, "1k"), Err("argument must be between 1024 and 2048 inclusive".into()));
    }

    #[test]
    fn lists_split_a_single_word_but_not_several() {
        let bind = special("bind", Kind::Addresses, "*");
        let parse = |words: &[&str]| {
            let words: Vec<_> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
            Value::parse(&bind, &words, &Value::Addresses(Vec::new())).map(|value| value.to_string())
        };
        assert_eq!(parse(&["127.0.0.1 -::1"]).unwrap(), "127.0.0.1 -::1");
        assert_eq!(parse(&["127.0.0.1", "-::1"]).unwrap(), "127.0.0.1 -::1");
        assert_eq!(parse(&[""]).unwrap(), "");
        assert_eq!(parse(&["a"; 17]), Err("Too many bind addresses specified.".into()));
    }
}
