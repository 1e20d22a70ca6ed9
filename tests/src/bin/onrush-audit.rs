//! The cost audit by hand: every command on its worst shapes of data at sizes up to 1,000,000, beside redis-server.
//!
//! ```text
//! onrush-audit [--max N] [--turns N] [--jobs N] [--only PART-OF-A-NAME] [--out FILE.md]   measures and writes a table
//! onrush-audit --short                                                                    what `make test` does
//! onrush-audit --list                                                                     the scenarios
//! ```

use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};

use onrush_tests::audit::run::{Settings, audit};
use onrush_tests::audit::{report, scenarios};
use onrush_tests::filter;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.iter().any(|arg| arg == "--list") {
        scenarios::all().iter().for_each(|scenario| println!("{}", scenario.name));
        return ExitCode::SUCCESS;
    }
    let known =
        filter::check_options(&args, &["--max", "--turns", "--repeats", "--jobs", "--only", "--out"], &["--short"]);
    if let Err(reason) = known {
        eprintln!("{reason}");
        return ExitCode::FAILURE;
    }
    let option = |name: &str| args.iter().position(|arg| arg == name).and_then(|at| args.get(at + 1));
    let number = |name: &str, default: usize| option(name).map_or(default, |text| text.parse().expect("a number"));
    let default = if args.iter().any(|arg| arg == "--short") { Settings::TEST } else { Settings::FULL };
    let settings = Settings {
        size_max: number("--max", default.size_max),
        turns: number("--turns", default.turns),
        repeats: number("--repeats", default.repeats),
        jobs: number("--jobs", default.jobs),
        ..default
    };
    let only = option("--only").map_or("", String::as_str);
    let chosen = match filter::by_part(scenarios::all(), only, |scenario| scenario.name.to_string()) {
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
    if let Some(path) = option("--out") {
        let text = report::head(&args) + &report::table(&outcomes);
        std::fs::write(path, text).expect("the table is written");
    }
    let faults: usize = outcomes.iter().map(|outcome| outcome.faults.len()).sum();
    println!("{} scenarios, {faults} faults", outcomes.len());
    if faults == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
