//! Faults that happen while the server lives.

mod config;
mod crowd;
mod disks;
mod huge;
pub mod scripts;

use std::time::Duration;

use super::options::{Options, Plant};
use super::round::Round;

/// An act: makes a fault and ends it; returns whether the server is there afterwards.
type Act = fn(&mut Round<'_>) -> bool;

/// All acts by name, and how often each is drawn.
pub const ALL: [(&str, u32, Act); 20] = [
    ("rest", 1, rest),
    ("script", 12, scripts::endless),
    ("script-fills", 2, scripts::fills),
    ("disk-full", 2, disks::full),
    ("disk-full-big", 2, disks::full_with_a_big_value),
    ("disk-full-expiring", 1, disks::full_with_expiring_keys),
    ("disk-eio", 2, disks::failing),
    ("sync-fails-once", 2, disks::sync_fails_once),
    ("sync-fails", 2, disks::sync_fails),
    ("names-fail", 2, disks::names_fail),
    ("disk-slow", 2, disks::slow),
    ("snapshot-on-slow-disk", 1, disks::snapshot_on_slow_disk),
    ("rewrite", 2, disks::rewrite),
    ("toggle-log", 2, disks::toggle_log),
    ("toggle-log-fails", 1, disks::toggle_log_fails),
    ("config-ends", 4, config::ends),
    ("huge-values", 2, huge::values),
    ("huge-counts", 2, huge::counts),
    ("dying-clients", 3, crowd::dying),
    ("pause", 1, crowd::pause),
];

/// Draws an act and plays it; returns whether the server is there afterwards.
pub fn play(round: &mut Round<'_>) -> bool {
    plant(round);
    let names: Vec<&'static str> =
        ALL.iter().flat_map(|(name, weight, _)| std::iter::repeat_n(*name, *weight as usize)).collect();
    let name = round.draw(&names, Options::has_fault);
    let act = ALL.iter().find(|(other, ..)| Some(*other) == name).map_or(("rest", rest as Act), |act| (act.0, act.2));
    round.told(act.0);
    round.scene.report.count(act.0, 1);
    (act.1)(round) && round.lives_on()
}

fn rest(round: &mut Round<'_>) -> bool {
    round.pass(Duration::from_millis(300))
}

/// Makes the fault that is to be found in the middle of a life.
fn plant(round: &mut Round<'_>) {
    match round.options.plant {
        Some(Plant::Stall) => {
            round.told("a planted stall");
            round.host.signal("STOP");
            round.pass(Duration::from_secs(60));
        }
        Some(Plant::Crash) => {
            round.told("a planted crash");
            round.host.signal("ABRT");
            round.pass(Duration::from_secs(1));
        }
        _ => {}
    }
}
