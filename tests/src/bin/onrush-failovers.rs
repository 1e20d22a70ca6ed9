//! Fail-overs by Redis's Sentinel, or of a Redis Cluster, under load; see `onrush_tests::failovers`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use clap::{Parser, ValueEnum};
use onrush_tests::failovers::group::Kind;
use onrush_tests::failovers::node::Login;
use onrush_tests::failovers::{self, Fault, Options, cluster};
use onrush_tests::filter::check_names;
use onrush_tests::server::{Oracle, onrush_bin};

/// What the servers are.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Servers {
    Onrush,
    /// redis-server 8.2
    Redis,
    /// redis-server 7.0
    Redis70,
    Valkey,
    /// Onrush and redis-server 7.0, which has no data of 8.2
    Mixed,
    /// Onrush and redis-server 8.2
    MixedNewer,
    /// Onrush and Valkey
    MixedValkey,
}

/// Whose Sentinels.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Sentinels {
    /// redis-server 8.2
    Redis,
    /// redis-server 7.0
    Redis70,
    Valkey,
}

/// How servers are logged in to.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Logins {
    None,
    /// The password of the default user
    Password,
    /// A user; the default user is off
    User,
}

/// Three Sentinels of Redis, three servers and clients that write: faults of the primary drawn by a seed. When all are back,
/// every acknowledged write has to be there. Or a cluster: three primaries, three replicas, and slots that move all the while
#[derive(Debug, Parser)]
struct Args {
    /// How many fail-overs
    #[arg(long, value_name = "N", default_value_t = 10)]
    rounds: u32,
    /// All random choices follow from it; else the time of day
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// How many replicas must have a write before its reply (2, in a cluster 1); 0: none, and lost writes are only counted
    #[arg(long, value_name = "N")]
    replicas: Option<u32>,
    /// A Redis Cluster instead of Sentinels. Where a node is a redis-server, its clients send WAIT
    #[arg(long, conflicts_with_all = ["login", "sentinels", "tls"])]
    cluster: bool,
    /// Milliseconds of silence after which a node of the cluster may have failed
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    node_timeout: u32,
    /// What the servers are
    #[arg(long, value_enum, default_value = "onrush")]
    servers: Servers,
    /// How clients, replicas and Sentinels log in
    #[arg(long, value_enum, default_value = "none")]
    login: Logins,
    /// Whose Sentinels there are
    #[arg(long, value_enum, default_value = "redis70")]
    sentinels: Sentinels,
    /// Replicas and Sentinels use TLS
    #[arg(long)]
    tls: bool,
    /// Each server is on a host of its own (a network namespace, which only root can make), and may be cut off
    #[arg(long)]
    network: bool,
    /// Only these faults: kill, stop, planned, restart, replica-kill, cut; in a cluster kill, stop, cut, part
    #[arg(long, value_name = "NAME,NAME", value_delimiter = ',')]
    faults: Vec<String>,
    /// Directives for every Onrush: "appendfsync always"
    #[arg(long, value_name = "LINE")]
    directive: Vec<String>,
    /// Writes the table to this file, too
    #[arg(long, value_name = "PATH")]
    record: Option<PathBuf>,
    /// No lines of progress
    #[arg(long)]
    quiet: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let result = if args.cluster { run_cluster(&args) } else { run_sentinels(args) };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn run_sentinels(args: Args) -> Result<(), String> {
    let (record, needs_all) = (args.record.clone(), args.replicas.unwrap_or(2) > 1);
    let options = options(args)?;
    println!("{} fail-overs, seed {}", options.rounds, options.seed);
    let report = failovers::run(&options)?;
    tell(&report, record.as_deref())?;
    if report.lost() == 0 || !needs_all {
        Ok(())
    } else {
        Err(format!("{} acknowledged writes are lost", report.lost()))
    }
}

fn run_cluster(args: &Args) -> Result<(), String> {
    let options = cluster_options(args)?;
    println!("{} fail-overs of a cluster, seed {}", options.rounds, options.seed);
    let report = cluster::run(&options)?;
    tell(&report, args.record.as_deref())?;
    match report.faults() {
        faults if faults > 0 && options.replicas > 0 => {
            Err(format!("{faults} acknowledged writes are lost or changed places"))
        }
        _ => Ok(()),
    }
}

fn tell(report: &impl std::fmt::Display, record: Option<&Path>) -> Result<(), String> {
    println!("\n{report}");
    match record {
        Some(path) => std::fs::write(path, report.to_string()).map_err(|error| format!("{}: {error}", path.display())),
        None => Ok(()),
    }
}

fn by_clock() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(1, |since| since.as_secs())
}

