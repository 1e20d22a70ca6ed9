//! The server: the engine and the process around it.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;

use onrush_engine::clock::TimeSource;
use onrush_engine::command::CommandTable;
use onrush_engine::commands::FAMILIES;
use onrush_engine::ctx::Engine;
use onrush_engine::process::Process;
use onrush_engine::shared::Parts;
use onrush_engine::users::file::unreadable;
use onrush_persist::threads;

use crate::config::{Config, UserLine};
use crate::process::host::Host;
use crate::process::options::options;

const USERS_TWICE: &str = "Configuring Redis with users defined in redis.conf and at the same setting an ACL file path is \
    invalid. This setup is very likely to lead to configuration errors and security holes, please define either an ACL \
    file or declare users directly in your redis.conf, but not both.";

/// What all threads of the process share; made at start and never dropped.
pub struct Server {
    /// The process.
    pub host: &'static Host,
    engine: Engine,
}

impl Server {
    /// A server with this configuration and no connections. The freeing thread already runs.
    ///
    /// # Errors
    /// The system has no thread to give, or the configuration renames a command that is not there.
    pub fn new(config: Config, config_file: Option<PathBuf>) -> std::io::Result<&'static Self> {
        let commands = CommandTable::new(FAMILIES).renamed(&config.renamed_commands).map_err(std::io::Error::other)?;
        let (options, databases, workers) = (options(&config), config.databases, config.workers);
        let is_clustered = config.cluster_enabled;
        let host: &'static Host = Box::leak(Box::new(Host::new(config, config_file)));
        let parts = Parts {
            options,
            databases,
            workers,
            time: TimeSource::SYSTEM,
            seed: random_u64(),
            hash_seed: None,
            is_clustered,
            process: host,
            ..Parts::default()
        };
        let server: &'static Self = Box::leak(Box::new(Self { host, engine: Engine::new(&parts, commands) }));
        host.set_server(server);
        let garbage = server.lazyfree.open();
        threads::start("lazyfree", move || garbage.for_each(drop))?;
        server.startup_memory.store(server.used_memory(), Relaxed);
        Ok(server)
    }

    /// Makes the users that the configuration has, or those of its ACL file.
    ///
    /// # Errors
    /// Why there are none.
    pub fn make_users(&self) -> Result<(), String> {
        let config = self.host.config.read().clone();
        self.users.set_default_password(&config.requirepass);
        for UserLine { name, rules, .. } in &config.users {
            self.users.define(&self.commands, name, rules).map_err(|(at, error)| {
                let (rule, name) = (String::from_utf8_lossy(&rules[at]), String::from_utf8_lossy(name));
                format!("Error loading ACL rule '{rule}' for the user named '{name}': {error}")
            })?;
        }
        let Some(path) = self.host.acl_file() else { return Ok(()) };
        if !config.users.is_empty() {
            return Err(USERS_TWICE.to_owned());
        }
        let shown = path.to_string_lossy();
        let text = self.host.read_file(&path).map_err(|error| unreadable(&shown, &error));
        let loaded = text.and_then(|text| self.users.load(&self.commands, &shown, &text));
        if self.users.is_open() && !config.requirepass.is_empty() {
            tracing::warn!("The ACL file has no password for the default user, so requirepass is without effect");
        }
        loaded.map_err(|problem| format!("Aborting Redis startup because of ACL errors: {problem}"))
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }
}

impl Deref for Server {
    type Target = Engine;

    #[inline]
    fn deref(&self) -> &Engine {
        &self.engine
    }
}

/// An unpredictable number, from the standard library's hash seeds.
pub fn random_u64() -> u64 {
    RandomState::new().build_hasher().finish()
}
