//! What a primary tells in its stream, and what a replica that takes over makes of it.

use super::super::actions::Action;
use super::super::told::Told;
use super::super::view::Role;
use super::mesh::Mesh;

/// The last that a primary has put into its stream comes to a replica.
fn hand_over(mesh: &mut Mesh, primary: usize, replica: usize) {
    let is_told = |action: &Action| match action {
        Action::TellReplicas { text, .. } => Told::parse(text),
        _ => None,
    };
    let told = mesh.members[primary].done.iter().rev().find_map(is_told).expect("it has told something");
    let (now, asked) = (mesh.now(), mesh.members[replica].asked);
    mesh.at(replica).hear_told(told, now, &asked);
    mesh.settle();
}

/// A primary fails, and its replica takes over.
fn fail_over(mesh: &mut Mesh, primary: usize, replica: usize) {
    mesh.stop(primary);
    mesh.wait("the replica is a primary", |mesh| mesh.members[replica].cluster.role() == Role::Primary);
    mesh.pass(500);
}

fn mine(mesh: &Mesh, nth: usize) -> String {
    mesh.line(nth, nth).unwrap()
}

#[test]
fn slots_on_their_way_from_and_to_a_primary_stay_so_at_the_replica_that_takes_over() {
    let mut mesh = Mesh::formed(3, 1);
    let (first, second) = (mesh.id(0), mesh.id(1));
    let now = mesh.now();
    mesh.at(1).set_slot_importing(5, first.as_str(), now).unwrap();
    mesh.at(0).set_slot_migrating(5, second.as_str(), now).unwrap();
    mesh.at(0).set_slot_importing(6_000, second.as_str(), now).unwrap();
    mesh.at(1).set_slot_migrating(6_000, first.as_str(), now).unwrap();
    mesh.settle();
    hand_over(&mut mesh, 0, 3);
    assert!(!mine(&mesh, 3).contains('['), "a replica shows nothing: {}", mine(&mesh, 3));
    fail_over(&mut mesh, 0, 3);
    let line = mine(&mesh, 3);
    assert!(line.contains(&format!("[5->-{second}]")) && line.contains(&format!("[6000-<-{second}]")), "{line}");
    // The other end goes on with the new one.
    let (new, line) = (mesh.id(3), mine(&mesh, 1));
    assert!(line.contains(&format!("[5-<-{new}]")) && line.contains(&format!("[6000->-{new}]")), "{line}");
}

#[test]
fn a_replica_that_was_not_told_on_its_own_takes_over_what_was_told_in_the_stream() {
    let mut mesh = Mesh::formed(3, 1);
    let (first, second) = (mesh.id(0), mesh.id(1));
    let (now, asked) = (mesh.now(), mesh.members[0].asked);
    mesh.at(1).set_slot_importing(5, first.as_str(), now).unwrap();
    mesh.at(0).set_slot_migrating(5, second.as_str(), now).unwrap();
    mesh.settle();
    // The replica of the target hears nothing over the bus of how it ends.
    mesh.stop(4);
    mesh.at(1).set_slot_node(5, second.as_str(), now, &asked).unwrap();
    mesh.at(0).set_slot_node(5, second.as_str(), now, &asked).unwrap();
    mesh.settle();
    mesh.start(4);
    hand_over(&mut mesh, 1, 4);
    assert_eq!(mesh.owner(4, 5), Some(second));
    fail_over(&mut mesh, 1, 4);
    let new = mesh.id(4);
    assert!([0, 2, 4].iter().all(|nth| mesh.owner(*nth, 5) == Some(new)));
}

#[test]
fn a_slot_that_was_given_away_is_not_taken_back() {
    let mut mesh = Mesh::formed(3, 1);
    let (first, second) = (mesh.id(0), mesh.id(1));
    let now = mesh.now();
    mesh.at(1).set_slot_importing(5, first.as_str(), now).unwrap();
    mesh.at(0).set_slot_migrating(5, second.as_str(), now).unwrap();
    mesh.settle();
    // It hears nothing over the bus of how it ends.
    mesh.stop(3);
    let asked = mesh.members[0].asked;
    mesh.at(1).set_slot_node(5, second.as_str(), now, &asked).unwrap();
    mesh.at(0).set_slot_node(5, second.as_str(), now, &asked).unwrap();
    mesh.settle();
    mesh.start(3);
    hand_over(&mut mesh, 0, 3);
    fail_over(&mut mesh, 0, 3);
    let new = mesh.id(3);
    assert!([1, 2, 3].iter().all(|nth| mesh.owner(*nth, 5) == Some(second)));
    assert!([1, 2, 3].iter().all(|nth| mesh.owner(*nth, 6) == Some(new)));
}

