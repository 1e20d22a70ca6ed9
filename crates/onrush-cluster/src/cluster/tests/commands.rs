//! Texts that clients see, as redis-server 7.0.15 and 8.2.3 reply.

use super::super::actions::{Action, Now};
use super::super::commands::{Bumped, Failover};
use super::Asked;
use super::mesh::Mesh;

const NOBODY: &str = "0123456789abcdef0123456789abcdef01234567";

fn err(text: &str) -> Result<(), String> {
    Err(format!("ERR {text}"))
}

#[test]
fn a_lone_primary_refuses_as_redis_does() {
    let mut mesh = Mesh::new(1);
    let (id, now, asked) = (mesh.id(0).to_string(), Now::default(), Asked::default());
    let node = mesh.at(0);
    for (ip, port, bus) in
        [("foo", 1, None), ("127.0.0.1", 99_999, None), ("127.0.0.1", 0, None), ("127.0.0.1", 60_000, None)]
    {
        assert_eq!(node.meet(ip, port, bus, now), err(&format!("Invalid node address specified: {ip}:{port}")));
    }
    assert_eq!(node.meet("127.0.0.1", 6_000, Some(99_999), now), err("Invalid node address specified: 127.0.0.1:6000"));
    assert_eq!(node.forget("xx", now), err("Unknown node xx"));
    assert_eq!(node.forget(&id, now), err("I tried hard but I can't forget myself..."));
    assert_eq!(node.replicate(NOBODY, now, &asked), err(&format!("Unknown node {NOBODY}")));
    assert_eq!(node.replicate(&id, now, &asked), err("Can't replicate myself"));
    assert_eq!(node.set_slot_migrating(1, NOBODY, now), err("I'm not the owner of hash slot 1"));
    assert_eq!(node.set_slot_importing(1, NOBODY, now), err(&format!("I don't know about node {NOBODY}")));
    assert_eq!(node.set_slot_node(1, NOBODY, now, &asked), err(&format!("Unknown node {NOBODY}")));
    assert_eq!(node.add_slots(&[1, 1], now), err("Slot 1 specified multiple times"));
    assert_eq!(node.add_slots(&[1, 2, 3], now), Ok(()));
    assert_eq!(node.add_slots(&[4, 3], now), err("Slot 3 is already busy"));
    assert_eq!(node.del_slots(&[1, 9], now), err("Slot 9 is already unassigned"));
    assert_eq!(node.del_slots(&[1, 1], now), err("Slot 1 specified multiple times"));
    assert_eq!(node.set_slot_importing(1, &id, now), err("I'm already the owner of hash slot 1"));
    assert_eq!(node.set_slot_migrating(1, &id, now), Ok(()));
    assert_eq!(node.set_slot_stable(1, now), Ok(()));
    let keys = Asked { has_keys: true, keys: 1, ..asked };
    assert_eq!(node.flush_slots(now, &keys), err("DB must be empty to perform CLUSTER FLUSHSLOTS."));
    assert_eq!(node.flush_slots(now, &asked), Ok(()));
    assert_eq!(node.bump_epoch(now), Ok(Bumped::Bumped(1)));
    assert_eq!(node.bump_epoch(now), Ok(Bumped::Still(1)));
    assert_eq!(node.set_config_epoch(-1, now), err("Invalid config epoch specified: -1"));
    assert_eq!(node.set_config_epoch(5, now), err("Node config epoch is already non-zero"));
    assert_eq!(node.failover(Failover::Force, now, &asked), err("You should send CLUSTER FAILOVER to a replica"));
    assert_eq!(node.count_failure_reports(&id, now), Ok(0));
    assert_eq!(node.count_failure_reports(NOBODY, now), Err(format!("ERR Unknown node {NOBODY}")));
    assert_eq!(node.replicas_text(NOBODY), Err(format!("ERR Unknown node {NOBODY}")));
    assert_eq!(node.replicas_text(&id), Ok(Vec::new()));
    assert_eq!(node.reset(false, now, &keys), err("CLUSTER RESET can't be called with master nodes containing keys"));
    node.check_consistency();
}

#[test]
fn a_replica_and_its_primary_refuse_as_redis_does() {
    let mut mesh = Mesh::formed(3, 1);
    let (primary, replica, other) = (mesh.id(0).to_string(), mesh.id(3).to_string(), mesh.id(1).to_string());
    let (now, asked) = (mesh.now(), Asked::default());
    let node = mesh.at(3);
    assert_eq!(node.set_slot_stable(1, now), err("Please use SETSLOT only with masters."));
    assert_eq!(node.set_slot_node(1, &primary, now, &asked), err("Please use SETSLOT only with masters."));
    assert_eq!(node.forget(&primary, now), err("Can't forget my master!"));
    assert_eq!(node.replicas_text(&replica), Err("ERR The specified node is not a master".to_owned()));
    assert_eq!(node.replicas_text(&primary).map(|lines| lines.len()), Ok(1));
    let text = "The user can assign a config epoch only when the node does not know any other node.";
    assert_eq!(node.set_config_epoch(9, now), err(text));
    let node = mesh.at(0);
    assert_eq!(node.replicate(&replica, now, &asked), err("I can only replicate a master, not a replica."));
    let text = "To set a master the node must be empty and without assigned slots.";
    assert_eq!(node.replicate(&other, now, &asked), err(text));
    assert_eq!(node.set_slot_migrating(1, &replica, now), err("Target node is not a master"));
    assert_eq!(node.set_slot_importing(16_000, &replica, now), err("Target node is not a master"));
    assert_eq!(node.set_slot_node(1, &replica, now, &asked), err("Target node is not a master"));
    let keys = Asked { keys: 1, ..asked };
    let text = "Can't assign hashslot 1 to a different node while I still hold keys for this hash slot.";
    assert_eq!(node.set_slot_node(1, &other, now, &keys), err(text));
    mesh.stop(0);
    let text = "Master is down or failed, please use CLUSTER FAILOVER FORCE";
    assert_eq!(mesh.at(3).failover(Failover::Default, now, &asked), err(text));
}

