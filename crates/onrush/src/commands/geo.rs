//! Places: coordinates, options and replies of the geo commands.

use crate::builder::builder;
use crate::commands::options::{options, put, put_if, words};
use crate::error::RedisResult;
use crate::values::args::ToRedisArgs;
use crate::values::from_value::{FromRedisValue, from_redis_value};
use crate::values::value::Value;

/// Longitude and latitude in degrees, in the order of the commands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Coord<T = f64> {
    /// East is positive.
    pub longitude: T,
    /// North is positive.
    pub latitude: T,
}

impl<T> Coord<T> {
    /// From longitude and latitude.
    pub fn lon_lat(longitude: T, latitude: T) -> Coord<T> {
        Coord { longitude, latitude }
    }
}

impl<T: ToRedisArgs> ToRedisArgs for Coord<T> {
    fn write_redis_args<W: crate::RedisWrite + ?Sized>(&self, out: &mut W) {
        self.longitude.write_redis_args(out);
        self.latitude.write_redis_args(out);
    }

    fn num_of_args(&self) -> usize {
        2
    }
}

impl<T: FromRedisValue> FromRedisValue for Coord<T> {
    fn from_redis_value(value: Value) -> RedisResult<Coord<T>> {
        from_redis_value(value).map(|(longitude, latitude)| Coord { longitude, latitude })
    }
}

/// A unit of length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unit {
    /// Metres.
    #[default]
    Meters,
    /// Kilometres.
    Kilometers,
    /// Miles.
    Miles,
    /// Feet.
    Feet,
}

words!(Unit: Meters = b"m", Kilometers = b"km", Miles = b"mi", Feet = b"ft");

/// The order of what a search finds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RadiusOrder {
    /// Any.
    #[default]
    Unsorted,
    /// The nearest first.
    Asc,
    /// The farthest first.
    Desc,
}

options!(RadiusOrder: |this, out| match this {
    RadiusOrder::Unsorted => {}
    RadiusOrder::Asc => out.write_arg(b"ASC"),
    RadiusOrder::Desc => out.write_arg(b"DESC"),
});

/// Options of GEOADD.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GeoAddOptions {
    condition: Option<crate::ExistenceCheck>,
    changed: bool,
}

builder! {
    GeoAddOptions, new: "Adds new members and moves those there.";
    /// Only adds, or only moves.
    conditional_set(condition: crate::ExistenceCheck) => condition = Some(condition);
    /// Returns how many members are new or moved, not only how many are new.
    include_changed_count() => changed = true;
}

options!(GeoAddOptions: |this, out| {
    this.condition.write_redis_args(out);
    put_if(out, this.changed, "CH");
});

/// What to return with each member found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct With {
    coord: bool,
    dist: bool,
    hash: bool,
}

options!(With: |this, out| {
    put_if(out, this.coord, "WITHCOORD");
    put_if(out, this.dist, "WITHDIST");
    put_if(out, this.hash, "WITHHASH");
});

/// How many members are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Limit {
    count: Option<usize>,
    any: bool,
}

options!(Limit: |this, out| if let Some(count) = this.count {
    put(out, "COUNT", count);
    put_if(out, this.any, "ANY");
});

