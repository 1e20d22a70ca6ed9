//! Rows of the command table: pub/sub.

use crate::command::spec::{Group, KeySpec, Spec, flags};

/// The commands of pub/sub.
pub static SPECS: &[Spec] = &[
    Spec {
        name: "subscribe",
        arity: -2,
        flags: flags("pubsub noscript loading stale"),
        group: Group::Pubsub,
        since: "2.0.0",
        complexity: "O(N log M), N the number of channels, M that of a channel's subscribers",
        summary: "Subscribes the connection to channels.",
        syntax: "channel [channel ...]",
        handler: crate::commands::pubsub::subscribe,
        ..Spec::DEFAULT
    },
    Spec {
        name: "unsubscribe",
        arity: -1,
        flags: flags("pubsub noscript loading stale"),
        group: Group::Pubsub,
        since: "2.0.0",
        complexity: "O(N log M), N the number of channels, M that of a channel's subscribers",
        summary: "Ends the connection's subscriptions to channels, to all if none is named.",
        syntax: "[channel [channel ...]]",
        handler: crate::commands::pubsub::unsubscribe,
        ..Spec::DEFAULT
    },
    Spec {
        name: "psubscribe",
        arity: -2,
        flags: flags("pubsub noscript loading stale"),
        group: Group::Pubsub,
        since: "2.0.0",
        complexity: "O(N log M), N the number of patterns, M that of a pattern's subscribers",
        summary: "Subscribes the connection to all channels whose names match patterns.",
        syntax: "pattern [pattern ...]",
        handler: crate::commands::pubsub::psubscribe,
        ..Spec::DEFAULT
    },
    Spec {
        name: "punsubscribe",
        arity: -1,
        flags: flags("pubsub noscript loading stale"),
        group: Group::Pubsub,
        since: "2.0.0",
        complexity: "O(N log M), N the number of patterns, M that of a pattern's subscribers",
        summary: "Ends the connection's subscriptions to patterns, to all if none is named.",
        syntax: "[pattern [pattern ...]]",
        handler: crate::commands::pubsub::punsubscribe,
        ..Spec::DEFAULT
    },
    Spec {
        name: "ssubscribe",
        arity: -2,
        flags: flags("pubsub noscript loading stale"),
        keys: &[KeySpec::keys("not_key", 1, -1, 1)],
        group: Group::Pubsub,
        since: "7.0.0",
        complexity: "O(N log M), N the number of channels, M that of a channel's subscribers",
        summary: "Subscribes the connection to shard channels.",
        syntax: "shardchannel [shardchannel ...]",
        handler: crate::commands::pubsub::ssubscribe,
        ..Spec::DEFAULT
    },
    Spec {
        name: "sunsubscribe",
        arity: -1,
        flags: flags("pubsub noscript loading stale"),
        keys: &[KeySpec::keys("not_key", 1, -1, 1)],
        group: Group::Pubsub,
        since: "7.0.0",
        complexity: "O(N log M), N the number of channels, M that of a channel's subscribers",
        summary: "Ends the connection's subscriptions to shard channels, to all if none is named.",
        syntax: "[shardchannel [shardchannel ...]]",
        handler: crate::commands::pubsub::sunsubscribe,
        ..Spec::DEFAULT
    },
    Spec {
        name: "publish",
        arity: 3,
        flags: flags("pubsub loading stale fast may_replicate short"),
        group: Group::Pubsub,
        since: "2.0.0",
        complexity: "O(N+M), N the number of the channel's subscribers, M that of all patterns",
        summary: "Sends a message to the subscribers of a channel.",
        syntax: "channel message",
        handler: crate::commands::pubsub::publish,
        ..Spec::DEFAULT
    },
    Spec {
        name: "spublish",
        arity: 3,
        flags: flags("pubsub loading stale fast may_replicate short"),
        keys: &[KeySpec::key("not_key")],
        group: Group::Pubsub,
        since: "7.0.0",
        complexity: "O(N), N the number of the channel's subscribers",
        summary: "Sends a message to the subscribers of a shard channel.",
        syntax: "shardchannel message",
        handler: crate::commands::pubsub::spublish,
        ..Spec::DEFAULT
    },
    Spec {
        name: "pubsub",
        arity: -2,
        group: Group::Pubsub,
        since: "2.8.0",
        complexity: "Depends on the subcommand",
        summary: "Container of commands about subscriptions.",
        subcommands: &[
            Spec {
                name: "channels",
                arity: -2,
                flags: flags("pubsub loading stale"),
                group: Group::Pubsub,
                since: "2.8.0",
                complexity: "O(N), N the number of channels",
                summary: "Returns the channels that have subscribers, of those that match a pattern.",
                syntax: "[pattern]",
                handler: crate::commands::pubsub::pubsub_channels,
                ..Spec::DEFAULT
            },
            Spec {
                name: "numsub",
                arity: -2,
                flags: flags("pubsub loading stale"),
                group: Group::Pubsub,
                since: "2.8.0",
                complexity: "O(N), N the number of channels asked for",
                summary: "Returns how many have subscribed to each channel by its name.",
                syntax: "[channel [channel ...]]",
                handler: crate::commands::pubsub::pubsub_numsub,
                ..Spec::DEFAULT
            },
            Spec {
                name: "numpat",
                arity: 2,
                flags: flags("pubsub loading stale"),
                group: Group::Pubsub,
                since: "2.8.0",
                summary: "Returns how many different patterns have subscribers.",
                handler: crate::commands::pubsub::pubsub_numpat,
                ..Spec::DEFAULT
            },
            Spec {
                name: "shardchannels",
                arity: -2,
                flags: flags("pubsub loading stale"),
                group: Group::Pubsub,
                since: "7.0.0",
                complexity: "O(N), N the number of shard channels",
                summary: "Returns the shard channels that have subscribers, of those that match a pattern.",
                syntax: "[pattern]",
                handler: crate::commands::pubsub::pubsub_shardchannels,
                ..Spec::DEFAULT
            },
            Spec {
                name: "shardnumsub",
                arity: -2,
                flags: flags("pubsub loading stale"),
                group: Group::Pubsub,
                since: "7.0.0",
                complexity: "O(N), N the number of shard channels asked for",
                summary: "Returns how many have subscribed to each shard channel.",
                syntax: "[shardchannel [shardchannel ...]]",
                handler: crate::commands::pubsub::pubsub_shardnumsub,
                ..Spec::DEFAULT
            },
            Spec {
                name: "help",
                arity: 2,
                flags: flags("loading stale"),
                group: Group::Pubsub,
                since: "6.2.0",
                summary: "Returns help on the subcommands.",
                handler: crate::commands::pubsub::pubsub_help,
                ..Spec::DEFAULT
            },
        ],
        ..Spec::DEFAULT
    },
];
