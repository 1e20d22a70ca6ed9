//! Client-side caching: replies that are kept here until the server reports a change of their key.
//!
//! On one connection, everything comes in one order: first the reply to a read, then the report that outdates it. The
//! driver keeps a reply at the moment it reads it off the socket, so a later report finds the reply. A report may also
//! come between the commands of one read, and this client may write a key while a read of it is under way: then the
//! read's *ticket* is no longer valid, and its reply is returned but not kept.

pub(crate) mod cacheable;
pub(crate) mod cached;
pub(crate) mod flight;
pub(crate) mod gather;
pub(crate) mod shelf;

use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use foldhash::fast::RandomState;
use parking_lot::{Mutex, MutexGuard};

use crate::builder::builder;
use crate::cache::cacheable::{is_harmless, is_read, names_no_keys};
use crate::cache::flight::{Boarding, Flight};
use crate::cache::shelf::{Shelf, weight};
use crate::values::cmd::Caching;
use crate::values::encode::{args_of, command, encoded, split_first};
use crate::values::pipeline::Pipeline;
use crate::values::value::{PushInfo, Value};

/// Parts of a cache, each with its own lock. A small cache has one part, so it evicts in exact order.
const SHELVES: usize = 16;
const SMALL_ENTRIES: usize = 10_000;
const SMALL_BYTES: usize = 4 << 20;

/// A reply that takes more than this part of the cache is not kept.
const LARGE_PART: usize = 4;

/// Which commands are answered from the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CacheMode {
    /// All reads of one key, except those marked as [`uncached`](crate::Cmd::uncached).
    All,
    /// Only reads that are marked as [`cached`](crate::Cmd::cached) or sent through
    /// [`Connection::cached`](crate::Connection::cached). The server remembers no other keys.
    OptIn,
    /// As [`All`](CacheMode::All), for keys that begin with one of these prefixes. The server remembers no keys but
    /// reports every change under the prefixes.
    Prefixes(Vec<Vec<u8>>),
}

/// How a connection caches, for [`ConnectionConfig::set_cache`](crate::ConnectionConfig::set_cache).
#[derive(Clone, Debug)]
pub struct CacheConfig {
    mode: CacheMode,
    entries_max: usize,
    bytes_max: usize,
    ttl_max: Duration,
}

impl Default for CacheConfig {
    fn default() -> CacheConfig {
        CacheConfig {
            mode: CacheMode::All,
            entries_max: 100_000,
            bytes_max: 64 << 20,
            ttl_max: Duration::from_secs(600),
        }
    }
}

builder! {
    CacheConfig, new: "All reads, 100,000 replies, 64 MB, 10 minutes.";

    /// Which commands are answered from the cache.
    set_mode(mode: CacheMode) => mode = mode;

    /// Most replies that are kept. Beyond that, the least recently used are dropped.
    set_entries_max(entries: usize) => entries_max = entries;

    /// Most memory of the replies and their commands, in bytes, without the allocator's overhead.
    set_bytes_max(bytes: usize) => bytes_max = bytes;

    /// Longest time for which a reply is kept. A reply is never kept longer than its key lives on the server.
    set_ttl_max(ttl: Duration) => ttl_max = ttl;
}

/// Whether a command certainly leaves all keys as they are.
pub(crate) fn is_without_effect(name: &[u8]) -> bool {
    !names_no_keys(name) && is_harmless(name)
}

/// What a cache has done, from [`Connection::cache_stats`](crate::Connection::cache_stats).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheStats {
    /// Reads that were answered from the cache; each key of an MGET is one.
    pub hits: u64,
    /// Reads that could have been answered from the cache, but were not.
    pub misses: u64,
    /// Misses that sent nothing because the same read was under way: they got its reply.
    pub merged: u64,
    /// Keys whose change the server reported.
    pub invalidations: u64,
    /// Replies dropped because the cache was full.
    pub evictions: u64,
    /// How often everything was dropped: at disconnects, and when the server or the user emptied the cache.
    pub flushes: u64,
    /// Replies that are kept now.
    pub entries: usize,
    /// The memory that they take, in bytes.
    pub bytes: usize,
}

