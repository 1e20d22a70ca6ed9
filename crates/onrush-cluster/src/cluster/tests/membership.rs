//! Who knows whom.

use super::super::actions::Action;
use super::super::options::Options;
use super::super::publish::PUBLISHED_MAX;
use super::super::view::Role;
use super::super::{Cluster, Level, RestoreError};
use super::Asked;
use super::mesh::{Mesh, TIMEOUT_MS, options};
use crate::nodes_conf::NodesConf;

#[test]
fn nodes_that_meet_know_all_others() {
    let mut mesh = Mesh::new(4);
    for other in 1..4 {
        mesh.meet(0, other);
    }
    mesh.pass(3_000);
    for nth in 0..4 {
        for other in 0..4 {
            let line = mesh.line(nth, other).unwrap();
            assert!(line.contains(" connected") && line.contains(&format!(":{}@", 7_000 + other)), "{line}");
            assert_eq!(line.contains("myself"), nth == other);
        }
    }
}

#[test]
fn a_node_that_nobody_asked_in_stays_out() {
    let mut mesh = Mesh::new(3);
    mesh.meet(0, 1);
    mesh.pass(1_000);
    let (conf, stranger) = (mesh.members[0].cluster.nodes_conf(), mesh.id(2));
    // It knows the others from a file, and pings them; they do not know it.
    let text = conf.to_string().replace("myself,", "");
    let own = mesh.members[2].cluster.nodes_conf().to_string().replace(":7002", "127.0.0.1:7002");
    let text = format!("{}\n{text}", own.lines().next().unwrap());
    let conf = NodesConf::parse(&text).unwrap();
    mesh.members[2].cluster = Cluster::restore(options(2), 9, &conf, mesh.now()).unwrap();
    mesh.pass(3_000);
    assert!(mesh.line(2, 0).unwrap().contains(" connected"));
    assert!(!mesh.at(0).has_node(stranger) && !mesh.at(1).has_node(stranger));
}

#[test]
fn an_address_where_nobody_answers_is_given_up() {
    let mut mesh = Mesh::new(1);
    mesh.meet(0, 7);
    assert!(mesh.members[0].cluster.nodes_text().contains("handshake"));
    assert_eq!(mesh.members[0].cluster.nodes_conf().nodes.len(), 1);
    mesh.pass(TIMEOUT_MS + 200);
    assert!(!mesh.members[0].cluster.nodes_text().contains("handshake"));
}

#[test]
fn a_node_may_be_asked_to_meet_itself() {
    let mut mesh = Mesh::new(1);
    mesh.meet(0, 0);
    mesh.pass(2_000);
    assert_eq!(mesh.members[0].cluster.nodes_text().lines().count(), 1);
}

#[test]
fn handshakes_are_limited() {
    let mut mesh = Mesh::new(1);
    let now = mesh.now();
    for nth in 0..2_000 {
        mesh.at(0).meet(&format!("10.0.{}.{}", nth / 250, nth % 250), 1, None, now).unwrap();
    }
    assert_eq!(mesh.members[0].cluster.nodes_text().lines().count(), 1 + super::super::handshake::HANDSHAKES_MAX);
}

#[test]
fn a_forgotten_node_stays_away_for_a_minute_everywhere() {
    let mut mesh = Mesh::formed(3, 1);
    let (id, now) = (mesh.id(5), mesh.now());
    mesh.stop(5);
    mesh.at(0).forget(id.as_str(), now).unwrap();
    mesh.pass(2 * TIMEOUT_MS);
    // The others were told by an extension.
    assert!((0..5).all(|nth| !mesh.members[nth].cluster.has_node(id)));
    // A tool that asks each node in turn comes late.
    let now = mesh.now();
    assert!((0..5).all(|nth| mesh.at(nth).forget(id.as_str(), now).is_ok()));
    mesh.start(5);
    mesh.pass(20_000);
    assert!((0..5).all(|nth| !mesh.members[nth].cluster.has_node(id)));
    mesh.pass(50_000);
    mesh.meet(0, 5);
    mesh.pass(3_000);
    assert!((0..5).all(|nth| mesh.members[nth].cluster.has_node(id)));
}

