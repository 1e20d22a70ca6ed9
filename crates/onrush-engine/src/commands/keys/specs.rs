//! Rows of the command table: the commands on keys of any type and on whole databases.

use crate::command::key_spec::{BeginSearch, FindKeys};
use crate::command::spec::{Group, KeySpec, Spec};
use crate::commands::keys::{self, dump, expire, flush, migrate, scan};
use crate::commands::strings::ExpiryUnit;

/// The commands on keys of any type and on whole databases.
pub(crate) static SPECS: &[Spec] = &[
    Spec::generic("del", "1.0.0", -2, "write", keys::del)
        .syntax("key [key ...]")
        .summary("Deletes keys.")
        .complexity("O(N), N the number of keys, and O(M) for a collection of M elements")
        .keys(&[KeySpec::keys("RM delete", 1, -1, 1)])
        .tips("request_policy:multi_shard response_policy:agg_sum"),
    Spec::generic("unlink", "4.0.0", -2, "write fast", keys::del)
        .syntax("key [key ...]")
        .summary("Deletes keys; large values are freed in the background.")
        .complexity("O(1) per key; freeing takes O(M) in another thread, M the number of elements")
        .keys(&[KeySpec::keys("RM delete", 1, -1, 1)])
        .tips("request_policy:multi_shard response_policy:agg_sum"),
    Spec::generic("exists", "1.0.0", -2, "readonly fast short", keys::exists)
        .syntax("key [key ...]")
        .summary("Counts how many of the keys exist; a key named twice counts twice.")
        .complexity("O(N), N the number of keys")
        .keys(&[KeySpec::keys("RO", 1, -1, 1)])
        .tips("request_policy:multi_shard response_policy:agg_sum")
        .history(&[("3.0.3", "Several keys.")]),
    Spec::generic("touch", "3.2.1", -2, "readonly fast", keys::touch)
        .syntax("key [key ...]")
        .summary("Refreshes the access times of keys and counts those that exist.")
        .complexity("O(N), N the number of keys")
        .keys(&[KeySpec::keys("RO", 1, -1, 1)])
        .tips("request_policy:multi_shard response_policy:agg_sum"),
    Spec::generic("type", "1.0.0", 2, "readonly fast short", keys::type_)
        .syntax("key")
        .summary("Returns the type of a key's value.")
        .key("RO"),
    Spec::generic("expire", "1.0.0", -3, "write fast short", |ctx| expire::expire(ctx, ExpiryUnit::Ex))
        .syntax("key seconds [NX | XX | GT | LT]")
        .summary("Makes a key expire after some seconds.")
        .key("RW update")
        .history(&[("7.0.0", "Options `NX`, `XX`, `GT` and `LT`.")]),
    Spec::generic("pexpire", "2.6.0", -3, "write fast short", |ctx| expire::expire(ctx, ExpiryUnit::Px))
        .syntax("key milliseconds [NX | XX | GT | LT]")
        .summary("Makes a key expire after some milliseconds.")
        .key("RW update")
        .history(&[("7.0.0", "Options `NX`, `XX`, `GT` and `LT`.")]),
    Spec::generic("expireat", "1.2.0", -3, "write fast short", |ctx| expire::expire(ctx, ExpiryUnit::ExAt))
        .syntax("key unix-time-seconds [NX | XX | GT | LT]")
        .summary("Makes a key expire at a Unix time in seconds.")
        .key("RW update")
        .history(&[("7.0.0", "Options `NX`, `XX`, `GT` and `LT`.")]),
    Spec::generic("pexpireat", "2.6.0", -3, "write fast short", |ctx| expire::expire(ctx, ExpiryUnit::PxAt))
        .syntax("key unix-time-milliseconds [NX | XX | GT | LT]")
        .summary("Makes a key expire at a Unix time in milliseconds.")
        .key("RW update")
        .history(&[("7.0.0", "Options `NX`, `XX`, `GT` and `LT`.")]),
    Spec::generic("ttl", "1.0.0", 2, "readonly fast short", |ctx| expire::ttl(ctx, ExpiryUnit::Ex))
        .syntax("key")
        .summary("Returns the seconds until a key expires.")
        .key("RO access")
        .tips("nondeterministic_output")
        .history(&[("2.8.0", "-2 for an absent key.")]),
    Spec::generic("pttl", "2.6.0", 2, "readonly fast short", |ctx| expire::ttl(ctx, ExpiryUnit::Px))
        .syntax("key")
        .summary("Returns the milliseconds until a key expires.")
        .key("RO access")
        .tips("nondeterministic_output")
        .history(&[("2.8.0", "-2 for an absent key.")]),
    Spec::generic("expiretime", "7.0.0", 2, "readonly fast short", |ctx| expire::ttl(ctx, ExpiryUnit::ExAt))
        .syntax("key")
        .summary("Returns the Unix time in seconds at which a key expires.")
        .key("RO access"),
    Spec::generic("pexpiretime", "7.0.0", 2, "readonly fast short", |ctx| expire::ttl(ctx, ExpiryUnit::PxAt))
        .syntax("key")
        .summary("Returns the Unix time in milliseconds at which a key expires.")
        .key("RO access"),
    Spec::generic("persist", "2.2.0", 2, "write fast short", expire::persist)
        .syntax("key")
        .summary("Keeps a key from expiring.")
        .key("RW update"),
    Spec::generic("rename", "1.0.0", 3, "write", keys::rename)
        .syntax("key newkey")
        .summary("Gives a key another name; a key of that name is replaced.")
        .keys(&[KeySpec::key("RW access delete"), KeySpec::keys("OW update", 2, 0, 1)]),
    Spec::generic("renamenx", "1.0.0", 3, "write fast", keys::renamenx)
        .syntax("key newkey")
        .summary("Gives a key another name unless a key of that name exists.")
        .keys(&[KeySpec::key("RW access delete"), KeySpec::keys("OW insert", 2, 0, 1)])
        .history(&[("3.2.0", "Renaming a key to itself is no error.")]),
    Spec::generic("copy", "6.2.0", -3, "write denyoom other_keys", keys::copy)
        .syntax("source destination [DB destination-db] [REPLACE]")
        .summary("Copies a key's value to another key.")
        .complexity("O(N) for a collection of N elements, O(1) for a string")
        .keys(&[KeySpec::key("RO access"), KeySpec::keys("OW update", 2, 0, 1)]),
    Spec::generic("dump", "2.6.0", 2, "readonly", dump::dump)
        .syntax("key")
        .summary("Returns a key's value as bytes, from which RESTORE makes it again.")
        .complexity("O(N), N the bytes of the value")
        .key("RO access")
        .tips("nondeterministic_output"),
    Spec::generic("restore", "2.6.0", -4, "write denyoom", dump::restore)
        .syntax("key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]")
        .summary("Makes a key from what DUMP has returned.")
        .complexity("O(N), N the bytes of the value; O(N*log(M)) for a sorted set of M members")
        .key("OW update")
        .categories("dangerous")
        .history(&[
            ("3.0.0", "Option `REPLACE`."),
            ("5.0.0", "Option `ABSTTL`."),
            ("5.0.0", "Options `IDLETIME` and `FREQ`."),
        ]),
    Spec::generic("restore-asking", "3.0.0", -4, "write denyoom asking", dump::restore)
        .syntax("key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]")
        .summary("As RESTORE, for a key of a slot that is under way to here: MIGRATE sends it.")
        .complexity("O(N), N the bytes of the value; O(N*log(M)) for a sorted set of M members")
        .key("OW update")
        .categories("dangerous")
        .history(&[
            ("3.0.0", "Option `REPLACE`."),
            ("5.0.0", "Option `ABSTTL`."),
            ("5.0.0", "Options `IDLETIME` and `FREQ`."),
        ]),
    Spec::generic("migrate", "2.6.0", -6, "write remote", migrate::migrate)
        .syntax(
            "host port <key | \"\"> destination-db timeout [COPY] [REPLACE] [AUTH password | AUTH2 username password] \
             [KEYS key [key ...]]",
        )
        .summary("Moves keys to another server.")
        .complexity("O(N), N the bytes of the values, here and again on the other server")
        .keys(&[
            KeySpec::keys("RW access delete", 3, 0, 1),
            KeySpec::new(
                "RW access delete incomplete",
                BeginSearch::Keyword { keyword: "KEYS", start_from: -2 },
                FindKeys::Range { last: -1, step: 1, limit: 0 },
            ),
        ])
        .get_keys(migrate::migrate_keys)
        .categories("dangerous")
        .tips("nondeterministic_output")
        .history(&[
            ("3.0.0", "Options `COPY` and `REPLACE`."),
            ("3.0.6", "Option `KEYS`."),
            ("4.0.7", "Option `AUTH`."),
            ("6.0.0", "Option `AUTH2`."),
        ]),
    Spec::generic("move", "1.0.0", 3, "write fast other_keys", keys::move_)
        .syntax("key db")
        .summary("Moves a key to another database.")
        .key("RW access update"),
    Spec::generic("randomkey", "1.0.0", 1, "readonly", keys::randomkey)
        .summary("Returns the name of a random key.")
        .tips("request_policy:all_shards nondeterministic_output"),
    Spec::generic("keys", "1.0.0", 2, "readonly", scan::keys)
        .syntax("pattern")
        .summary("Returns all key names that match a pattern.")
        .complexity("O(N), N the number of keys in the database")
        .categories("dangerous")
        .tips("request_policy:all_shards nondeterministic_output_order"),
    Spec::generic("scan", "2.8.0", -2, "readonly", scan::scan)
        .syntax("cursor [MATCH pattern] [COUNT count] [TYPE type]")
        .summary("Goes through the key names step by step.")
        .complexity("O(1) per call, O(N) until the cursor is 0 again, N the number of keys")
        .tips("nondeterministic_output request_policy:special")
        .history(&[("6.0.0", "Option `TYPE`.")]),
    Spec::server("dbsize", "1.0.0", 1, "readonly fast", keys::dbsize)
        .summary("Returns the number of keys in the selected database.")
        .categories("keyspace")
        .tips("request_policy:all_shards response_policy:agg_sum"),
    Spec::server("flushdb", "1.0.0", -1, "write", flush::flushdb)
        .syntax("[ASYNC | SYNC]")
        .summary("Deletes all keys of the selected database.")
        .complexity("O(N), N the number of keys in the database")
        .categories("keyspace dangerous")
        .tips("request_policy:all_shards response_policy:all_succeeded")
        .history(&[("4.0.0", "Mode `ASYNC`."), ("6.2.0", "Mode `SYNC`.")]),
    Spec::server("flushall", "1.0.0", -1, "write", flush::flushall)
        .syntax("[ASYNC | SYNC]")
        .summary("Deletes all keys of all databases.")
        .complexity("O(N), N the number of keys in all databases")
        .categories("keyspace dangerous")
        .tips("request_policy:all_shards response_policy:all_succeeded")
        .history(&[("4.0.0", "Mode `ASYNC`."), ("6.2.0", "Mode `SYNC`.")]),
    Spec::server("swapdb", "4.0.0", 3, "write fast", flush::swapdb)
        .syntax("index1 index2")
        .summary("Exchanges two databases.")
        .complexity("O(N), N the number of clients that watch or wait for keys of either")
        .categories("keyspace dangerous"),
    Spec::container(Group::Generic, "object", "2.2.3", OBJECT).summary("Container of commands that look into values."),
];

