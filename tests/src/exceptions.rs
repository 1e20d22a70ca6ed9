//! The one list of declared differences between Onrush and the oracle. What is not here is compared byte by byte.

use crate::argv::Argv;
use crate::compare::Compare;
use crate::server::is_stand_in;

/// One declared difference.
pub struct Exception {
    /// The command it is about, with its subcommand where that matters; `$` at the end stands for no more arguments.
    pub command: &'static str,
    /// How to compare instead.
    pub how: Compare,
    /// Why.
    pub reason: &'static str,
}

const fn exception(command: &'static str, how: Compare, reason: &'static str) -> Exception {
    Exception { command, how, reason }
}

/// Milliseconds that may pass between a command's arrival at the one server and at the other.
pub const DELAY_MS_MAX: i64 = 2_000;

const TIME: &str = "the two servers get the command at different times";
const OWN_WORDS: &str = "help texts are in Onrush's own words";
const HASH_ORDER: &str = "the order of keys follows the hash function";
const SCORES: &str = "7.2 spells scores with as few digits as tell them apart, the oracle with 17";
const INTERNAL: &str = "depends on the server's insides";

/// All declared differences. The first that matches counts.
pub const EXCEPTIONS: &[Exception] = &[
    exception("TTL", Compare::Within(2), TIME),
    exception("PTTL", Compare::Within(DELAY_MS_MAX), TIME),
    exception("EXPIRETIME", Compare::Within(2), TIME),
    exception("PEXPIRETIME", Compare::Within(DELAY_MS_MAX), TIME),
    exception("OBJECT IDLETIME", Compare::Within(2), TIME),
    exception("TIME", Compare::Shape, TIME),
    exception("RANDOMKEY", Compare::Type, "it is random"),
    exception("KEYS", Compare::Unordered, HASH_ORDER),
    exception("SCAN", Compare::Anything, "cursors differ; whole scans are compared by SCANALL"),
    exception("OBJECT REFCOUNT", Compare::Type, "Onrush shares no integers"),
    exception("OBJECT ENCODING", Compare::Encoding, "small sets and lists are listpacks in 7.2"),
    exception("SMEMBERS", Compare::Unordered, HASH_ORDER),
    exception("SINTER", Compare::Unordered, HASH_ORDER),
    exception("SUNION", Compare::Unordered, HASH_ORDER),
    exception("SDIFF", Compare::Unordered, HASH_ORDER),
    exception("HGETALL", Compare::Unordered, HASH_ORDER),
    exception("HKEYS", Compare::Unordered, HASH_ORDER),
    exception("HVALS", Compare::Unordered, HASH_ORDER),
    exception("HSCAN", Compare::Unordered, HASH_ORDER),
    exception("HRANDFIELD", Compare::Shape, "it is random"),
    exception("ZRANDMEMBER", Compare::Shape, "it is random"),
    exception("ZSCAN", Compare::Unordered, HASH_ORDER),
    exception("ZADD", Compare::Numbers, SCORES),
    exception("ZINCRBY", Compare::Numbers, SCORES),
    exception("ZSCORE", Compare::Numbers, SCORES),
    exception("ZMSCORE", Compare::Numbers, SCORES),
    exception("ZRANGE", Compare::Numbers, SCORES),
    exception("ZREVRANGE", Compare::Numbers, SCORES),
    exception("ZRANGEBYSCORE", Compare::Numbers, SCORES),
    exception("ZREVRANGEBYSCORE", Compare::Numbers, SCORES),
    exception("ZPOPMIN", Compare::Numbers, SCORES),
    exception("ZPOPMAX", Compare::Numbers, SCORES),
    exception("ZMPOP", Compare::Numbers, SCORES),
    exception("BZPOPMIN", Compare::Numbers, SCORES),
    exception("BZPOPMAX", Compare::Numbers, SCORES),
    exception("BZMPOP", Compare::Numbers, SCORES),
    exception("ZUNION", Compare::Numbers, SCORES),
    exception("ZINTER", Compare::Numbers, SCORES),
    exception("ZDIFF", Compare::Numbers, SCORES),
    exception("XINFO STREAM", Compare::Type, "7.2 tells more of consumers, and of radix trees there are none"),
    exception("XINFO GROUPS", Compare::Shape, "7.2 makes a consumer whether or not there is something to read"),
    exception("XGROUP CREATECONSUMER", Compare::Type, "7.2 makes a consumer whether or not there is something to read"),
    exception("XINFO CONSUMERS", Compare::Type, "7.2 tells more of consumers"),
    exception("XPENDING", Compare::Shape, TIME),
    exception("SPOP", Compare::Unordered, "it is random"),
    exception("SRANDMEMBER", Compare::Shape, "it is random"),
    exception("SSCAN", Compare::Unordered, HASH_ORDER),
    exception("OBJECT FREQ", Compare::Type, "the access counter grows by chance"),
    exception("MEMORY USAGE", Compare::Type, INTERNAL),
    exception("HELLO", Compare::FieldsExcept(&["version", "id"]), "versions and client ids differ"),
    exception("CLIENT ID", Compare::Type, "client ids differ"),
    exception("CLIENT LIST", Compare::Type, "ids, addresses, ages and buffer sizes differ"),
    exception(
        "CLIENT INFO",
        Compare::Words(&[
            "name", "flags", "db", "sub", "psub", "ssub", "multi", "events", "cmd", "user", "redir", "resp",
        ]),
        "ids, addresses, ages and buffer sizes differ, and 7.2 has more fields than the oracle",
    ),
    exception("INFO", Compare::Type, INTERNAL),
    exception("COMMAND INFO$", Compare::Type, "7.2 has more commands than the oracle"),
    exception("CONFIG GET", Compare::Pairs, HASH_ORDER),
    exception("COMMAND INFO", Compare::CommandInfo, "7.2 has other tips and subcommands than the oracle"),
    exception("COMMAND COUNT", Compare::Type, "7.2 has more commands than the oracle"),
    exception("COMMAND LIST", Compare::Type, "7.2 has more commands than the oracle"),
    exception("COMMAND DOCS", Compare::Type, "summaries are in Onrush's own words"),
    exception("COMMAND HELP", Compare::Type, OWN_WORDS),
    exception("COMMAND$", Compare::Type, "7.2 has more commands than the oracle"),
    exception("CLIENT HELP", Compare::Type, OWN_WORDS),
    exception("CONFIG HELP", Compare::Type, OWN_WORDS),
    exception("OBJECT HELP", Compare::Type, OWN_WORDS),
    exception("MEMORY HELP", Compare::Type, OWN_WORDS),
    exception("XGROUP HELP", Compare::Type, OWN_WORDS),
    exception("XINFO HELP", Compare::Type, OWN_WORDS),
    exception("DEBUG HELP", Compare::Type, OWN_WORDS),
];

