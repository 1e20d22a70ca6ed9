//! A node: the state machine, its disk, its clocks, and a model of replication.

use std::collections::HashMap;

use onrush_cluster::cluster::{Cluster, Host, LinkId, Now, PrimaryLink};
use onrush_cluster::nodes_conf::NodesConf;

use super::network::ConnId;

/// Unix time when a simulation begins.
const BEGIN_MS: u64 = 1_700_000_000_000;

/// What a node has of the data.
#[derive(Default)]
pub struct Data {
    /// How far it is.
    pub offset: u64,
    /// The node that it replicates.
    pub primary: Option<usize>,
    /// When it heard of that one last.
    pub heard_ms: u64,
    /// Whether its clients are held, and until when.
    pub paused_until_ms: u64,
    /// What it has told its replicas last, and how many times it has told something.
    pub telling: (u64, String),
    /// Whom it has heard, and how many times that one had told something.
    pub heard: Option<(usize, u64)>,
}

/// What the disk has.
#[derive(Default)]
pub struct Disk {
    /// What is safe.
    pub synced: Option<NodesConf>,
    /// What was written since, without waiting for the disk.
    pub written: Option<NodesConf>,
}

/// A node. One that does not run yet, by default.
#[derive(Default)]
pub struct Node {
    /// The state machine, while it runs.
    pub cluster: Option<Cluster>,
    /// Its disk.
    pub disk: Disk,
    /// Its data.
    pub data: Data,
    /// How many times it was started.
    pub run: u32,
    /// How many times it has got another address.
    pub moves: u32,
    /// What its clock shows differs by so much.
    pub skew_ms: i64,
    /// It does not run until then.
    pub stalled_until_ms: u64,
    /// It does not start before then.
    pub down_until_ms: u64,
    /// Its connections, and which end it has.
    pub conns: HashMap<LinkId, (ConnId, usize)>,
    /// The role that it was last seen in.
    pub was_primary: bool,
}

/// What the state machine asks of its server.
pub struct Asked {
    offset: u64,
    link: PrimaryLink,
}

impl Host for Asked {
    fn replication_offset(&self) -> u64 {
        self.offset
    }

    fn primary_link(&self) -> PrimaryLink {
        self.link
    }

    fn keys_in_slot(&self, _slot: u16) -> u64 {
        0
    }

    fn has_keys(&self) -> bool {
        false
    }
}

impl Node {
    /// What its clocks show.
    pub fn now(&self, now_ms: u64) -> Now {
        Now { mono_ms: now_ms, wall_ms: (BEGIN_MS + now_ms).saturating_add_signed(self.skew_ms) }
    }

    /// What its server answers.
    pub fn asked(&self, now_ms: u64) -> Asked {
        let silent_ms = now_ms.saturating_sub(self.data.heard_ms);
        Asked { offset: self.data.offset, link: PrimaryLink { is_up: silent_ms < 1_000, silent_ms } }
    }

    /// Whether it runs and is not stalled.
    pub fn is_awake(&self, now_ms: u64) -> bool {
        self.cluster.is_some() && self.stalled_until_ms <= now_ms
    }

    /// What the disk has after a crash: all that was written, unless the power failed as well.
    pub fn settle_disk(&mut self, keeps_written: bool) {
        let written = self.disk.written.take();
        if keeps_written && written.is_some() {
            self.disk.synced = written;
        }
    }
}
