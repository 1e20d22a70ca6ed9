//! The only list of declared differences between Onrush and the oracle. All other replies are compared byte by byte.

use crate::argv::Argv;
use crate::compare::Compare;
use crate::server::{Oracle, is_stand_in};

/// One declared difference.
pub struct Exception {
    /// The words of the commands it is about: `_` is any word, `''` an empty one, `$` at the end stands for no more words.
    pub command: &'static str,
    /// The oracle that it concerns; `None` stands for both.
    pub oracle: Option<Oracle>,
    /// How to compare instead.
    pub how: Compare,
    /// Why.
    pub reason: &'static str,
}

const fn exception(command: &'static str, how: Compare, reason: &'static str) -> Exception {
    Exception { command, oracle: None, how, reason }
}

const fn older(command: &'static str, how: Compare, reason: &'static str) -> Exception {
    Exception { command, oracle: Some(Oracle::Older), how, reason }
}

const fn newer(command: &'static str, how: Compare, reason: &'static str) -> Exception {
    Exception { command, oracle: Some(Oracle::Newer), how, reason }
}

/// Milliseconds that may pass between a command's arrival at the one server and at the other.
pub const DELAY_MS_MAX: i64 = 5_000;

const LRM: &str = "the policies there are include those of 8.6";
const TIME: &str = "the two servers get the command at different times";
const OWN_WORDS: &str = "help texts are in Onrush's own words";
const HASH_ORDER: &str = "the order of keys follows the hash function";
const SCORES: &str = "7.2 spells scores with as few digits as tell them apart, 7.0 with 17";
const EMPTY_READ: &str = "7.2 makes a consumer whether or not there is something to read";
const CURSORS: &str = "8.2 takes an empty text for no cursor, 7.2 for the first";
const COORDINATES: &str =
    "8.2 spells coordinates with as few digits as tell them apart, 7.2 with 17, and reckons distances otherwise";
const PAYLOADS: &str = "7.2 tells that payloads are checked";
const NO_MODULES: &str = "no directive allows modules";
const INTERNAL: &str = "depends on the server's insides";

