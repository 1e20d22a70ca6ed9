//! The error that ends the program: its message goes to standard error, and the exit code is 1.

use std::fmt;

/// A line on standard error. When nobody reads that, nothing can be done about it.
macro_rules! complain {
    ($($text:tt)*) => {{
        let _ = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("{}\n", format_args!($($text)*)));
    }};
}

/// What went wrong, in words for the user.
#[derive(Debug)]
pub struct Fail(String);

impl Fail {
    /// With a message.
    pub fn new(message: impl Into<String>) -> Fail {
        Fail(message.into())
    }

    /// When all has been said already.
    pub fn silent() -> Fail {
        Fail(String::new())
    }
}

impl fmt::Display for Fail {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// The system's message without Rust's decoration: "Connection refused".
pub fn system_message(error: &std::io::Error) -> String {
    let text = error.to_string();
    let text = text.strip_prefix("failed to lookup address information: ").unwrap_or(&text);
    match text.find(" (os error ") {
        Some(end) => text[..end].to_owned(),
        None => text.to_owned(),
    }
}
