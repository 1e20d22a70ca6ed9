//! Results in every form.

mod circumstances;
mod data;
mod html;
mod lines;
mod plot;
mod text;

pub use circumstances::{Circumstances, described};
pub use data::{CSV_HEAD, csv_line, hdr, json, table_csv};
pub use html::page;
pub use lines::{latency_plot, lines_plot, percentiles_plot, throughput_plot};
pub use plot::Plot;
pub use text::{full, quiet, table};
