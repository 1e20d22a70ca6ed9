//! Clients that protected mode keeps out.

use std::net::{IpAddr, TcpStream, UdpSocket};

use onrush_tests::server::wait_until;

use super::TlsServer;
use super::authority::Authority;
use super::peer::{Peer, trust};

/// An address of this machine that others could use; none without a network.
fn outer_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // Nothing is sent.
    socket.connect("192.0.2.1:9").ok()?;
    socket.local_addr().ok().map(|address| address.ip()).filter(|address| !address.is_loopback())
}

#[test]
fn they_are_told_why_and_take_no_places_of_others() {
    let Some(outer) = outer_address() else { return };
    let authority = Authority::new();
    authority.certify("server");
    let more = ["--bind", "0.0.0.0", "--tls-auth-clients", "no", "--maxclients", "10"];
    let server = TlsServer::start(&authority, &more);
    let config = trust(&authority, None);
    let stranger = || TcpStream::connect((outer, server.tls_port())).expect("a connection");
    let mut one = Peer::over(stranger(), &config);
    one.shake_hands().expect("a handshake");
    let (text, _) = one.receive_rest();
    assert!(text.starts_with(b"-DENIED"), "{}", String::from_utf8_lossy(&text));
    // More than there are places, in the middle of their handshakes.
    let crowd: Vec<TcpStream> = (0..40).map(|_| stranger()).collect();
    let mut conn = server.server.connect();
    wait_until("all have come", || conn.info_number("rejected_connections") == Some(41));
    let mut peer = Peer::connect(server.tls_port(), &config).expect("a place");
    peer.expect("PING\r\n", "+PONG\r\n");
    drop(crowd);
}
