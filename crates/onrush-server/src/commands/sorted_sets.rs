//! The sorted-set commands.
