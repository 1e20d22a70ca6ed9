//! What clients have sent and what they got, in one sequence.

use std::fmt::Write;

use crate::command::Command;
use crate::reply::Reply;

/// Only the last digits of times are shown.
const MS_SHOWN: i64 = 1_000_000;

/// What became of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Its reply came.
    Replied(Reply),
    /// Its connection ended before: it may have been executed.
    Lost,
    /// It waited for keys to the end, and was not executed.
    Waits,
}

/// A command of a client.
#[derive(Clone, Debug)]
pub struct Call {
    /// What was sent.
    pub command: Command,
    /// The database that was selected.
    pub db: usize,
    /// When it was sent: its place in the sequence.
    pub sent: u64,
    /// When its reply came: its place in the sequence. A command whose reply is lost was not executed after this place.
    pub ended: u64,
    /// The time when it was sent.
    pub sent_ms: i64,
    /// The time when it ended; `i64::MAX` if that is not known.
    pub ended_ms: i64,
    /// What became of it.
    pub fate: Fate,
    /// What the log was at.
    pub lsns: Lsns,
}

/// The newest record of the log at two moments of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lsns {
    /// When it was sent: its effects have later records.
    pub sent: u64,
    /// When its reply came: the effects that the reply shows have no later record.
    pub ended: u64,
}

impl Call {
    /// The reply, if it came.
    pub fn reply(&self) -> Option<&Reply> {
        match &self.fate {
            Fate::Replied(reply) => Some(reply),
            Fate::Lost | Fate::Waits => None,
        }
    }
}

/// The calls of each connection, in the order in which it sent them.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// One for each connection.
    pub lanes: Vec<Vec<Call>>,
    /// The newest place in the sequence.
    pub now: u64,
}

impl History {
    /// The next place in the sequence.
    pub fn tick(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    /// How many calls there are.
    pub fn len(&self) -> usize {
        self.lanes.iter().map(Vec::len).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What was known at place `at`: without later calls, and without replies that came later.
    pub fn until(&self, at: u64) -> Self {
        self.cut(at, |call| call.sent <= at, |call| call.ended <= at && call.fate != Fate::Waits)
    }

    /// What is known after a crash that left the records up to `lsn`: only replies that depend on no later record.
    pub fn left_by_crash(&self, lsn: u64) -> Self {
        let is_known = |call: &Call| call.reply().is_some() && call.lsns.ended <= lsn;
        self.cut(self.now, |call| call.lsns.sent <= lsn, |call| is_known(call) || call.fate == Fate::Lost)
    }

    /// The calls that are there, until `now`; what is not known of them is lost.
    fn cut(&self, now: u64, is_there: impl Fn(&&Call) -> bool, is_known: impl Fn(&Call) -> bool) -> Self {
        let cut = |call: &Call| match is_known(call) {
            true => call.clone(),
            false => Call { fate: Fate::Lost, ended: u64::MAX, ended_ms: i64::MAX, ..call.clone() },
        };
        let lane = |calls: &Vec<Call>| calls.iter().filter(&is_there).map(cut).collect();
        Self { lanes: self.lanes.iter().map(lane).collect(), now }
    }

    /// A line for each call that `shows` picks, in the order in which they were sent.
    pub fn lines(&self, shows: impl Fn(&Call) -> bool) -> String {
        let lanes = self.lanes.iter().enumerate();
        let mut calls: Vec<(usize, &Call)> =
            lanes.flat_map(|(lane, calls)| calls.iter().map(move |call| (lane, call))).collect();
        calls.retain(|(_, call)| shows(call));
        calls.sort_by_key(|(_, call)| call.sent);
        let mut text = String::new();
        for (lane, call) in calls {
            let (until, what) = match &call.fate {
                Fate::Replied(reply) => (format!("{}", call.ended), format!("-> {reply}")),
                Fate::Lost if call.ended == u64::MAX => ("?".to_owned(), "no reply".to_owned()),
                Fate::Lost => (format!("{}", call.ended), "killed".to_owned()),
                Fate::Waits => ("?".to_owned(), "waits".to_owned()),
            };
            let ms = |ms: i64| if ms == i64::MAX { String::new() } else { (ms % MS_SHOWN).to_string() };
            let _ = writeln!(
                text,
                "client {lane:>2}  {:>5}..{until:<5} {:>6}..{:<6} ms db {}  {}  {what}",
                call.sent,
                ms(call.sent_ms),
                ms(call.ended_ms),
                call.db,
                call.command
            );
        }
        text
    }
}
