//! The command line: redis-cli's flags, read the way redis-cli reads them, and a few of our own.
//!
//! Flags come first; the first word that is not a flag starts the command. A flag without its argument is refused like
//! an unknown one.

use std::ffi::OsString;
use std::num::{IntErrorKind, ParseIntError};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgMatches, ValueEnum};
use clap_complete::Shell;

use crate::cluster::settings::Settings as ClusterSettings;
use crate::fail::Fail;
use crate::flags;
use crate::format::Output;
use crate::target::{Family, Target};

/// How many of the biggest keys `--keystats` lists by default, and at most.
const TOP: usize = 10;
const TOP_MAX: usize = 10_000;

/// The program's task.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Mode {
    /// Commands: from the command line, or, without one, from standard input.
    #[default]
    Command,
    /// Print the flags.
    Help,
    /// Print the version.
    Version,
    /// Print the man page.
    Man,
    /// Print a shell's completions.
    Completions(Shell),
    /// Mass insertion.
    Pipe,
    /// List the keys.
    Scan,
    /// The biggest keys by number of elements.
    BigKeys,
    /// The biggest keys by memory; how many elements to sample, 0 for all, `None` for the server's default.
    MemKeys(Option<i64>),
    /// Sizes of all keys; how many elements to sample, as for `MemKeys`.
    KeyStats(Option<i64>),
    /// The keys read most.
    HotKeys,
    /// A line of figures per interval.
    Stat,
    /// Round-trip times; with `history`, one line for each interval.
    Latency {
        /// One line per interval instead of one for all.
        history: bool,
    },
    /// The spectrum of round-trip times.
    LatencyDist,
    /// How long this machine keeps a busy loop from running, measured for this many seconds.
    IntrinsicLatency(u64),
    /// Copy the data set to a file ("-" for standard output).
    Rdb {
        /// Where to.
        file: PathBuf,
        /// Functions only, no keys.
        functions_only: bool,
    },
    /// Show the commands a replica receives.
    Replica,
    /// Simulates a cache with this many keys: four of five reads go to a fifth of them.
    LruTest(u64),
    /// A script from a file.
    Eval(PathBuf),
    /// The same in the server's debugger.
    Debug {
        /// The script.
        file: PathBuf,
        /// On the data itself, which it changes, while the server does nothing else.
        in_place: bool,
    },
    /// A command on a cluster.
    Cluster,
    /// The server's commands as the table built into this program.
    DocsTable,
}

/// Where `--pipe` takes its commands from.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum PipeSource {
    /// Commands ready to send.
    #[default]
    Protocol,
    /// Rows of comma-separated values.
    Csv,
    /// One JSON object or array per line.
    JsonLines,
}

/// All settings from the command line and the environment.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// What to do.
    pub mode: Mode,
    /// Where the server is and how to log in.
    pub target: Target,
    /// How replies are shown.
    pub output: Output,
    /// Between the elements of a raw reply.
    pub element_delimiter: Vec<u8>,
    /// After a raw reply.
    pub reply_delimiter: Vec<u8>,
    /// How often to send the command; negative for ever.
    pub repeat: i64,
    /// The pause between repetitions, samples or cycles.
    pub interval: Duration,
    /// Standard input is the last argument.
    pub stdin_last: bool,
    /// Standard input takes the place of this argument.
    pub stdin_tag: Option<Vec<u8>>,
    /// Arguments may be written in quotes.
    pub quoted_input: bool,
    /// Follow a cluster's redirects.
    pub cluster_mode: bool,
    /// What `--cluster` is to do.
    pub cluster: ClusterSettings,
    /// End with 1 at the first error reply.
    pub error_exit: bool,
    /// Show messages the server sends unasked.
    pub show_pushes: bool,
    /// Read the password from the terminal.
    pub ask_password: bool,
    /// How many of the biggest keys `--keystats` lists.
    pub top: usize,
    /// Where `--keystats` starts.
    pub cursor: u64,
    /// For the modes that scan keys.
    pub pattern: Option<Vec<u8>>,
    /// SCAN's COUNT.
    pub scan_count: Option<i64>,
    /// SCAN's TYPE.
    pub scan_type: Option<Vec<u8>>,
    /// How long `--pipe` waits for the last reply; zero for ever.
    pub pipe_timeout: Duration,
    /// What `--pipe` reads.
    pub pipe_source: PipeSource,
    /// The command `--pipe` makes of each record.
    pub pipe_template: Option<Vec<u8>>,
    /// The first CSV record names the columns.
    pub csv_header: bool,
    /// The command, or the script's keys and arguments.
    pub words: Vec<Vec<u8>>,
}

