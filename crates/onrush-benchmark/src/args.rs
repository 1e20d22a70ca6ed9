//! The command line: redis-benchmark's flags, and this tool's own. Help, man page and completions come from this one definition.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgAction, CommandFactory, Parser};

use crate::load::items::Items;
use crate::load::random::KeyPatterns;
use crate::net::target::Target;
use crate::net::tls::{Tls, TlsOptions};
use crate::options::{Arrivals, Files, Options, Sweep, SweptValue};
use crate::values::{Bounds, DATA_LEN_MAX, Mix, data_range, mix, rate, sweep, time, ttl};
use crate::{out, shown};

const THREADS_MAX: usize = 500;
const ROUNDS_MAX: usize = 1_000;
const PRECISION_MAX: usize = 6;

const DIFFERENCES: &str = "\
What differs from redis-benchmark:
  A command's latency ends with its own reply, not with the last one of its batch. Latencies have three significant digits, to one
  hour. A name that -t does not know is an error. -e is accepted and does nothing: an error reply is always shown and ends the run.
  --warmup, --rate and the like are not in redis-benchmark.
What differs from memtier_benchmark:
  -n counts the commands of all connections together, -c the connections of all threads together. A mix is any of the tests by
  weight (--mix set=1,get=10 for --ratio 1:10). --key-pattern takes patterns for all commands or for some. There is no
  memcached protocol. --data-import reads the columns key and data; --data-verify compares the replies to get.
What differs from wrk2:
  The commands of --rate are at equal distances over all connections; --arrivals poisson offers them at random. A command that is
  due while the server stalls is sent late and its latency counts from when it was due, as in wrk2. At the end of --duration what
  was due and could not be sent is counted and told. There are no scripts: a command line with __rand_int__, __data__ and __ttl__
  takes their place.";

/// Load for Redis-compatible servers.
#[derive(Debug, Parser)]
#[command(
    name = "onrush-benchmark",
    version,
    about = "Measures a Redis-compatible server under load, with redis-benchmark's flags and formats",
    after_help = DIFFERENCES,
    override_usage = "onrush-benchmark [OPTIONS] [COMMAND ARGS...]",
    disable_help_flag = true,
    disable_version_flag = true,
    args_override_self = true,
    next_help_heading = "As redis-benchmark",
    max_term_width = 132
)]
struct Args {
    /// Host of the server (127.0.0.1)
    #[arg(short = 'h', value_name = "hostname", allow_hyphen_values = true)]
    host: Option<String>,
    /// Its port (6379)
    #[arg(short = 'p', value_name = "port")]
    port: Option<u16>,
    /// Its Unix socket, in place of host and port
    #[arg(short = 's', value_name = "socket")]
    socket: Option<PathBuf>,
    /// Password to log in with
    #[arg(short = 'a', value_name = "password", allow_hyphen_values = true)]
    password: Option<String>,
    /// User to log in as, with -a
    #[arg(long, value_name = "username", allow_hyphen_values = true)]
    user: Option<String>,
    /// All of these as redis://user:password@host:port/db
    #[arg(short = 'u', value_name = "uri")]
    uri: Option<String>,
    /// Connections
    #[arg(short = 'c', value_name = "clients", default_value_t = 50)]
    clients: usize,
    /// Commands of each test
    #[arg(short = 'n', value_name = "requests", default_value_t = 100_000)]
    requests: u64,
    /// Bytes of SET's and GET's values
    #[arg(short = 'd', value_name = "size", default_value_t = 3)]
    data_len: usize,
    /// Database
    #[arg(long = "dbnum", value_name = "db")]
    db: Option<u32>,
    /// RESP3
    #[arg(short = '3')]
    resp3: bool,
    /// Threads (1; with --cluster one for each master)
    #[arg(long, value_name = "num")]
    threads: Option<usize>,
    /// The server is a node of a cluster: shares the load among its masters; {tag} in a key becomes a tag of the node
    #[arg(long)]
    cluster: bool,
    /// CLIENT TRACKING ON first
    #[arg(long = "enable-tracking")]
    tracking: bool,
    /// 1 keeps connections, 0 makes a new one for each batch
    #[arg(short = 'k', value_name = "boolean", default_value_t = 1)]
    keep_alive: u64,
    /// Random keys, members and scores: __rand_int__ in an argument becomes a number of 12 digits below keyspacelen
    #[arg(short = 'r', value_name = "keyspacelen")]
    keyspace: Option<u64>,
    /// Commands sent in one batch (1)
    #[arg(short = 'P', value_name = "numreq")]
    pipeline: Option<usize>,
    /// One line for each test
    #[arg(short = 'q')]
    quiet: bool,
    /// Decimals of latencies
    #[arg(long, value_name = "n", default_value_t = 3)]
    precision: usize,
    /// CSV on standard output
    #[arg(long)]
    csv: bool,
    /// The tests again and again
    #[arg(short = 'l')]
    endless: bool,
    /// Only these tests, separated by commas
    #[arg(short = 't', value_name = "tests")]
    tests: Option<String>,
    /// Only opens the connections and holds them
    #[arg(short = 'I')]
    idle: bool,
    /// Takes the last argument from standard input
    #[arg(short = 'x')]
    stdin_last: bool,
    /// Seed of the random numbers
    #[arg(long, value_name = "num", default_value_t = 0)]
    seed: u64,
    /// Accepted; errors are always shown, and end the run
    #[arg(short = 'e')]
    shows_errors: bool,
    /// Encrypts
    #[arg(long)]
    tls: bool,
    #[command(flatten)]
    tls_options: TlsOptions,
    /// Shows this text
    #[arg(long, action = ArgAction::HelpShort)]
    help: Option<bool>,
    /// Shows the version
    #[arg(short = 'v', long, action = ArgAction::Version)]
    version: Option<bool>,

