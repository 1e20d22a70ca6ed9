//! Classes of keyspace events, the value of `notify-keyspace-events`.

use std::fmt::{self, Write};

use bitflags::bitflags;

bitflags! {
    /// Which keyspace events are published, and where.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct EventClasses: u32 {
        /// `g`: commands for keys of any type, such as DEL and EXPIRE.
        const GENERIC = 1;
        /// `$`: commands on strings.
        const STRING = 1 << 1;
        /// `l`: commands on lists.
        const LIST = 1 << 2;
        /// `s`: commands on sets.
        const SET = 1 << 3;
        /// `h`: commands on hashes.
        const HASH = 1 << 4;
        /// `z`: commands on sorted sets.
        const ZSET = 1 << 5;
        /// `x`: keys that expired.
        const EXPIRED = 1 << 6;
        /// `e`: keys evicted for `maxmemory`.
        const EVICTED = 1 << 7;
        /// `t`: commands on streams.
        const STREAM = 1 << 8;
        /// `d`: commands of modules.
        const MODULE = 1 << 9;
        /// `n`: new keys.
        const NEW = 1 << 10;
        /// `K`: publish to the channel of the key.
        const KEYSPACE = 1 << 11;
        /// `E`: publish to the channel of the event.
        const KEYEVENT = 1 << 12;
        /// `m`: look-ups of missing keys.
        const KEY_MISS = 1 << 13;
        /// `A`: what `g$lshzxetd` names.
        const ALL = (1 << 10) - 1;
    }
}

/// Letters in the order in which they are written.
const LETTERS: [(char, EventClasses); 14] = [
    ('g', EventClasses::GENERIC),
    ('$', EventClasses::STRING),
    ('l', EventClasses::LIST),
    ('s', EventClasses::SET),
    ('h', EventClasses::HASH),
    ('z', EventClasses::ZSET),
    ('x', EventClasses::EXPIRED),
    ('e', EventClasses::EVICTED),
    ('t', EventClasses::STREAM),
    ('d', EventClasses::MODULE),
    ('n', EventClasses::NEW),
    ('K', EventClasses::KEYSPACE),
    ('E', EventClasses::KEYEVENT),
    ('m', EventClasses::KEY_MISS),
];

impl EventClasses {
    /// Reads a string of class letters.
    ///
    /// # Errors
    /// A letter that names no class: the text for the user.
    pub fn parse(letters: &[u8]) -> Result<Self, &'static str> {
        letters.iter().try_fold(Self::empty(), |classes, &letter| match letter {
            b'A' => Ok(classes | Self::ALL),
            _ => match LETTERS.iter().find(|(known, _)| *known == letter as char) {
                Some((_, class)) => Ok(classes | *class),
                None => Err("Invalid event class character. Use 'Ag$lshzxeKEtmdn'."),
            },
        })
    }

    /// Whether any event is published: at least one class and one channel.
    pub fn publishes(self) -> bool {
        self.intersects(Self::KEYSPACE | Self::KEYEVENT)
    }
}

impl fmt::Display for EventClasses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.contains(Self::ALL);
        if all {
            f.write_char('A')?;
        }
        for (letter, class) in LETTERS {
            if self.contains(class) && !(all && Self::ALL.contains(class)) {
                f.write_char(letter)?;
            }
        }
        Ok(())
    }
}

/// The class of one event, by the letter that `notify-keyspace-events` has for it. New keys (`n`) are told by the commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventClass {
    /// `g`: commands that are not about one type.
    Generic,
    /// `$`: strings.
    String,
    /// `l`: lists.
    List,
    /// `s`: sets.
    Set,
    /// `h`: hashes.
    Hash,
    /// `z`: sorted sets.
    SortedSet,
    /// `t`: streams.
    Stream,
    /// `x`: expiry.
    Expired,
    /// `e`: eviction.
    Evicted,
    /// `m`: look-ups of missing keys.
    KeyMiss,
}

impl EventClass {
    /// The class as a flag of `notify-keyspace-events`.
    pub(crate) const fn flag(self) -> EventClasses {
        match self {
            Self::Generic => EventClasses::GENERIC,
            Self::String => EventClasses::STRING,
            Self::List => EventClasses::LIST,
            Self::Set => EventClasses::SET,
            Self::Hash => EventClasses::HASH,
            Self::SortedSet => EventClasses::ZSET,
            Self::Stream => EventClasses::STREAM,
            Self::Expired => EventClasses::EXPIRED,
            Self::Evicted => EventClasses::EVICTED,
            Self::KeyMiss => EventClasses::KEY_MISS,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_written_in_one_order() {
        for (letters, written) in [
            ("", ""),
            ("KEA", "AKE"),
            ("KEg$lshzxetd", "AKE"),
            ("KEg$lshzxet", "g$lshzxetKE"),
            ("Kg", "gK"),
            ("mn", "nm"),
            ("zzz", "z"),
            ("KEAm", "AKEm"),
        ] {
            assert_eq!(EventClasses::parse(letters.as_bytes()).unwrap().to_string(), written);
        }
    }

    #[test]
    fn unknown_letters_are_refused() {
        let reason = EventClasses::parse(b"KQ").unwrap_err();
        assert_eq!(reason, "Invalid event class character. Use 'Ag$lshzxeKEtmdn'.");
    }

    #[test]
    fn nothing_is_published_without_a_channel() {
        assert!(!EventClasses::ALL.publishes());
        assert!(EventClasses::parse(b"Eg").unwrap().publishes());
    }
}
