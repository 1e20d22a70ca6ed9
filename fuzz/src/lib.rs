//! Fuzz targets: each takes any bytes, must not panic, and asserts what has to hold for all of them.
//!
//! `fuzz/libfuzzer` wraps them for `cargo fuzz`; `tests/smoke.rs` runs them for a moment with every test run.

mod aof;
mod bus;
mod collections;
mod decode;
mod pipelines;
mod rdb;
mod reply;
mod store;
mod text;
mod tree;

pub use aof::aof;
pub use bus::{bus, nodes_conf};
pub use collections::{hash, hyperloglog, list, set, sorted_set, stream};
pub use decode::decode;
pub use pipelines::{CONNECTIONS, Step, encode, pipelines, steps};
pub use rdb::{rdb_file, rdb_value};
pub use reply::reply;
pub use store::store;
pub use text::{config, glob, inline, long_double, numbers, syntax};

/// A target.
pub type Target = fn(&[u8]);

/// All targets by name.
pub const TARGETS: &[(&str, Target)] = &[
    ("aof", aof),
    ("bus", bus),
    ("config", config),
    ("decode", decode),
    ("glob", glob),
    ("hash", hash),
    ("hyperloglog", hyperloglog),
    ("inline", inline),
    ("list", list),
    ("long_double", long_double),
    ("nodes_conf", nodes_conf),
    ("numbers", numbers),
    ("pipelines", pipelines),
    ("rdb_file", rdb_file),
    ("rdb_value", rdb_value),
    ("reply", reply),
    ("set", set),
    ("sorted_set", sorted_set),
    ("store", store),
    ("stream", stream),
    ("syntax", syntax),
];
