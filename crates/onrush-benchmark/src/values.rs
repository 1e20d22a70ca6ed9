//! The values of options, read from text. An error says what is wrong with the text.

use std::str::FromStr;
use std::time::Duration;

use crate::options::{Sweep, SweptValue};

/// Values have this length at most.
pub const DATA_LEN_MAX: usize = 1 << 30;

/// The least and the greatest of something.
pub type Bounds<T> = (T, T);

/// Tests by name, each with its weight.
pub type Mix = Vec<(String, u32)>;

/// A length of time with its unit; seconds without.
pub fn time(text: &str) -> Result<Duration, String> {
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string());
    }
    humantime::parse_duration(text).map_err(|error| error.to_string())
}

/// A rate above 0.
pub fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate: &f64| *rate > 0.0 && rate.is_finite());
    rate.ok_or_else(|| "a number above 0".into())
}

fn positive(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|number| *number > 0).ok_or_else(|| format!("{text} is no number above 0"))
}

/// `MIN-MAX`, or one value for both.
fn range<T: PartialOrd + Copy>(text: &str, read: impl Fn(&str) -> Result<T, String>) -> Result<Bounds<T>, String> {
    let (least, most) = text.split_once('-').unwrap_or((text, text));
    let (least, most) = (read(least)?, read(most)?);
    if least <= most { Ok((least, most)) } else { Err("the second is less than the first".into()) }
}

/// Lengths of values, cut at [`DATA_LEN_MAX`].
pub fn data_range(text: &str) -> Result<Bounds<usize>, String> {
    range(text, |len| positive(len).map(|len| len.min(DATA_LEN_MAX)))
}

/// Times to live, of 1 ms at least.
pub fn ttl(text: &str) -> Result<Bounds<Duration>, String> {
    let bounds = range(text, time)?;
    if bounds.0.as_millis() > 0 { Ok(bounds) } else { Err("a time to live is at least 1ms".into()) }
}

/// Tests with their weights: `set=1,get=10`.
pub fn mix(text: &str) -> Result<Mix, String> {
    let part = |part: &str| {
        let (test, weight) = part.split_once('=').ok_or("each part is TEST=WEIGHT")?;
        let weight = u32::from_str(weight).ok().filter(|weight| *weight > 0).ok_or("a weight is a number above 0")?;
        Ok((test.to_ascii_lowercase(), weight))
    };
    text.split(',').map(part).collect()
}

/// Reads one value of a sweep.
type ReadValue = fn(&str) -> Result<SweptValue, String>;

/// What a sweep varies, and its values: `depth=1,2,4`.
pub fn sweep(text: &str) -> Result<Sweep, String> {
    let (what, values) = text.split_once('=').ok_or("WHAT=VALUE,VALUE,...")?;
    let (title, read): (&str, ReadValue) = match what {
        "depth" | "batch" => ("pipeline depth", |text| positive(text).map(SweptValue::Depth)),
        "window" => ("window", |text| positive(text).map(SweptValue::Window)),
        "clients" => ("connections", |text| positive(text).map(SweptValue::Clients)),
        "size" => ("value bytes", |text| positive(text).map(SweptValue::Size)),
        "rtt" => ("round trip ms", |text| time(text).map(SweptValue::Rtt)),
        "rate" => ("offered commands/s", |text| rate(text).map(SweptValue::Rate)),
        _ => return Err(format!("{what} is none of depth, window, clients, size, rtt, rate")),
    };
    let value = |text: &str| Ok::<_, String>((text.to_owned(), read(text)?));
    Ok(Sweep { title, values: values.split(',').map(value).collect::<Result<_, _>>()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(time("43ms"), Ok(Duration::from_millis(43)));
        assert_eq!(time("1.5"), Ok(Duration::from_millis(1500)));
        assert_eq!(time("0.5s"), Ok(Duration::from_millis(500)));
        assert_eq!(time("2min"), Ok(Duration::from_secs(120)));
        assert!(time("5x").is_err() && time("-1s").is_err() && time("").is_err() && time("-1").is_err());
    }
}
