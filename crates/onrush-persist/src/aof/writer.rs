//! The writer: buffers, files, and the LSNs that are written and durable.
//!
//! Locks, in the order in which they are taken: `rewriting` (the manifest), `syncing` (one sync at a time, with its
//! reports in order), `writing` (one writer at a time), `told`, `state`. No thread reads, writes or syncs a file while it holds
//! `state`, so a thread that only adds records or switches files never waits for the disk.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::backlog::Streams;
use super::manifest::{Manifest, ManifestFile, make_dir};
use super::rewrite::{Prepared, Rewriting, Strays, Switched};
use super::segment::Segment;
use super::{AofError, syncer};
use crate::buffer::Buffer;
use crate::storage::Storage;

/// With more bytes of records than this that are not in a file, the log asks for no more ([`Health::takes_more`]) until
/// half of them are written. Records that come nevertheless are kept: no thread ever waits here for the disk.
pub const BUFFER_BYTES_MAX: usize = 64 << 20;

/// When what has been written is synced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FsyncPolicy {
    /// Each time records have been written, on the log's thread.
    Always,
    /// About once a second, on a thread of its own.
    #[default]
    EverySecond,
    /// Whenever the system does it, and on request ([`Aof::want_durable`]).
    No,
}

/// The options of a log.
pub struct AofOptions {
    /// The folder of its files, `appenddirname` in the server's folder.
    pub dir: PathBuf,
    /// `appendfilename`: the beginning of its files' names. Not a path.
    pub name: String,
    /// When to sync.
    pub policy: FsyncPolicy,
    /// Whether times are noted between the commands.
    pub timestamps: bool,
    /// How long to wait after a failed write before the next try.
    pub retry_every: Duration,
    /// Called each time a greater LSN is durable, in order, once for each. The caller holds locks of the log: of
    /// [`Aof`] it may call only [`Aof::written_lsn`] and [`Aof::durable_lsn`], and nothing of the command log.
    pub on_durable: Box<dyn Fn(u64) + Send + Sync>,
    /// Called by the command log's thread after each round of its work, with the LSN up to which all records are in files,
    /// and with whether others have waited for long ([`CommandLog::is_late`](crate::log::CommandLog::is_late)).
    pub on_round: Box<dyn Fn(u64, bool) + Send + Sync>,
    /// Called each time the health changes. It may be called under locks of the command log: it must not wait, and must
    /// call neither this log nor the command log.
    pub on_health: Box<dyn Fn(&Health) + Send + Sync>,
    /// The time in Unix seconds, for the times between the commands.
    pub unix_time_s: fn() -> u64,
}

impl AofOptions {
    /// The defaults: a sync once a second, no times, a new try 100 ms after a failed write, no calls of `on_durable`.
    pub fn new(dir: impl Into<PathBuf>, name: impl Into<String>) -> Self {
        AofOptions {
            dir: dir.into(),
            name: name.into(),
            policy: FsyncPolicy::EverySecond,
            timestamps: false,
            retry_every: Duration::from_millis(100),
            on_durable: Box::new(|_| {}),
            on_round: Box::new(|_, _| {}),
            on_health: Box::new(|_| {}),
            unix_time_s: || {
                let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
                since.map_or(0, |since| since.as_secs())
            },
        }
    }
}

/// What failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A write; it will be tried again.
    Write,
    /// A sync; only a rewrite repairs this.
    Sync,
}

/// Whether the log works.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AofStatus {
    /// It works.
    #[default]
    Ok,
    /// It has failed.
    Failed {
        /// What failed.
        failure: Failure,
        /// The kind of the last error.
        kind: io::ErrorKind,
        /// What the system said.
        message: String,
    },
}

/// How the log copes with the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Whether it works.
    pub status: AofStatus,
    /// Whether records should come: not while too many wait to be written, and not after a failed sync.
    pub takes_more: bool,
}

