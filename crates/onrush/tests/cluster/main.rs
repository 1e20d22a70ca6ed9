//! The client library against clusters of redis-server. `CLUSTER_SERVER_BIN` names another server for their nodes; the
//! black-box tests of clients run the same files against Onrush.

use std::path::PathBuf;

mod commands;
mod defaults;
#[path = "../../examples/cluster.rs"]
#[allow(dead_code)]
mod example;
mod harness;
mod moves;
mod order;
mod pubsub;
mod replicas;
mod streams;
#[cfg(feature = "tls")]
mod tls;

/// The server: `CLUSTER_SERVER_BIN`, else the older oracle of the other tests: `REDIS_SERVER_BIN`, else `redis-server` on the
/// search path.
fn server_bin() -> PathBuf {
    let named = ["CLUSTER_SERVER_BIN", "REDIS_SERVER_BIN"].iter().find_map(std::env::var_os);
    named.map_or_else(|| "redis-server".into(), PathBuf::from)
}
