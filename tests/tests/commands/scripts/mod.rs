//! Scripts: what they find, what they may do, and those that take long.

mod busy_scripts;
mod endless_scripts;
mod hostile_scripts;
mod script_api;
mod script_keys;
mod scripts_in_transactions;
