//! The same test over several values of one option, on one server or two, in turns.

use crate::error::Error;
use crate::load::suite;
use crate::net::target::Target;
use crate::options::{Options, SweptValue};
use crate::outcome::{Cell, Outcome};
use crate::run::run;

/// Runs everything, and calls `tell` with each cell when it is done.
///
/// # Errors
/// The first of any run.
pub fn measure(options: &Options, mut tell: impl FnMut(&Cell)) -> Result<Vec<Cell>, Error> {
    let targets: Vec<&Target> = std::iter::once(&options.target).chain(&options.versus).collect();
    let steps: Vec<(String, Option<f64>, Options)> = match &options.sweep {
        None => vec![(String::new(), None, options.clone())],
        Some(sweep) => {
            let step = |(text, value): &(String, SweptValue)| (text.clone(), Some(value.number()), options.at(*value));
            sweep.values.iter().map(step).collect()
        }
    };
    let mut cells = Vec::new();
    for index in 0..suite::tests(options)?.len() {
        for (value, number, options) in &steps {
            let test = &suite::tests(options)?[index];
            let mut rounds: Vec<Vec<Outcome>> = vec![Vec::new(); targets.len()];
            for round in 0..options.rounds {
                // The order alternates, so that no server profits from a warmer machine.
                for turn in 0..targets.len() {
                    let server = (turn + round) % targets.len();
                    rounds[server].push(run(options, targets[server], test)?);
                }
            }
            for (target, rounds) in targets.iter().zip(rounds) {
                let cell = Cell::new(test.title.clone(), target.to_string(), value.clone(), *number, rounds);
                tell(&cell);
                cells.push(cell);
            }
        }
    }
    Ok(cells)
}
