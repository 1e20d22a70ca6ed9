//! What a client has to live with: a line that is cut and held up, and a server that is killed and started again.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};
use std::time::Duration;

use onrush::{Client, ConnectionConfig};
use onrush_tests::rng::Rng;
use onrush_tests::server::{Launch, Server, TempDir};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

/// The port of a server, which changes when it is started again.
pub type CurrentPort = Arc<AtomicU16>;

/// How a line fails, each with a random number of bytes or chance.
#[derive(Clone, Copy)]
pub struct Line {
    /// Most bytes in one direction before it is cut.
    pub bytes_max: usize,
    /// Of so many reads, one holds it up, for as long at most.
    pub stalls_every: usize,
    pub stall: Duration,
}

impl Line {
    /// Cut soon.
    pub const SHORT: Line = Line { bytes_max: 60_000, stalls_every: usize::MAX, stall: Duration::ZERO };
    /// Cut now and then, and held up for longer than anybody waits.
    pub const STALLING: Line = Line { bytes_max: 2_000_000, stalls_every: 1_000, stall: Duration::from_secs(1) };
}

/// Passes connections on to a port, over such lines; its own port.
pub async fn proxy(port: CurrentPort, line: Line) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let near = listener.local_addr().expect("an address").port();
    tokio::spawn(async move {
        for seed in 0.. {
            let Ok((client, _)) = listener.accept().await else { return };
            // It may be dead at the moment.
            let Ok(server) = TcpStream::connect(("127.0.0.1", port.load(Relaxed))).await else { continue };
            tokio::spawn(async move {
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = server.into_split();
                // Both end with the first that does.
                tokio::select! {
                    () = pass(from_client, to_server, line, Rng::new(seed * 2)) => {}
                    () = pass(from_server, to_client, line, Rng::new(seed * 2 + 1)) => {}
                }
            });
        }
    });
    near
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, line: Line, mut rng: Rng) {
    let mut left = 500 + rng.below(line.bytes_max);
    let mut buffer = vec![0; 4 << 10];
    loop {
        let n = from.read(&mut buffer).await.unwrap_or(0);
        let taken = n.min(left);
        if taken == 0 || to.write_all(&buffer[..taken]).await.is_err() {
            return;
        }
        left -= taken;
        if left == 0 {
            return;
        }
        if rng.below(50) == 0 {
            tokio::time::sleep(Duration::from_millis(rng.below(4) as u64)).await;
        }
        if rng.below(line.stalls_every) == 0 {
            tokio::time::sleep(line.stall.mul_f64(rng.below(1_000) as f64 / 1e3)).await;
        }
    }
}

/// A server whose acknowledged writes outlast its death.
pub struct Mortal {
    launch: fn() -> Launch,
    folder: TempDir,
    server: Option<Server>,
    pub port: CurrentPort,
    pub deaths: u32,
}

impl Mortal {
    /// Starts one.
    pub fn start(launch: fn() -> Launch) -> Mortal {
        let mut mortal =
            Mortal { launch, folder: TempDir::new(), server: None, port: CurrentPort::default(), deaths: 0 };
        mortal.revive();
        mortal
    }

    fn revive(&mut self) {
        let folder = self.folder.0.to_str().expect("a path");
        let args = ["--appendonly", "yes", "--appendfsync", "always", "--dir", folder];
        let server = (self.launch)().args(&args).start();
        self.port.store(server.port(), Relaxed);
        self.server = Some(server);
    }

    /// Kills it, leaves it dead for a while, and starts it with what it had.
    pub fn kill(mut self, dead: Duration) -> Mortal {
        self.server = None;
        self.deaths += 1;
        std::thread::sleep(dead);
        self.revive();
        self
    }

    /// A client without anything between, which follows the port.
    pub fn client(&self) -> (Client, ConnectionConfig) {
        let port = self.port.clone();
        let config = ConnectionConfig::new().set_resolver(move |_: String, _: u16| {
            let address = SocketAddr::from(([127, 0, 0, 1], port.load(Relaxed)));
            async move { Ok(vec![address]) }
        });
        (Client::open("redis://127.0.0.1/").expect("a URL"), config)
    }
}