#[test]
fn names_go_to_all_and_come_back_from_the_file() {
    let mut mesh = Mesh::formed(3, 0);
    let mut named = options(1);
    named.announce_hostname = "one.example".to_owned();
    named.announce_human_nodename = "one".to_owned();
    let now = mesh.now();
    assert!(mesh.at(1).set_options(named, now));
    mesh.pass(2 * TIMEOUT_MS);
    assert!(mesh.line(0, 1).unwrap().contains("@17001,one.example "));
    let conf = mesh.members[0].cluster.nodes_conf();
    assert!(conf.to_string().contains(",one.example,shard-id="));
    assert!(conf.to_string().contains(",nodename=one,"));
    let now = mesh.now();
    assert!(mesh.at(1).set_options(options(1), now));
    mesh.pass(2 * TIMEOUT_MS);
    assert!(mesh.line(0, 1).unwrap().contains("@17001 "));
}

#[test]
fn an_announced_address_is_taken_back() {
    let mut mesh = Mesh::formed(3, 0);
    let announcing = Options { announce_ip: "10.9.8.7".to_owned(), ..options(1) };
    let now = mesh.now();
    assert!(mesh.at(1).set_options(announcing, now));
    mesh.pass(2 * TIMEOUT_MS);
    assert!(mesh.line(1, 1).unwrap().contains(" 10.9.8.7:7001@"));
    let now = mesh.now();
    assert!(mesh.at(1).set_options(options(1), now));
    mesh.pass(2 * TIMEOUT_MS);
    assert!(mesh.line(1, 1).unwrap().contains(" 127.0.0.1:7001@"), "{}", mesh.line(1, 1).unwrap());
}

#[test]
fn a_file_comes_back_as_it_was() {
    let mut mesh = Mesh::formed(3, 1);
    let (id, now) = (mesh.id(1), mesh.now());
    mesh.at(0).set_slot_migrating(7, id.as_str(), now).unwrap();
    mesh.at(0).set_slot_importing(9_000, id.as_str(), now).unwrap();
    let clean = |conf: NodesConf| {
        let mut conf = conf;
        for line in &mut conf.nodes {
            (line.ping_sent_ms, line.pong_received_ms, line.is_connected) = (0, 0, false);
        }
        conf.nodes.sort_by_key(|line| line.id);
        conf.to_string()
    };
    for nth in 0..6 {
        let conf = mesh.members[nth].cluster.nodes_conf();
        let parsed = NodesConf::parse(&conf.to_string()).unwrap();
        let mut again = Cluster::restore(options(nth), 77, &parsed, mesh.now()).unwrap();
        assert!(matches!(again.take_actions()[0], Action::Save { sync: true }));
        assert_eq!(clean(conf), clean(again.nodes_conf()));
    }
}

#[test]
fn the_epoch_of_a_primary_does_not_become_that_of_its_replica() {
    let (a, b) = ("a".repeat(40), "b".repeat(40));
    let text = format!(
        "{a} 1.2.3.4:1@2 myself,master - 0 0 12 connected 0-99\n\
         {b} 1.2.3.5:1@2 slave {a} 0 0 12 connected\n\
         vars currentEpoch 12 lastVoteEpoch 0\n"
    );
    let conf = NodesConf::parse(&text).unwrap();
    let cluster = Cluster::restore(options(0), 1, &conf, super::super::Now::default()).unwrap();
    let replica = cluster.find(b.parse().unwrap()).unwrap();
    assert_eq!((cluster.nodes[replica].config_epoch, cluster.my_config_epoch()), (0, 12));
    assert!(cluster.nodes_text().contains(" 12 disconnected"));
}

#[test]
fn a_file_that_contradicts_itself_is_refused() {
    let a = "a".repeat(40);
    let b = "b".repeat(40);
    let restore = |text: String| {
        let conf = NodesConf::parse(&format!("{text}vars currentEpoch 1 lastVoteEpoch 0\n")).unwrap();
        Cluster::restore(options(0), 1, &conf, super::super::Now::default()).err()
    };
    let line = |id: &str, flags: &str, slots: &str| format!("{id} 1.2.3.4:1@2 {flags} - 0 0 1 connected {slots}\n");
    assert_eq!(restore(line(&a, "master", "")), Some(RestoreError::Myself));
    assert_eq!(restore(line(&a, "myself,master", "") + &line(&b, "myself,master", "")), Some(RestoreError::Myself));
    let twice = line(&a, "myself,master", "") + &line(&b, "master", "") + &line(&b, "master", "");
    assert_eq!(restore(twice), Some(RestoreError::Twice(b.parse().unwrap())));
    let slots = line(&a, "myself,master", "1-5") + &line(&b, "master", "5");
    assert_eq!(restore(slots), Some(RestoreError::Slot(5)));
    assert_eq!(restore(line(&a, "myself,master", "1-5") + &line(&b, "master", "6")), None);
}

