//! Writes inputs for the target `pipelines`: random sequences of the families under differential test.
//!
//! ```sh
//! cargo run -p onrush-fuzz --example corpus -- FOLDER [SEED [SEQUENCES]]
//! ```
//!
//! SEQUENCES are those of each family; the same seed makes the same files, but for Unix times.

use std::path::PathBuf;
use std::{env, fs, io};

use onrush_fuzz::{CONNECTIONS, Step, encode};
use onrush_tests::argv::Argv;
use onrush_tests::diff::{self, Action};
use onrush_tests::families::{FAMILIES, Generator};
use onrush_tests::rng::Rng;
use onrush_tests::server::Oracle;

/// Commands of a sequence: about as many as fit into an input.
const COMMANDS_MAX: usize = 60;

fn main() -> io::Result<()> {
    let mut arguments = env::args().skip(1);
    let folder =
        PathBuf::from(arguments.next().ok_or_else(|| io::Error::other("usage: corpus FOLDER [SEED [SEQUENCES]]"))?);
    let mut number = |usual| arguments.next().and_then(|text| text.parse::<u64>().ok()).unwrap_or(usual);
    let (first, sequences) = (number(1), number(40));
    fs::create_dir_all(&folder)?;
    for family in FAMILIES {
        for seed in first..first + sequences {
            // The newer oracle has all commands.
            let mut generator = Generator::new(family, Oracle::Newer);
            let mut random = Rng::new(seed);
            let len = 1 + random.below(COMMANDS_MAX);
            let protocol = if seed.is_multiple_of(2) { 3 } else { 2 };
            let sequence = generator.sequence(&mut random, protocol, len);
            let mut steps = Vec::new();
            if protocol == 3 {
                steps.extend((0..CONNECTIONS).map(|connection| call(connection, &Argv::new(&["HELLO", "3"]))));
            }
            for step in &sequence.steps {
                steps.extend(steps_of(step, seed, &mut random));
            }
            fs::write(folder.join(format!("{}-{seed}", family.name)), encode(&steps))?;
        }
    }
    Ok(())
}

fn call(connection: usize, argv: &Argv) -> Step {
    Step::Call { connection, argv: argv.0.clone() }
}

/// A command, and whether its pipeline ends with it: always, never, or by chance. Now and then time passes.
fn steps_of(step: &diff::Step, seed: u64, random: &mut Rng) -> Vec<Step> {
    let connection = step.conn % CONNECTIONS;
    let argv = match &step.action {
        Action::Call { argv, .. } | Action::Until { argv, .. } => argv.clone(),
        Action::ScanAll(options) => Argv([Argv::new(&["SCAN", "0"]).0, options.0.clone()].concat()),
    };
    let mut steps = vec![call(connection, &argv)];
    if random.percent([100, 0, 30][(seed % 3) as usize]) {
        steps.push(Step::Send { connection });
    }
    if random.percent(3) {
        steps.push(Step::Pass { ms: 1000 });
    }
    steps
}
