//! What needs a connection of its own, at the node of its slot.

use crate::cluster::follow::Follow;
use crate::cluster::lane::ASKING;
use crate::cluster::node::Node;
use crate::cluster::odd::cross_slot;
use crate::cluster::place::Place;
use crate::cluster::slot::slot;
use crate::cluster::topology::{Addr, Refusal};
use crate::cluster::{ClusterConnection, Inner};
use crate::connection::gate::Packed;
use crate::connection::lease::{Attempt, Lease};
use crate::error::{ErrorKind, Fate, RedisError, RedisResult, ServerError};
use crate::values::args::ToRedisArgs;
use crate::values::cmd::Terms;
use crate::values::pipeline::{Pipeline, PipelineResult};
use crate::values::value::Value;

impl ClusterConnection {
    /// An exclusive connection to the node that serves the slot of a key. It does not follow the slot if that moves: its
    /// commands get MOVED then.
    ///
    /// # Errors
    /// As [`Connection::lease`](crate::Connection::lease).
    pub async fn lease(&self, key: impl AsRef<[u8]>) -> RedisResult<Lease> {
        let mut follow = Follow::new(&self.inner, Place::of_slot(slot(key.as_ref())));
        loop {
            let (node, _) = follow.node()?;
            match async { node.connection()?.lease().await }.await {
                Ok(lease) => return Ok(lease),
                Err(error) => follow.again(&node, error, false).await?,
            }
        }
    }

    /// An optimistic transaction over keys of one slot; see [`Connection::transaction`](crate::Connection::transaction).
    /// If the slot moves before EXEC, `attempt` is called again at its new node; while it is on its way, that is waited
    /// for, at most for the response timeout.
    ///
    /// # Errors
    /// As there; CROSSSLOT if the keys are in several slots, [`ErrorKind::Client`] without keys.
    pub async fn transaction<T>(
        &self,
        keys: impl ToRedisArgs,
        mut attempt: impl AsyncFnMut(&Lease, &mut Pipeline) -> RedisResult<Option<T>>,
    ) -> RedisResult<T> {
        let keys = keys.to_redis_args();
        let mut follow = Follow::new(&self.inner, place_of(&keys)?);
        loop {
            let (node, _) = follow.node()?;
            match async { node.connection()?.transaction(&keys, &mut attempt).await }.await {
                Ok(value) => return Ok(value),
                Err(error) => follow.again(&node, error, false).await?,
            }
        }
    }

    /// [`transaction`](Self::transaction) for tasks; see [`Connection::transact`](crate::Connection::transact).
    ///
    /// # Errors
    /// As [`transaction`](Self::transaction).
    pub async fn transact<T, F: Future<Output = RedisResult<Option<T>>>>(
        &self,
        keys: impl ToRedisArgs,
        mut attempt: impl FnMut(Attempt) -> F,
    ) -> RedisResult<T> {
        let keys = keys.to_redis_args();
        let mut follow = Follow::new(&self.inner, place_of(&keys)?);
        loop {
            let (node, _) = follow.node()?;
            match async { node.connection()?.transact(&keys, &mut attempt).await }.await {
                Ok(value) => return Ok(value),
                Err(error) => follow.again(&node, error, false).await?,
            }
        }
    }
}

fn place_of(keys: &[Vec<u8>]) -> RedisResult<Place> {
    let Some(first) = keys.first().map(|key| slot(key)) else {
        return Err(RedisError::new(
            ErrorKind::Client,
            "a transaction in a cluster needs a key, which says where it runs",
        ));
    };
    if keys.iter().any(|key| slot(key) != first) {
        return Err(cross_slot());
    }
    Ok(Place::of_slot(first))
}

impl Inner {
    /// Sends a command that blocks, over a lease at the node of its slot.
    pub(crate) async fn send_blocking(&self, packed: Packed<'_>, terms: Terms, place: Place) -> RedisResult<Value> {
        let mut follow = Follow::new(self, place);
        loop {
            let (node, asks) = follow.node()?;
            let outcome = if asks {
                ask_blocking(&node, packed).await
            } else {
                async { node.connection()?.request_apart(packed, terms).await }.await
            };
            match outcome.and_then(Value::into_result) {
                Ok(value) => return Ok(value),
                Err(error) => follow.again(&node, error, true).await?,
            }
        }
    }

    /// The same for a pipeline of one slot.
    pub(crate) async fn send_blocking_pipeline(&self, pipeline: &Pipeline, place: Place) -> PipelineResult {
        let mut follow = Follow::new(self, place);
        loop {
            let (node, _) = follow.node()?;
            let outcome = async { node.connection()?.send_pipeline_here(pipeline, pipeline.packed()).await }.await;
            let error = match outcome {
                Ok(results) => match results.as_ref().and_then(|results| refused(results, &node.addr)) {
                    Some(error) => error,
                    None => return Ok(results),
                },
                Err(error) => error,
            };
            follow.again(&node, error, false).await?;
        }
    }
}

/// The first refusal of a pipeline of which nothing was executed. The commands of a transaction that were not refused
/// themselves have the error of EXEC.
fn refused(results: &[RedisResult<Value>], asked: &Addr) -> Option<RedisError> {
    let is_refusal =
        |error: &RedisError| error.line().and_then(|line| Refusal::of(&ServerError::new(line), asked)).is_some();
    let has_not_run = |result: &RedisResult<Value>| {
        result.as_ref().is_err_and(|error| is_refusal(error) || error.code() == Some("EXECABORT"))
    };
    let mut errors = results.iter().filter_map(|result| result.as_ref().err());
    if results.iter().all(has_not_run) { errors.find(|error| is_refusal(error)).cloned() } else { None }
}

async fn ask_blocking(node: &Node, packed: Packed<'_>) -> RedisResult<Value> {
    let bytes = [ASKING, packed.bytes].concat();
    let packed = Packed::new(&bytes, 2, packed.class);
    let lease = node.connection()?.lease().await?;
    let outcome = lease.request_batch_here(packed, true, &[]).await?;
    match (outcome.replies.into_iter().nth(1), outcome.broken) {
        (Some(value), _) => Ok(value),
        (None, Some(broken)) => Err(broken.error_at(bytes.len())),
        (None, None) => Err(RedisError::closed().with_fate(Fate::Unknown)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipeline_is_sent_again_only_if_all_of_it_was_refused() {
        let asked = Addr { host: "here".to_owned(), port: 1 };
        let error = |line: &str| Err(RedisError::from(ServerError::new(line)));
        let refused =
            |results: &[RedisResult<Value>]| refused(results, &asked).and_then(|error| error.code().map(str::to_owned));
        let (ask, abort) = (error("ASK 1 there:2"), error("EXECABORT Transaction discarded"));
        assert_eq!(refused(&[ask.clone(), ask.clone()]).as_deref(), Some("ASK"));
        assert_eq!(refused(&[abort.clone(), error("MOVED 1 there:2")]).as_deref(), Some("MOVED"));
        assert_eq!(refused(&[error("TRYAGAIN not all keys"), error("MOVED 1 there:2")]).as_deref(), Some("TRYAGAIN"));
        for results in [vec![ask.clone(), Ok(Value::Okay)], vec![abort.clone(), abort], vec![ask, error("ERR no")]] {
            assert_eq!(refused(&results), None);
        }
    }
}
