//! The table of the commands on keys, strings, bitmaps and HyperLogLogs.

macro_rules! key_commands {
    ($($link:tt)*) => { $crate::commands::chain! { [$($link)*]
        /// Reads a string.
        fn get(key) = "GET", key;
        /// Sets a string.
        fn set(key, value) = "SET", key, value;
        /// Sets a string, with [`SetOptions`](crate::SetOptions) or further arguments such as `("EX", 60, "NX")`.
        fn set_options(key, value, options) = "SET", key, value, options;
        /// Sets a string that expires in some seconds.
        fn set_ex(key, value, seconds) = "SETEX", key, seconds, value;
        /// Sets a string that expires in some milliseconds.
        fn pset_ex(key, value, milliseconds) = "PSETEX", key, milliseconds, value;
        /// Sets a string if the key does not exist.
        fn set_nx(key, value) = "SETNX", key, value;
        /// Sets a string and returns the previous one.
        fn getset(key, value) = "GETSET", key, value;
        /// Reads a string and deletes it.
        fn get_del(key) = "GETDEL", key;
        /// Reads a string and changes its [`Expiry`](crate::Expiry).
        fn get_ex(key, expiry) = "GETEX", key, expiry;
        /// Sets several strings at once, from pairs.
        fn mset(pairs) = "MSET", pairs;
        /// Sets several strings at once if none of the keys exists.
        fn mset_nx(pairs) = "MSETNX", pairs;
        /// Reads several strings.
        fn mget(keys) = "MGET", keys;
        /// Appends to a string and returns its length.
        fn append(key, value) = "APPEND", key, value;
        /// The length of a string.
        fn strlen(key) = "STRLEN", key;
        /// A part of a string.
        fn getrange(key, from, to) = "GETRANGE", key, from, to;
        /// Overwrites a part of a string and returns its length.
        fn setrange(key, offset, value) = "SETRANGE", key, offset, value;
        /// Adds to a number and returns it.
        fn incr(key, by) = "INCRBY", key, by;
        /// Subtracts from a number and returns it.
        fn decr(key, by) = "DECRBY", key, by;
        /// Adds to a floating-point number and returns it.
        fn incr_float(key, by) = "INCRBYFLOAT", key, by;
        /// The longest common subsequence of two strings; `options` are `()`, `"LEN"` and the like.
        fn lcs(one, other, options) = "LCS", one, other, options;

        /// Deletes keys and returns how many there were.
        fn del(keys) = "DEL", keys;
        /// Deletes keys, freeing their values in the background.
        fn unlink(keys) = "UNLINK", keys;
        /// How many of the keys exist.
        fn exists(keys) = "EXISTS", keys;
        /// Marks keys as accessed and returns how many exist.
        fn touch(keys) = "TOUCH", keys;
        /// The type of a key.
        fn key_type(key) = "TYPE", key;
        /// Lets a key expire in some seconds.
        fn expire(key, seconds) = "EXPIRE", key, seconds;
        /// Lets a key expire in some seconds if an [`ExpireOption`](crate::ExpireOption) allows it.
        fn expire_options(key, seconds, option) = "EXPIRE", key, seconds, option;
        /// Lets a key expire in some milliseconds.
        fn pexpire(key, milliseconds) = "PEXPIRE", key, milliseconds;
        /// Lets a key expire in some milliseconds if an [`ExpireOption`](crate::ExpireOption) allows it.
        fn pexpire_options(key, milliseconds, option) = "PEXPIRE", key, milliseconds, option;
        /// Lets a key expire at a Unix time in seconds.
        fn expire_at(key, time) = "EXPIREAT", key, time;
        /// Lets a key expire at a Unix time in seconds if an [`ExpireOption`](crate::ExpireOption) allows it.
        fn expire_at_options(key, time, option) = "EXPIREAT", key, time, option;
        /// Lets a key expire at a Unix time in milliseconds.
        fn pexpire_at(key, time) = "PEXPIREAT", key, time;
        /// Lets a key expire at a Unix time in milliseconds if an [`ExpireOption`](crate::ExpireOption) allows it.
        fn pexpire_at_options(key, time, option) = "PEXPIREAT", key, time, option;
        /// Takes the expiry off a key.
        fn persist(key) = "PERSIST", key;
        /// Seconds until a key expires; as [`IntegerReplyOrNoOp`](crate::IntegerReplyOrNoOp), or -1 for never, -2 for no such key.
        fn ttl(key) = "TTL", key;
        /// Milliseconds until a key expires; as [`IntegerReplyOrNoOp`](crate::IntegerReplyOrNoOp), or -1 for never, -2 for no such key.
        fn pttl(key) = "PTTL", key;
        /// The Unix time in seconds at which a key expires.
        fn expire_time(key) = "EXPIRETIME", key;
        /// The Unix time in milliseconds at which a key expires.
        fn pexpire_time(key) = "PEXPIRETIME", key;
        /// Renames a key.
        fn rename(key, new_key) = "RENAME", key, new_key;
        /// Renames a key unless the new name exists.
        fn rename_nx(key, new_key) = "RENAMENX", key, new_key;
        /// Copies a key, with [`CopyOptions`](crate::CopyOptions) or `()`.
        fn copy(key, to, options) = "COPY", key, to, options;
        /// Moves a key to another database.
        fn move_key(key, db) = "MOVE", key, db;
        /// All keys that match. O(keys): use [`scan_match`](crate::AsyncCommands::scan_match) in production.
        fn keys(pattern) = "KEYS", pattern;
        /// A random key.
        fn randomkey() = "RANDOMKEY";
        /// The serialized value of a key.
        fn dump(key) = "DUMP", key;
        /// Makes a key from a serialized value; `options` are `()`, `"REPLACE"` and the like.
        fn restore(key, milliseconds, serialized, options) = "RESTORE", key, milliseconds, serialized, options;
        /// The sorted elements of a list, set or sorted set; `options` are `()`, `"ALPHA"`, `("LIMIT", 0, 10)` and the like.
        fn sort(key, options) = "SORT", key, options;
        /// As [`sort`](Self::sort), but marked as read-only for the server.
        fn sort_ro(key, options) = "SORT_RO", key, options;
        /// Stores the sorted elements and returns how many.
        fn sort_store(key, options, destination) = "SORT", key, options, "STORE", destination;
        /// The encoding of the value.
        fn object_encoding(key) = "OBJECT", "ENCODING", key;
        /// The access frequency counter.
        fn object_freq(key) = "OBJECT", "FREQ", key;
        /// Seconds since the last access.
        fn object_idletime(key) = "OBJECT", "IDLETIME", key;
        /// The number of references to the value.
        fn object_refcount(key) = "OBJECT", "REFCOUNT", key;
        /// Bytes that a key takes.
        fn memory_usage(key) = "MEMORY", "USAGE", key;

        /// Sets a bit and returns the old one.
        fn setbit(key, offset, value) = "SETBIT", key, offset, value;
        /// A bit.
        fn getbit(key, offset) = "GETBIT", key, offset;
        /// The number of bits set.
        fn bitcount(key) = "BITCOUNT", key;
        /// The number of bits set in a range of bytes.
        fn bitcount_range(key, start, end) = "BITCOUNT", key, start, end;
        /// The number of bits set in a range of bits.
        fn bitcount_bits(key, start, end) = "BITCOUNT", key, start, end, "BIT";
        /// The first bit of a value.
        fn bitpos(key, bit) = "BITPOS", key, bit;
        /// The first bit of a value in a range of bytes.
        fn bitpos_range(key, bit, start, end) = "BITPOS", key, bit, start, end;
        /// Reads and changes integers of any width, such as by `("INCRBY", "u8", 0, 1)`.
        fn bitfield(key, operations) = "BITFIELD", key, operations;
        /// Reads integers of any width, such as by `("GET", "u8", 0)`.
        fn bitfield_ro(key, operations) = "BITFIELD_RO", key, operations;
        /// Stores the bits set in all.
        fn bit_and(destination, sources) = "BITOP", "AND", destination, sources;
        /// Stores the bits set in any.
        fn bit_or(destination, sources) = "BITOP", "OR", destination, sources;
        /// Stores the bits set in an odd number.
        fn bit_xor(destination, sources) = "BITOP", "XOR", destination, sources;
        /// Stores the bits not set.
        fn bit_not(destination, source) = "BITOP", "NOT", destination, source;
        /// Stores the bits set in the first and in none of the others.
        fn bit_diff(destination, sources) = "BITOP", "DIFF", destination, sources;
        /// Stores the bits set in any but the first, and not in the first.
        fn bit_diff1(destination, sources) = "BITOP", "DIFF1", destination, sources;
        /// Stores the bits set in the first and in any of the others.
        fn bit_and_or(destination, sources) = "BITOP", "ANDOR", destination, sources;
        /// Stores the bits set in exactly one.
        fn bit_one(destination, sources) = "BITOP", "ONE", destination, sources;

        /// Adds elements to a HyperLogLog.
        fn pfadd(key, elements) = "PFADD", key, elements;
        /// About how many distinct elements were added.
        fn pfcount(keys) = "PFCOUNT", keys;
        /// Merges HyperLogLogs.
        fn pfmerge(destination, sources) = "PFMERGE", destination, sources;
    }};
}

pub(crate) use key_commands;
