//! Random arguments by kind, chosen so that commands meet on the same keys and at the limits.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::grammar::Words;
use crate::rng::Rng;

/// Makes random arguments of every kind that [`crate::families`] names.
pub struct Arguments {
    now_ms: i64,
}

const INTEGERS: &[&str] = &[
    "0",
    "1",
    "-1",
    "2",
    "5",
    "10",
    "-7",
    "100",
    "1000",
    "12345",
    "9999",
    "10000",
    "2147483647",
    "2147483648",
    "-2147483649",
    "4294967296",
    "9223372036854775806",
    "9223372036854775807",
    "-9223372036854775807",
    "-9223372036854775808",
];

const NOT_INTEGERS: &[&str] = &[
    "",
    " ",
    "abc",
    "1.5",
    "1.0",
    "9223372036854775808",
    "-9223372036854775809",
    "18446744073709551616",
    "0x10",
    " 1",
    "1 ",
    "+1",
    "1e3",
    "-0",
    "00",
    "007",
    "-",
    "--1",
    "99999999999999999999999999",
    "inf",
    "nan",
    "1\r\n2",
];

const FLOATS: &[&str] = &[
    "0",
    "1",
    "-1",
    "0.1",
    "0.2",
    "0.3",
    "1.5",
    "-2.25",
    "3.0",
    "10.5",
    "5.0e3",
    "1e3",
    "200",
    "1e17",
    "-1e17",
    "1e-5",
    "3.14159265358979",
    "0.000001",
    "123456789.987654321",
    "-0.0",
    "1e19",
    "9007199254740993",
    ".5",
    "5.",
];

const NOT_FLOATS: &[&str] = &[
    "", " ", "abc", "1.5x", " 1.5", "1.5 ", "nan", "inf", "-inf", "+inf", "infinity", "1e5000", "--1", "1,5", "1e",
    "e5", "1.5\0", "0x", "1..2",
];

/// Payloads that DUMP of redis-server 7.0 returns for a value of each type, for RESTORE.
const PAYLOADS: &[&[u8]] = &[
    b"\x00\x05hello\n\x00cr\xdfve4 \n",
    b"\x00\xc0*\n\x00\x81\xfb\\\xfa\x86cOP",
    b"\x12\x01\x02\x0f\x0f\x00\x00\x00\x03\x00\x81a\x02\x81b\x02\x03\x01\xff\n\x00\xdc\xa1\xe6}P\x05PH",
    b"\x0b\x0e\x02\x00\x00\x00\x03\x00\x00\x00\x01\x00\x02\x00\x03\x00\n\x00\xa5\x02\\\xe2mnM\x1b",
    b"\x02\x02\x01a\x01b\n\x00\xfed!%\xeb\x03=\r",
    b"\x11\x14\x14\x00\x00\x00\x04\x00\x81a\x02\x01\x01\x81b\x02\x832.5\x04\xff\n\x00\xd4Ln\xa4\xf6D\xd9\xd7",
    b"\x10\x12\x12\x00\x00\x00\x04\x00\x81f\x02\x81v\x02\x81g\x02\x01\x01\xff\n\x00#\xc1\xa5\xe3]\xfa\xe8\x1c",
];

const PATTERNS: &[&str] = &[
    "*", "a*", "*b", "?", "k?*", "[abc]", "[^a]", "[a-c]*", "\\*", "k{1}", "", "nothing*", "**", "*[b-", "k[0-9]",
    "[c-a]", "\\", "[\\a]", "[", "[]", "*\n*",
];

const NAMES: &[&str] = &["foo", "", "with blank", "new\nline", "nonsense", "a-b_c.d", "é", "%s%n", "'quoted'"];

const COMMANDS: &[&str] = &[
    "get",
    "SET",
    "mset",
    "msetnx",
    "mget",
    "del",
    "copy",
    "rename",
    "lcs",
    "getex",
    "expire",
    "object",
    "object|encoding",
    "incr",
    "append",
    "setrange",
    "getdel",
    "exists",
    "touch",
    "unlink",
    "ping",
    "echo",
    "select",
    "move",
    "ttl",
    "client",
    "client|list",
    "config|get",
    "config",
    "command",
    "flushall",
    "swapdb",
    "scan",
    "keys",
    "dbsize",
    "type",
    "nosuch",
    "incrbyfloat",
    "getrange",
    "hello",
    "auth",
    "quit",
    "reset",
    "time",
    "role",
    "persist",
    "randomkey",
    "object|nosuch",
];

