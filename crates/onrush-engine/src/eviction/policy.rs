//! What is evicted, and in which order.

use onrush_store::Among;

/// `maxmemory-policy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Nothing: commands that use memory are refused.
    NoEviction,
    /// These keys, in this order.
    Evicts(Among, Order),
}

/// Which keys go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Least recently used; under an LRM policy least recently modified, because reads do not touch the clock then.
    Lru,
    /// Least frequently used; of equal ones the one unused for longer.
    Lfu,
    /// Those that expire soonest.
    Ttl,
    /// Any.
    Random,
}

impl Order {
    /// Looks per evicted entry and per unit of `maxmemory-samples`.
    pub(super) fn looks_per_sample(self) -> usize {
        match self {
            // The share of entries that rank high is also the room in which new entries can be used a second time: with
            // much less, a cache whose keys change keeps its old keys.
            Self::Lfu => 1,
            // Within a thousandth of exact LRU's hit rate.
            Self::Lru | Self::Ttl | Self::Random => 4,
        }
    }
}

impl Policy {
    /// The policy with that name in the configuration.
    pub fn named(name: &str) -> Self {
        let Some((among, order)) = name.split_once('-') else { return Self::NoEviction };
        let among = if among == "volatile" { Among::Volatile } else { Among::All };
        let order = match order {
            "lfu" => Order::Lfu,
            "ttl" => Order::Ttl,
            "random" => Order::Random,
            _ => Order::Lru,
        };
        Self::Evicts(among, order)
    }

    /// Whether it uses the access clock of entries.
    pub(crate) fn reads_clock(self) -> bool {
        matches!(self, Self::Evicts(_, Order::Lru | Order::Lfu))
    }

    pub(super) fn number(self) -> u8 {
        match self {
            Self::NoEviction => 0,
            Self::Evicts(among, order) => 1 + order as u8 * 2 + u8::from(among == Among::Volatile),
        }
    }

    pub(super) fn from_number(number: u8) -> Self {
        let Some(number) = number.checked_sub(1) else { return Self::NoEviction };
        let among = if number % 2 == 1 { Among::Volatile } else { Among::All };
        let order = [Order::Lru, Order::Lfu, Order::Ttl, Order::Random][number as usize / 2];
        Self::Evicts(among, order)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_is_known_by_its_name_and_its_number() {
        let all = [
            ("noeviction", Policy::NoEviction),
            ("allkeys-lru", Policy::Evicts(Among::All, Order::Lru)),
            ("volatile-lru", Policy::Evicts(Among::Volatile, Order::Lru)),
            ("allkeys-lrm", Policy::Evicts(Among::All, Order::Lru)),
            ("volatile-lfu", Policy::Evicts(Among::Volatile, Order::Lfu)),
            ("volatile-ttl", Policy::Evicts(Among::Volatile, Order::Ttl)),
            ("allkeys-random", Policy::Evicts(Among::All, Order::Random)),
        ];
        for (name, policy) in all {
            assert_eq!(Policy::named(name), policy);
            assert_eq!(Policy::from_number(policy.number()), policy);
        }
    }
}
