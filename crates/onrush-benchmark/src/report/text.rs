//! Results as text: redis-benchmark's two formats, and tables.

use std::fmt::Write;

use comfy_table::{CellAlignment, Table};
use hdrhistogram::Histogram;

use crate::options::Options;
use crate::outcome::{Cell, Outcome, Ratio};
use crate::server::HostConfig;

/// The one line of `-q`.
pub fn quiet(outcome: &Outcome, precision: usize) -> String {
    let p50 = outcome.latency_ms(0.5);
    format!("{}: {:.2} requests per second, p50={p50:.precision$} msec\n", outcome.title, outcome.rps())
}

/// The whole block of a test.
pub fn full(outcome: &Outcome, options: &Options, configs: &[HostConfig]) -> String {
    let precision = options.precision;
    let mut out = String::new();
    let mut line = |text: String| {
        out.push_str(&text);
        out.push('\n');
    };
    line(format!("====== {} ======", outcome.title));
    line(format!("  {} requests completed in {:.2} seconds", outcome.replies, outcome.elapsed.as_secs_f64()));
    line(format!("  {} parallel clients", options.clients));
    line(format!("  {} bytes payload", outcome.payload_len));
    line(format!("  keep alive: {}", u8::from(options.keep_alive)));
    if options.cluster {
        line(format!("  cluster mode: yes ({} masters)", options.nodes.len()));
        for (index, config) in configs.iter().enumerate() {
            line(format!("  node [{index}] configuration:"));
            line(format!("    save: {}", if config.save.is_empty() { "NONE" } else { &config.save }));
            line(format!("    appendonly: {}", config.appendonly));
        }
    } else if let Some(config) = configs.first() {
        line(format!("  host configuration \"save\": {}", config.save));
        line(format!("  host configuration \"appendonly\": {}", config.appendonly));
    }
    let threads = options.threads.or(options.cluster.then_some(options.nodes.len()));
    line(format!("  multi-thread: {}", if threads.is_some() { "yes" } else { "no" }));
    if let Some(threads) = threads {
        line(format!("  threads: {threads}"));
    }
    if let Some(cpu) = outcome.server_cpu {
        line(format!("  server CPU: {:.3} us per command", outcome.per_command_us(cpu)));
    }
    line(format!("  client CPU: {:.3} us per command", outcome.per_command_us(outcome.client_cpu)));
    if options.reconnect.is_some() {
        line(format!("  broken connections: {}, lost replies: {}", outcome.incidents.broken, outcome.incidents.lost));
    }
    line(String::new());
    line("Latency by percentile distribution:".into());
    let total = outcome.latencies.len();
    let up_to = |ns: u64| outcome.latencies.count_between(0, ns);
    let entry = |percent: f64, ns: u64, label_ms: f64| {
        format!("{percent:.3}% <= {label_ms:.precision$} milliseconds (cumulative count {})", up_to(ns))
    };
    // Halves the rest each time, until nothing is left.
    let quantiles = std::iter::successors(Some(0.0_f64), |quantile| Some((1.0 + quantile) / 2.0)).take(64);
    let value_at = |quantile: f64| match quantile {
        0.0 => outcome.latencies.min(),
        _ => outcome.latencies.value_at_quantile(quantile),
    };
    for quantile in quantiles.take_while(|_| total > 0) {
        let ns = outcome.latencies.highest_equivalent(value_at(quantile));
        line(entry(quantile * 100.0, ns, ns as f64 / 1e6));
        if up_to(ns) >= total {
            line(entry(100.0, ns, ns as f64 / 1e6));
            break;
        }
    }
    line(String::new());
    line("Cumulative distribution of latencies:".into());
    let mut limit_us = 100_u64;
    let mut shown = 0;
    while total > 0 && shown < total {
        let count = up_to(limit_us * 1_000);
        if count > shown || limit_us == 100 {
            line(entry(count as f64 * 100.0 / total as f64, limit_us * 1_000, limit_us as f64 / 1_000.0));
            shown = count;
        }
        limit_us += if limit_us < 1_100 { 100 } else { 1_000 };
    }
    line(String::new());
    line("Summary:".into());
    line(format!("  throughput summary: {:.2} requests per second", outcome.rps()));
    line("  latency summary (msec):".into());
    line(format!("    {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}", "avg", "min", "p50", "p95", "p99", "max"));
    let figures = |figures: [f64; 6]| figures.map(|ms| format!("{ms:>9.precision$}")).join(" ");
    for (kind, latencies) in &outcome.kinds {
        line(format!("    {} {kind} ({} requests)", figures(figures_of(latencies)), latencies.len()));
    }
    line(format!("    {}", figures(summary(outcome))));
    if !outcome.nodes.is_empty() {
        line("  by node:".into());
        by_node(outcome, precision).into_iter().for_each(|row| line(format!("  {row}")));
        let (redirects, refreshes) = (outcome.incidents.redirects, outcome.refreshes);
        line(format!("  redirected replies: {redirects}, refreshed nodes: {refreshes} times"));
    }
    out
}

