//! Nodes that do not answer: what this node thinks, what others report, what a majority decides.

use crate::cluster::Cluster;
use crate::cluster::nodes::{Ix, MYSELF, Node, Report};
use crate::message::{Body, MessageFlags};
use crate::node::{Flags, NodeId};

/// A report holds for so many node timeouts.
const REPORT_TIMEOUTS: u64 = 2;

/// A primary that has failed and is back has its slots again after so many node timeouts, if nobody else took them.
const UNDO_TIMEOUTS: u64 = 2;

impl Cluster {
    /// A primary says whether another node answers it.
    pub(in crate::cluster) fn hear_report(&mut self, sender: Ix, ix: Ix, is_silent: bool) {
        let by = self.nodes[sender].id;
        if !is_silent {
            self.nodes[ix].reports.retain(|report| report.by != by);
            return;
        }
        let at_ms = self.now.mono_ms;
        let reports = &mut self.nodes[ix].reports;
        match reports.iter_mut().find(|report| report.by == by) {
            Some(report) => report.at_ms = at_ms,
            None => reports.push(Report { by, at_ms }),
        }
        self.decide_failure(ix);
    }

    /// How many reports there are of a node that hold. Forgets the others.
    pub(in crate::cluster) fn failure_reports(&mut self, ix: Ix) -> usize {
        let (now_ms, holds_ms) = (self.now.mono_ms, self.report_holds_ms());
        let reports = &mut self.nodes[ix].reports;
        reports.retain(|report| now_ms - report.at_ms <= holds_ms);
        reports.len()
    }

    /// The same, of a node as it is.
    pub(in crate::cluster) fn count_reports(&self, node: &Node, now_ms: u64) -> usize {
        let holds_ms = self.report_holds_ms();
        node.reports.iter().filter(|report| now_ms.saturating_sub(report.at_ms) <= holds_ms).count()
    }

    fn report_holds_ms(&self) -> u64 {
        self.options.node_timeout_ms.saturating_mul(REPORT_TIMEOUTS)
    }

    /// A node that does not answer this one has failed if a majority of the primaries with slots says the same.
    pub(in crate::cluster) fn decide_failure(&mut self, ix: Ix) {
        let is_suspect = self.nodes[ix].has(Flags::MAYBE_FAILED) && !self.nodes[ix].has(Flags::FAILED);
        if !is_suspect {
            return;
        }
        let own = usize::from(self.nodes[MYSELF].is_voter());
        if self.failure_reports(ix) + own < self.state.quorum {
            return;
        }
        let label = self.nodes[ix].label();
        self.notice(format!("Marking node {label} as failing (quorum reached)."));
        self.set_failed(ix);
        // A replica helps to spread it as well.
        self.broadcast(Body::Fail(self.nodes[ix].id), MessageFlags::empty());
    }

    fn set_failed(&mut self, ix: Ix) {
        let now_ms = self.now.mono_ms;
        let node = &mut self.nodes[ix];
        node.flags.remove(Flags::MAYBE_FAILED);
        node.flags.insert(Flags::FAILED);
        node.failed_ms = now_ms;
        self.changed();
    }

    /// Another node says that a majority takes a node for failed.
    pub(in crate::cluster) fn hear_fail(&mut self, sender: Ix, id: NodeId) {
        let Some(ix) = self.find(id).filter(|ix| !self.nodes[*ix].has(Flags::FAILED | Flags::MYSELF)) else { return };
        let (from, about) = (self.nodes[sender].label(), self.nodes[ix].label());
        self.notice(format!("FAIL message received from {from} about {about}"));
        self.set_failed(ix);
    }

    /// A node that has failed answers.
    pub(in crate::cluster) fn clear_failure(&mut self, ix: Ix) {
        let node = &self.nodes[ix];
        let label = node.label();
        let silent_ms = self.now.mono_ms - node.failed_ms;
        let text = if !node.is_voter() {
            let what = if node.is_replica() { "replica" } else { "master without slots" };
            format!("Clear FAIL state for node {label}: {what} is reachable again.")
        } else if silent_ms > self.options.node_timeout_ms.saturating_mul(UNDO_TIMEOUTS) {
            format!(
                "Clear FAIL state for node {label}: is reachable again and nobody is serving its slots after some time."
            )
        } else {
            return;
        };
        self.notice(text);
        self.nodes[ix].flags.remove(Flags::FAILED);
        self.changed();
    }
}
