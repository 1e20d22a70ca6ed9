//! The known commands: from the server's COMMAND DOCS, or from a built-in table.

use std::fmt::Write;

use crate::connection::Connection;
use crate::reply::Reply;

/// The built-in table: one command per line, its fields separated by tabs. `onrush-cli --docs-table`, run against an
/// onrush-server, makes it.
const BUILT_IN: &str = include_str!("commands.tsv");

/// One command or subcommand.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CommandDoc {
    /// In capitals, a subcommand after its command.
    pub name: String,
    /// The group that `help @group` lists.
    pub group: String,
    /// The version that introduced it.
    pub since: String,
    /// The arguments.
    pub syntax: String,
    /// What it does, in a sentence.
    pub summary: String,
}

/// All commands known, sorted by name.
#[derive(Clone, Debug)]
pub struct Docs {
    /// Each of them.
    pub commands: Vec<CommandDoc>,
}

impl Default for Docs {
    fn default() -> Docs {
        Docs { commands: BUILT_IN.lines().filter_map(CommandDoc::from_line).collect() }
    }
}

impl CommandDoc {
    fn from_line(line: &str) -> Option<CommandDoc> {
        let fields: Vec<String> = line.split('\t').map(str::to_owned).collect();
        let [name, group, since, syntax, summary] = fields.try_into().ok()?;
        Some(CommandDoc { name, group, since, syntax, summary })
    }

    fn to_line(&self) -> String {
        [&self.name, &self.group, &self.since, &self.syntax, &self.summary].map(String::as_str).join("\t")
    }
}

impl Docs {
    /// Asks the server; `None` if it has no COMMAND DOCS.
    pub fn fetch(connection: &mut Connection) -> Option<Docs> {
        let reply = connection.call(&["COMMAND", "DOCS"]).ok()?;
        let mut commands = Vec::new();
        for (name, fields) in reply.pairs() {
            add(&mut commands, &name.text().to_uppercase(), fields);
        }
        commands.sort_by(|a, b| a.name.cmp(&b.name));
        (!commands.is_empty()).then_some(Docs { commands })
    }

    /// The groups there are, sorted.
    pub fn groups(&self) -> Vec<&str> {
        let mut groups: Vec<&str> = self.commands.iter().map(|command| command.group.as_str()).collect();
        groups.sort_unstable();
        groups.dedup();
        groups
    }

    /// The command that the words begin with, and how many words its name takes.
    pub fn find(&self, words: &[Vec<u8>]) -> Option<(&CommandDoc, usize)> {
        let upper = |len: usize| {
            let words: Vec<_> = words[..len].iter().map(|word| String::from_utf8_lossy(word).to_uppercase()).collect();
            words.join(" ")
        };
        (1..=words.len().min(2)).rev().find_map(|len| {
            let name = upper(len);
            let at = self.commands.binary_search_by(|command| command.name.as_str().cmp(&name)).ok()?;
            Some((&self.commands[at], len))
        })
    }

    /// What `help` prints: in general, for `@group`, or for a command and its subcommands.
    pub fn help(&self, words: &[Vec<u8>]) -> Vec<u8> {
        let mut out = String::new();
        let asked = words.iter().map(|word| String::from_utf8_lossy(word)).collect::<Vec<_>>().join(" ");
        if asked.is_empty() {
            return GENERAL_HELP.replace("{version}", env!("CARGO_PKG_VERSION")).into_bytes();
        }
        if let Some(group) = asked.strip_prefix('@') {
            self.commands
                .iter()
                .filter(|c| c.group.eq_ignore_ascii_case(group))
                .for_each(|c| describe(&mut out, c, false));
        } else {
            let upper = asked.to_uppercase();
            let of_it =
                |name: &str| name.strip_prefix(&upper).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
            self.commands.iter().filter(|c| of_it(&c.name)).for_each(|c| describe(&mut out, c, true));
        }
        out.push_str("\r\n");
        if std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()) {
            for escape in ["\x1b[0m", "\x1b[1m", "\x1b[33m", "\x1b[90m"] {
                out = out.replace(escape, "");
            }
        }
        out.into_bytes()
    }

    /// The table that is built in.
    pub fn table(&self) -> String {
        self.commands.iter().map(|command| command.to_line() + "\n").collect()
    }
}

const GENERAL_HELP: &str = "onrush-cli {version}
Help on the server's commands:
      \"help @<group>\" lists the commands of a group
      \"help <command>\" tells about one command
      \"help <tab>\" goes through what there is help on
      \"quit\" (or Ctrl-D) leaves

On this program:
      \"connect <host> <port>\" goes to another server
      \"pipeline\" begins a batch: the lines up to \"run\" are sent together,
                 \"discard\" drops them
      \"5 incr x\" runs a command five times
      \":set hints\" and \":set nohints\" switch hints on and off;
                 lines like these in ~/.redisclirc are read at the start
";