/// What the environment adds.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// `REDISCLI_AUTH`.
    pub password: Option<Vec<u8>>,
    /// Whether replies go to a terminal, or `FAKETTY` says so.
    pub terminal: bool,
}

impl Options {
    /// What holds if no flag says otherwise.
    fn new(environment: &Environment) -> Options {
        Options {
            target: Target { password: environment.password.clone(), ..Target::new() },
            output: if environment.terminal { Output::Standard } else { Output::Raw },
            element_delimiter: b"\n".to_vec(),
            reply_delimiter: b"\n".to_vec(),
            repeat: 1,
            cluster: ClusterSettings::new(),
            show_pushes: environment.terminal,
            top: TOP,
            pipe_timeout: Duration::from_secs(30),
            ..Options::default()
        }
    }
}

/// Reads the arguments after the program's name. Where flags exclude each other, the last one holds, as in redis-cli.
///
/// # Errors
/// With the message for the user: an unknown flag, a missing or bad argument, flags that exclude each other.
pub fn parse(args: impl IntoIterator<Item = OsString>, environment: &Environment) -> Result<Options, Fail> {
    let args: Vec<OsString> = args.into_iter().collect();
    let mut options = Options::new(environment);
    let matches = match flags::command().no_binary_name(true).try_get_matches_from(&args) {
        Ok(matches) => matches,
        // `-h` at the end without a host asks for help, as in redis-cli.
        Err(_) if args.last().is_some_and(|last| last == "-h") => {
            options.mode = Mode::Help;
            return Ok(options);
        }
        Err(error) => return Err(refusal(&error)),
    };
    let mut seen = Seen::default();
    for (flag, value) in in_order(&matches) {
        let known = match value {
            None => flag_alone(&mut options, &mut seen, flag)?,
            Some(value) => flag_with_value(&mut options, &mut seen, flag, value)?,
        };
        debug_assert!(known, "{flag} is defined and not read");
        if matches!(options.mode, Mode::Help | Mode::Version | Mode::Man | Mode::Completions(_)) {
            return Ok(options);
        }
    }
    options.cluster.words = texts(&matches, "cluster");
    options.cluster.weights = texts(&matches, "cluster-weight");
    let words = matches.get_many::<OsString>("words").unwrap_or_default();
    options.words = words.map(|word| word.clone().into_vec()).collect();
    finish(&mut options, &seen)?;
    Ok(options)
}

/// All values of a flag.
fn texts(matches: &ArgMatches, flag: &str) -> Vec<String> {
    let values = matches.get_many::<OsString>(flag).unwrap_or_default();
    values.map(|value| value.to_string_lossy().into_owned()).collect()
}

/// What is wrong, in redis-cli's words.
fn refusal(error: &clap::Error) -> Fail {
    let flag = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(flag)) => flag.split(' ').next().unwrap_or_default().to_owned(),
        _ => return Fail::new(error.to_string().trim_end()),
    };
    match error.kind() {
        ErrorKind::ValueValidation => Fail::new(error.to_string().trim_end()),
        _ => Fail::new(format!("Unrecognized option or bad number of args for: '{flag}'")),
    }
}

/// The flags given and their values, in the order of the command line.
fn in_order(matches: &ArgMatches) -> Vec<(&str, Option<Vec<u8>>)> {
    let mut given = Vec::new();
    for id in matches.ids().map(|id| id.as_str()) {
        if id == "words" || matches.value_source(id) != Some(ValueSource::CommandLine) {
            continue;
        }
        let index = matches.indices_of(id).and_then(|mut indices| indices.next_back()).unwrap_or(0);
        let value = match matches.try_get_one::<OsString>(id) {
            Ok(value) => Some(value.cloned().unwrap_or_default().into_vec()),
            Err(_) => matches.try_get_one::<Shell>(id).ok().flatten().map(|shell| shell.to_string().into_bytes()),
        };
        given.push((index, id, value));
    }
    given.sort_unstable_by_key(|(index, ..)| *index);
    given.into_iter().map(|(_, id, value)| (id, value)).collect()
}

/// State that is needed until all flags are read.
#[derive(Default)]
struct Seen {
    socket: bool,
    password_shown: bool,
    no_auth_warning: bool,
    ldb: bool,
    ldb_in_place: bool,
    json: bool,
    protocol: bool,
    mem_samples: Option<i64>,
}

