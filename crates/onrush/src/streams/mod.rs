//! Options and replies of the commands on streams.

mod options;
mod replies;

pub use options::{
    StreamAddOptions, StreamAutoClaimOptions, StreamClaimOptions, StreamMaxlen, StreamReadOptions, StreamTrimOptions,
    StreamTrimStrategy,
};
pub use replies::{
    StreamAutoClaimReply, StreamClaimReply, StreamId, StreamInfoConsumer, StreamInfoConsumersReply, StreamInfoGroup,
    StreamInfoGroupsReply, StreamInfoStreamReply, StreamKey, StreamPendingConsumer, StreamPendingCountReply,
    StreamPendingData, StreamPendingId, StreamPendingReply, StreamRangeReply, StreamReadReply,
};
