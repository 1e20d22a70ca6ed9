//! Redis Cluster: what the rules of the crate `onrush-cluster` say, held against redis-server and Valkey.

mod bus;
