//! Commands and pipelines that do not go straight to the node of a slot.

use std::sync::atomic::AtomicBool;

use crate::cluster::Inner;
use crate::cluster::command::Command;
use crate::cluster::expand::slot_of_all;
use crate::cluster::keys::{Combine, spec_of};
use crate::cluster::place::Place;
use crate::cluster::rounds::{Common, Rounds};
use crate::connection::gate::Class;
use crate::connection::pipelines::transaction_results;
use crate::error::{ErrorKind, Fate, RedisError, RedisResult, ServerError};
use crate::values::cmd::Cmd;
use crate::values::pipeline::{Pipeline, PipelineResult};
use crate::values::value::Value;

/// The error for keys in several slots: the server's text, but nothing was sent.
pub(crate) fn cross_slot() -> RedisError {
    let error = ServerError::new("CROSSSLOT Keys in request don't hash to the same slot");
    RedisError::from(error).with_fate(Fate::NotSent)
}

impl Inner {
    pub(crate) async fn send_odd(&self, cmd: &Cmd, place: Place) -> RedisResult<Value> {
        let packed = cmd.packed();
        packed.class.admit_or_lease()?;
        if place == Place::ALL && spec_of(packed.bytes).all == Some(Combine::Scan) {
            return self.scan(cmd).await;
        }
        if place == Place::CROSS || place == Place::ALL {
            return self.send_parts(cmd, place).await;
        }
        if packed.class.wants_lease() {
            return self.send_blocking(packed, cmd.terms, place).await;
        }
        self.send_one(packed, cmd.terms, place, &[]).await
    }

    async fn send_parts(&self, cmd: &Cmd, place: Place) -> RedisResult<Value> {
        let mut pipeline = Pipeline::new();
        pipeline.add_command(cmd);
        let results = self.send_expanded(&pipeline, &[place], None).await?;
        results.into_iter().next().unwrap_or_else(|| Err(RedisError::closed()))
    }

    /// Sends a pipeline with commands that become several.
    pub(crate) async fn send_expanded(
        &self,
        pipeline: &Pipeline,
        places: &[Place],
        repeats: Option<&AtomicBool>,
    ) -> RedisResult<Vec<RedisResult<Value>>> {
        let mut expanded = self.expand(pipeline, places);
        let places = std::mem::take(&mut expanded.places);
        if places.is_empty() {
            return Ok(expanded.join(Vec::new()));
        }
        let results = self.send_plain(&expanded.pipeline, places, repeats).await?;
        Ok(expanded.join(results))
    }

    pub(crate) async fn send_odd_pipeline(&self, pipeline: &Pipeline, places: Vec<Place>) -> PipelineResult {
        pipeline.class().admit_or_lease()?;
        if pipeline.is_atomic() {
            return self.send_transaction(pipeline).await;
        }
        if pipeline.class().blocks() {
            let first = places[0];
            if first.is_odd() || places.iter().any(|place| place.is_odd() || place.slot() != first.slot()) {
                let text = "in a cluster, a pipeline with a command that blocks must have all its keys in one slot";
                return Err(RedisError::new(ErrorKind::Client, text));
            }
            return self.send_blocking_pipeline(pipeline, first).await;
        }
        self.send_expanded(pipeline, &places, None).await.map(Some)
    }

    async fn send_transaction(&self, pipeline: &Pipeline) -> PipelineResult {
        let slot = slot_of_all(pipeline)?.unwrap_or_else(|| self.some_slot());
        if pipeline.class().blocks() {
            return self.send_blocking_pipeline(pipeline, Place::of_slot(slot)).await;
        }
        let bytes = pipeline.framed();
        let retries = self.config.connection.retries_max;
        let mut whole = Command::new(&bytes, Place::of_slot(slot), pipeline.is_all_idempotent(), retries);
        whole.replies = pipeline.len() + 2;
        let ticket = self.routes.lock().ticket();
        let common = Common { ticket, class: pipeline.class(), scripts: &pipeline.scripts, whole: true, repeats: None };
        let result = Rounds::new(self, common, vec![whole]).results().await.pop();
        match result.unwrap_or_else(|| Err(RedisError::closed())) {
            Ok(Value::Array(replies)) => Ok(transaction_results(replies, pipeline.len())),
            Ok(other) => Ok(Some(vec![Err(other.mismatch("list of a transaction's replies")); pipeline.len()])),
            Err(error) if error.kind() == ErrorKind::Client => Err(error),
            Err(error) => Ok(Some(vec![Err(error); pipeline.len()])),
        }
    }
}

impl Class {
    /// As [`admit`](Class::admit), but a command that only blocks gets a lease.
    fn admit_or_lease(self) -> RedisResult<()> {
        if self == Class::PLAIN || self.wants_lease() { Ok(()) } else { self.admit(false) }
    }
}

/// Sends a command to one node, whatever its slots are.
pub(crate) async fn send_to(node: &crate::cluster::node::Node, args: &[&[u8]]) -> RedisResult<Value> {
    node.connection()?.ask(args).await
}