/// All declared differences. The first that matches counts.
pub const EXCEPTIONS: &[Exception] = &[
    exception("TTL", Compare::Within(2), TIME),
    exception("PTTL", Compare::Within(DELAY_MS_MAX), TIME),
    exception("EXPIRETIME", Compare::Within(2), TIME),
    exception("PEXPIRETIME", Compare::Within(DELAY_MS_MAX), TIME),
    exception("OBJECT IDLETIME", Compare::Within(2), TIME),
    exception("TIME", Compare::Shape, TIME),
    exception("HTTL", Compare::EachWithin(2), TIME),
    exception("HPTTL", Compare::EachWithin(DELAY_MS_MAX), TIME),
    exception("HEXPIRETIME", Compare::EachWithin(2), TIME),
    exception("HPEXPIRETIME", Compare::EachWithin(DELAY_MS_MAX), TIME),
    exception("RANDOMKEY", Compare::Type, "it is random"),
    exception("KEYS", Compare::Unordered, HASH_ORDER),
    exception("SCAN", Compare::Anything, "cursors differ; whole scans are compared by SCANALL"),
    exception("OBJECT REFCOUNT", Compare::Type, "Onrush shares no integers"),
    newer(
        "OBJECT ENCODING",
        Compare::StringEncoding,
        "8.2 keeps strings with their keys, so that long keys make raw strings, knows listpackex, and keeps lists that shrink in their nodes for longer; in both the order of members, which is the hash's, may decide what a union becomes",
    ),
    older("OBJECT ENCODING", Compare::Encoding, "small sets and lists are listpacks in 7.2"),
    exception("SMEMBERS", Compare::Unordered, HASH_ORDER),
    exception("SINTER", Compare::Unordered, HASH_ORDER),
    exception("SUNION", Compare::Unordered, HASH_ORDER),
    exception("SDIFF", Compare::Unordered, HASH_ORDER),
    exception("HGETALL", Compare::Unordered, HASH_ORDER),
    exception("HKEYS", Compare::Unordered, HASH_ORDER),
    exception("HVALS", Compare::Unordered, HASH_ORDER),
    newer("SSCAN _ ''", Compare::Anything, CURSORS),
    newer("HSCAN _ ''", Compare::Anything, CURSORS),
    newer("ZSCAN _ ''", Compare::Anything, CURSORS),
    exception("HSCAN", Compare::Unordered, HASH_ORDER),
    exception("HRANDFIELD", Compare::Shape, "it is random"),
    exception("ZRANDMEMBER", Compare::Shape, "it is random"),
    older("ZSCAN", Compare::UnorderedNumbers, SCORES),
    exception("ZSCAN", Compare::Unordered, HASH_ORDER),
    older("ZADD", Compare::Numbers, SCORES),
    older("ZINCRBY", Compare::Numbers, SCORES),
    older("ZSCORE", Compare::Numbers, SCORES),
    older("ZMSCORE", Compare::Numbers, SCORES),
    older("ZRANGE", Compare::Numbers, SCORES),
    older("ZREVRANGE", Compare::Numbers, SCORES),
    older("ZRANGEBYSCORE", Compare::Numbers, SCORES),
    older("ZREVRANGEBYSCORE", Compare::Numbers, SCORES),
    older("ZPOPMIN", Compare::Numbers, SCORES),
    older("ZPOPMAX", Compare::Numbers, SCORES),
    older("ZMPOP", Compare::Numbers, SCORES),
    older("BZPOPMIN", Compare::Numbers, SCORES),
    older("BZPOPMAX", Compare::Numbers, SCORES),
    older("BZMPOP", Compare::Numbers, SCORES),
    older("ZUNION", Compare::Numbers, SCORES),
    older("ZINTER", Compare::Numbers, SCORES),
    older("ZDIFF", Compare::Numbers, SCORES),
    older("XINFO STREAM", Compare::Type, "7.2 tells more of consumers"),
    newer("XINFO STREAM", Compare::Tree(&["radix-tree-keys", "radix-tree-nodes"]), "there are no radix trees"),
    older(
        "XINFO GROUPS",
        Compare::Type,
        "7.2 makes a consumer whether or not there is something to read, and knows the lag of empty streams",
    ),
    older("XGROUP CREATECONSUMER", Compare::Type, EMPTY_READ),
    older("XINFO CONSUMERS", Compare::Type, "7.2 tells more of consumers"),
    newer("XINFO CONSUMERS", Compare::Tree(&["idle", "inactive"]), TIME),
    older("ZRANK _ _ _ $", Compare::Anything, "it has no WITHSCORE"),
    older("ZREVRANK _ _ _ $", Compare::Anything, "it has no WITHSCORE"),
    older("BITCOUNT", Compare::Anything, "7.2 reads the arguments before the key"),
    older("BITPOS", Compare::Anything, "7.2 reads the arguments before the key"),
    newer("GEOPOS", Compare::Numbers, COORDINATES),
    newer("GEORADIUS", Compare::Numbers, COORDINATES),
    newer("GEORADIUS_RO", Compare::Numbers, COORDINATES),
    newer("GEORADIUSBYMEMBER", Compare::Numbers, COORDINATES),
    newer("GEORADIUSBYMEMBER_RO", Compare::Numbers, COORDINATES),
    newer("GEOSEARCH", Compare::Numbers, COORDINATES),
    newer("GEODIST", Compare::Numbers, COORDINATES),
    // Scores of STOREDIST in a sorted set, as the state of a key is asked.
    newer("ZRANGE _ 0 -1 WITHSCORES $", Compare::Numbers, COORDINATES),
    newer("COMMAND GETKEYSANDFLAGS _ $", Compare::Anything, "8.2 takes a name alone"),
    newer("COMMAND GETKEYS _ $", Compare::Anything, "8.2 takes a name alone"),
    newer("CONFIG GET", Compare::Type, "8.2 has other directives and defaults"),
    exception("CONFIG GET", Compare::Pairs, HASH_ORDER),
    newer("CONFIG SET MAXMEMORY", Compare::Anything, "8.2 refuses what does not fit 64 bits"),
    exception("CONFIG SET MAXMEMORY-POLICY", Compare::Anything, LRM),
    exception("CONFIG SET SLOWLOG-MAX-LEN _ MAXMEMORY-POLICY", Compare::Anything, LRM),
    newer("CONFIG SET MAXMEMORY-SAMPLES", Compare::Anything, "8.2 takes at most 64"),
    exception("XPENDING", Compare::Pending, TIME),
    exception("SPOP", Compare::Unordered, "it is random"),
    exception("SRANDMEMBER", Compare::Shape, "it is random"),
    exception("SSCAN", Compare::Unordered, HASH_ORDER),
    exception("OBJECT FREQ", Compare::Type, "the access counter grows by chance"),
    exception("MEMORY USAGE", Compare::Type, INTERNAL),
    exception("HELLO", Compare::FieldsExcept(&["version", "id", "modules"]), "versions, client ids and modules differ"),
    exception("CLIENT ID", Compare::Type, "client ids differ"),
    exception("CLIENT LIST", Compare::Type, "ids, addresses, ages and buffer sizes differ"),
    older(
        "CLIENT INFO",
        Compare::Words(&[
            "name", "flags-e", "db", "sub", "psub", "ssub", "multi", "events", "cmd", "user", "redir", "resp",
        ]),
        "ids, addresses, ages and buffer sizes differ, 7.2 has more fields, and its RESET clears NO-EVICT",
    ),
    newer(
        "CLIENT INFO",
        Compare::Words(&[
            "name", "flags", "db", "sub", "psub", "ssub", "multi", "watch", "events", "cmd", "user", "redir", "resp",
            "lib-name", "lib-ver",
        ]),
        "ids, addresses, ages and buffer sizes differ",
    ),
    exception("INFO", Compare::Type, INTERNAL),
    exception("COMMAND INFO $", Compare::Type, "7.2 has more commands than the oracle"),
    exception("COMMAND INFO", Compare::CommandInfo, "7.2 has other tips and subcommands than the oracle"),
    exception("COMMAND COUNT", Compare::Type, "7.2 has more commands than the oracle"),
    exception("COMMAND LIST", Compare::Type, "7.2 has more commands than the oracle"),
    exception("COMMAND DOCS", Compare::Type, "summaries are in Onrush's own words"),
    exception("COMMAND HELP", Compare::Type, OWN_WORDS),
    exception("COMMAND $", Compare::Type, "7.2 has more commands than the oracle"),
    exception("CLIENT HELP", Compare::Type, OWN_WORDS),
    exception("CONFIG HELP", Compare::Type, OWN_WORDS),
    exception("OBJECT HELP", Compare::Type, OWN_WORDS),
    exception("PUBSUB HELP", Compare::Type, OWN_WORDS),
    exception("MEMORY HELP", Compare::Type, OWN_WORDS),
    exception("XGROUP HELP", Compare::Type, OWN_WORDS),
    exception("XINFO HELP", Compare::Type, OWN_WORDS),
    exception("DEBUG HELP", Compare::Type, OWN_WORDS),
    exception("SCRIPT DEBUG", Compare::Anything, "there is no debugger of scripts"),
    exception("SCRIPT HELP", Compare::Type, OWN_WORDS),
    exception("FUNCTION HELP", Compare::Type, OWN_WORDS),
    exception("FUNCTION LIST", Compare::Unordered, HASH_ORDER),
    exception("FUNCTION DUMP", Compare::Type, "the version differs, and the oracles compress"),
    exception("SLOWLOG GET", Compare::Shape, TIME),
    exception("SLOWLOG HELP", Compare::Type, OWN_WORDS),
    exception("LATENCY HISTOGRAM", Compare::Type, TIME),
    exception("LATENCY DOCTOR", Compare::Type, OWN_WORDS),
    exception("LATENCY HELP", Compare::Type, OWN_WORDS),
    exception("ACL HELP", Compare::Type, OWN_WORDS),
    exception("MODULE HELP", Compare::Type, OWN_WORDS),
    older("ACL LIST", Compare::Type, PAYLOADS),
    older("ACL GETUSER DEFAULT", Compare::Type, PAYLOADS),
    exception("ACL CAT _", Compare::Type, "7.2 has more commands than the oracle"),
    exception("ACL GENPASS", Compare::Type, "it is random"),
    exception("ACL DRYRUN DEFAULT _", Compare::Anything, "7.2 has other commands than the oracle"),
    exception("LASTSAVE", Compare::Type, TIME),
    newer("ROLE", Compare::Shape, "8.2 counts what nobody reads"),
    newer("MODULE LIST", Compare::Type, "8.2 has modules"),
    exception("MODULE LOAD", Compare::Anything, NO_MODULES),
    exception("MODULE LOADEX", Compare::Anything, NO_MODULES),
    exception("MODULE UNLOAD", Compare::Anything, NO_MODULES),
];