/// Wire texts of the oracle, which is a 7.0, that 7.2 has changed: the old words and the new ones.
pub const CHANGED_TEXTS: &[(&str, &str)] = &[
    ("Unbalanced XREAD list of streams", "Unbalanced 'xread' list of streams"),
    // redis/redis pull request 11809.
    ("otherwise the HELLO AUTH <user> <pass> option", "otherwise the HELLO <proto> AUTH <user> <pass> option"),
];

/// What 7.2 would have sent instead of these bytes of the oracle.
pub fn modernized(oracle: &[u8]) -> Vec<u8> {
    let mut bytes = oracle.to_vec();
    if is_stand_in() {
        return bytes;
    }
    for (old, new) in CHANGED_TEXTS {
        let mut from = 0;
        while let Some(at) = bytes[from..].windows(old.len()).position(|w| w == old.as_bytes()) {
            bytes.splice(from + at..from + at + old.len(), new.bytes());
            from += at + new.len();
        }
    }
    bytes
}

/// How the replies to this command are to be compared.
pub fn compare_for(argv: &Argv) -> Compare {
    let (name, sub) = (argv.upper(0), argv.upper(1));
    let applies = |e: &&Exception| {
        let (words, alone) = match e.command.strip_suffix('$') {
            Some(words) => (words, true),
            None => (e.command, false),
        };
        let (command, subcommand) = words.split_once(' ').unwrap_or((words, ""));
        let words_len = if subcommand.is_empty() { 1 } else { 2 };
        let named = command == name && (words_len == 1 || subcommand == sub);
        named && (!alone || argv.0.len() == words_len)
    };
    EXCEPTIONS.iter().find(applies).map_or(Compare::Exact, |e| e.how.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::argv;

    #[test]
    fn commands_are_exact_unless_declared() {
        assert_eq!(compare_for(&argv!["GET", "ttl"]), Compare::Exact);
        assert_eq!(compare_for(&argv!["ttl", "x"]), Compare::Within(2));
        assert_eq!(compare_for(&argv!["object", "encoding", "x"]), Compare::Encoding);
        assert_eq!(compare_for(&argv!["Command", "GetKeys", "x"]), Compare::Exact);
        assert!(EXCEPTIONS.iter().all(|e| !e.reason.is_empty()));
    }
}
