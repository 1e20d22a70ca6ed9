//! Keeps a server busy for hours and says what has grown; see `onrush_tests::soak`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Parser;
use onrush_tests::soak::samples::RSS_DIFFERENCE_MAX;
use onrush_tests::soak::{self, Options, Report};

/// Keeps a server busy with every kind of work at a bounded rate; memory must stay flat, and the state what the log says
#[derive(Debug, Parser)]
struct Args {
    /// How long
    #[arg(long, value_name = "N", default_value_t = 10_800)]
    seconds: u64,
    /// All random choices follow from it; else the time of day
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// How many clients
    #[arg(long, value_name = "N", default_value_t = 24)]
    clients: usize,
    /// How long each client rests between two steps, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 20)]
    pause: u64,
    /// Where the report goes, in Markdown; else to the output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// No lines of progress
    #[arg(long)]
    quiet: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let options = Options {
        duration: Duration::from_secs(args.seconds),
        seed: args.seed.unwrap_or(now),
        clients: args.clients,
        pause: Duration::from_millis(args.pause),
        is_quiet: args.quiet,
    };
    let report = soak::run(&options);
    let text = shown(&options, &report);
    match args.out.map(|path| std::fs::write(path, &text)) {
        None => println!("{text}"),
        Some(Ok(())) => {}
        Some(Err(error)) => {
            eprintln!("the report cannot be written: {error}\n{text}");
            return ExitCode::FAILURE;
        }
    }
    let is_flat = report.samples.rss_difference() <= RSS_DIFFERENCE_MAX;
    if report.faults.is_empty() && is_flat { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn shown(options: &Options, report: &Report) -> String {
    let minutes = options.duration.as_secs() / 60;
    let mut text = format!(
        "# A soak of {minutes} minutes\n\n{} clients that rest {} ms between steps, seed {}; `onrush-soak`.\n\n",
        options.clients,
        options.pause.as_millis(),
        options.seed
    );
    text += "| clients | commands |\n|---|---:|\n";
    report.commands.iter().for_each(|(kind, count)| text += &format!("| {kind} | {count} |\n"));
    text += &format!("\n{} acts of the operator.\n\n{}\n", report.operations, report.samples.table(18));
    if let Some((least, mean, most)) = report.samples.rss_of_last_half() {
        let [least, mean, most] = [least as f64, mean, most as f64].map(|bytes| bytes / 1_048_576.0);
        let percent = report.samples.rss_difference() * 100.0;
        text += &format!(
            "RSS over the last half: {least:.1} to {most:.1} MiB, mean {mean:.1}; the means of its ninths are {percent:.1} % \
             apart.\n"
        );
    }
    if !report.end.is_empty() {
        text += &format!("The state at the end is that of a replay of the append-only file: {}.\n", report.end);
    }
    text += if report.faults.is_empty() { "\nNo faults.\n" } else { "\n| faults | times |\n|---|---:|\n" };
    report.faults.iter().for_each(|(fault, times)| text += &format!("| {fault} | {times} |\n"));
    text
}
