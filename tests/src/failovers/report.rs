//! What the rounds have shown.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::group::Kind;
use super::{Fault, Options};

/// Lost keys that a round names.
const NAMED_MAX: usize = 5;

/// One fault and what came of it.
pub struct Round {
    /// Its number.
    pub number: u32,
    /// What happened to the primary.
    pub fault: Fault,
    /// The longest time without an acknowledged write.
    pub pause: Duration,
    /// Writes that were acknowledged.
    pub acknowledged: u64,
    /// Writes without a reply, or with an error.
    pub unknown: u64,
    /// Acknowledged writes that are not there.
    pub lost: Vec<String>,
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, fault, pause, acknowledged, unknown, lost } = self;
        write!(
            f,
            "{number:>4} {:<12} pause {:>6} ms, {acknowledged} writes acknowledged, {unknown} unknown, {} lost",
            fault.name(),
            pause.as_millis(),
            lost.len()
        )?;
        if !lost.is_empty() {
            write!(f, ": {}", lost[..lost.len().min(NAMED_MAX)].join(" "))?;
        }
        Ok(())
    }
}

/// All rounds.
pub struct Report {
    title: String,
    rounds: Vec<Round>,
}

impl Report {
    /// Without rounds.
    pub fn new(options: &Options) -> Self {
        let names: Vec<String> = options
            .servers
            .iter()
            .map(|kind| match kind {
                Kind::Onrush => "Onrush".to_owned(),
                Kind::Other(oracle) => oracle.name().to_owned(),
            })
            .collect();
        let title = format!(
            "{}; Sentinels of {}; login {:?}; {}{}replicas to wait for: {}; seed {}",
            names.join(", "),
            options.sentinels.name(),
            options.login,
            if options.encrypted { "TLS; " } else { "" },
            if options.network { "hosts of their own; " } else { "" },
            options.replicas,
            options.seed
        );
        Self { title, rounds: Vec::new() }
    }

    /// Adds a round.
    pub fn add(&mut self, round: Round) {
        self.rounds.push(round);
    }

    /// Acknowledged writes that are not there.
    pub fn lost(&self) -> usize {
        self.rounds.iter().map(|round| round.lost.len()).sum()
    }
}

impl fmt::Display for Report {
    /// A table, as Markdown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n", self.title)?;
        writeln!(f, "| fault | rounds | pause, median | 90 % | longest | acknowledged | unknown | lost |")?;
        writeln!(f, "|---|---|---|---|---|---|---|---|")?;
        let mut by_fault: BTreeMap<Fault, Vec<&Round>> = BTreeMap::new();
        self.rounds.iter().for_each(|round| by_fault.entry(round.fault).or_default().push(round));
        for (fault, rounds) in by_fault {
            let mut pauses: Vec<u128> = rounds.iter().map(|round| round.pause.as_millis()).collect();
            pauses.sort_unstable();
            let at = |part: usize| pauses[(pauses.len() - 1) * part / 100];
            let sum = |count: fn(&Round) -> u64| rounds.iter().map(|round| count(round)).sum::<u64>();
            writeln!(
                f,
                "| {} | {} | {} ms | {} ms | {} ms | {} | {} | {} |",
                fault.name(),
                rounds.len(),
                at(50),
                at(90),
                at(100),
                sum(|round| round.acknowledged),
                sum(|round| round.unknown),
                sum(|round| round.lost.len() as u64),
            )?;
        }
        Ok(())
    }
}
