//! The command line: `onrush-server [file] [--name value …] [-]`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use onrush_resp::split_words;

/// What the command line asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Invocation {
    /// Serve.
    Serve(CommandLine),
    /// Print [`version`].
    Version,
    /// Print [`usage`].
    Help,
    /// Something that redis-server does and this program does not: print why it ends.
    NotDone(&'static str),
}

const NO_SENTINEL: &str = "Sentinel mode is not supported: onrush-server watches no other servers";
const NO_MEMORY_TEST: &str = "There is no test of the memory: use a program for that, such as memtester";
const NO_SYSTEM_CHECK: &str = "There is no check of the system: the server forks no process, so neither overcommit_memory nor \
transparent huge pages stop it from saving its data";

/// Where the configuration comes from: the file, then standard input, then the options, later ones over earlier ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandLine {
    /// The configuration file.
    pub file: Option<PathBuf>,
    /// Whether to read more of it from standard input.
    pub stdin: bool,
    /// The options: each a directive's name without the dashes, and its words.
    pub options: Vec<Vec<Vec<u8>>>,
}

/// Reads the arguments after the program's name.
///
/// The first one is the configuration file unless it begins with a dash. `-` as the first or the last one stands for
/// standard input. `--name` begins an option, and what follows up to the next one is its value; right after `--name`
/// even a word with dashes is a value (`--requirepass --x`), but `--save` may go without one.
pub fn parse_arguments(arguments: impl IntoIterator<Item = OsString>) -> Invocation {
    let mut words: Vec<Vec<u8>> = arguments.into_iter().map(OsString::into_vec).collect();
    if words.iter().any(|word| word == b"--sentinel") {
        return Invocation::NotDone(NO_SENTINEL);
    }
    match words.first().map(Vec::as_slice) {
        Some(b"-v" | b"--version") => return Invocation::Version,
        Some(b"-h" | b"--help") => return Invocation::Help,
        Some(b"--test-memory") => return Invocation::NotDone(NO_MEMORY_TEST),
        Some(b"--check-system") => return Invocation::NotDone(NO_SYSTEM_CHECK),
        _ => {}
    }
    let mut command_line = CommandLine::default();
    if words.last().is_some_and(|word| word == b"-") {
        command_line.stdin = true;
        words.pop();
    }
    let mut words = words.into_iter().peekable();
    match words.peek().map(Vec::as_slice) {
        Some(b"-") => {
            command_line.stdin = true;
            words.next();
        }
        Some([b'-', ..]) | None => {}
        Some(_) => {
            command_line.file = words.next().filter(|word| !word.is_empty()).map(|word| OsString::from_vec(word).into())
        }
    }
    for word in words {
        add_word(&mut command_line.options, word);
    }
    command_line.options.retain(|option| !option.is_empty());
    Invocation::Serve(command_line)
}

fn add_word(options: &mut Vec<Vec<Vec<u8>>>, word: Vec<u8>) {
    let wants_value = |option: &Vec<Vec<u8>>| option.len() == 1 && !option[0].eq_ignore_ascii_case(b"save");
    match (word.strip_prefix(b"--"), options.last_mut()) {
        (Some(_), Some(option)) if wants_value(option) => option.push(word),
        // A name with spaces is a whole line, as in `"--port 7777"`.
        (Some(name), _) => options.push(split_words(name).unwrap_or_else(|| vec![name.to_vec()])),
        (None, Some(option)) => option.push(word),
        (None, None) => options.push(vec![word]),
    }
}

/// What `--version` prints: redis-server's line, in which programs look for the version of Redis, then our own.
pub fn version() -> String {
    format!(
        "Redis server v={} sha=00000000:0 malloc={} bits={} build=onrush-{}",
        onrush_resp::REDIS_VERSION,
        onrush_alloc::name(),
        usize::BITS,
        env!("CARGO_PKG_VERSION")
    )
}

/// What `--help` prints.
pub fn usage() -> &'static str {
    "\
Usage: onrush-server [config-file] [--directive value ...] [-]

  config-file          a file in the format of redis.conf
  --directive value    any directive of such a file; it overrides the file
  -                    read more directives from standard input
  -v, --version        print the version
  -h, --help           print this

Examples:
  onrush-server
  onrush-server /etc/onrush.conf --loglevel verbose
  onrush-server --port 7777 --maxmemory 2gb --maxmemory-policy allkeys-lru
  onrush-server --save \"\" --bind 127.0.0.1 -::1
  echo 'maxmemory 128mb' | onrush-server -
"
}

#[cfg(test)]
mod tests {
    use onrush_resp::quoted_if_needed;

    use super::*;

    fn parse(arguments: &[&str]) -> CommandLine {
        match parse_arguments(arguments.iter().map(OsString::from)) {
            Invocation::Serve(command_line) => command_line,
            other => panic!("{other:?}"),
        }
    }

    fn options(arguments: &[&str]) -> Vec<String> {
        let text =
            |option: &Vec<Vec<u8>>| option.iter().map(|word| quoted_if_needed(word)).collect::<Vec<_>>().join(" ");
        parse(arguments).options.iter().map(text).collect()
    }

    #[test]
    fn values_go_on_until_the_next_option() {
        assert_eq!(
            options(&["--port", "7", "--bind", "127.0.0.1", "-::1", "--save", "900", "1"]),
            ["port 7", "bind 127.0.0.1 -::1", "save 900 1"]
        );
        assert_eq!(options(&["--hz 20", "--save", ""]), ["hz 20", "save \"\""]);
    }

    #[test]
    fn a_value_may_begin_with_dashes() {
        assert_eq!(options(&["--requirepass", "--x", "--hz", "5"]), ["requirepass --x", "hz 5"]);
    }

    #[test]
    fn save_needs_no_value() {
        assert_eq!(options(&["--save", "--hz", "5"]), ["save", "hz 5"]);
        assert_eq!(options(&["--save"]), ["save"]);
    }

    #[test]
    fn the_first_argument_without_a_dash_is_the_file() {
        let command_line = parse(&["/etc/x.conf", "--hz", "5"]);
        assert_eq!(command_line.file, Some("/etc/x.conf".into()));
        assert_eq!(command_line.options.len(), 1);
        assert_eq!(parse(&["", "--hz", "5"]).file, None);
        assert_eq!(options(&["-x"]), ["-x"]);
        assert_eq!(options(&["--"]), [""; 0]);
    }

    #[test]
    fn a_dash_at_either_end_is_standard_input() {
        for arguments in [&["-"][..], &["-", "--hz", "5"], &["--hz", "5", "-"], &["a.conf", "-"]] {
            assert!(parse(arguments).stdin, "{arguments:?}");
        }
        assert_eq!(parse(&["a.conf", "-"]).file, Some("a.conf".into()));
    }

    #[test]
    fn version_and_help_come_first() {
        assert_eq!(parse_arguments(["-v".into()]), Invocation::Version);
        assert_eq!(parse_arguments(["--help".into(), "x".into()]), Invocation::Help);
    }

    #[test]
    fn what_only_redis_server_does_is_told() {
        for arguments in [&["--sentinel"][..], &["a.conf", "--sentinel"], &["--test-memory", "1"], &["--check-system"]]
        {
            let invocation = parse_arguments(arguments.iter().map(OsString::from));
            assert!(matches!(invocation, Invocation::NotDone(_)), "{arguments:?}");
        }
    }
}
