//! Bitmaps and bit fields.

use super::Family;

/// Bitmaps and bit fields.
pub const BITS: Family = Family {
    name: "bits",
    args: &[],
    pipelined: true,
    reset: &[],
    newer_lines: &[
        (8, "BITOP (DIFF | DIFF1 | ANDOR | ONE) key key..."),
        (5, "BITOP (DIFF | DIFF1 | ANDOR | ONE) key key key key"),
    ],
    lines: &[
        (12, "SETBIT key bit-offset bit"),
        (6, "GETBIT key bit-offset"),
        (8, "BITCOUNT key [small-index small-index [BIT | BYTE]]"),
        (8, "BITPOS key bit [small-index [small-index [BIT | BYTE]]]"),
        (8, "BITOP (AND | OR | XOR) key key..."),
        (3, "BITOP NOT key key"),
        (
            8,
            "BITFIELD key (GET width bit-offset | OVERFLOW overflow | SET width bit-offset int | INCRBY width bit-offset int)...",
        ),
        (4, "BITFIELD key OVERFLOW overflow INCRBY width bit-offset int"),
        (4, "BITFIELD_RO key (GET width bit-offset)..."),
        (5, "SET key value"),
        (3, "SET key number"),
        (3, "APPEND key value"),
        (3, "GET key"),
        (2, "STRLEN key"),
        (2, "SADD key member..."),
        (3, "OBJECT ENCODING key"),
        (2, "DEL key"),
        (1, "EXPIRE key seconds"),
    ],
};
