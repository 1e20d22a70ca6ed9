//! Results as one page that needs nothing beside it.

use std::fmt::Write;

use super::plot::{latency_plot, throughput_plot};
use super::text::{summary, table};
use crate::sweep::{Cell, Ratio};

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:960px;margin:2em auto;padding:0 1em;color:#222}\
table{border-collapse:collapse;margin:1em 0;font-variant-numeric:tabular-nums}td,th{padding:.3em .8em;border-bottom:1px solid #ddd;text-align:right}\
td:first-child,th:first-child,td:nth-child(2),th:nth-child(2){text-align:left}svg{max-width:100%;height:auto}pre{background:#f6f6f6;padding:1em;overflow:auto}";

/// The page.
///
/// # Errors
/// A plot could not be drawn.
pub fn page(cells: &[Cell], ratios: &[Ratio], swept: Option<&str>, command_line: &str) -> Result<String, String> {
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>onrush-benchmark</title><style>{STYLE}</style></head>\n<body>\n\
         <h1>onrush-benchmark</h1>\n<pre>{}</pre>\n",
        escape(command_line)
    );
    if let Some(swept) = swept {
        _ = write!(out, "<h2>Throughput against {}</h2>\n{}\n", escape(swept), throughput_plot(cells, swept).svg()?);
    }
    _ = write!(out, "<h2>Latency by percentile</h2>\n{}\n", latency_plot(cells).svg()?);
    out.push_str("<h2>Figures</h2>\n<table id=\"figures\"><thead><tr>");
    let heads = [
        "test",
        "server",
        swept.unwrap_or("value"),
        "commands/s",
        "avg ms",
        "min ms",
        "p50 ms",
        "p95 ms",
        "p99 ms",
        "max ms",
    ];
    heads.iter().for_each(|head| _ = write!(out, "<th>{}</th>", escape(head)));
    out.push_str("</tr></thead>\n<tbody>\n");
    for cell in cells {
        let names = [&cell.test, &cell.server, &cell.value];
        out.push_str("<tr>");
        names.iter().for_each(|name| _ = write!(out, "<td>{}</td>", escape(name)));
        _ = write!(out, "<td>{:.0}</td>", cell.rps());
        summary(cell.median()).iter().for_each(|ms| _ = write!(out, "<td>{ms:.3}</td>"));
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table>\n");
    _ = write!(out, "<pre>{}</pre>\n</body>\n</html>\n", escape(&table(cells, ratios, swept)));
    Ok(out)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
