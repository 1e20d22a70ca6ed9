//! Addresses of nodes, as words of the command line.

use super::log::told;
use crate::fail::Fail;

/// Where a node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Name or address.
    pub host: String,
    /// Port of clients.
    pub port: u16,
    /// Port of the cluster bus, if it is told.
    pub bus_port: Option<u16>,
}

impl Address {
    /// Reads `host:port` or `host:port@bus-port`; the host may be an address of IPv6, with or without brackets.
    pub fn parse(text: &str) -> Option<Address> {
        let (place, bus_port) = match text.split_once('@') {
            Some((place, bus_port)) => (place, Some(bus_port.parse().ok()?)),
            None => (text, None),
        };
        let (host, port) = place.rsplit_once(':')?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let port = port.parse().ok().filter(|port| *port != 0)?;
        (!bare.is_empty()).then(|| Address { host: bare.to_owned(), port, bus_port })
    }

    /// Reads `host:port`, or a host and a port as two words.
    ///
    /// # Errors
    /// In redis-cli's words, which have been shown.
    pub fn of_words(words: &[String]) -> Result<Address, Fail> {
        const INVALID: &str = "[ERR] Invalid arguments: you need to pass either a valid address (ie. 120.0.0.1:7000) or \
                               space separated IP and port (ie. 120.0.0.1 7000)";
        let address = match words {
            [host, port, ..] if !host.contains(':') => Address::parse(&format!("{host}:{port}")),
            [place, ..] => Address::parse(place),
            [] => None,
        };
        address.ok_or_else(|| told(INVALID))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Option<(String, u16, Option<u16>)> {
        Address::parse(text).map(|at| (at.host, at.port, at.bus_port))
    }

    #[test]
    fn addresses_may_name_the_bus_and_be_of_either_version() {
        assert_eq!(parse("h:7000"), Some(("h".into(), 7000, None)));
        assert_eq!(parse("10.0.0.1:7000@9000"), Some(("10.0.0.1".into(), 7000, Some(9000))));
        assert_eq!(parse("::1:7000"), Some(("::1".into(), 7000, None)));
        assert_eq!(parse("[::1]:7000"), Some(("::1".into(), 7000, None)));
        for bad in ["", "h", "h:", ":7000", "h:0", "h:x", "h:70000", "h:1@x"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn host_and_port_may_be_two_words() {
        let of = |words: &[&str]| Address::of_words(&words.iter().map(ToString::to_string).collect::<Vec<_>>()).ok();
        assert_eq!(of(&["h", "1"]), Address::parse("h:1"));
        assert_eq!(of(&["h:1", "id"]), Address::parse("h:1"));
        assert_eq!(of(&["h"]), None);
        assert_eq!(of(&[]), None);
    }
}
