//! The usual way of commands and pipelines: straight to their nodes, and back with the replies.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tokio::sync::oneshot;

use crate::cluster::Inner;
use crate::cluster::command::Command;
use crate::cluster::lane::{Got, forget_unknown, not_sent, push};
use crate::cluster::node::Node;
use crate::cluster::place::{Place, Router};
use crate::cluster::rounds::{Common, Rounds, may_be_refusal};
use crate::cluster::routes::UnderWay;
use crate::commands::script::Script;
use crate::connection::gate::{Class, Packed};
use crate::connection::queue::when_room;
use crate::connection::sink::{BatchOutcome, Broken, Sink};
use crate::connection::{driver_gone, gone};
use crate::error::{RedisError, RedisResult};
use crate::values::cmd::{Cmd, Terms};
use crate::values::pipeline::{Pipeline, PipelineResult};
use crate::values::value::Value;

/// The lane of a command that goes nowhere yet.
const NO_LANE: u16 = u16::MAX;

/// How the commands of a pipeline are spread over nodes.
struct Spread {
    ticket: u64,
    nodes: Vec<Arc<Node>>,
    /// The index in `nodes` of each command's.
    lanes: Vec<u16>,
    /// Whether the slot of any command is held.
    has_held: bool,
}

impl Inner {
    pub(crate) async fn send_command(&self, cmd: &Cmd) -> RedisResult<Value> {
        let packed = cmd.packed();
        let place = Router::new(self.some_slot()).place(packed.bytes);
        if place.is_odd() || packed.class != Class::PLAIN {
            return Box::pin(self.send_odd(cmd, place)).await;
        }
        self.send_one(packed, cmd.terms, place, &[]).await
    }

    /// Sends a command that neither blocks nor changes its connection.
    pub(crate) async fn send_one(
        &self,
        packed: Packed<'_>,
        terms: Terms,
        place: Place,
        scripts: &[Script],
    ) -> RedisResult<Value> {
        let (ticket, node) = {
            let mut table = self.routes.lock();
            let ticket = table.ticket();
            (ticket, table.enter(place).and_then(|number| table.node(number)))
        };
        let common = Common { ticket, class: packed.class, scripts, whole: true, repeats: None };
        let rounds = || {
            let retries = terms.retries_max.unwrap_or(self.config.connection.retries_max);
            Rounds::new(self, common, vec![Command::new(packed.bytes, place, terms.idempotent, retries)])
        };
        let Some(node) = node else { return Box::pin(only(rounds())).await };
        let under_way = UnderWay { routes: &self.routes, places: [place] };
        match request(&node, packed, scripts).await {
            Got::Reply(value) if !may_be_refusal(&value) => value.into_result(),
            got => {
                let mut rounds = rounds();
                rounds.take([(0, got)], &node);
                rounds.hold();
                drop(under_way);
                Box::pin(only(rounds)).await
            }
        }
    }

    pub(crate) async fn send_pipeline(&self, pipeline: &Pipeline) -> PipelineResult {
        if pipeline.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let places = self.places(pipeline);
        let class = pipeline.class();
        if pipeline.is_atomic() || class != Class::PLAIN || places.iter().any(|place| place.is_odd()) {
            return Box::pin(self.send_odd_pipeline(pipeline, places)).await;
        }
        self.send_plain(pipeline, places, None).await.map(Some)
    }

    /// Sends a part of a stream. `repeats`: whether all commands of the stream so far may be executed twice.
    ///
    /// # Errors
    /// The commands are refused as a whole.
    pub(crate) async fn send_part(
        &self,
        pipeline: &Pipeline,
        repeats: &AtomicBool,
    ) -> RedisResult<Vec<RedisResult<Value>>> {
        let places = self.places(pipeline);
        if places.iter().any(|place| place.is_odd()) {
            return Box::pin(self.send_expanded(pipeline, &places, Some(repeats))).await;
        }
        self.send_plain(pipeline, places, Some(repeats)).await
    }

    pub(crate) fn places(&self, pipeline: &Pipeline) -> Vec<Place> {
        let mut router = Router::new(self.some_slot());
        (0..pipeline.len()).map(|index| router.place(pipeline.command(index))).collect()
    }

    /// Sends a pipeline of commands that have slots. O(bytes).
    pub(crate) async fn send_plain(
        &self,
        pipeline: &Pipeline,
        places: Vec<Place>,
        repeats: Option<&AtomicBool>,
    ) -> RedisResult<Vec<RedisResult<Value>>> {
        let spread = self.spread(&places);
        let (class, scripts) = (pipeline.class(), &pipeline.scripts);
        let common = Common { ticket: spread.ticket, class, scripts, whole: false, repeats };
        if spread.has_held {
            return Ok(Box::pin(self.rounds(pipeline, &places, common).results()).await);
        }
        let under_way = UnderWay { routes: &self.routes, places };
        let mut waiting = Vec::with_capacity(spread.nodes.len());
        for (node, bytes) in spread.nodes.iter().zip(spread.bytes(pipeline)) {
            let (bytes, count) = bytes
                .as_ref()
                .map_or_else(|| (pipeline.packed().bytes, pipeline.len()), |(bytes, count)| (bytes.as_slice(), *count));
            waiting.push(push(node, Packed::new(bytes, count, common.class), common).await);
        }
        let mut outcomes = Vec::with_capacity(waiting.len());
        for (waiting, node) in waiting.into_iter().zip(&spread.nodes) {
            outcomes.push(outcome(waiting, node, common.scripts).await);
        }
        if outcomes.iter().all(is_plain) {
            return Ok(spread.merge(outcomes));
        }
        let mut rounds = self.rounds(pipeline, &under_way.places, common);
        let got = spread.sort(outcomes, pipeline);
        got.into_iter().enumerate().for_each(|(index, (got, node))| rounds.take([(index, got)], &node));
        rounds.hold();
        drop(under_way);
        Ok(Box::pin(rounds.results()).await)
    }

