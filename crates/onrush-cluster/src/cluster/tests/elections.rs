//! Failures, elections, and fail-overs by hand.

use super::super::Cluster;
use super::super::actions::{Action, Now};
use super::super::commands::Failover;
use super::super::view::Role;
use super::Asked;
use super::mesh::{Mesh, TIMEOUT_MS, options};
use crate::message::Body;
use crate::node::Flags;
use crate::nodes_conf::NodesConf;
use crate::slots::SlotSet;

fn is_primary(mesh: &Mesh, nth: usize) -> bool {
    mesh.members[nth].cluster.role() == Role::Primary
}

#[test]
fn a_replica_takes_the_place_of_a_primary_that_is_gone() {
    let mut mesh = Mesh::formed(3, 1);
    let epoch = mesh.members[0].cluster.current_epoch();
    mesh.stop(1);
    mesh.wait("the replica is a primary", |mesh| is_primary(mesh, 4));
    mesh.pass(500);
    let own = mesh.id(4);
    assert!([0, 2, 3, 4, 5].iter().all(|nth| mesh.owner(*nth, 6_000) == Some(own)));
    assert!(mesh.line(0, 1).unwrap().contains("master,fail "));
    assert_eq!(mesh.members[4].cluster.my_config_epoch(), epoch + 1);
    assert!(mesh.took(4, |action| *action == Action::Primary));
    mesh.start(1);
    mesh.wait("the old primary is a replica", |mesh| !is_primary(mesh, 1));
    mesh.pass(3 * TIMEOUT_MS);
    assert!((0..6).all(|nth| mesh.line(nth, 1).unwrap().contains("slave ")));
    assert!(mesh.took(1, |action| matches!(action, Action::ReplicaOf { node, .. } if *node == own)));
    assert!((0..6).all(|nth| mesh.members[nth].cluster.is_up()));
}

#[test]
fn the_replica_with_the_newest_data_asks_first() {
    let mut mesh = Mesh::formed(3, 3);
    for (nth, offset) in [(4, 10), (7, 30), (10, 20)] {
        mesh.members[nth].asked.offset = offset;
    }
    mesh.pass(2 * TIMEOUT_MS);
    mesh.stop(1);
    mesh.wait("a replica is a primary", |mesh| [4, 7, 10].iter().any(|nth| is_primary(mesh, *nth)));
    assert!(is_primary(&mesh, 7));
    mesh.pass(2 * TIMEOUT_MS);
    let own = mesh.id(7);
    assert!([4, 10].iter().all(|nth| mesh.members[*nth].cluster.primary() == Some(own)));
}

#[test]
fn a_vote_is_saved_before_it_is_sent() {
    let mut mesh = Mesh::formed(3, 1);
    mesh.stop(1);
    // Executed by hand: what a voter is asked to do at the request.
    mesh.wait("the replica asks", |mesh| mesh.count_sent(&Body::AuthRequest) > 0);
    let saved = |mesh: &Mesh, nth: usize| mesh.members[nth].cluster.nodes_conf().last_vote_epoch;
    let epoch = mesh.members[4].cluster.my_config_epoch();
    assert_eq!((saved(&mesh, 0), saved(&mesh, 2)), (epoch, epoch));
    for nth in [0, 2, 4] {
        assert!(mesh.took(nth, |action| *action == Action::Save { sync: true }), "{nth}");
    }
}

#[test]
fn who_wins_an_epoch_has_no_vote_left_in_it() {
    let mut mesh = Mesh::formed(3, 1);
    mesh.stop(1);
    mesh.wait("the replica is a primary", |mesh| is_primary(mesh, 4));
    let winner = &mesh.members[4].cluster;
    assert_eq!(winner.nodes_conf().last_vote_epoch, winner.my_config_epoch());
}

fn says(mesh: &Mesh, nth: usize, what: &str) -> bool {
    mesh.members[nth].done.iter().any(|action| matches!(action, Action::Log(_, text) if text.contains(what)))
}

