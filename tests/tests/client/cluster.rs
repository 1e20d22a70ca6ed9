//! The client library's own tests of clusters, against nodes of Onrush.

use std::path::PathBuf;

use onrush_tests::server::onrush_bin;

#[path = "../../../crates/onrush/tests/cluster/commands.rs"]
mod commands;
#[path = "../../../crates/onrush/examples/cluster.rs"]
#[allow(dead_code)]
mod example;
#[path = "../../../crates/onrush/tests/cluster/harness.rs"]
mod harness;
#[path = "../../../crates/onrush/tests/cluster/moves.rs"]
mod moves;
#[path = "../../../crates/onrush/tests/cluster/order.rs"]
mod order;
#[path = "../../../crates/onrush/tests/cluster/pubsub.rs"]
mod pubsub;
#[path = "../../../crates/onrush/tests/cluster/replicas.rs"]
mod replicas;
#[path = "../../../crates/onrush/tests/cluster/streams.rs"]
mod streams;
#[path = "../../../crates/onrush/tests/cluster/tls.rs"]
mod tls;

fn server_bin() -> PathBuf {
    onrush_bin()
}
