//! Ports of servers under test.

use std::net::{TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU16, Ordering};

/// Ports to choose from. The system gives none of these to connections that clients open.
const FIRST: u16 = 20_000;
const COUNT: u16 = 10_000;

/// A TCP port on the loopback address that no other test uses, in this process or another one.
///
/// Between the choice and the server's bind the port is free, and another test could choose it too: then one server
/// would not start, and its test would talk to the other one. So a UDP socket is bound to the same number, and kept.
pub struct Port {
    number: u16,
    _held: UdpSocket,
}

impl Port {
    /// Chooses one. Panics when none of them is free.
    pub fn choose() -> Port {
        static NEXT: AtomicU16 = AtomicU16::new(0);
        let start = (std::process::id() % u32::from(COUNT)) as u16;
        (0..COUNT)
            .find_map(|_| {
                let offset = NEXT.fetch_add(1, Ordering::Relaxed) % COUNT;
                Self::hold(FIRST + (start + offset) % COUNT)
            })
            .expect("a free port")
    }

    fn hold(number: u16) -> Option<Port> {
        let held = UdpSocket::bind(("127.0.0.1", number)).ok()?;
        TcpListener::bind(("127.0.0.1", number)).ok()?;
        Some(Port { number, _held: held })
    }

    /// Its number.
    pub fn number(&self) -> u16 {
        self.number
    }
}
