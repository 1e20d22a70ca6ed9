//! The interpreter of a thread, and the shared scripts that the thread has found.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use onrush_lua::{
    Compiled, Ended, Host, Interpreter, Interrupt, Limits, Lists, LogLevel, Registered, Sha1Hex, ShaHasher,
};
use onrush_resp::{ArgRange, Reply};

use super::{Library, Script};
use crate::ctx::Engine;

/// Most scripts that a thread remembers to be in the cache; beyond that it forgets all and looks each up again.
const KNOWN_MAX: usize = 4096;

/// A shared script that a thread has found. Each thread counts its own references: one count for all threads would go
/// back and forth between their caches at each call.
pub(crate) struct Found {
    script: Arc<Script>,
    compiled: Cell<Option<Compiled>>,
}

impl std::ops::Deref for Found {
    type Target = Script;

    #[inline]
    fn deref(&self) -> &Script {
        &self.script
    }
}

/// The state with which a thread runs scripts.
struct Own {
    interpreter: Interpreter,
    /// Scripts found in the cache in the epoch below.
    scripts: HashMap<Sha1Hex, Rc<Found>, ShaHasher>,
    /// The one found last.
    last: Option<Rc<Found>>,
    /// The engine, by its address, and the epoch of its cache.
    found_in: (usize, u64),
    /// The generation of the libraries at the last check of the interpreter's libraries.
    generation: u64,
    /// What others see of the interpreter's memory.
    bytes: Arc<AtomicUsize>,
}

thread_local! {
    static OWN: RefCell<Own> = RefCell::new(Own {
        interpreter: Interpreter::new(Limits::default()),
        scripts: HashMap::default(),
        last: None,
        found_in: (0, 0),
        generation: 0,
        bytes: Arc::default(),
    });
}

impl Own {
    /// Forgets scripts that are no longer in the cache, or that belong to another engine.
    #[inline]
    fn look(&mut self, engine: &'static Engine) {
        let now = (std::ptr::from_ref(engine) as usize, engine.scripts.cache.epoch().load(Relaxed));
        if self.found_in != now {
            std::hint::cold_path();
            (self.scripts, self.last) = (HashMap::default(), None);
            self.interpreter.forget_scripts();
            self.found_in = now;
            engine.scripts.heaps.add(&self.bytes);
        }
    }

    /// As [`find`], of a script that was not the last one.
    #[inline(never)]
    fn find(&mut self, engine: &'static Engine, sha: &Sha1Hex) -> Option<Rc<Found>> {
        let known = self.scripts.get(sha).filter(|found| !found.is_forgotten());
        let found = match known {
            Some(found) => Rc::clone(found),
            None => {
                let Some(script) = engine.scripts.cache.get(sha) else {
                    self.scripts.remove(sha);
                    return None;
                };
                self.remember(script)
            }
        };
        self.last = Some(Rc::clone(&found));
        Some(found)
    }

    fn remember(&mut self, script: Arc<Script>) -> Rc<Found> {
        if self.scripts.len() >= KNOWN_MAX {
            self.scripts = HashMap::default();
        }
        let found = Rc::new(Found { script, compiled: Cell::new(None) });
        self.scripts.insert(found.sha, Rc::clone(&found));
        found
    }

    /// Tells others how much memory the interpreter uses now.
    #[inline]
    fn tell_bytes(&mut self) {
        self.bytes.store(self.interpreter.used_bytes(), Relaxed);
    }
}

/// The script of this name, if it was loaded or evaluated.
#[inline]
pub(crate) fn find(engine: &'static Engine, sha: &Sha1Hex) -> Option<Rc<Found>> {
    OWN.with_borrow_mut(|own| {
        own.look(engine);
        if let Some(last) = &own.last
            && last.sha == *sha
            && !last.is_forgotten()
        {
            return Some(Rc::clone(last));
        }
        own.find(engine, sha)
    })
}

/// Compiles a new script, and adds it to the cache if it is Lua.
///
/// # Errors
/// It is not Lua: the message.
pub(crate) fn add(engine: &'static Engine, script: Script, now_ms: i64) -> Result<Rc<Found>, Vec<u8>> {
    OWN.with_borrow_mut(|own| {
        let compiled = own.interpreter.compile(&script.sha, script.code());
        own.tell_bytes();
        let compiled = compiled?;
        script.touch(now_ms);
        let script = Arc::new(script);
        engine.scripts.cache.add(Arc::clone(&script));
        own.look(engine);
        let found = own.remember(script);
        found.compiled.set(Some(compiled));
        Ok(found)
    })
}

