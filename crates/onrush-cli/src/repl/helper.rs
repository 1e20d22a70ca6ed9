//! Completion and hints while typing.

use onrush_resp::split_words;
use rustyline::completion::Completer;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};
use std::borrow::Cow;

use crate::docs::Docs;

/// Commands that this program adds to the server's.
const OWN_COMMANDS: [&str; 10] =
    [":set hints", ":set nohints", "clear", "connect", "drop", "exit", "help", "pipeline", "quit", "run"];

/// What the line editor asks while a line is typed.
pub struct LineHelper {
    /// Commands known.
    pub docs: Docs,
    /// Show hints.
    pub hints: bool,
    /// Colors may be used.
    pub color: bool,
}

impl LineHelper {
    /// Whole lines that complete the typed text.
    fn candidates(&self, line: &str) -> Vec<String> {
        if line.is_empty() {
            return Vec::new();
        }
        let lower = line.to_lowercase();
        let lines: Vec<String> = match lower.strip_prefix("help ").or_else(|| lower.strip_prefix("? ")) {
            Some(_) => {
                let before = &line[..line.find(' ').map_or(0, |at| at + 1)];
                let groups = self.docs.groups().into_iter().map(|group| format!("{before}@{group}"));
                let commands = self.docs.commands.iter().map(|command| format!("{before}{}", command.name));
                groups.chain(commands).collect()
            }
            None => {
                let commands = self.docs.commands.iter().map(|command| command.name.clone());
                commands.chain(OWN_COMMANDS.map(str::to_owned)).collect()
            }
        };
        lines.into_iter().filter(|candidate| candidate.to_lowercase().starts_with(&lower)).collect()
    }

    /// The arguments still to be typed.
    fn arguments_left(&self, line: &str) -> Option<String> {
        let mut words = split_words(line.as_bytes())?;
        if words.first().is_some_and(|word| word.iter().all(u8::is_ascii_digit)) {
            words.remove(0);
        }
        let (command, name_len) = self.docs.find(&words)?;
        let left = skip_arguments(&command.syntax, words.len() - name_len);
        let blank = if line.ends_with(' ') { "" } else { " " };
        (!left.is_empty()).then(|| format!("{blank}{left}"))
    }
}

/// The syntax without its first arguments; what stands in brackets is one argument, and one that may be repeated stays.
fn skip_arguments(syntax: &str, count: usize) -> &str {
    let mut rest = syntax;
    for _ in 0..count {
        let mut depth = 0usize;
        let end = rest.char_indices().find(|&(_, character)| match character {
            '[' => {
                depth += 1;
                false
            }
            ']' => {
                depth = depth.saturating_sub(1);
                false
            }
            ' ' => depth == 0,
            _ => false,
        });
        let Some((end, _)) = end else {
            return if rest.ends_with("...]") { rest } else { "" };
        };
        if rest[..end].ends_with("...]") && rest.starts_with('[') {
            return rest;
        }
        rest = &rest[end + 1..];
    }
    rest
}

impl Completer for LineHelper {
    type Candidate = String;

    fn complete(&self, line: &str, position: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        Ok((0, self.candidates(&line[..position])))
    }
}

impl Hinter for LineHelper {
    type Hint = String;

    fn hint(&self, line: &str, position: usize, _: &Context<'_>) -> Option<String> {
        (self.hints && position == line.len() && !line.is_empty()).then(|| self.arguments_left(line)).flatten()
    }
}

impl Highlighter for LineHelper {
    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        if self.color { Cow::Owned(format!("\x1b[90m{hint}\x1b[0m")) } else { Cow::Borrowed(hint) }
    }
}

impl Validator for LineHelper {}
impl Helper for LineHelper {}

#[cfg(test)]
mod tests {
    use super::*;

    fn helper() -> LineHelper {
        LineHelper { docs: Docs::default(), hints: true, color: false }
    }

    #[test]
    fn what_is_typed_is_completed_whatever_its_case() {
        let helper = helper();
        assert!(helper.candidates("lpu").contains(&"LPUSH".to_owned()));
        assert!(helper.candidates("help @li").contains(&"help @list".to_owned()));
        assert!(helper.candidates("HELP lpu").contains(&"HELP LPUSH".to_owned()));
        assert!(helper.candidates("pipel").contains(&"pipeline".to_owned()));
        assert!(helper.candidates("").is_empty());
    }

    #[test]
    fn hints_show_the_arguments_still_to_come() {
        let helper = helper();
        assert_eq!(helper.arguments_left("getrange").as_deref(), Some(" key start end"));
        assert_eq!(helper.arguments_left("getrange ").as_deref(), Some("key start end"));
        assert_eq!(helper.arguments_left("getrange a").as_deref(), Some(" start end"));
        assert_eq!(helper.arguments_left("5 getrange a 1 ").as_deref(), Some("end"));
        assert_eq!(helper.arguments_left("getrange a 1 2"), None);
        assert_eq!(helper.arguments_left("nosuchcommand "), None);
        assert_eq!(helper.arguments_left("get \"a"), None);
    }

    #[test]
    fn an_argument_that_may_come_again_stays() {
        assert_eq!(skip_arguments("key [key ...]", 1), "[key ...]");
        assert_eq!(skip_arguments("key [key ...]", 5), "[key ...]");
        assert_eq!(skip_arguments("[NX|XX [a b]] key", 1), "key");
        assert_eq!(skip_arguments("key", 1), "");
    }
}
