//! Geohashes: a place on Earth as an integer of 52 bits, so that places near each other have close integers.
//!
//! Latitude and longitude are cut in half 26 times each; the bits that say which half are interleaved, longitude first.
//! Redis keeps such integers as scores of sorted sets, with latitudes up to the 85.05112878 degrees of the Web Mercator
//! projection (EPSG:3857), and so does this module; the textual Geohash has latitudes up to 90 degrees.

/// The greatest longitude, in degrees; the least is its negative.
pub const LONGITUDE_MAX: f64 = 180.0;
/// The greatest latitude, in degrees; the least is its negative.
pub const LATITUDE_MAX: f64 = 85.051_128_78;
/// Halvings of each coordinate in a score.
const STEPS_MAX: u32 = 26;
/// In metres, as Redis has it.
const EARTH_RADIUS: f64 = 6_372_797.560_856;
/// Half of the equator in the projection, in metres.
const MERCATOR_MAX: f64 = 20_037_726.37;
const LATITUDE_BITS: u64 = 0x5555_5555_5555_5555;
const ALPHABET: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";

/// A place, in degrees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Position {
    /// East of Greenwich, -180 to 180.
    pub longitude: f64,
    /// North of the equator.
    pub latitude: f64,
}

/// What is searched around a place. Lengths in metres.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// All within a distance.
    Circle {
        /// The distance.
        radius: f64,
    },
    /// All within half of the lengths to the sides.
    Box {
        /// From west to east.
        width: f64,
        /// From south to north.
        height: f64,
    },
}

/// Some of a geohash's leading bits: all the places that share them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell {
    bits: u64,
    /// Halvings of each coordinate.
    steps: u32,
}

/// The least and greatest coordinates of an area.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    south_west: Position,
    north_east: Position,
}

impl Position {
    /// Whether a score can hold it.
    pub fn is_valid(self) -> bool {
        self.longitude.abs() <= LONGITUDE_MAX && self.latitude.abs() <= LATITUDE_MAX
    }

    /// The place as the score of a sorted set.
    pub fn to_score(self) -> f64 {
        Cell::around(self, STEPS_MAX, LATITUDE_MAX).bits as f64
    }

    /// The middle of the cell that a score stands for.
    pub fn from_score(score: f64) -> Self {
        let Bounds { south_west, north_east } = Cell { bits: score as u64, steps: STEPS_MAX }.bounds();
        let middle = |least: f64, greatest: f64, max: f64| ((least + greatest) / 2.0).clamp(-max, max);
        Position {
            longitude: middle(south_west.longitude, north_east.longitude, LONGITUDE_MAX),
            latitude: middle(south_west.latitude, north_east.latitude, LATITUDE_MAX),
        }
    }

    /// The textual Geohash, of 11 characters. The last one is always `0`: 52 bits give ten characters and two bits,
    /// which Redis leaves out.
    pub fn to_geohash(self) -> [u8; 11] {
        let bits = Cell::around(self, STEPS_MAX, 90.0).bits;
        std::array::from_fn(|index| match index {
            10 => ALPHABET[0],
            _ => ALPHABET[(bits >> (2 * STEPS_MAX as usize - (index + 1) * 5) & 0x1f) as usize],
        })
    }

    /// The great-circle distance in metres: by the haversine formula, but along a meridian by the arc alone. The last digits
    /// are those of Redis, since they are stored with STOREDIST.
    pub fn distance(self, other: Position) -> f64 {
        let v = ((other.longitude.to_radians() - self.longitude.to_radians()) / 2.0).sin();
        if v == 0.0 {
            return self.distance_north(other);
        }
        let (from, to) = (self.latitude.to_radians(), other.latitude.to_radians());
        let u = ((to - from) / 2.0).sin();
        let a = u * u + from.cos() * to.cos() * v * v;
        2.0 * EARTH_RADIUS * a.sqrt().asin()
    }

    /// How far the other's parallel is, in metres.
    fn distance_north(self, other: Position) -> f64 {
        EARTH_RADIUS * (other.latitude.to_radians() - self.latitude.to_radians()).abs()
    }

    /// The distance in metres if `other` is within the shape around this place.
    pub fn distance_within(self, shape: Shape, other: Position) -> Option<f64> {
        match shape {
            Shape::Circle { radius } => Some(self.distance(other)).filter(|&distance| distance <= radius),
            Shape::Box { width, height } => {
                let north = self.distance_north(other);
                let east = other.distance(Position { longitude: self.longitude, latitude: other.latitude });
                (north <= height / 2.0 && east <= width / 2.0).then(|| self.distance(other))
            }
        }
    }