    /// Open loop: so many commands a second over all connections; latency counts from when each was due, sent or not
    #[arg(long, value_name = "n", help_heading = "Load", value_parser = rate)]
    rate: Option<f64>,
    /// How the commands of --rate follow each other
    #[arg(long, help_heading = "Load", value_enum, default_value_t, requires = "rate")]
    arrivals: Arrivals,
    /// So many commands in flight on each connection, refilled as replies come, in place of batches
    #[arg(long, value_name = "n", help_heading = "Load")]
    window: Option<usize>,
    /// Measures only after that time; its commands are not among those of -n. Times are 500ms, 2s, 1m 30s
    #[arg(long, value_name = "time", help_heading = "Load", value_parser = time)]
    warmup: Option<Duration>,
    /// Measures for that time, in place of -n
    #[arg(long, value_name = "time", help_heading = "Load", value_parser = time)]
    duration: Option<Duration>,
    /// Makes a broken connection again, for up to that time, and goes on; counts these and the replies that were lost
    #[arg(long, value_name = "time", help_heading = "Load", value_parser = time)]
    reconnect: Option<Duration>,
    /// Emulates a round trip of that time by a proxy in this tool
    #[arg(long, value_name = "time", help_heading = "Load", value_parser = time)]
    rtt: Option<Duration>,
    /// How the keys of -r are drawn: uniform, zipf, zipf:EXPONENT (0.99), gaussian, gaussian:MEAN:DEVIATION, sequential; for some
    /// commands otherwise: set=sequential,get=zipf
    #[arg(long = "key-pattern", value_name = "pattern", help_heading = "Load")]
    keys: Option<KeyPatterns>,
    /// Keys and values for the tests set and get, and mixes of them, from a CSV file whose first line names the columns key and
    /// data; in the order of the file, or as --key-pattern says
    #[arg(long = "data-import", value_name = "file", help_heading = "Load", conflicts_with_all = ["keyspace", "data_len", "data_range", "random_data", "ttl", "cluster", "command"])]
    data_import: Option<PathBuf>,
    /// Compares the replies to get with the values of --data-import; any other reply makes the exit status 1
    #[arg(long = "data-verify", help_heading = "Load", requires = "data_import")]
    data_verify: bool,
    /// Values are random bytes, others each time, which do not compress
    #[arg(long = "random-data", help_heading = "Load")]
    random_data: bool,
    /// Values of random length, in place of -d
    #[arg(long = "data-range", value_name = "min-max", help_heading = "Load", value_parser = data_range)]
    data_range: Option<Bounds<usize>>,
    /// SET gives keys a time to live, of that time or at random between two (10s-60s); so does __ttl__ (milliseconds) in a command
    #[arg(long, value_name = "time[-time]", help_heading = "Load", value_parser = ttl)]
    ttl: Option<Bounds<Duration>>,
    /// Mixes tests into one, each with its weight, as set=1,get=10
    #[arg(long, value_name = "test=n,...", help_heading = "Load", value_parser = mix, conflicts_with_all = ["tests", "command"])]
    mix: Option<Mix>,

