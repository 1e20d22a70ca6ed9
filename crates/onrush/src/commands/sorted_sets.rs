//! Options of the commands on sorted sets, and the ends of their ranges.

use crate::builder::builder;
use crate::commands::options::{options, put, put_if, put_some};

/// An end of a range of scores. Plain numbers are ends too, and belong to the range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ScoreBound {
    /// Below all scores.
    Min,
    /// Above all scores.
    Max,
    /// This score and those beyond.
    Inclusive(f64),
    /// Scores beyond this one.
    Exclusive(f64),
}

options!(ScoreBound: |this, out| match this {
    ScoreBound::Min => out.write_arg(b"-inf"),
    ScoreBound::Max => out.write_arg(b"+inf"),
    ScoreBound::Inclusive(score) => score.write_redis_args(out),
    ScoreBound::Exclusive(score) => out.write_arg(format!("({score}").as_bytes()),
});

/// An end of a lexical range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LexBound<'a> {
    /// Below all members.
    Min,
    /// Above all members.
    Max,
    /// This member and those beyond.
    Inclusive(&'a [u8]),
    /// Members beyond this one.
    Exclusive(&'a [u8]),
}

options!(LexBound<'_>: |this, out| match this {
    LexBound::Min => out.write_arg(b"-"),
    LexBound::Max => out.write_arg(b"+"),
    LexBound::Inclusive(member) => out.write_arg(&[b"[", *member].concat()),
    LexBound::Exclusive(member) => out.write_arg(&[b"(", *member].concat()),
});

/// Options of ZADD.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SortedSetAddOptions {
    condition: Option<&'static str>,
    comparison: Option<&'static str>,
    changed: bool,
    increment: bool,
}

impl SortedSetAddOptions {
    /// Adds new members and does not change existing ones.
    pub fn add_only() -> SortedSetAddOptions {
        SortedSetAddOptions { condition: Some("NX"), ..SortedSetAddOptions::default() }
    }

    /// Changes scores and adds no members.
    pub fn update_only() -> SortedSetAddOptions {
        SortedSetAddOptions { condition: Some("XX"), ..SortedSetAddOptions::default() }
    }
}

builder! {
    SortedSetAddOptions, new: "Adds new members and changes the scores of existing ones.";
    /// Changes scores to greater ones only.
    greater_than() => comparison = Some("GT");
    /// Changes scores to lesser ones only.
    less_than() => comparison = Some("LT");
    /// Returns how many members are new or changed, not only how many are new.
    include_changed_count() => changed = true;
    /// Adds to the score of one member and returns it; nothing if a condition does not hold.
    increment_score() => increment = true;
}

options!(SortedSetAddOptions: |this, out| {
    this.condition.write_redis_args(out);
    this.comparison.write_redis_args(out);
    put_if(out, this.changed, "CH");
    put_if(out, this.increment, "INCR");
});

/// Options of ZRANGE and ZRANGESTORE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SortedSetRangeOptions {
    by: Option<&'static str>,
    rev: bool,
    limit: Option<(i64, i64)>,
    withscores: bool,
}

impl SortedSetRangeOptions {
    /// A range of ranks.
    pub fn by_rank() -> SortedSetRangeOptions {
        SortedSetRangeOptions::default()
    }

    /// A range of scores; see [`ScoreBound`].
    pub fn by_score() -> SortedSetRangeOptions {
        SortedSetRangeOptions { by: Some("BYSCORE"), ..SortedSetRangeOptions::default() }
    }

    /// A lexical range; see [`LexBound`].
    pub fn by_lex() -> SortedSetRangeOptions {
        SortedSetRangeOptions { by: Some("BYLEX"), ..SortedSetRangeOptions::default() }
    }
}

builder! {
    SortedSetRangeOptions;
    /// From the greatest down; the greater end comes first then.
    rev() => rev = true;
    /// At most `count` of them after an offset; a negative count means all.
    limit(offset: i64, count: i64) => limit = Some((offset, count));
    /// With their scores. For `zrange_options`.
    withscores() => withscores = true;
}

options!(SortedSetRangeOptions: |this, out| {
    this.by.write_redis_args(out);
    put_if(out, this.rev, "REV");
    put_some(out, "LIMIT", &this.limit);
    put_if(out, this.withscores, "WITHSCORES");
});

/// How the scores of a member that is in several sets are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Aggregate {
    /// Their sum.
    Sum,
    /// The least.
    Min,
    /// The greatest.
    Max,
}

crate::commands::options::words!(Aggregate: Sum = b"SUM", Min = b"MIN", Max = b"MAX");

/// Options of ZINTER, ZUNION and similar commands.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SortedSetCombineOptions {
    weights: Vec<f64>,
    aggregate: Option<Aggregate>,
}

builder! {
    SortedSetCombineOptions, new: "The sum of scores as they are.";
    /// Factors for the scores of each set; one number for each set.
    weights(weights: impl Into<Vec<f64>>) => weights = weights.into();
    /// How scores are combined.
    aggregate(aggregate: Aggregate) => aggregate = Some(aggregate);
}

options!(SortedSetCombineOptions: |this, out| {
    if !this.weights.is_empty() {
        put(out, "WEIGHTS", &this.weights);
    }
    put_some(out, "AGGREGATE", &this.aggregate);
});

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::options::shown;

    #[test]
    fn options_and_bounds_give_their_arguments() {
        assert_eq!(shown(SortedSetAddOptions::update_only().greater_than().include_changed_count()), "XX GT CH");
        assert_eq!(shown(SortedSetAddOptions::add_only().increment_score()), "NX INCR");
        assert_eq!(shown((ScoreBound::Min, ScoreBound::Exclusive(1.5), ScoreBound::Inclusive(2.0))), "-inf (1.5 2");
        assert_eq!(shown((LexBound::Exclusive(b"a"), LexBound::Inclusive(b"b"), LexBound::Max)), "(a [b +");
        let range = SortedSetRangeOptions::by_score().rev().limit(2, -1).withscores();
        assert_eq!(shown(range), "BYSCORE REV LIMIT 2 -1 WITHSCORES");
        let combine = SortedSetCombineOptions::new().weights([1.0, 2.5]).aggregate(Aggregate::Max);
        assert_eq!(shown(combine), "WEIGHTS 1 2.5 AGGREGATE MAX");
    }
}
