//! Runs the differential tests of one family, or of one file of cases, and shows the differences: of random sequences the first
//! (with `--keep-going` all).

use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use onrush_tests::cases;
use onrush_tests::diff::{Mode, Runner};
use onrush_tests::families::{self, FAMILIES, Family, Generator};
use onrush_tests::rng::Rng;
use onrush_tests::server::Oracle;

/// Holds the replies to sequences of commands against redis-server's
#[derive(Debug, Parser)]
struct Args {
    /// A family, for random sequences, or a file of hand-made ones
    #[arg(value_name = "FAMILY|FILE.txt", required_unless_present = "list")]
    what: Option<String>,
    /// The first random sequence
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// How many random sequences
    #[arg(long, value_name = "N", default_value_t = 500)]
    sequences: u64,
    /// Commands of each
    #[arg(long, value_name = "N", default_value_t = 60)]
    commands: usize,
    /// Goes on behind a difference
    #[arg(long)]
    keep_going: bool,
    /// Prints the names of the families
    #[arg(long)]
    list: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match args.what.as_deref() {
        _ if args.list => FAMILIES.iter().for_each(|family| println!("{}", family.name)),
        Some(path) if path.ends_with(".txt") => return run_file(Path::new(path)),
        name => match families::family(name.unwrap_or_default()) {
            Some(family) => return run_family(family, &args),
            None => {
                let names: Vec<&str> = FAMILIES.iter().map(|family| family.name).collect();
                eprintln!("no family '{}'; the families are {}", name.unwrap_or_default(), names.join(", "));
                return ExitCode::FAILURE;
            }
        },
    }
    ExitCode::SUCCESS
}

fn run_family(family: &Family, args: &Args) -> ExitCode {
    let Args { seed: first, sequences: count, commands, .. } = *args;
    let mut pairs = Oracle::ALL.map(|oracle| (Runner::for_family(family, oracle), Generator::new(family, oracle)));
    let mut differences = 0;
    for seed in first..first.saturating_add(count) {
        let (protocol, mode) = family.travel(seed);
        let (runner, generator) = &mut pairs[family.oracle(seed) as usize];
        let sequence = generator.sequence(&mut Rng::new(seed), protocol, commands);
        if let Err(difference) = runner.check(&format!("{} --seed {seed}", family.name), &sequence, mode) {
            println!("{difference}\n");
            differences += 1;
            if !args.keep_going {
                break;
            }
        }
    }
    println!("{}: {differences} differences in up to {count} sequences of {commands} commands", family.name);
    if differences == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run_file(path: &Path) -> ExitCode {
    let mut runners = Oracle::ALL.map(|oracle| Runner::new(&["--enable-debug-command", "yes"], &[], oracle));
    let cases = cases::read(path);
    let mut differences = 0;
    for case in &cases {
        for sequence in &case.sequences {
            for runner in &mut runners {
                let single = runner.check(&case.name, sequence, Mode::Single);
                let checked = match runner.oracle() {
                    Oracle::Older => single.and_then(|()| runner.check(&case.name, sequence, Mode::Pipeline)),
                    _ => single,
                };
                if let Err(difference) = checked {
                    println!("{difference}\n");
                    differences += 1;
                }
            }
        }
    }
    println!("{}: {} cases, {differences} differences", path.display(), cases.len());
    if differences == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
