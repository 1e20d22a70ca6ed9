//! Commands whose results need no type.

use crate::fake::run;
use onrush::{AsyncTypedCommands, Client, IntegerReplyOrNoOp};
use onrush_tests::server::Server;

#[test]
fn results_have_the_types_of_their_commands() {
    run(async {
        for server in [Server::start_onrush(&["--workers", "2"]), Server::start_redis(&[])] {
            for protocol in ["resp2", "resp3"] {
                let url = format!("redis://127.0.0.1:{}/?protocol={protocol}", server.port());
                let con = Client::open(url).unwrap().connect().await.unwrap();
                con.flushdb().await.unwrap();
                con.set("k", "v").await.unwrap();
                assert_eq!(con.get("k").await.unwrap().as_deref(), Some("v"));
                assert_eq!(con.mget(["k", "none"]).await.unwrap(), [Some("v".to_owned()), None]);
                assert_eq!(con.set_options("k", "w", "NX").await.unwrap(), None);
                assert_eq!(con.set_options("k", "w", ("XX", "GET")).await.unwrap().as_deref(), Some("v"));
                assert_eq!((con.incr("n", 2).await.unwrap(), con.incr_float("f", 0.5).await.unwrap()), (2, 0.5));
                assert!(con.expire("k", 100).await.unwrap() && !con.expire("none", 100).await.unwrap());
                assert_eq!(con.ttl("n").await.unwrap(), IntegerReplyOrNoOp::ExistsButNotRelevant);
                assert_eq!(con.key_type("k").await.unwrap(), "string");
                assert_eq!(con.rpush("list", ["a", "b"]).await.unwrap(), 2);
                assert_eq!(con.lrange("list", 0, -1).await.unwrap(), ["a", "b"]);
                assert_eq!(con.blpop("list", 1).await.unwrap(), Some(("list".into(), "a".into())));
                assert_eq!(con.hset_multiple("h", [("a", 1), ("b", 2)]).await.unwrap(), 2);
                assert_eq!(con.hgetall("h").await.unwrap()["b"], "2");
                assert_eq!(con.hget("h", "none").await.unwrap(), None);
                assert_eq!(con.sadd("s", ["a", "b"]).await.unwrap(), 2);
                assert!(con.smembers("s").await.unwrap().contains("b"));
                assert_eq!(con.smismember("s", ["a", "c"]).await.unwrap(), [true, false]);
                assert_eq!(con.zadd("z", "a", 1.5).await.unwrap(), 1);
                assert_eq!(con.zscore("z", "a").await.unwrap(), Some(1.5));
                assert_eq!(con.zrank("z", "none").await.unwrap(), None);
                assert_eq!(con.zrange_withscores("z", 0, -1).await.unwrap(), [("a".to_owned(), 1.5)]);
                assert_eq!(con.bzpopmin("z", 1).await.unwrap(), Some(("z".into(), "a".into(), 1.5)));
                let id = con.xadd("x", "*", ("f", 1)).await.unwrap();
                assert_eq!(con.xrange_all("x").await.unwrap().ids[0].id, id);
                assert_eq!(con.xread("x", "0").await.unwrap().map(|reply| reply.keys.len()), Some(1));
                assert_eq!(con.xread("x", "$").await.unwrap(), None);
                assert!(con.pfadd("hll", "a").await.unwrap());
                assert_eq!((con.dbsize().await.unwrap(), con.echo("hello").await.unwrap()), (8, "hello".into()));
                assert!(con.config_get("maxmemory").await.unwrap().contains_key("maxmemory"));
                assert!(con.info("server").await.unwrap().get::<String>("redis_version").is_some());
                assert!(con.dump("k").await.unwrap().is_some());
                assert_eq!(con.object_encoding("n").await.unwrap().as_deref(), Some("int"));
            }
        }
    });
}

#[test]
fn blocking_results_have_the_same_types() {
    use onrush::blocking::{Client, TypedCommands};
    let server = Server::start_onrush(&["--workers", "2"]);
    let con = Client::open(format!("redis://127.0.0.1:{}/", server.port())).unwrap().get_connection().unwrap();
    con.set("k", "v").unwrap();
    assert_eq!((con.get("k").unwrap().as_deref(), con.del("k").unwrap()), (Some("v"), 1));
}
