//! The primary of a group, found through Sentinels: at the first connection, in the middle of a stream, after READONLY.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::fake::{Answer, Fake, oblige, run};
use onrush::{AsyncCommands, Client, ConnectionConfig, ErrorKind, Fate, cmd};
use onrush_tests::failovers::Options;
use onrush_tests::failovers::group::{Group, Kind};
use onrush_tests::failovers::node::{Login, wait};
use onrush_tests::server::{Oracle, onrush_bin, skips_on_stand_in};

/// A Sentinel that knows a primary on this port.
async fn sentinel(primary: impl Fn() -> Option<u16> + Send + Sync + 'static) -> Fake {
    let bulk = |text: &str| format!("${}\r\n{text}\r\n", text.len());
    Fake::start(move |_, line| match (line, primary()) {
        ("SENTINEL GET-MASTER-ADDR-BY-NAME group", Some(port)) => {
            Answer::Say(format!("*2\r\n{}{}", bulk("127.0.0.1"), bulk(&port.to_string())))
        }
        ("SENTINEL GET-MASTER-ADDR-BY-NAME group", None) => Answer::Say("*-1\r\n".to_owned()),
        ("SENTINEL SENTINELS group", _) => Answer::Say("*0\r\n".to_owned()),
        _ => Answer::Say("-ERR what?\r\n".to_owned()),
    })
    .await
}

const PRIMARY: &str = "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n";
const REPLICA: &str = "*5\r\n$5\r\nslave\r\n$1\r\nh\r\n:1\r\n$9\r\nconnected\r\n:0\r\n";

fn client(sentinels: &[u16]) -> Client {
    let hosts: Vec<String> = sentinels.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    Client::open(format!("redis-sentinel://{}/group?protocol=2", hosts.join(","))).expect("a URL")
}

#[test]
fn a_server_that_says_readonly_is_left_and_looked_for_again() {
    run(async {
        let server = Fake::start(|connection, line| match (connection, line) {
            // The first is no primary yet, the second no more.
            (0, "ROLE") => Answer::Say(REPLICA.to_owned()),
            (_, "ROLE") => Answer::Say(PRIMARY.to_owned()),
            (1, "SET k v") => Answer::Say("-READONLY You can't write against a read only replica.\r\n".to_owned()),
            (_, line) => oblige(line),
        })
        .await;
        let port = server.port;
        let (deaf, knows) = (sentinel(|| None).await, sentinel(move || Some(port)).await);
        let con = client(&[deaf.port, knows.port]).connect().await.expect("a connection");
        let error = cmd("SET").arg("k").arg("v").exec_async(&con).await.expect_err("it is a replica");
        assert_eq!(error.code(), Some("READONLY"));
        cmd("SET").arg("k").arg("v").exec_async(&con).await.expect("the next is a primary");
        assert_eq!(deaf.seen().len(), 2, "the one that knows is asked first from then on");
    });
}

#[test]
fn what_the_sentinels_say_is_told_if_none_knows_the_primary() {
    run(async {
        let (deaf, rude) = (sentinel(|| None).await, Fake::start(|_, _| Answer::HangUp).await);
        let config = ConnectionConfig::new().set_response_timeout(Some(Duration::from_millis(200)));
        let error = client(&[deaf.port, rude.port]).connect_with(config).await.expect_err("there is none");
        let text = error.to_string();
        assert_eq!(error.kind(), ErrorKind::Io, "{text}");
        for part in ["the primary of 'group'", "it does not know 'group'", &format!("127.0.0.1:{}:", rude.port)] {
            assert!(text.contains(part), "{text}");
        }
    });
}

#[test]
fn a_stream_goes_on_at_the_next_primary() {
    if skips_on_stand_in() {
        return;
    }
    let options = Options {
        rounds: 1,
        seed: 1,
        replicas: 0,
        servers: [Kind::Onrush; 3],
        sentinels: Oracle::Older,
        login: Login::None,
        encrypted: false,
        network: false,
        faults: Vec::new(),
        directives: Vec::new(),
        progress: false,
        onrush_bin: onrush_bin(),
    };
    let mut group = Group::start(&options).unwrap_or_else(|why| panic!("{why}"));
    let ports: Vec<u16> = group.places().sentinels.iter().map(|place| place.port).collect();
    let client = client(&ports);
    let (is_over, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let killer = std::thread::spawn({
        let (is_over, answered) = (Arc::clone(&is_over), Arc::clone(&answered));
        move || {
            wait("the stream", Duration::from_secs(30), || match answered.load(Relaxed) {
                count if count > 1000 => Ok(()),
                count => Err(format!("{count} replies")),
            })?;
            // It stands still for a moment before it dies: the client has sent what it never answers.
            let primary = group.primary()?;
            group.signal(primary, "STOP");
            std::thread::sleep(Duration::from_millis(300));
            group.kill(primary);
            group.wait_for_other_primary(primary, Duration::from_secs(30))?;
            std::thread::sleep(Duration::from_millis(1500));
            is_over.store(true, Relaxed);
            Ok::<_, String>(group)
        }
    });
    run(async move {
        let config = ConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(30)));
        let con = client.connect_with(config).await.expect("a connection");
        let numbers = (0..u64::MAX).take_while(|_| !is_over.load(Relaxed));
        let numbers = numbers.map(|number| cmd("SET").arg(format!("key:{}", number % 1000)).arg(number).clone());
        let mut replies = con.stream(numbers);
        let (mut done, mut unknown, mut at) = (Vec::new(), 0, 0);
        while let Some(reply) = replies.next().await {
            match reply {
                Ok(_) => {
                    done.push(at);
                    answered.fetch_add(1, Relaxed);
                }
                Err(error) => {
                    assert_ne!(error.fate(), Fate::Replied, "{error}");
                    unknown += u64::from(error.fate() == Fate::Unknown);
                }
            }
            at += 1;
        }
        drop(replies);
        assert!(unknown > 0 && unknown < at / 2, "{unknown} of {at}");
        // The last are of the new primary.
        let last = done.last().copied().expect("a reply");
        assert!(last == at - 1 && done.len() as u64 > 1000, "{last} of {at}, {}", done.len());
        let con = client.connect().await.expect("a connection");
        assert_eq!(con.get::<_, u64>(format!("key:{}", last % 1000)).await, Ok(last));
    });
    let ended = killer.join().expect("no panic");
    assert!(ended.is_ok(), "{:?}", ended.err());
}
