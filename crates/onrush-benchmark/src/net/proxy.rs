//! A round trip of any length: a proxy that holds every byte back for half of it, in both directions.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::net::target::Target;
use crate::options::Options;

/// Most bytes of one read.
const PIECE_LEN: usize = 256 << 10;

/// Starts a proxy in front of a server, on a port of its own; where to connect to. Its threads end with the connections.
fn start(target: &Target, rtt: Duration) -> Result<Target, Error> {
    let failed = |error: std::io::Error| Error::Refused(format!("the delaying proxy: {error}"));
    let listener = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
    let port = listener.local_addr().map_err(failed)?.port();
    let to = target.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            _ = forward(stream, &to, rtt / 2);
        }
    });
    Ok(Target { host: "127.0.0.1".into(), port, socket: None, ..target.clone() })
}

/// How to reach a server with the round trip that is asked for.
///
/// # Errors
/// There is no free port.
pub fn reached(options: &Options, target: &Target) -> Result<Target, Error> {
    if options.rtt.is_zero() { Ok(target.clone()) } else { start(target, options.rtt) }
}

fn forward(client: TcpStream, to: &Target, delay: Duration) -> std::io::Result<()> {
    client.set_nodelay(true)?;
    let server = match &to.socket {
        // To read, to write and to end it is the same for a socket of either kind.
        Some(path) => TcpStream::from(OwnedFd::from(UnixStream::connect(path)?)),
        None => {
            let stream = TcpStream::connect((to.host.as_str(), to.port))?;
            stream.set_nodelay(true)?;
            stream
        }
    };
    pump(client.try_clone()?, server.try_clone()?, delay);
    pump(server, client, delay);
    Ok(())
}

/// Pieces on their way, with the time at which each is due; `None` at the end.
type Held = Arc<(Mutex<VecDeque<(Instant, Option<Vec<u8>>)>>, Condvar)>;

/// Two threads for one direction: one reads as fast as it can, the other writes what is due.
fn pump(mut from: TcpStream, mut to: TcpStream, delay: Duration) {
    let held: Held = Arc::default();
    let queue = held.clone();
    std::thread::spawn(move || {
        let mut piece = vec![0; PIECE_LEN];
        loop {
            let len = from.read(&mut piece).unwrap_or(0);
            let bytes = (len > 0).then(|| piece[..len].to_vec());
            let (pieces, told) = &*queue;
            lock(pieces).push_back((Instant::now() + delay, bytes));
            told.notify_one();
            if len == 0 {
                return;
            }
        }
    });
    std::thread::spawn(move || {
        loop {
            let (pieces, told) = &*held;
            let mut waiting = lock(pieces);
            let (due, bytes) = loop {
                match waiting.pop_front() {
                    Some(piece) => break piece,
                    None => waiting = told.wait(waiting).unwrap_or_else(std::sync::PoisonError::into_inner),
                }
            };
            drop(waiting);
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            match bytes {
                Some(bytes) if to.write_all(&bytes).is_ok() => {}
                _ => {
                    _ = to.shutdown(Shutdown::Both);
                    return;
                }
            }
        }
    });
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_trip_takes_its_time_and_bytes_stay_in_order() {
        let echo = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = echo.local_addr().unwrap().port();
        std::thread::spawn(move || {
            let (mut stream, _) = echo.accept().unwrap();
            let mut twin = stream.try_clone().unwrap();
            _ = std::io::copy(&mut stream, &mut twin);
        });
        let target = Target { port, ..Target::default() };
        let proxy = start(&target, Duration::from_millis(60)).unwrap();
        let mut stream = TcpStream::connect(("127.0.0.1", proxy.port)).unwrap();
        let started = Instant::now();
        let bytes: Vec<u8> = (0..200_000_u32).map(|n| (n % 251) as u8).collect();
        let mut twin = stream.try_clone().unwrap();
        let sent = bytes.clone();
        std::thread::spawn(move || twin.write_all(&sent));
        let mut back = vec![0; bytes.len()];
        stream.read_exact(&mut back).unwrap();
        assert!(started.elapsed() >= Duration::from_millis(60));
        assert_eq!(back, bytes);
    }
}
