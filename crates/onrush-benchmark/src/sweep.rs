//! The same test over several values of one option, on one server or two, in turns.

use crate::error::Error;
use crate::load::suite::{self, Test};
use crate::net::target::Target;
use crate::options::{Options, SweptValue};
use crate::outcome::{Cell, Outcome};
use crate::run::run;

/// Runs everything, and calls `tell` with each cell when it is done. The first run that fails is the last: returns the
/// cells so far, the last of which may have fewer rounds than asked for, and that error.
pub fn measure(options: &Options, mut tell: impl FnMut(&Cell)) -> (Vec<Cell>, Result<(), Error>) {
    let mut cells = Vec::new();
    let add = |cell| {
        tell(&cell);
        cells.push(cell);
    };
    let done = measure_by(run, options, add);
    (cells, done)
}

/// Passes the cells to `add`; `run` runs a test.
fn measure_by(
    mut run: impl FnMut(&Options, &Target, &Test) -> Result<Outcome, Error>,
    options: &Options,
    mut add: impl FnMut(Cell),
) -> Result<(), Error> {
    let targets: Vec<&Target> = std::iter::once(&options.target).chain(&options.versus).collect();
    let steps: Vec<(String, Option<f64>, Options)> = match &options.sweep {
        None => vec![(String::new(), None, options.clone())],
        Some(sweep) => {
            let step = |(text, value): &(String, SweptValue)| (text.clone(), Some(value.number()), options.at(*value));
            sweep.values.iter().map(step).collect()
        }
    };
    for index in 0..suite::tests(options)?.len() {
        for (value, number, options) in &steps {
            let test = &suite::tests(options)?[index];
            let (rounds, done) = in_turns(options.rounds, targets.len(), |server| run(options, targets[server], test));
            for (target, rounds) in targets.iter().zip(rounds).filter(|(_, rounds)| !rounds.is_empty()) {
                add(Cell::new(test.title.clone(), target.to_string(), value.clone(), *number, rounds));
            }
            done?;
        }
    }
    Ok(())
}

/// The rounds of each server up to the first that fails.
fn in_turns(
    rounds_len: usize,
    servers_len: usize,
    mut run: impl FnMut(usize) -> Result<Outcome, Error>,
) -> (Vec<Vec<Outcome>>, Result<(), Error>) {
    let mut rounds: Vec<Vec<Outcome>> = vec![Vec::new(); servers_len];
    for round in 0..rounds_len {
        // The order alternates, so that no server profits from a warmer machine.
        for turn in 0..servers_len {
            let server = (turn + round) % servers_len;
            match run(server) {
                Ok(outcome) => rounds[server].push(outcome),
                Err(error) => return (rounds, Err(error)),
            }
        }
    }
    (rounds, Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::example;

    #[test]
    fn what_was_measured_before_an_error_is_kept() {
        let line = "-t set --sweep depth=1,2 --versus h:2 --rounds 2";
        let options = crate::args::parse(line.split(' ').map(Into::into)).unwrap();
        for (runs, rounds) in [(0, vec![]), (1, vec![1]), (3, vec![1, 2]), (5, vec![2, 2, 1]), (8, vec![2, 2, 2, 2])] {
            let (mut left, mut cells) = (runs, Vec::new());
            let run = |_: &Options, _: &Target, _: &Test| {
                left -= 1;
                if left < 0 { Err(Error::Closed) } else { Ok(example(100)) }
            };
            let done = measure_by(run, &options, |cell| cells.push(cell));
            assert_eq!(done.is_ok(), runs == 8);
            assert_eq!(cells.iter().map(|cell| cell.rounds().len()).collect::<Vec<_>>(), rounds, "{runs} runs");
            // A pair of cells of the same value has a ratio, of the rounds that both have.
            assert_eq!(crate::stats::ratios(&cells).len(), rounds.len() / 2);
        }
    }
}
