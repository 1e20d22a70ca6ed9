//! What counts as a fault: a cost that grows faster than redis-server's, or is ten times as high, or memory kept.

use std::time::Duration;

use super::bench::{Cost, Memory};
use super::script::Line;
use super::side::{RSS_ALLOWANCE, Side, Taken, USED_ALLOWANCE};

/// Costs below this mean nothing: a wake-up and a system call cost that much on a busy machine.
const CPU_FLOOR: Duration = Duration::from_micros(100);
/// The same for wall-clock time, which other programs affect.
const WALL_FLOOR: Duration = Duration::from_millis(25);
/// Growth is judged only if the cost at the largest size reaches this.
const GROWTH_FLOOR: Duration = Duration::from_micros(500);
/// A cost of this many times redis-server's is a fault.
const RATIO_MAX: f64 = 10.0;
/// The exponent of growth may exceed redis-server's by this.
const EXPONENT_TOLERANCE: f64 = 0.45;
/// Over all sizes a cost may grow this many times as much as redis-server's: caches and page faults can do that. With only
/// two sizes this allows more than [`EXPONENT_TOLERANCE`].
const GROWTH_TIMES: f64 = 5.0;
/// Growth is a fault only if the cost has already reached this part of redis-server's.
const GROWTH_RATIO_MIN: f64 = 0.5;
/// The exponent that is expected of redis-server if none has the command.
const LONE_EXPONENT: f64 = 0.95;
/// How long a PING may wait beyond three times its wait at redis-server.
const WAIT_ALLOWANCE: Duration = Duration::from_millis(150);

/// The kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The server did not reply in time, closed the connection or replied with an error.
    Stopped,
    /// Ten times redis-server's cost.
    Slow,
    /// A power more than redis-server's.
    Growth,
    /// Another client waited much longer than for redis-server.
    Wait,
    /// Memory in use does not come back.
    Left,
    /// Resident memory does not come back.
    LeftResident,
    /// Takes much more memory than redis-server.
    Takes,
    /// Takes much more memory than redis-server for a while.
    Peak,
}

/// A fault that was found.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The line it is about, or `memory`.
    pub what: &'static str,
    /// Its kind.
    pub kind: Kind,
    /// The figures.
    pub detail: String,
}

/// Slope of the costs over the sizes on logarithmic scales, by least squares; costs below the floor count as it.
pub fn exponent(costs: &[(usize, Duration)]) -> f64 {
    let points: Vec<(f64, f64)> =
        costs.iter().map(|(n, cost)| ((*n as f64).ln(), (*cost).max(CPU_FLOOR).as_secs_f64().ln())).collect();
    if points.len() < 2 {
        return 0.0;
    }
    let count = points.len() as f64;
    let mean = |pick: fn(&(f64, f64)) -> f64| points.iter().map(pick).sum::<f64>() / count;
    let (mean_x, mean_y) = (mean(|p| p.0), mean(|p| p.1));
    let covariance: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let variance: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    covariance / variance
}

/// By how much an exponent may exceed another one if both are of costs at these sizes.
fn tolerance(costs: &[(usize, Cost)]) -> f64 {
    let sizes = || costs.iter().map(|(n, _)| *n as f64);
    let span = sizes().fold(1.0, f64::max) / sizes().fold(f64::INFINITY, f64::min);
    if span > 1.0 { (GROWTH_TIMES.ln() / span.ln()).max(EXPONENT_TOLERANCE) } else { EXPONENT_TOLERANCE }
}

/// How many times `theirs` is `ours`, both no less than `floor`.
pub fn ratio(ours: Duration, theirs: Duration, floor: Duration) -> f64 {
    ours.max(floor).as_secs_f64() / theirs.max(floor).as_secs_f64()
}

/// The costs of a line by size.
pub fn series(side: &Side, line: usize) -> Vec<(usize, Cost)> {
    side.costs.iter().filter(|((of, _), _)| *of == line).map(|((_, n), cost)| (*n, *cost)).collect()
}