    /// Repeats a test over values: depth=1,2,4,8 or clients=, size=, rtt=, window=, rate=
    #[arg(long, value_name = "what=values", help_heading = "Comparing", value_parser = sweep)]
    sweep: Option<Sweep>,
    /// Measures a second server in turns with the first
    #[arg(long, value_name = "host:port", help_heading = "Comparing", conflicts_with = "cluster")]
    versus: Option<String>,
    /// Rounds of a sweep or comparison, whose medians count
    #[arg(long, value_name = "n", help_heading = "Comparing", default_value_t = 1)]
    rounds: usize,

    #[command(flatten)]
    files: Files,
    /// Writes completions for a shell
    #[arg(long, value_name = "shell", help_heading = "Results", value_enum)]
    completions: Option<clap_complete::Shell>,
    /// Writes the man page
    #[arg(long, help_heading = "Results")]
    man: bool,

    /// A command to measure in place of the tests
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// How the command line ends.
#[derive(Debug, PartialEq, Eq)]
pub enum Stop {
    /// Printed on standard output, exit code 0.
    Told(String),
    /// Printed on standard error, exit code 1.
    Wrong(String),
}

/// The definition of the command line.
pub fn command() -> clap::Command {
    Args::command()
}

/// Reads the arguments behind the program's name.
///
/// # Errors
/// [`Stop`]
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Options, Stop> {
    let name = OsString::from("onrush-benchmark");
    let args = Args::try_parse_from(std::iter::once(name).chain(args)).map_err(|error| stop(&error))?;
    if let Some(shell) = args.completions {
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut Args::command(), "onrush-benchmark", &mut text);
        return Err(Stop::Told(String::from_utf8_lossy(&text).into_owned()));
    }
    if args.man {
        let mut text = Vec::new();
        clap_mangen::Man::new(Args::command()).render(&mut text).map_err(|error| Stop::Wrong(error.to_string()))?;
        return Err(Stop::Told(String::from_utf8_lossy(&text).into_owned()));
    }
    args.check().and_then(|()| args.into_options()).map_err(Stop::Wrong)
}

/// In redis-benchmark's words, where it has such a message.
fn stop(error: &clap::Error) -> Stop {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return Stop::Told(error.to_string());
    }
    let flag = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(text)) => text.split([' ', '=']).next().unwrap_or_default().to_owned(),
        _ => String::new(),
    };
    Stop::Wrong(format!("Invalid option \"{flag}\" or option argument missing\n\n{error}"))
}