    /// Ranges of scores, the greater bound excluded, that hold all places within a shape around this place, and others.
    /// At most nine; the cell with this place comes first.
    pub fn score_ranges(self, shape: Shape) -> impl Iterator<Item = std::ops::Range<f64>> {
        self.cells(shape).into_iter().map(|cell| {
            let shift = 2 * (STEPS_MAX - cell.steps);
            ((cell.bits << shift) as f64)..(((cell.bits + 1) << shift) as f64)
        })
    }

    /// The cell with this place and those of its neighbours that the shape may reach into.
    fn cells(self, shape: Shape) -> Vec<Cell> {
        let (reach, half_width, half_height) = match shape {
            Shape::Circle { radius } => (radius, radius, radius),
            Shape::Box { width, height } => ((width / 2.0).hypot(height / 2.0), width / 2.0, height / 2.0),
        };
        let area = self.bounds(half_width, half_height);
        let mut steps = steps_for(reach, self.latitude);
        let mut cell = Cell::around(self, steps, LATITUDE_MAX);
        let is_too_small = cell.neighbour(0, 1).bounds().north_east.latitude < area.north_east.latitude
            || cell.neighbour(0, -1).bounds().south_west.latitude > area.south_west.latitude
            || cell.neighbour(1, 0).bounds().north_east.longitude < area.north_east.longitude
            || cell.neighbour(-1, 0).bounds().south_west.longitude > area.south_west.longitude;
        if steps > 1 && is_too_small {
            steps -= 1;
            cell = Cell::around(self, steps, LATITUDE_MAX);
        }
        let own = cell.bounds();
        // With so few steps the neighbours lie around the whole Earth.
        let is_open = steps < 2;
        let reaches = |east: i32, north: i32| {
            is_open
                || !(east < 0 && own.south_west.longitude < area.south_west.longitude
                    || east > 0 && own.north_east.longitude > area.north_east.longitude
                    || north < 0 && own.south_west.latitude < area.south_west.latitude
                    || north > 0 && own.north_east.latitude > area.north_east.latitude)
        };
        let around = [(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)];
        let mut cells: Vec<Cell> = Vec::with_capacity(around.len());
        for (east, north) in around.into_iter().filter(|&(east, north)| reaches(east, north)) {
            let neighbour = cell.neighbour(east, north);
            if !cells.contains(&neighbour) {
                cells.push(neighbour);
            }
        }
        cells
    }

    /// The least and greatest coordinates within a distance, in metres.
    fn bounds(self, half_width: f64, half_height: f64) -> Bounds {
        let north = (half_height / EARTH_RADIUS).to_degrees();
        // A degree of longitude is shortest at the side that is nearer to a pole.
        let side = if self.latitude < 0.0 { self.latitude - north } else { self.latitude + north };
        let east = (half_width / EARTH_RADIUS / side.to_radians().cos()).to_degrees();
        Bounds {
            south_west: Position { longitude: self.longitude - east, latitude: self.latitude - north },
            north_east: Position { longitude: self.longitude + east, latitude: self.latitude + north },
        }
    }
}

impl Cell {
    fn around(position: Position, steps: u32, latitude_max: f64) -> Self {
        let cut = |coordinate: f64, max: f64| ((coordinate + max) / (2.0 * max) * f64::from(1_u32 << steps)) as u32;
        let (x, y) = (cut(position.longitude, LONGITUDE_MAX), cut(position.latitude, latitude_max));
        Cell { bits: spread(y) | spread(x) << 1, steps }
    }

    fn bounds(self) -> Bounds {
        let (x, y) = (gather(self.bits >> 1), gather(self.bits));
        let at = |index: f64, max: f64| -max + index / f64::from(1_u32 << self.steps) * (2.0 * max);
        let corner = |beyond: f64| Position {
            longitude: at(f64::from(x) + beyond, LONGITUDE_MAX),
            latitude: at(f64::from(y) + beyond, LATITUDE_MAX),
        };
        Bounds { south_west: corner(0.0), north_east: corner(1.0) }
    }

    /// The cell so many cells away, each at most one; around the Earth at its edges.
    fn neighbour(self, east: i32, north: i32) -> Self {
        let mask = u32::MAX >> (32 - self.steps);
        // A coordinate that does not move stays, even in the extra cell behind the last one: longitude 180 has a cell
        // of its own.
        let moved = |bits: u64, by: i32| match by {
            0 => spread(gather(bits)),
            _ => spread(gather(bits).wrapping_add_signed(by) & mask),
        };
        Cell { bits: moved(self.bits, north) | moved(self.bits >> 1, east) << 1, ..self }
    }
}

