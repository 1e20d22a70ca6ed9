//! The load: what is sent when, and what comes back.

pub(crate) mod checker;
pub(crate) mod conn;
pub(crate) mod items;
pub(crate) mod random;
pub(crate) mod recorder;
pub(crate) mod request;
pub(crate) mod routes;
pub(crate) mod scanner;
pub(crate) mod schedule;
pub(crate) mod suite;
pub(crate) mod timer;
pub(crate) mod worker;
