//! What shows the time that commands take.

use super::Family;

/// The slow log and the latency monitor. Thresholds are such that everything is slow or nothing.
pub const TIMING: Family = Family {
    name: "timing",
    args: &["--enable-debug-command", "yes"],
    pipelined: true,
    reset: &[
        "CONFIG SET slowlog-log-slower-than -1 slowlog-max-len 128 latency-monitor-threshold 0 latency-tracking yes",
        "SLOWLOG RESET",
        "LATENCY RESET",
    ],
    newer_lines: &[],
    lines: &[
        (4, "!CONFIG SET =slowlog-log-slower-than slow-us"),
        (1, "!CONFIG SET =slowlog-max-len slow-len"),
        (1, "!CONFIG SET =latency-monitor-threshold slow-ms"),
        (1, "!CONFIG SET =latency-tracking yes-no"),
        (4, "SLOWLOG GET [slow-count]"),
        (6, "SLOWLOG LEN"),
        (1, "SLOWLOG RESET"),
        (1, "SLOWLOG HELP"),
        (1, "SLOWLOG name [value]"),
        (1, "LATENCY LATEST"),
        (2, "LATENCY HISTORY event"),
        (1, "LATENCY RESET [event...]"),
        (2, "LATENCY GRAPH event"),
        (1, "LATENCY DOCTOR"),
        (3, "LATENCY HISTOGRAM [command...]"),
        (1, "LATENCY HELP"),
        (1, "LATENCY name [value]"),
        (1, "INFO =latencystats"),
        (6, "SET key value"),
        (6, "GET key"),
        (3, "MGET key..."),
        (3, "LPUSH key value..."),
        (2, "LRANGE key 0 -1"),
        (2, "INCR key"),
        (1, "CONFIG GET =slowlog-*"),
    ],
};
