//! The geo commands.
