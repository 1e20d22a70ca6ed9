//! The error that ends the program: its message goes to standard error, and the exit code is 1.

use std::fmt;

/// Prints a line on standard error. A failure to do so is ignored.
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

    /// An error whose message has been shown already.
    pub fn silent() -> Fail {
        Fail(String::new())
    }

    /// Shows the message, unless that has been done.
    pub fn tell(&self) {
        if !self.0.is_empty() {
            complain!("{self}");
        }
    }
}

impl fmt::Display for Fail {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// The system's message without Rust's decoration: "Connection refused".
pub fn system_message(error: &std::io::Error) -> String {
    match error.raw_os_error() {
        Some(code) => errno::Errno(code).to_string(),
        None => error.to_string().trim_start_matches("failed to lookup address information: ").to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_speaks_for_itself() {
        let refused = std::io::Error::from_raw_os_error(111);
        assert_eq!(system_message(&refused), "Connection refused");
        let looked_up = std::io::Error::other("failed to lookup address information: Name or service not known");
        assert_eq!(system_message(&looked_up), "Name or service not known");
    }
}
