//! One node of a cluster: a connection, and what the node says of itself.

use std::time::Duration;

use super::address::Address;
use super::nodes_text::{self, Line};
use super::slots::shown;
use crate::connection::Connection;
use crate::fail::Fail;
use crate::reply::Reply;
use crate::target::Target;

/// How long connecting may take, unless `-t` says otherwise.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a node may take for a reply.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// A node that is connected.
pub struct Node {
    /// Where it is, and the login there.
    pub target: Target,
    /// The port of its bus, if it is told.
    pub bus_port: Option<u16>,
    /// What it says of itself.
    pub own: Line,
    /// How many replicas it has.
    pub replicas_len: usize,
    /// Its role is planned, but not set yet.
    pub is_planned: bool,
    connection: Connection,
}

/// A target in the cluster that the command line describes.
pub fn target(base: &Target, address: &Address) -> Target {
    Target {
        host: address.host.clone(),
        port: address.port,
        socket: None,
        db: 0,
        resp3: false,
        connect_timeout: base.connect_timeout.or(Some(CONNECT_TIMEOUT)),
        read_timeout: Some(SILENCE_MAX),
        ..base.clone()
    }
}

impl Node {
    /// Connects to a node, which it does not ask anything yet.
    ///
    /// # Errors
    /// When there is no connection.
    pub fn open(base: &Target, address: &Address) -> Result<Node, Fail> {
        let target = target(base, address);
        let connection = Connection::open(&target)?;
        Ok(Node {
            target,
            bus_port: address.bus_port,
            own: Line::default(),
            replicas_len: 0,
            is_planned: false,
            connection,
        })
    }

    /// `host:port`.
    pub fn place(&self) -> String {
        format!("{}:{}", self.target.host, self.target.port)
    }

    /// Whether it is a replica.
    pub fn is_replica(&self) -> bool {
        self.own.replicates.is_some() || self.own.has("slave")
    }

    /// Sends a command; an error reply is a reply.
    ///
    /// # Errors
    /// When the node is gone.
    pub fn call<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Result<Reply, Fail> {
        let place = self.place();
        self.connection.call(words).map_err(|error| Fail::new(format!("Node {place}: {}", error.message())))
    }

    /// The same for a command that may take this long.
    ///
    /// # Errors
    /// When the node is gone.
    pub fn call_long<W: AsRef<[u8]>>(&mut self, words: &[W], limit: Duration) -> Result<Reply, Fail> {
        self.wait_for(SILENCE_MAX + limit);
        let reply = self.call(words);
        self.wait_for(SILENCE_MAX);
        reply
    }

    fn wait_for(&self, limit: Duration) {
        // If this fails, the socket is broken, which the next reply tells.
        let _ = self.connection.socket().set_read_timeout(Some(limit));
    }

    /// Sends a command that must not be refused.
    ///
    /// # Errors
    /// When the node is gone or refuses.
    pub fn ask<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Result<Reply, Fail> {
        let reply = self.call(words)?;
        match reply.error() {
            Some(error) => Err(self.refusal(&error)),
            None => Ok(reply),
        }
    }

    /// What it replied, as an error for the user.
    pub fn refusal(&self, error: &str) -> Fail {
        Fail::new(format!("Node {} replied with error:\n{error}", self.place()))
    }

    /// Its connection.
    pub fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// Checks that it has cluster mode turned on.
    ///
    /// # Errors
    /// When it has not, or is gone.
    pub fn check_mode(&mut self) -> Result<(), Fail> {
        if self.ask(&["INFO", "cluster"])?.text().contains("cluster_enabled:1") {
            return Ok(());
        }
        Err(Fail::new(format!("[ERR] Node {} is not configured as a cluster node.", self.place())))
    }

    /// Checks that it knows no other node and has no keys.
    ///
    /// # Errors
    /// When it does or has, or is gone.
    pub fn check_empty(&mut self) -> Result<(), Fail> {
        let has_keys = self.ask(&["INFO"])?.text().contains("db0:");
        let is_alone = self.ask(&["CLUSTER", "INFO"])?.text().contains("cluster_known_nodes:1\r");
        if !has_keys && is_alone {
            return Ok(());
        }
        Err(Fail::new(format!(
            "[ERR] Node {} is not empty. Either the node already knows other nodes (check with CLUSTER NODES) or \
             contains some key in database 0.",
            self.place()
        )))
    }

