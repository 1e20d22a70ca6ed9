//! Rows of the command table: the geo commands.

use crate::batch::argv::Arguments;
use crate::command::key_spec::{Invalid, KeyRef, KeyRefs, key_flags};
use crate::command::spec::{KeySpec, Spec};
use crate::commands::geo::{self, search};

/// The geo commands.
pub(crate) static SPECS: &[Spec] = &[
    Spec::geo("geoadd", "3.2.0", -5, "write denyoom short", geo::geoadd)
        .syntax("key [NX | XX] [CH] longitude latitude member [longitude latitude member ...]")
        .summary("Adds members with longitude and latitude to a geo index; it is made if it is not there.")
        .complexity("O(log N) for each item")
        .key("RW update"),
    Spec::geo("geodist", "3.2.0", -4, "readonly short", geo::geodist)
        .syntax("key member1 member2 [M | KM | FT | MI]")
        .summary("Returns the distance of two members of a geo index.")
        .key("RO access"),
    Spec::geo("geohash", "3.2.0", -2, "readonly short", geo::geohash)
        .syntax("key member [member ...]")
        .summary("Returns members of a geo index as Geohash texts.")
        .complexity("O(1) for each member")
        .key("RO access"),
    Spec::geo("geopos", "3.2.0", -2, "readonly short", geo::geopos)
        .syntax("key member [member ...]")
        .summary("Returns longitude and latitude of members of a geo index.")
        .complexity("O(1) for each member")
        .key("RO access"),
    Spec::geo("georadius", "3.2.0", -6, "write denyoom other_keys", search::georadius)
        .syntax(
            "key longitude latitude radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] \
             [ASC | DESC] [STORE key] [STOREDIST key]",
        )
        .summary("Returns or stores the members of a geo index within a distance of a point.")
        .complexity("O(N + log M), N members in the boxes around the area, M in all")
        .keys(&[
            KeySpec::key("RO access"),
            KeySpec::keyword("OW update", "STORE", 6),
            KeySpec::keyword("OW update", "STOREDIST", 6),
        ])
        .get_keys(|argv, found| radius_keys(argv, 6, found))
        .deprecated("6.2.0", "`GEOSEARCH` and `GEOSEARCHSTORE` with the `BYRADIUS` argument"),
    Spec::geo("georadius_ro", "3.2.10", -6, "readonly", search::georadius)
        .syntax(
            "key longitude latitude radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] \
             [ASC | DESC]",
        )
        .summary("Returns the members of a geo index within a distance of a point.")
        .complexity("O(N + log M), N members in the boxes around the area, M in all")
        .key("RO access")
        .deprecated("6.2.0", "`GEOSEARCH` with the `BYRADIUS` argument"),
    Spec::geo("georadiusbymember", "3.2.0", -5, "write denyoom other_keys", search::georadiusbymember)
        .syntax(
            "key member radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC | DESC] \
             [STORE key] [STOREDIST key]",
        )
        .summary("Returns or stores the members of a geo index within a distance of one of them.")
        .complexity("O(N + log M), N members in the boxes around the area, M in all")
        .keys(&[
            KeySpec::key("RO access"),
            KeySpec::keyword("OW update", "STORE", 5),
            KeySpec::keyword("OW update", "STOREDIST", 5),
        ])
        .get_keys(|argv, found| radius_keys(argv, 5, found))
        .deprecated("6.2.0", "`GEOSEARCH` and `GEOSEARCHSTORE` with the `BYRADIUS` and `FROMMEMBER` arguments"),
    Spec::geo("georadiusbymember_ro", "3.2.10", -5, "readonly", search::georadiusbymember)
        .syntax(
            "key member radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC | DESC]",
        )
        .summary("Returns the members of a geo index within a distance of one of them.")
        .complexity("O(N + log M), N members in the boxes around the area, M in all")
        .key("RO access")
        .deprecated("6.2.0", "`GEOSEARCH` with the `BYRADIUS` and `FROMMEMBER` arguments"),
    Spec::geo("geosearch", "6.2.0", -7, "readonly", search::geosearch)
        .syntax(
            "key <FROMMEMBER member | FROMLONLAT longitude latitude> \
             <BYRADIUS radius <M | KM | FT | MI> | BYBOX width height <M | KM | FT | MI>> [ASC | DESC] \
             [COUNT count [ANY]] [WITHCOORD] [WITHDIST] [WITHHASH]",
        )
        .summary("Returns the members of a geo index within a circle or a box.")
        .complexity("O(N + log M), N members in the boxes around the area, M in all")
        .key("RO access"),
    Spec::geo("geosearchstore", "6.2.0", -8, "write denyoom", search::geosearchstore)
        .syntax(
            "destination source <FROMMEMBER member | FROMLONLAT longitude latitude> \
             <BYRADIUS radius <M | KM | FT | MI> | BYBOX width height <M | KM | FT | MI>> [ASC | DESC] \
             [COUNT count [ANY]] [STOREDIST]",
        )
        .summary("Stores the members of a geo index within a circle or a box.")
        .complexity("O(N + log M), N members in the boxes around the area, M in all")
        .keys(&[KeySpec::key("OW update"), KeySpec::keys("RO access", 2, 0, 1)]),
];

/// The source, and every destination: the last one counts, and any of them may be it. `options`: where they begin.
fn radius_keys(argv: &dyn Arguments, options: usize, found: &mut KeyRefs) -> Result<(), Invalid> {
    found.push(KeyRef { index: 1, flags: key_flags("RO access") });
    for word in ["STORE", "STOREDIST"] {
        let is_word = |&index: &usize| argv.get(index).eq_ignore_ascii_case(word.as_bytes());
        let targets = (options..argv.len().saturating_sub(1)).filter(is_word);
        found.extend(targets.map(|index| KeyRef { index: index + 1, flags: key_flags("OW update") }));
    }
    Ok(())
}
