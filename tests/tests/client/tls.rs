//! The client library over TLS, against a redis-server that asks for certificates.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use onrush::rustls::pki_types::pem::PemObject;
use onrush::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use onrush::rustls::{self, HandshakeKind, ServerConfig, ServerConnection};
use onrush::{AsyncCommands, Client, Connection, ConnectionConfig, Fate, RedisResult, TlsOptions, cmd, pipe};
use onrush_tests::certificates::certificates;
use onrush_tests::port::Port;
use onrush_tests::server::{Server, TempDir};

async fn connect(url: &str, tls: TlsOptions) -> RedisResult<Connection> {
    Client::open_with_tls(url, tls)?.connect().await
}

#[test]
fn pipelines_and_streams_go_over_tls() {
    const COUNT: i64 = 100_000;
    let folder = TempDir::new();
    certificates(&folder.0);
    let file = |name: &str| folder.0.join(name).to_str().expect("a path").to_owned();
    let held = Port::choose();
    let port = held.number().to_string();
    let (cert, key, ca) = (file("server.crt"), file("server.key"), file("ca.crt"));
    let files = ["--tls-cert-file", &cert, "--tls-key-file", &key, "--tls-ca-cert-file", &ca];
    let _server = Server::start_redis(&[&["--tls-port", &port][..], &files].concat());
    let known = || -> RedisResult<TlsOptions> {
        TlsOptions::default().with_ca_file(&ca)?.with_identity_files(file("client.crt"), file("client.key"))
    };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let test = async {
        let url = format!("rediss://localhost:{port}/");
        let con = connect(&url, known().expect("files")).await.expect("a connection");
        let () = con.set("k", "v".repeat(1_000_000)).await.expect("SET");
        assert_eq!(con.get::<_, String>("k").await.expect("GET").len(), 1_000_000);
        let mut pipeline = pipe();
        (0..COUNT).for_each(|_| _ = pipeline.cmd("INCR").arg("n"));
        let replies: Vec<i64> = pipeline.query_async(&con).await.expect("a pipeline");
        assert_eq!(replies, (1..=COUNT).collect::<Vec<_>>());
        let tasks: Vec<_> = (0..64)
            .map(|_| {
                let con = con.clone();
                tokio::spawn(async move { cmd("INCR").arg("m").query_async::<i64>(&con).await })
            })
            .collect();
        for task in tasks {
            task.await.expect("a task").expect("INCR");
        }
        assert_eq!(con.get::<_, i64>("m").await.expect("GET"), 64);

        // Whom we do not know we do not talk to, unless we are told not to care.
        let stranger =
            TlsOptions::default().with_identity_files(file("client.crt"), file("client.key")).expect("files");
        let error = connect(&url, stranger.clone()).await.expect_err("a certificate of nobody's");
        assert!(error.to_string().contains("UnknownIssuer"), "{error}");
        connect(&format!("{url}#insecure"), stranger).await.expect("trust without asking");
        let error = connect(&url.replace("localhost", "127.0.0.2"), known().expect("files")).await;
        error.expect_err("a certificate of another's");
        // A name by hand is asked for and checked instead of the host.
        let by_address = |name: &str| {
            let known = known().expect("files").with_server_name(name);
            let url = url.replace("localhost", "127.0.0.1");
            async move { connect(&url, known).await }
        };
        by_address("localhost").await.expect("the certificate's name");
        by_address("elsewhere").await.expect_err("the name of another");
        // So is a configuration by hand, which alone counts.
        let own = known().expect("files").client_config(false).expect("a configuration");
        connect(&url, TlsOptions::default().with_rustls(own.clone())).await.expect("a connection");
        let insecure = format!("{}#insecure", url.replace("localhost", "127.0.0.2"));
        let strict = connect(&insecure, TlsOptions::default().with_rustls(own)).await;
        strict.expect_err("a certificate of another's, whatever the URL says");
        // Nor does the server talk to us without a certificate.
        let anonymous = TlsOptions::default().with_ca_file(&ca).expect("a file");
        connect(&url, anonymous).await.expect_err("no certificate");
    };
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(60), test).await.expect("the test ends") });
}

fn server_config(folder: &Path) -> Arc<ServerConfig> {
    let file = |name: &str| folder.join(name);
    let certs = CertificateDer::pem_file_iter(file("server.crt")).expect("a file");
    let certs = certs.collect::<Result<Vec<_>, _>>().expect("certificates");
    let key = PrivateKeyDer::from_pem_file(file("server.key")).expect("a key");
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(certs, key)
        .expect("a certificate");
    Arc::new(config)
}

