//! A host for tests: it has a few commands, and can end a script after a number of instructions.

use std::time::{Duration, Instant};

use onrush_resp::{ArgRange, Proto, Reply};

use crate::{Ended, Host, Interpreter, Interrupt, Limits, Lists, LogLevel, sha1_hex};

/// The error of a script that the host ends.
pub(crate) const KILLED: &str = "ERR killed";

#[derive(Default)]
pub(crate) struct TestHost {
    /// Questions to answer before the script is ended; `None`: never end it.
    pub(crate) patience: Option<u32>,
    pub(crate) logged: Vec<(LogLevel, Vec<u8>)>,
    pub(crate) replication: Vec<u8>,
    /// Errors that the script has returned, and whether they were known.
    pub(crate) returned: Vec<(String, bool)>,
    pub(crate) counter: i64,
    /// The thread's CPU time at the last question, and the most between two.
    pub(crate) asked: Option<Duration>,
    pub(crate) longest: Duration,
    /// When the script is to be ended.
    pub(crate) until: Option<Instant>,
}

impl Host for TestHost {
    fn call(&mut self, bytes: &[u8], args: &[ArgRange], reply: &mut Reply) -> Interrupt {
        let arg = |index: usize| args[index].of(bytes, &[]);
        match arg(0).to_ascii_lowercase().as_slice() {
            b"incr" => {
                self.counter += 1;
                reply.int(self.counter);
            }
            b"echo" => reply.bulk(arg(1)),
            b"raw" => reply.raw(arg(1)),
            b"large" => reply.bulk_shared(&std::sync::Arc::new(vec![b'x'; 100_000])),
            b"bytes" => reply.bulk(bytes),
            b"ping" => reply.simple("PONG"),
            b"null" => reply.null(),
            b"map" => {
                reply.map(1);
                reply.bulk(b"a");
                reply.double(1.5);
            }
            b"abort" => return Interrupt::Abort(b"ERR aborted by a command".to_vec()),
            b"panic" => panic!("a command panicked"),
            _ => reply.error("ERR fail"),
        }
        Interrupt::GoOn
    }

    fn log(&mut self, level: LogLevel, message: &[u8]) {
        self.logged.push((level, message.to_vec()));
    }

    fn set_replication(&mut self, flags: u8) {
        self.replication.push(flags);
    }

    fn may_execute(&mut self, args: &[&[u8]]) -> Option<bool> {
        match args[0] {
            b"allowed" => Some(true),
            b"denied" => Some(false),
            _ => None,
        }
    }

    fn returns_error(&mut self, message: &[u8], is_known: bool) {
        self.returned.push((String::from_utf8_lossy(message).into_owned(), is_known));
    }

    fn interrupt(&mut self) -> Interrupt {
        let now = Instant::now();
        let used = cpu_time();
        let waited = self.asked.replace(used).map(|asked| used.saturating_sub(asked));
        self.longest = self.longest.max(waited.unwrap_or_default());
        if self.until.is_some_and(|until| now >= until) {
            return Interrupt::Abort(KILLED.into());
        }
        match &mut self.patience {
            None => Interrupt::GoOn,
            Some(0) => Interrupt::Abort(KILLED.into()),
            Some(left) => {
                *left -= 1;
                Interrupt::GoOn
            }
        }
    }
}

/// An interpreter with its host.
pub(crate) struct Run {
    pub(crate) interpreter: Interpreter,
    pub(crate) host: TestHost,
    pub(crate) proto: Proto,
    pub(crate) ended: Option<Ended>,
    pub(crate) lists: Lists,
}

impl Run {
    pub(crate) fn new() -> Self {
        Self::with_memory(Limits::default().memory_max_bytes)
    }

    pub(crate) fn with_memory(memory_max_bytes: usize) -> Self {
        let interpreter = Interpreter::new(Limits { memory_max_bytes, scripts_max: 100 });
        Self { interpreter, host: TestHost::default(), proto: Proto::Resp2, ended: None, lists: Lists::Own }
    }

    /// The reply of a script with these arguments and the key `key`.
    pub(crate) fn eval_with(&mut self, code: &str, args: &[&[u8]]) -> Vec<u8> {
        let sha = sha1_hex(code.as_bytes());
        let mut out = Reply::with_buffer(Vec::new(), self.proto);
        match self.interpreter.compile(&sha, code.as_bytes()) {
            Ok(script) => {
                let keys = [&b"key"[..]].into_iter();
                let args = args.iter().copied();
                let ended = self.interpreter.run((script, self.lists), &sha, keys, args, &mut self.host, &mut out);
                if let Ended::Failed { message, .. } | Ended::Aborted { message, .. } = &ended {
                    out.error_bytes(message);
                }
                self.ended = Some(ended);
            }
            Err(problem) => out.error_bytes(&problem),
        }
        let mut slices = [std::io::IoSlice::new(&[]); 8];
        let count = out.slices(&mut slices);
        slices[..count].iter().flat_map(|slice| slice.to_vec()).collect()
    }

    pub(crate) fn eval(&mut self, code: &str) -> String {
        String::from_utf8(self.eval_with(code, &[])).unwrap()
    }
}

pub(crate) fn eval_bytes(code: &str) -> Vec<u8> {
    Run::new().eval_with(code, &[])
}

pub(crate) fn eval(code: &str) -> String {
    Run::new().eval(code)
}

/// The message of the error that a script ends with, without its place.
pub(crate) fn error(code: &str) -> String {
    let reply = eval(code);
    let Some(message) = reply.strip_prefix('-') else { panic!("no error: {reply}") };
    message.split(" script: ").next().unwrap_or_default().trim_end().to_owned()
}

/// CPU time of this thread, in steps of some milliseconds.
pub(crate) fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(text.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or_default())
}