    /// Counts the commands as under way, unless a slot of theirs is held.
    fn spread(&self, places: &[Place]) -> Spread {
        let mut table = self.routes.lock();
        let ticket = table.ticket();
        let mut lane_of = vec![NO_LANE; table.numbers_end()];
        let mut spread = Spread { ticket, nodes: Vec::new(), lanes: Vec::with_capacity(places.len()), has_held: false };
        for (index, place) in places.iter().enumerate() {
            let Some(number) = table.enter(*place) else {
                places[..index].iter().for_each(|place| table.leave(place.slot()));
                spread.has_held = true;
                break;
            };
            let lane = &mut lane_of[usize::from(number)];
            if *lane == NO_LANE {
                *lane = spread.nodes.len() as u16;
                spread.nodes.extend(table.node(number));
            }
            spread.lanes.push(*lane);
        }
        spread
    }

    /// The commands of a pipeline, none of them sent.
    fn rounds<'a>(&'a self, pipeline: &'a Pipeline, places: &[Place], common: Common<'a>) -> Rounds<'a> {
        let retries = self.config.connection.retries_max;
        let command = |(index, place): (usize, &Place)| {
            Command::new(pipeline.command(index), *place, pipeline.is_idempotent(index), retries)
        };
        Rounds::new(self, common, places.iter().enumerate().map(command).collect())
    }
}

/// The result of the only command.
async fn only(rounds: Rounds<'_>) -> RedisResult<Value> {
    rounds.results().await.pop().unwrap_or_else(|| Err(RedisError::closed()))
}

/// Whether all replies of a lane have come, and none may be a refusal.
fn is_plain(outcome: &BatchOutcome) -> bool {
    outcome.broken.is_none() && !outcome.replies.iter().any(may_be_refusal)
}

impl Spread {
    /// The bytes for each node, and how many commands they are; `None` if that is the whole pipeline.
    fn bytes(&self, pipeline: &Pipeline) -> Vec<Option<(Vec<u8>, usize)>> {
        if self.nodes.len() == 1 {
            return vec![None];
        }
        let share = pipeline.bytes_len() / self.nodes.len();
        let mut all: Vec<(Vec<u8>, usize)> =
            self.nodes.iter().map(|_| (Vec::with_capacity(share + share / 4), 0)).collect();
        for (index, lane) in self.lanes.iter().enumerate() {
            let (bytes, count) = &mut all[usize::from(*lane)];
            bytes.extend_from_slice(pipeline.command(index));
            *count += 1;
        }
        all.into_iter().map(Some).collect()
    }

    /// The replies in the order of the commands.
    fn merge(&self, outcomes: Vec<BatchOutcome>) -> Vec<RedisResult<Value>> {
        let mut replies: Vec<_> = outcomes.into_iter().map(|outcome| outcome.replies.into_iter()).collect();
        let next = |lane: &u16| replies[usize::from(*lane)].next().unwrap_or(Value::Nil).into_result();
        self.lanes.iter().map(next).collect()
    }

    /// The same with what is missing, and the nodes.
    fn sort(&self, outcomes: Vec<BatchOutcome>, pipeline: &Pipeline) -> Vec<(Got, Arc<Node>)> {
        let mut lanes: Vec<_> =
            outcomes.into_iter().map(|outcome| (outcome.replies.into_iter(), outcome.broken, 0)).collect();
        let next = |(index, lane): (usize, &u16)| {
            let (replies, broken, end) = &mut lanes[usize::from(*lane)];
            *end += pipeline.command(index).len();
            let got = match (replies.next(), broken) {
                (Some(value), _) => Got::Reply(value),
                (None, Some(broken)) => Got::Lost { error: broken.error_at(*end), may_retry: broken.may_retry() },
                (None, None) => not_sent(&RedisError::closed()),
            };
            (got, self.nodes[usize::from(*lane)].clone())
        };
        self.lanes.iter().enumerate().map(next).collect()
    }
}

async fn outcome(
    waiting: RedisResult<oneshot::Receiver<BatchOutcome>>,
    node: &Node,
    scripts: &[Script],
) -> BatchOutcome {
    match waiting {
        Ok(waiting) => {
            let outcome = waiting.await.unwrap_or_else(|_| gone());
            forget_unknown(node, scripts, &outcome.replies);
            outcome
        }
        Err(error) => BatchOutcome { replies: Vec::new(), broken: Some(Broken { error, written: 0 }) },
    }
}

/// Sends one command to a node.
async fn request(node: &Node, packed: Packed<'_>, scripts: &[Script]) -> Got {
    let shared = match node.connection() {
        Ok(connection) => &*connection.inner.shared,
        Err(error) => return not_sent(&error),
    };
    let push = || {
        let (sink, waiting) = Sink::one();
        shared.push(packed, true, scripts, sink).map(|()| waiting)
    };
    let len = packed.bytes.len();
    let broken = match when_room(shared, len, push).await {
        Err(error) => return not_sent(&error),
        Ok(waiting) => match waiting.await {
            Ok(Ok(value)) => return Got::Reply(value),
            Ok(Err(broken)) => broken,
            Err(_) => driver_gone(),
        },
    };
    Got::Lost { error: broken.error_at(len), may_retry: broken.may_retry() }
}
