//! HyperLogLogs.

use super::Family;

/// HyperLogLogs, both encodings, down to their bytes.
pub const HYPERLOGLOG: Family = Family {
    name: "hyperloglog",
    args: &["--hll-sparse-max-bytes", "120"],
    pipelined: true,
    reset: &[],
    newer_lines: &[],
    lines: &[
        (30, "PFADD key element..."),
        (10, "PFADD key element element element element element element element element"),
        (2, "PFADD key [value]"),
        (8, "PFCOUNT key..."),
        (6, "PFCOUNT key"),
        (6, "PFMERGE key key..."),
        (1, "PFMERGE key"),
        (6, "PFDEBUG hll-word key"),
        (1, "PFDEBUG TODENSE key"),
        (8, "GET key"),
        (2, "STRLEN key"),
        (1, "SET key value"),
        (1, "SADD key member..."),
        (2, "COPY key key [REPLACE]"),
        (1, "OBJECT ENCODING key"),
        (1, "EXPIRE key seconds"),
        (2, "DEL key"),
    ],
};
