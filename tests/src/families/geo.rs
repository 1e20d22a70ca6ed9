//! Geo indexes.

use super::Family;

/// Geo indexes.
pub const GEO: Family = Family {
    name: "geo",
    args: &["--zset-max-listpack-entries", "4"],
    pipelined: true,
    reset: &[],
    newer_lines: &[],
    lines: &[
        (30, "GEOADD key (longitude latitude place)..."),
        (8, "GEOADD key [NX | XX] [CH] (longitude latitude place)..."),
        (6, "GEODIST key place place [unit]"),
        (6, "GEOHASH key place..."),
        (6, "GEOPOS key place..."),
        (
            8,
            "GEOSEARCH key FROMLONLAT longitude latitude BYRADIUS distance unit [ASC | DESC] [COUNT positive [ANY]] [WITHCOORD] [WITHDIST] [WITHHASH]",
        ),
        (
            8,
            "GEOSEARCH key FROMMEMBER place BYBOX distance distance unit [ASC | DESC] [COUNT positive [ANY]] [WITHCOORD] [WITHDIST] [WITHHASH]",
        ),
        (4, "GEOSEARCH key BYBOX distance distance unit [ANY] FROMLONLAT longitude latitude [COUNT positive]"),
        (4, "GEOSEARCH key FROMMEMBER place BYRADIUS distance unit [WITHDIST]"),
        (
            2,
            "GEOSEARCH key (FROMMEMBER place | FROMLONLAT longitude latitude | BYRADIUS distance unit | ANY | STOREDIST)...",
        ),
        (
            8,
            "GEOSEARCHSTORE key key FROMLONLAT longitude latitude BYRADIUS distance unit [ASC | DESC] [COUNT positive [ANY]] [STOREDIST]",
        ),
        (4, "GEOSEARCHSTORE key key FROMMEMBER place BYBOX distance distance unit [STOREDIST] [WITHDIST]"),
        (
            6,
            "GEORADIUS key longitude latitude distance unit [WITHDIST] [WITHCOORD] [WITHHASH] [COUNT positive [ANY]] [ASC | DESC]",
        ),
        (4, "GEORADIUS key longitude latitude distance unit [WITHDIST] [COUNT positive] [STORE key] [STOREDIST key]"),
        (4, "GEORADIUS_RO key longitude latitude distance unit [COUNT positive] [ASC | DESC] [STORE key]"),
        (
            6,
            "GEORADIUSBYMEMBER key place distance unit [WITHDIST] [WITHCOORD] [WITHHASH] [COUNT positive [ANY]] [ASC | DESC]",
        ),
        (4, "GEORADIUSBYMEMBER key place distance unit [COUNT positive] [ASC | DESC] [STORE key] [STOREDIST key]"),
        (2, "GEORADIUSBYMEMBER_RO key place distance unit [WITHDIST] [STORE key]"),
        (4, "ZRANGE key 0 -1 WITHSCORES"),
        (3, "ZREM key place"),
        (1, "ZCARD key"),
        (1, "SET key value"),
        (1, "DEL key"),
    ],
};
