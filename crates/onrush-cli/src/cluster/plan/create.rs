//! Who of the nodes of a new cluster is a primary, of which slots, and who replicates whom.

use super::super::slots::SLOTS;

/// A cluster has at least so many primaries.
pub const PRIMARIES_MIN: usize = 3;
/// How many exchanges of primaries are tried for each node.
const TRIES_PER_NODE: usize = 500;
/// What a replica on its primary's host costs; two replicas of one primary on one host cost one each.
const SHARED_WITH_PRIMARY: usize = 10_000;

/// A primary and its slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Its place in the list of nodes.
    pub node: usize,
    /// Its first slot.
    pub first: u16,
    /// Its last slot.
    pub last: u16,
}

/// A replica and its primary, by their places in the list of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The replica.
    pub replica: usize,
    /// Its primary.
    pub primary: usize,
}

/// The roles of all nodes.
#[derive(Debug)]
pub struct Roles {
    /// The primaries in the order of their slots.
    pub primaries: Vec<Share>,
    /// The replicas in the order in which they were assigned.
    pub pairs: Vec<Pair>,
    /// How many of them were asked for; the others are left over.
    pub wanted_len: usize,
}

/// How well replicas are apart from their primaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Apart {
    /// They were so from the start.
    Already,
    /// They are, after exchanges.
    Perfectly,
    /// Replicas of one primary share a host.
    NotFromEachOther,
    /// Replicas share their primary's host.
    NotFromPrimaries,
}

/// How many primaries so many nodes make.
pub fn primaries_len(nodes: usize, replicas: usize) -> usize {
    nodes / replicas.saturating_add(1)
}

/// Assigns roles to nodes on these hosts, so that primaries are on different hosts as far as possible, and each replica
/// on another host than its primary.
pub fn roles(hosts: &[&str], replicas: usize) -> Roles {
    let order = interleaved(hosts);
    let count = primaries_len(hosts.len(), replicas);
    let (primaries, rest) = order.split_at(count);
    let mut free = rest.to_vec();
    if !free.is_empty() {
        // The first one often has the host of the last primary.
        free.rotate_left(1);
    }
    let mut pairs = Vec::new();
    for primary in primaries {
        (0..replicas).for_each(|_| pairs.extend(take(hosts, &mut free, *primary)));
    }
    let wanted_len = pairs.len();
    while !free.is_empty() && count > 0 {
        primaries.iter().for_each(|primary| pairs.extend(take(hosts, &mut free, *primary)));
    }
    Roles { primaries: shares(primaries), pairs, wanted_len }
}

/// A free node for a primary, on another host if there is one.
fn take(hosts: &[&str], free: &mut Vec<usize>, primary: usize) -> Option<Pair> {
    let at = free.iter().position(|node| hosts[*node] != hosts[primary]).unwrap_or(0);
    (at < free.len()).then(|| Pair { replica: free.remove(at), primary })
}

/// The nodes, one of each host in turns.
fn interleaved(hosts: &[&str]) -> Vec<usize> {
    let mut groups: Vec<(&str, Vec<usize>)> = Vec::new();
    for (node, host) in hosts.iter().enumerate() {
        match groups.iter_mut().find(|(known, _)| known == host) {
            Some((_, nodes)) => nodes.push(node),
            None => groups.push((host, vec![node])),
        }
    }
    let longest = groups.iter().map(|(_, nodes)| nodes.len()).max().unwrap_or(0);
    (0..longest).flat_map(|turn| groups.iter().filter_map(move |(_, nodes)| nodes.get(turn).copied())).collect()
}

fn shares(primaries: &[usize]) -> Vec<Share> {
    let size = f32::from(SLOTS) / primaries.len() as f32;
    let (mut first, mut cursor) = (0, 0.0);
    let mut shares = Vec::new();
    for (place, node) in primaries.iter().enumerate() {
        let end = (cursor + size - 1.0_f32).round() as u16;
        let last = if place + 1 == primaries.len() { SLOTS - 1 } else { end.clamp(first, SLOTS - 1) };
        shares.push(Share { node: *node, first, last });
        (first, cursor) = (last + 1, cursor + size);
    }
    shares
}

/// Exchanges the primaries of replicas until no two nodes of one shard share a host, or that does not get better.
pub fn set_apart(hosts: &[&str], pairs: &mut [Pair]) -> Apart {
    let mut least = cost(hosts, pairs);
    if least == 0 {
        return Apart::Already;
    }
    let mut tried = pairs.to_vec();
    let mut now = least;
    let mut random = Sequence(0x9e37_79b9_7f4a_7c15);
    for _ in 0..TRIES_PER_NODE * hosts.len() {
        let (one, other) = (random.below(tried.len()), random.below(tried.len()));
        exchange(&mut tried, one, other);
        let cost = cost(hosts, &tried);
        if cost > now {
            exchange(&mut tried, one, other);
            continue;
        }
        now = cost;
        if now < least {
            pairs.copy_from_slice(&tried);
            least = now;
        }
        if least == 0 {
            return Apart::Perfectly;
        }
    }
    if least >= SHARED_WITH_PRIMARY { Apart::NotFromPrimaries } else { Apart::NotFromEachOther }
}

