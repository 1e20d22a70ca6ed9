//! Redis Cluster: what the rules of the crate `onrush-cluster` say, held against redis-server and Valkey.

mod bus;
mod failovers;
mod hand_overs;
mod marks;
mod moves;
mod nodes;
mod pipelined;
mod replies;
mod serving;
mod slot_stats;
mod under_way;
