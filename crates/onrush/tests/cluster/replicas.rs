//! Reads from replicas.

use std::collections::BTreeSet;

use super::harness::{Cluster, run, text, until};
use onrush::{AsyncCommands, ClusterConfig, ReadFrom, cmd};

/// How often a node has executed GET.
async fn gets(cluster: &Cluster, nth: usize) -> u64 {
    let stats = text(&cluster.nodes[nth].call("INFO commandstats").await.unwrap());
    let calls = stats.split("cmdstat_get:calls=").nth(1).and_then(|rest| rest.split(',').next());
    calls.map_or(0, |calls| calls.parse().unwrap())
}

#[test]
fn replicas_answer_reads_if_that_is_wanted() {
    run(async {
        let mut cluster = Cluster::start(3, true).await;
        let con = cluster.client().connect().await.unwrap();
        let () = con.set("k", 1).await.unwrap();
        let slot: u16 = cmd("CLUSTER").arg("KEYSLOT").arg("k").query_async(&con).await.unwrap();
        let owner = cluster.owner(slot).await;
        let replica = owner + 3;
        let mut before = (0, 0);
        for (read_from, of_primary, of_replica) in
            [(ReadFrom::Primary, 100, 0), (ReadFrom::PreferReplica, 0, 100), (ReadFrom::Any, 50, 50)]
        {
            let config = ClusterConfig::new().set_read_from(read_from);
            let con = cluster.client().connect_with(config).await.unwrap();
            until("the replica has it", async || con.get::<_, Option<u64>>("k").await == Ok(Some(1))).await;
            before = (gets(&cluster, owner).await, gets(&cluster, replica).await);
            for _ in 0..50 {
                assert_eq!(con.get::<_, u64>("k").await, Ok(1));
            }
            let mut pipeline = onrush::pipe();
            (0..50).for_each(|_| _ = pipeline.get("k"));
            assert_eq!(pipeline.query_async::<Vec<u64>>(&con).await.unwrap(), [1; 50]);
            let now = (gets(&cluster, owner).await, gets(&cluster, replica).await);
            assert_eq!((now.0 - before.0, now.1 - before.1), (of_primary, of_replica), "{read_from:?}");
        }
        assert!(before.1 > 0);
        let con =
            cluster.client().connect_with(ClusterConfig::new().set_read_from(ReadFrom::PreferReplica)).await.unwrap();
        assert_eq!(con.get::<_, u64>("k").await, Ok(1));
        cluster.nodes[replica].kill();
        until("the primary answers", async || con.get::<_, u64>("k").await == Ok(1)).await;
    });
}

#[test]
fn a_scan_of_a_set_stays_at_one_server() {
    run(async {
        let cluster = Cluster::start(3, true).await;
        let config = ClusterConfig::new().set_read_from(ReadFrom::Any);
        let con = cluster.client().connect_with(config).await.unwrap();
        let members: BTreeSet<i64> = (0..5_000).collect();
        let () = con.sadd("set", &members).await.unwrap();
        until("the replica has it", async || {
            let mut counts = onrush::pipe();
            (0..8).for_each(|_| _ = counts.scard("set"));
            counts.query_async::<Vec<u64>>(&con).await == Ok(vec![5_000; 8])
        })
        .await;
        assert_eq!(con.sscan::<i64>("set").collect::<BTreeSet<i64>>().await, Ok(members));
    });
}
