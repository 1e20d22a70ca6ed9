//! What clients ask of the cluster. Errors are the whole error text for the client, as redis-server tells it.

use super::Cluster;
use super::actions::{Action, Host, Now};
use super::extensions::BAN_MS;
use super::gossip::is_ip;
use super::nodes::{Ix, MYSELF};
use super::receive::EPOCH_TAKEN_MAX;
use crate::node::{Address, Flags};

/// The port of the bus is so far above that of clients, unless something else is said.
pub const BUS_PORT_DISTANCE: u16 = 10_000;

/// How CLUSTER FAILOVER goes about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failover {
    /// The primary holds its clients until the replica has all; then an election.
    Default,
    /// An election without the primary.
    Force,
    /// Without anybody.
    Takeover,
}

/// What CLUSTER BUMPEPOCH did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bumped {
    /// This node has a new epoch, which this is.
    Bumped(u64),
    /// Its epoch was the highest already.
    Still(u64),
}

/// What a command returns that has no reply but OK.
pub type Done = Result<(), String>;

/// Refuses what a client or a node asks for, and says why.
pub(super) fn refuse_if(is_wrong: bool, why: &str) -> Done {
    if is_wrong { Err(why.to_owned()) } else { Ok(()) }
}

impl Cluster {
    /// CLUSTER MEET. `bus_port`: none, if the client has named none.
    ///
    /// # Errors
    /// The address is none.
    pub fn meet(&mut self, ip: &str, port: i64, bus_port: Option<i64>, now: Now) -> Done {
        self.begin(now);
        let wrong = || format!("ERR Invalid node address specified: {ip}:{port}");
        let checked = |port: i64| u16::try_from(port).ok().filter(|port| *port != 0).ok_or_else(wrong);
        let bus_port = checked(bus_port.unwrap_or(port.saturating_add(i64::from(BUS_PORT_DISTANCE))))?;
        let ip = ip.parse::<std::net::IpAddr>().map_err(|_| wrong())?.to_string();
        let address = Address { ip, port: checked(port)?, other_port: 0, bus_port };
        debug_assert!(is_ip(&address.ip));
        self.start_handshake(address, Flags::MEET);
        self.end(None);
        Ok(())
    }

    /// CLUSTER FORGET. A node that is kept out already may have been forgotten because another one told so: `del-node` of
    /// redis-cli asks all nodes, and must not fail at those that know.
    ///
    /// # Errors
    /// The node is unknown, this one, or its primary.
    pub fn forget(&mut self, id: &str, now: Now) -> Done {
        self.begin(now);
        if id.parse().is_ok_and(|id| self.find(id).is_none() && self.is_banned(id)) {
            return Ok(());
        }
        let ix = self.known(id)?;
        let id = self.nodes[ix].id;
        refuse_if(ix == MYSELF, "ERR I tried hard but I can't forget myself...")?;
        refuse_if(self.nodes[MYSELF].primary == Some(id), "ERR Can't forget my master!")?;
        // Without a majority it may have to be forgotten, so that there is one again.
        if self.is_target(id) && (self.state.is_up || self.state.has_majority) {
            return Err("ERR Slots are being handed over to this node. Try again later".to_owned());
        }
        self.ban(id, BAN_MS);
        self.remove_node(ix);
        self.end(None);
        Ok(())
    }

    /// CLUSTER RESET.
    ///
    /// # Errors
    /// A primary with keys.
    pub fn reset(&mut self, is_hard: bool, now: Now, host: &dyn Host) -> Done {
        self.begin_with(now, host);
        if self.nodes[MYSELF].is_primary() && host.has_keys() {
            return Err("ERR CLUSTER RESET can't be called with master nodes containing keys".to_owned());
        }
        if self.nodes[MYSELF].is_replica() {
            self.make_primary(MYSELF);
            self.nodes[MYSELF].shard = self.random.id();
            self.queue.push(Action::Flush);
        }
        self.reset_manual_failover();
        self.election.forget();
        self.unassign_all(MYSELF);
        self.slots.forget_moves();
        self.reserved = None;
        self.nodes.places().for_each(|ix| self.remove_node(ix));
        self.slots.forget_orphaned();
        if is_hard {
            self.take_new_name();
        }
        self.changed_for_clients();
        self.end(Some(host));
        Ok(())
    }

