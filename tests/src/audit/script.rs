//! Scenarios: scripts that build a shape of data by size and measure commands on it.
//!
//! A line is a verb and what it applies to; `>` in front measures it, `?` allows it to fail:
//!
//! - `once CMD`, `x100 CMD`: the command that many times; `each CMD` as often as the size says;
//! - `all CMD | GROUP | TAIL`: one command, its group repeated as often as the size says;
//! - `fill CMD | GROUP`: the same in commands of 500 groups;
//! - `order CMD`: remembers the items of the reply for `{o}`;
//! - `connect CMD`: a connection for each of the size, each gets a reply; `clients CMD`: the same, and each waits;
//! - `raw BYTES`: the same, each sends bytes (`\r\n` spelled out) and gets no reply;
//! - `wake`: reads a reply from each of these connections; `vanish`: closes them all;
//! - `gone`: waits until the database is empty; `rest`: 200 ms of nothing.
//!
//! `each/10` (also `all`, `fill`, `clients`, `connect`, `raw`) takes a tenth of the size. `;` separates commands that
//! belong together. [`Template`] says what placeholders there are.

use super::template::Template;

/// A scenario as data.
pub struct Scenario {
    /// Its name, unique.
    pub name: &'static str,
    /// Its script.
    pub script: &'static str,
    /// Arguments of both servers.
    pub args: &'static [&'static str],
    /// The largest size it is run at.
    pub size_max: usize,
}

impl Scenario {
    /// A scenario that runs at all sizes.
    pub const fn new(name: &'static str, script: &'static str) -> Scenario {
        Scenario { name, script, args: &[], size_max: 1_000_000 }
    }

    /// Bounds the size, for costs that are quadratic by nature and for connections, whose number is limited.
    pub const fn up_to(self, size_max: usize) -> Scenario {
        Scenario { size_max, ..self }
    }

    /// Adds arguments of the servers.
    pub const fn with(self, args: &'static [&'static str]) -> Scenario {
        Scenario { args, ..self }
    }

    /// The lines of the script. Panics if one is malformed.
    pub fn lines(&self) -> Vec<Line> {
        let lines = self.script.lines().map(str::trim).filter(|line| !line.is_empty());
        lines.map(Line::parse).collect()
    }
}

/// How often something happens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Times {
    /// That many times at every size.
    Fixed(usize),
    /// The size divided by this.
    SizeBy(usize),
}

impl Times {
    /// The number at size `n`, at least 1.
    pub fn at(self, n: usize) -> usize {
        match self {
            Times::Fixed(times) => times,
            Times::SizeBy(divisor) => (n / divisor).max(1),
        }
    }
}

/// What a line does.
#[derive(Clone, Debug)]
pub enum Act {
    /// Sends commands in batches and reads their replies.
    Send {
        /// The commands of one repetition.
        commands: Vec<Template>,
        /// How often they are repeated.
        times: Times,
        /// How many groups they have in all.
        groups: Times,
        /// How many groups one command takes.
        groups_per_command: usize,
    },
    /// Remembers the items of a reply.
    Order(Template),
    /// Opens connections that each send a command.
    Connect {
        /// The command.
        command: Template,
        /// How many connections.
        times: Times,
        /// Whether they wait instead of getting a reply.
        waits: bool,
    },
    /// Opens connections that each send these bytes.
    Raw(Vec<u8>, Times),
    /// Reads a reply from each of the connections.
    Wake,
    /// Closes the connections.
    Vanish,
    /// Waits until the database is empty.
    Gone,
    /// Waits a moment.
    Rest,
}

/// A line of a script.
#[derive(Clone, Debug)]
pub struct Line {
    /// The line without its marks: the name of what is measured.
    pub text: &'static str,
    /// Whether it is measured.
    pub measured: bool,
    /// Whether its commands may answer with errors.
    pub may_fail: bool,
    /// What it does.
    pub act: Act,
}

impl Line {
    /// Reads a line. Panics if it is malformed.
    pub fn parse(line: &'static str) -> Line {
        let (measured, rest) = line.strip_prefix('>').map_or((false, line), |rest| (true, rest.trim_start()));
        let (may_fail, text) = rest.strip_prefix('?').map_or((false, rest), |rest| (true, rest.trim_start()));
        let (verb, rest) = text.split_once(' ').unwrap_or((text, ""));
        Line { text, measured, may_fail, act: act(verb, rest) }
    }

    /// The commands the line sends, in lower case; containers with their subcommand, as `config|get`.
    pub fn command_names(&self) -> Vec<String> {
        let Some((_, rest)) = self.text.split_once(' ') else {
            return Vec::new();
        };
        if !matches!(self.act, Act::Send { .. } | Act::Order(_) | Act::Connect { .. }) {
            return Vec::new();
        }
        let names = |command: &str| {
            let mut words = command.split_whitespace().map(str::to_lowercase);
            let name = words.next().unwrap_or_default();
            let sub = words.next().map(|sub| format!("{name}|{sub}"));
            std::iter::once(name).chain(sub).collect::<Vec<_>>()
        };
        rest.split(" ; ").flat_map(names).collect()
    }
}

fn act(verb: &'static str, rest: &'static str) -> Act {
    let (verb, divisor) = match verb.split_once('/') {
        Some((verb, divisor)) => (verb, divisor.parse().expect("a divisor")),
        None => (verb, 1),
    };
    let by_size = Times::SizeBy(divisor);
    let commands = || rest.split(" ; ").map(Template::parse).collect();
    let send =
        |times, groups, groups_per_command| Act::Send { commands: commands(), times, groups, groups_per_command };
    match verb {
        "once" => send(Times::Fixed(1), Times::Fixed(0), 0),
        "each" => send(by_size, Times::Fixed(0), 0),
        "all" => send(Times::Fixed(1), by_size, usize::MAX),
        "fill" => send(Times::Fixed(1), by_size, 500),
        "order" => Act::Order(Template::parse(rest)),
        "connect" => Act::Connect { command: Template::parse(rest), times: by_size, waits: false },
        "clients" => Act::Connect { command: Template::parse(rest), times: by_size, waits: true },
        "raw" => Act::Raw(rest.replace("\\r\\n", "\r\n").into_bytes(), by_size),
        "wake" => Act::Wake,
        "vanish" => Act::Vanish,
        "gone" => Act::Gone,
        "rest" => Act::Rest,
        _ => match verb.strip_prefix('x').and_then(|times| times.parse().ok()) {
            Some(times) => send(Times::Fixed(times), Times::Fixed(0), 0),
            None => panic!("no verb '{verb}'"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_say_what_they_cover() {
        let line = Line::parse(">? x100 CONFIG GET port ; GET k");
        assert!(line.measured && line.may_fail);
        assert_eq!(line.command_names(), ["config", "config|get", "get", "get|k"]);
        assert!(Line::parse("vanish").command_names().is_empty());
    }

    #[test]
    fn repetitions_follow_the_size() {
        let Act::Send { times, groups, groups_per_command, .. } = Line::parse("fill/10 SADD s | m:{i}").act else {
            panic!("it sends");
        };
        assert_eq!((times.at(1000), groups.at(1000), groups_per_command), (1, 100, 500));
    }
}
