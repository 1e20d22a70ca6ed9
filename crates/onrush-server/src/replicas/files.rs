//! What may wait for a disk while replicas are served: a thread of its own does it, so that a disk that hangs holds up
//! nobody who needs nothing of it.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::sync::mpsc::{Receiver, Sender, channel};

use onrush_persist::threads;

/// The way to the thread.
#[derive(Clone)]
pub(super) struct Files {
    jobs: Sender<Box<dyn FnOnce() + Send>>,
}

/// What comes of something that the thread was asked for.
pub(super) struct Answer<T>(Receiver<T>);

impl<T> Answer<T> {
    /// What it is, once it is there.
    pub(super) fn take(&self) -> Option<T> {
        self.0.try_recv().ok()
    }
}

impl Files {
    /// Starts the thread, which ends when nobody can ask it any more. It calls `ring` when an answer is there.
    ///
    /// # Errors
    /// The system has none to give.
    pub(super) fn start(ring: impl Fn() + Send + 'static) -> io::Result<Self> {
        let (jobs, coming) = channel::<Box<dyn FnOnce() + Send>>();
        threads::start("replica-files", move || {
            coming.into_iter().for_each(|job| {
                job();
                ring();
            });
        })?;
        Ok(Self { jobs })
    }

    /// Has something done behind all that was asked before.
    pub(super) fn ask<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Answer<T> {
        let (tell, told) = channel();
        // Who has asked may be gone.
        let job = move || drop(tell.send(work()));
        // The thread ends with the process.
        let _ = self.jobs.send(Box::new(job));
        Answer(told)
    }
}

/// A file without a name, which the thread closes: that gives its bytes back to the disk, and takes its time.
pub(super) struct LargeFile {
    file: Option<File>,
    files: Files,
}

impl LargeFile {
    pub(super) fn new(file: File, files: &Files) -> Self {
        Self { file: Some(file), files: files.clone() }
    }
}

impl Deref for LargeFile {
    type Target = File;

    fn deref(&self) -> &File {
        self.file.as_ref().expect("it is there until this is dropped")
    }
}

impl Drop for LargeFile {
    fn drop(&mut self) {
        let file = self.file.take();
        // Nobody waits for it.
        drop(self.files.ask(move || drop(file)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_come_and_the_bell_rings_for_each() {
        let (ring, rung) = channel();
        let files = Files::start(move || ring.send(()).unwrap()).unwrap();
        let (first, second) = (files.ask(|| 1), files.ask(|| "two"));
        drop(files.ask(|| ()));
        (0..3).for_each(|_| rung.recv().unwrap());
        assert_eq!((first.take(), second.take()), (Some(1), Some("two")));
        assert_eq!(first.take(), None);
    }
}
