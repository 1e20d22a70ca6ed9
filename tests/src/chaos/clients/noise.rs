//! Clients that send random commands of all families on keys of their own: as pipelines, as transactions, from scripts.

use super::super::scene::Scene;
use super::{Step, is_refusal};
use crate::argv;
use crate::families::DataCommands;
use crate::resp::Value;
use crate::rng::Rng;

/// A client that does so in one of three ways.
pub(super) fn client<'a>(scene: &'a Scene<'a>, way: usize, mut rng: Rng) -> Step<'a> {
    let mut data = DataCommands::new();
    let mut number = 0u64;
    Box::new(move |talk| {
        let count = 1 + rng.below(30);
        let mut commands = data.take_in(way, &mut rng, count);
        number += 1;
        let marker = format!("marker-{number}");
        commands.push(argv!["ECHO", marker]);
        let values = talk.exchange(&commands);
        scene.report.count("random commands", values.len() as u64);
        if values.len() == commands.len() {
            let last = &values[values.len() - 1];
            if *last != Value::Bulk(marker.clone().into_bytes()) && !is_refusal(last) {
                scene.fail("each command gets one reply", format!("{last} instead of {marker}"));
            }
        }
        values.len() == commands.len()
    })
}