const PARAMETERS: &[&str] = &[
    "maxmemory",
    "maxmemory-policy",
    "timeout",
    "databases",
    "hz",
    "proto-max-bulk-len",
    "client-query-buffer-limit",
    "lazyfree-lazy-user-del",
    "tcp-keepalive",
    "maxclients",
    "hash-max-listpack-entries",
    "hash-max-ziplist-entries",
    "zset-max-listpack-value",
    "set-max-intset-entries",
    "list-max-listpack-size",
    "appendfsync",
    "appendonly",
    "save",
    "no-such-parameter",
    "MAXMEMORY",
    "slowlog-max-len",
    "requirepass",
    "maxmemory-samples",
    "slowlog-*",
    "h[az]*",
    "bind",
    "",
    "lfu-log-factor",
    "active-expire-effort",
    "port-not",
    "unixsocket",
    "tcp-backlog",
    "dbfilename",
    "daemonize",
];

/// Arguments that are one of a few words, separated by `|`.
const KINDS: &[(&str, &str)] = &[
    (
        "script",
        "return 1|return KEYS|return ARGV|return {KEYS[1], ARGV[1]}|return redis.call('INCR', KEYS[1])|return redis.call('SET', KEYS[1], ARGV[1])|return redis.call('GET', KEYS[1])|return redis.pcall('LPUSH', KEYS[1], ARGV[1])|redis.call('SET', KEYS[1], 1) error('x')|return redis.call('NOSUCH')|return {err = 'MY error'}|return {ok = 'fine'}|redis.setresp(3) return redis.call('HGETALL', KEYS[1])|x = 1|return x|a b|#!lua flags=no-writes\nreturn redis.call('SET', KEYS[1], 1)|#!lua flags=bad\nreturn 1|return cjson.encode(KEYS)|local n = 0 for i = 1, 100 do n = n + i end return n|return tonumber(ARGV[1]) or -1|",
    ),
    (
        "sha",
        "e0e1f9fabfc9d4800c877a703b823ac0578ff8db|D3ED5FFF0309732DCBCEA78573FD99627F2FEEE9|4cf2342858f27cba86b2b790280b0ba54885a7d0|d006f1a90249474274c76f5be725b8f5804a346b|61636018f4e6b5817b89791bbed242f93fa089e3|d8f2fad9f8e86a53d2a6ebd960b33c4972cacc37|0000000000000000000000000000000000000000|abc",
    ),
    (
        "library-code",
        "#!lua name=one\nredis.register_function('f', function(keys, args) return {keys[1], args[1]} end)|#!lua name=one\nredis.register_function{function_name = 'f', callback = function(keys) return redis.call('GET', keys[1]) end, flags = {'no-writes'}}|#!lua name=two\nredis.register_function('g', function(keys, args) return redis.call('SET', keys[1], args[1]) end)|#!lua name=two\nredis.register_function('f', function() return 2 end)|#!lua name=three\nx = 1|#!lua name=three\na b|#!lua\n|x|",
    ),
    ("library", "one|two|three|ONE|"),
    ("function", "f|g|F|nosuch|"),
    ("numkeys", "0|1|1|1|2|-1|abc|99999999999999999999|"),
    ("db", "0|0|0|1|1|9|15|16|-1|abc||99999999999|01"),
    ("cursor", "0|0|5|abc||-1|18446744073709551616|1.5| 0|0 "),
    ("count", "1|2|10|100|1000000"),
    ("type", "string|STRING|list|hash|zset|stream|set"),
    ("proto", "2|3|3|1|4|abc||03|-3"),
    ("chan", "ab|ab|bc|x|a|"),
    ("chan-pattern", "a*|a*|b?|y*"),
    ("user", "default|default|nobody|"),
    ("user-rare", "nobody||somebody"),
    ("pass", "secret|secret|wrong||secret "),
    ("client-type", "normal|master|replica|slave|pubsub|nosuch|NORMAL|"),
    ("client-type-rare", "master|replica|pubsub|nosuch|"),
    ("id", "0|-1|999999999|abc||1.5|9223372036854775808"),
    ("addr", "127.0.0.1:1|nonsense||[::1]:99|0.0.0.0:0"),
    ("yes-no", "yes|no|YES|maybe||1"),
    ("category", "string|keyspace|fast|nosuch|@read|"),
    ("policy", "noeviction|allkeys-lru|volatile-lru|volatile-ttl|allkeys-random|ALLKEYS-LRU|nosuch|"),
    ("memory", "0|1gb|100mb|2G|1000000kb|-1|abc||1.5gb|100000000|12xb"),
    ("timeout", "0|1000|2000|-1|abc||99999999999|1.5"),
    (
        "small-int",
        "0|1|2|3|4|5|6|7|8|9|10|-1|-5|30000|40000|-40000|3000000000|-9223372036854775808|9223372036854775807",
    ),
    (
        "member",
        "1|2|3|4|5|-1|a|b|c|d|e|f|g|a|b|c|d|hello world||member:with:a:name:that:is:longer:than:64:bytes:so:that:it:does:not:fit|01|1.5",
    ),
    (
        "random-count",
        "0|1|2|3|5|10|100|-1|-2|-3|-5|-10|abc||9223372036854775807|-9223372036854775808|9223372036854775808|1.5",
    ),
    ("few", "0|1|2|3|5|10|100|-1|-2|-3|-5|-10|abc||9223372036854775807|-9223372036854775808|9223372036854775808|1.5"),
    ("numkeys", "1|1|2|2|3|0|-1|abc||4|9223372036854775807"),
    ("limit", "0|1|2|3|10|-1|abc|9223372036854775807"),
    ("all", "1000000"),
    ("weight-key", "w_1|w_2|w_3|w_4|w_5|w_10|w_a|w_b|w_-1"),
    ("weight-hash", "h_1|h_2|h_3|h_4|h_a"),
    ("sort-by", "w_*|w_*|h_*->f|nosort|h_*->|*|w_1|w_*->f|"),
    ("sort-get", "#|w_*|h_*->f|nothing|w_*->x|*"),
    ("plain-key", "a|b|c|d|a|b|long:name:of:a:stream"),
    (
        "new-id",
        "1-1|1-2|2-1|2-*|3-1|3-2|4|5-*|5-5|6-0|7-*|8-1|9-9|10-*|11|12-3|15-*|20-1|0-0|0-1|abc|1-|-1|18446744073709551615-18446744073709551615|1-abc|",
    ),
    ("stream-id", "1-1|1-2|2-1|2-0|3-1|3-2|4-0|5-0|5-5|6-0|7-0|8-1|10|11-0|0|abc|1-x"),
    ("stream-bound", "-|+|-|+|1|2-1|3|(2|(5-5|6|10|(3-1|abc|(-|(+|(18446744073709551615-18446744073709551615"),
    ("read-id", "0|0-0|1-1|2|3-1|5|8|$|>|abc|10"),
    ("last-id", "+|+|+|0|2-1|$|++"),
    ("group", "g1|g1|g1|g2|nogroup"),
    ("consumer", "c1|c1|c2|c3"),
    ("group-start", "0|0|$|2-1|5|abc"),
    ("group-read", ">|>|>|0|2-1|$|abc"),
    ("trim-mark", "=|~"),
    ("limit-id", "0|1|2|3|5|10|-1|abc"),
    ("bit", "0|1|0|1|2|-1|abc|"),
    (
        "bit-offset",
        "0|1|2|7|8|9|15|16|31|64|100|300|#0|#1|#2|-1|abc||4294967296|9223372036854775807|#9223372036854775807|#",
    ),
    ("width", "u8|u8|i8|u1|i1|u16|i5|u63|i64|u64|i65|u0|i0|x8|8||i|u07"),
    ("overflow", "WRAP|SAT|FAIL|sat|NONE"),
    ("score", "0|1|2|3|4|5|-1|-2.5|0.5|1.25|100|1e3|inf|-inf|+inf|nan|abc||1|2|3"),
    ("score-bound", "0|1|2|3|4|(1|(2|(3|-inf|+inf|inf|-inf|+inf|(-inf|abc|(|-1|2.5|1e400"),
    ("lex-bound", "-|+|-|+|[a|[b|[c|(a|(b|(d|[|(|abc|[2|(3|[hello"),
    (
        "longitude",
        "13.361389|15.087269|2.3522|-0.1278|-74.006|139.6917|179.99|-179.99|0|180|-180|13.4|13.36|181|abc|nan|",
    ),
    ("latitude", "38.115556|37.502669|48.8566|51.5074|40.7128|35.6895|0|85.05112878|-85.05112878|-33.8688|38.1|86|x|"),
    ("place", "Palermo|Catania|Paris|London|New York|Tokyo|e|w|a|b"),
    ("distance", "0|1|100|200|500|1500|5000|20000|1e5|-1|abc|nan"),
    ("unit", "m|km|km|km|ft|mi|KM|xx"),
    ("positive", "1|2|3|5|10|0|-1|abc"),
    ("hll-word", "GETREG|DECODE|ENCODING|TODENSE|encoding|nosuch"),
    ("aggregate", "SUM|MIN|MAX|sum|AVG"),
    ("rank", "0|1|2|3|5|-1|-2|-3|abc||9223372036854775807|-9223372036854775807|1.5"),
    ("small-index", "0|0|1|2|3|5|7|10|-1|-1|-2|-3|-5|-8|100|-100|abc|9223372036854775807|-9223372036854775808"),
    ("slow-us", "0|0|0|-1|100000000"),
    ("slow-len", "1|3|128"),
    ("slow-ms", "0|100000"),
    ("slow-count", "-1|0|1|3|200|-2|abc|"),
    ("event", "command|fast-command|expire-cycle|nosuch|"),
    ("replicas", "0|0|1|2|-1|abc||1.5"),
    ("wait-ms", "1|2|5|-1|abc||1.5"),
    ("wait", "abc|-1||-0.5|nan"),
    ("scan-start", "0|0|0|abc|-||1.5|18446744073709551616"),
    ("value-short", "1|2|-5|x|yy|hello|1.5|10|3.0e3||abc|9223372036854775807|a value of twenty-one."),
    ("limit-zero", "0|-1|abc|9223372036854775808"),
    ("config-pair", "maxmemory|hz|timeout|nosuch"),
    ("section", "server|clients|memory|keyspace|stats|all|everything|default|nosuch|"),
];

