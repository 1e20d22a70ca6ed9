//! The words that arguments are chosen from: by the argument's name in the syntax line, or else by its kind.

/// Names of arguments, and the words for them, separated by bars.
pub const WORDS: &[(&str, &str)] = &[
    (
        "integer",
        "0|1|2|3|-1|-2|4|5|7|8|10|16|63|64|65|100|127|128|129|255|256|512|1000|4095|4096|32767|32768|65535|65536|\
         2147483647|-2147483648|4294967295|4294967296|9223372036854775807|-9223372036854775808|9223372036854775808|\
         -9223372036854775807|4611686018427387904|18446744073709551615|01|+1|1.0||abc",
    ),
    (
        "double",
        "0|1|-1|2|3|5|1.5|-2.25|0.1|100|1e3|3.0e-5|inf|-inf|+inf|nan|(1|(2|(inf|9007199254740993|1e308|-1e308|5e-324|\
         0x10|-0|12345678901234567|1.7976931348623157e309||abc",
    ),
    (
        "string",
        "a|b|c|d|e|f|g||0|1|-5|12|3.25|10000|9223372036854775807|hello world|e0|e1|e2|e3|e4|e5|e6|e7|e8|e9|\
         {\"x\":[1,null]}|inf|nan|0123456789012345678901234567890123456789abcd|\
         0123456789012345678901234567890123456789abcde",
    ),
    ("pattern", "*|?0|s*|[sl]?|\\*|[^s]*|*0|[|\\|a*|c*|nosuch|h?"),
    ("unix-time-seconds", "1700000001|1700000010|1699999999|1700000100|1800000000|0|-1|9223372036854775807|abc"),
    (
        "unix-time-milliseconds",
        "1700000000001|1700000000010|1699999999999|1700000001000|1700000100000|1800000000000|0|-1|\
         9223372036854775807|abc",
    ),
    ("seconds", "1|2|10|100|100000|0|-1|9223372036854775807|9223372036854775|abc"),
    ("milliseconds ms", "1|2|10|100|1000|100000|0|-1|9223372036854775807|abc"),
    ("ttl", "0|1|10|1000|1700000001000|-1"),
    ("timeout", "0|0.01|0.1|1|10|-1|100|inf|abc"),
    ("db destination-db", "0|1|2|3|0|1|2|3|4|-1|abc"),
    ("cursor", "0|0|0|1|4096|65536|4294967296|18446744073709551615|-1|abc"),
    ("protover", "2|3|3|2|4|1|abc"),
    ("count", "1|2|3|10|0|-1|-2|-5|100|1000|-1000|abc|9223372036854775807"),
    ("limit", "0|1|2|10|100|-1"),
    ("offset", "0|1|2|3|7|8|10|31|100|-1|#0|#1|#7|1000|65535|524287|4294967295|abc"),
    ("encoding", "u8|i8|u1|i5|u16|i16|u32|i32|u63|i64|u64|i65|u0|x8|raw|int"),
    ("bit", "0|1|2"),
    ("start stop end", "0|1|2|-1|-2|5|10|100|-100|9223372036854775807|-9223372036854775808"),
    (
        "min max lower-bound upper-bound",
        "-|+|[a|(a|[b|(c|[e5|[|(|-inf|+inf|inf|0|1|(1|2|(2|5|100|-1|nan|abc|9223372036854775807|1.5",
    ),
    (
        "id stream-id last-id read",
        "1-1|1-2|2-1|5-0|0-0|0|1|5|7-*|*|-|+|$|>|(1-1|(5|1700000000000-0|18446744073709551615-18446744073709551615|\
         18446744073709551615-0|0-1|1-|-1|abc",
    ),
    ("min-idle-time", "0|1|10|1000|-1|abc"),
    ("group groupname", "g1|g1|g2|g1|nosuch|"),
    ("consumer consumername", "c1|c2|c1|c3|"),
    ("producer-id pid", "p1|p2|p1|"),
    ("idempotent-id iid", "i1|i2|i3|i1|"),
    ("weight", "1|2|0|-1|0.5|inf|-inf|nan|abc"),
    ("longitude", "13.361389|15.087269|0|180|-180|181|-122.4|2.35|abc"),
    ("latitude", "38.115556|37.502669|0|85.05112878|-85.05112878|86|37.7|48.85|abc"),
    ("radius height width", "1|10|200|1000|100000|0|-1|1e10|abc"),
    ("channel shardchannel", "a|b|s0|__keyspace@0__:s0|__keyevent@0__:set|"),
    ("message", "m|hello||x"),
    ("section", "all|everything|keyspace|memory|commandstats|clients|pipeline|stats|nosuch|default"),
    ("username", "default|alice|bob|alice|bob|default|nosuch|"),
    ("password", "secret|wrong|"),
    (
        "rule",
        "on|off|nopass|>secret|<secret|#0|resetpass|~*|~s*|%R~*|%W~l*|&*|&a|resetchannels|allchannels|+@all|-@all|+get|\
         -set|+@read|-@write|+config|get|-config|reset|resetkeys|allkeys|nocommands|(+get ~s0)|(~l* +@list)|\
         clearselectors|sanitize-payload|skip-sanitize-payload|+client|id|+@dangerous|+nosuch",
    ),
    ("category", "read|write|string|dangerous|all|nosuch"),
    ("client-id", "@id0|@id1|@id2|@id0|@id1|@id2|0|999999|-1|abc"),
    ("ip", "local:1|127.0.0.1"),
    ("ip:port", "local:1|127.0.0.1:1"),
    ("event", "command|fast-command|expire-cycle|fork|nosuch"),
    ("command command-name", "get|set|GET|mset|eval|xadd|sort|config|config|get|client|nosuch"),
    ("subcommand", "get|set|help|info|nosuch"),
    (
        "debug",
        "digest|digest-value|state-digest|object|sdslen|set-active-expire|sleep|quicklist-packed-threshold|\
         change-repl-id|protocol|log|error|client-eviction|help|listpack|htstats|htstats-key|stringmatch-len|loadaof|\
         reload|nosuch",
    ),
    ("type", "string|list|set|zset|hash|stream|normal|pubsub|nosuch"),
    ("element member value field", ""),
    ("path", "/nonexistent"),
    ("host", "127.0.0.1|no|@none"),
    ("port", "1|one|no"),
    ("name connection-name clientname", "n1|n2||a b"),
    ("option", "yes|no|on|off"),
    ("prefix", "s|l|h|string|"),
    ("ifeq-value ifne-value", "a|b|1|"),
    ("ifdeq-digest ifdne-digest", "0000000000000000|e6c632b61e964e1f|abc"),
    ("function", "f|g|h|nosuch|F"),
    ("library-name", "one|two|nosuch"),
    ("library-name-pattern", "*|o*|[|nosuch"),
    ("len", "1|2|3|10"),
    ("rank", "1|2|-1|-2|0|-9223372036854775808"),
    ("num-matches", "0|1|2|-1"),
    ("entries-read entries-added", "0|1|2|5|-1|9223372036854775807"),
    ("threshold", "1|2|5|100|=|~"),
    ("metric", "CPU|NET|cpu"),
    ("ratio", "1|2|10"),
];

