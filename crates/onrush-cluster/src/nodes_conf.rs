//! What a node keeps of its cluster in a file (`cluster-config-file`), in the format of redis-server 7.0 to 8.2.
//!
//! Each line but the last is a node, as CLUSTER NODES shows it; the last has the epochs. A file with anything else is
//! refused, since a node that forgets what it has promised may break the cluster.

use std::fmt::{self, Write};
use std::ops::RangeInclusive;

use crate::node::{Address, Flags, NodeId};
use crate::slots::{self, SLOTS, SlotSet, ranges_text};

/// Names of flags, in the order in which they stand.
const FLAG_NAMES: [(Flags, &str); 8] = [
    (Flags::MYSELF, "myself"),
    (Flags::PRIMARY, "master"),
    (Flags::REPLICA, "slave"),
    (Flags::MAYBE_FAILED, "fail?"),
    (Flags::FAILED, "fail"),
    (Flags::HANDSHAKE, "handshake"),
    (Flags::NO_ADDRESS, "noaddr"),
    (Flags::NO_FAILOVER, "nofailover"),
];

/// No flag at all.
const NO_FLAGS: &str = "noflags";

/// The fields behind the host name that redis-server knows.
const FIELD_NAMES: [&str; 4] = ["shard-id", "nodename", "tcp-port", "tls-port"];

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {expected} is expected")]
pub struct ConfError {
    /// The number of the line, from 1 on.
    pub line: usize,
    /// What should be there.
    pub expected: &'static str,
}

/// A slot that moves between this node and another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// The slot.
    pub slot: u16,
    /// Whether it comes from the other node; else it goes there.
    pub comes: bool,
    /// The other node.
    pub other: NodeId,
}

/// What is known of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeLine {
    /// Its name.
    pub id: NodeId,
    /// Where it is reached; the other port stands in a field.
    pub address: Address,
    /// Its host name, if there is a place for one.
    pub hostname: Option<String>,
    /// More of it, in its order: `shard-id`, `nodename`, `tcp-port`, `tls-port`.
    pub fields: Vec<(String, String)>,
    /// What it is.
    pub flags: Flags,
    /// Its primary, if it has one.
    pub primary: Option<NodeId>,
    /// When it was asked without an answer yet, in Unix milliseconds; 0: it has answered.
    pub ping_sent_ms: i64,
    /// When it answered last, in Unix milliseconds; 0: never.
    pub pong_received_ms: i64,
    /// The epoch of its slots.
    pub config_epoch: u64,
    /// Whether there is a link to it.
    pub is_connected: bool,
    /// Its slots.
    pub slots: Vec<RangeInclusive<u16>>,
    /// Slots on their way, which only this node itself has.
    pub moves: Vec<Move>,
}

/// What a file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodesConf {
    /// The nodes.
    pub nodes: Vec<NodeLine>,
    /// The highest epoch that the node has seen.
    pub current_epoch: u64,
    /// The epoch in which it voted last.
    pub last_vote_epoch: u64,
    /// The primary whose place the node has taken, if that one may not have heard of it.
    pub predecessor: Option<NodeId>,
    /// The slots of each node that is a primary no more, as far as it is not known whose they are.
    pub orphaned: Vec<SlotSet>,
    /// Slots that their owners do not claim any more, and nobody else so far.
    pub unclaimed: SlotSet,
}

impl NodesConf {
    /// Reads a file. O(bytes).
    ///
    /// # Errors
    /// It has no line of epochs at its end, or a line is none of a node.
    pub fn parse(text: &str) -> Result<Self, ConfError> {
        let mut nodes = Vec::new();
        let mut found = None;
        // Who wrote it may have been stopped before it was cut to its length, or somebody has edited it.
        let lines = text.trim_end_matches('\0').lines().enumerate();
        for (nth, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
            let wrong = |expected| ConfError { line: nth + 1, expected };
            if found.is_some() {
                return Err(wrong("the end"));
            }
            match line.strip_prefix("vars ") {
                Some(vars) => found = Some(parse_vars(vars).ok_or_else(|| wrong("currentEpoch and lastVoteEpoch"))?),
                None => nodes.push(NodeLine::parse(line).map_err(wrong)?),
            }
        }
        let expected = "vars currentEpoch <number> lastVoteEpoch <number>";
        let found = found.ok_or(ConfError { line: nodes.len() + 1, expected })?;
        Ok(Self { nodes, ..found })
    }
}