/// Wire texts of an oracle that 7.2 has otherwise: the oracle, its words and those of 7.2.
pub const CHANGED_TEXTS: &[(Oracle, &str, &str)] = &[
    // XREAD takes + since 7.4.
    (
        Oracle::Older,
        "Unbalanced XREAD list of streams: for each stream key an ID or '$' must",
        "Unbalanced 'xread' list of streams: for each stream key an ID, '+', or '$' must",
    ),
    // redis/redis pull request 11809.
    (
        Oracle::Older,
        "otherwise the HELLO AUTH <user> <pass> option",
        "otherwise the HELLO <proto> AUTH <user> <pass> option",
    ),
];

/// What 7.2 would have sent instead of these bytes of an oracle.
pub fn modernized(oracle: Oracle, sent: &[u8]) -> Vec<u8> {
    let mut bytes = sent.to_vec();
    if is_stand_in() {
        return bytes;
    }
    for (_, old, new) in CHANGED_TEXTS.iter().filter(|(other, ..)| *other == oracle) {
        let mut from = 0;
        while let Some(at) = bytes[from..].windows(old.len()).position(|w| w == old.as_bytes()) {
            bytes.splice(from + at..from + at + old.len(), new.bytes());
            from += at + new.len();
        }
    }
    bytes
}