impl Default for Arguments {
    fn default() -> Self {
        Arguments::new()
    }
}

impl Arguments {
    /// Arguments for now: Unix times lie around the present.
    pub fn new() -> Arguments {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock behind 1970");
        Arguments { now_ms: now.as_millis() as i64 }
    }

    fn key(rng: &mut Rng) -> Vec<u8> {
        match rng.below(40) {
            0 => Vec::new(),
            1 => b"bin\0\xff\r\nkey".to_vec(),
            2 => vec![b'K'; one_of(rng, &[44, 300, 70_000])],
            3..6 => rng.pick(&["k{1}", "k2", "some:longer:name:of:a:key"]).into(),
            _ => rng.pick(&["a", "b", "c", "d"]).into(),
        }
    }

    fn value(rng: &mut Rng) -> Vec<u8> {
        match rng.below(20) {
            0..4 => rng.pick(INTEGERS).into(),
            4 => rng.pick(FLOATS).into(),
            5 => rng.pick(NOT_INTEGERS).into(),
            6 | 7 => Vec::new(),
            8..10 => Self::bytes(rng, &[43, 44, 45, 63, 64, 65]),
            10 => Self::bytes(rng, &[511, 512, 513]),
            11 if rng.percent(40) => Self::bytes(rng, &[16_383, 16_384, 16_385, 40_000]),
            _ => Self::bytes(rng, &[1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 18, 20, 21, 24]),
        }
    }

