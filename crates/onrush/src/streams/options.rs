//! Options of the commands on streams.

use std::time::Duration;

use crate::builder::builder;
use crate::commands::options::{options, put, put_if, put_some};

/// How long a stream may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamMaxlen {
    /// Exactly that many entries.
    Equals(usize),
    /// About that many, never fewer: cheaper for the server.
    Approx(usize),
}

options!(StreamMaxlen: |this, out| match this {
    StreamMaxlen::Equals(count) => put(out, "MAXLEN", ("=", count)),
    StreamMaxlen::Approx(count) => put(out, "MAXLEN", ("~", count)),
});

/// Which old entries are cut off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamTrimStrategy {
    by: By,
    limit: Option<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum By {
    Maxlen(StreamMaxlen),
    Minid { exactly: bool, id: String },
}

impl StreamTrimStrategy {
    /// All but the newest.
    pub fn maxlen(maxlen: StreamMaxlen) -> StreamTrimStrategy {
        StreamTrimStrategy { by: By::Maxlen(maxlen), limit: None }
    }

    /// Exactly those before an identifier.
    pub fn minid(id: impl Into<String>) -> StreamTrimStrategy {
        StreamTrimStrategy { by: By::Minid { exactly: true, id: id.into() }, limit: None }
    }

    /// About those before an identifier, never later ones: cheaper for the server.
    pub fn minid_approx(id: impl Into<String>) -> StreamTrimStrategy {
        StreamTrimStrategy { by: By::Minid { exactly: false, id: id.into() }, limit: None }
    }

    /// At most that many at a time. Only for the approximate strategies.
    pub fn limit(mut self, count: usize) -> StreamTrimStrategy {
        self.limit = Some(count);
        self
    }
}

options!(StreamTrimStrategy: |this, out| {
    match &this.by {
        By::Maxlen(maxlen) => maxlen.write_redis_args(out),
        By::Minid { exactly, id } => put(out, "MINID", (if *exactly { "=" } else { "~" }, id)),
    }
    put_some(out, "LIMIT", &this.limit);
});

impl From<StreamMaxlen> for StreamTrimStrategy {
    fn from(maxlen: StreamMaxlen) -> StreamTrimStrategy {
        StreamTrimStrategy::maxlen(maxlen)
    }
}

/// Options of XTRIM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamTrimOptions {
    strategy: StreamTrimStrategy,
}

impl StreamTrimOptions {
    /// Cuts off entries by the strategy.
    pub fn new(strategy: impl Into<StreamTrimStrategy>) -> StreamTrimOptions {
        StreamTrimOptions { strategy: strategy.into() }
    }

    /// All but the newest.
    pub fn maxlen(maxlen: StreamMaxlen) -> StreamTrimOptions {
        StreamTrimOptions::new(maxlen)
    }

    /// Exactly those before an identifier.
    pub fn minid(id: impl Into<String>) -> StreamTrimOptions {
        StreamTrimOptions::new(StreamTrimStrategy::minid(id))
    }
}

options!(StreamTrimOptions: |this, out| this.strategy.write_redis_args(out));

/// Options of XADD.
///
/// ```
/// use onrush::streams::{StreamAddOptions, StreamMaxlen};
/// let options = StreamAddOptions::default().nomkstream().trim(StreamMaxlen::Approx(1_000));
/// # assert_eq!(onrush::ToRedisArgs::num_of_args(&options), 4);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamAddOptions {
    nomkstream: bool,
    trim: Option<StreamTrimStrategy>,
}

builder! {
    StreamAddOptions, new: "No options yet.";
    /// Does not make the stream if it does not exist; then the reply is nil.
    nomkstream() => nomkstream = true;
    /// Cuts off old entries.
    trim(strategy: impl Into<StreamTrimStrategy>) => trim = Some(strategy.into());
}

options!(StreamAddOptions: |this, out| {
    put_if(out, this.nomkstream, "NOMKSTREAM");
    this.trim.write_redis_args(out);
});

