//! The task behind a connection: drives the live link, keeps time, reconnects.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep};

use crate::connection::gate::{Class, Packed};
use crate::connection::queue::{CloseGuard, Shared};
use crate::connection::sink::{Sink, Waiting};
use crate::error::{ErrorKind, Fate, RedisError, RedisResult};
use crate::link::backoff::Backoff;
use crate::link::connector::Connector;
use crate::link::telemetry;
use crate::link::{End, Link};
use crate::observe::ConnectionEvent;
use crate::values::value::{PushInfo, PushKind};

/// Ticks of the connection's clock per shortest time limit: a timeout is at most a quarter late.
const TICKS: u32 = 8;

const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";

/// Drives one connection until no user is left, or until it is lost for good.
#[derive(Debug)]
pub(crate) struct Driver {
    shared: Arc<Shared>,
    connector: Connector,
    backoff: Option<Backoff>,
    clock: Option<Clock>,
    /// For a leased connection: the shared one beside it, over which the driver checks that the server is still there.
    home: Option<Arc<Shared>>,
}

/// Counts time while anything waits, coarsely, so that no command needs to look at a real clock.
#[derive(Debug)]
struct Clock {
    period: Duration,
    sleep: Pin<Box<Sleep>>,
    now: u32,
    /// When the last bytes came, and the last bytes of a reply.
    heard: u32,
    replied: u32,
    /// How many ticks a reply may take.
    timeout: Option<u32>,
    /// After how many ticks of silence to check that the server is still there.
    ping: Option<u32>,
    /// The present check, and when it began.
    probe: Option<(Probe, u32)>,
}

/// A check that the server is still there.
#[derive(Debug)]
enum Probe {
    /// A PING on the link itself, after this many replies.
    Own(u64),
    /// A PING on the connection beside it.
    Home(Waiting),
}

impl Clock {
    /// `None`: there is no limit to watch.
    fn new(timeout: Option<Duration>, ping: Option<Duration>) -> Option<Clock> {
        let shortest = [timeout, ping].into_iter().flatten().min()?;
        let period = (shortest / TICKS).max(Duration::from_millis(1));
        let ticks = |limit: Duration| u32::try_from(limit.as_nanos().div_ceil(period.as_nanos())).unwrap_or(u32::MAX);
        Some(Clock {
            period,
            sleep: Box::pin(tokio::time::sleep(period)),
            now: 0,
            heard: 0,
            replied: 0,
            timeout: timeout.map(ticks),
            ping: ping.map(ticks),
            probe: None,
        })
    }

    /// Whether what has waited since this tick has waited too long. The clock may have passed its end since.
    fn is_overdue(&self, tick: u32) -> bool {
        self.timeout.is_some_and(|timeout| self.now.wrapping_sub(tick) > timeout)
    }

    /// Checks that the server is still there after a long silence that nothing else would detect.
    ///
    /// # Errors
    /// It has not answered in time.
    fn watch(&mut self, link: &mut Link, shared: &Shared, home: Option<&Shared>) -> RedisResult<()> {
        let Some(interval) = self.ping else { return Ok(()) };
        if let Some((probe, since)) = &mut self.probe {
            let is_answered = match probe {
                Probe::Own(replies) => link.replies != *replies,
                // Any answer suffices; and if that connection is lost, this one may still work.
                Probe::Home(answer) => match answer.try_recv() {
                    Err(oneshot::error::TryRecvError::Empty) => false,
                    Ok(Err(broken)) if broken.error.is_timeout() => return Err(broken.error),
                    _ => true,
                },
            };
            if is_answered {
                self.heard = self.now;
                self.probe = None;
                return Ok(());
            }
            // Ticks are coarse: at least the limit has passed.
            let limit = self.timeout.unwrap_or(interval);
            return if self.now.wrapping_sub(*since) > limit { Err(silent()) } else { Ok(()) };
        }
        if self.now.wrapping_sub(self.heard) < interval {
            return Ok(());
        }
        if let Some(home) = home.filter(|_| link.is_patient()) {
            let (sink, answer) = Sink::one();
            if home.push(Packed::new(PING, 1, Class::PLAIN), true, &[], sink).is_ok() {
                self.probe = Some((Probe::Home(answer), self.now));
            }
        } else if link.inflight.is_empty() && !shared.is_leased() && shared.waits_for_news() {
            shared.note_due(1);
            link.send_first(PING, Sink::Discard);
            self.probe = Some((Probe::Own(link.replies), self.now));
        }
        Ok(())
    }

    fn restart(&mut self) {
        self.sleep.as_mut().reset(Instant::now() + self.period);
    }
}

impl Driver {
    /// Starts driving a link; without one, starts with making it, while commands may be queued already. `backoff` is
    /// `None` for a connection that must not be replaced.
    pub(crate) fn spawn(
        shared: Arc<Shared>,
        connector: Connector,
        backoff: Option<Backoff>,
        home: Option<Arc<Shared>>,
        link: Option<Link>,
    ) {
        // Made here, since a runtime that shuts down may never start the task.
        let guard = CloseGuard(shared.clone());
        tokio::spawn(async move {
            let _guard = guard;
            let clock = Clock::new(connector.config.response_timeout, connector.config.ping_interval);
            let first_backoff = backoff.clone().unwrap_or_default();
            let mut driver = Driver { shared, connector, backoff, clock, home };
            let link = match link {
                Some(link) => Some(link),
                None => {
                    let cause = RedisError::new(ErrorKind::Io, "there is no connection yet");
                    driver.reconnect(&first_backoff, &mut 0, cause).await
                }
            };
            if let Some(link) = link {
                driver.run(link).await;
            }
        });
    }

