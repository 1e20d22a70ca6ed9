//! `onrush-benchmark`: load for Redis-compatible servers, in redis-benchmark's flags and formats.

#![forbid(unsafe_code)]

mod args;
mod cpu;
mod error;
mod load;
mod net;
mod options;
mod out;
mod outcome;
mod report;
mod results;
mod run;
mod server;
mod shown;
mod stats;
mod sweep;
mod values;

use std::process::ExitCode;

use args::Stop;
use error::Error;
use load::checker::Checked;
use options::Options;
use outcome::{Cell, Incidents, Outcome};
use server::HostConfig;

fn main() -> ExitCode {
    let options = match args::parse(std::env::args_os().skip(1)) {
        Ok(options) => options,
        Err(Stop::Told(text)) => {
            out::show(&text);
            return ExitCode::SUCCESS;
        }
        Err(Stop::Wrong(text)) => return fail(text.trim_end_matches('\n')),
    };
    match work(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error.to_string()),
    }
}

fn fail(text: &str) -> ExitCode {
    out::complain(text);
    ExitCode::FAILURE
}

fn work(options: &Options) -> Result<(), Error> {
    if let (Some(lines), Some(plot)) = (&options.files.draw, &options.files.plot) {
        let text = std::fs::read_to_string(lines).map_err(|error| Error::file(lines, error))?;
        return report::lines_plot(&text)?.write(plot);
    }
    if !options.idle {
        // Unknown names, and files that cannot be written, are reported before anything is done.
        load::suite::tests(options)?;
        results::check(&options.files)?;
    }
    if options.cluster && options.nodes.is_empty() {
        let nodes = net::cluster::masters(options, &options.target)?;
        out::show(&net::cluster::describe(&nodes));
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
            Err(error) => out::complain(&format!("{error}\nWARNING: Could not fetch server CONFIG")),
        }
    }
    loop {
        once(options, &configs)?;
        if !options.endless {
            return Ok(());
        }
    }
}

/// Measures, shows and writes once. After an error, what was measured before it is shown and written all the same.
fn once(options: &Options, configs: &[HostConfig]) -> Result<(), Error> {
    let compares = options.sweep.is_some() || options.versus.is_some();
    if options.csv && !compares {
        out::show(report::CSV_HEAD);
    }
    let (cells, done) = sweep::measure(options, |cell| {
        let outcome = cell.median();
        match (compares, options.csv, options.quiet) {
            (true, ..) => {}
            (_, true, _) => out::show(&report::csv_line(outcome, options.precision)),
            (_, _, true) => out::show(&report::quiet(outcome, options.precision)),
            _ => out::show(&(report::full(outcome, options, configs) + "\n")),
        }
        warn(outcome);
    });
    if cells.is_empty() && done.is_err() {
        return done;
    }
    if options.quiet && !compares && !options.csv && done.is_ok() {
        out::show("\n");
    }
    let ratios = if options.versus.is_some() { stats::ratios(&cells) } else { Vec::new() };
    let swept = options.sweep.as_ref().map(|sweep| sweep.title);
    if compares {
        out::show(&if options.csv { report::table_csv(&cells) } else { report::table(&cells, &ratios, swept) });
    }
    Error::all([done, results::write(options, &cells, &ratios, swept), check(&cells)])
}

/// Fails if a reply was not the data of its key.
fn check(cells: &[Cell]) -> Result<(), Error> {
    let mut all = Checked::default();
    cells.iter().flat_map(Cell::rounds).for_each(|round| all.add(&round.incidents.checked));
    match all.key {
        Some(key) => Err(Error::Wrong { wrong: all.wrong, replies: all.replies, key }),
        None => Ok(()),
    }
}

fn warn(outcome: &Outcome) {
    let Outcome { title, refreshes, incidents, .. } = outcome;
    let Incidents { redirects, broken, lost, unsent, .. } = incidents;
    if outcome.is_client_bound() && outcome.elapsed.as_millis() >= 100 {
        out::complain(&format!(
            "WARNING: {title}: a thread of this tool was on CPU for {:.0} % of the time; the server may be faster than shown \
             (more --threads, or a deeper pipeline)",
            outcome.busiest * 100.0
        ));
    }
    if *broken > 0 {
        out::complain(&format!(
            "WARNING: {title}: {broken} connections broke and were made again, {lost} commands lost their replies"
        ));
    }
    if *redirects > 0 {
        out::complain(&format!(
            "WARNING: {title}: slots moved: {redirects} replies only told so, and count as replies; the nodes were asked anew {refreshes} times"
        ));
    }
    if *unsent > 0 {
        out::complain(&format!(
            "WARNING: {title}: {unsent} commands were due before the end and could not be sent; the server did not keep up with --rate"
        ));
    }
}

/// Opens the connections and holds them until the program is ended.
fn idle(options: &Options) -> Result<(), Error> {
    let mut held = Vec::new();
    let targets: Vec<_> = options.targets().collect();
    for index in 0..options.clients {
        held.push(net::connect(options, targets[index % targets.len()])?);
    }
    out::show(&format!("Creating {} idle connections and waiting forever (Ctrl+C when done)\n", held.len()));
    loop {
        std::thread::park();
    }
}