/// CPU time alone.
pub fn cpu(series: &[(usize, Cost)]) -> Vec<(usize, Duration)> {
    series.iter().map(|(n, cost)| (*n, cost.cpu)).collect()
}

/// All the faults of a scenario.
pub fn faults(lines: &[Line], ours: &Side, theirs: Option<&Side>) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let mut found = |kind, detail| faults.push(Fault { what: line.text, kind, detail });
        if let Some((n, reason)) = ours.stopped.get(&index) {
            found(Kind::Stopped, format!("at {n}: {reason}"));
        }
        if line.measured {
            let series_of = |side| series(side, index);
            judge_line(&series_of(ours), theirs.map(series_of), found);
        }
    }
    if let Some((n, taken)) = ours.memory.last_key_value() {
        let other = theirs.and_then(|side| side.memory.get(n)).copied();
        // Without a server to compare with, only the memory that is left can be judged.
        judge_memory(*n, taken, other, &mut faults);
    }
    faults
}

fn judge_line(ours: &[(usize, Cost)], theirs: Option<Vec<(usize, Cost)>>, mut found: impl FnMut(Kind, String)) {
    let Some(theirs) = theirs else {
        let own = exponent(&cpu(ours));
        if own > LONE_EXPONENT + tolerance(ours) && ours.last().is_some_and(|(_, cost)| cost.cpu >= GROWTH_FLOOR) {
            found(Kind::Growth, format!("exponent {own:.2}, with nothing to compare to"));
        }
        return;
    };
    // Both ran at the sizes up to the largest that both reached.
    let ours: Vec<_> = ours.iter().filter(|(n, _)| theirs.iter().any(|(m, _)| m == n)).copied().collect();
    let theirs: Vec<_> = theirs.iter().filter(|(n, _)| ours.iter().any(|(m, _)| m == n)).copied().collect();
    let (Some((n, our)), Some((_, their))) = (ours.last(), theirs.last()) else {
        return;
    };
    let times = ratio(our.cpu, their.cpu, CPU_FLOOR);
    let times_wall = ratio(our.wall, their.wall, WALL_FLOOR);
    if times > RATIO_MAX {
        found(Kind::Slow, format!("at {n}: {:?} of CPU, redis-server {:?}", our.cpu, their.cpu));
    } else if times_wall > RATIO_MAX {
        found(Kind::Slow, format!("at {n}: {:?} on the clock, redis-server {:?}", our.wall, their.wall));
    }
    // A cost that falls with the size falls by chance.
    let (our_power, their_power) = (exponent(&cpu(&ours)), exponent(&cpu(&theirs)).max(0.0));
    let counts = our.cpu >= GROWTH_FLOOR && our.cpu.as_secs_f64() >= their.cpu.as_secs_f64() * GROWTH_RATIO_MIN;
    if counts && our_power > their_power + tolerance(&ours) {
        found(
            Kind::Growth,
            format!(
                "exponent {our_power:.2}, redis-server {their_power:.2}; at {n}: {:?} and {:?}",
                our.cpu, their.cpu
            ),
        );
    }
    if let Some(wait) = our.longest_wait {
        let bound = 3 * their.wall.max(their.longest_wait.unwrap_or_default()) + WAIT_ALLOWANCE;
        if wait > bound {
            let theirs = their.longest_wait.unwrap_or_default();
            found(
                Kind::Wait,
                format!(
                    "at {n}: another client waited {wait:?}; redis-server took {:?}, a client waited {theirs:?}",
                    their.wall
                ),
            );
        }
    }
}