#[test]
fn who_has_taken_a_place_does_not_vote_while_its_predecessor_may() {
    let mut mesh = Mesh::formed(3, 1);
    // It hears nothing of what comes.
    mesh.stop(1);
    for replica in [4, 5] {
        let (now, asked) = (mesh.now(), mesh.members[replica].asked);
        mesh.at(replica).failover(Failover::Force, now, &asked).unwrap();
        mesh.pass(200);
        assert!(is_primary(&mesh, replica));
    }
    assert!(says(&mesh, 4, "whose place I have taken may vote as well"));
    assert!(!says(&mesh, 4, "auth granted"));
    mesh.pass(4 * TIMEOUT_MS);
    let (now, asked) = (mesh.now(), mesh.members[3].asked);
    mesh.at(3).failover(Failover::Force, now, &asked).unwrap();
    mesh.pass(200);
    assert!(is_primary(&mesh, 3) && says(&mesh, 4, "auth granted"));
    // One that hears of it frees the vote at once.
    assert!(says(&mesh, 5, "auth granted"));
}

#[test]
fn a_request_that_comes_while_a_predecessor_may_vote_is_granted_after_that() {
    let mut mesh = Mesh::formed(3, 1);
    mesh.stop(1);
    mesh.wait("the first replica is a primary", |mesh| is_primary(mesh, 4));
    mesh.stop(2);
    // Two of three votes: those of the first primary and of the new one, which waits.
    let (now, asked) = (mesh.now(), mesh.members[5].asked);
    mesh.at(5).failover(Failover::Force, now, &asked).unwrap();
    mesh.pass(500);
    assert!(says(&mesh, 4, "waits: the one whose place I have taken") && !is_primary(&mesh, 5));
    mesh.pass(2 * TIMEOUT_MS);
    assert!(is_primary(&mesh, 5));
}

#[test]
fn the_predecessor_is_kept_over_a_restart_until_it_has_heard() {
    let mut mesh = Mesh::formed(3, 1);
    mesh.stop(1);
    mesh.wait("the first replica is a primary", |mesh| is_primary(mesh, 4));
    let conf = mesh.members[4].cluster.nodes_conf();
    assert_eq!(conf.predecessor, Some(mesh.id(1)));
    // It is kept over a restart.
    mesh.members[4].cluster = Cluster::restore(options(4), 7, &conf, mesh.now()).unwrap();
    assert_eq!(mesh.members[4].cluster.nodes_conf().predecessor, Some(mesh.id(1)));
    mesh.start(1);
    mesh.wait("it has heard", |mesh| mesh.members[4].cluster.nodes_conf().predecessor.is_none());
}

#[test]
fn saves_come_first() {
    let mut mesh = Mesh::formed(3, 1);
    let (now, asked) = (mesh.now(), mesh.members[4].asked);
    mesh.at(4).failover(Failover::Force, now, &asked).unwrap();
    let actions = mesh.at(4).take_actions();
    assert_eq!(actions[0], Action::Save { sync: true });
    assert!(
        actions
            .iter()
            .any(|action| matches!(action, Action::Send { message, .. } if message.body == Body::AuthRequest))
    );
}

#[test]
fn without_a_majority_nothing_is_decided() {
    let mut mesh = Mesh::formed(3, 1);
    mesh.stop(1);
    mesh.stop(2);
    mesh.pass(20 * TIMEOUT_MS);
    assert!(!is_primary(&mesh, 4) && !is_primary(&mesh, 5));
    assert!(mesh.line(0, 1).unwrap().contains("fail? "));
    assert!(!mesh.members[0].cluster.is_up());
    mesh.start(1);
    mesh.wait("the cluster is up", |mesh| is_primary(mesh, 5) && mesh.members[0].cluster.is_up());
}

#[test]
fn a_stalled_node_does_not_blame_the_others() {
    let mut mesh = Mesh::formed(3, 1);
    let now_ms = mesh.now_ms;
    mesh.now_ms += 10 * TIMEOUT_MS;
    let (now, asked) = (mesh.now(), mesh.members[0].asked);
    mesh.at(0).tick(now, &asked);
    assert!(!mesh.members[0].cluster.nodes_text().contains("fail"));
    assert!(mesh.now_ms > now_ms);
}

