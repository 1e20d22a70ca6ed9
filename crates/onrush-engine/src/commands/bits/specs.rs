//! Rows of the command table: the bit commands.

use crate::command::spec::{Group, KeySpec, Spec, flags};

/// The bit commands.
pub static SPECS: &[Spec] = &[
    Spec {
        name: "setbit",
        arity: 4,
        flags: flags("write denyoom"),
        keys: &[KeySpec::key("RW access update")],
        group: Group::Bitmap,
        since: "2.2.0",
        complexity: "O(1), with the string's growth",
        summary: "Sets a bit of a string and returns the old one.",
        syntax: "key offset value",
        handler: crate::commands::bits::setbit,
        ..Spec::DEFAULT
    },
    Spec {
        name: "getbit",
        arity: 3,
        flags: flags("readonly fast short"),
        keys: &[KeySpec::key("RO access")],
        group: Group::Bitmap,
        since: "2.2.0",
        summary: "Returns a bit of a string.",
        syntax: "key offset",
        handler: crate::commands::bits::getbit,
        ..Spec::DEFAULT
    },
    Spec {
        name: "bitfield",
        arity: -2,
        flags: flags("write denyoom"),
        keys: &[KeySpec::key("RW access update variable_flags")],
        group: Group::Bitmap,
        since: "3.2.0",
        complexity: "O(N) for N steps",
        summary: "Reads and writes integers of any width at any place in a string.",
        syntax: "key [GET encoding offset | [OVERFLOW <WRAP | SAT | FAIL>] <SET encoding offset value | INCRBY encoding offset increment>]",
        handler: crate::commands::bits::fields::bitfield,
        ..Spec::DEFAULT
    },
    Spec {
        name: "bitfield_ro",
        arity: -2,
        flags: flags("readonly fast short"),
        keys: &[KeySpec::key("RO access")],
        group: Group::Bitmap,
        since: "6.0.0",
        complexity: "O(N) for N steps",
        summary: "Reads integers of any width at any place in a string.",
        syntax: "key [GET encoding offset [GET encoding offset ...]]",
        handler: crate::commands::bits::fields::bitfield_ro,
        ..Spec::DEFAULT
    },
    Spec {
        name: "bitop",
        arity: -4,
        flags: flags("write denyoom"),
        keys: &[KeySpec::keys("OW update", 2, 0, 1), KeySpec::keys("RO access", 3, -1, 1)],
        group: Group::Bitmap,
        since: "2.6.0",
        complexity: "O(N) for N bytes",
        summary: "Combines strings bit by bit and stores the result.",
        syntax: "<AND | OR | XOR | NOT | DIFF | DIFF1 | ANDOR | ONE> destkey key [key ...]",
        history: &[("8.2.0", "Operations `DIFF`, `DIFF1`, `ANDOR` and `ONE`.")],
        handler: crate::commands::bits::bitop,
        ..Spec::DEFAULT
    },
    Spec {
        name: "bitcount",
        arity: -2,
        flags: flags("readonly"),
        keys: &[KeySpec::key("RO access")],
        group: Group::Bitmap,
        since: "2.6.0",
        complexity: "O(N) for N bytes",
        summary: "Counts the bits of a string that are set.",
        syntax: "key [start end [BYTE | BIT]]",
        handler: crate::commands::bits::bitcount,
        ..Spec::DEFAULT
    },
    Spec {
        name: "bitpos",
        arity: -3,
        flags: flags("readonly"),
        keys: &[KeySpec::key("RO access")],
        group: Group::Bitmap,
        since: "2.8.7",
        complexity: "O(N) for N bytes",
        summary: "Finds the first bit of a string that is set or not set.",
        syntax: "key bit [start [end [BYTE | BIT]]]",
        handler: crate::commands::bits::bitpos,
        ..Spec::DEFAULT
    },
];
