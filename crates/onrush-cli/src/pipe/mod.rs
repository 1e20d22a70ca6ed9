//! `--pipe`: mass insertion. One thread sends as fast as the server takes it, another reads the replies as fast as they
//! come, so neither side can block the other however small the sockets' buffers are. Memory is constant, since nothing
//! is kept.
//!
//! A tag marks the end: the last command is an ECHO of 20 random bytes; when they come back, all is done.

mod scan;
mod source;
mod template;

use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use onrush_resp::ReplyError;

use self::scan::{Scanner, TAG_LEN};
use self::template::Template;
use crate::args::{Options, PipeSource};
use crate::connection::{Connection, Socket, encode};
use crate::fail::{Fail, system_message};
use crate::session::print;

/// Bytes that go from input to socket at once.
const SEND_LEN: u64 = 1 << 20;
/// How much is read of the replies at once.
const READ_LEN: usize = 256 << 10;
/// While commands are sent, a read of fewer bytes is followed by a pause: a reader that wakes for every few replies
/// takes CPU time from the server.
const SMALL_READ_LEN: usize = 64 << 10;
const READ_PAUSE: Duration = Duration::from_millis(1);
/// How often progress is shown.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);

/// State shared by the threads.
#[derive(Default)]
struct Progress {
    bytes_sent: AtomicU64,
    replies: AtomicU64,
    all_sent: AtomicBool,
    done: AtomicBool,
}

/// How reading ended.
struct Outcome {
    replies: u64,
    errors: u64,
    problem: Option<String>,
}

/// Sends what standard input holds and counts the replies.
///
/// # Errors
/// When the connection breaks, the input cannot be read, a record makes no command, no reply comes for too long, or
/// replies are errors.
pub fn run(options: &Options) -> Result<(), Fail> {
    let template = options.pipe_template.as_deref().map(Template::parse).transpose()?;
    let connection = Connection::open_logged_in(&options.target)?;
    let (mut socket, read_ahead) = connection.into_parts();
    let reader = socket.try_clone().ok_or_else(|| Fail::new("The socket cannot be read and written at once."))?;
    let tag = random_tag()?;
    let progress = Arc::new(Progress::default());
    let outcome = {
        let (progress, (sender, outcome)) = (progress.clone(), mpsc::channel());
        thread::spawn(move || sender.send(receive(reader, &read_ahead, tag, &progress)));
        outcome
    };
    let shower = io::stderr().is_terminal().then(|| show_progress(progress.clone()));
    let finish = |outcome: Outcome, failed: Option<Fail>| {
        progress.done.store(true, Ordering::Relaxed);
        if let Some(shower) = shower {
            let _ = shower.join();
        }
        report(&outcome, failed)
    };

    let sent = send_all(&mut socket, options, template, &progress);
    progress.all_sent.store(true, Ordering::Relaxed);
    let mut ending = b"\r\n".to_vec();
    encode(&mut ending, &[b"ECHO", &tag[..]]);
    if sent.is_ok() {
        print(b"All data transferred. Waiting for the last reply...\n");
    }
    let (broken, bad_input) = match sent {
        Ok(()) => (socket.write_all(&ending).err(), None),
        Err(SendError::Socket(error)) => (Some(error), None),
        Err(SendError::Input(fail)) => (socket.write_all(&ending).err(), Some(fail)),
    };
    if let Some(error) = broken {
        socket.shut_down();
        let message = format!("Error writing to the server: {}", system_message(&error));
        let outcome = outcome.recv().unwrap_or(Outcome { replies: 0, errors: 0, problem: None });
        return finish(Outcome { problem: Some(message), ..outcome }, bad_input);
    }
    let outcome = wait(&outcome, options.pipe_timeout, &progress, &socket)?;
    finish(outcome, bad_input)
}