/// The figures for INFO.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AofFacts {
    /// Bytes of all files.
    pub size: u64,
    /// Bytes of all files when the last rewrite was finished. If the log was opened since, bytes of its base: what came
    /// behind the base in earlier lives of the process counts as growth.
    pub base_size: u64,
    /// Bytes that wait to be written.
    pub buffer_len: usize,
    /// Whether a sync is under way.
    pub pending_fsyncs: u64,
    /// How often a sync has kept the log more than two seconds behind.
    pub delayed_fsyncs: u64,
    /// Whether a rewrite has been prepared and not finished.
    pub is_rewriting: bool,
    /// As [`Aof::stream_start`].
    pub stream_start: Option<u64>,
}

/// An append-only log that is written. Attach it to the command log with [`Aof::attach`].
pub struct Aof {
    pub(super) inner: Arc<Inner>,
    syncer: Mutex<Option<JoinHandle<()>>>,
    strays: Mutex<Strays>,
    /// The figures as they were seen last.
    seen: Mutex<AofFacts>,
}

/// How long figures wait for a record that is taken, which may have gigabytes.
const FACTS_WAIT_MAX: Duration = Duration::from_millis(20);

/// What the threads share.
pub(super) struct Inner {
    pub storage: Arc<dyn Storage>,
    pub dir: PathBuf,
    pub name: String,
    pub retry_every: Duration,
    pub on_durable: Box<dyn Fn(u64) + Send + Sync>,
    pub on_round: Box<dyn Fn(u64, bool) + Send + Sync>,
    pub on_health: Box<dyn Fn(&Health) + Send + Sync>,
    /// The health as last reported. Locked during the report, so that reports come in order.
    pub told: Mutex<Health>,
    pub unix_time_s: fn() -> u64,
    pub rewriting: Mutex<Rewriting>,
    pub syncing: Mutex<()>,
    pub writing: Mutex<()>,
    pub state: Mutex<State>,
    /// Signalled when something must be synced, and at the end.
    pub sync_wanted: Condvar,
    /// Signalled when something has been written or synced.
    pub progress: Condvar,
    pub written: AtomicU64,
    pub durable: AtomicU64,
    /// The greatest LSN that a client or thread waits for.
    pub wanted: AtomicU64,
}

#[derive(Default)]
pub(super) struct State {
    pub policy: FsyncPolicy,
    pub timestamps: bool,
    /// Files in order. Records go to the last; the earlier ones are not fully synced yet.
    pub segments: VecDeque<Segment>,
    pub segments_made: u64,
    /// The base makes everything up to this LSN durable.
    pub base_lsn: u64,
    /// Whether the manifest on disk has a base or a beginning for the segments.
    pub is_listed: bool,
    /// Bytes of the log's files that are no longer segments.
    pub other_size: u64,
    pub base_size: u64,
    pub status: AofStatus,
    /// Whether too many bytes wait to be written.
    pub is_full: bool,
    pub retry_at: Option<Instant>,
    pub delayed_fsyncs: u64,
    /// When the oldest unsynced byte was written.
    pub unsynced_since: Option<Instant>,
    pub is_delay_counted: bool,
    pub sync_began: Option<Instant>,
    /// Whether the syncer must sync at once.
    pub is_sync_due: bool,
    pub is_stopping: bool,
    pub is_rewriting: bool,
    /// The file to which the next switch directs records.
    pub prepared: Option<Prepared>,
    /// Set while records go to a new file whose base does not exist yet.
    pub switched: Option<Switched>,
    /// The name of the last segment's file.
    pub last_incr: Option<ManifestFile>,
    /// Where the stream of replicas is in the files.
    pub streams: Streams,
    /// Files that records went to before the first base came, but no longer do.
    pub outdated: Vec<String>,
    /// Wakes the log's thread.
    pub waker: Option<Arc<dyn Fn() + Send + Sync>>,
    /// A buffer for reuse.
    pub spare: Buffer,
}

