//! The polite clients: what users do, with every reply checked.

mod counters;
mod deaths;
mod fields;
mod pairs;
mod patient;
mod queues;
mod streams;
mod tokens;
mod watch;

use super::scene::Scenario;

pub use counters::KEYS as COUNTER_KEYS;

/// All scenarios, with nothing done yet.
pub fn all() -> Vec<Box<dyn Scenario>> {
    vec![
        Box::new(queues::Queues::default()),
        Box::new(counters::Counters::default()),
        Box::new(pairs::Pairs),
        Box::new(tokens::Tokens),
        Box::new(streams::Streams::default()),
        Box::new(fields::Fields),
        Box::new(watch::Watch),
        Box::new(patient::Patient),
        Box::new(deaths::Deaths),
    ]
}
