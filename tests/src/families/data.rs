//! Lines of commands on data, for clients that share a server with others.

use super::{
    BITS, COUNTERS, EXPIRY, Family, GEO, HASHES, HYPERLOGLOG, KEYS, LEX, LISTS, SCRIPTS, SETS, SORT, SORTED_SETS,
    STREAMS, STRINGS,
};
use crate::arguments::Arguments;
use crate::argv;
use crate::argv::Argv;
use crate::grammar::Syntax;
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

/// Random commands on data: each has one reply, none waits, and none changes more than its keys.
pub struct DataCommands {
    lines: Vec<Syntax>,
    words: Arguments,
}

impl DataCommands {
    /// Those of all families.
    #[expect(clippy::new_without_default, reason = "it parses all lines")]
    pub fn new() -> Self {
        let lines = FAMILIES.iter().flat_map(|family| family.lines).map(|(_, line)| Syntax::parse(line));
        let lines = lines.filter(|syntax| syntax.names().first().is_some_and(|name| !LEFT_OUT.contains(name)));
        Self { lines: lines.collect(), words: Arguments::new() }
    }

    /// Up to `count` commands.
    fn take(&mut self, rng: &mut Rng, count: usize) -> Vec<Argv> {
        let command = |_| self.lines[rng.below(self.lines.len())].generate(rng, &mut self.words);
        let commands = (0..count).map(command);
        commands.filter(|command| command.0.iter().all(|arg| !arg.eq_ignore_ascii_case(b"block"))).collect()
    }

    /// The same in one of three ways: as a pipeline, as a transaction, each from a script.
    pub fn take_in(&mut self, way: usize, rng: &mut Rng, count: usize) -> Vec<Argv> {
        let mut commands = self.take(rng, count);
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
        commands
    }
}
