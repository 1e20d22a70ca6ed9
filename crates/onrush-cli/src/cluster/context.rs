//! What every command on a cluster gets.

use super::address::Address;
use super::settings::Settings;
use super::view::Cluster;
use crate::args::Options;
use crate::fail::Fail;

/// See the module's text.
pub struct Context<'a> {
    /// The whole command line.
    pub options: &'a Options,
    /// The flags that start with `--cluster`.
    pub settings: &'a Settings,
    /// The command's arguments.
    pub args: &'a [String],
}

impl Context<'_> {
    /// The cluster of the node that the arguments name.
    ///
    /// # Errors
    /// When they name none, or it cannot be reached.
    pub fn load(&self) -> Result<Cluster, Fail> {
        Cluster::load(self, &self.address()?)
    }

    pub fn address(&self) -> Result<Address, Fail> {
        Address::of_words(self.args)
    }
}
