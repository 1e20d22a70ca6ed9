//! One move of slots, as one of both nodes sees it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use onrush_cluster::slots::{SlotSet, ranges_text};

/// What this node does in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// It has the slots, and sends them.
    Export,
    /// It gets them.
    Import,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Others come first.
    Waits,
    /// The target is asked.
    Connects,
    /// The keys go, or come.
    Copies,
    /// What clients have changed meanwhile goes.
    CatchesUp,
    /// Writes are held back until the target has all.
    Pauses,
    /// The target takes the slots over.
    HandsOver,
    /// What has come is deleted.
    CleansUp,
    /// The slots are the target's.
    Done,
    /// They stay the source's.
    Failed,
    /// They stay the source's: a client wanted that.
    Cancelled,
}

impl Stage {
    /// As CLUSTER GETSLOTMIGRATIONS tells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Waits => "waiting",
            Self::Connects => "connecting",
            Self::Copies => "snapshotting",
            Self::CatchesUp => "streaming",
            Self::Pauses => "pausing",
            Self::HandsOver => "taking-over",
            Self::CleansUp => "cleaning-up",
            Self::Done => "success",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether nothing more happens to it.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Cancelled)
    }
}

/// See the module's text.
#[derive(Clone, Debug)]
pub struct Job {
    /// 40 hexadecimal digits, the same at both nodes.
    pub name: String,
    /// What this node does in it.
    pub side: Side,
    /// The slots.
    pub slots: SlotSet,
    /// The node that gets them.
    pub target: String,
    /// The node that has them.
    pub source: String,
    /// When it began, in Unix seconds.
    pub created_s: i64,
    /// When its stage last changed.
    pub updated_s: i64,
    /// When the other node was last heard of.
    pub heard_s: i64,
    /// How far it is.
    pub stage: Stage,
    /// Why it is there.
    pub message: String,
    /// The client that an import comes from.
    pub(super) client: u64,
    /// Whether a thread works on it, also if it is over by now.
    pub(super) is_run: bool,
    /// Of an import: whether nothing comes any more and what has come is to be deleted.
    pub(super) is_unwanted: bool,
    /// Whether it has failed, for the connection of an import.
    pub(super) failed: Arc<AtomicBool>,
}

impl Job {
    /// One that has not begun.
    pub fn new(name: String, side: Side, slots: SlotSet, source: &str, target: &str, now_s: i64) -> Self {
        Self {
            name,
            side,
            slots,
            target: target.to_owned(),
            source: source.to_owned(),
            created_s: now_s,
            updated_s: now_s,
            heard_s: now_s,
            stage: match side {
                Side::Export => Stage::Waits,
                Side::Import => Stage::Copies,
            },
            message: String::new(),
            client: 0,
            is_run: false,
            is_unwanted: false,
            failed: Arc::default(),
        }
    }

    /// The slots, in order.
    pub fn slots(&self) -> Vec<u16> {
        self.slots.iter().collect()
    }

    /// The slots as ranges: `0-9 20-20`.
    pub fn ranges(&self) -> String {
        ranges_text(&self.slots)
    }
}
