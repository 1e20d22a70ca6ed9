//! The terminal: line editing, Ctrl-C, and waiting for messages or a key.

use std::io::IsTerminal;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::poll::{PollFd, PollFlags, PollTimeout};
use nix::sys::termios::{self, LocalFlags, SetArg};
use onrush_resp::split_words;
use rustyline::error::ReadlineError;
use rustyline::history::MemHistory;
use rustyline::{CompletionType, Config, Editor};

use super::Repl;
use super::helper::LineHelper;
use super::history::{HistoryFile, dot_file, is_secret};
use crate::docs::Docs;
use crate::fail::Fail;
use crate::format::Output;
use crate::session::print;

type LineEditor = Editor<LineHelper, MemHistory>;

/// Reads lines from the terminal up to Ctrl-D.
///
/// # Errors
/// When the terminal cannot be used.
pub fn run(mut repl: Repl) -> Result<(), Fail> {
    let cancel = Arc::new(AtomicBool::new(false));
    let registered = signal_hook::flag::register(signal_hook::consts::SIGINT, cancel.clone());
    registered.map_err(|error| Fail::new(format!("Ctrl-C cannot be caught: {error}")))?;
    repl.session.make_interactive(Some(cancel.clone()));
    let history = HistoryFile::locate();
    let mut editor = editor(&history)?;
    repl.load_preferences();
    repl.connect();
    repl.load_docs(&mut editor);
    loop {
        cancel.store(false, Ordering::Relaxed);
        if repl.session.subscribed && repl.batch.is_none() {
            repl.wait_for_messages_or_key(&cancel);
        }
        if let Some(helper) = editor.helper_mut() {
            helper.hints = repl.hints;
        }
        match editor.readline(&repl.prompt()) {
            Ok(line) => {
                let line = line.trim_end_matches(['\r', '\n']);
                remember(&mut editor, &history, line);
                let place = repl.session.options.target.to_string();
                if repl.line(line.as_bytes()).is_break() {
                    return Ok(());
                }
                if repl.session.options.target.to_string() != place {
                    repl.load_docs(&mut editor);
                }
            }
            Err(ReadlineError::Eof) => return Ok(()),
            // Ctrl-C drops what a block has gathered; elsewhere it leaves, as in redis-cli.
            Err(ReadlineError::Interrupted) if repl.batch.is_some() => repl.batch = None,
            Err(ReadlineError::Interrupted) => return Ok(()),
            Err(ReadlineError::Io(error)) if error.kind() == std::io::ErrorKind::InvalidData => {
                drop_input(std::io::stdin().as_fd());
                complain!(
                    "That byte is no UTF-8: the line is dropped, with all that was pasted behind it. \
                     Write the byte as \\x and two digits between double quotes: \"\\xff\"."
                );
            }
            Err(error) => return Err(Fail::new(format!("The terminal: {error}"))),
        }
    }
}

fn editor(history: &HistoryFile) -> Result<LineEditor, Fail> {
    let config = Config::builder().completion_type(CompletionType::Circular).auto_add_history(false).build();
    let failed = |error: ReadlineError| Fail::new(format!("The terminal: {error}"));
    let history_lines = MemHistory::with_config(&config);
    let mut editor = Editor::with_history(config, history_lines).map_err(failed)?;
    editor.set_helper(Some(LineHelper { docs: Docs::default(), hints: true, color: has_color() }));
    for line in history.load() {
        let _ = editor.add_history_entry(line);
    }
    Ok(editor)
}

fn has_color() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var("TERM").is_ok_and(|term| term != "dumb")
}

fn remember(editor: &mut LineEditor, history: &HistoryFile, line: &str) {
    let Some(words) = split_words(line.as_bytes()) else { return };
    let repeated = words.first().is_some_and(|word| word.iter().all(u8::is_ascii_digit));
    if words.is_empty() || is_secret(&words[usize::from(repeated)..]) {
        return;
    }
    if editor.add_history_entry(line).unwrap_or(false) {
        history.append(line);
    }
}

