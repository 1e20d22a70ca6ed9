//! Pipelines and transactions over a connection: their replies, and what is sent again.

use std::time::Duration;

use crate::connection::Connection;
use crate::connection::gate::{Class, Packed};
use crate::connection::sink::Broken;
use crate::error::{Fate, RedisError, RedisResult};
use crate::link::connector::Patience;
use crate::values::pipeline::{Pipeline, PipelineResult};
use crate::values::value::Value;

/// A command of a batch that has no reply yet.
#[derive(Clone, Copy, Debug)]
struct Missing {
    index: usize,
    /// Where it ends in the bytes that were sent last.
    end: usize,
    /// Its fate in earlier attempts.
    fate: Fate,
}

/// The commands of a batch that have no reply yet.
#[derive(Debug)]
struct Missings {
    commands: Vec<Missing>,
    /// The union of the classes of the batch.
    class: Class,
    /// How long the call has waited for leases.
    waited: Duration,
}

impl Connection {
    pub(crate) async fn send_pipeline_here(&self, pipeline: &Pipeline, packed: Packed<'_>) -> PipelineResult {
        let mut results = self.send_pipeline_once(pipeline, packed).await?;
        if results.as_ref().is_some_and(|results| self.waits_for_loading(results)) {
            results = Box::pin(self.send_when_loaded(pipeline, packed, results)).await?;
        }
        if !pipeline.scripts.is_empty() {
            let results = results.iter().flatten();
            if results.filter_map(|result| result.as_ref().err()).any(|error| error.code() == Some("NOSCRIPT")) {
                // Another client has flushed the scripts: the next call loads them again.
                pipeline.scripts.iter().for_each(|script| self.inner.shared.forget_script(script));
            }
        }
        Ok(results)
    }

    async fn send_pipeline_once(&self, pipeline: &Pipeline, packed: Packed<'_>) -> PipelineResult {
        if pipeline.is_atomic() {
            return self.send_transaction(pipeline, packed).await;
        }
        self.send_batch(pipeline, packed).await.map(Some)
    }

    /// Whether nothing of a pipeline was executed since the server is loading its data, and it may be sent again: not
    /// if its connection watches keys or queued commands before, which the refusal of EXEC has ended.
    #[inline]
    fn waits_for_loading(&self, results: &[RedisResult<Value>]) -> bool {
        let refused = |result: &RedisResult<Value>| {
            result.as_ref().is_err_and(|error| error.is_loading() || error.code() == Some("EXECABORT"))
        };
        results.first().is_some_and(refused)
            && loading(results).is_some()
            && self.inner.connector.config.ready_check
            && !self.inner.shared.watches()
            && results.iter().all(refused)
    }

    /// Sends a pipeline again that got LOADING, until the server has loaded its data or the response timeout is over.
    async fn send_when_loaded(
        &self,
        pipeline: &Pipeline,
        packed: Packed<'_>,
        mut results: Option<Vec<RedisResult<Value>>>,
    ) -> PipelineResult {
        let mut patience = Patience::new(&self.inner.connector.config);
        while let Some(error) = results.as_deref().and_then(loading) {
            let is_over = !self.waits_for_loading(results.as_deref().unwrap_or_default());
            if is_over || patience.wait(error).await.is_err() {
                break;
            }
            self.inner.shared.tally.retry(pipeline.len());
            results = self.send_pipeline_once(pipeline, packed).await?;
        }
        Ok(results)
    }

    async fn send_batch(&self, pipeline: &Pipeline, packed: Packed<'_>) -> RedisResult<Vec<RedisResult<Value>>> {
        let mut waited = Duration::ZERO;
        let outcome = self.request_batch(packed, false, &pipeline.scripts, &mut waited).await?;
        let mut results: Vec<_> = outcome.replies.into_iter().map(Value::into_result).collect();
        let Some(broken) = outcome.broken else { return Ok(results) };
        let answered = results.len();
        results.resize_with(pipeline.len(), || Ok(Value::Nil));
        let missing = (answered..pipeline.len())
            .map(|index| Missing { index, end: pipeline.start_of(index + 1), fate: Fate::NotSent })
            .collect();
        let missing = Missings { commands: missing, class: packed.class, waited };
        self.complete_batch(pipeline, missing, broken, &mut results).await;
        Ok(results)
    }

