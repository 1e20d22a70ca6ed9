//! `onrush-sim cluster`: runs simulations of clusters.

use onrush_sim::Failure;
use onrush_sim::cluster::{Outcome, Plant, Settings, run};

use crate::runs::{Bounds, Simulations};

const USAGE: &str = "\
Runs the rules of the cluster bus on a virtual network, and checks that they hold.

onrush-sim cluster [--seed S] [--seeds N] [--seconds N] [--jobs N] [--nodes N] [--idle] [--force MS]
                   [--plant NAME] [--history]

  --seed S      the first seed (default: drawn from the clock)
  --seeds N     ends after so many seeds (default: 1 with --seed alone)
  --seconds N   ends after so many seconds (default: 60 if no end is given)
  --jobs N      simulations at the same time (default: 1)
  --nodes N     so many nodes, half of them primaries (default: drawn)
  --idle        nothing goes wrong for a minute, to measure what a cluster costs
  --force MS    tells a replica to take over within so many simulated milliseconds of the one before, for many elections
  --plant NAME  makes a fault that has to be found: vote-before-save
  --history     shows what happened before a fault";

/// Simulations of clusters.
pub struct Clusters {
    settings: Settings,
}

impl Clusters {
    /// Reads the arguments.
    pub fn parse(mut args: impl Iterator<Item = String>) -> Result<(Bounds, Self), String> {
        let (mut bounds, mut settings) = (Bounds::default(), Settings::default());
        while let Some(arg) = args.next() {
            let mut word = || args.next().ok_or(format!("{arg} needs a value"));
            let number = |text: String| text.parse::<u64>().map_err(|_| format!("{arg} needs a number, not {text}"));
            match arg.as_str() {
                "--nodes" => settings.nodes = Some(number(word()?)?.max(6) as usize),
                "--idle" => settings.faults_ms = Some(0),
                "--force" => settings.forced_every_ms = Some(number(word()?)?.max(1)),
                "--plant" => settings.plant = Some(plant(&word()?)?),
                _ if bounds.take(&arg, || number(word()?))? => {}
                _ => return Err(format!("unknown option {arg}\n\n{USAGE}")),
            }
        }
        Ok((bounds, Self { settings }))
    }
}

fn plant(name: &str) -> Result<Plant, String> {
    match name {
        "vote-before-save" => Ok(Plant::VoteBeforeSave),
        _ => Err(format!("unknown plant {name}\n\n{USAGE}")),
    }
}

impl Simulations for Clusters {
    type Outcome = Outcome;

    fn run(&self, seed: u64) -> Result<Outcome, Box<Failure>> {
        run(seed, &self.settings)
    }

    fn add(total: &mut Outcome, one: &Outcome) {
        total.events += one.events;
        total.messages += one.messages;
        total.simulated_ms += one.simulated_ms;
        total.elections += one.elections;
        total.wins += one.wins;
        total.restarts += one.restarts;
        total.hand_overs += one.hand_overs;
        total.kept += one.kept;
        total.healed_ms = total.healed_ms.max(one.healed_ms);
    }

    fn show(total: &Outcome, seeds: u64, seconds: f64) {
        let Outcome { events, messages, elections, wins, restarts, hand_overs, kept, .. } = total;
        let simulated = total.simulated_ms as f64 / 1_000.0;
        println!(
            "{seeds} seeds in {seconds:.0} s: {simulated:.0} simulated seconds, {:.2} ms for each; {events} events, \
             {messages} messages; {elections} elections ({:.0} a second), {wins} won; {restarts} restarts; \
             {hand_overs} hand-overs of slots, {kept} kept; agreed at most {} s after the healing",
            seconds * 1_000.0 / simulated.max(0.001),
            *elections as f64 / seconds,
            total.healed_ms / 1_000,
        );
    }

    fn again(&self, seed: u64) -> String {
        let nodes = self.settings.nodes.map_or_else(String::new, |nodes| format!(" --nodes {nodes}"));
        let forced = self.settings.forced_every_ms.map_or_else(String::new, |ms| format!(" --force {ms}"));
        format!("onrush-sim cluster --seed {seed}{nodes}{forced}")
    }
}
