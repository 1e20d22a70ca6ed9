//! Threads that the process cannot do without, and work that is done without one where the system refuses it.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{Builder, JoinHandle};

/// Writes the reason to where the process writes its log, and returns when it is there.
type LastWords = fn(&str);

static LAST_WORDS: OnceLock<LastWords> = OnceLock::new();

/// Has the reason for which [`start`] ends the process written by `last_words`. Call this once, before there are threads;
/// without it the reason goes to the standard error output.
pub fn set_last_words(last_words: LastWords) {
    // This is called once.
    let _ = LAST_WORDS.set(last_words);
}

/// Starts a thread whose work nothing else would do, and nobody would miss: if it panics, the process ends at once and with
/// a reason, so that a supervisor starts it again.
///
/// # Errors
/// The system cannot create a thread.
pub fn start(name: impl Into<String>, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    let name = name.into();
    Builder::new().name(name.clone()).spawn(move || {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(body)) {
            end(&name, &*panic);
        }
    })
}

/// Does something on a thread of its own, or at once on this one if the system cannot create a thread: it takes longer
/// then, but is done.
pub fn start_or_do(name: &str, body: impl FnOnce() + Send + 'static) {
    let body = Arc::new(Mutex::new(Some(body)));
    let theirs = Arc::clone(&body);
    let take = move |body: &Mutex<Option<_>>| body.lock().unwrap_or_else(PoisonError::into_inner).take();
    let started = Builder::new().name(name.to_owned()).spawn(move || {
        let body = take(&theirs);
        if let Some(body) = body {
            body();
        }
    });
    if started.is_err()
        && let Some(body) = take(&body)
    {
        body();
    }
}

/// Ends the process, because what `name` says has panicked.
pub fn end(name: &str, panic: &(dyn Any + Send)) -> ! {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no reason given");
    let reason =
        format!("The process ends at once: a fault has ended its part '{name}', which it cannot do without: {text}");
    match LAST_WORDS.get() {
        Some(last_words) => last_words(&reason),
        None => eprintln!("{reason}"),
    }
    std::process::abort()
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use super::*;

    /// Tells the test's process that it is the one that ends.
    const IS_TO_END: &str = "ONRUSH_TEST_IS_TO_END";

    #[test]
    fn a_panic_ends_the_process_with_a_reason() {
        const SIGABRT: i32 = 6;
        if std::env::var_os(IS_TO_END).is_some() {
            let thread = start("fragile", || panic!("it {} broken", "is")).unwrap();
            thread.join().unwrap();
            // Not reached, or the test that has started this process fails.
            std::process::exit(0);
        }
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "threads::tests::a_panic_ends_the_process_with_a_reason", "--nocapture"]);
        let ended = command.env(IS_TO_END, "1").output().unwrap();
        assert_eq!(ended.status.signal(), Some(SIGABRT));
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(said.contains("its part 'fragile', which it cannot do without: it is broken"), "{said}");
    }

    #[test]
    fn an_end_in_order_ends_nothing_else() {
        start("sturdy", || {}).unwrap().join().unwrap();
    }
}
