//! Reads that are under way and that others can share: of concurrent misses of one command, one is sent.
//!
//! The first task to ask leads a *flight*; the others are its passengers. The sink of the request also holds the
//! flight, so passengers get the reply even if the leader is dropped. If the leader is dropped before the request is
//! queued, passengers get nothing and ask again, and one of them leads. So do they when the request is lost with its
//! connection, as often as a command may be sent again: none waits for the leader to be polled. No task boards a
//! flight whose key is known to have changed, so a passenger never gets a value older than the reports that had come
//! when it asked.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::cache::{Cache, Read};
use crate::error::{RedisError, RedisResult};
use crate::values::value::Value;

/// The result for a passenger. The value may be an error reply.
pub(crate) type Arrival = RedisResult<Arc<Value>>;

/// A read under way.
#[derive(Debug)]
pub(crate) struct Flight {
    cache: Arc<Cache>,
    pub read: Read,
    /// When it began: its reply is at most as old.
    pub began: Instant,
    /// `None` when it has ended.
    passengers: Mutex<Option<Vec<oneshot::Sender<Arrival>>>>,
}

/// The role of a task whose read is not in the cache.
#[derive(Debug)]
pub(crate) enum Boarding {
    /// It sends the request.
    Leader(Arc<Flight>),
    /// It waits for the reply. If none comes, it must ask again.
    Passenger(oneshot::Receiver<Arrival>),
}

impl Flight {
    pub(crate) fn new(cache: Arc<Cache>, read: Read) -> Flight {
        Flight { cache, read, began: Instant::now(), passengers: Mutex::new(Some(Vec::new())) }
    }

    /// Takes a passenger; `None` when it has ended.
    pub(crate) fn board(&self) -> Option<oneshot::Receiver<Arrival>> {
        let mut passengers = self.passengers.lock();
        let (seat, waiting) = oneshot::channel();
        passengers.as_mut()?.push(seat);
        Some(waiting)
    }

    /// What the passenger of a flight gets that has ended with this value.
    pub(crate) fn landed(value: Arc<Value>) -> oneshot::Receiver<Arrival> {
        let (seat, waiting) = oneshot::channel();
        _ = seat.send(Ok(value));
        waiting
    }

    /// Passes the reply to the passengers.
    pub(crate) fn land(&self, value: &Value) {
        let passengers = self.passengers.lock().take().unwrap_or_default();
        if !passengers.is_empty() {
            let value = Arc::new(value.clone());
            passengers.into_iter().for_each(|seat| _ = seat.send(Ok(value.clone())));
        }
    }

    /// Passes the error to the passengers: no reply comes. Nobody boards any more.
    pub(crate) fn fail(&self, error: &RedisError) {
        let passengers = self.passengers.lock().take().unwrap_or_default();
        passengers.into_iter().for_each(|seat| _ = seat.send(Err(error.clone())));
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.cache.end_flight(&self.read, self);
    }
}

#[cfg(test)]
mod tests {
    use oneshot::error::TryRecvError;

    use super::*;
    use crate::cache::{CacheConfig, Look};
    use crate::values::cmd::{Caching, cmd};

    fn cache() -> Arc<Cache> {
        Arc::new(Cache::new(CacheConfig::new()))
    }

    fn board(cache: &Arc<Cache>) -> Boarding {
        let get = cmd("GET").arg("k").get_packed_command();
        let Some(Look::Miss(read)) = cache.look(&get, Caching::Default) else { panic!("it is not kept") };
        cache.board(&read)
    }

    fn lead(cache: &Arc<Cache>) -> Arc<Flight> {
        let Boarding::Leader(flight) = board(cache) else { panic!("another leads") };
        flight
    }

    fn follow(cache: &Arc<Cache>) -> oneshot::Receiver<Arrival> {
        let Boarding::Passenger(waiting) = board(cache) else { panic!("nobody leads") };
        waiting
    }

    #[test]
    fn the_first_leads_and_the_others_get_what_it_gets() {
        let cache = cache();
        let flight = lead(&cache);
        let mut waiting = [follow(&cache), follow(&cache)];
        flight.land(&Value::Int(1));
        for one in &mut waiting {
            assert_eq!(*one.try_recv().unwrap().unwrap(), Value::Int(1));
        }
        // It has ended, so the next one leads although the flight is still held.
        let next = lead(&cache);
        let mut waiting = follow(&cache);
        drop(flight);
        next.fail(&RedisError::closed());
        assert!(waiting.try_recv().unwrap().unwrap_err().to_string().contains("closed"));
        assert_eq!(cache.stats().merged, 3);
    }

    #[test]
    fn what_was_kept_since_the_look_is_not_read_again() {
        let cache = cache();
        let flight = lead(&cache);
        let looked = flight.read.clone();
        cache.ticket(&looked).keep(&Value::Int(1), Some(&Value::Int(-1)));
        flight.land(&Value::Int(1));
        drop(flight);
        let Boarding::Passenger(mut waiting) = cache.board(&looked) else { panic!("it is read again") };
        assert_eq!(*waiting.try_recv().unwrap().unwrap(), Value::Int(1));
    }

    #[test]
    fn a_leader_that_goes_lets_the_others_ask_anew() {
        let cache = cache();
        let flight = lead(&cache);
        let mut waiting = follow(&cache);
        // As a request under way holds it.
        let request = flight.clone();
        drop(flight);
        assert_eq!(waiting.try_recv().unwrap_err(), TryRecvError::Empty);
        drop(request);
        assert_eq!(waiting.try_recv().unwrap_err(), TryRecvError::Closed);
        drop(lead(&cache));
        drop(lead(&cache));
    }

    #[test]
    fn nobody_boards_when_the_key_has_changed() {
        let cache = cache();
        let early = lead(&cache);
        let mut waiting = follow(&cache);
        cache.note_sent(&cmd("SET").arg(("k", 1)).get_packed_command());
        let late = lead(&cache);
        early.land(&Value::Int(1));
        assert_eq!(*waiting.try_recv().unwrap().unwrap(), Value::Int(1));
        // The end of the early one leaves the late one to be found.
        drop(early);
        let mut waiting = follow(&cache);
        cache.flush();
        drop(lead(&cache));
        late.land(&Value::Int(2));
        assert_eq!(*waiting.try_recv().unwrap().unwrap(), Value::Int(2));
    }
}
