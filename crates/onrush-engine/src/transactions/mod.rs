//! Transactions: what is queued, what need not be, and which clients watch which keys.

pub(crate) mod inside;
pub(crate) mod together;
pub mod transaction;
pub mod watched;