#[test]
fn an_operator_moves_the_role_without_loss() {
    let mut mesh = Mesh::formed(3, 1);
    mesh.members[1].asked.offset = 500;
    mesh.members[4].asked.offset = 400;
    let (now, asked) = (mesh.now(), mesh.members[4].asked);
    mesh.at(4).failover(Failover::Default, now, &asked).unwrap();
    mesh.settle();
    assert!(mesh.took(1, |action| matches!(action, Action::Pause { .. })));
    mesh.pass(1_000);
    // The replica still lacks data.
    assert!(!is_primary(&mesh, 4));
    mesh.members[4].asked.offset = 500;
    mesh.pass(300);
    assert!(is_primary(&mesh, 4) && !is_primary(&mesh, 1));
    assert!(mesh.logged(4, "All master replication stream processed, manual failover can start."));
    assert!(mesh.took(1, |action| *action == Action::Unpause));
}

#[test]
fn all_know_a_replica_at_once_and_vote_for_it() {
    let mut mesh = Mesh::formed(3, 1);
    let (id, now, asked) = (mesh.id(1), mesh.now(), mesh.members[3].asked);
    mesh.at(3).replicate(id.as_str(), now, &asked).unwrap();
    mesh.settle();
    let is_known = |mesh: &Mesh, nth: usize| mesh.line(nth, 3).unwrap().contains(&format!("slave {id} "));
    assert!((0..6).all(|nth| is_known(&mesh, nth)));
    mesh.at(3).failover(Failover::Force, now, &asked).unwrap();
    mesh.settle();
    assert!(is_primary(&mesh, 3));
}

#[test]
fn a_primary_does_not_tell_its_offset_before_its_clients_are_held() {
    let mut mesh = Mesh::formed(3, 1);
    mesh.members[1].asked.offset = 500;
    mesh.members[4].asked.offset = 500;
    let (now, asked) = (mesh.now(), mesh.members[4].asked);
    mesh.at(4).failover(Failover::Default, now, &asked).unwrap();
    mesh.settle();
    // A write that came before the pause.
    mesh.members[1].asked.offset = 501;
    assert!(mesh.members[1].cluster.next_tick_ms() <= mesh.now_ms);
    mesh.pass(500);
    assert!(!is_primary(&mesh, 4));
    mesh.members[4].asked.offset = 501;
    mesh.pass(300);
    assert!(is_primary(&mesh, 4));
}

#[test]
fn whoever_hears_first_that_primaries_are_no_more_needs_as_many_votes_as_before() {
    let mut mesh = Mesh::formed(5, 1);
    let ids = [5, 6, 7].map(|nth| mesh.id(nth));
    let old: Vec<_> = (0..3).filter_map(|nth| mesh.members[9].cluster.find(mesh.id(nth))).collect();
    let now = mesh.now();
    let cluster = &mut mesh.members[9].cluster;
    cluster.begin(now);
    assert_eq!(cluster.state.quorum, 3);
    old.iter().zip(ids).for_each(|(ix, id)| cluster.make_replica(*ix, id));
    cluster.update_state();
    assert_eq!((cluster.state.size, cluster.state.quorum), (2, 3));
    // Two of them are known again, one with the slots of one that was.
    for (nth, id) in ids.into_iter().enumerate().skip(1) {
        let ix = cluster.find(id).unwrap();
        cluster.make_primary(ix);
        let first = 16_384 * nth / 5;
        let claimed = (first..16_384 * (nth + 1) / 5).map(|slot| slot as u16).collect();
        cluster.claim(ix, 20 + nth as u64, &claimed);
        cluster.update_state();
    }
    assert_eq!((cluster.state.size, cluster.state.quorum, cluster.slots.unknown_owners()), (4, 3, 1));
}

