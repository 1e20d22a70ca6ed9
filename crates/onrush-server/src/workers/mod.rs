//! Worker threads, their rounds, and the threads that look after them.

pub(crate) mod busy_poll;
pub mod cron;
pub mod gather;
pub(crate) mod inbox;
pub mod mailbox;
pub(crate) mod place;
pub mod round;
pub mod scratch;
pub mod watchdog;
pub mod worker;