/// Waits for the reader while replies keep coming.
fn wait(
    outcome: &mpsc::Receiver<Outcome>,
    timeout: Duration,
    progress: &Progress,
    socket: &Socket,
) -> Result<Outcome, Fail> {
    let timeout = if timeout.is_zero() { Duration::MAX } else { timeout };
    let (mut seen, mut since) = (progress.replies.load(Ordering::Relaxed), Instant::now());
    loop {
        match outcome.recv_timeout(timeout.saturating_sub(since.elapsed()).max(Duration::from_millis(1))) {
            Ok(outcome) => return Ok(outcome),
            Err(RecvTimeoutError::Disconnected) => return Err(Fail::new("Error: the reading thread ended early")),
            Err(RecvTimeoutError::Timeout) => {}
        }
        let replies = progress.replies.load(Ordering::Relaxed);
        if replies != seen {
            (seen, since) = (replies, Instant::now());
        } else if since.elapsed() >= timeout {
            socket.shut_down();
            let outcome = outcome.recv().map_err(|_| Fail::silent())?;
            let problem = format!("No replies for {} seconds: exiting.", timeout.as_secs_f64());
            print(format!("errors: {}, replies: {}\n", outcome.errors + 1, outcome.replies));
            return Ok(Outcome { problem: Some(problem), ..outcome });
        }
    }
}

/// `bad_input` is why nothing more of the input was sent.
fn report(outcome: &Outcome, bad_input: Option<Fail>) -> Result<(), Fail> {
    let Outcome { replies, errors, problem } = outcome;
    if let Some(problem) = problem {
        complain!("{problem}");
        complain!("Stopped. Replies so far: {replies}, errors among them: {errors}.");
        return Err(bad_input.unwrap_or_else(Fail::silent));
    }
    if let Some(fail) = bad_input {
        complain!("{fail}. Commands sent before it: {replies}, failed: {errors}.");
        return Err(Fail::silent());
    }
    print(format!("Last reply received from server.\nerrors: {errors}, replies: {replies}\n"));
    if *errors > 0 { Err(Fail::silent()) } else { Ok(()) }
}

enum SendError {
    Socket(io::Error),
    Input(Fail),
}

fn send_all(
    socket: &mut Socket,
    options: &Options,
    template: Option<Template>,
    progress: &Progress,
) -> Result<(), SendError> {
    let stdin = io::stdin().as_fd().try_clone_to_owned().map(File::from);
    let stdin = stdin.map_err(|error| unreadable(&error))?;
    let Some(template) = template else { return copy(stdin, socket, progress) };
    let mut broken = None;
    let send = |bytes: &[u8]| {
        socket.write_all(bytes).map_err(|error| {
            broken = Some(error);
            Fail::silent()
        })?;
        progress.bytes_sent.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(())
    };
    let done = match options.pipe_source {
        PipeSource::JsonLines => source::json_lines(stdin, &template, send),
        _ => source::csv(stdin, template, options.csv_header, send),
    };
    match (done, broken) {
        (_, Some(error)) => Err(SendError::Socket(error)),
        (done, None) => done.map_err(|fail| SendError::Input(Fail::new(format!("Standard input, {fail}")))),
    }
}

fn unreadable(error: &io::Error) -> SendError {
    SendError::Input(Fail::new(format!("Error reading standard input: {}", system_message(error))))
}

/// Whose error it is that ended copying from a file, pipe or terminal to a socket. Those of TLS have no number.
fn side(error: io::Error) -> SendError {
    use io::ErrorKind::{
        BrokenPipe, ConnectionAborted, ConnectionReset, HostUnreachable, NetworkDown, NetworkUnreachable, NotConnected,
        TimedOut,
    };
    match error.kind() {
        BrokenPipe | ConnectionAborted | ConnectionReset | NotConnected => SendError::Socket(error),
        HostUnreachable | NetworkDown | NetworkUnreachable | TimedOut => SendError::Socket(error),
        _ if error.raw_os_error().is_none() => SendError::Socket(error),
        _ => unreadable(&error),
    }
}