/// How the replies to this command are to be compared with those of an oracle.
pub fn compare_for(oracle: Oracle, argv: &Argv) -> Compare {
    let applies = |e: &&Exception| e.oracle.is_none_or(|other| other == oracle) && is_about(e.command, argv);
    EXCEPTIONS.iter().find(applies).map_or(Compare::Exact, |e| e.how.clone())
}

fn is_about(pattern: &str, argv: &Argv) -> bool {
    let is_word = |(at, word): (usize, &str)| match word {
        "$" => argv.0.len() == at,
        "_" => at < argv.0.len(),
        "''" => argv.0.get(at).is_some_and(Vec::is_empty),
        word => argv.upper(at) == word,
    };
    pattern.split(' ').enumerate().all(is_word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::argv;

    #[test]
    fn commands_are_exact_unless_declared() {
        for oracle in Oracle::ALL {
            assert_eq!(compare_for(oracle, &argv!["GET", "ttl"]), Compare::Exact);
            assert_eq!(compare_for(oracle, &argv!["ttl", "x"]), Compare::Within(2));
            assert_eq!(compare_for(oracle, &argv!["Command", "GetKeys", "x", "y"]), Compare::Exact);
        }
        let encoding = argv!["object", "encoding", "x"];
        assert_eq!(compare_for(Oracle::Older, &encoding), Compare::Encoding);
        assert_eq!(compare_for(Oracle::Newer, &encoding), Compare::StringEncoding);
        let rank = argv!["zrank", "key", "member", "x"];
        assert_eq!(
            [Oracle::Older, Oracle::Newer].map(|oracle| compare_for(oracle, &rank)),
            [Compare::Anything, Compare::Exact]
        );
        assert_eq!(compare_for(Oracle::Older, &argv!["zrank", "key", "member"]), Compare::Exact);
        assert_eq!(compare_for(Oracle::Newer, &argv!["sscan", "key", ""]), Compare::Anything);
        assert!(EXCEPTIONS.iter().all(|e| !e.reason.is_empty()));
    }
}
