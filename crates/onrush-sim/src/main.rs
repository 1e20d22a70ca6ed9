//! `onrush-sim`: runs simulations, and says which seed shows a fault.

mod cluster_runs;
mod runs;

use std::process::ExitCode;

use onrush_sim::simulation::run;
use onrush_sim::{Failure, Outcome};
use runs::{Bounds, Simulations};

const USAGE: &str = "\
Runs the engine under one seeded scheduler and checks what its clients saw.

onrush-sim [--seed S] [--seeds N] [--commands N] [--seconds N] [--jobs N] [--history]

  --seed S      the first seed (default: drawn from the clock)
  --seeds N     ends after so many seeds (default: 1 with --seed alone)
  --commands N  ends after so many commands
  --seconds N   ends after so many seconds (default: 60 if no end is given)
  --jobs N      simulations at the same time (default: 1)
  --history     shows the whole history of a round that fails

onrush-sim cluster …: the same for the rules of the cluster bus";

/// Simulations of the engine.
struct Engines {
    /// They end after so many commands.
    commands_max: Option<u64>,
}

impl Engines {
    fn parse(mut args: impl Iterator<Item = String>) -> Result<(Bounds, Self), String> {
        let (mut bounds, mut commands_max) = (Bounds::default(), None);
        while let Some(arg) = args.next() {
            let mut number = || {
                let text = args.next().ok_or(format!("{arg} needs a number"))?;
                text.parse::<u64>().map_err(|_| format!("{arg} needs a number, not {text}"))
            };
            match arg.as_str() {
                "--commands" => commands_max = Some(number()?),
                _ if bounds.take(&arg, &mut number)? => {}
                _ => return Err(format!("unknown option {arg}\n\n{USAGE}")),
            }
        }
        bounds.has_other_end = commands_max.is_some();
        Ok((bounds, Self { commands_max }))
    }
}

impl Simulations for Engines {
    type Outcome = Outcome;

    fn run(&self, seed: u64) -> Result<Outcome, Box<Failure>> {
        run(seed)
    }

    fn add(total: &mut Outcome, one: &Outcome) {
        total.commands += one.commands;
        total.undecided += one.undecided;
        total.longest_wait = total.longest_wait.max(one.longest_wait);
        total.syncs = [total.syncs[0] + one.syncs[0], total.syncs[1] + one.syncs[1]];
        total.promotions += one.promotions;
    }

    fn is_enough(&self, total: &Outcome) -> bool {
        self.commands_max.is_some_and(|most| total.commands >= most)
    }

    fn show(total: &Outcome, seeds: u64, seconds: f64) {
        let Outcome { commands, undecided, longest_wait, syncs: [full, partial], promotions, .. } = total;
        println!(
            "{seeds} seeds, {commands} commands in {seconds:.0} s: {:.0} commands a second; {undecided} histories undecided; \
             threads waited for others for up to {longest_wait} steps; replicas: {full} full and {partial} partial \
             synchronizations, {promotions} promotions",
            *commands as f64 / seconds,
        );
    }

    fn again(&self, seed: u64) -> String {
        format!("onrush-sim --seed {seed}")
    }
}

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1).peekable();
    if args.next_if_eq("cluster").is_some() {
        return runs::main(cluster_runs::Clusters::parse(args));
    }
    runs::main(Engines::parse(args))
}
