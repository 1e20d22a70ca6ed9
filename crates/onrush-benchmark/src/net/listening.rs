//! Whether a process of this machine listens at a server's address, as Linux reports it.

use std::collections::HashSet;
use std::path::Path;

use crate::net::target::Target;

/// The state of a TCP socket that listens, in the tables of the system.
const LISTENS: &str = "0A";
/// The flag of a Unix socket that listens.
const ACCEPTS: u64 = 0x10000;

/// Whether that process has the socket that takes the target's connections. False if the system does not report it.
pub fn listens(id: u32, target: &Target) -> bool {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let sockets: HashSet<u64> = match &target.socket {
        Some(path) => on_path(&read("/proc/net/unix"), path),
        None => {
            ["/proc/net/tcp", "/proc/net/tcp6"].iter().flat_map(|table| on_port(&read(table), target.port)).collect()
        }
    };
    let Ok(files) = std::fs::read_dir(format!("/proc/{id}/fd")) else { return false };
    let mut links = files.flatten().filter_map(|file| std::fs::read_link(file.path()).ok());
    links.any(|link| socket_of(&link).is_some_and(|socket| sockets.contains(&socket)))
}

/// The number of a socket, if the open file is one.
fn socket_of(link: &Path) -> Option<u64> {
    link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// The sockets of a table of TCP that listen on a port.
fn on_port(table: &str, port: u16) -> HashSet<u64> {
    let socket = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (_, own_port) = words.get(1)?.rsplit_once(':')?;
        let is_it = u16::from_str_radix(own_port, 16).ok()? == port && *words.get(3)? == LISTENS;
        is_it.then(|| words.get(9)?.parse().ok())?
    };
    table.lines().skip(1).filter_map(socket).collect()
}

/// The sockets of the table of Unix sockets that listen at a path.
fn on_path(table: &str, path: &Path) -> HashSet<u64> {
    let whole = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let socket = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let accepts = u64::from_str_radix(words.get(3)?, 16).ok()? & ACCEPTS != 0;
        let own_path = Path::new(words.get(7)?);
        (accepts && (own_path == path || own_path == whole)).then(|| words.get(6)?.parse().ok())?
    };
    table.lines().skip(1).filter_map(socket).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_the_socket_it_listens_on() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let target = Target { port, ..Target::default() };
        assert!(listens(std::process::id(), &target));
        // The parent of this process also lives, but does not listen on our sockets.
        let other = std::os::unix::process::parent_id();
        assert!(!listens(other, &target));
        drop(listener);
        assert!(!listens(std::process::id(), &target));
    }

    #[test]
    fn a_connection_to_the_port_is_no_listener() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            0: 0100007F:18EB 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 77 1 0 100 0 0 10 0\n\
            1: 0100007F:18EB 0100007F:C001 01 00000000:00000000 00:00000000 00000000     0        0 78 1 0 20 4 30 10 -1\n";
        assert_eq!(on_port(table, 6379), [77].into());
        assert!(on_port(table, 6380).is_empty());
    }

    #[test]
    fn a_unix_socket_is_known_by_its_path() {
        let table = "Num       RefCount Protocol Flags    Type St Inode Path\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 55 /tmp/no such place\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 56 /nowhere/s\n\
            0000000000000000: 00000003 00000000 00000000 0001 03 57 /nowhere/s\n";
        assert_eq!(on_path(table, Path::new("/nowhere/s")), [56].into());
    }
}
