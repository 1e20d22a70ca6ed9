//! What the client library tells `tracing`. Alone: whether anybody listens to an event is noted for the whole process.

use std::io::Write;
use std::sync::{Arc, Mutex};

use onrush::{AsyncCommands, Client, cmd, pipe};
use onrush_tests::server::Server;

fn client(server: &Server, rest: &str) -> Client {
    Client::open(format!("redis://127.0.0.1:{}/{rest}", server.port())).expect("a URL")
}

/// Where the events are written to.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn tracing_sees_commands_connections_and_losses_and_no_secrets() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::DEBUG)
        .with_ansi(false)
        .with_span_events(tracing_subscriber::fmt::format::FmtSpan::CLOSE)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let server = Server::start_onrush(&["--requirepass", "sesame"]);
        let con = client(&server, "?pass=sesame").connect().await.unwrap();
        let () = con.set("a-key", "a-value").await.unwrap();
        pipe().get("a-key").get("b").exec_async(&con).await.unwrap();
        let other = client(&server, "?pass=sesame").connect().await.unwrap();
        let _ = con.client_id::<u64>().await.unwrap();
        let _ = other.client_kill::<_, i32>(("TYPE", "normal")).await;
        cmd("GET").arg("a-key").idempotent().exec_async(&con).await.unwrap();
    });
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    for wanted in
        ["connected", "command{name=SET}", "pipeline{commands=2 bytes=", "the connection is lost", "connected again"]
    {
        assert!(log.contains(wanted), "{wanted}\n{log}");
    }
    for secret in ["sesame", "a-value", "a-key"] {
        assert!(!log.contains(secret), "{secret}\n{log}");
    }
}
