//! The bit commands.