fn parse_vars(vars: &str) -> Option<NodesConf> {
    let words: Vec<&str> = vars.split_ascii_whitespace().collect();
    let (pairs, []) = words.as_chunks::<2>() else { return None };
    let value = |wanted| pairs.iter().find_map(|[name, value]| (*name == wanted).then_some(*value));
    Some(NodesConf {
        nodes: Vec::new(),
        current_epoch: value("currentEpoch")?.parse().ok()?,
        last_vote_epoch: value("lastVoteEpoch")?.parse().ok()?,
        predecessor: value(PREDECESSOR).map(str::parse).transpose().ok()?,
        orphaned: value(ORPHANED).map_or(Some(Vec::new()), parse_orphaned)?,
        unclaimed: value(UNCLAIMED).map_or(Some(SlotSet::new()), parse_slots)?,
    })
}

/// Onrush's own; redis-server passes over it.
const PREDECESSOR: &str = "onrushPredecessor";
const ORPHANED: &str = "onrushOrphaned";
const UNCLAIMED: &str = "onrushUnclaimed";

/// `0-99,200-200/300-300`
fn parse_orphaned(word: &str) -> Option<Vec<SlotSet>> {
    word.split('/').map(parse_slots).collect()
}

/// `0-99,200-200`
fn parse_slots(ranges: &str) -> Option<SlotSet> {
    slots::parse_ranges(&ranges.replace(',', " ")).filter(|slots| !slots.is_empty())
}

fn slots_text(slots: &SlotSet) -> String {
    ranges_text(slots).replace(' ', ",")
}

impl fmt::Display for NodesConf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.nodes.iter().try_for_each(|node| writeln!(f, "{node}"))?;
        write!(f, "vars currentEpoch {} lastVoteEpoch {}", self.current_epoch, self.last_vote_epoch)?;
        if let Some(id) = self.predecessor {
            write!(f, " {PREDECESSOR} {id}")?;
        }
        if !self.orphaned.is_empty() {
            let each: Vec<String> = self.orphaned.iter().map(slots_text).collect();
            write!(f, " {ORPHANED} {}", each.join("/"))?;
        }
        if !self.unclaimed.is_empty() {
            write!(f, " {UNCLAIMED} {}", slots_text(&self.unclaimed))?;
        }
        writeln!(f)
    }
}

impl NodeLine {
    fn parse(line: &str) -> Result<Self, &'static str> {
        let mut words = line.split_ascii_whitespace();
        let mut next = |expected| words.next().ok_or(expected);
        let id = next("the name of a node")?.parse().map_err(|_| "the name of a node")?;
        let (address, hostname, fields) = parse_address(next("an address")?).ok_or("an address")?;
        let flags = parse_flags(next("flags")?).ok_or("flags")?;
        let primary = match next("a primary or -")? {
            "-" => None,
            primary => Some(primary.parse().map_err(|_| "a primary or -")?),
        };
        let ping_sent_ms = next("a time")?.parse().map_err(|_| "a time")?;
        let pong_received_ms = next("a time")?.parse().map_err(|_| "a time")?;
        let config_epoch = next("an epoch")?.parse().map_err(|_| "an epoch")?;
        let is_connected = match next("connected or disconnected")? {
            "connected" => true,
            "disconnected" => false,
            _ => return Err("connected or disconnected"),
        };
        let (mut slots, mut moves) = (Vec::new(), Vec::new());
        for word in words {
            match word.strip_prefix('[').and_then(|word| word.strip_suffix(']')) {
                Some(word) => moves.push(parse_move(word).ok_or("a slot that moves")?),
                None => slots.push(parse_range(word).ok_or("slots")?),
            }
        }
        Ok(Self {
            id,
            address,
            hostname,
            fields,
            flags,
            primary,
            ping_sent_ms,
            pong_received_ms,
            config_epoch,
            is_connected,
            slots,
            moves,
        })
    }
}

