//! The HyperLogLog commands.