#[test]
fn owners_that_are_not_known_yet_count_until_they_are_found_or_nobody_claims_their_slots() {
    let mut mesh = Mesh::formed(5, 1);
    let ids = [3, 4].map(|nth| mesh.id(nth));
    let old: Vec<_> = ids.iter().filter_map(|id| mesh.members[0].cluster.find(*id)).collect();
    let (first, third, now) = (mesh.id(1), mesh.id(2), mesh.now());
    let cluster = &mut mesh.members[0].cluster;
    cluster.begin(now);
    old.iter().for_each(|ix| cluster.make_replica(*ix, first));
    cluster.update_state();
    assert_eq!((cluster.state.size, cluster.state.quorum, cluster.slots.unknown_owners()), (3, 3, 2));
    // Also if the node is started again.
    let text = cluster.nodes_conf().to_string();
    let conf = NodesConf::parse(&text).unwrap();
    assert_eq!(
        conf.orphaned.iter().map(SlotSet::len).sum::<usize>(),
        cluster.slots.orphaned().iter().map(SlotSet::len).sum()
    );
    let mut again = Cluster::restore(options(0), 7, &conf, now).unwrap();
    again.begin(Now { mono_ms: now.mono_ms + 3_000, ..now });
    again.update_state();
    assert_eq!((again.state.size, again.state.quorum, again.slots.unknown_owners()), (3, 3, 2));
    // While a majority is heard, they are waited for for some time only.
    again.begin(Now { mono_ms: now.mono_ms + 60_000, ..now });
    again.update_state();
    assert_eq!((again.state.quorum, again.slots.unknown_owners()), (2, 0));
    // Who is not with a majority of the known ones waits for ever.
    let cluster = &mut mesh.members[0].cluster;
    let others = [first, third].map(|id| cluster.find(id).unwrap());
    others.iter().for_each(|ix| cluster.nodes[*ix].flags.insert(Flags::MAYBE_FAILED));
    cluster.begin(Now { mono_ms: now.mono_ms + 60_000, ..now });
    cluster.update_state();
    assert_eq!((cluster.state.quorum, cluster.is_up()), (3, false));
    // Who is, but not of all, waits for as long: nobody may come.
    cluster.nodes[others[0]].flags.remove(Flags::MAYBE_FAILED);
    for (time_ms, quorum) in [(60_100, 3), (120_000, 2)] {
        cluster.begin(Now { mono_ms: now.mono_ms + time_ms, ..now });
        cluster.update_state();
        assert_eq!(cluster.state.quorum, quorum);
    }
}

#[test]
fn a_manual_failover_that_takes_too_long_ends() {
    let mut mesh = Mesh::formed(3, 1);
    mesh.members[1].asked.offset = 500;
    let (now, asked) = (mesh.now(), mesh.members[4].asked);
    mesh.at(4).failover(Failover::Default, now, &asked).unwrap();
    mesh.pass(5_300);
    assert!(mesh.took(1, |action| *action == Action::Unpause));
    mesh.members[4].asked.offset = 500;
    mesh.pass(1_000);
    assert!(!is_primary(&mesh, 4) && is_primary(&mesh, 1));
}

#[test]
fn a_primary_takes_no_new_epoch_while_its_replica_takes_over() {
    let mut mesh = Mesh::formed(3, 1);
    let [third, first, own] = [2, 0, 1].map(|nth| mesh.id(nth).to_string());
    mesh.members[1].asked.offset = 500;
    let (now, asked) = (mesh.now(), mesh.members[4].asked);
    mesh.at(1).set_slot_importing(16_000, &third, now).unwrap();
    mesh.at(4).failover(Failover::Default, now, &asked).unwrap();
    mesh.settle();
    let told = Err("TRYAGAIN A replica of this node is taking over".to_owned());
    assert_eq!(mesh.at(1).take_slots(&[5], &first, 100, now, &asked), told);
    assert_eq!(mesh.at(1).set_slot_node(16_000, &own, now, &asked), told);
    assert_eq!(mesh.at(1).bump_epoch(now).map(|_| ()), told);
    let ends_move = mesh.at(1).begin_hand_over(&[5], &third, now, &asked);
    assert_eq!(ends_move, Err("A replica of this node is taking over".to_owned()));
    // Nor by a collision of epochs.
    let before = mesh.members[1].cluster.my_config_epoch();
    let other = mesh.members[1].cluster.find(mesh.id(0)).unwrap();
    mesh.members[1].cluster.nodes[other].config_epoch = before;
    mesh.pass(300);
    assert_eq!(mesh.members[1].cluster.my_config_epoch(), before);
    // It does not come about.
    mesh.pass(5_300);
    let now = mesh.now();
    assert!(mesh.at(1).bump_epoch(now).is_ok());
    assert!(mesh.at(1).take_slots(&[5], &first, 100, now, &asked).is_ok());
}