/// Directives for CONFIG SET, and values for them.
pub const DIRECTIVES: &str = "maxmemory|maxmemory-policy|list-max-listpack-size|set-max-intset-entries|\
    set-max-listpack-entries|set-max-listpack-value|hash-max-listpack-entries|hash-max-listpack-value|\
    zset-max-listpack-entries|zset-max-listpack-value|stream-node-max-bytes|stream-node-max-entries|\
    hll-sparse-max-bytes|notify-keyspace-events|pipeline-reply-limit|rdbcompression|slowlog-log-slower-than|\
    slowlog-max-len|latency-tracking|lazyfree-lazy-user-flush|lazyfree-lazy-eviction|maxmemory-samples|\
    maxmemory-eviction-tenacity|tracking-table-max-keys|maxmemory-clients|client-output-buffer-limit|lfu-log-factor|\
    lfu-decay-time|acllog-max-len|acl-pubsub-default|latency-monitor-threshold|min-replicas-to-write|\
    proto-max-bulk-len|nosuch";
pub const DIRECTIVE_VALUES: &str = "0|1|2|4|16|64|-1|-2|-5|128|1000|20000|60000|100kb|200kb|1mb|yes|no|allkeys-lru|\
    allkeys-lfu|allkeys-random|volatile-lru|volatile-lfu|volatile-ttl|volatile-random|noeviction|allkeys-lrm|KEA|KEA|AKE|Kg$|\
    Exl|normal 1000 0 0|pubsub 500 100 0|allchannels|resetchannels||abc";

