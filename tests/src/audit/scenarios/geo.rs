//! Geo indexes.

use crate::audit::script::Scenario;

/// The scenarios of this family.
pub const SCENARIOS: &[Scenario] = &[
    Scenario::new(
        "places all at one point",
        "
        > all GEOADD g | 13.4 52.5 p:{i}
        > x20 GEOSEARCH g FROMLONLAT 13.4 52.5 BYRADIUS 1 m COUNT 1 ANY
        > once GEOSEARCH g FROMLONLAT 13.4 52.5 BYRADIUS 1 m COUNT 1
        > once GEOSEARCH g FROMLONLAT 13.4 52.5 BYRADIUS 1 m ASC
        > once GEOSEARCHSTORE d g FROMLONLAT 13.4 52.5 BYBOX 1 1 km
        > x20 GEOSEARCH g FROMLONLAT 14.4 52.5 BYRADIUS 1 m
        > all GEOPOS g | p:{i}
        > all GEOHASH g | p:{i}
        ",
    ),
    Scenario::new(
        "places all over the world",
        "
        > each GEOADD g {i%179}.{r:08} {i%83}.{i:08} p:{i}
        > x100 GEOPOS g p:{r}
        > x100 GEOHASH g p:{r}
        > x100 GEODIST g p:{r} p:0
        > all GEOPOS g | missing:{i}
        > all GEOHASH g | missing:{i}
        > x20 GEOSEARCH g FROMMEMBER p:0 BYRADIUS 10 km COUNT 5
        > once GEOSEARCH g FROMLONLAT 0 0 BYRADIUS 20000 km COUNT 5
        > once GEOSEARCH g FROMLONLAT 0 0 BYBOX 20000 20000 km COUNT 5 ANY
        > once GEOSEARCH g FROMLONLAT 0 0 BYBOX 20000 20000 km WITHDIST WITHHASH WITHCOORD
        > once GEOSEARCHSTORE d g FROMLONLAT 0 0 BYRADIUS 9000 km STOREDIST
        > once GEORADIUS g 0 0 20000 km
        > once GEORADIUS g 0 0 9000 km STORE d
        > x20 GEORADIUS_RO g 10 10 10 km
        > x20 GEORADIUSBYMEMBER g p:0 10 km
        > once GEORADIUSBYMEMBER_RO g p:0 9000 km DESC
        ",
    ),
];