#[test]
fn a_node_that_gave_all_its_slots_away_may_take_its_primarys_place() {
    let mut mesh = Mesh::formed(3, 0);
    let [source, target] = [0, 1].map(|nth| mesh.id(nth).to_string());
    let (now, asked) = (mesh.now(), Asked::default());
    let slots: Vec<u16> = mesh.members[0].cluster.nodes[0].slots.iter().collect();
    for slot in slots {
        mesh.at(1).set_slot_importing(slot, &source, now).unwrap();
        mesh.at(1).set_slot_node(slot, &target, now, &asked).unwrap();
        mesh.at(0).set_slot_node(slot, &target, now, &asked).unwrap();
    }
    mesh.pass(200);
    assert!(!is_primary(&mesh, 0));
    let now = mesh.now();
    mesh.at(0).failover(Failover::Force, now, &asked).unwrap();
    mesh.wait("it is a primary", |mesh| is_primary(mesh, 0));
    mesh.pass(500);
    assert!(!is_primary(&mesh, 1));
    let first = mesh.id(0);
    (0..3).for_each(|nth| assert!([5, 6_000].iter().all(|slot| mesh.owner(nth, *slot) == Some(first)), "{nth}"));
}

#[test]
fn force_needs_votes_and_takeover_needs_nobody() {
    let mut mesh = Mesh::formed(3, 1);
    let (now, asked) = (mesh.now(), mesh.members[4].asked);
    mesh.at(4).failover(Failover::Force, now, &asked).unwrap();
    mesh.pass(200);
    assert!(is_primary(&mesh, 4));
    mesh.stop(1);
    mesh.stop(0);
    mesh.stop(2);
    let (now, asked) = (mesh.now(), mesh.members[5].asked);
    mesh.at(5).failover(Failover::Takeover, now, &asked).unwrap();
    mesh.settle();
    assert!(is_primary(&mesh, 5));
    assert_eq!(mesh.owner(5, 16_000), Some(mesh.id(5)));
    mesh.pass(TIMEOUT_MS);
    assert_eq!(mesh.owner(4, 16_000), Some(mesh.id(5)));
}

#[test]
fn of_two_equal_epochs_one_gives_way() {
    let mut mesh = Mesh::new(3);
    for nth in 0..3_u16 {
        let now = mesh.now();
        mesh.at(usize::from(nth)).add_slots(&[nth], now).unwrap();
    }
    mesh.meet(0, 1);
    mesh.meet(0, 2);
    mesh.pass(5_000);
    let mut epochs: Vec<u64> = (0..3).map(|nth| mesh.members[nth].cluster.my_config_epoch()).collect();
    epochs.sort_unstable();
    epochs.dedup();
    assert_eq!(epochs.len(), 3);
}

#[test]
fn a_replica_migrates_to_a_primary_without_any() {
    let mut mesh = Mesh::formed(3, 2);
    // Node 1 loses both of its replicas.
    mesh.stop(4);
    mesh.stop(7);
    mesh.wait("a replica comes", |mesh| {
        [3, 5, 6, 8].iter().any(|nth| mesh.members[*nth].cluster.primary() == Some(mesh.id(1)))
    });
    mesh.pass(3 * TIMEOUT_MS);
    let came = [3, 5, 6, 8].iter().filter(|nth| mesh.members[**nth].cluster.primary() == Some(mesh.id(1))).count();
    assert_eq!(came, 1);
}