fn finish(options: &mut Options, seen: &Seen) -> Result<(), Fail> {
    if options.cluster_mode && seen.socket {
        return Err(Fail::new("Options -c and -s are mutually exclusive."));
    }
    if seen.ldb {
        let Mode::Eval(file) = &options.mode else {
            return Err(Fail::new("Options --ldb and --ldb-sync-mode require --eval.\nTry onrush-cli --help."));
        };
        options.mode = Mode::Debug { file: file.clone(), in_place: seen.ldb_in_place };
    }
    if options.stdin_last && options.stdin_tag.is_some() {
        return Err(Fail::new("Options -x and -X are mutually exclusive."));
    }
    if seen.json && !seen.protocol {
        options.target.resp3 = true;
        options.target.resp3_optional = true;
    }
    if seen.password_shown && !seen.no_auth_warning {
        complain!("Warning: Using a password with '-a' or '-u' option on the command line interface may not be safe.");
    }
    let from_records = options.pipe_source != PipeSource::Protocol;
    if options.mode == Mode::Pipe && from_records != options.pipe_template.is_some() {
        return Err(Fail::new("--from csv|jsonl and --template 'COMMAND {field} …' belong together."));
    }
    if options.mode != Mode::Pipe && (from_records || options.pipe_template.is_some()) {
        return Err(Fail::new("--from and --template need --pipe."));
    }
    Ok(())
}

fn flag_alone(options: &mut Options, seen: &mut Seen, flag: &str) -> Result<bool, Fail> {
    match flag {
        "help" => options.mode = Mode::Help,
        "version" => options.mode = Mode::Version,
        "x" => options.stdin_last = true,
        "e" => options.error_exit = true,
        "c" => options.cluster_mode = true,
        "2" | "3" => (options.target.resp3, seen.protocol) = (flag == "3", true),
        "askpass" => options.ask_password = true,
        "no-auth-warning" => seen.no_auth_warning = true,
        "raw" => options.output = Output::Raw,
        "no-raw" => options.output = Output::Standard,
        "csv" => options.output = Output::Csv,
        "json" | "quoted-json" => {
            options.output = if flag == "json" { Output::Json } else { Output::QuotedJson };
            seen.json = true;
        }
        "quoted-input" => options.quoted_input = true,
        "verbose" => options.target.verbose = true,
        "scan" => options.mode = Mode::Scan,
        "pipe" => options.mode = Mode::Pipe,
        "csv-header" => options.csv_header = true,
        "bigkeys" => options.mode = Mode::BigKeys,
        "memkeys" => options.mode = Mode::MemKeys(seen.mem_samples),
        "hotkeys" => options.mode = Mode::HotKeys,
        "keystats" => options.mode = Mode::KeyStats(seen.mem_samples),
        "man" => options.mode = Mode::Man,
        "stat" => options.mode = Mode::Stat,
        "latency" => options.mode = Mode::Latency { history: false },
        "latency-history" => options.mode = Mode::Latency { history: true },
        "latency-dist" => options.mode = Mode::LatencyDist,
        "replica" => options.mode = Mode::Replica,
        "docs-table" => options.mode = Mode::DocsTable,
        "ldb" => seen.ldb = true,
        "ldb-sync-mode" => (seen.ldb, seen.ldb_in_place) = (true, true),
        "4" => options.target.only = Some(Family::V4),
        "6" => options.target.only = Some(Family::V6),
        "tls" => options.target.use_tls()?,
        "insecure" => options.target.tls_options.insecure = true,
        _ => return Ok(options.cluster.take_flag(flag)),
    }
    Ok(true)
}

