//! Limits on replies that clients do not read, the value of `client-output-buffer-limit`.

use std::fmt;

use onrush_engine::formats::units::parse_memory;
use onrush_engine::messages::outbox::OutputLimit;

use super::words::{Reason, parse_integer, with_unit};

/// The bounds of each class of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputLimits {
    /// Clients that send commands.
    pub normal: OutputLimit,
    /// Replicas.
    pub replica: OutputLimit,
    /// Subscribers.
    pub pubsub: OutputLimit,
}

const fn limit(hard_bytes: u64, soft_bytes: u64, soft_seconds: u64) -> OutputLimit {
    OutputLimit { hard_bytes, soft_bytes, soft_seconds }
}

impl Default for OutputLimits {
    fn default() -> Self {
        Self { normal: limit(0, 0, 0), replica: limit(256 << 20, 64 << 20, 60), pubsub: limit(32 << 20, 8 << 20, 60) }
    }
}

impl OutputLimits {
    /// These limits with those of the classes in `words` (`class hard soft seconds …`) in their place.
    ///
    /// # Errors
    /// A group is not complete, a class is unknown, or a number cannot be read.
    pub fn parse_over(&self, words: &[Vec<u8>]) -> Result<Self, Reason> {
        let (groups, rest) = words.as_chunks::<4>();
        if !rest.is_empty() {
            return Err("Wrong number of arguments in buffer limit configuration.".into());
        }
        let mut limits = *self;
        for [class, hard, soft, seconds] in groups {
            let place =
                limits.class_mut(class).ok_or("Invalid client class specified in buffer limit configuration.")?;
            let parsed = parse_memory(hard).zip(parse_memory(soft)).zip(parse_integer(seconds));
            *place = match parsed {
                Some(((hard, soft), seconds @ 0..)) => limit(hard, soft, seconds as u64),
                _ => return Err("Error in hard, soft or soft_seconds setting in buffer limit configuration.".into()),
            };
        }
        Ok(limits)
    }

    fn class_mut(&mut self, name: &[u8]) -> Option<&mut OutputLimit> {
        match name.to_ascii_lowercase().as_slice() {
            b"normal" => Some(&mut self.normal),
            b"replica" | b"slave" => Some(&mut self.replica),
            b"pubsub" => Some(&mut self.pubsub),
            _ => None,
        }
    }

    /// The limits as words of a line.
    pub fn to_line(&self) -> String {
        let class = |name, limit: &OutputLimit| {
            format!("{name} {} {} {}", with_unit(limit.hard_bytes), with_unit(limit.soft_bytes), limit.soft_seconds)
        };
        [class("normal", &self.normal), class("replica", &self.replica), class("pubsub", &self.pubsub)].join(" ")
    }
}

/// As CONFIG GET returns it, which calls replicas by their old name.
impl fmt::Display for OutputLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, limit) in [("normal", self.normal), (" slave", self.replica), (" pubsub", self.pubsub)] {
            write!(f, "{name} {} {} {}", limit.hard_bytes, limit.soft_bytes, limit.soft_seconds)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<String, String> {
        let words: Vec<_> = text.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        match OutputLimits::default().parse_over(&words) {
            Ok(limits) => Ok(limits.to_string()),
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
