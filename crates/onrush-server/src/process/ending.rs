//! Ending the process once replicas have all (`shutdown-timeout`).

use onrush_persist::threads;
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

use onrush_engine::process::Done;
use onrush_engine::settings::Hold;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::process::server::Server;

/// How often the end of the process looks whether replicas have all.
const LOOK_PERIOD: Duration = Duration::from_millis(10);

/// A wish that the process ends.
pub struct Wish {
    /// As in `shutdown-on-sigterm`: `save`, `nosave`, `now`, `force`.
    pub words: Vec<&'static str>,
    /// Whom to tell that it does not.
    pub done: Option<Done>,
}

impl Wish {
    /// That of a signal.
    pub fn of_signal(words: &[&'static str]) -> Self {
        Self { words: words.to_vec(), done: None }
    }

    /// Whether it has this word.
    pub fn has(&self, word: &str) -> bool {
        self.words.contains(&word)
    }
}

/// What commands ask of the thread that ends the process.
#[derive(Default)]
pub struct Ending {
    wishes: Mutex<VecDeque<Wish>>,
    wished: Notify,
    /// Until when the end waits for replicas, if it does.
    until: Mutex<Option<Instant>>,
}

impl Ending {
    /// The process is to end once replicas have all.
    pub fn wish(&self, wish: Wish) {
        self.wishes.lock().push_back(wish);
        self.wished.notify_one();
    }

    /// Waits for a wish.
    pub async fn next(&self) -> Wish {
        loop {
            if let Some(wish) = self.wishes.lock().pop_front() {
                return wish;
            }
            self.wished.notified().await;
        }
    }

    /// Takes all other wishes.
    pub fn others(&self) -> Vec<Wish> {
        self.wishes.lock().drain(..).collect()
    }

    /// The end does not wait for replicas any more, and does not come; returns whether it waited (SHUTDOWN ABORT).
    pub fn abort(&self) -> bool {
        self.until.lock().take().is_some()
    }

    /// How long the end waits at most from now on, if it waits.
    pub fn left(&self) -> Option<Duration> {
        self.until.lock().map(|until| until.saturating_duration_since(Instant::now()))
    }

    /// Holds writes back until replicas have all, at most for `shutdown-timeout`. Returns `false` if it was aborted.
    pub async fn wait_for_replicas(&self, server: &'static Server) -> bool {
        let timeout = Duration::from_secs(server.host.config.read().shutdown_timeout);
        if timeout.is_zero() || !is_any_behind(server) {
            return true;
        }
        tracing::info!("The end waits until replicas have all, at most {} s", timeout.as_secs());
        let end = Instant::now() + timeout;
        // Who sees that the end waits finds writes held back.
        server.settings.hold_writes(Hold::End, true);
        *self.until.lock() = Some(end);
        let (tell, told) = oneshot::channel();
        threads::start_or_do("end", move || {
            server.hold_writes(Hold::End, timeout);
            // Nobody listens if the process has ended.
            let _ = tell.send(());
        });
        if told.await.is_err() {
            tracing::error!("Can't hold writes back: the thread has ended with a panic");
        }
        while is_any_behind(server) && Instant::now() < end && self.left().is_some() {
            tokio::time::sleep(LOOK_PERIOD).await;
        }
        let goes_on = self.abort();
        if !goes_on {
            tracing::warn!("The end was aborted by SHUTDOWN ABORT");
            server.release_writes(Hold::End);
        } else if is_any_behind(server) {
            tracing::warn!("The end comes, though replicas lack something after {} s", timeout.as_secs());
        }
        goes_on
    }
}

/// Whether a replica that follows the stream lacks something.
fn is_any_behind(server: &Server) -> bool {
    server.log.flush();
    let replication = &server.replication;
    replication.attached.is_any_behind(replication.history.position().offset)
}
