//! From a name to a command's number: one hash, usually one comparison, no allocation.

use super::table::Command;

/// Number of a command in its table: dense, from 0, containers and subcommands included.
pub(crate) type CommandId = u16;

/// Parent of commands that are no subcommands.
pub(super) const NO_PARENT: CommandId = CommandId::MAX;
/// Not a command's number.
pub(super) const NO_ID: CommandId = CommandId::MAX;

/// Open addressing over packed names. The slot alone identifies a name of up to 16 bytes; a longer name is compared in
/// full.
pub(super) struct NameIndex {
    slots: Box<[Slot]>,
    multiplier: u64,
    shift: u32,
}

#[derive(Clone, Copy)]
struct Slot {
    name: PackedName,
    parent: CommandId,
    id: CommandId,
}

const VACANT: Slot = Slot { name: PackedName { head: 0, tail: 0, len: 0 }, parent: NO_PARENT, id: NO_ID };

/// A name's first and last eight bytes in lower case, and its length.
#[derive(Clone, Copy, PartialEq, Eq)]
struct PackedName {
    head: u64,
    tail: u64,
    len: u32,
}

/// The longest name that is packed without loss.
const PACKED_LEN_MAX: usize = 16;

impl PackedName {
    #[inline]
    fn new(name: &[u8]) -> Self {
        let (head, tail) = if let (Some(head), Some(tail)) = (name.first_chunk::<8>(), name.last_chunk::<8>()) {
            (u64::from_le_bytes(*head), u64::from_le_bytes(*tail))
        } else if let (Some(head), Some(tail)) = (name.first_chunk::<4>(), name.last_chunk::<4>()) {
            (u32::from_le_bytes(*head).into(), u32::from_le_bytes(*tail).into())
        } else if let [first, .., last] = name {
            (u64::from(*first) | u64::from(name[name.len() / 2]) << 8, (*last).into())
        } else {
            (name.first().map_or(0, |&byte| byte.into()), 0)
        };
        // A length over 32 bits is cut, but then the full comparison follows.
        Self { head: lower_case(head), tail: lower_case(tail), len: name.len() as u32 }
    }

    #[inline]
    fn hash(&self, parent: CommandId, multiplier: u64) -> u64 {
        (self.head ^ self.tail.rotate_left(29) ^ u64::from(parent).rotate_left(47)).wrapping_mul(multiplier)
    }
}

/// Eight bytes with ASCII letters in lower case and all others as they are.
#[inline]
fn lower_case(bytes: u64) -> u64 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x80 * EACH;
    let low = bytes & !HIGH;
    // The high bit of each byte is set if the byte is at least 'A', or above 'Z'.
    let from_a = low + (0x80 - b'A' as u64) * EACH;
    let above_z = low + (0x7f - b'Z' as u64) * EACH;
    bytes | ((from_a & !above_z & !bytes & HIGH) >> 2)
}

impl NameIndex {
    /// Multipliers to choose from.
    const ATTEMPTS: u64 = 64;

    /// The index of all of `commands`.
    ///
    /// # Panics
    /// On two of one name.
    pub(super) fn new(commands: &[Command]) -> Self {
        let slot_count = (commands.len() * 2).next_power_of_two().max(2);
        let attempt = |number: u64| Self {
            slots: vec![VACANT; slot_count].into(),
            multiplier: (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            shift: 64 - slot_count.trailing_zeros(),
        };
        (0..Self::ATTEMPTS)
            .map(|number| {
                let mut index = attempt(number);
                let steps: usize = commands.iter().map(|command| index.insert(commands, command)).sum();
                (steps, index)
            })
            .min_by_key(|(steps, _)| *steps)
            .map(|(_, index)| index)
            .expect("at least one attempt")
    }

    /// Returns the distance of its slot from the first choice.
    fn insert(&mut self, commands: &[Command], command: &Command) -> usize {
        let parent = command.parent.unwrap_or(NO_PARENT);
        let Some(name) = command.name.as_deref() else { return 0 };
        assert!(
            self.find(commands, name, parent).is_none(),
            "two commands are named {}",
            String::from_utf8_lossy(name)
        );
        let packed = PackedName::new(name);
        let mut at = self.first_slot(&packed, parent);
        let mut steps = 0;
        while self.slots[at].id != NO_ID {
            at = (at + 1) & (self.slots.len() - 1);
            steps += 1;
        }
        self.slots[at] = Slot { name: packed, parent, id: command.id };
        steps
    }

    #[inline]
    fn first_slot(&self, name: &PackedName, parent: CommandId) -> usize {
        (name.hash(parent, self.multiplier) >> self.shift) as usize
    }

    /// The number of the command called `name`, in any case, inside container `parent` or [`NO_PARENT`].
    #[inline]
    pub(super) fn find(&self, commands: &[Command], name: &[u8], parent: CommandId) -> Option<CommandId> {
        let packed = PackedName::new(name);
        let mut at = self.first_slot(&packed, parent);
        loop {
            let slot = &self.slots[at & (self.slots.len() - 1)];
            if slot.id == NO_ID {
                return None;
            }
            if slot.name == packed
                && slot.parent == parent
                && (name.len() <= PACKED_LEN_MAX
                    || commands[slot.id as usize].name.as_ref().is_some_and(|own| own.eq_ignore_ascii_case(name)))
            {
                return Some(slot.id);
            }
            at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn lower_case_is_that_of_ascii(bytes: [u8; 8]) {
            let expected = bytes.map(|byte| byte.to_ascii_lowercase());
            prop_assert_eq!(lower_case(u64::from_le_bytes(bytes)).to_le_bytes(), expected);
        }

        #[test]
        fn packing_loses_nothing_up_to_16_bytes(a in "[a-d]{0,18}", b in "[a-d]{0,18}") {
            if a.len() <= PACKED_LEN_MAX {
                prop_assert_eq!(PackedName::new(a.as_bytes()) == PackedName::new(b.as_bytes()), a == b);
            }
        }
    }
}
