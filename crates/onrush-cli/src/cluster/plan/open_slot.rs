//! How a slot that is open, since moving it was interrupted, is closed again.

/// What nodes say of a slot that is open. Nodes are told by their places in the list of nodes.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The node that serves it.
    pub owner: Option<usize>,
    /// The nodes that say it goes to another one, with that one.
    pub migrating: Vec<(usize, Option<usize>)>,
    /// The nodes that say it comes from another one, or have keys of it without being its owner.
    pub importing: Vec<usize>,
    /// How many keys of it each of these nodes has.
    pub keys: Vec<(usize, u64)>,
}

impl Facts {
    /// How many keys a node has.
    fn keys_of(&self, node: usize) -> u64 {
        self.keys.iter().find(|(other, _)| *other == node).map_or(0, |(_, keys)| *keys)
    }
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Repair {
    /// Finish moving it.
    Finish {
        /// From here.
        from: usize,
        /// To here.
        to: usize,
        /// These only think that they get it.
        close: Vec<usize>,
    },
    /// Move what keys there are to the owner.
    Gather {
        /// The owner.
        owner: usize,
        /// Who may have keys.
        from: Vec<usize>,
    },
    /// Forget on these nodes that it was to move.
    Close {
        /// These.
        nodes: Vec<usize>,
        /// Whether some of them thought that they get it.
        has_importing: bool,
    },
    /// There is no way that loses nothing.
    Impossible,
}

/// Decides. The owner has to be known.
pub fn decide(facts: &Facts) -> Repair {
    match (facts.migrating.as_slice(), facts.importing.as_slice()) {
        ([(from, _)], [to]) => Repair::Finish { from: *from, to: *to, close: Vec::new() },
        ([], [_, ..]) => match facts.owner {
            Some(owner) => Repair::Gather { owner, from: others(&facts.importing, owner) },
            None => Repair::Impossible,
        },
        ([(from, target)], [_, _, ..]) => one_of_several(facts, *from, *target),
        ([(node, _)], []) if facts.owner == Some(*node) || facts.keys_of(*node) == 0 => {
            Repair::Close { nodes: vec![*node], has_importing: false }
        }
        _ => Repair::Impossible,
    }
}

/// These nodes but for one.
pub fn others(nodes: &[usize], but: usize) -> Vec<usize> {
    nodes.iter().copied().filter(|node| *node != but).collect()
}

/// Several nodes say that they get it; the one that the owner names does. The others must have no key of it.
fn one_of_several(facts: &Facts, from: usize, target: Option<usize>) -> Repair {
    let target = target.filter(|target| facts.importing.contains(target));
    let bystanders = target.map_or_else(|| facts.importing.clone(), |target| others(&facts.importing, target));
    if bystanders.iter().any(|node| facts.keys_of(*node) > 0) {
        return Repair::Impossible;
    }
    match target {
        Some(to) => Repair::Finish { from, to, close: bystanders },
        None => {
            let nodes = std::iter::once(from).chain(bystanders).collect();
            Repair::Close { nodes, has_importing: true }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(owner: usize, migrating: &[(usize, usize)], importing: &[usize], keys: &[(usize, u64)]) -> Facts {
        Facts {
            owner: Some(owner),
            migrating: migrating.iter().map(|(from, to)| (*from, Some(*to))).collect(),
            importing: importing.to_vec(),
            keys: keys.to_vec(),
        }
    }

    #[test]
    fn a_move_that_both_sides_know_is_finished() {
        assert_eq!(decide(&facts(0, &[(0, 1)], &[1], &[])), Repair::Finish { from: 0, to: 1, close: vec![] });
    }

    #[test]
    fn keys_that_stand_elsewhere_come_to_the_owner() {
        assert_eq!(decide(&facts(0, &[], &[1, 2, 0], &[(1, 5)])), Repair::Gather { owner: 0, from: vec![1, 2] });
        let unowned = Facts { owner: None, ..facts(0, &[], &[1], &[]) };
        assert_eq!(decide(&unowned), Repair::Impossible);
    }

    #[test]
    fn of_several_takers_the_one_that_is_named_gets_it() {
        assert_eq!(decide(&facts(0, &[(0, 2)], &[1, 2], &[])), Repair::Finish { from: 0, to: 2, close: vec![1] });
        assert_eq!(
            decide(&facts(0, &[(0, 3)], &[1, 2], &[])),
            Repair::Close { nodes: vec![0, 1, 2], has_importing: true }
        );
        assert_eq!(decide(&facts(0, &[(0, 2)], &[1, 2], &[(1, 1)])), Repair::Impossible);
    }

    #[test]
    fn a_move_that_nobody_takes_is_called_off_unless_keys_would_be_lost() {
        let closed = Repair::Close { nodes: vec![0], has_importing: false };
        assert_eq!(decide(&facts(0, &[(0, 1)], &[], &[(0, 9)])), closed);
        assert_eq!(decide(&facts(1, &[(0, 1)], &[], &[])), closed);
        assert_eq!(decide(&facts(1, &[(0, 1)], &[], &[(0, 9)])), Repair::Impossible);
        assert_eq!(decide(&facts(0, &[(0, 1), (1, 0)], &[], &[])), Repair::Impossible);
    }
}
