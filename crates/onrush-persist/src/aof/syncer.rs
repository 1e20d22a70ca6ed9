//! The thread that syncs about once a second, and whenever a file must be completed.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::writer::{FsyncPolicy, Inner};
use crate::threads;

/// How long written bytes wait for a sync.
const INTERVAL: Duration = Duration::from_secs(1);

pub(super) fn start(inner: Arc<Inner>) -> std::io::Result<JoinHandle<()>> {
    threads::start("aof-sync", move || run(&inner))
}

fn run(inner: &Inner) {
    let mut state = inner.state.lock();
    while !state.is_stopping {
        let due = match state.policy {
            _ if state.is_sync_due => Some(Instant::now()),
            FsyncPolicy::EverySecond => state.unsynced_since.map(|since| since + INTERVAL),
            FsyncPolicy::Always | FsyncPolicy::No => None,
        };
        match due {
            None => inner.sync_wanted.wait(&mut state),
            Some(at) if at > Instant::now() => drop(inner.sync_wanted.wait_until(&mut state, at)),
            Some(_) => {
                state.is_sync_due = false;
                let files = state.segments.len();
                drop(state);
                inner.sync();
                if files > 1 {
                    // Bytes that waited for the sync may be written now.
                    inner.wake();
                }
                state = inner.state.lock();
            }
        }
    }
}
