//! The sources of scripts, by their SHA-1.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};

use onrush_lua::{FunctionFlags, Sha1Hex, ShaHasher};
use onrush_resp::split_words;
use parking_lot::Mutex;

use super::habit::Habit;
use super::proof::Proof;
use crate::command::table::CommandTable;
use crate::error::CommandError;

/// Most scripts from EVAL that are kept; beyond that, one that has not been used for long is dropped.
const EVALUATED_MAX: usize = 500;

/// A script.
pub(crate) struct Script {
    pub(crate) sha: Sha1Hex,
    /// The text.
    text: Box<[u8]>,
    /// Where the code begins: at the end of the line with the shebang.
    code_at: usize,
    /// The flags in its shebang; `None` without a shebang.
    pub(crate) flags: Option<FunctionFlags>,
    /// What its text proves.
    pub(crate) proof: Proof,
    /// What earlier runs have shown.
    pub(crate) habit: Habit,
    /// Whether it came with SCRIPT LOAD: such a script is never dropped alone.
    is_loaded: AtomicBool,
    used_ms: AtomicI64,
    /// Whether the cache has forgotten it.
    is_forgotten: AtomicBool,
}

const NO_LINE_END: CommandError = CommandError::fixed("ERR Invalid script shebang");

impl Script {
    /// Reads the text of a script that can call these commands.
    ///
    /// # Errors
    /// The shebang is wrong.
    pub(crate) fn new(
        sha: Sha1Hex,
        text: &[u8],
        is_loaded: bool,
        commands: &CommandTable,
    ) -> Result<Self, CommandError> {
        let (code_at, flags) = read_head(text)?;
        let (is_loaded, used_ms) = (AtomicBool::new(is_loaded), AtomicI64::new(0));
        let is_forgotten = AtomicBool::new(false);
        let habit = Habit::new(text.len());
        let proof = if habit.is_large { Proof::default() } else { Proof::of(&text[code_at..], commands) };
        Ok(Self { sha, text: text.into(), code_at, flags, proof, habit, is_loaded, used_ms, is_forgotten })
    }

    /// The flags that a text declares; `None` without a shebang, or with a wrong one.
    pub(super) fn flags_of(text: &[u8]) -> Option<FunctionFlags> {
        read_head(text).ok()?.1
    }

    /// Memory that it takes in the cache.
    fn bytes(&self) -> usize {
        size_of::<Self>() + size_of::<Sha1Hex>() + size_of::<Arc<Self>>() + self.text.len()
    }

    /// The text to compile: all after the shebang.
    pub(crate) fn code(&self) -> &[u8] {
        &self.text[self.code_at..]
    }

    /// Whether the cache has dropped it: then threads must drop it too.
    #[inline]
    pub(crate) fn is_forgotten(&self) -> bool {
        self.is_forgotten.load(Relaxed)
    }

    /// Notes a use of the script.
    #[inline]
    pub(crate) fn touch(&self, now_ms: i64) {
        // All threads that run it read this line.
        if self.used_ms.load(Relaxed) != now_ms {
            self.used_ms.store(now_ms, Relaxed);
        }
    }
}

/// Where the code of a text begins, and the flags in its shebang.
fn read_head(text: &[u8]) -> Result<(usize, Option<FunctionFlags>), CommandError> {
    if !text.starts_with(b"#!") {
        return Ok((0, None));
    }
    let end = memchr::memchr(b'\n', text).ok_or(NO_LINE_END)?;
    Ok((end, Some(read_shebang(&text[..end])?)))
}

fn quoting(text: &str, word: &[u8]) -> CommandError {
    CommandError::bytes([text.as_bytes(), word].concat())
}

fn read_shebang(line: &[u8]) -> Result<FunctionFlags, CommandError> {
    const INVALID: CommandError = CommandError::fixed("ERR Invalid engine in script shebang");
    let words = split_words(line).ok_or(INVALID)?;
    let (engine, options) = words.split_first().ok_or(INVALID)?;
    // As in Valkey, in any case of letters.
    if !engine.eq_ignore_ascii_case(b"#!lua") {
        return Err(quoting("ERR Unexpected engine in script shebang: ", engine));
    }
    let mut flags = FunctionFlags::default();
    for word in options {
        let Some(list) = word.strip_prefix(b"flags=") else {
            return Err(quoting("ERR Unknown lua shebang option: ", word));
        };
        for name in list.split(|byte| *byte == b',').filter(|_| !list.is_empty()) {
            let flag = FunctionFlags::named(name);
            flags = flags.union(flag.ok_or_else(|| quoting("ERR Unexpected flag in script shebang: ", name))?);
        }
    }
    Ok(flags)
}

/// All scripts. Threads keep the scripts they found here as long as the epoch stays the same.
#[derive(Default)]
pub(crate) struct Cache {
    /// Changes whenever all scripts go.
    epoch: AtomicU64,
    sources: Mutex<Sources>,
}