/// The area of GEOSEARCH and GEOSEARCHSTORE: a shape around a place.
///
/// ```
/// use onrush::geo::{Coord, GeoSearch, RadiusOrder, Unit};
/// let search = GeoSearch::from_coord(Coord::lon_lat(15.0, 37.0))
///     .by_radius(200.0, Unit::Kilometers)
///     .order(RadiusOrder::Asc)
///     .limit(10)
///     .with_dist();
/// # assert_eq!(onrush::ToRedisArgs::num_of_args(&search), 10);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct GeoSearch {
    from: From,
    shape: Shape,
    order: RadiusOrder,
    limit: Limit,
    with: With,
    storedist: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum From {
    Member(Vec<u8>),
    Coord(Coord),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Shape {
    Radius(f64, Unit),
    Box(f64, f64, Unit),
}

impl GeoSearch {
    /// Around a member of the index. Within a radius of 0 until a shape is given.
    pub fn from_member(member: impl ToRedisArgs) -> GeoSearch {
        GeoSearch::new(From::Member(member.to_redis_args().into_iter().next().unwrap_or_default()))
    }

    /// Around a place. Within a radius of 0 until a shape is given.
    pub fn from_coord(coord: Coord) -> GeoSearch {
        GeoSearch::new(From::Coord(coord))
    }

    fn new(from: From) -> GeoSearch {
        let (order, limit, with) = Default::default();
        GeoSearch { from, shape: Shape::Radius(0.0, Unit::Meters), order, limit, with, storedist: false }
    }
}

builder! {
    GeoSearch;
    /// Within a circle.
    by_radius(radius: f64, unit: Unit) => shape = Shape::Radius(radius, unit);
    /// Within a box whose sides run along the meridians.
    by_box(width: f64, height: f64, unit: Unit) => shape = Shape::Box(width, height, unit);
    /// In which order.
    order(order: RadiusOrder) => order = order;
    /// At most that many, the nearest.
    limit(count: usize) => limit = Limit { count: Some(count), any: false };
    /// At most that many, whichever are found first. Faster if very many are within the shape.
    limit_any(count: usize) => limit = Limit { count: Some(count), any: true };
    /// With the coordinates of each.
    with_coord() => with.coord = true;
    /// With the distance of each, in the unit of the shape.
    with_dist() => with.dist = true;
    /// With the 52-bit hash of each.
    with_hash() => with.hash = true;
    /// Stores distances in place of hashes. For `geo_search_store`.
    store_dist() => storedist = true;
}

options!(GeoSearch: |this, out| {
    match &this.from {
        From::Member(member) => put(out, "FROMMEMBER", member),
        From::Coord(coord) => put(out, "FROMLONLAT", coord),
    }
    match this.shape {
        Shape::Radius(radius, unit) => put(out, "BYRADIUS", (radius, unit)),
        Shape::Box(width, height, unit) => put(out, "BYBOX", (width, height, unit)),
    }
    this.order.write_redis_args(out);
    this.limit.write_redis_args(out);
    this.with.write_redis_args(out);
    put_if(out, this.storedist, "STOREDIST");
});

/// Options of GEORADIUS and GEORADIUSBYMEMBER.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RadiusOptions {
    with: With,
    limit: Limit,
    order: RadiusOrder,
    store: Option<(&'static str, Vec<u8>)>,
}

builder! {
    RadiusOptions, new: "No options yet.";
    /// At most that many, the nearest.
    limit(count: usize) => limit.count = Some(count);
    /// In which order.
    order(order: RadiusOrder) => order = order;
    /// With the coordinates of each.
    with_coord() => with.coord = true;
    /// With the distance of each.
    with_dist() => with.dist = true;
    /// With the 52-bit hash of each.
    with_hash() => with.hash = true;
    /// Stores what is found in another index and returns how many.
    store(key: impl ToRedisArgs) => store = key.to_redis_args().into_iter().next().map(|key| ("STORE", key));
    /// The same with distances in place of hashes.
    store_dist(key: impl ToRedisArgs) => store = key.to_redis_args().into_iter().next().map(|key| ("STOREDIST", key));
}

options!(RadiusOptions: |this, out| {
    this.with.write_redis_args(out);
    this.limit.write_redis_args(out);
    this.order.write_redis_args(out);
    this.store.write_redis_args(out);
});

/// A member that a search found, with the requested facts.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RadiusSearchResult {
    /// Its name.
    pub name: String,
    /// Where it is, if asked for.
    pub coord: Option<Coord<f64>>,
    /// How far away it is, if asked for.
    pub dist: Option<f64>,
    /// Its 52-bit hash, if asked for.
    pub hash: Option<i64>,
}

impl FromRedisValue for RadiusSearchResult {
    fn from_redis_value(value: Value) -> RedisResult<RadiusSearchResult> {
        let mut found = RadiusSearchResult { name: String::new(), coord: None, dist: None, hash: None };
        let Value::Array(parts) = value else {
            found.name = from_redis_value(value)?;
            return Ok(found);
        };
        let mut parts = parts.into_iter();
        found.name = from_redis_value(parts.next().unwrap_or(Value::Nil))?;
        for part in parts {
            match part {
                Value::Int(hash) => found.hash = Some(hash),
                Value::Array(_) => found.coord = Some(from_redis_value(part)?),
                dist => found.dist = Some(from_redis_value(dist)?),
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::options::shown;

    #[test]
    fn searches_give_their_arguments() {
        let search = GeoSearch::from_member("me").by_box(2.0, 3.5, Unit::Miles).order(RadiusOrder::Desc).limit_any(4);
        assert_eq!(
            shown(search.with_coord().with_dist().with_hash()),
            "FROMMEMBER me BYBOX 2 3.5 mi DESC COUNT 4 ANY WITHCOORD WITHDIST WITHHASH"
        );
        let search = GeoSearch::from_coord(Coord::lon_lat(1.0, -2.5)).by_radius(5.0, Unit::Feet).store_dist();
        assert_eq!(shown(search), "FROMLONLAT 1 -2.5 BYRADIUS 5 ft STOREDIST");
        let options = RadiusOptions::new().limit(2).order(RadiusOrder::Asc).with_dist().store("to");
        assert_eq!(shown(options), "WITHDIST COUNT 2 ASC STORE to");
        assert_eq!(
            shown(GeoAddOptions::new().conditional_set(crate::ExistenceCheck::XX).include_changed_count()),
            "XX CH"
        );
    }

    #[test]
    fn what_is_found_is_read_with_and_without_details() {
        let bulk = |text: &str| Value::BulkString(text.into());
        let place = Value::Array(vec![bulk("1.5"), Value::Double(2.5)]);
        let full = Value::Array(vec![bulk("a"), bulk("3.25"), Value::Int(7), place]);
        let found: Vec<RadiusSearchResult> = from_redis_value(Value::Array(vec![bulk("b"), full])).unwrap();
        assert_eq!((found[0].name.as_str(), found[0].dist), ("b", None));
        assert_eq!((found[1].dist, found[1].hash), (Some(3.25), Some(7)));
        assert_eq!(found[1].coord, Some(Coord::lon_lat(1.5, 2.5)));
        assert_eq!(from_redis_value::<Vec<Option<Coord>>>(Value::Array(vec![Value::Nil])).unwrap(), [None]);
    }
}
