//! Walking over all keys: `--scan`, and the cursor that the reports on keys share.

use onrush_resp::push_quoted;

use crate::args::Options;
use crate::connection::{Connection, encode};
use crate::fail::Fail;
use crate::format::Output;
use crate::reply::Reply;
use crate::session::print;

/// Number of SCANs after which the reports pause for `-i`.
const CYCLES_PER_PAUSE: u64 = 100;

/// A SCAN under way.
pub struct Cursor<'o> {
    options: &'o Options,
    position: Vec<u8>,
    cycles: u64,
    done: bool,
}

impl<'o> Cursor<'o> {
    /// At the start.
    pub fn new(options: &'o Options) -> Cursor<'o> {
        Cursor::from(options, 0)
    }

    /// Where another one was.
    pub fn from(options: &'o Options, position: u64) -> Cursor<'o> {
        Cursor { options, position: position.to_string().into_bytes(), cycles: 0, done: false }
    }

    /// Where it is.
    pub fn position(&self) -> String {
        String::from_utf8_lossy(&self.position).into_owned()
    }

    /// The next keys, maybe none; `None` at the end.
    ///
    /// # Errors
    /// When the server refuses or is gone.
    pub fn next(&mut self, connection: &mut Connection) -> Result<Option<Vec<Vec<u8>>>, Fail> {
        if self.done {
            return Ok(None);
        }
        let mut words = vec![b"SCAN".to_vec(), self.position.clone()];
        if let Some(pattern) = &self.options.pattern {
            words.extend([b"MATCH".to_vec(), pattern.clone()]);
        }
        if let Some(count) = self.options.scan_count {
            words.extend([b"COUNT".to_vec(), count.to_string().into_bytes()]);
        }
        if let Some(kind) = &self.options.scan_type {
            words.extend([b"TYPE".to_vec(), kind.clone()]);
        }
        let reply = connection.ask(&words)?;
        let Some([position, keys]) = reply.items() else {
            return Err(Fail::new("Error: the reply to SCAN is not a cursor and keys"));
        };
        self.position = position.bytes().unwrap_or(b"0").to_vec();
        self.done = self.position == b"0";
        self.cycles += 1;
        Ok(Some(keys.strings()))
    }

    /// Pauses as `-i` asks, after each hundred cycles.
    pub fn pause(&self) {
        if self.cycles > 0 && self.cycles.is_multiple_of(CYCLES_PER_PAUSE) && !self.options.interval.is_zero() {
            std::thread::sleep(self.options.interval);
        }
    }
}

/// Sends one command per key in one go and returns the replies in order.
///
/// # Errors
/// When the connection is gone.
pub fn ask_each(connection: &mut Connection, commands: impl Iterator<Item = Vec<Vec<u8>>>) -> Result<Vec<Reply>, Fail> {
    let commands: Vec<_> = commands.collect();
    let mut replies = Vec::with_capacity(commands.len());
    let (count, mut commands) = (commands.len() as u64, commands.into_iter());
    let source = move |out: &mut Vec<u8>| commands.next().map(|command| encode(out, &command)).is_some();
    connection.batch(source, count, |_, reply, _| replies.push(reply))?;
    Ok(replies)
}

/// A connection for walking over keys. With `-c`, a replica of a cluster serves reads as well.
///
/// # Errors
/// When there is no connection.
pub fn open(options: &Options) -> Result<Connection, Fail> {
    let mut connection = Connection::open_logged_in(&options.target)?;
    if options.cluster_mode {
        // A server in no cluster refuses, and serves reads anyway.
        connection.call(&["READONLY"])?;
    }
    Ok(connection)
}

/// Lists the keys.
///
/// # Errors
/// When the server refuses or is gone.
pub fn run(options: &Options) -> Result<(), Fail> {
    let mut connection = open(options)?;
    let mut cursor = Cursor::new(options);
    let mut out = Vec::new();
    while let Some(keys) = cursor.next(&mut connection)? {
        out.clear();
        for key in keys {
            match options.output {
                Output::Standard => push_quoted(&mut out, &key),
                _ => out.extend_from_slice(&key),
            }
            out.push(b'\n');
        }
        print(&out);
        if !options.interval.is_zero() {
            std::thread::sleep(options.interval);
        }
    }
    Ok(())
}
