//! What the commands on clusters tell, in the colors of redis-cli when a terminal shows them.

use std::fmt::Display;
use std::io::IsTerminal;
use std::sync::OnceLock;

use crate::fail::Fail;
/// Tells without color.
pub use crate::session::print as plain;

const BOLD: &str = "29;1m";
const YELLOW: &str = "33;1m";
const RED: &str = "31;1m";
const GREEN: &str = "32;1m";

/// Tells what is done.
pub fn info(text: impl AsRef<str>) {
    colored(BOLD, text.as_ref());
}

/// Warns.
pub fn warn(text: impl AsRef<str>) {
    colored(YELLOW, text.as_ref());
}

/// Tells of an error.
pub fn error(text: impl AsRef<str>) {
    colored(RED, text.as_ref());
}

/// Tells of success.
pub fn success(text: impl AsRef<str>) {
    colored(GREEN, text.as_ref());
}

fn colored(color: &str, text: &str) {
    if has_colors() { plain(format!("\x1b[{color}{text}\x1b[0m")) } else { plain(text) }
}

/// Whether standard output is a terminal with colors that nobody has turned off.
fn has_colors() -> bool {
    static HAS_COLORS: OnceLock<bool> = OnceLock::new();
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    *HAS_COLORS.get_or_init(|| {
        std::io::stdout().is_terminal() && variable("TERM").contains("xterm") && variable("NO_COLOR").is_empty()
    })
}

/// Shows an error on standard error, where redis-cli shows some of them, instead of standard output.
pub fn told(error: impl Display) -> Fail {
    complain!("{error}");
    Fail::silent()
}
