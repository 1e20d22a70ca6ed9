//! The task behind a connection: drives the live link, keeps time, reconnects.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::time::{Instant, Sleep};

use crate::backoff::Backoff;
use crate::connector::Connector;
use crate::error::{ErrorKind, Fate, RedisError, RedisResult};
use crate::link::{End, Link};
use crate::queue::{CloseGuard, Shared};
use crate::value::{PushInfo, PushKind};

/// Ticks of the connection's clock in one timeout: a timeout is late by an eighth at most.
const TICKS: u32 = 8;

/// Drives one connection until nobody wants it any more, or it is lost for good.
#[derive(Debug)]
pub(crate) struct Driver {
    shared: Arc<Shared>,
    connector: Connector,
    backoff: Option<Backoff>,
    clock: Option<Clock>,
}

/// Counts time while anything waits, coarsely, so that no command needs to look at a real clock.
#[derive(Debug)]
struct Clock {
    period: Duration,
    sleep: Pin<Box<Sleep>>,
    now: u32,
    /// When a reply was last heard of.
    heard: u32,
}

impl Clock {
    fn new(timeout: Duration) -> Clock {
        let period = (timeout / TICKS).max(Duration::from_millis(1));
        Clock { period, sleep: Box::pin(tokio::time::sleep(period)), now: 0, heard: 0 }
    }

    /// The tick before which whatever has waited since has waited too long.
    fn oldest_allowed(&self) -> u32 {
        self.now.saturating_sub(TICKS)
    }

    fn restart(&mut self) {
        self.sleep.as_mut().reset(Instant::now() + self.period);
    }
}

impl Driver {
    /// Starts driving a live link. `backoff` is `None` for a connection that must not be replaced.
    pub(crate) fn spawn(
        shared: Arc<Shared>,
        connector: Connector,
        backoff: Option<Backoff>,
        timeout: Option<Duration>,
        link: Link,
    ) {
        tokio::spawn(async move {
            let clock = timeout.map(Clock::new);
            Driver { shared, connector, backoff, clock }.run(link).await;
        });
    }

    async fn run(mut self, mut link: Link) {
        let shared = self.shared.clone();
        let _guard = CloseGuard(shared.clone());
        // Attempts to connect since a link was last of use.
        let mut attempts = 0;
        loop {
            let started = Instant::now();
            let error = match self.drive(&mut link).await {
                End::Deserted => return,
                End::Broken(error) => error,
            };
            let disconnection = PushInfo { kind: PushKind::Disconnection, data: Vec::new() };
            let backoff = self.backoff.clone().filter(|_| !shared.is_deserted());
            let Some(backoff) = backoff else {
                shared.outlet.send(disconnection);
                // Closed before those in flight hear of it: none of them tries again in vain.
                shared.close(error.clone().with_fate(Fate::NotSent));
                return link.salvage(&shared, &error, false);
            };
            // A peer that accepts and hangs up is no better than one that does not accept.
            if link.has_replied() || started.elapsed() >= backoff.max {
                attempts = 0;
            }
            link.salvage(&shared, &error, true);
            drop(link);
            shared.outlet.send(disconnection);
            link = match self.reconnect(&backoff, &mut attempts, error).await {
                Ok(Some(link)) => link,
                Ok(None) => return,
                Err(error) => return shared.close(error.with_fate(Fate::NotSent)),
            };
        }
    }

    async fn drive(&mut self, link: &mut Link) -> End {
        let (shared, clock) = (&self.shared, &mut self.clock);
        if let Some(clock) = clock {
            clock.heard = clock.now;
            clock.restart();
        }
        poll_fn(|cx| {
            loop {
                if let Poll::Ready(end) = link.poll(shared, cx) {
                    return Poll::Ready(end);
                }
                let Some(clock) = clock else { return Poll::Pending };
                if clock.sleep.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                clock.now = shared.tick();
                let paused = link.poll_paused(shared, cx);
                if link.take_heard() || paused {
                    clock.heard = clock.now;
                }
                let oldest = clock.oldest_allowed();
                if link.oldest_tick().is_some_and(|tick| tick.max(clock.heard) < oldest) {
                    // What waits in the queue since as long has waited too long as well; the rest may go on elsewhere.
                    let error = timed_out();
                    shared.expire(oldest).into_iter().for_each(|entry| entry.fail(&error, 0));
                    return Poll::Ready(End::Broken(error));
                }
                clock.restart();
            }
        })
        .await
    }

    /// `None`: nobody wants the connection any more. An error is the last attempt's, or `cause`, which ended the link.
    async fn reconnect(
        &mut self,
        backoff: &Backoff,
        attempts: &mut u32,
        mut cause: RedisError,
    ) -> RedisResult<Option<Link>> {
        loop {
            if backoff.attempts_max.is_some_and(|max| *attempts >= max.max(1)) {
                return Err(cause);
            }
            let wait = backoff.wait(*attempts);
            *attempts = attempts.saturating_add(1);
            let connector = &self.connector;
            let shared = &self.shared;
            let connected = with_expiry(shared, &mut self.clock, &cause, async {
                tokio::time::sleep(wait).await;
                connector.connect(shared).await
            });
            match connected.await {
                None => return Ok(None),
                Some(Ok(link)) => return Ok(Some(link)),
                Some(Err(error)) => cause = error,
            }
        }
    }
}

/// Runs a future while what waits in the queue goes on ageing. What has waited too long is told the cause. `None` when
/// all users have left.
async fn with_expiry<T>(
    shared: &Shared,
    clock: &mut Option<Clock>,
    cause: &RedisError,
    future: impl Future<Output = T>,
) -> Option<T> {
    tokio::pin!(future);
    // Without a timeout the clock only looks whether anybody is left.
    let mut idle = Clock::new(Duration::from_secs(1));
    let expires = clock.is_some();
    let clock = clock.as_mut().unwrap_or(&mut idle);
    clock.restart();
    loop {
        tokio::select! {
            output = &mut future => return Some(output),
            () = clock.sleep.as_mut() => {
                if shared.is_deserted() {
                    return None;
                }
                if expires {
                    clock.now = shared.tick();
                    let error = cause.delayed("no connection came within the response timeout");
                    shared.expire(clock.oldest_allowed()).into_iter().for_each(|entry| entry.fail(&error, 0));
                }
                clock.restart();
            }
        }
    }
}

fn timed_out() -> RedisError {
    RedisError::new(ErrorKind::Timeout, "no reply came within the response timeout")
}
