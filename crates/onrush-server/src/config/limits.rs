//! Limits on replies that clients do not read, the value of `client-output-buffer-limit`.

use onrush_engine::formats::units::parse_memory;
use onrush_engine::messages::outbox::OutputLimit;
use onrush_engine::settings::OutputLimits;
use onrush_resp::parse_i64;

use super::words::{Reason, with_unit};

const fn limit(hard_bytes: u64, soft_bytes: u64, soft_seconds: u64) -> OutputLimit {
    OutputLimit { hard_bytes, soft_bytes, soft_seconds }
}

/// These limits with those of the classes in `words` (`class hard soft seconds …`) in their place.
///
/// # Errors
/// A group is not complete, a class is unknown, or a number cannot be read.
pub(super) fn parse_over(mut limits: OutputLimits, words: &[Vec<u8>]) -> Result<OutputLimits, Reason> {
    let (groups, rest) = words.as_chunks::<4>();
    if !rest.is_empty() {
        return Err("Wrong number of arguments in buffer limit configuration.".into());
    }
    for [class, hard, soft, seconds] in groups {
        let place = match class.to_ascii_lowercase().as_slice() {
            b"normal" => &mut limits.normal,
            b"replica" | b"slave" => &mut limits.replica,
            b"pubsub" => &mut limits.pubsub,
            _ => return Err("Invalid client class specified in buffer limit configuration.".into()),
        };
        let parsed = parse_memory(hard).zip(parse_memory(soft)).zip(parse_i64(seconds));
        *place = match parsed {
            Some(((hard, soft), seconds @ 0..)) => limit(hard, soft, seconds as u64),
            _ => return Err("Error in hard, soft or soft_seconds setting in buffer limit configuration.".into()),
        };
    }
    Ok(limits)
}

/// The limits as words of a line.
pub(super) fn to_line(limits: &OutputLimits) -> String {
    let class = |name, limit: &OutputLimit| {
        format!("{name} {} {} {}", with_unit(limit.hard_bytes), with_unit(limit.soft_bytes), limit.soft_seconds)
    };
    [class("normal", &limits.normal), class("replica", &limits.replica), class("pubsub", &limits.pubsub)].join(" ")
}

/// As CONFIG GET returns it, which calls replicas by their old name.
pub(super) fn shown(limits: &OutputLimits) -> String {
    let class =
        |name, limit: &OutputLimit| format!("{name} {} {} {}", limit.hard_bytes, limit.soft_bytes, limit.soft_seconds);
    [class("normal", &limits.normal), class("slave", &limits.replica), class("pubsub", &limits.pubsub)].join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<String, String> {
        let words: Vec<_> = text.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        match parse_over(OutputLimits::default(), &words) {
            Ok(limits) => Ok(shown(&limits)),
            Err(reason) => Err(reason.into_owned()),
        }
    }

    #[test]
    fn classes_not_named_keep_their_limits() {
        assert_eq!(parse("SLAVE 1mb 2 3").unwrap(), "normal 0 0 0 slave 1048576 2 3 pubsub 33554432 8388608 60");
        assert_eq!(parse("replica 1 2 3 pubsub 3 4 5 normal 7 8 9").unwrap(), "normal 7 8 9 slave 1 2 3 pubsub 3 4 5");
    }

    #[test]
    fn mistakes_are_told_apart() {
        assert!(parse("normal 0 0").unwrap_err().starts_with("Wrong number of arguments"));
        assert!(parse("master 0 0 0").unwrap_err().starts_with("Invalid client class"));
        for wrong in ["normal a 0 0", "normal -1 0 0", "normal 0 0 -1", "normal 0 0 1k"] {
            assert!(parse(wrong).unwrap_err().starts_with("Error in hard, soft"), "{wrong}");
        }
    }
}