#[test]
fn a_node_with_another_address_is_found_again() {
    let mut mesh = Mesh::formed(3, 1);
    mesh.stop(4);
    let mut moved = options(4);
    // Somebody else's address: what matters is that it is told.
    moved.port = 7_100;
    let conf = mesh.members[4].cluster.nodes_conf();
    mesh.members[4].cluster = Cluster::restore(moved, 5, &conf, mesh.now()).unwrap();
    mesh.members[4].is_up = true;
    mesh.pass(3 * TIMEOUT_MS);
    assert!((0..6).all(|nth| mesh.line(nth, 4).unwrap().contains(":7100@")));
    assert!(mesh.took(1, |action| matches!(action, Action::Routes)));
}

#[test]
fn messages_go_to_all_or_to_the_shard() {
    let mut mesh = Mesh::formed(3, 2);
    let (now, asked) = (mesh.now(), mesh.members[1].asked);
    mesh.at(1).publish(b"channel", b"text", false, now, &asked);
    mesh.settle();
    let is_it =
        |action: &Action| matches!(action, Action::Publish { is_sharded: false, channel, .. } if channel == b"channel");
    assert!((0..9).all(|nth| mesh.took(nth, is_it) == (nth != 1)));
    mesh.at(4).publish(b"channel", b"text", true, now, &asked);
    mesh.settle();
    let is_it = |action: &Action| matches!(action, Action::Publish { is_sharded: true, .. });
    assert!((0..9).all(|nth| mesh.took(nth, is_it) == (nth == 1 || nth == 7)));
}

#[test]
fn messages_that_nobody_takes_wait_up_to_a_limit() {
    let mut mesh = Mesh::formed(3, 0);
    let (now, asked) = (mesh.now(), Asked::default());
    let node = mesh.at(0);
    // Above the limit alone, and as many as fit.
    for (len, count, fits) in [(PUBLISHED_MAX + 1, 3, 1), (PUBLISHED_MAX / 4, 9, 3), (0, 40_000, 29_733)] {
        let message = vec![0; len];
        (0..count).for_each(|_| node.publish(b"c", &message, false, now, &asked));
        let actions = node.take_actions();
        let sent = |action: &&Action| matches!(action, Action::Send { links, .. } if links.len() == 2);
        assert_eq!(actions.iter().filter(sent).count(), fits, "{len}");
        let warned = |action: &&Action| matches!(action, Action::Log(Level::Warning, _));
        assert_eq!(actions.iter().filter(warned).count(), 1, "{len}");
        node.publish(b"c", b"", false, now, &asked);
        assert_eq!(node.take_actions().iter().filter(sent).count(), 1, "there is room again");
    }
}

#[test]
fn views_tell_shards_slots_and_links() {
    let mut mesh = Mesh::formed(3, 1);
    mesh.members[3].asked.offset = 5;
    mesh.pass(2 * TIMEOUT_MS);
    let cluster = &mesh.members[0].cluster;
    let shards = cluster.shards();
    assert_eq!((shards.len(), shards[0].nodes.len(), shards[0].nodes[0].is_primary), (3, 2, true));
    assert_eq!(shards.iter().map(|shard| shard.slots.len()).sum::<usize>(), 3);
    let slots = cluster.slots();
    assert_eq!(slots.iter().map(|view| view.slots.len()).sum::<usize>(), 16_384);
    // A replica without data is of no use to clients.
    let lens: Vec<usize> = slots.iter().map(|view| view.nodes.len()).collect();
    assert_eq!(lens, [2, 1, 1]);
    assert_eq!(cluster.links().len(), 10);
    assert_eq!((cluster.role(), mesh.members[3].cluster.role()), (Role::Primary, Role::Replica));
    let info = cluster.info_text(true);
    for line in ["cluster_state:ok", "cluster_slots_ok:16384", "cluster_known_nodes:6", "cluster_size:3"] {
        assert!(info.contains(line), "{info}");
    }
    assert!(info.contains("cluster_stats_messages_meet_sent:5\r\n"));
}