impl State {
    /// Bytes that wait to be written.
    pub fn unwritten(&self) -> usize {
        self.segments.iter().map(|segment| segment.unwritten).sum()
    }

    /// Updates whether too many bytes wait to be written.
    pub fn note_fill(&mut self) {
        let most = if self.is_full { BUFFER_BYTES_MAX / 2 } else { BUFFER_BYTES_MAX };
        self.is_full = self.unwritten() > most;
    }

    pub fn health(&self) -> Health {
        let is_trusted = self.segments.iter().all(|segment| segment.is_trusted);
        Health { status: self.status.clone(), takes_more: is_trusted && !self.is_full }
    }

    /// Whether the file that records go to has none yet that changes data, nor will get one of those that have come.
    pub fn has_empty_file(&self) -> bool {
        self.segments.back().is_some_and(Segment::is_empty) && self.last_incr.is_some()
    }

    pub fn failed(&mut self, failure: Failure, error: &io::Error) {
        self.status = AofStatus::Failed { failure, kind: error.kind(), message: error.to_string() };
    }

    /// The LSN up to which everything is durable.
    pub fn durable_lsn(&self) -> u64 {
        let mut lsn = self.base_lsn;
        for segment in &self.segments {
            lsn = lsn.max(segment.synced_lsn);
            if !segment.is_synced() || segment.synced_lsn < segment.last_lsn {
                break;
            }
        }
        lsn
    }
}

impl Aof {
    /// Begins a log with a state that is being saved: makes the folder and a file for the records after `at_lsn`, which
    /// go there at once; the disk has taken its first bytes then. Nothing is durable until [`Aof::finish_rewrite`] has added the state at `at_lsn` as the base;
    /// then the log replaces an older one in the folder.
    ///
    /// # Errors
    /// The system's; an existing manifest cannot be read.
    pub fn begin(storage: Arc<dyn Storage>, options: AofOptions, at_lsn: u64) -> Result<Arc<Aof>, AofError> {
        make_dir(&*storage, &options.dir)?;
        let before = Manifest::load(&*storage, &options.dir, &options.name)?.unwrap_or_default();
        let mut rewriting = Rewriting::new(&*storage, &options.dir, &options.name, before)?;
        let Prepared { incr, file, head_len } = rewriting.make_first(&*storage, &options.dir)?;
        let begun = Switched { segment: 0, at_lsn, incr };
        let segment = Segment::new(0, file, head_len, at_lsn).behind_head();
        Self::start(storage, options, rewriting, segment, Some(begun))
    }

    /// Makes a log whose base is the file at `base`: the state at `at_lsn`. The file must be synced; it is moved into
    /// the folder.
    ///
    /// # Errors
    /// The system's; an existing manifest cannot be read.
    pub fn create(
        storage: Arc<dyn Storage>,
        options: AofOptions,
        base: &std::path::Path,
        is_rdb: bool,
        at_lsn: u64,
    ) -> Result<Arc<Aof>, AofError> {
        let aof = Self::begin(storage, options, at_lsn)?;
        aof.finish_rewrite(base, is_rdb)?;
        Ok(aof)
    }

    /// Continues a log: its last file gets the records after `at_lsn`. All files must have been loaded, and an
    /// incomplete end must have been cut off.
    ///
    /// # Errors
    /// The system's.
    pub fn open(
        storage: Arc<dyn Storage>,
        options: AofOptions,
        manifest: Manifest,
        at_lsn: u64,
    ) -> Result<Arc<Aof>, AofError> {
        let (dir, name) = (&options.dir, &options.name);
        let mut rewriting = Rewriting::new(&*storage, dir, name, manifest)?;
        rewriting.remove_history(&*storage, dir, name);
        let strays = rewriting.sweep(&*storage, dir, name);
        let last = rewriting.manifest.incrs.last().cloned();
        let (file, size) = match last {
            Some(ManifestFile { name, .. }) => {
                let path = dir.join(&name);
                let open = || {
                    let file = storage.append(&path)?;
                    // The bytes of an earlier process count as durable from here on.
                    file.sync()?;
                    let size = file.len()?;
                    Ok((file, size))
                };
                open().map_err(AofError::io(path.display()))?
            }
            None => {
                let Prepared { incr, file, .. } = rewriting.make_incr(&*storage, dir, name)?;
                rewriting.list_incr(&*storage, dir, name, incr)?;
                (file, 0)
            }
        };
        let aof = Self::start(storage, options, rewriting, Segment::new(0, file, size, at_lsn), None)?;
        *aof.strays.lock() = strays;
        Ok(aof)
    }

