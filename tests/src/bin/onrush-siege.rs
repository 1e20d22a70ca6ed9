//! Besieges a server for as long as it is told to; see `onrush_tests::siege`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use onrush_tests::filter::check_names;
use onrush_tests::siege::options::{Options, SETTINGS};
use onrush_tests::siege::{self, hostile};

/// Besieges a server with hostile clients; polite ones beside them check every reply
#[derive(Debug, Parser)]
struct Args {
    /// How long, all settings together
    #[arg(long, value_name = "N", default_value_t = 60)]
    seconds: u64,
    /// All random choices follow from it; else ONRUSH_SIEGE_SEED, else the time of day
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Any server of the protocol, for comparison
    #[arg(long, value_name = "PATH")]
    server_bin: Option<PathBuf>,
    /// Idle connections held open
    #[arg(long, value_name = "N")]
    connections: Option<usize>,
    /// Only these hostile clients
    #[arg(long, value_name = "NAME,NAME", value_delimiter = ',')]
    foes: Vec<String>,
    /// Only these set-ups of the server
    #[arg(long, value_name = "NAME,NAME", value_delimiter = ',')]
    settings: Vec<String>,
    /// No lines of progress
    #[arg(long)]
    quiet: bool,
    /// Prints the names of the hostile clients and of the settings
    #[arg(long)]
    list: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    if args.list {
        println!("foes: {}", hostile::names().collect::<Vec<_>>().join(" "));
        println!("settings: {}", SETTINGS.map(|setting| setting.name).join(" "));
        return ExitCode::SUCCESS;
    }
    let options = match options(args) {
        Ok(options) => options,
        Err(reason) => {
            eprintln!("{reason}");
            return ExitCode::FAILURE;
        }
    };
    println!("{} for {:?}, seed {}", options.server_bin.display(), options.duration, options.seed);
    let report = siege::run(&options);
    println!("{report}");
    if report.is_clean() {
        return ExitCode::SUCCESS;
    }
    println!("{} faults; again with --seed {}", report.faults_len(), options.seed);
    ExitCode::FAILURE
}

fn options(args: Args) -> Result<Options, String> {
    let mut options = Options::new(Duration::from_secs(args.seconds));
    options.progress = (!args.quiet).then_some(Duration::from_secs(5));
    options.seed = args.seed.unwrap_or(options.seed);
    options.server_bin = args.server_bin.unwrap_or(options.server_bin);
    options.crowd_len = args.connections.unwrap_or(options.crowd_len);
    (options.foes, options.settings) = (args.foes, args.settings);
    check_names(&options.foes, hostile::names()).map_err(|reason| format!("--foes: {reason}"))?;
    check_names(&options.settings, SETTINGS.iter().map(|setting| setting.name))
        .map_err(|reason| format!("--settings: {reason}"))?;
    Ok(options)
}