impl Args {
    /// Checks for options that exclude each other.
    fn check(&self) -> Result<(), String> {
        let swept = self.sweep.as_ref().map(|sweep| sweep.values[0].1);
        let sweeps_rate = matches!(swept, Some(SweptValue::Rate(_)));
        let sweeps_window = matches!(swept, Some(SweptValue::Window(_)));
        let is_open = self.rate.is_some() || sweeps_rate;
        let has_window = self.window.is_some() || sweeps_window;
        let has_depth = self.pipeline.is_some() || matches!(swept, Some(SweptValue::Depth(_)));
        let wrong = [
            (has_window && is_open, "--window and --rate exclude each other: the rate decides when a command is sent"),
            (
                has_depth && has_window,
                "-P or --sweep depth and --window exclude each other: a window takes the place of batches (--sweep window=... varies it)",
            ),
            (
                has_depth && is_open,
                "-P or --sweep depth and --rate exclude each other: each command is sent when it is due (--sweep rate=... varies the rate)",
            ),
            (self.window.is_some() && sweeps_window, "--window and --sweep window exclude each other"),
            (self.rate.is_some() && sweeps_rate, "--rate and --sweep rate exclude each other"),
            (
                self.keep_alive == 0 && (is_open || has_window),
                "-k 0 goes with batches (-P) only, not with --rate or --window",
            ),
            (
                self.data_range.is_some() && matches!(swept, Some(SweptValue::Size(_))),
                "--data-range and --sweep size exclude each other",
            ),
        ];
        wrong.iter().find(|(is_wrong, _)| *is_wrong).map_or(Ok(()), |(_, text)| Err((*text).to_owned()))
    }

    fn into_options(mut self) -> Result<Options, String> {
        let mut command: Vec<Vec<u8>> = std::mem::take(&mut self.command).into_iter().map(OsString::into_vec).collect();
        if self.stdin_last {
            use std::io::Read;
            let mut last = Vec::new();
            std::io::stdin().read_to_end(&mut last).map_err(|error| format!("standard input: {error}"))?;
            command.push(last);
        }
        let (target, versus, db) = self.targets()?;
        if self.keys.is_some() && self.keyspace.is_none() && self.data_import.is_none() {
            return Err("--key-pattern needs -r or --data-import".into());
        }
        let items = self.data_import.as_deref().map(Items::read).transpose().map_err(|error| error.to_string())?;
        let data_len = self.data_len.clamp(1, DATA_LEN_MAX);
        Ok(Options {
            target,
            versus,
            db,
            clients: self.clients.max(1),
            requests: self.requests,
            data_len: self.data_range.unwrap_or((data_len, data_len)),
            is_data_random: self.random_data,
            ttl: self.ttl,
            resp3: self.resp3,
            threads: self.threads.map(|threads| threads.clamp(1, THREADS_MAX)),
            tracking: self.tracking,
            keep_alive: self.keep_alive != 0,
            keyspace: self.keyspace,
            keys: std::mem::take(&mut self.keys).unwrap_or_default(),
            items: items.map(Arc::new),
            verify: self.data_verify,
            pipeline: self.pipeline.unwrap_or(1).max(1),
            quiet: self.quiet,
            precision: self.precision.min(PRECISION_MAX),
            csv: self.csv,
            endless: self.endless,
            tests: self.tests.map(|tests| tests.to_ascii_lowercase().split(',').map(str::to_owned).collect()),
            mix: self.mix.unwrap_or_default(),
            idle: self.idle,
            seed: self.seed,
            rate: self.rate,
            arrivals: self.arrivals,
            window: self.window.map(|window| window.max(1)),
            warmup: self.warmup.unwrap_or_default(),
            duration: self.duration,
            reconnect: self.reconnect,
            rtt: self.rtt.unwrap_or_default(),
            sweep: self.sweep,
            cluster: self.cluster,
            nodes: Vec::new(),
            rounds: self.rounds.clamp(1, ROUNDS_MAX),
            files: self.files,
            command,
        })
    }

