//! Hosts on one machine: network namespaces at one bridge, whose cables can be pulled. Only root can make them.

use std::net::Ipv4Addr;
use std::process::Command;

/// A bridge, and namespaces with an address each. Dropping it removes all.
pub struct Network {
    bridge: String,
    /// The third byte of all addresses.
    net: u8,
    hosts: u8,
}

impl Network {
    /// Makes a bridge that the calling process is on.
    ///
    /// # Errors
    /// `ip` fails: the text says why.
    pub fn new() -> Result<Self, String> {
        let number = std::process::id() % 250;
        let network = Self { bridge: format!("onrush{number}"), net: number as u8, hosts: 0 };
        ip(&format!("link add {} type bridge", network.bridge))?;
        ip(&format!("addr add {}/24 dev {}", network.here(), network.bridge))?;
        ip(&format!("link set {} up", network.bridge))?;
        Ok(network)
    }

    /// The address of the calling process.
    pub fn here(&self) -> Ipv4Addr {
        self.address(254)
    }

    fn address(&self, host: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, 213, self.net, host)
    }

    /// Adds a host; returns its address.
    ///
    /// # Errors
    /// `ip` fails: the text says why.
    pub fn add_host(&mut self) -> Result<Ipv4Addr, String> {
        self.hosts += 1;
        let address = self.address(self.hosts);
        let (space, cable, bridge) = (self.space(address), self.cable(address), &self.bridge);
        ip(&format!("netns add {space}"))?;
        ip(&format!("link add {cable} type veth peer name eth0 netns {space}"))?;
        ip(&format!("link set {cable} master {bridge} up"))?;
        ip(&format!("-n {space} addr add {address}/24 dev eth0"))?;
        ip(&format!("-n {space} link set eth0 up"))?;
        ip(&format!("-n {space} link set lo up"))?;
        Ok(address)
    }

    /// The namespace of a host.
    pub fn space(&self, host: Ipv4Addr) -> String {
        format!("{}-{}", self.bridge, host.octets()[3])
    }

    fn cable(&self, host: Ipv4Addr) -> String {
        format!("{}v{}", self.bridge, host.octets()[3])
    }

    /// Pulls the cable of a host, or plugs it in again.
    ///
    /// # Errors
    /// `ip` fails: the text says why.
    pub fn connect(&self, host: Ipv4Addr, is_connected: bool) -> Result<(), String> {
        ip(&format!("link set {} {}", self.cable(host), if is_connected { "up" } else { "down" }))
    }

    /// Cuts two hosts off from each other only, or connects them again.
    ///
    /// # Errors
    /// `ip` fails: the text says why.
    pub fn connect_pair(&self, one: Ipv4Addr, other: Ipv4Addr, is_connected: bool) -> Result<(), String> {
        let action = if is_connected { "del" } else { "add" };
        for (here, there) in [(one, other), (other, one)] {
            ip(&format!("-n {} route {action} blackhole {there}/32", self.space(here)))?;
        }
        Ok(())
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for host in 1..=self.hosts {
            // What is not there any more need not be removed.
            let _ = ip(&format!("netns del {}", self.space(self.address(host))));
        }
        let _ = ip(&format!("link del {}", self.bridge));
    }
}

fn ip(args: &str) -> Result<(), String> {
    let done = Command::new("ip").args(args.split(' ')).output().map_err(|error| format!("can't run ip: {error}"))?;
    let text = String::from_utf8_lossy(&done.stderr);
    if done.status.success() { Ok(()) } else { Err(format!("ip {args}: {}", text.trim())) }
}
