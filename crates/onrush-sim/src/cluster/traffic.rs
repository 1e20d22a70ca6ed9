//! What goes over connections.

use onrush_cluster::cluster::LinkId;

use super::network::{ConnId, Item, Socket};
use super::plan::{ip, node_at};
use super::world::{Broken, Event, World};

impl World {
    /// A node connects to an address.
    pub fn open(&mut self, node: usize, link: LinkId, address: &str) {
        let from = Socket { node, run: self.nodes[node].run, link: Some(link) };
        // Who moved is not there any more: nobody answers.
        let to = node_at(address).filter(|to| *to < self.nodes.len() && ip(*to, self.nodes[*to].moves) == address);
        let Some(to) = to else { return };
        let conn = self.network.open(from, to);
        self.nodes[node].conns.insert(link, (conn, 0));
        let at_ms = self.network.arrival_ms(node, to, self.now_ms, &mut self.random);
        self.at(at_ms, Event::Connect { conn });
    }

    /// A connection arrives.
    pub fn connect(&mut self, id: ConnId) -> Result<(), Broken> {
        let Some(conn) = self.network.conns.get(&id) else { return Ok(()) };
        let [from, to] = conn.sockets;
        let later_ms = self.network.blocked(from.node, to.node, self.now_ms).or_else(|| self.stalled(to.node));
        if let Some(later_ms) = later_ms {
            self.at(later_ms + 1, Event::Connect { conn: id });
            return Ok(());
        }
        let (peer, own) = (ip(from.node, self.nodes[from.node].moves), ip(to.node, self.nodes[to.node].moves));
        let link = self.act(to.node, |cluster, now, _| cluster.accepted(&peer, &own, now))?.flatten();
        let Some(link) = link.filter(|_| self.nodes[to.node].cluster.is_some()) else {
            self.push_to(id, 0, Item::End);
            return Ok(());
        };
        let run = self.nodes[to.node].run;
        self.nodes[to.node].conns.insert(link, (id, 1));
        if let Some(conn) = self.network.conns.get_mut(&id) {
            conn.sockets[1] = Socket { node: to.node, run, link: Some(link) };
        }
        let at_ms = self.network.arrival_ms(to.node, from.node, self.now_ms, &mut self.random);
        self.at(at_ms, Event::Connected { conn: id });
        Ok(())
    }

    /// The node that asked learns of it.
    pub fn connected(&mut self, id: ConnId) -> Result<(), Broken> {
        let Some(conn) = self.network.conns.get(&id) else { return Ok(()) };
        let [from, to] = conn.sockets;
        let later_ms = self.network.blocked(to.node, from.node, self.now_ms).or_else(|| self.stalled(from.node));
        if let Some(later_ms) = later_ms {
            self.at(later_ms + 1, Event::Connected { conn: id });
            return Ok(());
        }
        match from.link.filter(|_| self.is_alive(from)) {
            Some(link) => self.act(from.node, |cluster, now, host| cluster.connected(link, now, host)).map(drop),
            None => {
                self.push_to(id, 1, Item::End);
                Ok(())
            }
        }
    }

    fn is_alive(&self, socket: Socket) -> bool {
        let node = &self.nodes[socket.node];
        node.cluster.is_some() && node.run == socket.run
    }

    /// A node sends something over a link.
    pub fn push(&mut self, node: usize, link: LinkId, item: Item) {
        if let Some((id, end)) = self.nodes[node].conns.get(&link).copied() {
            self.push_to(id, 1 - end, item);
        }
    }

    /// Sends something to an end of a connection.
    fn push_to(&mut self, id: ConnId, end: usize, item: Item) {
        let Some(conn) = self.network.conns.get(&id) else { return };
        let (from, to) = (conn.sockets[1 - end].node, conn.sockets[end].node);
        let at_ms = self.network.arrival_ms(from, to, self.now_ms, &mut self.random);
        if let Some(conn) = self.network.conns.get_mut(&id) {
            let at_ms = at_ms.max(conn.last_ms[end]);
            conn.last_ms[end] = at_ms;
            conn.queues[end].push_back(item);
            self.at(at_ms, Event::Deliver { conn: id, end });
        }
    }

    /// A node closes a link.
    pub fn close(&mut self, node: usize, link: LinkId) {
        self.push(node, link, Item::End);
        if let Some((id, end)) = self.nodes[node].conns.remove(&link)
            && let Some(conn) = self.network.conns.get_mut(&id)
        {
            conn.sockets[end].link = None;
        }
    }

    /// An end is not there any more; without both there is no connection.
    fn hang_up(&mut self, id: ConnId, end: usize) {
        let Some(conn) = self.network.conns.get_mut(&id) else { return };
        conn.sockets[end].link = None;
        if conn.sockets.iter().all(|socket| socket.link.is_none()) {
            self.network.conns.remove(&id);
        }
    }

    /// Breaks a connection at both ends.
    pub fn break_conn(&mut self, id: ConnId) {
        self.push_to(id, 0, Item::End);
        self.push_to(id, 1, Item::End);
    }

    /// What goes first to an end of a connection is there.
    pub fn deliver(&mut self, id: ConnId, end: usize) -> Result<(), Broken> {
        let Some(conn) = self.network.conns.get(&id) else { return Ok(()) };
        let (from, to) = (conn.sockets[1 - end], conn.sockets[end]);
        let later_ms = self.network.blocked(from.node, to.node, self.now_ms).or_else(|| self.stalled(to.node));
        if let Some(later_ms) = later_ms {
            self.at(later_ms + 1, Event::Deliver { conn: id, end });
            return Ok(());
        }
        let item = self.network.conns.get_mut(&id).and_then(|conn| conn.queues[end].pop_front());
        let Some(link) = to.link.filter(|_| self.is_alive(to)) else {
            if matches!(item, Some(Item::Message(_))) && self.nodes[to.node].cluster.is_some() {
                // It runs, but does not have this connection any more.
                self.push_to(id, 1 - end, Item::End);
            }
            return Ok(());
        };
        let Some(item) = item else { return Ok(()) };
        match item {
            Item::Message(message) => {
                self.shown.messages += 1;
                self.mix(to.node, message.body.kind());
                self.act(to.node, |cluster, now, host| cluster.received(link, &message, now, host)).map(drop)
            }
            Item::End => {
                self.nodes[to.node].conns.remove(&link);
                self.hang_up(id, end);
                self.act(to.node, |cluster, now, _| cluster.closed(link, now)).map(drop)
            }
        }
    }
}