    /// The server, the second one, and the database.
    fn targets(&self) -> Result<(Target, Option<Target>, u32), String> {
        let mut target = Target::default();
        let mut db = 0;
        let (mut wants_tls, mut tls_options) = (self.tls, self.tls_options.clone());
        if let Some(uri) = &self.uri {
            let info = onrush::ConnectionInfo::from_url_of_tools(uri);
            let info = info.map_err(|error| format!("{}: {error}", shown::url(uri)))?;
            if !info.unknown_options().is_empty() {
                out::complain(&format!("Ignored options of the URL: {}", info.unknown_options().join(", ")));
            }
            match info.addr {
                onrush::ConnectionAddr::Tcp(host, port) => (target.host, target.port) = (host, port),
                onrush::ConnectionAddr::Unix(path) => target.socket = Some(path),
                onrush::ConnectionAddr::TcpTls { host, port, insecure: trusts_any } => {
                    (target.host, target.port) = (host, port);
                    wants_tls = true;
                    tls_options.insecure |= trusts_any;
                }
                _ => return Err(format!("{} names a kind of address not known here", shown::url(uri))),
            }
            db = u32::try_from(info.db).unwrap_or(0);
            (target.user, target.password) = (info.username, info.password);
        }
        target.host = self.host.clone().unwrap_or(target.host);
        target.port = self.port.unwrap_or(target.port);
        target.socket = self.socket.clone().or(target.socket);
        target.user = self.user.clone().or(target.user);
        target.password = self.password.clone().or(target.password);
        let mut versus = self.versus.as_deref().map(|place| second(place, &target)).transpose()?;
        if wants_tls {
            for target in std::iter::once(&mut target).chain(&mut versus) {
                target.tls = Some(Tls::new(&tls_options, &target.host)?);
            }
        }
        Ok((target, versus, self.db.unwrap_or(db)))
    }
}