    /// Text of few letters, so that LCS finds something, or now and then any bytes.
    fn bytes(rng: &mut Rng, lens: &[usize]) -> Vec<u8> {
        let len = one_of(rng, lens);
        let binary = rng.percent(15);
        let byte = |rng: &mut Rng| {
            if binary { rng.next_u64() as u8 } else { b"abcde"[rng.below(5)] }
        };
        (0..len).map(|_| byte(rng)).collect()
    }

    fn number(rng: &mut Rng, good: &[&str], bad: &[&str]) -> Vec<u8> {
        match rng.below(10) {
            0 => rng.pick(bad).into(),
            1..5 => rng.pick(good).into(),
            _ => rng.between(-20, 20).to_string().into_bytes(),
        }
    }

    /// Indexes into strings; never such that a string would grow beyond 100 kB.
    fn offset(rng: &mut Rng) -> Vec<u8> {
        match rng.below(12) {
            0 => rng.pick(NOT_INTEGERS).into(),
            1 => rng
                .pick(&["536870912", "4294967296", "9223372036854775807", "-9223372036854775808", "2147483648"])
                .into(),
            2 => rng.pick(&["44", "43", "45", "500", "16384", "40000", "-16384", "-40000", "90000"]).into(),
            _ => rng.between(-8, 30).to_string().into_bytes(),
        }
    }

