//! What CLUSTER SLOTS tells: which node serves which slots.

use crate::cluster::slot::SLOTS;
use crate::error::ServerError;
use crate::values::value::Value;

/// Most nodes that are taken from a reply.
pub(crate) const NODES_MAX: usize = 4_096;

/// Where a node listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Addr {
    pub host: String,
    pub port: u16,
}

/// Slots that one primary and its replicas serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub first: u16,
    pub last: u16,
    /// The primary first.
    pub nodes: Vec<Addr>,
}

/// The ranges in the reply to CLUSTER SLOTS of a node at `asked`; `None` if it is no such reply, or tells of no slots.
/// O(ranges x nodes of each).
pub(crate) fn ranges(reply: &Value, asked: &Addr) -> Option<Vec<Range>> {
    let Value::Array(parts) = reply else { return None };
    let ranges: Vec<Range> = parts.iter().filter_map(|part| range(part, asked)).collect();
    let nodes: usize = ranges.iter().map(|range| range.nodes.len()).sum();
    let is_sound = !ranges.is_empty() && ranges.len() <= usize::from(SLOTS) && nodes <= NODES_MAX * usize::from(SLOTS);
    is_sound.then_some(ranges)
}

fn range(part: &Value, asked: &Addr) -> Option<Range> {
    let Value::Array(parts) = part else { return None };
    let [Value::Int(first), Value::Int(last), nodes @ ..] = parts.as_slice() else { return None };
    let (first, last) = (u16::try_from(*first).ok()?, u16::try_from(*last).ok()?);
    let nodes: Vec<Addr> = nodes.iter().filter_map(|node| addr(node, asked)).collect();
    (first <= last && last < SLOTS && !nodes.is_empty()).then_some(Range { first, last, nodes })
}

/// A node's address. One that does not know its own, or has no name though it prefers one, is at the host that was asked.
fn addr(node: &Value, asked: &Addr) -> Option<Addr> {
    let Value::Array(parts) = node else { return None };
    let [host, Value::Int(port), ..] = parts.as_slice() else { return None };
    let port = u16::try_from(*port).ok().filter(|port| *port > 0)?;
    let host = host.as_bytes().and_then(|host| std::str::from_utf8(host).ok()).unwrap_or_default();
    Some(Addr { host: known_host(host, asked), port })
}

fn known_host(host: &str, asked: &Addr) -> String {
    if host.is_empty() || host == "?" { asked.host.clone() } else { host.to_owned() }
}

/// Why a node of a cluster has not executed a command, and where to go with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The slot is there.
    Moved { slot: u16, to: Addr },
    /// The slot is on its way there: this command goes there behind ASKING.
    Ask { to: Addr },
    /// Nowhere now, but maybe soon.
    Later,
}

impl Refusal {
    /// What an error of the node at `asked` means; `None` for all others.
    pub(crate) fn of(error: &ServerError, asked: &Addr) -> Option<Refusal> {
        match error.code() {
            "MOVED" => target(error, asked).map(|(slot, to)| Refusal::Moved { slot, to }),
            "ASK" => target(error, asked).map(|(_, to)| Refusal::Ask { to }),
            // In the middle of a script it may have executed a part.
            _ if error.line().contains(" script: ") => None,
            "TRYAGAIN" | "CLUSTERDOWN" | "LOADING" | "MASTERDOWN" | "READONLY" => Some(Refusal::Later),
            _ => None,
        }
    }
}

/// The slot and the address in `MOVED 3999 127.0.0.1:6381`.
fn target(error: &ServerError, asked: &Addr) -> Option<(u16, Addr)> {
    let mut words = error.details()?.split(' ');
    let slot = words.next()?.parse().ok().filter(|slot| *slot < SLOTS)?;
    let (host, port) = words.next()?.rsplit_once(':')?;
    let port = port.parse().ok().filter(|port| *port > 0)?;
    Some((slot, Addr { host: known_host(host, asked), port }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(host: &str, port: u16) -> Addr {
        Addr { host: host.to_owned(), port }
    }

    fn node(host: Value, port: i64) -> Value {
        Value::Array(vec![host, Value::Int(port), Value::BulkString(b"id".to_vec()), Value::Array(vec![])])
    }

    #[test]
    fn ranges_name_their_nodes_and_unknown_hosts_are_the_one_that_was_asked() {
        let text = |text: &str| Value::BulkString(text.into());
        let reply = Value::Array(vec![
            Value::Array(vec![Value::Int(0), Value::Int(9), node(text("a"), 1), node(Value::Nil, 2)]),
            Value::Array(vec![Value::Int(10), Value::Int(16383), node(text(""), 3), node(text("?"), 4)]),
            Value::Array(vec![Value::Int(10), Value::Int(16384), node(text("b"), 3)]),
            Value::Array(vec![Value::Int(1), Value::Int(2)]),
            Value::Int(1),
        ]);
        let ranges = ranges(&reply, &at("x", 9)).unwrap();
        assert_eq!(
            ranges,
            [
                Range { first: 0, last: 9, nodes: vec![at("a", 1), at("x", 2)] },
                Range { first: 10, last: 16383, nodes: vec![at("x", 3), at("x", 4)] },
            ]
        );
        assert_eq!(super::ranges(&Value::Array(vec![]), &at("x", 9)), None);
        assert_eq!(super::ranges(&Value::Okay, &at("x", 9)), None);
    }

    #[test]
    fn an_error_says_where_to_go() {
        let of = |line: &str| Refusal::of(&ServerError::new(line), &at("x", 9));
        assert_eq!(of("MOVED 3999 127.0.0.1:6381"), Some(Refusal::Moved { slot: 3999, to: at("127.0.0.1", 6381) }));
        assert_eq!(of("ASK 3999 ::1:6381"), Some(Refusal::Ask { to: at("::1", 6381) }));
        assert_eq!(of("MOVED 1 :7"), Some(Refusal::Moved { slot: 1, to: at("x", 7) }));
        assert_eq!(of("MOVED 1 ?:7"), Some(Refusal::Moved { slot: 1, to: at("x", 7) }));
        assert_eq!(of("TRYAGAIN Multiple keys request during rehashing of slot"), Some(Refusal::Later));
        assert_eq!(of("MOVED 16384 a:7"), None);
        assert_eq!(of("MOVED"), None);
        assert_eq!(of("ERR no"), None);
        assert_eq!(of("READONLY You can't write. script: f1a, on @user_script:1."), None);
    }
}
