//! What can be subscribed to.

/// What a client subscribes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A channel by its name.
    Channel,
    /// All channels whose names match a pattern.
    Pattern,
    /// A shard channel by its name.
    Shard,
}

impl Kind {
    /// The first word of a subscription's confirmation.
    pub(crate) fn subscribed(self) -> &'static str {
        match self {
            Self::Channel => "subscribe",
            Self::Pattern => "psubscribe",
            Self::Shard => "ssubscribe",
        }
    }

    /// The first word of the confirmation that a subscription has ended.
    pub(crate) fn unsubscribed(self) -> &'static str {
        match self {
            Self::Channel => "unsubscribe",
            Self::Pattern => "punsubscribe",
            Self::Shard => "sunsubscribe",
        }
    }

    /// The first word of a message.
    pub(super) fn message(self) -> &'static str {
        match self {
            Self::Channel => "message",
            Self::Pattern => "pmessage",
            Self::Shard => "smessage",
        }
    }
}