fn cluster_options(args: &Args) -> Result<cluster::Options, String> {
    use cluster::Fault;

    check_names(&args.faults, Fault::ALL.map(Fault::name)).map_err(|why| format!("--faults: {why}"))?;
    let is_chosen = |fault: &Fault| args.faults.is_empty() || args.faults.iter().any(|name| name == fault.name());
    let is_possible = |fault: &Fault| args.network || !fault.needs_network();
    let faults: Vec<Fault> = Fault::ALL.into_iter().filter(|fault| is_chosen(fault) && is_possible(fault)).collect();
    if faults.is_empty() {
        return Err("--faults: a cut needs --network".to_owned());
    }
    let of = |oracle| Kind::Other(oracle);
    // A shard with one of theirs as the replica, one with theirs as the primary, and one that is ours alone.
    let mixed = |other| [Kind::Onrush, other, Kind::Onrush, other, Kind::Onrush, Kind::Onrush];
    let kinds = match args.servers {
        Servers::Onrush => [Kind::Onrush; 6],
        Servers::Redis => [of(Oracle::Newer); 6],
        Servers::Redis70 => [of(Oracle::Older); 6],
        Servers::Valkey => [of(Oracle::Valkey); 6],
        Servers::Mixed => mixed(of(Oracle::Older)),
        Servers::MixedNewer => mixed(of(Oracle::Newer)),
        Servers::MixedValkey => mixed(of(Oracle::Valkey)),
    };
    Ok(cluster::Options {
        rounds: args.rounds,
        seed: args.seed.unwrap_or_else(by_clock),
        replicas: args.replicas.unwrap_or(1),
        kinds,
        node_timeout_ms: args.node_timeout,
        network: args.network,
        faults,
        directives: args.directive.clone(),
        progress: !args.quiet,
        onrush_bin: onrush_bin(),
    })
}

fn options(args: Args) -> Result<Options, String> {
    check_names(&args.faults, Fault::ALL.map(Fault::name)).map_err(|why| format!("--faults: {why}"))?;
    let is_chosen = |fault: &Fault| args.faults.is_empty() || args.faults.iter().any(|name| name == fault.name());
    let is_chosen = |fault: &Fault| is_chosen(fault) && (args.network || *fault != Fault::Cut);
    let faults: Vec<Fault> = Fault::ALL.into_iter().filter(is_chosen).collect();
    if faults.is_empty() {
        return Err("--faults: a cut needs --network".to_owned());
    }
    let (newer, older) = (Kind::Other(Oracle::Newer), Kind::Other(Oracle::Older));
    let valkey = Kind::Other(Oracle::Valkey);
    let servers = match args.servers {
        Servers::Onrush => [Kind::Onrush; 3],
        Servers::Redis => [newer; 3],
        Servers::Redis70 => [older; 3],
        Servers::Valkey => [valkey; 3],
        Servers::Mixed => [Kind::Onrush, older, Kind::Onrush],
        Servers::MixedNewer => [Kind::Onrush, newer, Kind::Onrush],
        Servers::MixedValkey => [Kind::Onrush, valkey, Kind::Onrush],
    };
    let replicas = args.replicas.unwrap_or(2);
    if replicas > 0 && servers.iter().any(|kind| *kind != Kind::Onrush) {
        return Err("--replicas: redis-server holds no replies for replicas; choose 0".to_owned());
    }
    let lacks_tls = matches!(args.sentinels, Sentinels::Redis) || servers.contains(&newer);
    if args.tls && lacks_tls {
        return Err("--tls: the redis-server 8.2 that there is has been built without TLS".to_owned());
    }
    Ok(Options {
        rounds: args.rounds,
        seed: args.seed.unwrap_or_else(by_clock),
        replicas,
        servers,
        sentinels: match args.sentinels {
            Sentinels::Redis => Oracle::Newer,
            Sentinels::Redis70 => Oracle::Older,
            Sentinels::Valkey => Oracle::Valkey,
        },
        encrypted: args.tls,
        network: args.network,
        login: match args.login {
            Logins::None => Login::None,
            Logins::Password => Login::Password,
            Logins::User => Login::User,
        },
        faults,
        directives: args.directive,
        progress: !args.quiet,
        onrush_bin: onrush_bin(),
    })
}
