//! Runs the cost audit by hand: every command on its worst shapes of data at sizes up to 1,000,000, beside
//! redis-server.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::Parser;
use onrush_tests::audit::run::{Settings, audit};
use onrush_tests::audit::{report, scenarios};
use onrush_tests::filter;

/// Measures what every command costs on its worst shapes of data, beside redis-server
#[derive(Debug, Parser)]
struct Args {
    /// The largest size of the data
    #[arg(long, value_name = "N")]
    max: Option<usize>,
    /// Turns that the servers take
    #[arg(long, value_name = "N")]
    turns: Option<usize>,
    /// Measurements in a turn
    #[arg(long, value_name = "N")]
    repeats: Option<usize>,
    /// Scenarios measured at a time
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Only the scenarios whose names hold this
    #[arg(long, value_name = "PART-OF-A-NAME", default_value = "")]
    only: String,
    /// Writes a table
    #[arg(long, value_name = "FILE.md")]
    out: Option<PathBuf>,
    /// What `make test` does
    #[arg(long)]
    short: bool,
    /// Prints the names of the scenarios
    #[arg(long)]
    list: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    if args.list {
        scenarios::all().iter().for_each(|scenario| println!("{}", scenario.name));
        return ExitCode::SUCCESS;
    }
    let default = if args.short { Settings::LARGE } else { Settings::FULL };
    let settings = Settings {
        size_max: args.max.unwrap_or(default.size_max),
        turns: args.turns.unwrap_or(default.turns),
        repeats: args.repeats.unwrap_or(default.repeats),
        jobs: args.jobs.unwrap_or(default.jobs),
        ..default
    };
    let chosen = match filter::by_part(scenarios::all(), &args.only, |scenario| scenario.name.to_string()) {
        Ok(chosen) => chosen,
        Err(reason) => {
            eprintln!("--only {reason}");
            return ExitCode::FAILURE;
        }
    };
    let done = AtomicUsize::new(0);
    let outcomes = audit(&chosen, &settings, |outcome| {
        let number = done.fetch_add(1, Ordering::Relaxed) + 1;
        println!("[{number}/{}] {}", chosen.len(), report::summary(outcome));
    });
    if let Some(path) = args.out {
        let words: Vec<String> = std::env::args().skip(1).collect();
        let text = report::head(&words) + &report::table(&outcomes);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).expect("its folder is made");
        }
        std::fs::write(path, text).expect("the table is written");
    }
    let faults: usize = outcomes.iter().map(|outcome| outcome.faults.len()).sum();
    println!("{} scenarios, {faults} faults", outcomes.len());
    if faults == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
