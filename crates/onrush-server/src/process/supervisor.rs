//! The supervisor that has started the process: systemd is told when the server is ready and when it ends.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Where systemd tells the process how to report.
const VARIABLE: &str = "NOTIFY_SOCKET";

/// Who has started the process: systemd, with the address of the socket that it reads, or somebody who is told nothing.
pub struct Supervisor(Option<OsString>);

impl Supervisor {
    /// By the directive `supervised`: `no`, `auto`, `systemd` or `upstart`.
    pub fn find(supervised: &str) -> Self {
        Self::of(supervised, std::env::var_os(VARIABLE).filter(|address| !address.is_empty()))
    }

    fn of(supervised: &str, address: Option<OsString>) -> Self {
        match (supervised, &address) {
            ("systemd", None) => tracing::warn!("systemd supervision requested, but {VARIABLE} not found!"),
            ("upstart", _) => tracing::warn!("upstart is not told when the server is ready: that is not supported"),
            _ => {}
        }
        Self(address.filter(|_| matches!(supervised, "auto" | "systemd")))
    }

    /// Whether there is one; the process then stays in the foreground.
    pub fn is_there(&self) -> bool {
        self.0.is_some()
    }

    /// Tells that the server serves its data.
    pub fn tell_ready(&self) {
        self.tell("STATUS=Ready to accept connections\nREADY=1\n");
    }

    /// Tells that the server ends.
    pub fn tell_end(&self) {
        self.tell("STATUS=Saving the data\nSTOPPING=1\n");
    }

    fn tell(&self, state: &str) {
        let Some(address) = &self.0 else { return };
        if let Err(error) = send(address, state) {
            tracing::warn!("Can't tell systemd about the state of the server: {error}");
        }
    }
}

/// Sends a datagram, without waiting. An address with `@` before it is an abstract one.
fn send(address: &OsStr, state: &str) -> io::Result<()> {
    let address = match address.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        path => SocketAddr::from_pathname(OsStr::from_bytes(path))?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.send_to_addr(state.as_bytes(), &address)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systemd_is_found_by_its_variable() {
        let address = || Some(OsString::from("/run/systemd/notify"));
        for (supervised, address, found) in [
            ("no", address(), false),
            ("auto", address(), true),
            ("systemd", address(), true),
            ("upstart", address(), false),
            ("auto", None, false),
            ("systemd", None, false),
        ] {
            assert_eq!(Supervisor::of(supervised, address).is_there(), found, "{supervised}");
        }
    }

    #[test]
    fn a_socket_in_either_name_space_is_told() {
        let folder = std::env::temp_dir().join(format!("onrush-supervisor-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("notify");
        let name = format!("onrush-{}", std::process::id());
        let sockets = [
            (path.clone().into_os_string(), UnixDatagram::bind(&path).unwrap()),
            (
                OsString::from(format!("@{name}")),
                UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap(),
            ),
        ];
        for (address, socket) in sockets {
            let supervisor = Supervisor(Some(address));
            let mut text = [0; 100];
            for (tell, wanted) in
                [(Supervisor::tell_ready as fn(&Supervisor), "\nREADY=1\n"), (Supervisor::tell_end, "\nSTOPPING=1\n")]
            {
                tell(&supervisor);
                let len = socket.recv(&mut text).unwrap();
                assert!(String::from_utf8_lossy(&text[..len]).ends_with(wanted));
            }
        }
        std::fs::remove_dir_all(&folder).unwrap();
        // Nobody reads there any more, which is no reason to end.
        Supervisor(Some(path.into_os_string())).tell_ready();
    }
}