static OBJECT: &[Spec] = &[
    Spec::generic("encoding", "2.2.3", 3, "readonly", keys::object_encoding)
        .syntax("key")
        .summary("Returns the internal encoding of a key's value.")
        .keys(&[KeySpec::keys("RO", 2, 0, 1)])
        .tips("nondeterministic_output"),
    Spec::generic("freq", "4.0.0", 3, "readonly", keys::object_freq)
        .syntax("key")
        .summary("Returns the logarithmic access frequency of a key.")
        .keys(&[KeySpec::keys("RO", 2, 0, 1)])
        .tips("nondeterministic_output"),
    Spec::generic("idletime", "2.2.3", 3, "readonly", keys::object_idletime)
        .syntax("key")
        .summary("Returns the seconds since a key was last accessed.")
        .keys(&[KeySpec::keys("RO", 2, 0, 1)])
        .tips("nondeterministic_output"),
    Spec::generic("refcount", "2.2.3", 3, "readonly", keys::object_refcount)
        .syntax("key")
        .summary("Returns the number of references to a key's value.")
        .keys(&[KeySpec::keys("RO", 2, 0, 1)])
        .tips("nondeterministic_output"),
    Spec::generic("help", "6.2.0", 2, "loading stale", keys::object_help).summary("Returns help on the subcommands."),
];