/// Scripts. Those with loops end soon whatever their arguments are.
pub const SCRIPTS: &[&str] = &[
    "return 1",
    "return redis.call(unpack(ARGV))",
    "return redis.pcall(unpack(ARGV))",
    "return {redis.call('GET', KEYS[1]), redis.call(unpack(ARGV))}",
    "redis.call('SET', KEYS[1], ARGV[1]) error('x')",
    "redis.call('RPUSH', KEYS[1], unpack(ARGV)) return redis.call('LRANGE', KEYS[1], 0, -1)",
    "for i = 1, 20 do redis.call('HSET', KEYS[1], 'f' .. i, i) end return redis.call('HLEN', KEYS[1])",
    "for i = 1, 150 do redis.call('ZADD', KEYS[1], i % 7, i) end return redis.call('ZRANGE', KEYS[1], 0, 3)",
    "for i = 1, 10 do redis.call('XADD', KEYS[1], '*', 'f', i) end return redis.call('XLEN', KEYS[1])",
    "redis.setresp(3) return redis.call(unpack(ARGV))",
    "return {1, 2.5, 'x', false, true, {3, {4}}, {err = 'E my'}, {ok = 'fine'}, {double = 1.5}, {map = {a = 1}}}",
    "local n = 0 for i, v in ipairs(ARGV) do n = n + #v end return n",
    "redis.replicate_commands() redis.set_repl(redis.REPL_ALL) return redis.call('INCR', KEYS[1])",
    "return cjson.encode(cjson.decode(ARGV[1]))",
    "return cmsgpack.unpack(cmsgpack.pack(ARGV))",
    "return redis.sha1hex(ARGV[1])",
    "return struct.pack('>I2s', 7, ARGV[1])",
    "return redis.error_reply(ARGV[1])",
    "return redis.status_reply(ARGV[1])",
    "redis.log(redis.LOG_DEBUG, ARGV[1]) redis.breakpoint() return redis.REDIS_VERSION",
    "#!lua flags=no-writes\nreturn redis.call('GET', KEYS[1])",
    "#!lua flags=allow-oom\nreturn redis.call('SET', KEYS[1], ARGV[1])",
    "#!lua flags=no-writes\nreturn redis.call('SET', KEYS[1], 1)",
    "redis.call('SELECT', ARGV[1]) return redis.call('SET', KEYS[1], 1)",
    "redis.call('PEXPIRE', KEYS[1], ARGV[1]) return redis.call('PTTL', KEYS[1])",
    "redis.call('DEL', KEYS[1]) redis.call('SADD', KEYS[1], unpack(ARGV)) return redis.call('SPOP', KEYS[1])",
    "return redis.acl_check_cmd(unpack(ARGV))",
    "x = 1",
    "a b",
];

/// Libraries of functions.
pub const LIBRARIES: &[&str] = &[
    "#!lua name=one\nredis.register_function('f', function(keys, args) return redis.call(unpack(args)) end)",
    "#!lua name=one\nredis.register_function{function_name = 'g', callback = function(keys) return redis.call('GET', \
     keys[1]) end, flags = {'no-writes'}}",
    "#!lua name=two\nredis.register_function('h', function(keys, args) return redis.call('SET', keys[1], args[1]) end)",
    "#!lua name=two\nredis.register_function('f', function() return 2 end)",
    "#!lua name=three\nx = 1",
    "#!lua\n",
];

/// In a script of an input's own none of these may stand: such a script ends soon, and the log has what it does.
pub const UNBOUNDED: &[&str] = &[
    "while",
    "repeat",
    "for",
    "function",
    "rep",
    "find",
    "match",
    "gsub",
    "unpack",
    "string",
    "table",
    "load",
    "..",
    "pcall",
    "call",
    "goto",
    "metatable",
];