type Fields = Vec<(String, String)>;

/// `ip:port@bus_port[,hostname[,name=value …]]`
fn parse_address(word: &str) -> Option<(Address, Option<String>, Fields)> {
    let mut parts = word.split(',');
    let (ip, ports) = parts.next()?.rsplit_once(':')?;
    let (port, bus_port) = ports.split_once('@')?;
    let address =
        Address { ip: ip.to_owned(), port: port.parse().ok()?, other_port: 0, bus_port: bus_port.parse().ok()? };
    let hostname = parts.next().map(str::to_owned);
    let field = |part: &str| {
        let (name, value) = part.split_once('=')?;
        FIELD_NAMES.contains(&name).then(|| (name.to_owned(), value.to_owned()))
    };
    let fields = parts.map(field).collect::<Option<_>>()?;
    Some((address, hostname, fields))
}

fn parse_flags(word: &str) -> Option<Flags> {
    if word == NO_FLAGS {
        return Some(Flags::empty());
    }
    let flag = |name| FLAG_NAMES.iter().find(|(_, other)| *other == name).map(|(flag, _)| *flag);
    word.split(',').try_fold(Flags::empty(), |flags, name| Some(flags | flag(name)?))
}

fn parse_slot(word: &str) -> Option<u16> {
    word.parse().ok().filter(|slot| *slot < SLOTS)
}

fn parse_range(word: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    let range = parse_slot(first)?..=parse_slot(last)?;
    (!range.is_empty()).then_some(range)
}

fn parse_move(word: &str) -> Option<Move> {
    let (slot, rest) = word.split_once('-')?;
    let (comes, other) = match rest.split_at_checked(2)? {
        (">-", other) => (false, other),
        ("<-", other) => (true, other),
        _ => return None,
    };
    Some(Move { slot: parse_slot(slot)?, comes, other: other.parse().ok()? })
}

