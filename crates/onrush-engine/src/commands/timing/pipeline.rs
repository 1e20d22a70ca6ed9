//! PIPELINE: which clients would gain from other batch sizes.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::clients::client::ClientHandle;
use crate::ctx::{CommandResult, Ctx};
use crate::observe::pipeline::{Summary, mean_depth};

/// With fewer commands sent one by one, or less time between them, the doctor says nothing about a client.
const SINGLES_MIN: u64 = 100;
const SINGLES_MS_MIN: u64 = 50;

/// The recommended batch size, in commands.
const GOOD_DEPTH: u64 = 16;

/// A client's batches count as too large from this many deferrals on, if they have at least this many commands.
const DEFERRALS_MIN: u64 = 10;
const LARGE_DEPTH: f64 = 64.0;

/// Most clients listed for each reason, those with most to gain first.
const NAMED_MAX: usize = 10;

/// What is known of a client.
#[derive(Clone, Debug, Default)]
struct Habits {
    who: String,
    commands: u64,
    batches: u64,
    singles: u64,
    singles_ms: u64,
    gave_way: u64,
    over_reply_limit: u64,
}

impl Habits {
    fn of(client: &ClientHandle) -> Self {
        let load = |counter: &AtomicU64| counter.load(Relaxed);
        let name = String::from_utf8_lossy(&client.names.lock().name).into_owned();
        let called = if name.is_empty() { String::new() } else { format!(" name={name}") };
        Self {
            who: format!("Client id={} addr={}{called}", client.id, client.addr),
            commands: load(&client.activity.commands),
            batches: load(&client.activity.batches),
            singles: load(&client.activity.singles),
            singles_ms: load(&client.activity.singles_ms),
            gave_way: load(&client.gave_way),
            over_reply_limit: load(&client.over_reply_limit),
        }
    }

    /// Whether it mostly sends one command and waits for the reply.
    fn sends_one_by_one(&self) -> bool {
        self.singles >= SINGLES_MIN && self.singles_ms >= SINGLES_MS_MIN && self.singles * 2 > self.commands
    }

    /// Milliseconds that batches of [`GOOD_DEPTH`] would have spared.
    fn lost_ms(&self) -> u64 {
        self.singles_ms * (GOOD_DEPTH - 1) / GOOD_DEPTH
    }

    fn depth(&self) -> f64 {
        mean_depth(self.commands, self.batches)
    }

    fn deferrals(&self) -> u64 {
        self.gave_way + self.over_reply_limit
    }

    /// Whether its batches are so large that they often have to give way, or to wait until their replies are read.
    fn sends_too_much_at_once(&self) -> bool {
        self.deferrals() >= DEFERRALS_MIN && self.depth() >= LARGE_DEPTH
    }
}

/// `PIPELINE DOCTOR`
pub(crate) fn pipeline_doctor(ctx: &mut Ctx<'_>) -> CommandResult {
    let clients = ctx.engine.clients.all();
    let habits: Vec<Habits> = clients.iter().map(|client| Habits::of(client)).collect();
    let text = diagnose(&ctx.engine.stats.pipelining(), habits);
    ctx.reply_text(text.as_bytes())
}

fn diagnose(sum: &Summary, habits: Vec<Habits>) -> String {
    // Writing to a `String` does not fail.
    let mut text = String::new();
    let _ = writeln!(
        text,
        "All clients together have sent {} commands in {} batches, {:.1} a batch. That has saved {} round trips.",
        sum.commands,
        sum.batches(),
        sum.mean_depth(),
        sum.round_trips_saved()
    );
    let mut slow: Vec<&Habits> = habits.iter().filter(|client| client.sends_one_by_one()).collect();
    slow.sort_by_key(|client| std::cmp::Reverse(client.singles_ms));
    for client in slow.iter().take(NAMED_MAX) {
        let _ = writeln!(text, "{}", one_by_one(client));
    }
    let mut large: Vec<&Habits> = habits.iter().filter(|client| client.sends_too_much_at_once()).collect();
    large.sort_by_key(|client| std::cmp::Reverse(client.deferrals()));
    for client in large.iter().take(NAMED_MAX) {
        let _ = writeln!(text, "{}", too_large(client));
    }
    for (len, what) in [(slow.len(), "send one command at a time"), (large.len(), "send batches that are too large")] {
        if len > NAMED_MAX {
            let _ = writeln!(text, "{} more clients {what}.", len - NAMED_MAX);
        }
    }
    if slow.is_empty() && large.is_empty() {
        text.push_str("No connected client would gain much from other batch sizes.\n");
    }
    text
}

fn one_by_one(client: &Habits) -> String {
    format!(
        "{} sends one command at a time: {} of its {} commands came alone, and {} passed between them. Batches of \
         {GOOD_DEPTH} would have saved about {} of that. Send commands together that do not need each other's replies.",
        client.who,
        client.singles,
        client.commands,
        seconds(client.singles_ms),
        seconds(client.lost_ms())
    )
}

fn too_large(client: &Habits) -> String {
    let mut reasons = Vec::new();
    if client.gave_way > 0 {
        reasons.push(format!("{} times it had to let others go first", client.gave_way));
    }
    if client.over_reply_limit > 0 {
        let times = client.over_reply_limit;
        reasons.push(format!("{times} times it waited until it had read its replies (pipeline-reply-limit)"));
    }
    format!(
        "{} sends batches that are too large: {:.0} commands a read, and {}. Batches of some hundred commands cost as \
         little; read replies while you write.",
        client.who,
        client.depth(),
        reasons.join(", and ")
    )
}

fn seconds(ms: u64) -> String {
    if ms < 10_000 { format!("{ms} ms") } else { format!("{:.1} s", ms as f64 / 1000.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(who: &str) -> Habits {
        Habits { who: who.into(), ..Habits::default() }
    }

    #[test]
    fn clients_are_named_that_would_gain_by_other_batches() {
        let good = Habits { commands: 10_000, batches: 100, singles: 5, singles_ms: 5, ..client("good") };
        let idle = Habits { commands: 90, batches: 90, singles: 90, singles_ms: 900, ..client("idle") };
        let single = Habits { commands: 1_000, batches: 990, singles: 980, singles_ms: 16_000, ..client("single") };
        let large = Habits { commands: 100_000, batches: 100, gave_way: 9, over_reply_limit: 3, ..client("large") };
        let text = diagnose(&Summary::default(), vec![good.clone(), idle.clone(), single, large]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(
            lines[1].starts_with("single sends one command at a time: 980 of its 1000 commands came alone, and 16.0 s")
        );
        assert!(lines[1].contains("would have saved about 15.0 s"), "{text}");
        assert!(lines[2].starts_with("large sends batches that are too large: 1000 commands a read, and 9 times"));
        assert!(diagnose(&Summary::default(), vec![good, idle]).ends_with("would gain much from other batch sizes.\n"));
    }

    #[test]
    fn no_more_than_ten_are_named() {
        let one = |n: u64| Habits {
            commands: 200,
            batches: 200,
            singles: 200,
            singles_ms: 100 + n,
            ..client(&format!("<{n}>"))
        };
        let text = diagnose(&Summary::default(), (0..13).map(one).collect());
        assert!(text.contains("<12> sends") && text.contains("<3> sends") && !text.contains("<2> sends"), "{text}");
        assert!(text.contains("3 more clients send one command at a time."));
    }
}