/// A second server, with the login of the first.
fn second(place: &str, first: &Target) -> Result<Target, String> {
    let (host, port) = place.rsplit_once(':').ok_or("--versus takes host:port")?;
    let port = port.parse().map_err(|_| format!("--versus: {port} is no port"))?;
    Ok(Target { host: host.into(), port, socket: None, ..first.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Options, Stop> {
        parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn flags_are_redis_benchmarks() {
        let options =
            parsed("-h host -p 7000 -c 10 -n 5 -d 9 -P 16 -q -t set,GET -r 100 --threads 2 set k -x __rand_int__")
                .unwrap();
        assert_eq!((options.target.to_string().as_str(), options.clients, options.requests), ("host:7000", 10, 5));
        assert_eq!((options.pipeline, options.keyspace, options.threads), (16, Some(100), Some(2)));
        assert_eq!(options.tests, Some(vec!["set".to_owned(), "get".to_owned()]));
        // Everything after the command belongs to it.
        assert_eq!(options.command, ["set", "k", "-x", "__rand_int__"].map(|word| word.as_bytes().to_vec()));
        let options = parsed("-a -secret -3 -e -c 1 -c 2 --csv -P 0 -d 0 --threads 9999 --precision 9").unwrap();
        assert_eq!((options.target.password.as_deref(), options.clients, options.resp3), (Some("-secret"), 2, true));
        assert_eq!((options.pipeline, options.data_len, options.threads, options.precision), (1, (1, 1), Some(500), 6));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (line, flag) in [("--nosuch", "--nosuch"), ("-n", "-n"), ("-n x", "-n"), ("--rtt 5x", "--rtt")] {
            let Err(Stop::Wrong(text)) = parsed(line) else { panic!("{line}") };
            assert!(text.starts_with(&format!("Invalid option \"{flag}\" or option argument missing\n")), "{text}");
        }
        for line in [
            "--rate 0",
            "--sweep depth=0",
            "--sweep x=1",
            "--cluster --versus h:1",
            "--key-pattern zipf",
            "--key-pattern zip -r 10",
            "--key-pattern set=zip -r 10",
            "--data-verify -t get",
            "--data-import /nonexistent/items.csv -t get",
            "--data-import /nonexistent/items.csv -t get -r 10",
            "--data-range 9-3",
            "--ttl 0s",
            "--mix set",
            "--mix set=0",
            "--mix set=1 -t get",
            "--latency-plot x.svg",
            "--arrivals poisson",
        ] {
            assert!(matches!(parsed(line), Err(Stop::Wrong(_))), "{line}");
        }
        assert!(matches!(parsed("--help"), Err(Stop::Told(_))));
        assert_eq!(parsed("-v").unwrap_err(), Stop::Told(format!("onrush-benchmark {}\n", env!("CARGO_PKG_VERSION"))));
    }

    #[test]
    fn what_would_mean_nothing_together_is_refused() {
        for line in [
            "--window 5 --rate 10",
            "--sweep depth=1,2 --window 5",
            "--sweep depth=1,2 --rate 5",
            "--sweep window=1,2 --rate 5",
            "--sweep rate=1,2 --rate 5",
            "--sweep rate=1,2 -P 3",
            "-P 10 --window 5",
            "-P 10 --rate 5",
            "-k 0 --rate 5",
            "-k 0 --window 5",
            "--sweep size=1,2 --data-range 1-2",
        ] {
            let Err(Stop::Wrong(text)) = parsed(line) else { panic!("{line}") };
            assert!(text.contains("exclude each other") || text.contains("goes with"), "{line}: {text}");
        }
        assert!(parsed("--sweep rate=100,200").is_ok());
    }

    #[test]
    #[cfg(feature = "tls")]
    fn ciphers_are_chosen_for_each_version_of_tls() {
        let suites = |line: &str| parsed(line).map(|options| options.target.tls.unwrap().suites());
        let both = "--tls --insecure --tls-ciphers ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES128-GCM-SHA256 \
                    --tls-ciphersuites TLS_AES_128_GCM_SHA256";
        let names = suites(both).unwrap();
        assert_eq!(names.len(), 3, "{names:?}");
        assert_eq!(
            (names[0].as_str(), names[2].as_str()),
            ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS13_AES_128_GCM_SHA256")
        );
        let one = suites("--tls --insecure --tls-ciphersuites TLS_AES_128_GCM_SHA256").unwrap();
        assert_eq!(one.iter().filter(|name| name.starts_with("TLS13")).count(), 1);
        assert!(one.len() > 3, "{one:?}");
        let Err(Stop::Wrong(text)) = suites("--tls --insecure --tls-ciphers HIGH") else { panic!() };
        assert!(text.contains("'HIGH'") && text.contains("ECDHE-RSA-AES128-GCM-SHA256"), "{text}");
    }

    #[test]
    fn a_uri_names_the_server() {
        let options = parsed("-u redis://me:secret@there:7001/4").unwrap();
        assert_eq!((options.target.to_string().as_str(), options.db), ("there:7001", 4));
        assert_eq!(options.target.password.as_deref(), Some("secret"));
    }

    #[test]
    fn completions_and_the_man_page_know_every_flag() {
        for (line, flag) in [
            ("--completions bash", "--key-pattern"),
            ("--completions zsh", "--key-pattern"),
            ("--completions fish", "-l key-pattern"),
            ("--man", "key\\-pattern"),
        ] {
            let Err(Stop::Told(text)) = parsed(line) else { panic!("{line}") };
            assert!(text.contains(flag), "{line}");
        }
        Args::command().debug_assert();
    }

    #[test]
    fn the_help_says_what_differs_from_other_tools() {
        let Err(Stop::Told(text)) = parsed("--help") else { panic!() };
        for tool in ["redis-benchmark", "memtier_benchmark", "wrk2"] {
            assert!(text.contains(&format!("What differs from {tool}:")), "{tool}");
        }
    }
}
