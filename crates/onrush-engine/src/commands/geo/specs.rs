//! Rows of the command table: the geo commands.

use crate::command::spec::{Deprecated, Group, KeySpec, Spec, flags};

/// The geo commands.
pub static SPECS: &[Spec] = &[
    Spec {
        name: "geoadd",
        arity: -5,
        flags: flags("write denyoom short"),
        keys: &[KeySpec::key("RW update")],
        group: Group::Geo,
        since: "3.2.0",
        complexity: "O(log N) for each item",
        summary: "Adds members with longitude and latitude to a geo index; it is made if it is not there.",
        syntax: "key [NX | XX] [CH] longitude latitude member [longitude latitude member ...]",
        handler: crate::commands::geo::geoadd,
        ..Spec::DEFAULT
    },
    Spec {
        name: "geodist",
        arity: -4,
        flags: flags("readonly short"),
        keys: &[KeySpec::key("RO access")],
        group: Group::Geo,
        since: "3.2.0",
        complexity: "O(1)",
        summary: "Returns the distance of two members of a geo index.",
        syntax: "key member1 member2 [M | KM | FT | MI]",
        handler: crate::commands::geo::geodist,
        ..Spec::DEFAULT
    },
    Spec {
        name: "geohash",
        arity: -2,
        flags: flags("readonly short"),
        keys: &[KeySpec::key("RO access")],
        group: Group::Geo,
        since: "3.2.0",
        complexity: "O(1) for each member",
        summary: "Returns members of a geo index as Geohash texts.",
        syntax: "key member [member ...]",
        handler: crate::commands::geo::geohash,
        ..Spec::DEFAULT
    },
    Spec {
        name: "geopos",
        arity: -2,
        flags: flags("readonly short"),
        keys: &[KeySpec::key("RO access")],
        group: Group::Geo,
        since: "3.2.0",
        complexity: "O(1) for each member",
        summary: "Returns longitude and latitude of members of a geo index.",
        syntax: "key member [member ...]",
        handler: crate::commands::geo::geopos,
        ..Spec::DEFAULT
    },
    Spec {
        name: "georadius",
        arity: -6,
        flags: flags("write denyoom other_keys"),
        keys: &[
            KeySpec::key("RO access"),
            KeySpec::keyword("OW update", "STORE", 6),
            KeySpec::keyword("OW update", "STOREDIST", 6),
        ],
        group: Group::Geo,
        since: "3.2.0",
        complexity: "O(N + log M), N members in the boxes around the area, M in all",
        summary: "Returns or stores the members of a geo index within a distance of a point.",
        syntax: "key longitude latitude radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC | DESC] [STORE key] [STOREDIST key]",
        deprecated: Some(Deprecated {
            since: "6.2.0",
            replaced_by: "`GEOSEARCH` and `GEOSEARCHSTORE` with the `BYRADIUS` argument",
        }),
        handler: crate::commands::geo::search::georadius,
        ..Spec::DEFAULT
    },
    Spec {
        name: "georadius_ro",
        arity: -6,
        flags: flags("readonly"),
        keys: &[KeySpec::key("RO access")],
        group: Group::Geo,
        since: "3.2.10",
        complexity: "O(N + log M), N members in the boxes around the area, M in all",
        summary: "Returns the members of a geo index within a distance of a point.",
        syntax: "key longitude latitude radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC | DESC]",
        deprecated: Some(Deprecated { since: "6.2.0", replaced_by: "`GEOSEARCH` with the `BYRADIUS` argument" }),
        handler: crate::commands::geo::search::georadius_ro,
        ..Spec::DEFAULT
    },
    Spec {
        name: "georadiusbymember",
        arity: -5,
        flags: flags("write denyoom other_keys"),
        keys: &[
            KeySpec::key("RO access"),
            KeySpec::keyword("OW update", "STORE", 5),
            KeySpec::keyword("OW update", "STOREDIST", 5),
        ],
        group: Group::Geo,
        since: "3.2.0",
        complexity: "O(N + log M), N members in the boxes around the area, M in all",
        summary: "Returns or stores the members of a geo index within a distance of one of them.",
        syntax: "key member radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC | DESC] [STORE key] [STOREDIST key]",
        deprecated: Some(Deprecated {
            since: "6.2.0",
            replaced_by: "`GEOSEARCH` and `GEOSEARCHSTORE` with the `BYRADIUS` and `FROMMEMBER` arguments",
        }),
        handler: crate::commands::geo::search::georadiusbymember,
        ..Spec::DEFAULT
    },
    Spec {
        name: "georadiusbymember_ro",
        arity: -5,
        flags: flags("readonly"),
        keys: &[KeySpec::key("RO access")],
        group: Group::Geo,
        since: "3.2.10",
        complexity: "O(N + log M), N members in the boxes around the area, M in all",
        summary: "Returns the members of a geo index within a distance of one of them.",
        syntax: "key member radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC | DESC]",
        deprecated: Some(Deprecated {
            since: "6.2.0",
            replaced_by: "`GEOSEARCH` with the `BYRADIUS` and `FROMMEMBER` arguments",
        }),
        handler: crate::commands::geo::search::georadiusbymember_ro,
        ..Spec::DEFAULT
    },
    Spec {
        name: "geosearch",
        arity: -7,
        flags: flags("readonly"),
        keys: &[KeySpec::key("RO access")],
        group: Group::Geo,
        since: "6.2.0",
        complexity: "O(N + log M), N members in the boxes around the area, M in all",
        summary: "Returns the members of a geo index within a circle or a box.",
        syntax: "key <FROMMEMBER member | FROMLONLAT longitude latitude> <BYRADIUS radius <M | KM | FT | MI> | BYBOX width height <M | KM | FT | MI>> [ASC | DESC] [COUNT count [ANY]] [WITHCOORD] [WITHDIST] [WITHHASH]",
        handler: crate::commands::geo::search::geosearch,
        ..Spec::DEFAULT
    },
    Spec {
        name: "geosearchstore",
        arity: -8,
        flags: flags("write denyoom"),
        keys: &[KeySpec::key("OW update"), KeySpec::keys("RO access", 2, 0, 1)],
        group: Group::Geo,
        since: "6.2.0",
        complexity: "O(N + log M), N members in the boxes around the area, M in all",
        summary: "Stores the members of a geo index within a circle or a box.",
        syntax: "destination source <FROMMEMBER member | FROMLONLAT longitude latitude> <BYRADIUS radius <M | KM | FT | MI> | BYBOX width height <M | KM | FT | MI>> [ASC | DESC] [COUNT count [ANY]] [STOREDIST]",
        handler: crate::commands::geo::search::geosearchstore,
        ..Spec::DEFAULT
    },
];
