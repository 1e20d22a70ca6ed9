//! The process around the engine: a configuration, and no files.

use std::io;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use onrush_engine::ctx::Engine;
use onrush_engine::error::CommandError;
use onrush_engine::loading::Present;
use onrush_engine::process::{CpuTimes, Facts, LogFacts, Machine, NoProcess, Peer, PeerAddress, Process};
use onrush_engine::settings::Options;
use onrush_engine::snapshot::output::{Output, Purpose};
use onrush_server::config::Config;
use onrush_server::process::options::options;
use parking_lot::Mutex;

/// The longest argument or string, in bytes: whatever is asked for, an input costs little.
const BULK_LEN_MAX: i64 = 8 << 10;

/// See the module's text.
#[derive(Default)]
pub struct Host {
    engine: OnceLock<&'static Engine>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    config: Config,
    is_changed: bool,
    /// Memory in use when the input began, in bytes.
    base_bytes: u64,
}

impl Host {
    /// Belongs to an engine from now on.
    pub fn belong_to(&self, engine: &'static Engine) {
        // There is one engine.
        let _ = self.engine.set(engine);
        self.reset();
    }

    /// The configuration is the usual one again. `maxmemory` is what an input may use: what is in use now does not count.
    pub fn reset(&self) {
        let mut state = self.state.lock();
        if std::mem::take(&mut state.is_changed) {
            state.config = Config::default();
        }
        onrush_alloc::settle();
        state.base_bytes = onrush_alloc::allocated_bytes();
        self.apply(&state);
    }

    fn apply(&self, state: &State) {
        if let Some(engine) = self.engine.get() {
            engine.set(&bounded(options(&state.config), state.base_bytes));
        }
    }
}

/// These options with what keeps an input cheap.
fn bounded(mut options: Options, base_bytes: u64) -> Options {
    options.bulk_len_max = options.bulk_len_max.min(BULK_LEN_MAX);
    if options.eviction.maxmemory > 0 {
        options.eviction.maxmemory += base_bytes;
    }
    // Replies wait for replicas in the connections of the server.
    options.durability_replicas = 0;
    options
}

impl Process for Host {
    fn config_matching(&self, patterns: &[&[u8]]) -> Vec<(String, Vec<u8>)> {
        self.state.lock().config.get_matching(patterns)
    }

    fn config_set(&self, pairs: &[(&[u8], &[u8])], is_local: bool) -> Result<(), CommandError> {
        let mut state = self.state.lock();
        let change = state.config.set_many(pairs, is_local);
        state.config = change.map_err(|error| CommandError::text(error.to_string()))?.config;
        state.is_changed = true;
        self.apply(&state);
        Ok(())
    }

    fn fill_with_random(&self, bytes: &mut [u8]) -> io::Result<()> {
        bytes.fill(7);
        Ok(())
    }

    fn read_file(&self, path: &Path) -> io::Result<Vec<u8>> {
        NoProcess.read_file(path)
    }

    fn replace_file(&self, path: &Path, text: &[u8]) -> io::Result<()> {
        NoProcess.replace_file(path, text)
    }

    fn config_rewrite(&self) -> Result<(), CommandError> {
        NoProcess.config_rewrite()
    }

    fn allows_debug(&self, _: bool) -> bool {
        true
    }

    fn shut_down(&self) {}

    fn saves_at_end(&self) -> bool {
        false
    }

    fn end(&self) {}

    fn create_file(&self, path: &Path) -> io::Result<Box<dyn io::Write + Send>> {
        NoProcess.create_file(path)
    }

    fn create_snapshot(&self, purpose: Purpose) -> io::Result<Box<dyn Output>> {
        NoProcess.create_snapshot(purpose)
    }

    fn load_snapshot(&self, present: Present) -> Result<(), String> {
        NoProcess.load_snapshot(present)
    }

    fn check_snapshot(&self) -> Result<(), String> {
        Err("there are no files".to_owned())
    }

    fn reload_log(&self) -> Result<(), String> {
        NoProcess.reload_log()
    }

    fn log_facts(&self) -> LogFacts {
        LogFacts::default()
    }

    fn stall(&self, _: Duration) {}

    fn has_hung_up(&self, _: i32) -> bool {
        false
    }

    fn facts(&self) -> Facts {
        Facts::default()
    }

    fn machine(&self) -> Machine {
        Machine::default()
    }

    fn cpu_times(&self) -> CpuTimes {
        CpuTimes::default()
    }

    fn thread_cpu_nanos(&self) -> u64 {
        0
    }

    fn connect(&self, address: &PeerAddress<'_>, anew: bool) -> io::Result<Box<dyn Peer>> {
        NoProcess.connect(address, anew)
    }
}
