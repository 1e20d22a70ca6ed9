//! The client library over TLS, against a redis-server that asks for certificates.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use onrush::{AsyncCommands, Client, Connection, RedisResult, TlsOptions, cmd, pipe};
use onrush_tests::port::Port;
use onrush_tests::server::{Server, TempDir};

fn openssl(folder: &Path, args: &str) {
    let done = Command::new("openssl").args(args.split(' ')).current_dir(folder).output().expect("openssl");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// An authority, and a server and a client that it vouches for.
fn certificates(folder: &Path) {
    const KEY: &str = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    openssl(folder, &format!("req -x509 {KEY} -keyout ca.key -out ca.crt -subj /CN=authority -days 30"));
    std::fs::write(folder.join("names"), "subjectAltName=DNS:localhost,IP:127.0.0.1\n").expect("a file");
    for who in ["server", "client"] {
        openssl(folder, &format!("req {KEY} -keyout {who}.key -out {who}.csr -subj /CN={who}"));
        let signed = "-CA ca.crt -CAkey ca.key -CAcreateserial -days 30 -extfile names";
        openssl(folder, &format!("x509 -req -in {who}.csr -out {who}.crt {signed}"));
    }
}

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
        // Nor does the server talk to us without a certificate.
        let anonymous = TlsOptions::default().with_ca_file(&ca).expect("a file");
        connect(&url, anonymous).await.expect_err("no certificate");
    };
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(60), test).await.expect("the test ends") });
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