#[derive(Default)]
struct Sources {
    scripts: HashMap<Sha1Hex, Arc<Script>, ShaHasher>,
    /// Memory of all of them.
    bytes: usize,
    /// Scripts from EVAL, each with the time of its last use when it was put into this queue.
    evaluated: VecDeque<(Arc<Script>, i64)>,
}

impl Sources {
    /// If there are too many scripts from EVAL, drops one that was not used since the last look at it. Amortized O(1).
    fn shrink(&mut self) {
        // Looks at each at most twice.
        let mut looks = 2 * self.evaluated.len();
        while self.evaluated.len() > EVALUATED_MAX
            && let Some((script, known_ms)) = self.evaluated.pop_front()
        {
            let used_ms = script.used_ms.load(Relaxed);
            if script.is_loaded.load(Relaxed) {
                continue;
            }
            looks = looks.saturating_sub(1);
            if used_ms > known_ms && looks > 0 {
                self.evaluated.push_back((script, used_ms));
            } else {
                script.is_forgotten.store(true, Relaxed);
                if let Some(script) = self.scripts.remove(&script.sha) {
                    self.bytes -= script.bytes();
                }
            }
        }
    }
}

impl Cache {
    /// Changes whenever all scripts are dropped. A script that is dropped alone is marked ([`Script::is_forgotten`]).
    #[inline]
    pub(crate) fn epoch(&self) -> &AtomicU64 {
        &self.epoch
    }

    pub(crate) fn len(&self) -> usize {
        self.sources.lock().scripts.len()
    }

    /// Memory of all scripts, without what threads have compiled.
    pub(crate) fn bytes(&self) -> usize {
        self.sources.lock().bytes
    }

    pub(crate) fn get(&self, sha: &Sha1Hex) -> Option<Arc<Script>> {
        self.sources.lock().scripts.get(sha).cloned()
    }

    /// Adds a compiled script, unless the cache has it; a script from SCRIPT LOAD stays marked as loaded. Amortized
    /// O(1).
    pub(crate) fn add(&self, script: Arc<Script>) {
        let mut sources = self.sources.lock();
        if let Some(known) = sources.scripts.get(&script.sha) {
            known.is_loaded.fetch_or(script.is_loaded.load(Relaxed), Relaxed);
            return;
        }
        sources.bytes += script.bytes();
        sources.scripts.insert(script.sha, Arc::clone(&script));
        if !script.is_loaded.load(Relaxed) {
            let used_ms = script.used_ms.load(Relaxed);
            sources.evaluated.push_back((script, used_ms));
            sources.shrink();
        }
    }

    /// Drops all scripts.
    pub(crate) fn clear(&self) {
        *self.sources.lock() = Sources::default();
        self.epoch.fetch_add(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(number: i64, is_loaded: bool) -> Arc<Script> {
        let text = format!("return {number}");
        let script =
            Script::new(onrush_lua::sha1_hex(text.as_bytes()), text.as_bytes(), is_loaded, &CommandTable::new(&[]))
                .unwrap();
        script.touch(number);
        Arc::new(script)
    }

    #[test]
    fn of_too_many_evaluated_scripts_the_one_used_longest_ago_goes() {
        let cache = Cache::default();
        cache.add(script(0, true));
        for number in 1..=EVALUATED_MAX as i64 {
            cache.add(script(number, false));
        }
        assert_eq!(cache.len(), EVALUATED_MAX + 1);
        let bytes = |cache: &Cache| cache.sources.lock().scripts.values().map(|script| script.bytes()).sum::<usize>();
        assert_eq!(cache.bytes(), bytes(&cache));
        let second = cache.get(&script(2, false).sha).unwrap();
        cache.get(&script(1, false).sha).unwrap().touch(1_000_000);
        cache.add(script(1_000, false));
        assert_eq!((cache.len(), second.is_forgotten()), (EVALUATED_MAX + 1, true));
        let known = [0, 1, 2, 3, 1_000].map(|number| cache.get(&script(number, false).sha).is_some());
        assert_eq!(known, [true, true, false, true, true]);
    }

    #[test]
    fn a_shebang_says_what_a_script_does() {
        let read = |text: &str| {
            Script::new([0; 40], text.as_bytes(), false, &CommandTable::new(&[]))
                .map(|script| (script.flags, script.code().to_vec()))
        };
        assert_eq!(read("return 1"), Ok((None, b"return 1".to_vec())));
        let (flags, code) = read("#!lua flags=no-writes,allow-oom\nreturn 1").unwrap();
        assert!(flags.unwrap().contains(FunctionFlags::NO_WRITES.union(FunctionFlags::ALLOW_OOM)));
        assert_eq!(code, b"\nreturn 1");
        let errors = [
            ("#!lua", "ERR Invalid script shebang"),
            ("#!js\n", "ERR Unexpected engine in script shebang: #!js"),
            ("#!lua a=b\n", "ERR Unknown lua shebang option: a=b"),
            ("#!lua flags=no-writes, x\n", "ERR Unexpected flag in script shebang: "),
        ];
        for (text, error) in errors {
            assert_eq!(read(text), Err(CommandError::fixed(error)));
        }
    }
}
