//! Where the keys of each command stand: the commands of Redis 8.0 and before, as its documentation tells them.

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::values::encode::args_of;

/// The longest name, with the subcommand, that the table has.
const NAME_LEN_MAX: usize = 32;

/// Where the keys stand among the arguments; the command's name is argument 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    /// There are none.
    None,
    /// One key.
    One { at: usize },
    /// Every `step`th argument from `first` to the `behind`th from the end.
    Range { first: usize, behind: usize, step: usize },
    /// Two keys, at 1 and 2.
    Two,
    /// As many as the argument at `count` says, behind it; `also` is one more key before it, if not 0.
    Counted { count: usize, also: usize },
    /// The first half of what follows the word STREAMS.
    Streams,
    /// One key at 1, and one behind each of these words.
    Stored(&'static [&'static str]),
    /// MIGRATE: one at 3, or all behind the word KEYS.
    Migrate,
    /// The subcommand decides.
    Subcommand,
}

/// How the replies of several nodes to one command become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Combine {
    /// All succeed: the first reply.
    Same,
    /// The sum of numbers.
    Sum,
    /// One list of all elements.
    Concat,
    /// A list of flags that are set where all nodes have set them.
    AllSet,
    /// The first that is not nil.
    Any,
    /// One list of names and numbers, with the sum of the numbers.
    SumByName,
    /// SCAN, whose cursor goes through the nodes one after the other.
    Scan,
}

/// What the table knows of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spec {
    pub keys: Keys,
    /// It changes nothing: a replica may answer.
    pub reads: bool,
    /// It goes to all primaries.
    pub all: Option<Combine>,
}

/// Any command that the table does not have: a key first.
const UNKNOWN: Spec = Spec { keys: Keys::One { at: 1 }, reads: false, all: None };

const SORTED: &[&str] = &["STORE"];
const GEO: &[&str] = &["STORE", "STOREDIST"];
const TO_THE_END: Keys = Keys::Range { first: 1, behind: 0, step: 1 };

