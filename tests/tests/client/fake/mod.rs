//! A server that gives the replies that a test sets, and records the commands it gets.

// Each test file uses a part of it.
#![allow(dead_code)]

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use onrush::{Client, Connection, ConnectionConfig, ConnectionLike, cmd};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

/// Runs a test that must end within a minute.
pub fn run<F: Future<Output = ()>>(test: F) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(60), test).await.expect("the test ends") });
}

/// The answer of a fake server to a command.
pub enum Answer {
    Say(String),
    /// Byte by byte, each in a packet of its own if the system likes.
    Spell(String),
    /// After a while.
    Delay(String),
    /// Each text when the test gives a permit for it; what comes meanwhile waits.
    Staged(Arc<Semaphore>, Vec<String>),
    Nothing,
    HangUp,
}

/// A command as it came: which connection, counted from 0, and its arguments with spaces between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Came {
    pub connection: usize,
    pub line: String,
}

/// A server on a free port; it ends with the test's runtime.
pub struct Fake {
    pub port: u16,
    seen: Arc<Mutex<Vec<Came>>>,
    news: watch::Receiver<usize>,
    ends: watch::Receiver<usize>,
}

impl Fake {
    /// Starts one. `answer` gets the connection's number and the command.
    pub async fn start(answer: impl Fn(usize, &str) -> Answer + Send + Sync + 'static) -> Fake {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let (teller, news) = watch::channel(0);
        let (closer, ends) = watch::channel(0);
        let (seen, teller, answer) = (Arc::new(Mutex::new(Vec::new())), Arc::new(teller), Arc::new(answer));
        tokio::spawn({
            let seen = seen.clone();
            async move {
                for connection in 0.. {
                    let Ok((stream, _)) = listener.accept().await else { return };
                    let (seen, teller, answer) = (seen.clone(), teller.clone(), answer.clone());
                    let served = serve(stream, move |line| {
                        seen.lock().expect("no panic").push(Came { connection, line: line.clone() });
                        teller.send_modify(|count| *count += 1);
                        answer(connection, &line)
                    });
                    let closer = closer.clone();
                    tokio::spawn(async move {
                        served.await;
                        closer.send_modify(|count| *count += 1);
                    });
                }
            }
        });
        Fake { port, seen, news, ends }
    }

    /// One that answers ECHO with its argument, anything else with OK, and an empty command, as every server, not at all.
    pub async fn obliging() -> Fake {
        Fake::start(|_, line| oblige(line)).await
    }

    /// All commands so far.
    pub fn seen(&self) -> Vec<Came> {
        self.seen.lock().expect("no panic").clone()
    }

    /// The lines of a connection so far.
    pub fn lines(&self, connection: usize) -> Vec<String> {
        self.seen().into_iter().filter(|came| came.connection == connection).map(|came| came.line).collect()
    }

    /// Waits until `lines` commands have come on a connection.
    pub async fn wait_for(&mut self, connection: usize, lines: usize) {
        let seen = self.seen.clone();
        let enough = move |_: &usize| {
            seen.lock().expect("no panic").iter().filter(|came| came.connection == connection).count() >= lines
        };
        self.news.wait_for(enough).await.expect("the server goes on");
    }

    /// Waits until so many connections have ended.
    pub async fn wait_for_ends(&mut self, connections: usize) {
        self.ends.wait_for(|ended| *ended >= connections).await.expect("the server goes on");
    }

    /// A connection with RESP2, which sends no commands of its own.
    pub async fn connect(&self, config: ConnectionConfig) -> Connection {
        let client = Client::open(format!("redis://127.0.0.1:{}/?protocol=resp2", self.port)).expect("a URL");
        client.connect_with(config.set_client_info(false).set_ready_check(false)).await.expect("a connection")
    }
}

pub fn oblige(line: &str) -> Answer {
    match line.split_once(' ') {
        _ if line.is_empty() => Answer::Nothing,
        Some(("ECHO", text)) => Answer::Say(format!("${}\r\n{text}\r\n", text.len())),
        _ => Answer::Say("+OK\r\n".into()),
    }
}

async fn serve(mut stream: TcpStream, answer: impl Fn(String) -> Answer) {
    let mut input = Vec::new();
    loop {
        while let Some((line, len)) = command(&input) {
            input.drain(..len);
            match answer(line) {
                Answer::Say(text) if stream.write_all(text.as_bytes()).await.is_ok() => {}
                Answer::Spell(text) if spell(&mut stream, &text).await.is_ok() => {}
                Answer::Delay(text) => {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    if stream.write_all(text.as_bytes()).await.is_err() {
                        return;
                    }
                }
                Answer::Staged(permits, texts) => {
                    for text in texts {
                        permits.acquire().await.expect("never closed").forget();
                        if stream.write_all(text.as_bytes()).await.is_err() {
                            return;
                        }
                    }
                }
                Answer::Nothing => {}
                Answer::Say(_) | Answer::Spell(_) | Answer::HangUp => return,
            }
        }
        if stream.read_buf(&mut input).await.unwrap_or(0) == 0 {
            return;
        }
    }
}

async fn spell(stream: &mut TcpStream, text: &str) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    for byte in text.as_bytes() {
        stream.write_all(&[*byte]).await?;
        tokio::task::yield_now().await;
    }
    Ok(())
}

/// Polls a future at most that many times, each time after it is woken; `None` if it has not ended by then.
pub async fn polled<F: Future>(future: F, times: usize) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut left = times;
    std::future::poll_fn(|cx| {
        left -= 1;
        match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Makes sure that the connection's next reply is that of its next command.
pub async fn check_pairing(con: &impl ConnectionLike, text: &str) {
    let echo: String = cmd("ECHO").arg(text).query_async(con).await.unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(echo, text);
}

/// The first whole command and its length.
fn command(input: &[u8]) -> Option<(String, usize)> {
    let number = |at: usize| -> Option<(usize, usize)> {
        let end = at + input.get(at..)?.windows(2).position(|pair| pair == b"\r\n")?;
        Some((std::str::from_utf8(&input[at + 1..end]).ok()?.parse().ok()?, end + 2))
    };
    let (count, mut at) = number(0)?;
    let mut args = Vec::new();
    for _ in 0..count {
        let (len, start) = number(at)?;
        args.push(String::from_utf8_lossy(input.get(start..start + len)?).into_owned());
        at = start + len + 2;
    }
    (at <= input.len()).then(|| (args.join(" "), at))
}
