//! Support for Onrush's black-box tests: servers as child processes, a raw client, and a differential runner that
//! compares every reply with a running redis-server's.
//!
//! Where things are:
//! - [`server`] starts and ends servers, [`process`] reads what the kernel knows of them;
//! - [`client`] speaks raw RESP, [`resp`] decodes and shows replies, [`mod@argv`] reads and prints commands;
//! - [`certificates`] makes certificates for TLS;
//! - [`latency`] measures round trips;
//! - [`siege`] attacks a server with hostile clients beside polite ones whose replies are checked;
//! - [`chaos`] runs a server through faults drawn by a seed: disks, scripts, limits, kills;
//! - [`soak`] keeps a server busy for hours and looks for what grows;
//! - [`failovers`] has Redis's Sentinel fail servers over while clients write;
//! - [`stream`] compares whole byte streams until the server closes;
//! - [`grammar`] makes random commands from syntax lines, [`families`] lists the lines by command family,
//!   [`arguments`] makes what they name;
//! - [`amount`] says how many seeds are tried;
//! - [`diff`] runs sequences on both servers, [`compare`] judges the replies, [`exceptions`] is the one list of
//!   declared differences, [`cases`] reads hand-made sequences from `cases/*.txt`;
//! - `trackers` are clients beside a sequence that track keys;
//! - [`audit`] holds what every command costs on its worst shapes of data against redis-server.
//!
//! The tests themselves, in `tests/`: `differential` (random sequences), `cases` (hand-made ones), `protocol` (byte
//! streams), `command_table` (what COMMAND says), `pipelining` (the contract of the README, a test per promise),
//! `life` (start, signals, files, limits), `set_order` (members in the order of their hashes), `siege` (a minute of hostile clients),
//! `chaos` (half a minute of faults, and planted ones that have to be found).
//! Real clients are in `clients/`.
//!
//! Environment: `ONRUSH_SERVER_BIN`, `REDIS_SERVER_BIN`, `ONRUSH_TEST_NIGHTLY`, `ONRUSH_TEST_SEED` and
//! `ONRUSH_TEST_SEQUENCES` ([`amount`]), `ONRUSH_SIEGE_SEED`, `ONRUSH_CHAOS_SEED`.

pub mod amount;
pub mod arguments;
pub mod argv;
pub mod audit;
pub mod cases;
pub mod certificates;
pub mod chaos;
pub mod client;
pub mod compare;
pub mod diff;
pub mod exceptions;
pub mod failovers;
pub mod families;
pub mod filter;
pub mod grammar;
pub mod latency;
pub mod policies;
pub mod port;
pub mod process;
pub mod resp;
pub mod rng;
pub mod server;
pub mod siege;
pub mod soak;
pub mod stream;
mod trackers;