/// Names, where the keys stand, and whether a replica may answer. A subcommand stands behind its command with a space.
static WITH_KEYS: &[(&str, Keys, bool)] = &[
    (
        "GET,STRLEN,GETRANGE,SUBSTR,GETBIT,BITCOUNT,BITPOS,BITFIELD_RO,TTL,PTTL,EXPIRETIME,PEXPIRETIME,TYPE,DUMP,HGET,\
         HMGET,HGETALL,HKEYS,HVALS,HLEN,HEXISTS,HSTRLEN,HRANDFIELD,HTTL,HPTTL,HEXPIRETIME,HPEXPIRETIME,LLEN,\
         LRANGE,LINDEX,LPOS,SCARD,SISMEMBER,SMISMEMBER,SMEMBERS,SRANDMEMBER,ZCARD,ZCOUNT,ZLEXCOUNT,ZRANGE,\
         ZRANGEBYLEX,ZRANGEBYSCORE,ZREVRANGE,ZREVRANGEBYLEX,ZREVRANGEBYSCORE,ZRANK,ZREVRANK,ZSCORE,ZMSCORE,ZRANDMEMBER,\
         GEODIST,GEOHASH,GEOPOS,GEOSEARCH,GEORADIUS_RO,GEORADIUSBYMEMBER_RO,XLEN,XRANGE,XREVRANGE,XPENDING,\
         SORT_RO,VCARD,VDIM,VEMB,VGETATTR,VINFO,VISMEMBER,VLINKS,VRANDMEMBER,VSIM",
        Keys::One { at: 1 },
        true,
    ),
    (
        "SET,SETNX,SETEX,PSETEX,GETSET,GETDEL,GETEX,APPEND,SETRANGE,SETBIT,BITFIELD,INCR,DECR,INCRBY,DECRBY,INCRBYFLOAT,\
         EXPIRE,PEXPIRE,EXPIREAT,PEXPIREAT,PERSIST,MOVE,RESTORE,RESTORE-ASKING,HSET,HSETNX,HMSET,HDEL,HINCRBY,\
         HINCRBYFLOAT,HEXPIRE,HPEXPIRE,HEXPIREAT,HPEXPIREAT,HPERSIST,HGETDEL,HGETEX,HSETEX,LPUSH,LPUSHX,RPUSH,RPUSHX,\
         LPOP,RPOP,LSET,LREM,LTRIM,LINSERT,SADD,SREM,SPOP,ZADD,ZINCRBY,ZREM,ZREMRANGEBYLEX,ZREMRANGEBYRANK,\
         ZREMRANGEBYSCORE,ZPOPMIN,ZPOPMAX,GEOADD,PFADD,XADD,XDEL,XDELEX,XACKDEL,XTRIM,XACK,XCLAIM,XAUTOCLAIM,XSETID,\
         SPUBLISH,VADD,VREM,VSETATTR",
        Keys::One { at: 1 },
        false,
    ),
    ("MGET,EXISTS,TOUCH,SDIFF,SINTER,SUNION", TO_THE_END, true),
    ("DEL,UNLINK,SDIFFSTORE,SINTERSTORE,SUNIONSTORE,PFCOUNT,PFMERGE,WATCH,SSUBSCRIBE,SUNSUBSCRIBE", TO_THE_END, false),
    ("MSET,MSETNX", Keys::Range { first: 1, behind: 0, step: 2 }, false),
    ("BLPOP,BRPOP,BZPOPMIN,BZPOPMAX", Keys::Range { first: 1, behind: 1, step: 1 }, false),
    ("BITOP", Keys::Range { first: 2, behind: 0, step: 1 }, false),
    ("LCS", Keys::Two, true),
    ("RENAME,RENAMENX,COPY,LMOVE,BLMOVE,RPOPLPUSH,BRPOPLPUSH,SMOVE,ZRANGESTORE,GEOSEARCHSTORE", Keys::Two, false),
    ("ZUNION,ZINTER,ZDIFF,SINTERCARD,ZINTERCARD", Keys::Counted { count: 1, also: 0 }, true),
    ("LMPOP,ZMPOP", Keys::Counted { count: 1, also: 0 }, false),
    ("BLMPOP,BZMPOP,EVAL,EVALSHA,FCALL", Keys::Counted { count: 2, also: 0 }, false),
    ("EVAL_RO,EVALSHA_RO,FCALL_RO", Keys::Counted { count: 2, also: 0 }, true),
    ("ZUNIONSTORE,ZINTERSTORE,ZDIFFSTORE", Keys::Counted { count: 2, also: 1 }, false),
    ("XREAD", Keys::Streams, true),
    ("XREADGROUP", Keys::Streams, false),
    ("SORT", Keys::Stored(SORTED), false),
    ("GEORADIUS,GEORADIUSBYMEMBER", Keys::Stored(GEO), false),
    ("MIGRATE", Keys::Migrate, false),
    (
        "OBJECT,XINFO,XGROUP,MEMORY,PFDEBUG,DEBUG,SCRIPT,FUNCTION,PUBSUB,CLIENT,CONFIG,SLOWLOG,LATENCY,ACL,COMMAND,\
         CLUSTER,MODULE",
        Keys::Subcommand,
        false,
    ),
    ("OBJECT ENCODING,OBJECT FREQ,OBJECT IDLETIME,OBJECT REFCOUNT", Keys::One { at: 2 }, true),
    ("MEMORY USAGE,XINFO STREAM,XINFO GROUPS,XINFO CONSUMERS", Keys::One { at: 2 }, true),
    (
        "XGROUP CREATE,XGROUP SETID,XGROUP DESTROY,XGROUP CREATECONSUMER,XGROUP DELCONSUMER,DEBUG OBJECT,\
         DEBUG LISTPACK,DEBUG ZIPLIST,PFDEBUG GETREG,PFDEBUG DECODE,PFDEBUG ENCODING,PFDEBUG TODENSE",
        Keys::One { at: 2 },
        false,
    ),
    (
        "PING,ECHO,TIME,INFO,LOLWUT,LASTSAVE,ROLE,HELLO,AUTH,SELECT,RESET,QUIT,MULTI,EXEC,DISCARD,UNWATCH,ASKING,\
         READONLY,READWRITE,WAIT,WAITAOF,PUBLISH,SUBSCRIBE,PSUBSCRIBE,UNSUBSCRIBE,PUNSUBSCRIBE,MONITOR,SAVE,BGSAVE,\
         BGREWRITEAOF,SHUTDOWN,FAILOVER,REPLICAOF,SLAVEOF,REPLCONF,SYNC,PSYNC,SWAPDB,PFSELFTEST",
        Keys::None,
        false,
    ),
];

