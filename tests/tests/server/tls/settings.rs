//! Who is let in, what is refused with which words, and changes while the server runs.

use std::io::{Read, Write};
use std::net::TcpStream;

use onrush::rustls::ALL_VERSIONS;
use onrush_tests::argv;
use onrush_tests::client::Conn;
use onrush_tests::port::Port;
use onrush_tests::server::{Launch, Server, onrush_bin};

use super::authority::Authority;
use super::peer::{Peer, trust, trust_with};
use super::{TlsServer, arguments};

#[test]
fn who_shows_no_good_certificate_is_refused_with_a_reason_on_both_sides() {
    let (authority, other) = (Authority::new(), Authority::new());
    authority.certify_expired("expired");
    let server = TlsServer::start(&authority, &[]);
    let port = server.tls_port();
    for (owns, own, alert, logged) in [
        (&authority, None, "CertificateRequired", "the client showed no certificate, and tls-auth-clients is yes"),
        (&other, Some("client"), "DecryptError", "the other side's certificate is not signed by the authority that it"),
        (&authority, Some("expired"), "CertificateExpired", "the other side's certificate has expired"),
    ] {
        let failure = Peer::begin(port, &trust_with(&authority, owns, own, ALL_VERSIONS)).failure();
        assert!(failure.contains(alert), "{own:?}: {failure}");
        server.server.expect_log(&format!("Error accepting a client connection: {logged}"));
    }
    // The client does not trust the server.
    let failure = Peer::begin(port, &trust(&other, None)).failure();
    assert!(failure.contains("certificate"), "{failure}");
    Peer::connect(port, &trust(&authority, Some("client"))).expect("a connection").expect("PING", "+PONG\r\n");
}

#[test]
fn certificates_of_clients_may_be_optional_or_ignored() {
    let (authority, other) = (Authority::new(), Authority::new());
    let server = TlsServer::start(&authority, &["--tls-auth-clients", "optional"]);
    let port = server.tls_port();
    let bad = trust_with(&authority, &other, Some("client"), ALL_VERSIONS);
    for own in [None, Some("client")] {
        Peer::connect(port, &trust(&authority, own)).expect("a connection").expect("PING", "+PONG\r\n");
    }
    let failure = Peer::begin(port, &bad).failure();
    assert!(failure.contains("DecryptError"), "{failure}");
    server.server.connect().run("CONFIG SET tls-auth-clients no");
    Peer::connect(port, &bad).expect("a connection").expect("PING", "+PONG\r\n");
}

#[test]
fn plain_text_and_tls_at_the_wrong_ports_are_told_apart() {
    let authority = Authority::new();
    let server = TlsServer::start(&authority, &[]);
    let mut plain = Conn::tcp(server.tls_port()).expect("a connection");
    plain.send_command(&argv!["PING"]).expect("the server reads");
    let reply = plain.read_to_close().expect("a reply");
    assert_eq!(String::from_utf8_lossy(&reply), "-ERR this port speaks TLS only\r\n");
    server.server.expect_log("the client does not speak TLS, and this is the TLS port");

    let failure = Peer::begin(server.server.port(), &trust(&authority, None)).failure();
    assert!(failure.contains("corrupt message"), "{failure}");
    server.server.expect_log("it speaks TLS, and this is not the TLS port");

    let mut noise = TcpStream::connect(("127.0.0.1", server.tls_port())).expect("a connection");
    noise.write_all(&[0x80, 0x2e, 1, 0, 2]).expect("the server reads");
    let mut rest = Vec::new();
    let _ = noise.read_to_end(&mut rest);
    assert_eq!(rest, b"");
}

#[test]
fn the_plain_port_may_be_off() {
    let authority = Authority::new();
    let server = TlsServer::start(&authority, &[]);
    let mut peer = Peer::connect(server.tls_port(), &trust(&authority, Some("client"))).expect("a connection");
    assert_eq!(server.server.connect().run("CONFIG SET port 0").text(), "OK");
    assert!(server.server.try_connect().is_err());
    peer.expect("CONFIG GET port", "*2\r\n$4\r\nport\r\n$1\r\n0\r\n");
    peer.send(b"INFO server\r\nECHO end\r\n");
    let mut text = String::new();
    while !text.contains("$3\r\nend") {
        text.push_str(&String::from_utf8_lossy(&peer.receive(1)));
    }
    let tls_port = server.tls_port();
    assert!(text.contains(&format!("tcp_port:{tls_port}\r\n")), "{text}");
    assert!(text.contains(&format!("listener0:name=tls,bind=127.0.0.1,port={tls_port}\r\n")), "{text}");
}