/// The lines of a head and rows in columns; from the column `first_number` on, they are aligned to the right.
fn columns(head: &[&str], rows: impl Iterator<Item = Vec<String>>, first_number: usize) -> Vec<String> {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_header(head);
    table.add_rows(rows);
    for column in table.column_iter_mut().skip(first_number) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect()
}

/// A row for each node of a cluster, with milliseconds of latency.
fn by_node(outcome: &Outcome, precision: usize) -> Vec<String> {
    let row = |(name, latencies): &(String, Histogram<u64>)| {
        let rate = latencies.len() as f64 / outcome.elapsed.as_secs_f64().max(1e-9);
        let mut row = vec![format!("  {name}"), latencies.len().to_string(), format!("{rate:.2}")];
        row.extend(figures_of(latencies).map(|ms| format!("{ms:.precision$}")));
        row
    };
    let head = ["  node", "requests", "requests/s", "avg", "min", "p50", "p95", "p99", "max"];
    columns(&head, outcome.nodes.iter().map(row), 1)
}

/// Mean, least, median, 95th and 99th percentile and greatest latency in milliseconds.
pub fn summary(outcome: &Outcome) -> [f64; 6] {
    figures_of(&outcome.latencies)
}

/// The same of any latencies.
pub fn figures_of(latencies: &Histogram<u64>) -> [f64; 6] {
    let at = |quantile| latencies.value_at_quantile(quantile) as f64 / 1e6;
    let (min, max) = (latencies.min() as f64 / 1e6, latencies.max() as f64 / 1e6);
    [latencies.mean() / 1e6, min, at(0.5), at(0.95), at(0.99), max]
}

/// A sweep or a comparison as a table.
pub fn table(cells: &[Cell], ratios: &[Ratio], swept: Option<&str>) -> String {
    let head = [
        "test",
        "server",
        swept.unwrap_or("-"),
        "commands/s",
        "p50 ms",
        "p99 ms",
        "p99.9 ms",
        "server us/cmd",
        "client us/cmd",
    ];
    let row = |cell: &Cell| {
        let outcome = cell.median();
        let ms = |quantile| format!("{:.3}", outcome.latency_ms(quantile));
        vec![
            cell.test.clone(),
            cell.server.clone(),
            cell.value.clone(),
            format!("{:.0}", outcome.rps()),
            ms(0.5),
            ms(0.99),
            ms(0.999),
            outcome.server_cpu.map_or_else(|| "-".into(), |cpu| format!("{:.3}", outcome.per_command_us(cpu))),
            format!("{:.3}", outcome.per_command_us(outcome.client_cpu)),
        ]
    };
    let mut out = columns(&head, cells.iter().map(row), 2).join("\n") + "\n";
    for Ratio { test, value, ratio, interval } in ratios {
        let what = [test.as_str(), value].join(" ");
        _ = write!(out, "{}: {ratio:.3} times the throughput of the second server", what.trim_end());
        if let Some((low, high)) = interval {
            _ = write!(out, " (95 % within {low:.3} and {high:.3})");
        }
        out.push('\n');
    }
    out
}
