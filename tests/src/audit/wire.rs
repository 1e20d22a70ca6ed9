//! A connection that reads replies of any size in one pass and looks only at what the audit needs of them.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

/// How many bytes of a reply are kept to identify it.
const HEAD_LEN_MAX: usize = 160;

/// One connection to a server. Reading and writing fail with `TimedOut` at the deadline of the call.
pub struct Wire {
    stream: TcpStream,
    buf: Box<[u8]>,
    start: usize,
    end: usize,
    line: Vec<u8>,
}

impl Wire {
    /// Connects to a port of this machine.
    pub fn connect(port: u16) -> io::Result<Wire> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        Ok(Wire { stream, buf: vec![0; 64 * 1024].into(), start: 0, end: 0, line: Vec::new() })
    }

    /// Writes all of `bytes`.
    pub fn send(&mut self, mut bytes: &[u8], deadline: Instant) -> io::Result<()> {
        while !bytes.is_empty() {
            self.stream.set_write_timeout(Some(left(deadline)?))?;
            let taken = self.stream.write(&bytes[..bytes.len().min(1 << 20)]).map_err(timed_out)?;
            bytes = &bytes[taken..];
        }
        Ok(())
    }

    /// Reads one reply to its end and returns its first bytes.
    pub fn skip_reply(&mut self, deadline: Instant) -> io::Result<Vec<u8>> {
        self.walk(deadline, &mut |_| {})
    }

    /// Reads one reply to its end and returns its bulks and numbers in order.
    pub fn read_items(&mut self, deadline: Instant) -> io::Result<Vec<Vec<u8>>> {
        let mut items = Vec::new();
        self.walk(deadline, &mut |item| items.push(item.to_vec()))?;
        Ok(items)
    }

    /// Closes the connection at once.
    pub fn close(self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    fn walk(&mut self, deadline: Instant, on_item: &mut dyn FnMut(&[u8])) -> io::Result<Vec<u8>> {
        let mut head = Vec::new();
        let mut left = 1usize;
        let mut line = std::mem::take(&mut self.line);
        while left > 0 {
            left -= 1;
            self.read_line(&mut line, deadline)?;
            if head.len() < HEAD_LEN_MAX {
                head.extend_from_slice(&line[..line.len().min(HEAD_LEN_MAX)]);
                head.push(b' ');
            }
            let (kind, body) = line.split_first().ok_or(ErrorKind::InvalidData)?;
            let count = || std::str::from_utf8(body).ok().and_then(|text| text.parse::<i64>().ok());
            match kind {
                b'$' | b'=' => {
                    let len = count().ok_or(ErrorKind::InvalidData)?;
                    if len >= 0 {
                        self.read_bulk(len as usize, deadline, on_item)?;
                    }
                }
                b'*' | b'~' | b'>' => left += count().ok_or(ErrorKind::InvalidData)?.max(0) as usize,
                b'%' => left += 2 * count().ok_or(ErrorKind::InvalidData)?.max(0) as usize,
                b':' => on_item(body),
                b'+' | b'-' | b'_' | b',' | b'#' | b'(' => {}
                _ => return Err(ErrorKind::InvalidData.into()),
            }
        }
        self.line = line;
        Ok(head)
    }

    fn read_line(&mut self, line: &mut Vec<u8>, deadline: Instant) -> io::Result<()> {
        line.clear();
        loop {
            let ready = &self.buf[self.start..self.end];
            match ready.iter().position(|&b| b == b'\n') {
                Some(at) => {
                    line.extend_from_slice(&ready[..at]);
                    self.start += at + 1;
                    line.pop();
                    return Ok(());
                }
                None => line.extend_from_slice(ready),
            }
            self.refill(deadline)?;
        }
    }

    fn read_bulk(&mut self, len: usize, deadline: Instant, on_item: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        if self.end - self.start >= len + 2 {
            on_item(&self.buf[self.start..self.start + len]);
            self.start += len + 2;
            return Ok(());
        }
        // Only long values are cut, which no line uses.
        let mut item = Vec::new();
        let mut left = len + 2;
        while left > 0 {
            if self.start == self.end {
                self.refill(deadline)?;
            }
            let taken = left.min(self.end - self.start);
            if len <= 64 * 1024 {
                item.extend_from_slice(&self.buf[self.start..self.start + taken]);
            }
            self.start += taken;
            left -= taken;
        }
        on_item(&item[..item.len().min(len)]);
        Ok(())
    }

    fn refill(&mut self, deadline: Instant) -> io::Result<()> {
        self.stream.set_read_timeout(Some(left(deadline)?))?;
        self.start = 0;
        self.end = 0;
        self.end = self.stream.read(&mut self.buf).map_err(timed_out)?;
        if self.end == 0 { Err(ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }
}

fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// A socket says `WouldBlock` when its time is over.
fn timed_out(error: io::Error) -> io::Error {
    if error.kind() == ErrorKind::WouldBlock { ErrorKind::TimedOut.into() } else { error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn wire_that_gets(parts: &'static [&'static [u8]]) -> Wire {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let wire = Wire::connect(listener.local_addr().expect("bound").port()).expect("connected");
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("accepted");
            parts.iter().for_each(|part| stream.write_all(part).expect("sent"));
        });
        wire
    }

    #[test]
    fn replies_end_where_they_end() {
        let mut wire = wire_that_gets(&[b"*2\r\n$3\r\nab", b"c\r\n*1\r\n:7\r\n", b"-ERR no\r\n%1\r\n+a\r\n$-1\r\n"]);
        let deadline = Instant::now() + Duration::from_secs(10);
        assert_eq!(wire.read_items(deadline).expect("items"), [b"abc".to_vec(), b"7".to_vec()]);
        assert!(wire.skip_reply(deadline).expect("an error").starts_with(b"-ERR no"));
        assert!(wire.skip_reply(deadline).expect("a map").starts_with(b"%1"));
        let end = wire.skip_reply(deadline).expect_err("closed");
        assert_eq!(end.kind(), ErrorKind::UnexpectedEof);
    }
}