impl fmt::Display for NodeLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Address { ip, port, bus_port, .. } = &self.address;
        write!(f, "{} {ip}:{port}@{bus_port}", self.id)?;
        if let Some(hostname) = &self.hostname {
            write!(f, ",{hostname}")?;
        }
        self.fields.iter().try_for_each(|(name, value)| write!(f, ",{name}={value}"))?;
        f.write_char(' ')?;
        let mut names = FLAG_NAMES.iter().filter(|(flag, _)| self.flags.contains(*flag)).map(|(_, name)| name);
        f.write_str(names.next().unwrap_or(&NO_FLAGS))?;
        names.try_for_each(|name| write!(f, ",{name}"))?;
        write!(
            f,
            " {} {} {} {} {}",
            self.primary.as_ref().map_or("-", NodeId::as_str),
            self.ping_sent_ms,
            self.pong_received_ms,
            self.config_epoch,
            if self.is_connected { "connected" } else { "disconnected" }
        )?;
        for range in &self.slots {
            match (range.start(), range.end()) {
                (first, last) if first == last => write!(f, " {first}")?,
                (first, last) => write!(f, " {first}-{last}")?,
            }
        }
        self.moves.iter().try_for_each(|Move { slot, comes, other }| {
            let arrow = if *comes { "<" } else { ">" };
            write!(f, " [{slot}-{arrow}-{other}]")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    const B: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

    #[test]
    fn files_come_back_as_they_were() {
        let text = format!(
            "{A} 10.0.0.1:7000@17000,a.name,shard-id={B},tls-port=0 myself,master - 0 0 3 connected 0-99 200 [5->-{B}] [7-<-{B}]\n\
             {B} ::1:7001@17001 slave,fail? {A} 1700000000000 1690000000000 3 disconnected\n\
             {A} :0@0,, noflags - 0 0 0 disconnected\n\
             vars currentEpoch 18446744073709551615 lastVoteEpoch 2\n"
        )
        .replace(",, ", ", ");
        let conf = NodesConf::parse(&text).unwrap();
        assert_eq!(conf.to_string(), text);
        let [own, other, nobody] = &conf.nodes[..] else { panic!("{conf:?}") };
        assert_eq!((own.address.port, own.address.bus_port, own.hostname.as_deref()), (7000, 17_000, Some("a.name")));
        assert_eq!((&own.slots[..], own.moves.len()), (&[0..=99, 200..=200][..], 2));
        assert_eq!((own.moves[0].comes, own.moves[1].comes), (false, true));
        assert_eq!((other.address.ip.as_str(), other.flags), ("::1", Flags::REPLICA | Flags::MAYBE_FAILED));
        assert_eq!((nobody.address.ip.as_str(), nobody.hostname.as_deref()), ("", Some("")));
        assert_eq!(conf.last_vote_epoch, 2);
    }

    #[test]
    fn what_variables_of_other_names_say_is_for_others() {
        let line = format!("{A} 10.0.0.1:7000@17000 myself,master - 0 0 3 connected 0-99\n");
        let vars = |more: &str| NodesConf::parse(&format!("{line}vars currentEpoch 9 lastVoteEpoch 7{more}\n"));
        assert_eq!(vars(" other x").unwrap().predecessor, None);
        let conf = vars(&format!(" onrushPredecessor {B}")).unwrap();
        assert_eq!((conf.current_epoch, conf.last_vote_epoch), (9, 7));
        assert_eq!(conf.predecessor.map(|id| id.to_string()).as_deref(), Some(B));
        assert!(conf.to_string().ends_with(&format!("lastVoteEpoch 7 onrushPredecessor {B}\n")));
        assert!(vars(" other").is_err() && vars(" onrushPredecessor x").is_err());
    }

    #[test]
    fn anything_else_is_refused() {
        let line = format!("{A} 10.0.0.1:7000@17000 master - 0 0 3 connected 0-99");
        let vars = "vars currentEpoch 1 lastVoteEpoch 0\n";
        assert!(NodesConf::parse(&format!("{line}\n{vars}")).is_ok());
        for (from, to) in [
            ("aaaa", "aaa"),
            (":7000", ":70000"),
            ("@17000", ""),
            ("@17000", "@17000,host,other=1"),
            ("@17000", "@17000,host,word"),
            ("master", "masters"),
            ("master", "master,"),
            (" - ", " x "),
            (" connected", " linked"),
            ("0-99", "0-16384"),
            ("0-99", "99-0"),
            ("0-99", "[5-*-x]"),
            ("0-99", "[5->-x]"),
            (" 3 connected 0-99", ""),
        ] {
            let text = format!("{}\n{vars}", line.replacen(from, to, 1));
            assert_eq!(NodesConf::parse(&text).map_err(|wrong| wrong.line), Err(1), "{text}");
        }
        let whole = NodesConf::parse(&format!("{line}\n{vars}"));
        for text in [format!("{line}\n\n{vars}\n\n"), format!("\n{line}\n{vars}{}", "\0".repeat(300))] {
            assert_eq!(NodesConf::parse(&text), whole, "{text}");
        }
        for (text, at) in [
            (String::new(), 1),
            (format!("{line}\n"), 2),
            (format!("{line}\nvars currentEpoch 1\n"), 2),
            (format!("{vars}{line}\n"), 2),
            (format!("{line}\n\n{vars}{vars}"), 4),
            (format!("{line}\n{} onrushOrphaned ,\n", vars.trim_end()), 2),
            (format!("{line}\n{} onrushUnclaimed 3-70000\n", vars.trim_end()), 2),
            (format!("{line}\n{} onrushOrphaned 1-2/3-70000\n", vars.trim_end()), 2),
        ] {
            assert_eq!(NodesConf::parse(&text).map_err(|wrong| wrong.line), Err(at), "{text}");
        }
    }
}