    async fn run(mut self, mut link: Link) {
        let shared = self.shared.clone();
        // Attempts to connect since the last useful link.
        let mut attempts = 0;
        loop {
            let started = Instant::now();
            let error = match self.drive(&mut link).await {
                End::Deserted => return,
                End::Broken(error) => error,
            };
            shared.note_disconnection();
            // Whether the reader of pushes is told of a gap whose end it was not told of.
            let mut has_gap = link.unsettled.count > 0;
            let mut tell = || {
                if !shared.outlet.is_lossless() || shared.has_subscriptions() {
                    has_gap = true;
                    shared.outlet.send(PushInfo { kind: PushKind::Disconnection, data: Vec::new() });
                }
            };
            let backoff = self.backoff.clone().filter(|_| !shared.is_deserted());
            let Some(backoff) = backoff else {
                tell();
                // Closed before the commands in flight fail, so that none of them is retried in vain.
                shared.close(error.clone().with_fate(Fate::NotSent));
                return link.salvage(&shared, &error, false);
            };
            telemetry::disconnected(&self.connector.info.addr, &error);
            self.connector.tell(ConnectionEvent::Lost(&error));
            // A peer that accepts and hangs up is no better than one that does not accept.
            if link.replies > 0 || started.elapsed() >= backoff.max {
                attempts = 0;
            }
            link.salvage(&shared, &error, true);
            drop(link);
            tell();
            link = match self.reconnect(&backoff, &mut attempts, error).await {
                Some(link) => link,
                None => return,
            };
            shared.tally.reconnect();
            telemetry::reconnected(&self.connector.info.addr, attempts);
            if has_gap && link.unsettled.count == 0 {
                shared.outlet.send(PushInfo { kind: PushKind::Resubscribed, data: Vec::new() });
            }
        }
    }

    async fn drive(&mut self, link: &mut Link) -> End {
        let (shared, clock, home) = (&self.shared, &mut self.clock, self.home.as_deref());
        let backoff = self.backoff.as_ref();
        shared.note_connection();
        if let Some(clock) = clock {
            (clock.heard, clock.replied) = (clock.now, clock.now);
            clock.probe = None;
        }
        poll_fn(|cx| {
            loop {
                if let Poll::Ready(end) = link.poll(shared, cx) {
                    return Poll::Ready(end);
                }
                if backoff.is_some_and(|backoff| link.poll_again(shared, backoff, cx)) {
                    continue;
                }
                let Some(clock) = clock else { return Poll::Pending };
                if clock.sleep.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                clock.now = shared.tick();
                let paused = link.poll_paused(shared, cx);
                let heard = std::mem::take(&mut link.heard);
                if heard.any || paused {
                    clock.heard = clock.now;
                }
                if heard.reply || paused {
                    clock.replied = clock.now;
                }
                if link.oldest_tick().is_some_and(|tick| clock.is_overdue(tick) && clock.is_overdue(clock.replied)) {
                    // Commands that have waited in the queue for as long have timed out too; the rest may go over the
                    // next link.
                    let error = RedisError::new(ErrorKind::Timeout, "no reply came within the response timeout");
                    shared.expire(clock.timeout, &error);
                    return Poll::Ready(End::Broken(error));
                }
                if !paused {
                    if let Err(error) = clock.watch(link, shared, home) {
                        return Poll::Ready(End::Broken(error));
                    }
                }
                clock.restart();
            }
        })
        .await
    }

    /// `None`: no user of the connection is left, or it is given up and closed, with the error of the last attempt, or
    /// with `cause`, which ended the link.
    async fn reconnect(&mut self, backoff: &Backoff, attempts: &mut u32, mut cause: RedisError) -> Option<Link> {
        // A server that is loading its data is there: that is no failed attempt.
        let mut loading = 0;
        loop {
            if self.shared.is_deserted() {
                return None;
            }
            if loading == 0 && backoff.attempts_max.is_some_and(|max| *attempts >= max.max(1)) {
                self.shared.close(cause.with_fate(Fate::NotSent));
                return None;
            }
            let wait = backoff.wait((*attempts).max(loading));
            *attempts = attempts.saturating_add(u32::from(loading == 0));
            let connector = &self.connector;
            let shared = &self.shared;
            let connected = with_expiry(shared, &mut self.clock, &cause, async {
                tokio::time::sleep(wait).await;
                connector.connect(shared).await
            });
            match connected.await? {
                Ok(link) => return Some(link),
                Err(error) => {
                    telemetry::not_connected(&self.connector.info.addr, *attempts, &error);
                    loading = if error.is_loading() { loading.saturating_add(1) } else { 0 };
                    cause = error;
                }
            }
        }
    }
}

/// Runs a future while commands in the queue go on ageing. Those that have waited too long fail with the cause. `None`
/// when all users have left.
async fn with_expiry<T>(
    shared: &Shared,
    clock: &mut Option<Clock>,
    cause: &RedisError,
    future: impl Future<Output = T>,
) -> Option<T> {
    tokio::pin!(future);
    // Without a limit the clock only checks whether a user is left.
    let mut idle = Clock::new(Some(Duration::from_secs(1)), None);
    let expires = clock.is_some();
    // It goes on from one attempt to the next: attempts may all be shorter than its period.
    let Some(clock) = clock.as_mut().or(idle.as_mut()) else { return Some(future.await) };
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
                    shared.expire(clock.timeout, &error);
                }
                clock.restart();
            }
        }
    }
}

fn silent() -> RedisError {
    RedisError::new(ErrorKind::Timeout, "the server has gone silent: it does not answer PING")
}
