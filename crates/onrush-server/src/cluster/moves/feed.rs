//! What goes from the thread for snapshots to the thread that sends it: commands that make keys.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use onrush_engine::snapshot::output::{NoResult, Output};
use parking_lot::{Condvar, Mutex};

/// Bytes that may wait. The snapshot waits with more; what clients change meanwhile is kept beside it.
const WAITING_BYTES_MAX: usize = 4 << 20;

/// How long the snapshot waits at a time.
const WAIT: Duration = Duration::from_millis(100);

/// See the module's text.
#[derive(Default)]
pub(super) struct Feed {
    parts: Mutex<Parts>,
    changed: Condvar,
}

#[derive(Default)]
struct Parts {
    bytes: Vec<u8>,
    end: Option<Result<(), String>>,
    /// Whether nobody takes anything any more.
    is_closed: bool,
}

/// What there is.
pub(super) struct Taken {
    pub(super) bytes: Vec<u8>,
    /// Whether all of the group has been taken.
    pub(super) is_whole: bool,
}

impl Feed {
    /// Another group begins.
    pub(super) fn begin(&self) {
        *self.parts.lock() = Parts::default();
    }

    /// Takes what there is; waits a little if that is nothing.
    ///
    /// # Errors
    /// The snapshot has failed.
    pub(super) fn take(&self) -> Result<Taken, String> {
        let mut parts = self.parts.lock();
        if parts.bytes.is_empty() && parts.end.is_none() {
            self.changed.wait_for(&mut parts, WAIT);
        }
        let bytes = std::mem::take(&mut parts.bytes);
        self.changed.notify_all();
        match &parts.end {
            Some(Err(why)) => Err(why.clone()),
            end => Ok(Taken { bytes, is_whole: end.is_some() }),
        }
    }

    /// Nobody takes anything any more.
    pub(super) fn close(&self) {
        self.parts.lock().is_closed = true;
        self.changed.notify_all();
    }

    fn put(&self, bytes: &[u8]) -> io::Result<()> {
        let mut parts = self.parts.lock();
        self.changed.wait_while(&mut parts, |parts| parts.bytes.len() > WAITING_BYTES_MAX && !parts.is_closed);
        if parts.is_closed {
            return Err(io::Error::other("the move has ended"));
        }
        parts.bytes.extend_from_slice(bytes);
        self.changed.notify_all();
        Ok(())
    }

    fn end(&self, result: Result<(), String>) {
        self.parts.lock().end = Some(result);
        self.changed.notify_all();
    }
}

/// A snapshot's way into it.
pub(super) struct FeedOutput(pub(super) Arc<Feed>);

impl Output for FeedOutput {
    fn takes_commands(&self) -> bool {
        true
    }

    fn begin(&mut self, _: u16) -> io::Result<()> {
        Ok(())
    }

    fn write(&mut self, items: &[u8]) -> io::Result<()> {
        self.0.put(items)
    }

    fn finish(self: Box<Self>) -> io::Result<u64> {
        self.0.end(Ok(()));
        Ok(0)
    }

    fn abandon(self: Box<Self>, why: &NoResult) {
        let (NoResult::Failed(why) | NoResult::Unwanted(why)) = why;
        self.0.end(Err(why.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_waits_for_the_sender_but_not_for_one_that_is_gone() {
        let feed = Arc::new(Feed::default());
        let mut output: Box<dyn Output> = Box::new(FeedOutput(Arc::clone(&feed)));
        output.write(&vec![b'x'; WAITING_BYTES_MAX + 1]).unwrap();
        let writer = std::thread::spawn(move || {
            output.write(b"more").unwrap();
            output.finish().unwrap();
        });
        assert_eq!(feed.take().unwrap().bytes.len(), WAITING_BYTES_MAX + 1);
        writer.join().unwrap();
        let taken = feed.take().unwrap();
        assert_eq!((taken.bytes.as_slice(), taken.is_whole), (&b"more"[..], true));
        feed.begin();
        let mut output: Box<dyn Output> = Box::new(FeedOutput(Arc::clone(&feed)));
        output.write(&vec![b'x'; WAITING_BYTES_MAX + 1]).unwrap();
        let writer = std::thread::spawn(move || output.write(b"more").is_err());
        feed.close();
        assert!(writer.join().unwrap());
    }
}
