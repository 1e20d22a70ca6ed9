//! Binding the sockets that the server listens on.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener;

use socket2::{Domain, Protocol, Socket, Type};

use crate::config::{Config, os_reason};

/// Binds all TCP addresses of a configuration; none if its port is 0, or if the machine has none of them and may do
/// without.
///
/// # Errors
/// A text that names the address that cannot be bound, and the reason.
pub fn bind_all_tcp(config: &Config) -> Result<Vec<std::net::TcpListener>, String> {
    let mut tcp = Vec::new();
    let names = if config.port == 0 { &[] } else { config.bind.as_slice() };
    for name in names {
        let (name, is_optional) = name.strip_prefix('-').map_or((name.as_str(), false), |name| (name, true));
        match bind_tcp(name, config.port as u16, config.tcp_backlog as i32) {
            Ok(listener) => tcp.push(listener),
            Err(error) if is_optional && !error.is_in_use => {
                tracing::debug!("Not listening on {name}:{}: {}", config.port, error.reason);
            }
            Err(BindError { reason, .. }) => {
                return Err(format!("Could not create server TCP listening socket {name}:{}: {reason}", config.port));
            }
        }
    }
    Ok(tcp)
}

/// Why an address cannot be bound.
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

fn bind_tcp(name: &str, port: u16, backlog: i32) -> Result<std::net::TcpListener, BindError> {
    let address = SocketAddr::new(resolve(name)?, port);
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
    if std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket()) {
        std::fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    if mode != 0 {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
    }
    listener.set_nonblocking(true)?;
    Ok(listener)
}
