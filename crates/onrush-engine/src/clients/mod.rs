//! Clients: what a connection knows, what others see of it, what it waits for on the disk.

pub mod client;
pub mod durability;
pub mod local;
pub mod session;
pub mod share;