    /// Asks which nodes it knows.
    ///
    /// # Errors
    /// When it refuses, is gone, or its reply makes no sense.
    pub fn nodes(&mut self) -> Result<Vec<Line>, Fail> {
        nodes_text::parse(&self.ask(&["CLUSTER", "NODES"])?.text())
    }

    /// Takes over what it says of itself; returns what it says of others.
    ///
    /// # Errors
    /// When it refuses, is gone, or its reply makes no sense.
    pub fn load(&mut self) -> Result<Vec<Line>, Fail> {
        let (own, others): (Vec<Line>, Vec<Line>) = self.nodes()?.into_iter().partition(|line| line.is_myself);
        let Some(own) = own.into_iter().next() else {
            return Err(Fail::new(format!("[ERR] Unable to load info for node {}", self.place())));
        };
        self.bus_port = own.address.as_ref().and_then(|at| at.bus_port).or(self.bus_port);
        self.own = own;
        Ok(others)
    }

    /// Makes it meet another node.
    ///
    /// # Errors
    /// When it refuses or is gone.
    pub fn meet(&mut self, host: &str, port: u16, bus_port: Option<u16>) -> Result<(), Fail> {
        let mut words = vec!["CLUSTER".to_owned(), "MEET".to_owned(), host.to_owned(), port.to_string()];
        words.extend(bus_port.filter(|bus| u32::from(*bus) != u32::from(port) + 10_000).map(|bus| bus.to_string()));
        self.ask(&words).map(drop)
    }

    /// CLUSTER SETSLOT with one more word or two.
    ///
    /// # Errors
    /// When it refuses or is gone.
    pub fn set_slot(&mut self, slot: u16, how: &[&str]) -> Result<(), Fail> {
        let slot = slot.to_string();
        let words = [&["CLUSTER", "SETSLOT", &slot], how].concat();
        self.ask(&words).map(drop)
    }

    /// Makes it the owner of a slot that nobody else claims with a higher epoch: it gets a new epoch.
    ///
    /// # Errors
    /// When it refuses or is gone.
    pub fn claim_slot(&mut self, slot: u16) -> Result<(), Fail> {
        let number = slot.to_string();
        // It may not have the slot, and then refuses to delete it.
        self.call(&["CLUSTER", "DELSLOTS", &number])?;
        self.ask(&["CLUSTER", "ADDSLOTS", &number])?;
        self.set_slot(slot, &["STABLE"])?;
        self.ask(&["CLUSTER", "BUMPEPOCH"])?;
        self.own.slots.insert(slot);
        Ok(())
    }

    /// How many keys of a slot it has.
    ///
    /// # Errors
    /// When it refuses or is gone.
    pub fn count_keys(&mut self, slot: u16) -> Result<u64, Fail> {
        Ok(self.ask(&["CLUSTER", "COUNTKEYSINSLOT", &slot.to_string()])?.count())
    }

    /// How many keys it has.
    ///
    /// # Errors
    /// When it refuses or is gone.
    pub fn size(&mut self) -> Result<u64, Fail> {
        Ok(self.ask(&["DBSIZE"])?.count())
    }

    /// Makes it a replica.
    ///
    /// # Errors
    /// When it refuses or is gone.
    pub fn replicate(&mut self, primary: &str) -> Result<(), Fail> {
        self.ask(&["CLUSTER", "REPLICATE", primary]).map(drop)
    }

    /// Two lines and more for people, each behind `indent` blanks.
    pub fn description(&self, indent: usize) -> String {
        let (blanks, id, place) = (" ".repeat(indent), &self.own.id, self.place());
        let letter = if self.is_replica() { 'S' } else { 'M' };
        let mut text = format!("{blanks}{letter}: {id} {place}\n");
        if !(self.is_planned && self.is_replica()) {
            let slots = if self.own.slots.is_empty() { " ".to_owned() } else { shown(&self.own.slots) + " " };
            text += &format!("{blanks}   slots:{slots}({} slots) {}\n", self.own.slots.len(), self.own.flags.join(","));
        }
        match &self.own.replicates {
            Some(primary) => text += &format!("{blanks}   replicates {primary}\n"),
            None if self.replicas_len > 0 => {
                text += &format!("{blanks}   {} additional replica(s)\n", self.replicas_len);
            }
            None => {}
        }
        text
    }
}