    /// Settles or sends again the commands without a reply; replies that have come stay.
    async fn complete_batch(
        &self,
        pipeline: &Pipeline,
        missing: Missings,
        mut broken: Broken,
        results: &mut [RedisResult<Value>],
    ) {
        let Missings { commands: mut missing, class, mut waited } = missing;
        let mut retries = 0;
        loop {
            let may_retry = broken.may_retry() && self.may_retry(retries);
            retries += 1;
            for command in &mut missing {
                command.fate = broken.error_at(command.end).after(command.fate).fate();
            }
            let is_unknown = |command: &Missing| command.fate == Fate::Unknown;
            // A command that is sent again must not run after later ones that may have been executed already.
            let barrier = missing.iter().rposition(|one| is_unknown(one) && !pipeline.is_idempotent(one.index));
            let (mut again, mut bytes) = (Vec::new(), Vec::new());
            for (at, command) in missing.into_iter().enumerate() {
                let behind = barrier.is_none_or(|barrier| at > barrier);
                if may_retry && (!is_unknown(&command) || (behind && pipeline.is_idempotent(command.index))) {
                    bytes.extend_from_slice(pipeline.command(command.index));
                    again.push(Missing { end: bytes.len(), ..command });
                } else {
                    results[command.index] = Err(broken.error.clone().with_fate(command.fate));
                }
            }
            missing = again;
            if missing.is_empty() {
                return;
            }
            self.inner.shared.tally.retry(missing.len());
            let packed = Packed::new(&bytes, missing.len(), class);
            match self.request_batch(packed, false, &pipeline.scripts, &mut waited).await {
                Ok(outcome) => {
                    let answered = outcome.replies.len();
                    for (command, value) in missing.drain(..answered).zip(outcome.replies) {
                        results[command.index] = value.into_result();
                    }
                    match outcome.broken {
                        Some(again) => broken = again,
                        None => return,
                    }
                }
                Err(error) => {
                    let failed = |command: Missing| results[command.index] = Err(error.clone().after(command.fate));
                    missing.into_iter().for_each(failed);
                    return;
                }
            }
        }
    }

    async fn send_transaction(&self, pipeline: &Pipeline, packed: Packed<'_>) -> PipelineResult {
        let bytes = pipeline.framed();
        let framed = Packed::new(&bytes, packed.count + 2, packed.class);
        let idempotent = pipeline.is_all_idempotent();
        let (mut retries, mut waited) = (0, Duration::ZERO);
        let mut fate = Fate::NotSent;
        let shared = &self.inner.shared;
        let before = shared.note_executed(true);
        let note = |fate| _ = shared.note_executed(before || fate != Fate::NotSent);
        loop {
            let outcome = self.request_batch(framed, true, &pipeline.scripts, &mut waited).await;
            let outcome = outcome.map_err(|error| error.after(fate)).inspect_err(|error| note(error.fate()))?;
            let Some(broken) = outcome.broken else { return Ok(transaction_results(outcome.replies, pipeline.len())) };
            let error = broken.error_at(bytes.len()).after(fate);
            fate = error.fate();
            let retry = broken.may_retry() && (idempotent || fate == Fate::NotSent);
            if !retry || !self.may_retry(retries) {
                note(fate);
                return Ok(Some(vec![Err(error); pipeline.len()]));
            }
            retries += 1;
            shared.tally.retry(pipeline.len());
        }
    }
}

/// The first error, if any, by which a server says that it is loading its data: also that of a transaction which it has
/// queued before.
pub(crate) fn loading(results: &[RedisResult<Value>]) -> Option<RedisError> {
    results.iter().filter_map(|result| result.as_ref().err()).find(|error| error.is_loading()).cloned()
}

/// Splits the replies to MULTI, the queued commands and EXEC.
pub(crate) fn transaction_results(mut replies: Vec<Value>, count: usize) -> Option<Vec<RedisResult<Value>>> {
    let exec = replies.pop().unwrap_or(Value::Nil);
    match exec {
        Value::Nil => None,
        Value::Array(values) if values.len() == count => Some(values.into_iter().map(Value::into_result).collect()),
        Value::ServerError(error) => {
            let error = RedisError::from(error);
            let each = replies.into_iter().skip(1).map(|queued| match queued {
                Value::ServerError(own) => Err(own.into()),
                _ => Err(error.clone()),
            });
            Some(each.collect())
        }
        other => Some(vec![Err(other.mismatch("list of a transaction's replies")); count]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ServerError;

    #[test]
    fn a_refused_transaction_tells_which_command_was_at_fault() {
        let error = |line: &str| Value::ServerError(ServerError::new(line));
        let queued = Value::SimpleString("QUEUED".into());
        let replies = vec![Value::Okay, queued, error("ERR unknown command"), error("EXECABORT Transaction discarded")];
        let results = transaction_results(replies, 2).unwrap();
        assert_eq!(results[0].as_ref().unwrap_err().code(), Some("EXECABORT"));
        assert_eq!(results[1].as_ref().unwrap_err().code(), Some("ERR"));
    }

    #[test]
    fn a_transaction_stopped_by_a_watch_is_none() {
        assert_eq!(transaction_results(vec![Value::Okay, Value::SimpleString("QUEUED".into()), Value::Nil], 1), None);
    }
}
