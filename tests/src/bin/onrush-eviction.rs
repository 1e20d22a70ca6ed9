//! Measures how well servers choose what to evict: they serve as caches (GET, and SET after a miss) under every policy;
//! their hit rates are compared with each other and with those of exact policies.
//!
//! Each server gets as much memory as it needs for the same number of keys. The hits of an exact policy are simulated
//! with the number of keys that the server held, request by request, in the same batches.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use onrush_tests::argv;
use onrush_tests::argv::Argv;
use onrush_tests::client::Conn;
use onrush_tests::filter;
use onrush_tests::policies::POLICIES;
use onrush_tests::resp::Value;
use onrush_tests::rng::Rng;
use onrush_tests::server::{Oracle, Server};

const VALUE_BYTES: usize = 400;

/// Requests sent before replies are read.
const BATCH_LEN: usize = 64;

/// The part of the requests that only fills the cache.
const WARM_UP_PART: usize = 4;

/// What is asked for.
#[derive(Clone, Copy)]
struct Workload {
    name: &'static str,
    trace: fn(&mut Rng, usize, usize) -> Vec<u32>,
}

const WORKLOADS: &[Workload] = &[
    Workload { name: "Zipf 0.99", trace: |rng, keys, len| zipf(rng, keys * 5, 0.99, len) },
    Workload { name: "Zipf 1.2", trace: |rng, keys, len| zipf(rng, keys * 5, 1.2, len) },
    Workload { name: "Zipf 0.99 and a scan", trace: with_scan },
    Workload { name: "moving working set", trace: moving },
];

/// A number between 0 and 1.
fn unit(rng: &mut Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

fn zipf(rng: &mut Rng, keys: usize, exponent: f64, len: usize) -> Vec<u32> {
    let mut sum = 0.0;
    let sums: Vec<f64> = (1..=keys)
        .map(|rank| {
            sum += (rank as f64).powf(-exponent);
            sum
        })
        .collect();
    (0..len)
        .map(|_| {
            let at = unit(rng) * sum;
            sums.partition_point(|sum| *sum < at) as u32
        })
        .collect()
}

/// Every fourth request is for the next of many keys that come round but rarely.
fn with_scan(rng: &mut Rng, keys: usize, len: usize) -> Vec<u32> {
    let mut trace = zipf(rng, keys * 5, 0.99, len);
    for (number, key) in trace.iter_mut().step_by(4).enumerate() {
        *key = (keys * 5 + number % (keys * 3)) as u32;
    }
    trace
}

/// Most requests are for a window a little smaller than the cache that moves on by one key every few requests.
fn moving(rng: &mut Rng, keys: usize, len: usize) -> Vec<u32> {
    let near = |rng: &mut Rng| rng.below(keys * 8 / 10);
    let far = |rng: &mut Rng| rng.below(keys * 20);
    (0..len).map(|at| (at / 8 + if rng.percent(90) { near(rng) } else { far(rng) }) as u32).collect()
}

/// The time to live of keys that have one, in milliseconds: all live equally long, so that the first set expire first.
const TTL_MS: &str = "100000000";

fn set(policy: &str, key: u32) -> Argv {
    let value = vec![b'v'; VALUE_BYTES];
    if policy.starts_with("volatile") {
        argv!["SET", format!("key:{key:012}"), value, "PX", TTL_MS]
    } else {
        argv!["SET", format!("key:{key:012}"), value]
    }
}

/// What a run found.
struct Outcome {
    hit_percent: f64,
    /// Keys held, on average.
    held: usize,
    exact_percent: f64,
}

fn integer(conn: &mut Conn, argv: &Argv) -> i64 {
    match conn.call(argv) {
        Value::Int(number) => number,
        other => panic!("{argv}: {other}"),
    }
}

fn used_memory(conn: &mut Conn) -> u64 {
    let info = conn.call(&argv!["INFO", "memory"]).text();
    let line = info.lines().find_map(|line| line.strip_prefix("used_memory:")).expect("a field of INFO");
    line.trim().parse().expect("a number")
}

fn measure(server: &Server, policy: &str, trace: &[u32], keys: usize) -> Outcome {
    let mut conn = server.connect();
    for first in (0..keys as u32).step_by(BATCH_LEN) {
        let batch: Vec<Argv> =
            (first..(first + BATCH_LEN as u32).min(keys as u32)).map(|key| set(policy, key)).collect();
        conn.pipeline(&batch);
    }
    let limit = used_memory(&mut conn).to_string();
    conn.call(&argv!["FLUSHALL"]);
    let reply = conn.call(&argv!["CONFIG", "SET", "maxmemory-policy", policy, "maxmemory", limit]).text();
    assert_eq!(reply, "OK", "{policy}");
    let warm_up = trace.len() / WARM_UP_PART;
    let (mut hits, mut asked, mut held) = (0, 0, Vec::new());
    for (number, batch) in trace.chunks(BATCH_LEN).enumerate() {
        let gets: Vec<Argv> = batch.iter().map(|key| argv!["GET", format!("key:{key:012}")]).collect();
        let replies = conn.pipeline(&gets);
        let is_hit = |reply: &Vec<u8>| !reply.starts_with(b"$-1");
        let missed: HashSet<u32> =
            batch.iter().zip(&replies).filter(|(_, reply)| !is_hit(reply)).map(|(key, _)| *key).collect();
        let sets: Vec<Argv> = missed.iter().map(|key| set(policy, *key)).collect();
        assert!(conn.pipeline(&sets).iter().all(|reply| reply == b"+OK\r\n"), "SET under {policy}");
        if number * BATCH_LEN >= warm_up {
            hits += replies.iter().filter(|reply| is_hit(reply)).count();
            asked += batch.len();
            if number % 100 == 0 {
                held.push(integer(&mut conn, &argv!["DBSIZE"]) as usize);
            }
        }
    }
    let held = held.iter().sum::<usize>() / held.len().max(1);
    let percent = |hits: usize| hits as f64 * 100.0 / asked as f64;
    Outcome { hit_percent: percent(hits), held, exact_percent: percent(exact_hits(policy, trace, held)) }
}

/// Hits after the warm-up of a cache of so many keys that evicts exactly.
fn exact_hits(policy: &str, trace: &[u32], len_max: usize) -> usize {
    let order = policy.split_once('-').map_or("", |(_, order)| order);
    if order == "random" {
        return random_hits(trace, len_max);
    }
    // The rank of each key held, lowest first.
    let mut ranks: HashMap<u32, (u64, u64)> = HashMap::new();
    let mut queue: BTreeSet<((u64, u64), u32)> = BTreeSet::new();
    let (mut hits, mut tick) = (0, 0);
    for (number, batch) in trace.chunks(BATCH_LEN).enumerate() {
        let mut missed = HashSet::new();
        for key in batch {
            tick += 1;
            let Some(rank) = ranks.get_mut(key) else {
                missed.insert(*key);
                continue;
            };
            hits += usize::from(number * BATCH_LEN >= trace.len() / WARM_UP_PART);
            let new = match order {
                "lru" => (0, tick),
                "lfu" => (rank.0 + 1, tick),
                _ => continue,
            };
            queue.remove(&(*rank, *key));
            *rank = new;
            queue.insert((new, *key));
        }
        for key in missed {
            tick += 1;
            let rank = match order {
                "lfu" => (1, tick),
                _ => (0, tick),
            };
            ranks.insert(key, rank);
            queue.insert((rank, key));
            if ranks.len() > len_max
                && let Some((_, victim)) = queue.pop_first()
            {
                ranks.remove(&victim);
            }
        }
    }
    hits
}

fn random_hits(trace: &[u32], len_max: usize) -> usize {
    let mut rng = Rng::new(5);
    let (mut held, mut list, mut hits) = (HashSet::new(), Vec::new(), 0);
    for (number, batch) in trace.chunks(BATCH_LEN).enumerate() {
        let found = batch.iter().filter(|key| held.contains(*key)).count();
        hits += if number * BATCH_LEN >= trace.len() / WARM_UP_PART { found } else { 0 };
        for key in batch {
            if held.insert(*key) {
                list.push(*key);
                if list.len() > len_max {
                    let victim = list.swap_remove(rng.below(list.len()));
                    held.remove(&victim);
                }
            }
        }
    }
    hits
}

/// Compares how well servers choose what to evict, under every policy
#[derive(Debug, Parser)]
struct Args {
    /// Requests of each run
    #[arg(long, value_name = "N", default_value_t = 500_000)]
    requests: usize,
    /// Keys that the memory is made for
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    keys: usize,
    /// Only the rows whose names hold this
    #[arg(long, value_name = "PART-OF-A-ROW", default_value = "")]
    only: String,
    /// Writes the table
    #[arg(long, value_name = "FILE.md")]
    out: Option<PathBuf>,
}

fn main() -> ExitCode {
    match work(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::FAILURE
        }
    }
}

