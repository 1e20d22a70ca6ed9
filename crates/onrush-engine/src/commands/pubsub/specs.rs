//! Rows of the command table: pub/sub.

use crate::command::spec::{Channels, Group, KeySpec, Spec};
use crate::commands::pubsub;
use crate::messages::kind::Kind;

/// The flags of a command that changes what the connection hears.
const SUBSCRIBER: &str = "pubsub noscript loading stale";

/// The flags of a command that sends messages.
const PUBLISHER: &str = "pubsub loading stale fast may_replicate short";

/// The commands of pub/sub.
pub(crate) static SPECS: &[Spec] = &[
    Spec::pubsub("subscribe", "2.0.0", -2, SUBSCRIBER, |ctx| pubsub::subscribe(ctx, Kind::Channel))
        .channels(Channels::All)
        .syntax("channel [channel ...]")
        .summary("Subscribes the connection to channels.")
        .complexity("O(N log M), N the number of channels, M that of a channel's subscribers"),
    Spec::pubsub("unsubscribe", "2.0.0", -1, SUBSCRIBER, |ctx| pubsub::unsubscribe(ctx, Kind::Channel))
        .syntax("[channel [channel ...]]")
        .summary("Ends the connection's subscriptions to channels, to all if none is named.")
        .complexity("O(N log M), N the number of channels, M that of a channel's subscribers"),
    Spec::pubsub("psubscribe", "2.0.0", -2, SUBSCRIBER, |ctx| pubsub::subscribe(ctx, Kind::Pattern))
        .channels(Channels::Patterns)
        .syntax("pattern [pattern ...]")
        .summary("Subscribes the connection to all channels whose names match patterns.")
        .complexity("O(N log M), N the number of patterns, M that of a pattern's subscribers"),
    Spec::pubsub("punsubscribe", "2.0.0", -1, SUBSCRIBER, |ctx| pubsub::unsubscribe(ctx, Kind::Pattern))
        .syntax("[pattern [pattern ...]]")
        .summary("Ends the connection's subscriptions to patterns, to all if none is named.")
        .complexity("O(N log M), N the number of patterns, M that of a pattern's subscribers"),
    Spec::pubsub("ssubscribe", "7.0.0", -2, SUBSCRIBER, pubsub::ssubscribe)
        .channels(Channels::All)
        .syntax("shardchannel [shardchannel ...]")
        .summary("Subscribes the connection to shard channels.")
        .complexity("O(N log M), N the number of channels, M that of a channel's subscribers")
        .keys(&[KeySpec::keys("not_key", 1, -1, 1)]),
    Spec::pubsub("sunsubscribe", "7.0.0", -1, SUBSCRIBER, |ctx| pubsub::unsubscribe(ctx, Kind::Shard))
        .syntax("[shardchannel [shardchannel ...]]")
        .summary("Ends the connection's subscriptions to shard channels, to all if none is named.")
        .complexity("O(N log M), N the number of channels, M that of a channel's subscribers")
        .keys(&[KeySpec::keys("not_key", 1, -1, 1)]),
    Spec::pubsub("publish", "2.0.0", 3, PUBLISHER, |ctx| pubsub::publish(ctx, Kind::Channel))
        .channels(Channels::First)
        .syntax("channel message")
        .summary("Sends a message to the subscribers of a channel.")
        .complexity("O(N+M), N the number of the channel's subscribers, M that of all patterns"),
    Spec::pubsub("spublish", "7.0.0", 3, PUBLISHER, |ctx| pubsub::publish(ctx, Kind::Shard))
        .channels(Channels::First)
        .syntax("shardchannel message")
        .summary("Sends a message to the subscribers of a shard channel.")
        .complexity("O(N), N the number of the channel's subscribers")
        .key("not_key"),
    Spec::container(Group::Pubsub, "pubsub", "2.8.0", PUBSUB).summary("Container of commands about subscriptions."),
];

static PUBSUB: &[Spec] = &[
    Spec::pubsub("channels", "2.8.0", -2, "pubsub loading stale", |ctx| pubsub::list(ctx, Kind::Channel))
        .syntax("[pattern]")
        .summary("Returns the channels that have subscribers, of those that match a pattern.")
        .complexity("O(N), N the number of channels"),
    Spec::pubsub("numsub", "2.8.0", -2, "pubsub loading stale", |ctx| pubsub::count(ctx, Kind::Channel))
        .syntax("[channel [channel ...]]")
        .summary("Returns how many have subscribed to each channel by its name.")
        .complexity("O(N), N the number of channels asked for"),
    Spec::pubsub("numpat", "2.8.0", 2, "pubsub loading stale", pubsub::pubsub_numpat)
        .summary("Returns how many different patterns have subscribers."),
    Spec::pubsub("shardchannels", "7.0.0", -2, "pubsub loading stale", |ctx| pubsub::list(ctx, Kind::Shard))
        .syntax("[pattern]")
        .summary("Returns the shard channels that have subscribers, of those that match a pattern.")
        .complexity("O(N), N the number of shard channels"),
    Spec::pubsub("shardnumsub", "7.0.0", -2, "pubsub loading stale", |ctx| pubsub::count(ctx, Kind::Shard))
        .syntax("[shardchannel [shardchannel ...]]")
        .summary("Returns how many have subscribed to each shard channel.")
        .complexity("O(N), N the number of shard channels asked for"),
    Spec::help(Group::Pubsub, "6.2.0"),
];
