//! The command line: redis-benchmark's flags, and this tool's own.

use std::path::PathBuf;
use std::time::Duration;

use crate::cluster::Node;
use crate::sweep::{Sweep, Swept};
use crate::tls::{Tls, TlsOptions};

/// What is to be done.
#[derive(Clone, Debug)]
pub struct Options {
    pub target: Target,
    pub clients: usize,
    pub requests: u64,
    pub data_len: usize,
    pub db: u32,
    pub resp3: bool,
    pub threads: Option<usize>,
    pub tracking: bool,
    pub keep_alive: bool,
    pub keyspace: Option<u64>,
    pub pipeline: usize,
    pub quiet: bool,
    pub precision: usize,
    pub csv: bool,
    pub endless: bool,
    pub tests: Option<Vec<String>>,
    pub idle: bool,
    pub stdin_last: bool,
    pub seed: u64,
    /// Commands a second, over all connections; latencies count from when each was due.
    pub rate: Option<f64>,
    /// Commands in flight on each connection, refilled as replies come; instead of batches.
    pub window: Option<usize>,
    pub warmup: Duration,
    pub duration: Option<Duration>,
    pub rtt: Duration,
    pub sweep: Option<Sweep>,
    pub versus: Option<Target>,
    pub tls: TlsOptions,
    /// The target is a node of a cluster, whose masters share the load.
    pub cluster: bool,
    /// Those masters, once they are known.
    pub nodes: Vec<Node>,
    pub rounds: usize,
    pub json: Option<PathBuf>,
    pub csv_file: Option<PathBuf>,
    pub plot: Option<PathBuf>,
    pub report: Option<PathBuf>,
    pub hdr: Option<PathBuf>,
    /// A command instead of the tests.
    pub command: Vec<Vec<u8>>,
}