/// A server that reads so many bytes of each connection as fast as it can, hangs up with the rest unread, and reports
/// what it has read.
fn hang_up_after(config: Arc<ServerConfig>, len: usize) -> (u16, Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    let (teller, got) = channel();
    std::thread::spawn(move || {
        while let Ok((mut socket, _)) = listener.accept() {
            let mut tls = ServerConnection::new(config.clone()).expect("a connection");
            while tls.is_handshaking() && tls.complete_io(&mut socket).is_ok() {}
            let mut sealed = Vec::new();
            let _ = Read::by_ref(&mut socket).take(len as u64).read_to_end(&mut sealed);
            drop(socket);
            let (mut sealed, mut input) = (&sealed[..], Vec::new());
            loop {
                tls.process_new_packets().expect("whole records");
                let _ = tls.reader().read_to_end(&mut input);
                if tls.read_tls(&mut sealed).expect("bytes") == 0 {
                    break;
                }
            }
            let _ = teller.send(input);
        }
    });
    (port, got)
}

#[test]
fn what_went_out_before_a_write_failed_is_not_called_unsent() {
    const COMMANDS: usize = 4_000;
    let folder = TempDir::new();
    certificates(&folder.0);
    let (port, got) = hang_up_after(server_config(&folder.0), 100_000);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let test = async {
        let tls = TlsOptions::default().with_ca_file(folder.0.join("ca.crt")).expect("a file");
        let mut own = tls.client_config(false).expect("a configuration");
        // Small records take time, in which the server hangs up.
        own.max_fragment_size = Some(64);
        let tls = TlsOptions::default().with_rustls(own);
        let client = Client::open_with_tls(format!("rediss://localhost:{port}/?protocol=resp2"), tls).expect("a URL");
        let config = ConnectionConfig::new().set_client_info(false).set_ready_check(false).set_retries_max(0);
        for _ in 0..20 {
            let con = client.connect_with(config.clone()).await.expect("a connection");
            let mut pipeline = pipe();
            (0..COMMANDS).for_each(|_| _ = pipeline.cmd("ECHO").arg("x".repeat(100)));
            let each = pipeline.query_each::<String>(&con).await.expect("results");
            let is_unsent = |result: &RedisResult<String>| result.as_ref().is_err_and(|e| e.fate() == Fate::NotSent);
            let unsent = each.iter().position(is_unsent).unwrap_or(COMMANDS);
            drop(con);
            let got = got.recv().expect("what the server has read");
            let executed = got.len() / (pipeline.get_packed_pipeline().len() / COMMANDS);
            assert!(unsent >= executed, "the server has executed {executed} commands, but {unsent} were sent");
        }
    };
    let test = async { tokio::time::timeout(Duration::from_secs(60), test).await.expect("the test ends") };
    runtime.expect("a runtime").block_on(test);
}

/// A server that replies OK to everything, and reports for each connection how its handshake ended.
fn tell_handshakes(folder: &Path) -> (u16, Receiver<HandshakeKind>) {
    let config = server_config(folder);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    let (teller, kinds) = channel();
    std::thread::spawn(move || {
        while let Ok((mut socket, _)) = listener.accept() {
            let (config, teller) = (config.clone(), teller.clone());
            std::thread::spawn(move || {
                let mut tls = ServerConnection::new(config).expect("a connection");
                let mut stream = rustls::Stream::new(&mut tls, &mut socket);
                let mut input = [0; 1024];
                while stream.read(&mut input).is_ok_and(|n| n > 0) && stream.write_all(b"+OK\r\n").is_ok() {
                    if let Some(kind) = stream.conn.handshake_kind() {
                        let _ = teller.send(kind);
                    }
                }
            });
        }
    });
    (port, kinds)
}

#[test]
fn sessions_are_resumed() {
    let folder = TempDir::new();
    certificates(&folder.0);
    let (port, kinds) = tell_handshakes(&folder.0);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let test = async {
        let tls = TlsOptions::default().with_ca_file(folder.0.join("ca.crt")).expect("a file");
        let client = Client::open_with_tls(format!("rediss://localhost:{port}/?protocol=resp2"), tls).expect("a URL");
        let config = ConnectionConfig::new().set_client_info(false).set_ready_check(false);
        let mut got = Vec::new();
        for client in [client.clone(), client] {
            let con = client.connect_with(config.clone()).await.expect("a connection");
            cmd("PING").exec_async(&con).await.expect("PING");
            got.push(kinds.recv().expect("a handshake"));
            cmd("PING").exec_async(&con.lease().await.expect("a lease")).await.expect("PING");
            got.push(kinds.recv().expect("a handshake"));
        }
        use HandshakeKind::{Full, Resumed};
        assert_eq!(got, [Full, Resumed, Resumed, Resumed]);
    };
    let test = async { tokio::time::timeout(Duration::from_secs(60), test).await.expect("the test ends") };
    runtime.expect("a runtime").block_on(test);
}

#[test]
fn files_that_are_none_are_told() {
    let folder = TempDir::new();
    let none = TlsOptions::default().with_ca_file(folder.0.join("none")).expect_err("no such file");
    assert!(none.to_string().contains("none: No such file"), "{none}");
    std::fs::write(folder.0.join("text"), "no certificate\n").expect("a file");
    let text = TlsOptions::default().with_ca_file(folder.0.join("text")).expect("a file");
    assert!(text.client_config(false).is_err());
    let empty = TlsOptions::default().with_ca_folder(&folder.0).expect("a folder");
    assert!(empty.client_config(false).is_err());
}
