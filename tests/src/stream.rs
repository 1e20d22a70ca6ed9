//! Whole byte streams: everything sent on one connection, everything received until the server closes it.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use crate::argv::quote;
use crate::exceptions::modernized;
use crate::rng::Rng;
use crate::server::{Oracle, Server};
use crate::{argv, client::Conn};

/// How long a whole exchange may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Sends `bytes` on a fresh connection, reading all the while, then half-closes unless the server has closed first.
///
/// With `cut`, the bytes go out in random pieces. Errors: a server that neither closes nor sends anything.
pub fn exchange(server: &Server, bytes: &[u8], cut: Option<&mut Rng>) -> Result<Vec<u8>, String> {
    let mut conn = server.connect();
    let pieces = match cut {
        Some(rng) => rng.cut(bytes),
        None => vec![bytes],
    };
    conn.set_nonblocking(true);
    let deadline = Instant::now() + PATIENCE;
    for piece in pieces {
        if !send_piece(&mut conn, piece, deadline)? {
            break;
        }
    }
    conn.set_nonblocking(false);
    conn.set_timeout(PATIENCE);
    conn.half_close();
    conn.read_to_close().map_err(|e| format!("the server does not close: {e}"))
}

/// Sends a piece while it reads; false when the server has closed the connection.
fn send_piece(conn: &mut Conn, piece: &[u8], deadline: Instant) -> Result<bool, String> {
    let mut sent = 0;
    while sent < piece.len() {
        match conn.fill() {
            Ok(0) => return Ok(false),
            Err(e) if e.kind() != ErrorKind::WouldBlock => return Ok(false),
            _ => {}
        }
        match conn.send_some(&piece[sent..]) {
            Ok(written) => sent += written,
            Err(e) if e.kind() == ErrorKind::WouldBlock => std::thread::yield_now(),
            Err(_) => return Ok(false),
        }
        if Instant::now() > deadline {
            return Err("the server takes no more bytes".into());
        }
    }
    Ok(true)
}

/// Sends the same stream to Onrush and the older oracle, each time on an empty keyspace, whole and then in random pieces, and
/// panics when what comes back differs.
pub fn check(ours: &Server, oracle: &Server, name: &str, bytes: &[u8], rng: &mut Rng) {
    let want = exchange(oracle, bytes, None).unwrap_or_else(|e| panic!("{name}: oracle: {e}"));
    let want = modernized(Oracle::Older, &want);
    for cut in [false, true, true] {
        flush(ours);
        let got = exchange(ours, bytes, cut.then_some(&mut *rng));
        if got.as_deref() != Ok(&want) {
            let got = got.map_or_else(|e| e, |g| quote(&g, 600));
            let (sent, want) = (quote(bytes, 600), quote(&want, 600));
            let how = if cut { "in pieces" } else { "whole" };
            panic!("{name}, sent {how}\nsent:   {sent}\nours:   {got}\noracle: {want}\n{}", ours.log_tail());
        }
    }
    flush(oracle);
}

fn flush(server: &Server) {
    let mut conn = server.connect();
    conn.try_call(&argv!["AUTH", "secret"]).expect("a reply to AUTH");
    conn.call(&argv!["FLUSHALL"]);
}