/// What goes to all primaries, and how the replies become one.
static TO_ALL: &[(&str, Combine)] = &[
    (
        "PING,FLUSHALL,FLUSHDB,SCRIPT LOAD,SCRIPT FLUSH,FUNCTION LOAD,FUNCTION DELETE,FUNCTION FLUSH,FUNCTION RESTORE,\
         CONFIG SET,CONFIG RESETSTAT,CONFIG REWRITE,CLIENT SETNAME,SLOWLOG RESET,MEMORY PURGE,ACL SETUSER,ACL SAVE,\
         ACL LOAD",
        Combine::Same,
    ),
    ("DBSIZE,SLOWLOG LEN,LATENCY RESET", Combine::Sum),
    ("KEYS,PUBSUB SHARDCHANNELS", Combine::Concat),
    ("PUBSUB SHARDNUMSUB", Combine::SumByName),
    ("SCRIPT EXISTS", Combine::AllSet),
    ("RANDOMKEY", Combine::Any),
    ("SCAN", Combine::Scan),
];

type Table = HashMap<&'static [u8], Spec, foldhash::fast::RandomState>;

fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut table = Table::default();
        for (names, keys, reads) in WITH_KEYS {
            let spec = Spec { keys: *keys, reads: *reads, all: None };
            table.extend(names.split(',').map(|name| (name.as_bytes(), spec)));
        }
        for (names, combine) in TO_ALL {
            let spec = Spec { keys: Keys::None, reads: false, all: Some(*combine) };
            table.extend(names.split(',').map(|name| (name.as_bytes(), spec)));
        }
        table
    })
}

/// Copies the name in capitals, with the subcommand if there is one; `None` if it is too long for the table.
fn capitals<'a>(room: &'a mut [u8; NAME_LEN_MAX], name: &[u8], subcommand: Option<&[u8]>) -> Option<&'a [u8]> {
    let parts = [name, if subcommand.is_some() { b" " } else { b"" }, subcommand.unwrap_or_default()];
    let mut len = 0;
    for part in parts {
        room.get_mut(len..len + part.len())?.copy_from_slice(part);
        len += part.len();
    }
    let name = &mut room[..len];
    name.make_ascii_uppercase();
    Some(name)
}

/// What is known of the command of this name, in any case of letters. O(length).
pub(crate) fn spec_of_name(name: &[u8]) -> Spec {
    let mut room = [0; NAME_LEN_MAX];
    let spec = capitals(&mut room, name, None).and_then(|name| table().get(name));
    spec.copied().unwrap_or(UNKNOWN)
}

/// What is known of an encoded command, whose subcommand may decide. O(length of both names).
pub(crate) fn spec_of(encoded: &[u8]) -> Spec {
    let mut args = args_of(encoded);
    let name = args.next().unwrap_or_default();
    let spec = spec_of_name(name);
    if spec.keys != Keys::Subcommand {
        return spec;
    }
    let mut room = [0; NAME_LEN_MAX];
    let spec = capitals(&mut room, name, args.next()).and_then(|name| table().get(name));
    spec.copied().unwrap_or(Spec { keys: Keys::None, reads: false, all: None })
}

/// Calls `each` with the keys of an encoded command. O(arguments).
pub(crate) fn each_key<'a>(encoded: &'a [u8], keys: Keys, mut each: impl FnMut(&'a [u8])) {
    let mut args = args_of(encoded);
    match keys {
        Keys::None | Keys::Subcommand => {}
        Keys::One { at } => args.nth(at).into_iter().for_each(each),
        Keys::Two => args.skip(1).take(2).for_each(each),
        Keys::Range { first, behind, step } => {
            let count = args_of(encoded).count().saturating_sub(first + behind);
            args.skip(first).take(count).step_by(step).for_each(each);
        }
        Keys::Counted { count, also } => {
            if also > 0 {
                args_of(encoded).nth(also).into_iter().for_each(&mut each);
            }
            let keys = args.nth(count).and_then(number).unwrap_or(0);
            args.take(keys).for_each(each);
        }
        Keys::Streams => {
            let rest: Vec<&[u8]> = args.skip_while(|arg| !arg.eq_ignore_ascii_case(b"STREAMS")).skip(1).collect();
            rest[..rest.len() / 2].iter().copied().for_each(each);
        }
        Keys::Stored(words) => {
            args.nth(1).into_iter().for_each(&mut each);
            behind_words(args, words).into_iter().for_each(each);
        }
        Keys::Migrate => migrated(&args.collect::<Vec<_>>()).iter().copied().for_each(each),
    }
}