/// How many halvings leave cells that, with their neighbours, hold a circle of `reach` metres.
fn steps_for(reach: f64, latitude: f64) -> u32 {
    if reach == 0.0 {
        return STEPS_MAX;
    }
    let mut reach = reach;
    let mut steps = 1_i32;
    while reach < MERCATOR_MAX {
        reach *= 2.0;
        steps += 1;
    }
    // Two less, to be safe; and fewer towards the poles, where the projection stretches.
    steps -= 2;
    steps -= i32::from(latitude.abs() > 66.0) + i32::from(latitude.abs() > 80.0);
    steps.clamp(1, STEPS_MAX as i32) as u32
}

/// Puts the bits of a number at the even places.
fn spread(bits: u32) -> u64 {
    let mut spread = u64::from(bits);
    for (shift, mask) in [
        (16, 0x0000_ffff_0000_ffff),
        (8, 0x00ff_00ff_00ff_00ff),
        (4, 0x0f0f_0f0f_0f0f_0f0f),
        (2, 0x3333_3333_3333_3333),
        (1, LATITUDE_BITS),
    ] {
        spread = (spread | spread << shift) & mask;
    }
    spread
}

/// Takes the bits at the even places.
fn gather(bits: u64) -> u32 {
    let mut gathered = bits & LATITUDE_BITS;
    for (shift, mask) in [
        (1, 0x3333_3333_3333_3333),
        (2, 0x0f0f_0f0f_0f0f_0f0f),
        (4, 0x00ff_00ff_00ff_00ff),
        (8, 0x0000_ffff_0000_ffff),
        (16, 0x0000_0000_ffff_ffff),
    ] {
        gathered = (gathered | gathered >> shift) & mask;
    }
    gathered as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PALERMO: Position = Position { longitude: 13.361389, latitude: 38.115556 };
    const CATANIA: Position = Position { longitude: 15.087269, latitude: 37.502669 };

    #[test]
    fn known_places_have_their_scores_and_texts() {
        assert_eq!(PALERMO.to_score(), 3_479_099_956_230_698.0);
        assert_eq!(CATANIA.to_score(), 3_479_447_370_796_909.0);
        assert_eq!(&Position::from_score(PALERMO.to_score()).to_geohash(), b"sqc8b49rny0");
        let [from, to] = [PALERMO, CATANIA].map(|place| Position::from_score(place.to_score()));
        assert!((from.distance(to) - 166_274.151_6).abs() < 0.000_1);
    }

    #[test]
    fn along_a_meridian_the_distance_has_the_digits_of_redis() {
        let [from, to] = [3_470_064_334_734_661.0, 2_538_841_090_053_184.0].map(Position::from_score);
        assert_eq!(from.longitude, to.longitude);
        assert_eq!(from.distance(to) / 1609.34, 4932.695676829653);
    }

    #[test]
    fn bits_come_back_from_their_places() {
        assert_eq!(spread(u32::MAX), LATITUDE_BITS);
        assert_eq!(gather(!LATITUDE_BITS), 0);
        assert_eq!(gather(spread(0x89ab_cdef)), 0x89ab_cdef);
    }

    fn anywhere() -> impl Strategy<Value = Position> {
        (-LONGITUDE_MAX..=LONGITUDE_MAX, -LATITUDE_MAX..=LATITUDE_MAX)
            .prop_map(|(longitude, latitude)| Position { longitude, latitude })
    }

    proptest! {
        #[test]
        fn a_score_is_within_a_metre_of_its_place(place in anywhere()) {
            prop_assert!(place.distance(Position::from_score(place.to_score())) < 1.0);
        }

        #[test]
        fn what_is_within_a_shape_is_within_its_ranges(
            place in (-150.0..150.0, -60.0..60.0), by in (-5.0..5.0, -5.0..5.0), radius in 1.0..400_000.0,
        ) {
            let place = Position { longitude: place.0, latitude: place.1 };
            let other = Position { longitude: place.longitude + by.0, latitude: place.latitude + by.1 };
            let score = other.to_score();
            let other = Position::from_score(score);
            for shape in [Shape::Circle { radius }, Shape::Box { width: radius, height: radius * 2.0 }] {
                if place.distance_within(shape, other).is_some() {
                    prop_assert!(place.score_ranges(shape).any(|range| range.contains(&score)));
                }
            }
        }
    }
}
