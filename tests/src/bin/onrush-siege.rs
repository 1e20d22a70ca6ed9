//! Besieges a server for as long as it is told to; see `onrush_tests::siege`.
//!
//! ```text
//! onrush-siege [--seconds N] [--seed N] [--server-bin PATH] [--connections N] [--foes NAME,NAME] [--settings NAME,NAME] [--quiet]
//! onrush-siege --list                                            the foes and the settings
//! ```
//!
//! `--server-bin` takes any server of the protocol, for comparison. The seed is `ONRUSH_SIEGE_SEED` when it is not given.

use std::process::ExitCode;
use std::time::Duration;

use onrush_tests::filter::check_names;
use onrush_tests::siege::options::{Options, SETTINGS};
use onrush_tests::siege::{self, hostile};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.iter().any(|arg| arg == "--list") {
        println!("foes: {}", hostile::names().collect::<Vec<_>>().join(" "));
        println!("settings: {}", SETTINGS.map(|setting| setting.name).join(" "));
        return ExitCode::SUCCESS;
    }
    let options = match read(&args) {
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

fn read(args: &[String]) -> Result<Options, String> {
    let mut options = Options::new(Duration::from_secs(60));
    options.progress = Some(Duration::from_secs(5));
    let mut args = args.iter();
    while let Some(name) = args.next() {
        if name == "--quiet" {
            options.progress = None;
            continue;
        }
        let value = args.next().ok_or_else(|| format!("{name} wants a value"))?;
        let number = || value.parse::<u64>().map_err(|_| format!("{name} wants a number"));
        let names = || value.split(',').map(str::to_owned).collect();
        match name.as_str() {
            "--seconds" => options.duration = Duration::from_secs(number()?),
            "--seed" => options.seed = number()?,
            "--server-bin" => options.server_bin = value.into(),
            "--connections" => options.crowd_len = number()? as usize,
            "--foes" => options.foes = names(),
            "--settings" => options.settings = names(),
            _ => return Err(format!("no option {name}")),
        }
    }
    check_names(&options.foes, hostile::names()).map_err(|reason| format!("--foes: {reason}"))?;
    check_names(&options.settings, SETTINGS.iter().map(|setting| setting.name))
        .map_err(|reason| format!("--settings: {reason}"))?;
    Ok(options)
}
