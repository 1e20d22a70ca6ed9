//! Random numbers, and which keys of a key space a load draws.

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};
use rand_distr::{Distribution, Exp1, Normal, Zipf};

/// A fast generator of random numbers that a seed repeats.
#[derive(Clone, Debug)]
pub struct Random(SmallRng);

impl Random {
    /// From a seed.
    pub fn new(seed: u64) -> Random {
        Random(SmallRng::seed_from_u64(seed))
    }

    /// A number below `bound`, which is at least 1.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        // Its bias, at most `bound` in 2^64, is not worth a branch for each key.
        ((u128::from(self.0.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A number of a range with both ends.
    #[inline]
    pub fn within(&mut self, first: u64, last: u64) -> u64 {
        self.0.random_range(first..=last)
    }

    /// Random bytes, which no compression makes shorter.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill_bytes(bytes);
    }

    /// The gap to the next arrival of a Poisson process, as a multiple of its mean.
    pub fn gap(&mut self) -> f64 {
        Exp1.sample(&mut self.0)
    }
}

/// How keys are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum KeyPattern {
    /// All keys are equally likely.
    #[default]
    Uniform,
    /// Key 0 is the most likely, later keys less and less.
    Zipf { exponent: f64 },
    /// Around a key. Without numbers: around the middle, with a sixth of the key space as deviation.
    Gaussian { around: Option<(f64, f64)> },
    /// One after the other, over all connections, and again from 0.
    Sequential,
}

impl FromStr for KeyPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<KeyPattern, String> {
        let mut words = text.split(':');
        let name = words.next().unwrap_or_default();
        let numbers: Vec<f64> =
            words.map(|word| word.parse().map_err(|_| format!("{word} is not a number"))).collect::<Result<_, _>>()?;
        match (name, numbers.as_slice()) {
            ("uniform", []) => Ok(KeyPattern::Uniform),
            ("zipf", []) => Ok(KeyPattern::Zipf { exponent: 0.99 }),
            ("zipf", &[exponent]) if exponent > 0.0 && exponent.is_finite() => Ok(KeyPattern::Zipf { exponent }),
            ("gaussian", []) => Ok(KeyPattern::Gaussian { around: None }),
            ("gaussian", &[mean, deviation]) if mean >= 0.0 && deviation > 0.0 && (mean + deviation).is_finite() => {
                Ok(KeyPattern::Gaussian { around: Some((mean, deviation)) })
            }
            ("sequential", []) => Ok(KeyPattern::Sequential),
            _ => Err("one of uniform, zipf, zipf:EXPONENT, gaussian, gaussian:MEAN:DEVIATION, sequential".into()),
        }
    }
}

/// How keys are drawn, for all commands and for some of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KeyPatterns {
    all: Option<KeyPattern>,
    /// By the command's name in small letters.
    some: Vec<(String, KeyPattern)>,
}

impl KeyPatterns {
    /// That of a command, if any was named.
    pub fn named(&self, command: &[u8]) -> Option<KeyPattern> {
        let own = self.some.iter().rev().find(|(name, _)| name.as_bytes().eq_ignore_ascii_case(command));
        own.map(|(_, pattern)| *pattern).or(self.all)
    }

    /// That of a command.
    pub fn of(&self, command: &[u8]) -> KeyPattern {
        self.named(command).unwrap_or_default()
    }

    /// The commands that have one of their own.
    pub fn commands(&self) -> impl Iterator<Item = &str> {
        self.some.iter().map(|(name, _)| name.as_str())
    }
}

impl FromStr for KeyPatterns {
    type Err = String;

    /// Patterns with commas between them: `zipf`, or `set=sequential,get=zipf:1.1`.
    fn from_str(text: &str) -> Result<KeyPatterns, String> {
        let mut patterns = KeyPatterns::default();
        for part in text.split(',') {
            match part.split_once('=') {
                Some(("", _)) => return Err("a pattern needs the name of a command before its =".into()),
                Some((command, pattern)) => patterns.some.push((command.to_ascii_lowercase(), pattern.parse()?)),
                None => patterns.all = Some(part.parse()?),
            }
        }
        Ok(patterns)
    }
}

/// A key space and how keys of it are drawn.
#[derive(Clone, Debug)]
pub struct Keys {
    len: u64,
    draws: Draws,
}

#[derive(Clone, Debug)]
enum Draws {
    Uniform,
    Zipf(Zipf<f64>),
    Gaussian(Normal<f64>),
    Sequential(Arc<AtomicU64>),
}

