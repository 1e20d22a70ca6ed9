//! Runs the differential tests of one family, or of one file of cases, and shows the differences: of random sequences the first
//! (with `--keep-going` all).
//!
//! ```text
//! onrush-diff FAMILY [--seed N] [--sequences N] [--commands N] [--keep-going]   random sequences
//! onrush-diff path/to/cases.txt                                                 hand-made sequences
//! onrush-diff --list                                                            the families
//! ```

use std::path::Path;
use std::process::ExitCode;

use onrush_tests::cases;
use onrush_tests::diff::{Mode, Runner};
use onrush_tests::families::{self, FAMILIES, Family, Generator};
use onrush_tests::rng::Rng;
use onrush_tests::server::Oracle;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        Some("--list") => {
            FAMILIES.iter().for_each(|f| println!("{}", f.name));
            ExitCode::SUCCESS
        }
        Some(path) if path.ends_with(".txt") => run_file(Path::new(path)),
        Some(name) => match families::family(name) {
            Some(family) => run_family(family, &args[1..]),
            None => {
                let names: Vec<&str> = FAMILIES.iter().map(|family| family.name).collect();
                eprintln!("no family '{name}'; the families are {}", names.join(", "));
                ExitCode::FAILURE
            }
        },
        None => {
            eprintln!("usage: onrush-diff FAMILY|FILE.txt|--list [--seed N] [--sequences N] [--commands N]");
            ExitCode::FAILURE
        }
    }
}

fn option(args: &[String], name: &str, default: u64) -> u64 {
    let at = args.iter().position(|a| a == name);
    at.and_then(|i| args.get(i + 1)?.parse().ok()).unwrap_or(default)
}

fn run_family(family: &Family, args: &[String]) -> ExitCode {
    let first = option(args, "--seed", 1);
    let count = option(args, "--sequences", 500);
    let commands = option(args, "--commands", 60) as usize;
    let mut pairs = Oracle::ALL.map(|oracle| (Runner::for_family(family, oracle), Generator::new(family, oracle)));
    let mut differences = 0;
    for seed in first..first + count {
        let (protocol, mode) = family.travel(seed);
        let (runner, generator) = &mut pairs[family.oracle(seed) as usize];
        let sequence = generator.sequence(&mut Rng::new(seed), protocol, commands);
        if let Err(difference) = runner.check(&format!("{} --seed {seed}", family.name), &sequence, mode) {
            println!("{difference}\n");
            differences += 1;
            if !args.iter().any(|a| a == "--keep-going") {
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
                    Oracle::Newer => single,
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