    fn take_new_name(&mut self) {
        (self.current_epoch, self.last_vote_epoch, self.asked_epoch) = (0, 0, 0);
        let (id, shard) = (self.random.id(), self.random.id());
        self.nodes.rename(MYSELF, id);
        let myself = &mut self.nodes[MYSELF];
        (myself.config_epoch, myself.shard) = (0, shard);
        self.notice("configEpoch set to 0 via CLUSTER RESET HARD");
        self.notice(format!("Node hard reset, now I'm {id}"));
        self.save(true);
    }

    /// CLUSTER REPLICATE.
    ///
    /// # Errors
    /// It is no primary of this cluster, or this node has slots or keys.
    pub fn replicate(&mut self, id: &str, now: Now, host: &dyn Host) -> Done {
        self.begin_with(now, host);
        let ix = self.known(id)?;
        let myself = &self.nodes[MYSELF];
        refuse_if(ix == MYSELF, "ERR Can't replicate myself")?;
        refuse_if(self.nodes[ix].is_replica(), "ERR I can only replicate a master, not a replica.")?;
        if myself.is_primary() && (myself.slot_count > 0 || host.has_keys()) {
            return Err("ERR To set a master the node must be empty and without assigned slots.".to_owned());
        }
        self.set_my_primary(ix);
        self.end(Some(host));
        Ok(())
    }

    /// CLUSTER BUMPEPOCH.
    ///
    /// # Errors
    /// Another node is about to have slots of this one.
    pub fn bump_epoch(&mut self, now: Now) -> Result<Bumped, String> {
        self.begin(now);
        self.check_kept()?;
        let epoch = self.bump_config_epoch();
        self.end(None);
        Ok(epoch.map_or(Bumped::Still(self.nodes[MYSELF].config_epoch), Bumped::Bumped))
    }

    /// CLUSTER SET-CONFIG-EPOCH.
    ///
    /// # Errors
    /// It is none, or so high that counting on from it would come to an end; this node knows others, or has an epoch already.
    pub fn set_config_epoch(&mut self, epoch: i64, now: Now) -> Done {
        self.begin(now);
        let wrong = || format!("ERR Invalid config epoch specified: {epoch}");
        let told = u64::try_from(epoch).map_err(|_| wrong())?;
        if self.nodes.len() > 1 {
            let text = "ERR The user can assign a config epoch only when the node does not know any other node.";
            return Err(text.to_owned());
        }
        refuse_if(self.nodes[MYSELF].config_epoch != 0, "ERR Node config epoch is already non-zero")?;
        let epoch = Some(told).filter(|epoch| *epoch <= EPOCH_TAKEN_MAX).ok_or_else(wrong)?;
        self.nodes[MYSELF].config_epoch = epoch;
        self.current_epoch = self.current_epoch.max(epoch);
        self.notice(format!("configEpoch set to {epoch} via CLUSTER SET-CONFIG-EPOCH"));
        self.changed();
        self.end(None);
        Ok(())
    }

    /// CLUSTER FAILOVER.
    ///
    /// # Errors
    /// This node is no replica, or its primary is not there.
    pub fn failover(&mut self, how: Failover, now: Now, host: &dyn Host) -> Done {
        self.begin_with(now, host);
        refuse_if(self.nodes[MYSELF].is_primary(), "ERR You should send CLUSTER FAILOVER to a replica")?;
        let unknown = "ERR I'm a replica but my master is unknown to me";
        let primary = self.primary_ix().ok_or(unknown)?;
        let is_gone = self.nodes[primary].has(Flags::FAILED) || self.link_to(primary).is_none();
        if how == Failover::Default && is_gone {
            return Err("ERR Master is down or failed, please use CLUSTER FAILOVER FORCE".to_owned());
        }
        match how {
            Failover::Takeover => {
                self.warning("Taking over the master (user request).");
                self.bump_config_epoch();
                self.replace_primary();
            }
            Failover::Force => {
                self.warning("Forced failover user request accepted.");
                self.start_manual_failover(None);
            }
            Failover::Default => {
                self.warning("Manual failover user request accepted.");
                self.start_manual_failover(Some(primary));
            }
        }
        self.end(Some(host));
        Ok(())
    }

    /// CLUSTER COUNT-FAILURE-REPORTS.
    ///
    /// # Errors
    /// The node is unknown.
    pub fn count_failure_reports(&self, id: &str, now: Now) -> Result<usize, String> {
        let ix = self.known(id)?;
        Ok(self.count_reports(&self.nodes[ix], now.mono_ms))
    }

    /// The place of a node that a client names.
    pub(super) fn known(&self, id: &str) -> Result<Ix, String> {
        let ix = id.parse().ok().and_then(|id| self.find(id));
        ix.ok_or_else(|| format!("ERR Unknown node {id}"))
    }
}