/// How often a number outside of the key space is drawn again before the nearest key is taken.
const REDRAWS_MAX: usize = 100;

impl Keys {
    /// For a key space of `len` keys, at least 1.
    pub fn new(pattern: KeyPattern, len: u64) -> Keys {
        let len = len.max(1);
        let draws = match pattern {
            KeyPattern::Uniform => Draws::Uniform,
            KeyPattern::Zipf { exponent } => Zipf::new(len as f64, exponent).map_or(Draws::Uniform, Draws::Zipf),
            KeyPattern::Gaussian { around } => {
                let (mean, deviation) = around.unwrap_or((len as f64 / 2.0, len as f64 / 6.0));
                Normal::new(mean, deviation).map_or(Draws::Uniform, Draws::Gaussian)
            }
            KeyPattern::Sequential => Draws::Sequential(Arc::default()),
        };
        Keys { len, draws }
    }

    /// The length of the key space if all keys are equally likely.
    pub fn uniform_len(&self) -> Option<u64> {
        matches!(self.draws, Draws::Uniform).then_some(self.len)
    }

    /// The number of a key.
    #[inline]
    pub fn draw(&self, random: &mut Random) -> u64 {
        match &self.draws {
            Draws::Uniform => random.below(self.len),
            Draws::Zipf(zipf) => (zipf.sample(&mut random.0) as u64 - 1).min(self.len - 1),
            Draws::Gaussian(normal) => self.gaussian(normal, random),
            Draws::Sequential(next) => next.fetch_add(1, Relaxed) % self.len,
        }
    }

    fn gaussian(&self, normal: &Normal<f64>, random: &mut Random) -> u64 {
        let last = (self.len - 1) as f64;
        let mut drawn = normal.sample(&mut random.0);
        for _ in 0..REDRAWS_MAX {
            if (0.0..=last).contains(&drawn) {
                break;
            }
            drawn = normal.sample(&mut random.0);
        }
        drawn.clamp(0.0, last) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(pattern: &str, len: usize) -> Vec<usize> {
        let keys = Keys::new(pattern.parse().unwrap(), len as u64);
        let mut random = Random::new(1);
        let mut counts = vec![0; len];
        (0..100_000).for_each(|_| counts[keys.draw(&mut random) as usize] += 1);
        counts
    }

    #[test]
    fn commands_may_have_patterns_of_their_own() {
        let patterns: KeyPatterns = "zipf:2,SET=sequential,get=uniform".parse().unwrap();
        assert_eq!(patterns.of(b"set"), KeyPattern::Sequential);
        assert_eq!(
            (patterns.of(b"GET"), patterns.of(b"INCR")),
            (KeyPattern::Uniform, KeyPattern::Zipf { exponent: 2.0 })
        );
        assert_eq!(patterns.commands().collect::<Vec<_>>(), ["set", "get"]);
        for wrong in ["", "set=", "=zipf", "set=zip", "zipf,,"] {
            assert!(wrong.parse::<KeyPatterns>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn uniform_draws_all_keys_alike() {
        assert!(counts("uniform", 100).iter().all(|count| (850..1_150).contains(count)));
    }

    #[test]
    fn zipf_draws_the_first_keys_most() {
        let counts = counts("zipf:1", 1_000);
        // The first key's part is one over the harmonic number of 1,000, 7.485.
        assert!((13_000..13_700).contains(&counts[0]), "{}", counts[0]);
        assert!((6_300..7_000).contains(&counts[1]), "{}", counts[1]);
        assert!(counts[500..].iter().sum::<usize>() < 10_000);
    }

    #[test]
    fn gaussian_draws_around_its_mean() {
        let middle = counts("gaussian", 600);
        let within: usize = middle[200..400].iter().sum();
        // One deviation on each side holds 68 % of what three hold nearly all of.
        assert!((67_500..69_500).contains(&within), "{within}");
        assert!(counts("gaussian:50:5", 600)[30..70].iter().sum::<usize>() > 99_900);
    }

    #[test]
    fn sequential_draws_every_key_once_in_a_row() {
        assert!(counts("sequential", 1_000).iter().all(|&count| count == 100));
    }

    #[test]
    fn patterns_that_make_no_sense_are_refused() {
        for text in ["", "zip", "zipf:0", "zipf:x", "gaussian:1", "gaussian:1:0", "uniform:1", "sequential:2"] {
            assert!(text.parse::<KeyPattern>().is_err(), "{text}");
        }
    }
}
