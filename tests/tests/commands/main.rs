//! What commands answer, scripts and transactions included, beside the oracles.

mod access_clock;
mod aggregates;
mod busy_scripts;
mod cases;
mod command_table;
mod conditions;
mod counters;
mod crafted;
mod differential;
mod digest;
mod docs;
mod endless_scripts;
mod group_readers;
mod hash_backlog;
mod hostile_scripts;
mod hotkeys;
mod increx;
mod list_encodings;
mod options;
mod script_api;
mod script_keys;
mod scripts_in_transactions;
mod set_order;
mod stream_producers;
mod transactions;
mod users;