/// The cache of one connection.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    config: CacheConfig,
    shelves: Box<[Mutex<Shelf>]>,
    /// The shelf from which the next entry is evicted.
    hand: AtomicUsize,
    hasher: RandomState,
    hits: AtomicU64,
    misses: AtomicU64,
    merged: AtomicU64,
    invalidations: AtomicU64,
    evictions: AtomicU64,
    flushes: AtomicU64,
    entries: AtomicUsize,
    bytes: AtomicUsize,
    /// Number of keys with entries or reads under way. While it is 0, sent commands need not be examined.
    keys: AtomicUsize,
}

/// The result of looking a command up.
#[derive(Debug)]
pub(crate) enum Look {
    Hit(Arc<Value>),
    Miss(Read),
    /// The keys of an MGET, each looked up as its GET: hits and misses.
    Keys(Vec<Look>),
}

/// A read to send and keep.
#[derive(Clone, Debug)]
pub(crate) struct Read {
    pub key: Arc<[u8]>,
    pub command: Arc<[u8]>,
    ttl: Duration,
}

/// The right to keep the reply of a read that is under way. It ends if the key changes meanwhile.
#[derive(Debug)]
pub(crate) struct Ticket {
    cache: Arc<Cache>,
    read: Read,
    good: Arc<AtomicBool>,
    /// When the read was queued: times to live in the reply count from a later moment.
    since: Instant,
}

impl Cache {
    pub(crate) fn new(config: CacheConfig) -> Cache {
        let is_small = config.entries_max < SMALL_ENTRIES || config.bytes_max < SMALL_BYTES;
        Cache {
            config,
            shelves: (0..if is_small { 1 } else { SHELVES }).map(|_| Mutex::default()).collect(),
            ..Cache::default()
        }
    }

    /// Encodes the command that makes the server report changes.
    pub(crate) fn tracking(&self) -> Vec<u8> {
        let mut args: Vec<&[u8]> = vec![b"CLIENT", b"TRACKING", b"ON"];
        match &self.config.mode {
            CacheMode::All => {}
            CacheMode::OptIn => args.push(b"OPTIN"),
            CacheMode::Prefixes(prefixes) => {
                args.push(b"BCAST");
                prefixes.iter().for_each(|prefix| args.extend([b"PREFIX".as_slice(), prefix]));
            }
        }
        encoded(&args)
    }

    /// Looks a command up; `None` if the cache does not handle it. O(1) for each key, linear in the command's length.
    pub(crate) fn look(&self, encoded: &[u8], caching: Caching) -> Option<Look> {
        let ttl = self.ttl(caching)?;
        if let Some(key) = self.key_read(encoded) {
            return Some(self.look_key(key, encoded, ttl));
        }
        let keys = || {
            let mut args = args_of(encoded);
            args.next().filter(|name| name.eq_ignore_ascii_case(b"MGET")).map(|_| args)
        };
        let mut len = 0;
        let are_covered = keys()?.inspect(|_| len += 1).all(|key| self.covers(key));
        if len == 0 || !are_covered {
            return None;
        }
        let mut get = Vec::new();
        let look = |key| {
            get.clear();
            command(&[b"GET", key], &mut get);
            self.look_key(key, &get, ttl)
        };
        Some(Look::Keys(keys()?.map(look).collect()))
    }

    /// Looks up a pipeline that has only reads of one key each; `None` for all others.
    pub(crate) fn look_pipeline(&self, pipeline: &Pipeline, caching: Caching) -> Option<Vec<Look>> {
        let ttl = self.ttl(caching)?;
        let are_reads = (0..pipeline.len())
            .all(|index| !pipeline.is_uncached(index) && self.key_read(pipeline.command(index)).is_some());
        if !are_reads {
            return None;
        }
        let look = |index| {
            let encoded = pipeline.command(index);
            Some(self.look_key(self.key_read(encoded)?, encoded, ttl))
        };
        (0..pipeline.len()).map(look).collect()
    }

    /// How long a reply may be kept; `None` if the cache does not handle it.
    fn ttl(&self, caching: Caching) -> Option<Duration> {
        match (caching, &self.config.mode) {
            (Caching::Never, _) | (Caching::Default, CacheMode::OptIn) => None,
            (Caching::Default, _) => Some(self.config.ttl_max),
            (Caching::For(ttl), _) => Some(ttl.min(self.config.ttl_max)),
        }
    }

