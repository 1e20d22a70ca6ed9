//! Binding the sockets that the server listens on.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener;

use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::config::{Config, os_reason};

/// Clients that may wait to be accepted on a Unix socket; the system may allow fewer.
const UNIX_BACKLOG: i32 = 4096;

/// An address to listen on.
#[derive(Clone)]
pub struct Address {
    /// As it is configured.
    name: String,
    /// Whether the machine may do without.
    is_optional: bool,
    at: Result<SocketAddr, BindError>,
    /// Its port.
    pub port: u16,
}

impl Address {
    /// Whether it is configured alike.
    pub fn is_like(&self, other: &Self) -> bool {
        (&self.name, self.is_optional, self.port) == (&other.name, other.is_optional, other.port)
    }

    /// What follows from an error: none if the machine may do without the address.
    fn judge(&self, error: &BindError) -> Result<(), String> {
        let Self { name, port, .. } = self;
        if self.is_optional && !error.is_in_use {
            tracing::debug!("Not listening on {name}:{port}: {}", error.reason);
            return Ok(());
        }
        Err(format!("Could not create server TCP listening socket {name}:{port}: {}", error.reason))
    }
}

/// All TCP addresses of a configuration for that port; none if it is 0. Waits for name servers.
///
/// # Errors
/// A text that names what has no address, and the reason.
pub fn resolve_all(config: &Config, port: u64) -> Result<Vec<Address>, String> {
    let port = port as u16;
    let names = if port == 0 { &[] } else { config.bind.as_slice() };
    let mut addresses = Vec::new();
    for name in names {
        let (name, is_optional) = name.strip_prefix('-').map_or((name.as_str(), false), |name| (name, true));
        let at = resolve(name).map(|ip| SocketAddr::new(ip, port));
        let address = Address { name: name.to_owned(), is_optional, at, port };
        if let Err(error) = &address.at {
            address.judge(error)?;
        }
        addresses.push(address);
    }
    Ok(addresses)
}

/// Binds TCP addresses; none if the machine has none of them and may do without.
///
/// # Errors
/// A text that names the address that cannot be bound, and the reason.
pub fn bind_all_tcp(addresses: &[Address], backlog: i32) -> Result<Vec<TcpListener>, String> {
    let mut tcp = Vec::new();
    for address in addresses {
        let Ok(at) = address.at else { continue };
        match bind_tcp(at, backlog) {
            Ok(listener) => tcp.push(listener),
            Err(error) => address.judge(&error)?,
        }
    }
    Ok(tcp)
}

/// Why an address cannot be bound.
#[derive(Clone)]
struct BindError {
    /// In the words of redis-server.
    reason: String,
    is_in_use: bool,
}

impl From<io::Error> for BindError {
    fn from(error: io::Error) -> Self {
        let reason = format!("bind: {}", os_reason(&error));
        Self { reason, is_in_use: error.kind() == io::ErrorKind::AddrInUse }
    }
}

fn bind_tcp(address: SocketAddr, backlog: i32) -> Result<TcpListener, BindError> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(backlog)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

fn resolve(name: &str) -> Result<IpAddr, BindError> {
    match name {
        "*" => return Ok(Ipv4Addr::UNSPECIFIED.into()),
        "::*" => return Ok(Ipv6Addr::UNSPECIFIED.into()),
        _ => {}
    }
    if let Ok(ip) = name.parse() {
        return Ok(ip);
    }
    let unknown = |reason: String| BindError { reason, is_in_use: false };
    let found = (name, 0).to_socket_addrs().map_err(|error| {
        let reason = os_reason(&error);
        // The standard library's words stand before those of the system.
        unknown(reason.rsplit(": ").next().unwrap_or(&reason).to_owned())
    });
    let first = found?.next().ok_or_else(|| unknown("the name has no address".to_owned()))?;
    Ok(first.ip())
}

/// Binds a Unix socket. A socket that is there already is replaced, as it may be of a process that was killed; any
/// other file stays.
///
/// # Errors
/// The system's.
pub fn bind_unix(path: &str, mode: u32) -> io::Result<UnixListener> {
    let socket = place_unix(path, mode)?;
    socket.listen(UNIX_BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// The socket with its permissions, before it listens: nobody connects by those that the system has given it.
fn place_unix(path: &str, mode: u32) -> io::Result<Socket> {
    if std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket()) {
        std::fs::remove_file(path)?;
    }
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.bind(&SockAddr::unix(path)?)?;
    if mode != 0 {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
    }
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_unix_socket_has_its_permissions_before_anybody_can_connect() {
        let path = std::env::temp_dir().join(format!("onrush-place-{}", std::process::id()));
        let path = path.to_str().expect("plain");
        let connect = || UnixStream::connect(path).map_err(|error| error.kind()).err();
        let mode = || std::fs::symlink_metadata(path).expect("a socket").permissions().mode() & 0o777;
        let placed = place_unix(path, 0o700).expect("a socket");
        assert_eq!((mode(), connect()), (0o700, Some(io::ErrorKind::ConnectionRefused)));
        drop(placed);
        // It replaces what a process has left that was killed.
        let _listener = bind_unix(path, 0o600).expect("a socket");
        assert_eq!((mode(), connect()), (0o600, None));
        std::fs::remove_file(path).expect("it is there");
    }
}