#[test]
fn new_certificates_are_read_from_the_same_file_and_nobody_is_dropped() {
    let (authority, next) = (Authority::new(), Authority::new());
    let server = TlsServer::start(&authority, &[]);
    let port = server.tls_port();
    let mut old = Peer::connect(port, &trust(&authority, Some("client"))).expect("a connection");
    let mut plain = server.server.connect();
    for name in ["server.crt", "server.key", "ca.crt"] {
        std::fs::copy(next.path(name), authority.path(&format!("next.{name}"))).expect("a file");
    }
    authority.copy("next.server.crt", "server.crt");
    authority.copy("next.server.key", "server.key");
    // Nothing happens by itself.
    drop(Peer::connect(port, &trust(&authority, Some("client"))).expect("a connection"));
    let cert = authority.path("server.crt");
    assert_eq!(plain.run(&format!("CONFIG SET tls-cert-file {cert}")).text(), "OK");
    let failure = Peer::begin(port, &trust(&authority, None)).failure();
    assert!(failure.contains("certificate"), "{failure}");
    let ca = authority.path("next.ca.crt");
    assert_eq!(plain.run(&format!("CONFIG SET tls-ca-cert-file {ca}")).text(), "OK");
    Peer::connect(port, &trust(&next, Some("client"))).expect("a connection").expect("PING", "+PONG\r\n");
    old.expect("PING", "+PONG\r\n");
}

#[test]
fn a_change_that_fails_changes_nothing() {
    let authority = Authority::new();
    let server = TlsServer::start(&authority, &[]);
    let config = trust(&authority, Some("client"));
    let mut plain = server.server.connect();
    authority.write("bad.crt", "no certificate\n");
    let bad = authority.path("bad.crt");
    for (set, logged) in [
        (format!("tls-cert-file {bad}"), "there is no certificate in it"),
        ("tls-cert-file \"\"".to_owned(), "No tls-cert-file configured!"),
        (
            format!("maxclients 77 tls-key-file {}", authority.path("client.key")),
            "it is not the key of the certificate",
        ),
        ("tls-ca-cert-file none".to_owned(), "none: No such file or directory"),
        ("tls-ciphers DEFAULT".to_owned(), "tls-ciphers: 'DEFAULT' cannot be honoured"),
        ("tls-protocols TLSv1.1".to_owned(), "tls-protocols: TLSv1.1 is not supported"),
    ] {
        let reply = plain.run(&format!("CONFIG SET {set}")).text();
        let name = set.split(' ').find(|word| word.starts_with("tls-")).expect("a directive");
        assert_eq!(
            reply,
            format!(
                "ERR CONFIG SET failed (possibly related to argument '{name}') - Unable to update TLS configuration. Check \
                 server logs."
            )
        );
        server.server.expect_log(logged);
        Peer::connect(server.tls_port(), &config).expect("a connection").expect("PING", "+PONG\r\n");
    }
    let kept =
        plain.try_call(&argv!["CONFIG", "GET", "maxclients", "tls-cert-file", "tls-protocols"]).expect("a reply");
    let kept = String::from_utf8_lossy(&kept);
    // The path of a file may have any digits.
    assert!(kept.contains("\r\n10000\r\n") && kept.contains("server.crt"), "{kept}");
    let reply = plain.pipeline(&[argv!["MULTI"], argv!["CONFIG", "SET", "tls-protocols", "TLSv1.3"], argv!["EXEC"]]);
    assert!(String::from_utf8_lossy(&reply[2]).contains("it waits for the disk"), "{reply:?}");
}

