//! Clients that send random commands of all families on keys of their own: as pipelines, as transactions, from scripts.

use super::super::scene::Scene;
use super::{Step, is_refusal};
use crate::arguments::Arguments;
use crate::argv;
use crate::argv::Argv;
use crate::families::{
    BITS, COUNTERS, EXPIRY, Family, GEO, HASHES, HYPERLOGLOG, KEYS, LEX, LISTS, SCRIPTS, SETS, SORT, SORTED_SETS,
    STREAMS, STRINGS,
};
use crate::grammar::Syntax;
use crate::resp::Value;
use crate::rng::Rng;

const FAMILIES: [&Family; 15] = [
    &STRINGS,
    &COUNTERS,
    &KEYS,
    &EXPIRY,
    &LISTS,
    &HASHES,
    &SETS,
    &SORTED_SETS,
    &LEX,
    &STREAMS,
    &BITS,
    &HYPERLOGLOG,
    &GEO,
    &SORT,
    &SCRIPTS,
];

/// Commands that change what others rely on, wait, connect elsewhere, or have no reply of their own.
const LEFT_OUT: [&str; 30] = [
    "FLUSHALL",
    "FLUSHDB",
    "SWAPDB",
    "MOVE",
    "SELECT",
    "MIGRATE",
    "DEBUG",
    "CONFIG",
    "SHUTDOWN",
    "CLIENT",
    "WAIT",
    "WAITAOF",
    "BLPOP",
    "BRPOP",
    "BLMOVE",
    "BRPOPLPUSH",
    "BLMPOP",
    "BZPOPMIN",
    "BZPOPMAX",
    "BZMPOP",
    "SCRIPT",
    "FUNCTION",
    "MULTI",
    "EXEC",
    "DISCARD",
    "WATCH",
    "RESET",
    "QUIT",
    "HELLO",
    "RANDOMKEY",
];

/// A client that does so in one of three ways.
pub(super) fn client<'a>(scene: &'a Scene<'a>, way: usize, mut rng: Rng) -> Step<'a> {
    let lines: Vec<Syntax> = FAMILIES
        .iter()
        .flat_map(|family| family.lines.iter().map(|(_, line)| Syntax::parse(line)))
        .filter(|syntax| syntax.names().first().is_some_and(|name| !LEFT_OUT.contains(name)))
        .collect();
    let mut words = Arguments::new();
    let mut number = 0u64;
    Box::new(move |talk| {
        let mut commands: Vec<Argv> = (0..1 + rng.below(30))
            .map(|_| lines[rng.below(lines.len())].generate(&mut rng, &mut words))
            .filter(|command| command.0.iter().all(|arg| !arg.eq_ignore_ascii_case(b"block")))
            .collect();
        number += 1;
        let marker = format!("marker-{number}");
        match way {
            0 => {}
            1 => {
                commands.insert(0, argv!["MULTI"]);
                commands.push(argv!["EXEC"]);
            }
            _ => commands.iter_mut().for_each(|command| {
                let mut wrapped = argv!["EVAL", "return redis.call(unpack(ARGV))", "0"];
                wrapped.0.append(&mut command.0);
                *command = wrapped;
            }),
        }
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
