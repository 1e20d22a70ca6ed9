//! The cases as data, a file per family.

mod blocking;
mod geo;
mod hashes;
mod keys;
mod lists;
mod pubsub;
mod server;
mod sets;
mod sort;
mod sorted_sets;
mod streams;
mod strings;
mod tracking;
mod transactions;

use super::script::Scenario;

/// All scenarios.
pub fn all() -> Vec<&'static Scenario> {
    let families: [&'static [Scenario]; 14] = [
        keys::SCENARIOS,
        strings::SCENARIOS,
        lists::SCENARIOS,
        hashes::SCENARIOS,
        sets::SCENARIOS,
        sorted_sets::SCENARIOS,
        geo::SCENARIOS,
        streams::SCENARIOS,
        sort::SCENARIOS,
        blocking::SCENARIOS,
        pubsub::SCENARIOS,
        tracking::SCENARIOS,
        transactions::SCENARIOS,
        server::SCENARIOS,
    ];
    families.into_iter().flatten().collect()
}
