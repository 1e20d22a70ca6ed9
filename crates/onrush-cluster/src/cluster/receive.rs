//! Messages that come in.

use super::Cluster;
use super::actions::{Action, Host, LinkId, Now};
use super::nodes::{Ix, MYSELF};
use crate::message::{Body, Extension, Gossip, Greeting, Header, Message, MessageFlags};
use crate::node::{Address, Flags};

/// Epochs above this are lies: nobody gets there by counting.
pub const EPOCH_MAX: u64 = 1 << 62;

/// Whoever has taken the highest epoch that may be taken can still count so often, which nobody does.
const EPOCH_MARGIN: u64 = 1 << 48;

/// No client and no message brings this node to a higher epoch at once. From here on a message moves its epoch by one at
/// most, as counting does. So [`EPOCH_MAX`], which other nodes and the file of nodes refuse to pass, is out of reach; and a
/// node that has counted on from here is understood by the others after a few of its messages.
pub const EPOCH_TAKEN_MAX: u64 = EPOCH_MAX - EPOCH_MARGIN;

/// A greeting's parts.
struct Greeted<'a> {
    greeting: Greeting,
    gossip: &'a [Gossip],
    extensions: &'a [Extension],
}

impl Cluster {
    /// A message has come. O(entries of its gossip), and O(slots) only if it changes some.
    pub fn received(&mut self, link: LinkId, message: &Message, now: Now, host: &dyn Host) {
        self.begin_with(now, host);
        if let Some(at) = self.links.get_mut(link) {
            let kind = message.body.kind();
            self.stats.received.add(kind, 1);
            if self.loses == Some(kind) {
                self.debug(format!("A message of type {kind} is lost, as DEBUG DROP-CLUSTER-PACKET-FILTER asks for"));
            } else {
                at.data_received_ms = self.now.mono_ms;
                self.hear(link, message);
            }
        }
        self.end(Some(host));
    }

    /// DEBUG DROP-CLUSTER-PACKET-FILTER: messages of this type that come are lost from now on; none with a number that is no
    /// type.
    pub fn lose_messages(&mut self, kind: i64) {
        self.loses = u16::try_from(kind).ok();
    }

    fn hear(&mut self, link: LinkId, Message { header, body }: &Message) {
        if header.current_epoch > EPOCH_MAX || header.config_epoch > EPOCH_MAX {
            self.warning(format!("Node {} tells an epoch that nobody can have reached.", header.sender));
            return;
        }
        let sender = self.sender(link, header);
        if sender == Some(MYSELF) {
            return self.hear_myself(link, body);
        }
        if let Some(ix) = sender {
            self.hear_header(link, ix, header);
        }
        match (body, sender) {
            (Body::Greeting { greeting, gossip, extensions }, _) => {
                self.hear_greeting(link, sender, header, &Greeted { greeting: *greeting, gossip, extensions });
            }
            (body, Some(sender)) if self.has_reached(header) => self.hear_body(sender, header, body),
            _ => {}
        }
    }

    /// The sender, if it is a known node that may be at this link's other end.
    fn sender(&self, link: LinkId, header: &Header) -> Option<Ix> {
        let ix = self.find(header.sender).filter(|ix| !self.nodes[*ix].has(Flags::HANDSHAKE))?;
        match self.links.get(link)? {
            link if link.is_outgoing && ix != MYSELF => link.node.filter(|other| *other == ix),
            _ => Some(ix),
        }
    }

    /// This node has connected to itself, as it was asked to meet its own address.
    fn hear_myself(&mut self, link: LinkId, body: &Body) {
        let Body::Greeting { greeting, .. } = body else { return };
        match self.links.get(link) {
            Some(at) if !at.is_outgoing && *greeting != Greeting::Pong => self.greet_over(link, None, Greeting::Pong),
            Some(at) if at.is_outgoing => {
                if let Some(ix) = at.node.filter(|ix| self.nodes[*ix].has(Flags::HANDSHAKE)) {
                    self.remove_node(ix);
                }
            }
            _ => {}
        }
    }

    fn hear_body(&mut self, sender: Ix, header: &Header, body: &Body) {
        match body {
            Body::Greeting { .. } | Body::Module { .. } => {}
            Body::Fail(id) => self.hear_fail(sender, *id),
            Body::Publish { is_sharded, channel, message } => {
                let (channel, message, is_sharded) = (channel.clone(), message.clone(), *is_sharded);
                self.queue.push(Action::Publish { channel, message, is_sharded });
            }
            Body::AuthRequest => self.hear_request(sender, header),
            Body::AuthAck => self.hear_vote(sender, header),
            Body::Update { config_epoch, id, slots } => self.hear_update(*id, *config_epoch, slots),
            Body::ManualFailover => self.hear_manual_failover(sender),
        }
    }

