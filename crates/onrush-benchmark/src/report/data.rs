//! Results for other programs: CSV, JSON, HdrHistogram's text format.

use std::fmt::Write;

use serde_json::{Value, json};

use super::text::summary;
use crate::run::Outcome;
use crate::sweep::{Cell, Ratio};

/// The head of redis-benchmark's CSV.
pub fn csv_head() -> &'static str {
    "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\"p95_latency_ms\",\"p99_latency_ms\",\"max_latency_ms\"\n"
}

/// A line of redis-benchmark's CSV.
pub fn csv_line(outcome: &Outcome, precision: usize) -> String {
    let mut line = format!("\"{}\",\"{:.2}\"", outcome.title.replace('"', "\"\""), outcome.rps());
    summary(outcome).iter().for_each(|ms| _ = write!(line, ",\"{ms:.precision$}\""));
    line.push('\n');
    line
}

/// All cells as CSV.
pub fn table_csv(cells: &[Cell]) -> String {
    let mut out = String::from(
        "test,server,value,rps,avg_ms,min_ms,p50_ms,p95_ms,p99_ms,max_ms,server_us_per_command,client_us_per_command\n",
    );
    for cell in cells {
        let outcome = cell.median();
        let server = outcome.server_cpu.map_or_else(String::new, |cpu| format!("{:.4}", outcome.per_command_us(cpu)));
        _ = write!(out, "\"{}\",{},{},{:.2}", cell.test.replace('"', "\"\""), cell.server, cell.value, outcome.rps());
        summary(outcome).iter().for_each(|ms| _ = write!(out, ",{ms:.4}"));
        _ = writeln!(out, ",{server},{:.4}", outcome.per_command_us(outcome.client_cpu));
    }
    out
}

/// All cells, with all rounds, as JSON.
pub fn json(cells: &[Cell], ratios: &[Ratio], swept: Option<&str>) -> String {
    let round = |outcome: &Outcome| {
        let [avg, min, p50, p95, p99, max] = summary(outcome);
        json!({
            "rps": outcome.rps(), "replies": outcome.replies, "seconds": outcome.elapsed.as_secs_f64(),
            "latency_ms": {"avg": avg, "min": min, "p50": p50, "p95": p95, "p99": p99, "p99.9": outcome.latency_ms(0.999), "max": max},
            "server_us_per_command": outcome.server_cpu.map(|cpu| outcome.per_command_us(cpu)),
            "client_us_per_command": outcome.per_command_us(outcome.client_cpu),
            "client_bound": outcome.is_client_bound(),
        })
    };
    let cells: Vec<Value> = cells
        .iter()
        .map(|cell| {
            let rounds: Vec<Value> = cell.rounds.iter().map(round).collect();
            json!({"test": cell.test, "server": cell.server, "value": cell.value, "median": rounds[0].clone(), "rounds": rounds})
        })
        .collect();
    let ratios: Vec<Value> = ratios
        .iter()
        .map(|ratio| json!({"test": ratio.test, "value": ratio.value, "ratio": ratio.ratio, "interval": ratio.interval.map(|(low, high)| [low, high])}))
        .collect();
    let all = json!({"tool": format!("onrush-benchmark {}", env!("CARGO_PKG_VERSION")), "swept": swept, "cells": cells, "ratios": ratios});
    let mut text = serde_json::to_string_pretty(&all).unwrap_or_default();
    text.push('\n');
    text
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
