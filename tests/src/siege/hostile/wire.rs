//! A socket that never waits and can end in more than one way.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use crate::rng::Rng;
use crate::siege::scene::{Prey, Scene};

/// Ports are few, and a connection that ends in order keeps one for a while: this many in a hundred do.
const ORDERLY_PERCENT: u32 = 25;

/// A connection of a hostile client.
pub struct Wire {
    stream: TcpStream,
}

/// What came of reading or writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// So many bytes.
    Bytes(usize),
    /// Nothing at the moment.
    Stuck,
    /// The connection is over.
    Over,
}

impl Wire {
    /// Connects; `None` when the server does not take the connection within a second.
    pub fn connect(scene: &Scene<'_>) -> Option<Wire> {
        let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, scene.port));
        let stream = TcpStream::connect_timeout(&addr, Duration::from_secs(1)).ok()?;
        stream.set_nonblocking(true).ok()?;
        stream.set_nodelay(true).ok()?;
        Some(Wire { stream })
    }

    /// Sends what the system takes.
    pub fn send(&mut self, bytes: &[u8]) -> Flow {
        match self.stream.write(bytes) {
            Ok(len) => Flow::Bytes(len),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Flow::Stuck,
            Err(_) => Flow::Over,
        }
    }

    /// Appends what has come, up to 64 KB.
    pub fn receive(&mut self, into: &mut Vec<u8>) -> Flow {
        let before = into.len();
        into.resize(before + (64 << 10), 0);
        let got = self.stream.read(&mut into[before..]);
        into.truncate(before + *got.as_ref().unwrap_or(&0));
        match got {
            Ok(0) => Flow::Over,
            Ok(len) => Flow::Bytes(len),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Flow::Stuck,
            Err(_) => Flow::Over,
        }
    }

    /// Says that nothing more will be sent.
    pub fn half_close(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Ends the connection: most times by a reset, in the midst of everything, else in order.
    pub fn vanish(self, rng: &mut Rng) {
        if !rng.percent(ORDERLY_PERCENT) {
            let _ = rustix::net::sockopt::set_socket_linger(&self.stream, Some(Duration::ZERO));
        }
    }

    /// This end, for those who kill by address.
    pub fn prey(&self) -> Option<Prey> {
        Some(Prey { addr: self.stream.local_addr().ok()?.to_string(), id: None })
    }
}
