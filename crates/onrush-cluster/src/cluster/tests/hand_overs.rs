//! Slots that are handed over as a whole: who may, who keeps them, and what others are told.

use super::super::Cluster;
use super::super::actions::Action;
use super::super::whole_slots::epoch_in;
use super::Asked;
use super::mesh::{Mesh, options};
use crate::message::{Body, Greeting, Message};
use crate::nodes_conf::NodesConf;

/// Whether a node keeps its slots after so many tenths of a second.
fn wait_until_kept(mesh: &mut Mesh, nth: usize, tenths: usize) -> bool {
    (0..tenths).any(|_| {
        let (now, asked) = (mesh.now(), mesh.members[nth].asked);
        let is_kept = mesh.at(nth).keep_slots(now, &asked);
        mesh.pass(100);
        is_kept
    })
}

#[test]
fn a_source_whose_target_does_not_answer_keeps_the_slots_for_good() {
    let mut mesh = Mesh::formed(3, 1);
    let first = mesh.id(0).to_string();
    let (now, asked) = (mesh.now(), Asked::default());
    let epoch = mesh.hand_over(0, &[5, 6], 1);
    // It takes them, which nobody hears.
    assert_eq!(mesh.at(1).take_slots(&[5, 6], &first, epoch, now, &asked), Ok(()));
    mesh.at(1).take_actions();
    mesh.stop(1);
    assert!(wait_until_kept(&mut mesh, 0, 10), "the others answer at once");
    mesh.at(0).end_hand_over();
    mesh.settle();
    mesh.pass(500);
    assert_eq!(mesh.owner(1, 5), Some(mesh.id(1)));
    mesh.start(1);
    mesh.pass(5_000);
    (0..4).for_each(|nth| assert_eq!(mesh.owner(nth, 5), Some(mesh.id(0)), "{nth}"));
}

#[test]
fn nothing_is_handed_over_or_kept_before_a_majority_has_heard_of_it() {
    let mut mesh = Mesh::formed(5, 0);
    let [first, second] = [0, 1].map(|nth| mesh.id(nth).to_string());
    let (now, asked) = (mesh.now(), Asked::default());
    // This node and its target do not know yet that they are alone.
    (2..5).for_each(|nth| mesh.stop(nth));
    assert_eq!(mesh.at(0).begin_hand_over(&[5, 6], &second, now, &asked), Ok(None));
    mesh.settle();
    assert_eq!(mesh.at(0).begin_hand_over(&[5, 6], &second, now, &asked), Ok(None));
    (2..5).for_each(|nth| mesh.start(nth));
    let epoch = mesh.hand_over(0, &[5, 6], 1);
    // Whoever is elected from now on has a higher one.
    assert!((2..5).filter(|nth| mesh.members[*nth].cluster.current_epoch() > epoch).count() >= 2);
    (2..5).for_each(|nth| mesh.stop(nth));
    let before = mesh.members[0].cluster.my_config_epoch();
    assert!(!wait_until_kept(&mut mesh, 0, 30));
    assert_eq!(mesh.members[0].cluster.my_config_epoch(), before, "nobody has said that there is no other owner");
    (2..5).for_each(|nth| mesh.start(nth));
    assert!(wait_until_kept(&mut mesh, 0, 100));
    let kept = mesh.members[0].cluster.my_config_epoch();
    assert!(kept > epoch && (2..5).filter(|nth| mesh.members[*nth].cluster.current_epoch() >= kept).count() >= 2);
    // The target comes too late.
    let (now, asked) = (mesh.now(), Asked::default());
    assert!(mesh.at(1).take_slots(&[5, 6], &first, epoch, now, &asked).is_err());
}

