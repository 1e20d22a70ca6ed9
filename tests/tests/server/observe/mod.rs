//! What the server tells of itself.

mod info_fields;
mod metrics;
mod monitor;
mod seeing_pipelines;
mod slow;
