//! A command on its way through a cluster: where it goes next, and what has become of it.

use std::time::{Duration, Instant};

use crate::cluster::keys::{each_key, spec_of};
use crate::cluster::place::Place;
use crate::cluster::topology::{Addr, Refusal};
use crate::error::{Fate, RedisError, RedisResult};
use crate::values::encode::split_first;
use crate::values::value::Value;

/// How long ASK tells where to go: it is about the next command alone.
const ASK_MAX: Duration = Duration::from_millis(20);

/// Where a command goes next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Aim {
    /// Where its slot is.
    Route,
    /// To this node behind ASKING, as was told at that time.
    Ask(Addr, Instant),
}

impl Aim {
    /// Forgets what was told too long ago: by now the slot may have arrived, and be on its way again. Returns whether it
    /// did.
    pub(crate) fn refresh(&mut self) -> bool {
        let is_old = matches!(self, Aim::Ask(_, told) if told.elapsed() > ASK_MAX);
        if is_old {
            *self = Aim::Route;
        }
        is_old
    }

    pub(crate) fn is_as(&self, other: &Aim) -> bool {
        match (self, other) {
            (Aim::Ask(one, _), Aim::Ask(two, _)) => one == two,
            (one, two) => one == two,
        }
    }
}

/// A command of a call, or a whole transaction.
#[derive(Debug)]
pub(crate) struct Command<'a> {
    pub bytes: &'a [u8],
    /// How many replies it brings: several if it is a transaction.
    pub replies: usize,
    pub place: Place,
    pub idempotent: bool,
    /// How often it may still be sent again after a disconnect.
    pub retries_left: u32,
    pub aim: Aim,
    /// What became of it in earlier attempts.
    pub fate: Fate,
    pub redirects: u32,
    /// Why it is not done.
    pub why: Option<RedisError>,
    /// Whether a node may have executed it.
    pub executed: bool,
    pub result: Option<RedisResult<Value>>,
}

impl<'a> Command<'a> {
    pub(crate) fn new(bytes: &'a [u8], place: Place, idempotent: bool, retries_left: u32) -> Command<'a> {
        Command {
            bytes,
            replies: 1,
            place,
            idempotent,
            retries_left,
            aim: Aim::Route,
            fate: Fate::NotSent,
            redirects: 0,
            why: None,
            executed: false,
            result: None,
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.result.is_none()
    }

    pub(crate) fn end(&mut self, result: RedisResult<Value>) {
        self.result = Some(result.map_err(|error| error.after(self.fate)));
    }

    /// Ends it with the reason why it is not done, or this one.
    pub(crate) fn give_up(&mut self, otherwise: impl FnOnce() -> RedisError) {
        let why = self.why.take().unwrap_or_else(otherwise);
        self.end(Err(why));
    }
}

/// The keys of encoded commands.
pub(crate) fn keys_of(mut encoded: &[u8]) -> Vec<&[u8]> {
    let mut keys = Vec::new();
    while let Some((one, rest)) = split_first(encoded) {
        each_key(one, spec_of(one).keys, |key| keys.push(key));
        encoded = rest;
    }
    keys
}

/// The error by which a node refuses a command.
pub(crate) fn refusal(value: &Value, asked: &Addr) -> Option<(Refusal, RedisError)> {
    let Value::ServerError(error) = value else { return None };
    Refusal::of(error, asked).map(|refusal| (refusal, error.clone().into()))
}

/// The error by which a node refuses a transaction: to one of its commands, so that EXEC fails, or to EXEC.
pub(crate) fn refusal_of_all(value: &Value, asked: &Addr) -> Option<(Refusal, RedisError)> {
    let Value::Array(replies) = value else { return refusal(value, asked) };
    let has_failed = matches!(replies.last(), Some(Value::ServerError(_)));
    replies.iter().filter(|_| has_failed).find_map(|reply| refusal(reply, asked))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{ErrorKind, ServerError, ServerErrorKind};

    #[test]
    fn a_transaction_is_refused_as_a_whole() {
        let addr = Addr { host: "h".to_owned(), port: 1 };
        let error = |line: &str| Value::ServerError(ServerError::new(line));
        let queued = || Value::SimpleString("QUEUED".to_owned());
        let of = |replies: Vec<Value>| refusal_of_all(&Value::Array(replies), &addr).map(|(_, error)| error.kind());
        let moved = Some(ErrorKind::Server(ServerErrorKind::Moved));
        assert_eq!(of(vec![Value::Okay, queued(), error("MOVED 1 h:2"), error("EXECABORT x")]), moved);
        assert_eq!(of(vec![Value::Okay, queued(), error("MOVED 1 h:2")]), moved);
        assert_eq!(of(vec![Value::Okay, queued(), error("EXECABORT x")]), None);
        assert_eq!(of(vec![Value::Okay, queued(), Value::Array(vec![error("MOVED 1 h:2")])]), None);
        // A script may reply anything.
        assert!(refusal(&Value::Array(vec![Value::Okay, error("MOVED 1 h:2")]), &addr).is_none());
    }
}
