//! `onrush-benchmark`: load for Redis-compatible servers, in redis-benchmark's flags and formats.

#![forbid(unsafe_code)]

mod args;
mod cpu;
mod error;
mod load;
mod net;
mod options;
mod outcome;
mod report;
mod run;
mod server;
mod shown;
mod stats;
mod sweep;
mod values;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use args::Stop;
use error::Error;
use load::checker::Checked;
use options::Options;
use outcome::{Cell, Outcome, Ratio};
use report::Circumstances;
use server::HostConfig;

fn main() -> ExitCode {
    let options = match args::parse(std::env::args_os().skip(1)) {
        Ok(options) => options,
        Err(Stop::Told(text)) => {
            // It is no error if the reader of the output closes it.
            _ = std::io::stdout().write_all(text.as_bytes());
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

fn work(options: &Options) -> Result<(), Error> {
    if let (Some(lines), Some(plot)) = (&options.files.draw, &options.files.plot) {
        let text = std::fs::read_to_string(lines).map_err(|error| Error::file(lines, error))?;
        return report::lines_plot(&text)?.write(plot);
    }
    if !options.idle {
        // Unknown names are reported before anything is done.
        load::suite::tests(options)?;
    }
    if options.cluster && options.nodes.is_empty() {
        let nodes = net::cluster::masters(options)?;
        print!("{}", net::cluster::describe(&nodes));
        return work(&Options { nodes, ..options.clone() });
    }
    if options.idle {
        return idle(options);
    }
    let mut configs = Vec::new();
    for target in options.targets() {
        match server::host_config(options, target) {
            Ok(config) => configs.push(config),
            Err(error @ Error::Unreachable { .. }) => return Err(error),
            Err(error) => eprintln!("{error}\nWARNING: Could not fetch server CONFIG"),
        }
    }
    loop {
        once(options, &configs)?;
        if !options.endless {
            return Ok(());
        }
    }
}

fn once(options: &Options, configs: &[HostConfig]) -> Result<(), Error> {
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
        // If the reader of the output is gone, measuring goes on for the files.
        _ = write!(out, "{text}");
        _ = out.flush();
        warn(outcome);
    })?;
    if options.quiet && !compares && !options.csv {
        println!();
    }
    let ratios = if options.versus.is_some() { stats::ratios(&cells) } else { Vec::new() };
    let swept = options.sweep.as_ref().map(|sweep| sweep.swept.title());
    if compares {
        print!("{}", if options.csv { report::table_csv(&cells) } else { report::table(&cells, &ratios, swept) });
    }
    write_files(options, &cells, &ratios, swept)?;
    check(&cells)
}

/// Fails if a reply was not the data of its key.
fn check(cells: &[Cell]) -> Result<(), Error> {
    let mut all = Checked::default();
    cells.iter().flat_map(Cell::rounds).for_each(|round| all.add(&round.checked));
    match all.key {
        Some(key) => Err(Error::Wrong { wrong: all.wrong, replies: all.replies, key }),
        None => Ok(()),
    }
}

fn write_files(options: &Options, cells: &[Cell], ratios: &[Ratio], swept: Option<&str>) -> Result<(), Error> {
    let files = &options.files;
    let circumstances = (files.json.is_some() || files.report.is_some()).then(|| {
        let targets = options.targets().chain(&options.versus);
        let described = targets.map(|target| (target.to_string(), server::description(options, target)));
        Circumstances::now(described.collect())
    });
    if let (Some(path), Some(circumstances)) = (&files.json, &circumstances) {
        write(path, &report::json(cells, ratios, swept, circumstances))?;
    }
    if let Some(path) = &files.csv {
        write(path, &report::table_csv(cells))?;
    }
    if let Some(path) = &files.plot {
        let plot = match swept {
            Some(swept) => report::throughput_plot(cells, swept),
            None => report::latency_plot(cells),
        };
        plot.write(path)?;
    }
    if let (Some(path), Some(swept)) = (&files.latency_plot, swept) {
        report::percentiles_plot(cells, swept).write(path)?;
    }
    if let (Some(path), Some(circumstances)) = (&files.report, &circumstances) {
        let args = std::env::args_os().map(|arg| arg.to_string_lossy().into_owned());
        let command_line = shown::command_line(&args::command(), args);
        write(path, &report::page(cells, ratios, swept, &command_line, circumstances)?)?;
    }
    if let (Some(path), Some(cell)) = (&files.hdr, cells.last()) {
        write(path, &report::hdr(cell.median()))?;
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    std::fs::write(path, text).map_err(|error| Error::file(path, error))
}

fn warn(outcome: &Outcome) {
    let title = &outcome.title;
    if outcome.is_client_bound() && outcome.elapsed.as_millis() >= 100 {
        eprintln!(
            "WARNING: {title}: a thread of this tool was on CPU for {:.0} % of the time; the server may be faster than shown \
             (more --threads, or a deeper pipeline)",
            outcome.busiest * 100.0
        );
    }
    if outcome.broken > 0 {
        eprintln!(
            "WARNING: {title}: {} connections broke and were made again, {} commands lost their replies",
            outcome.broken, outcome.lost
        );
    }
    if outcome.redirects > 0 {
        eprintln!(
            "WARNING: {title}: slots moved: {} replies only told so, and count as replies; the nodes were asked anew {} times",
            outcome.redirects, outcome.refreshes
        );
    }
    if outcome.unsent > 0 {
        eprintln!(
            "WARNING: {title}: {} commands were due before the end and could not be sent; the server did not keep up with --rate",
            outcome.unsent
        );
    }
}

/// Opens the connections and holds them until the program is ended.
fn idle(options: &Options) -> Result<(), Error> {
    let mut held = Vec::new();
    let targets: Vec<_> = options.targets().collect();
    for index in 0..options.clients {
        held.push(net::connect(options, targets[index % targets.len()])?);
    }
    println!("Creating {} idle connections and waiting forever (Ctrl+C when done)", held.len());
    loop {
        std::thread::park();
    }
}
