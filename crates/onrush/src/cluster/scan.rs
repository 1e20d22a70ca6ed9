//! SCAN through all primaries, one after the other.
//!
//! The cursor says all that is known: which node is at work and with which cursor of its own, which slots are done, and
//! which slots the node had when it began. A slot is done when the same node has had it from the beginning of its scan to
//! the end, and still has it when all others are done. So slots that have moved meanwhile, or whose keys were moving, are
//! scanned again at their new node. Where a node has started again, its part begins anew: the cursor means nothing to the
//! new process.

use std::fmt;
use std::sync::Arc;

use crate::cluster::Inner;
use crate::cluster::node::Node;
use crate::cluster::odd::send_to;
use crate::cluster::place::Place;
use crate::cluster::routes::Table;
use crate::cluster::slot::SLOTS;
use crate::cluster::topology::Addr;
use crate::commands::scan::run_id_of;
use crate::error::{ErrorKind, RedisError, RedisResult};
use crate::values::cmd::Cmd;
use crate::values::value::Value;

/// A cursor through the whole cluster.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
struct Cursor {
    /// Which slots are done, by the node that had them.
    done: Vec<(Addr, SlotSet)>,
    /// The node at work.
    node: Option<Visit>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Visit {
    addr: Addr,
    /// The node's own cursor, and how often its connection had been made again by then.
    cursor: u64,
    reconnects: u64,
    /// What its process calls itself; empty if it does not say.
    run_id: String,
    /// The slots that it had when its scan began.
    had: SlotSet,
}

/// Slots, as ranges in ascending order.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
struct SlotSet(Vec<(u16, u16)>);

impl SlotSet {
    fn of(slots: impl Iterator<Item = u16>) -> SlotSet {
        let mut ranges: Vec<(u16, u16)> = Vec::new();
        for slot in slots {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == slot => *last = slot,
                _ => ranges.push((slot, slot)),
            }
        }
        SlotSet(ranges)
    }

    /// The slots that a node serves.
    fn at(table: &Table, node: u16) -> SlotSet {
        SlotSet::of((0..SLOTS).filter(|slot| table.is_at(*slot, node)))
    }

    /// From text; `None` if it is no text of slots.
    fn parse(text: &str) -> Option<SlotSet> {
        let range = |part: &str| {
            let (first, last) = part.split_once('-')?;
            let (first, last) = (first.parse().ok()?, last.parse().ok()?);
            (first <= last && last < SLOTS).then_some((first, last))
        };
        let ranges: Vec<(u16, u16)> =
            text.split(',').filter(|part| !part.is_empty()).map(range).collect::<Option<_>>()?;
        let is_sorted = ranges.windows(2).all(|pair| pair[0].1 < pair[1].0);
        is_sorted.then_some(SlotSet(ranges))
    }

    fn has(&self, slot: u16) -> bool {
        let at = self.0.partition_point(|(_, last)| *last < slot);
        self.0.get(at).is_some_and(|(first, _)| *first <= slot)
    }

    fn and(&self, other: &SlotSet) -> SlotSet {
        SlotSet::of((0..SLOTS).filter(|slot| self.has(*slot) && other.has(*slot)))
    }

    fn or(&self, other: &SlotSet) -> SlotSet {
        SlotSet::of((0..SLOTS).filter(|slot| self.has(*slot) || other.has(*slot)))
    }
}