    /// The key that a command reads, if the cache handles the command.
    fn key_read<'a>(&self, encoded: &'a [u8]) -> Option<&'a [u8]> {
        let mut args = args_of(encoded);
        let (name, key) = (args.next()?, args.next()?);
        (is_read(name, || args.next().is_some()) && self.covers(key)).then_some(key)
    }

    fn look_key(&self, key: &[u8], encoded: &[u8], ttl: Duration) -> Look {
        let found = self.shelf(key).find(encoded, Instant::now(), ttl);
        if let Some(value) = found {
            self.hits.fetch_add(1, Ordering::Relaxed);
            return Look::Hit(value);
        }
        self.misses.fetch_add(1, Ordering::Relaxed);
        Look::Miss(Read { key: key.into(), command: encoded.into(), ttl })
    }

    fn covers(&self, key: &[u8]) -> bool {
        match &self.config.mode {
            CacheMode::Prefixes(prefixes) => {
                prefixes.is_empty() || prefixes.iter().any(|prefix| key.starts_with(prefix))
            }
            _ => true,
        }
    }

    /// Encodes the commands of a read, and returns the number of their replies: the last is the read's, the one before
    /// it the key's time to live.
    ///
    /// The time to live comes first: by then the server tracks the key, so it reports a change between the two.
    pub(crate) fn encode(&self, read: &Read, out: &mut Vec<u8>) -> usize {
        let opted = self.opt_in(out);
        command(&[b"PTTL", &read.key], out);
        out.extend_from_slice(&read.command);
        2 + opted
    }

    /// Encodes the commands for the keys of an MGET, and returns the number of their replies: the last are the keys'
    /// times to live, the one before them MGET's.
    ///
    /// The server tracks the keys from MGET on, so it reports a change before the times to live are read.
    pub(crate) fn encode_keys<'a>(&self, reads: impl Iterator<Item = &'a Read> + Clone, out: &mut Vec<u8>) -> usize {
        let opted = self.opt_in(out);
        let keys = reads.map(|read| &*read.key);
        let mget: Vec<&[u8]> = std::iter::once(b"MGET".as_slice()).chain(keys.clone()).collect();
        command(&mget, out);
        keys.for_each(|key| command(&[b"PTTL", key], out));
        mget.len() + opted
    }

    /// Encodes what announces a read to be cached, if that is needed; returns how many replies that brings.
    fn opt_in(&self, out: &mut Vec<u8>) -> usize {
        let opts_in = self.config.mode == CacheMode::OptIn;
        if opts_in {
            command(&[b"CLIENT", b"CACHING", b"YES"], out);
        }
        usize::from(opts_in)
    }

    /// Finds a read under way whose reply can also answer this one, or begins a read.
    pub(crate) fn board(self: &Arc<Cache>, read: &Read) -> Boarding {
        // Dropped after the lock, since the end of a flight takes the lock.
        let found;
        let mut shelf = self.shelf(&read.key);
        found = shelf.flight(&read.key, &read.command);
        let now = Instant::now();
        let young = found.as_ref().filter(|flight| now.saturating_duration_since(flight.began) < read.ttl);
        let waiting = young.and_then(|flight| flight.board());
        // A read may have ended since the caller looked.
        let waiting = waiting.or_else(|| shelf.find(&read.command, now, read.ttl).map(Flight::landed));
        if let Some(waiting) = waiting {
            self.merged.fetch_add(1, Ordering::Relaxed);
            return Boarding::Passenger(waiting);
        }
        let flight = Arc::new(Flight::new(self.clone(), read.clone()));
        self.change(&mut shelf, |shelf| shelf.add_flight(&read.key, &read.command, &flight));
        Boarding::Leader(flight)
    }

    pub(crate) fn end_flight(&self, read: &Read, flight: &Flight) {
        self.change(&mut self.shelf(&read.key), |shelf| shelf.end_flight(&read.key, flight));
    }

    /// The right to keep the reply of a read that is about to be queued.
    pub(crate) fn ticket(self: &Arc<Cache>, read: &Read) -> Ticket {
        let good = self.change(&mut self.shelf(&read.key), |shelf| shelf.begin_read(&read.key));
        Ticket { cache: self.clone(), read: read.clone(), good, since: Instant::now() }
    }

    /// Notes queued commands: drops the keys that they may change, and reads of these keys under way will not be kept.
    /// So a connection reads its own writes. Linear in the arguments while anything is kept.
    pub(crate) fn note_sent(&self, mut encoded: &[u8]) {
        while self.keys.load(Ordering::Relaxed) > 0 {
            let Some((one, rest)) = split_first(encoded) else { return };
            encoded = rest;
            let mut args = args_of(one);
            let Some(name) = args.next() else { continue };
            if names_no_keys(name) {
                self.flush();
            } else if !is_harmless(name) {
                // The cache need not know which arguments are keys: others are simply not found.
                args.for_each(|arg| self.forget(arg));
            }
        }
    }

    /// Notes a report from the server. No keys means all keys.
    pub(crate) fn note_news(&self, push: &PushInfo) {
        let Some(Value::Array(keys)) = push.data.first() else { return self.flush() };
        self.invalidations.fetch_add(keys.len() as u64, Ordering::Relaxed);
        keys.iter().filter_map(Value::as_bytes).for_each(|key| self.forget(key));
    }

    /// Drops everything; reads under way will not be kept.
    pub(crate) fn flush(&self) {
        self.flushes.fetch_add(1, Ordering::Relaxed);
        for shelf in &*self.shelves {
            self.change(&mut shelf.lock(), Shelf::clear);
        }
    }

    pub(crate) fn stats(&self) -> CacheStats {
        CacheStats {
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
            merged: self.merged.load(Ordering::Relaxed),
            invalidations: self.invalidations.load(Ordering::Relaxed),
            evictions: self.evictions.load(Ordering::Relaxed),
            flushes: self.flushes.load(Ordering::Relaxed),
            entries: self.entries.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }

    fn forget(&self, key: &[u8]) {
        self.change(&mut self.shelf(key), |shelf| shelf.forget(key));
    }

    fn keep(&self, read: &Read, good: &AtomicBool, value: &Value, time: Range<Instant>) {
        let bytes = weight(&read.key, &read.command, value);
        if bytes > self.config.bytes_max / LARGE_PART {
            return;
        }
        let mut shelf = self.shelf(&read.key);
        // Checked under the lock, since tickets are also ended under it.
        if !good.load(Ordering::Relaxed) {
            return;
        }
        self.change(&mut shelf, |shelf| shelf.insert(&read.key, &read.command, value, bytes, time));
        drop(shelf);
        let is_full = || {
            self.entries.load(Ordering::Relaxed) > self.config.entries_max
                || self.bytes.load(Ordering::Relaxed) > self.config.bytes_max
        };
        while is_full() {
            let hand = self.hand.fetch_add(1, Ordering::Relaxed) % self.shelves.len();
            if self.change(&mut self.shelves[hand].lock(), Shelf::evict) {
                self.evictions.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Changes a shelf and keeps the sums of all shelves right.
    fn change<T>(&self, shelf: &mut Shelf, change: impl FnOnce(&mut Shelf) -> T) -> T {
        let before = (shelf.len(), shelf.bytes(), shelf.keys_len());
        let outcome = change(shelf);
        let add = |sum: &AtomicUsize, before: usize, after: usize| {
            if before != after {
                sum.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
            }
        };
        add(&self.entries, before.0, shelf.len());
        add(&self.bytes, before.1, shelf.bytes());
        add(&self.keys, before.2, shelf.keys_len());
        outcome
    }

    fn shelf(&self, key: &[u8]) -> MutexGuard<'_, Shelf> {
        self.shelves[self.hasher.hash_one(key) as usize % self.shelves.len()].lock()
    }
}

impl Ticket {
    /// Keeps a reply with the time to live from the server, unless its key has changed.
    pub(crate) fn keep(&self, value: &Value, ttl: Option<&Value>) {
        let ttl = match ttl {
            Some(Value::Int(ms)) if *ms >= 0 => self.read.ttl.min(Duration::from_millis(*ms as u64)),
            Some(Value::Int(_)) => self.read.ttl,
            _ => return,
        };
        // A time beyond the range of the clock is no useful limit.
        let Some(until) = self.since.checked_add(ttl).filter(|until| *until > Instant::now()) else { return };
        if !matches!(value, Value::ServerError(_)) {
            self.cache.keep(&self.read, &self.good, value, self.since..until);
        }
    }

    /// Gives up the right.
    pub(crate) fn void(&self) {
        self.good.store(false, Ordering::Relaxed);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut shelf = self.cache.shelf(&self.read.key);
        self.cache.change(&mut shelf, |shelf| shelf.end_read(&self.read.key, &self.good));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::value::PushKind;

    fn encoded(line: &str) -> Vec<u8> {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let mut bytes = Vec::new();
        command(&args, &mut bytes);
        bytes
    }

    fn cache(config: CacheConfig) -> Arc<Cache> {
        Arc::new(Cache::new(config))
    }

    fn look(cache: &Cache, line: &str) -> Option<Look> {
        cache.look(&encoded(line), Caching::Default)
    }

    fn miss(cache: &Arc<Cache>, line: &str) -> Ticket {
        let Some(Look::Miss(read)) = look(cache, line) else { panic!("{line} is kept, or not for the cache") };
        cache.ticket(&read)
    }

    fn is_kept(cache: &Cache, line: &str) -> bool {
        matches!(look(cache, line), Some(Look::Hit(_)))
    }

    const FOREVER: Option<&Value> = Some(&Value::Int(-1));

    fn changed(keys: &[&str]) -> PushInfo {
        let keys = keys.iter().map(|key| Value::BulkString(key.as_bytes().to_vec())).collect();
        PushInfo { kind: PushKind::Invalidate, data: vec![Value::Array(keys)] }
    }

    #[test]
    fn a_reply_is_kept_until_its_key_changes() {
        let cache = cache(CacheConfig::new());
        for line in ["GET k", "STRLEN k", "GET l"] {
            miss(&cache, line).keep(&Value::Int(1), FOREVER);
        }
        assert!(is_kept(&cache, "GET k") && is_kept(&cache, "STRLEN k") && is_kept(&cache, "GET l"));
        cache.note_news(&changed(&["k", "other"]));
        assert!(!is_kept(&cache, "GET k") && !is_kept(&cache, "STRLEN k") && is_kept(&cache, "GET l"));
        cache.note_news(&PushInfo { kind: PushKind::Invalidate, data: vec![Value::Nil] });
        assert!(!is_kept(&cache, "GET l"));
        let stats = cache.stats();
        assert_eq!((stats.hits, stats.misses, stats.invalidations, stats.flushes), (4, 6, 2, 1));
        assert_eq!((stats.entries, stats.bytes, cache.keys.load(Ordering::Relaxed)), (0, 0, 0));
    }

    #[test]
    fn news_that_comes_while_the_reply_is_under_way_keeps_it_out() {
        let cache = cache(CacheConfig::new());
        let news = changed(&["k"]);
        let outdate: [&dyn Fn(); 4] = [
            &|| cache.note_news(&news),
            &|| cache.flush(),
            &|| cache.note_sent(&[encoded("PING"), encoded("MSET a 1 k 2")].concat()),
            &|| cache.note_sent(&encoded("FLUSHALL")),
        ];
        for outdate in outdate {
            let (early, same) = (miss(&cache, "GET k"), miss(&cache, "GET k"));
            outdate();
            let late = miss(&cache, "GET k");
            early.keep(&Value::Int(1), FOREVER);
            same.keep(&Value::Int(1), FOREVER);
            drop((early, same));
            assert!(!is_kept(&cache, "GET k"));
            late.keep(&Value::Int(2), FOREVER);
            assert!(is_kept(&cache, "GET k"));
            cache.flush();
        }
        cache.note_sent(&encoded("GETRANGE k 0 1"));
        assert_eq!(cache.keys.load(Ordering::Relaxed), 0, "no ticket is left behind");
    }

    #[test]
    fn entries_bytes_and_time_are_limited() {
        let few = cache(CacheConfig::new().set_entries_max(100));
        (0..1000).for_each(|n| miss(&few, &format!("GET {n}")).keep(&Value::Int(n), FOREVER));
        let stats = few.stats();
        assert_eq!((stats.entries, stats.evictions), (100, 900));
        assert!(is_kept(&few, "GET 999"));

        let small = cache(CacheConfig::new().set_bytes_max(10_000));
        let value = Value::BulkString(vec![b'x'; 1000]);
        (0..100).for_each(|n| miss(&small, &format!("GET {n}")).keep(&value, FOREVER));
        assert!((5..10).contains(&small.stats().entries) && small.stats().bytes <= 10_000, "{:?}", small.stats());
        miss(&small, "GET huge").keep(&Value::BulkString(vec![b'x'; 20_000]), FOREVER);
        assert!(small.stats().bytes <= 10_000);

        let brief = cache(CacheConfig::new().set_ttl_max(Duration::ZERO));
        miss(&brief, "GET k").keep(&Value::Nil, FOREVER);
        assert!(!is_kept(&brief, "GET k"));
        let cache = cache(CacheConfig::new());
        miss(&cache, "GET gone").keep(&Value::Nil, Some(&Value::Int(-2)));
        miss(&cache, "GET expired").keep(&Value::Int(1), Some(&Value::Int(0)));
        miss(&cache, "GET failed").keep(&Value::Int(1), None);
        miss(&cache, "GET k").keep(&Value::Int(1), Some(&Value::Int(60_000)));
        assert!(is_kept(&cache, "GET gone") && is_kept(&cache, "GET k"));
        assert!(!is_kept(&cache, "GET expired") && !is_kept(&cache, "GET failed"));
    }

    #[test]
    fn a_reader_gets_nothing_older_than_it_wants() {
        let cache = cache(CacheConfig::new());
        let within = |line, ttl| match cache.look(&encoded(line), Caching::For(ttl)) {
            Some(Look::Miss(read)) => Err(read),
            Some(Look::Hit(_)) => Ok(()),
            _ => panic!("{line} is for the cache"),
        };
        let (brief, long) = (Duration::from_millis(20), Duration::from_secs(60));
        miss(&cache, "GET k").keep(&Value::Int(1), FOREVER);
        assert!(within("GET k", long).is_ok());
        std::thread::sleep(brief);
        assert!(within("GET k", long).is_ok() && is_kept(&cache, "GET k"));
        let read = within("GET k", brief).unwrap_err();
        // Nor does it wait for a read that was sent that long ago.
        let Boarding::Leader(early) = cache.board(&read) else { panic!("the kept reply is too old") };
        assert!(matches!(cache.board(&Read { ttl: long, ..read.clone() }), Boarding::Passenger(_)));
        std::thread::sleep(brief);
        assert!(matches!(cache.board(&read), Boarding::Leader(_)));
        drop(early);
    }

    #[test]
    fn the_mode_says_what_is_for_the_cache() {
        let all = cache(CacheConfig::new());
        for line in ["get k", "HGET h f", "LRANGE l 0 -1", "EXISTS k", "mget k l"] {
            assert!(look(&all, line).is_some(), "{line}");
        }
        for line in ["SET k v", "EXISTS a b", "MGET", "PING", "TTL k", "SRANDMEMBER s", "GET"] {
            assert!(look(&all, line).is_none(), "{line}");
        }
        assert!(all.look(&encoded("GET k"), Caching::Never).is_none());
        let chosen = cache(CacheConfig::new().set_mode(CacheMode::OptIn));
        assert!(look(&chosen, "GET k").is_none());
        assert!(chosen.look(&encoded("GET k"), Caching::For(Duration::from_secs(1))).is_some());
        let mode = CacheMode::Prefixes(vec![b"user:".to_vec()]);
        let some = cache(CacheConfig::new().set_mode(mode));
        assert!(look(&some, "GET user:1").is_some() && look(&some, "GET other").is_none());
        assert!(look(&some, "MGET user:1 user:2").is_some() && look(&some, "MGET user:1 other").is_none());
    }
}
