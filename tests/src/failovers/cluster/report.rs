//! What the rounds have shown.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::{Fault, Options};
use crate::failovers::group::Kind;

/// Lines of a round about what is wrong.
const NAMED_MAX: usize = 40;

/// One fault and what came of it.
pub struct Round {
    /// Its number.
    pub number: u32,
    /// What happened to the primary.
    pub fault: Fault,
    /// The primary before and after.
    pub between: (usize, usize),
    /// Until all said that the replica is the primary and the cluster is up.
    pub taken_over: Duration,
    /// Until the new primary acknowledged a write.
    pub written: Duration,
    /// Slots that the old primary got so shortly before that the new one did not take them over.
    pub left_behind: usize,
    /// Whether the old primary is the primary at the end: there was no fail-over, or it has taken its slots back.
    pub is_still_primary: bool,
    /// Writes that were acknowledged.
    pub acknowledged: u64,
    /// Writes without a reply, or with an error.
    pub unknown: u64,
    /// Writes of unknown fate behind later ones.
    pub late: usize,
    /// Slots that were moved.
    pub moved: u64,
    /// Acknowledged writes that are not there.
    pub lost: u64,
    /// Those of them that were lost because of how redis-server moves slots.
    pub lost_by_partner: u64,
    /// Acknowledged writes that changed places.
    pub reordered: u64,
    /// What is told of them.
    pub details: Vec<String>,
    /// Errors that nobody expected.
    pub strange: Vec<String>,
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (before, after) = self.between;
        write!(
            f,
            "{:>4} {:<5} {before} -> {after}: took over after {:>5} ms, first write after {:>5} ms; {} writes \
             acknowledged, {} unknown, {} late, {} slots moved, {} lost, {} reordered",
            self.number,
            self.fault.name(),
            self.taken_over.as_millis(),
            self.written.as_millis(),
            self.acknowledged,
            self.unknown,
            self.late,
            self.moved,
            self.lost,
            self.reordered
        )?;
        if self.left_behind > 0 {
            write!(f, ", {} slots left behind", self.left_behind)?;
        }
        if self.is_still_primary {
            write!(f, ", the old primary is the primary")?;
        }
        if self.lost_by_partner > 0 {
            write!(f, ", {} lost by redis-server's way to move slots", self.lost_by_partner)?;
        }
        self.details.iter().take(NAMED_MAX).try_for_each(|text| write!(f, "\n     {text}"))?;
        self.strange.iter().take(NAMED_MAX).try_for_each(|text| write!(f, "\n     unexpected: {text}"))
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
        let name = |kind: &Kind| match kind {
            Kind::Onrush => "Onrush",
            Kind::Other(oracle) => oracle.name(),
        };
        let names: Vec<&str> = options.kinds.iter().map(name).collect();
        let title = format!(
            "Primaries: {}; replicas: {}; {}node timeout {} ms; replicas to wait for: {}; seed {}",
            names[..names.len() / 2].join(", "),
            names[names.len() / 2..].join(", "),
            if options.network { "hosts of their own; " } else { "" },
            options.node_timeout_ms,
            options.replicas,
            options.seed
        );
        Self { title, rounds: Vec::new() }
    }

    /// Adds a round.
    pub fn add(&mut self, round: Round) {
        self.rounds.push(round);
    }

    /// Acknowledged writes that are not there or changed places, but for those that redis-server has lost by design.
    pub fn faults(&self) -> u64 {
        self.rounds.iter().map(|round| round.lost + round.reordered).sum()
    }
}

impl fmt::Display for Report {
    /// A table, as Markdown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n", self.title)?;
        writeln!(
            f,
            "| fault | rounds | took over after, least | median | 95 % | most | first write, median | 95 % | acknowledged | \
             unknown | late | slots moved | left behind | old primary at the end | lost | by redis-server | reordered |"
        )?;
        writeln!(f, "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|")?;
        let mut by_fault: BTreeMap<&str, Vec<&Round>> = BTreeMap::new();
        self.rounds.iter().for_each(|round| by_fault.entry(round.fault.name()).or_default().push(round));
        if by_fault.len() > 1 {
            by_fault.insert("~", self.rounds.iter().collect());
        }
        for (fault, rounds) in by_fault {
            let fault = if fault == "~" { "all" } else { fault };
            let times = |time: fn(&Round) -> Duration| {
                let mut times: Vec<u128> = rounds.iter().map(|round| time(round).as_millis()).collect();
                times.sort_unstable();
                move |part: usize| times[(times.len() - 1) * part / 100]
            };
            let (taken_over, written) = (times(|round| round.taken_over), times(|round| round.written));
            let sum = |count: fn(&Round) -> u64| rounds.iter().map(|round| count(round)).sum::<u64>();
            writeln!(
                f,
                "| {fault} | {} | {} ms | {} ms | {} ms | {} ms | {} ms | {} ms | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
                rounds.len(),
                taken_over(0),
                taken_over(50),
                taken_over(95),
                taken_over(100),
                written(50),
                written(95),
                sum(|round| round.acknowledged),
                sum(|round| round.unknown),
                sum(|round| round.late as u64),
                sum(|round| round.moved),
                sum(|round| round.left_behind as u64),
                sum(|round| u64::from(round.is_still_primary)),
                sum(|round| round.lost),
                sum(|round| round.lost_by_partner),
                sum(|round| round.reordered),
            )?;
        }
        Ok(())
    }
}
