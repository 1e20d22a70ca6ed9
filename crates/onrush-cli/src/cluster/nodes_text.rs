//! The reply to CLUSTER NODES.

use super::address::Address;
use super::slots::{SLOTS, SlotSet, shown};
use crate::fail::Fail;

/// A slot that is on its way: `[12->-id]` or `[12-<-id]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenSlot {
    /// The slot.
    pub slot: u16,
    /// The id of the node that it goes to or comes from.
    pub peer: String,
}

/// One node, as another one or itself describes it.
#[derive(Default)]
pub struct Line {
    /// Its id.
    pub id: String,
    /// Where it is; its host is empty if the node does not know it yet, and there is none if it has no address.
    pub address: Option<Address>,
    /// Its flags but `myself`.
    pub flags: Vec<String>,
    /// Whether it is the node that was asked.
    pub is_myself: bool,
    /// The id of its primary.
    pub replicates: Option<String>,
    /// Its configuration epoch.
    pub epoch: u64,
    /// Whether the bus has a link to it.
    pub is_linked: bool,
    /// The slots that it serves.
    pub slots: SlotSet,
    /// Slots that go to another node.
    pub migrating: Vec<OpenSlot>,
    /// Slots that come from another node.
    pub importing: Vec<OpenSlot>,
}

impl Line {
    /// Whether it has the flag.
    pub fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|own| own == flag)
    }

    /// Whether nobody can talk to it for now.
    pub fn is_gone(&self) -> bool {
        self.address.is_none() || self.has("noaddr") || self.has("fail") || !self.is_linked
    }
}

/// Reads all lines.
///
/// # Errors
/// When one of them is no node.
pub fn parse(text: &str) -> Result<Vec<Line>, Fail> {
    let lines = text.lines().filter(|line| !line.is_empty());
    lines.map(|line| parse_line(line).ok_or_else(|| Fail::new("Error: invalid CLUSTER NODES reply"))).collect()
}

fn parse_line(line: &str) -> Option<Line> {
    let mut words = line.split(' ');
    let (id, place, flags, replicates) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let (_ping, _pong, epoch, link) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let mut node = Line {
        id: id.to_owned(),
        address: address(place),
        flags: flags.split(',').filter(|flag| *flag != "myself").map(str::to_owned).collect(),
        is_myself: flags.split(',').any(|flag| flag == "myself"),
        replicates: Some(replicates).filter(|id| *id != "-").map(str::to_owned),
        epoch: epoch.parse().ok()?,
        is_linked: link == "connected",
        ..Line::default()
    };
    words.filter(|word| !word.is_empty()).try_for_each(|word| slots(&mut node, word))?;
    Some(node)
}

/// `ip:port@bus-port[,host name]`, where the address may be empty.
fn address(place: &str) -> Option<Address> {
    let place = place.split(',').next()?;
    let known = Address::parse(place);
    known.or_else(|| Address::parse(&format!("unknown{place}")).map(|at| Address { host: String::new(), ..at }))
}

fn slots(node: &mut Line, word: &str) -> Option<()> {
    let slot = |text: &str| text.parse().ok().filter(|slot: &u16| *slot < SLOTS);
    if let Some(open) = word.strip_prefix('[').and_then(|word| word.strip_suffix(']')) {
        let (list, (number, peer)) = match open.split_once("->-") {
            Some(parts) => (&mut node.migrating, parts),
            None => (&mut node.importing, open.split_once("-<-")?),
        };
        list.push(OpenSlot { slot: slot(number)?, peer: peer.to_owned() });
        return Some(());
    }
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    node.slots.extend(slot(first)?..=slot(last)?);
    Some(())
}

/// What nodes have to agree about: who serves which slots.
pub fn signature(nodes: &[Line]) -> String {
    let mut parts: Vec<String> = nodes
        .iter()
        .filter(|node| !node.slots.is_empty())
        .map(|node| format!("{}:{}", node.id, shown(&node.slots)))
        .collect();
    parts.sort_unstable();
    parts.join("|")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
        aa 127.0.0.1:7000@17000 myself,master - 0 0 1 connected 0-5 7 [8->-bb] [9-<-bb]\n\
        bb 10.0.0.2:7001@17001,host.name master - 0 5 2 connected 8-9\n\
        cc :7002@17002 slave aa 0 5 1 disconnected\n\
        dd :0@0 slave,noaddr aa 0 5 1 disconnected\n";

    #[test]
    fn a_line_tells_a_node_and_its_slots() {
        let nodes = parse(TEXT).unwrap();
        let first = &nodes[0];
        assert!(first.is_myself && first.flags == ["master"] && first.replicates.is_none() && first.epoch == 1);
        assert_eq!(shown(&first.slots), "[0-5],[7]");
        assert_eq!(first.migrating, [OpenSlot { slot: 8, peer: "bb".into() }]);
        assert_eq!(first.importing, [OpenSlot { slot: 9, peer: "bb".into() }]);
        assert_eq!(nodes[1].address, Address::parse("10.0.0.2:7001@17001"));
        assert_eq!(nodes[2].address.as_ref().map(|at| (at.host.as_str(), at.port)), Some(("", 7002)));
        assert_eq!(nodes.iter().map(Line::is_gone).collect::<Vec<_>>(), [false, false, true, true]);
        assert_eq!(nodes[2].replicates.as_deref(), Some("aa"));
    }

    #[test]
    fn what_is_no_node_is_an_error() {
        for text in ["aa", "aa h:1 master - 0 0 x connected", "aa h:1@2 master - 0 0 1 connected 0-99999", "x y z"] {
            assert!(parse(text).is_err(), "{text}");
        }
        let open = "aa h:1@2 master - 0 0 1 connected [5]";
        assert!(parse(open).is_err());
    }

    #[test]
    fn nodes_agree_whatever_their_order_and_open_slots() {
        let one = "aa h:1@2 master - 0 0 1 connected 0-5\nbb h:3@4 master - 0 0 1 connected 6-9\n";
        let two = "bb h:3@4 myself,master - 0 0 1 connected 6-9 [6->-aa]\naa h:1@2 master - 0 0 1 connected 0-5\n";
        let sign = |text: &str| signature(&parse(text).unwrap());
        assert_eq!(sign(one), sign(two));
        assert_ne!(sign(one), sign(TEXT));
    }
}