    fn start(
        storage: Arc<dyn Storage>,
        options: AofOptions,
        rewriting: Rewriting,
        segment: Segment,
        begun: Option<Switched>,
    ) -> Result<Arc<Aof>, AofError> {
        let (is_listed, size, at_lsn) = (begun.is_none(), segment.size, segment.last_lsn);
        let (mut other_size, mut base_size) = (0, 0);
        if is_listed {
            let manifest = &rewriting.manifest;
            for file in manifest.files() {
                let path = options.dir.join(&file.name);
                let len = storage.len(&path).map_err(AofError::io(path.display()))?;
                other_size += len.unwrap_or(0);
                if manifest.base.as_ref() == Some(file) {
                    base_size = len.unwrap_or(0);
                }
            }
            other_size -= size.min(other_size);
        }
        let last_incr = match &begun {
            Some(begun) => Some(begun.incr.clone()),
            None => rewriting.manifest.incrs.last().cloned(),
        };
        let state = State {
            policy: options.policy,
            timestamps: options.timestamps,
            segments: VecDeque::from([segment]),
            segments_made: 1,
            base_lsn: at_lsn,
            is_listed,
            other_size,
            base_size,
            is_rewriting: !is_listed,
            switched: begun,
            last_incr,
            ..State::default()
        };
        let inner = Arc::new(Inner {
            storage,
            dir: options.dir,
            name: options.name,
            retry_every: options.retry_every,
            on_durable: options.on_durable,
            on_round: options.on_round,
            on_health: options.on_health,
            told: Mutex::new(Health { status: AofStatus::Ok, takes_more: true }),
            unix_time_s: options.unix_time_s,
            rewriting: Mutex::new(rewriting),
            syncing: Mutex::default(),
            writing: Mutex::default(),
            state: Mutex::new(state),
            sync_wanted: Condvar::new(),
            progress: Condvar::new(),
            written: AtomicU64::new(at_lsn),
            durable: AtomicU64::new(if is_listed { at_lsn } else { 0 }),
            wanted: AtomicU64::new(0),
        });
        let syncer = syncer::start(Arc::clone(&inner)).map_err(AofError::io("a thread"))?;
        Ok(Arc::new(Aof { inner, syncer: Mutex::new(Some(syncer)), strays: Mutex::default(), seen: Mutex::default() }))
    }

    /// The files that [`Aof::open`] has found beside those of the manifest. Returns them once.
    pub fn take_strays(&self) -> Strays {
        std::mem::take(&mut self.strays.lock())
    }

    /// Whether the log has its first base, so that its records count.
    pub fn has_base(&self) -> bool {
        self.inner.state.lock().is_listed
    }

    /// Sets after which LSN its records come, if it was begun before that was known. No record may have come yet, and the
    /// log must not have a base.
    pub fn start_at(&self, lsn: u64) {
        let mut state = self.inner.state.lock();
        if let Some(first) = state.segments.front_mut() {
            (first.last_lsn, first.written_lsn, first.synced_lsn) = (lsn, lsn, lsn);
        }
        if let Some(switched) = &mut state.switched {
            switched.at_lsn = lsn;
        }
        drop(state);
        self.inner.written.store(lsn, Ordering::Release);
    }

    /// The folder of its files.
    pub fn dir(&self) -> &std::path::Path {
        &self.inner.dir
    }

