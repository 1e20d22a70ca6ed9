//! Peers that die silently: a proxy drops the bytes of one direction, or of both, and closes nothing. Clients detect
//! this within the time that their options promise.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::fake::run;
use onrush::{AsyncCommands, Client, Connection, ConnectionConfig, ErrorKind, Fate, cmd};
use onrush_tests::server::Server;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

const PING_INTERVAL: Duration = Duration::from_millis(200);
const RESPONSE_TIMEOUT: Duration = Duration::from_millis(400);
/// Both, 1/8 late at most, and what a busy machine takes.
const FOUND_WITHIN: Duration = Duration::from_millis(600 + 75 + 1_500);

/// What the proxy does with bytes from now on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Swallows {
    requests: bool,
    replies: bool,
}

const DEATHS: [Swallows; 3] = [
    Swallows { requests: true, replies: false },
    Swallows { requests: false, replies: true },
    Swallows { requests: true, replies: true },
];

/// A way to a server.
struct Proxy {
    port: u16,
    swallows: Arc<watch::Sender<Swallows>>,
    opened: watch::Receiver<usize>,
    /// How many directions of connections are dead.
    dead: watch::Receiver<usize>,
}

impl Proxy {
    async fn to(server: &Server) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let place = ("127.0.0.1", server.port());
        let swallows = Arc::new(watch::Sender::new(Swallows::default()));
        let (count, opened) = watch::channel(0);
        let (deaths, dead) = watch::channel(0);
        let (told, deaths) = (swallows.clone(), Arc::new(deaths));
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let Ok(far) = TcpStream::connect(place).await else { return };
                let (near, far) = (near.into_split(), far.into_split());
                let requests = carry(near.0, far.1, told.subscribe(), |swallows| swallows.requests, deaths.clone());
                let replies = carry(far.0, near.1, told.subscribe(), |swallows| swallows.replies, deaths.clone());
                tokio::spawn(requests);
                tokio::spawn(replies);
                count.send_modify(|count| *count += 1);
            }
        });
        Proxy { port, swallows, opened, dead }
    }

    fn client(&self, rest: &str) -> Client {
        Client::open(format!("redis://127.0.0.1:{}/{rest}", self.port)).expect("a URL")
    }

    /// Kills the next connection that sends something; later ones work.
    async fn kill_one(&mut self, death: Swallows) {
        let before = *self.dead.borrow();
        self.swallows.send_replace(death);
        self.dead.wait_for(|count| *count > before).await.expect("the proxy goes on");
        self.swallows.send_replace(Swallows::default());
    }
}

/// Carries bytes one way; once it has swallowed some, nothing gets through any more. Holds both ends open until the side that it
/// reads from ends.
async fn carry(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    swallows: watch::Receiver<Swallows>,
    here: fn(&Swallows) -> bool,
    deaths: Arc<watch::Sender<usize>>,
) {
    let (mut piece, mut is_dead) = (vec![0; 64 << 10], false);
    while let Ok(len @ 1..) = from.read(&mut piece).await {
        if !is_dead && here(&swallows.borrow()) {
            is_dead = true;
            deaths.send_modify(|count| *count += 1);
        }
        if !is_dead && to.write_all(&piece[..len]).await.is_err() {
            return;
        }
    }
}

fn config() -> ConnectionConfig {
    ConnectionConfig::new().set_response_timeout(Some(RESPONSE_TIMEOUT)).set_ping_interval(Some(PING_INTERVAL))
}

async fn connect(proxy: &Proxy) -> Connection {
    proxy.client("").connect_with(config()).await.expect("a connection")
}

#[test]
fn a_command_to_a_dead_peer_fails_in_time_and_the_next_one_goes_elsewhere() {
    run(async {
        let server = Server::start_onrush(&["--workers", "2"]);
        for death in DEATHS {
            let mut proxy = Proxy::to(&server).await;
            let con = connect(&proxy).await;
            let () = con.set("k", 1).await.unwrap();
            let started = Instant::now();
            // First: the reply must not come before.
            let ((), outcome) = tokio::join!(proxy.kill_one(death), con.incr::<_, _, i64>("k", 1));
            let error = outcome.unwrap_err();
            let took = started.elapsed();
            assert_eq!((error.kind(), error.fate()), (ErrorKind::Timeout, Fate::Unknown), "{death:?}: {error}");
            assert!(took >= RESPONSE_TIMEOUT && took < FOUND_WITHIN, "{death:?}: {took:?}");
            // Not executed when the request was swallowed, executed when the reply was.
            let want = if death.requests { "1" } else { "2" };
            let got: String = cmd("GET").arg("k").idempotent().query_async(&con).await.unwrap();
            assert_eq!(got, want, "{death:?}");
        }
    });
}

#[test]
fn a_blocked_lease_is_given_up_in_time() {
    run(async {
        let server = Server::start_onrush(&["--workers", "2"]);
        let direct = Client::open(format!("redis://127.0.0.1:{}/", server.port())).unwrap().connect().await.unwrap();
        for death in DEATHS {
            let proxy = Proxy::to(&server).await;
            let con = connect(&proxy).await;
            let waiting = tokio::spawn(async move { con.blpop::<_, _, (String, String)>("list", 0).await });
            wait_for_blocked(&direct, true).await;
            let started = Instant::now();
            proxy.swallows.send_replace(death);
            let error = waiting.await.unwrap().unwrap_err();
            let took = started.elapsed();
            assert_eq!((error.kind(), error.fate()), (ErrorKind::Timeout, Fate::Unknown), "{death:?}: {error}");
            assert!(took < FOUND_WITHIN, "{death:?}: {took:?}");
            // The server must not take the old connection for the next one.
            drop(proxy);
            wait_for_blocked(&direct, false).await;
        }
    });
}

/// Waits until a client is blocked, or none.
async fn wait_for_blocked(con: &Connection, is_blocked: bool) {
    loop {
        let info: String = cmd("INFO").arg("clients").query_async(con).await.unwrap();
        if info.contains("blocked_clients:0") != is_blocked {
            return;
        }
        tokio::task::yield_now().await;
    }
}

#[test]
fn a_subscription_moves_on_in_time() {
    run(async {
        let server = Server::start_onrush(&["--workers", "2"]);
        let direct = Client::open(format!("redis://127.0.0.1:{}/", server.port())).unwrap().connect().await.unwrap();
        for death in DEATHS {
            for protocol in ["resp2", "resp3"] {
                let mut proxy = Proxy::to(&server).await;
                let client = proxy.client(&format!("?protocol={protocol}"));
                let mut pubsub = client.pubsub_with(config()).await.unwrap();
                pubsub.subscribe("c").await.unwrap();
                let (started, before) = (Instant::now(), *proxy.opened.borrow());
                proxy.kill_one(death).await;
                proxy.opened.wait_for(|count| *count > before).await.unwrap();
                let took = started.elapsed();
                assert!(took < FOUND_WITHIN, "{death:?} {protocol}: {took:?}");
                let publishing = tokio::spawn({
                    let direct = direct.clone();
                    async move {
                        while direct.publish::<_, _, usize>("c", "hello").await.is_ok() {
                            tokio::task::yield_now().await;
                        }
                    }
                });
                let message = pubsub.next_message().await.unwrap();
                publishing.abort();
                assert_eq!(message.get_payload::<String>().unwrap(), "hello", "{death:?} {protocol}");
            }
        }
    });
}
