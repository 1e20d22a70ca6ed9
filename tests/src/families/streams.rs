//! Streams.

use super::Family;

/// Streams: entries, groups, what is pending. Nothing that would wait for long.
pub const STREAMS: Family = Family {
    name: "streams",
    args: &["--stream-node-max-entries", "5"],
    pipelined: true,
    reset: &[],
    lines: &[
        (16, "XADD plain-key new-id (member value-short)..."),
        (
            4,
            "XADD plain-key [NOMKSTREAM] [(MAXLEN | MINID) [trim-mark] limit-id [LIMIT few]] new-id (member value-short)...",
        ),
        (3, "XLEN plain-key"),
        (6, "XRANGE plain-key stream-bound stream-bound [COUNT few]"),
        (5, "XREVRANGE plain-key stream-bound stream-bound [COUNT few]"),
        (6, "XDEL plain-key stream-id..."),
        (4, "XTRIM plain-key MAXLEN [trim-mark] few [LIMIT few]"),
        (3, "XTRIM plain-key MINID [trim-mark] stream-id [LIMIT few]"),
        (1, "XGROUP HELP"),
        (1, "XINFO HELP"),
        (1, "!XSETID plain-key 30-0"),
        // Otherwise no XSETID: 7.2 refuses an identifier below that of the last deleted entry.
        (4, "XREAD [COUNT few] STREAMS plain-key read-id"),
        (3, "XREAD [COUNT few] STREAMS plain-key plain-key read-id read-id"),
        (1, "!XREAD COUNT 2 BLOCK 5 STREAMS plain-key $"),
        (8, "XGROUP CREATE plain-key group group-start [MKSTREAM] [ENTRIESREAD few]"),
        (2, "XGROUP SETID plain-key group group-start [ENTRIESREAD few]"),
        (1, "XGROUP DESTROY plain-key group"),
        (3, "!XGROUP CREATECONSUMER plain-key group consumer"),
        (2, "!XGROUP DELCONSUMER plain-key group consumer"),
        (10, "!XREADGROUP GROUP group consumer [COUNT few] [NOACK] STREAMS plain-key group-read"),
        (2, "!XREADGROUP GROUP group consumer [COUNT few] STREAMS plain-key plain-key group-read group-read"),
        (1, "!XREADGROUP GROUP group consumer BLOCK 5 STREAMS plain-key group-read"),
        (5, "XACK plain-key group stream-id..."),
        (3, "XPENDING plain-key group"),
        (3, "XPENDING plain-key group stream-bound stream-bound few [consumer]"),
        (3, "!XCLAIM plain-key group =c1 0 stream-id... [JUSTID] [FORCE] [RETRYCOUNT 3]"),
        (3, "!XAUTOCLAIM plain-key group =c1 0 stream-id [COUNT limit] [JUSTID]"),
        (4, "XINFO STREAM plain-key"),
        (4, "XINFO GROUPS plain-key"),
        (2, "XINFO CONSUMERS plain-key group"),
        (2, "XINFO STREAM plain-key FULL [COUNT few]"),
        (1, "TYPE plain-key"),
        (1, "OBJECT ENCODING plain-key"),
        (1, "SET plain-key value"),
        (2, "COPY plain-key plain-key [REPLACE]"),
        (1, "RENAME plain-key plain-key"),
        (1, "DEL plain-key"),
    ],
};