#[test]
fn the_port_for_tls_comes_moves_and_goes_while_connections_stay() {
    let authority = Authority::new();
    let files = arguments(&authority);
    let server = Launch::onrush().args(&files.each_ref().map(String::as_str)).start();
    let config = trust(&authority, Some("client"));
    let mut plain = server.connect();
    let (first, second) = (Port::choose(), Port::choose());
    let mut set = |port: u16| plain.run(&format!("CONFIG SET tls-port {port}")).text();
    assert_eq!(set(first.number()), "OK");
    let mut old = Peer::connect(first.number(), &config).expect("a connection");
    old.expect("PING", "+PONG\r\n");
    assert_eq!(set(second.number()), "OK");
    assert!(TcpStream::connect(("127.0.0.1", first.number())).is_err());
    Peer::connect(second.number(), &config).expect("a connection").expect("PING", "+PONG\r\n");
    let taken = set(server.port());
    assert!(taken.contains("'tls-port') - Unable to listen on this port. Check server logs."), "{taken}");
    Peer::connect(second.number(), &config).expect("a connection").expect("PING", "+PONG\r\n");
    assert_eq!(set(0), "OK");
    assert!(TcpStream::connect(("127.0.0.1", second.number())).is_err());
    old.expect("PING", "+PONG\r\n");
    // Without a port for TLS, its files are not read.
    assert_eq!(plain.run("CONFIG SET tls-cert-file none.crt").text(), "OK");
    let missing = plain.run(&format!("CONFIG SET tls-port {}", first.number())).text();
    assert!(missing.contains("Unable to update TLS configuration"), "{missing}");
}

#[test]
fn a_configuration_that_cannot_be_used_ends_the_start() {
    let authority = Authority::new();
    let files = arguments(&authority);
    let port = Port::choose().number().to_string();
    let key = authority.path("server.key");
    authority.openssl("pkcs8 -topk8 -in server.key -out sealed.key -passout pass:secret");
    let sealed = authority.path("sealed.key");
    for (change, text) in [
        (&["--tls-cert-file", ""], "No tls-cert-file configured!"),
        (&["--tls-key-file", ""], "No tls-key-file configured!"),
        (&["--tls-ca-cert-file", ""], "Either tls-ca-cert-file or tls-ca-cert-dir must be specified"),
        (&["--tls-cert-file", &key], "there is no certificate in it"),
        (&["--tls-key-file", &sealed], "the key is encrypted, and no password is given for it"),
        (&["--tls-ciphersuites", "TLS_AES_128_CCM_SHA256"], "cannot be honoured"),
    ] {
        let first = ["--port", "0", "--tls-port", &port, "--save", ""];
        let all = [&first[..], &files.each_ref().map(String::as_str), change].concat();
        let (status, output) = Launch::run_to_end(&onrush_bin(), &all);
        assert_eq!(status.code(), Some(1), "{output}");
        assert!(
            output.contains(text) && output.contains("Failed to configure TLS. Check logs for more info."),
            "{output}"
        );
    }
    let password = ["--tls-key-file", &sealed, "--tls-key-file-pass", "secret"];
    let server = TlsServer::start(&authority, &password);
    let mut peer = Peer::connect(server.tls_port(), &trust(&authority, Some("client"))).expect("a connection");
    peer.expect("PING", "+PONG\r\n");
    assert!(!server.server.log().contains("secret"));
}

#[test]
fn the_texts_of_redis_are_used() {
    let authority = Authority::new();
    let files = arguments(&authority);
    let (ours, theirs) = (Server::start_onrush(&[]), Server::start_redis(&[]));
    let bad = ["CONFIG SET tls-port 65536", "CONFIG SET tls-auth-clients maybe", "CONFIG SET tls-session-caching 2"];
    let get = ["CONFIG GET tls-session-c*size", "CONFIG GET tls-auth-clients", "CONFIG GET tls-protocols"];
    for line in bad.iter().chain(&get) {
        let replies = [&ours, &theirs].map(|server| server.connect().run(line));
        assert_eq!(replies[0], replies[1], "{line}");
    }
    let port = Port::choose();
    let line = format!("CONFIG SET tls-port {}", port.number());
    let replies = [&ours, &theirs].map(|server| server.connect().run(&line));
    assert_eq!(replies[0], replies[1], "{line}");
    let words: Vec<_> = files.iter().map(|word| word.trim_start_matches("--")).collect();
    let set = format!("CONFIG SET {} tls-port {}", words.join(" "), port.number());
    assert_eq!(ours.connect().run(&set).text(), "OK");
    let again = format!("CONFIG SET tls-cert-file {}", authority.path("none.crt"));
    let theirs = Server::start_redis(&files.each_ref().map(String::as_str));
    theirs.connect().run(&format!("CONFIG SET tls-port {}", Port::choose().number()));
    let replies = [&ours, &theirs].map(|server| server.connect().run(&again));
    assert_eq!(replies[0], replies[1], "{again}");
}
