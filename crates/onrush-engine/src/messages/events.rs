//! Classes of keyspace events, the value of `notify-keyspace-events`.

use std::fmt::{self, Write};

use crate::command::words::named_flags;

named_flags! {
    /// Which keyspace events are published, and where.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct EventClasses: u32, named in LETTERS {
        /// `g`: commands for keys of any type, such as DEL and EXPIRE.
        GENERIC = 0, "g";
        /// `$`: commands on strings.
        STRING = 1, "$";
        /// `l`: commands on lists.
        LIST = 2, "l";
        /// `s`: commands on sets.
        SET = 3, "s";
        /// `h`: commands on hashes.
        HASH = 4, "h";
        /// `z`: commands on sorted sets.
        ZSET = 5, "z";
        /// `x`: keys that expired.
        EXPIRED = 6, "x";
        /// `e`: keys evicted for `maxmemory`.
        EVICTED = 7, "e";
        /// `t`: commands on streams.
        STREAM = 8, "t";
        /// `d`: commands of modules.
        MODULE = 9, "d";
        /// `n`: new keys.
        NEW = 10, "n";
        /// `K`: publish to the channel of the key.
        KEYSPACE = 11, "K";
        /// `E`: publish to the channel of the event.
        KEYEVENT = 12, "E";
        /// `m`: look-ups of missing keys.
        KEY_MISS = 13, "m";
    }
}

impl EventClasses {
    /// `A`: what `g$lshzxetd` names.
    pub const ALL: Self = Self::from_bits_retain((1 << 10) - 1);

    /// Reads a string of class letters.
    ///
    /// # Errors
    /// A letter that names no class: the text for the user.
    pub fn parse(letters: &[u8]) -> Result<Self, &'static str> {
        letters.iter().try_fold(Self::empty(), |classes, letter| match letter {
            b'A' => Ok(classes | Self::ALL),
            _ => match LETTERS.iter().find(|(_, known)| known.as_bytes() == [*letter]) {
                Some((class, _)) => Ok(classes | *class),
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
        for (class, letter) in LETTERS {
            if self.contains(*class) && !(all && Self::ALL.contains(*class)) {
                f.write_str(letter)?;
            }
        }
        Ok(())
    }
}

/// The class of one event, by the letter that `notify-keyspace-events` has for it. New keys (`n`) are told by the commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum EventClass {
    /// `g`: commands that are not about one type.
    Generic = EventClasses::GENERIC.bits(),
    /// `$`: strings.
    String = EventClasses::STRING.bits(),
    /// `l`: lists.
    List = EventClasses::LIST.bits(),
    /// `s`: sets.
    Set = EventClasses::SET.bits(),
    /// `h`: hashes.
    Hash = EventClasses::HASH.bits(),
    /// `z`: sorted sets.
    SortedSet = EventClasses::ZSET.bits(),
    /// `t`: streams.
    Stream = EventClasses::STREAM.bits(),
    /// `x`: expiry.
    Expired = EventClasses::EXPIRED.bits(),
    /// `e`: eviction.
    Evicted = EventClasses::EVICTED.bits(),
    /// `m`: look-ups of missing keys.
    KeyMiss = EventClasses::KEY_MISS.bits(),
}

impl EventClass {
    /// The class as a flag of `notify-keyspace-events`.
    pub(crate) const fn flag(self) -> EventClasses {
        EventClasses::from_bits_retain(self as u32)
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
