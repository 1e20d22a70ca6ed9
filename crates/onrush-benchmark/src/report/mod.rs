//! Results in every form.

mod data;
mod html;
mod plot;
mod text;

pub use data::{csv_head, csv_line, hdr, json, table_csv};
pub use html::page;
pub use plot::{latency_plot, throughput_plot};
pub use text::{full, quiet, table};