impl Repl {
    fn load_preferences(&mut self) {
        let Some(text) = dot_file("REDISCLI_RCFILE", ".redisclirc").and_then(|path| std::fs::read(path).ok()) else {
            return;
        };
        for line in text.split(|&byte| byte == b'\n') {
            match split_words(line) {
                Some(words) if words.first().is_some_and(|word| word.starts_with(b":")) => {
                    self.preference(&words, ".redisclirc: ");
                }
                _ => {}
            }
        }
    }

    fn load_docs(&mut self, editor: &mut LineEditor) {
        let Some(docs) = self.session.connection.as_mut().and_then(Docs::fetch) else { return };
        if let Some(helper) = editor.helper_mut() {
            helper.docs = docs.clone();
        }
        self.session.docs = docs;
    }

    /// Shows messages as they come, until a key is pressed or Ctrl-C ends the subscription.
    fn wait_for_messages_or_key(&mut self, cancel: &AtomicBool) {
        const NOTE: &[u8] = b"Reading messages... (press Ctrl-C to quit or any key to type command)\r";
        let note = self.session.options.output != Output::Raw && std::io::stdout().is_terminal();
        let stdin = std::io::stdin();
        let _quiet = Quiet::new(stdin.as_fd());
        while self.session.subscribed {
            if note {
                print(NOTE);
            }
            let event = self.next_event(stdin.as_fd(), cancel);
            if note {
                print(b"\x1b[K");
            }
            match event {
                Event::Key => return,
                Event::Message => {
                    if self.session.show_message().is_err() {
                        return;
                    }
                }
                Event::Cancelled => {
                    self.connect();
                    return;
                }
            }
        }
    }

    fn next_event(&mut self, stdin: BorrowedFd<'_>, cancel: &AtomicBool) -> Event {
        let Some(connection) = &mut self.session.connection else { return Event::Message };
        loop {
            if connection.has_buffered() {
                return Event::Message;
            }
            let interest = PollFlags::POLLIN;
            let mut fds = [PollFd::new(stdin, interest), PollFd::new(connection.socket().as_fd(), interest)];
            let _ = nix::poll::poll(&mut fds, PollTimeout::from(100u8));
            if cancel.swap(false, Ordering::Relaxed) {
                return Event::Cancelled;
            }
            if fds[0].any() == Some(true) {
                return Event::Key;
            }
            if fds[1].any() == Some(true) {
                return Event::Message;
            }
        }
    }
}

/// Drops typed or pasted input that has not been read, until nothing comes for a moment: otherwise the rest of a line
/// whose beginning is lost would run as a command.
fn drop_input(stdin: BorrowedFd<'_>) {
    const MOMENT_MS: u8 = 50;
    let _quiet = Quiet::new(stdin);
    let mut piece = [0; 4096];
    loop {
        let mut fds = [PollFd::new(stdin, PollFlags::POLLIN)];
        let ready = nix::poll::poll(&mut fds, PollTimeout::from(MOMENT_MS)).unwrap_or(0) > 0;
        if !ready || nix::unistd::read(stdin, &mut piece).unwrap_or(0) == 0 {
            return;
        }
    }
}

enum Event {
    Key,
    Message,
    Cancelled,
}

/// The terminal without echo and lines, put back at the end.
struct Quiet<'fd> {
    fd: BorrowedFd<'fd>,
    before: Option<termios::Termios>,
}

impl<'fd> Quiet<'fd> {
    fn new(fd: BorrowedFd<'fd>) -> Quiet<'fd> {
        let before = termios::tcgetattr(fd).ok();
        if let Some(mut quiet) = before.clone() {
            quiet.local_flags.remove(LocalFlags::ICANON | LocalFlags::ECHO);
            let _ = termios::tcsetattr(fd, SetArg::TCSANOW, &quiet);
        }
        Quiet { fd, before }
    }
}

impl Drop for Quiet<'_> {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = termios::tcsetattr(self.fd, SetArg::TCSANOW, before);
        }
    }
}
