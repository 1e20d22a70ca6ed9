//! Where connections go in a cluster, and how they follow slots that move.
//!
//! Each connection belongs to a node, and its keys carry a tag whose slot that node serves. When a reply says that the
//! slot is elsewhere, the nodes are asked anew; the connection gets another tag of its node or, if that node serves
//! nothing any more, goes to the node that serves the slot now.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::Error;
use crate::load::random::Random;
use crate::load::worker::Place;
use crate::net::cluster::{self, Tag};
use crate::net::proxy;
use crate::net::target::Node;
use crate::options::Options;

/// Commands of so many former tags of a connection may still be under way.
const FORMER_SLOTS_MAX: usize = 16;

/// The cluster, as all threads of a run see it.
pub struct Topology<'a> {
    options: &'a Options,
    state: Mutex<State>,
}

struct State {
    nodes: Vec<Node>,
    /// How often the nodes were asked anew.
    refreshes: u64,
    /// All nodes that there ever were.
    names: Vec<String>,
}

impl<'a> Topology<'a> {
    /// The nodes as they were found before.
    pub fn new(options: &'a Options) -> Topology<'a> {
        let names = options.nodes.iter().map(|node| node.target.to_string()).collect();
        let state = State { nodes: options.nodes.clone(), refreshes: 0, names };
        Topology { options, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often the nodes were asked anew.
    pub fn refreshes(&self) -> u64 {
        self.state().refreshes
    }

    /// All nodes that there ever were, by the numbers that [`Routes::node`] tells.
    pub fn names(&self) -> Vec<String> {
        self.state().names.clone()
    }

    /// Asks the nodes anew, unless that has happened since the time when it had happened `seen` times. Nodes that do
    /// not answer are passed over.
    fn refresh(&self, seen: u64) -> Result<MutexGuard<'_, State>, Error> {
        let mut state = self.state();
        if state.refreshes == seen {
            state.nodes = self.ask_any(&state.nodes)?;
            state.refreshes += 1;
        }
        Ok(state)
    }

    /// What the first node says that answers.
    fn ask_any(&self, known: &[Node]) -> Result<Vec<Node>, Error> {
        let targets = known.iter().map(|node| &node.target);
        let mut answers = targets.map(|target| cluster::masters(self.options, target));
        let answer = answers.find_map(Result::ok);
        answer.map_or_else(|| cluster::masters(self.options, &self.options.target), Ok)
    }
}

impl State {
    fn number(&mut self, name: &str) -> usize {
        let known = self.names.iter().position(|known| known == name);
        known.unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        })
    }
}

/// What a connection does after it has got another tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It goes on.
    Stay,
    /// It connects to another node.
    Reconnect,
}

/// The way of one connection.
struct Route {
    place: Place,
    tag: Tag,
    node: usize,
    seen: u64,
    former: VecDeque<u16>,
}

/// The ways of the connections of one thread.
pub struct Routes<'a> {
    topology: &'a Topology<'a>,
    routes: Vec<Route>,
}

impl<'a> Routes<'a> {
    /// Those of connections that have these places.
    pub fn new(topology: &'a Topology<'a>, places: impl Iterator<Item = Place>) -> Routes<'a> {
        let mut state = topology.state();
        let seen = state.refreshes;
        let route = |place: Place| {
            let node = state.number(&place.node);
            Route { tag: place.tag.unwrap_or_default(), place, node, seen, former: VecDeque::new() }
        };
        let routes = places.map(route).collect();
        drop(state);
        Routes { topology, routes }
    }

    /// Where a connection goes, and what it sends.
    pub fn place(&self, index: usize) -> &Place {
        &self.routes[index].place
    }

    /// The number of its node.
    pub fn node(&self, index: usize) -> usize {
        self.routes[index].node
    }

    /// Takes a reply that sends a connection elsewhere; `None` if it is about a key that carries no tag of ours.
    ///
    /// # Errors
    /// No node tells the cluster's nodes.
    pub fn redirected(&mut self, index: usize, reply: &str, random: &mut Random) -> Result<Option<Next>, Error> {
        let route = &self.routes[index];
        let slot = reply.split(' ').nth(1).and_then(|slot| slot.parse::<u16>().ok());
        if slot.is_some_and(|slot| route.former.contains(&slot)) {
            return Ok(Some(Next::Stay));
        }
        if slot != Some(cluster::slot_of_tag(&route.tag)) {
            return Ok(None);
        }
        self.draw(index, random).map(Some)
    }

    /// Gives a connection another tag, and another node if its own serves nothing any more: the one that serves the
    /// tag's slot now.
    ///
    /// # Errors
    /// No node tells the cluster's nodes.
    pub fn draw(&mut self, index: usize, random: &mut Random) -> Result<Next, Error> {
        let route = &mut self.routes[index];
        let mut state = self.topology.refresh(route.seen)?;
        route.seen = state.refreshes;
        let own = state.nodes.iter().position(|node| node.target.to_string() == route.place.node);
        let slot = cluster::slot_of_tag(&route.tag);
        let successor = || state.nodes.iter().position(|node| cluster::serves(node, slot));
        // While nobody serves the slot, a fail-over may be under way.
        let Some(chosen) = own.or_else(successor) else { return Ok(Next::Stay) };
        let node = state.nodes[chosen].clone();
        route.number_and_tag(&mut state, &node, random)?;
        if own.is_some() {
            return Ok(Next::Stay);
        }
        route.place.target = proxy::reached(self.topology.options, &node.target)?;
        Ok(Next::Reconnect)
    }
}

impl Route {
    fn number_and_tag(&mut self, state: &mut State, node: &Node, random: &mut Random) -> Result<(), Error> {
        let no_slot = || Error::Options("a node serves no slot".into());
        let before = std::mem::replace(&mut self.tag, cluster::tag(node, random).ok_or_else(no_slot)?);
        self.place.commands = self.place.commands.map(|request| request.with_tag(&before, &self.tag));
        self.former.push_back(cluster::slot_of_tag(&before));
        if self.former.len() > FORMER_SLOTS_MAX {
            self.former.pop_front();
        }
        self.former.retain(|slot| *slot != cluster::slot_of_tag(&self.tag));
        self.place.node = node.target.to_string();
        self.node = state.number(&self.place.node);
        Ok(())
    }
}
