//! TLS: the byte stream under commands, who is let in, and changes while the server runs.

mod authority;
mod peer;
mod settings;
mod strangers;
mod stream;

use onrush_tests::port::Port;
use onrush_tests::server::{Launch, Server};

use authority::Authority;

/// A server with a port for TLS beside its other one.
struct TlsServer {
    server: Server,
    tls_port: Port,
}

impl TlsServer {
    fn start(authority: &Authority, more: &[&str]) -> Self {
        let tls_port = Port::choose();
        let port = tls_port.number().to_string();
        let files = arguments(authority);
        let files = files.each_ref().map(String::as_str);
        let server = Launch::onrush().args(&["--tls-port", &port]).args(&files).args(more).start();
        Self { server, tls_port }
    }

    fn tls_port(&self) -> u16 {
        self.tls_port.number()
    }
}

/// The files of a server.
fn arguments(authority: &Authority) -> [String; 6] {
    let [cert, key, ca] = ["server.crt", "server.key", "ca.crt"].map(|name| authority.path(name));
    ["--tls-cert-file".into(), cert, "--tls-key-file".into(), key, "--tls-ca-cert-file".into(), ca]
}