fn describe(out: &mut String, command: &CommandDoc, with_group: bool) {
    let CommandDoc { name, group, since, syntax, summary } = command;
    let _ = write!(out, "\r\n  \x1b[1m{name}\x1b[0m \x1b[90m{syntax}\x1b[0m\r\n");
    if !summary.is_empty() {
        let _ = write!(out, "  \x1b[33msummary:\x1b[0m {summary}\r\n");
    }
    let _ = write!(out, "  \x1b[33msince:\x1b[0m {since}\r\n");
    if with_group {
        let _ = write!(out, "  \x1b[33mgroup:\x1b[0m {group}\r\n");
    }
}

fn add(commands: &mut Vec<CommandDoc>, name: &str, fields: &Reply) {
    let mut command = CommandDoc { name: name.replace('|', " "), ..CommandDoc::default() };
    for (field, value) in fields.pairs() {
        match field.bytes().unwrap_or_default() {
            b"group" => command.group = value.text(),
            b"since" => command.since = value.text(),
            b"summary" => command.summary = value.text(),
            b"arguments" => command.syntax = syntax_of(value, " "),
            b"subcommands" => {
                for (name, fields) in value.pairs() {
                    add(commands, &name.text().to_uppercase(), fields);
                }
            }
            _ => {}
        }
    }
    commands.push(command);
}

/// The arguments as one line: `key [key ...] [EX seconds|PX milliseconds]`.
fn syntax_of(arguments: &Reply, between: &str) -> String {
    let parts = arguments.items().unwrap_or_default().iter().map(argument);
    parts.collect::<Vec<_>>().join(between)
}

fn argument(argument: &Reply) -> String {
    let (mut name, mut kind, mut token, mut inner) = (String::new(), String::new(), String::new(), None);
    let mut flags: &[Reply] = &[];
    for (field, value) in argument.pairs() {
        match field.bytes().unwrap_or_default() {
            b"name" if name.is_empty() => name = value.text(),
            b"display_text" => name = value.text(),
            b"type" => kind = value.text(),
            b"token" => token = value.text(),
            b"arguments" => inner = Some(value),
            b"flags" => flags = value.items().unwrap_or_default(),
            _ => {}
        }
    }
    let has = |name: &[u8]| flags.iter().any(|flag| flag.bytes() == Some(name));
    let body = match (kind.as_str(), inner) {
        ("pure-token", _) => String::new(),
        ("oneof", Some(inner)) => syntax_of(inner, "|"),
        ("block", Some(inner)) => syntax_of(inner, " "),
        _ => name,
    };
    let spaced = if token.is_empty() || body.is_empty() { "" } else { " " };
    let mut text = format!("{token}{spaced}{body}");
    if has(b"multiple") {
        let again = if has(b"multiple_token") { text.clone() } else { body };
        text = format!("{text} [{again} ...]");
    }
    if has(b"optional") { format!("[{text}]") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_built_in_is_sorted_and_complete() {
        let docs = Docs::default();
        assert!(docs.commands.len() > 100);
        assert!(docs.commands.is_sorted_by(|a, b| a.name < b.name));
        assert_eq!(docs.table(), BUILT_IN);
        let (set, words) = docs.find(&[b"set".to_vec(), b"k".to_vec()]).unwrap();
        assert_eq!((set.name.as_str(), words), ("SET", 1));
    }

    #[test]
    fn help_finds_groups_commands_and_nothing() {
        let docs = Docs::default();
        let text = |words: &[&str]| {
            let words: Vec<Vec<u8>> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
            String::from_utf8(docs.help(&words)).unwrap()
        };
        assert!(text(&["get"]).contains("\x1b[1mGET\x1b[0m \x1b[90mkey\x1b[0m"));
        assert!(text(&["@list"]).contains("LPUSH"));
        assert_eq!(text(&["nonsense"]), "\r\n");
        assert!(text(&[]).starts_with("onrush-cli "));
    }

    #[test]
    fn arguments_read_as_in_the_manual() {
        let bulk = |text: &str| Reply::Bulk(text.into());
        let arg = |fields: Vec<(&str, Reply)>| Reply::Map(fields.into_iter().map(|(k, v)| (bulk(k), v)).collect());
        let flags = |names: &[&str]| Reply::Array(names.iter().map(|name| bulk(name)).collect());
        let key = arg(vec![("name", bulk("key")), ("type", bulk("key")), ("flags", flags(&["multiple"]))]);
        let nx = arg(vec![("name", bulk("nx")), ("type", bulk("pure-token")), ("token", bulk("NX"))]);
        let ex = arg(vec![("name", bulk("seconds")), ("type", bulk("integer")), ("token", bulk("EX"))]);
        let one = arg(vec![
            ("name", bulk("x")),
            ("type", bulk("oneof")),
            ("flags", flags(&["optional"])),
            ("arguments", Reply::Array(vec![nx, ex])),
        ]);
        assert_eq!(syntax_of(&Reply::Array(vec![key, one]), " "), "key [key ...] [NX|EX seconds]");
    }
}