#[test]
fn a_reset_forgets_all_and_a_hard_one_the_name_as_well() {
    let mut mesh = Mesh::formed(3, 1);
    let (id, shard) = (mesh.id(3), mesh.members[3].cluster.my_shard_id());
    let (now, asked) = (mesh.now(), Asked::default());
    mesh.at(3).reset(false, now, &Asked { has_keys: true, ..asked }).unwrap();
    let actions = mesh.at(3).take_actions();
    assert!(actions.contains(&Action::Flush) && actions.contains(&Action::Primary));
    assert_eq!((mesh.id(3), mesh.members[3].cluster.nodes_text().lines().count()), (id, 1));
    assert_ne!(mesh.members[3].cluster.my_shard_id(), shard);
    assert!(mesh.members[3].cluster.current_epoch() > 0);
    mesh.at(3).reset(true, now, &asked).unwrap();
    assert_ne!(mesh.id(3), id);
    assert_eq!((mesh.members[3].cluster.current_epoch(), mesh.members[3].cluster.my_config_epoch()), (0, 0));
    mesh.members[3].cluster.check_consistency();
}

#[test]
fn slots_that_move_as_a_whole_are_the_targets_for_all_and_their_keys_go() {
    let mut mesh = Mesh::formed(3, 1);
    let [source, target] = [0, 1].map(|nth| mesh.id(nth).to_string());
    let (now, asked) = (mesh.now(), Asked::default());
    let slots: Vec<u16> = (0..100).filter(|slot| mesh.owner(0, *slot) == Some(mesh.id(0))).collect();
    assert_eq!(slots.len(), 100);
    assert_eq!(mesh.at(0).check_export(&slots, NOBODY), err(&format!("Unknown node {NOBODY}")));
    assert_eq!(mesh.at(0).check_export(&slots, &source), err("Can't migrate slots to this node itself"));
    assert_eq!(mesh.at(1).check_export(&slots, &source), err("I'm not the owner of hash slot 0"));
    assert!(mesh.at(1).check_import(&slots, &target).is_err() && mesh.at(2).check_import(&slots, &target).is_err());
    assert_eq!(mesh.at(0).check_export(&slots, &target), Ok(()));
    assert_eq!(mesh.at(1).check_import(&slots, &source), Ok(()));
    assert_eq!(mesh.at(1).take_slots(&slots, &source, 100, now, &asked), Ok(()));
    assert_eq!(
        mesh.at(1).take_slots(&slots, &source, 101, now, &asked).map_err(|_| ()),
        Err(()),
        "it has them already"
    );
    mesh.at(0).give_slots(&slots, &target, now, &asked);
    mesh.settle();
    assert!(mesh.took(0, |action| matches!(action, Action::SlotsLost(lost) if lost.len() == 100)));
    (0..4).for_each(|nth| assert_eq!(mesh.owner(nth, 99), Some(mesh.id(1)), "{nth}"));
    (0..4).for_each(|nth| mesh.at(nth).check_consistency());
}

#[test]
fn two_nodes_that_give_each_other_slots_key_by_key_lose_none() {
    for has_replicas in [0, 1] {
        let mut mesh = Mesh::formed(3, 3 * has_replicas);
        let ids = [0, 1, 2].map(|nth| mesh.id(nth).to_string());
        let (now, asked) = (mesh.now(), Asked::default());
        for (slot, from, to) in [(5, 0, 1), (6_000, 1, 0), (6, 0, 1), (6_001, 1, 2)] {
            mesh.at(from).set_slot_migrating(slot, &ids[to], now).unwrap();
            mesh.at(to).set_slot_importing(slot, &ids[from], now).unwrap();
        }
        // Each takes slots over before it hears of what the other has taken.
        for (slot, to) in [(5, 1), (6_000, 0), (6, 1), (6_001, 2)] {
            mesh.at(to).set_slot_node(slot, &ids[to], now, &asked).unwrap();
        }
        mesh.settle();
        mesh.pass(1_000);
        for (slot, from, to) in [(5, 0, 1), (6_000, 1, 0), (6, 0, 1), (6_001, 1, 2)] {
            mesh.at(from).set_slot_node(slot, &ids[to], now, &asked).unwrap();
            mesh.settle();
        }
        mesh.pass(1_000);
        for (slot, to) in [(5, 1), (6_000, 0), (6, 1), (6_001, 2)] {
            let owner = mesh.id(to);
            (0..mesh.members.len()).for_each(|nth| assert_eq!(mesh.owner(nth, slot), Some(owner), "{slot} at {nth}"));
            assert!(
                !mesh.took(to, |action| matches!(action, Action::SlotsLost(lost) if lost.contains(&slot))),
                "{slot}"
            );
            assert!(mesh.members[to].cluster.slots.taken().is_empty());
        }
        // One goes back at once.
        mesh.at(1).set_slot_migrating(5, &ids[0], now).unwrap();
        mesh.at(0).set_slot_importing(5, &ids[1], now).unwrap();
        mesh.at(0).set_slot_node(5, &ids[0], now, &asked).unwrap();
        mesh.at(1).set_slot_node(5, &ids[0], now, &asked).unwrap();
        mesh.settle();
        assert!((0..3).all(|nth| mesh.owner(nth, 5) == Some(mesh.id(0))));
    }
}
