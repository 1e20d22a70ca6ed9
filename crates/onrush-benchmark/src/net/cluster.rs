//! A cluster: its master nodes, the slots each of them serves, and words that hash to them.

use crc::{CRC_16_XMODEM, Crc};

use crate::error::Error;
use crate::load::random::Random;
use crate::net;
use crate::net::target::{Node, Target};
use crate::options::Options;

/// Slots of a cluster.
const SLOTS: u16 = 16_384;
/// The word in keys that a node's tag replaces: as many bytes in braces.
pub const TAG_WORD: &[u8] = b"{tag}";

/// A tag that replaces [`TAG_WORD`].
pub type Tag = [u8; TAG_WORD.len()];

/// A tag whose keys a node serves, a different one each time; `None` if it serves no slot.
pub fn tag(node: &Node, random: &mut Random) -> Option<Tag> {
    const LETTERS: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    if node.slots.is_empty() {
        return None;
    }
    // Even a node with one slot is found after at most a quarter of a million tries: there are 62 * 62 * 62 tags.
    let start = random.below(62 * 62 * 62);
    (0..62 * 62 * 62).find_map(|step| {
        let number = (start + step) % (62 * 62 * 62);
        let letter = |power: u64| LETTERS[(number / power % 62) as usize];
        let tag = [b'{', letter(62 * 62), letter(62), letter(1), b'}'];
        serves(node, slot_of(&tag[1..4])).then_some(tag)
    })
}

/// Whether a node serves a slot.
pub fn serves(node: &Node, slot: u16) -> bool {
    node.slots.iter().any(|&(first, last)| (first..=last).contains(&slot))
}

/// The slot of a tag.
pub fn slot_of_tag(tag: &Tag) -> u16 {
    slot_of(&tag[1..tag.len() - 1])
}

/// The slot of a key, or of the tag in it (CRC-16/XMODEM, as the cluster specification has it).
fn slot_of(tag: &[u8]) -> u16 {
    const CRC: Crc<u16> = Crc::<u16>::new(&CRC_16_XMODEM);
    CRC.checksum(tag) % SLOTS
}

/// Asks a node for all master nodes, in its order.
///
/// # Errors
/// The node cannot be reached, is not in a cluster, or its answer makes no sense.
pub fn masters(options: &Options, place: &Target) -> Result<Vec<Node>, Error> {
    let failed = |error: &str| {
        Error::Refused(format!(
            "Cluster node {place} replied with error:\n{error}\nFailed to fetch cluster configuration from {place}"
        ))
    };
    let mut stream = net::connect(options, place)?;
    let reply = stream.ask(&net::encode(&["CLUSTER", "NODES"]), 1).map_err(|error| failed(&error.to_string()))?;
    let nodes: Vec<Node> = String::from_utf8_lossy(&reply).lines().filter_map(|line| node(line, place)).collect();
    if nodes.is_empty() {
        return Err(failed("no master node serves a slot"));
    }
    Ok(nodes)
}

/// Reads a line of CLUSTER NODES; `None` for a node that is not a master with slots.
fn node(line: &str, asked: &Target) -> Option<Node> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [id, place, flags, _, _, _, _, _, slots @ ..] = words.as_slice() else { return None };
    let is = |wanted: &str| flags.split(',').any(|flag| flag == wanted);
    if !is("master") || is("fail") || is("noaddr") {
        return None;
    }
    let (host, port) = place.split(['@', ',']).next()?.rsplit_once(':')?;
    // A node that no other node has met does not know its own address.
    let host = if host.is_empty() { &asked.host } else { host };
    let range = |text: &&str| {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        Some((first.parse().ok()?, last.parse().ok()?))
    };
    // Slots that are being moved are in brackets; they belong to one of the ranges.
    let slots: Vec<(u16, u16)> = slots.iter().filter(|text| !text.starts_with('[')).filter_map(range).collect();
    let target = Target { host: host.to_owned(), port: port.parse().ok()?, socket: None, ..asked.clone() };
    (!slots.is_empty()).then(|| Node { id: (*id).to_owned(), target, slots })
}

/// The list of nodes as redis-benchmark shows it.
pub fn describe(nodes: &[Node]) -> String {
    let mut out = format!("Cluster has {} master nodes:\n\n", nodes.len());
    for (index, node) in nodes.iter().enumerate() {
        out.push_str(&format!("Master {index}: {} {}\n", node.id, node.target));
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked() -> Target {
        Target::default()
    }

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(slot_of(b"123456789"), 0x31c3);
        assert_eq!(slot_of(b"foo"), 12_182);
    }

    #[test]
    fn masters_with_slots_are_read() {
        let master =
            node("id1 10.0.0.1:7000@17000,host master - 0 0 1 connected 0-99 200 [300->-id2]", &asked()).unwrap();
        assert_eq!((master.target.to_string().as_str(), &master.slots), ("10.0.0.1:7000", &vec![(0, 99), (200, 200)]));
        let own = node("id1 :7000@17000 myself,master - 0 0 1 connected 5", &asked()).unwrap();
        assert_eq!(own.target.to_string(), "127.0.0.1:7000");
        for line in [
            "",
            "id1",
            "id1 h:1@2 slave id2 0 0 1 connected",
            "id1 h:1@2 master - 0 0 1 connected",
            "id1 h:1@2 master,fail - 0 0 1 disconnected 0-5",
            "id1 h master - 0 0 1 connected 0-5",
        ] {
            assert!(node(line, &asked()).is_none(), "{line}");
        }
    }

    #[test]
    fn tags_hash_to_their_node() {
        let one = node("id1 h:1@2 master - 0 0 1 connected 7", &asked()).unwrap();
        let found = tag(&one, &mut Random::new(1)).unwrap();
        assert_eq!(slot_of(&found[1..4]), 7);
        let half = node("id1 h:1@2 master - 0 0 1 connected 0-8191", &asked()).unwrap();
        let mut random = Random::new(2);
        let tags: std::collections::HashSet<Tag> = (0..100).filter_map(|_| tag(&half, &mut random)).collect();
        assert!(tags.len() > 90 && tags.iter().all(|tag| slot_of(&tag[1..4]) < 8192));
    }
}