fn flag_with_value(options: &mut Options, seen: &mut Seen, flag: &str, value: Vec<u8>) -> Result<bool, Fail> {
    let target = &mut options.target;
    match flag {
        "cluster" => options.mode = Mode::Cluster,
        // All of its values are taken when all flags are known.
        "cluster-weight" => {}
        "h" => target.host = text(value),
        "p" => {
            let port: i64 = leading_number(&value);
            target.port = u16::try_from(port).map_err(|_| Fail::new("Invalid server port."))?;
        }
        "s" => {
            target.socket = Some(path(value));
            seen.socket = true;
        }
        "t" => target.connect_timeout = Some(seconds(&value, "-t")?),
        "n" => target.db = leading_number(&value),
        "pass" => {
            target.password = Some(value);
            seen.password_shown = true;
        }
        "user" => target.user = Some(value),
        "u" => seen.password_shown |= target.set_url(&text(value))?,
        "sni" => target.tls_options.sni = Some(text(value)),
        "cacert" => target.tls_options.ca_file = Some(path(value)),
        "cacertdir" => target.tls_options.ca_folder = Some(path(value)),
        "cert" => target.tls_options.cert_file = Some(path(value)),
        "key" => target.tls_options.key_file = Some(path(value)),
        "tls-ciphers" | "tls-ciphersuites" => {
            let names = text(value);
            let names = names.split([':', ',', ' ']).filter(|name| !name.is_empty()).map(str::to_owned);
            target.tls_options.ciphers.extend(names);
        }
        "r" => options.repeat = leading_number(&value),
        "i" => options.interval = seconds(&value, "-i")?,
        "X" => options.stdin_tag = Some(value),
        "d" => options.element_delimiter = value,
        "D" => options.reply_delimiter = value,
        "show-pushes" => {
            options.show_pushes = match value.first() {
                Some(b'y' | b'Y') => true,
                Some(b'n' | b'N') => false,
                _ => {
                    let value = text(value);
                    return Err(Fail::new(format!("Unknown --show-pushes value '{value}' (valid: '[y]es', '[n]o')")));
                }
            }
        }
        "pattern" => options.pattern = Some(value),
        "quoted-pattern" => {
            let pattern = onrush_resp::unquoted(&value);
            options.pattern =
                Some(pattern.ok_or_else(|| Fail::new("Invalid quoted string specified for --quoted-pattern."))?);
        }
        "count" => options.scan_count = Some(leading_number(&value)),
        "type" => options.scan_type = Some(value),
        "memkeys-samples" | "keystats-samples" => {
            let samples = leading_number(&value);
            if samples < 0 {
                return Err(Fail::new(format!("--{flag} value should be positive.")));
            }
            let mode = if flag == "memkeys-samples" { Mode::MemKeys } else { Mode::KeyStats };
            options.mode = mode(Some(samples));
            seen.mem_samples = Some(samples);
        }
        "top" => {
            let top = usize::try_from(leading_number(&value)).ok().filter(|top| (1..=TOP_MAX).contains(top));
            options.top = top.ok_or_else(|| Fail::new(format!("--top wants a number from 1 to {TOP_MAX}.")))?;
        }
        "cursor" => options.cursor = leading_number(&value).max(0).unsigned_abs(),
        "completions" => options.mode = Mode::Completions(Shell::from_str(&text(value), true).map_err(Fail::new)?),
        "intrinsic-latency" => options.mode = Mode::IntrinsicLatency(leading_number(&value).max(0).unsigned_abs()),
        "rdb" => options.mode = Mode::Rdb { file: path(value), functions_only: false },
        "functions-rdb" => options.mode = Mode::Rdb { file: path(value), functions_only: true },
        "lru-test" => options.mode = Mode::LruTest(leading_number(&value).max(1).unsigned_abs()),
        "eval" => options.mode = Mode::Eval(path(value)),
        "pipe-timeout" => options.pipe_timeout = seconds(&value, "--pipe-timeout")?,
        "from" => {
            options.pipe_source = match value.as_slice() {
                b"csv" => PipeSource::Csv,
                b"jsonl" => PipeSource::JsonLines,
                _ => return Err(Fail::new(format!("--from knows csv and jsonl, not '{}'.", text(value)))),
            }
        }
        "template" => options.pipe_template = Some(value),
        _ => return options.cluster.take(flag, &value),
    }
    Ok(true)
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}

fn path(bytes: Vec<u8>) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes))
}

/// The number a text starts with, as C's `strtoll`: 0 when it starts with none, the nearest one there is when it is too
/// great or too small.
pub fn leading_number(bytes: &[u8]) -> i64 {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim_start();
    let sign_len = usize::from(text.starts_with(['-', '+']));
    let digits_end = text[sign_len..].find(|c: char| !c.is_ascii_digit()).map_or(text.len(), |at| at + sign_len);
    text[..digits_end].parse().unwrap_or_else(|error: ParseIntError| match error.kind() {
        IntErrorKind::PosOverflow => i64::MAX,
        IntErrorKind::NegOverflow => i64::MIN,
        _ => 0,
    })
}