/// From file or pipe to socket, inside the kernel where it can: `io::copy` uses sendfile and splice.
fn copy(input: File, socket: &mut Socket, progress: &Progress) -> Result<(), SendError> {
    loop {
        let mut part = (&input).take(SEND_LEN);
        let copied = match socket {
            Socket::Tcp(stream) => io::copy(&mut part, stream),
            Socket::Unix(stream) => io::copy(&mut part, stream),
            #[cfg(feature = "tls")]
            Socket::Tls(stream) => io::copy(&mut part, stream),
        };
        match copied {
            Ok(0) => return Ok(()),
            Ok(len) => progress.bytes_sent.fetch_add(len, Ordering::Relaxed),
            Err(error) => return Err(side(error)),
        };
    }
}

fn receive(mut socket: Socket, read_ahead: &[u8], tag: [u8; TAG_LEN], progress: &Progress) -> Outcome {
    let mut scanner = Scanner::new(tag);
    let mut buffer = vec![0; READ_LEN];
    let show = |at: u64, text: &[u8]| complain!("command {at}: {}", String::from_utf8_lossy(text));
    let protocol = |error: ReplyError| format!("Protocol error, {error}");
    let mut problem = scanner.feed(read_ahead, show).err().map(protocol);
    let mut len = 0;
    while problem.is_none() && !scanner.seen.finished {
        if len > 0 && len < SMALL_READ_LEN && !progress.all_sent.load(Ordering::Relaxed) {
            thread::sleep(READ_PAUSE);
        }
        len = 0;
        match socket.read(&mut buffer) {
            Ok(0) => problem = Some("Error reading from the server: Server closed the connection".to_owned()),
            Ok(read) => {
                len = read;
                problem = scanner.feed(&buffer[..len], show).err().map(protocol);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => problem = Some(format!("Error reading from the server: {}", system_message(&error))),
        }
        progress.replies.store(scanner.seen.replies, Ordering::Relaxed);
    }
    if problem.is_some() {
        // The writing thread must not wait for a server that is gone.
        socket.shut_down();
    }
    Outcome { replies: scanner.seen.replies, errors: scanner.seen.errors, problem }
}

fn show_progress(progress: Arc<Progress>) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        let started = Instant::now();
        let (mut last, mut at) = (0, started);
        while !progress.done.load(Ordering::Relaxed) {
            thread::sleep(PROGRESS_INTERVAL);
            let replies = progress.replies.load(Ordering::Relaxed);
            let megabytes = progress.bytes_sent.load(Ordering::Relaxed) as f64 / 1e6;
            let rate = (replies - last) as f64 / at.elapsed().as_secs_f64();
            (last, at) = (replies, Instant::now());
            eprint!("\r{megabytes:.1} MB sent, {replies} replies, {rate:.0} per second\x1b[K");
        }
        let (replies, seconds) = (progress.replies.load(Ordering::Relaxed), started.elapsed().as_secs_f64());
        complain!("\r{replies} replies in {seconds:.2} s, {:.0} per second\x1b[K", replies as f64 / seconds);
    })
}

fn random_tag() -> Result<[u8; TAG_LEN], Fail> {
    let mut tag = [0; TAG_LEN];
    let read = File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut tag));
    read.map_err(|error| Fail::new(format!("/dev/urandom: {}", system_message(&error))))?;
    Ok(tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_input_are_told_from_those_of_the_server() {
        for (error, is_input) in [
            (io::Error::from_raw_os_error(21), true),
            (io::Error::from_raw_os_error(5), true),
            (io::Error::from_raw_os_error(32), false),
            (io::Error::from_raw_os_error(104), false),
            (io::Error::from_raw_os_error(110), false),
            (io::Error::other("the peer's certificate"), false),
        ] {
            let shown = error.to_string();
            assert_eq!(matches!(side(error), SendError::Input(_)), is_input, "{shown}");
        }
    }
}
