//! What commands answer, scripts and transactions included, beside the oracles.

mod access_clock;
mod aggregates;
mod cases;
mod command_table;
mod conditions;
mod counters;
mod crafted;
mod differential;
mod digest;
mod docs;
mod group_readers;
mod hash_backlog;
mod hotkeys;
mod increx;
mod list_encodings;
mod options;
mod scores;
mod scripts;
mod set_order;
mod stream_producers;
mod transactions;
mod users;