/// Runs a script; compiles it if this thread has not.
#[inline]
pub(crate) fn run<'a>(
    found: &Found,
    keys: impl ExactSizeIterator<Item = &'a [u8]>,
    args: impl ExactSizeIterator<Item = &'a [u8]>,
    host: &mut dyn Host,
    out: &mut Reply,
) -> Ended {
    OWN.with_borrow_mut(|own| {
        let compiled = match found.compiled.get() {
            Some(compiled) if own.interpreter.has(compiled) => compiled,
            _ => match own.interpreter.compile(&found.sha, found.code()) {
                Ok(compiled) => {
                    found.compiled.set(Some(compiled));
                    compiled
                }
                Err(problem) => {
                    let text = b"ERR Error compiling script (new function): ";
                    return Ended::Failed { message: [text, problem.as_slice()].concat(), is_known: false };
                }
            },
        };
        let lists = if found.proof.keeps_lists { Lists::Kept } else { Lists::Own };
        let ended = own.interpreter.run((compiled, lists), &found.sha, keys, args, host, out);
        own.tell_bytes();
        ended
    })
}

/// Runs the code of a library to learn what it registers.
///
/// # Errors
/// It cannot be loaded: the message.
pub(crate) fn load(engine: &'static Engine, name: &[u8], id: u64, text: &[u8]) -> Result<Vec<Registered>, Vec<u8>> {
    OWN.with_borrow_mut(|own| {
        own.interpreter.load_library(name, id, Library::code(text), &mut Loading::new(engine, NEW_TIME_MAX))
    })
}

/// Calls a function of a library; loads the library if this thread has not.
pub(crate) fn call<'a>(
    engine: &'static Engine,
    library: &Library,
    function: usize,
    keys: impl ExactSizeIterator<Item = &'a [u8]>,
    args: impl ExactSizeIterator<Item = &'a [u8]>,
    host: &mut dyn Host,
    out: &mut Reply,
) -> Ended {
    OWN.with_borrow_mut(|own| {
        let libraries = &engine.scripts.libraries;
        let generation = libraries.generation();
        if own.generation != generation {
            own.interpreter.retain_libraries(|name, id| libraries.is_current(name, id));
            own.generation = generation;
            engine.scripts.heaps.add(&own.bytes);
        }
        if own.interpreter.library(&library.name) != Some(library.id) {
            let code = Library::code(&library.text);
            if let Err(problem) =
                own.interpreter.load_library(&library.name, library.id, code, &mut Loading::new(engine, KNOWN_TIME_MAX))
            {
                return Ended::Failed { message: [b"ERR ", problem.as_slice()].concat(), is_known: false };
            }
        }
        let name = &library.functions[function].name;
        let ended = own.interpreter.call_function(&library.name, name, keys, args, host, out);
        own.tell_bytes();
        ended
    })
}

/// Longest time that a new library may take to register its functions.
const NEW_TIME_MAX: Duration = Duration::from_millis(500);

/// The same for a library that was accepted before: now the machine may be busy.
const KNOWN_TIME_MAX: Duration = Duration::from_secs(5);

/// The host of a library while it is loaded: it executes no commands.
struct Loading {
    engine: &'static Engine,
    started: Instant,
    time_max: Duration,
}

impl Loading {
    fn new(engine: &'static Engine, time_max: Duration) -> Self {
        Self { engine, started: engine.clock.now(), time_max }
    }
}

impl Host for Loading {
    fn call(&mut self, _: &[u8], _: &[ArgRange], reply: &mut Reply) -> Interrupt {
        reply.error("ERR redis.call/pcall can only be called inside a script invocation");
        Interrupt::GoOn
    }

    fn log(&mut self, _: LogLevel, message: &[u8]) {
        tracing::info!("{}", String::from_utf8_lossy(message));
    }

    fn set_replication(&mut self, _: u8) {}

    fn may_execute(&mut self, _: &[&[u8]]) -> Option<bool> {
        None
    }

    fn returns_error(&mut self, _: &[u8], _: bool) {}

    fn interrupt(&mut self) -> Interrupt {
        // What was saved was accepted, however long it took.
        if !self.engine.loading.is_on() && self.engine.clock.now() - self.started > self.time_max {
            return Interrupt::Abort(b"ERR FUNCTION LOAD timeout".to_vec());
        }
        Interrupt::GoOn
    }
}