fn exchange(pairs: &mut [Pair], one: usize, other: usize) {
    (pairs[one].primary, pairs[other].primary) = (pairs[other].primary, pairs[one].primary);
}

/// What it costs that nodes of one shard share hosts. O(n log n).
fn cost(hosts: &[&str], pairs: &[Pair]) -> usize {
    let mut places: Vec<(usize, &str)> = pairs.iter().map(|pair| (pair.primary, hosts[pair.replica])).collect();
    places.sort_unstable();
    let groups = places.chunk_by(|one, next| one == next);
    let of_group = |group: &[(usize, &str)]| {
        let (primary, host) = group[0];
        match group.len() {
            len if hosts[primary] == host => SHARED_WITH_PRIMARY * len,
            1 => 0,
            len => len,
        }
    };
    groups.map(of_group).sum()
}

/// Numbers that look random and are the same each time (xorshift).
struct Sequence(u64);

impl Sequence {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end.max(1) as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_shared_evenly_and_none_is_left_out() {
        let three = roles(&["h"; 3], 0).primaries;
        let ranges: Vec<_> = three.iter().map(|share| (share.first, share.last)).collect();
        assert_eq!(ranges, [(0, 5_460), (5_461, 10_922), (10_923, 16_383)]);
        for count in 3..300 {
            let shares = roles(&vec!["h"; count], 0).primaries;
            assert_eq!((shares[0].first, shares[count - 1].last), (0, 16_383));
            assert!(shares.windows(2).all(|pair| pair[0].last + 1 == pair[1].first), "{count}");
            let sizes = shares.iter().map(|share| share.last - share.first + 1);
            assert!(sizes.clone().max().unwrap() - sizes.min().unwrap() <= 1, "{count}");
        }
    }

    #[test]
    fn on_one_host_replicas_are_dealt_in_order() {
        let roles = roles(&["h"; 6], 1);
        let pairs: Vec<_> = roles.pairs.iter().map(|pair| (pair.replica, pair.primary)).collect();
        assert_eq!(pairs, [(4, 0), (5, 1), (3, 2)]);
        let mut pairs = roles.pairs.clone();
        assert_eq!(set_apart(&["h"; 6], &mut pairs), Apart::NotFromPrimaries);
        assert_eq!(pairs, roles.pairs);
    }

    #[test]
    fn replicas_are_on_other_hosts_than_their_primaries() {
        let hosts = ["a", "a", "b", "b", "c", "c"];
        let Roles { primaries, mut pairs, .. } = roles(&hosts, 1);
        let mut primary_hosts: Vec<_> = primaries.iter().map(|share| hosts[share.node]).collect();
        primary_hosts.sort_unstable();
        assert_eq!(primary_hosts, ["a", "b", "c"]);
        assert!(matches!(set_apart(&hosts, &mut pairs), Apart::Already | Apart::Perfectly));
        assert!(pairs.iter().all(|pair| hosts[pair.replica] != hosts[pair.primary]));
    }

    #[test]
    fn two_hosts_with_all_primaries_on_one_are_sorted_out() {
        let hosts = ["a", "a", "a", "b", "b", "b", "b", "b", "b"];
        let mut pairs: Vec<Pair> = [(3, 0), (4, 0), (5, 1), (6, 1), (7, 2), (8, 2)]
            .map(|(replica, primary)| Pair { replica, primary })
            .to_vec();
        assert_eq!(set_apart(&hosts, &mut pairs), Apart::NotFromEachOther);
        let mut swapped = vec![Pair { replica: 1, primary: 0 }, Pair { replica: 3, primary: 4 }];
        assert_eq!(set_apart(&["a", "a", "b", "b", "b"], &mut swapped), Apart::Perfectly);
        assert_eq!(swapped, [Pair { replica: 1, primary: 4 }, Pair { replica: 3, primary: 0 }]);
    }

    #[test]
    fn nodes_left_over_become_replicas_too() {
        let roles = roles(&["h"; 8], 1);
        assert_eq!((roles.primaries.len(), roles.pairs.len(), roles.wanted_len), (4, 4, 4));
        let roles = super::roles(&["h"; 7], 1);
        assert_eq!((roles.primaries.len(), roles.pairs.len(), roles.wanted_len), (3, 4, 3));
        assert_eq!(primaries_len(5, 1), 2);
        assert_eq!(primaries_len(5, usize::MAX), 0);
    }
}
