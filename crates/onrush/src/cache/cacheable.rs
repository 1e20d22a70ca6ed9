//! Properties of commands that the cache needs.

/// The longest name here, in bytes.
const NAME_LEN_MAX: usize = 20;

/// Calls a function with the name in capitals; an empty one stands for names that are longer than any here.
fn in_capitals<T>(name: &[u8], ask: impl FnOnce(&[u8]) -> T) -> T {
    let mut capitals = [0; NAME_LEN_MAX];
    let Some(capitals) = capitals.get_mut(..name.len()) else { return ask(b"") };
    capitals.copy_from_slice(name);
    capitals.make_ascii_uppercase();
    ask(capitals)
}

/// Whether a command reads only the key that its first argument names, and no other changing data. `has_more` returns
/// whether there are arguments after the key.
pub(crate) fn is_read(name: &[u8], has_more: impl FnOnce() -> bool) -> bool {
    in_capitals(name, |name| match name {
        b"GET" | b"HGET" | b"HGETALL" | b"HMGET" | b"STRLEN" | b"GETRANGE" | b"SUBSTR" => true,
        b"GETBIT" | b"BITCOUNT" | b"BITPOS" | b"BITFIELD_RO" | b"TYPE" | b"DUMP" | b"EXPIRETIME" | b"PEXPIRETIME" => {
            true
        }
        b"HKEYS" | b"HVALS" | b"HLEN" | b"HEXISTS" | b"HSTRLEN" => true,
        b"LLEN" | b"LINDEX" | b"LRANGE" | b"LPOS" => true,
        b"SCARD" | b"SMEMBERS" | b"SISMEMBER" | b"SMISMEMBER" => true,
        b"ZCARD" | b"ZCOUNT" | b"ZLEXCOUNT" | b"ZSCORE" | b"ZMSCORE" | b"ZRANK" | b"ZREVRANK" => true,
        b"ZRANGE" | b"ZRANGEBYSCORE" | b"ZRANGEBYLEX" | b"ZREVRANGE" | b"ZREVRANGEBYSCORE" | b"ZREVRANGEBYLEX" => true,
        b"GEODIST" | b"GEOHASH" | b"GEOPOS" | b"GEOSEARCH" | b"GEORADIUS_RO" | b"GEORADIUSBYMEMBER_RO" => true,
        b"XLEN" | b"XRANGE" | b"XREVRANGE" | b"JSON.GET" => true,
        b"EXISTS" => !has_more(),
        _ => false,
    })
}

/// Whether a command certainly changes no key.
pub(crate) fn is_harmless(name: &[u8]) -> bool {
    is_read(name, || false)
        || in_capitals(name, |name| {
            matches!(name, b"MGET" | b"PTTL" | b"TTL" | b"PING" | b"ECHO" | b"CLIENT" | b"INFO" | b"PUBLISH" | b"TIME")
        })
}

/// Whether a command may change keys that it does not name.
pub(crate) fn names_no_keys(name: &[u8]) -> bool {
    in_capitals(name, |name| matches!(name, b"FLUSHALL" | b"FLUSHDB" | b"SWAPDB"))
}