impl fmt::Display for SlotSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, (first, last)) in self.0.iter().enumerate() {
            write!(f, "{}{first}-{last}", if nth > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

impl Cursor {
    /// All slots that are done.
    fn all_done(&self) -> SlotSet {
        self.done.iter().fold(SlotSet::default(), |all, (_, slots)| all.or(slots))
    }

    /// From text; `None` if it is no text of a cursor.
    fn parse(text: &str) -> Option<Cursor> {
        if text == "0" {
            return Some(Cursor::default());
        }
        let (cursor, rest) = text.split_once('@')?;
        let (done, node) = rest.split_once('/').map_or((rest, None), |(done, node)| (done, Some(node)));
        let done = done.split(';').filter(|part| !part.is_empty()).map(slots_at).collect::<Option<_>>()?;
        let Some(node) = node else { return Some(Cursor { done, node: None }) };
        let mut parts = cursor.splitn(3, '.');
        let (cursor, reconnects) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let run_id = parts.next()?.to_owned();
        let (addr, had) = slots_at(node)?;
        Some(Cursor { done, node: Some(Visit { addr, cursor, reconnects, run_id, had }) })
    }

    /// Notes slots that are done at a node.
    fn add_done(&mut self, addr: &Addr, slots: SlotSet) {
        match self.done.iter_mut().find(|(known, _)| known == addr) {
            Some((_, known)) => *known = known.or(&slots),
            None => self.done.push((addr.clone(), slots)),
        }
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.node {
            Some(Visit { cursor, reconnects, run_id, .. }) => write!(f, "{cursor}.{reconnects}.{run_id}@")?,
            None => f.write_str("0@")?,
        }
        for (nth, (addr, slots)) in self.done.iter().enumerate() {
            let comma = if nth > 0 { ";" } else { "" };
            write!(f, "{comma}{slots}={}:{}", addr.host, addr.port)?;
        }
        match &self.node {
            Some(Visit { addr, had, .. }) => write!(f, "/{had}={}:{}", addr.host, addr.port),
            None => Ok(()),
        }
    }
}

/// Slots and their node, as `0-5,9-9=host:port`.
fn slots_at(text: &str) -> Option<(Addr, SlotSet)> {
    let (slots, addr) = text.split_once('=')?;
    let (host, port) = addr.rsplit_once(':')?;
    Some((Addr { host: host.to_owned(), port: port.parse().ok()? }, SlotSet::parse(slots)?))
}

impl Inner {
    /// One page of a SCAN.
    pub(crate) async fn scan(&self, cmd: &Cmd) -> RedisResult<Value> {
        let args: Vec<&[u8]> = cmd.args_iter().collect();
        let text = args.get(1).and_then(|cursor| std::str::from_utf8(cursor).ok()).unwrap_or_default();
        let cursor = Cursor::parse(text).ok_or_else(bad_cursor)?;
        let Some((node, mut visit)) = self.visit(&cursor).await? else {
            return Ok(page(None, Value::Array(Vec::new())));
        };
        if visit.reconnects != node.reconnects() {
            self.look_again(&node, &mut visit).await;
        }
        let own = visit.cursor.to_string();
        let forwarded: Vec<&[u8]> =
            [b"SCAN".as_slice(), own.as_bytes()].into_iter().chain(args.iter().skip(2).copied()).collect();
        let (next, items) = parse_page(send_to(&node, &forwarded).await.map_err(|error| self.passing(error))?)?;
        visit.cursor = next;
        let is_same = visit.reconnects == node.reconnects() || self.look_again(&node, &mut visit).await;
        let next = visit.cursor;
        let mut cursor = Cursor { node: Some(visit), ..cursor };
        if next == 0 && is_same {
            self.end_visit(&mut cursor, &node).await?;
        }
        let is_done = cursor.node.is_none() && self.next_slot(&cursor.all_done()).is_none();
        if is_done {
            // The routes are those of just now: the last visit has ended with them.
            self.forget_moved(&mut cursor);
        }
        let is_done = is_done && self.next_slot(&cursor.all_done()).is_none();
        Ok(page(Some(&cursor).filter(|_| !is_done), items))
    }

    /// The node that is at work, or the next one; `None` if all is done.
    async fn visit(&self, cursor: &Cursor) -> RedisResult<Option<(Arc<Node>, Visit)>> {
        if let Some(visit) = &cursor.node {
            let known = self.routes.lock().all();
            if let Some(node) = known.into_iter().find(|node| node.addr == visit.addr) {
                return Ok(Some((node, visit.clone())));
            }
        }
        let Some(slot) = self.next_slot(&cursor.all_done()) else { return Ok(None) };
        let Some(node) = self.routes.lock().node_for(Place::of_slot(slot)) else { return Ok(None) };
        let had = self.slots_now(&node).await?;
        let reconnects = node.reconnects();
        let run_id = run_id(&node).await;
        Ok(Some((node.clone(), Visit { addr: node.addr.clone(), cursor: 0, reconnects, run_id, had })))
    }

    /// Whether a node whose connection was made again is still the same process; otherwise its part begins anew.
    async fn look_again(&self, node: &Node, visit: &mut Visit) -> bool {
        visit.reconnects = node.reconnects();
        let run_id = run_id(node).await;
        let is_same = !run_id.is_empty() && run_id == visit.run_id;
        if !is_same {
            (visit.cursor, visit.run_id) = (0, run_id);
        }
        is_same
    }

    /// The first slot that is served and not done.
    fn next_slot(&self, done: &SlotSet) -> Option<u16> {
        let table = self.routes.lock();
        (0..SLOTS).find(|slot| !done.has(*slot) && table.is_served(*slot))
    }

    async fn end_visit(&self, cursor: &mut Cursor, node: &Node) -> RedisResult<()> {
        let Some(visit) = cursor.node.take() else { return Ok(()) };
        let has = self.slots_now(node).await?;
        cursor.add_done(&visit.addr, visit.had.and(&has));
        Ok(())
    }

    /// Slots that have gone from the node at which they were done are to be scanned where they are.
    fn forget_moved(&self, cursor: &mut Cursor) {
        let table = self.routes.lock();
        let nodes = table.all();
        for (addr, slots) in &mut cursor.done {
            let node = nodes.iter().find(|node| node.addr == *addr);
            *slots = node.map_or_else(SlotSet::default, |node| slots.and(&SlotSet::at(&table, node.number)));
        }
    }

    /// A node that has left ends its part, not the scan: another has its slots.
    fn passing(&self, error: RedisError) -> RedisError {
        if error.kind() != ErrorKind::Closed || self.is_closed() {
            return error;
        }
        let detail = error.detail().unwrap_or("the node has left").to_owned();
        RedisError::new(ErrorKind::Io, detail).with_fate(error.fate())
    }

    /// The slots that a node has, as it says itself.
    async fn slots_now(&self, node: &Node) -> RedisResult<SlotSet> {
        self.learn_from(node).await.map_err(|error| self.passing(error))?;
        Ok(SlotSet::at(&self.routes.lock(), node.number))
    }
}

/// What the process of a node calls itself; empty if it does not say.
async fn run_id(node: &Node) -> String {
    let Ok(Value::BulkString(bytes)) = send_to(node, &[b"INFO", b"server"]).await else { return String::new() };
    let text = String::from_utf8_lossy(&bytes);
    run_id_of(&text).unwrap_or_default().chars().filter(char::is_ascii_hexdigit).collect()
}

fn bad_cursor() -> RedisError {
    RedisError::new(ErrorKind::Client, "that is no cursor of a scan of this cluster")
}

fn parse_page(reply: Value) -> RedisResult<(u64, Value)> {
    let text = |value: &Value| std::str::from_utf8(value.as_bytes()?).ok()?.parse().ok();
    match reply {
        Value::Array(mut parts) if parts.len() == 2 => match (text(&parts[0]), parts.pop()) {
            (Some(cursor), Some(items)) => Ok((cursor, items)),
            _ => Err(RedisError::new(ErrorKind::Parse, "a page of SCAN begins with no cursor")),
        },
        other => Err(other.mismatch("page of a scan")),
    }
}

/// Without a cursor, the last page.
fn page(cursor: Option<&Cursor>, items: Value) -> Value {
    let text = cursor.map_or_else(|| "0".to_owned(), Cursor::to_string);
    Value::Array(vec![Value::BulkString(text.into_bytes()), items])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_cursor_says_what_is_done() {
        let set = |text: &str| SlotSet::parse(text).unwrap();
        assert_eq!(set("0-5,9-9").and(&set("3-20")).to_string(), "3-5,9-9");
        assert_eq!(set("0-5,9-9").or(&set("6-8")).to_string(), "0-9");
        assert!(set("").0.is_empty() && set("16383-16383").has(16383));
        for text in ["5-3", "0-16384", "a-b", "5", "3-4,1-2"] {
            assert!(SlotSet::parse(text).is_none(), "{text}");
        }
        let (one, other) = (Addr { host: "::1".to_owned(), port: 7 }, Addr { host: "here".to_owned(), port: 8 });
        let visit = Visit { addr: one.clone(), cursor: 12, reconnects: 3, run_id: "ab".to_owned(), had: set("6-7") };
        let mut both = Cursor { done: vec![(one.clone(), set("0-5")), (other, set("7-9"))], node: None };
        for cursor in [Cursor { node: Some(visit), ..both.clone() }, both.clone(), Cursor::default()] {
            assert_eq!(Cursor::parse(&cursor.to_string()), Some(cursor));
        }
        both.add_done(&one, set("6-6"));
        assert_eq!(both.all_done(), set("0-9"));
    }

    proptest! {
        #[test]
        fn no_cursor_makes_it_panic(text in "[0-9@/,:;=.-]{0,20}") {
            let _ = Cursor::parse(&text);
        }
    }
}
