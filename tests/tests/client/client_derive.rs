//! Structs that are written and read as hashes and as entries of streams.

use crate::fake::run;
use onrush::streams::StreamRangeReply;
use onrush::{
    AsyncCommands, Client, ErrorKind, FromRedisValue, RedisResult, ToRedisArgs, ToSingleRedisArg, Value, pipe,
};
use onrush_tests::server::Server;

#[derive(Clone, Debug, PartialEq, FromRedisValue, ToRedisArgs)]
struct User<T> {
    name: String,
    #[onrush(rename = "e-mail")]
    email: Option<String>,
    visits: u64,
    #[onrush(default)]
    tags: String,
    r#type: T,
}

#[derive(ToRedisArgs)]
struct Borrowed<'a, T: ToSingleRedisArg + ?Sized> {
    name: &'a T,
}

fn user() -> User<i32> {
    User { name: "Ada".into(), email: None, visits: 7, tags: String::new(), r#type: 3 }
}

#[test]
fn a_struct_is_written_and_read_as_a_hash_and_as_an_entry_of_a_stream() {
    run(async {
        for server in [Server::start_onrush(&["--workers", "2"]), Server::start_redis(&[])] {
            for protocol in ["resp2", "resp3"] {
                let url = format!("redis://127.0.0.1:{}/?protocol={protocol}", server.port());
                let con = Client::open(url).unwrap().connect().await.unwrap();
                let () = con.flushdb().await.unwrap();
                let () = con.hset_multiple("user", user()).await.unwrap();
                assert_eq!(con.hgetall::<_, User<i32>>("user").await.unwrap(), user());
                let with_email = User { email: Some("ada@example.org".into()), ..user() };
                let () = con.hset_multiple("user", &with_email).await.unwrap();
                let (one, other): (User<i32>, User<String>) =
                    pipe().hgetall("user").hgetall("user").query_async(&con).await.unwrap();
                assert_eq!((one, other.r#type.as_str()), (with_email.clone(), "3"));
                // What the struct does not know is ignored, and what it has a default for may be missing.
                let () = con.hset("user", "other", 1).await.unwrap();
                let () = con.hdel("user", "tags").await.unwrap();
                assert_eq!(con.hgetall::<_, User<i32>>("user").await.unwrap(), with_email);
                let () = con.hdel("user", "visits").await.unwrap();
                let error = con.hgetall::<_, User<i32>>("user").await.unwrap_err();
                assert!(error.to_string().contains("the field 'visits'"), "{error}");

                let _: String = con.xadd("stream", "*", &with_email).await.unwrap();
                let _: String = con.xadd("stream", "*", Borrowed { name: "Bob" }).await.unwrap();
                let reply: StreamRangeReply = con.xrange_all("stream").await.unwrap();
                assert_eq!(reply.ids[0].read::<User<i32>>().unwrap(), with_email);
                assert!(reply.ids[1].read::<User<i32>>().is_err());
                let entries: Vec<(String, User<i32>)> = con.xrange_count("stream", "-", "+", 1).await.unwrap();
                assert_eq!(entries[0].1, with_email);
            }
        }
    });
}

#[test]
fn what_does_not_fit_is_told_with_the_name_of_its_field() {
    let bulk = |text: &str| Value::BulkString(text.into());
    let read = |parts: &[&str]| -> RedisResult<User<i32>> {
        User::from_redis_value(Value::Array(parts.iter().map(|part| bulk(part)).collect()))
    };
    let error = read(&["name", "Ada", "visits", "many", "type", "1"]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnexpectedReturnType);
    assert!(error.to_string().contains("the field 'visits'"), "{error}");
    assert!(read(&["name"]).is_err());
    assert!(User::<i32>::from_redis_value(Value::Int(1)).is_err());
    assert!(User::<i32>::from_redis_value(Value::Nil).is_err());
    // Of several fields of one name the last counts.
    let last = read(&["name", "Ada", "visits", "1", "type", "1", "visits", "2"]).unwrap();
    assert_eq!(last.visits, 2);
    assert_eq!((user().num_of_args(), user().to_redis_args().len()), (8, 8));
}
