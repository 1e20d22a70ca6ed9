//! How a replica introduces itself, and asks for the stream.

use onrush_engine::replication::history::Position;

use super::link::{End, Link};
use crate::config::Config;
use crate::net::peers::request;
use crate::process::server::Server;

/// Sends requests together and returns the replies, each of one line.
fn ask(link: &mut Link, doing: &str, requests: &[Vec<u8>]) -> Result<Vec<String>, End> {
    link.send(&requests.concat()).map_err(End::failed(doing))?;
    requests.iter().map(|_| link.line().map_err(End::failed(doing))).collect()
}

/// Finds out whether the primary is there, logs in, and tells it about this server.
///
/// # Errors
/// The primary does not answer, or does not let this server in.
pub(super) fn introduce(server: &Server, link: &mut Link) -> Result<(), End> {
    let config = server.host.config.read().clone();
    let pong = ask(link, "PING", &[request(&[b"PING"])])?.concat();
    let wants_login = ["-NOAUTH", "-NOPERM", "-ERR operation not permitted"];
    if !pong.starts_with('+') && !wants_login.iter().any(|start| pong.starts_with(start)) {
        return Err(match pong.starts_with("-LOADING") || pong.starts_with("-BUSY") {
            true => End::Later(pong),
            false => End::Failed(format!("PING: the primary replies {pong:?}")),
        });
    }
    if !config.masterauth.is_empty() {
        let login = match config.masteruser.as_str() {
            "" => request(&[b"AUTH", &config.masterauth]),
            user => request(&[b"AUTH", user.as_bytes(), &config.masterauth]),
        };
        let reply = ask(link, "AUTH", &[login])?.concat();
        if reply.starts_with('-') {
            return Err(End::Failed(format!("AUTH: the primary replies {reply:?}")));
        }
    }
    // The primary may know less than it is told.
    for reply in ask(link, "REPLCONF", &introductions(&config))?.iter().filter(|reply| reply.starts_with('-')) {
        tracing::info!("The primary does not understand REPLCONF: {reply}");
    }
    Ok(())
}

fn introductions(config: &Config) -> Vec<Vec<u8>> {
    let port = match (config.replica_announce_port, config.tls_replication) {
        (0, true) => config.tls_port,
        (0, false) => config.port,
        (port, _) => port,
    };
    let mut requests = vec![request(&[b"REPLCONF", b"listening-port", port.to_string().as_bytes()])];
    if !config.replica_announce_ip.is_empty() {
        requests.push(request(&[b"REPLCONF", b"ip-address", config.replica_announce_ip.as_bytes()]));
    }
    requests.push(request(&[b"REPLCONF", b"capa", b"eof", b"capa", b"psync2", b"capa", b"onrush-acks"]));
    requests
}

/// What the primary does.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It sends the stream from where this replica is, perhaps under another identifier.
    Continues(Option<String>),
    /// It sends all data, as it is at this place.
    SendsAll(Position),
    /// It was asked to be a primary, and does not want to.
    Refuses(String),
}

/// Asks for the stream. `goes_on`: this server has the data of the place where its history is.
///
/// # Errors
/// The primary does not answer, or with an error.
pub(super) fn ask_for_stream(server: &Server, link: &mut Link, goes_on: bool) -> Result<Answer, End> {
    let position = server.replication.history.position();
    if server.replication.failover.target().is_some() {
        return hand_over(server, link, &position);
    }
    let psync = match goes_on || position.offset > 0 {
        true => request(&[b"PSYNC", position.id.as_bytes(), (position.offset + 1).to_string().as_bytes()]),
        false => request(&[b"PSYNC", b"?", b"-1"]),
    };
    let reply = ask(link, "PSYNC", &[psync])?.concat();
    parse(&reply)
}

/// Asks a replica to be the primary, and for the stream.
fn hand_over(server: &Server, link: &mut Link, position: &Position) -> Result<Answer, End> {
    let offset = (position.offset + 1).to_string();
    let psync: [&[u8]; 4] = [b"PSYNC", position.id.as_bytes(), offset.as_bytes(), b"FAILOVER"];
    let was_asked = server.replication.failover.note_asked();
    let reply = ask(link, "PSYNC FAILOVER", &[request(&psync)])?.concat();
    match parse(&reply) {
        // It has heard the first request, whose answer was lost.
        Err(_) if was_asked && reply.contains(IS_PRIMARY) => {
            parse(&ask(link, "PSYNC", &[request(&psync[..3])])?.concat())
        }
        Err(End::Failed(_)) => Ok(Answer::Refuses(format!("it replies {reply:?}"))),
        answer => answer,
    }
}

/// What a primary replies that is asked to be one.
const IS_PRIMARY: &str = "can't be sent to a master";

/// The highest offset that a primary may begin with: so much more fits behind it that nobody will count to the end.
const OFFSET_MAX: i64 = i64::MAX / 2;

fn parse(reply: &str) -> Result<Answer, End> {
    let mut words = reply.split(' ');
    match (words.next().unwrap_or_default(), words.next(), words.next()) {
        ("+CONTINUE", None, _) => Ok(Answer::Continues(None)),
        ("+CONTINUE", Some(id), None) if is_id(id) => Ok(Answer::Continues(Some(id.to_owned()))),
        ("+FULLRESYNC", Some(id), Some(offset))
            if is_id(id)
                && let Ok(offset @ 0..OFFSET_MAX) = offset.parse::<i64>() =>
        {
            Ok(Answer::SendsAll(Position { id: id.to_owned(), offset: offset as u64 }))
        }
        ("-NOMASTERLINK" | "-LOADING" | "-BUSY", ..) => Err(End::Later(reply[1..].to_owned())),
        _ => Err(End::Failed(format!("PSYNC: the primary replies {:?}", reply.chars().take(200).collect::<String>()))),
    }
}

fn is_id(id: &str) -> bool {
    id.len() == 40 && id.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_to_psync_is_read_strictly() {
        let id = "0123456789012345678901234567890123456789";
        let all = Answer::SendsAll(Position { id: id.to_owned(), offset: 7 });
        assert_eq!(parse(&format!("+FULLRESYNC {id} 7")).unwrap(), all);
        assert_eq!(parse("+CONTINUE").unwrap(), Answer::Continues(None));
        assert_eq!(parse(&format!("+CONTINUE {id}")).unwrap(), Answer::Continues(Some(id.to_owned())));
        assert!(matches!(parse("-NOMASTERLINK Can't SYNC while not connected"), Err(End::Later(_))));
        for wrong in ["", "+OK", "+FULLRESYNC", "+FULLRESYNC x 7", "-ERR unknown command", "$7", "+CONTINUE x"] {
            assert!(matches!(parse(wrong), Err(End::Failed(_))), "{wrong}");
        }
        assert!(parse(&format!("+FULLRESYNC {id} -1")).is_err());
    }

    #[test]
    fn a_replica_tells_the_port_that_others_reach_it_at() {
        let port = |config: Config| {
            let first = String::from_utf8(introductions(&config).swap_remove(0)).unwrap();
            first.split("\r\n").nth(6).unwrap().to_owned()
        };
        let config = || Config::default().with("port", "7000").unwrap().with("tls-port", "7001").unwrap();
        assert_eq!(port(config()), "7000");
        assert_eq!(port(config().with("tls-replication", "yes").unwrap()), "7001");
        assert_eq!(port(config().with("replica-announce-port", "9").unwrap()), "9");
    }
}
