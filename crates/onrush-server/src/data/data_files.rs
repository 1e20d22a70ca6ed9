//! Files of data, as the engine's process uses them.

use std::io;

use onrush_engine::loading::Present;
use onrush_engine::loading::load::Rules;
use onrush_engine::process::{Begun, Done};
use onrush_engine::snapshot::output::{Output, Purpose};

use crate::config::Config;
use crate::data::append_only::{self, create_base, end_log, refresh};
use crate::data::loading::{check_file, load_file, reload_log};
use crate::data::saving;
use crate::process::host::DataFiles;
use crate::process::server::Server;
use crate::replicas::PayloadOutput;

/// Those of a server.
pub struct ServersFiles(pub &'static Server);

impl DataFiles for ServersFiles {
    fn create_base(&self) -> io::Result<Box<dyn Output>> {
        create_base(self.0)
    }

    fn create_payload(&self) -> io::Result<Box<dyn Output>> {
        Ok(Box::new(PayloadOutput::new(self.0)?))
    }

    fn end_log(&self) -> io::Result<()> {
        end_log(self.0)
    }

    fn configure(&self, pairs: Vec<(Vec<u8>, Vec<u8>)>, is_local: bool, done: Done) {
        saving::pass_on(Box::new(move |server| done(append_only::configure(server, &pairs, is_local))));
    }

    fn begin_snapshot(&self, purpose: Purpose, done: Begun) {
        saving::pass_on(Box::new(move |server| done(saving::begin_now(server, purpose))));
    }

    fn load_snapshot(&self, present: Present) -> Result<(), String> {
        let rules = Rules { present, ..Rules::SNAPSHOT };
        load_file(self.0, &self.0.host.snapshot_path(), rules).map_err(|error| error.to_string())
    }

    fn check_snapshot(&self) -> Result<(), String> {
        check_file(self.0, &self.0.host.snapshot_path()).map_err(|error| error.to_string())
    }

    fn reload_log(&self) -> Result<(), String> {
        reload_log(self.0)
    }

    fn refresh(&self, config: &Config) {
        refresh(self.0, config);
    }
}
