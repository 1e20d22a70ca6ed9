//! `onrush-benchmark`: load for Redis-compatible servers, in redis-benchmark's flags and formats.

#![forbid(unsafe_code)]

mod args;
mod cluster;
mod net;
mod proxy;
mod report;
mod request;
mod run;
mod scanner;
mod server;
mod suite;
mod sweep;
mod tls;
mod worker;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use args::{Options, Stop};
use run::Outcome;
use server::HostConfig;
use sweep::Cell;

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(Stop::Told(text)) => {
            print!("{text}");
            return ExitCode::SUCCESS;
        }
        Err(Stop::Wrong(text)) => return fail(&text),
    };
    match work(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&format!("{error}\n")),
    }
}

fn fail(text: &str) -> ExitCode {
    eprint!("{text}");
    ExitCode::FAILURE
}

fn work(options: &Options) -> Result<(), String> {
    if options.cluster && options.nodes.is_empty() {
        let nodes = cluster::masters(options)?;
        print!("{}", cluster::describe(&nodes));
        return work(&Options { nodes, ..options.clone() });
    }
    if options.idle {
        return idle(options);
    }
    let mut configs = Vec::new();
    for target in options.targets() {
        match server::host_config(options, target) {
            Ok(config) => configs.push(config),
            Err(error) => {
                if error.starts_with("Could not connect") {
                    return Err(error);
                }
                eprintln!("{error}\nWARNING: Could not fetch server CONFIG");
            }
        }
    }
    loop {
        once(options, &configs)?;
        if !options.endless {
            return Ok(());
        }
    }
}

fn once(options: &Options, configs: &[HostConfig]) -> Result<(), String> {
    let compares = options.sweep.is_some() || options.versus.is_some();
    let mut out = std::io::stdout();
    if options.csv && !compares {
        print!("{}", report::csv_head());
    }
    let cells = sweep::measure(options, |cell| {
        let outcome = cell.median();
        let text = match (compares, options.csv, options.quiet) {
            (true, ..) => String::new(),
            (_, true, _) => report::csv_line(outcome, options.precision),
            (_, _, true) => report::quiet(outcome, options.precision),
            _ => report::full(outcome, options, configs) + "\n",
        };
        // A reader that has gone away is no reason to stop measuring for the files.
        _ = write!(out, "{text}");
        _ = out.flush();
        warn_of_limits(outcome);
    })?;
    if options.quiet && !compares && !options.csv {
        println!();
    }
    let ratios = if options.versus.is_some() { sweep::ratios(&cells) } else { Vec::new() };
    let swept = options.sweep.as_ref().map(|sweep| sweep.swept.title());
    if compares {
        print!("{}", if options.csv { report::table_csv(&cells) } else { report::table(&cells, &ratios, swept) });
    }
    write_files(options, &cells, &ratios, swept)
}

fn write_files(options: &Options, cells: &[Cell], ratios: &[sweep::Ratio], swept: Option<&str>) -> Result<(), String> {
    if let Some(path) = &options.json {
        write(path, &report::json(cells, ratios, swept))?;
    }
    if let Some(path) = &options.csv_file {
        write(path, &report::table_csv(cells))?;
    }
    if let Some(path) = &options.plot {
        let plot = match swept {
            Some(swept) => report::throughput_plot(cells, swept),
            None => report::latency_plot(cells),
        };
        plot.write(path)?;
    }
    if let Some(path) = &options.report {
        let command_line = std::env::args().collect::<Vec<_>>().join(" ");
        write(path, &report::page(cells, ratios, swept, &command_line)?)?;
    }
    if let (Some(path), Some(cell)) = (&options.hdr, cells.last()) {
        write(path, &report::hdr(cell.median()))?;
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

fn warn_of_limits(outcome: &Outcome) {
    if outcome.is_client_bound() && outcome.elapsed.as_millis() >= 100 {
        eprintln!(
            "WARNING: {}: a thread of this tool was on CPU for {:.0} % of the time; the server may be faster than shown \
             (more --threads, or a deeper pipeline)",
            outcome.title,
            outcome.busiest * 100.0
        );
    }
}

/// Opens the connections and holds them until it is ended.
fn idle(options: &Options) -> Result<(), String> {
    let mut held = Vec::new();
    let targets: Vec<_> = options.targets().collect();
    for index in 0..options.clients {
        held.push(net::connect(options, targets[index % targets.len()]).map_err(|error| error.to_string())?);
    }
    println!("Creating {} idle connections and waiting forever (Ctrl+C when done)", held.len());
    loop {
        std::thread::park();
    }
}