fn number(arg: &[u8]) -> Option<usize> {
    std::str::from_utf8(arg).ok()?.parse().ok()
}

/// The arguments behind any of these words.
fn behind_words<'a>(mut args: impl Iterator<Item = &'a [u8]>, words: &[&str]) -> Vec<&'a [u8]> {
    let mut found = Vec::new();
    while let Some(arg) = args.next() {
        if words.iter().any(|word| arg.eq_ignore_ascii_case(word.as_bytes())) {
            found.extend(args.next());
        }
    }
    found
}

/// The keys of MIGRATE: the one at 3, unless it is empty.
fn migrated<'a, 'b>(args: &'b [&'a [u8]]) -> &'b [&'a [u8]] {
    match args.get(3) {
        None => &[],
        Some([]) => {
            let word = args.iter().position(|arg| arg.eq_ignore_ascii_case(b"KEYS"));
            word.map_or(&[], |at| &args[at + 1..])
        }
        Some(_) => &args[3..4],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::encode::command;

    fn keys(line: &str) -> String {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let mut bytes = Vec::new();
        command(&args, &mut bytes);
        let mut found = Vec::new();
        each_key(&bytes, spec_of(&bytes).keys, |key| found.push(String::from_utf8_lossy(key)));
        found.join(" ")
    }

    #[test]
    fn keys_stand_where_the_documentation_says() {
        for (line, want) in [
            ("get a", "a"),
            ("SET a b", "a"),
            ("MGET a b c", "a b c"),
            ("mset a 1 b 2", "a b"),
            ("BLPOP a b 0", "a b"),
            ("BITOP AND d a b", "d a b"),
            ("RENAME a b", "a b"),
            ("COPY a b DB 0", "a b"),
            ("BLMOVE a b LEFT RIGHT 0", "a b"),
            ("ZUNION 2 a b WEIGHTS 1 2", "a b"),
            ("ZUNIONSTORE d 2 a b WEIGHTS 1 2", "d a b"),
            ("EVAL return 2 a b c", "a b"),
            ("EVALSHA x 0 c", ""),
            ("FCALL f 1 a b", "a"),
            ("LMPOP 2 a b LEFT", "a b"),
            ("BZMPOP 0 1 a MIN", "a"),
            ("XREAD COUNT 2 STREAMS a b 0 0", "a b"),
            ("XREADGROUP GROUP g c BLOCK 0 streams a >", "a"),
            ("SORT a BY p GET q STORE d", "a d"),
            ("GEORADIUS a 1 2 3 m STORE d", "a d"),
            ("GEORADIUSBYMEMBER a m 3 m STOREDIST d", "a d"),
            ("MIGRATE h 1 k 0 10 REPLACE", "k"),
            ("MIGRATE h 1  0 10 REPLACE KEYS a b", "a b"),
            ("OBJECT ENCODING a", "a"),
            ("OBJECT HELP", ""),
            ("XINFO STREAM a FULL", "a"),
            ("XGROUP CREATE a g $", "a"),
            ("MEMORY USAGE a SAMPLES 3", "a"),
            ("MEMORY STATS", ""),
            ("SPUBLISH c m", "c"),
            ("PUBLISH c m", ""),
            ("JSON.SET a $ 1", "a"),
            ("PING", ""),
            ("FLUSHALL", ""),
            ("CONFIG GET x", ""),
            ("ZUNION x a b", ""),
            ("ZUNION", ""),
        ] {
            assert_eq!(keys(line), want, "{line}");
        }
    }

    #[test]
    fn what_is_unknown_has_its_key_first() {
        assert_eq!(spec_of_name(&[b'x'; 100]), UNKNOWN);
        assert_eq!(spec_of_name(b"TS.ADD"), UNKNOWN);
        assert_eq!(spec_of_name(b"client").keys, Keys::Subcommand);
        assert_eq!(spec_of_name(b"Get"), Spec { keys: Keys::One { at: 1 }, reads: true, all: None });
    }
}
