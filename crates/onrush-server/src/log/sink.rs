//! Where the lines of the log go: standard output or a file, and the system's log.
//!
//! A thread of its own writes them. A disk that hangs, or a program that has started the server and does not read its
//! output, makes that thread wait and nobody else.

use std::collections::VecDeque;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

use onrush_persist::threads;
use parking_lot::{Condvar, Mutex};
use tracing::Level;

use crate::config::Config;
use crate::process::os::{self, Syslog};

/// Bytes of lines that wait to be written, at most; more are lost.
const WAITING_BYTES_MAX: usize = 1 << 20;

/// How long the end of the process waits for lines to be written.
const END_WAIT_MAX: Duration = Duration::from_secs(1);

/// A line.
pub struct Line {
    pub level: Level,
    /// All of it, with its end.
    pub text: String,
    /// Where the message begins.
    pub message_at: usize,
}

/// See the module's text.
pub struct Sink {
    output: Mutex<Output>,
    queue: Mutex<Queue>,
    has_come: Condvar,
    is_written: Condvar,
}

/// Lines that wait for the thread.
#[derive(Default)]
struct Queue {
    lines: VecDeque<Line>,
    bytes: usize,
    /// Lines that came while too many waited.
    lost: u64,
    /// Whether the thread is there.
    is_served: bool,
    /// Whether it is writing.
    is_writing: bool,
}

/// A file that is made anew when it is moved away, as programs do that rotate logs.
struct LogFile {
    path: PathBuf,
    file: File,
    /// Its device and number.
    id: (u64, u64),
}

impl LogFile {
    fn open(path: PathBuf) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(&path)?;
        let id = id(&file.metadata()?);
        Ok(Self { path, file, id })
    }

    /// If another file has this path, or none, lines go there from now on, as far as it can be opened.
    fn follow_path(&mut self) {
        let is_there = std::fs::metadata(&self.path).is_ok_and(|metadata| id(&metadata) == self.id);
        if !is_there && let Ok(opened) = Self::open(self.path.clone()) {
            *self = opened;
        }
    }
}

fn id(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

struct Output {
    /// Standard output if there is none.
    file: Option<LogFile>,
    syslog: Option<Syslog>,
}

impl Output {
    /// Call this before lines are written that have come together.
    fn begin(&mut self) {
        if let Some(file) = &mut self.file {
            file.follow_path();
        }
    }

    fn write(&mut self, line: &Line) {
        let bytes = line.text.as_bytes();
        // If the log cannot be written, there is nowhere to tell it.
        let _ = match &mut self.file {
            Some(log) => log.file.write_all(bytes),
            None => io::stdout().write_all(bytes),
        };
        if let Some(syslog) = &self.syslog {
            syslog.write(line.level, line.text[line.message_at..].trim_end());
        }
    }
}

impl Sink {
    /// The one that the configuration asks for.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open(config: &Config) -> io::Result<Self> {
        let file = match config.logfile.as_str() {
            "" => None,
            path => Some(LogFile::open(std::path::absolute(path)?)?),
        };
        let syslog = config.syslog_enabled.then(|| Syslog::open(&config.syslog_ident, config.syslog_facility));
        Ok(Self {
            output: Mutex::new(Output { file, syslog }),
            queue: Mutex::default(),
            has_come: Condvar::new(),
            is_written: Condvar::new(),
        })
    }

    /// Starts the thread that writes the lines.
    ///
    /// # Errors
    /// The system has no thread to give.
    pub fn start_thread(&'static self) -> io::Result<()> {
        threads::start("server-log", || self.serve())?;
        self.queue.lock().is_served = true;
        os::at_exit(wait_for_lines);
        Ok(())
    }

    /// Writes a line, or has the thread write it.
    pub fn push(&self, line: Line) {
        {
            let mut queue = self.queue.lock();
            if queue.is_served {
                if queue.bytes + line.text.len() > WAITING_BYTES_MAX {
                    queue.lost += 1;
                    return;
                }
                queue.bytes += line.text.len();
                queue.lines.push_back(line);
                self.has_come.notify_one();
                return;
            }
        }
        let mut output = self.output.lock();
        output.begin();
        output.write(&line);
    }

    fn serve(&self) {
        let mut queue = self.queue.lock();
        loop {
            self.has_come.wait_while(&mut queue, |queue| queue.lines.is_empty());
            let (lines, lost) = (std::mem::take(&mut queue.lines), std::mem::take(&mut queue.lost));
            (queue.bytes, queue.is_writing) = (0, true);
            drop(queue);
            let mut output = self.output.lock();
            output.begin();
            lines.iter().for_each(|line| output.write(line));
            if lost > 0 {
                output.write(&about_lost(lost));
            }
            drop(output);
            queue = self.queue.lock();
            queue.is_writing = false;
            self.is_written.notify_all();
        }
    }

    /// Waits a moment until all lines are written.
    pub fn wait(&self) {
        let mut queue = self.queue.lock();
        let waits = |queue: &mut Queue| queue.is_writing || !queue.lines.is_empty();
        // If nobody takes them, the process ends without them.
        let _ = self.is_written.wait_while_for(&mut queue, waits, END_WAIT_MAX);
    }
}

fn about_lost(lines: u64) -> Line {
    let start = super::start(Level::WARN);
    let text = format!("{start}{lines} lines of the log are lost here: they came faster than they could be written\n");
    Line { level: Level::WARN, text, message_at: start.len() }
}

/// Called when the process ends.
extern "C" fn wait_for_lines() {
    super::wait();
}