/// A server and who we are there.
#[derive(Clone, Debug)]
pub struct Target {
    pub host: String,
    pub port: u16,
    pub socket: Option<PathBuf>,
    pub user: Option<String>,
    pub password: Option<String>,
    /// How to encrypt, if so.
    pub tls: Option<Tls>,
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.socket {
            Some(path) => write!(f, "{}", path.display()),
            None => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl Default for Options {
    fn default() -> Options {
        let target =
            Target { host: "127.0.0.1".into(), port: 6379, socket: None, user: None, password: None, tls: None };
        Options {
            target,
            clients: 50,
            requests: 100_000,
            data_len: 3,
            db: 0,
            resp3: false,
            threads: None,
            tracking: false,
            keep_alive: true,
            keyspace: None,
            pipeline: 1,
            quiet: false,
            precision: 3,
            csv: false,
            endless: false,
            tests: None,
            idle: false,
            stdin_last: false,
            seed: 0,
            rate: None,
            window: None,
            warmup: Duration::ZERO,
            duration: None,
            rtt: Duration::ZERO,
            sweep: None,
            versus: None,
            tls: TlsOptions::default(),
            cluster: false,
            nodes: Vec::new(),
            rounds: 1,
            json: None,
            csv_file: None,
            plot: None,
            report: None,
            hdr: None,
            command: Vec::new(),
        }
    }
}

/// How the command line ends.
#[derive(Debug, PartialEq, Eq)]
pub enum Stop {
    /// Printed on standard output, exit code 0.
    Told(String),
    /// Printed on standard error, exit code 1.
    Wrong(String),
}

/// The list of options.
pub const USAGE: &str = "\
Usage: onrush-benchmark [OPTIONS] [COMMAND ARGS...]

As redis-benchmark:
 -h <hostname>      Host of the server (127.0.0.1)
 -p <port>          Its port (6379)
 -s <socket>        Its Unix socket, in place of host and port
 -a <password>      Password to log in with
 --user <username>  User to log in as, with -a
 -u <uri>           All of these as redis://user:password@host:port/db
 -c <clients>       Connections (50)
 -n <requests>      Commands of each test (100000)
 -d <size>          Bytes of SET's and GET's values (3)
 --dbnum <db>       Database (0)
 -3                 RESP3
 --threads <num>    Threads (1)
 --cluster          The server is a node of a cluster: shares the load among its
                    masters; {tag} in a key becomes a tag of the node
 --enable-tracking  CLIENT TRACKING ON first
 -k <boolean>       1 keeps connections, 0 makes a new one for each command (1)
 -r <keyspacelen>   Random keys, members and scores: __rand_int__ in an argument
                    becomes a number of 12 digits below keyspacelen
 -P <numreq>        Commands sent in one batch (1)
 -q                 One line for each test
 --precision <n>    Decimals of latencies (3)
 --csv              CSV on standard output
 -l                 The tests again and again
 -t <tests>         Only these tests, separated by commas
 -I                 Only opens the connections and holds them
 -x                 Takes the last argument from standard input
 --seed <num>       Seed of the random numbers
 -e                 Accepted; errors are always shown, and end the run
 --tls              Encrypts; with --sni <name>, --cacert <file>,
                    --cacertdir <folder>, --cert <file>, --key <file>,
                    --insecure
 --help --version

Beyond it:
 --rate <n>         Open loop: so many commands a second over all connections;
                    latency counts from when each was due, sent or not
 --window <n>       So many commands in flight on each connection, refilled as
                    replies come, in place of batches
 --warmup <time>    Measures only after that time (as 500ms, 2s)
 --duration <time>  Measures for that time, in place of -n
 --rtt <time>       Emulates a round trip of that time by a proxy in this tool
 --sweep <what>     Repeats a test over values: depth=1,2,4,8 or clients=…,
                    size=…, rtt=…, window=…
 --versus <h:p>     Measures a second server in turns with the first
 --rounds <n>       Rounds of a sweep or comparison, whose medians count (1)
 --json <file> --csv-file <file> --plot <file.svg or .png>
 --report <file.html>
                    Results as data, plot, and one page with all of it
 --hdr <file>       Latencies of the last test in HdrHistogram's text format
";

impl Options {
    /// Reads the arguments behind the program's name.
    ///
    /// # Errors
    /// [`Stop`]
    pub fn parse(args: impl IntoIterator<Item = String>) -> Result<Options, Stop> {
        let mut options = Options::default();
        let mut args = args.into_iter();
        while let Some(flag) = args.next() {
            if !flag.starts_with('-') {
                options.command = std::iter::once(flag).chain(args).map(String::into_bytes).collect();
                break;
            }
            options.flag(&flag, &mut args)?;
        }
        if options.stdin_last {
            use std::io::Read;
            let mut last = Vec::new();
            std::io::stdin()
                .read_to_end(&mut last)
                .map_err(|error| Stop::Wrong(format!("standard input: {error}\n")))?;
            options.command.push(last);
        }
        if options.window.is_some() && options.rate.is_some() {
            return Err(Stop::Wrong("--window and --rate exclude each other\n".into()));
        }
        if options.cluster && options.versus.is_some() {
            return Err(Stop::Wrong("--cluster and --versus exclude each other\n".into()));
        }
        if options.tls.wanted {
            for target in std::iter::once(&mut options.target).chain(&mut options.versus) {
                let tls = Tls::new(&options.tls, &target.host);
                target.tls = Some(tls.map_err(|error| Stop::Wrong(format!("{error}\n")))?);
            }
        }
        Ok(options)
    }

    fn flag(&mut self, flag: &str, args: &mut impl Iterator<Item = String>) -> Result<(), Stop> {
        let wrong = || Stop::Wrong(format!("Invalid option \"{flag}\" or option argument missing\n\n{USAGE}"));
        let mut value = || args.next().ok_or_else(wrong);
        let number = |text: String| text.parse::<u64>().map_err(|_| wrong());
        match flag {
            "-h" => self.target.host = value()?,
            "-p" => self.target.port = value()?.parse().map_err(|_| wrong())?,
            "-s" => self.target.socket = Some(value()?.into()),
            "-a" => self.target.password = Some(value()?),
            "--user" => self.target.user = Some(value()?),
            "-u" => self.uri(&value()?)?,
            "-c" => self.clients = number(value()?)?.max(1) as usize,
            "-n" => self.requests = number(value()?)?,
            "-d" => self.data_len = number(value()?)?.clamp(1, 1 << 30) as usize,
            "--dbnum" => self.db = value()?.parse().map_err(|_| wrong())?,
            "-3" => self.resp3 = true,
            "--threads" => self.threads = Some(number(value()?)?.clamp(1, 500) as usize),
            "--enable-tracking" => self.tracking = true,
            "-k" => self.keep_alive = number(value()?)? != 0,
            "-r" => self.keyspace = Some(number(value()?)?),
            "-P" => self.pipeline = number(value()?)?.max(1) as usize,
            "-q" => self.quiet = true,
            "--precision" => self.precision = number(value()?)?.min(6) as usize,
            "--csv" => self.csv = true,
            "-l" => self.endless = true,
            "-t" => self.tests = Some(value()?.to_ascii_lowercase().split(',').map(str::to_owned).collect()),
            "-I" => self.idle = true,
            "-x" => self.stdin_last = true,
            "--seed" => self.seed = number(value()?)?,
            "-e" => {}
            "--rate" => self.rate = Some(value()?.parse().ok().filter(|rate| *rate > 0.0).ok_or_else(wrong)?),
            "--window" => self.window = Some(number(value()?)?.max(1) as usize),
            "--warmup" => self.warmup = time(&value()?).ok_or_else(wrong)?,
            "--duration" => self.duration = Some(time(&value()?).ok_or_else(wrong)?),
            "--rtt" => self.rtt = time(&value()?).ok_or_else(wrong)?,
            "--sweep" => self.sweep = Some(sweep(&value()?).ok_or_else(wrong)?),
            "--versus" => self.versus = Some(self.other(&value()?).ok_or_else(wrong)?),
            "--rounds" => self.rounds = number(value()?)?.clamp(1, 1_000) as usize,
            "--json" => self.json = Some(value()?.into()),
            "--csv-file" => self.csv_file = Some(value()?.into()),
            "--plot" => self.plot = Some(value()?.into()),
            "--report" => self.report = Some(value()?.into()),
            "--hdr" => self.hdr = Some(value()?.into()),
            "--help" => return Err(Stop::Told(USAGE.into())),
            "-v" | "--version" => {
                return Err(Stop::Told(format!("onrush-benchmark {}\n", env!("CARGO_PKG_VERSION"))));
            }
            "--cluster" => self.cluster = true,
            "--tls" => self.tls.wanted = true,
            "--insecure" => self.tls.insecure = true,
            "--sni" => self.tls.sni = Some(value()?),
            "--cacert" => self.tls.ca_file = Some(value()?.into()),
            "--cacertdir" => self.tls.ca_folder = Some(value()?.into()),
            "--cert" => self.tls.cert_file = Some(value()?.into()),
            "--key" => self.tls.key_file = Some(value()?.into()),
            "--tls-ciphers" | "--tls-ciphersuites" => {
                return Err(Stop::Wrong(format!("{flag} is not offered: the ciphers are rustls's own choice\n")));
            }
            _ => return Err(wrong()),
        }
        Ok(())
    }

    fn uri(&mut self, uri: &str) -> Result<(), Stop> {
        let info: onrush::ConnectionInfo = uri.parse().map_err(|error| Stop::Wrong(format!("{uri}: {error}\n")))?;
        match info.addr {
            onrush::ConnectionAddr::Tcp(host, port) => (self.target.host, self.target.port) = (host, port),
            onrush::ConnectionAddr::Unix(path) => self.target.socket = Some(path),
            onrush::ConnectionAddr::TcpTls { host, port, insecure } => {
                (self.target.host, self.target.port) = (host, port);
                self.tls.wanted = true;
                self.tls.insecure |= insecure;
            }
            _ => return Err(Stop::Wrong(format!("{uri} names a kind of address not known here\n"))),
        }
        self.db = u32::try_from(info.db).unwrap_or(0);
        self.target.user = info.username.or(self.target.user.take());
        self.target.password = info.password.or(self.target.password.take());
        Ok(())
    }

    /// A second server; who we are there is the same.
    fn other(&self, place: &str) -> Option<Target> {
        let (host, port) = place.rsplit_once(':')?;
        let target = Target { host: host.into(), port: port.parse().ok()?, socket: None, ..self.target.clone() };
        Some(target)
    }

    /// Where the load goes: the server, or a cluster's masters.
    pub fn targets(&self) -> impl Iterator<Item = &Target> {
        let single = (!self.cluster).then_some(&self.target);
        single.into_iter().chain(self.nodes.iter().map(|node| &node.target))
    }

    /// Commands of one batch, or in flight.
    pub fn depth(&self) -> usize {
        self.window.unwrap_or(self.pipeline)
    }

    /// The same with one value of a sweep.
    pub fn at(&self, swept: Swept, value: &str) -> Option<Options> {
        let mut options = self.clone();
        match swept {
            Swept::Depth => options.pipeline = value.parse().ok().filter(|&depth| depth > 0)?,
            Swept::Window => options.window = Some(value.parse().ok().filter(|&window| window > 0)?),
            Swept::Clients => options.clients = value.parse().ok().filter(|&clients| clients > 0)?,
            Swept::Size => options.data_len = value.parse().ok().filter(|&len| len > 0)?,
            Swept::Rtt => options.rtt = time(value)?,
        }
        Some(options)
    }
}

/// A length of time: a number with `us`, `ms`, `s` or `m` behind it; seconds without.
pub fn time(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "us" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(digits.parse::<f64>().ok()? * unit).ok()
}

fn sweep(text: &str) -> Option<Sweep> {
    let (what, values) = text.split_once('=')?;
    let swept = match what {
        "depth" | "batch" => Swept::Depth,
        "window" => Swept::Window,
        "clients" => Swept::Clients,
        "size" => Swept::Size,
        "rtt" => Swept::Rtt,
        _ => return None,
    };
    let values: Vec<String> = values.split(',').map(str::to_owned).collect();
    let good = values.iter().all(|value| Options::default().at(swept, value).is_some());
    good.then_some(Sweep { swept, values })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, Stop> {
        Options::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn flags_are_redis_benchmarks() {
        let options =
            parse("-h host -p 7000 -c 10 -n 5 -d 9 -P 16 -q -t set,GET -r 100 --threads 2 set k __rand_int__").unwrap();
        assert_eq!((options.target.to_string().as_str(), options.clients, options.requests), ("host:7000", 10, 5));
        assert_eq!((options.pipeline, options.keyspace, options.threads), (16, Some(100), Some(2)));
        assert_eq!(options.tests, Some(vec!["set".to_owned(), "get".to_owned()]));
        assert_eq!(options.command.len(), 3);
    }

    #[test]
    fn what_is_wrong_is_said() {
        for line in [
            "--nosuch",
            "-n",
            "-n x",
            "--rate 0",
            "--sweep depth=0",
            "--sweep x=1",
            "--cluster --versus h:1",
            "--tls-ciphers x",
            "--rtt 5x",
        ] {
            assert!(matches!(parse(line), Err(Stop::Wrong(_))), "{line}");
        }
        assert!(matches!(parse("--help"), Err(Stop::Told(_))));
    }

    #[test]
    fn times_have_units() {
        assert_eq!(time("43ms"), Some(Duration::from_millis(43)));
        assert_eq!(time("1.5"), Some(Duration::from_millis(1500)));
        assert_eq!((time("5x"), time("-1s"), time("")), (None, None, None));
    }

    #[test]
    fn a_uri_names_the_server() {
        let options = parse("-u redis://me:secret@there:7001/4").unwrap();
        assert_eq!((options.target.to_string().as_str(), options.db), ("there:7001", 4));
        assert_eq!(options.target.password.as_deref(), Some("secret"));
    }
}