fn judge_memory(n: usize, ours: &Taken, theirs: Option<Taken>, faults: &mut Vec<Fault>) {
    let mut found = |kind, detail| faults.push(Fault { what: "memory", kind, detail });
    for (way, left, other) in [
        ("FLUSHALL", ours.left_by_flush, theirs.and_then(|t| t.left_by_flush)),
        ("DEL", ours.left_by_del, theirs.and_then(|t| t.left_by_del)),
    ] {
        let (left, other) = (left.unwrap_or_default(), other.unwrap_or_default());
        if left.used > 2 * other.used + USED_ALLOWANCE {
            found(Kind::Left, format!("at {n}: {} in use after {way}, redis-server {}", mb(left.used), mb(other.used)));
        }
        if left.rss > 2 * other.rss + RSS_ALLOWANCE {
            found(
                Kind::LeftResident,
                format!("at {n}: {} resident after {way}, redis-server {}", mb(left.rss), mb(other.rss)),
            );
        }
    }
    let Some(theirs) = theirs else {
        return;
    };
    let Memory { used, rss } = ours.full;
    if used > 2 * theirs.full.used + 2 * USED_ALLOWANCE || rss > 2 * theirs.full.rss + RSS_ALLOWANCE {
        let (our, their) = (ours.full, theirs.full);
        found(
            Kind::Takes,
            format!(
                "at {n}: {} in use, {} resident; redis-server {}, {}",
                mb(our.used),
                mb(our.rss),
                mb(their.used),
                mb(their.rss)
            ),
        );
    }
    if ours.peak > 3 * theirs.peak + RSS_ALLOWANCE {
        found(Kind::Peak, format!("at {n}: {} at most, redis-server {}", mb(ours.peak), mb(theirs.peak)));
    }
}

/// Bytes as megabytes.
pub fn mb(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / f64::from(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs(micros: [u64; 3]) -> Vec<(usize, Cost)> {
        let cost = |t| Cost { cpu: Duration::from_micros(t), wall: Duration::from_micros(t), longest_wait: None };
        [1_000, 10_000, 100_000].into_iter().zip(micros.map(cost)).collect()
    }

    fn kinds(ours: [u64; 3], theirs: [u64; 3]) -> Vec<Kind> {
        let mut kinds = Vec::new();
        judge_line(&costs(ours), Some(costs(theirs)), |kind, _| kinds.push(kind));
        kinds
    }

    #[test]
    fn exponents_are_slopes() {
        assert!((exponent(&cpu(&costs([100, 1_000, 10_000]))) - 1.0).abs() < 0.01);
        assert!((exponent(&cpu(&costs([100, 10_000, 1_000_000]))) - 2.0).abs() < 0.01);
        assert!(exponent(&cpu(&costs([1, 2, 3]))).abs() < 0.01, "below the floor everything is equal");
    }

    #[test]
    fn two_sizes_tell_less_than_three() {
        let three = costs([100, 1_000, 10_000]);
        assert!((tolerance(&three) - EXPONENT_TOLERANCE).abs() < 0.01);
        assert!((tolerance(&three[..2]) - 0.70).abs() < 0.01, "ten times the size, five times the growth");
        assert!((tolerance(&three[..1]) - EXPONENT_TOLERANCE).abs() < 0.01);
    }

    #[test]
    fn what_is_slow_or_grows_is_a_fault() {
        assert_eq!(kinds([100, 1_000, 10_000], [100, 1_000, 10_000]), []);
        assert_eq!(kinds([2_000, 20_000, 200_000], [100, 1_000, 10_000]), [Kind::Slow]);
        assert_eq!(kinds([50, 500, 5_000], [1_000, 1_000, 1_000]), [Kind::Growth]);
        assert_eq!(kinds([1, 10, 20_000], [10, 20, 30]), [Kind::Slow, Kind::Growth]);
        assert_eq!(kinds([1, 10, 100], [1, 1, 1]), [], "too short to tell");
    }

    #[test]
    fn memory_that_stays_is_a_fault() {
        let left = |used| Taken { left_by_del: Some(Memory { used, rss: 0 }), ..Taken::default() };
        let mut faults = Vec::new();
        judge_memory(1_000, &left(USED_ALLOWANCE), Some(left(0)), &mut faults);
        assert!(faults.is_empty());
        judge_memory(1_000, &left(USED_ALLOWANCE + 1), Some(left(0)), &mut faults);
        assert_eq!(faults[0].kind, Kind::Left);
    }
}
