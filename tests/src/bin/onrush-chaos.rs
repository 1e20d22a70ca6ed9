//! Runs a server through faults drawn by a seed; see `onrush_tests::chaos`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use onrush_tests::chaos::options::{Options, Plant};
use onrush_tests::chaos::{self, names};
use onrush_tests::filter::check_names;

/// Runs a server through faults drawn by a seed: scripts without end, failing disks, limits, kills. A judge connects all the
/// time, clients check every reply, and after each start what was acknowledged has to be there
#[derive(Debug, Parser)]
struct Args {
    /// How long; a round that has begun ends by itself
    #[arg(long, value_name = "N", default_value_t = 60)]
    seconds: u64,
    /// All random choices follow from it; else ONRUSH_CHAOS_SEED, else the time of day
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// The most rounds
    #[arg(long, value_name = "N", default_value_t = u64::MAX, hide_default_value = true)]
    rounds: u64,
    /// Faults in each life of a server
    #[arg(long, value_name = "N")]
    acts: Option<usize>,
    /// Another server
    #[arg(long, value_name = "PATH")]
    server_bin: Option<PathBuf>,
    /// Only these faults and ends
    #[arg(long, value_name = "NAME,NAME", value_delimiter = ',')]
    faults: Vec<String>,
    /// Only these wrappings of scripts, at least one of each kind
    #[arg(long, value_name = "NAME,NAME", value_delimiter = ',')]
    wrappings: Vec<String>,
    /// None of these faults, ends and wrappings
    #[arg(long, value_name = "NAME,NAME", value_delimiter = ',')]
    without: Vec<String>,
    /// Directives for every server, over those drawn: appendfsync=always
    #[arg(long, value_name = "NAME=VALUE", value_delimiter = ',')]
    settings: Vec<String>,
    /// A fault of the server to make, which has to be found
    #[arg(long, value_name = "NAME")]
    plant: Option<String>,
    /// No lines of progress
    #[arg(long)]
    quiet: bool,
    /// Prints the names of faults, wrappings and plants
    #[arg(long)]
    list: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    if args.list {
        let (faults, wrappings) = names();
        println!("faults: {}\nwrappings: {}", faults.join(" "), wrappings.join(" "));
        println!("plants: {}", Plant::ALL.map(|plant| plant.0).join(" "));
        return ExitCode::SUCCESS;
    }
    let run = options(args).and_then(|options| {
        println!("{} for {:?}, seed {}", options.server_bin.display(), options.duration, options.seed);
        Ok((chaos::run(&options)?, options.seed))
    });
    match run {
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::FAILURE
        }
        Ok((report, seed)) => {
            println!("{report}");
            println!("{} findings, seed {seed}", report.findings_len());
            if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
    }
}

fn options(args: Args) -> Result<Options, String> {
    let mut options = Options::new(Duration::from_secs(args.seconds));
    options.progress = !args.quiet;
    options.seed = args.seed.unwrap_or(options.seed);
    options.rounds_max = args.rounds;
    options.acts = args.acts.unwrap_or(options.acts);
    options.server_bin = args.server_bin.unwrap_or(options.server_bin);
    let (faults, wrappings) = names();
    check_names(&args.faults, faults.iter().copied()).map_err(|reason| format!("--faults: {reason}"))?;
    check_names(&args.wrappings, wrappings.iter().copied()).map_err(|reason| format!("--wrappings: {reason}"))?;
    check_names(&args.without, faults.iter().chain(&wrappings).copied())
        .map_err(|reason| format!("--without: {reason}"))?;
    (options.faults, options.wrappings, options.without) = (args.faults, args.wrappings, args.without);
    for setting in &args.settings {
        let (name, value) = setting.split_once('=').ok_or_else(|| format!("--settings: no '=' in {setting:?}"))?;
        options.settings.push((name.to_owned(), value.to_owned()));
    }
    if let Some(name) = &args.plant {
        let plant = Plant::ALL.iter().find(|(other, _)| other == name);
        options.plant = Some(plant.ok_or_else(|| format!("--plant: there is no {name:?}"))?.1);
    }
    Ok(options)
}
