//! A cluster over TLS.

use super::harness::{Cluster, run};
use onrush::{AsyncCommands, ClusterClient, ErrorKind, pipe};

#[test]
fn all_nodes_are_reached_over_tls() {
    run(async {
        let cluster = Cluster::start_with(3, false, true).await;
        let port = cluster.nodes[1].tls_port.unwrap();
        let url = format!("rediss-cluster://localhost:{port}#insecure");
        let con = ClusterClient::open(url).unwrap().connect().await.unwrap();
        let mut many = pipe();
        (0..50).for_each(|number| _ = many.set(format!("key:{number}"), number).ignore().get(format!("key:{number}")));
        assert_eq!(many.query_async::<Vec<u64>>(&con).await.unwrap(), (0..50).collect::<Vec<_>>());
        assert_eq!(con.keys::<_, Vec<String>>("*").await.unwrap().len(), 50);
        assert_eq!(con.primaries().len(), 3);
        // Nobody vouches for the certificates.
        let error =
            ClusterClient::open(format!("rediss-cluster://localhost:{port}")).unwrap().connect().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    });
}
