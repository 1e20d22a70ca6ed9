//! Rows of the command table: the string commands.

use crate::batch::argv::Arguments;
use crate::command::key_spec::{Invalid, KeyRef, KeyRefs};
use crate::command::spec::{BeginSearch, FindKeys, KeySpec, Spec, key_flags};
use crate::commands::strings::{self, ExpiryUnit, bounded_counters, conditions, lcs, many};

/// The string commands.
pub(crate) static SPECS: &[Spec] = &[
    Spec::string("get", "1.0.0", 2, "readonly fast short", strings::get)
        .syntax("key")
        .summary("Returns the string value of a key.")
        .key("RO access"),
    Spec::string("set", "1.0.0", -3, "write denyoom short", strings::set)
        .syntax(
            "key value [NX | XX | IFEQ ifeq-value | IFNE ifne-value | IFDEQ ifdeq-digest | IFDNE ifdne-digest] [GET] \
             [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | KEEPTTL]",
        )
        .summary("Gives a key a string value, whatever it held before.")
        .keys(&[KeySpec::key("RW access update variable_flags")
            .notes("RW and access because of the options GET and IFEQ to IFDNE")])
        .get_keys(set_keys)
        .history(&[
            ("2.6.12", "Options `EX`, `PX`, `NX` and `XX`."),
            ("6.0.0", "Option `KEEPTTL`."),
            ("6.2.0", "Options `GET`, `EXAT` and `PXAT`."),
            ("7.0.0", "`NX` and `GET` may be combined."),
            ("8.4.0", "Options `IFEQ`, `IFNE`, `IFDEQ` and `IFDNE`."),
        ]),
    Spec::string("getset", "1.0.0", 3, "write denyoom fast short", strings::getset)
        .syntax("key value")
        .summary("Gives a key a string value and returns the one before.")
        .key("RW access update")
        .deprecated("6.2.0", "`SET` with the option `GET`"),
    Spec::string("getdel", "6.2.0", 2, "write fast short", strings::getdel)
        .syntax("key")
        .summary("Returns the string value of a key and deletes the key.")
        .key("RW access delete"),
    Spec::string("getex", "6.2.0", -2, "write fast short", strings::getex)
        .syntax("key [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | PERSIST]")
        .summary("Returns the string value of a key and changes when it expires.")
        .keys(&[KeySpec::key("RW access update").notes("RW and update because the expiry may change")]),
    Spec::string("delex", "8.4.0", -2, "write fast short", conditions::delex)
        .syntax("key [IFEQ ifeq-value | IFNE ifne-value | IFDEQ ifdeq-digest | IFDNE ifdne-digest]")
        .summary(
            "Deletes a key; on request only if its string, or the digest of it, does or does not equal a given one.",
        )
        .complexity("O(1), with a digest O(N), N the length of the string")
        .key("RW delete variable_flags")
        .get_keys(delex_keys),
    Spec::string("digest", "8.4.0", 2, "readonly fast", conditions::digest)
        .syntax("key")
        .summary("Returns the digest of a key's string, which SET and DELEX compare with.")
        .complexity("O(N), N the length of the string")
        .key("RO access"),
    Spec::string("setnx", "1.0.0", 3, "write denyoom fast short", strings::setnx)
        .syntax("key value")
        .summary("Gives a key a string value unless the key exists.")
        .key("OW insert"),
    Spec::string("setex", "2.0.0", 4, "write denyoom short", |ctx| strings::setex(ctx, ExpiryUnit::Ex))
        .syntax("key seconds value")
        .summary("Gives a key a string value that expires after some seconds.")
        .key("OW update"),
    Spec::string("psetex", "2.6.0", 4, "write denyoom short", |ctx| strings::setex(ctx, ExpiryUnit::Px))
        .syntax("key milliseconds value")
        .summary("Gives a key a string value that expires after some milliseconds.")
        .key("OW update"),
    Spec::string("mset", "1.0.1", -3, "write denyoom", many::mset)
        .syntax("key value [key value ...]")
        .summary("Gives several keys their string values in one step.")
        .complexity("O(N), N the number of keys")
        .keys(&[KeySpec::keys("OW update", 1, -1, 2)])
        .tips("request_policy:multi_shard response_policy:all_succeeded"),
    Spec::string("msetnx", "1.0.1", -3, "write denyoom", many::msetnx)
        .syntax("key value [key value ...]")
        .summary("Gives several keys their string values in one step unless any of them exists.")
        .complexity("O(N), N the number of keys")
        .keys(&[KeySpec::keys("OW insert", 1, -1, 2)])
        .tips("request_policy:multi_shard response_policy:agg_min"),
    Spec::string("msetex", "8.4.0", -4, "write denyoom", many::msetex)
        .syntax(
            "numkeys key value [key value ...] [NX | XX] \
             [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | KEEPTTL]",
        )
        .summary(
            "Gives several keys string values and one expiry in one step; on request only if all or none of the keys \
             exist.",
        )
        .complexity("O(N), N the number of keys")
        .keys(&[KeySpec::new(
            "OW update",
            BeginSearch::Index(1),
            FindKeys::KeyNum { num_index: 0, first: 1, step: 2 },
        )]),
    Spec::string("mget", "1.0.0", -2, "readonly fast", many::mget)
        .syntax("key [key ...]")
        .summary("Returns the string values of several keys.")
        .complexity("O(N), N the number of keys")
        .keys(&[KeySpec::keys("RO access", 1, -1, 1)])
        .tips("request_policy:multi_shard"),
    Spec::string("append", "2.0.0", 3, "write denyoom fast short", strings::append)
        .syntax("key value")
        .summary("Adds bytes to the end of a key's string; creates the key if need be.")
        .complexity("O(1) amortized, for appended values of bounded length")
        .key("RW insert"),
    Spec::string("strlen", "2.2.0", 2, "readonly fast short", strings::strlen)
        .syntax("key")
        .summary("Returns the length of a key's string in bytes.")
        .key("RO"),
    Spec::string("getrange", "2.4.0", 4, "readonly short", strings::getrange)
        .syntax("key start end")
        .summary("Returns a part of a key's string.")
        .complexity("O(N), N the length of the part")
        .key("RO access"),
    Spec::string("substr", "1.0.0", 4, "readonly short", strings::getrange)
        .syntax("key start end")
        .summary("Returns a part of a key's string.")
        .complexity("O(N), N the length of the part")
        .key("RO access")
        .deprecated("2.0.0", "`GETRANGE`"),
    Spec::string("setrange", "2.2.0", 4, "write denyoom", strings::setrange)
        .syntax("key offset value")
        .summary("Overwrites a part of a key's string; zero bytes fill a gap.")
        .complexity("O(M), M the length of the value; the string may have to grow as well")
        .key("RW update"),
    Spec::string("incr", "1.0.0", 2, "write denyoom fast short", |ctx| strings::add(ctx, 1))
        .syntax("key")
        .summary("Adds one to the integer a key holds; an absent key counts as 0.")
        .key("RW access update")
        .run(|ctx, times| strings::add_run(ctx, 1, times)),
    Spec::string("decr", "1.0.0", 2, "write denyoom fast short", |ctx| strings::add(ctx, -1))
        .syntax("key")
        .summary("Subtracts one from the integer a key holds; an absent key counts as 0.")
        .key("RW access update")
        .run(|ctx, times| strings::add_run(ctx, -1, times)),
    Spec::string("incrby", "1.0.0", 3, "write denyoom fast short", strings::incrby)
        .syntax("key increment")
        .summary("Adds a number to the integer a key holds; an absent key counts as 0.")
        .key("RW access update")
        .run(strings::incrby_run),
    Spec::string("decrby", "1.0.0", 3, "write denyoom fast short", strings::decrby)
        .syntax("key decrement")
        .summary("Subtracts a number from the integer a key holds; an absent key counts as 0.")
        .key("RW access update")
        .run(strings::decrby_run),
    Spec::string("increx", "8.8.0", -2, "write denyoom fast short", bounded_counters::increx)
        .syntax(
            "key [BYFLOAT increment | BYINT increment] [LBOUND lower-bound] [UBOUND upper-bound] [SATURATE] \
             [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | PERSIST] [ENX]",
        )
        .summary("Adds to a number within bounds and sets its expiry; returns the new value and what was added.")
        .key("RW access update"),
    Spec::string("incrbyfloat", "2.6.0", 3, "write denyoom fast short", strings::incrbyfloat)
        .syntax("key increment")
        .summary("Adds to the floating-point number a key holds; an absent key counts as 0.")
        .key("RW access update"),
    Spec::string("lcs", "7.0.0", -3, "readonly", lcs::lcs)
        .syntax("key1 key2 [LEN] [IDX] [MINMATCHLEN len] [WITHMATCHLEN]")
        .summary("Finds the longest common subsequence of two strings.")
        .complexity("O(N*M), N and M the lengths of the strings")
        .keys(&[KeySpec::keys("RO access", 1, 1, 1)]),
];

/// SET reads its key only with the option GET or a comparison.
fn set_keys(argv: &dyn Arguments, found: &mut KeyRefs) -> Result<(), Invalid> {
    let reads = |index| is_one_of(argv.get(index), &["get", "ifeq", "ifne", "ifdeq", "ifdne"]);
    let flags = if (3..argv.len()).any(reads) { key_flags("RW access update") } else { key_flags("OW update") };
    found.push(KeyRef { index: 1, flags });
    Ok(())
}

/// DELEX without a condition does not look at what its key holds.
fn delex_keys(argv: &dyn Arguments, found: &mut KeyRefs) -> Result<(), Invalid> {
    let flags = if argv.len() > 2 { key_flags("RW access delete") } else { key_flags("RM delete") };
    found.push(KeyRef { index: 1, flags });
    Ok(())
}

fn is_one_of(word: &[u8], words: &[&str]) -> bool {
    words.iter().any(|other| word.eq_ignore_ascii_case(other.as_bytes()))
}
