//! Results for other programs: CSV, JSON, HdrHistogram's text format.

use std::fmt::Write;

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use super::circumstances::Circumstances;
use super::text::{figures_of, summary};
use crate::outcome::{Cell, Incidents, Outcome, Ratio};

/// The head of redis-benchmark's CSV.
pub const CSV_HEAD: &str = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\"p95_latency_ms\",\"p99_latency_ms\",\"max_latency_ms\"\n";

/// A line of redis-benchmark's CSV: every field in quotes.
pub fn csv_line(outcome: &Outcome, precision: usize) -> String {
    let figures = summary(outcome).map(|ms| format!("{ms:.precision$}"));
    let fields = [outcome.title.clone(), format!("{:.2}", outcome.rps())].into_iter().chain(figures);
    csv_of([fields.collect()], csv::QuoteStyle::Always)
}

/// All cells as CSV.
pub fn table_csv(cells: &[Cell]) -> String {
    const HEAD: &str = "test,server,value,rps,avg_ms,min_ms,p50_ms,p95_ms,p99_ms,max_ms,server_us_per_command,\
                        client_us_per_command,p999_ms\n";
    let row = |cell: &Cell| -> Vec<String> {
        let outcome = cell.median();
        let server = outcome.server_cpu.map_or_else(String::new, |cpu| format!("{:.4}", outcome.per_command_us(cpu)));
        let names = [cell.test.clone(), cell.server.clone(), cell.value.clone(), format!("{:.2}", outcome.rps())];
        let client = format!("{:.4}", outcome.per_command_us(outcome.client_cpu));
        let figures = summary(outcome).map(|ms| format!("{ms:.4}"));
        names.into_iter().chain(figures).chain([server, client, format!("{:.4}", outcome.latency_ms(0.999))]).collect()
    };
    HEAD.to_owned() + &csv_of(cells.iter().map(row), csv::QuoteStyle::Necessary)
}

fn csv_of(rows: impl IntoIterator<Item = Vec<String>>, quotes: csv::QuoteStyle) -> String {
    let mut writer = csv::WriterBuilder::new().quote_style(quotes).from_writer(Vec::new());
    // Writing to a vector does not fail.
    rows.into_iter().for_each(|row| _ = writer.write_record(row));
    String::from_utf8(writer.into_inner().unwrap_or_default()).unwrap_or_default()
}

/// All cells, with all rounds in the order in which they ran, as JSON.
pub fn json(cells: &[Cell], ratios: &[Ratio], swept: Option<&str>, circumstances: &Circumstances) -> String {
    let cell = |cell: &Cell| {
        let rounds: Vec<Value> = cell.rounds().iter().map(round).collect();
        json!({"test": cell.test, "server": cell.server, "value": cell.value, "median": round(cell.median()), "rounds": rounds})
    };
    let all = json!({
        "tool": format!("onrush-benchmark {}", env!("CARGO_PKG_VERSION")),
        "date": circumstances.date,
        "machine": circumstances.machine,
        "servers": circumstances.servers.iter().map(|(name, what)| json!({"server": name, "is": what})).collect::<Vec<_>>(),
        "swept": swept,
        "cells": cells.iter().map(cell).collect::<Vec<_>>(),
        "ratios": ratios,
    });
    let mut text = serde_json::to_string_pretty(&all).unwrap_or_default();
    text.push('\n');
    text
}

fn round(outcome: &Outcome) -> Value {
    let latency = |[avg, min, p50, p95, p99, max]: [f64; 6], p999: f64| json!({"avg": avg, "min": min, "p50": p50, "p95": p95, "p99": p99, "p99.9": p999, "max": max});
    let Incidents { redirects, broken, lost, unsent, checked } = &outcome.incidents;
    let part = |(name, latencies): &(String, Histogram<u64>)| {
        let p999 = latencies.value_at_quantile(0.999) as f64 / 1e6;
        (name.clone(), json!({"replies": latencies.len(), "latency_ms": latency(figures_of(latencies), p999)}))
    };
    json!({
        "rps": outcome.rps(), "replies": outcome.replies, "seconds": outcome.elapsed.as_secs_f64(),
        "latency_ms": latency(summary(outcome), outcome.latency_ms(0.999)),
        "kinds": outcome.kinds.iter().map(part).collect::<serde_json::Map<_, _>>(),
        "nodes": outcome.nodes.iter().map(part).collect::<serde_json::Map<_, _>>(),
        "redirects": redirects, "refreshes": outcome.refreshes,
        "series": outcome.series,
        "server_us_per_command": outcome.server_cpu.map(|cpu| outcome.per_command_us(cpu)),
        "client_us_per_command": outcome.per_command_us(outcome.client_cpu),
        "client_bound": outcome.is_client_bound(),
        "client_busy": outcome.busiest,
        "broken_connections": broken, "lost_replies": lost, "unsent": unsent,
        "checked_replies": checked.replies, "wrong_replies": checked.wrong,
    })
}

/// A percentile distribution in the format of HdrHistogram's tools, in milliseconds.
pub fn hdr(outcome: &Outcome) -> String {
    let mut out = format!("{:>12} {:>14} {:>10} {:>14}\n\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)");
    let latencies = &outcome.latencies;
    for value in latencies.iter_quantiles(5) {
        let quantile = value.quantile_iterated_to();
        let ms = latencies.highest_equivalent(value.value_iterated_to()) as f64 / 1e6;
        let count = latencies.count_between(0, value.value_iterated_to());
        _ = write!(out, "{ms:>12.3} {quantile:>14.12} {count:>10}");
        _ = if quantile < 1.0 { writeln!(out, " {:>14.2}", 1.0 / (1.0 - quantile)) } else { writeln!(out) };
    }
    _ = writeln!(out, "#[Mean    = {:>12.3}, StdDeviation   = {:>12.3}]", outcome.mean_ms(), latencies.stdev() / 1e6);
    _ = writeln!(out, "#[Max     = {:>12.3}, Total count    = {:>12}]", latencies.max() as f64 / 1e6, latencies.len());
    out
}
