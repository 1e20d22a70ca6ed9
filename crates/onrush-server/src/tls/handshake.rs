//! The handshake with a client that has just connected.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use rustls::server::{ServerConfig, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, UnbufferedStatus};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::errors::HandshakeError;
use super::stream::{Established, encode, encode_all};

/// The longest a handshake may take, in seconds.
const TIME_MAX_S: u64 = 10;

/// Most bytes that are kept of unfinished messages. A chain of five certificates of 4,096 bits has some 10 KB.
const INPUT_LEN_MAX: usize = 32 * 1024;

/// Bytes read at once.
const READ_LEN: usize = 4 * 1024;

/// How long, and for how many bytes, a refused client may go on sending before the connection is closed: it would not get
/// to see why it is refused if bytes that it has sent were unread then.
const LINGER: Duration = Duration::from_millis(500);
const LINGER_LEN_MAX: usize = 64 * 1024;

/// What a client gets that does not speak TLS.
const NO_TLS: &[u8] = b"-ERR this port speaks TLS only\r\n";

/// The first byte of a TLS connection.
const HANDSHAKE_RECORD: u8 = 0x16;

/// Shakes hands with a client, or tells it why not; then [`let_read`] should follow.
///
/// # Errors
/// Why it has failed, for the log.
pub async fn shake_hands(stream: &mut TcpStream, config: Arc<ServerConfig>) -> Result<Established, HandshakeError> {
    let result = timeout(Duration::from_secs(TIME_MAX_S), run(stream, config)).await;
    result.unwrap_or(Err(HandshakeError::TooSlow(TIME_MAX_S)))
}

/// Gives a refused client a moment to read why, and to close the connection itself.
pub async fn let_read(mut stream: TcpStream) {
    // It may have closed already.
    let _ = timeout(LINGER, linger(&mut stream)).await;
}

/// What is to be done next.
enum Next {
    Step,
    Send,
    Receive,
    End,
}

async fn run(stream: &mut TcpStream, config: Arc<ServerConfig>) -> Result<Established, HandshakeError> {
    let tls = UnbufferedServerConnection::new(config)?;
    let mut state = Established { tls, partial: Vec::new(), plain: Vec::new(), is_at_end: false };
    let mut output = Vec::new();
    receive(stream, &mut state.partial).await?;
    if state.partial[0] != HANDSHAKE_RECORD {
        if state.partial[0].is_ascii_graphic() {
            // A client of this protocol shows the line to its user.
            let _ = stream.try_write(NO_TLS);
        }
        return Err(HandshakeError::NoTls);
    }
    loop {
        match step(&mut state, &mut output) {
            Ok(Next::Step) => {}
            Ok(Next::Send) => {
                stream.write_all(&output).await?;
                output = Vec::new();
            }
            Ok(Next::Receive) if state.partial.len() >= INPUT_LEN_MAX => return Err(HandshakeError::TooLong),
            Ok(Next::Receive) => receive(stream, &mut state.partial).await?,
            Ok(Next::End) if state.tls.is_handshaking() => return Err(HandshakeError::Closed),
            Ok(Next::End) => return Ok(state),
            Err(error) => {
                encode_all(&mut state.tls, &mut state.partial, &mut output);
                // It is short; a socket that is full means that the client does not read.
                let _ = stream.try_write(&output);
                return Err(error.into());
            }
        }
    }
}

/// Goes on as far as it gets with what was received.
fn step(state: &mut Established, output: &mut Vec<u8>) -> Result<Next, rustls::Error> {
    let UnbufferedStatus { discard, state: found, .. } = state.tls.process_tls_records(&mut state.partial);
    let next = match found {
        Ok(ConnectionState::EncodeTlsData(mut data)) => {
            encode(&mut data, output);
            Ok(Next::Step)
        }
        Ok(ConnectionState::TransmitTlsData(sent)) => {
            sent.done();
            Ok(Next::Send)
        }
        Ok(ConnectionState::BlockedHandshake) => Ok(Next::Receive),
        Ok(ConnectionState::ReadTraffic(mut traffic)) => {
            while let Some(record) = traffic.next_record() {
                state.plain.extend_from_slice(record?.payload);
            }
            Ok(Next::Step)
        }
        Ok(ConnectionState::PeerClosed) => {
            state.is_at_end = true;
            Ok(Next::Step)
        }
        Ok(_) => Ok(Next::End),
        Err(error) => Err(error),
    };
    state.partial.drain(..discard);
    next
}

async fn receive(stream: &TcpStream, input: &mut Vec<u8>) -> Result<(), HandshakeError> {
    match read(stream, |bytes| input.extend_from_slice(bytes)).await? {
        0 => Err(HandshakeError::Closed),
        _ => Ok(()),
    }
}

/// Waits for bytes, and passes them on; returns how many, 0 at the end.
async fn read(stream: &TcpStream, take: impl FnOnce(&[u8])) -> io::Result<usize> {
    loop {
        stream.readable().await?;
        // Not kept while it waits.
        let mut space = [0; READ_LEN];
        match stream.try_read(&mut space) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            read => {
                let len = read?;
                take(&space[..len]);
                return Ok(len);
            }
        }
    }
}

async fn linger(stream: &mut TcpStream) -> io::Result<()> {
    stream.shutdown().await?;
    let mut left = LINGER_LEN_MAX;
    while left > 0 {
        match read(stream, |_| {}).await? {
            0 => return Ok(()),
            len => left = left.saturating_sub(len),
        }
    }
    Ok(())
}