/// Options of XREAD and XREADGROUP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamReadOptions {
    count: Option<usize>,
    block_ms: Option<u64>,
    noack: bool,
}

builder! {
    StreamReadOptions, new: "No options yet.";
    /// At most that many entries of each stream.
    count(count: usize) => count = Some(count);
    /// How many milliseconds to wait for an entry; 0 is for ever. When the time is over the reply is nil: request an
    /// `Option`.
    block(milliseconds: u64) => block_ms = Some(milliseconds);
    /// Does not make entries pending. For groups.
    noack() => noack = true;
}

options!(StreamReadOptions: |this, out| {
    put_some(out, "COUNT", &this.count);
    put_some(out, "BLOCK", &this.block_ms);
    put_if(out, this.noack, "NOACK");
});

/// Options of XCLAIM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamClaimOptions {
    idle_ms: Option<u64>,
    time_ms: Option<u64>,
    retry: Option<u64>,
    force: bool,
    justid: bool,
    last_id: Option<String>,
}

builder! {
    StreamClaimOptions, new: "No options yet.";
    /// For how long the entries count as idle.
    idle(idle: Duration) => idle_ms = Some(u64::try_from(idle.as_millis()).unwrap_or(u64::MAX));
    /// The Unix time in milliseconds from which the entries count as idle.
    time(time_ms: u64) => time_ms = Some(time_ms);
    /// How often the entries count as delivered.
    retry(count: u64) => retry = Some(count);
    /// Also makes entries pending that are not pending yet.
    with_force() => force = true;
    /// Returns identifiers only.
    with_justid() => justid = true;
    /// Sets the group's last delivered entry, if this one is later.
    with_lastid(id: impl Into<String>) => last_id = Some(id.into());
}

options!(StreamClaimOptions: |this, out| {
    put_some(out, "IDLE", &this.idle_ms);
    put_some(out, "TIME", &this.time_ms);
    put_some(out, "RETRYCOUNT", &this.retry);
    put_if(out, this.force, "FORCE");
    put_if(out, this.justid, "JUSTID");
    put_some(out, "LASTID", &this.last_id);
});

/// Options of XAUTOCLAIM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamAutoClaimOptions {
    count: Option<usize>,
    justid: bool,
}

builder! {
    StreamAutoClaimOptions, new: "No options yet.";
    /// Most entries to claim.
    count(count: usize) => count = Some(count);
    /// Returns identifiers only.
    with_justid() => justid = true;
}

options!(StreamAutoClaimOptions: |this, out| {
    put_some(out, "COUNT", &this.count);
    put_if(out, this.justid, "JUSTID");
});

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::options::shown;

    #[test]
    fn options_give_their_arguments() {
        assert_eq!(shown(StreamMaxlen::Equals(7)), "MAXLEN = 7");
        let add = StreamAddOptions::new().nomkstream().trim(StreamTrimStrategy::minid_approx("5-0").limit(9));
        assert_eq!(shown(add), "NOMKSTREAM MINID ~ 5-0 LIMIT 9");
        assert_eq!(shown(StreamTrimOptions::maxlen(StreamMaxlen::Approx(3))), "MAXLEN ~ 3");
        assert_eq!(shown(StreamTrimOptions::minid("3")), "MINID = 3");
        assert_eq!(shown(StreamReadOptions::new().count(1).block(0).noack()), "COUNT 1 BLOCK 0 NOACK");
        let claim = StreamClaimOptions::new().idle(Duration::from_secs(1)).time(5).retry(2).with_force().with_justid();
        assert_eq!(shown(claim.with_lastid("1-1")), "IDLE 1000 TIME 5 RETRYCOUNT 2 FORCE JUSTID LASTID 1-1");
        assert_eq!(shown(StreamAutoClaimOptions::new().count(2).with_justid()), "COUNT 2 JUSTID");
    }
}