    /// The LSN up to which all records are in files.
    pub fn written_lsn(&self) -> u64 {
        self.inner.written.load(Ordering::Acquire)
    }

    /// The LSN up to which all records would survive a loss of power.
    pub fn durable_lsn(&self) -> u64 {
        self.inner.durable.load(Ordering::Acquire)
    }

    /// Requests that `lsn` becomes durable: the next settle writes and syncs, once for all requests. Wakes the log's
    /// thread.
    pub fn want_durable(&self, lsn: u64) {
        if lsn > self.durable_lsn() && self.inner.wanted.fetch_max(lsn, Ordering::AcqRel) < lsn {
            self.inner.wake();
        }
    }

    /// Changes when to sync, from the next settle on.
    pub fn set_policy(&self, policy: FsyncPolicy) {
        self.inner.state.lock().policy = policy;
        self.inner.sync_wanted.notify_all();
        self.inner.wake();
    }

    /// Changes whether times are noted between the commands.
    pub fn set_timestamps(&self, timestamps: bool) {
        self.inner.state.lock().timestamps = timestamps;
    }

    /// Whether the log works, or what failed last. A failed write is over once everything is written; a failed sync,
    /// once a rewrite has replaced the file.
    pub fn status(&self) -> AofStatus {
        self.inner.state.lock().status.clone()
    }

    /// Whether nothing more becomes durable until a rewrite is finished, and none is under way: a sync has failed, or
    /// the first base.
    pub fn needs_rewrite(&self) -> bool {
        let state = self.inner.state.lock();
        let is_missing = !state.is_listed || state.segments.iter().any(|segment| !segment.is_trusted);
        is_missing && !state.is_rewriting
    }

    /// Figures; while a very large record is taken, those of the last look. Waits for moments at most. O(1).
    pub fn facts(&self) -> AofFacts {
        let Some(state) = self.inner.state.try_lock_for(FACTS_WAIT_MAX) else { return self.seen.lock().clone() };
        let facts = AofFacts {
            size: state.other_size + state.segments.iter().map(|segment| segment.size).sum::<u64>(),
            base_size: state.base_size,
            buffer_len: state.unwritten(),
            pending_fsyncs: u64::from(state.sync_began.is_some()),
            delayed_fsyncs: state.delayed_fsyncs,
            is_rewriting: state.is_rewriting,
            stream_start: state.streams.start(),
        };
        drop(state);
        self.seen.lock().clone_from(&facts);
        facts
    }

    /// Writes and syncs everything and ends the thread that syncs. No more records may come, and no rewrite is finished
    /// from here on. A file whose sync has failed still gets its bytes: they are lost only if the power fails soon.
    /// Without a base no file is left.
    ///
    /// # Errors
    /// Not all records are durable.
    pub fn stop(&self) -> io::Result<()> {
        self.inner.state.lock().is_stopping = true;
        // No health is told from here on.
        drop(self.inner.told.lock());
        self.inner.sync_wanted.notify_all();
        if let Some(syncer) = self.syncer.lock().take() {
            let _ = syncer.join();
        }
        self.inner.write_and_sync();
        let mut state = self.inner.state.lock();
        // Who reads the files as a stream must not wait for more.
        state.streams.give_up();
        let last = state.segments.back().map_or(0, |segment| segment.last_lsn);
        let result = match &state.status {
            AofStatus::Failed { kind, message, .. } => Err(io::Error::new(*kind, message.clone())),
            AofStatus::Ok if !state.is_listed || state.durable_lsn() < last => {
                Err(io::Error::other("not all records are on the disk"))
            }
            AofStatus::Ok => Ok(()),
        };
        drop(state);
        // Without a base no manifest will ever name its files.
        self.discard();
        result
    }
}

impl Drop for Aof {
    fn drop(&mut self) {
        self.inner.state.lock().is_stopping = true;
        self.inner.sync_wanted.notify_all();
    }
}
