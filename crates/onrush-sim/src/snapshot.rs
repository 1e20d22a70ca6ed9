//! Taking and loading snapshots of simulated engines.

use std::io;
use std::sync::Arc;

use onrush_engine::ctx::Engine;
use onrush_engine::loading::load::{Rules, load_batch, load_end};
use onrush_engine::snapshot::output::{NoResult, Output, Purpose};
use onrush_engine::snapshot::run::{At, begin, run};
use onrush_persist::rdb::{Batch, FileReader, FileWriter};
use onrush_store::schedule;
use parking_lot::Mutex;

/// What is known of the cut, and the bytes.
type Taken<C> = Arc<Mutex<Option<(C, Vec<u8>)>>>;

/// A snapshot that is written.
struct Writing<C, F> {
    at_cut: F,
    cut: Option<C>,
    writer: Option<FileWriter<Vec<u8>>>,
    taken: Taken<C>,
}

impl<C: Send, F: FnMut() -> io::Result<C> + Send> Output for Writing<C, F> {
    fn begin(&mut self, version: u16) -> io::Result<()> {
        self.cut = Some((self.at_cut)()?);
        self.writer = Some(FileWriter::new(Vec::new(), version, true)?);
        Ok(())
    }

    fn write(&mut self, items: &[u8]) -> io::Result<()> {
        self.writer.as_mut().ok_or(io::ErrorKind::NotFound)?.write(items)
    }

    fn finish(self: Box<Self>) -> io::Result<u64> {
        let bytes = self.writer.ok_or(io::ErrorKind::NotFound)?.finish()?;
        let len = bytes.len() as u64;
        *self.taken.lock() = self.cut.map(|cut| (cut, bytes));
        Ok(len)
    }

    fn abandon(self: Box<Self>, _: &NoResult) {}
}

/// Takes a snapshot, as the thread for snapshots does; returns what `at_cut` tells while the whole keyspace is locked, and the
/// bytes. `None`: it was ended, as FLUSHALL does with one that is a file of its own.
pub fn take<C: Send + 'static>(
    engine: &'static Engine,
    purpose: Purpose,
    at_cut: impl FnMut() -> io::Result<C> + Send + 'static,
) -> Option<(C, Vec<u8>)> {
    let taken = Taken::default();
    let output = Box::new(Writing { at_cut, cut: None, writer: None, taken: Arc::clone(&taken) });
    let alone = engine.gate.exclusive(engine.gate.take_turn());
    let underway = begin(engine, output, purpose, false);
    drop(alone);
    let underway = underway?;
    // Whether it was written shows in what was taken.
    let _ = run(engine, &underway, At::Gate(engine.snapshot_thread()));
    taken.lock().take()
}

/// Loads a snapshot into an empty keyspace.
///
/// # Errors
/// It cannot be loaded.
pub fn load(engine: &'static Engine, bytes: &[u8]) -> Result<(), String> {
    let mut reader = FileReader::new(bytes).map_err(|error| error.to_string())?;
    let mut batch = Batch::default();
    while reader.next_batch(&mut batch).map_err(|error| error.to_string())? {
        load_batch(engine, &batch, Rules::LOG_BASE).map_err(|error| error.to_string())?;
        schedule::point();
    }
    load_end(engine).map_err(|error| error.to_string())
}
