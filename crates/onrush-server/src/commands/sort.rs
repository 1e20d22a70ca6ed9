//! The sort commands.
