//! Loading the data at start, on all cores, while clients are told to wait.

use std::fs::File;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use onrush_engine::loading::load::{Expired, LoadError, load_batch};
use onrush_persist::rdb::{Batch, FileReader};
use parking_lot::Mutex;

use crate::server::Server;

/// How often the log tells how far loading is.
const REPORT_PERIOD: Duration = Duration::from_secs(5);

/// Threads that decode, at most.
const THREADS_MAX: usize = 16;

/// Loads an RDB file. No other commands are executed meanwhile.
///
/// # Errors
/// It cannot be read, or is malformed; what was loaded of it by then is there.
pub fn load_file(server: &'static Server, path: &Path, expired: Expired) -> Result<(), LoadError> {
    let file = File::open(path).map_err(onrush_persist::rdb::RdbError::from)?;
    let mut reader = FileReader::new(file)?;
    if !server.host.config.read().rdbchecksum {
        reader = reader.without_checksum();
    }
    let threads = server.workers.clamp(1, THREADS_MAX);
    let (to_decode, batches) = sync_channel::<Batch>(threads);
    let (to_fill, spare) = sync_channel::<Batch>(2 * threads + 1);
    let batches = Mutex::new(batches);
    std::thread::scope(|scope| {
        let decoders: Vec<_> = (0..threads)
            .map(|_| {
                let (batches, to_fill) = (&batches, to_fill.clone());
                scope.spawn(move || decode(server, batches, &to_fill, expired))
            })
            .collect();
        let read = read(server, &mut reader, to_decode, &spare);
        let decoded = decoders.into_iter().map(|decoder| match decoder.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        // What is wrong with a value is told rather than that nobody takes batches any more.
        decoded.collect::<Result<(), _>>().and(read)
    })
}

/// Reads the file, batch by batch; ends early if nobody decodes any more.
fn read(
    server: &Server,
    reader: &mut FileReader<File>,
    to_decode: SyncSender<Batch>,
    spare: &Receiver<Batch>,
) -> Result<(), LoadError> {
    let mut report = Report { last: Instant::now(), bytes: 0 };
    loop {
        let mut batch = spare.try_recv().unwrap_or_default();
        if !reader.next_batch(&mut batch)? || to_decode.send(batch).is_err() {
            return Ok(());
        }
        report.tell(server);
    }
}

fn decode(
    server: &'static Server,
    batches: &Mutex<Receiver<Batch>>,
    to_fill: &SyncSender<Batch>,
    expired: Expired,
) -> Result<(), LoadError> {
    loop {
        let next = batches.lock().recv();
        let Ok(batch) = next else { return Ok(()) };
        load_batch(server.engine(), &batch, expired)?;
        server.loading.add_bytes(batch.len_bytes() as u64);
        // One too many is dropped.
        let _ = to_fill.try_send(batch);
    }
}

/// Tells now and then in the log how far loading is.
struct Report {
    last: Instant,
    bytes: u64,
}

impl Report {
    fn tell(&mut self, server: &Server) {
        let took = self.last.elapsed();
        if took < REPORT_PERIOD {
            return;
        }
        let progress = server.loading.progress();
        let rate = (progress.loaded_bytes - self.bytes) as f64 / took.as_secs_f64();
        let left_s = progress.total_bytes.saturating_sub(progress.loaded_bytes) as f64 / rate.max(1.0);
        tracing::info!(
            "Loading: {} keys, {:.0} % of {:.1} MB, {:.1} MB per second, about {left_s:.0} seconds left",
            progress.keys,
            progress.loaded_bytes as f64 * 100.0 / progress.total_bytes.max(1) as f64,
            progress.total_bytes as f64 / 1e6,
            rate / 1e6,
        );
        (self.last, self.bytes) = (Instant::now(), progress.loaded_bytes);
    }
}

/// Finds what was saved before; if there is anything, commands that need the data are refused from here on.
///
/// # Errors
/// The system does not tell whether there is anything.
pub fn begin_loading(server: &Server) -> Result<(), String> {
    let path = server.host.snapshot_path();
    match std::fs::metadata(&path) {
        Ok(metadata) => server.loading.begin(server.clock.unix_ms() / 1000, metadata.len()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(format!("Can't look at {}: {error}", path.display())),
    }
    Ok(())
}

/// Loads what [`begin_loading`] has found.
///
/// # Errors
/// It cannot be loaded.
pub fn load_at_start(server: &'static Server) -> Result<(), String> {
    if !server.loading.is_on() {
        return Ok(());
    }
    let (path, started) = (server.host.snapshot_path(), Instant::now());
    let total_bytes = server.loading.progress().total_bytes;
    tracing::info!("Loading {}, {:.1} MB", path.display(), total_bytes as f64 / 1e6);
    load_file(server, &path, Expired::LeftOut).map_err(|error| format!("{}: {error}", path.display()))?;
    let progress = server.loading.progress();
    tracing::info!("Done loading RDB, keys loaded: {}, keys expired: {}.", progress.keys, progress.expired);
    tracing::info!("DB loaded from disk: {:.3} seconds", started.elapsed().as_secs_f64());
    let changes = server.stats.changes();
    server.snapshots.note(|facts| {
        (facts.loaded_keys, facts.expired_keys) = (progress.keys, progress.expired);
        facts.saved_changes = changes;
    });
    server.loading.end();
    Ok(())
}
