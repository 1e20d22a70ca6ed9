//! `--bigkeys`, `--memkeys`, `--hotkeys`: reports from a walk over all keys.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use onrush_resp::quoted;

use crate::args::Options;
use crate::connection::Connection;
use crate::fail::Fail;
use crate::reply::Reply;
use crate::scan::{self, Cursor, ask_each};
use crate::session::print;

/// How many hot keys are kept.
const HOT_KEYS_MAX: usize = 16;
/// Number of keys between two reports of progress.
const PROGRESS_STEP: u64 = 1_000_000;

/// How a key's size is measured.
#[derive(Clone, Copy)]
pub enum Measure {
    /// By number of elements.
    Elements,
    /// In bytes; a number is the elements to sample, 0 for all.
    Memory(Option<i64>),
}

/// What has been seen of one type.
pub struct Kind {
    /// Its name.
    pub name: String,
    /// The command that returns the number of elements, and their name; absent for modules' types.
    pub size: Option<(&'static [u8], &'static str)>,
    biggest: u64,
    biggest_key: Option<Vec<u8>>,
    total: u64,
    count: u64,
}

impl Kind {
    fn new(name: &str, size: Option<(&'static [u8], &'static str)>) -> Kind {
        Kind { name: name.to_owned(), size, biggest: 0, biggest_key: None, total: 0, count: 0 }
    }

    /// What its size is counted in.
    pub fn unit(&self, measure: Measure) -> &'static str {
        match measure {
            Measure::Memory(_) => "bytes",
            Measure::Elements => self.size.map_or("?", |(_, unit)| unit),
        }
    }
}

/// The types that every server has.
pub fn known_kinds() -> Vec<Kind> {
    vec![
        Kind::new("string", Some((b"STRLEN", "bytes"))),
        Kind::new("list", Some((b"LLEN", "items"))),
        Kind::new("set", Some((b"SCARD", "members"))),
        Kind::new("hash", Some((b"HLEN", "fields"))),
        Kind::new("zset", Some((b"ZCARD", "members"))),
        Kind::new("stream", Some((b"XLEN", "entries"))),
    ]
}

fn banner(what: &str) -> String {
    format!(
        "\n# Scanning the entire keyspace to find {what} as well as\n\
         # average sizes per key type.  You can use -i 0.1 to sleep 0.1 sec\n\
         # per 100 SCAN commands (not usually needed).\n\n"
    )
}

/// The percentage; 0 if `whole` is 0.
pub fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { 100.0 * part as f64 / whole as f64 }
}

/// The mean; 0 if `count` is 0.
pub fn average(total: u64, count: u64) -> f64 {
    if count == 0 { 0.0 } else { total as f64 / count as f64 }
}

/// Raised by Ctrl-C, so that a report on part of the keys is still given.
fn interrupt() -> Arc<AtomicBool> {
    let flag = Arc::new(AtomicBool::new(false));
    // A second Ctrl-C ends the program: the order of the two matters.
    let _ = signal_hook::flag::register_conditional_default(signal_hook::consts::SIGINT, flag.clone());
    let _ = signal_hook::flag::register(signal_hook::consts::SIGINT, flag.clone());
    flag
}

/// A walk over all keys, up to the last one or Ctrl-C.
pub struct Walk<'o> {
    /// To ask about the keys.
    pub connection: Connection,
    /// Where it is.
    pub cursor: Cursor<'o>,
    /// How many keys the database had at the start.
    pub total_keys: u64,
    /// Whether Ctrl-C has ended it.
    pub is_interrupted: bool,
    stop: Arc<AtomicBool>,
    /// Keys that have been counted, and which percentage they were before the present ones.
    sampled: u64,
    done: f64,
}

