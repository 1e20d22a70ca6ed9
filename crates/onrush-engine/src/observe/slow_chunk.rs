//! A chunk that took long: one of its short commands was slow, or all of them waited for the same thing.

use std::time::Duration;

use crate::batch::argv::Argv;
use crate::batch::chunk::{Chunk, Part, ShortCommand, Tally};
use crate::clients::client::ClientHandle;
use crate::command::Command;
use crate::observe::slow::{arguments, event_of, note_slow, one_of};
use crate::observe::slowlog::cut;
use crate::shared::Shared;

/// Such a chunk, executed and not counted yet.
pub(crate) struct SlowChunk<'a> {
    pub(crate) shared: &'static Shared,
    pub(crate) chunk: &'a Chunk,
    pub(crate) parts: &'a [Part],
    pub(crate) tally: &'a Tally,
    /// What the connections have sent, in the order of the parts.
    pub(crate) inputs: &'a [&'a [u8]],
}

/// A command of the chunk that was not timed individually.
struct Suspect<'a> {
    command: &'static Command,
    argv: Argv<'a>,
    times: u64,
    part: usize,
}

impl SlowChunk<'_> {
    /// Notes the chunk; `nanos` is its time without individually timed commands. `client_of` returns the client of a
    /// part. A single command is noted like any other; for several, one entry in the slow log names all.
    pub(crate) fn note<'c>(&self, nanos: u64, client_of: impl FnOnce(usize) -> &'c ClientHandle) {
        let suspects: Vec<Suspect<'_>> = (0..self.parts.len()).flat_map(|part| self.suspects_of(part)).collect();
        let Some(first) = suspects.first() else { return };
        let len: u64 = suspects.iter().map(|suspect| suspect.times).sum();
        note_slow(self.shared, client_of(first.part), nanos, || match len {
            1 => arguments(first.command, &first.argv, |_| None),
            len => describe(&suspects, len),
        });
        self.shared.note_event(event_of(first.command), Duration::from_nanos(nanos));
    }

    fn suspects_of(&self, part: usize) -> impl Iterator<Item = Suspect<'_>> {
        let Self { chunk, parts, tally, inputs, .. } = *self;
        let owned = &chunk.owned[parts[part].owned.clone()];
        tally.short_commands(chunk, &parts[part]).filter(|short| short.times > 0).map(move |short| {
            let ShortCommand { command, run, times } = short;
            let planned = &chunk.planned[run];
            let ranges = &chunk.args[planned.args.0 as usize..planned.args.1 as usize];
            Suspect { command, argv: Argv::new(&inputs[part][planned.start..], ranges, owned), times, part }
        })
    }
}

/// The number of suspect commands, and then the commands, each as one argument.
fn describe(suspects: &[Suspect<'_>], len: u64) -> Vec<Vec<u8>> {
    let mut texts = vec![one_of(len).into_bytes()];
    texts.extend(suspects.iter().map(|suspect| {
        let times = if suspect.times > 1 { format!("{} x ", suspect.times) } else { String::new() };
        [times.into_bytes(), arguments(suspect.command, &suspect.argv, |_| None).join(&b' ')].concat()
    }));
    cut(texts.len(), texts.iter().map(Vec::as_slice))
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    use std::time::Instant;

    use super::*;
    use crate::batch::runner::Runner;
    use crate::clients::local::LocalClient;
    use crate::clock::TimeSource;
    use crate::command::CommandTable;
    use crate::commands::FAMILIES;
    use crate::ctx::Engine;
    use crate::observe::timing::TimingOptions;
    use crate::settings::Options;
    use crate::shared::Parts;

    /// How far the clock goes on whenever it is read, and where it is, in microseconds.
    static STEP_US: AtomicU64 = AtomicU64::new(0);
    static NOW_US: AtomicU64 = AtomicU64::new(0);
    static BASE: LazyLock<Instant> = LazyLock::new(Instant::now);

    fn now() -> Instant {
        *BASE + Duration::from_micros(NOW_US.fetch_add(STEP_US.load(Relaxed), Relaxed))
    }

    const TIME: TimeSource = TimeSource { now, unix_us: || 7_000_000 };

    /// The commands as multibulks.
    fn multibulks(commands: &[&str]) -> String {
        let bulk = |word: &str| format!("${}\r\n{word}\r\n", word.len());
        let command = |line: &&str| {
            let words: Vec<String> = line.split(' ').map(bulk).collect();
            format!("*{}\r\n{}", words.len(), words.concat())
        };
        commands.iter().map(command).collect()
    }

    /// The arguments and the time of what is in the slow log, the latest first.
    fn slow(engine: &Engine) -> Vec<(String, u64)> {
        let mut entries = Vec::new();
        let text = |args: &Vec<Vec<u8>>| String::from_utf8_lossy(&args.join(&b'|')).into_owned();
        engine.slowlog.latest(99, |_, list| entries.extend(list.map(|entry| (text(&entry.args), entry.took_us))));
        engine.slowlog.reset();
        entries
    }

    #[test]
    fn a_slow_chunk_names_its_suspects_and_each_command_counts_once() {
        let engine = Engine::new(&Parts { time: TIME, ..Parts::default() }, CommandTable::new(FAMILIES));
        let engine: &'static Engine = Box::leak(Box::new(engine));
        let (mut runner, mut client) = (Runner::new(engine, 0), LocalClient::new(engine));
        let mut run = |commands: &[&str]| client.run(&mut runner, multibulks(commands));
        run(&["SET a 1", "SET a 1", "SET a 1", "GET a", "INCR b"]);
        assert_eq!(slow(engine), []);
        // Each look at the clock is 20 ms later: so much is the time of a chunk.
        STEP_US.store(20_000, Relaxed);
        run(&["SET a 1"]);
        assert_eq!(slow(engine), [("SET|a|1".to_owned(), 20_000)]);
        run(&["SET a 1", "SET a 1", "SET a 1", "GET a"]);
        assert_eq!(slow(engine), [("(one of 4 commands, or all together)|3 x SET a 1|GET a".to_owned(), 20_000)]);
        // An individually timed command is no suspect.
        run(&["KEYS *", "GET a"]);
        let entries = slow(engine);
        assert_eq!(entries.iter().map(|(args, _)| args.as_str()).collect::<Vec<_>>(), ["GET|a", "KEYS|*"]);
        STEP_US.store(0, Relaxed);
        engine.set(&Options { timing: TimingOptions { slow_us: 0, ..TimingOptions::default() }, ..Options::default() });
        run(&["SET a 1", "SET a 1", "GET a", "NOSUCH", "GET"]);
        let entries = slow(engine);
        assert_eq!(entries.iter().map(|(args, _)| args.as_str()).collect::<Vec<_>>(), ["GET|a", "SET|a|1", "SET|a|1"]);
        for (name, calls) in [("set", 9), ("get", 4), ("incr", 1), ("keys", 1)] {
            let id = engine.commands.lookup(name.as_bytes()).expect("a command").id;
            let counters = &engine.stats.threads[0].commands[id as usize];
            assert_eq!((counters.calls.get(), engine.stats.latency(id).total), (calls, calls), "{name}");
        }
        assert_eq!(engine.stats.threads[0].commands_processed.get(), 15);
    }
}
