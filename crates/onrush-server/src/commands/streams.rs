//! The stream commands.
