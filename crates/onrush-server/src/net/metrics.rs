//! The metrics of the server over HTTP, for Prometheus: `GET /metrics` on `metrics-port`.
//!
//! A web page that a browser of this machine shows must not read them: requests of other sites are refused, and so are
//! those for another host name as long as only this machine may ask.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use onrush_engine::commands::server::metrics::exposition;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::process::server::Server;

/// Bytes of the longest request.
const REQUEST_LEN_MAX: usize = 8 << 10;

/// Header lines of a request.
const HEADERS_MAX: usize = 64;

/// Requests at the same time; with one more, the oldest is closed: those that are asked in earnest take no time.
const REQUESTS_MAX: usize = 16;

/// The time for a request and its answer.
const TIME_MAX: Duration = Duration::from_secs(5);

/// Begins to answer, if the configuration has a port for it.
///
/// # Errors
/// The address is none, or cannot be bound.
pub fn start(server: &'static Server) -> io::Result<()> {
    let (port, bind) = {
        let config = server.host.config.read();
        (config.metrics_port as u16, config.metrics_bind.clone())
    };
    if port == 0 {
        return Ok(());
    }
    let at = |error: io::Error| io::Error::new(error.kind(), format!("metrics-port {port} of {bind}: {error}"));
    let ip: IpAddr = bind.parse().map_err(|error| at(io::Error::new(io::ErrorKind::InvalidInput, error)))?;
    let listener = std::net::TcpListener::bind(SocketAddr::new(ip, port)).map_err(at)?;
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    tracing::info!("Metrics at http://{}/metrics", SocketAddr::new(ip, port));
    tokio::spawn(serve(server, listener, ip.is_loopback()));
    Ok(())
}

async fn serve(server: &'static Server, listener: TcpListener, is_local: bool) {
    let mut requests: VecDeque<JoinHandle<()>> = VecDeque::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // No file is left for a connection.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        requests.retain(|request| !request.is_finished());
        if requests.len() >= REQUESTS_MAX
            && let Some(oldest) = requests.pop_front()
        {
            oldest.abort();
        }
        requests.push_back(tokio::spawn(async move {
            // Whoever asks too slowly or goes away gets nothing.
            let _ = timeout(TIME_MAX, answer(server, stream, is_local)).await;
        }));
    }
}

async fn answer(server: &'static Server, mut stream: TcpStream, is_local: bool) -> io::Result<()> {
    let mut request = Vec::new();
    let response = loop {
        if stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
        if let Some(verdict) = judge(&request, is_local) {
            break match verdict {
                Ok(asks_for_body) => respond("200 OK", &exposition(server.engine()), asks_for_body),
                Err(status) => respond(status, &format!("{status}\n"), true),
            };
        }
        if request.len() > REQUEST_LEN_MAX {
            break respond("431 Request Header Fields Too Large", "", true);
        }
    };
    stream.write_all(&response).await?;
    stream.shutdown().await
}

/// What to do with a request, once it is complete: send the metrics, with their text or (HEAD) without, or refuse.
fn judge(request: &[u8], is_local: bool) -> Option<Result<bool, &'static str>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut parsed = httparse::Request::new(&mut headers);
    match parsed.parse(request) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) => return None,
        Err(_) => return Some(Err("400 Bad Request")),
    }
    let header = |name: &str| {
        let found = parsed.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
        found.map(|header| String::from_utf8_lossy(header.value).trim().to_ascii_lowercase())
    };
    let is_other_site = header("origin").is_some()
        || header("sec-fetch-site").is_some_and(|site| !matches!(site.as_str(), "none" | "same-origin"));
    let is_other_host = is_local && !header("host").is_some_and(|host| is_this_machine(&host));
    let path = parsed.path.unwrap_or_default().split('?').next();
    Some(match (parsed.method, path) {
        _ if is_other_site || is_other_host => Err("403 Forbidden"),
        (Some("GET"), Some("/metrics")) => Ok(true),
        (Some("HEAD"), Some("/metrics")) => Ok(false),
        (Some("GET" | "HEAD"), _) => Err("404 Not Found"),
        _ => Err("405 Method Not Allowed"),
    })
}

/// Whether a host with or without a port is a name of this machine that no name server can give to others.
fn is_this_machine(host: &str) -> bool {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => host.split(':').next().unwrap_or_default(),
    };
    name == "localhost" || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn respond(status: &str, body: &str, has_body: bool) -> Vec<u8> {
    let mut response = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\n\
         Cross-Origin-Resource-Policy: same-origin\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
        body.len()
    )
    .into_bytes();
    if has_body {
        response.extend_from_slice(body.as_bytes());
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(lines: &str, is_local: bool) -> Option<Result<bool, &'static str>> {
        judge(format!("{}\r\n\r\n", lines.replace('\n', "\r\n")).as_bytes(), is_local)
    }

    #[test]
    fn only_get_of_the_metrics_is_answered() {
        for (line, expected) in [
            ("GET /metrics HTTP/1.1", Ok(true)),
            ("GET /metrics?a=b HTTP/1.0", Ok(true)),
            ("HEAD /metrics HTTP/1.1", Ok(false)),
            ("GET / HTTP/1.1", Err("404 Not Found")),
            ("POST /metrics HTTP/1.1", Err("405 Method Not Allowed")),
            ("nonsense", Err("400 Bad Request")),
        ] {
            assert_eq!(verdict(&format!("{line}\nHost: 127.0.0.1:9121"), true), Some(expected), "{line}");
        }
        assert_eq!(judge(b"GET /metrics HTTP/1.1\r\nHost: lo", true), None);
    }

    #[test]
    fn web_pages_of_other_sites_are_refused() {
        let get = |headers: &str, is_local| verdict(&format!("GET /metrics HTTP/1.1\n{headers}"), is_local);
        let forbidden = Some(Err("403 Forbidden"));
        assert_eq!(get("Host: localhost\nOrigin: http://evil.example", true), forbidden);
        assert_eq!(get("Host: localhost\nSec-Fetch-Site: cross-site", true), forbidden);
        assert_eq!(get("Host: localhost\nSec-Fetch-Site: none", true), Some(Ok(true)));
        // A name that its owner lets point here.
        assert_eq!(get("Host: evil.example:9121", true), forbidden);
        assert_eq!(get("Accept: */*", true), forbidden);
        assert_eq!(get("Host: server.internal:9121", false), Some(Ok(true)));
        for host in ["LOCALHOST:1", "127.8.9.1", "[::1]:9121", "[::1]"] {
            assert_eq!(get(&format!("Host: {host}"), true), Some(Ok(true)), "{host}");
        }
        for host in ["localhost.evil.example", "[::2]", "127.0.0.1.evil.example", ""] {
            assert_eq!(get(&format!("Host: {host}"), true), forbidden, "{host}");
        }
    }
}