#[test]
fn what_another_primary_or_an_older_one_tells_counts_for_nothing() {
    let mut mesh = Mesh::formed(3, 1);
    let second = mesh.id(1);
    let now = mesh.now();
    mesh.at(0).set_slot_migrating(5, second.as_str(), now).unwrap();
    mesh.settle();
    hand_over(&mut mesh, 0, 4);
    fail_over(&mut mesh, 1, 4);
    assert!(!mine(&mesh, 4).contains('['), "{}", mine(&mesh, 4));
    // Data of another history comes: what was told before is not its own.
    hand_over(&mut mesh, 0, 3);
    mesh.at(3).forget_told();
    fail_over(&mut mesh, 0, 3);
    assert!(!mine(&mesh, 3).contains('['), "{}", mine(&mesh, 3));
}

#[test]
fn a_slot_that_its_owner_does_not_claim_any_more_costs_no_vote() {
    let mut mesh = Mesh::formed(3, 1);
    let (first, second) = (mesh.id(0), mesh.id(1));
    let (now, asked) = (mesh.now(), mesh.members[0].asked);
    mesh.at(0).set_slot_importing(6_000, second.as_str(), now).unwrap();
    mesh.at(1).set_slot_migrating(6_000, first.as_str(), now).unwrap();
    mesh.settle();
    // The one voter hears nothing of the new owner, and the old one has a newer epoch than that.
    mesh.stop(2);
    mesh.at(0).set_slot_node(6_000, first.as_str(), now, &asked).unwrap();
    mesh.settle();
    hand_over(&mut mesh, 0, 3);
    mesh.at(1).bump_epoch(now).unwrap();
    mesh.at(1).bump_epoch(now).unwrap();
    mesh.settle();
    mesh.stop(0);
    mesh.start(2);
    fail_over(&mut mesh, 0, 3);
    let new = mesh.id(3);
    assert!([1, 2, 3].iter().all(|nth| mesh.owner(*nth, 6_000) == Some(new)));
}

#[test]
fn slots_that_the_bus_tells_with_a_higher_epoch_are_taken_over_without_the_stream() {
    let mut mesh = Mesh::formed(3, 1);
    let (first, second) = (mesh.id(0), mesh.id(1));
    // The replica of the target hears of what it has in the stream, and then of what it has got only over the bus.
    mesh.at(1).tell_replicas_again();
    mesh.pass(200);
    hand_over(&mut mesh, 1, 4);
    let (now, asked) = (mesh.now(), mesh.members[0].asked);
    mesh.at(1).take_slots(&[5, 6], first.as_str(), 100, now, &asked).unwrap();
    mesh.at(0).give_slots(&[5, 6], second.as_str(), now, &asked);
    mesh.pass(2_000);
    fail_over(&mut mesh, 1, 4);
    let new = mesh.id(4);
    assert!([0, 2, 4].iter().all(|nth| mesh.owner(*nth, 5) == Some(new) && mesh.owner(*nth, 6_000) == Some(new)));
    assert!(mesh.members[4].cluster.is_up());
}

#[test]
fn slots_whose_new_owner_is_forgotten_are_nobodys_until_it_is_heard() {
    let mut mesh = Mesh::formed(3, 1);
    let (first, second) = (mesh.id(0), mesh.id(1));
    let (now, asked) = (mesh.now(), mesh.members[0].asked);
    mesh.at(1).take_slots(&[5], first.as_str(), 100, now, &asked).unwrap();
    mesh.at(0).forget(second.as_str(), now).unwrap();
    mesh.at(0).give_slots(&[5], second.as_str(), now, &asked);
    assert_eq!(mesh.owner(0, 5), None);
    mesh.settle();
    assert!(mesh.took(0, |action| matches!(action, Action::SlotsLost(lost) if *lost == [5])));
}
