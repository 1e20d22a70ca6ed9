//! The same test over several values of one option, on one server or two, in turns.

use crate::args::{Options, Target};
use crate::run::{Outcome, run};
use crate::suite;

/// What a sweep varies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swept {
    Depth,
    Window,
    Clients,
    Size,
    Rtt,
}

impl Swept {
    /// How it is called in tables and plots.
    pub fn title(self) -> &'static str {
        match self {
            Swept::Depth => "pipeline depth",
            Swept::Window => "window",
            Swept::Clients => "connections",
            Swept::Size => "value bytes",
            Swept::Rtt => "round trip",
        }
    }
}

/// A list of values for an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sweep {
    pub swept: Swept,
    pub values: Vec<String>,
}

/// What several rounds of one test with one value on one server came to.
#[derive(Clone, Debug)]
pub struct Cell {
    pub test: String,
    pub server: String,
    /// The value of the sweep, empty without one.
    pub value: String,
    /// All rounds, the median by throughput first.
    pub rounds: Vec<Outcome>,
}

impl Cell {
    /// The round that counts.
    pub fn median(&self) -> &Outcome {
        &self.rounds[0]
    }

    /// Commands a second of the median round.
    pub fn rps(&self) -> f64 {
        self.median().rps()
    }
}

/// The same value on two servers: how much faster the first is.
#[derive(Clone, Debug)]
pub struct Ratio {
    pub test: String,
    pub value: String,
    /// Throughput of the first server in that of the second: the geometric mean over rounds.
    pub ratio: f64,
    /// The 95 % confidence interval, with three rounds or more.
    pub interval: Option<(f64, f64)>,
}

/// Runs everything, and tells each cell as it is done.
///
/// # Errors
/// The first of any run.
pub fn measure(options: &Options, mut tell: impl FnMut(&Cell)) -> Result<Vec<Cell>, String> {
    let targets: Vec<&Target> = std::iter::once(&options.target).chain(&options.versus).collect();
    let steps: Vec<(String, Options)> = match &options.sweep {
        None => vec![(String::new(), options.clone())],
        Some(Sweep { swept, values }) => {
            values.iter().filter_map(|value| Some((value.clone(), options.at(*swept, value)?))).collect()
        }
    };
    let mut cells = Vec::new();
    for index in 0..suite::tests(options).len() {
        for (value, options) in &steps {
            let test = &suite::tests(options)[index];
            let mut rounds: Vec<Vec<Outcome>> = vec![Vec::new(); targets.len()];
            for round in 0..options.rounds {
                // Who goes first changes, so that none profits from a warmer machine.
                for turn in 0..targets.len() {
                    let server = (turn + round) % targets.len();
                    rounds[server].push(run(options, targets[server], test, true)?);
                }
            }
            for (target, mut rounds) in targets.iter().zip(rounds) {
                let order = |outcome: &Outcome| outcome.rps();
                let mut speeds: Vec<f64> = rounds.iter().map(order).collect();
                speeds.sort_by(f64::total_cmp);
                let median = speeds[speeds.len() / 2];
                let first = rounds.iter().position(|outcome| outcome.rps() == median).unwrap_or(0);
                rounds.swap(0, first);
                let cell = Cell { test: test.title.clone(), server: target.to_string(), value: value.clone(), rounds };
                tell(&cell);
                cells.push(cell);
            }
        }
    }
    Ok(cells)
}

/// The ratios of a comparison, from cells in which the two servers take turns.
pub fn ratios(cells: &[Cell]) -> Vec<Ratio> {
    cells
        .chunks_exact(2)
        .map(|pair| {
            // Rounds are paired by their place among the sorted ones.
            let speeds = |cell: &Cell| {
                let mut speeds: Vec<f64> = cell.rounds.iter().map(Outcome::rps).collect();
                speeds.sort_by(f64::total_cmp);
                speeds
            };
            let logs: Vec<f64> =
                speeds(&pair[0]).iter().zip(speeds(&pair[1])).map(|(one, other)| (one / other).ln()).collect();
            let (mean, half) = mean_and_half_interval(&logs);
            Ratio {
                test: pair[0].test.clone(),
                value: pair[0].value.clone(),
                ratio: mean.exp(),
                interval: half.map(|half| ((mean - half).exp(), (mean + half).exp())),
            }
        })
        .collect()
}

/// The mean, and half of its 95 % confidence interval by Student's t with three values or more.
fn mean_and_half_interval(values: &[f64]) -> (f64, Option<f64>) {
    const T: [f64; 10] = [4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.2];
    let len = values.len() as f64;
    let mean = values.iter().sum::<f64>() / len;
    if values.len() < 3 {
        return (mean, None);
    }
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (len - 1.0);
    let t = T.get(values.len() - 3).copied().unwrap_or(1.96);
    (mean, Some(t * (variance / len).sqrt()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_need_three_values_and_hold_the_mean() {
        assert_eq!(mean_and_half_interval(&[1.0, 3.0]), (2.0, None));
        let (mean, half) = mean_and_half_interval(&[1.0, 2.0, 3.0]);
        assert_eq!(mean, 2.0);
        assert!((half.unwrap() - 4.303 / 3.0_f64.sqrt()).abs() < 1e-9);
    }
}