fn seconds(value: &[u8], flag: &str) -> Result<Duration, Fail> {
    let parsed = std::str::from_utf8(value).ok().and_then(|value| value.parse::<f64>().ok());
    let valid = parsed.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    valid.ok_or_else(|| {
        Fail::new(format!("{flag} wants a number of seconds, not '{}'.", String::from_utf8_lossy(value)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_words(words: &[&str]) -> Result<Options, Fail> {
        parse(words.iter().map(OsString::from), &Environment::default())
    }

    #[test]
    fn the_first_word_that_is_no_flag_starts_the_command() {
        let options = parse_words(&["-p", "7000", "-n", "3", "-r", "-1", "set", "-p", "1"]).unwrap();
        assert_eq!((options.target.port, options.target.db, options.repeat), (7000, 3, -1));
        assert_eq!(options.words, [b"set".to_vec(), b"-p".to_vec(), b"1".to_vec()]);
    }

    #[test]
    fn a_flag_unknown_or_without_its_argument_is_refused() {
        for words in [&["--foo"][..], &["-p"], &["--rdb"], &["--show-pushes", "foo"], &["-p", "99999"]] {
            assert!(parse_words(words).is_err(), "{words:?}");
        }
        assert_eq!(parse_words(&["-h"]).unwrap().mode, Mode::Help);
    }

    #[test]
    fn values_may_look_like_flags_and_the_last_flag_holds() {
        let options =
            parse_words(&["-a", "-secret", "-d", "--", "--scan", "-r", "-1", "--bigkeys", "-p", "1", "-p", "2"]);
        let options = options.unwrap();
        assert_eq!(options.target.password.as_deref(), Some(&b"-secret"[..]));
        assert_eq!((options.element_delimiter, options.repeat), (b"--".to_vec(), -1));
        assert_eq!((options.mode, options.target.port), (Mode::BigKeys, 2));
        let options = parse_words(&["--bigkeys", "--scan"]).unwrap();
        assert_eq!(options.mode, Mode::Scan);
    }

    #[test]
    fn words_may_be_anything_once_the_command_has_begun() {
        let words = |words: &[&str]| parse_words(words).unwrap().words;
        assert_eq!(
            words(&["-x", "set", "--help", "-h", "--", "-1"]),
            ["set", "--help", "-h", "--", "-1"].map(Vec::from)
        );
        assert_eq!(words(&["", "a"]), ["", "a"].map(Vec::from));
        let bytes = [OsString::from_vec(b"a\xff".to_vec())];
        assert_eq!(parse(bytes, &Environment::default()).unwrap().words, [b"a\xff".to_vec()]);
    }

    #[test]
    fn a_command_on_a_cluster_takes_all_words_up_to_the_next_flag() {
        let options = parse_words(&["-a", "p", "--cluster", "call", "h:1", "get", "k", "--cluster-only-masters"]);
        let options = options.unwrap();
        assert_eq!((options.mode, options.cluster.words.len()), (Mode::Cluster, 4));
        assert!(options.cluster.only_primaries && options.target.password.is_some());
        let options = parse_words(&["--cluster", "rebalance", "h:1", "--cluster-weight", "a=1", "b=2", "-p", "3"]);
        let options = options.unwrap();
        assert_eq!((options.cluster.weights, options.target.port), (vec!["a=1".to_owned(), "b=2".to_owned()], 3));
        for words in [&["--cluster"][..], &["--cluster", "info", "-p"], &["--cluster", "check", "h:1", "--foo"]] {
            assert!(parse_words(words).is_err(), "{words:?}");
        }
    }

    #[test]
    fn json_speaks_resp3_unless_told_otherwise() {
        assert!(parse_words(&["--json"]).unwrap().target.resp3);
        assert!(!parse_words(&["--json", "-2"]).unwrap().target.resp3);
        assert!(!parse_words(&["-2", "--json"]).unwrap().target.resp3);
    }

    #[test]
    fn a_template_and_its_source_belong_together() {
        assert!(parse_words(&["--pipe", "--from", "csv"]).is_err());
        assert!(parse_words(&["--pipe", "--template", "SET {0} {1}"]).is_err());
        assert!(parse_words(&["--from", "csv", "--template", "x"]).is_err());
        assert!(parse_words(&["--pipe", "--from", "csv", "--template", "x"]).is_ok());
    }

    #[test]
    fn numbers_are_read_as_far_as_they_go() {
        for (text, number) in [("12", 12), ("-3x", -3), ("x", 0), ("", 0), (" 7", 7)] {
            assert_eq!(leading_number(text.as_bytes()), number);
        }
    }

    #[test]
    fn a_number_beyond_all_is_the_nearest_there_is() {
        let (great, small) = ("99999999999999999999", "-99999999999999999999");
        assert_eq!(leading_number(format!(" {great}x").as_bytes()), i64::MAX);
        assert_eq!(leading_number(small.as_bytes()), i64::MIN);
        let options = parse_words(&["-n", great, "-r", great, "--count", great]).unwrap();
        assert_eq!((options.target.db, options.repeat, options.scan_count), (i64::MAX, i64::MAX, Some(i64::MAX)));
        for port in [great, small, "65536"] {
            assert_eq!(parse_words(&["-p", port]).unwrap_err().to_string(), "Invalid server port.");
        }
        assert!(parse_words(&["--top", great]).is_err());
    }
}