fn work(args: &Args) -> Result<(), String> {
    let Args { requests, keys, .. } = *args;
    let rows =
        WORKLOADS.iter().flat_map(|workload| POLICIES.iter().map(move |policy| format!("{} {policy}", workload.name)));
    let chosen = filter::by_part(rows, &args.only, String::clone).map_err(|reason| format!("--only {reason}"))?;
    let mut table = format!(
        "# Hit rates by policy\n\n`onrush-eviction --requests {requests} --keys {keys}`: memory for {keys} keys with values of \
         {VALUE_BYTES} bytes, GET and after a miss SET, in batches of {BATCH_LEN}. In percent of the requests; in parentheses \
         as a part of what the exact policy has with as many keys as the server held.\n\n\
         | workload | policy | Redis 7.0 | Redis 8.2 | Onrush | exact, with Onrush's keys | Onrush's keys |\n\
         |---|---|---|---|---|---|---|\n"
    );
    print!("{table}");
    for workload in WORKLOADS {
        let trace = (workload.trace)(&mut Rng::new(1), keys, requests);
        for policy in POLICIES {
            if !chosen.contains(&format!("{} {policy}", workload.name)) {
                continue;
            }
            let ours = measure(&Server::start_onrush(&[]), policy, &trace, keys);
            let oracles = Oracle::ALL.map(|oracle| {
                let server = (!policy.ends_with("lrm")).then(|| Server::start_oracle(oracle, &[]));
                server.map(|server| measure(&server, policy, &trace, keys))
            });
            let mut row = format!("| {} | {policy}", workload.name);
            for outcome in oracles.iter().map(Option::as_ref).chain([Some(&ours)]) {
                let text = outcome.map_or("-".to_owned(), |outcome| {
                    format!("{:.2} ({:.3})", outcome.hit_percent, outcome.hit_percent / outcome.exact_percent)
                });
                write!(row, " | {text}").expect("a string takes it");
            }
            writeln!(row, " | {:.2} | {} |", ours.exact_percent, ours.held).expect("a string takes it");
            print!("{row}");
            table += &row;
        }
    }
    if let Some(path) = &args.out {
        std::fs::write(path, table).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}