    /// What each message tells of its sender.
    fn hear_header(&mut self, link: LinkId, ix: Ix, header: &Header) {
        self.note_inbound(link, ix);
        self.approach(header.current_epoch.max(header.config_epoch));
        let has_reached = self.has_reached(header);
        let now_ms = self.now.mono_ms;
        let node = &mut self.nodes[ix];
        node.data_received_ms = now_ms;
        node.offset = header.offset;
        if header.message_flags.contains(MessageFlags::EXTENSIONS) {
            node.flags.insert(Flags::EXTENSIONS);
        }
        // A replica tells its primary's epoch, which is not its own.
        if has_reached && header.primary.is_none() && header.config_epoch > node.config_epoch {
            node.config_epoch = header.config_epoch;
            self.save(true);
            self.state.must_update = true;
        }
        self.hear_paused_offset(ix, header);
        self.hear_predecessor(header);
    }

    fn hear_greeting(&mut self, link: LinkId, sender: Option<Ix>, header: &Header, greeted: &Greeted<'_>) {
        let is_question = greeted.greeting != Greeting::Pong;
        if is_question {
            self.learn_own_ip(link, greeted.greeting);
            if sender.is_none() && greeted.greeting == Greeting::Meet {
                self.hear_meet(link, header);
            }
        }
        let sender = self.check_link(link, sender, header, is_question);
        if !is_question && sender.is_some() {
            self.note_pong(link);
        }
        if is_question && self.links.get(link).is_some() {
            self.greet_over(link, sender, Greeting::Pong);
        }
        let Some(ix) = sender else { return };
        if self.has_reached(header) {
            self.hear_sender(link, ix, header, greeted);
        }
    }

    /// Sees to it that the other end of a link is who it should be. Returns the sender, if it is known.
    fn check_link(&mut self, link: LinkId, sender: Option<Ix>, header: &Header, is_question: bool) -> Option<Ix> {
        let at = self.links.get(link)?;
        if !at.is_outgoing {
            if is_question && let Some(ix) = sender {
                self.update_address(ix, self.told_address(link, header));
            }
            return sender;
        }
        let ix = at.node?;
        if self.nodes[ix].has(Flags::HANDSHAKE) {
            let ended = self.end_handshake(link, ix, header)?;
            self.hear_header(link, ended, header);
            return Some(ended);
        }
        if sender.is_none() {
            self.lose_address(ix);
        }
        sender
    }

    /// Another node is where this one should be.
    fn lose_address(&mut self, ix: Ix) {
        let label = self.nodes[ix].label();
        self.debug(format!("PONG contains mismatching sender ID. About node {label}"));
        self.close_link_to(ix);
        let node = &mut self.nodes[ix];
        node.flags.insert(Flags::NO_ADDRESS);
        node.address = Address::default();
        self.changed_for_clients();
    }

    /// This node is reached under the address that others ask it in with.
    fn learn_own_ip(&mut self, link: LinkId, greeting: Greeting) {
        let known = &self.nodes[MYSELF].address.ip;
        if !self.options.announce_ip.is_empty() || (greeting != Greeting::Meet && !known.is_empty()) {
            return;
        }
        let Some(ip) = self.links.get(link).map(|link| link.local_ip.clone()) else { return };
        if !ip.is_empty() && ip != *known {
            self.notice(format!("IP address for this node updated to {ip}"));
            self.nodes[MYSELF].address.ip = ip;
            self.save(false);
            self.routes_changed();
        }
    }

    /// What a known node tells of itself and others.
    fn hear_sender(&mut self, link: LinkId, ix: Ix, header: &Header, greeted: &Greeted<'_>) {
        let takes_over = header.flags.contains(Flags::NO_FAILOVER);
        self.nodes[ix].flags.set(Flags::NO_FAILOVER, takes_over);
        if greeted.greeting == Greeting::Pong && self.nodes[ix].link == Some(link) {
            self.hear_answer(ix);
        }
        self.hear_role(ix, header);
        self.hear_slots(ix, header);
        self.hear_gossip(ix, greeted.gossip);
        if self.nodes.get(ix).is_some_and(|node| node.id == header.sender) {
            self.hear_extensions(ix, greeted.extensions);
        }
    }

    fn hear_answer(&mut self, ix: Ix) {
        let now_ms = self.now.mono_ms;
        let node = &mut self.nodes[ix];
        node.pong_received_ms = Some(now_ms);
        node.ping_sent_ms = None;
        if node.has(Flags::MAYBE_FAILED) {
            node.flags.remove(Flags::MAYBE_FAILED);
            self.changed();
        } else if node.has(Flags::FAILED) {
            self.clear_failure(ix);
        }
    }
}