impl<'o> Walk<'o> {
    /// Connects, shows `banner`, and begins where the cursor is.
    ///
    /// # Errors
    /// When the server refuses or is gone.
    pub fn begin(options: &'o Options, cursor: Cursor<'o>, banner: impl AsRef<[u8]>) -> Result<Walk<'o>, Fail> {
        let mut connection = scan::open(options)?;
        let total_keys = connection.ask(&["DBSIZE"])?.count();
        print(banner);
        Ok(Walk { connection, cursor, total_keys, is_interrupted: false, stop: interrupt(), sampled: 0, done: 0.0 })
    }

    /// The next keys, maybe none; `None` at the end.
    ///
    /// # Errors
    /// When the server refuses or is gone.
    pub fn next(&mut self) -> Result<Option<Vec<Vec<u8>>>, Fail> {
        self.cursor.pause();
        self.is_interrupted = self.stop.load(Ordering::Relaxed);
        if self.is_interrupted {
            return Ok(None);
        }
        self.done = percent(self.sampled, self.total_keys);
        self.cursor.next(&mut self.connection)
    }

    /// Counts a key, and shows how far it is.
    fn count(&mut self) {
        self.sampled += 1;
        if self.sampled.is_multiple_of(PROGRESS_STEP) {
            print(format!("[{:05.2}%] Sampled {} keys so far\n", self.done, self.sampled));
        }
    }
}

/// The biggest key of each type.
///
/// # Errors
/// When the server refuses or is gone.
pub fn biggest(options: &Options, measure: Measure) -> Result<(), Fail> {
    let mut walk = Walk::begin(options, Cursor::new(options), banner("biggest keys"))?;
    let mut kinds = known_kinds();
    let mut names_len = 0;
    while let Some(keys) = walk.next()? {
        let found = typed(&mut walk.connection, &mut kinds, keys)?;
        let sizes = measured(&mut walk.connection, &kinds, &found, measure)?;
        for ((key, kind), size) in found.into_iter().zip(sizes) {
            let kind = &mut kinds[kind];
            kind.total += size;
            kind.count += 1;
            names_len += key.len() as u64;
            if size > kind.biggest {
                let (done, name, unit) = (walk.done, &kind.name, kind.unit(measure));
                print(format!("[{done:05.2}%] Biggest {name:<6} found so far '{}' with {size} {unit}\n", quoted(&key)));
                kind.biggest = size;
                kind.biggest_key = Some(key);
            }
            walk.count();
        }
    }
    let sampled = walk.sampled;
    print(format!("\n-------- summary -------\n\nSampled {sampled} keys in the keyspace!\n"));
    print(format!("Total key length in bytes is {names_len} (avg len {:.2})\n\n", average(names_len, sampled)));
    for kind in &kinds {
        if let Some(key) = &kind.biggest_key {
            let (name, size, unit) = (&kind.name, kind.biggest, kind.unit(measure));
            print(format!("Biggest {name:>6} found '{}' has {size} {unit}\n", quoted(key)));
        }
    }
    print("\n");
    for kind in &kinds {
        let Kind { name, total, count, .. } = kind;
        let (unit, share, mean) = (kind.unit(measure), percent(*count, sampled), average(*total, *count));
        print(format!("{count} {name}s with {total} {unit} ({share:05.2}% of keys, avg size {mean:.2})\n"));
    }
    Ok(())
}

/// Types of keys, as places in `kinds`; keys that no longer exist are left out.
///
/// # Errors
/// When the server refuses or is gone.
pub fn typed(
    connection: &mut Connection,
    kinds: &mut Vec<Kind>,
    keys: Vec<Vec<u8>>,
) -> Result<Vec<(Vec<u8>, usize)>, Fail> {
    let types = ask_each(connection, keys.iter().map(|key| vec![b"TYPE".to_vec(), key.clone()]))?;
    let mut found = Vec::with_capacity(keys.len());
    for (key, kind) in keys.into_iter().zip(types) {
        let name = kind.granted()?.text();
        if name == "none" {
            continue;
        }
        let known = kinds.iter().position(|kind| kind.name == name);
        let kind = known.unwrap_or_else(|| {
            kinds.push(Kind::new(&name, None));
            kinds.len() - 1
        });
        found.push((key, kind));
    }
    Ok(found)
}

