//! Epochs that are so high that counting would come to an end.

use super::super::Cluster;
use super::super::actions::LinkId;
use super::super::commands::Bumped;
use super::super::receive::{EPOCH_MAX, EPOCH_TAKEN_MAX};
use super::super::view::Role;
use super::Asked;
use super::mesh::{Mesh, options};
use crate::message::{Body, Message};
use crate::slots::SlotSet;

/// Nobody is far above the highest epoch that is taken, the replica of a primary can take over, and all files can be read.
fn check_that_it_goes_on(mesh: &mut Mesh, primary: usize) {
    let replica = primary + 3;
    mesh.pass(3_000);
    let epoch = mesh.members[0].cluster.current_epoch();
    assert!((EPOCH_TAKEN_MAX..EPOCH_TAKEN_MAX + 100).contains(&epoch), "{epoch}");
    assert!(mesh.members.iter().all(|member| member.cluster.current_epoch() == epoch));
    let slot = mesh.members[primary].cluster.header().slots.iter().next().unwrap();
    mesh.stop(primary);
    mesh.wait("the replica is a primary", |mesh| mesh.members[replica].cluster.role() == Role::Primary);
    mesh.pass(3_000);
    let (own, epoch) = (mesh.id(replica), mesh.members[replica].cluster.my_config_epoch());
    assert!((EPOCH_TAKEN_MAX + 1..EPOCH_TAKEN_MAX + 100).contains(&epoch), "{epoch}");
    for nth in (0..6).filter(|nth| *nth != primary) {
        assert_eq!(mesh.owner(nth, slot), Some(own), "{nth}");
        let cluster = &mesh.members[nth].cluster;
        assert!(cluster.current_epoch() >= epoch && cluster.is_up(), "{nth}");
        assert!(Cluster::restore(options(nth), 9, &cluster.nodes_conf(), mesh.now()).is_ok());
    }
}

/// A link of node 0 from node 1.
fn link_from_1(mesh: &Mesh) -> LinkId {
    let links = mesh.members[0].cluster.links();
    links.into_iter().find(|link| !link.is_outgoing && link.node == mesh.id(1)).unwrap().id
}

#[test]
fn a_client_sets_no_epoch_from_which_nobody_could_count_on() {
    let mut mesh = Mesh::new(6);
    let now = mesh.now();
    for epoch in [EPOCH_TAKEN_MAX + 1, EPOCH_MAX, i64::MAX as u64] {
        let wrong = Err(format!("ERR Invalid config epoch specified: {epoch}"));
        assert_eq!(mesh.at(0).set_config_epoch(epoch as i64, now), wrong);
    }
    mesh.at(0).set_config_epoch(EPOCH_TAKEN_MAX as i64, now).unwrap();
    assert_eq!(mesh.at(0).bump_epoch(now), Ok(Bumped::Still(EPOCH_TAKEN_MAX)));
    for nth in 0..3 {
        let slots: Vec<u16> = (0..16_384).filter(|slot| usize::from(slot / 5_462) == nth).collect();
        mesh.at(nth).add_slots(&slots, now).unwrap();
    }
    (1..6).for_each(|other| mesh.meet(0, other));
    mesh.pass(3_000);
    // Each of these counts on, so others have to follow.
    for nth in [1, 2, 0, 1, 2] {
        assert!(matches!(mesh.at(nth).bump_epoch(now), Ok(Bumped::Bumped(_))));
        mesh.pass(1_000);
    }
    for nth in 3..6 {
        let (id, now) = (mesh.id(nth - 3), mesh.now());
        mesh.at(nth).replicate(id.as_str(), now, &Asked::default()).unwrap();
    }
    check_that_it_goes_on(&mut mesh, 1);
}

#[test]
fn others_follow_a_node_that_has_counted_on_before_they_met() {
    let mut mesh = Mesh::new(2);
    let (mut now, asked) = (mesh.now(), Asked::default());
    mesh.at(0).set_config_epoch(EPOCH_TAKEN_MAX as i64, now).unwrap();
    mesh.meet(0, 1);
    mesh.pass(1_000);
    now = mesh.now();
    let id = mesh.id(1);
    for nth in [1, 0, 1, 0, 1, 0, 1, 0] {
        mesh.at(nth).bump_epoch(now).unwrap();
        mesh.pass(1_000);
        now = mesh.now();
    }
    mesh.at(0).forget(id.as_str(), now).unwrap();
    mesh.at(1).reset(true, now, &asked).unwrap();
    mesh.settle();
    assert_eq!(mesh.members[1].cluster.current_epoch(), 0);
    mesh.meet(0, 1);
    mesh.wait("they have the same epoch", |mesh| {
        mesh.members[1].cluster.current_epoch() == mesh.members[0].cluster.current_epoch()
    });
    assert!(mesh.members[0].cluster.my_config_epoch() > EPOCH_TAKEN_MAX + 5);
}

#[test]
fn no_message_brings_a_node_to_an_epoch_from_which_nobody_could_count_on() {
    for told in [EPOCH_TAKEN_MAX, EPOCH_TAKEN_MAX + 1, EPOCH_MAX] {
        for is_config in [false, true] {
            let mut mesh = Mesh::formed(3, 1);
            let (link, now) = (link_from_1(&mesh), mesh.now());
            let mut header = mesh.members[1].cluster.header();
            header.current_epoch = told;
            if is_config {
                header.config_epoch = told;
            }
            mesh.at(0).received(link, &Message { header, body: Body::AuthAck }, now, &Asked::default());
            // Whose epoch is told wrong has replicas that others take for outdated.
            check_that_it_goes_on(&mut mesh, 2);
        }
    }
}

#[test]
fn no_update_brings_a_node_to_an_epoch_from_which_nobody_could_count_on() {
    let update = |told| {
        let mut mesh = Mesh::formed(3, 1);
        let (link, now, id, header) = (link_from_1(&mesh), mesh.now(), mesh.id(2), mesh.members[1].cluster.header());
        let slots: SlotSet = mesh.members[2].cluster.header().slots;
        let body = Body::Update { config_epoch: told, id, slots };
        mesh.at(0).received(link, &Message { header, body }, now, &Asked::default());
        mesh
    };
    for told in [EPOCH_TAKEN_MAX + 1, EPOCH_MAX, u64::MAX] {
        assert!(update(told).members[0].cluster.current_epoch() < 100);
    }
    check_that_it_goes_on(&mut update(EPOCH_TAKEN_MAX), 1);
}

#[test]
fn near_the_end_a_message_moves_the_epoch_by_one() {
    let mut mesh = Mesh::formed(3, 1);
    let (link, now) = (link_from_1(&mesh), mesh.now());
    let mut header = mesh.members[1].cluster.header();
    header.current_epoch = EPOCH_MAX;
    let message = Message { header, body: Body::AuthAck };
    for nth in 0..1_000 {
        mesh.at(0).received(link, &message, now, &Asked::default());
        assert_eq!(mesh.members[0].cluster.current_epoch(), EPOCH_TAKEN_MAX + nth);
    }
}
