//! Rows of the command table: the string commands.

use crate::batch::argv::Arguments;
use crate::command::key_spec::{Invalid, KeyRef};
use crate::command::spec::{BeginSearch, Deprecated, FindKeys, Group, KeySpec, Spec, flags, key_flags};

/// The string commands.
pub static SPECS: &[Spec] = &[
    Spec {
        name: "get",
        arity: 2,
        flags: flags("readonly fast short"),
        keys: &[KeySpec::key("RO access")],
        group: Group::String,
        summary: "Returns the string value of a key.",
        syntax: "key",
        handler: crate::commands::strings::get,
        ..Spec::DEFAULT
    },
    Spec {
        name: "set",
        arity: -3,
        flags: flags("write denyoom short"),
        keys: &[KeySpec::key("RW access update variable_flags")
            .notes("RW and access because of the options GET and IFEQ to IFDNE")],
        get_keys: Some(set_keys),
        group: Group::String,
        summary: "Gives a key a string value, whatever it held before.",
        syntax: "key value [NX | XX | IFEQ ifeq-value | IFNE ifne-value | IFDEQ ifdeq-digest | IFDNE ifdne-digest] [GET] [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | KEEPTTL]",
        history: &[
            ("2.6.12", "Options `EX`, `PX`, `NX` and `XX`."),
            ("6.0.0", "Option `KEEPTTL`."),
            ("6.2.0", "Options `GET`, `EXAT` and `PXAT`."),
            ("7.0.0", "`NX` and `GET` may be combined."),
            ("8.4.0", "Options `IFEQ`, `IFNE`, `IFDEQ` and `IFDNE`."),
        ],
        handler: crate::commands::strings::set,
        ..Spec::DEFAULT
    },
    Spec {
        name: "getset",
        arity: 3,
        flags: flags("write denyoom fast short"),
        keys: &[KeySpec::key("RW access update")],
        group: Group::String,
        summary: "Gives a key a string value and returns the one before.",
        syntax: "key value",
        deprecated: Some(Deprecated { since: "6.2.0", replaced_by: "`SET` with the option `GET`" }),
        handler: crate::commands::strings::getset,
        ..Spec::DEFAULT
    },
    Spec {
        name: "getdel",
        arity: 2,
        flags: flags("write fast short"),
        keys: &[KeySpec::key("RW access delete")],
        group: Group::String,
        since: "6.2.0",
        summary: "Returns the string value of a key and deletes the key.",
        syntax: "key",
        handler: crate::commands::strings::getdel,
        ..Spec::DEFAULT
    },
    Spec {
        name: "getex",
        arity: -2,
        flags: flags("write fast short"),
        keys: &[KeySpec::key("RW access update").notes("RW and update because the expiry may change")],
        group: Group::String,
        since: "6.2.0",
        summary: "Returns the string value of a key and changes when it expires.",
        syntax: "key [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | PERSIST]",
        handler: crate::commands::strings::getex,
        ..Spec::DEFAULT
    },
    Spec {
        name: "delex",
        arity: -2,
        flags: flags("write fast short"),
        keys: &[KeySpec::key("RW delete variable_flags")],
        get_keys: Some(delex_keys),
        group: Group::String,
        since: "8.4.0",
        complexity: "O(1), with a digest O(N), N the length of the string",
        summary: "Deletes a key; on request only if its string, or the digest of it, does or does not equal a given one.",
        syntax: "key [IFEQ ifeq-value | IFNE ifne-value | IFDEQ ifdeq-digest | IFDNE ifdne-digest]",
        handler: crate::commands::strings::conditions::delex,
        ..Spec::DEFAULT
    },
    Spec {
        name: "digest",
        arity: 2,
        flags: flags("readonly fast"),
        keys: &[KeySpec::key("RO")],
        group: Group::String,
        since: "8.4.0",
        complexity: "O(N), N the length of the string",
        summary: "Returns the digest of a key's string, which SET and DELEX compare with.",
        syntax: "key",
        handler: crate::commands::strings::conditions::digest,
        ..Spec::DEFAULT
    },
    Spec {
        name: "setnx",
        arity: 3,
        flags: flags("write denyoom fast short"),
        keys: &[KeySpec::key("OW insert")],
        group: Group::String,
        summary: "Gives a key a string value unless the key exists.",
        syntax: "key value",
        handler: crate::commands::strings::setnx,
        ..Spec::DEFAULT
    },
    Spec {
        name: "setex",
        arity: 4,
        flags: flags("write denyoom short"),
        keys: &[KeySpec::key("OW update")],
        group: Group::String,
        since: "2.0.0",
        summary: "Gives a key a string value that expires after some seconds.",
        syntax: "key seconds value",
        handler: crate::commands::strings::setex,
        ..Spec::DEFAULT
    },
    Spec {
        name: "psetex",
        arity: 4,
        flags: flags("write denyoom short"),
        keys: &[KeySpec::key("OW update")],
        group: Group::String,
        since: "2.6.0",
        summary: "Gives a key a string value that expires after some milliseconds.",
        syntax: "key milliseconds value",
        handler: crate::commands::strings::psetex,
        ..Spec::DEFAULT
    },
    Spec {
        name: "mset",
        arity: -3,
        flags: flags("write denyoom"),
        keys: &[KeySpec::keys("OW update", 1, -1, 2)],
        tips: &["request_policy:multi_shard", "response_policy:all_succeeded"],
        group: Group::String,
        since: "1.0.1",
        complexity: "O(N), N the number of keys",
        summary: "Gives several keys their string values in one step.",
        syntax: "key value [key value ...]",
        handler: crate::commands::strings::many::mset,
        ..Spec::DEFAULT
    },
    Spec {
        name: "msetnx",
        arity: -3,
        flags: flags("write denyoom"),
        keys: &[KeySpec::keys("OW insert", 1, -1, 2)],
        tips: &["request_policy:multi_shard", "response_policy:agg_min"],
        group: Group::String,
        since: "1.0.1",
        complexity: "O(N), N the number of keys",
        summary: "Gives several keys their string values in one step unless any of them exists.",
        syntax: "key value [key value ...]",
        handler: crate::commands::strings::many::msetnx,
        ..Spec::DEFAULT
    },
    Spec {
        name: "msetex",
        arity: -4,
        flags: flags("write denyoom"),
        keys: &[KeySpec::new("OW update", BeginSearch::Index(1), FindKeys::KeyNum { num_index: 0, first: 1, step: 2 })],
        group: Group::String,
        since: "8.4.0",
        complexity: "O(N), N the number of keys",
        summary: "Gives several keys string values and one expiry in one step; on request only if all or none of the keys exist.",
        syntax: "numkeys key value [key value ...] [NX | XX] [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | KEEPTTL]",
        handler: crate::commands::strings::many::msetex,
        ..Spec::DEFAULT
    },
    Spec {
        name: "mget",
        arity: -2,
        flags: flags("readonly fast"),
        keys: &[KeySpec::keys("RO access", 1, -1, 1)],
        tips: &["request_policy:multi_shard"],
        group: Group::String,
        complexity: "O(N), N the number of keys",
        summary: "Returns the string values of several keys.",
        syntax: "key [key ...]",
        handler: crate::commands::strings::many::mget,
        ..Spec::DEFAULT
    },
    Spec {
        name: "append",
        arity: 3,
        flags: flags("write denyoom fast short"),
        keys: &[KeySpec::key("RW insert")],
        group: Group::String,
        since: "2.0.0",
        complexity: "O(1) amortized, for appended values of bounded length",
        summary: "Adds bytes to the end of a key's string; creates the key if need be.",
        syntax: "key value",
        handler: crate::commands::strings::append,
        ..Spec::DEFAULT
    },
    Spec {
        name: "strlen",
        arity: 2,
        flags: flags("readonly fast short"),
        keys: &[KeySpec::key("RO")],
        group: Group::String,
        since: "2.2.0",
        summary: "Returns the length of a key's string in bytes.",
        syntax: "key",
        handler: crate::commands::strings::strlen,
        ..Spec::DEFAULT
    },
    Spec {
        name: "getrange",
        arity: 4,
        flags: flags("readonly short"),
        keys: &[KeySpec::key("RO access")],
        group: Group::String,
        since: "2.4.0",
        complexity: "O(N), N the length of the part",
        summary: "Returns a part of a key's string.",
        syntax: "key start end",
        handler: crate::commands::strings::getrange,
        ..Spec::DEFAULT
    },
    Spec {
        name: "substr",
        arity: 4,
        flags: flags("readonly short"),
        keys: &[KeySpec::key("RO access")],
        group: Group::String,
        complexity: "O(N), N the length of the part",
        summary: "Returns a part of a key's string.",
        syntax: "key start end",
        deprecated: Some(Deprecated { since: "2.0.0", replaced_by: "`GETRANGE`" }),
        handler: crate::commands::strings::substr,
        ..Spec::DEFAULT
    },
    Spec {
        name: "setrange",
        arity: 4,
        flags: flags("write denyoom"),
        keys: &[KeySpec::key("RW update")],
        group: Group::String,
        since: "2.2.0",
        complexity: "O(M), M the length of the value; the string may have to grow as well",
        summary: "Overwrites a part of a key's string; zero bytes fill a gap.",
        syntax: "key offset value",
        handler: crate::commands::strings::setrange,
        ..Spec::DEFAULT
    },
    Spec {
        name: "incr",
        arity: 2,
        flags: flags("write denyoom fast short"),
        keys: &[KeySpec::key("RW access update")],
        group: Group::String,
        summary: "Adds one to the integer a key holds; an absent key counts as 0.",
        syntax: "key",
        handler: crate::commands::strings::incr,
        run: Some(crate::commands::strings::incr_run),
        ..Spec::DEFAULT
    },
    Spec {
        name: "decr",
        arity: 2,
        flags: flags("write denyoom fast short"),
        keys: &[KeySpec::key("RW access update")],
        group: Group::String,
        summary: "Subtracts one from the integer a key holds; an absent key counts as 0.",
        syntax: "key",
        handler: crate::commands::strings::decr,
        run: Some(crate::commands::strings::decr_run),
        ..Spec::DEFAULT
    },
    Spec {
        name: "incrby",
        arity: 3,
        flags: flags("write denyoom fast short"),
        keys: &[KeySpec::key("RW access update")],
        group: Group::String,
        summary: "Adds a number to the integer a key holds; an absent key counts as 0.",
        syntax: "key increment",
        handler: crate::commands::strings::incrby,
        run: Some(crate::commands::strings::incrby_run),
        ..Spec::DEFAULT
    },
    Spec {
        name: "decrby",
        arity: 3,
        flags: flags("write denyoom fast short"),
        keys: &[KeySpec::key("RW access update")],
        group: Group::String,
        summary: "Subtracts a number from the integer a key holds; an absent key counts as 0.",
        syntax: "key decrement",
        handler: crate::commands::strings::decrby,
        run: Some(crate::commands::strings::decrby_run),
        ..Spec::DEFAULT
    },
    Spec {
        name: "increx",
        arity: -2,
        flags: flags("write denyoom fast short"),
        keys: &[KeySpec::key("RW access update")],
        group: Group::String,
        since: "8.8.0",
        summary: "Adds to a number within bounds and sets its expiry; returns the new value and what was added.",
        syntax: "key [BYFLOAT increment | BYINT increment] [LBOUND lower-bound] [UBOUND upper-bound] [SATURATE] [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | PERSIST] [ENX]",
        handler: crate::commands::strings::bounded_counters::increx,
        ..Spec::DEFAULT
    },
    Spec {
        name: "incrbyfloat",
        arity: 3,
        flags: flags("write denyoom fast short"),
        keys: &[KeySpec::key("RW access update")],
        group: Group::String,
        since: "2.6.0",
        summary: "Adds to the floating-point number a key holds; an absent key counts as 0.",
        syntax: "key increment",
        handler: crate::commands::strings::incrbyfloat,
        ..Spec::DEFAULT
    },
    Spec {
        name: "lcs",
        arity: -3,
        flags: flags("readonly"),
        keys: &[KeySpec::keys("RO access", 1, 1, 1)],
        group: Group::String,
        since: "7.0.0",
        complexity: "O(N*M), N and M the lengths of the strings",
        summary: "Finds the longest common subsequence of two strings.",
        syntax: "key1 key2 [LEN] [IDX] [MINMATCHLEN len] [WITHMATCHLEN]",
        handler: crate::commands::strings::lcs::lcs,
        ..Spec::DEFAULT
    },
];

/// SET reads its key only with the option GET or a comparison.
fn set_keys(argv: &dyn Arguments, found: &mut Vec<KeyRef>) -> Result<(), Invalid> {
    let reads = |index| is_one_of(argv.get(index), &["get", "ifeq", "ifne", "ifdeq", "ifdne"]);
    let flags = if (3..argv.len()).any(reads) { key_flags("RW access update") } else { key_flags("OW update") };
    found.push(KeyRef { index: 1, flags });
    Ok(())
}

/// DELEX without a condition does not look at what its key holds.
fn delex_keys(argv: &dyn Arguments, found: &mut Vec<KeyRef>) -> Result<(), Invalid> {
    let flags = if argv.len() > 2 { key_flags("RW delete") } else { key_flags("RM delete") };
    found.push(KeyRef { index: 1, flags });
    Ok(())
}

fn is_one_of(word: &[u8], words: &[&str]) -> bool {
    words.iter().any(|other| word.eq_ignore_ascii_case(other.as_bytes()))
}