#[test]
fn a_primary_that_was_away_takes_no_slot_before_it_has_heard_of_its_own() {
    let mut mesh = Mesh::formed(3, 1);
    let (now, source, own) = (mesh.now(), mesh.id(0), mesh.id(1));
    mesh.at(1).set_slot_importing(5, source.as_str(), now).unwrap();
    mesh.stop(1);
    mesh.wait("the replica is a primary", |mesh| is_primary(mesh, 4));
    mesh.start(1);
    let (now, asked) = (mesh.now(), mesh.members[1].asked);
    let said = mesh.at(1).set_slot_node(5, own.as_str(), now, &asked).unwrap_err();
    assert_eq!(said, "CLUSTERDOWN This node has been away, and its slots may be another's. Try again later");
    mesh.wait("the old primary is a replica", |mesh| !is_primary(mesh, 1));
    mesh.pass(3 * TIMEOUT_MS);
    assert!(is_primary(&mesh, 4));
}

#[test]
fn a_node_that_takes_a_slot_knows_of_the_fail_over_of_its_source() {
    let mut mesh = Mesh::formed(3, 1);
    let (now, source) = (mesh.now(), mesh.id(1));
    mesh.at(0).set_slot_importing(6_000, source.as_str(), now).unwrap();
    mesh.stop(1);
    mesh.wait("the replica is a primary", |mesh| is_primary(mesh, 4));
    mesh.pass(3 * TIMEOUT_MS);
    let new = mesh.id(4);
    assert!([0, 2, 3, 4, 5].iter().all(|nth| mesh.owner(*nth, 6_000) == Some(new)));
    assert!(mesh.members[0].cluster.is_up());
    assert!(mesh.line(0, 0).unwrap().ends_with(&format!("[6000-<-{new}]")), "{:?}", mesh.line(0, 0));
    // Another that claims that slot alone gets it as soon as its owner claims it no more.
    let (now, asked) = (mesh.now(), mesh.members[2].asked);
    let other = mesh.id(2);
    mesh.at(2).set_slot_importing(6_000, new.as_str(), now).unwrap();
    mesh.at(2).set_slot_node(6_000, other.as_str(), now, &asked).unwrap();
    mesh.pass(3 * TIMEOUT_MS);
    assert!([0, 2, 3, 4, 5].iter().all(|nth| mesh.owner(*nth, 6_000) == Some(other)));
    assert!(mesh.line(0, 0).unwrap().ends_with(&format!("[6000-<-{other}]")), "{:?}", mesh.line(0, 0));
}

#[test]
fn a_slot_goes_to_another_node_and_with_the_last_one_the_role() {
    let mut mesh = Mesh::formed(3, 1);
    let (source, target) = (mesh.id(0), mesh.id(1));
    let (now, asked) = (mesh.now(), mesh.members[0].asked);
    mesh.at(1).set_slot_importing(5, source.as_str(), now).unwrap();
    mesh.at(0).set_slot_migrating(5, target.as_str(), now).unwrap();
    mesh.at(1).set_slot_node(5, target.as_str(), now, &asked).unwrap();
    mesh.settle();
    assert!((0..6).all(|nth| mesh.owner(nth, 5) == Some(target)));
    assert!(mesh.took(0, |action| *action == Action::SlotsLost(vec![5])));
    // All the others of node 0 as well.
    for slot in (0..5_461).filter(|slot| *slot != 5) {
        let now = mesh.now();
        mesh.at(1).set_slot_importing(slot, source.as_str(), now).unwrap();
        mesh.at(1).set_slot_node(slot, target.as_str(), now, &asked).unwrap();
    }
    mesh.pass(3 * TIMEOUT_MS);
    assert_eq!(mesh.members[0].cluster.primary(), Some(target));
    assert_eq!(mesh.members[3].cluster.primary(), Some(target));
    assert!(mesh.logged(0, "Configuration change detected. Reconfiguring myself as a replica of"));
}