#[test]
fn nobody_is_told_of_slots_that_their_owner_does_not_claim_any_more() {
    let mut mesh = Mesh::formed(3, 0);
    let (now, asked, third) = (mesh.now(), Asked::default(), mesh.id(2));
    let mut header = mesh.members[1].cluster.header();
    let cluster = &mut mesh.members[0].cluster;
    let [sender, owner] = [header.sender, third].map(|id| cluster.find(id).unwrap());
    let link = cluster.nodes[sender].inbound.unwrap();
    (cluster.current_epoch, cluster.nodes[owner].config_epoch) = (50, 50);
    // One has gone to somebody who is not known yet, and of another one the sender has old news.
    let [gone, old] = [16_000, 16_001];
    cluster.slots.unclaimed.add(gone);
    header.slots.add(old);
    let body = Body::Greeting { greeting: Greeting::Ping, gossip: Vec::new(), extensions: Vec::new() };
    cluster.received(link, &Message { header, body }, now, &asked);
    let told = cluster.take_actions().into_iter().find_map(|action| match action {
        Action::Send { message, .. } => match &message.body {
            Body::Update { id, slots, .. } => Some((*id, slots.has(gone), slots.has(old))),
            _ => None,
        },
        _ => None,
    });
    assert_eq!(told, Some((third, false, true)));
    // Nor after a start.
    let conf = NodesConf::parse(&cluster.nodes_conf().to_string()).unwrap();
    let again = Cluster::restore(options(0), 7, &conf, now).unwrap();
    assert_eq!(again.slots.unclaimed.iter().collect::<Vec<_>>(), [gone]);
    assert!(!again.nodes[again.find(third).unwrap()].claims_all);
}

#[test]
fn a_node_that_hands_slots_over_takes_no_new_epoch() {
    let mut mesh = Mesh::formed(3, 0);
    let [first, second, third] = [0, 1, 2].map(|nth| mesh.id(nth).to_string());
    let (now, asked) = (mesh.now(), Asked::default());
    mesh.at(0).set_slot_importing(16_000, &third, now).unwrap();
    let epoch = mesh.hand_over(0, &[5, 6], 1);
    // Whatever would give it one waits.
    assert!(mesh.at(0).take_slots(&[6_000], &second, 100, now, &asked).unwrap_err().starts_with("TRYAGAIN"));
    assert!(mesh.at(0).set_slot_node(16_000, &first, now, &asked).unwrap_err().starts_with("TRYAGAIN"));
    assert!(mesh.at(0).bump_epoch(now).unwrap_err().starts_with("TRYAGAIN"));
    // Whoever may have the slots is not forgotten, whoever says so.
    assert!(mesh.at(0).forget(&second, now).unwrap_err().ends_with("Try again later"));
    mesh.at(2).forget(&second, now).unwrap();
    mesh.settle();
    assert!(mesh.members[0].cluster.nodes_text().contains(&second));
    // The target's is the one that the source has given it, or none.
    mesh.at(1).bump_epoch(now).unwrap();
    let told = mesh.at(1).take_slots(&[5], &first, epoch, now, &asked).unwrap_err();
    assert_eq!(epoch_in(&told), Some(epoch + 2));
    mesh.at(0).hear_epoch(epoch + 2);
    let epoch = mesh.hand_over(0, &[5, 6], 1);
    assert_eq!(mesh.at(1).take_slots(&[5, 6], &first, epoch, now, &asked), Ok(()));
    assert_eq!(mesh.members[1].cluster.my_config_epoch(), epoch);
    assert!(mesh.at(1).take_slots(&[7], &first, u64::MAX, now, &asked).unwrap_err().contains("too high"));
    mesh.at(0).give_slots(&[5, 6], &second, now, &asked);
    mesh.at(0).end_hand_over();
    let epoch = mesh.hand_over(1, &[6_000], 0);
    assert_eq!(mesh.at(0).take_slots(&[6_000], &second, epoch, now, &asked), Ok(()));
    mesh.at(1).end_hand_over();
    mesh.at(1).give_slots(&[6_000], &first, now, &asked);
    mesh.settle();
    // The third one has forgotten the second.
    (0..2).for_each(|nth| {
        assert_eq!(mesh.owner(nth, 5), Some(mesh.id(1)), "{nth}");
        assert_eq!(mesh.owner(nth, 6_000), Some(mesh.id(0)), "{nth}");
    });
}