    /// A length of time in units of `1/per_s` seconds: far away, long ago, or wrong, but never soon.
    fn duration(rng: &mut Rng, per_s: i64) -> Vec<u8> {
        match rng.below(14) {
            0 => rng.pick(NOT_INTEGERS).into(),
            1 => rng
                .pick(&[
                    "9223372036854775807",
                    "-9223372036854775808",
                    "9223372036854775",
                    "9223372036854776",
                    "-9223372036854775",
                    "-9223372036854776",
                    "9223370000000000",
                    "9223370000000000000",
                    "99999999999",
                ])
                .into(),
            2 => b"0".to_vec(),
            3 => b"-1".to_vec(),
            4 => (-per_s * rng.between(1, 100_000)).to_string().into_bytes(),
            _ => (per_s * rng.between(100, 200_000)).to_string().into_bytes(),
        }
    }

    fn unix_time(&self, rng: &mut Rng, per_s: i64) -> Vec<u8> {
        if rng.percent(20) {
            return Self::duration(rng, per_s);
        }
        let now = self.now_ms / 1000 * per_s;
        (now + per_s * rng.between(100, 200_000)).to_string().into_bytes()
    }
}

impl Words for Arguments {
    fn word(&mut self, rng: &mut Rng, name: &str) -> Option<Vec<u8>> {
        let words = match name {
            "key" => return Some(Self::key(rng)),
            "value" => return Some(Self::value(rng)),
            "number" if rng.percent(50) => return Some(Self::number(rng, FLOATS, NOT_FLOATS)),
            "number" | "int" => return Some(Self::number(rng, INTEGERS, NOT_INTEGERS)),
            "float" => return Some(Self::number(rng, FLOATS, NOT_FLOATS)),
            "offset" => return Some(Self::offset(rng)),
            "seconds" => return Some(Self::duration(rng, 1)),
            "ms" => return Some(Self::duration(rng, 1000)),
            "unix-s" => return Some(self.unix_time(rng, 1)),
            "unix-ms" => return Some(self.unix_time(rng, 1000)),
            "payload" if rng.percent(90) => return Some(rng.pick(PAYLOADS).into()),
            "payload" => return Some(Self::value(rng)),
            "element" => return Some(rng.between(0, 5_000).to_string().into_bytes()),
            "pattern" => PATTERNS,
            "name" => NAMES,
            "command" => COMMANDS,
            "param" => PARAMETERS,
            _ => {
                let (_, words) = KINDS.iter().find(|(kind, _)| *kind == name)?;
                let words: Vec<&str> = words.split('|').collect();
                return Some(rng.pick(&words).into());
            }
        };
        Some(rng.pick(words).into())
    }

    fn junk(&mut self, rng: &mut Rng) -> Vec<u8> {
        let mut junk: Vec<u8> = match rng.below(5) {
            0 => rng.pick(NOT_INTEGERS).into(),
            1 => rng.pick(INTEGERS).into(),
            2 => rng
                .pick(&["NX", "XX", "GET", "EX", "KEEPTTL", "REPLACE", "DB", "COUNT", "MATCH", "LEN", "bogus", "ASYNC"])
                .into(),
            3 => Self::key(rng),
            _ => Self::value(rng),
        };
        junk.truncate(300);
        // As a time to live, a small number would make the key expire while the servers are compared.
        if std::str::from_utf8(&junk).is_ok_and(|text| text.parse().is_ok_and(|n| (1..10_000).contains(&n))) {
            return b"0".to_vec();
        }
        // The oracle's error texts end a word at its first NUL, which is not worth copying.
        junk.iter_mut().filter(|byte| **byte == 0).for_each(|byte| *byte = b'0');
        junk
    }
}

fn one_of(rng: &mut Rng, numbers: &[usize]) -> usize {
    numbers[rng.below(numbers.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_random_string_grows_beyond_bounds() {
        let mut rng = Rng::new(9);
        for _ in 0..10_000 {
            let text = String::from_utf8_lossy(&Arguments::offset(&mut rng)).into_owned();
            let grows = text.parse::<i64>().is_ok_and(|n| (100_000..536_870_912).contains(&n));
            assert!(!grows, "SETRANGE at {text} would need a lot of memory");
        }
    }
}