/// Sizes of keys in the order given.
///
/// # Errors
/// When the connection is gone.
pub fn measured(
    connection: &mut Connection,
    kinds: &[Kind],
    keys: &[(Vec<u8>, usize)],
    measure: Measure,
) -> Result<Vec<u64>, Fail> {
    let asked = keys.iter().map(|(key, kind)| match (measure, kinds[*kind].size) {
        (Measure::Memory(None), _) => Some(vec![b"MEMORY".to_vec(), b"USAGE".to_vec(), key.clone()]),
        (Measure::Memory(Some(samples)), _) => {
            let samples = samples.to_string().into_bytes();
            Some(vec![b"MEMORY".to_vec(), b"USAGE".to_vec(), key.clone(), b"SAMPLES".to_vec(), samples])
        }
        (Measure::Elements, Some((command, _))) => Some(vec![command.to_vec(), key.clone()]),
        (Measure::Elements, None) => None,
    });
    let asked: Vec<Option<Vec<Vec<u8>>>> = asked.collect();
    let mut replies = ask_each(connection, asked.iter().flatten().cloned())?.into_iter();
    // A key may have been deleted, or changed its type, since its type was read: then it has no size.
    Ok(asked.into_iter().map(|asked| asked.and_then(|_| replies.next()).map_or(0, |size| size.count())).collect())
}

/// The keys read most often, by the counters of an LFU policy.
///
/// # Errors
/// When the server keeps no counters, refuses or is gone.
pub fn hottest(options: &Options) -> Result<(), Fail> {
    let mut walk = Walk::begin(options, Cursor::new(options), banner("hot keys"))?;
    let mut hot: Vec<(u64, Vec<u8>)> = Vec::new();
    while let Some(keys) = walk.next()? {
        let command = |key: &Vec<u8>| vec![b"OBJECT".to_vec(), b"FREQ".to_vec(), key.clone()];
        let counters = ask_each(&mut walk.connection, keys.iter().map(command))?;
        for (key, counter) in keys.into_iter().zip(counters) {
            if let Reply::Integer(counter @ 1..) = counter.granted()?
                && let Some(counter) = keep_hot(&mut hot, counter.unsigned_abs(), &key)
            {
                let done = walk.done;
                print(format!("[{done:05.2}%] Hot key '{}' found so far with counter {counter}\n", quoted(&key)));
            }
            walk.count();
        }
    }
    print(format!("\n-------- summary -------\n\nSampled {} keys in the keyspace!\n", walk.sampled));
    for (counter, key) in hot {
        print(format!("hot key found with counter: {counter}\tkeyname: {}\n", quoted(&key)));
    }
    Ok(())
}

/// Puts a key where it belongs among the hottest, after those as hot; `None` when there is no room.
fn keep_hot(hot: &mut Vec<(u64, Vec<u8>)>, counter: u64, key: &[u8]) -> Option<u64> {
    let at = hot.partition_point(|(other, _)| *other >= counter);
    if at >= HOT_KEYS_MAX {
        return None;
    }
    hot.insert(at, (counter, key.to_vec()));
    hot.truncate(HOT_KEYS_MAX);
    Some(counter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hottest_keys_are_kept_in_order() {
        let mut hot = Vec::new();
        for counter in [3, 9, 1, 9, 5] {
            keep_hot(&mut hot, counter, format!("k{counter}").as_bytes());
        }
        assert_eq!(hot.iter().map(|(counter, _)| *counter).collect::<Vec<_>>(), [9, 9, 5, 3, 1]);
        for _ in 0..20 {
            keep_hot(&mut hot, 100, b"x");
        }
        assert_eq!(hot.len(), HOT_KEYS_MAX);
        assert_eq!(keep_hot(&mut hot, 100, b"y"), None);
    }
}
